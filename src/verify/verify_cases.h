/* verify_cases.h: steps of every op and mechanism, on which kernels are verified. */
#ifndef FOVEA_SRC_VERIFY_CASES_H
#define FOVEA_SRC_VERIFY_CASES_H

#include "graph/emit.h"

enum { CASE_PICTURES = 3 };

typedef struct fv_cases {
    fv_graph graph; /* its steps are the cases, which are independent of each other */
    fv_emit_options options;
    fv_builder b;
    fv_picture picture[CASE_PICTURES]; /* resized as bytes with filter weights of 16 bits, as
                                          bytes with weights of 32 bits, and as floats */
    fv_patch_table patch_table;
} fv_cases;

/* Makes the cases whose rows have the type `row_type`, for a device with these limits. For BF16 on
 * a CPU, makes only those in which bfloat16 is stored or multiplied. Returns FOVEA_ENOMEM if memory
 * runs out. */
fovea_status fv_cases_open(fv_cases **out, enum fv_type row_type, const fv_limits *limits);
void fv_cases_close(fv_cases *c);

#endif
