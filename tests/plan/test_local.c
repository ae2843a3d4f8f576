/* test_local.c: tests convolutions inside sweeps: streamed in bands of grid rows, they give the
 * bits of a step-by-step plan on grids of every shape, with any chunk and number of threads, and
 * only need memory for the bands. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "models/model.h"
#include "tests/fixture.h"
#include "tests/peek.h"
#include "tests/plan/step_chain.h"

enum { C = 12 }; /* channels */

/* ---- chains of steps ---- */

static uint32_t rows(const step_chain *c)
{
    return c->width * c->height;
}

static fv_view fresh(step_chain *c, uint32_t cols)
{
    return fv_emit_rows(c->b, rows(c), cols);
}

static const fv_view none = {FV_NO_VALUE, 0};

static fv_view norm(step_chain *c, fv_view in, fv_view out)
{
    const fv_weight w = chain_weight(c, 1, C), bias = chain_weight(c, 1, C);
    fv_emit_layernorm(c->b, "norm", in, &w, &bias, 1e-6f, out, rows(c));
    return out;
}

static fv_view gemm(step_chain *c, fv_view in, uint32_t from, uint32_t to, fv_view res, fv_view out)
{
    const fv_weight w = chain_weight(c, to, from), bias = chain_weight(c, 1, to);
    const fv_gemm g = {.w = &w,
                       .bias = &bias,
                       .in = in,
                       .res = res,
                       .out = out,
                       .act = res.id < 0 ? FV_EPI_GELU : 0,
                       .rows = rows(c)};
    fv_emit_gemm(c->b, "gemm", &g);
    return out;
}

static fv_view conv(step_chain *c, fv_view in, uint32_t size, uint32_t channels, fv_view res,
                    fv_view gate, fv_view out)
{
    const fv_weight w = chain_weight(c, channels, size * size), bias = chain_weight(c, 1, channels);
    const fv_dwconv d = {.w = &w,
                         .bias = &bias,
                         .in = in,
                         .res = res,
                         .gate = gate,
                         .out = out,
                         .width = c->width,
                         .height = c->height,
                         .count = 1,
                         .channels = channels,
                         .size = size};
    fv_emit_dwconv(c->b, "conv", &d);
    return out;
}

/* conv 3, norm, gemm, conv 3, gemm + residual, conv 5 with residual and gate. */
static fv_view trunk(step_chain *c, fv_view in)
{
    const fv_view x = conv(c, in, 3, C, in, none, fresh(c, C));
    const fv_view h = gemm(c, norm(c, x, fresh(c, C)), C, 2 * C, none, fresh(c, 2 * C));
    const fv_view h2 = conv(c, h, 3, 2 * C, none, none, fresh(c, 2 * C));
    const fv_view y = gemm(c, h2, 2 * C, C, x, fresh(c, C));
    return conv(c, y, 5, C, x, y, fresh(c, C));
}

static void rows_out(step_chain *c, fv_view in)
{
    const fv_view x = trunk(c, gemm(c, in, C, C, none, fresh(c, C)));
    gemm(c, x, C, C, x, fv_emit_result(c->b, rows(c), C, FV_F32));
}

/* Seven convolutions in a row without other steps. */
static void deep(step_chain *c, fv_view in)
{
    fv_view x = gemm(c, in, C, C, none, fresh(c, C));
    for (int i = 0; i < 7; i++)
        x = conv(c, x, i % 3 == 1 ? 5 : 3, C, i % 2 ? x : none, none, fresh(c, C));
    gemm(c, x, C, C, x, fv_emit_result(c->b, rows(c), C, FV_F32));
}

/* More convolutions than are worth recomputing: the sweep must be split. */
static void too_deep(step_chain *c, fv_view in)
{
    fv_view x = gemm(c, in, C, C, none, fresh(c, C));
    for (int i = 0; i < 12; i++)
        x = conv(c, x, 5, C, x, none, fresh(c, C));
    gemm(c, x, C, C, x, fv_emit_result(c->b, rows(c), C, FV_F32));
}

