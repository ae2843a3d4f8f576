/* reference.h: computes the expected output of a step with the reference kernels of src/ops/ref.
 * The reference runs on the inputs of the step, for all of its output or for a sample. It runs
 * again with inputs whose last digits are perturbed: the change of the output bounds the error that
 * a kernel may have. This is a backward error bound: a result is right if it is the exact result of
 * inputs that differ by no more than the rounding error of a float32 sum with as many terms as the
 * op's. */
#ifndef FOVEA_SRC_REFERENCE_H
#define FOVEA_SRC_REFERENCE_H

#include "device/backend.h"

/* An operand in host memory, in the device's storage type. */
typedef struct fv_given {
    const void *data; /* first element of the operand; NULL: the operand is absent */
    uint64_t count;   /* number of elements from there on */
    uint8_t kind, type;
} fv_given;

/* The result of comparing a step's output with its reference. */
typedef struct fv_verdict {
    double max_abs;   /* maximum error */
    double rel;       /* norm of the error divided by the norm of the reference */
    double share;     /* maximum of error divided by allowed error; more than 1 is wrong */
    double allowed;   /* allowed error of that element */
    uint64_t checked; /* number of compared elements */
    bool ok;
    char text[160]; /* the error; "" if the output is right */
} fv_verdict;

typedef struct fv_reference fv_reference;

/* Returns the reference kernel of a problem, a CPU kernel on unpacked float32 rows and weights, or
 * NULL if there is no such kernel. */
const fv_kernel *fv_reference_kernel(const fv_problem *p);

/* Returns the columns of an output row or, for a reduction, the columns of the state into which its
 * partial states are merged. */
uint32_t fv_reference_columns(const fv_problem *p);

/* Computes the reference of a step with these arguments, which reads the operands `given` (weights
 * as unpacked rows) and writes operand `output`. The step's calls begin and end at multiples of
 * `align` rows (0: anywhere). If the step takes at most 2^24 operations, the whole output is
 * compared. Otherwise a sample of 64 rows is compared, if necessary only some of their columns or
 * heads; if rows depend on each other, all rows of some heads are compared. Keeps no pointer into
 * `given`. Returns FOVEA_ENOTSUP if there is no reference, or FOVEA_ENOMEM. */
fovea_status fv_reference_open(fv_reference **out, const fv_args *args,
                               const fv_given given[FV_OPERANDS], uint32_t output, uint32_t align);
void fv_reference_close(fv_reference *d);

/* Compares the reference with the step's results: its output (for a reduction: `groups` partial
 * states) and, for a scan, its state (else NULL). Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_reference_judge(const fv_reference *d, const fv_given *output, uint32_t groups,
                                const fv_given *state, fv_verdict *out);

#endif
