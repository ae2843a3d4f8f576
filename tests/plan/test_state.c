/* test_state.c: tests the states of causal operations: failing calls, saving and resuming, and that
 * nothing is allocated after a state is created. test_causal.c tests the values.
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

enum { ROWS = 40, HEADS = 3, D = 12, DV = 10, WIDE = HEADS * DV, CAPACITY = 2 * ROWS };

static const struct {
    const char *attention;
    int normalise;
    size_t floats;
    uint32_t capacity; /* tokens that a cache holds */
} kinds[] = {
    {"linear:elu1", 1, HEADS *(D *DV + D)},
    {"linear:identity", 0, HEADS *D *DV},
    {"linear:nala", 1, HEADS *(2 * D * DV + 2 * D)},
    {"retention", 1, HEADS *D *DV},
    {"gla", 1, HEADS *D *DV},
    {"sla-delta-rule", 1, HEADS *D *DV},
    {"gated-delta-rule:nala", 1, HEADS * 2 * D *DV},
    {"mala", 1, HEADS *(D *DV + D + DV + 1)},
    {"sla-mala-paper:exp", 1, HEADS *(D *DV + D + DV + 1)},
    {"softmax", 1, HEADS *(D + DV) * CAPACITY + 1, CAPACITY},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static fovea_attention_options options_of(size_t kind)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = kinds[kind].attention;
    o.normalise = kinds[kind].normalise;
    o.causal = 1;
    o.l2norm = 1;
    o.rows = ROWS;
    o.keys = kinds[kind].capacity;
    o.heads = HEADS;
    o.head_dim = D;
    o.value_dim = DV;
    return o;
}

static fovea_state *create(fovea_device *device, const fovea_attention_options *o)
{
    fovea_state *s;
    if (fovea_state_create(&s, device, o) != FOVEA_OK)
        fail_msg("%s: %s", o->attention, fovea_error());
    return s;
}

static float *saved(const fovea_state *s)
{
    float *out = trial_values(fovea_state_size(s), 1, 1.f);
    assert_int_equal(fovea_state_save(s, out, fovea_state_size(s)), FOVEA_OK);
    return out;
}

static void feed(fovea_state *s, const trial *t, uint32_t row, uint32_t rows, float *out)
{
    fovea_matrix in[8];
    const size_t n = trial_inputs(t, row, in);
    const fovea_matrix to = {out + (size_t)row * WIDE, 0};
    if (fovea_state_feed(s, rows, in, n, to) != FOVEA_OK)
        fail_msg("%s: %s", t->options.attention, fovea_error());
}

static void step(fovea_state *s, const trial *t, uint32_t row, float *out)
{
    fovea_matrix in[8];
    const size_t n = trial_inputs(t, row, in);
    const fovea_matrix to = {out + (size_t)row * WIDE, 0};
    if (fovea_state_step(s, in, n, to) != FOVEA_OK)
        fail_msg("%s: %s", t->options.attention, fovea_error());
}

/* Sizes and inputs are checked. New and reset states are zero. */
static void begin(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(2);
    for (size_t k = 0; k < KINDS; k++) {
        fovea_attention_options o = options_of(k);
        fovea_state *s = create(device, &o);
        fovea_plan *plan;
        trial t = trial_make(&o, 1);
        float out[ROWS * WIDE];
        assert_int_equal(fovea_state_size(s), kinds[k].floats);
        o.keys = 0;
        assert_int_equal(fovea_attention_plan_create(&plan, device, &o), FOVEA_OK);
        for (size_t i = 0; i < 9 && fovea_op_input(plan, i); i++)
            assert_string_equal(fovea_state_input(s, i), fovea_op_input(plan, i));
        for (int again = 0; again < 2; again++) {
            float *zero = saved(s);
            for (size_t i = 0; i < kinds[k].floats; i++)
                assert_true(zero[i] == 0);
            free(zero);
            feed(s, &t, 0, ROWS, out);
            fovea_state_reset(s);
        }
        fovea_plan_free(plan);
        fovea_state_free(s);
        trial_free(&t);
    }
    fovea_device_close(device);
}

/* A sequence that moves to another state continues with the same bits. States do not affect each
 * other. */
static void moved(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(2);
    for (size_t k = 0; k < KINDS; k++) {
        const fovea_attention_options o = options_of(k);
        fovea_state *a = create(device, &o), *b = create(device, &o);
        trial t = trial_make(&o, 1), other = trial_make(&o, 50);
        float straight[ROWS * WIDE], resumed[ROWS * WIDE], ignored[ROWS * WIDE];
        feed(a, &t, 0, 17, straight);
        float *half = saved(a);
        feed(a, &t, 17, ROWS - 17, straight);

        feed(b, &other, 0, ROWS, ignored);
        assert_int_equal(fovea_state_restore(b, half, kinds[k].floats), FOVEA_OK);
        feed(a, &other, 0, ROWS, ignored);
        feed(b, &t, 17, ROWS - 17, resumed);
        assert_memory_equal(straight + 17 * WIDE, resumed + 17 * WIDE,
                            (ROWS - 17) * WIDE * sizeof *resumed);
        free(half);
        fovea_state_free(a);
        fovea_state_free(b);
        trial_free(&t);
        trial_free(&other);
    }
    fovea_device_close(device);
}

