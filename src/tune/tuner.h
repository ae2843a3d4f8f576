/* tuner.h: the tuner: what its stages share.
 *
 * Three stages, each on top of the one before: a kernel for every distinct step, schedule and chunk
 * for every distinct sweep, the whole plan against the estimate's. What a stage finds goes into the
 * process's wisdom at once, so that it is there whenever the tuner is stopped.
 */
#ifndef FOVEA_SRC_TUNE_TUNER_H
#define FOVEA_SRC_TUNE_TUNER_H

#include "plan/op_plan.h"
#include "platform/os/os.h"
#include "tune/contest.h"

/* How much faster a challenger must be: time over the champion's at most. */
#define FV_TUNE_BETTER 0.97

typedef struct fv_tuner {
    fovea_device *device;
    const fovea_model *model; /* a plan of it, or of `op` */
    const fovea_plan_options *plan;
    const fv_op_options *op;
    const fovea_tune_options *options;
    fovea_rigor rigor;
    fv_advice known;     /* the process's wisdom about the device */
    fv_advice estimate;  /* what the estimate knows: which candidates to skip, no more */
    fv_os_lock *journal; /* held, so that no other tuner writes to it; NULL: none is kept */
    fv_wisdom *crashed;  /* those of the journal */
    double deadline;     /* of the first two stages; 0: none */
    double end;          /* of all; 0: none */
    fovea_tune_progress progress;
    fovea_tune_report report;
    bool stopped; /* by the caller or the deadline */
    bool late;    /* by the deadline */
    bool changed; /* whether anything was found */
} fv_tuner;

/* ---- tune.c ---- */

/* What the stages are of the whole, in percent. */
#define FV_TUNE_STEPS 60
#define FV_TUNE_SWEEPS 30
#define FV_TUNE_WHOLE 10

/* Reports progress; false once the tuner is to stop. */
bool fv_tuner_goes_on(fv_tuner *t);
/* The plan as `wisdom` makes it. */
fovea_status fv_tuner_plan(fovea_plan **out, fv_tuner *t, fv_wisdom *wisdom, bool dry);
fovea_status fv_tuner_remember(fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                               const char *choice, double seconds);
/* What must not be chosen again: it is wrong. */
fovea_status fv_tuner_skip(fv_tuner *t, const char *subject, const char *choice);
/* Whether this was found with the rigor that is asked for. */
bool fv_tuner_has(const fv_tuner *t, enum fv_fact_kind kind, const char *subject);

/* Whether the planner is free to choose schedules and chunks: what the caller asks for, or a limit
 * makes of them, says nothing about other plans. */
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

/* Kernels that may do step `s`, the estimate's first; with EXHAUSTIVE all their knobs. */
void fv_candidates_kernels(fv_candidates *out, const fv_tuner *t, const fv_step *s);
/* `from` with one knob at a time changed. */
void fv_candidates_around(fv_candidates *out, const fv_candidate *from);

/* ---- tune_journal.c ---- */

/* Takes the journal that the options name, unless another tuner has it, who may be trying what
 * stands there. What an earlier run was trying when it ended is to be skipped. */
fovea_status fv_journal_open(fv_tuner *t);
void fv_journal_close(fv_tuner *t);
/* Whether a kernel has ended more than one run: then it is not tried on anything else either. One
 * run may have been ended by something else. */
bool fv_journal_distrusts(const fv_tuner *t, const fv_kernel *k);
/* Notes on the disk what is about to be tried, a choice for `count` subjects at once, texts that
 * are `stride` bytes apart; and that it went well. */
fovea_status fv_journal_begin(fv_tuner *t, const char *choice, const char *subject, size_t stride,
                              uint32_t count);
fovea_status fv_journal_end(fv_tuner *t);

#endif
