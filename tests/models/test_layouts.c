/* test_layouts.c: tests the rule that chooses the YUV matrix, one line per case; and compares
 * frames of every layout, after their conversion to a format that plans read, with the standards'
 * equations in double precision.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/video.h>

#include "ops/yuv.h"

enum { LAYOUTS = FOVEA_LAYOUT_I411 + 1, YUVS = FOVEA_YUV_2020_FULL + 1 };

/* ---- the rule ---- */

static void rule_of_colours(void **state)
{
    (void)state;
    static const struct {
        fovea_coefficients coefficients;
        fovea_range range;
        fovea_siting siting;
        fovea_origin origin;
        fovea_layout layout;
        uint32_t height;
        fovea_yuv_matrix want;
    } cases[] = {
        /* No property is specified. */
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_I420, 719, FOVEA_YUV_601},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_I420, 720, FOVEA_YUV_709},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_YUYV422, 2160, FOVEA_YUV_709},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_I422P10, 1080, FOVEA_YUV_709},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_I444, 1080, FOVEA_YUV_601},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_I444P10, 1080, FOVEA_YUV_709},
        {0, 0, 0, FOVEA_ORIGIN_CAMERA, FOVEA_LAYOUT_NV12, 1080, FOVEA_YUV_601},
        {0, 0, 0, FOVEA_ORIGIN_JPEG, FOVEA_LAYOUT_I420, 1080, FOVEA_YUV_601_FULL},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_GRAY, 480, FOVEA_YUV_601_FULL},
        {0, 0, 0, FOVEA_ORIGIN_CAMERA, FOVEA_LAYOUT_GRAY16, 480, FOVEA_YUV_601_FULL},
        {0, 0, 0, FOVEA_ORIGIN_VIDEO, FOVEA_LAYOUT_BGR0, 1080, FOVEA_YUV_601_FULL},
        /* Only the range is specified. */
        {0, FOVEA_RANGE_FULL, 0, 0, FOVEA_LAYOUT_I420, 1080, FOVEA_YUV_601_FULL},
        {0, FOVEA_RANGE_FULL, 0, 0, FOVEA_LAYOUT_I422, 720, FOVEA_YUV_601_FULL},
        {0, FOVEA_RANGE_FULL, FOVEA_SITING_CENTRE, 0, FOVEA_LAYOUT_I420, 720, FOVEA_YUV_601_FULL},
        {0, FOVEA_RANGE_FULL, FOVEA_SITING_LEFT, 0, FOVEA_LAYOUT_I420, 720, FOVEA_YUV_709_FULL},
        {0, FOVEA_RANGE_FULL, FOVEA_SITING_LEFT, 0, FOVEA_LAYOUT_I420, 480, FOVEA_YUV_601_FULL},
        {0, FOVEA_RANGE_FULL, 0, 0, FOVEA_LAYOUT_I420P10, 1080, FOVEA_YUV_709_FULL},
        {0, FOVEA_RANGE_LIMITED, FOVEA_SITING_CENTRE, 0, FOVEA_LAYOUT_I420, 720, FOVEA_YUV_709},
        {0, FOVEA_RANGE_LIMITED, 0, 0, FOVEA_LAYOUT_GRAY, 480, FOVEA_YUV_601},
        {0, FOVEA_RANGE_LIMITED, 0, FOVEA_ORIGIN_JPEG, FOVEA_LAYOUT_I420, 720, FOVEA_YUV_601},
        /* Only the coefficients, or coefficients and range. */
        {FOVEA_COEFFICIENTS_709, 0, 0, 0, FOVEA_LAYOUT_I420, 16, FOVEA_YUV_709},
        {FOVEA_COEFFICIENTS_601, 0, 0, 0, FOVEA_LAYOUT_I420, 1080, FOVEA_YUV_601},
        {FOVEA_COEFFICIENTS_2020, 0, 0, 0, FOVEA_LAYOUT_P010, 2160, FOVEA_YUV_2020},
        {FOVEA_COEFFICIENTS_2020, FOVEA_RANGE_FULL, 0, 0, FOVEA_LAYOUT_P010, 9,
         FOVEA_YUV_2020_FULL},
        {FOVEA_COEFFICIENTS_709, FOVEA_RANGE_FULL, FOVEA_SITING_CENTRE, FOVEA_ORIGIN_JPEG,
         FOVEA_LAYOUT_I420, 9, FOVEA_YUV_709_FULL},
        {FOVEA_COEFFICIENTS_709, 0, 0, FOVEA_ORIGIN_CAMERA, FOVEA_LAYOUT_NV12, 9, FOVEA_YUV_709},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fovea_colours c = FOVEA_COLOURS_INIT;
        fovea_yuv_matrix got;
        c.coefficients = cases[i].coefficients;
        c.range = cases[i].range;
        c.siting = cases[i].siting;
        c.origin = cases[i].origin;
        c.layout = cases[i].layout;
        c.height = cases[i].height;
        assert_int_equal(fovea_yuv_matrix_choose(&got, &c), FOVEA_OK);
        if (got != cases[i].want)
            fail_msg("case %zu: %d, wanted %d", i, got, cases[i].want);
    }
}

