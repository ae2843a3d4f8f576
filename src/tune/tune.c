/* tune.c: runs the tuner's stages, contains the functions that they share, and tunes before a plan
 * is made if the plan's options ask for it. */
#include "tune/tune.h"

#include "tune/tuner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/abi.h"
#include "base/num.h"
#include "plan/frame_plan.h"
#include "plan/op_plan.h"
#include "platform/os/os_machine.h"

#define SEARCH                                                                                     \
    0.8 /* share of the time limit for the first two stages; the rest is for whole plans */

/* ---- functions that the stages share ---- */

bool fv_tuner_goes_on(fv_tuner *t)
{
    t->progress.found = t->report.facts;
    if (t->deadline > 0 && fv_machine_seconds() > t->deadline)
        t->stopped = t->late = true;
    if (!t->stopped && t->options->progress &&
        t->options->progress(&t->progress, t->options->payload))
        t->stopped = true;
    return !t->stopped;
}

fovea_status fv_tuner_plan(fovea_plan **out, fv_tuner *t, fv_wisdom *wisdom, bool dry)
{
    if (t->op)
        return fv_op_plan(out, t->device, t->op, NULL, wisdom);
    fovea_plan_options options = *t->plan;
    options.dry = dry;
    return fv_frame_plan(out, t->model, t->device, &options, wisdom);
}

fv_fact fv_tuner_fact(const fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                      const char *choice)
{
    return (fv_fact){.kind = (uint8_t)kind,
                     .rigor = (uint8_t)t->rigor,
                     .known = true,
                     .device = t->known.device,
                     .subject = subject,
                     .choice = choice,
                     .date = (uint64_t)time(NULL)};
}

fovea_status fv_tuner_remember(fv_tuner *t, enum fv_fact_kind kind, const char *subject,
                               const char *choice, double seconds)
{
    fv_answer old;
    fv_fact f = fv_tuner_fact(t, kind, subject, choice);
    f.seconds = seconds;
    /* A fact that replaces a more rigorous one keeps the higher rigor, so that it also replaces
     * that fact in a file. */
    const bool replaces = fv_wisdom_find(t->known.wisdom, kind, t->known.device, subject, &old) &&
                          old.rigor >= t->rigor;
    if (replaces)
        f.rigor = (uint8_t)old.rigor;
    else /* a fact is counted only once if the comparison of whole plans replaces it */
        t->report.facts++;
    t->changed = true;
    return fv_wisdom_put(t->known.wisdom, &f);
}

fovea_status fv_tuner_skip(fv_tuner *t, const char *subject, const char *choice)
{
    const fv_fact f = fv_tuner_fact(t, FV_FACT_SKIP, subject, choice);
    FV_TRY(fv_wisdom_put(t->estimate.wisdom, &f));
    return fv_wisdom_put(t->known.wisdom, &f);
}

bool fv_tuner_disturbed(fv_tuner *t, const fv_score *score)
{
    if (score->disturbed && t->report.disturbed++ == 0)
        fv_log("tuning: other programs use the processors; measurements are discarded meanwhile");
    return score->disturbed;
}

bool fv_tuner_has(const fv_tuner *t, enum fv_fact_kind kind, const char *subject)
{
    fv_answer answer;
    return fv_wisdom_find(t->known.wisdom, kind, t->known.device, subject, &answer) &&
           answer.rigor >= t->rigor;
}

bool fv_tuner_schedules(const fv_tuner *t)
{
    if (t->op)
        return t->op->schedule == FOVEA_SCHEDULE_AUTO && !t->op->chunk && !t->op->memory_limit;
    return t->plan->schedule == FOVEA_SCHEDULE_AUTO && !t->plan->chunk && !t->plan->memory_limit;
}

static fovea_status copy(void *to, const fv_fact *fact)
{
    return fv_wisdom_put(to, fact);
}

/* Copies the facts that this tuner does not choose: candidates to skip, and the types of products.
 */
