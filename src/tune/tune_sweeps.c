/* tune_sweeps.c: chooses a schedule and a chunk for every distinct sweep of a plan.
 *
 * Two plans exist at once: the champion, in which every sweep runs in the best way found so far,
 * and a challenger, in which all sweeps run in another way. The sweeps of both plans are timed one
 * by one, alternately. */
#include <string.h>

#include "base/mem.h"
#include "trial/trial.h"
#include "tune/bench_rig.h"
#include "tune/tuner.h"

#define ROUNDS 7
#define BUDGET 6.0 /* seconds of a contest */

/* A challenger may need at most this multiple of the champion's memory, without weights, because a
 * fast plan that does not fit a small device is useless there. */
#define MEMORY_FACTOR 2
#define MEMORY_MORE (64ull << 20)

typedef struct way {
    bool streamed;
    uint32_t chunk;
} way;

/* Ways to run a sweep on CPUs. Without EXHAUSTIVE, only the first MEASURE_WAYS are tried. The
 * first chunk is the planner's default. */
static const way ways[] = {{false, FV_CHUNK_ROWS},
                           {true, FV_CHUNK_ROWS},
                           {true, 84},
                           {true, 336},
                           {true, 42},
                           {true, 126},
                           {true, 252},
                           {true, 504}};
/* Ways that are tried on throughput devices. */
static const way throughput_ways[] = {{false, 0}, {true, 4096}, {true, 16384}, {true, 1024}};
#define MEASURE_WAYS 4

/* Sweeps with the same steps and sizes, which share one result. */
typedef struct part {
    char subject[FV_WISDOM_SUBJECT];
    uint32_t sweep; /* the first of these sweeps */
    double seconds; /* time of the champion; 0: not measured */
    bool won;       /* a challenger was faster, running `how` */
    bool disturbed; /* other programs disturbed one of its contests, so that no result is kept */
    way how;
} part;

typedef struct sweep_contest {
    fv_tuner *t;
    part *part;
    uint32_t parts;
    fv_wisdom *best; /* the existing facts and the winners so far */
    fv_bench_rig champion, challenger;
    uint64_t most;  /* maximum bytes that a challenger may need */
    uint32_t sweep; /* the sweep under test */
} sweep_contest;

/* ---- one contest ---- */

static fovea_status run_sweep(void *ctx, uint32_t who, double *seconds)
{
    sweep_contest *c = ctx;
    if (!fv_tuner_goes_on(c->t))
        return FOVEA_ETIMEOUT;
    return fv_bench_rig_run(who ? &c->challenger : &c->champion, c->sweep, 1, seconds);
}

/* Finds whether the sweep's reductions stay within the reference's error bound with chunks of this
 * size. */
static fovea_status exact(sweep_contest *c, const fv_plan_sweep *w, bool *out)
{
    const fovea_plan *p = c->challenger.plan;
    *out = true;
    for (uint32_t k = w->first; k < w->first + w->count && *out; k++) {
        const fv_step *s = &p->graph.step[k];
        fv_trial *trial;
        fv_trial_kernel *kernel;
        fv_verdict verdict = {0};
        if (s->dead || fv_step_span(s) != FV_SPAN_REDUCE)
            continue;
        FV_TRY(fv_trial_open(&trial, c->t->device, &p->graph, s, &p->chosen.step[k].tiles, 0,
                             w->streamed ? w->chunk : 0));
        fovea_status status = fv_trial_kernel_open(&kernel, trial, p->chosen.step[k].kernel,
                                                   &p->chosen.step[k].knobs);
        if (status == FOVEA_OK) {
            status = fv_trial_kernel_verify(kernel, &verdict);
            fv_trial_kernel_close(kernel);
        }
        fv_trial_close(trial);
        FV_TRY(status);
        *out = verdict.ok;
    }
    return FOVEA_OK;
}