static void mean_out(step_chain *c, fv_view in)
{
    const fv_grid grid = {c->width, c->height, 1, 0};
    const fv_view x = trunk(c, gemm(c, in, C, C, none, fresh(c, C)));
    fv_emit_mean(c->b, "mean", x, &grid, C, fv_emit_result(c->b, 1, C, FV_F32));
}

/* Values that are updated in place, before and after a convolution reads them. */
static void in_place(step_chain *c, fv_view in)
{
    fv_view x = gemm(c, in, C, C, none, fresh(c, C));
    norm(c, x, x);
    const fv_view y = conv(c, x, 5, C, none, none, fresh(c, C));
    gemm(c, y, C, C, x, x);
    const fv_view z = conv(c, x, 3, C, y, x, y);
    norm(c, x, x);
    fv_emit_mul(c->b, "mul", z, x, true, fv_emit_result(c->b, rows(c), C, FV_F32), rows(c), C);
}

/* An intermediate value that a step after a barrier reads, too. */
static void crossing(step_chain *c, fv_view in)
{
    const fv_view x = gemm(c, in, C, C, none, fresh(c, C));
    const fv_view y = conv(c, x, 3, C, none, none, fresh(c, C)), copy = fresh(c, C);
    const fv_view z = conv(c, gemm(c, y, C, C, none, fresh(c, C)), 5, C, y, none, fresh(c, C));
    fv_emit_take(c->b, "take", z, 0, copy, rows(c), C);
    fv_emit_mul(c->b, "mul", copy, y, false, fv_emit_result(c->b, rows(c), C, FV_F32), rows(c), C);
}

/* A value that is updated in the previous sweep's buffer while a convolution still reads it. */
static void rewritten(step_chain *c, fv_view in)
{
    const fv_view x = fresh(c, C), out = fv_emit_result(c->b, rows(c), C, FV_F32);
    fv_emit_take(c->b, "take", gemm(c, in, C, C, none, fresh(c, C)), 0, x, rows(c), C);
    const fv_view y = conv(c, x, 5, C, none, none, fresh(c, C));
    gemm(c, y, C, C, x, x);
    const fv_view z = conv(c, y, 3, C, x, none, fresh(c, C)), copy = fresh(c, C);
    fv_emit_take(c->b, "take", z, 0, copy, rows(c), C);
    fv_emit_mul(c->b, "mul", copy, x, false, out, rows(c), C);
}

/* A value whose last reader comes after the next value of its kind is written. */
static void read_late(step_chain *c, fv_view in)
{
    const fv_view x = fresh(c, C), y = fresh(c, C), copy = fresh(c, C);
    fv_emit_take(c->b, "take", gemm(c, in, C, C, none, fresh(c, C)), 0, x, rows(c), C);
    gemm(c, norm(c, x, fresh(c, C)), C, C, none, y);
    const fv_view z = gemm(c, norm(c, x, fresh(c, C)), C, C, y, fresh(c, C));
    fv_emit_take(c->b, "take", z, 0, copy, rows(c), C);
    fv_emit_mul(c->b, "mul", copy, y, false, fv_emit_result(c->b, rows(c), C, FV_F32), rows(c), C);
}

/* A value of which a product reads all columns for every column that it writes. */
static void product_of(step_chain *c, fv_view in)
{
    const fv_view x = fresh(c, 2 * C), copy = fresh(c, 2 * C);
    fv_emit_take(c->b, "take", gemm(c, in, C, 2 * C, none, fresh(c, 2 * C)), 0, x, rows(c), 2 * C);
    fv_emit_take(c->b, "take", gemm(c, x, 2 * C, 2 * C, none, fresh(c, 2 * C)), 0, copy, rows(c),
                 2 * C);
    gemm(c, copy, 2 * C, C, none, fv_emit_result(c->b, rows(c), C, FV_F32));
}

