/* gpu_frames.h: runs frames of a small model on an OpenCL or CUDA device whose driver reports false
 * properties and fails on request (hostile.h). For cmocka programs.
 */
#ifndef FOVEA_TESTS_GPU_FRAMES_H
#define FOVEA_TESTS_GPU_FRAMES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "tests/devices/hostile.h"
#include "tests/fixture.h"

static fovea_model *model;

/* Opens the device. `cache` is the folder of compiled programs, or NULL for the user's. */
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

/* Returns options of a plan with float16 products. */
static inline fovea_plan_options half_options(void)
{
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    options.weights = options.activations = FOVEA_DTYPE_F16;
    return options;
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

/* ---- measured rates ---- */

static inline int remove_probe(const fovea_cache_entry *e, void *nothing)
{
    (void)nothing;
    if (strcmp(e->program, "probe.cl") == 0)
        unlink(e->file);
    return 0;
}

/* Removes the measured rates of all devices. */
static inline void forget_rates(void)
{
    assert_int_equal(fovea_cache_list(NULL, remove_probe, NULL), FOVEA_OK);
}

enum { NO_IMAGES, FAST_IMAGES = 2, OTHERS_IMAGES }; /* values of the setting `images` */

/* Makes the driver report a GPU that multiplies float16 fast and whose local memory is not used. */
static inline void say_images(long images)
{
    hostile.set("gpu", 1);
    hostile.set("vectors", 1);
    hostile.set("local", 0);
    hostile.set("half", 3);
    hostile.set("images", images);
}

/* Returns whether images rank first, or do not (`wanted`), directly after the measurement. Other
 * processes may disturb a measurement, so it is repeated. */
static inline bool images_are_first(long images, bool wanted)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    bool first = !wanted;
    for (int i = 0; i < 10 && first != wanted; i++) {
        forget_rates();
        say_images(images);
        fovea_device *device = open_device(0);
        fovea_device_describe(device, &info);
        fovea_device_close(device);
        hostile.set(NULL, 0);
        first = strstr(info.features, "images") != NULL;
    }
    return first;
}

/* Returns whether an open device ranks images first. If not, its measured rates are removed, so
 * that the next device measures again. Skips the test if other processes disturb every measurement.
 */
static inline bool has_images_first(const fovea_device *device, int *tries)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(device, &info);
    if (strstr(info.features, "images"))
        return true;
    forget_rates();
    if (++*tries < 20)
        return false;
    print_message("skipped: others use this machine, so that rates cannot be measured\n");
    skip();
    return false;
}

/* Opens the driver that the arguments name. Returns 0 or the exit status for main. */
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
