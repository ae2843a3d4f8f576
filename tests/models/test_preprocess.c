/* test_preprocess.c: compares resized pictures with Pillow bit by bit, position tables with closed
 * formulas, and patches with plain loops; tests sizes that must not overflow. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <fovea/plans.h>

#include "base/mem.h"
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "platform/cpu/cpu_kernels.h"

/* ---- pictures ---- */

struct picture {
    uint32_t width, height;
    uint8_t *rgb;
};

static struct picture read_ppm(const char *name)
{
    char path[512];
    struct picture p;
    snprintf(path, sizeof path, "%s/picture_%s.ppm", TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "P6 %u %u 255", &p.width, &p.height), 2);
    fgetc(f);
    size_t size = (size_t)p.width * p.height * 3;
    p.rgb = malloc(size);
    assert_non_null(p.rgb);
    assert_int_equal(fread(p.rgb, 1, size, f), size);
    fclose(f);
    return p;
}

/* Runs one pass in calls of at most `step` rows, which must not change the result. */
static void pass(fv_cpu_fn kernel, uint8_t *out, const uint8_t *in, const fv_resize_table *table,
                 uint32_t rows, uint32_t width, size_t in_ld, uint32_t row0, uint32_t step)
{
    fv_args a = {0};
    a.prob.dim[0] = rows;
    a.prob.dim[1] = width;
    a.prob.dim[2] = 3;
    a.ld[FV_RESIZE_IN] = (uint32_t)in_ld;
    a.ld[FV_RESIZE_OUT] = width * 3;
    a.u[0] = row0;
    a.table = table;
    for (uint32_t r = 0; r < rows; r += step) {
        fv_call c = {0};
        c.row0 = r;
        c.rows = rows - r < step ? rows - r : step;
        c.p[FV_RESIZE_IN] = (void *)(uintptr_t)in;
        c.p[FV_RESIZE_OUT] = out + (size_t)r * width * 3;
        kernel(&a, &c);
    }
}

static struct picture resize(const struct picture *in, const fovea_preprocess *p, uint32_t step)
{
    fv_picture plan;
    assert_int_equal(fv_picture_plan(&plan, p, in->width, in->height), FOVEA_OK);
    struct picture out = {plan.width, plan.height, calloc(plan.height, (size_t)plan.width * 3)};
    assert_non_null(out.rgb);
    assert_true(plan.resizes <= 1);
    const fv_picture_resize *r = &plan.resize[0];
    if (plan.resizes) {
        uint8_t *between = calloc(r->in_rows + 1u, (size_t)r->width * 3);
        assert_non_null(between);
        pass(fv_k_resize_x_ref, between, in->rgb, &r->x, r->in_rows, r->width,
             (size_t)in->width * 3, r->in_row0, step);
        pass(fv_k_resize_y_ref, out.rgb, between, &r->y, r->height, r->width, (size_t)r->width * 3,
             0, step);
        free(between);
    } else {
        memcpy(out.rgb, in->rgb, (size_t)in->width * in->height * 3);
    }
    fv_picture_free(&plan);
    return out;
}

/* Compares fovea_preprocess_apply(), which users call, with the preprocessing in a plan. */
static void applied(const struct picture *in, const fovea_preprocess *p, const struct picture *want)
{
    const size_t size = (size_t)want->width * want->height * 3;
    uint8_t *out = calloc(size, 1);
    assert_non_null(out);
    assert_int_equal(
        fovea_preprocess_apply(p, in->rgb, in->width, in->height, out, want->width, want->height),
        FOVEA_OK);
    assert_memory_equal(out, want->rgb, size);
    assert_int_equal(fovea_preprocess_apply(p, in->rgb, in->width, in->height, out, want->width + 1,
                                            want->height),
                     FOVEA_EINVAL);
    free(out);
}

static fovea_preprocess rule(fovea_resize resize_rule, fovea_filter filter)
{
    fovea_preprocess p = FOVEA_PREPROCESS_INIT;
    p.resize = resize_rule;
    p.filter = filter;
    return p;
}

