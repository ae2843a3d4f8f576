/* test_gpu_wait.c: tests how long the host sleeps between looks at a device whose driver reports no
 * times. One slow frame, or a slow copy of its outputs, must not delay later frames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu_host.h"
#include "gpu/gpu_queue.h"
#include "gpu/gpu_wait.h"

/* The simulated clock, which only advances in sleeps; the seconds of a frame on the device, and of
 * the copy of its outputs on the host. */
static double clock_now = 1, computing, copying;

/* Replaces the machine's clock at link time. */
double __wrap_fv_machine_seconds(void);
double __wrap_fv_machine_seconds(void)
{
    return clock_now;
}
void __wrap_fv_machine_nap(double seconds);
void __wrap_fv_machine_nap(double seconds)
{
    clock_now += seconds + 1e-6; /* every sleep takes longer than requested */
}

static fovea_status ready(const fv_device *d)
{
    (void)d;
    return FOVEA_OK;
}

static fovea_status await(fv_queue *q, uint32_t f, double deadline, double expect)
{
    const double begin = clock_now;
    double pause = 0;
    (void)deadline;
    while (clock_now - q->frame[f].begin < computing)
        fv_gpu_nap(clock_now - begin, expect, -1, &pause);
    q->seen = clock_now;
    clock_now += copying;
    return FOVEA_OK;
}

static double complete(fv_queue *q, uint32_t f)
{
    (void)q, (void)f;
    return 0;
}

static void nothing_to_stop(fv_queue *q, uint32_t f, bool whole)
{
    (void)q, (void)f, (void)whole;
}

static const fv_gpu_interface interface = {
    .ready = ready, .await = await, .complete = complete, .stop = nothing_to_stop};

/* Runs frames one after the other; returns the seconds of the last one. */
static double run_frames(fv_queue *q, int frames)
{
    double seconds = 0;
    while (frames--) {
        q->submitted++;
        q->frame[q->submitted % FV_GPU_FRAMES].begin = clock_now;
        assert_int_equal(fv_gpu_wait(q, q->submitted, -1, &seconds), FOVEA_OK);
    }
    return seconds;
}

static void slow_frame_is_forgotten(void **state)
{
    (void)state;
    fv_queue q = {.interface = &interface};
    copying = 0;
    computing = 2.5;
    run_frames(&q, 1);
    computing = 0.01;
    run_frames(&q, 8);
    assert_true(run_frames(&q, 1) < 0.011);
}

static void copies_are_not_slept_through(void **state)
{
    (void)state;
    fv_queue q = {.interface = &interface};
    copying = 0.02;
    computing = 0.03;
    assert_true(run_frames(&q, 20) < 0.052);
}

/* A frame sleeps most of its time at once, and then a few times more. */
static void few_looks(void **state)
{
    (void)state;
    fv_queue q = {.interface = &interface};
    copying = 0;
    computing = 0.05;
    run_frames(&q, 3);
    assert_true(q.expect >= 0.05);
    assert_true(run_frames(&q, 1) < 0.052);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_frame_is_forgotten),
        cmocka_unit_test(copies_are_not_slept_through),
        cmocka_unit_test(few_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
