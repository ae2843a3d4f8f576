/* language_read.h: from a checkpoint to the roles of a language model. */
#ifndef FOVEA_SRC_MODELS_LANGUAGE_READ_H
#define FOVEA_SRC_MODELS_LANGUAGE_READ_H

#include "models/language/language.h"

/* A fv_family's read and release. */
fovea_status fv_language_read(fovea_model *m, const fv_source *source, const fv_config *config);
void fv_language_release(fovea_model *m);

#endif