static const struct {
    const char *name, *source;
    fovea_resize resize;
    uint32_t width, height; /* the size for EXACT; the short side for SHORT, in width */
    fovea_filter filter;
    uint32_t crop_width, crop_height;
} picture_case[] = {
    {"wide_short32_crop24", "wide", FOVEA_RESIZE_SHORT, 32, 0, FOVEA_FILTER_BICUBIC, 24, 24},
    {"wide_short24", "wide", FOVEA_RESIZE_SHORT, 24, 0, FOVEA_FILTER_BILINEAR, 0, 0},
    {"tall_short20_crop28", "tall", FOVEA_RESIZE_SHORT, 20, 0, FOVEA_FILTER_BICUBIC, 28, 24},
    {"tall_short31", "tall", FOVEA_RESIZE_SHORT, 31, 0, FOVEA_FILTER_LANCZOS, 0, 0},
    {"wide_exact40", "wide", FOVEA_RESIZE_EXACT, 40, 40, FOVEA_FILTER_BILINEAR, 0, 0},
    {"wide_exact33x17", "wide", FOVEA_RESIZE_EXACT, 33, 17, FOVEA_FILTER_LANCZOS, 0, 0},
    {"wide_exact20x50", "wide", FOVEA_RESIZE_EXACT, 20, 50, FOVEA_FILTER_BOX, 0, 0},
    {"tall_exact61x30", "tall", FOVEA_RESIZE_EXACT, 61, 30, FOVEA_FILTER_HAMMING, 0, 0},
    {"wide_exact50x20", "wide", FOVEA_RESIZE_EXACT, 50, 20, FOVEA_FILTER_NEAREST, 0, 0},
    {"wide_exact31x61", "wide", FOVEA_RESIZE_EXACT, 31, 61, FOVEA_FILTER_BICUBIC, 0, 0},
    {"wide_exact97x13", "wide", FOVEA_RESIZE_EXACT, 97, 13, FOVEA_FILTER_BICUBIC, 0, 0},
    {"tiny_exact37x29", "tiny", FOVEA_RESIZE_EXACT, 37, 29, FOVEA_FILTER_BICUBIC, 0, 0},
    {"tiny_exact23x40", "tiny", FOVEA_RESIZE_EXACT, 23, 40, FOVEA_FILTER_LANCZOS, 0, 0},
    {"tiny_exact31x17", "tiny", FOVEA_RESIZE_EXACT, 31, 17, FOVEA_FILTER_NEAREST, 0, 0},
    {"wide_exact30x20_crop41", "wide", FOVEA_RESIZE_EXACT, 30, 20, FOVEA_FILTER_BILINEAR, 41, 41},
    {"tall_crop33x21", "tall", FOVEA_RESIZE_NONE, 0, 0, FOVEA_FILTER_BICUBIC, 33, 21},
};

static void pillow(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof picture_case / sizeof *picture_case; i++) {
        fovea_preprocess p = rule(picture_case[i].resize, picture_case[i].filter);
        p.short_edge = picture_case[i].width;
        p.resize_width = picture_case[i].width;
        p.resize_height = picture_case[i].height;
        p.resample = FOVEA_RESAMPLE_PILLOW;
        p.crop = FOVEA_CROP_UP;
        p.crop_width = picture_case[i].crop_width;
        p.crop_height = picture_case[i].crop_height;
        struct picture in = read_ppm(picture_case[i].source), want = read_ppm(picture_case[i].name);
        for (uint32_t step = 1; step < 100; step += 98) {
            struct picture got = resize(&in, &p, step);
            assert_int_equal(got.width, want.width);
            assert_int_equal(got.height, want.height);
            for (size_t b = 0; b < (size_t)want.width * want.height * 3; b++)
                if (got.rgb[b] != want.rgb[b])
                    fail_msg("%s: byte %zu is %d, Pillow has %d", picture_case[i].name, b,
                             got.rgb[b], want.rgb[b]);
            free(got.rgb);
        }
        applied(&in, &p, &want);
        free(in.rgb);
        free(want.rgb);
    }
}

