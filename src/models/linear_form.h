/* linear_form.h: what may differ in the linear attentions of a model, as keys of "fovea" in its
 * config.json: nala_lambda, pola_alpha, q_scale, linear_heads (fovea_linear_attention_params).
 */
#ifndef FOVEA_SRC_MODELS_LINEAR_FORM_H
#define FOVEA_SRC_MODELS_LINEAR_FORM_H

#include <jansson.h>

#include <fovea/models.h>

#include "base/status.h"
#include "checkpoint/config.h"

/* Numbers that are given, in place of those of the section "fovea", which is made if need be.
 * EINVAL for one out of its range. */
fovea_status fv_linear_form_set(struct json_t *config, const char *file,
                                const fovea_linear_attention_params *given);
/* What the section says; 0: nothing. EFORMAT for a number out of its range. */
fovea_status fv_linear_form_read(fovea_linear_attention_params *out, const fv_config *own);
/* The keys that the section has, as an object of their numbers. NULL: no memory. */
struct json_t *fv_linear_form_keys(const struct json_t *config);

#endif
