/* preprocessing.h: reads how a model's pictures are preprocessed, from the first of its files that
 * says so. */
#ifndef FOVEA_SRC_MODELS_PREPROCESSING_H
#define FOVEA_SRC_MODELS_PREPROCESSING_H

#include "models/model.h"

/* The files, other than config.json, that may describe it, in the order of precedence; NULL ends
 * the list. */
extern const char *const fv_preprocessing_files[];

/* Called after the family's reader, which has set m->preprocess to the family's default. Changes it
 * by the first file that describes it, in the order that fovea_model_preprocess lists, and by
 * "fovea" of config.json. Sets preprocess_source and preprocess_assumed of m->info. */
fovea_status fv_preprocessing_read(fovea_model *m);

#endif
