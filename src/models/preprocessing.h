/* preprocessing.h: how a model's pictures are preprocessed, and which of its files says so. */
#ifndef FOVEA_SRC_MODELS_PREPROCESSING_H
#define FOVEA_SRC_MODELS_PREPROCESSING_H

#include "models/model.h"

/* The files, other than config.json, that may describe it, in the order of precedence; NULL ends
 * the list. */
extern const char *const fv_preprocessing_files[];

/* After the family's reader, which has set m->preprocess to what is usual: what files say, in the
 * order in which fovea_model_preprocess lists them, and "fovea" of config.json. Sets
 * preprocess_source and preprocess_assumed of m->info. */
fovea_status fv_preprocessing_read(fovea_model *m);

#endif
