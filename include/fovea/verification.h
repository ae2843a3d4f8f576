/* verification.h: compares kernels and models on a device with the reference of every operation.
 * This header is part of fovea.h, whose rules apply here. */
#ifndef FOVEA_VERIFICATION_H
#define FOVEA_VERIFICATION_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

/* The result for one kernel. A case is a step that the kernel can run, with random operands. Every
 * setting of the kernel is tried on one of the cases. The allowed error is derived from the change
 * of the reference's output when the last digits of its inputs change. */
typedef struct fovea_kernel_check {
    size_t struct_size;
    const char *kernel, *op, *mechanism, *isa; /* as in fovea_kernel_info */
    uint32_t cases;                            /* number of cases; 0: the kernel supports no case */
    uint32_t failed;                           /* number of cases that failed */
    uint64_t values;                           /* number of values that were compared */
    double error;                              /* maximum ratio of an error to the allowed error */
    double rel;          /* maximum, over the cases, of the norm of the errors divided by the
                            norm of the reference */
    double max_abs;      /* largest absolute error */
    const char *problem; /* the first case that failed, or "" */
    const char *text;    /* the error in that case, or "" */
} fovea_kernel_check;
#define FOVEA_KERNEL_CHECK_INIT FOVEA_INIT(fovea_kernel_check, )
/* Receives a result, whose strings are valid until it returns. A nonzero result ends the
 * verification, which then returns FOVEA_OK. */
typedef int fovea_kernel_check_fn(const fovea_kernel_check *check, void *payload);

/* Verifies all kernels that the device can run and whose names contain `name` (NULL: all), one
 * after the other, against the reference of their operation. A wrong output is not a failure of
 * this call: it is reported to `fn`. Returns ENOMEM or EDEVICE on failure. One thread at a time per
 * device. */
FOVEA_API fovea_status fovea_device_verify(fovea_device *device, const char *name,
                                           fovea_kernel_check_fn *fn, void *payload);

/* The result for one step of a model. */
typedef struct fovea_step_check {
    size_t struct_size;
    size_t step; /* index for fovea_plan_step */
    const char *label, *problem, *kernel;
    /* The step by itself: its output, or a sample of a large output, is compared with the reference
     * on the same operands. */
    int passed;       /* nonzero: all errors are allowed */
    const char *text; /* the error, or "" */
    uint64_t values;  /* number of values that were compared */
    double error;     /* largest ratio of an error to the allowed error */
    double rel;       /* norm of the errors divided by the norm of the reference */
    double max_abs;   /* largest absolute error */
    /* End to end: the whole output is compared with that of the same step in float32 on the CPU,
     * which reads the CPU's own results. The differences therefore include the errors of earlier
     * steps. end_to_end is 0 if nothing was compared, because the output is a partial result. */
    int end_to_end;
    double end_to_end_max; /* largest absolute difference */
    double end_to_end_rel; /* norm of the difference divided by the norm of the CPU's output */
    double cosine;         /* cosine between both outputs */
    uint64_t nonfinite;    /* number of output values that are infinite or NaN */
    double largest;        /* maximum magnitude in the output; the maximum of float16 is 65504 */
    /* For linear attention, else 0: the maximum magnitudes of the state and of the divisors, as
     * means over the tokens (as they are stored), and as sums over the tokens of this picture. The
     * divisor of softmax attention is at most the number of keys. */
    double state_mean, state_sum, divisor_mean, divisor_sum;
    const char *products; /* type of the multiplied numbers, as in fovea_step_info */
    /* For products of bfloat16 and int8, else 0: the error that only these types cause. It is the
     * norm of the difference between the output and that of float32 products of the same operands
     * with the model's original weights, divided by the norm of the float32 output. */
    double rounding;
} fovea_step_check;
/* Receives a result, whose strings are valid until it returns. A nonzero result ends the
 * verification, which then returns FOVEA_OK. */
typedef int fovea_step_check_fn(const fovea_step_check *check, void *payload);

/* Runs one frame on `device` step by step, and also on the CPU with weights, activations and
 * products of float32, and reports every step to `fn`. A wrong output is not a failure of this
 * call. `options` are those of fovea_plan_create; schedule, chunk and dry are ignored. The planes
 * of the frame follow one another in memory. Needs the memory of two plans. Returns EINVAL for a
 * missing plane or a stride of less than one row. Other errors are those of fovea_plan_create.
 * Thread-safe. */
FOVEA_API fovea_status fovea_model_verify(const fovea_model *model, fovea_device *device,
                                          const fovea_plan_options *options,
                                          const fovea_frame *frame, fovea_step_check_fn *fn,
                                          void *payload);

/* A trial: one step of a plan, run by a given kernel on its own operands with random values, for
 * verification and timing. One thread at a time per trial. */
typedef struct fovea_trial fovea_trial;

/* Opens a trial of step `step` of a plan. The plan may be dry, and must outlive the trial. The step
 * runs as it does in the plan, in chunks if its sweep is streamed. `kernel` is the name of a
 * kernel, which runs with its default settings, or NULL for the plan's own kernel and settings.
 * Returns EINVAL if there is no such step, ENOTSUP if there is no such kernel or it does not
 * support the step, or ENOMEM. */
FOVEA_API fovea_status fovea_trial_open(fovea_trial **out, const fovea_plan *plan, size_t step,
                                        const char *kernel);
FOVEA_API void fovea_trial_close(fovea_trial *trial);
/* Compares the output of the step with the reference, as fovea_device_verify does for one case. The
 * strings of `out` belong to the trial. */
FOVEA_API fovea_status fovea_trial_verify(fovea_trial *trial, fovea_kernel_check *out);
/* Runs the step once. *seconds receives the device's time if the device reports it, else wall time.
 */
FOVEA_API fovea_status fovea_trial_run(fovea_trial *trial, double *seconds);

FOVEA_END_DECLS

#endif
