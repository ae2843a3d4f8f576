/* test_op.c: tests plans of one operation: causal softmax and GEMM against plain loops, attention
 * names, inputs, memory, and options that are refused. Attentions themselves are in
 * test_mechanisms.c and test_causal.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/mech_traits.h"
#include "tests/fixture.h"
#include "tests/kernels/attention_trial.h"

static fovea_attention_options attention(const char *name, uint32_t rows, uint32_t heads,
                                         uint32_t d, uint32_t dv)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = name;
    o.rows = rows;
    o.heads = heads;
    o.head_dim = d;
    o.value_dim = dv;
    return o;
}

static fovea_plan *plan_of(fovea_device *device, const fovea_attention_options *o)
{
    fovea_plan *plan;
    if (fovea_attention_plan_create(&plan, device, o) != FOVEA_OK)
        fail_msg("%s: %s", o->attention, fovea_error());
    return plan;
}

static void softmax_causal(void **state)
{
    (void)state;
    static const uint32_t shapes[][4] = {
        {1, 1, 1, 1}, {17, 2, 8, 8}, {50, 3, 15, 17}, {263, 6, 33, 64}};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int schedule = FOVEA_SCHEDULE_AUTO; schedule <= FOVEA_SCHEDULE_STEPWISE; schedule++) {
            fovea_attention_options o =
                attention("softmax", shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
            o.causal = 1;
            o.scale = 0.3;
            o.schedule = (fovea_schedule)schedule;
            o.chunk = schedule == FOVEA_SCHEDULE_STREAMED ? 13 : 0;
            trial t = trial_make(&o, 1);
            float *got = trial_run(&t, device, (uint32_t)schedule);
            trial_expect(&t, got, o.rows, 2e-5);
            free(got);
            trial_free(&t);
        }
    fovea_device_close(device);
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
                       {"tanh", FV_EPI_TANH},
                       {"sigmoid", FV_EPI_SIGMOID},
                       {"softplus", FV_EPI_SOFTPLUS}};
    static const uint32_t shapes[][3] = {{1, 1, 1}, {7, 33, 65}, {100, 130, 40}, {1, 200, 300}};
    fovea_device *device = fixture_device(3);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int schedule = FOVEA_SCHEDULE_AUTO; schedule <= FOVEA_SCHEDULE_STEPWISE;
                 schedule++) {
                const uint32_t rows = shapes[s][0], out = shapes[s][1], in = shapes[s][2];
                float *x = trial_values((size_t)rows * in, 5, 1.f),
                      *w = trial_values((size_t)out * in, 6, 0.3f);
                float *bias = trial_values(out, 7, 1.f),
                      *y = trial_values((size_t)rows * out, 8, 1.f);
                double *want = malloc(out * sizeof *want);
                fovea_gemm_options options = FOVEA_GEMM_OPTIONS_INIT;
                fovea_plan *plan;
                options.schedule = (fovea_schedule)schedule;
                options.rows = rows;
                options.in = in;
                options.out = out;
                options.weight = w;
                options.bias = s % 2 ? bias : NULL;
                options.activation = activations[i].name;
                if (fovea_gemm_plan_create(&plan, device, &options) != FOVEA_OK)
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
                    trial_close("gemm", y + (size_t)r * out, want, out, 1e-5);
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

/* GEMM on 16-bit rows gives the rounded result of GEMM on the same numbers as floats. */
static void gemm_storage(void **state)
{
    (void)state;
    enum { ROWS = 37, IN = 21, OUT = 19 };
    static const uint16_t one_and_a_half = 0x3fc0; /* as bfloat16 */
    fovea_device *device = fixture_device(2);
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    uint16_t a[ROWS * IN], y[ROWS * OUT];
    float w[OUT * IN];
    for (size_t i = 0; i < ROWS * IN; i++)
        a[i] = one_and_a_half;
    for (size_t i = 0; i < OUT * IN; i++)
        w[i] = (float)(i / IN); /* row n of the result is 1.5 IN n */
    o.rows = ROWS;
    o.in = IN;
    o.out = OUT;
    o.weight = w;
    o.storage = o.out_storage = FOVEA_DTYPE_BF16;
    fovea_plan *plan;
    assert_int_equal(fovea_gemm_plan_create(&plan, device, &o), FOVEA_OK);
    const fovea_matrix in = {a, 0}, out = {y, 0};
    assert_int_equal(fovea_op_run(plan, &in, 1, out), FOVEA_OK);
    for (size_t i = 0; i < ROWS * OUT; i++) {
        const uint32_t bits = (uint32_t)y[i] << 16;
        float got;
        memcpy(&got, &bits, sizeof got);
        assert_true(got == trial_round(1.5f * IN * (float)(i % OUT), FOVEA_DTYPE_BF16));
    }
    fovea_plan_free(plan);
    fovea_device_close(device);
}

