/* decoder_synthetic.h: necks and heads on synthetic backbones. The endings "-fpn", "-upernet" and
 * "-retinanet" follow the backbone's name. */
#ifndef FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H
#define FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H

#include "base/num.h"
#include "models/synthetic.h"

/* Returns which of these endings a name has, or a negative number if it has none. Sets *base to the
 * length of the backbone's name. */
int fv_decoder_suffix(size_t *base, const char *name);
/* Returns whether `name` is the name of one of the backbones, followed by one of these endings. */
bool fv_decoder_has_synthetic(const char *(*backbones)(size_t), const char *name);

/* These functions add the tensors, and the sections of config.json, for stages of these widths. */
void fv_decoder_synthetic_tensors(fv_synthetic *m, int kind, const uint32_t width[4]);
void fv_decoder_synthetic_config(struct json_t *config, int kind, const uint32_t width[4]);

#endif
