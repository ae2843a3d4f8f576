/* test_equalise.c: tests channels that are many times larger than others, while the columns that
 * read them are smaller by the same factor, so that the model computes the same function.
 *
 * The tests show where such channels are found, that scaling channels changes no bit of float
 * products, and that int8 products with scaling are as close to float32 as without such channels.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/contracts/grid.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "ops/equalise.h"
#include "plan/channel_group.h"
#include "tests/fixture.h"
#include "tests/peek.h"

enum { MOST_ARRAYS = 1 << 16, MOST_SIZES = 256 };

static fovea_device *device;

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

/* ---- the choice of factors ---- */

static void expect_exponents(const double *size, const double *columns, const int8_t *want,
                             uint32_t n)
{
    int8_t got[MOST_SIZES];
    double a[MOST_SIZES] = {0}, b[MOST_SIZES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        a[i] = size[i] * size[i];
        b[i] = columns[i] * columns[i];
    }
    succeed(fv_equalise(got, a, b, n));
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("channel %u: 2^%d, expected 2^%d", i, got[i], want[i]);
}

static void scales_follow_both_sides(void **state)
{
    (void)state;
    /* Factors are the geometric mean of both ratios, if one side is at least 4 times the median. */
    expect_exponents((double[]){1, 1, 1, 300, 1}, (double[]){1, 1, 1, 1 / 300., 1},
                     (int8_t[]){0, 0, 0, 8, 0}, 5);
    expect_exponents((double[]){7, 7, 7, 7 / 1024., 7}, (double[]){.1, .1, .1, 102.4, .1},
                     (int8_t[]){0, 0, 0, -10, 0}, 5);
    expect_exponents((double[]){1, 2, 1, .5, 1, 3}, (double[]){1, .5, 1, 2, 1, .3},
                     (int8_t[]){0, 0, 0, 0, 0, 0}, 6);
    expect_exponents((double[]){1, 1, 1, 256}, (double[]){1, 1, 1, 1}, (int8_t[]){0, 0, 0, 4}, 4);
    /* Small channels are not outliers. */
    expect_exponents((double[]){1, 1, 1, .001}, (double[]){1, 1, 1, 1}, (int8_t[]){0, 0, 0, 0}, 4);
    expect_exponents((double[]){1, 1, 1, .001}, (double[]){1, 1, 1, .01}, (int8_t[]){0, 0, 0, 0},
                     4);
    /* Only differences between channels count, not their common size. */
    expect_exponents((double[]){1e9, 1e9, 1e9}, (double[]){1e-9, 1e-9, 1e-9}, (int8_t[]){0, 0, 0},
                     3);
}

static void odd_channels(void **state)
{
    (void)state;
    /* Channels that nothing reads or that are 0 may be divided by any factor. */
    expect_exponents((double[]){1, 1, 300, 0, 0}, (double[]){1, 1, 0, 300, 0},
                     (int8_t[]){0, 0, FV_EQUALISE_LARGEST, -FV_EQUALISE_LARGEST, 0}, 5);
    expect_exponents((double[]){1, 1, (double)NAN, INFINITY, 1e60}, (double[]){1, 1, 1, 1, 1e-60},
                     (int8_t[]){0, 0, 0, 0, FV_EQUALISE_LARGEST}, 5);
    expect_exponents((double[]){0, 0}, (double[]){0, 0}, (int8_t[]){0, 0}, 2);
    expect_exponents((double[]){5}, (double[]){.001}, (int8_t[]){0}, 1);
}

/* ---- where channels are found ---- */

enum { ROWS = 8, WIDE = 64 };

/* A graph with hand-written steps: x is normalised and multiplied. */
typedef struct hand {
    fv_graph graph;
    fv_emit_options options;
    fv_builder b;
    fv_tensor numbers;
    fv_weight vector, matrix, gated;
    fv_view x, made;
} hand;

