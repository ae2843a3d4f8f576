/* test_yuv.c: compares bytes of YUV frames with the standards' equations in double precision, and
 * whole plans with the same picture in RGB, bit by bit, on every device of this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "ops/yuv.h"
#include "tests/fixture.h"

enum { DEVICES = 16, YUVS = 6 };

/* ---- the arithmetic ---- */

/* Computes R, G, B by the standards, from 0 to 255, neither rounded nor clipped. */
static void exact(double rgb[3], fovea_yuv_matrix yuv, int y, int u, int v)
{
    static const double red[] = {0.299, 0.2126, 0.2627}, blue[] = {0.114, 0.0722, 0.0593};
    const int full = yuv % 2;
    const double kr = red[yuv / 2], kb = blue[yuv / 2], kg = 1 - kr - kb;
    const double luma = full ? y / 255. : (y - 16) / 219.;
    const double cb = (u - 128) / (full ? 255. : 224.), cr = (v - 128) / (full ? 255. : 224.);
    rgb[0] = 255 * (luma + 2 * (1 - kr) * cr);
    rgb[2] = 255 * (luma + 2 * (1 - kb) * cb);
    rgb[1] = (255 * luma - kr * rgb[0] - kb * rgb[2]) / kg;
}

static void follows_the_standards(void **state)
{
    (void)state;
    uint8_t line[4], rgb[3];
    double want[3], worst = 0;
    for (int yuv = 0; yuv < YUVS; yuv++)
        for (int y = 0; y < 256; y++)
            for (int u = 0; u < 256; u += 5)
                for (int v = 0; v < 256; v += 5) {
                    line[0] = line[2] = (uint8_t)y;
                    line[1] = (uint8_t)u;
                    line[3] = (uint8_t)v;
                    const fv_yuv_frame f = fv_yuv_frame_of(FV_FLAG_YUYV, line, 4, NULL, 0);
                    fv_yuv_pixel(rgb, &f, &fv_yuv_table[yuv], 0, (size_t)(y % 2));
                    exact(want, (fovea_yuv_matrix)yuv, y, u, v);
                    for (int c = 0; c < 3; c++)
                        worst = fmax(worst, fabs(fmin(fmax(want[c], 0), 255) - rgb[c]));
                }
    print_message("at most %.4f from the equations, of which 0.5 is rounding\n", worst);
    assert_true(worst <= 0.51);
}

/* ---- whole plans ---- */

typedef struct camera {
    fovea_pixel_format format;
    fovea_yuv_matrix yuv;
    uint32_t width, height;
    size_t gap; /* bytes after every row */
    uint8_t *plane[2], *rgb;
    size_t stride[2];
} camera;

static uint8_t *noise(size_t size, uint32_t seed)
{
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    return bytes;
}

static void shoot(camera *c)
{
    const bool nv12 = c->format == FOVEA_FORMAT_NV12;
    const size_t pairs = (c->width + 1) / 2;
    c->stride[0] = (nv12 ? c->width : 4 * pairs) + c->gap;
    c->stride[1] = nv12 ? 2 * pairs + 2 * c->gap : 0;
    c->plane[0] = noise(c->stride[0] * c->height, 1);
    c->plane[1] = nv12 ? noise(c->stride[1] * ((c->height + 1) / 2), 2) : NULL;
    c->rgb = malloc((size_t)c->width * c->height * 3);
    assert_non_null(c->rgb);
    const fv_yuv_frame f = fv_yuv_frame_of(nv12 ? FV_FLAG_NV12 : FV_FLAG_YUYV, c->plane[0],
                                           c->stride[0], c->plane[1], c->stride[1]);
    for (size_t y = 0; y < c->height; y++)
        for (size_t x = 0; x < c->width; x++)
            fv_yuv_pixel(c->rgb + 3 * (y * c->width + x), &f, &fv_yuv_table[c->yuv], y, x);
}

static void put_away(camera *c)
{
    free(c->plane[0]);
    free(c->plane[1]);
    free(c->rgb);
}

