/* test_causal.c: compares every causal attention with a state with its recurrence, as one operation
 * in both forms, and fed to a state in pieces.
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

static const struct {
    const char *name;
    int normalise, l2norm;
} attentions[] = {
    {"linear", 1, 0},
    {"linear:elu1", 0, 0},
    {"linear:relu", 1, 0},
    {"linear:exp", 1, 0},
    {"linear:softplus", 1, 0},
    {"linear:softmax", 1, 0},
    {"linear:silu", 0, 0},
    {"linear:identity", 0, 1},
    {"linear:nala", 1, 0},
    {"linear:nala-paper", 1, 0},
    {"sla-linear:elu1", 1, 0},
    {"sla-linear:identity", 0, 0},
    {"retention", 0, 0},
    {"retention:elu1", 0, 0},
    {"sla-retention", 0, 0},
    {"gla", 0, 0},
    {"gla:softplus", 0, 1},
    {"sla-gla", 0, 0},
    {"delta-rule", 0, 1},
    {"delta-rule:silu", 0, 1},
    {"delta-rule:nala", 0, 1},
    {"sla-delta-rule", 0, 1},
    {"gated-delta-rule", 0, 1},
    {"gated-delta-rule:silu", 0, 1},
    {"gated-delta-rule:nala-paper", 0, 1},
    {"sla-gated-delta-rule", 0, 1},
    {"mala", 1, 0},
    {"mala:relu", 1, 0},
    {"mala:exp", 1, 1},
    {"mala-paper", 1, 0},
    {"sla-mala", 1, 0},
    {"sla-mala-paper:relu", 1, 0},
};
#define ATTENTIONS (sizeof attentions / sizeof *attentions)
static size_t stride = 3; /* tests every `stride`-th shape of an attention */

static fovea_attention_options shape(size_t attention, uint32_t rows, uint32_t heads, uint32_t d,
                                     uint32_t dv)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = attentions[attention].name;
    o.normalise = attentions[attention].normalise;
    o.l2norm = attentions[attention].l2norm;
    o.causal = 1;
    o.rows = rows;
    o.heads = heads;
    o.head_dim = d;
    o.value_dim = dv;
    o.scale = 1 / sqrt(d);
    return o;
}

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
    uint32_t rows, heads, d, dv;
} shapes[] = {
    {1, 1, 1, 1},     {17, 2, 8, 8},    {50, 3, 15, 17},   {301, 1, 64, 64},
    {263, 6, 33, 40}, {130, 2, 96, 30}, {129, 4, 64, 128},
};

static void each_form(fovea_device *device, double allowed)
{
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (size_t s = i % stride; s < sizeof shapes / sizeof *shapes; s += stride) {
            fovea_attention_options o =
                shape(i, shapes[s].rows, shapes[s].heads, shapes[s].d, shapes[s].dv);
            check(device, &o, 0, allowed);
            o.form = FOVEA_FORM_RECURRENT;
            check(device, &o, 3, allowed);
            o.form = FOVEA_FORM_CHUNK;
            check(device, &o, 1, allowed);
            o.chunk = (uint32_t)(1 + 29 * s % 80);
            check(device, &o, 0, allowed);
        }
}

static void odd_shapes(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(2);
    each_form(device, 2e-5);
    fovea_device_close(device);
}

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
        for (size_t i = 0; i < ATTENTIONS; i++)
            for (int form = FOVEA_FORM_RECURRENT; form <= FOVEA_FORM_CHUNK; form++) {
                fovea_attention_options o = shape(i, 150, 2, 40, 24);
                o.form = (fovea_form)form;
                check(device, &o, 1, 2e-5);
            }
        fovea_device_close(device);
    }
    assert_in_range(found, 1, 3);
}

static void rounded_storage(void **state)
{
    (void)state;
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_BF16};
    static const double allowed[] = {2e-5, 2e-3, 8e-3};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (uint32_t in = 0; in < 3; in++)
            for (uint32_t out = in == 0; out < 3; out++) {
                fovea_attention_options o = shape(i, 90, 2, 20, 18);
                o.storage = types[in];
                o.out_storage = types[out];
                o.form = out % 2 ? FOVEA_FORM_RECURRENT : FOVEA_FORM_CHUNK;
                check(device, &o, out, allowed[out]);
            }
    fovea_device_close(device);
}

/* Feeds all rows to `state` in pieces that depend on `seed`; some single tokens are fed as steps.
 */
