/* test_tune_accuracy.c: tests the search for products' types that are accurate enough: what it
 * finds, what it keeps when it is stopped, and failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/tuning.h>

#include "base/mem.h"
#include "tests/fixture.h"
#include "tests/peek.h"

static fovea_device *device;
static fovea_model *model;
static const fovea_frame frame = {.pixels = {fixture_pixels}};

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

static fovea_plan_options options(void)
{
    static const char *const names[] = {"last_hidden_state"};
    fovea_plan_options o = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    o.outputs = names;
    o.n_outputs = 1;
    o.compute = FOVEA_COMPUTE_BF16; /* neither this value nor `dry` affects the search */
    o.dry = 1;
    return o;
}

static fovea_status tune(fovea_accuracy_report *out, double bound, const fovea_tune_options *how)
{
    const fovea_plan_options o = options();
    const fovea_frame frames[] = {frame, frame};
    return fovea_tune_accuracy(out, model, device, &o, frames, 2, bound, how);
}

static fovea_accuracy_report found(double bound)
{
    fovea_accuracy_report r = FOVEA_ACCURACY_REPORT_INIT;
    succeed(tune(&r, bound, NULL));
    assert_true(r.found && r.complete);
    return r;
}

/* Returns the info of a plan with FOVEA_COMPUTE_AUTO. */
static fovea_plan_info planned(void)
{
    fovea_plan *p;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan_options o = options();
    o.compute = FOVEA_COMPUTE_AUTO;
    succeed(fovea_plan_create(&p, model, device, &o));
    succeed(fovea_plan_query(p, &info));
    fovea_plan_free(p);
    return info;
}

static void bounds(void **state)
{
    (void)state;
    fovea_wisdom_forget();
    assert_string_equal(planned().compute_source, "device");
    fovea_accuracy_report r = found(0.5);
    assert_true(r.f32.tried && r.f32.cosine == 1 && r.f32.worst == 1 && r.f32.seconds > 0);
    assert_true(r.bf16.tried && r.bf16.cosine < 1 && r.bf16.worst <= r.bf16.cosine);
    assert_true(r.int8.tried && r.int8.cosine < r.bf16.cosine && r.int8.worst <= r.int8.cosine);
    assert_true(r.products > 0 && !r.mixed.tried);
    assert_int_equal(planned().compute, r.compute);
    assert_string_equal(planned().compute_source, "wisdom");

    /* For a bound between the cosines of int8 and bfloat16, a mix is searched, and not all products
     * stay bfloat16. */
    const double between = (r.int8.cosine + r.bf16.cosine) / 2;
    r = found(between);
    assert_true(r.mixed.tried ? r.mixed.cosine >= between && r.bf16_count > 0 : r.bf16_count == 0);
    assert_true(r.bf16_count < r.products);
    assert_true(r.compute != FOVEA_COMPUTE_INT8 || r.mixed.tried);

    r = found(1 - 1e-12);
    assert_int_equal(r.compute, FOVEA_COMPUTE_F32);
    assert_int_equal(planned().compute, FOVEA_COMPUTE_F32);
    assert_string_equal(planned().compute_source, "wisdom");
}

static void refused(void **state)
{
    (void)state;
    fovea_plan_options o = options();
    const double wrong[] = {0, 1, -0.5, 1.5, (double)(0.0f / 0.0f)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(fovea_tune_accuracy(NULL, model, device, &o, &frame, 1, wrong[i], NULL),
                         FOVEA_EINVAL);
    assert_int_equal(fovea_tune_accuracy(NULL, model, device, &o, &frame, 0, 0.9, NULL),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_tune_accuracy(NULL, model, device, &o, NULL, 1, 0.9, NULL),
                     FOVEA_EINVAL);
    const fovea_frame nothing = {.pixels = {NULL}};
    assert_int_equal(fovea_tune_accuracy(NULL, model, device, &o, &nothing, 1, 0.9, NULL),
                     FOVEA_EINVAL);
    o.compute = FOVEA_COMPUTE_F32;
    o.weights = FOVEA_DTYPE_BF16;
    assert_int_equal(fovea_tune_accuracy(NULL, model, device, &o, &frame, 1, 0.9, NULL),
                     FOVEA_EINVAL);
}

static int count_down(const fovea_tune_progress *p, void *left)
{
    assert_int_equal(p->struct_size, sizeof *p);
    assert_true(p->done <= p->total && *p->what);
    return (*(int *)left)-- == 0;
}

/* Returns a bound between the cosines of int8 and bfloat16, so that a mix is searched. */
static double between(void)
{
    const fovea_accuracy_report r = found(0.5);
    return (r.int8.cosine + r.bf16.cosine) / 2;
}

/* Stops the search after more and more calls. Wherever it stops, a result that was found is in
 * wisdom, and no other is. The number of calls depends on the clock, so the intervals grow. */
static void stop_everywhere(double bound)
{
    bool complete = false, any = false, none = false;
    for (int calls = 0; !complete; calls += 1 + calls / 16) {
        fovea_tune_options how = FOVEA_TUNE_OPTIONS_INIT;
        fovea_accuracy_report r = FOVEA_ACCURACY_REPORT_INIT;
        int left = calls;
        how.progress = count_down;
        how.payload = &left;
        fovea_wisdom_forget();
        succeed(tune(&r, bound, &how));
        assert_int_equal(fv_wisdom_count(fv_wisdom_global()), r.found);
        assert_string_equal(planned().compute_source, r.found ? "wisdom" : "device");
        complete = r.complete;
        any |= r.found && !complete;
        none |= !r.found;
        assert_true(calls < 1 << 20);
    }
    assert_true(any && none);
}

static void stopped(void **state)
{
    (void)state;
    stop_everywhere(0.5);
    stop_everywhere(between());
    fovea_tune_options late = FOVEA_TUNE_OPTIONS_INIT;
    fovea_accuracy_report r = FOVEA_ACCURACY_REPORT_INIT;
    late.seconds = 1e-9;
    fovea_wisdom_forget();
    succeed(tune(&r, 0.5, &late));
    assert_false(r.complete || r.found);
}

/* Every failing allocation returns a status and leaks nothing. */
static void no_memory(void **state)
{
    (void)state;
    fovea_wisdom_forget();
    const double bound = between();
    const uint64_t before = fv_mem_tagged(FV_MEM_PLAN) + fv_mem_tagged(FV_MEM_WEIGHTS);
    fv_mem_fail_at(0);
    found(bound);
    const uint64_t made = fv_mem_fail_at(0);
    assert_true(made > 100);
    for (uint64_t n = 1; n < made; n += n < 200 ? 1 : 97) {
        fv_mem_fail_at(n);
        const fovea_status status = tune(NULL, bound, NULL);
        fv_mem_fail_at(0);
        assert_true(status == FOVEA_ENOMEM || status == FOVEA_OK);
        assert_int_equal(fv_mem_tagged(FV_MEM_PLAN) + fv_mem_tagged(FV_MEM_WEIGHTS), before);
    }
}

static int set_up(void **state)
{
    (void)state;
    setenv("FOVEA_WISDOM", "", 1);
    fixture_draw();
    device = fixture_device(2);
    model = fixture_load();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fovea_model_free(model);
    fovea_device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds),
        cmocka_unit_test(refused),
        cmocka_unit_test(stopped),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
