/* test_mechanisms.c: compares every bidirectional attention of the public interface with its
 * formula in double precision (oracle.h).
 *
 * By default it tests one shape in three; --all tests every shape, and --long tests sequences of
 * 65536 tokens.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixture.h"
#include "tests/kernels/attention_trial.h"

/* Further options of an attention. */
enum { PLAIN_SUMS = 1, ROTATED = 2, MUST_PLAIN = 4, EVEN_VALUES = 8 };

static const struct {
    const char *name;
    int can;
} attentions[] = {
    {"softmax", 0},
    {"linear", PLAIN_SUMS},
    {"linear:elu1", PLAIN_SUMS},
    {"linear:relu", PLAIN_SUMS},
    {"linear:exp", PLAIN_SUMS},
    {"linear:softplus", PLAIN_SUMS},
    {"linear:softmax", PLAIN_SUMS},
    {"linear:silu", MUST_PLAIN},
    {"linear:identity", MUST_PLAIN},
    {"mala", ROTATED},
    {"mala:elu1", ROTATED},
    {"mala:relu", ROTATED},
    {"mala:exp", ROTATED},
    {"mala-paper", 0},
    {"mala-paper:relu", 0},
    {"mala-paper:exp", 0},
    {"pola", EVEN_VALUES},
    {"nala", ROTATED},
    {"nala-paper", 0},
    {"hedgehog", ROTATED},
    {"sla-hedgehog", ROTATED},
    {"sla-linear:elu1", PLAIN_SUMS},
    {"sla-linear:exp", PLAIN_SUMS},
    {"sla-linear:identity", MUST_PLAIN},
    {"sla-mala", ROTATED},
    {"sla-pola", EVEN_VALUES},
    {"sla-nala", ROTATED},
};
#define ATTENTIONS (sizeof attentions / sizeof *attentions)
static size_t stride = 3; /* tests every `stride`-th shape of an attention */

static fovea_attention_options shape(const char *attention, uint32_t rows, uint32_t keys,
                                     uint32_t heads, uint32_t d, uint32_t dv)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = attention;
    o.rows = rows;
    o.keys = keys;
    o.heads = heads;
    o.head_dim = d;
    o.value_dim = dv;
    o.scale = 1 / sqrt(d);
    return o;
}

/* Compares at most 64 rows with the oracle. */
static void check(fovea_device *device, const fovea_attention_options *o, uint32_t gap,
                  double allowed)
{
    trial t = trial_make(o, 1);
    float *got = trial_run(&t, device, gap);
    trial_expect(&t, got, 64, allowed);
    free(got);
    trial_free(&t);
}