static void same_size_is_no_resample(void **state)
{
    (void)state;
    fovea_preprocess p = rule(FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC);
    fv_picture plan;
    p.short_edge = 60;
    assert_int_equal(fv_picture_plan(&plan, &p, 80, 60), FOVEA_OK);
    assert_int_equal(plan.resizes, 0);
    assert_int_equal(plan.width, 80);
    assert_int_equal(plan.height, 60);
    fv_picture_free(&plan);
}

/* After fovea_preprocess_resize() a SHORT rule covers the size, whatever the shape of the picture.
 */
static void cover(void **state)
{
    (void)state;
    static const uint32_t picture[][2] = {{1920, 1080}, {100, 900}, {900, 100}, {64, 64}, {1, 1}};
    for (size_t i = 0; i < sizeof picture / sizeof *picture; i++) {
        fovea_preprocess p = rule(FOVEA_RESIZE_SHORT, FOVEA_FILTER_BILINEAR);
        p.short_edge = 256;
        p.crop_width = p.crop_height = 224;
        fovea_preprocess_resize(&p, 320, 180);
        fv_picture plan;
        assert_int_equal(fv_picture_plan(&plan, &p, picture[i][0], picture[i][1]), FOVEA_OK);
        assert_int_equal(plan.width, 320);
        assert_int_equal(plan.height, 180);
        for (uint32_t o = 0; o < plan.resize[0].x.size; o++)
            assert_true(plan.resize[0].x.count[o] > 0);
        for (uint32_t o = 0; o < plan.resize[0].y.size; o++)
            assert_true(plan.resize[0].y.count[o] > 0);
        if (picture[i][0] == 1920) /* same shape: nothing is cropped */
            assert_int_equal(plan.resize[0].x.start[319] + plan.resize[0].x.count[319], 1920);
        fv_picture_free(&plan);
    }
    fovea_preprocess p = rule(FOVEA_RESIZE_EXACT, FOVEA_FILTER_BILINEAR);
    p.crop_width = 7;
    fovea_preprocess_resize(&p, 30, 20);
    assert_int_equal(p.resize_width, 30);
    assert_int_equal(p.resize_height, 20);
    assert_int_equal(p.crop_width, 0);
}

/* The sizes that transformers' Siglip2ImageProcessor computes. */
static void whole_patches(void **state)
{
    (void)state;
    static const struct {
        uint32_t w, h, patch, most, out_w, out_h;
    } cases[] = {
        {640, 480, 16, 256, 288, 224},    {480, 640, 16, 256, 224, 288},
        {1920, 1080, 16, 256, 336, 192},  {2000, 31, 16, 256, 2048, 32},
        {224, 224, 16, 256, 256, 256},    {5, 7, 16, 64, 112, 144},
        {1000, 1000, 14, 1024, 448, 448}, {1024, 333, 14, 729, 658, 210},
        {11, 3000, 16, 256, 16, 4096},
    };
    fovea_preprocess p = rule(FOVEA_RESIZE_PATCHES, FOVEA_FILTER_BILINEAR);
    fv_picture out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p.patch = cases[i].patch;
        p.most_patches = cases[i].most;
        assert_int_equal(fv_picture_plan(&out, &p, cases[i].w, cases[i].h), FOVEA_OK);
        assert_int_equal(out.width, cases[i].out_w);
        assert_int_equal(out.height, cases[i].out_h);
        fv_picture_free(&out);
    }
    p.most_patches = 0;
    assert_int_equal(fv_picture_plan(&out, &p, 64, 64), FOVEA_EINVAL);
}