static void unknown_tags(void **state)
{
    (void)state;
    fovea_yuv_matrix got = FOVEA_YUV_2020;
    fovea_colours c = FOVEA_COLOURS_INIT;
    c.range = (fovea_range)9;
    assert_int_equal(fovea_yuv_matrix_choose(&got, &c), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "range 9"));
    c.range = FOVEA_RANGE_UNKNOWN;
    c.layout = (fovea_layout)LAYOUTS;
    assert_int_equal(fovea_yuv_matrix_choose(&got, &c), FOVEA_EINVAL);
    c = (fovea_colours){0};
    assert_int_equal(fovea_yuv_matrix_choose(&got, &c), FOVEA_EINVAL);
    assert_int_equal(got, FOVEA_YUV_2020);
}

/* ---- layouts ---- */

/* The pixels of a layout, derived independently from ffmpeg's names: for R, G, B or Y, U, V the
 * plane, the bytes between samples, and the bytes before the first sample. */
static const struct about {
    const char *name;
    fovea_pixel_format format;
    int bits, right, down;
    char kind; /* 'r': R, G, B; 'g': grey; 'y': YUV */
    int plane[3], step[3], first[3];
} abouts[LAYOUTS] = {
    {"rgb24", FOVEA_FORMAT_RGB8, 8, 0, 0, 'r', {0, 0, 0}, {3, 3, 3}, {0, 1, 2}},
    {"bgr24", FOVEA_FORMAT_BGR8, 8, 0, 0, 'r', {0, 0, 0}, {3, 3, 3}, {2, 1, 0}},
    {"rgb0", FOVEA_FORMAT_RGB8, 8, 0, 0, 'r', {0, 0, 0}, {4, 4, 4}, {0, 1, 2}},
    {"bgr0", FOVEA_FORMAT_RGB8, 8, 0, 0, 'r', {0, 0, 0}, {4, 4, 4}, {2, 1, 0}},
    {"0rgb", FOVEA_FORMAT_RGB8, 8, 0, 0, 'r', {0, 0, 0}, {4, 4, 4}, {1, 2, 3}},
    {"0bgr", FOVEA_FORMAT_RGB8, 8, 0, 0, 'r', {0, 0, 0}, {4, 4, 4}, {3, 2, 1}},
    {"gbrp", FOVEA_FORMAT_RGB8, 8, 0, 0, 'r', {2, 0, 1}, {1, 1, 1}, {0, 0, 0}},
    {"gbrp10le", FOVEA_FORMAT_RGB8, 10, 0, 0, 'r', {2, 0, 1}, {2, 2, 2}, {0, 0, 0}},
    {"gray", FOVEA_FORMAT_GRAY8, 8, 0, 0, 'g', {0}, {1}, {0}},
    {"gray10le", FOVEA_FORMAT_GRAY8, 10, 0, 0, 'g', {0}, {2}, {0}},
    {"gray12le", FOVEA_FORMAT_GRAY8, 12, 0, 0, 'g', {0}, {2}, {0}},
    {"gray16le", FOVEA_FORMAT_GRAY8, 16, 0, 0, 'g', {0}, {2}, {0}},
    {"yuyv422", FOVEA_FORMAT_YUYV, 8, 1, 0, 'y', {0, 0, 0}, {2, 4, 4}, {0, 1, 3}},
    {"uyvy422", FOVEA_FORMAT_YUYV, 8, 1, 0, 'y', {0, 0, 0}, {2, 4, 4}, {1, 0, 2}},
    {"yvyu422", FOVEA_FORMAT_YUYV, 8, 1, 0, 'y', {0, 0, 0}, {2, 4, 4}, {0, 3, 1}},
    {"nv12", FOVEA_FORMAT_NV12, 8, 1, 1, 'y', {0, 1, 1}, {1, 2, 2}, {0, 0, 1}},
    {"nv21", FOVEA_FORMAT_NV12, 8, 1, 1, 'y', {0, 1, 1}, {1, 2, 2}, {0, 1, 0}},
    {"p010le", FOVEA_FORMAT_NV12, 16, 1, 1, 'y', {0, 1, 1}, {2, 4, 4}, {0, 0, 2}},
    {"nv16", FOVEA_FORMAT_YUYV, 8, 1, 0, 'y', {0, 1, 1}, {1, 2, 2}, {0, 0, 1}},
    {"nv24", FOVEA_FORMAT_RGB8, 8, 0, 0, 'y', {0, 1, 1}, {1, 2, 2}, {0, 0, 1}},
    {"yuv420p", FOVEA_FORMAT_NV12, 8, 1, 1, 'y', {0, 1, 2}, {1, 1, 1}, {0}},
    {"yvu420p", FOVEA_FORMAT_NV12, 8, 1, 1, 'y', {0, 2, 1}, {1, 1, 1}, {0}},
    {"yuv420p10le", FOVEA_FORMAT_NV12, 10, 1, 1, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv420p12le", FOVEA_FORMAT_NV12, 12, 1, 1, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv420p16le", FOVEA_FORMAT_NV12, 16, 1, 1, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv422p", FOVEA_FORMAT_YUYV, 8, 1, 0, 'y', {0, 1, 2}, {1, 1, 1}, {0}},
    {"yuv422p10le", FOVEA_FORMAT_YUYV, 10, 1, 0, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv422p12le", FOVEA_FORMAT_YUYV, 12, 1, 0, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv422p16le", FOVEA_FORMAT_YUYV, 16, 1, 0, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv444p", FOVEA_FORMAT_RGB8, 8, 0, 0, 'y', {0, 1, 2}, {1, 1, 1}, {0}},
    {"yuv444p10le", FOVEA_FORMAT_RGB8, 10, 0, 0, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv444p12le", FOVEA_FORMAT_RGB8, 12, 0, 0, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv444p16le", FOVEA_FORMAT_RGB8, 16, 0, 0, 'y', {0, 1, 2}, {2, 2, 2}, {0}},
    {"yuv411p", FOVEA_FORMAT_YUYV, 8, 2, 0, 'y', {0, 1, 2}, {1, 1, 1}, {0}},
};

typedef struct scene {
    fovea_layout layout;
    fovea_yuv_matrix yuv;
    uint32_t width, height;
    fovea_frame frame;
    size_t stride[3];
} scene;

/* Fills every plane with noise, with `gap` bytes after each row. Samples use only their layout's
 * bits. */
static void shoot(scene *s, size_t gap)
{
    fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
    const struct about *a = &abouts[s->layout];
    uint32_t seed = 7;
    assert_int_equal(fovea_layout_query(s->layout, s->width, s->height, s->yuv, &info), FOVEA_OK);
    for (uint32_t p = 0; p < info.planes; p++) {
        const size_t stride = info.bytes[p] + gap, size = stride * info.rows[p];
        uint8_t *bytes = malloc(size);
        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++) {
            seed = seed * 1664525u + 1013904223u;
            const bool upper = a->bits > 8 && (i % stride) % 2;
            bytes[i] = (uint8_t)((seed >> 24) & (upper ? (1u << (a->bits - 8)) - 1 : 255));
        }
        s->frame.pixels[p] = bytes;
        s->stride[p] = stride;
        s->frame.stride[p] = gap ? stride : 0;
    }
}

static void put_away(scene *s)
{
    for (int p = 0; p < 3; p++)
        free((void *)(uintptr_t)s->frame.pixels[p]);
}

/* Returns a component of pixel (x, y) in the range 0 to 255, rounded to 8 bits. */
static double sample(const scene *s, int c, size_t x, size_t y)
{
    const struct about *a = &abouts[s->layout];
    const size_t column = c ? x >> a->right : x, line = c ? y >> a->down : y;
    const uint8_t *at = (const uint8_t *)s->frame.pixels[a->plane[c]] +
                        line * s->stride[a->plane[c]] + column * (size_t)a->step[c] + a->first[c];
    const double value = a->bits == 8 ? at[0] : at[0] + 256. * at[1];
    return fmin(floor(value / (double)(1 << (a->bits - 8)) + 0.5), 255);
}

static void exact(double rgb[3], const scene *s, size_t x, size_t y)
{
    static const double red[] = {0.299, 0.2126, 0.2627}, blue[] = {0.114, 0.0722, 0.0593};
    const char kind = abouts[s->layout].kind;
    const int full = s->yuv % 2;
    const double kr = red[s->yuv / 2], kb = blue[s->yuv / 2];
    if (kind == 'r') {
        for (int c = 0; c < 3; c++)
            rgb[c] = sample(s, c, x, y);
        return;
    }
    const double l = sample(s, 0, x, y), luma = full ? l / 255 : (l - 16) / 219;
    const double range = full ? 255 : 224;
    const double cb = kind == 'g' ? 0 : (sample(s, 1, x, y) - 128) / range;
    const double cr = kind == 'g' ? 0 : (sample(s, 2, x, y) - 128) / range;
    rgb[0] = 255 * (luma + 2 * (1 - kr) * cr);
    rgb[2] = 255 * (luma + 2 * (1 - kb) * cb);
    rgb[1] = (255 * luma - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
}

/* Computes R, G, B of a converted pixel as a plan does for the frame's format. */
static void planned(uint8_t rgb[3], const fovea_frame *f, const scene *s, size_t x, size_t y)
{
    const uint8_t *row = (const uint8_t *)f->pixels[0] + y * f->stride[0];
    const fovea_pixel_format format = abouts[s->layout].format;
    if (format == FOVEA_FORMAT_NV12 || format == FOVEA_FORMAT_YUYV) {
        const fv_yuv_frame y420 =
            fv_yuv_frame_of(format == FOVEA_FORMAT_NV12 ? FV_FLAG_NV12 : FV_FLAG_YUYV, f->pixels[0],
                            f->stride[0], f->pixels[1], f->stride[1]);
        fv_yuv_pixel(rgb, &y420, &fv_yuv_table[s->yuv], y, x);
        return;
    }
    for (size_t c = 0; c < 3; c++)
        rgb[c] = format == FOVEA_FORMAT_GRAY8  ? row[x]
                 : format == FOVEA_FORMAT_BGR8 ? row[3 * x + 2 - c]
                                               : row[3 * x + c];
}

static void one_layout(fovea_layout layout, fovea_yuv_matrix yuv, uint32_t width, uint32_t height,
                       size_t gap)
{
    enum { GUARD = 64 };
    scene s = {.layout = layout, .yuv = yuv, .width = width, .height = height};
    fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
    fovea_frame out;
    double want[3], worst = 0;
    uint8_t rgb[3];
    shoot(&s, gap);
    assert_int_equal(fovea_layout_query(layout, width, height, yuv, &info), FOVEA_OK);
    assert_string_equal(info.name, abouts[layout].name);
    assert_string_equal(fovea_layout_name(layout), info.name);
    assert_int_equal(info.format, abouts[layout].format);
    uint8_t *buffer = malloc(info.buffer_size + GUARD);
    assert_non_null(buffer);
    memset(buffer + info.buffer_size, 0xa5, GUARD);
    assert_int_equal(
        fovea_layout_convert(&out, &s.frame, layout, width, height, yuv, buffer, info.buffer_size),
        FOVEA_OK);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(buffer[info.buffer_size + i], 0xa5);
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            exact(want, &s, x, y);
            planned(rgb, &out, &s, x, y);
            for (int c = 0; c < 3; c++)
                worst = fmax(worst, fabs(fmin(fmax(want[c], 0), 255) - rgb[c]));
        }
    if (worst > 0.51)
        fail_msg("%s, yuv %d, %ux%u: %.2f from the equations", info.name, yuv, width, height,
                 worst);
    free(buffer);
    put_away(&s);
}

static void every_layout(void **state)
{
    (void)state;
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (int yuv = 0; yuv < YUVS; yuv++) {
            one_layout((fovea_layout)layout, (fovea_yuv_matrix)yuv, 34, 18, 0);
            one_layout((fovea_layout)layout, (fovea_yuv_matrix)yuv, 33, 17, 6);
            one_layout((fovea_layout)layout, (fovea_yuv_matrix)yuv, 1, 1, 0);
            one_layout((fovea_layout)layout, (fovea_yuv_matrix)yuv, 519, 3,
                       2); /* longer than a run */
        }
    assert_null(fovea_layout_name(LAYOUTS));
}

/* Formats that plans read directly stay in place with their strides. */
static void nothing_is_copied(void **state)
{
    (void)state;
    static const fovea_layout as_is[] = {FOVEA_LAYOUT_RGB24, FOVEA_LAYOUT_BGR24, FOVEA_LAYOUT_GRAY,
                                         FOVEA_LAYOUT_YUYV422, FOVEA_LAYOUT_NV12};
    static const uint8_t bytes[64];
    const fovea_frame in = {{bytes, bytes + 32}, {16, 16}};
    fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
    fovea_frame out;
    for (size_t i = 0; i < sizeof as_is / sizeof *as_is; i++) {
        assert_int_equal(fovea_layout_query(as_is[i], 4, 2, FOVEA_YUV_601_FULL, &info), FOVEA_OK);
        assert_int_equal(info.buffer_size, 0);
        assert_int_equal(
            fovea_layout_convert(&out, &in, as_is[i], 4, 2, FOVEA_YUV_601_FULL, NULL, 0), FOVEA_OK);
        assert_ptr_equal(out.pixels[0], bytes);
        assert_int_equal(out.stride[0], 16);
    }
    assert_int_equal(fovea_layout_query(FOVEA_LAYOUT_GRAY, 4, 2, FOVEA_YUV_601, &info), FOVEA_OK);
    assert_int_equal(info.buffer_size, 8);
    assert_int_equal(fovea_layout_query(FOVEA_LAYOUT_NV21, 4, 2, FOVEA_YUV_601, &info), FOVEA_OK);
    assert_int_equal(info.buffer_size, 4);
}

static void wrong_calls(void **state)
{
    (void)state;
    static uint8_t bytes[64], buffer[64];
    fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
    fovea_frame in = {{bytes, bytes, NULL}, {4, 2, 2}}, out;
    const fovea_layout i420 = FOVEA_LAYOUT_I420;
    assert_int_equal(fovea_layout_convert(&out, &in, i420, 4, 2, 0, buffer, 64), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "pixels[2]"));
    in.pixels[2] = bytes;
    assert_int_equal(fovea_layout_convert(&out, &in, i420, 4, 2, 0, buffer, 3), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "needs 4"));
    assert_int_equal(fovea_layout_convert(&out, &in, i420, 4, 2, 0, NULL, 64), FOVEA_EINVAL);
    in.stride[1] = 1;
    assert_int_equal(fovea_layout_convert(&out, &in, i420, 4, 2, 0, buffer, 64), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "stride[1]"));
    assert_int_equal(fovea_layout_query((fovea_layout)LAYOUTS, 4, 2, 0, &info), FOVEA_EINVAL);
    assert_int_equal(fovea_layout_query(i420, 4, 2, (fovea_yuv_matrix)YUVS, &info), FOVEA_EINVAL);
    assert_int_equal(fovea_layout_query(i420, 0, 2, 0, &info), FOVEA_EINVAL);
    assert_int_equal(fovea_layout_query(i420, 4, 65536, 0, &info), FOVEA_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule_of_colours), cmocka_unit_test(unknown_tags),
        cmocka_unit_test(every_layout),    cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
