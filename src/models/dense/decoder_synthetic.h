/* decoder_synthetic.h: necks and heads on synthetic backbones: "-fpn", "-upernet" or "-retinanet"
 * after the backbone's name.
 */
#ifndef FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H
#define FOVEA_SRC_MODELS_DECODER_SYNTHETIC_H

#include "base/num.h"
#include "models/synthetic.h"

/* Finds with which of these endings a name ends; negative: with none. *base: length of the
 * backbone's name. */
int fv_decoder_suffix(size_t *base, const char *name);
/* Whether `name` is that of one of the backbones, followed by one of these endings. */
bool fv_decoder_has_synthetic(const char *(*backbones)(size_t), const char *name);

/* Add the tensors, and the sections of config.json, for stages of these widths. */
void fv_decoder_synthetic_tensors(fv_synthetic *m, int kind, const uint32_t width[4]);
void fv_decoder_synthetic_config(struct json_t *config, int kind, const uint32_t width[4]);

#endif
