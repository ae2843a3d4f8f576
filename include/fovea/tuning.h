/* tuning.h: measures which kernels and schedules are fastest for a plan on a device, and adds the
 * results to the process's wisdom. This header is part of fovea.h, whose rules apply here.
 *
 * Tuning times kernels and their settings for every distinct step, then the schedule and the chunk
 * for every distinct sweep, each as the median of interleaved rounds, and finally the whole plan
 * against the plan of the cost model. A kernel is compared with the reference of its operation
 * before it is timed. A choice replaces that of the cost model only if it is 3 % faster, so a tuned
 * plan is not slower than one that was never tuned. fovea_tune_accuracy finds the element types in
 * which matrix multiplications are accurate enough. */
#ifndef FOVEA_TUNING_H
#define FOVEA_TUNING_H

#include <fovea/operations.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_tune_progress {
    size_t struct_size;
    const char *what;   /* the step, sweep or plan that is being tuned: "block 0 fc1" */
    double done, total; /* approximate amounts of work */
    size_t found;       /* number of facts found so far; they are in the store and may be saved */
} fovea_tune_progress;

/* Reports progress. Called often, by the thread that tunes. A nonzero result stops tuning soon; the
 * facts found so far stay in the store. */
typedef int fovea_tune_fn(const fovea_tune_progress *progress, void *payload);

typedef struct fovea_tune_options {
    size_t struct_size;
    fovea_rigor rigor; /* at least FOVEA_RIGOR_MEASURE */
    double seconds;    /* approximate time limit, after which a few more frames run to check that
                          the choices are faster; 0: no limit */
    const char
        *journal; /* file in which each candidate is recorded before it runs, so that a candidate
                     that crashes the program is skipped the next time; NULL: no file */
    fovea_tune_fn *progress; /* may be NULL */
    void *payload;           /* the second argument of `progress` */
} fovea_tune_options;
#define FOVEA_TUNE_OPTIONS_INIT FOVEA_INIT(fovea_tune_options, )

typedef struct fovea_tune_report {
    size_t struct_size;
    uint32_t facts;      /* number of steps, sweeps and plans about which this call found facts */
    uint32_t known;      /* number of steps and sweeps that were not measured, because wisdom had
                            facts about them */
    uint32_t candidates; /* number of kernels and schedules that were measured */
    uint32_t wrong;      /* number of candidates that failed verification, and are never chosen */
    uint32_t refused;    /* number of candidates that the device rejected */
    uint32_t skipped;    /* number of candidates that were skipped because they crashed an
                            earlier run */
    int complete;        /* nonzero: tuning was neither stopped nor out of time */
    /* Seconds of a frame with the plan of the cost model and with the tuned plan; 0: not measured.
     */
    double estimate_seconds, tuned_seconds;
    uint32_t disturbed; /* number of measurements that were discarded because other programs used
                           the processors; they gave no facts */
} fovea_tune_report;
#define FOVEA_TUNE_REPORT_INIT FOVEA_INIT(fovea_tune_report, )

/* Tunes the plan that fovea_plan_create would make with the same options. Plans that exist already
 * do not change. `out` and `options` may be NULL. Facts that are known with the same rigor are not
 * measured again. Tuning takes seconds to minutes, and needs the memory of two plans. If it fails,
 * the facts found so far are kept. A measurement is discarded and counted as disturbed if Linux
 * reports that threads waited for a processor in most of its rounds, unless FOVEA_TUNE_BUSY=keep is
 * in the environment. Errors are those of fovea_plan_create. Thread-safe, but other work on the
 * device disturbs the measurements. */
FOVEA_API fovea_status fovea_tune(fovea_tune_report *out, const fovea_model *model,
                                  fovea_device *device, const fovea_plan_options *plan,
                                  const fovea_tune_options *options);
