/* decoder_synthetic.h: necks and heads on synthetic backbones. The endings "-fpn", "-upernet" and
 * "-retinanet" follow the backbone's name. */
#ifndef FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H
#define FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H

#include "models/synthetic.h"

/* Returns whether `ending` is one of these endings. */
bool fv_decoder_has_synthetic(const char *ending);
/* Adds the tensors that m->ending names, for stages of these widths. Returns their sections of
 * config.json, or NULL if there is not enough memory. */
json_t *fv_decoder_synthetic(fv_synthetic *m, const uint32_t width[4]);

#endif