/* The sizes that transformers' Qwen2VLImageProcessor computes. */
static void an_area_is_kept(void **state)
{
    (void)state;
    static const uint32_t cases[][7] = {
        /* picture, unit, limits of the area, result */
        {640, 480, 28, 3136, 1003520, 644, 476},      {1920, 1080, 28, 3136, 1003520, 1316, 728},
        {10, 12, 28, 3136, 1003520, 56, 84},          {14, 42, 28, 784, 1003520, 28, 56},
        {3000, 15, 28, 3136, 1003520, 2996, 28},      {70, 70, 28, 784, 1003520, 56, 56},
        {4000, 4000, 28, 3136, 12845056, 3584, 3584}, {100, 100, 32, 1, 100, 32, 32},
    };
    fovea_preprocess p = rule(FOVEA_RESIZE_AREA, FOVEA_FILTER_BICUBIC);
    fv_picture out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t *c = cases[i];
        p.patch = c[2];
        p.least_area = c[3];
        p.most_area = c[4];
        assert_int_equal(fv_picture_plan(&out, &p, c[0], c[1]), FOVEA_OK);
        assert_int_equal(out.width, c[5]);
        assert_int_equal(out.height, c[6]);
        fv_picture_free(&out);
    }
    assert_int_equal(fv_picture_plan(&out, &p, 201, 1), FOVEA_EINVAL);
    p.least_area = p.most_area + 1;
    assert_int_equal(fv_picture_plan(&out, &p, 64, 64), FOVEA_EINVAL);
    p.patch = 0;
    p.least_area = 1;
    assert_int_equal(fv_picture_plan(&out, &p, 64, 64), FOVEA_EINVAL);
}

/* The sizes that transformers' PixtralImageProcessor computes. */
static void only_large_pictures_shrink(void **state)
{
    (void)state;
    static const uint32_t cases[][4] = {
        {640, 480, 640, 480}, {1920, 1080, 1024, 576},  {1000, 3000, 352, 1024},
        {7, 5, 16, 16},       {1025, 1025, 1024, 1024}, {17, 1030, 16, 1024},
    };
    fovea_preprocess p = rule(FOVEA_RESIZE_SHRINK, FOVEA_FILTER_BICUBIC);
    fv_picture out;
    p.patch = 16;
    p.resize_width = p.resize_height = 1024;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t *c = cases[i];
        assert_int_equal(fv_picture_plan(&out, &p, c[0], c[1]), FOVEA_OK);
        assert_int_equal(out.width, c[2]);
        assert_int_equal(out.height, c[3]);
        fv_picture_free(&out);
    }
    p.resize_width = 0;
    assert_int_equal(fv_picture_plan(&out, &p, 64, 64), FOVEA_EINVAL);
}

/* The sizes that transformers' DPTImageProcessor computes. */
static void a_side_fits(void **state)
{
    (void)state;
    static const uint32_t cases[][7] = {
        /* picture, size, multiple, result */
        {640, 480, 518, 518, 14, 686, 518},   {480, 640, 518, 518, 14, 518, 686},
        {1920, 1080, 518, 518, 14, 924, 518}, {300, 500, 518, 518, 14, 308, 518},
        {518, 518, 518, 518, 14, 518, 518},   {400, 31, 518, 518, 14, 518, 42},
        {1000, 777, 392, 518, 14, 672, 518},  {63, 37, 64, 96, 32, 64, 32},
    };
    fovea_preprocess p = rule(FOVEA_RESIZE_FIT, FOVEA_FILTER_BICUBIC);
    fv_picture out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p.resize_width = cases[i][2];
        p.resize_height = cases[i][3];
        p.patch = cases[i][4];
        assert_int_equal(fv_picture_plan(&out, &p, cases[i][0], cases[i][1]), FOVEA_OK);
        assert_int_equal(out.width, cases[i][5]);
        assert_int_equal(out.height, cases[i][6]);
        fv_picture_free(&out);
    }
    assert_int_equal(fv_picture_plan(&out, &p, 60000, 1), FOVEA_EINVAL); /* nothing would remain */
    p.patch = 0;
    assert_int_equal(fv_picture_plan(&out, &p, 64, 64), FOVEA_EINVAL);
}