static float *run(const fovea_model *model, fovea_device *device, const fovea_plan_options *options,
                  const fovea_frame *frame, size_t *values)
{
    fovea_plan *plan;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    if (fovea_plan_create(&plan, model, device, options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    assert_true(fovea_plan_output(plan, 0, &info));
    *values = (size_t)info.rows * info.columns;
    const fovea_output out = {malloc(*values * sizeof(float)), *values * sizeof(float)};
    assert_non_null(out.data);
    if (fovea_run(plan, frame, &out, 1) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    fovea_plan_free(plan);
    return out.data;
}

static void compare(const fovea_model *model, fovea_device *device, const camera *c,
                    const fovea_preprocess *rule)
{
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    const fovea_frame plain = {.pixels = {c->rgb}};
    const fovea_frame frame = {.pixels = {c->plane[0], c->plane[1]},
                               .stride = {c->gap ? c->stride[0] : 0, c->gap ? c->stride[1] : 0}};
    size_t n, values;
    options.frame.width = c->width;
    options.frame.height = c->height;
    options.preprocess = rule;
    options.frame.format = FOVEA_FORMAT_RGB8;
    float *want = run(model, device, &options, &plain, &values);
    options.frame.format = c->format;
    options.yuv = c->yuv;
    float *got = run(model, device, &options, &frame, &n);
    assert_int_equal(n, values);
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    free(want);
}

static void on(fovea_device *device)
{
    static const camera cameras[] = {
        {.format = FOVEA_FORMAT_NV12, .yuv = FOVEA_YUV_601, .width = 98, .height = 70},
        {.format = FOVEA_FORMAT_NV12,
         .yuv = FOVEA_YUV_709_FULL,
         .width = 101,
         .height = 75,
         .gap = 7},
        {.format = FOVEA_FORMAT_YUYV,
         .yuv = FOVEA_YUV_601_FULL,
         .width = 98,
         .height = 71,
         .gap = 2},
        {.format = FOVEA_FORMAT_YUYV, .yuv = FOVEA_YUV_709, .width = 99, .height = 75},
        {.format = FOVEA_FORMAT_NV12, .yuv = FOVEA_YUV_2020, .width = 98, .height = 70},
        {.format = FOVEA_FORMAT_YUYV, .yuv = FOVEA_YUV_2020_FULL, .width = 98, .height = 70},
    };
    fovea_model *model = fixture_load();
    fovea_preprocess exact_size = FOVEA_PREPROCESS_INIT;
    fovea_model_preprocess(model, &exact_size);
    fovea_preprocess odd_crop = exact_size;
    exact_size.resize = FOVEA_RESIZE_EXACT;
    exact_size.resize_width = 70;
    exact_size.resize_height = 56;
    exact_size.crop_width = exact_size.crop_height = 0;
    odd_crop.resize = FOVEA_RESIZE_NONE; /* begins at odd columns and lines of the frame */
    odd_crop.crop_width = 57;
    odd_crop.crop_height = 43;
    const fovea_preprocess *const rules[] = {NULL, &exact_size, &odd_crop};
    for (size_t i = 0; i < sizeof cameras / sizeof *cameras; i++) {
        camera c = cameras[i];
        shoot(&c);
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
            compare(model, device, &c, rules[r]);
        put_away(&c);
    }
    fovea_model_free(model);
}

static void equal_rgb(void **state)
{
    (void)state;
    fovea_device_info found = FOVEA_DEVICE_INFO_INIT;
    assert_true(fovea_device_list(0, &found));
    for (size_t i = 0; fovea_device_list(i, &found); i++) {
        fovea_device *device;
        fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
        options.threads = i ? 0 : 2;
        assert_int_equal(fovea_device_open(&device, found.id, &options), FOVEA_OK);
        print_message("%s %s\n", found.id, found.name);
        on(device);
        fovea_device_close(device);
    }
}

/* ---- frames that are wrong ---- */

static void refused(fovea_plan *plan, fovea_frame frame, const char *why)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    assert_true(fovea_plan_output(plan, 0, &info));
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_output out = {malloc(size), size};
    assert_int_equal(fovea_run(plan, &frame, &out, 1), FOVEA_EINVAL);
    if (!strstr(fovea_error(), why))
        fail_msg("'%s' does not say '%s'", fovea_error(), why);
    free(out.data);
}

static void wrong_planes(void **state)
{
    (void)state;
    static uint8_t bytes[FIXTURE_HEIGHT * 2 * FIXTURE_WIDTH + 100];
    fovea_device *device = fixture_device(1);
    fovea_model *model = fixture_load();
    fovea_plan *plan;
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    options.frame.format = FOVEA_FORMAT_NV12;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    refused(plan, (fovea_frame){.pixels = {bytes}}, "second plane has no pixels");
    refused(plan, (fovea_frame){.pixels = {NULL, bytes}}, "the frame has no pixels");
    refused(plan, (fovea_frame){.pixels = {bytes, bytes}, .stride = {0, FIXTURE_WIDTH}},
            "second plane has a stride of 101 bytes, but a row has 102");
    fovea_plan_free(plan);
    options.frame.format = FOVEA_FORMAT_YUYV;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    refused(plan, (fovea_frame){.pixels = {bytes}, .stride = {2 * FIXTURE_WIDTH}}, "a row has 204");
    fovea_plan_free(plan);
    options.yuv = (fovea_yuv_matrix)YUVS;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "yuv 6"));
    fovea_model_free(model);
    fovea_device_close(device);
}

/* The longest sides are refused or accepted before anything is allocated for them. */
static void largest_sides(void **state)
{
    (void)state;
    enum { SIDE = 65535 };
    fovea_device *device = fixture_device(1);
    fovea_model *model = fixture_load();
    fovea_preprocess small = FOVEA_PREPROCESS_INIT;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan *plan;
    fovea_model_preprocess(model, &small);
    small.resize = FOVEA_RESIZE_EXACT;
    small.resize_width = small.resize_height = 56;
    small.crop_width = small.crop_height = 0;
    for (int format = FOVEA_FORMAT_NV12; format <= FOVEA_FORMAT_YUYV; format++) {
        fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
        options.frame.format = (fovea_pixel_format)format;
        options.preprocess = &small;
        options.dry = 1;
        options.frame.width = options.frame.height = SIDE;
        assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
        fovea_plan_query(plan, &info);
        /* The first pass needs SIDE rows of the result's width; each worker needs one row of bytes.
         */
        assert_true(info.staging >= (uint64_t)SIDE * 56 * 3);
        assert_true(info.scratch >= (uint64_t)SIDE * 3);
        fovea_plan_free(plan);
        options.frame.width++;
        assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_EINVAL);
    }
    fovea_model_free(model);
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_standards),
        cmocka_unit_test(equal_rgb),
        cmocka_unit_test(wrong_planes),
        cmocka_unit_test(largest_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