/* Returns the output of the attention `name` for random inputs; the caller frees it. */
static float *result(fovea_device *device, const char *name, int causal)
{
    fovea_attention_options o = attention(name, 20, 2, 8, 6);
    o.causal = causal;
    trial t = trial_make(&o, 1);
    float *out = trial_run(&t, device, 0);
    trial_free(&t);
    return out;
}

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int causal;
    } same[] = {
        {"linear", "linear:elu1", 0},
        {"linear:elu+1", "linear:elu1", 0},
        {"mala:elu+1", "mala", 0},
        {"mala-paper:elu1", "mala-paper", 0},
        {"sla-linear", "sla-linear:elu1", 0},
        {"retention:identity", "retention", 1},
        {"gated-delta-rule:identity", "gated-delta-rule", 1},
    };
    static const char *const wrong[] = {
        "",     "Linear",         "linear:",  "linear:cubic", "mala:silu",    "nala:elu1",
        "elu1", "retention:mala", "gla:pola", "sla-softmax",  "sla-sla-mala", "softmax:elu1"};
    fovea_device *device = fixture_device(1);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        float *a = result(device, same[i].a, same[i].causal);
        float *b = result(device, same[i].b, same[i].causal);
        assert_memory_equal(a, b, (size_t)20 * 2 * 6 * sizeof *a);
        free(a);
        free(b);
    }
    /* Every mechanism is found by its title. */
    for (int m = FV_MECH_ANY; m < FV_MECH_COUNT; m++) {
        fovea_attention_options o = attention(fv_mech_table[m]->title, 20, 2, 8, 6);
        o.normalise = !(fv_mech_table[m]->wants & FV_WANT_SIGNED);
        fovea_plan_free(plan_of(device, &o));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const fovea_attention_options o = attention(wrong[i], 20, 2, 8, 6);
        fovea_plan *plan;
        assert_int_equal(fovea_attention_plan_create(&plan, device, &o), FOVEA_ENOTSUP);
        assert_non_null(strstr(fovea_error(), wrong[i]));
        assert_non_null(strstr(fovea_error(), "linear:softplus"));
        assert_non_null(strstr(fovea_error(), "gated-delta-rule"));
    }
    fovea_device_close(device);
}

static void inputs(void **state)
{
    (void)state;
    static const struct {
        const char *attention;
        fovea_gates gates;
        fovea_out_gate out_gate;
        const char *names[9];
    } cases[] = {
        {"softmax", FOVEA_GATES_READY, FOVEA_OUT_GATE_PLAIN, {"q", "k", "v"}},
        {"retention", FOVEA_GATES_READY, FOVEA_OUT_GATE_SILU, {"q", "k", "v", "out_gate"}},
        {"gla", FOVEA_GATES_READY, FOVEA_OUT_GATE_PLAIN, {"q", "k", "v", "log_decay"}},
        {"sla-delta-rule", FOVEA_GATES_Q_BLOCKDIAG, FOVEA_OUT_GATE_PLAIN, {"q", "k", "v", "beta"}},
        {"sla-gated-delta-rule",
         FOVEA_GATES_READY,
         FOVEA_OUT_GATE_LINEAR,
         {"q", "k", "v", "log_decay", "beta", "gate_q", "gate_k", "out_gate"}},
        {"sla-linear",
         FOVEA_GATES_X_DENSE,
         FOVEA_OUT_GATE_LINEAR,
         {"q", "k", "v", "x", "out_gate"}},
    };
    static const float weights[2 * 16];
    fovea_device *device = fixture_device(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fovea_attention_options o = attention(cases[i].attention, 20, 2, 8, 6);
        const char *const *name = cases[i].names;
        o.causal = 1;
        o.gates = cases[i].gates;
        o.gate_width = 16;
        o.gate_q = o.gate_k = o.gates == FOVEA_GATES_READY ? NULL : weights;
        o.out_gate = cases[i].out_gate;
        fovea_plan *plan = plan_of(device, &o);
        size_t n = 0;
        for (; name[n]; n++)
            assert_string_equal(fovea_op_input(plan, n), name[n]);
        assert_null(fovea_op_input(plan, n));
        /* Too few values, then a stride that is too short, then NULL: each message names the cause.
         */
        float x[20 * 16] = {0};
        fovea_matrix in[9];
        for (size_t k = 0; k < n; k++)
            in[k] = (fovea_matrix){x, 0};
        assert_int_equal(fovea_op_run(plan, in, n - 1, in[0]), FOVEA_EINVAL);
        in[n - 1].stride = 1;
        assert_int_equal(fovea_op_run(plan, in, n, in[0]), FOVEA_EINVAL);
        assert_non_null(strstr(fovea_error(), name[n - 1]));
        in[n - 1] = (fovea_matrix){NULL, 0};
        assert_int_equal(fovea_op_run(plan, in, n, in[0]), FOVEA_EINVAL);
        assert_non_null(strstr(fovea_error(), name[n - 1]));
        fovea_plan_free(plan);
    }
    fovea_device_close(device);
}

