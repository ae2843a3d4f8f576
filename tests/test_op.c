/* test_op.c: plans of one operation against their O(N^2) definition: every schedule, odd sizes,
 * queries that are not the keys, strided rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "oracle.h"

static float *values(size_t n, uint32_t seed, float scale)
{
    float *x = malloc((n ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = scale * ((float)(seed >> 8) / (1 << 23) - 1.f);
    }
    return x;
}

/* The same rows, `gap` floats of NaN behind each. */
static float *spread(const float *packed, uint32_t rows, uint32_t width, uint32_t gap)
{
    float *out = malloc((size_t)rows * (width + gap) * sizeof *out);
    assert_non_null(out);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < width + gap; i++)
            out[r * (width + gap) + i] = i < width ? packed[r * width + i] : NAN;
    return out;
}

static void expect(const float *got, size_t ld, const double *want, uint32_t width, uint32_t row,
                   double allowed)
{
    double top = 0;
    for (uint32_t i = 0; i < width; i++)
        top = fmax(top, fabs(want[i]));
    for (uint32_t i = 0; i < width; i++)
        if (!(fabs((double)got[row * ld + i] - want[i]) <= allowed * fmax(top, 1e-3)))
            fail_msg("row %u, column %u is %.9g, want %.9g", row, i, (double)got[row * ld + i],
                     want[i]);
}

