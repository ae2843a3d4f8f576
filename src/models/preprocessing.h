/* preprocessing.h: reads how a model's pictures are preprocessed, from the first of several files
 * that describes it. */
#ifndef FOVEA_SRC_MODELS_PREPROCESSING_H
#define FOVEA_SRC_MODELS_PREPROCESSING_H

#include "models/model.h"

/* The files, other than config.json, that may describe the preprocessing, in order of priority.
 * NULL ends the list. */
extern const char *const fv_preprocessing_files[];

/* Changes m->preprocess according to the first file that describes the preprocessing, in the order
 * in the documentation of fovea_model_preprocess, and according to "fovea" in config.json. Must be
 * called after the family's reader, which sets m->preprocess to the family's default. Sets
 * preprocess_source and preprocess_assumed of m->info. */
fovea_status fv_preprocessing_read(fovea_model *m);

#endif