/* Linear attention needs the same memory for any number of tokens, types and number of workers. */
static void memory(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 12};
    static const char *const attentions[] = {"linear:elu1", "mala", "pola", "nala", "sla-linear"};
    for (size_t t = 0; t < 3; t++) {
        fovea_device *device = fixture_device(threads[t]);
        for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
            fovea_attention_options o = attention(attentions[i], 8192, 4, 32, 32);
            fovea_plan_info little = FOVEA_PLAN_INFO_INIT, much = FOVEA_PLAN_INFO_INIT;
            o.storage = FOVEA_DTYPE_F16;
            o.out_storage = FOVEA_DTYPE_BF16;
            fovea_plan *plan = plan_of(device, &o);
            fovea_plan_query(plan, &little);
            fovea_plan_free(plan);
            o.rows = 65536;
            plan = plan_of(device, &o);
            fovea_plan_query(plan, &much);
            fovea_plan_free(plan);
            assert_int_equal(much.residual, 0);
            assert_int_equal(much.states, little.states);
            assert_in_range(much.chunks, little.chunks, little.chunks * 5 / 4);
            assert_in_range(much.scratch, little.scratch, little.scratch * 5 / 4);
        }
        fovea_device_close(device);
    }
}

typedef struct refusal {
    fovea_status status;
    const char *word; /* that the message contains */
    fovea_attention_options o;
} refusal;