static void begin(hand *h)
{
    static float zeros[2 * WIDE * WIDE];
    *h = (hand){.options = {.weight_type = FV_F32, .row_type = FV_F32}};
    h->b = fv_builder_of(&h->graph, &h->options);
    h->numbers = fv_tensor_of_floats(zeros, 2 * WIDE, WIDE);
    h->vector = fv_weight_of(&h->numbers, 1, WIDE);
    h->matrix = fv_weight_of(&h->numbers, WIDE, WIDE);
    h->gated = fv_weight_of(&h->numbers, 2 * WIDE, WIDE);
    h->x = fv_emit_rows(&h->b, ROWS, WIDE);
    h->made = fv_emit_rows(&h->b, ROWS, WIDE);
}

static void norm(hand *h, fv_view in, fv_view out)
{
    fv_emit_layernorm(&h->b, "norm", in, &h->vector, &h->vector, 1e-6f, out, ROWS);
}

static void product(hand *h, const char *label, uint32_t act, fv_view in, fv_view res, fv_view out)
{
    const fv_gemm g = {.w = act & FV_EPI_SWIGLU ? &h->gated : &h->matrix,
                       .in = in,
                       .res = res,
                       .out = out,
                       .act = act,
                       .rows = ROWS};
    fv_emit_gemm(&h->b, label, &g);
}

static bool reads(const fv_channel_group *g, uint32_t step)
{
    for (uint32_t i = 0; i < g->reader.n; i++)
        if (g->reader.step[i] == step)
            return true;
    return false;
}

/* Ends the graph with a product that reads `in`. Checks whether a channel group is found, and its
 * numbers of norms, makers and rows. */
static void end(hand *h, fv_view in, bool found, uint32_t norms, uint32_t makers, uint32_t row)
{
    fv_channel_group g;
    const uint32_t reader = h->graph.steps;
    product(h, "reader", 0, in, FV_NO_VIEW, fv_emit_rows(&h->b, ROWS, WIDE));
    succeed(h->b.status);
    assert_int_equal(fv_channel_group_find(&g, &h->graph, reader), found);
    if (found) {
        assert_int_equal(g.norm.n, norms);
        assert_int_equal(g.maker.n, makers);
        assert_true(makers == 0 || g.maker.row[0] == row);
        assert_true(reads(&g, reader));
    }
    fv_graph_release(&h->graph);
}

static void norms(void **state)
{
    (void)state;
    hand h;
    begin(&h);
    norm(&h, h.x, h.made);
    end(&h, h.made, true, 1, 0, 0);

    begin(&h); /* two norms in a row: the second one is found */
    norm(&h, h.x, h.made);
    const fv_view twice = fv_emit_rows(&h.b, ROWS, WIDE);
    norm(&h, h.made, twice);
    end(&h, twice, true, 1, 0, 0);

    begin(&h); /* the second norm reads the result of the first, too */
    norm(&h, h.x, h.made);
    norm(&h, h.made, fv_emit_rows(&h.b, ROWS, WIDE));
    end(&h, h.made, false, 0, 0, 0);

    begin(&h); /* in place: the buffer held other channels before */
    product(&h, "maker", FV_EPI_GELU, h.x, FV_NO_VIEW, h.made);
    norm(&h, h.made, h.made);
    end(&h, h.made, true, 1, 0, 0);

    begin(&h); /* in place, but not for all rows */
    product(&h, "maker", FV_EPI_GELU, h.x, FV_NO_VIEW, h.made);
    fv_emit_layernorm(&h.b, "norm", h.made, &h.vector, &h.vector, 1e-6f, h.made, ROWS - 1);
    end(&h, h.made, false, 0, 0, 0);

    begin(&h); /* one norm for all heads */
    const fv_weight head = fv_weight_of(&h.numbers, 1, WIDE / 4);
    const fv_rmsnorm rms = {.w = &head,
                            .in = h.x,
                            .gate = h.x,
                            .head_gate = FV_NO_VIEW,
                            .out = h.made,
                            .rows = ROWS,
                            .heads = 4};
    fv_emit_rmsnorm(&h.b, "norm", &rms);
    fv_channel_group g;
    product(&h, "reader", 0, h.made, FV_NO_VIEW, fv_emit_rows(&h.b, ROWS, WIDE));
    assert_true(fv_channel_group_find(&g, &h.graph, 1));
    assert_int_equal(g.period, WIDE / 4);
    fv_graph_release(&h.graph);

    begin(&h); /* another step reads the channels */
    norm(&h, h.x, h.made);
    fv_emit_add(&h.b, "add", h.x, h.made, h.x, ROWS, WIDE);
    end(&h, h.made, false, 0, 0, 0);

    begin(&h);
    norm(&h, h.x, h.made);
    fv_emit_copy(&h.b, "output", h.made, fv_emit_value(&h.b, FV_VALUE_OUTPUT, ROWS, WIDE, FV_F32),
                 ROWS, WIDE);
    end(&h, h.made, false, 0, 0, 0);
}

