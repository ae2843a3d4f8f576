/* test_parts.c: tests pictures that are run in overlapping parts: the positions of parts, that a
 * picture allocates nothing, and refusals. test_results_data.py compares bytes and classes with
 * transformers. */
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

enum { WIDE = 110, HIGH = 60, EDGE = 48, MOST = 8 };

static fovea_preprocess split_rule(void)
{
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    rule.resize = FOVEA_RESIZE_SHORT;
    rule.filter = FOVEA_FILTER_BILINEAR;
    rule.short_edge = EDGE;
    rule.split = 1;
    return rule;
}

static fovea_plan *plan_of(const fovea_model *model, fovea_device *device, uint32_t width,
                           uint32_t height)
{
    static const char *const names[] = {"masks_queries_logits", "class_queries_logits"};
    fovea_plan *plan;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = width;
    o.frame.height = height;
    o.outputs = names;
    o.n_outputs = 2;
    assert_int_equal(fovea_plan_create(&plan, model, device, &o), FOVEA_OK);
    return plan;
}

static void where_parts_lie(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t width, height, count, part_width, part_height;
    } cases[] = {{48, 48, 1, 48, 48},    {96, 48, 2, 48, 48}, {97, 48, 3, 48, 48},
                 {480, 96, 5, 48, 48},   {30, 30, 1, 48, 48}, {48, 130, 3, 48, 48},
                 {1000, 50, 20, 48, 48}, {50, 49, 2, 48, 48}};
    const fovea_preprocess rule = split_rule();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fovea_parts_info info = FOVEA_PARTS_INFO_INIT;
        assert_int_equal(fovea_parts_describe(&rule, cases[i].width, cases[i].height, &info),
                         FOVEA_OK);
        assert_int_equal(info.width, cases[i].part_width);
        assert_int_equal(info.height, cases[i].part_height);
        const uint32_t longer =
            info.whole_width > info.whole_height ? info.whole_width : info.whole_height;
        assert_int_equal(info.count, (longer + EDGE - 1) / EDGE);
        assert_int_equal(
            info.whole_width < info.whole_height ? info.whole_width : info.whole_height, EDGE);
    }
}

static void nothing_is_allocated(void **unused)
{
    (void)unused;
    static uint8_t pixels[WIDE * HIGH * 3];
    static uint16_t classes[WIDE * HIGH];
    const fovea_preprocess rule = split_rule();
    const fovea_frame picture = {.pixels = {pixels}};
    fovea_parts_info info = FOVEA_PARTS_INFO_INIT;
    fovea_device *device = fixture_device(1);
    fovea_model *model;
    fovea_parts *parts;
    fovea_frame frame[MOST];
    fovea_output out[2 * MOST];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 13 % 251);
    assert_int_equal(fovea_model_load(&model, TEST_DATA "/golden/models/eomt-masked-01"), FOVEA_OK);
    assert_int_equal(fovea_parts_describe(&rule, WIDE, HIGH, &info), FOVEA_OK);
    fovea_plan *plan = plan_of(model, device, info.width, info.height);
    assert_int_equal(fovea_parts_create(&parts, plan, &rule, WIDE, HIGH), FOVEA_OK);
    for (uint32_t i = 0; i < 2 * info.count; i++) {
        fovea_output_info o = FOVEA_OUTPUT_INFO_INIT;
        assert_true(fovea_plan_output(plan, i % 2, &o));
        const size_t size = (size_t)o.rows * o.columns * sizeof(float);
        out[i] = (fovea_output){malloc(size), size};
    }
    const uint64_t before = heap_calls();
    assert_int_equal(fovea_parts_cut(parts, &picture, frame, MOST), FOVEA_OK);
    for (uint32_t i = 0; i < info.count; i++)
        assert_int_equal(fovea_run(plan, &frame[i], out + 2 * i, 2), FOVEA_OK);
    assert_int_equal(fovea_parts_class_map(parts, out, 2 * info.count, classes, WIDE * HIGH),
                     FOVEA_OK);
    assert_int_equal(heap_calls(), before);
    for (size_t i = 0; i < WIDE * HIGH; i++)
        assert_true(classes[i] < 3);
    /* Frames that are too few, and outputs that are missing, are refused. */
    assert_int_equal(fovea_parts_cut(parts, &picture, frame, info.count - 1), FOVEA_EINVAL);
    assert_int_equal(fovea_parts_class_map(parts, out, 2 * info.count, classes, WIDE * HIGH - 1),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_parts_class_map(parts, out, 2, classes, WIDE * HIGH), FOVEA_EINVAL);
    for (uint32_t i = 0; i < 2 * info.count; i++)
        free(out[i].data);
    fovea_parts_free(parts);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

static void what_is_refused(void **unused)
{
    (void)unused;
    fovea_preprocess rule = split_rule();
    fovea_parts_info info = FOVEA_PARTS_INFO_INIT;
    fovea_device *device = fixture_device(1);
    fovea_model *model;
    fovea_parts *parts = NULL;
    assert_int_equal(fovea_model_load(&model, TEST_DATA "/golden/models/eomt-masked-01"), FOVEA_OK);
    fovea_plan *plan = plan_of(model, device, EDGE, EDGE - 8);
    assert_int_equal(fovea_parts_create(&parts, plan, &rule, WIDE, HIGH), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "48 x 48"));
    rule.split = 0;
    assert_int_equal(fovea_parts_describe(&rule, WIDE, HIGH, &info), FOVEA_ENOTSUP);
    rule.split = 1;
    rule.resample = FOVEA_RESAMPLE_FLOAT;
    assert_int_equal(fovea_parts_describe(&rule, WIDE, HIGH, &info), FOVEA_ENOTSUP);
    assert_null(parts);
    fovea_parts_free(NULL);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_parts_lie),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
