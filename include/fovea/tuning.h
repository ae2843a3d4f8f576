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
    const char *what;   /* "block 0 fc1" */
    double done, total; /* of the work, roughly */
    size_t found;       /* facts so far; they are in the store already, and may be saved */
} fovea_tune_progress;

/* Called often, by the thread that tunes. Nonzero stops soon; what was found is kept. */
typedef int fovea_tune_fn(const fovea_tune_progress *progress, void *payload);

typedef struct fovea_tune_options {
    uint32_t version;
    fovea_rigor rigor;       /* FOVEA_MEASURE where nothing more is asked for */
    double seconds;          /* that it may take, about, and a few frames more that show whether
                                what was found makes them faster; 0: no limit */
    const char *journal;     /* file that names the candidate under test: one that takes the program
                                down is skipped when tuning is begun again; NULL: none */
    fovea_tune_fn *progress; /* may be NULL */
    void *payload;
} fovea_tune_options;
#define FOVEA_TUNE_OPTIONS_INIT                                                                    \
    {                                                                                              \
        1, FOVEA_RIGOR_DEFAULT, 0, NULL, NULL, NULL                                                \
    }

typedef struct fovea_tune_report {
    uint32_t facts;      /* found by this call */
    uint32_t kept;       /* steps and sweeps that were known already */
    uint32_t candidates; /* kernels and schedules that were measured */
    uint32_t wrong;      /* that failed verification: such are never chosen again */
    uint32_t refused;    /* that the device did not take */
    uint32_t skipped;    /* that ended an earlier run */
    int complete;        /* it was neither stopped nor out of time */
    double estimate_seconds, tuned_seconds; /* of a frame; 0: not measured */
} fovea_tune_report;

/* Tunes the plan that fovea_plan_create would make of the same; plans made before stay as they are.
 * `out` and `options` may be NULL. What is known with the same rigor is not measured again. Takes
 * seconds to minutes, and the memory of two plans. The status of what failed; what was found until
 * then is kept. */
FOVEA_API fovea_status fovea_tune(fovea_tune_report *out, const fovea_model *model,
                                  fovea_device *device, const fovea_plan_options *plan,
                                  const fovea_tune_options *options);
FOVEA_API fovea_status fovea_tune_op(fovea_tune_report *out, fovea_device *device,
                                     const fovea_op_options *op, const fovea_tune_options *options);

/* Opens the device on which wisdom knows this plan to be fastest, else the CPU. */
FOVEA_API fovea_status fovea_device_open_best(fovea_device **out, const fovea_model *model,
                                              const fovea_plan_options *plan,
                                              const fovea_device_options *options);

#ifdef __cplusplus
}
#endif

#endif
