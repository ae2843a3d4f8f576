/* tune_steps.c: chooses a kernel for every distinct step of a plan. */
#include <string.h>

#include "base/mem.h"
#include "trial/trial.h"
#include "tune/tuner.h"

#define ROUNDS 9
#define BUDGET 3.0   /* seconds of a contest */
#define LONGEST 0.05 /* modelled seconds of a run; a longer step is timed on some of its rows */
#define ROWS_MIN 1024

/* A step, and the trial kernels that passed verification. */
typedef struct step_trials {
    fv_tuner *t;
    fv_trial *trial;
    const fv_step *step;
    const fv_step_plan *chosen; /* the plan's choice */
    char subject[FV_WISDOM_SUBJECT];
    fv_candidate candidate[FV_CONTESTANTS];
    fv_trial_kernel *kernel[FV_CONTESTANTS];
    uint32_t count;
    bool has_estimate; /* the estimate's choice passed verification and is candidate 0 */
    bool disturbed;    /* other programs disturbed the last contest, so that its winner means
                          nothing */
} step_trials;

/* ---- one candidate ---- */

static bool is_there(const step_trials *a, const fv_candidate *c)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->candidate[i].kernel == c->kernel &&
            memcmp(&a->candidate[i].knobs, &c->knobs, sizeof c->knobs) == 0)
            return true;
    return false;
}

/* Compares the candidate's output with the reference, and adds the candidate if the output is
 * right. */
static fovea_status verify(step_trials *a, const fv_candidate *c, const char *choice)
{
    fv_trial_kernel *kernel;
    fv_verdict verdict = {0};
    fovea_status status = fv_trial_kernel_open(&kernel, a->trial, c->kernel, &c->knobs);
    if (status == FOVEA_ENOTSUP || status == FOVEA_EINVAL || status == FOVEA_ETIMEOUT) {
        a->t->report.refused++;
        return FOVEA_OK;
    }
    FV_TRY(status);
    status = fv_trial_kernel_verify(kernel, &verdict);
    if (status == FOVEA_OK && verdict.ok) {
        a->candidate[a->count] = *c;
        a->kernel[a->count++] = kernel;
        return FOVEA_OK;
    }
    fv_trial_kernel_close(kernel);
    FV_TRY(status);
    a->t->report.wrong++;
    fv_log("tuning: %s gives wrong results for %s: %s", choice, a->subject, verdict.text);
    return fv_tuner_skip(a->t, a->subject, choice);
}

static fovea_status add_candidate(step_trials *a, const fv_candidate *c)
{
    char choice[FV_WISDOM_CHOICE];
    if (a->count == FV_CONTESTANTS || is_there(a, c) || !fv_tuner_goes_on(a->t) ||
        fv_advice_skips(&a->t->estimate, c->kernel, &c->knobs, &a->step->prob))
        return FOVEA_OK;
    fv_wisdom_kernel_text(choice, c->kernel, &c->knobs);
    if (fv_journal_distrusts(a->t, c->kernel))
        return fv_tuner_skip(a->t, a->subject, choice);
    a->t->report.candidates++;
    FV_TRY(fv_journal_begin(a->t, choice, a->subject, 0, 1));
    const fovea_status status = verify(a, c, choice);
    FV_TRY(fv_journal_end(a->t));
    return status;
}

static fovea_status add_candidates(step_trials *a, const fv_candidates *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        FV_TRY(add_candidate(a, &list->list[i]));
    return FOVEA_OK;
}

/* ---- the contest ---- */

/* The trial kernels that run in a contest: number[i] is the index of contestant i in `a`. */
typedef struct finalists {
    step_trials *a;
    uint32_t number[FV_CONTESTANTS];
} finalists;

static fovea_status run_kernel(void *ctx, uint32_t who, double *seconds)
{
    const finalists *r = ctx;
    if (!fv_tuner_goes_on(r->a->t))
        return FOVEA_ETIMEOUT;
    return fv_trial_kernel_run(r->a->kernel[r->number[who]], seconds);
}

static fovea_status time_trials(finalists *r, uint32_t count, fv_score *score)
{
    const fv_contest contest = {.contestants = count,
                                .rounds = ROUNDS,
                                .budget = BUDGET,
                                .threads = r->a->t->watched,
                                .run = run_kernel,
                                .ctx = r};
    return fv_contest_run(&contest, score);
}

/* Finds the winner: the fastest kernel if it beats the estimate's choice by FV_TUNE_BETTER in two
 * contests, else the estimate's choice. One contest is not enough, because among many equally fast
 * kernels one is always faster by chance. */
static fovea_status run_contest(step_trials *a, uint32_t *winner, double *seconds)
{
    finalists r = {.a = a};
    fv_score score[FV_CONTESTANTS];
    uint32_t best = 0;
    for (uint32_t i = 0; i < a->count; i++)
        r.number[i] = i;
    FV_TRY(time_trials(&r, a->count, score));
    for (uint32_t i = 1; i < a->count; i++)
        if (score[i].ratio < score[best].ratio)
            best = i;
    if (a->has_estimate && fv_score_beats(&score[best], FV_TUNE_BETTER)) {
        fv_score again[2];
        r.number[1] = best;
        FV_TRY(time_trials(&r, 2, again));
        score[best] = again[1];
    }
    if (a->has_estimate && !fv_score_beats(&score[best], FV_TUNE_BETTER))
        best = 0;
    *winner = best;
    *seconds = score[best].seconds;
    a->disturbed = fv_tuner_disturbed(a->t, &score[best]);
    return FOVEA_OK;
}

