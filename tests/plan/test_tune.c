/* test_tune.c: tests the tuner: contests, plans that use its results, interruption, the journal,
 * and failing allocations. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/tuning.h>

#include "base/mem.h"
#include "platform/os/os_machine.h"
#include "tests/fixture.h"
#include "tests/peek.h"
#include "tests/temp_folder.h"
#include "tune/contest.h"

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

/* ---- contests ---- */

typedef struct runners {
    double seconds[4]; /* of each */
    uint32_t runs[4], all;
    uint32_t fail_at; /* 0: never */
} runners;

/* Simulates a machine that becomes slower and has occasional outliers. */
static fovea_status run(void *ctx, uint32_t who, double *seconds)
{
    runners *r = ctx;
    r->runs[who]++;
    if (++r->all == r->fail_at)
        return fv_fail(FOVEA_EDEVICE, "the device fell over");
    *seconds = r->seconds[who] * (1 + r->all * 0.02) * (r->all % 17 == 0 ? 5 : 1);
    return FOVEA_OK;
}

static void contests(void **state)
{
    (void)state;
    runners r = {.seconds = {1.0, 0.9, 1.0, 3.0}};
    const fv_contest c = {.contestants = 4, .rounds = 9, .budget = 60, .run = run, .ctx = &r};
    fv_score score[4];
    succeed(fv_contest_run(&c, score));
    assert_true(fabs(score[0].ratio - 1) < 1e-9);
    assert_true(fabs(score[1].ratio - 0.9) < 0.05);
    assert_true(fabs(score[2].ratio - 1) < 0.05);
    assert_true(fv_score_beats(&score[1], 0.97) && !fv_score_beats(&score[1], 0.8));
    assert_false(fv_score_beats(&(fv_score){.ratio = 0.9, .rounds_won = 0.7}, 0.97));
    assert_true(fabs(score[3].ratio - 3) < 0.2);
    assert_true(r.runs[0] >= 10 &&
                r.runs[3] < r.runs[0]); /* the slow candidate was dropped early */

    r = (runners){.seconds = {1, 1, 1, 1}, .fail_at = 7};
    assert_int_equal(fv_contest_run(&c, score), FOVEA_EDEVICE);
}

/* ---- a busy machine ---- */

static uint32_t first_cpu(void)
{
    enum { MOST = 1024 };
    bool allowed[MOST];
    uint32_t cpu = 0;
    fv_machine_allowed(allowed, MOST);
    while (cpu + 1 < MOST && !allowed[cpu])
        cpu++;
    return cpu;
}

/* Takes half of the processor's time on which the contest runs. */
static void *intrude(void *payload)
{
    _Atomic uint32_t *go_on = payload;
    const uint32_t cpu = first_cpu();
    fv_machine_pin(&cpu, 1);
    while (*go_on)
        continue;
    return NULL;
}

static fovea_status compute(void *ctx, uint32_t who, double *seconds)
{
    const double begin = fv_machine_seconds();
    (void)ctx, (void)who;
    volatile uint32_t x = 1;
    for (uint32_t i = 0; i < 5000000; i++)
        x = x * 1664525u + 1013904223u;
    *seconds = fv_machine_seconds() - begin;
    return FOVEA_OK;
}

/* Runs in a separate thread, so that the test's own thread keeps its affinity. */
static void *measure_meanwhile(void *payload)
{
    fv_score *score = payload;
    const uint32_t cpu = first_cpu();
    const fv_contest c = {
        .contestants = 2, .rounds = 3, .budget = 60, .threads = 1, .run = compute};
    fv_machine_pin(&cpu, 1);
    succeed(fv_contest_run(&c, score));
    return NULL;
}

static void a_busy_machine_is_seen(void **state)
{
    (void)state;
    _Atomic uint32_t go_on = 1;
    fv_score score[2];
    pthread_t intruder, measuring;
    if (isnan(fv_machine_waited()))
        skip();
    assert_int_equal(pthread_create(&intruder, NULL, intrude, &go_on), 0);
    assert_int_equal(pthread_create(&measuring, NULL, measure_meanwhile, score), 0);
    pthread_join(measuring, NULL);
    go_on = 0;
    pthread_join(intruder, NULL);
    assert_true(score[0].disturbed && score[1].disturbed);
    assert_true(score[0].seconds > 0);
}

