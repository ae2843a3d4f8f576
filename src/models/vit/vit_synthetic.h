/* vit_synthetic.h: makes ViTs with random weights, as models or as encoders of other models. */
#ifndef FOVEA_SRC_MODELS_VIT_SYNTHETIC_H
#define FOVEA_SRC_MODELS_VIT_SYNTHETIC_H

#include "models/synthetic.h"
#include "models/vit/vit_reader.h"

typedef struct fv_vit_spec {
    const char *name;
    enum fv_vit_kind kind;
    uint32_t width, depth, heads, hidden, patch, image; /* image: height of the picture */
    uint32_t registers, embeds;
    bool gated;
    bool scaled; /* layer scales are near 1, and the layers before them have small weights */
    /* A field that is 0 or NULL gets the default in parentheses. */
    uint32_t image_width;      /* (the height of the picture) */
    const char *root;          /* prefix of the names of all tensors ("") */
    const fv_vit_names *names; /* names of the tensors (transformers' names) */
    float spread;              /* spread of tokens and positions (0.035) */
} fv_vit_spec;

/* Adds the tensors up to the last norm, and sets the defaults in *s. Names that are added next have
 * no prefix. */
void fv_vit_synthetic_encoder(fv_synthetic *m, fv_vit_spec *s);
/* Returns the fields of a configuration that all models with an encoder have, or NULL if memory
 * runs out. */
json_t *fv_vit_synthetic_config(const fv_vit_spec *s, const char *type);

#endif
