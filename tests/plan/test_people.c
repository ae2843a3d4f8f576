/* test_people.c: tests that a plan of whole frames crops boxes as fovea_box_crop does, from every
 * format and without an allocation, and that its key points are those of the box.
 * test_results_data.py tests the crops. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/crops.h>

#include "tests/fixture.h"
#include "tests/plan/heap_calls.h"

enum { WIDE = 70, HIGH = 54, OUT_WIDE = 48, OUT_HIGH = 64, POINTS = 17 };

static fovea_plan *plan_of(const fovea_model *model, fovea_device *device,
                           fovea_pixel_format format, uint32_t width, uint32_t height,
                           const fovea_preprocess *rule, uint32_t count)
{
    fovea_plan *plan;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.format = format;
    o.frame.width = width;
    o.frame.height = height;
    o.frame.count = count;
    o.preprocess = rule;
    o.yuv = FOVEA_YUV_709;
    assert_int_equal(fovea_plan_create(&plan, model, device, &o), FOVEA_OK);
    return plan;
}

static fovea_output buffer(const fovea_plan *plan)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    assert_true(fovea_plan_output(plan, 0, &info));
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    return (fovea_output){calloc(1, size), size};
}

static void frames_of_every_format(void **unused)
{
    (void)unused;
    static uint8_t pixels[WIDE * HIGH * 3], crop[OUT_WIDE * OUT_HIGH * 3];
    const fovea_box whole = {0, 0, WIDE, HIGH};
    fovea_device *device = fixture_device(1);
    fovea_model *model;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    assert_int_equal(fovea_model_load(&model, "synthetic:vitpose-s"), FOVEA_OK);
    fovea_model_preprocess(model, &rule);
    assert_int_equal(rule.resize, FOVEA_RESIZE_BOX);
    assert_int_equal(fovea_preprocess_resize(&rule, OUT_WIDE, OUT_HIGH), FOVEA_OK);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 31 % 251);
    fovea_plan *crops = plan_of(model, device, FOVEA_FORMAT_RGB8, OUT_WIDE, OUT_HIGH, NULL, 1);
    const fovea_output want = buffer(crops), got[2] = {buffer(crops), buffer(crops)};
    static const fovea_pixel_format formats[] = {FOVEA_FORMAT_RGB8, FOVEA_FORMAT_BGR8,
                                                 FOVEA_FORMAT_GRAY8, FOVEA_FORMAT_NV12,
                                                 FOVEA_FORMAT_YUYV};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const bool nv12 = formats[f] == FOVEA_FORMAT_NV12;
        const fovea_frame frame = {.pixels = {pixels, nv12 ? pixels + WIDE * HIGH : NULL}};
        const fovea_frame both[2] = {frame, frame}, cut = {.pixels = {crop}};
        fovea_keypoint points[POINTS], boxed[POINTS];
        size_t count;
        fovea_plan *plan = plan_of(model, device, formats[f], WIDE, HIGH, &rule, 2);
        const uint64_t before = heap_calls();
        assert_int_equal(fovea_run(plan, both, got, 2), FOVEA_OK);
        assert_int_equal(fovea_box_crop(&frame, formats[f], FOVEA_YUV_709, WIDE, HIGH, &whole, crop,
                                        OUT_WIDE, OUT_HIGH),
                         FOVEA_OK);
        assert_int_equal(heap_calls(), before);
        assert_int_equal(fovea_run(crops, &cut, &want, 1), FOVEA_OK);
        assert_memory_equal(got[0].data, want.data, want.size);
        assert_memory_equal(got[1].data, want.data, want.size);
        assert_int_equal(fovea_keypoints(plan, got, 1, points, POINTS, &count), FOVEA_OK);
        assert_int_equal(fovea_box_keypoints(crops, &want, 1, &whole, boxed, POINTS, &count),
                         FOVEA_OK);
        assert_int_equal(count, POINTS);
        assert_memory_equal(points, boxed, sizeof points);
        fovea_plan_free(plan);
    }
    free(got[0].data);
    free(got[1].data);
    free(want.data);
    fovea_plan_free(crops);
    fovea_model_free(model);
    fovea_device_close(device);
}

/* The centre of the frame is the centre of the picture, which is larger by at least a quarter. The
 * picture that can be shown is the crop. */
