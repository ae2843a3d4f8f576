/* fixture.c: a small model on the CPU and a picture for it, for tests of whole plans. */
#include "tests/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fovea/plans.h>

const char fixture_model[] = TEST_DATA "/golden/models/dinov2-with-registers-03";
uint8_t fixture_pixels[FIXTURE_HEIGHT * FIXTURE_WIDTH * 3];

void fixture_draw(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof fixture_pixels; i++) {
        x = x * 1664525u + 1013904223u;
        fixture_pixels[i] = (uint8_t)((x >> 26) + (i % 303) / 2);
    }
}

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

fovea_device *fixture_device(uint32_t threads)
{
    fovea_device *device;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.threads = threads;
    succeed(fovea_device_open(&device, "cpu", &options));
    return device;
}

fovea_model *fixture_load(void)
{
    fovea_model *model;
    succeed(fovea_model_load(&model, fixture_model));
    return model;
}

fovea_plan_options fixture_options(const char *attention, fovea_schedule schedule)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.width = FIXTURE_WIDTH;
    options.frame.height = FIXTURE_HEIGHT;
    options.attention = attention;
    options.schedule = schedule;
    return options;
}

fovea_plan *fixture_plan(const fovea_model *model, fovea_device *device, const char *attention,
                         fovea_schedule schedule)
{
    fovea_plan *plan;
    const fovea_plan_options options = fixture_options(attention, schedule);
    succeed(fovea_plan_create(&plan, model, device, &options));
    return plan;
}

float *fixture_run(fovea_plan *plan, size_t *values)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    assert_true(fovea_plan_output(plan, 0, &info));
    *values = (size_t)info.rows * info.columns;
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    fovea_output out = {malloc(*values * sizeof(float)), *values * sizeof(float)};
    assert_non_null(out.data);
    succeed(fovea_run(plan, &frame, &out, 1));
    return out.data;
}
