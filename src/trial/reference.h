/* reference.h: the expected output of a step, by the reference kernels of src/ops/ref.
 *
 * The reference runs on the inputs of the step, for all of its output or for a sample, and again
 * with inputs perturbed in their last digits: the change of the output bounds the error that a
 * kernel may have. This is a backward error bound: a result is right if it is the exact result of
 * inputs that differ by no more than the rounding error of a float32 sum with as many terms as the
 * op's.
 */
#ifndef FOVEA_SRC_REFERENCE_H
#define FOVEA_SRC_REFERENCE_H

#include "device/backend.h"

/* An operand in host memory, as the device stores it. */
typedef struct fv_given {
    const void *data; /* the operand's first element; NULL: the operand is absent */
    uint64_t count;   /* elements there */
    uint8_t kind, type;
} fv_given;

/* The result of comparing a step's output with its reference. */
typedef struct fv_verdict {
    double max_abs;   /* largest error */
    double rel;       /* norm of the error divided by the norm of the reference */
    double share;     /* largest error divided by the allowed error; more than 1: wrong */
    double allowed;   /* error, of that element */
    uint64_t checked; /* elements */
    bool ok;
    char text[160]; /* what is wrong; "" if the output is right */
} fv_verdict;

typedef struct fv_reference fv_reference;

/* The reference kernel of a problem: a CPU kernel on plain float32 rows and weights. NULL: there is
 * no such kernel. */
const fv_kernel *fv_reference_kernel(const fv_problem *p);

/* Columns of an output row; for a reduction, columns of the state into which its partial states are
 * merged. */
uint32_t fv_reference_columns(const fv_problem *p);

/* Computes the reference of a step with these arguments, which reads the operands `given` (weights
 * as plain rows) and writes operand `output`. The step's calls begin and end at multiples of
 * `align` rows (0: anywhere). If the step takes at most 2^24 operations, the whole output is
 * compared; else a sample of 64 rows, if necessary only some of their columns or heads; for steps
 * whose rows depend on each other, all rows of some heads. Keeps no pointer into `given`. ENOTSUP:
 * there is no reference; ENOMEM. */
fovea_status fv_reference_open(fv_reference **out, const fv_args *args,
                               const fv_given given[FV_OPERANDS], uint32_t output, uint32_t align);
void fv_reference_close(fv_reference *d);

/* Compares the reference with what the step wrote: its output (of a reduction: `groups` partial
 * states) and, of a scan, its state (else NULL). ENOMEM. */
fovea_status fv_reference_judge(const fv_reference *d, const fv_given *output, uint32_t groups,
                                const fv_given *state, fv_verdict *out);

#endif