/* A call with any error leaves the state unchanged. */
static void errors(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(2);
    for (size_t k = 0; k < KINDS; k++) {
        const fovea_attention_options o = options_of(k);
        fovea_state *s = create(device, &o);
        trial t = trial_make(&o, 1);
        float out[ROWS * WIDE];
        fovea_matrix in[8];
        const size_t n = trial_inputs(&t, 0, in), floats = kinds[k].floats;
        const fovea_matrix to = {out, 0}, nowhere = {NULL, 0}, narrow = {out, WIDE - 1};
        feed(s, &t, 0, 9, out);
        float *before = saved(s);
        assert_int_equal(fovea_state_feed(s, 0, in, n, to), FOVEA_EINVAL);
        assert_int_equal(fovea_state_feed(s, ROWS + 1, in, n, to), FOVEA_EINVAL);
        assert_int_equal(fovea_state_feed(s, 5, in, n - 1, to), FOVEA_EINVAL);
        assert_int_equal(fovea_state_feed(s, 5, in, n + 1, to), FOVEA_EINVAL);
        assert_int_equal(fovea_state_feed(s, 5, in, n, nowhere), FOVEA_EINVAL);
        assert_int_equal(fovea_state_feed(s, 5, in, n, narrow), FOVEA_EINVAL);
        assert_int_equal(fovea_state_step(s, in, 0, to), FOVEA_EINVAL);
        in[n - 1].stride = 1;
        assert_int_equal(fovea_state_step(s, in, n, to), FOVEA_EINVAL);
        in[n - 1] = nowhere;
        assert_int_equal(fovea_state_step(s, in, n, to), FOVEA_EINVAL);
        assert_int_equal(fovea_state_restore(s, before, floats + 1), FOVEA_EINVAL);
        assert_int_equal(fovea_state_restore(s, NULL, floats), FOVEA_EINVAL);
        assert_int_equal(fovea_state_save(s, out, 0), FOVEA_EINVAL);
        float *after = saved(s);
        assert_memory_equal(before, after, floats * sizeof *after);
        free(before);
        free(after);
        fovea_state_free(s);
        trial_free(&t);
    }
    fovea_device_close(device);
}

static void refused(fovea_device *device, const fovea_attention_options *o, fovea_status status)
{
    fovea_state *s = NULL;
    assert_int_equal(fovea_state_create(&s, device, o), status);
    assert_true(strlen(fovea_error()) > 10);
    assert_null(s);
}

/* Only operations with a state can create one. */
static void refusals(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(1);
    fovea_attention_options o = options_of(0);
    o.l2norm = 0;
    o.causal = 0;
    refused(device, &o, FOVEA_EINVAL);
    o.attention = "softmax";
    refused(device, &o, FOVEA_EINVAL);
    o.causal = 1;
    refused(device, &o, FOVEA_EINVAL);
    o.attention = "pola";
    refused(device, &o, FOVEA_ENOTSUP);
    o = options_of(0);
    o.rows = 0;
    refused(device, &o, FOVEA_EINVAL);
    fovea_state_free(NULL);
    assert_int_equal(fovea_state_reset(NULL), FOVEA_EINVAL);
    fovea_device_close(device);
}

/* Steps, pieces and chunks give the same result up to rounding, with gates computed from q and k, a
 * normalised and multiplied output, and 16-bit rows, which need steps before and after the scan. */
static void followed(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(3);
    float *weight = trial_values(HEADS * D, 1, 1.f), *norm = trial_values(WIDE, 2, 1.f);
    float *factor = trial_values(ROWS * WIDE, 3, 1.f);
    for (int form = FOVEA_FORM_RECURRENT; form <= FOVEA_FORM_CHUNK; form++) {
        fovea_attention_options o = options_of(5);
        trial t = trial_make(&o, 1);
        float whole[ROWS * WIDE], steps[ROWS * WIDE];
        o.gates = FOVEA_GATES_Q_BLOCKDIAG;
        o.gate_q = o.gate_k = weight;
        o.norm_weight = norm;
        o.out_gate = FOVEA_OUT_GATE_SILU;
        o.form = (fovea_form)form;
        o.chunk = 16;
        fovea_state *s = create(device, &o);
        for (int pieces = 0; pieces < 2; pieces++) {
            float *out = pieces ? steps : whole;
            fovea_state_reset(s);
            for (uint32_t row = 0, rows = 0; row < ROWS; row += rows) {
                rows = pieces ? 1 + row % 7 : ROWS;
                rows = rows < ROWS - row ? rows : ROWS - row;
                const size_t wide = (size_t)row * HEADS * D;
                const fovea_matrix in[] = {{t.q + wide, 0},
                                           {t.k + wide, 0},
                                           {t.v + (size_t)row * WIDE, 0},
                                           {t.beta + (size_t)row * HEADS, 0},
                                           {factor + (size_t)row * WIDE, 0}};
                const fovea_matrix to = {out + (size_t)row * WIDE, 0};
                if (rows == 1 ? fovea_state_step(s, in, 5, to)
                              : fovea_state_feed(s, rows, in, 5, to))
                    fail_msg("%s", fovea_error());
            }
        }
        double want[ROWS * WIDE];
        for (size_t i = 0; i < ROWS * WIDE; i++)
            want[i] = (double)whole[i];
        trial_close("pieces", steps, want, ROWS * WIDE, 2e-5);
        fovea_state_free(s);
        trial_free(&t);
    }
    free(weight);
    free(norm);
    free(factor);
    fovea_device_close(device);
}

