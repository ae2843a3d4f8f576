/* language_read.h: reads the roles of a language model from a checkpoint. */
#ifndef FOVEA_SRC_MODELS_LANGUAGE_READ_H
#define FOVEA_SRC_MODELS_LANGUAGE_READ_H

#include "models/language/language.h"

/* Are `read` and `release` of a fv_family. */
fovea_status fv_language_read(fovea_model *m, const fv_source *source, const fv_config *config);
void fv_language_release(fovea_model *m);

#endif
