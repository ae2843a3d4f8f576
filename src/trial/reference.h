/* reference.h: the expected output of a step, by the reference kernels of src/ops/ref.
 *
 * The reference runs on what the step read, for all of its output or for a sample, and again with
 * inputs perturbed in their last digits: the change of the output bounds the error that a kernel
 * may have. This is a backward error bound: a right result is the exact result of inputs that
 * differ by as much as float32 may round in a sum as long as the op's.
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

/* The result of comparing a step's output with its reference. */
typedef struct fv_verdict {
    double max_abs;   /* largest error */
    double rel;       /* norm of the error over that of the reference */
    double share;     /* largest error as a share of what is allowed; beyond 1: wrong */
    double allowed;   /* error, of that element */
    uint64_t checked; /* elements */
    bool ok;
    char text[160]; /* what is wrong; "" if the output is right */
} fv_verdict;

typedef struct fv_reference fv_reference;

/* The reference kernel of a problem, or NULL: a CPU kernel on plain float32 rows and weights. */
const fv_kernel *fv_reference_kernel(const fv_problem *p);

/* Columns of an output row; for a reduction, of the state that its partial states are merged to. */
uint32_t fv_reference_columns(const fv_problem *p);

/* The reference of a step with these arguments that reads `given` (weights as plain rows) and
 * writes operand `output`; its calls begin and end at multiples of `align` rows (0: anywhere). Up
 * to 2^24 operations the whole output is compared; beyond, a sample of 64 rows, if necessary of
 * some columns or heads only; for steps whose rows depend on each other, all rows of some heads.
 * Keeps no pointer into `given`. ENOTSUP: there is no reference; ENOMEM. */
fovea_status fv_reference_open(fv_reference **out, const fv_args *args,
                               const fv_given given[FV_OPERANDS], uint32_t output, uint32_t align);
void fv_reference_close(fv_reference *d);

/* Compares with what the step wrote: its output (`groups` partial states of a reduction), and the
 * state of a scan (else NULL). ENOMEM. */
fovea_status fv_reference_judge(const fv_reference *d, const fv_given *output, uint32_t groups,
                                const fv_given *state, fv_verdict *out);

#endif
