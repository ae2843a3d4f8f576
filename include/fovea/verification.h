/* verification.h: whether kernels and models are right on a device, against the definition of every
 * operation. A part of fovea.h, whose rules hold here.
 */
#ifndef FOVEA_VERIFICATION_H
#define FOVEA_VERIFICATION_H

#include <fovea/fovea.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What came of one kernel. A case is a step that it fits, rehearsed on random values; every value
 * of its knobs is tried on one of them. An error is judged by how far the definition itself moves
 * when its inputs are off in their last digits. Texts live until the callback returns. */
typedef struct fovea_kernel_check {
    const char *kernel, *op, *mechanism, *isa;
    uint32_t cases, failed; /* cases 0: no case reaches it */
    uint64_t values;        /* compared */
    double error;           /* largest, as a share of what was allowed */
    double rel;             /* largest norm of a case's errors over that of its definition */
    double max_abs;         /* largest error itself */
    const char *problem;    /* of the first case that failed; "" */
    const char *text;       /* what was wrong there; "" */
} fovea_kernel_check;
/* Nonzero ends the verification, which is then OK. */
typedef int fovea_kernel_check_fn(const fovea_kernel_check *check, void *payload);

/* Verifies the kernels that the device can use and whose names contain `name` (NULL: all), one
 * after the other, against the definition of their operation. Wrong results are no failure: `fn`
 * hears of them. ENOMEM; EDEVICE. */
FOVEA_API fovea_status fovea_device_verify(fovea_device *device, const char *name,
                                           fovea_kernel_check_fn *fn, void *payload);

/* What came of one step of a model. Texts live until the callback returns. */
typedef struct fovea_step_check {
    size_t step; /* as in fovea_plan_step */
    const char *label, *problem, *kernel;
    /* Its output, a sample where it is large, against the definition on what the step read: */
    int right;
    const char *text; /* what is wrong; "" */
    uint64_t values;
    double error, rel, max_abs; /* error: as a share of what is allowed */
    /* All of it against the same step in float32 on the CPU, which has read its own results: errors
     * of the steps before are in it. carried 0: not compared, a partial result. */
    int carried;
    double carried_max, carried_rel, cosine;
    uint64_t lost; /* values that are infinite or NaN, of the step */
    /* How large numbers are. A float16 holds 65504. */
    double largest; /* of the output */
    /* Of linear attention, else 0: numbers of the state and divisors, as they are kept, means over
     * the tokens; and what they would be as sums over the tokens of this size. Of softmax attention
     * the divisor is at most the number of keys. */
    double state_mean, state_sum, divisor_mean, divisor_sum;
} fovea_step_check;
/* Nonzero ends the verification, which is then OK. */
typedef int fovea_step_check_fn(const fovea_step_check *check, void *payload);

/* Runs one frame on `device`, step by step, and tells what came of each; the same on the CPU beside
 * it, with weights and activations of float32. Wrong results are no failure: `fn` hears of them.
 * `options` as for fovea_plan_create; schedule, chunk and dry are not looked at. Takes the memory
 * of two plans. The frame's planes follow one another. EINVAL for a missing plane or a stride under
 * one row; what fovea_plan_create gives. */
FOVEA_API fovea_status fovea_model_verify(const fovea_model *model, fovea_device *device,
                                          const fovea_plan_options *options,
                                          const fovea_frame *frame, fovea_step_check_fn *fn,
                                          void *payload);

/* One step of a plan alone, by a kernel of choice, on operands of its own with random values: to be
 * verified, and timed beside others. */
typedef struct fovea_rehearsal fovea_rehearsal;

/* Step `step` of a plan (which may be dry, and must outlive the rehearsal) as the plan runs it: in
 * chunks where it is streamed. `kernel`: NULL for the plan's own, with its knobs; others run with
 * their defaults. EINVAL: no such step; ENOTSUP: the kernel is not there or does not fit; ENOMEM.
 */
FOVEA_API fovea_status fovea_rehearsal_open(fovea_rehearsal **out, const fovea_plan *plan,
                                            size_t step, const char *kernel);
FOVEA_API void fovea_rehearsal_close(fovea_rehearsal *rehearsal);
/* Against the definition, as fovea_device_verify; `out` is of one case. */
FOVEA_API fovea_status fovea_rehearsal_verify(fovea_rehearsal *rehearsal, fovea_kernel_check *out);
/* One run; *seconds by the device's clock where it has one. */
FOVEA_API fovea_status fovea_rehearsal_run(fovea_rehearsal *rehearsal, double *seconds);

#ifdef __cplusplus
}
#endif

#endif
