/* test_trace.c: tests the calls that a traced frame records, and the rates of devices, on every
 * device of this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "tests/fixture.h"

enum { DEVICES = 16, CAPACITY = 1 << 14, STEPS = 512 };

static fovea_model *model;
static fovea_trace_event events[CAPACITY];

static int draw(void **state)
{
    (void)state;
    fixture_draw();
    model = fixture_load();
    return 0;
}

static int drop(void **state)
{
    (void)state;
    fovea_model_free(model);
    return 0;
}

/* Opens a device without the user's compiled kernels. */
static fovea_device *open_device(const char *id)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_device *device;
    options.cache = "";
    if (fovea_device_open(&device, id, &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return device;
}

static size_t steps_of(const fovea_plan *plan)
{
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    size_t n = 0;
    while (fovea_plan_step(plan, n, &step))
        n++;
    assert_in_range(n, 1, STEPS);
    return n;
}

/* Checks that every step has calls, that the calls cover the step's rows, and that their times are
 * ordered. */
static void check_events(const fovea_plan *plan, size_t n, uint32_t workers)
{
    const size_t steps = steps_of(plan);
    static uint64_t seen[STEPS];
    double end = 0;
    memset(seen, 0, sizeof seen);
    assert_in_range(n, steps, CAPACITY);
    for (size_t i = 0; i < n; i++) {
        const fovea_trace_event *e = &events[i];
        assert_in_range(e->step, 0, steps - 1);
        assert_in_range(e->worker, 0, workers - 1);
        assert_true(e->rows > 0 && e->begin >= 0 && e->end >= e->begin);
        seen[e->step]++;
        end = e->end > end ? e->end : end;
    }
    for (size_t i = 0; i < steps; i++)
        assert_true(seen[i] > 0);
    assert_true(end > 0 && end <= 1.01 * fovea_plan_seconds(plan) + 1e-3);
}

/* Calls of one worker do not overlap. */
static void check_workers(size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(events[i].worker != events[k].worker || events[i].end <= events[k].begin ||
                        events[k].end <= events[i].begin);
}

static float *run(fovea_plan *plan, size_t *values)
{
    float *out = fixture_run(plan, values);
    assert_true(fovea_plan_seconds(plan) > 0);
    return out;
}

static void check_flight(fovea_plan *plan)
{
    static float out[1 << 20];
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output to = {out, sizeof out};
    fovea_ticket first, second;
    assert_int_equal(fovea_submit(plan, &frame, &to, 1, &first), FOVEA_OK);
    assert_int_equal(fovea_submit(plan, &frame, &to, 1, &second), FOVEA_EINVAL);
    assert_int_equal(fovea_plan_trace(plan, NULL, 0), FOVEA_EINVAL);
    assert_int_equal(fovea_wait(plan, first, -1), FOVEA_OK);
}

static void trace_plan(fovea_plan *plan, uint32_t workers)
{
    size_t values = 0, again = 0;
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    assert_true(fovea_plan_seconds(plan) == 0);
    float *plain = run(plan, &values);
    const fovea_status status = fovea_plan_trace(plan, events, CAPACITY);
    if (status == FOVEA_ENOTSUP) { /* the driver does not report times */
        free(plain);
        return;
    }
    assert_int_equal(status, FOVEA_OK);
    fovea_memory_query(&before);
    float *traced = run(plan, &again);
    fovea_memory_query(&after);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(values, again);
    assert_memory_equal(plain, traced, values * sizeof(float));
    const size_t calls = fovea_plan_trace_count(plan);
    check_events(plan, calls, workers);
    check_workers(calls);
    check_flight(plan);
    /* A buffer that is too small: all calls are counted, and nothing is written after the buffer.
     */
    memset(events, 0xee, sizeof events);
    assert_int_equal(fovea_plan_trace(plan, events, 3), FOVEA_OK);
    free(run(plan, &again));
    assert_int_equal(fovea_plan_trace_count(plan), calls);
    const uint8_t *bytes = (const uint8_t *)events;
    for (size_t i = 3 * sizeof *events; i < 8 * sizeof *events; i++)
        assert_int_equal(bytes[i], 0xee);
    assert_int_equal(fovea_plan_trace(plan, NULL, 0), FOVEA_OK);
    memset(events, 0xee, sizeof *events);
    free(run(plan, &again));
    assert_int_equal(bytes[0], 0xee);
    free(plain);
    free(traced);
}

static void calls_are_told(void **state)
{
    static const char *const attentions[] = {"softmax", "linear:elu1"};
    (void)state;
    fovea_device_info list = FOVEA_DEVICE_INFO_INIT;
    for (size_t k = 0; fovea_device_list(k, &list); k++) {
        fovea_device *device = open_device(list.id);
        for (size_t i = 0; i < 2; i++) {
            const fovea_plan_options o = fixture_options(attentions[i], FOVEA_SCHEDULE_AUTO);
            fovea_plan *plan;
            if (fovea_plan_create(&plan, model, device, &o) != FOVEA_OK)
                continue;
            trace_plan(plan, fovea_device_threads(device));
            fovea_plan_free(plan);
        }
        fovea_device_close(device);
    }
}

static void dry_plans_have_no_trace(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    fovea_plan_options o = fixture_options("softmax", FOVEA_SCHEDULE_AUTO);
    fovea_plan *plan;
    o.dry = 1;
    assert_int_equal(fovea_plan_create(&plan, model, device, &o), FOVEA_OK);
    assert_int_equal(fovea_plan_trace(plan, events, CAPACITY), FOVEA_EINVAL);
    fovea_plan_free(plan);
    fovea_device_close(device);
}

/* Plausible rates of a processor: 10 MFLOP/s to 10 PFLOP/s, 1 MB/s to 100 TB/s. */
static void rates_are_plausible(void **state)
{
    (void)state;
    fovea_device_info list = FOVEA_DEVICE_INFO_INIT;
    for (size_t k = 0; fovea_device_list(k, &list); k++) {
        fovea_device *device = open_device(list.id);
        fovea_rates rates = FOVEA_RATES_INIT;
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_memory_query(&before);
        assert_int_equal(fovea_device_rates(device, &rates), FOVEA_OK);
        fovea_memory_query(&after);
        assert_true(after.current <=
                    before.current + (1 << 16)); /* compiled kernels stay allocated */
        assert_true(rates.flops > 1e7 && rates.flops < 1e16);
        assert_true(rates.read > 1e6 && rates.read < 1e14);
        assert_true(rates.copy > 1e6 && rates.copy < 1e14);
        fovea_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_told),
                                       cmocka_unit_test(dry_plans_have_no_trace),
                                       cmocka_unit_test(rates_are_plausible)};
    return cmocka_run_group_tests(tests, draw, drop);
}