static void feed(const trial *t, fovea_state *state, uint32_t seed, uint32_t most, float *out)
{
    const size_t width = (size_t)t->options.heads * t->options.value_dim;
    for (uint32_t row = 0, n; row < t->options.rows; row += n) {
        fovea_matrix inputs[8];
        const size_t count = trial_inputs(t, row, inputs);
        const fovea_matrix to = {out + row * width, 0};
        seed = seed * 1664525u + 1013904223u;
        n = 1 + (seed >> 16) % most;
        n = n < t->options.rows - row ? n : t->options.rows - row;
        if (n == 1 ? fovea_state_step(state, inputs, count, to)
                   : fovea_state_feed(state, n, inputs, count, to))
            fail_msg("%s: %s", t->options.attention, fovea_error());
    }
}

/* Any split of a sequence gives the same output and the same state, in both forms. */
static void pieces(void **unused)
{
    (void)unused;
    enum { ROWS = 211, HEADS = 2, D = 24, DV = 20 };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (uint32_t seed = 0; seed < 4; seed++) {
            fovea_attention_options o = shape(i, ROWS, HEADS, D, DV);
            trial t = trial_make(&o, 5);
            const oracle_sequence sequence = trial_sequence(&t);
            const size_t values = oracle_state_size(&sequence);
            double *want_state = calloc(values, sizeof *want_state);
            double *want = malloc((size_t)ROWS * HEADS * DV * sizeof *want);
            float *got = trial_values((size_t)ROWS * HEADS * DV, 1, 1.f);
            float *saved = trial_values(values, 1, 1.f);
            fovea_state *state;
            o.form = seed % 2 ? FOVEA_FORM_CHUNK : FOVEA_FORM_RECURRENT;
            o.rows = 100;
            if (fovea_state_create(&state, device, &o) != FOVEA_OK)
                fail_msg("%s: %s", o.attention, fovea_error());
            assert_int_equal(fovea_state_size(state), values);
            oracle_scan(&sequence, want_state, want);

            feed(&t, state, seed, seed < 2 ? 5 : 100, got);
            trial_close(o.attention, got, want, (size_t)ROWS * HEADS * DV, 2e-5);
            assert_int_equal(fovea_state_save(state, saved, values), FOVEA_OK);
            trial_close("state", saved, want_state, values, 2e-5);
            assert_int_equal(fovea_state_save(state, saved, values - 1), FOVEA_EINVAL);

            /* resumes from the saved state with the second half alone */
            fovea_matrix inputs[8];
            const size_t count = trial_inputs(&t, 0, inputs);
            const fovea_matrix to = {got, 0};
            fovea_state_reset(state);
            assert_int_equal(fovea_state_feed(state, 100, inputs, count, to), FOVEA_OK);
            assert_int_equal(fovea_state_save(state, saved, values), FOVEA_OK);
            assert_int_equal(fovea_state_feed(state, 7, inputs, count, to), FOVEA_OK);
            assert_int_equal(fovea_state_restore(state, saved, values + 1), FOVEA_EINVAL);
            assert_int_equal(fovea_state_restore(state, saved, values), FOVEA_OK);
            trial_inputs(&t, 100, inputs);
            assert_int_equal(fovea_state_feed(state, 101, inputs, count, to), FOVEA_EINVAL);
            assert_int_equal(fovea_state_feed(state, 0, inputs, count, to), FOVEA_EINVAL);
            assert_int_equal(fovea_state_feed(state, 100, inputs, count, to), FOVEA_OK);
            trial_close(o.attention, got, want + (size_t)100 * HEADS * DV, (size_t)100 * HEADS * DV,
                        2e-5);

            fovea_state_free(state);
            free(want_state);
            free(want);
            free(got);
            free(saved);
            trial_free(&t);
        }
    fovea_device_close(device);
}

/* Decays range from almost none to values that overflow float32. Results must be finite and correct
 * if some heads, channels or tokens, or all of them, have such decays. */
static void decay_case(fovea_device *device, size_t attention, fovea_form form, float size,
                       bool all)
{
    enum { ROWS = 170, HEADS = 2, D = 32, DV = 24 };
    fovea_attention_options o = shape(attention, ROWS, HEADS, D, DV);
    const bool constant = strstr(o.attention, "retention"), channels = strstr(o.attention, "gla");
    const float decays[HEADS] = {-size, all ? -size : 0.f};
    o.log_decay = constant ? decays : NULL;
    o.form = form;
    trial t = trial_make(&o, 3);
    for (uint32_t i = 0; i < ROWS * HEADS * (channels ? D : 1) && !constant; i++)
        t.decay[i] *= all || i % 7 == 0 ? size : 0.01f;
    float *got = trial_run(&t, device, 0);
    trial_expect(&t, got, 0, 2e-5);
    free(got);
    trial_free(&t);
}

static bool has_decay(const char *name)
{
    return strstr(name, "retention") || strstr(name, "gla") || strstr(name, "gated");
}

