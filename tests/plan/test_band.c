/* test_band.c: tests that banded sweeps (convolutions, resized grids and the steps between them)
 * give the bits of a step-by-step plan for any number of threads, in less memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/peek.h"
#include "tests/plan/step_chain.h"

enum { C = 16 }; /* channels */

/* ---- decoders ---- */

/* A grid with C channels. */
typedef struct level {
    fv_view rows;
    fv_grid grid;
} level;

static level fresh(step_chain *c, uint32_t width, uint32_t height)
{
    return (level){fv_emit_rows(c->b, width * height, C), {width, height, 1, 0}};
}

static level conv_into(step_chain *c, const level *in, uint32_t size, uint32_t stride, uint32_t pad,
                       const fv_view *res, fv_view out)
{
    const fv_weight w = chain_weight(c, C, size * size * C), bias = chain_weight(c, 1, C);
    const fv_grid to = {(in->grid.width + 2 * pad - size) / stride + 1,
                        (in->grid.height + 2 * pad - size) / stride + 1, 1, 0};
    if (out.id < 0)
        out = fv_emit_rows(c->b, to.width * to.height, C);
    fv_emit_conv(c->b, "conv",
                 &(fv_conv){.w = &w,
                            .bias = &bias,
                            .in = in->rows,
                            .out = out,
                            .res = res,
                            .from = in->grid,
                            .to = to,
                            .channels = C,
                            .size = size,
                            .stride = stride,
                            .pad = pad,
                            .act = FV_EPI_GELU});
    return (level){out, to};
}

static level conv(step_chain *c, const level *in, uint32_t size, uint32_t stride, uint32_t pad)
{
    return conv_into(c, in, size, stride, pad, NULL, FV_NO_VIEW);
}

static level resized(step_chain *c, const level *in, uint32_t width, uint32_t height, uint32_t rule,
                     fv_view res, fv_view out)
{
    level to = fresh(c, width, height);
    if (out.id >= 0)
        to.rows = out;
    fv_emit_upsample(c->b, "resized",
                     &(fv_upsample){.in = in->rows,
                                    .res = res,
                                    .out = to.rows,
                                    .from = in->grid,
                                    .to = to.grid,
                                    .channels = C,
                                    .flags = rule});
    return to;
}

static level larger(step_chain *c, const level *in, bool overlap)
{
    const fv_weight w = chain_weight(c, 4 * C, (overlap ? 4 : 1) * C),
                    bias = chain_weight(c, 1, 4 * C);
    const level to = fresh(c, 2 * in->grid.width, 2 * in->grid.height);
    fv_emit_deconv(c->b, "larger",
                   &(fv_deconv){.w = &w,
                                .bias = &bias,
                                .in = in->rows,
                                .out = to.rows,
                                .from = in->grid,
                                .from_channels = C,
                                .channels = C,
                                .stride = 2,
                                .overlap = overlap,
                                .act = FV_EPI_RELU});
    return to;
}

static level filtered(step_chain *c, const level *in, uint32_t size)
{
    const fv_weight w = chain_weight(c, C, size * size);
    const level to = fresh(c, in->grid.width, in->grid.height);
    fv_emit_dwconv(c->b, "filtered",
                   &(fv_dwconv){.w = &w,
                                .in = in->rows,
                                .res = in->rows,
                                .gate = FV_NO_VIEW,
                                .out = to.rows,
                                .width = to.grid.width,
                                .height = to.grid.height,
                                .count = 1,
                                .channels = C,
                                .size = size});
    return to;
}

static void out(step_chain *c, const level *in)
{
    const fv_weight w = chain_weight(c, 3, C);
    const uint32_t rows = in->grid.width * in->grid.height;
    fv_emit_gemm(c->b, "out",
                 &(fv_gemm){.w = &w,
                            .in = in->rows,
                            .res = FV_NO_VIEW,
                            .out = fv_emit_result(c->b, rows, 3, FV_F32),
                            .rows = rows});
}

/* Downsamples, like a stem. */
static void stem(step_chain *c, const level *in)
{
    level x = conv(c, in, 3, 1, 1);
    x = conv(c, &x, 3, 1, 1);
    x = conv(c, &x, 3, 2, 1);
    x = filtered(c, &x, 5);
    out(c, &x);
}

/* Upsamples by every rule, with additions between and in place. */
static void finer(step_chain *c, const level *in)
{
    const uint32_t width = in->grid.width, height = in->grid.height;
    level x = conv(c, in, 3, 3, 0);
    level y = resized(c, &x, width / 2, height / 2, FV_FLAG_ALIGN_CORNERS, FV_NO_VIEW, FV_NO_VIEW);
    y = conv_into(c, &y, 3, 1, 1, &y.rows, FV_NO_VIEW);
    level z = resized(c, &y, width, height, 0, FV_NO_VIEW, FV_NO_VIEW);
    fv_emit_act(c->b, "relu", FV_EPI_RELU, z.rows, z.rows, width * height, C);
    resized(c, &x, width, height, FV_FLAG_NEAREST, z.rows, z.rows);
    z = conv(c, &z, 3, 1, 1);
    out(c, &z);
}

