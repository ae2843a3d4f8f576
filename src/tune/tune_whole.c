/* tune_whole.c: compares the tuned plan with the estimate's. If it is not faster, records the
 * estimate's choices instead. */
#include <string.h>

#include "platform/os/os_machine.h"
#include "tune/bench_rig.h"
#include "tune/tuner.h"

#define ROUNDS 9
#define BUDGET 20.0 /* seconds of the contest */
#define BETTER 0.99 /* maximum time of a winning tuned plan, as a share of the estimate's */

typedef struct pair {
    fv_tuner *t;
    fv_bench_rig rig[2]; /* the rigs of the estimate's plan and of the tuned plan */
} pair;

static fovea_status run_plan(void *ctx, uint32_t who, double *seconds)
{
    pair *c = ctx;
    if (!fv_tuner_goes_on(c->t))
        return FOVEA_ETIMEOUT;
    return fv_bench_rig_run(&c->rig[who], 0, c->rig[who].plan->cut.sweeps, seconds);
}

static bool same_choices(const fovea_plan *a, const fovea_plan *b)
{
    for (uint32_t i = 0; i < a->graph.steps; i++) {
        const fv_step_plan *s = &a->chosen.step[i], *o = &b->chosen.step[i];
        if (!a->graph.step[i].dead &&
            (s->kernel != o->kernel || memcmp(&s->knobs, &o->knobs, sizeof s->knobs)))
            return false;
    }
    for (uint32_t i = 0; i < a->cut.sweeps; i++)
        if (a->chosen.sweep[i].streamed != b->chosen.sweep[i].streamed ||
            a->chosen.sweep[i].chunk != b->chosen.sweep[i].chunk)
            return false;
    return true;
}

/* Adds one choice to wisdom, unless wisdom already contains it. */
static fovea_status remember(fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                             const char *choice)
{
    fv_answer answer;
    if (fv_wisdom_find(t->known.wisdom, kind, t->known.device, subject, &answer) &&
        strcmp(answer.choice, choice) == 0)
        return FOVEA_OK;
    return fv_tuner_remember(t, kind, subject, choice, 0);
}

/* Records every choice of `p`. */
static fovea_status remember_choices(fv_tuner *t, const fovea_plan *p)
{
    char subject[FV_WISDOM_SUBJECT], choice[FV_WISDOM_CHOICE];
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        if (s->dead)
            continue;
        fv_wisdom_problem_key(subject, &s->prob, 0);
        fv_wisdom_kernel_text(choice, p->chosen.step[i].kernel, &p->chosen.step[i].knobs);
        FV_TRY(remember(t, FV_FACT_STEP, subject, choice));
    }
    for (uint32_t i = 0; i < p->cut.sweeps && fv_tuner_schedules(t); i++) {
        const fv_plan_sweep *w = &p->chosen.sweep[i];
        if (w->alone || w->bands || w->rows == 1)
            continue;
        fv_advice_sweep_key(subject, &p->graph, w, 0);
        fv_wisdom_sweep_text(choice, w->streamed, w->target);
        FV_TRY(remember(t, FV_FACT_SWEEP, subject, choice));
    }
    return FOVEA_OK;
}

/* Compares the two plans. `subject` is the subject of the fact about the whole plan; "" means that
 * no such fact is recorded. */
static fovea_status compare(pair *c, const char *subject)
{
    fv_tuner *t = c->t;
    const fovea_plan *estimate = c->rig[0].plan;
    fv_contest contest = {.contestants = 2,
                          .rounds = ROUNDS,
                          .budget = BUDGET,
                          .threads = t->watched,
                          .run = run_plan,
                          .ctx = c};
    if (t->end > 0) {
        const double left = t->end - fv_machine_seconds();
        contest.min_rounds = 1;
        contest.budget = left < BUDGET ? left : BUDGET;
    }
    fv_score score[2];
    FV_TRY(fv_contest_run(&contest, score));
    if (fv_tuner_disturbed(t, score))
        return FOVEA_OK;
    if (!fv_score_beats(&score[1], BETTER)) {
        if (!same_choices(estimate, c->rig[1].plan))
            FV_TRY(remember_choices(t, estimate));
        score[1] = score[0];
    }
    t->report.estimate_seconds = score[0].seconds;
    t->report.tuned_seconds = score[1].seconds;
    return *subject ? fv_tuner_remember(t, FV_FACT_PLAN, subject, "-", score[1].seconds) : FOVEA_OK;
}

fovea_status fv_tune_whole(fv_tuner *t)
{
    fv_wisdom *const store[2] = {t->estimate.wisdom, t->known.wisdom};
    pair c = {.t = t};
    char subject[FV_WISDOM_SUBJECT] = "";
    fovea_plan *p;
    fovea_status status = FOVEA_OK;
    const bool named =
        t->model && fv_tuner_schedules(t); /* a fact about the whole plan is recorded */
    if (!t->changed && (t->late || !named))
        return FOVEA_OK;
    t->progress.what = "the whole plan";
    for (int i = 0; i < 2 && status == FOVEA_OK; i++) {
        status = fv_tuner_plan(&p, t, store[i], false);
        FV_THEN(status, fv_bench_rig_open(&c.rig[i], p));
    }
    if (status == FOVEA_OK && named)
        fv_advice_plan_key(subject, t->model, &c.rig[1].plan->options);
    if (status == FOVEA_OK && (t->changed || !fv_tuner_has(t, FV_FACT_PLAN, subject)))
        status = compare(&c, subject);
    fv_bench_rig_close(&c.rig[0]);
    fv_bench_rig_close(&c.rig[1]);
    return status;
}
