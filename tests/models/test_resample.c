/* test_resample.c: compares pictures with those of torchvision and transformers' image processors:
 * bytes bit by bit, floats from 0 to 1 within 1e-6. tests/data/make_resample.py writes the expected
 * values. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/type.h"
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"
#include "platform/cpu/cpu_kernels.h"

/* Returns the same picture as make_resample.py. */
static uint8_t *source(uint32_t width, uint32_t height)
{
    uint8_t *out = malloc((size_t)width * height * 3), *to = out;
    assert_non_null(out);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                const uint32_t value = (x * 7 + y * 13 + c * 50) ^ (x * y >> 4);
                const uint32_t block = (x / 9 + y / 11 + c) % 3;
                *to++ = (uint8_t)(block == 0   ? value
                                  : block == 1 ? 255 * (value >> 3 & 1)
                                               : value / 5);
            }
    return out;
}

static uint64_t hash_of(const uint8_t *bytes, size_t n)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        value = (value ^ bytes[i]) * UINT64_C(0x100000001b3);
    return value;
}

static void *pass(fv_cpu_fn kernel, const fv_resize_table *t, const void *in, enum fv_type from,
                  enum fv_type to, uint32_t rows, uint32_t width, uint32_t in_width, uint32_t row0)
{
    fv_args a = {.prob.dim = {rows, width, 3, in_width},
                 .prob.in = (uint8_t)from,
                 .prob.out = (uint8_t)to,
                 .table = t,
                 .u[0] = row0};
    fv_call c = {.rows = rows};
    a.ld[FV_RESIZE_IN] = in_width * 3;
    a.ld[FV_RESIZE_OUT] = width * 3;
    c.p[FV_RESIZE_IN] = (void *)(uintptr_t)in;
    c.p[FV_RESIZE_OUT] = malloc((size_t)rows * width * 3 * fv_type_size(to));
    assert_non_null(c.p[FV_RESIZE_OUT]);
    kernel(&a, &c);
    return c.p[FV_RESIZE_OUT];
}

/* Returns the frame after its resizes; the caller frees it. */
static void *resized(const fv_picture *p, uint8_t *rgb, uint32_t width)
{
    const enum fv_type to = p->floats ? FV_F32 : FV_U8;
    enum fv_type from = FV_U8;
    void *now = rgb;
    for (uint32_t i = 0; i < p->resizes; i++) {
        const fv_picture_resize *r = &p->resize[i];
        void *wide =
            pass(fv_k_resize_x_ref, &r->x, now, from, to, r->in_rows, r->width, width, r->in_row0);
        void *next = pass(fv_k_resize_y_ref, &r->y, wide, to, to, r->height, r->width, r->width, 0);
        free(wide);
        free(now);
        now = next;
        from = to;
        width = r->width;
    }
    return now;
}

/* Returns the normalised pixels, including the padding. */
static float *normalised(const fv_picture *p, const void *in, const fovea_preprocess *rule)
{
    const uint32_t pixels = p->width * p->height;
    fv_patch_table table;
    fv_patch_table_fill(&table, rule, p->floats);
    fv_args a = {
        .prob.dim = {pixels, 3, 1, 1, p->inner.left, p->inner.width, p->inner.height, p->inner.top},
        .prob.in = (uint8_t)(p->floats ? FV_F32 : FV_U8),
        .table = &table,
        .u = {0, p->width}};
    fv_call c = {.rows = pixels};
    a.ld[FV_PATCH_IN] = p->inner.width * 3;
    a.ld[FV_PATCH_OUT] = 3;
    c.p[FV_PATCH_IN] = (void *)(uintptr_t)in;
    float *out = c.p[FV_PATCH_OUT] = malloc((size_t)pixels * 3 * sizeof *out);
    assert_non_null(out);
    fv_k_patch_f32_ref(&a, &c);
    return out;
}

static uint32_t number(FILE *f)
{
    uint32_t n;
    assert_int_equal(fscanf(f, "%" SCNu32, &n), 1);
    return n;
}