static void large_and_absurd_sizes(void **state)
{
    (void)state;
    fovea_preprocess p = rule(FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC);
    fv_picture plan;
    p.short_edge = 256;
    p.crop_width = p.crop_height = 224;
    assert_int_equal(fv_picture_plan(&plan, &p, 1u << 20, 1u << 20), FOVEA_OK);
    assert_int_equal(plan.width, 224);
    assert_true(plan.resize[0].in_row0 + plan.resize[0].in_rows <= 1u << 20);
    for (uint32_t o = 0; o < plan.resize[0].x.size; o++) {
        int64_t sum = 0;
        assert_true((uint64_t)plan.resize[0].x.start[o] + plan.resize[0].x.count[o] <= 1u << 20);
        for (uint32_t t = 0; t < plan.resize[0].x.count[o]; t++)
            sum += plan.resize[0].x.whole[(size_t)o * plan.resize[0].x.taps + t];
        const int64_t one = INT64_C(1) << plan.resize[0].x.bits; /* rounding only */
        assert_true(llabs(sum - one) <= (int64_t)plan.resize[0].x.count[o]);
    }
    fv_picture_free(&plan);
    p.crop_width = p.crop_height = 0;
    p.resize = FOVEA_RESIZE_NONE;
    assert_int_equal(fv_picture_plan(&plan, &p, 16384, 16384), FOVEA_OK);
    fv_picture_free(&plan);
    p.resize = FOVEA_RESIZE_SHORT;

    static const uint32_t bad[][2] = {{0, 5}, {5, 0}, {UINT32_MAX, UINT32_MAX}, {1, 1u << 20}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(fv_picture_plan(&plan, &p, bad[i][0], bad[i][1]), FOVEA_EINVAL);
        assert_true(strlen(fovea_error()) > 0);
        fv_picture_free(&plan);
    }
    p = rule(FOVEA_RESIZE_EXACT,
             FOVEA_FILTER_BICUBIC); /* padding with the taps of a large picture */
    p.resize_width = p.resize_height = 1;
    p.crop_width = p.crop_height = 65536;
    assert_int_equal(fv_picture_plan(&plan, &p, 4000, 3000), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "crop"));
    fv_picture_free(&plan);
    p = rule(FOVEA_RESIZE_EXACT, FOVEA_FILTER_BICUBIC);
    assert_int_equal(fv_picture_plan(&plan, &p, 10, 10), FOVEA_EINVAL);
    p.resize_width = p.resize_height = 10;
    p.crop_width = UINT32_MAX;
    assert_int_equal(fv_picture_plan(&plan, &p, 10, 10), FOVEA_EINVAL);
    p.crop_width = 0;
    p.filter = (fovea_filter)77;
    assert_int_equal(fv_picture_plan(&plan, &p, 10, 10), FOVEA_EINVAL);
}

static void out_of_memory(void **state)
{
    (void)state;
    fovea_preprocess p = rule(FOVEA_RESIZE_EXACT, FOVEA_FILTER_LANCZOS);
    p.resize_width = 31;
    p.resize_height = 17;
    for (uint64_t n = 1;; n++) {
        fv_picture plan;
        fv_posemb_table table;
        fv_mem_fail_at(n);
        fovea_status a = fv_picture_plan(&plan, &p, 100, 80);
        fovea_status b = fv_posemb_plan(&table, FV_POS_AA, 16, 16, 9, 21);
        fv_mem_fail_at(0);
        fv_picture_free(&plan);
        fv_posemb_free(&table);
        assert_int_equal(fv_mem_tagged(FV_MEM_PLAN), 0);
        if (a == FOVEA_OK && b == FOVEA_OK) {
            assert_true(n > 10);
            return;
        }
        assert_true((a == FOVEA_ENOMEM) != (b == FOVEA_ENOMEM));
    }
}

/* ---- position tables ---- */