static fovea_status copy_given(void *to, const fv_fact *fact)
{
    const bool given = fact->kind == FV_FACT_SKIP || fact->kind == FV_FACT_PRODUCTS;
    return given ? fv_wisdom_put(to, fact) : FOVEA_OK;
}

fovea_status fv_tuner_copy(fv_wisdom **out, fv_wisdom *from)
{
    fv_wisdom *w;
    FV_TRY(fv_wisdom_create(&w));
    FV_RETURN_MADE(out, w, fv_wisdom_free, fv_wisdom_each(from, copy, w));
}

/* ---- running the tuner ---- */

/* Runs a stage. A stage that was stopped in the middle of a contest has not failed. */
static fovea_status run_stage(fv_tuner *t, fovea_status (*run)(fv_tuner *))
{
    const fovea_status status = fv_tuner_goes_on(t) ? run(t) : FOVEA_OK;
    return status == FOVEA_ETIMEOUT && t->stopped ? FOVEA_OK : status;
}

static fovea_status tune_stages(fv_tuner *t)
{
    FV_TRY(fv_journal_open(t));
    FV_TRY(fv_wisdom_each(t->known.wisdom, copy_given, t->estimate.wisdom));
    FV_TRY(run_stage(t, fv_tune_steps));
    t->progress.done = FV_TUNE_STEPS;
    FV_TRY(run_stage(t, fv_tune_sweeps));
    t->progress.done = FV_TUNE_STEPS + FV_TUNE_SWEEPS;
    /* If only the deadline stopped the search, a plan with the facts found so far is still compared
     * with the estimate's. */
    t->stopped &= !t->late;
    t->deadline = 0;
    FV_TRY(run_stage(t, fv_tune_whole));
    t->progress.done = t->progress.total;
    fv_tuner_goes_on(t);
    return FOVEA_OK;
}

/* Returns the number of threads whose waits for a processor discard a measurement. Returns 0 on a
 * GPU, with more threads than processors, and if FOVEA_TUNE_BUSY=keep asks to keep all
 * measurements. */
static uint32_t watched(const fv_limits *limits)
{
    enum { MOST = 1024 };
    bool allowed[MOST];
    uint32_t cpus = 0;
    const char *keep = getenv("FOVEA_TUNE_BUSY");
    if (limits->throughput || (keep && strcmp(keep, "keep") == 0))
        return 0;
    fv_machine_allowed(allowed, MOST);
    for (uint32_t i = 0; i < MOST; i++)
        cpus += allowed[i];
    return limits->threads <= cpus ? limits->threads : 0;
}

static fovea_status tune(fv_tuner *t)
{
    fv_limits limits;
    fv_wisdom *estimate = NULL;
    const double begin = fv_machine_seconds();
    t->device->backend->limits(t->device->device, &limits);
    t->watched = watched(&limits);
    if (t->options->seconds > 0) {
        t->deadline = begin + SEARCH * t->options->seconds;
        t->end = begin + t->options->seconds;
    }
    t->progress.what = "";
    t->progress.total = FV_TUNE_STEPS + FV_TUNE_SWEEPS + FV_TUNE_WHOLE;
    fovea_status status = fv_wisdom_create(&estimate);
    fv_advice_begin(&t->known, fv_wisdom_global(), t->device, limits.threads);
    fv_advice_begin(&t->estimate, estimate, t->device, limits.threads);
    FV_THEN(status, fv_wisdom_create(&t->crashed));
    FV_THEN(status, tune_stages(t));
    fv_journal_close(t);
    fv_wisdom_free(t->crashed);
    fv_wisdom_free(estimate);
    t->report.complete = status == FOVEA_OK && !t->stopped && !t->late;
    return status;
}

