/* verification.h: compares kernels and models on a device with the reference of every operation.
 * A part of fovea.h, whose rules hold here.
 */
#ifndef FOVEA_VERIFICATION_H
#define FOVEA_VERIFICATION_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

/* The result for one kernel. A case is a step that the kernel can run, with random operands. Every
 * setting of the kernel is tried on one of the cases. The allowed error follows from how much the
 * reference's output changes when the last digits of its inputs change. */
typedef struct fovea_kernel_check {
    size_t struct_size;
    const char *kernel, *op, *mechanism, *isa; /* as in fovea_kernel_info */
    uint32_t cases;                            /* 0: no case fits the kernel */
    uint32_t failed;                           /* cases */
    uint64_t values;                           /* values that were compared */
    double error;                              /* largest ratio of an error to the allowed error */
    double rel;          /* largest norm of the errors of a case, over the norm of its reference */
    double max_abs;      /* largest absolute error */
    const char *problem; /* the first case that failed; "" */
    const char *text;    /* what was wrong in it; "" */
} fovea_kernel_check;
#define FOVEA_KERNEL_CHECK_INIT FOVEA_INIT(fovea_kernel_check, )
/* Receives a result, whose strings are valid until it returns. A nonzero result ends the
 * verification, which then returns FOVEA_OK. */
typedef int fovea_kernel_check_fn(const fovea_kernel_check *check, void *payload);

/* Verifies all kernels that the device can run and whose names contain `name` (NULL: all), one
 * after the other, against the reference of their operation. A wrong output is not a failure of
 * this call: it is reported to `fn`. ENOMEM, EDEVICE. One thread at a time per device. */
FOVEA_API fovea_status fovea_device_verify(fovea_device *device, const char *name,
                                           fovea_kernel_check_fn *fn, void *payload);

/* The result for one step of a model. */
typedef struct fovea_step_check {
    size_t struct_size;
    size_t step; /* index for fovea_plan_step */
    const char *label, *problem, *kernel;
    /* The step alone: its output, or a sample of a large output, compared with the reference on the
     * same operands. */
    int passed;       /* nonzero: all errors are allowed */
    const char *text; /* what is wrong; "" */
    uint64_t values;  /* values that were compared */
    double error;     /* largest ratio of an error to the allowed error */
    double rel;       /* norm of the errors over the norm of the reference */
    double max_abs;   /* largest absolute error */
    /* End to end: the whole output compared with that of the same step in float32 on the CPU, which
     * reads the CPU's own results. The errors of earlier steps are thus included. end_to_end 0: not
     * compared, because the output is a partial result. */
    int end_to_end;
    double end_to_end_max; /* largest absolute difference */
    double end_to_end_rel; /* norm of the difference over the norm of the CPU's output */
    double cosine;         /* between both outputs */
    uint64_t nonfinite;    /* values of the output that are infinite or NaN */
    double largest;        /* largest magnitude in the output; float16 holds up to 65504 */
    /* Linear attention, else 0: the largest magnitudes of the state and of the divisors, as means
     * over the tokens (as they are stored), and as sums over the tokens of this picture. The
     * divisor of softmax attention is at most the number of keys. */
    double state_mean, state_sum, divisor_mean, divisor_sum;
    const char *products; /* what is multiplied, as in fovea_step_info */
    /* Products of bfloat16 and int8, else 0: the error that these types alone cause, as the norm of
     * the difference between the output and that of float32 products of the same operands, with the
     * weights as the model has them, over the norm of the latter. */
    double rounding;
} fovea_step_check;
/* Receives a result, whose strings are valid until it returns. A nonzero result ends the
 * verification, which then returns FOVEA_OK. */
typedef int fovea_step_check_fn(const fovea_step_check *check, void *payload);

/* Runs one frame on `device` step by step, and also on the CPU with weights, activations and
 * products of float32, and reports every step to `fn`. A wrong output is not a failure of this
 * call. `options` are those of fovea_plan_create; schedule, chunk and dry are ignored. The planes
 * of the frame follow one another in memory. Takes the memory of two plans. EINVAL: a missing
 * plane, a stride of less than one row; other errors as of fovea_plan_create. Thread-safe. */
FOVEA_API fovea_status fovea_model_verify(const fovea_model *model, fovea_device *device,
                                          const fovea_plan_options *options,
                                          const fovea_frame *frame, fovea_step_check_fn *fn,
                                          void *payload);

/* A trial: one step of a plan by itself, run by a given kernel on operands of its own with random
 * values, to be verified and timed. One thread at a time per trial. */
typedef struct fovea_trial fovea_trial;

/* Opens a trial of step `step` of a plan. The plan may be dry, and must outlive the trial. The step
 * runs as it does in the plan, in chunks if its sweep is streamed. `kernel`: a kernel's name, with
 * its default settings; NULL: the plan's own kernel, with the plan's settings. EINVAL: there is no
 * such step; ENOTSUP: there is no such kernel, or it cannot run the step; ENOMEM. */
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