static void refusals(void **state)
{
    (void)state;
    static const float some[4096];
    static const float growing[2] = {-1, 0.5f};
    const fovea_attention_options base = attention("mala", 12, 2, 8, 6);
    refusal r[40];
    size_t n = 0;
#define REFUSE(want, text, change)                                                                 \
    do {                                                                                           \
        r[n] = (refusal){want, text, base};                                                        \
        fovea_attention_options *p = &r[n++].o;                                                    \
        change;                                                                                    \
    } while (0)
    REFUSE(FOVEA_EINVAL, "FOVEA_ATTENTION_OPTIONS_INIT", p->struct_size = 0);
    REFUSE(FOVEA_EINVAL, "0 rows", p->rows = 0);
    REFUSE(FOVEA_EINVAL, "rows", p->rows = UINT32_MAX);
    REFUSE(FOVEA_EINVAL, "heads", p->heads = 0);
    REFUSE(FOVEA_EINVAL, "heads", p->heads = 5000);
    REFUSE(FOVEA_EINVAL, "value_dim", p->value_dim = 0);
    REFUSE(FOVEA_EINVAL, "head_dim", p->head_dim = UINT32_MAX);
    REFUSE(FOVEA_EINVAL, "keys", p->keys = UINT32_MAX);
    REFUSE(FOVEA_EINVAL, "states", (p->heads = 1, p->head_dim = p->value_dim = 1u << 20));
    REFUSE(FOVEA_EINVAL, "scale", p->scale = NAN);
    REFUSE(FOVEA_EINVAL, "eps", p->eps = -1);
    REFUSE(FOVEA_EINVAL, "storage", p->storage = (fovea_dtype)9);
    REFUSE(FOVEA_EINVAL, "storage", p->storage = FOVEA_DTYPE_I8);
    REFUSE(FOVEA_EINVAL, "set `normalise`", p->normalise = 0);
    REFUSE(FOVEA_ENOTSUP, "causal pola", (p->attention = "pola", p->causal = 1));
    REFUSE(FOVEA_ENOTSUP, "retention", p->attention = "retention");
    REFUSE(FOVEA_ENOTSUP, "linear:nala", p->attention = "linear:nala");
    REFUSE(FOVEA_ENOTSUP, "gla:nala", (p->attention = "gla:nala", p->causal = 1));
    REFUSE(FOVEA_EINVAL, "keys", (p->attention = "gla", p->causal = 1, p->keys = 11));
    REFUSE(FOVEA_EINVAL, "rope",
           (p->attention = "gla", p->causal = 1, p->rope_width = 4, p->rope_height = 3));
    REFUSE(FOVEA_EINVAL, "local_size", (p->attention = "gla", p->causal = 1, p->local_size = 3));
    REFUSE(FOVEA_EINVAL, "log_decay", (p->attention = "gla", p->causal = 1, p->log_decay = some));
    REFUSE(FOVEA_EINVAL, "log_decay of head 1",
           (p->attention = "retention", p->causal = 1, p->log_decay = growing));
    REFUSE(FOVEA_EINVAL, "multiple of 2", (p->attention = "pola", p->value_dim = 7));
    REFUSE(FOVEA_EINVAL, "negative", p->attention = "linear:identity");
    REFUSE(FOVEA_EINVAL, "power", p->power = some);
    REFUSE(FOVEA_EINVAL, "l2norm", p->l2norm = 1);
    REFUSE(FOVEA_EINVAL, "form is only", p->form = FOVEA_FORM_CHUNK);
    REFUSE(FOVEA_EINVAL, "5 x 3", (p->rope_width = 5, p->rope_height = 3));
    REFUSE(FOVEA_EINVAL, "rope_sin", p->rope_cos = some);
    REFUSE(FOVEA_EINVAL, "keys", (p->rope_cos = p->rope_sin = some, p->keys = 11));
    REFUSE(FOVEA_ENOTSUP, "linear:exp",
           (p->attention = "linear:exp", p->rope_cos = p->rope_sin = some));
    REFUSE(FOVEA_EINVAL, "grid", (p->local_size = 3, p->local_weight = some));
    REFUSE(FOVEA_EINVAL, "local_weight", (p->local_size = 3, p->grid_width = 4));
    REFUSE(FOVEA_ENOTSUP, "local_size is 4", p->local_size = 4);
    REFUSE(FOVEA_ENOTSUP, "local_size is 33", p->local_size = 33);
    REFUSE(FOVEA_EINVAL, "sla-", p->gates = FOVEA_GATES_LOGITS);
    REFUSE(FOVEA_EINVAL, "gate_q", (p->attention = "sla-mala", p->gates = FOVEA_GATES_Q_DENSE));
    REFUSE(
        FOVEA_EINVAL, "gate_width",
        (p->attention = "sla-mala", p->gates = FOVEA_GATES_X_DENSE, p->gate_q = p->gate_k = some));
    REFUSE(FOVEA_EINVAL, "norm_weight", p->norm_bias = some);
#undef REFUSE
    assert_true(n <= 40);
    fovea_device *device = fixture_device(1);
    for (size_t i = 0; i < n; i++) {
        fovea_plan *plan = NULL;
        const fovea_status got = fovea_attention_plan_create(&plan, device, &r[i].o);
        if (got != r[i].status || !strstr(fovea_error(), r[i].word))
            fail_msg("%s, about %s: %s, %s", r[i].o.attention, r[i].word, fovea_status_text(got),
                     got ? fovea_error() : "planned");
        assert_null(plan);
    }
    fovea_gemm_options gemm = FOVEA_GEMM_OPTIONS_INIT;
    gemm.rows = gemm.in = gemm.out = 4;
    fovea_plan *none = NULL;
    assert_int_equal(fovea_gemm_plan_create(&none, device, &gemm), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "gemm"));
    fovea_device_close(device);
}

/* ---- device requirements, and float conversions ---- */

static fovea_step_info step_of(const fovea_plan *plan, const char *op)
{
    fovea_step_info s = FOVEA_STEP_INFO_INIT;
    for (size_t i = 0; fovea_plan_step(plan, i, &s); i++)
        if (strcmp(s.op, op) == 0)
            return s;
    fail_msg("no step does %s", op);
    return s;
}