/* ---- a small model ---- */

typedef struct watch {
    int calls, stop_at; /* 0: never */
    size_t found;
    double last, total;
} watch;

static int look(const fovea_tune_progress *p, void *payload)
{
    watch *w = payload;
    assert_true(p->done <= p->total + 1e-6 && p->done >= w->last - 1e-6);
    assert_non_null(p->what);
    w->last = p->done;
    w->total = p->total;
    w->found = p->found;
    return ++w->calls == w->stop_at;
}

static fovea_status tune(fovea_tune_report *out, const fovea_model *model, fovea_device *device,
                         watch *w)
{
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    const fovea_plan_options plan = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    o.progress = w ? look : NULL;
    o.payload = w;
    return fovea_tune(out, model, device, &plan, &o);
}

static float worst(const float *a, const float *b, size_t n)
{
    float most = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(a[i] - b[i]));
        size = fmaxf(size, fabsf(a[i]));
    }
    return most / size;
}

static void plans_are_tuned(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(2);
    fovea_model *model = fixture_load();
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    watch w = {0};
    size_t n;
    fixture_draw();
    fovea_plan *before = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    succeed(tune(&report, model, device, &w));
    assert_true(report.complete && report.candidates > 0 && report.facts > 5);
    assert_int_equal(report.wrong, 0);
    assert_int_equal(report.refused, 0);
    assert_true(report.estimate_seconds > 0 && report.tuned_seconds > 0);
    assert_true(w.last == w.total && w.found == report.facts);

    fovea_plan *after = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    for (size_t i = 0; fovea_plan_step(after, i, &step); i++)
        assert_string_equal(step.source, "wisdom");
    float *a = fixture_run(before, &n), *b = fixture_run(after, &n);
    assert_true(worst(a, b, n) < 1e-4f);
    free(a);
    free(b);

    /* Tuning the same again measures nothing. */
    succeed(tune(&report, model, device, NULL));
    assert_int_equal(report.candidates, 0);
    assert_int_equal(report.facts, 0);
    assert_true(report.known > 0);
    fovea_plan_free(after);
    fovea_plan_free(before);
    fovea_wisdom_forget();
    fovea_model_free(model);
    fovea_device_close(device);
}

/* A plan with rigor tunes before it is made; a dry plan never does. */
static void rigor_of_options(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    fovea_model *model = fixture_load();
    fovea_plan *p;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_plan_options o = fixture_options("softmax", FOVEA_SCHEDULE_AUTO);
    o.rigor = FOVEA_RIGOR_MEASURE;
    o.dry = 1;
    succeed(fovea_plan_create(&p, model, device, &o));
    fovea_plan_free(p);
    assert_int_equal(fv_wisdom_count(fv_wisdom_global()), 0);
    o.dry = 0;
    succeed(fovea_plan_create(&p, model, device, &o));
    assert_true(fovea_plan_step(p, 0, &step));
    assert_string_equal(step.source, "wisdom");
    fovea_plan_free(p);
    fovea_wisdom_forget();

    o.rigor = (fovea_rigor)9;
    assert_int_equal(fovea_plan_create(&p, model, device, &o), FOVEA_EINVAL);
    setenv("FOVEA_RIGOR", "measure", 1);
    o.rigor = FOVEA_RIGOR_DEFAULT;
    o.tune_seconds = 1e-6; /* at once */
    succeed(fovea_plan_create(&p, model, device, &o));
    fovea_plan_free(p);
    setenv("FOVEA_RIGOR", "estimate", 1);
    fovea_model_free(model);
    fovea_device_close(device);
}

static fovea_attention_options attention(void)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = "linear:elu1";
    o.rows = 600;
    o.heads = 2;
    o.head_dim = o.value_dim = 16;
    return o;
}

static void operations(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(2);
    const fovea_attention_options o = attention();
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    fovea_plan *p;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    succeed(fovea_tune_attention(&report, device, &o, NULL));
    assert_true(report.complete && report.facts > 0);
    succeed(fovea_attention_plan_create(&p, device, &o));
    for (size_t i = 0; fovea_plan_step(p, i, &step); i++)
        assert_string_equal(step.source, "wisdom");
    fovea_plan_free(p);
    fovea_wisdom_forget();
    fovea_device_close(device);
}