static void products(void **state)
{
    (void)state;
    static const struct {
        uint32_t act;
        bool found;
        uint32_t row;
    } acts[] = {{0, true, 0},
                {FV_EPI_RELU, true, 0},
                {FV_EPI_SWIGLU, true, WIDE},
                {FV_EPI_GELU, false, 0},
                {FV_EPI_SIGMOID, false, 0}};
    hand h;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        begin(&h);
        product(&h, "maker", acts[i].act, h.x, FV_NO_VIEW, h.made);
        end(&h, h.made, acts[i].found, 0, 1, acts[i].row);
    }
    begin(&h); /* a residual */
    product(&h, "maker", 0, h.x, h.x, h.made);
    end(&h, h.made, false, 0, 0, 0);

    begin(&h); /* a gate, which does not count as channels */
    product(&h, "maker", 0, h.x, FV_NO_VIEW, h.made);
    const fv_view gated = fv_emit_rows(&h.b, ROWS, WIDE);
    fv_emit_mul(&h.b, "gate", h.made, h.x, true, gated, ROWS, WIDE);
    end(&h, gated, true, 0, 1, 0);

    begin(&h); /* multiplied by itself, a channel is squared */
    product(&h, "maker", 0, h.x, FV_NO_VIEW, h.made);
    const fv_view squares = fv_emit_rows(&h.b, ROWS, WIDE);
    fv_emit_mul(&h.b, "square", h.made, h.made, false, squares, ROWS, WIDE);
    end(&h, squares, false, 0, 0, 0);
}

/* ---- models with planted channels ---- */

/* Planted factors. They stay allocated, because weights of a live model may refer to them. */
static float *array[MOST_ARRAYS];
static uint32_t arrays;

static void multiply(const float **of, uint32_t n, uint32_t at, float factor)
{
    float *now = malloc(n * sizeof *now);
    assert_non_null(now);
    assert_true(arrays < MOST_ARRAYS);
    array[arrays++] = now;
    for (uint32_t i = 0; i < n; i++)
        now[i] = *of ? (*of)[i] : 1;
    now[at] *= factor;
    *of = now;
}

static void multiply_vector(fv_weight *w, uint32_t at, float factor)
{
    if (fv_weight_present(w))
        multiply(&w->col_factor, w->cols, at, factor);
}