/* Reductions of a value that a convolution also reads, and of the convolution's result. */
static void two_means(step_chain *c, fv_view in)
{
    const fv_grid grid = {c->width, c->height, 1, 0};
    const fv_view x = gemm(c, in, C, C, none, fresh(c, C)), y = fresh(c, C);
    const fv_view a = fv_emit_rows(c->b, 1, C), b = fv_emit_rows(c->b, 1, C);
    conv(c, conv(c, x, 5, C, none, none, fresh(c, C)), 3, C, x, none, y);
    fv_emit_mean(c->b, "mean", x, &grid, C, a);
    fv_emit_mean(c->b, "mean", y, &grid, C, b);
    fv_emit_mul(c->b, "mul", a, b, false, fv_emit_result(c->b, 1, C, FV_F32), 1, C);
}

/* A block of a hierarchical model: attention with a convolution of v, a convolution in the MLP, and
 * the keys of the next block. */
static void keys_of(step_chain *c, fv_view x, fv_attention *a)
{
    const fv_view kv = gemm(c, norm(c, x, fresh(c, C)), C, 2 * C, none, fresh(c, 2 * C));
    a->k = kv;
    a->v = fv_view_cols(kv, C);
    fv_emit_keys(c->b, "keys", a);
}

static fv_view block(step_chain *c, fv_view x, const fv_attention *a)
{
    const fv_view qvo = gemm(c, norm(c, x, fresh(c, C)), C, 3 * C, none, fresh(c, 3 * C));
    const fv_view seen = fresh(c, C);
    fv_emit_queries(c->b, "queries", a, qvo, seen);
    const fv_view gated =
        conv(c, fv_view_cols(qvo, C), 5, C, seen, fv_view_cols(qvo, 2 * C), fresh(c, C));
    const fv_view y = gemm(c, gated, C, C, x, fresh(c, C));
    const fv_view h = gemm(c, norm(c, y, fresh(c, C)), C, 2 * C, none, fresh(c, 2 * C));
    return gemm(c, conv(c, h, 3, 2 * C, none, none, fresh(c, 2 * C)), 2 * C, C, y, fresh(c, C));
}

static void blocks(step_chain *c, fv_view in, uint32_t mech)
{
    fv_attention a = {.mech = mech,
                      .heads = 2,
                      .d = C / 2,
                      .dv = C / 2,
                      .queries = rows(c),
                      .keys = rows(c),
                      .scale = 0.4,
                      .eps = 1e-6};
    const fv_grid grid = {c->width, c->height, 1, 0};
    fv_view x = conv(c, in, 3, C, none, none, fresh(c, C));
    for (int i = 0; i < 2; i++) {
        keys_of(c, x, &a);
        x = conv(c, block(c, x, &a), 3, C, none, none, fresh(c, C));
    }
    fv_emit_mean(c->b, "mean", x, &grid, C, fv_emit_result(c->b, 1, C, FV_F32));
}

static void linear_blocks(step_chain *c, fv_view in)
{
    blocks(c, in, FV_MECH_ELU1);
}

static void softmax_blocks(step_chain *c, fv_view in)
{
    blocks(c, in, FV_MECH_ANY);
}

/* Attention in windows, each of which is a row of the picture, with a convolution inside the
 * windows. Chunks consist of whole windows. */
static void windows(step_chain *c, fv_view in)
{
    const fv_weight w = chain_weight(c, C, 9);
    const fv_view x = gemm(c, in, C, C, none, fresh(c, C)), y = fresh(c, C), z = fresh(c, C);
    const fv_attention a = {.mech = FV_MECH_ANY,
                            .heads = 2,
                            .d = C / 2,
                            .dv = C / 2,
                            .queries = rows(c),
                            .keys = rows(c),
                            .scale = 0.4,
                            .k = x,
                            .v = x};
    const fv_dwconv d = {.w = &w,
                         .in = x,
                         .res = x,
                         .gate = none,
                         .out = y,
                         .width = c->width,
                         .height = 1,
                         .count = c->height,
                         .channels = C,
                         .size = 3};
    fv_emit_dwconv(c->b, "conv", &d);
    fv_emit_window(c->b, "window", &a, y, c->width, NULL, z);
    gemm(c, z, C, C, x, fv_emit_result(c->b, rows(c), C, FV_F32));
}