static double keys(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/* Returns the resized value at grid position o of a one-dimensional table, by the rule's formula.
 */
static double resized_at(enum fv_pos_rule rule_, const double *table, int in, int out, int o)
{
    double sum = 0, weights = 0;
    double r = (double)in / out;
    if (rule_ == FV_POS_AA || rule_ == FV_POS_BILINEAR_AA) {
        const double reach = rule_ == FV_POS_AA ? 2 : 1;
        double s = fmax(r, 1), centre = (o + 0.5) * r;
        for (int i = 0; i < in; i++) {
            const double away = (i - centre + 0.5) / s;
            double w = reach == 2 ? keys(away, -0.5) : fmax(0, 1 - fabs(away));
            if (i < (int)(centre - reach * s + 0.5) || i >= (int)(centre + reach * s + 0.5))
                continue;
            sum += w * table[i];
            weights += w;
        }
        return sum / weights;
    }
    if (rule_ == FV_POS_OFFSET || rule_ == FV_POS_LINEAR_OFFSET)
        r = in / (out + 0.1);
    if (rule_ == FV_POS_CROPPED) /* of the longer side: here the other side's 2, or this side */
        r = (double)in / (out > 2 ? out : 2);
    double at = (o + 0.5) * r - 0.5;
    if (rule_ == FV_POS_CORNERS)
        at = out > 1 ? o * (in - 1.0) / (out - 1.0) : 0;
    const bool cubic = rule_ == FV_POS_PLAIN || rule_ == FV_POS_OFFSET;
    for (int i = (int)floor(at) - 2; i <= (int)floor(at) + 3; i++) {
        double w = cubic ? keys(at - i, -0.75) : fmax(0, 1 - fabs(at - i));
        sum += w * table[i < 0 ? 0 : i >= in ? in - 1 : i];
    }
    return sum;
}

static void position_rules(void **state)
{
    (void)state;
    static const int size[][2] = {{37, 16}, {16, 37}, {14, 15}, {3, 50}, {50, 3}, {1, 4}, {4, 1}};
    double table[64];
    srand(7);
    for (int i = 0; i < 64; i++)
        table[i] = rand() / (double)RAND_MAX - 0.5;
    for (int ru = FV_POS_PLAIN; ru <= FV_POS_LINEAR_OFFSET; ru++)
        for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
            fv_posemb_table t;
            int in = size[k][0], out = size[k][1];
            if (ru == FV_POS_PROGRESSION || ru == FV_POS_BUCKETS) /* tests of their own */
                continue;
            assert_int_equal(
                fv_posemb_plan(&t, (enum fv_pos_rule)ru, (uint32_t)in, 2, (uint32_t)out, 2),
                FOVEA_OK);
            for (int o = 0; o < out; o++) {
                double got = 0;
                for (uint32_t i = 0; i < t.taps_x; i++) {
                    size_t at = (size_t)o * t.taps_x + i;
                    assert_true(t.index_x[at] < (uint32_t)in);
                    got += t.weight_x[at] * table[t.index_x[at]];
                }
                assert_true(fabs(got - resized_at((enum fv_pos_rule)ru, table, in, out, o)) < 1e-6);
            }
            fv_posemb_free(&t);
        }
}

/* BEiT's rule: cumulative powers of one ratio reach the last offset, the middle stays in the
 * middle, and a table that is linear in the offset is reproduced. */
static void progression_spreads_from_the_middle(void **state)
{
    (void)state;
    static const int size[][2] = {{27, 63}, {27, 31}, {7, 13}, {63, 27}, {3, 21}, {1, 5}, {27, 1}};
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        const int in = size[k][0], out = size[k][1], half = in / 2;
        double offset[32] = {0}, left = 1.01, right = 1.5, q = 0;
        while (right - left > 1e-6) {
            double sum = 0;
            q = (left + right) / 2;
            for (int i = 0; i < half; i++)
                sum += pow(q, i);
            *(sum > out / 2 ? &right : &left) = q; /* whole steps, as timm counts them */
        }
        for (int i = 0; i < half; i++)
            offset[i + 1] = offset[i] + pow(q, i);
        fv_posemb_table t;
        /* 3 rows to 5: a side that keeps its size is also resampled */
        assert_int_equal(fv_posemb_plan(&t, FV_POS_PROGRESSION, (uint32_t)in, 3, (uint32_t)out, 5),
                         FOVEA_OK);
        assert_int_equal(t.taps_x, 2);
        for (int o = 0; o < out; o++) {
            double sum = 0, weights = 0, far = offset[half];
            for (int i = 2 * o; i < 2 * o + 2; i++) {
                const int at = (int)t.index_x[i] - half;
                assert_true(at >= -half && at <= half);
                sum += t.weight_x[i] * (at < 0 ? -offset[-at] : offset[at]);
                weights += t.weight_x[i];
                assert_true(t.weight_x[i] >= 0);
            }
            const double wanted = fmax(-far, fmin(far, o - out / 2));
            assert_true(fabs(sum - wanted) < 1e-5 && fabs(weights - 1) < 1e-6);
        }
        fv_posemb_free(&t);
    }
}

