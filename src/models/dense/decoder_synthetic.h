/* decoder_synthetic.h: necks and heads on synthetic backbones. The endings "-fpn", "-upernet",
 * "-retinanet", "-mask2former", "-mask-rcnn" and "-cascade-rcnn" follow the backbone's name. */
#ifndef FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H
#define FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H

#include "models/synthetic.h"

/* Returns whether `ending` is one of these endings. */
bool fv_decoder_has_synthetic(const char *ending);
/* Returns the prefix of the backbone's tensors. */
const char *fv_decoder_synthetic_root(const char *ending);
/* Adds the tensors that m->ending names, for stages of these widths. Returns their sections of
 * config.json, or NULL if there is not enough memory. */
json_t *fv_decoder_synthetic(fv_synthetic *m, const uint32_t width[4]);
/* Returns the configuration of the whole model, and takes that of the backbone, which may already
 * be it. */
json_t *fv_decoder_synthetic_whole(const char *ending, json_t *config);

/* mask_rcnn_synthetic.c: add the tensors of an R-CNN's heads on levels of `width` channels; and
 * make their sections of config.json. */
void fv_mask_rcnn_synthetic(fv_synthetic *m, bool cascade, uint32_t width);
json_t *fv_mask_rcnn_synthetic_config(bool cascade, uint32_t width);

#endif
