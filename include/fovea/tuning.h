/* tuning.h: measures on a device which kernels and schedules are fastest for a plan, and adds them
 * to the process's wisdom. A part of fovea.h, whose rules hold here.
 *
 * It times kernels and their settings for every distinct step, then schedule and chunk for every
 * distinct sweep, as medians of interleaved rounds; last, the whole plan against the one that the
 * cost model makes. A kernel is compared with the operation's reference before it is timed, and a
 * choice must be 3 % faster than the estimate's, else the estimate's is remembered. So a tuned plan
 * is not slower than one that was never tuned. fovea_tune_accuracy settles in which types products
 * are worked out.
 */
#ifndef FOVEA_TUNING_H
#define FOVEA_TUNING_H

#include <fovea/operations.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_tune_progress {
    size_t struct_size;
    const char *what;   /* the step, sweep or plan that is tuned: "block 0 fc1" */
    double done, total; /* amount of work, approximate */
    size_t found;       /* facts found so far; the store has them, so that they can be saved */
} fovea_tune_progress;

/* Called often, by the thread that tunes. A nonzero return stops tuning soon; facts found so far
 * are kept. */
typedef int fovea_tune_fn(const fovea_tune_progress *progress, void *payload);

typedef struct fovea_tune_options {
    size_t struct_size;
    fovea_rigor rigor; /* at least FOVEA_RIGOR_MEASURE */
    double seconds;    /* approximate time limit; afterwards a few frames are run to check that the
                          choices are faster. 0: none */
    const char *journal; /* file that records the candidate under test: one that crashes the program
                            is skipped when tuning is started again; NULL: none */
    fovea_tune_fn *progress; /* may be NULL */
    void *payload;
} fovea_tune_options;
#define FOVEA_TUNE_OPTIONS_INIT FOVEA_INIT(fovea_tune_options, )

typedef struct fovea_tune_report {
    size_t struct_size;
    uint32_t facts;      /* found by this call, each thing that they are about counted once */
    uint32_t known;      /* steps and sweeps that were known already */
    uint32_t candidates; /* kernels and schedules that were measured */
    uint32_t wrong;      /* candidates that failed verification; they are never chosen */
    uint32_t refused;    /* candidates that the device rejected */
    uint32_t skipped;    /* candidates that crashed an earlier run */
    int complete;        /* neither stopped nor out of time */
    double estimate_seconds, tuned_seconds; /* of a frame; 0: not measured */
    uint32_t disturbed; /* measurements that were discarded, as other programs used the processors:
                           they left no facts */
} fovea_tune_report;
#define FOVEA_TUNE_REPORT_INIT FOVEA_INIT(fovea_tune_report, )

/* Tunes the plan that fovea_plan_create would make of the same options; plans made before stay as
 * they are. `out` and `options` may be NULL. Facts that are known with the same rigor are not
 * measured again. Takes seconds to minutes, and the memory of two plans. On failure, facts found
 * until then are kept. Thread-safe, but other work on the device disturbs the measurements. Where
 * Linux says that threads waited for a processor in most of the rounds of a measurement, it is
 * discarded and counted, unless FOVEA_TUNE_BUSY=keep is in the environment. */
FOVEA_API fovea_status fovea_tune(fovea_tune_report *out, const fovea_model *model,
                                  fovea_device *device, const fovea_plan_options *plan,
                                  const fovea_tune_options *options);
/* The same for the plans of fovea_attention_plan_create and fovea_gemm_plan_create. Thread-safe. */
FOVEA_API fovea_status fovea_tune_attention(fovea_tune_report *out, fovea_device *device,
                                            const fovea_attention_options *attention,
                                            const fovea_tune_options *options);
FOVEA_API fovea_status fovea_tune_gemm(fovea_tune_report *out, fovea_device *device,
                                       const fovea_gemm_options *gemm,
                                       const fovea_tune_options *options);

/* A way of working products out, on the frames that were given, beside FOVEA_COMPUTE_F32. */
typedef struct fovea_accuracy {
    int tried;      /* 0: it was not, and the rest is 0 */
    double cosine;  /* between rows of an output: the mean of each frame, of which the lowest */
    double worst;   /* the lowest of a row */
    double seconds; /* of a frame */
} fovea_accuracy;

#define FOVEA_PRODUCTS 384 /* of a model may stay in bfloat16 at most, where others are int8 */

typedef struct fovea_accuracy_report {
    size_t struct_size;
    int found;             /* nonzero: `compute` is a fact now */
    int complete;          /* neither stopped nor out of time */
    fovea_compute compute; /* what FOVEA_COMPUTE_AUTO comes to: the fastest within the bound */
    uint32_t products;     /* those that are int8 with FOVEA_COMPUTE_INT8 */
    fovea_accuracy f32, bf16, int8;
    fovea_accuracy mixed; /* int8, but the fewest products in bfloat16 that meet the bound; tried
                           where `int8` misses it and `bf16` does not */
    uint32_t bf16_count;  /* the products that are bfloat16 in `mixed` */
    uint32_t
        bf16_steps[FOVEA_PRODUCTS]; /* which these are, what helps most first: as fovea_plan_step
                                 counts steps of the plan with FOVEA_COMPUTE_INT8 */
} fovea_accuracy_report;
#define FOVEA_ACCURACY_REPORT_INIT FOVEA_INIT(fovea_accuracy_report, )

/* Finds out which types of products are accurate enough on this device, and which of those are
 * fastest, as a fact for FOVEA_COMPUTE_AUTO: outputs of the plan are worked out for every frame,
 * and `cosine` of fovea_accuracy has to be at least `bound`, such as 0.9995. No data but these
 * frames is needed: take a few like those that will come. The fact is about these weights (known by
 * a sample of their values), attention and size; plans of other sizes take it where they have none.
 *
 * All `frames` are as plan->frame says; of `plan` compute and dry are ignored, of `options` the
 * journal. Stopped or late, the fastest so far within the bound is kept, else nothing. Takes the
 * memory of three plans and the outputs of all frames. `out` and `options` may be NULL. EINVAL: no
 * frame, a bound outside of (0, 1), weights or activations other than FOVEA_DTYPE_F32; else as
 * fovea_plan_create and fovea_run. Thread-safe, but other work on the device disturbs it. */
FOVEA_API fovea_status fovea_tune_accuracy(fovea_accuracy_report *out, const fovea_model *model,
                                           fovea_device *device, const fovea_plan_options *plan,
                                           const fovea_frame *frames, size_t n_frames, double bound,
                                           const fovea_tune_options *options);

/* Opens the device on which this plan is fastest according to wisdom, else the CPU. The caller
 * closes it. Thread-safe. */
FOVEA_API fovea_status fovea_device_open_best(fovea_device **out, const fovea_model *model,
                                              const fovea_plan_options *plan,
                                              const fovea_device_options *options);

FOVEA_END_DECLS

#endif
