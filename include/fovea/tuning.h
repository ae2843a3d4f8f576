/* tuning.h: measures which kernels and schedules are fastest for a plan on a device, and adds the
 * results to the process's wisdom. A part of fovea.h, whose rules hold here.
 *
 * Tuning times kernels and their settings for every distinct step, then the schedule and the chunk
 * for every distinct sweep, each as the median of interleaved rounds; finally the whole plan
 * against the plan that the cost model makes. A kernel is compared with the reference of its
 * operation before it is timed. A choice replaces that of the cost model only if it is 3 % faster,
 * so a tuned plan is not slower than one that was never tuned. fovea_tune_accuracy finds the
 * element types in which matrix multiplications are accurate enough.
 */
#ifndef FOVEA_TUNING_H
#define FOVEA_TUNING_H

#include <fovea/operations.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_tune_progress {
    size_t struct_size;
    const char *what;   /* the step, sweep or plan that is being tuned: "block 0 fc1" */
    double done, total; /* approximate amounts of work */
    size_t found;       /* facts found so far; they are in the store and may be saved */
} fovea_tune_progress;

/* Reports progress. Called often, by the thread that tunes. A nonzero result stops tuning soon; the
 * facts found so far stay in the store. */
typedef int fovea_tune_fn(const fovea_tune_progress *progress, void *payload);

typedef struct fovea_tune_options {
    size_t struct_size;
    fovea_rigor rigor; /* at least FOVEA_RIGOR_MEASURE */
    double seconds; /* approximate time limit, after which a few more frames are run to check that
                       the choices are faster; 0: none */
    const char
        *journal; /* file in which each candidate is noted before it runs, so that a candidate
                     that crashes the program is skipped the next time; NULL: none */
    fovea_tune_fn *progress; /* may be NULL */
    void *payload;           /* the second argument of `progress` */
} fovea_tune_options;
#define FOVEA_TUNE_OPTIONS_INIT FOVEA_INIT(fovea_tune_options, )

typedef struct fovea_tune_report {
    size_t struct_size;
    uint32_t facts;      /* steps, sweeps and plans that this call found facts about */
    uint32_t known;      /* steps and sweeps that wisdom knew already, and that were not measured */
    uint32_t candidates; /* kernels and schedules that were measured */
    uint32_t wrong;      /* candidates that failed verification, and are never chosen */
    uint32_t refused;    /* candidates that the device rejected */
    uint32_t skipped;    /* candidates that crashed an earlier run */
    int complete;        /* nonzero: tuning was neither stopped nor out of time */
    /* Seconds of a frame by the plan of the cost model and by the tuned one; 0: not measured. */
    double estimate_seconds, tuned_seconds;
    uint32_t disturbed; /* measurements that were discarded because other programs used the
                           processors; they left no facts */
} fovea_tune_report;
#define FOVEA_TUNE_REPORT_INIT FOVEA_INIT(fovea_tune_report, )

/* Tunes the plan that fovea_plan_create would make with the same options. Plans that exist already
 * do not change. `out` and `options` may be NULL. Facts that are known with the same rigor are not
 * measured again. Tuning takes seconds to minutes, and the memory of two plans. If it fails, the
 * facts found until then are kept. A measurement is discarded and counted as disturbed if Linux
 * reports that threads waited for a processor in most of its rounds, unless FOVEA_TUNE_BUSY=keep is
 * in the environment. Errors as of fovea_plan_create. Thread-safe, but other work on the device
 * disturbs the measurements. */
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

/* Accuracy of a precision, compared with FOVEA_COMPUTE_F32 on the frames that were given. It is
 * measured as the cosine between a row of an output and the same row in float32. */
typedef struct fovea_accuracy {
    int tried;      /* 0: it was not tried, and the other fields are 0 */
    double cosine;  /* mean over the rows of a frame; the lowest of all frames and outputs */
    double worst;   /* the lowest cosine of any row */
    double seconds; /* of a frame */
} fovea_accuracy;

#define FOVEA_PRODUCTS                                                                             \
    384 /* most products of a model that may be bfloat16 where others are int8                     \
         */

typedef struct fovea_accuracy_report {
    size_t struct_size;
    int found;             /* nonzero: `compute` is a fact in the store now */
    int complete;          /* nonzero: the search was neither stopped nor out of time */
    fovea_compute compute; /* what FOVEA_COMPUTE_AUTO means now: the fastest within the bound */
    uint32_t products;     /* number of products that are int8 with FOVEA_COMPUTE_INT8 */
    fovea_accuracy f32, bf16, int8;
    fovea_accuracy mixed; /* int8, with as few products as possible in bfloat16 to meet the bound;
                             tried if `int8` misses the bound and `bf16` does not */
    uint32_t bf16_count;  /* number of products that are bfloat16 in `mixed` */
    uint32_t bf16_steps[FOVEA_PRODUCTS]; /* their steps in the plan with FOVEA_COMPUTE_INT8, as
                                            fovea_plan_step counts them; first the product that
                                            helps most */
} fovea_accuracy_report;
#define FOVEA_ACCURACY_REPORT_INIT FOVEA_INIT(fovea_accuracy_report, )

/* Finds the fastest precision of matrix multiplications that is accurate enough on this device, and
 * adds it to the store as a fact for FOVEA_COMPUTE_AUTO. Each precision runs all frames; it is
 * accurate enough if its fovea_accuracy.cosine is at least `bound`, such as 0.9995. Labels are not
 * needed: a few frames like those that will come suffice. The fact is about these weights
 * (identified by a sample of their values), this attention and this size; plans of other sizes use
 * it if they have no fact of their own.
 *
 * `frames` are as plan->frame says. `compute` and `dry` of `plan` are ignored, and so is the
 * journal of `options`. If the search is stopped or runs out of time, the fastest precision within
 * the bound so far is kept, if there is one. Takes the memory of three plans and of the outputs of
 * all frames. `out` and `options` may be NULL. EINVAL: no frame, a bound outside of (0, 1), weights
 * or activations other than FOVEA_DTYPE_F32; other errors as of fovea_plan_create and fovea_run.
 * Thread-safe, but other work on the device disturbs the measurements. */
FOVEA_API fovea_status fovea_tune_accuracy(fovea_accuracy_report *out, const fovea_model *model,
                                           fovea_device *device, const fovea_plan_options *plan,
                                           const fovea_frame *frames, size_t n_frames, double bound,
                                           const fovea_tune_options *options);

/* Opens the device on which this plan is fastest according to wisdom; the CPU if wisdom does not
 * say. The caller closes it. Errors as of fovea_device_open. Thread-safe. */
FOVEA_API fovea_status fovea_device_open_best(fovea_device **out, const fovea_model *model,
                                              const fovea_plan_options *plan,
                                              const fovea_device_options *options);

FOVEA_END_DECLS

#endif
