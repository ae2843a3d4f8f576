/* test_frames.c: tests that frames in flight give the results of single frames, in whatever order
 * they are waited for, or if they never are, on every device of this machine.
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

enum { PICTURES = 4, DEVICES = 16, ROW = FIXTURE_WIDTH * 3 };

static fovea_model *model;
/* Pictures with gaps of different widths between rows. */
static uint8_t *picture[PICTURES];
static size_t gap[PICTURES] = {0, 5, 0, 64};
static float *want[PICTURES], *got[PICTURES];
static size_t values;

static int draw(void **state)
{
    (void)state;
    fixture_draw();
    model = fixture_load();
    for (int i = 0; i < PICTURES; i++) {
        picture[i] = calloc(FIXTURE_HEIGHT, ROW + gap[i]);
        assert_non_null(picture[i]);
        for (size_t y = 0; y < FIXTURE_HEIGHT; y++)
            for (size_t x = 0; x < ROW; x++)
                picture[i][y * (ROW + gap[i]) + x] =
                    (uint8_t)(fixture_pixels[y * ROW + x] + 40 * i);
    }
    return 0;
}

static int drop(void **state)
{
    (void)state;
    fovea_model_free(model);
    for (int i = 0; i < PICTURES; i++)
        free(picture[i]);
    return 0;
}

static fovea_frame frame_of(int i)
{
    return (fovea_frame){.pixels = {picture[i]}, .stride = {gap[i] ? ROW + gap[i] : 0}};
}

static fovea_ticket submit(fovea_plan *plan, int i)
{
    fovea_ticket ticket;
    const fovea_frame frame = frame_of(i);
    const fovea_output out = {got[i], values * sizeof(float)};
    memset(got[i], 0, values * sizeof(float));
    if (fovea_submit(plan, &frame, &out, 1, &ticket) != FOVEA_OK)
        fail_msg("frame %d: %s", i, fovea_error());
    return ticket;
}

static void done(fovea_plan *plan, fovea_ticket ticket, int i)
{
    if (fovea_wait(plan, ticket, -1) != FOVEA_OK)
        fail_msg("frame %d: %s", i, fovea_error());
    assert_memory_equal(got[i], want[i], values * sizeof(float));
}

static void too_many(fovea_plan *plan)
{
    fovea_ticket ticket = 77;
    const fovea_frame frame = frame_of(0);
    const fovea_output out = {want[0], values * sizeof(float)};
    assert_int_equal(fovea_submit(plan, &frame, &out, 1, &ticket), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "2 frames"));
    assert_int_equal(ticket, 77);
}

static void in_any_order(fovea_plan *plan)
{
    fovea_ticket a = submit(plan, 0), b = submit(plan, 1);
    too_many(plan);
    done(plan, a, 0);
    fovea_ticket c = submit(plan, 2);
    too_many(plan);
    done(plan, c, 2); /* also completes the frame submitted before */
    done(plan, b, 1);
    done(plan, a, 0);
    assert_int_equal(fovea_wait(plan, c + 1, 0), FOVEA_EINVAL);
    /* One frame is always in flight, as with a camera. */
    fovea_ticket last = submit(plan, 0);
    for (int i = 1; i < 3 * PICTURES; i++) {
        const fovea_ticket next = submit(plan, i % PICTURES);
        done(plan, last, (i - 1) % PICTURES);
        last = next;
    }
    const fovea_frame none = {.pixels = {NULL}}, frame = frame_of(0);
    const fovea_output out = {got[0], values * sizeof(float)};
    fovea_ticket ticket;
    /* A refused frame does not affect the frame in flight. */
    assert_int_equal(fovea_submit(plan, &none, &out, 1, &ticket), FOVEA_EINVAL);
    assert_int_equal(fovea_submit(plan, &frame, &out, 0, &ticket), FOVEA_EINVAL);
    done(plan, last, (3 * PICTURES - 1) % PICTURES);
    submit(plan, 3);
    submit(plan, 1);
    fovea_plan_free(plan); /* with both frames in flight */
}

/* Plans the model. Returns false if the device lacks a kernel that the model needs. */
static int planned(fovea_plan **out, fovea_device *device)
{
    const fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    const fovea_status status = fovea_plan_create(out, model, device, &options);
    if (status != FOVEA_OK && status != FOVEA_ENOTSUP)
        fail_msg("%s", fovea_error());
    return status == FOVEA_OK;
}

static void frames_do_not_meet(void **state)
{
    (void)state;
    fovea_device_info list = FOVEA_DEVICE_INFO_INIT;
    assert_true(fovea_device_list(0, &list));
    for (size_t k = 0; fovea_device_list(k, &list); k++) {
        fovea_device *device;
        fovea_plan *plan;
        if (fovea_device_open(&device, list.id, NULL) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        const int ready = planned(&plan, device);
        assert_true(ready || k > 0); /* the CPU is the first device and must plan the model */
        for (int i = 0; ready && i < PICTURES; i++) {
            fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
            assert_true(fovea_plan_output(plan, 0, &info));
            values = (size_t)info.rows * info.columns;
            want[i] = malloc(values * sizeof(float));
            got[i] = malloc(values * sizeof(float));
            assert_true(want[i] && got[i]);
            const fovea_frame frame = frame_of(i);
            const fovea_output out = {want[i], values * sizeof(float)};
            assert_int_equal(fovea_run(plan, &frame, &out, 1), FOVEA_OK);
            assert_true(i == 0 || memcmp(want[i], want[0], values * sizeof(float)) != 0);
        }
        if (ready)
            in_any_order(plan);
        for (int i = 0; ready && i < PICTURES; i++) {
            free(want[i]);
            free(got[i]);
        }
        fovea_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_do_not_meet)};
    return cmocka_run_group_tests(tests, draw, drop);
}
