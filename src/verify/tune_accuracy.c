/* tune_accuracy.c: finds which products of a model have to stay bfloat16, or float32, so that the
 * cosine of its outputs with those in float32 is not below a bound, and which choice of types
 * within the bound is fastest. For every product that can be int8, a trial has this product in
 * bfloat16 and all others in int8. Products are sorted by how much their trial raises the cosine.
 * Bisection then finds the smallest number of products, from the front of the list, that have to
 * stay bfloat16 to meet the bound. */
#include <stdlib.h>

#include "base/abi.h"
#include "base/mem.h"
#include "plan/frame_plan.h"
#include "platform/os/os_machine.h"
#include "tune/bench_rig.h"
#include "tune/tune.h"
#include "tune/tuner.h"
#include "verify/accuracy.h"

_Static_assert(FV_PRODUCTS == FOVEA_PRODUCTS, "reports list as many as a plan can keep");

#define SEARCH 0.8 /* share of the time limit for the search; the rest is for timing */
#define ROUNDS 9
#define BUDGET 10.0 /* seconds of the contest */

/* Types of products that are compared; WAY_MIX is int8 with some products in bfloat16. */
enum { WAY_F32, WAY_BF16, WAY_INT8, WAY_MIX, WAYS };

typedef struct product {
    uint32_t number, step;
    const char *label; /* label of its step in the dry plan */
    double gain;       /* increase of the cosine if only this product stays bfloat16 */
} product;

typedef struct search {
    fv_tuner tuner;
    fovea_plan_options plan; /* compute is AUTO: a fact in `store` has the types of products */
    fv_wisdom *store;        /* the known facts, and the types of the current trial */
    char subject[FV_WISDOM_SUBJECT];
    fv_accuracy_frames frames;
    double bound;
    fovea_plan *listed; /* dry plan with all products in int8 */
    product *product;
    uint32_t products, enough; /* number of products, and number of products from the front that
                                  stay bfloat16 in the mix */
    fovea_plan *kept[2]; /* plans in bfloat16 and in int8, whose packed weights the trials share */
    fv_product_choice way[WAYS];
    fovea_accuracy result[WAYS];
} search;

/* ---- plans ---- */

static fovea_status make_plan(fovea_plan **out, search *s, const fv_product_choice *way, bool dry)
{
    char choice[FV_WISDOM_CHOICE];
    fv_wisdom_products_text(choice, way);
    const fv_fact fact = fv_tuner_fact(&s->tuner, FV_FACT_PRODUCTS, s->subject, choice);
    FV_TRY(fv_wisdom_put(s->store, &fact));
    s->plan.dry = dry;
    return fv_frame_plan(out, s->tuner.model, s->tuner.device, &s->plan, s->store);
}

/* Sets the subject of the fact that the search will find, which depends on an emitted plan's
 * options. */
static fovea_status name_subject(search *s)
{
    fovea_plan *p;
    fv_builder b;
    fovea_plan_options options = s->plan;
    options.compute = FOVEA_COMPUTE_F32;
    FV_TRY(fv_frame_emit(&p, &b, s->tuner.model, s->tuner.device, &options, NULL, NULL));
    fv_advice_products_key(s->subject, s->tuner.model, &p->options);
    fv_plan_free(p);
    return FOVEA_OK;
}

/* Returns whether a step is an int8 product. Softmax attention is not counted, because its keys are
 * quantised, and counted, in an earlier step. */
static bool is_product(const fv_problem *p)
{
    return p->acc == FV_I32 && p->op != FV_OP_SOFTMAX && p->op != FV_OP_FOVEATED;
}

/* Lists the int8 products in the order in which they are emitted, without those that no output
 * needs. */
static fovea_status list_products(search *s)
{
    FV_TRY(make_plan(&s->listed, s, &s->way[WAY_INT8], true));
    const fv_graph *g = &s->listed->graph;
    FV_TRY(FV_MEM_ARRAY(&s->product, g->products, FV_MEM_PLAN, "a list of products"));
    for (uint32_t i = 0, number = 0, live = 0; i < g->steps; i++) {
        const fv_step *step = &g->step[i];
        const bool int8 = is_product(&step->prob);
        if (int8 && !step->dead && number < FV_PRODUCTS)
            s->product[s->products++] = (product){number, live, step->label, 0};
        number += int8;
        live += !step->dead;
    }
    return FOVEA_OK;
}