static void attention_case(fovea_device *device, const char *name, oracle_attention a,
                           uint32_t rows, uint32_t gap, fovea_schedule schedule, uint32_t chunk)
{
    fovea_op_options options = FOVEA_OP_OPTIONS_INIT;
    fovea_plan *plan;
    const uint32_t wide = a.heads * a.d, out_wide = a.heads * a.dv;
    options.attention = name;
    options.rows = rows;
    options.keys = a.keys;
    options.heads = a.heads;
    options.head_dim = a.d;
    options.value_dim = a.dv;
    options.scale = a.scale;
    options.eps = a.eps;
    options.causal = a.causal;
    options.normalise = a.normalise;
    options.schedule = schedule;
    options.chunk = chunk;
    if (fovea_op_plan_create(&plan, device, &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    float *q = values((size_t)rows * wide, 1, 2.f), *k = values((size_t)a.keys * wide, 2, 2.f);
    float *v = values((size_t)a.keys * out_wide, 3, 1.f);
    float *q_wide = spread(q, rows, wide, gap), *k_wide = spread(k, a.keys, wide, gap);
    float *v_wide = spread(v, a.keys, out_wide, gap);
    float *out = values((size_t)rows * (out_wide + gap), 4, 1.f);
    double *want = malloc(out_wide * sizeof *want);
    const fovea_matrix in[] = {
        {q_wide, wide + gap}, {k_wide, wide + gap}, {v_wide, out_wide + gap}};
    const fovea_matrix to = {out, out_wide + gap};
    if (fovea_op_run(plan, in, 3, to) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    a.q = q;
    a.k = k;
    a.v = v;
    for (uint32_t r = 0; r < rows; r++) {
        oracle_attend(&a, r, want);
        expect(out, out_wide + gap, want, out_wide, r, 2e-5);
    }
    fovea_plan_free(plan);
    free(q);
    free(k);
    free(v);
    free(q_wide);
    free(k_wide);
    free(v_wide);
    free(out);
    free(want);
}

static const struct {
    uint32_t rows, keys, heads, d, dv;
} sizes[] = {
    {1, 1, 1, 1, 1},     {17, 17, 2, 8, 8},     {50, 50, 3, 15, 17},   {1, 301, 1, 64, 64},
    {301, 3, 2, 24, 40}, {263, 263, 6, 33, 64}, {97, 1000, 1, 72, 72},
};

static void each_attention(const char *name, oracle_attention a, bool square)
{
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        a.heads = sizes[i].heads;
        a.d = sizes[i].d;
        a.dv = sizes[i].dv;
        a.keys = square ? sizes[i].rows : sizes[i].keys;
        attention_case(device, name, a, sizes[i].rows, 0, FOVEA_SCHEDULE_AUTO, 0);
        attention_case(device, name, a, sizes[i].rows, 3, FOVEA_SCHEDULE_STREAMED, 13);
        attention_case(device, name, a, sizes[i].rows, 1, FOVEA_SCHEDULE_STEPWISE, 0);
    }
    fovea_device_close(device);
}

static void softmax(void **state)
{
    (void)state;
    const oracle_attention a = {.mech = FV_MECH_ANY, .scale = 0.3, .normalise = true};
    each_attention("softmax", a, false);
}

static void softmax_causal(void **state)
{
    (void)state;
    const oracle_attention a = {
        .mech = FV_MECH_ANY, .scale = 0.3, .causal = true, .normalise = true};
    each_attention("softmax", a, true);
}

/* Every mechanism, by its name. */
static void linear(void **state)
{
    (void)state;
    for (int mech = 1; mech < FV_MECH_COUNT; mech++) {
        char name[64] = "linear:";
        strncat(name, fv_mech_names[mech], sizeof name - 8);
        oracle_attention a = {
            .mech = (enum fv_mech)mech, .scale = 1, .eps = 1e-6, .normalise = true};
        each_attention(name, a, false);
        a.scale = 0.02;
        a.eps = 0.01;
        each_attention(name, a, false);
        a.normalise = false;
        each_attention(name, a, false);
    }
}

static void gemm(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t epi;
    } activations[] = {{NULL, 0},
                       {"gelu", FV_EPI_GELU},
                       {"gelu_tanh", FV_EPI_GELU_TANH},
                       {"gelu_quick", FV_EPI_GELU_QUICK},
                       {"silu", FV_EPI_SILU},
                       {"relu", FV_EPI_RELU},
                       {"tanh", FV_EPI_TANH}};
    static const uint32_t shapes[][3] = {{1, 1, 1}, {7, 33, 65}, {100, 130, 40}, {1, 200, 300}};
    fovea_device *device = fixture_device(3);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int schedule = FOVEA_SCHEDULE_AUTO; schedule <= FOVEA_SCHEDULE_STEPWISE;
                 schedule++) {
                const uint32_t rows = shapes[s][0], out = shapes[s][1], in = shapes[s][2];
                float *x = values((size_t)rows * in, 5, 1.f),
                      *w = values((size_t)out * in, 6, 0.3f);
                float *bias = values(out, 7, 1.f), *y = values((size_t)rows * out, 8, 1.f);
                double *want = malloc(out * sizeof *want);
                fovea_op_options options = FOVEA_OP_OPTIONS_INIT;
                fovea_plan *plan;
                options.kind = FOVEA_OP_GEMM;
                options.schedule = (fovea_schedule)schedule;
                options.rows = rows;
                options.in = in;
                options.out = out;
                options.weight = w;
                options.bias = s % 2 ? bias : NULL;
                options.activation = activations[i].name;
                if (fovea_op_plan_create(&plan, device, &options) != FOVEA_OK)
                    fail_msg("%s", fovea_error());
                const fovea_matrix a = {x, 0}, to = {y, 0};
                assert_int_equal(fovea_op_run(plan, &a, 1, to), FOVEA_OK);
                for (uint32_t r = 0; r < rows; r++) {
                    for (uint32_t n = 0; n < out; n++) {
                        double sum = options.bias ? (double)bias[n] : 0;
                        for (uint32_t k = 0; k < in; k++)
                            sum += (double)x[r * in + k] * (double)w[n * in + k];
                        want[n] = oracle_activation(activations[i].epi, sum);
                    }
                    expect(y, out, want, out, r, 1e-5);
                }
                fovea_plan_free(plan);
                free(x);
                free(w);
                free(bias);
                free(y);
                free(want);
            }
    fovea_device_close(device);
}

static void refusals(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    fovea_op_options options = FOVEA_OP_OPTIONS_INIT;
    fovea_plan *plan = NULL;
    options.attention = "softmax";
    options.rows = options.keys = 4;
    options.heads = 1;
    options.head_dim = 8;
    assert_int_equal(fovea_op_plan_create(&plan, device, &options), FOVEA_EINVAL);
    options.value_dim = 8;
    options.attention = "nonsense";
    assert_int_equal(fovea_op_plan_create(&plan, device, &options), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "nonsense"));
    options.attention = "linear:elu1";
    options.causal = 1;
    assert_int_equal(fovea_op_plan_create(&plan, device, &options), FOVEA_ENOTSUP);
    options.kind = FOVEA_OP_GEMM;
    options.in = options.out = 4;
    assert_int_equal(fovea_op_plan_create(&plan, device, &options), FOVEA_EINVAL);
    assert_null(plan);
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax), cmocka_unit_test(softmax_causal), cmocka_unit_test(linear),
        cmocka_unit_test(gemm),    cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