static fovea_status put_way(fv_wisdom *w, const fv_tuner *t, const part *of, const way *how)
{
    char choice[FV_WISDOM_CHOICE];
    fv_wisdom_sweep_text(choice, how->streamed, how->chunk);
    const fv_fact f = fv_tuner_fact(t, FV_FACT_SWEEP, of->subject, choice);
    return fv_wisdom_put(w, &f);
}

static bool same_run(const fv_plan_sweep *a, const fv_plan_sweep *b)
{
    return a->streamed == b->streamed && a->chunk == b->chunk && a->groups == b->groups &&
           a->runs == b->runs && a->partials == b->partials;
}

static fovea_status challenge_sweep(sweep_contest *c, part *of, const way *how, bool *changed)
{
    const fv_plan_sweep *challenger = &c->challenger.plan->chosen.sweep[of->sweep];
    const fv_contest contest = {.contestants = 2,
                                .rounds = ROUNDS,
                                .budget = BUDGET,
                                .threads = c->t->watched,
                                .run = run_sweep,
                                .ctx = c};
    fv_score score[2];
    bool right;
    if (same_run(&c->champion.plan->chosen.sweep[of->sweep], challenger))
        return FOVEA_OK;
    c->t->report.candidates++;
    c->sweep = of->sweep;
    FV_TRY(fv_contest_run(&contest, score));
    of->disturbed |= fv_tuner_disturbed(c->t, score);
    if (of->disturbed)
        return FOVEA_OK;
    of->seconds = score[0].seconds;
    if (!fv_score_beats(&score[1], FV_TUNE_BETTER))
        return FOVEA_OK;
    FV_TRY(exact(c, challenger, &right));
    if (!right) {
        c->t->report.wrong++;
        return FOVEA_OK;
    }
    of->seconds = score[1].seconds;
    of->won = *changed = true;
    of->how = *how;
    return put_way(c->best, c->t, of, how);
}

/* ---- challengers ---- */

/* Makes a plan in which every sweep runs as `how` specifies, except for sweeps that crashed an
 * earlier run in this way. Sets *fits to whether the plan fits the device and needs at most c->most
 * bytes. */
static fovea_status challenge(sweep_contest *c, const way *how, bool *fits)
{
    fv_wisdom *w;
    fovea_plan *p;
    *fits = false;
    FV_TRY(fv_tuner_copy(&w, c->best));
    fovea_status status = FOVEA_OK;
    for (uint32_t i = 0; i < c->parts && status == FOVEA_OK; i++)
        status = put_way(w, c->t, &c->part[i], how);
    FV_THEN(status, fv_tuner_plan(&p, c->t, w, true));
    if (status == FOVEA_OK) {
        *fits = fv_plan_activations(&p->info) <= c->most;
        fv_plan_free(p);
        if (*fits)
            status = fv_tuner_plan(&p, c->t, w, false);
        if (*fits && status == FOVEA_OK)
            status = fv_bench_rig_open(&c->challenger, p);
    }
    fv_wisdom_free(w);
    *fits = *fits && status == FOVEA_OK;
    if (status != FOVEA_ENOMEM && status != FOVEA_ENOTSUP && status != FOVEA_EINVAL)
        return status;
    c->t->report.refused++;
    return FOVEA_OK;
}

static fovea_status crown(sweep_contest *c)
{
    fovea_plan *p;
    fv_bench_rig_close(&c->champion);
    FV_TRY(fv_tuner_plan(&p, c->t, c->best, false));
    return fv_bench_rig_open(&c->champion, p);
}

static fovea_status try_way(sweep_contest *c, const way *how)
{
    bool fits, changed = false;
    char choice[FV_WISDOM_CHOICE];
    fv_wisdom_sweep_text(choice, how->streamed, how->chunk);
    FV_TRY(fv_journal_begin(c->t, choice, c->part->subject, sizeof *c->part, c->parts));
    fovea_status status = challenge(c, how, &fits);
    for (uint32_t i = 0; fits && i < c->parts && status == FOVEA_OK; i++)
        status = challenge_sweep(c, &c->part[i], how, &changed);
    fv_bench_rig_close(&c->challenger);
    FV_TRY(fv_journal_end(c->t));
    FV_TRY(status);
    return changed ? crown(c) : FOVEA_OK;
}