static void place_in_the_frame(void **unused)
{
    (void)unused;
    static uint8_t pixels[WIDE * HIGH * 3], crop[OUT_WIDE * OUT_HIGH * 3], shown[sizeof crop];
    fovea_device *device = fixture_device(1);
    fovea_model *model;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_plan_info i = FOVEA_PLAN_INFO_INIT;
    const fovea_frame frame = {.pixels = {pixels}};
    const fovea_box whole = {0, 0, WIDE, HIGH};
    assert_int_equal(fovea_model_load(&model, "synthetic:vitpose-s"), FOVEA_OK);
    fovea_model_preprocess(model, &rule);
    fovea_preprocess_resize(&rule, OUT_WIDE, OUT_HIGH);
    fovea_plan *plan = plan_of(model, device, FOVEA_FORMAT_RGB8, WIDE, HIGH, &rule, 1);
    fovea_plan_query(plan, &i);
    assert_int_equal(i.width, OUT_WIDE);
    assert_int_equal(i.height, OUT_HIGH);
    /* A crop's first and last pixels are the edges of the box, as in transformers. */
    assert_true(fabs(i.scale_x - 1.25 * WIDE / (OUT_WIDE - 1)) < 1e-4);
    assert_true(fabs(i.scale_y - 1.25 * WIDE / 0.75 / (OUT_HIGH - 1)) < 1e-4);
    assert_true(fabs(i.left + 0.5 * i.scale_x * OUT_WIDE - 0.5 * WIDE - 0.5) < 1e-3);
    assert_true(fabs(i.top + 0.5 * i.scale_y * OUT_HIGH - 0.5 * HIGH - 0.5) < 1e-3);
    for (size_t k = 0; k < sizeof pixels; k++)
        pixels[k] = (uint8_t)(k * 7);
    assert_int_equal(fovea_preprocess_apply(&rule, pixels, WIDE, HIGH, shown, OUT_WIDE, OUT_HIGH),
                     FOVEA_OK);
    assert_int_equal(fovea_box_crop(&frame, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, WIDE, HIGH, &whole,
                                    crop, OUT_WIDE, OUT_HIGH),
                     FOVEA_OK);
    assert_memory_equal(shown, crop, sizeof crop);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

static void what_is_refused(void **unused)
{
    (void)unused;
    static uint8_t pixels[WIDE * HIGH * 3], out[OUT_WIDE * OUT_HIGH * 3];
    const fovea_frame frame = {.pixels = {pixels}}, narrow = {.pixels = {pixels}, .stride = {9}};
    const fovea_box box = {0, 0, 10, 10}, none = {5, 5, 0, 0}, odd = {NAN, 0, 5, 5};
    const struct {
        const fovea_frame *frame;
        fovea_pixel_format format;
        const fovea_box *box;
        uint32_t side;
        const char *word;
    } cases[] = {
        {&frame, FOVEA_FORMAT_RGB8, &none, OUT_WIDE, "box"},
        {&frame, FOVEA_FORMAT_RGB8, &odd, OUT_WIDE, "box"},
        {&frame, FOVEA_FORMAT_PLANES_F32, &box, OUT_WIDE, "float planes"},
        {&narrow, FOVEA_FORMAT_RGB8, &box, OUT_WIDE, "the stride of plane"},
        {&frame, FOVEA_FORMAT_NV12, &box, OUT_WIDE, "plane"},
        {&frame, FOVEA_FORMAT_RGB8, &box, 1, "crop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fovea_box_crop(cases[i].frame, cases[i].format, FOVEA_YUV_601, WIDE, HIGH,
                                        cases[i].box, out, cases[i].side, OUT_HIGH),
                         FOVEA_EINVAL);
        assert_non_null(strstr(fovea_error(), cases[i].word));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_every_format),
        cmocka_unit_test(place_in_the_frame),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