/* ---- trials ---- */

static bool meets(const search *s, const fovea_accuracy *a)
{
    return a->tried && a->cosine >= s->bound;
}

/* Reports that `what` begins. Returns FOVEA_ETIMEOUT if the search must stop. */
static fovea_status begin(search *s, const char *what)
{
    s->tuner.progress.what = what;
    return fv_tuner_goes_on(&s->tuner) ? FOVEA_OK : FOVEA_ETIMEOUT;
}

static fovea_status try(search *s, const char *what, const fv_product_choice *way,
                        fovea_accuracy *out)
{
    fovea_plan *p;
    FV_TRY(begin(s, what));
    FV_TRY(make_plan(&p, s, way, false));
    const fovea_status status = fv_accuracy_run(&s->frames, p, out);
    fv_plan_free(p);
    s->tuner.progress.done++;
    return status;
}

static fovea_status try_float32(search *s, const fovea_frame *frame, size_t frames)
{
    fovea_plan *p;
    FV_TRY(begin(s, "float32"));
    FV_TRY(make_plan(&p, s, &s->way[WAY_F32], false));
    const fovea_status status = fv_accuracy_open(&s->frames, p, frame, frames, &s->result[WAY_F32]);
    fv_plan_free(p);
    s->tuner.progress.done++;
    return status;
}

/* ---- the mix ---- */

