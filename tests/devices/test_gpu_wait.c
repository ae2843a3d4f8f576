/* test_gpu_wait.c: how long the host sleeps before it looks at a device whose driver has no clock:
 * one slow frame, or a long copy of its outputs, must not make the frames behind it slow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu_host.h"
#include "gpu/gpu_queue.h"
#include "platform/os/os_machine.h"

/* Seconds that a device takes for a frame, and the host for its outputs. */
static double computing, copying;

static fovea_status ready(const fv_device *d)
{
    (void)d;
    return FOVEA_OK;
}

static void sleep_for(double seconds)
{
    const double end = fv_machine_seconds() + seconds;
    while (fv_machine_seconds() < end)
        fv_machine_nap(end - fv_machine_seconds());
}

static fovea_status await(fv_queue *q, uint32_t f, double deadline, double expect)
{
    const double begin = fv_machine_seconds();
    double pause = 0, passed;
    (void)deadline;
    while ((passed = fv_machine_seconds() - q->frame[f].begin) < computing)
        fv_gpu_nap(fv_machine_seconds() - begin, expect, -1, &pause);
    q->seen = fv_machine_seconds();
    sleep_for(copying);
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

/* Seconds of a frame that is submitted now. */
static double run_frame(fv_queue *q)
{
    double seconds;
    q->submitted++;
    q->frame[q->submitted % FV_GPU_FRAMES].begin = fv_machine_seconds();
    assert_int_equal(fv_gpu_wait(q, q->submitted, -1, &seconds), FOVEA_OK);
    return seconds;
}

/* The shortest of some: other programs may hold up any of them. */
static double shortest_of(fv_queue *q, int frames)
{
    double shortest = run_frame(q);
    while (--frames) {
        const double seconds = run_frame(q);
        shortest = seconds < shortest ? seconds : shortest;
    }
    return shortest;
}

static void slow_frame_is_forgotten(void **state)
{
    (void)state;
    fv_queue q = {.interface = &interface};
    copying = 0;
    computing = 0.4;
    run_frame(&q);
    computing = 0.01;
    run_frame(&q);
    run_frame(&q);
    assert_true(shortest_of(&q, 3) < 0.1);
}

static void copies_are_not_slept_through(void **state)
{
    (void)state;
    fv_queue q = {.interface = &interface};
    copying = 0.02;
    computing = 0.03;
    for (int i = 0; i < 12; i++)
        run_frame(&q);
    assert_true(shortest_of(&q, 4) < 0.075);
}

static void frames_are_not_looked_at_all_the_time(void **state)
{
    (void)state;
    fv_queue q = {.interface = &interface};
    copying = 0;
    computing = 0.05;
    run_frame(&q);
    assert_true(q.expect >= 0.05);
    run_frame(&q);
    assert_true(q.expect >= 0.9 * 0.05 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_frame_is_forgotten),
        cmocka_unit_test(copies_are_not_slept_through),
        cmocka_unit_test(frames_are_not_looked_at_all_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