/* Makes one channel of each period `factor` times as large. */
static void plant(fv_graph *graph, const fv_channel_group *g, float factor)
{
    const uint32_t channel = g->period * 5 / 8;
    for (uint32_t i = 0; i < g->norm.n; i++) {
        fv_step *s = &graph->step[g->norm.step[i]];
        multiply_vector(&s->use[FV_LN_WEIGHT].weight, channel, factor);
        if (s->prob.op == FV_OP_LAYERNORM)
            multiply_vector(&s->use[FV_LN_BIAS].weight, channel, factor);
    }
    for (uint32_t i = 0; i < g->shift.n; i++) {
        fv_weight *w = &graph->step[g->shift.step[i]].use[FV_DWCONV_BIAS].weight;
        for (uint32_t c = channel; c < w->cols; c += g->period)
            multiply_vector(w, c, factor);
    }
    for (uint32_t c = channel; c < g->channels; c += g->period) {
        for (uint32_t i = 0; i < g->maker.n; i++) {
            fv_step *s = &graph->step[g->maker.step[i]];
            const uint32_t row = g->maker.row[i] + c;
            fv_weight *w = &s->use[FV_GEMM_W].weight;
            multiply(&w->row_factor, w->rows, row, factor);
            multiply_vector(&s->use[FV_GEMM_BIAS].weight, row, factor);
        }
        for (uint32_t i = 0; i < g->reader.n; i++) {
            fv_weight *w = &graph->step[g->reader.step[i]].use[FV_GEMM_W].weight;
            multiply(&w->col_factor, w->cols, c, 1 / factor);
        }
    }
}

static bool is_product_of_a_block(const fv_step *s)
{
    return s->prob.op == FV_OP_GEMM && strstr(s->label, "block") && s->prob.dim[FV_GEMM_N] >= 64 &&
           s->use[FV_GEMM_A].view.id >= 0;
}

/* Plants factors before every product whose label ends with `reader`, once per group. */
static uint32_t plant_before(fv_graph *graph, const char *reader, float factor)
{
    static fv_channel_group done[MOST_SIZES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < graph->steps; i++) {
        const size_t length = strlen(graph->step[i].label), end = strlen(reader);
        bool known = !is_product_of_a_block(&graph->step[i]) || length < end ||
                     strcmp(graph->step[i].label + length - end, reader) != 0;
        for (uint32_t k = 0; !known && k < n; k++)
            known = reads(&done[k], i);
        if (known || !fv_channel_group_find(&done[n], graph, i))
            continue;
        plant(graph, &done[n++], factor);
        assert_true(n < MOST_SIZES);
    }
    return n;
}

typedef struct subject {
    const char *model, *attention, *output;
    struct {
        const char *reader;
        uint32_t groups;
    } planted[6];
} subject;

static const subject subjects[] = {
    {"synthetic:vit-ti16",
     "softmax",
     "last_hidden_state",
     {{" q", 12}, {" k, v", 12}, {"fc1", 12}, {"projection", 12}}},
    {"synthetic:vit-ti16",
     "linear:elu1",
     "last_hidden_state",
     {{" q", 12}, {" k, v", 12}, {"projection", 12}}},
    {"synthetic:vit-ti16",
     "mala",
     "last_hidden_state",
     {{" q", 12}, {" k, v", 12}, {"projection", 12}}},
    {"synthetic:vit-ti16",
     "pola",
     "last_hidden_state",
     {{" q", 12}, {" k, v", 12}, {"projection", 12}}},
    {"synthetic:vit-ti16",
     "foveated",
     "last_hidden_state",
     {{" q", 12}, {" k, v", 12}, {"projection", 12}}},
    {"synthetic:nalaformer-xt",
     NULL,
     "stage4",
     {{"k, v", 8}, {"gate", 8}, {"fc1", 8}, {"projection", 6}}},
    {"synthetic:mavit-t",
     NULL,
     "stage4",
     {{"k, v", 12}, {"gate", 12}, {"fc1", 12}, {"projection", 12}}},
    {"synthetic:pola-pvt-t",
     NULL,
     "stage4",
     {{"k, v", 8}, {"gate", 8}, {"fc1", 8}, {"projection", 8}}},
    {"synthetic:pola-swin-t",
     NULL,
     "stage4",
     {{"k, v", 12}, {"gate", 4}, {"fc1", 12}, {"projection", 12}}},
    {"synthetic:dinov3-s-plus",
     NULL,
     "last_hidden_state",
     {{" q", 12}, {"fc1", 12}, {"projection", 12}, {"fc2", 12}}},
};