/* A cache gives the results of attention over all tokens at once, for any split into pieces. */
static void pieces_of_softmax(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(2);
    fovea_attention_options o = options_of(0);
    o.attention = "softmax";
    o.scale = 0.3;
    trial t = trial_make(&o, 1);
    o.keys = ROWS;
    fovea_state *s = create(device, &o);
    float out[ROWS * WIDE];
    for (uint32_t most = 1; most < 30; most += 7) {
        fovea_state_reset(s);
        for (uint32_t row = 0, rows = 0; row < ROWS; row += rows) {
            rows = 1 + row % most;
            rows = rows < ROWS - row ? rows : ROWS - row;
            if (rows == 1)
                step(s, &t, row, out);
            else
                feed(s, &t, row, rows, out);
        }
        trial_expect(&t, out, ROWS, 2e-5);
    }
    fovea_state_free(s);
    trial_free(&t);
    fovea_device_close(device);
}

/* A cache holds exactly its capacity of tokens, including tokens from a saved state. */
static void capacity(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(1);
    fovea_attention_options o = options_of(0);
    o.attention = "softmax";
    trial t = trial_make(&o, 1);
    o.keys = ROWS;
    fovea_state *s = create(device, &o);
    const size_t floats = fovea_state_size(s);
    float out[ROWS * WIDE];
    fovea_matrix in[8];
    const size_t n = trial_inputs(&t, 0, in);
    const fovea_matrix to = {out, 0};
    feed(s, &t, 0, ROWS - 1, out);
    assert_int_equal(fovea_state_feed(s, 2, in, n, to), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "holds at most 40"));
    step(s, &t, ROWS - 1, out);
    trial_expect(&t, out, ROWS, 2e-5);
    assert_int_equal(fovea_state_step(s, in, n, to), FOVEA_EINVAL);

    float *full = saved(s);
    const float wrong[] = {-1.f, 0.5f, ROWS + 1, NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        full[floats - 1] = wrong[i];
        assert_int_equal(fovea_state_restore(s, full, floats), FOVEA_EINVAL);
    }
    full[floats - 1] = ROWS - 1;
    assert_int_equal(fovea_state_restore(s, full, floats), FOVEA_OK);
    step(s, &t, ROWS - 1, out);
    trial_expect(&t, out, ROWS, 2e-5);
    fovea_state_reset(s);
    feed(s, &t, 0, ROWS, out);
    free(full);
    fovea_state_free(s);
    trial_free(&t);

    static const uint32_t capacities[] = {0, (1u << 24) + 1,
                                          1u << 24}; /* the last size: 2^30 values */
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        o.keys = capacities[i];
        refused(device, &o, FOVEA_EINVAL);
    }
    fovea_device_close(device);
}

/* After fovea_state_create nothing is allocated. */
static void steady(void **unused)
{
    (void)unused;
    fovea_device *device = fixture_device(2);
    for (size_t k = 0; k < KINDS; k++) {
        const fovea_attention_options o = options_of(k);
        fovea_state *s = create(device, &o);
        trial t = trial_make(&o, 1);
        float *out = trial_values((size_t)ROWS * WIDE, 1, 1.f), *state = saved(s);
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_memory_query(&before);
        for (uint32_t row = 0; row < ROWS; row++)
            step(s, &t, row, out);
        feed(s, &t, 0, ROWS, out);
        assert_int_equal(fovea_state_save(s, state, kinds[k].floats), FOVEA_OK);
        assert_int_equal(fovea_state_restore(s, state, kinds[k].floats), FOVEA_OK);
        fovea_state_reset(s);
        fovea_memory_query(&after);
        assert_int_equal(after.allocations, before.allocations);
        assert_int_equal(after.current, before.current);
        free(out);
        free(state);
        fovea_state_free(s);
        trial_free(&t);
    }
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin),
        cmocka_unit_test(moved),
        cmocka_unit_test(errors),
        cmocka_unit_test(refusals),
        cmocka_unit_test(followed),
        cmocka_unit_test(steady),
        cmocka_unit_test(pieces_of_softmax),
        cmocka_unit_test(capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
