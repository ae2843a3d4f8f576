/* vit.h: the ViT families: who they are, and the parts of their fv_family. */
#ifndef FOVEA_SRC_MODELS_VIT_H
#define FOVEA_SRC_MODELS_VIT_H

#include "model.h"

#define FV_VIT_TYPES                                                                               \
    "vit, deit, dinov2, dinov2_with_registers, clip, clip_vision_model, siglip, "                  \
    "siglip_vision_model, vit_* and deit* of timm"

/* vit_read.c: roles from names and shapes. */
bool fv_vit_owns(const char *model_type);
fovea_status fv_vit_read(fovea_model *m, const struct fv_source *source,
                         const struct fv_config *config);
void fv_vit_release(fovea_model *m);

/* vit_synthetic.c: random checkpoints of the usual sizes. */
const char *fv_vit_synthetic(size_t index);
bool fv_vit_invents(const char *name);
fovea_status fv_vit_imitate(json_t **config, struct fv_source *source, const char *name);

/* vit.c: steps from roles. */
fovea_status fv_vit_emit(const fovea_model *m, struct fv_builder *b);

enum fv_vit_kind {
    FV_VIT_PLAIN,
    FV_VIT_DEIT,
    FV_VIT_DINOV2,
    FV_VIT_REGISTERS, /* DINOv2 with registers */
    FV_VIT_CLIP,
    FV_VIT_SIGLIP,
};

/* vit_names.c: one way to name the tensors of such a model. Names are stems, completed by "weight"
 * or "bias", or whole where they end in no separator. NULL: the scheme has no such part. All follow
 * the prefix, those of a block also its own; heads stand alone. */
typedef struct fv_vit_names {
    enum fv_vit_origin { FV_VIT_HF, FV_VIT_DINO, FV_VIT_TIMM, FV_VIT_OPENAI } origin;
    uint32_t kinds;       /* bits of enum fv_vit_kind that are named so */
    const char *marks[3]; /* one of these tells the scheme from later ones; none: nothing has to */
    const char *patch, *cls, *dist, *reg, *pos, *pre, *post;
    const char *block; /* with the number of the block */
    const char *ln1, *ln2, *q, *k, *v, *qkv, *proj, *ls1, *ls2, *fc1, *fc2, *gated1, *gated2;
    const char *pooler; /* tanh(linear) of the class row */
    const char *probe, *map_q, *map_kv, *map_qkv, *map_proj, *map_ln, *map_fc1, *map_fc2;
    const char *head, *head_cls, *head_dist; /* the last two: a pair to be averaged */
    const char *embeds, *embeds_transposed;
} fv_vit_names;

/* In the order in which they are tried; ends with a NULL patch. */
extern const fv_vit_names fv_vit_schemes[];
/* What may stand before all names, ends with NULL. */
extern const char *const fv_vit_prefixes[];

#endif