static float *run(const subject *s, const fovea_model *model, fovea_compute compute, float factor,
                  size_t *values, uint32_t *columns)
{
    const char *output = s->output;
    fovea_plan *plan;
    fv_builder b;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_options o = fixture_options(s->attention, FOVEA_SCHEDULE_AUTO);
    o.compute = compute;
    o.outputs = &output;
    o.n_outputs = 1;
    succeed(fv_frame_emit(&plan, &b, model, device, &o, NULL, NULL));
    for (size_t i = 0; i < sizeof s->planted / sizeof *s->planted && s->planted[i].reader; i++) {
        const uint32_t n = plant_before(&plan->graph, s->planted[i].reader, factor);
        if (n != s->planted[i].groups)
            fail_msg("%s, %s: %u groups before %s, expected %u", s->model,
                     s->attention ? s->attention : "its own", n, s->planted[i].reader,
                     s->planted[i].groups);
    }
    const fv_plan_request request = {.schedule = FOVEA_SCHEDULE_AUTO};
    succeed(fv_plan_finish(plan, &request));
    assert_true(fovea_plan_output(plan, 0, &info));
    *columns = info.columns;
    float *out = fixture_run(plan, values);
    fovea_plan_free(plan);
    return out;
}

/* Returns the mean of the rows' cosines; *worst is the smallest. */
static double cosines(const float *x, const float *y, size_t values, uint32_t columns,
                      double *worst)
{
    double sum = 0;
    *worst = 1;
    for (size_t r = 0; r < values; r += columns) {
        double product = 0, of_x = 0, of_y = 0;
        for (uint32_t i = 0; i < columns; i++) {
            product += (double)x[r + i] * y[r + i];
            of_x += (double)x[r + i] * x[r + i];
            of_y += (double)y[r + i] * y[r + i];
        }
        const double c = product / sqrt(of_x * of_y);
        *worst = fmin(*worst, c);
        sum += c;
    }
    return sum / (double)(values / columns);
}

static void no_bit_of_floats_changes(const subject *s, const fovea_model *model)
{
    static const fovea_compute computes[] = {FOVEA_COMPUTE_F32, FOVEA_COMPUTE_BF16};
    for (size_t i = 0; i < sizeof computes / sizeof *computes; i++) {
        size_t n, same;
        uint32_t columns;
        float *plain = run(s, model, computes[i], 1, &n, &columns);
        float *planted = run(s, model, computes[i], 256, &same, &columns);
        if (same != n || memcmp(plain, planted, n * sizeof *plain) != 0)
            fail_msg("%s: powers of two changed bits", s->model);
        free(plain);
        free(planted);
    }
}

static void int8_stays_near(const subject *s, const fovea_model *model)
{
    static const float scales[] = {1, 30, 100, 300, 1000, 1 / 300.f};
    size_t n;
    uint32_t columns;
    float *want = run(s, model, FOVEA_COMPUTE_F32, 1, &n, &columns);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        double worst;
        float *got = run(s, model, FOVEA_COMPUTE_INT8, scales[i], &n, &columns);
        const double mean = cosines(got, want, n, columns, &worst);
        print_message("%s, %s, channels %g times larger: cosine %.5f, of the worst row %.5f\n",
                      s->model, s->attention ? s->attention : "its own", (double)scales[i], mean,
                      worst);
        assert_true(mean >= 0.999 && worst >= 0.995);
        free(got);
    }
    free(want);
}

static void planted_channels(void **state)
{
    (void)state;
    device = fixture_device(2);
    fixture_draw();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        fovea_model *model;
        succeed(fovea_model_load(&model, subjects[i].model));
        no_bit_of_floats_changes(&subjects[i], model);
        int8_stays_near(&subjects[i], model);
        fovea_model_free(model);
    }
    fovea_device_close(device);
    while (arrays > 0)
        free(array[--arrays]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_follow_both_sides),
        cmocka_unit_test(odd_channels),
        cmocka_unit_test(norms),
        cmocka_unit_test(products),
        cmocka_unit_test(planted_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