/* Tune the plans of fovea_attention_plan_create and fovea_gemm_plan_create. Thread-safe. */
FOVEA_API fovea_status fovea_tune_attention(fovea_tune_report *out, fovea_device *device,
                                            const fovea_attention_options *attention,
                                            const fovea_tune_options *options);
FOVEA_API fovea_status fovea_tune_gemm(fovea_tune_report *out, fovea_device *device,
                                       const fovea_gemm_options *gemm,
                                       const fovea_tune_options *options);

/* Accuracy of a precision, compared with FOVEA_COMPUTE_F32 on the given frames. It is measured as
 * the cosine between a row of an output and the same row in float32. */
typedef struct fovea_accuracy {
    int tried;      /* 0: the precision was not tried, and the other fields are 0 */
    double cosine;  /* mean over the rows of a frame, minimum over all frames and outputs */
    double worst;   /* minimum cosine of any row */
    double seconds; /* seconds of a frame */
} fovea_accuracy;

#define FOVEA_PRODUCTS                                                                             \
    384 /* most products of a model that may be bfloat16 where others are int8                     \
         */

typedef struct fovea_accuracy_report {
    size_t struct_size;
    int found;             /* nonzero: `compute` was added to the store as a fact */
    int complete;          /* nonzero: the search was neither stopped nor out of time */
    fovea_compute compute; /* the meaning of FOVEA_COMPUTE_AUTO after this call: the fastest
                              precision within the bound */
    uint32_t products;     /* number of int8 products with FOVEA_COMPUTE_INT8 */
    fovea_accuracy f32, bf16, int8;
    fovea_accuracy mixed; /* int8, with as few products as possible in bfloat16 to meet the bound;
                             tried if `int8` misses the bound and `bf16` does not */
    uint32_t bf16_count;  /* number of bfloat16 products in `mixed` */
    uint32_t bf16_steps[FOVEA_PRODUCTS]; /* steps of these products in the plan with
                                            FOVEA_COMPUTE_INT8, as indices for fovea_plan_step;
                                            the product that helps most is first */
} fovea_accuracy_report;
#define FOVEA_ACCURACY_REPORT_INIT FOVEA_INIT(fovea_accuracy_report, )

/* Finds the fastest precision of matrix multiplications that is accurate enough on this device, and
 * adds it to the store as a fact for FOVEA_COMPUTE_AUTO. Each precision runs all frames; it is
 * accurate enough if its fovea_accuracy.cosine is at least `bound`, such as 0.9995. Labels are not
 * needed: a few typical frames suffice. The fact is about these weights (identified by a sample of
 * their values), this attention and this size; plans of other sizes use it if they have no fact of
 * their own.
 *
 * `frames` have the format of plan->frame. `compute` and `dry` of `plan` are ignored, and so is the
 * journal of `options`. If the search is stopped or runs out of time, the fastest precision within
 * the bound so far is kept, if there is one. Needs the memory of three plans and of the outputs of
 * all frames. `out` and `options` may be NULL. Returns EINVAL if there is no frame, if the bound is
 * not between 0 and 1, or if weights or activations are not FOVEA_DTYPE_F32. Other errors are those
 * of fovea_plan_create and fovea_run. Thread-safe, but other work on the device disturbs the
 * measurements. */
FOVEA_API fovea_status fovea_tune_accuracy(fovea_accuracy_report *out, const fovea_model *model,
                                           fovea_device *device, const fovea_plan_options *plan,
                                           const fovea_frame *frames, size_t n_frames, double bound,
                                           const fovea_tune_options *options);

/* Opens the device on which this plan is fastest according to wisdom, or the CPU if wisdom has no
 * such fact. The caller closes the device. Errors are those of fovea_device_open. Thread-safe. */
FOVEA_API fovea_status fovea_device_open_best(fovea_device **out, const fovea_model *model,
                                              const fovea_plan_options *plan,
                                              const fovea_device_options *options);

FOVEA_END_DECLS

#endif