/* Reads the next case; returns false at the end. */
static bool read_rule(FILE *f, uint32_t size[2], fovea_preprocess *p)
{
    if (fscanf(f, "%" SCNu32, &size[0]) != 1)
        return false;
    size[1] = number(f);
    *p = (fovea_preprocess)FOVEA_PREPROCESS_INIT;
    p->resize = (fovea_resize)number(f);
    p->filter = (fovea_filter)number(f);
    uint32_t *const own[] = {&p->short_edge,  &p->resize_width, &p->resize_height, &p->crop_width,
                             &p->crop_height, &p->patch,        &p->most_patches};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        *own[i] = number(f);
    p->resample = (fovea_resample)number(f);
    p->no_antialias = number(f);
    p->blur = number(f);
    p->long_edge = number(f);
    p->crop = (fovea_crop)number(f);
    p->pad = (fovea_pad)number(f);
    uint32_t *const rest[] = {&p->pad_width, &p->pad_height, &p->first_long_edge,
                              &p->first_multiple};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        *rest[i] = number(f);
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, dev[3] = {0.229f, 0.224f, 0.225f};
    memcpy(p->mean, mean, sizeof mean);
    memcpy(p->std, dev, sizeof dev);
    p->rescale = 1.f / 255;
    return true;
}

/* fovea_preprocess_apply() shows what a plan computes, with black for zeros. */
static void shown(const fovea_preprocess *p, uint32_t width, uint32_t height,
                  const fv_picture *plan, const void *pixels)
{
    uint8_t *in = source(width, height), *out = malloc((size_t)plan->width * plan->height * 3);
    assert_non_null(out);
    assert_int_equal(fovea_preprocess_apply(p, in, width, height, out, plan->width, plan->height),
                     FOVEA_OK);
    for (size_t y = 0; y < plan->height; y++)
        for (size_t x = 0; x < plan->width * 3; x++) {
            const size_t row = plan->inner.width * 3, top = y - plan->inner.top;
            const size_t left = x - plan->inner.left * 3;
            const bool inside = top < plan->inner.height && left < row;
            const size_t at = inside ? top * row + left : 0;
            const double want = !inside ? 0
                                : plan->floats
                                    ? rint((double)(((const float *)pixels)[at] / p->rescale))
                                    : ((const uint8_t *)pixels)[at];
            assert_true(out[y * plan->width * 3 + x] == fmin(fmax(want, 0), 255));
        }
    free(in);
    free(out);
}

static void as_others_make_them(void **state)
{
    (void)state;
    uint32_t size[2], cases = 0, bytes = 0, wrong = 0;
    double worst = 0;
    fovea_preprocess p;
    FILE *f = fopen(TEST_DATA "/resample.txt", "r");
    assert_non_null(f);
    while (read_rule(f, size, &p)) {
        const uint32_t width = number(f), height = number(f);
        uint64_t hash;
        assert_int_equal(fscanf(f, "%" SCNu64, &hash), 1);
        fv_picture plan;
        if (fv_picture_plan(&plan, &p, size[0], size[1]) != FOVEA_OK)
            fail_msg("case %u: %s", cases, fovea_error());
        void *pixels = resized(&plan, source(size[0], size[1]), size[0]);
        if (plan.width != width || plan.height != height)
            fail_msg("case %u: %u x %u becomes %u x %u, not %u x %u", cases, size[0], size[1],
                     plan.width, plan.height, width, height);
        const bool same =
            !hash || hash_of(pixels, (size_t)plan.inner.width * plan.inner.height * 3) == hash;
        float *got = normalised(&plan, pixels, &p);
        double error = 0;
        for (uint32_t n = number(f); n; n--) {
            const uint32_t at = number(f);
            double want;
            assert_int_equal(fscanf(f, "%lf", &want), 1);
            assert_true(at < 3 * width * height);
            error = fmax(error, fabs((double)got[at] - want) * (double)p.std[at % 3]);
        }
        if (!same || error > 1e-6) {
            print_error("case %u, %u x %u to %u x %u, resize %d filter %d resample %d pad %d"
                        " no_antialias %u blur %u: %s, floats differ by %g\n",
                        cases, size[0], size[1], width, height, (int)p.resize, (int)p.filter,
                        (int)p.resample, (int)p.pad, p.no_antialias, p.blur,
                        same ? "bytes are right" : "bytes differ", error);
            wrong++;
        }
        if (cases % 16 == 0)
            shown(&p, size[0], size[1], &plan, pixels);
        worst = fmax(worst, error);
        bytes += hash != 0;
        cases++;
        free(got);
        free(pixels);
        fv_picture_free(&plan);
    }
    fclose(f);
    print_message("%u pictures, of which %u are bytes; floats differ by %g at most\n", cases, bytes,
                  worst);
    assert_int_equal(wrong, 0);
    assert_true(cases > 300 && bytes > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_others_make_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