/* ---- the stage ---- */

/* Lists the distinct sweeps that can run in more than one way and about which wisdom has no fact.
 */
static fovea_status find_parts(sweep_contest *c)
{
    const fovea_plan *p = c->champion.plan;
    FV_TRY(FV_MEM_ARRAY(&c->part, p->cut.sweeps, FV_MEM_PLAN, "sweeps to tune"));
    for (uint32_t i = 0; i < p->cut.sweeps; i++) {
        part *next = &c->part[c->parts];
        if (p->chosen.sweep[i].alone || p->chosen.sweep[i].bands || p->chosen.sweep[i].rows == 1)
            continue;
        fv_advice_sweep_key(next->subject, &p->graph, &p->chosen.sweep[i], 0);
        uint32_t same = 0;
        while (strcmp(c->part[same].subject, next->subject) != 0)
            same++;
        if (same < c->parts)
            continue;
        if (fv_tuner_has(c->t, FV_FACT_SWEEP, next->subject)) {
            c->t->report.known++;
            continue;
        }
        next->sweep = i;
        c->parts++;
    }
    return FOVEA_OK;
}

/* Adds the winners to wisdom. If every way was tried, also adds the choices of the cost rules that
 * no challenger beat. */
static fovea_status remember(sweep_contest *c)
{
    for (uint32_t i = 0; i < c->parts; i++) {
        const part *p = &c->part[i];
        char choice[FV_WISDOM_CHOICE];
        if (p->disturbed || (!p->won && c->t->stopped))
            continue;
        if (p->won) {
            fv_wisdom_sweep_text(choice, p->how.streamed, p->how.chunk);
        } else {
            const fv_plan_sweep *w = &c->champion.plan->chosen.sweep[p->sweep];
            fv_wisdom_sweep_text(choice, w->streamed, w->target);
        }
        FV_TRY(fv_tuner_remember(c->t, FV_FACT_SWEEP, p->subject, choice, p->seconds));
    }
    return FOVEA_OK;
}

static fovea_status try_all(sweep_contest *c, const way *list, uint32_t count)
{
    for (uint32_t i = 0; i < count && fv_tuner_goes_on(c->t); i++) {
        FV_TRY(try_way(c, &list[i]));
        c->t->progress.done += (double)FV_TUNE_SWEEPS / count;
    }
    return FOVEA_OK;
}

static fovea_status run_contest(sweep_contest *c)
{
    const bool wide = c->champion.plan->limits.throughput;
    const way *list = wide ? throughput_ways : ways;
    uint32_t count =
        (uint32_t)(wide ? sizeof throughput_ways / sizeof *list : sizeof ways / sizeof *list);
    FV_TRY(find_parts(c));
    if (c->parts == 0)
        return FOVEA_OK;
    if (c->t->rigor != FOVEA_RIGOR_EXHAUSTIVE && count > MEASURE_WAYS)
        count = MEASURE_WAYS;
    c->t->progress.what = "schedules and chunks";
    c->most = MEMORY_FACTOR * fv_plan_activations(&c->champion.plan->info) + MEMORY_MORE;
    const fovea_status status = try_all(c, list, count);
    if (status == FOVEA_OK || c->t->stopped)
        FV_TRY(remember(c));
    return status;
}

fovea_status fv_tune_sweeps(fv_tuner *t)
{
    sweep_contest c = {.t = t};
    fovea_status status;
    if (!fv_tuner_schedules(t))
        return FOVEA_OK;
    FV_TRY(fv_tuner_copy(&c.best, t->known.wisdom));
    status = crown(&c);
    FV_THEN(status, run_contest(&c));
    fv_bench_rig_close(&c.champion);
    fv_mem_free(c.part);
    fv_wisdom_free(c.best);
    return status;
}
