/* gpu_frames.h: frames of a small model on an OpenCL or a CUDA device whose driver lies and fails
 * on demand (hostile.h), for programs of cmocka.
 */
#ifndef FOVEA_TESTS_GPU_FRAMES_H
#define FOVEA_TESTS_GPU_FRAMES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/devices/hostile.h"
#include "tests/fixture.h"

static fovea_model *model;

/* `cache`: the folder of programs; NULL: the user's. */
static inline fovea_device *open_with(double max_dispatch_seconds, const char *cache)
{
    fovea_device *device;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.max_dispatch_seconds = max_dispatch_seconds;
    options.cache = cache;
    if (fovea_device_open(&device, hostile.device, &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return device;
}

static inline fovea_device *open_device(double max_dispatch_seconds)
{
    return open_with(max_dispatch_seconds, NULL);
}

static inline fovea_plan *plan_on(fovea_device *device, const char *attention)
{
    return fixture_plan(model, device, attention, FOVEA_SCHEDULE_AUTO);
}

static inline fovea_status submit(fovea_plan *plan, float *out, size_t values, fovea_ticket *ticket)
{
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output to = {out, values * sizeof *out};
    return fovea_submit(plan, &frame, &to, 1, ticket);
}

static inline void nothing_left(void)
{
    assert_int_equal(hostile.live(NULL), 0);
    assert_int_equal(hostile.misuse(), 0);
    assert_true(!hostile.cuda || hostile.depth() == 0);
}

static inline int set_up(void **state)
{
    (void)state;
    fixture_draw();
    model = fixture_load();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    fovea_model_free(model);
    return 0;
}

static inline const char *launch_call(void)
{
    return hostile.cuda ? "cuLaunchKernel" : "clEnqueueNDRangeKernel";
}

/* Opens the driver that the arguments name; else what main is to return. */
static inline int gpu_frames_open(int argc, char **argv)
{
    fovea_device *device;
    if (argc != 2 || !hostile_open(argv[1]))
        return 1;
    if (fovea_device_open(&device, hostile.device, NULL) != FOVEA_OK) {
        printf("%s; sh platform/setup-debian.sh opencl installs one for OpenCL\n", fovea_error());
        return 77;
    }
    fovea_device_close(device);
    return 0;
}

#endif
