/* linear_form.h: parameters of a model's linear attentions, which are keys of "fovea" in its
 * config.json: nala_lambda, pola_alpha, q_scale, linear_heads (fovea_linear_attention_params). */
#ifndef FOVEA_SRC_MODELS_LINEAR_FORM_H
#define FOVEA_SRC_MODELS_LINEAR_FORM_H

#include <jansson.h>

#include <fovea/models.h>

#include "base/status.h"
#include "checkpoint/config.h"

/* Writes given parameters to the section "fovea", which is added if it is missing. They replace
 * those in the section. Returns FOVEA_EINVAL if one is out of range. */
fovea_status fv_linear_form_set(struct json_t *config, const char *file,
                                const fovea_linear_attention_params *given);
/* Reads the parameters in the section; those that are absent become 0. Returns FOVEA_EFORMAT if a
 * number is out of range. */
fovea_status fv_linear_form_read(fovea_linear_attention_params *out, const fv_config *own);
/* Returns an object with the keys of these parameters that the section has, and their values.
 * Returns NULL if memory runs out. */
struct json_t *fv_linear_form_keys(const struct json_t *config);

#endif