static fovea_status no_sweep(void *ctx, const fv_fact *fact)
{
    (void)ctx;
    assert_int_not_equal(fact->kind, FV_FACT_SWEEP);
    assert_int_not_equal(fact->kind, FV_FACT_PLAN);
    return FOVEA_OK;
}

/* A sweep that the caller's options force is not stored in wisdom. */
static void own_ways_are_not_remembered(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    fovea_attention_options o = attention();
    o.chunk = 50;
    succeed(fovea_tune_attention(NULL, device, &o, NULL));
    assert_true(fv_wisdom_count(fv_wisdom_global()) > 0);
    succeed(fv_wisdom_each(fv_wisdom_global(), no_sweep, NULL));
    fovea_wisdom_forget();
    fovea_device_close(device);
}

/* A higher rigor measures known facts again. */
static void exhaustive(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    const fovea_attention_options op = attention();
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    succeed(fovea_tune_attention(&report, device, &op, &o));
    const uint32_t candidates = report.candidates;
    o.rigor = FOVEA_RIGOR_EXHAUSTIVE;
    succeed(fovea_tune_attention(&report, device, &op, &o));
    assert_true(report.complete && report.candidates >= candidates && report.known == 0);
    o.rigor = FOVEA_RIGOR_MEASURE;
    succeed(fovea_tune_attention(&report, device, &op, &o));
    assert_int_equal(report.candidates, 0);
    fovea_wisdom_forget();
    fovea_device_close(device);
}

static void stopped_at_any_time(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    const fovea_attention_options op = attention();
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    fovea_memory memory = FOVEA_MEMORY_INIT, later = FOVEA_MEMORY_INIT;
    watch all = {0};
    o.progress = look;
    o.payload = &all;
    succeed(fovea_tune_attention(&report, device, &op, &o));
    fovea_wisdom_forget();
    fovea_memory_query(&memory);
    uint32_t most = 0;
    for (int i = 0; i < 6; i++) { /* the number of calls depends on the clock */
        watch w = {.stop_at = 1 + i * all.calls / 10};
        o.payload = &w;
        succeed(fovea_tune_attention(&report, device, &op, &o));
        assert_int_equal(report.complete,
                         w.calls < w.stop_at); /* this run may have made fewer calls */
        assert_int_equal(fv_wisdom_count(fv_wisdom_global()), report.facts);
        most = report.facts > most ? report.facts : most;
        fovea_wisdom_forget();
        fovea_memory_query(&later);
        assert_int_equal(later.current, memory.current);
    }
    assert_true(most > 0);

    o.progress = NULL;
    o.seconds = 1e-6;
    succeed(fovea_tune_attention(&report, device, &op, &o));
    assert_false(report.complete);
    assert_int_equal(report.facts, 0);

    /* Everything that a time limit leaves has been compared with the estimate. */
    report.complete = 0;
    for (o.seconds = 0.01; !report.complete; o.seconds *= 1.5) {
        succeed(fovea_tune_attention(&report, device, &op, &o));
        assert_true(report.facts == 0 || report.tuned_seconds > 0);
        fovea_wisdom_forget();
    }
    fovea_device_close(device);
}

/* ---- the journal ---- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void journal(void **state)
{
    (void)state;
    char path[400], text[2048];
    fovea_device *device = fixture_device(1);
    fovea_attention_options o = attention();
    fovea_tune_options options = FOVEA_TUNE_OPTIONS_INIT;
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    fovea_plan *p;
    fovea_step_info usual = FOVEA_STEP_INFO_INIT, step = FOVEA_STEP_INFO_INIT;
    strcpy(path, in_folder("journal"));
    options.journal = path;
    succeed(fovea_tune_attention(&report, device, &o, &options));
    assert_int_equal(report.skipped, 0);
    assert_int_equal(access(path, F_OK), -1); /* every candidate finished */
    fovea_wisdom_forget();

    /* Simulates a process that died while it tried the estimated best kernel of the first step. */
    succeed(fovea_attention_plan_create(&p, device, &o));
    assert_true(fovea_plan_step(p, 0, &usual));
    char subject[FV_WISDOM_SUBJECT], choice[FV_WISDOM_CHOICE];
    fv_wisdom_problem_key(subject, &p->graph.step[0].prob, 0);
    fv_wisdom_kernel_text(choice, p->chosen.step[0].kernel, &p->chosen.step[0].knobs);
    snprintf(text, sizeof text, "fovea wisdom 1\nskip\t%s\t%s\t%s\tmeasure\t0\t1\n",
             p->advice.device, subject, choice);
    write_file(path, text);
    succeed(fovea_tune_attention(&report, device, &o, &options));
    fovea_plan_free(p);
    assert_int_equal(report.skipped, 1);
    succeed(fovea_attention_plan_create(&p, device, &o));
    assert_true(fovea_plan_step(p, 0, &step));
    assert_string_not_equal(step.kernel, usual.kernel);
    fovea_plan_free(p);
    assert_int_equal(access(path, F_OK),
                     0); /* the journal stays until the tuning process saves its wisdom */

    write_file(path, "something else\n");
    assert_int_equal(fovea_tune_attention(&report, device, &o, &options), FOVEA_EWISDOM);
    options.journal = in_folder("no/such/folder");
    fovea_wisdom_forget();
    assert_int_equal(fovea_tune_attention(&report, device, &o, &options), FOVEA_EIO);
    fovea_wisdom_forget();
    fovea_device_close(device);
}

