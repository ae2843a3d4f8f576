/* verify_cases.h: steps of every op and mechanism, for kernels to be verified on. */
#ifndef FOVEA_SRC_VERIFY_CASES_H
#define FOVEA_SRC_VERIFY_CASES_H

#include "graph/emit.h"

enum { CASE_PICTURES = 3 };

typedef struct fv_cases {
    fv_graph graph; /* its steps are the cases; they have nothing to do with each other */
    fv_emit_options options;
    fv_builder b;
    fv_picture picture[CASE_PICTURES]; /* bytes with weights of 16 and 32 bits, floats */
    fv_patch_table patch_table;
} fv_cases;

/* Cases whose rows have the type `row_type`, for a device with these limits; with BF16, on a
 * processor, those in which bfloat16 is stored or multiplied. ENOMEM. */
fovea_status fv_cases_open(fv_cases **out, enum fv_type row_type, const fv_limits *limits);
void fv_cases_close(fv_cases *c);

/* verify_training.c: adds those of training, in float32; the others have been added before. */
void fv_cases_training(fv_builder *b);
/* Those of training in which bfloat16 is stored or multiplied. */
void fv_cases_training_narrow(fv_builder *b);

#endif