static void strong_decay(void **state)
{
    (void)state;
    static const float sizes[] = {1e-4f, 1.f, 20.f, 60.f, 200.f, 1e4f};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int form = FOVEA_FORM_RECURRENT; form <= FOVEA_FORM_CHUNK; form++)
                if (has_decay(attentions[i].name)) {
                    decay_case(device, i, (fovea_form)form, sizes[s], true);
                    decay_case(device, i, (fovea_form)form, sizes[s], false);
                }
    fovea_device_close(device);
}

static void many_tokens(uint32_t rows)
{
    fovea_device *device = fixture_device(2);
    for (size_t i = stride / 2; i < ATTENTIONS; i += stride)
        for (int form = FOVEA_FORM_RECURRENT; form <= FOVEA_FORM_CHUNK; form++) {
            fovea_attention_options o = shape(i, rows, 1, 64, 64);
            o.form = (fovea_form)form;
            check(device, &o, 0, 5e-5);
            o.storage = FOVEA_DTYPE_F16;
            if (o.normalise || !strstr(o.attention, "linear")) /* otherwise the sums exceed 65504 */
                o.out_storage = FOVEA_DTYPE_F16;
            check(device, &o, 0, o.out_storage == FOVEA_DTYPE_F16 ? 2e-3 : 5e-5);
        }
    fovea_device_close(device);
}

static void tokens_1024(void **state)
{
    (void)state;
    many_tokens(1024);
}

/* Returns whether the last token sees what every token sees without causal order (MALA). */
static bool is_mala(size_t attention)
{
    return strstr(attentions[attention].name, "mala");
}

static void last_is_bidirectional(void **unused)
{
    (void)unused;
    enum { ROWS = 300, HEADS = 3, D = 20, DV = 24, WIDE = HEADS * DV };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++)
        for (int form = FOVEA_FORM_RECURRENT; is_mala(i) && form <= FOVEA_FORM_CHUNK; form++) {
            fovea_attention_options o = shape(i, ROWS, HEADS, D, DV);
            o.l2norm = 0;
            trial all = trial_make(&o, 2);
            all.options.causal = 0;
            float *bidirectional = trial_run(&all, device, 0);
            all.options.causal = 1;
            all.options.form = (fovea_form)form;
            float *causal = trial_run(&all, device, 0);
            double want[WIDE];
            for (size_t j = 0; j < WIDE; j++)
                want[j] = (double)bidirectional[(ROWS - 1) * WIDE + j];
            trial_close(o.attention, causal + (ROWS - 1) * WIDE, want, WIDE, 5e-6);
            free(bidirectional);
            free(causal);
            trial_free(&all);
        }
    fovea_device_close(device);
}

/* Over 65536 tokens, neither steps nor chunks accumulate an error. */
static void forms_of_65536(void **unused)
{
    (void)unused;
    enum { ROWS = 65536, D = 32 };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < ATTENTIONS; i++) {
        if (!is_mala(i))
            continue;
        fovea_attention_options o = shape(i, ROWS, 1, D, D);
        trial t = trial_make(&o, 4);
        double *want = malloc((size_t)ROWS * D * sizeof *want);
        t.options.form = FOVEA_FORM_RECURRENT;
        float *steps = trial_run(&t, device, 0);
        t.options.form = FOVEA_FORM_CHUNK;
        float *chunks = trial_run(&t, device, 0);
        trial_expect(&t, chunks, 0, 1e-5);
        for (size_t j = 0; j < (size_t)ROWS * D; j++)
            want[j] = (double)chunks[j];
        trial_close(o.attention, steps, want, (size_t)ROWS * D, 1e-5);
        trial_close(o.attention, steps + (size_t)(ROWS - 1) * D, want + (size_t)(ROWS - 1) * D, D,
                    1e-5);
        free(want);
        free(steps);
        free(chunks);
        trial_free(&t);
    }
    fovea_device_close(device);
}

static void tokens_65536(void **state)
{
    (void)state;
    many_tokens(65536);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(levels),
        cmocka_unit_test(rounded_storage),
        cmocka_unit_test(pieces),
        cmocka_unit_test(strong_decay),
        cmocka_unit_test(tokens_1024),
        cmocka_unit_test(last_is_bidirectional),
    };
    const struct CMUnitTest extensive[] = {cmocka_unit_test(forms_of_65536),
                                           cmocka_unit_test(tokens_65536)};
    if (argc > 1)
        stride = 1;
    if (argc > 1 && !strcmp(argv[1], "--long"))
        return cmocka_run_group_tests(extensive, NULL, NULL);
    return cmocka_run_group_tests(quick, NULL, NULL);
}