/* Runs the tuner, all of whose fields except the rigor are set. */
static fovea_status run_tuner(fovea_tune_report *out, fv_tuner *t)
{
    FV_TRY(fv_tune_rigor(&t->rigor, t->options->rigor));
    if (t->rigor < FOVEA_RIGOR_MEASURE)
        t->rigor = FOVEA_RIGOR_MEASURE;
    t->progress.struct_size = sizeof t->progress;
    const fovea_status status = tune(t);
    FV_TRY(FV_ABI_WRITE(out, t->report, FOVEA_TUNE_REPORT_INIT));
    return status;
}

fovea_status fovea_tune(fovea_tune_report *out, const fovea_model *model, fovea_device *device,
                        const fovea_plan_options *plan, const fovea_tune_options *options)
{
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    fovea_plan_options of_plan;
    fovea_preprocess rule;
    FV_TRY(FV_ABI_CHECK(out, FOVEA_TUNE_REPORT_INIT));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_TUNE_OPTIONS_INIT));
    FV_TRY(fv_plan_options(&of_plan, &rule, plan));
    fv_tuner t = {.device = device, .model = model, .plan = &of_plan, .options = &o};
    return run_tuner(out, &t);
}

static fovea_status tune_op(fovea_tune_report *out, fovea_device *device, const fv_op_options *op,
                            const fovea_tune_options *options)
{
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    FV_TRY(FV_ABI_CHECK(out, FOVEA_TUNE_REPORT_INIT));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_TUNE_OPTIONS_INIT));
    fv_tuner t = {.device = device, .op = op, .options = &o};
    return run_tuner(out, &t);
}

fovea_status fovea_tune_attention(fovea_tune_report *out, fovea_device *device,
                                  const fovea_attention_options *attention,
                                  const fovea_tune_options *options)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    FV_TRY(FV_ABI_READ(o, attention, FOVEA_ATTENTION_OPTIONS_INIT));
    const fv_op_options op = fv_op_of_attention(&o);
    return tune_op(out, device, &op, options);
}

fovea_status fovea_tune_gemm(fovea_tune_report *out, fovea_device *device,
                             const fovea_gemm_options *gemm, const fovea_tune_options *options)
{
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    FV_TRY(FV_ABI_READ(o, gemm, FOVEA_GEMM_OPTIONS_INIT));
    const fv_op_options op = fv_op_of_gemm(&o);
    return tune_op(out, device, &op, options);
}

/* ---- for plans ---- */

fovea_status fv_tune_rigor(fovea_rigor *out, fovea_rigor asked)
{
    static const char *const names[] = {"", "estimate", "measure", "exhaustive"};
    FV_TRY(fv_known("rigor", (int)asked, FOVEA_RIGOR_EXHAUSTIVE));
    *out = asked;
    if (asked != FOVEA_RIGOR_DEFAULT)
        return FOVEA_OK;
    const char *name = getenv("FOVEA_RIGOR");
    const int known = name ? fv_index_of(name, names, FOVEA_RIGOR_EXHAUSTIVE + 1) : -1;
    *out = known > 0 ? (fovea_rigor)known : FOVEA_RIGOR_ESTIMATE;
    if (name && *name && known < 0)
        fv_log("FOVEA_RIGOR=%s must be estimate, measure or exhaustive; estimate is used", name);
    return FOVEA_OK;
}

fovea_status fv_tune_for(const fovea_model *model, fovea_device *device,
                         const fovea_plan_options *plan, const fv_op_options *op)
{
    fovea_tune_options options = FOVEA_TUNE_OPTIONS_INIT;
    FV_TRY(fv_tune_rigor(&options.rigor, op ? op->rigor : plan->rigor));
    options.seconds = op ? op->tune_seconds : plan->tune_seconds;
    if (options.rigor == FOVEA_RIGOR_ESTIMATE || (plan && plan->dry))
        return FOVEA_OK;
    fv_tuner t = {.device = device, .model = model, .plan = plan, .op = op, .options = &options};
    return run_tuner(NULL, &t);
}