static const struct {
    uint32_t rows, keys, heads, d, dv;
} shapes[] = {
    {1, 1, 1, 1, 1},     {17, 17, 2, 8, 8},     {50, 50, 3, 15, 17},   {1, 301, 1, 64, 64},
    {301, 3, 2, 24, 40}, {263, 263, 6, 33, 64}, {97, 1000, 1, 72, 72}, {130, 67, 2, 96, 30},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static void each_shape(fovea_device *device, size_t i)
{
    for (size_t s = i % stride; s < SHAPES; s += stride) {
        fovea_attention_options o = shape(attentions[i].name, shapes[s].rows, shapes[s].keys,
                                          shapes[s].heads, shapes[s].d, shapes[s].dv);
        const size_t wide = (size_t)o.heads * o.head_dim;
        float *power = trial_values(wide, 5, 2.f), *scale = trial_values(wide, 6, 1.f);
        o.normalise = attentions[i].can != MUST_PLAIN;
        if (attentions[i].can == EVEN_VALUES) {
            o.value_dim += o.value_dim % 2;
            o.power = power;
            o.channel_scale = scale;
        }
        check(device, &o, 0, 1e-5);
        o.schedule = FOVEA_SCHEDULE_STREAMED;
        o.chunk = 13;
        check(device, &o, 3, 1e-5);
        o.schedule = FOVEA_SCHEDULE_STEPWISE;
        o.chunk = 0;
        o.scale = 0.7;
        o.eps = 0.01;
        o.alpha = 2.5;
        check(device, &o, 1, 1e-5);
        if (attentions[i].can == PLAIN_SUMS) {
            o.normalise = 0;
            check(device, &o, 0, 1e-5);
        }
        free(power);
        free(scale);
    }
}

static void odd_shapes(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        each_shape(device, i);
    fovea_device_close(device);
}

/* Tests one shape on every instruction set of this machine. */
static void levels(void **state)
{
    (void)state;
    static const char *const isa[] = {"scalar", "avx2", "avx512", "neon"};
    uint32_t found = 0;
    for (size_t l = 0; l < sizeof isa / sizeof *isa; l++) {
        fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
        fovea_device *device;
        options.threads = 2;
        options.isa = isa[l];
        if (fovea_device_open(&device, "cpu", &options) != FOVEA_OK)
            continue;
        found++;
        for (size_t i = 0; i < ATTENTIONS; i++) {
            fovea_attention_options o = shape(attentions[i].name, 70, 131, 3, 40, 24);
            o.normalise = attentions[i].can != MUST_PLAIN;
            check(device, &o, 1, 1e-5);
        }
        fovea_device_close(device);
    }
    assert_in_range(found, 1, 3);
}

/* Tables with arbitrary angles, and the grid's own tables, which must be RoPE2D. */
static void rotations(void **state)
{
    (void)state;
    static const uint32_t grids[][3] = {{1, 1, 4}, {7, 5, 8}, {11, 20, 24}, {14, 14, 64}};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (size_t g = 0; g < 4 && attentions[i].can == ROTATED; g++) {
            const uint32_t rows = grids[g][0] * grids[g][1], d = grids[g][2];
            fovea_attention_options o = shape(attentions[i].name, rows, 0, 2, d, 20);
            float *cosine = trial_values((size_t)rows * d, 1, 1.f);
            float *sine = trial_values((size_t)rows * d, 1, 1.f);
            o.rope_cos = cosine;
            o.rope_sin = sine;
            for (size_t c = 0; c < (size_t)rows * d; c++) {
                const double angle = 3. * (double)sine[c / 2 * 2];
                cosine[c] = (float)cos(angle);
                sine[c] = (float)sin(angle);
            }
            check(device, &o, 2, 2e-5);
            o.schedule = FOVEA_SCHEDULE_STREAMED;
            o.chunk = 9;
            oracle_rope(grids[g][0], grids[g][1], d, cosine, sine);
            trial t = trial_make(&o, 4);
            t.options.rope_cos = t.options.rope_sin = NULL;
            t.options.rope_width = grids[g][0];
            t.options.rope_height = grids[g][1];
            float *got = trial_run(&t, device, 0);
            t.options.rope_cos = cosine;
            t.options.rope_sin = sine;
            trial_expect(&t, got, 64, 2e-5);
            free(got);
            free(cosine);
            free(sine);
            trial_free(&t);
        }
    fovea_device_close(device);
}

static void rounded_storage(void **state)
{
    (void)state;
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_BF16};
    static const double allowed[] = {1e-5, 2e-3, 8e-3};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (uint32_t in = 0; in < 3; in++)
            for (uint32_t out = in == 0; out < 3; out++) {
                fovea_attention_options o = shape(attentions[i].name, 200, 77, 2, 30, 18);
                o.normalise = attentions[i].can != MUST_PLAIN;
                o.storage = types[in];
                o.out_storage = types[out];
                check(device, &o, out, allowed[out]);
            }
    fovea_device_close(device);
}

/* Gates computed from logits, from x, or from q and k give the results of gates that are passed in.
 */