static void equal_sizes_take_one_tap(void **state)
{
    (void)state;
    fv_posemb_table t;
    assert_int_equal(fv_posemb_plan(&t, FV_POS_OFFSET, 7, 5, 7, 5), FOVEA_OK);
    assert_int_equal(t.taps_x, 1);
    assert_int_equal(t.taps_y, 1);
    for (uint32_t o = 0; o < 7; o++) {
        assert_int_equal(t.index_x[o], o);
        assert_true(t.weight_x[o] == 1.f);
    }
    fv_posemb_free(&t);
    assert_int_equal(fv_posemb_plan(&t, FV_POS_PLAIN, 7, 5, 0, 5), FOVEA_EINVAL);
}

/* Position o of `out` reads row floor(o * in / out), or the row before if single precision rounds
 * the quotient below an integer. `early` lists these positions as PyTorch computes them. */
static void buckets(void **state)
{
    (void)state;
    static const struct {
        uint32_t in, out;
        uint32_t early[8]; /* ends with 0 */
    } cases[] = {
        {1, 3, {0}},
        {4, 7, {0}},
        {32, 20, {0}},
        {32, 32, {0}},
        {32, 82, {41, 0}},
        {19, 19, {12, 0}},
        {5, 25, {5, 10, 15, 20, 0}},
        {27, 135, {45, 50, 65, 75, 90, 115, 130, 0}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const uint32_t in = cases[k].in, out = cases[k].out, *early = cases[k].early;
        fv_posemb_table t;
        assert_int_equal(fv_posemb_plan(&t, FV_POS_BUCKETS, in, in, out, in), FOVEA_OK);
        assert_int_equal(t.taps_x, 1);
        for (uint32_t o = 0; o < out; o++) {
            const bool before = *early && *early == o;
            early += before;
            assert_int_equal(t.index_x[o], o * in / out - before);
            assert_true(t.weight_x[o] == 1.f);
        }
        fv_posemb_free(&t);
    }
}

/* ---- colour ---- */

static void colour(void **state)
{
    (void)state;
    fovea_preprocess p = rule(FOVEA_RESIZE_NONE, FOVEA_FILTER_BILINEAR);
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, dev[3] = {0.229f, 0.224f, 0.225f};
    memcpy(p.mean, mean, sizeof mean);
    memcpy(p.std, dev, sizeof dev);
    fv_patch_table t;
    fv_patch_table_fill(&t, &p, false);
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++) {
            double want = ((double)v * p.rescale - mean[c]) / dev[c];
            assert_true(fabs(v * t.scale[c] + t.shift[c] - want) < 1e-6);
        }
}

/* Returns the output of the fixture's plan with these rules, or NULL with a message if they are
 * refused. */
static float *logits(const fovea_preprocess *p)
{
    static const uint8_t pixels[32 * 32 * 3] = {7, 90, 200};
    static float out[4096];
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan = NULL;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    o.frame.width = o.frame.height = 32;
    o.preprocess = p;
    assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
    assert_int_equal(fovea_model_load(&model, TEST_DATA "/golden/models/vit-01"), FOVEA_OK);
    const fovea_status status = fovea_plan_create(&plan, model, device, &o);
    if (status == FOVEA_OK) {
        const fovea_frame frame = {.pixels = {pixels}};
        fovea_plan_output(plan, 0, &info);
        assert_true(info.rows * info.columns <= sizeof out / sizeof *out);
        const fovea_output to = {out, sizeof out};
        assert_int_equal(fovea_run(plan, &frame, &to, 1), FOVEA_OK);
        for (size_t i = 0; i < (size_t)info.rows * info.columns; i++)
            assert_true(isfinite(out[i]));
    } else {
        assert_int_equal(status, FOVEA_EINVAL);
    }
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    return plan ? out : NULL;
}

