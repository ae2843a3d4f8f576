/* tuner.h: the tuner: what its stages share.
 *
 * Three stages, each on top of the one before: a kernel for every distinct step, schedule and chunk
 * for every distinct sweep, the whole plan against the estimate's. Each stage adds what it finds to
 * the process's wisdom at once, so that nothing is lost when the tuner is stopped.
 */
#ifndef FOVEA_SRC_TUNE_TUNER_H
#define FOVEA_SRC_TUNE_TUNER_H

#include <fovea/tuning.h>

#include "plan/op_plan.h"
#include "platform/os/os.h"
#include "tune/contest.h"

/* Maximum time of a challenger relative to the champion's. It trades small gains against choices
 * that differ by noise. */
#define FV_TUNE_BETTER 0.97

typedef struct fv_tuner {
    fovea_device *device;
    const fovea_model *model; /* a plan of it, or of `op` */
    const fovea_plan_options *plan;
    const fv_op_options *op;
    const fovea_tune_options *options;
    fovea_rigor rigor;
    fv_advice known;     /* the process's wisdom about the device */
    fv_advice estimate;  /* a store with what the estimate may know: what to skip, products */
    fv_os_lock *journal; /* locked, so that no other tuner writes to it; NULL: no journal */
    fv_wisdom *crashed;  /* candidates of the journal that crashed */
    double deadline;     /* of the first two stages; 0: none */
    double end;          /* of all; 0: none */
    fovea_tune_progress progress;
    fovea_tune_report report;
    uint32_t watched; /* threads whose waits for a processor discard a measurement; 0: none */
    bool stopped;     /* by the caller or the deadline */
    bool late;        /* by the deadline */
    bool changed;     /* whether anything was found */
} fv_tuner;

/* ---- tune.c ---- */

/* Progress: share of each stage, in percent. */
#define FV_TUNE_STEPS 60
#define FV_TUNE_SWEEPS 30
#define FV_TUNE_WHOLE 10

/* Reports progress; false once the tuner must stop. */
bool fv_tuner_goes_on(fv_tuner *t);
/* The plan with the choices of `wisdom`. */
fovea_status fv_tuner_plan(fovea_plan **out, fv_tuner *t, fv_wisdom *wisdom, bool dry);
/* A fact about this device, found now. */
fv_fact fv_tuner_fact(const fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                      const char *choice);
fovea_status fv_tuner_remember(fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                               const char *choice, double seconds);
/* Records a wrong choice, which must not be chosen again. */
fovea_status fv_tuner_skip(fv_tuner *t, const char *subject, const char *choice);
/* Whether a contest means nothing because other programs took the processors, which is counted. */
bool fv_tuner_disturbed(fv_tuner *t, const fv_score *score);
/* Whether wisdom has the fact with the rigor that is asked for. */
bool fv_tuner_has(const fv_tuner *t, enum fv_fact_kind kind, const char *subject);

/* Whether the planner is free to choose schedules and chunks. If the caller or a memory limit sets
 * them, timings would say nothing about other plans. */
bool fv_tuner_schedules(const fv_tuner *t);
/* A copy of a store. */
fovea_status fv_tuner_copy(fv_wisdom **out, fv_wisdom *from);

/* ---- the stages ---- */

fovea_status fv_tune_steps(fv_tuner *t);
fovea_status fv_tune_sweeps(fv_tuner *t);
fovea_status fv_tune_whole(fv_tuner *t);

/* ---- tune_candidates.c ---- */

typedef struct fv_candidate {
    const fv_kernel *kernel;
    fv_knobs knobs;
} fv_candidate;

typedef struct fv_candidates {
    fv_candidate list[64];
    uint32_t count;
} fv_candidates;

/* Kernels that fit step `s`, the estimate's choice first; with EXHAUSTIVE all values of their
 * knobs. */
void fv_candidates_kernels(fv_candidates *out, const fv_tuner *t, const fv_step *s,
                           const fv_step_plan *chosen);
/* `from` with one knob at a time changed. */
void fv_candidates_around(fv_candidates *out, const fv_candidate *from);

/* ---- tune_journal.c ---- */

/* Opens and locks the journal that the options name, unless another tuner holds it. The candidate
 * that an earlier run was trying when it crashed will be skipped. */
fovea_status fv_journal_open(fv_tuner *t);
void fv_journal_close(fv_tuner *t);
/* Whether a kernel has crashed more than one run: then it is not tried on other problems either. A
 * single crash may have another cause. */
bool fv_journal_distrusts(const fv_tuner *t, const fv_kernel *k);
/* fv_journal_begin writes to disk what is about to be tried: a choice for `count` subjects, which
 * are strings at a stride of `stride` bytes. fv_journal_end records that it went well. */
fovea_status fv_journal_begin(fv_tuner *t, const char *choice, const char *subject, size_t stride,
                              uint32_t count);
fovea_status fv_journal_end(fv_tuner *t);

#endif