static void gate_sources(void **state)
{
    (void)state;
    enum { ROWS = 37, HEADS = 3, D = 10, DV = 6, X = 21 };
    fovea_device *device = fixture_device(2);
    for (int source = FOVEA_GATES_LOGITS; source <= FOVEA_GATES_Q_BLOCKDIAG; source++) {
        fovea_attention_options o = shape("sla-linear:elu1", ROWS, ROWS, HEADS, D, DV);
        trial t = trial_make(&o, 3);
        float *x = trial_values((size_t)ROWS * X, 11, 1.f);
        float *w[] = {trial_values((size_t)HEADS * (HEADS * D + X), 12, 1.f),
                      trial_values((size_t)HEADS * (HEADS * D + X), 13, 1.f)};
        float *logits[] = {trial_values((size_t)ROWS * HEADS, 14, 3.f),
                           trial_values((size_t)ROWS * HEADS, 15, 3.f)};
        float *gates[] = {t.gate_q, t.gate_k}, *rows[] = {t.q, t.k};
        for (uint32_t i = 0; i < 2 * ROWS; i++) {
            const uint32_t side = i / ROWS, row = i % ROWS;
            double value[HEADS], sum = 0;
            for (uint32_t h = 0; h < HEADS; h++) {
                const bool diagonal = source == FOVEA_GATES_Q_BLOCKDIAG;
                const bool from_x = source == FOVEA_GATES_X_DENSE;
                const uint32_t n = diagonal ? D : from_x ? X : HEADS * D;
                const float *in =
                    from_x ? x + row * X : rows[side] + row * HEADS * D + (diagonal ? h * D : 0);
                value[h] = 0;
                for (uint32_t c = 0; c < n; c++)
                    value[h] += (double)in[c] * (double)w[side][h * n + c];
                if (source == FOVEA_GATES_LOGITS)
                    value[h] = (double)logits[side][row * HEADS + h];
                sum += exp(value[h]);
            }
            for (uint32_t h = 0; h < HEADS; h++)
                gates[side][row * HEADS + h] = (float)(exp(value[h]) / sum);
        }
        fovea_plan *plan;
        float *got = trial_values((size_t)ROWS * HEADS * DV, 1, 1.f);
        const fovea_matrix inputs[] = {
            {t.q, 0},       {t.k, 0}, {t.v, 0}, {source == FOVEA_GATES_LOGITS ? logits[0] : x, 0},
            {logits[1], 0},
        };
        o.gates = (fovea_gates)source;
        if (source != FOVEA_GATES_LOGITS) {
            o.gate_q = w[0];
            o.gate_k = w[1];
            o.gate_width = source == FOVEA_GATES_X_DENSE ? X : 0;
        }
        if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK)
            fail_msg("gates %d: %s", source, fovea_error());
        const size_t count = source == FOVEA_GATES_LOGITS    ? 5
                             : source == FOVEA_GATES_X_DENSE ? 4
                                                             : 3;
        assert_non_null(fovea_op_input(plan, count - 1));
        assert_null(fovea_op_input(plan, count));
        if (fovea_op_run(plan, inputs, count, (fovea_matrix){got, 0}) != FOVEA_OK)
            fail_msg("gates %d: %s", source, fovea_error());
        trial_expect(&t, got, ROWS, 1e-5);
        fovea_plan_free(plan);
        float *const all[] = {x, w[0], w[1], logits[0], logits[1], got};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
        trial_free(&t);
    }
    fovea_device_close(device);
}

/* Applies the steps after the attention by their equations. `out` is the attention's result. */
static void finish(const trial *t, const float *g, double *out)
{
    const fovea_attention_options *o = &t->options;
    const uint32_t wide = o->heads * o->value_dim, width = o->grid_width, n = o->local_size;
    for (uint32_t row = 0; row < o->rows; row++) {
        double *x = out + (size_t)row * wide, mean = 0, variance = 0;
        for (uint32_t c = 0; c < wide && n; c++) {
            const uint32_t filter = o->local_shared ? c % o->value_dim : c;
            x[c] += o->local_bias ? (double)o->local_bias[filter] : 0;
            for (uint32_t i = 0; i < n * n; i++) {
                const uint32_t across = row % width + i % n - n / 2; /* wraps below 0 */
                const uint32_t down = row / width + i / n - n / 2;
                if (across < width && down < o->grid_height)
                    x[c] += (double)o->local_weight[filter * n * n + i] *
                            (double)t->v[(size_t)(down * width + across) * wide + c];
            }
        }
        for (uint32_t c = 0; c < wide; c++)
            mean += x[c] / wide;
        for (uint32_t c = 0; c < wide; c++)
            variance += (x[c] - mean) * (x[c] - mean) / wide;
        for (uint32_t c = 0; c < wide; c++) {
            const double eps = o->norm_eps > 0 ? o->norm_eps : 1e-5;
            const double factor = g ? (double)g[(size_t)row * wide + c] : 1;
            if (o->norm_weight)
                x[c] = (x[c] - mean) / sqrt(variance + eps) * (double)o->norm_weight[c] +
                       (double)o->norm_bias[c];
            x[c] *= o->out_gate == FOVEA_OUT_GATE_SILU ? oracle_activation(FV_EPI_SILU, factor)
                                                       : factor;
        }
    }
}