static void zeros_mean_the_default(void **state)
{
    (void)state;
    fovea_model *model;
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_preprocess p = FOVEA_PREPROCESS_INIT, bare = FOVEA_PREPROCESS_INIT;
    assert_int_equal(fovea_model_load(&model, TEST_DATA "/golden/models/vit-01"), FOVEA_OK);
    fovea_model_describe(model, &info);
    fovea_model_preprocess(model, &p);
    fovea_model_free(model);
    bare.resize = FOVEA_RESIZE_EXACT;
    bare.resize_width = info.native_width;
    bare.resize_height = info.native_height;
    p.resize = FOVEA_RESIZE_EXACT;
    p.filter = FOVEA_FILTER_BILINEAR;
    p.resize_width = info.native_width;
    p.resize_height = info.native_height;
    p.crop_width = p.crop_height = 0;
    p.rescale = 1.f / 255;
    const float *out = logits(&p), first = out ? out[0] : 0;
    assert_non_null(out);
    out = logits(&bare);
    assert_non_null(out);
    assert_true(out[0] == first);
    static const float bad[] = {NAN, INFINITY, 0, 1e-9f, -1, 1e9f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fovea_preprocess q = p;
        q.std[1] = bad[i];
        assert_null(logits(&q));
        assert_non_null(strstr(fovea_error(), "std"));
        q = p;
        q.rescale = bad[i];
        assert_true(bad[i] == 0 || !logits(&q));
    }
    p.mean[2] = NAN;
    assert_null(logits(&p));
    bare.struct_size = 77777;
    assert_null(logits(&bare));
    assert_non_null(strstr(fovea_error(), "FOVEA_PREPROCESS_INIT"));
    uint8_t rgb[3] = {0};
    assert_int_equal(fovea_preprocess_apply(&bare, rgb, 1, 1, rgb, 1, 1), FOVEA_EINVAL);
}

static void lies(const fovea_preprocess *p, uint32_t width, uint32_t height, const fv_picture *want)
{
    fv_picture out;
    assert_int_equal(fv_picture_plan(&out, p, width, height), FOVEA_OK);
    assert_int_equal(out.width, want->width);
    assert_int_equal(out.height, want->height);
    assert_true(fabs(out.left - want->left) < 1e-12 && fabs(out.top - want->top) < 1e-12);
    assert_true(fabs(out.scale_x - want->scale_x) < 1e-12);
    assert_true(fabs(out.scale_y - want->scale_y) < 1e-12);
    fv_picture_free(&out);
}

static void place_in_the_frame(void **state)
{
    (void)state;
    fovea_preprocess p = rule(FOVEA_RESIZE_SHORT, FOVEA_FILTER_BILINEAR);
    p.short_edge = 20;
    p.crop_width = p.crop_height = 16; /* 80x40 becomes 40x20, and the centre is cropped */
    fv_picture want = {16, 16, .left = 24, .top = 4, .scale_x = 2, .scale_y = 2};
    lies(&p, 80, 40, &want);
    p.crop_width = want.width =
        43; /* padding is wider than the picture: tests the position of the odd column */
    want.left = -2;
    lies(&p, 80, 40, &want);
    p.crop = FOVEA_CROP_UP;
    want.left = -4;
    lies(&p, 80, 40, &want);
    p = rule(FOVEA_RESIZE_EXACT, FOVEA_FILTER_BILINEAR);
    p.resize_width = 10;
    p.resize_height = 40;
    want = (fv_picture){10, 40, .scale_x = 2.5, .scale_y = 0.25};
    lies(&p, 25, 10, &want);
    p = rule(FOVEA_RESIZE_NONE, FOVEA_FILTER_BILINEAR);
    want = (fv_picture){7, 9, .scale_x = 1, .scale_y = 1};
    lies(&p, 7, 9, &want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pillow),
        cmocka_unit_test(same_size_is_no_resample),
        cmocka_unit_test(cover),
        cmocka_unit_test(whole_patches),
        cmocka_unit_test(an_area_is_kept),
        cmocka_unit_test(only_large_pictures_shrink),
        cmocka_unit_test(a_side_fits),
        cmocka_unit_test(large_and_absurd_sizes),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(position_rules),
        cmocka_unit_test(progression_spreads_from_the_middle),
        cmocka_unit_test(equal_sizes_take_one_tap),
        cmocka_unit_test(buckets),
        cmocka_unit_test(colour),
        cmocka_unit_test(zeros_mean_the_default),
        cmocka_unit_test(place_in_the_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