/* Begins another tuner of the same journal while a candidate is recorded in it. */
struct rival {
    fovea_device *device;
    fovea_attention_options *op;
    fovea_tune_options options;
    fovea_tune_report report;
    fovea_status status;
    bool met;
};

static int meet(const fovea_tune_progress *progress, void *payload)
{
    struct rival *r = payload;
    (void)progress;
    if (r->met || access(r->options.journal, F_OK) != 0)
        return 0;
    r->met = true;
    r->status = fovea_tune_attention(&r->report, r->device, r->op, &r->options);
    return 0;
}

static void two_tuners_of_one_journal(void **state)
{
    (void)state;
    char path[400];
    fovea_attention_options o = attention();
    fovea_tune_options options = FOVEA_TUNE_OPTIONS_INIT;
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    strcpy(path, in_folder("shared"));
    options.journal = path;
    struct rival rival = {.device = fixture_device(1),
                          .op = &o,
                          .options = options,
                          .report = FOVEA_TUNE_REPORT_INIT};
    options.progress = meet;
    options.payload = &rival;
    fovea_wisdom_forget();
    succeed(fovea_tune_attention(&report, rival.device, &o, &options));
    assert_true(rival.met);
    succeed(rival.status);
    assert_int_equal(rival.report.skipped,
                     0); /* candidates of a running tuner do not count as crashed */
    assert_int_equal(report.skipped, 0);
    assert_int_equal(access(path, F_OK), -1);
    strcat(path, ".lock");
    assert_int_equal(access(path, F_OK), -1);
    fovea_wisdom_forget();
    fovea_device_close(rival.device);
}

/* ---- memory ---- */

/* Any failing allocation is reported, leaks nothing and leaves a usable store. */
static void out_of_memory(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    fovea_attention_options o = attention();
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    o.rows = 8;
    fv_mem_fail_at(0);
    succeed(fovea_tune_attention(NULL, device, &o, NULL));
    const uint64_t made = fv_mem_fail_at(0);
    assert_true(made > 100);
    fovea_wisdom_forget();
    fovea_memory_query(&before);
    for (uint64_t n = 1; n <= made; n += n < 25 ? 1 : 1 + made / 15) {
        fv_mem_fail_at(n);
        const fovea_status status = fovea_tune_attention(NULL, device, &o, NULL);
        fv_mem_fail_at(0);
        if (status != FOVEA_OK && status != FOVEA_ENOMEM)
            fail_msg("allocation %u: %s", (unsigned)n, fovea_error());
        fovea_wisdom_forget();
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
    }
    fovea_device_close(device);
}

int main(void)
{
    setenv("FOVEA_TUNE_BUSY", "keep", 1); /* the machine runs other tests at the same time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contests),
        cmocka_unit_test(a_busy_machine_is_seen),
        cmocka_unit_test(plans_are_tuned),
        cmocka_unit_test(rigor_of_options),
        cmocka_unit_test(operations),
        cmocka_unit_test(journal),
        cmocka_unit_test(two_tuners_of_one_journal),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(stopped_at_any_time),
        cmocka_unit_test(exhaustive),
        cmocka_unit_test(own_ways_are_not_remembered),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