static void after(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t width, height, size;
        int shared, normed, biased;
        fovea_out_gate gate;
        fovea_schedule schedule;
    } cases[] = {
        {"pola", 9, 7, 5, 1, 0, 1, FOVEA_OUT_GATE_LINEAR, FOVEA_SCHEDULE_AUTO},
        {"pola", 3, 2, 3, 0, 0, 0, FOVEA_OUT_GATE_PLAIN, FOVEA_SCHEDULE_STREAMED},
        {"nala", 10, 12, 5, 0, 1, 1, FOVEA_OUT_GATE_SILU, FOVEA_SCHEDULE_AUTO},
        {"nala", 1, 30, 3, 0, 1, 1, FOVEA_OUT_GATE_SILU, FOVEA_SCHEDULE_STEPWISE},
        {"mala", 13, 5, 5, 0, 0, 1, FOVEA_OUT_GATE_LINEAR, FOVEA_SCHEDULE_STREAMED},
        {"linear", 30, 1, 0, 0, 1, 0, FOVEA_OUT_GATE_PLAIN, FOVEA_SCHEDULE_AUTO},
        {"softmax", 8, 8, 5, 0, 1, 1, FOVEA_OUT_GATE_SILU, FOVEA_SCHEDULE_AUTO},
        {"pola", 6, 11, 7, 1, 1, 0, FOVEA_OUT_GATE_LINEAR, FOVEA_SCHEDULE_STREAMED},
        {"linear", 5, 4, 1, 1, 1, 0, FOVEA_OUT_GATE_PLAIN, FOVEA_SCHEDULE_AUTO},
    };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { HEADS = 2, D = 12, DV = 14, WIDE = HEADS * DV };
        const uint32_t rows = cases[i].width * cases[i].height, n = cases[i].size;
        fovea_attention_options o = shape(cases[i].name, rows, 0, HEADS, D, DV);
        float *weight = trial_values((size_t)WIDE * 49, 21, 0.3f),
              *bias = trial_values(WIDE, 22, 1);
        float *norm = trial_values(WIDE, 23, 1), *norm_bias = trial_values(WIDE, 24, 1);
        float *g = trial_values((size_t)rows * WIDE, 25, 2.f);
        o.grid_width = cases[i].width;
        o.grid_height = cases[i].height;
        o.local_size = n;
        o.local_shared = cases[i].shared;
        o.local_weight = n ? weight : NULL;
        o.local_bias = n && cases[i].biased ? bias : NULL;
        o.norm_weight = cases[i].normed ? norm : NULL;
        o.norm_bias = cases[i].normed ? norm_bias : NULL;
        o.out_gate = cases[i].gate;
        o.schedule = cases[i].schedule;
        trial t = trial_make(&o, 8);
        oracle_attention a = trial_attention(&t);
        double *want = malloc((size_t)rows * WIDE * sizeof *want);
        float *got = trial_values((size_t)rows * WIDE, 1, 1.f);
        for (uint32_t row = 0; row < rows; row++)
            oracle_attend(&a, row, want + (size_t)row * WIDE);
        finish(&t, o.out_gate == FOVEA_OUT_GATE_PLAIN ? NULL : g, want);
        fovea_matrix inputs[8];
        const size_t count = trial_inputs(&t, 0, inputs);
        fovea_plan *plan;
        inputs[count] = (fovea_matrix){g, 0};
        if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK ||
            fovea_op_run(plan, inputs, count + (o.out_gate != FOVEA_OUT_GATE_PLAIN),
                         (fovea_matrix){got, 0}) != FOVEA_OK)
            fail_msg("%s: %s", o.attention, fovea_error());
        trial_close(o.attention, got, want, (size_t)rows * WIDE, 2e-5);
        fovea_plan_free(plan);
        float *const all[] = {weight, bias, norm, norm_bias, g, got};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free(all[k]);
        free(want);
        trial_free(&t);
    }
    fovea_device_close(device);
}

/* Means over many keys stay exact: one head of 64 channels, in float32 and float16. */
static void many_tokens(uint32_t rows)
{
    fovea_device *device = fixture_device(2);
    for (size_t i = stride / 2; i < ATTENTIONS; i += stride) {
        fovea_attention_options o = shape(attentions[i].name, rows, 0, 1, 64, 64);
        if (!strcmp(o.attention, "softmax"))
            continue;
        o.normalise = attentions[i].can != MUST_PLAIN;
        check(device, &o, 0, 1e-5);
        o.storage = o.out_storage = FOVEA_DTYPE_F16;
        check(device, &o, 0, 2e-3);
    }
    fovea_device_close(device);
}

static void tokens_4096(void **state)
{
    (void)state;
    many_tokens(4096);
}

static void tokens_65536(void **state)
{
    (void)state;
    many_tokens(65536);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {
        cmocka_unit_test(odd_shapes),   cmocka_unit_test(levels),
        cmocka_unit_test(rotations),    cmocka_unit_test(rounded_storage),
        cmocka_unit_test(gate_sources), cmocka_unit_test(after),
        cmocka_unit_test(tokens_4096),
    };
    const struct CMUnitTest extensive[] = {cmocka_unit_test(tokens_65536)};
    if (argc > 1)
        stride = 1;
    if (argc > 1 && !strcmp(argv[1], "--long"))
        return cmocka_run_group_tests(extensive, NULL, NULL);
    return cmocka_run_group_tests(quick, NULL, NULL);
}
