/* verify_training.h: steps of training, for kernels to be verified on. */
#ifndef FOVEA_SRC_TRAIN_VERIFY_TRAINING_H
#define FOVEA_SRC_TRAIN_VERIFY_TRAINING_H

struct fv_builder;

/* Adds those in float32 to a builder that has the other cases. */
void fv_cases_training(struct fv_builder *b);
/* Those in which bfloat16 is stored or multiplied. */
void fv_cases_training_narrow(struct fv_builder *b);

#endif