static const struct {
    const char *name;
    void (*emit)(step_chain *c, fv_view in);
    uint32_t sweeps; /* sweeps that barriers and merges require */
} chains[] = {
    {"rows", rows_out, 1},        {"deep", deep, 1},
    {"too deep", too_deep, 2},    {"mean", mean_out, 2},
    {"in place", in_place, 1},    {"crossing", crossing, 4},
    {"linear", linear_blocks, 6}, {"softmax", softmax_blocks, 6},
    {"windows", windows, 1},      {"rewritten", rewritten, 6},
    {"two means", two_means, 5},  {"read late", read_late, 5},
    {"product", product_of, 5},
};
enum { CHAINS = sizeof chains / sizeof *chains };

/* ---- plans ---- */

static fovea_plan *make_within(uint64_t limit, int which, uint32_t width, uint32_t height,
                               uint32_t threads, fovea_schedule schedule, uint32_t chunk)
{
    const fv_plan_request r = {.schedule = schedule, .chunk = chunk, .memory_limit = limit};
    step_chain c;
    fv_view in;
    fovea_plan *p = chain_begin(&c, &in, width, height, C, threads);
    chains[which].emit(&c, in);
    chain_finish(p, &r);
    return p;
}

static fovea_plan *make(int which, uint32_t width, uint32_t height, uint32_t threads,
                        fovea_schedule schedule, uint32_t chunk)
{
    return make_within(0, which, width, height, threads, schedule, chunk);
}

/* ---- tests ---- */

static void same_as_stepwise(int which, uint32_t width, uint32_t height, uint32_t chunk)
{
    size_t bytes;
    fovea_plan *p = make(which, width, height, 1, FOVEA_SCHEDULE_STEPWISE, chunk);
    float *want = chain_results(p, width * height * C, &bytes);
    for (size_t i = 0; i < bytes / sizeof *want; i++)
        assert_true(isfinite(want[i]));
    fovea_plan_free(p);
    for (uint32_t threads = 1; threads <= CHAIN_THREADS; threads++) {
        p = make(which, width, height, threads, FOVEA_SCHEDULE_STREAMED, chunk);
        float *got = chain_results(p, width * height * C, &bytes);
        if (memcmp(got, want, bytes) != 0) {
            size_t at = 0;
            while (got[at] == want[at])
                at++;
            fail_msg("%s, %u x %u, chunk %u, %u threads: value %zu is %.9g, step by step %.9g",
                     chains[which].name, width, height, chunk, threads, at, (double)got[at],
                     (double)want[at]);
        }
        free(got);
        fovea_plan_free(p);
    }
    free(want);
}

static void streamed_is_stepwise(void **state)
{
    (void)state;
    static const uint32_t grids[][2] = {{1, 1},  {2, 1},  {1, 2},   {1, 23}, {19, 1}, {3, 2},
                                        {7, 13}, {13, 7}, {29, 31}, {5, 97}, {64, 40}};
    static const uint32_t chunks[] = {0, 1, 7, 64, 1000};
    for (int which = 0; which < CHAINS; which++)
        for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
            for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++)
                same_as_stepwise(which, grids[g][0], grids[g][1], chunks[k]);
}

/* A plan has as few sweeps as barriers allow, and its memory holds bands. */
static void memory_is_of_bands(void **state)
{
    (void)state;
    for (int which = 0; which < CHAINS; which++) {
        fovea_plan_info streamed = FOVEA_PLAN_INFO_INIT, stepwise = FOVEA_PLAN_INFO_INIT;
        fovea_plan *p = make(which, 16, 301, 2, FOVEA_SCHEDULE_STREAMED, 16);
        fovea_plan_query(p, &streamed);
        if (streamed.sweeps != chains[which].sweeps)
            fail_msg("%s: %u sweeps", chains[which].name, streamed.sweeps);
        fovea_plan_free(p);
        p = make(which, 16, 301, 2, FOVEA_SCHEDULE_STEPWISE, 16);
        fovea_plan_query(p, &stepwise);
        fovea_plan_free(p);
        if (streamed.chunks > stepwise.chunks / 4)
            fail_msg("%s: %llu bytes in chunks, %llu step by step", chains[which].name,
                     (unsigned long long)streamed.chunks, (unsigned long long)stepwise.chunks);
        assert_true(streamed.residual <= stepwise.residual);
    }
}