static void steps_tell_their_shapes(void **state)
{
    (void)state;
    static const float weight[5 * 8];
    fovea_device *device = fixture_device(1);
    fovea_plan *plan;
    fovea_gemm_options product = FOVEA_GEMM_OPTIONS_INIT;
    product.rows = 7;
    product.in = 8;
    product.out = 5;
    product.weight = weight;
    product.activation = "gelu_tanh";
    assert_int_equal(fovea_gemm_plan_create(&plan, device, &product), FOVEA_OK);
    fovea_step_info s = step_of(plan, "gemm");
    assert_string_equal(s.problem, "gemm f32 7x5x8 gelu_tanh");
    assert_string_equal(s.activation, "gelu_tanh");
    assert_string_equal(s.mechanism, "any");
    assert_true(s.m == 7 && s.n == 5 && s.k == 8 && s.heads == 0 && s.head_dim == 0);
    assert_true(s.dtype == FOVEA_DTYPE_F32 && s.weight_dtype == FOVEA_DTYPE_F32);
    assert_true(s.flops == 2 * 7 * 5 * 8 && s.bytes == 4 * (7 * 8 + 5 * 8 + 7 * 5));
    fovea_plan_free(plan);
    fovea_attention_options o = attention("softmax", 20, 2, 8, 6);
    o.keys = 33;
    plan = plan_of(device, &o);
    s = step_of(plan, "softmax");
    assert_true(s.m == 20 && s.n == 2 * 6 && s.k == 33);
    assert_true(s.heads == 2 && s.head_dim == 8 && s.value_dim == 6 && !s.activation);
    fovea_plan_free(plan);
    o.attention = "linear:relu";
    o.storage = FOVEA_DTYPE_BF16;
    plan = plan_of(device, &o);
    assert_int_equal(step_of(plan, "convert").dtype, FOVEA_DTYPE_BF16);
    s = step_of(plan, "lattn_apply");
    assert_string_equal(s.mechanism, "relu");
    assert_true(s.m == 20 && s.heads == 2 && s.head_dim == 8 && s.value_dim == 6);
    fovea_plan_free(plan);
    fovea_device_close(device);
}

static void floats_have_16_bits(void **state)
{
    (void)state;
    /* Ties round to even; values beyond float16's range become infinite. */
    static const float in[] = {1.5f, -0.1f, 0x1.002p0f, 0x1.006p0f, 65504, 65520, 0x1p-24f};
    static const uint16_t f16[] = {0x3e00, 0xae66, 0x3c00, 0x3c02, 0x7bff, 0x7c00, 0x0001};
    static const uint16_t bf16[] = {0x3fc0, 0xbdcd, 0x3f80, 0x3f80, 0x4780, 0x4780, 0x3380};
    enum { N = sizeof in / sizeof *in };
    uint16_t half[N];
    float back[N];
    assert_int_equal(fovea_floats_encode(half, FOVEA_DTYPE_F16, in, N), FOVEA_OK);
    assert_memory_equal(half, f16, sizeof half);
    assert_int_equal(fovea_floats_decode(back, FOVEA_DTYPE_F16, half, N), FOVEA_OK);
    assert_true(back[0] == in[0] && back[4] == in[4] && isinf(back[5]) && back[6] == in[6]);
    assert_int_equal(fovea_floats_encode(half, FOVEA_DTYPE_BF16, in, N), FOVEA_OK);
    assert_memory_equal(half, bf16, sizeof half);
    assert_int_equal(fovea_floats_decode(back, FOVEA_DTYPE_BF16, half, N), FOVEA_OK);
    assert_true(back[0] == in[0] && back[4] == 65536 && back[6] == in[6]);
    assert_int_equal(fovea_floats_encode(back, FOVEA_DTYPE_F32, in, N), FOVEA_OK);
    assert_memory_equal(back, in, sizeof in);
    assert_int_equal(fovea_floats_encode(half, (fovea_dtype)3, in, N), FOVEA_EINVAL);
    assert_int_equal(fovea_floats_decode(back, (fovea_dtype)3, half, N), FOVEA_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_causal),
        cmocka_unit_test(gemm),
        cmocka_unit_test(gemm_storage),
        cmocka_unit_test(names),
        cmocka_unit_test(inputs),
        cmocka_unit_test(memory),
        cmocka_unit_test(refusals),
        cmocka_unit_test(steps_tell_their_shapes),
        cmocka_unit_test(floats_have_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
