/* labels.h: what config.json says about a head's outputs: the names of classes, and how scores are
 * computed from logits. */
#ifndef FOVEA_SRC_LABELS_H
#define FOVEA_SRC_LABELS_H

#include "checkpoint/config.h"
#include "models/model.h"

/* Reads the names of n classes: a text for each, "" for a class without a name, NULL at the end.
 * *out is NULL if there are no names. They are in "id2label" (transformers), by the numbers in its
 * keys, or in "label_names" (timm, also in "pretrained_cfg"). Names of classes from n on are left
 * out. */
fovea_status fv_labels_read(char ***out, const fv_config *c, uint32_t n);

/* Reads "problem_type", for a head with this number of outputs. */
fovea_status fv_scores_read(fovea_scores *out, const fv_config *c, uint32_t outputs);

#endif
