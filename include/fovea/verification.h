/* verification.h: compares kernels and models on a device with the reference of every operation.
 * A part of fovea.h, whose rules hold here.
 */
#ifndef FOVEA_VERIFICATION_H
#define FOVEA_VERIFICATION_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

/* The result for one kernel. A case is a step that the kernel fits, run on random values; every
 * value of its settings is tried on one case. The allowed error follows from how far the
 * reference's output changes when the last digits of its inputs change. Texts live until the
 * callback returns. */
typedef struct fovea_kernel_check {
    size_t struct_size;
    const char *kernel, *op, *mechanism, *isa;
    uint32_t cases, failed; /* cases 0: no case fits it */
    uint64_t values;        /* compared */
    double error;           /* largest error over the allowed error */
    double rel;             /* largest norm of a case's errors over the norm of its reference */
    double max_abs;         /* largest absolute error */
    const char *problem;    /* of the first case that failed; "" */
    const char *text;       /* what was wrong in it; "" */
} fovea_kernel_check;
#define FOVEA_KERNEL_CHECK_INIT FOVEA_INIT(fovea_kernel_check, )
/* Gets each result. Nonzero ends the verification, which then returns FOVEA_OK. */
typedef int fovea_kernel_check_fn(const fovea_kernel_check *check, void *payload);

/* Verifies the kernels that the device can use and whose names contain `name` (NULL: all), one
 * after the other, against the reference of their operation. A wrong result is not a failure of the
 * call: it is passed to `fn`. ENOMEM; EDEVICE. One thread at a time per device. */
FOVEA_API fovea_status fovea_device_verify(fovea_device *device, const char *name,
                                           fovea_kernel_check_fn *fn, void *payload);

/* The result for one step of a model. Texts live until the callback returns. */
typedef struct fovea_step_check {
    size_t struct_size;
    size_t step; /* as in fovea_plan_step */
    const char *label, *problem, *kernel;
    /* Its output (a sample if it is large) against the reference on what the step read: */
    int passed;       /* nonzero: within what is allowed */
    const char *text; /* what is wrong; "" */
    uint64_t values;
    double error, rel, max_abs; /* error: over what is allowed */
    /* The whole output against the same step in float32 on the CPU, which reads the CPU's own
     * results: this includes the errors of earlier steps. end_to_end 0: not compared, because the
     * output is a partial result. */
    int end_to_end;
    double end_to_end_max, end_to_end_rel, cosine;
    uint64_t nonfinite; /* output values that are infinite or NaN */
    double largest;     /* largest magnitude in the output; float16 holds up to 65504 */
    /* Linear attention, else 0: the largest magnitudes of the state and of the divisors, as means
     * over the tokens (as they are stored), and as sums over the tokens of this picture. The
     * divisor of softmax attention is at most the number of keys. */
    double state_mean, state_sum, divisor_mean, divisor_sum;
    const char *products; /* what it multiplies: as in fovea_step_info */
    /* Products of bfloat16 and int8, else 0: the error that the type alone causes, the norm of what
     * its output differs by from that of float32 products of what it read, with the weights as the
     * model has them, over the norm of that. */
    double rounding;
} fovea_step_check;
/* Gets each result. Nonzero ends the verification, which then returns FOVEA_OK. */
typedef int fovea_step_check_fn(const fovea_step_check *check, void *payload);

/* Runs one frame on `device`, step by step, and on the CPU beside it with weights, activations and
 * products of float32; `fn` gets the result for every step. A wrong result is not a failure of the
 * call. `options` as for fovea_plan_create; schedule, chunk and dry are ignored. Takes the memory
 * of two plans. The frame's planes follow one another. EINVAL for a missing plane or a stride under
 * one row; else as fovea_plan_create. Thread-safe. */
FOVEA_API fovea_status fovea_model_verify(const fovea_model *model, fovea_device *device,
                                          const fovea_plan_options *options,
                                          const fovea_frame *frame, fovea_step_check_fn *fn,
                                          void *payload);

/* A single-step trial: one step of a plan alone, by a given kernel, on its own operands with random
 * values, to be verified and timed. One thread at a time. */
typedef struct fovea_trial fovea_trial;

/* Step `step` of a plan (which may be dry, and must outlive the trial) as the plan runs it: in
 * chunks if it is streamed. `kernel`: NULL for the plan's own, with its knobs; others run with
 * their defaults. EINVAL: no such step; ENOTSUP: the kernel does not exist or does not fit; ENOMEM.
 */
FOVEA_API fovea_status fovea_trial_open(fovea_trial **out, const fovea_plan *plan, size_t step,
                                        const char *kernel);
FOVEA_API void fovea_trial_close(fovea_trial *trial);
/* Compares its output with the reference, as fovea_device_verify does; `out` has one case. Its
 * texts belong to the trial. */
FOVEA_API fovea_status fovea_trial_verify(fovea_trial *trial, fovea_kernel_check *out);
/* Runs it once; *seconds gets the device's time if the device reports it, else wall time. */
FOVEA_API fovea_status fovea_trial_run(fovea_trial *trial, double *seconds);

FOVEA_END_DECLS

#endif
