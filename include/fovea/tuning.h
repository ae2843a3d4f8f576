/* tuning.h: measures on a device what suits a plan, and adds it to the process's wisdom. A part of
 * fovea.h, whose rules hold here.
 *
 * Kernels and their settings for every distinct step, then schedule and chunk for every distinct
 * sweep, in interleaved rounds, medians of them; last the whole plan against the one that the cost
 * model makes. A kernel is compared with the operation's definition before its time counts, and a
 * choice has to be 3 % better than the estimate's, or the estimate's is what is remembered. So a
 * tuned plan is not slower than one that was never tuned.
 */
#ifndef FOVEA_TUNING_H
#define FOVEA_TUNING_H

#include <fovea/fovea.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_tune_progress {
    size_t struct_size;
    const char *what;   /* "block 0 fc1" */
    double done, total; /* of the work, roughly */
    size_t found;       /* facts so far; they are in the store already and can be saved */
} fovea_tune_progress;

/* Called often, by the thread that tunes. Nonzero stops soon; what was found is kept. */
typedef int fovea_tune_fn(const fovea_tune_progress *progress, void *payload);

typedef struct fovea_tune_options {
    size_t struct_size;
    fovea_rigor rigor;   /* at least FOVEA_RIGOR_MEASURE */
    double seconds;      /* time limit, about; a few frames more then show whether what was found
                            makes them faster. 0: none */
    const char *journal; /* file that names the candidate under test: one that takes the program
                            down is skipped when tuning is begun again; NULL: none */
    fovea_tune_fn *progress; /* may be NULL */
    void *payload;
} fovea_tune_options;
#define FOVEA_TUNE_OPTIONS_INIT FOVEA_INIT(fovea_tune_options, )

typedef struct fovea_tune_report {
    size_t struct_size;
    uint32_t facts;      /* found by this call */
    uint32_t kept;       /* steps and sweeps that were known already */
    uint32_t candidates; /* kernels and schedules that were measured */
    uint32_t wrong;      /* candidates that failed verification: they are never chosen again */
    uint32_t refused;    /* candidates that the device rejected */
    uint32_t skipped;    /* candidates that ended an earlier run */
    int complete;        /* neither stopped nor out of time */
    double estimate_seconds, tuned_seconds; /* of a frame; 0: not measured */
} fovea_tune_report;
#define FOVEA_TUNE_REPORT_INIT FOVEA_INIT(fovea_tune_report, )

/* Tunes the plan that fovea_plan_create would make of the same options; plans made before stay as
 * they are. `out` and `options` may be NULL. What is known with the same rigor is not measured
 * again. Takes seconds to minutes, and the memory of two plans. On failure, facts found until then
 * are kept. Thread-safe, but whatever else the device runs disturbs the measurements. */
FOVEA_API fovea_status fovea_tune(fovea_tune_report *out, const fovea_model *model,
                                  fovea_device *device, const fovea_plan_options *plan,
                                  const fovea_tune_options *options);
/* The same for the plans of fovea_attention_plan_create and fovea_gemm_plan_create. */
FOVEA_API fovea_status fovea_tune_attention(fovea_tune_report *out, fovea_device *device,
                                            const fovea_attention_options *attention,
                                            const fovea_tune_options *options);
FOVEA_API fovea_status fovea_tune_gemm(fovea_tune_report *out, fovea_device *device,
                                       const fovea_gemm_options *gemm,
                                       const fovea_tune_options *options);

/* Opens the device on which wisdom knows this plan to be fastest, else the CPU. The caller closes
 * it. Thread-safe. */
FOVEA_API fovea_status fovea_device_open_best(fovea_device **out, const fovea_model *model,
                                              const fovea_plan_options *plan,
                                              const fovea_device_options *options);

#ifdef __cplusplus
}
#endif

#endif
