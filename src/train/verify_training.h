/* verify_training.h: steps of training on which kernels are verified. */
#ifndef FOVEA_SRC_TRAIN_VERIFY_TRAINING_H
#define FOVEA_SRC_TRAIN_VERIFY_TRAINING_H

struct fv_builder;

/* Adds the float32 steps to a builder that contains the other cases. */
void fv_cases_training(struct fv_builder *b);
/* Adds the steps that store or multiply bfloat16. */
void fv_cases_training_narrow(struct fv_builder *b);

#endif