/* Transposed convolutions, and a filter on the finest grid. */
static void transposed(step_chain *c, const level *in)
{
    level x = conv(c, in, 4, 4, 0);
    x = larger(c, &x, true);
    x = larger(c, &x, false);
    x = filtered(c, &x, 3);
    out(c, &x);
}

/* An intermediate value that is also read after the end of the chain. */
static void looked_at_later(step_chain *c, const level *in)
{
    const level x = conv(c, in, 3, 2, 1), y = conv(c, &x, 3, 1, 1);
    const level z = resized(c, &y, in->grid.width, in->grid.height, 0, FV_NO_VIEW, FV_NO_VIEW);
    const level small = conv(c, &z, 3, 2, 1);
    const level sum = conv_into(c, &small, 1, 1, 0, &x.rows, FV_NO_VIEW);
    out(c, &sum);
}

static const struct {
    const char *name;
    void (*emit)(step_chain *c, const level *in);
} chains[] = {{"stem", stem},
              {"finer", finer},
              {"transposed", transposed},
              {"looked at later", looked_at_later}};
enum { CHAINS = sizeof chains / sizeof *chains };

/* ---- plans ---- */

static fovea_plan *make(int which, uint32_t width, uint32_t height, uint32_t threads,
                        fovea_schedule schedule, uint64_t limit)
{
    const fv_plan_request r = {.schedule = schedule, .memory_limit = limit};
    step_chain c;
    level in = {.grid = {width, height, 1, 0}};
    fovea_plan *p = chain_begin(&c, &in.rows, width, height, C, threads);
    chains[which].emit(&c, &in);
    chain_finish(p, &r);
    return p;
}

static uint32_t banded(const fovea_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->cut.sweeps; i++)
        n += p->chosen.sweep[i].bands > 0 && p->chosen.sweep[i].streamed;
    return n;
}

/* ---- tests ---- */

static void same_as_stepwise(int which, uint32_t width, uint32_t height)
{
    size_t bytes;
    fovea_plan *p = make(which, width, height, 1, FOVEA_SCHEDULE_STEPWISE, 0);
    assert_int_equal(banded(p), 0);
    float *want = chain_results(p, width * height * C, &bytes);
    for (size_t i = 0; i < bytes / sizeof *want; i++)
        assert_true(isfinite(want[i]));
    fovea_plan_free(p);
    for (uint32_t threads = 1; threads <= CHAIN_THREADS; threads++) {
        p = make(which, width, height, threads, FOVEA_SCHEDULE_STREAMED, 0);
        float *got = chain_results(p, width * height * C, &bytes);
        assert_true(banded(p) > 0);
        if (memcmp(got, want, bytes) != 0)
            fail_msg("%s, %u x %u, %u threads: other bits than step by step", chains[which].name,
                     width, height, threads);
        free(got);
        fovea_plan_free(p);
    }
    free(want);
}

/* The grid sides are not multiples of bands or strides. */
static void banded_is_stepwise(void **state)
{
    (void)state;
    for (int which = 0; which < CHAINS; which++)
        same_as_stepwise(which, which % 2 ? 509 : 331, which % 2 ? 331 : 509);
}

/* Grids that are too small for bands, have one line, or have lines for which bands do not pay. */
static void small_ones_are_not_banded(void **state)
{
    (void)state;
    static const uint32_t grids[][2] = {{4, 4}, {61, 47}, {35000, 4}, {4, 35000}};
    for (int which = 0; which < CHAINS; which++)
        for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
            size_t bytes;
            fovea_plan *p = make(which, grids[g][0], grids[g][1], 2, FOVEA_SCHEDULE_STEPWISE, 0);
            float *want = chain_results(p, grids[g][0] * grids[g][1] * C, &bytes);
            fovea_plan_free(p);
            p = make(which, grids[g][0], grids[g][1], 2, FOVEA_SCHEDULE_AUTO, 0);
            assert_true(g > 1 || banded(p) == 0);
            float *got = chain_results(p, grids[g][0] * grids[g][1] * C, &bytes);
            assert_memory_equal(got, want, bytes);
            free(got);
            free(want);
            fovea_plan_free(p);
        }
}

/* Bands need less memory than all rows, with and without a limit. More workers do not need more. */
static void memory_is_saved(void **state)
{
    (void)state;
    for (int which = 0; which < CHAINS; which++)
        for (uint32_t threads = 1; threads <= CHAIN_THREADS; threads *= 2) {
            fovea_plan *p = make(which, 512, 384, threads, FOVEA_SCHEDULE_STEPWISE, 0);
            const uint64_t whole = fv_plan_activations(&p->info);
            fovea_plan_free(p);
            p = make(which, 512, 384, threads, FOVEA_SCHEDULE_AUTO, 0);
            const uint64_t bands = fv_plan_activations(&p->info);
            fovea_plan_free(p);
            assert_true(bands <= whole);
            assert_true(threads > 2 || bands < whole * 3 / 4);
            p = make(which, 512, 384, threads, FOVEA_SCHEDULE_AUTO, bands);
            assert_true(fv_plan_activations(&p->info) <= bands);
            fovea_plan_free(p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(banded_is_stepwise),
        cmocka_unit_test(small_ones_are_not_banded),
        cmocka_unit_test(memory_is_saved),
    };
    return cmocka_run_group_tests(tests, chain_open, chain_close);
}