/* The residual stream has one buffer, although a block reads it with a halo while writing the next
 * one. Only the border rows of units need additional memory. */
static void stream_has_one_place(void **state)
{
    (void)state;
    const uint64_t stream = (uint64_t)16 * 901 * C * sizeof(float);
    for (int which = 0; which < CHAINS; which++) {
        if (chains[which].emit != linear_blocks)
            continue;
        for (uint32_t threads = 1; threads <= CHAIN_THREADS; threads++) {
            fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
            fovea_plan *p = make(which, 16, 901, threads, FOVEA_SCHEDULE_STREAMED, 16);
            fovea_plan_query(p, &info);
            fovea_plan_free(p);
            assert_true(info.residual >= stream && info.residual < stream + stream / 4);
        }
    }
}

static void schedule_is(fovea_plan *p, fovea_schedule schedule, fovea_plan_info *info)
{
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    fovea_plan_query(p, info);
    assert_true(fovea_plan_step(p, 0, &step));
    assert_int_equal(step.schedule, schedule);
    assert_true(schedule == FOVEA_SCHEDULE_STEPWISE || step.chunk % 32 == 0);
    fovea_plan_free(p);
}

/* Bands are chosen if little is recomputed, and if nothing else fits in memory. */
static void schedule_is_chosen(void **state)
{
    (void)state;
    const fovea_schedule automatic = FOVEA_SCHEDULE_AUTO;
    fovea_plan_info large = FOVEA_PLAN_INFO_INIT, small = FOVEA_PLAN_INFO_INIT;
    schedule_is(make(0, 32, 400, 4, automatic, 0), FOVEA_SCHEDULE_STREAMED, &small);
    schedule_is(make(0, 32, 24, 4, automatic, 0), FOVEA_SCHEDULE_STEPWISE, &large);
    const uint64_t limit = large.chunks + large.scratch + large.staging - 10000;
    schedule_is(make_within(limit, 0, 32, 24, 4, automatic, 0), FOVEA_SCHEDULE_STREAMED, &small);
    assert_true(small.chunks + small.scratch + small.staging <= limit);
}

/* ---- a hierarchical model ---- */

static fovea_plan *model_plan(fovea_model *m, uint32_t threads, uint32_t width, uint32_t height,
                              fovea_schedule schedule, int dry)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *p;
    options.frame.width = width;
    options.frame.height = height;
    options.schedule = schedule;
    options.dry = dry;
    chain_succeed(fovea_plan_create(&p, m, chain_device(threads), &options));
    return p;
}

static void model_is_streamed(void **state)
{
    (void)state;
    enum { WIDTH = 97, HEIGHT = 210 };
    static uint8_t pixels[WIDTH * HEIGHT * 3];
    fovea_model *m;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    float out[2][1000];
    chain_succeed(fovea_model_load(&m, "synthetic:mavit-t"));
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 7 + i / 3);
    for (uint32_t k = 0; k < 2; k++) {
        const fovea_frame frame = {.pixels = {pixels}};
        const fovea_output output = {out[k], sizeof out[k]};
        fovea_plan *p = model_plan(m, 2 * k + 1, WIDTH, HEIGHT,
                                   k ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE, 0);
        chain_succeed(fovea_run(p, &frame, &output, 1));
        fovea_plan_free(p);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);

    /* At 2048 x 2048 the plan needs two of the stem's outputs and little else. */
    fovea_plan *p = model_plan(m, 2, 2048, 2048, FOVEA_SCHEDULE_AUTO, 1);
    fovea_plan_query(p, &info);
    const uint64_t activations =
        info.residual + info.states + info.chunks + info.scratch + info.staging;
    assert_true(activations <= 4ull * 512 * 512 * 64 * sizeof(float) + 64000000);
    fovea_plan_free(p);
    fovea_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_is_stepwise), cmocka_unit_test(memory_is_of_bands),
        cmocka_unit_test(stream_has_one_place), cmocka_unit_test(schedule_is_chosen),
        cmocka_unit_test(model_is_streamed),
    };
    return cmocka_run_group_tests(tests, chain_open, chain_close);
}