/* Closes all trial kernels except the estimate's choice and `winner`, which becomes the last one.
 */
static void keep_two(step_trials *a, uint32_t winner)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if ((i == 0 && a->has_estimate) || i == winner) {
            a->candidate[n] = a->candidate[i];
            a->kernel[n++] = a->kernel[i];
        } else {
            fv_trial_kernel_close(a->kernel[i]);
        }
    }
    a->count = n;
}

static fovea_status choose_kernel(step_trials *a)
{
    fv_candidates list;
    uint32_t winner;
    double seconds;
    fv_candidates_kernels(&list, a->t, a->step, a->chosen);
    FV_TRY(add_candidate(a, &list.list[0]));
    a->has_estimate = a->count == 1;
    FV_TRY(add_candidates(a, &list));
    if (a->count == 0) /* no kernel's output was right, or the tuner was stopped */
        return FOVEA_OK;
    FV_TRY(run_contest(a, &winner, &seconds));
    if (!a->disturbed && a->t->rigor != FOVEA_RIGOR_EXHAUSTIVE) {
        const fv_candidate best = a->candidate[winner];
        keep_two(a, winner);
        winner = a->count - 1;
        const uint32_t before = a->count;
        fv_candidates_around(&list, &best);
        FV_TRY(add_candidates(a, &list));
        if (a->count > before)
            FV_TRY(run_contest(a, &winner, &seconds));
    }
    if (a->disturbed)
        return FOVEA_OK;
    char choice[FV_WISDOM_CHOICE];
    fv_wisdom_kernel_text(choice, a->candidate[winner].kernel, &a->candidate[winner].knobs);
    return fv_tuner_remember(a->t, FV_FACT_STEP, a->subject, choice, seconds);
}

/* ---- steps ---- */

static uint32_t rows_to_run(const fv_step *s, double seconds)
{
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS];
    const double share = seconds > LONGEST ? LONGEST / seconds : 1;
    const uint32_t some = (uint32_t)(rows * share);
    return some < ROWS_MIN ? ROWS_MIN : some;
}

static fovea_status tune_step(fv_tuner *t, const fovea_plan *p, const fv_step *s,
                              const char *subject)
{
    const fv_plan_sweep *w = fv_sweep_of_step(p, s);
    const fv_step_plan *chosen = fv_plan_of_step(p, s);
    step_trials a = {.t = t, .step = s, .chosen = chosen};
    strcpy(a.subject, subject);
    t->progress.what = s->label;
    fovea_status status =
        fv_trial_open(&a.trial, t->device, &p->graph, s, &chosen->tiles,
                      rows_to_run(s, chosen->seconds), w->streamed && !w->bands ? w->chunk : 0);
    FV_THEN(status, choose_kernel(&a));
    for (uint32_t i = 0; i < a.count; i++)
        fv_trial_kernel_close(a.kernel[i]);
    fv_trial_close(a.trial);
    if (status == FOVEA_ENOMEM) { /* a trial needs more memory than the step in its plan, which
                                     may still fit */
        fv_log("tuning: %s is not tuned: %s", s->label, fovea_error());
        t->report.refused++;
        return FOVEA_OK;
    }
    return status;
}

typedef char subject_text[FV_WISDOM_SUBJECT];

/* Lists the first step of each distinct problem, and the subject of the facts about it. */
static uint32_t distinct(const fovea_plan *p, uint32_t *step, subject_text *subject)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        if (p->graph.step[i].dead)
            continue;
        fv_wisdom_problem_key(subject[n], &p->graph.step[i].prob, 0);
        uint32_t same = 0;
        while (strcmp(subject[same], subject[n]) != 0)
            same++;
        if (same == n)
            step[n++] = i;
    }
    return n;
}

static fovea_status tune_all(fv_tuner *t, const fovea_plan *p, const uint32_t *step,
                             const subject_text *subject, uint32_t count)
{
    for (uint32_t i = 0; i < count && fv_tuner_goes_on(t); i++) {
        if (fv_tuner_has(t, FV_FACT_STEP, subject[i]))
            t->report.known++;
        else
            FV_TRY(tune_step(t, p, &p->graph.step[step[i]], subject[i]));
        t->progress.done += (double)FV_TUNE_STEPS / count;
    }
    return FOVEA_OK;
}

fovea_status fv_tune_steps(fv_tuner *t)
{
    fovea_plan *p;
    void *step = NULL, *subject = NULL;
    FV_TRY(fv_tuner_plan(&p, t, t->estimate.wisdom, true));
    const uint64_t entries = (uint64_t)p->graph.steps + 1;
    fovea_status status =
        fv_mem_array(&step, entries, sizeof(uint32_t), FV_MEM_PLAN, "steps to tune");
    FV_THEN(status,
            fv_mem_array(&subject, entries, sizeof(subject_text), FV_MEM_PLAN, "steps to tune"));
    FV_THEN(status, tune_all(t, p, step, subject, distinct(p, step, subject)));
    fv_mem_free(step);
    fv_mem_free(subject);
    fv_plan_free(p);
    return status;
}
