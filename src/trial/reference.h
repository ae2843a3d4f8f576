/* definition.h: what the output of a step should be, by the definitions of src/ref.
 *
 * The definition is worked out from what the step read, for all of its output or for a sample, and
 * once more with inputs that are off in their last digits: how far the output moves by that is how
 * wrong a kernel may be. So the bound is that of a backward error: a right result is the exact one
 * of inputs that are off by as much as float32 may round in a sum as long as the op's.
 */
#ifndef FOVEA_SRC_REFERENCE_H
#define FOVEA_SRC_REFERENCE_H

#include "device/backend.h"

/* An operand in host memory, as the device stores it. */
typedef struct fv_given {
    const void *data; /* from the operand's base on; NULL: absent */
    uint64_t count;   /* elements there */
    uint8_t kind, type;
} fv_given;

/* What became of the comparison of a step's output with its definition. */
typedef struct fv_verdict {
    double max_abs;   /* largest error */
    double rel;       /* the error's norm over the definition's */
    double share;     /* largest error as a share of what is allowed; beyond 1: wrong */
    double allowed;   /* error, of that element */
    uint64_t checked; /* elements */
    bool ok;
    char text[160]; /* what is wrong; empty when nothing is */
} fv_verdict;

typedef struct fv_reference fv_reference;

/* The kernel that defines a problem, or NULL: of the CPU, with plain float32 rows and weights. */
const fv_kernel *fv_reference_kernel(const fv_problem *p);

/* Columns of a row of the output; of a reduction: of what its partial states are merged to. */
uint32_t fv_reference_columns(const fv_problem *p);

/* The definition of the step with these arguments that reads `given` (weights as plain rows) and
 * writes operand `output`; its calls begin and end at multiples of `align` rows (0: anywhere). Of
 * the output all is compared up to 2^24 operations; else 64 rows of it, of some columns or heads if
 * need be; of steps whose rows depend on each other all rows of some heads. Keeps nothing of
 * `given`. ENOTSUP: there is no definition; ENOMEM. */
fovea_status fv_reference_open(fv_reference **out, const fv_args *args,
                               const fv_given given[FV_OPERANDS], uint32_t output, uint32_t align);
void fv_reference_close(fv_reference *d);

/* Compares with what the step wrote: its output, of `groups` partial states where it reduces, and
 * the state of a scan (else NULL). ENOMEM. */
fovea_status fv_reference_judge(const fv_reference *d, const fv_given *output, uint32_t groups,
                                const fv_given *state, fv_verdict *out);

#endif
