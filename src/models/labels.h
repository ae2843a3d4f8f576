/* labels.h: what config.json says of a head's outputs: names of classes, and what scores are made
 * of logits. */
#ifndef FOVEA_SRC_LABELS_H
#define FOVEA_SRC_LABELS_H

#include "checkpoint/config.h"
#include "models/model.h"

/* Names of n classes, a text for each, "" for one without a name, NULL at the end; *out is NULL
 * without any. "id2label" (transformers) by the numbers that its keys are, or "label_names" (timm,
 * also in "pretrained_cfg"); names of classes that there are not are left out. */
fovea_status fv_labels_read(char ***out, const fv_config *c, uint32_t n);

/* "problem_type", for a head with this number of outputs. */
fovea_status fv_scores_read(fovea_scores *out, const fv_config *c, uint32_t outputs);

#endif
