/* tuner.h: the state and functions that the tuner's stages share.
 *
 * There are three stages, each of which uses the results of the previous stage. The first chooses a
 * kernel for every distinct step, the second a schedule and a chunk for every distinct sweep; the
 * third compares the whole plan with the estimate's. Each stage adds its results to the process's
 * wisdom immediately, so that nothing is lost when the tuner is stopped. */
#ifndef FOVEA_SRC_TUNE_TUNER_H
#define FOVEA_SRC_TUNE_TUNER_H

#include <fovea/tuning.h>

#include "plan/op_plan.h"
#include "platform/os/os.h"
#include "tune/contest.h"

/* A challenger wins if it takes at most this share of the champion's time. A value nearer to 1
 * finds smaller gains, but also more choices that win only by noise. */
#define FV_TUNE_BETTER 0.97

typedef struct fv_tuner {
    fovea_device *device;
    const fovea_model *model; /* the tuned plan is of this model; NULL: of the operation `op` */
    const fovea_plan_options *plan;
    const fv_op_options *op;
    const fovea_tune_options *options;
    fovea_rigor rigor;
    fv_advice known;     /* the process's wisdom about the device */
    fv_advice estimate;  /* a store with only the candidates to skip and the types of products,
                            for the plan to compare with */
    fv_os_lock *journal; /* locked, so that no other tuner writes to the journal; NULL: no
                            journal */
    fv_wisdom *crashed;  /* candidates of the journal that crashed an earlier run */
    double deadline;     /* time at which the first two stages end; 0: no limit */
    double end;          /* time at which all stages end; 0: no limit */
    fovea_tune_progress progress;
    fovea_tune_report report;
    uint32_t watched; /* number of threads whose waits for a processor discard a measurement; 0:
                         no measurement is discarded */
    bool stopped;     /* the caller or the deadline has stopped the tuner */
    bool late;        /* it was the deadline that stopped the tuner */
    bool changed;     /* whether any fact was found */
} fv_tuner;

/* ---- tune.c ---- */

/* Share of each stage in the reported progress, in percent. */
#define FV_TUNE_STEPS 60
#define FV_TUNE_SWEEPS 30
#define FV_TUNE_WHOLE 10

/* Reports progress. Returns false once the tuner must stop. */
bool fv_tuner_goes_on(fv_tuner *t);
/* Makes the plan to tune, with the choices of `wisdom`. */
fovea_status fv_tuner_plan(fovea_plan **out, fv_tuner *t, fv_wisdom *wisdom, bool dry);
/* Makes a fact about this device with the tuner's rigor and the current date. */
fv_fact fv_tuner_fact(const fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                      const char *choice);
fovea_status fv_tuner_remember(fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                               const char *choice, double seconds);
/* Records a wrong choice, which is never chosen again. */
fovea_status fv_tuner_skip(fv_tuner *t, const char *subject, const char *choice);
/* Returns whether a contest means nothing because other programs took the processors, and counts
 * such contests. */
bool fv_tuner_disturbed(fv_tuner *t, const fv_score *score);
/* Returns whether wisdom has the fact with the required rigor. */
bool fv_tuner_has(const fv_tuner *t, enum fv_fact_kind kind, const char *subject);

/* Returns whether the planner is free to choose schedules and chunks. If the caller or a memory
 * limit sets them, timings say nothing about other plans. */
bool fv_tuner_schedules(const fv_tuner *t);
/* Makes a copy of a store. */
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

/* Lists the kernels that support step `s`, the estimate's choice first; with EXHAUSTIVE, with all
 * values of their knobs. */
void fv_candidates_kernels(fv_candidates *out, const fv_tuner *t, const fv_step *s,
                           const fv_step_plan *chosen);
/* Lists `from`, followed by copies of it in which one knob has another of its values. */
void fv_candidates_around(fv_candidates *out, const fv_candidate *from);

/* ---- tune_journal.c ---- */

/* Opens and locks the journal that the options name, unless another tuner holds it. The candidate
 * that an earlier run was trying when it crashed will be skipped. */
fovea_status fv_journal_open(fv_tuner *t);
void fv_journal_close(fv_tuner *t);
/* Returns whether a kernel has crashed more than one run. Such a kernel is not tried on other
 * problems either; a single crash may have another cause. */
bool fv_journal_distrusts(const fv_tuner *t, const fv_kernel *k);
/* fv_journal_begin writes to disk which choice is about to be tried, for `count` subjects, which
 * are strings with a stride of `stride` bytes. fv_journal_end records that the choice did not
 * crash. */
fovea_status fv_journal_begin(fv_tuner *t, const char *choice, const char *subject, size_t stride,
                              uint32_t count);
fovea_status fv_journal_end(fv_tuner *t);

#endif
