/* labels.h: reads from config.json the names of a head's classes, and how scores are computed from
 * logits. */
#ifndef FOVEA_SRC_LABELS_H
#define FOVEA_SRC_LABELS_H

#include "checkpoint/config.h"
#include "models/model.h"

/* Reads the names of n classes: one text per class, "" for a class without a name, and NULL after
 * the last. Sets *out to NULL if there are no names. The names are in "id2label" (transformers),
 * whose keys are the classes' numbers, or in "label_names" (timm, also in "pretrained_cfg"). Names
 * of classes from n on are ignored. */
fovea_status fv_labels_read(char ***out, const fv_config *c, uint32_t n);

/* Reads "problem_type", for a head with this number of outputs. */
fovea_status fv_scores_read(fovea_scores *out, const fv_config *c, uint32_t outputs);

#endif