static int by_gain(const void *a, const void *b)
{
    const product *x = a, *y = b;
    if (x->gain != y->gain)
        return x->gain > y->gain ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static fovea_status measure_gains(search *s)
{
    for (uint32_t i = 0; i < s->products; i++) {
        fv_product_choice but_one = s->way[WAY_INT8];
        fovea_accuracy a;
        fv_products_add(&but_one.bf16, s->product[i].number);
        FV_TRY(try(s, s->product[i].label, &but_one, &a));
        s->product[i].gain = a.cosine - s->result[WAY_INT8].cosine;
    }
    qsort(s->product, s->products, sizeof *s->product, by_gain);
    return FOVEA_OK;
}

/* Finds the mix. Called if the bound is met with all products in bfloat16, but not with all in
 * int8. */
static fovea_status find_mix(search *s)
{
    uint32_t misses = 0, enough = s->products;
    FV_TRY(measure_gains(s));
    while (enough - misses > 1) {
        const uint32_t n = misses + (enough - misses) / 2;
        fv_product_choice mix = s->way[WAY_INT8];
        fovea_accuracy a;
        for (uint32_t i = 0; i < n; i++)
            fv_products_add(&mix.bf16, s->product[i].number);
        FV_TRY(try(s, "fewer products in bfloat16", &mix, &a));
        if (meets(s, &a)) {
            enough = s->enough = n;
            s->way[WAY_MIX] = mix;
            s->result[WAY_MIX] = a;
        } else {
            misses = n;
        }
    }
    return FOVEA_OK;
}

static fovea_status try_all(search *s, const fovea_frame *frame, size_t frames)
{
    FV_TRY(list_products(s));
    s->tuner.progress.total = 4 + s->products;
    for (uint32_t n = s->products; n > 1; n /= 2)
        s->tuner.progress.total++;
    FV_TRY(try_float32(s, frame, frames));
    FV_TRY(make_plan(&s->kept[0], s, &s->way[WAY_BF16], false));
    FV_TRY(try(s, "bfloat16", &s->way[WAY_BF16], &s->result[WAY_BF16]));
    if (!s->products)
        return FOVEA_OK;
    FV_TRY(make_plan(&s->kept[1], s, &s->way[WAY_INT8], false));
    FV_TRY(try(s, "int8", &s->way[WAY_INT8], &s->result[WAY_INT8]));
    if (meets(s, &s->result[WAY_INT8]) || !meets(s, &s->result[WAY_BF16]))
        return FOVEA_OK;
    return find_mix(s);
}

/* ---- the fastest way ---- */

typedef struct race {
    search *s;
    uint32_t way[WAYS];
    fv_bench_rig rig[WAYS];
    uint32_t count;
} race;

static fovea_status run_way(void *ctx, uint32_t who, double *seconds)
{
    race *r = ctx;
    FV_TRY(begin(r->s, "which is fastest"));
    return fv_bench_rig_run(&r->rig[who], 0, r->rig[who].plan->cut.sweeps, seconds);
}

static fovea_status hold_race(race *r)
{
    const double end = r->s->tuner.end;
    fv_contest contest = {
        .contestants = r->count, .rounds = ROUNDS, .budget = BUDGET, .run = run_way, .ctx = r};
    fv_score score[WAYS];
    if (end > 0) {
        const double left = end - fv_machine_seconds();
        contest.min_rounds = 1;
        contest.budget = left < BUDGET ? left : BUDGET;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        fovea_plan *p;
        FV_TRY(make_plan(&p, r->s, &r->s->way[r->way[i]], false));
        FV_TRY(fv_bench_rig_open(&r->rig[i], p));
    }
    FV_TRY(fv_contest_run(&contest, score));
    for (uint32_t i = 0; i < r->count; i++)
        r->s->result[r->way[i]].seconds = score[i].seconds;
    return FOVEA_OK;
}

/* Times the ways within the bound again by interleaved frames, because their first times were
 * measured one after another. */
static fovea_status time_ways(search *s)
{
    race r = {.s = s};
    for (uint32_t i = 0; i < WAYS; i++)
        if (meets(s, &s->result[i]))
            r.way[r.count++] = i;
    const fovea_status status = r.count > 1 ? hold_race(&r) : FOVEA_OK;
    for (uint32_t i = 0; i < r.count; i++)
        fv_bench_rig_close(&r.rig[i]);
    return status;
}

/* Returns the fastest way within the bound. A less accurate way must be faster by more than noise.
 */
static uint32_t fastest(const search *s)
{
    uint32_t best = WAY_F32;
    for (uint32_t i = 0; i < WAYS; i++)
        if (meets(s, &s->result[i]) &&
            s->result[i].seconds < FV_TUNE_BETTER * s->result[best].seconds)
            best = i;
    return best;
}

/* ---- the whole search ---- */

static fovea_status remember(search *s, fovea_accuracy_report *report)
{
    const uint32_t best = fastest(s);
    fv_product_choice *way = &s->way[best];
    char choice[FV_WISDOM_CHOICE];
    bool any = !s->tuner.stopped;
    for (uint32_t i = WAY_BF16; i < WAYS; i++)
        any |= meets(s, &s->result[i]);
    if (!any)
        return FOVEA_OK;
    way->cosine = s->result[best].cosine;
    way->worst = s->result[best].worst;
    way->bound = s->bound;
    fv_wisdom_products_text(choice, way);
    FV_TRY(fv_tuner_remember(&s->tuner, FV_FACT_PRODUCTS, s->subject, choice,
                             s->result[best].seconds));
    report->compute = way->compute;
    report->found = 1;
    return FOVEA_OK;
}

static fovea_status run_search(search *s, fovea_accuracy_report *report, const fovea_frame *frame,
                               size_t frames)
{
    fv_tuner *t = &s->tuner;
    FV_TRY(name_subject(s));
    FV_TRY(fv_tuner_copy(&s->store, t->known.wisdom));
    fovea_status status = try_all(s, frame, frames);
    if (status == FOVEA_ETIMEOUT && t->late)
        status = FOVEA_OK;
    if (status == FOVEA_OK) {
        t->deadline = 0;
        t->stopped = false;
        status = time_ways(s);
    }
    t->stopped |= t->late;
    if (status != FOVEA_ETIMEOUT || !t->stopped)
        FV_TRY(status);
    FV_TRY(remember(s, report));
    report->complete = !t->stopped;
    report->products = s->products;
    for (uint32_t i = 0; i < s->enough; i++)
        report->bf16_steps[report->bf16_count++] = s->product[i].step;
    report->f32 = s->result[WAY_F32];
    report->bf16 = s->result[WAY_BF16];
    report->int8 = s->result[WAY_INT8];
    report->mixed = s->result[WAY_MIX];
    t->progress.done = t->progress.total;
    fv_tuner_goes_on(t);
    return FOVEA_OK;
}

static fovea_status tune(fovea_accuracy_report *report, search *s, const fovea_frame *frame,
                         size_t frames)
{
    fv_tuner *t = &s->tuner;
    fv_limits limits;
    t->device->backend->limits(t->device->device, &limits);
    fv_advice_begin(&t->known, fv_wisdom_global(), t->device, limits.threads);
    if (t->options->seconds > 0) {
        const double now = fv_machine_seconds();
        t->deadline = now + SEARCH * t->options->seconds;
        t->end = now + t->options->seconds;
    }
    const fovea_status status = run_search(s, report, frame, frames);
    for (int i = 0; i < 2; i++)
        fv_plan_free(s->kept[i]);
    fv_plan_free(s->listed);
    fv_mem_free(s->product);
    fv_accuracy_close(&s->frames);
    fv_wisdom_free(s->store);
    return status;
}

static fovea_status check(const fovea_plan_options *plan, size_t n_frames, double bound)
{
    if (n_frames == 0)
        return fv_fail(FOVEA_EINVAL, "there are no frames to measure accuracy on; pass some that "
                                     "are typical of the application");
    if (!(bound > 0 && bound < 1))
        return fv_fail(FOVEA_EINVAL,
                       "the bound is %g; it must be a cosine between 0 and 1, such as 0.9995",
                       bound);
    if (plan->weights != FOVEA_DTYPE_F32 || plan->activations != FOVEA_DTYPE_F32)
        return fv_fail(FOVEA_EINVAL, "the types of products decide how weights and activations are "
                                     "stored; leave their types at FOVEA_DTYPE_F32");
    return FOVEA_OK;
}

fovea_status fovea_tune_accuracy(fovea_accuracy_report *out, const fovea_model *model,
                                 fovea_device *device, const fovea_plan_options *plan,
                                 const fovea_frame *frames, size_t n_frames, double bound,
                                 const fovea_tune_options *options)
{
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    fovea_accuracy_report report = FOVEA_ACCURACY_REPORT_INIT;
    search s = {.bound = bound,
                .way = {[WAY_F32] = {.compute = FOVEA_COMPUTE_F32},
                        [WAY_BF16] = {.compute = FOVEA_COMPUTE_BF16},
                        [WAY_INT8] = {.compute = FOVEA_COMPUTE_INT8},
                        [WAY_MIX] = {.compute = FOVEA_COMPUTE_INT8}}};
    fovea_preprocess rule;
    FV_TRY(fv_require(model, "the model"));
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(fv_require(plan, "the plan's options"));
    FV_TRY(FV_ABI_CHECK(out, FOVEA_ACCURACY_REPORT_INIT));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_TUNE_OPTIONS_INIT));
    FV_TRY(fv_plan_options(&s.plan, &rule, plan));
    FV_TRY(check(&s.plan, frames ? n_frames : 0, bound));
    s.plan.compute = FOVEA_COMPUTE_AUTO;
    s.plan.on_device_lost = FOVEA_DEVICE_LOST_FAIL;
    s.tuner.device = device;
    s.tuner.model = model;
    s.tuner.plan = &s.plan;
    s.tuner.options = &o;
    s.tuner.progress.struct_size = sizeof s.tuner.progress;
    s.tuner.progress.what = "";
    FV_TRY(fv_tune_rigor(&s.tuner.rigor, o.rigor));
    if (s.tuner.rigor < FOVEA_RIGOR_MEASURE)
        s.tuner.rigor = FOVEA_RIGOR_MEASURE;
    FV_TRY(tune(&report, &s, frames, n_frames));
    return FV_ABI_WRITE(out, report, FOVEA_ACCURACY_REPORT_INIT);
}
