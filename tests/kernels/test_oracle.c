/* test_oracle.c: the oracle itself against numbers that were computed independently, in another
 * language: every mechanism on one small case that everyone can write down.
 *
 *   2 heads, 16 tokens on a 4 x 4 grid, d = dv = 8; t counts [head][token][channel], u
 * [head][token] q = 1.5 sin(0.7 t + 0.3)   k = 1.5 sin(0.9 t + 1.1)   v = cos(0.5 t + 0.2) pola:
 * power sin(0.21 (8 h + c)), scale cos(0.33 (8 h + c)); gates softmax_h(sin 0.4 u) and
 *   softmax_h(cos 0.6 u); gla a = -0.05 (1 + sin^2 0.3 t); beta = 0.5 + 0.4 sin 0.8 u;
 *   gated delta rule a = -0.1 (1 + cos^2 0.2 u); scale 8^-1/2 where there is one
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ops/mech_traits.h"
#include "tests/kernels/oracle.h"

enum { HEADS = 2, ROWS = 16, D = 8, WIDE = HEADS * D };

static float q[ROWS * WIDE], k[ROWS * WIDE], v[ROWS * WIDE], gla[ROWS * WIDE];
static float power[WIDE], scale[WIDE], rope_cos[ROWS * D], rope_sin[ROWS * D], retnet[HEADS];
static float gate_q[ROWS * HEADS], gate_k[ROWS * HEADS], beta[ROWS * HEADS], decay[ROWS * HEADS];

static void make_inputs(void)
{
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t h = 0; h < HEADS; h++) {
            const double u = h * ROWS + row, other = (1 - h) * ROWS + row;
            const uint32_t at = row * HEADS + h;
            gate_q[at] = (float)(1 / (1 + exp(sin(0.4 * other) - sin(0.4 * u))));
            gate_k[at] = (float)(1 / (1 + exp(cos(0.6 * other) - cos(0.6 * u))));
            beta[at] = (float)(0.5 + 0.4 * sin(0.8 * u));
            decay[at] = (float)(-0.1 * (1 + pow(cos(0.2 * u), 2)));
            for (uint32_t c = 0; c < D; c++) {
                const double t = u * D + c;
                q[at * D + c] = (float)(1.5 * sin(0.7 * t + 0.3));
                k[at * D + c] = (float)(1.5 * sin(0.9 * t + 1.1));
                v[at * D + c] = (float)cos(0.5 * t + 0.2);
                gla[at * D + c] = (float)(-0.05 * (1 + pow(sin(0.3 * t), 2)));
            }
        }
    for (uint32_t i = 0; i < WIDE; i++) {
        power[i] = (float)sin(0.21 * i);
        scale[i] = (float)cos(0.33 * i);
    }
    for (uint32_t h = 0; h < HEADS; h++)
        retnet[h] = (float)log(1 - pow(2, -5. - h));
    oracle_rope(4, 4, D, rope_cos, rope_sin);
}

/* `values`: four of head 0, token 0; four of head 1, token 15; the sum and the norm of all values.
 * Inputs are rounded to float32, which limits the agreement. */
static void compare(const char *name, const double *values, const double *out)
{
    const double allowed = 3e-7 * values[9];
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < ROWS * WIDE; i++) {
        sum += out[i];
        squares += out[i] * out[i];
    }
    for (uint32_t c = 0; c < 4; c++) {
        const double first = out[c], last = out[15 * WIDE + D + c];
        if (!(fabs(first - values[c]) <= allowed) || !(fabs(last - values[4 + c]) <= allowed))
            fail_msg("%s: channel %u is %.10f, %.10f", name, c, first, last);
    }
    if (!(fabs(sum - values[8]) <= 16 * allowed) || !(fabs(sqrt(squares) - values[9]) <= allowed))
        fail_msg("%s: sum %.10f, norm %.10f", name, sum, sqrt(squares));
}

static const double s = 0.35355339059327376; /* 8^-1/2 */

static void bidirectional(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum fv_mech mech;
        double scale, eps;
        enum { ROPE = 1, SLA } extra;
        double values[10];
    } cases[] = {
        {"softmax",
         FV_MECH_ANY,
         s,
         0,
         0,
         {0.0105223179, 0.0116334812, 0.0098963626, 0.0057362692, 0.1117923221, 0.0688267265,
          0.0090099478, -0.0530127803, 2.7528539482, 1.0811140061}},
        {"elu1",
         FV_MECH_ELU1,
         1,
         16e-6,
         0,
         {0.0361343620, 0.0436149979, 0.0404171612, 0.0273237938, 0.0478205600, 0.0369396599,
          0.0170146428, -0.0070761524, 1.7342987876, 0.4902517870}},
        {"relu",
         FV_MECH_RELU,
         1,
         16e-6,
         0,
         {0.0697276932, 0.0643906831, 0.0432885880, 0.0115879369, 0.0657721329, 0.0406477559,
          0.0055713906, -0.0308690454, 2.1131937777, 0.7184982220}},
        {"exp",
         FV_MECH_EXP,
         1,
         16e-6,
         0,
         {0.0477828016, 0.0509640255, 0.0416674785, 0.0221692795, 0.0536376213, 0.0374715281,
          0.0121310980, -0.0161794480, 1.9504059270, 0.5590233936}},
        {"softplus",
         FV_MECH_SOFTPLUS,
         1,
         16e-6,
         0,
         {0.0332673468, 0.0419388272, 0.0403422201, 0.0288684305, 0.0464093804, 0.0362696260,
          0.0172498022, -0.0059933747, 1.7304510660, 0.4790120947}},
        {"softmax features",
         FV_MECH_SOFTMAXF,
         1,
         16e-6,
         0,
         {0.0403231324, 0.0432189884, 0.0355333287, 0.0191478709, 0.0565605079, 0.0416751831,
          0.0165863200, -0.0125634527, 1.8664214138, 0.5405073710}},
        {"mala, rotated",
         FV_MECH_MALA,
         s,
         1e-6,
         ROPE,
         {-0.0019392394, 0.0001537898, 0.0022091659, 0.0037236611, -0.1182641279, 0.1345840353,
          0.3544813329, 0.4875892372, -4.9338660441, 2.7142779590}},
        {"mala",
         FV_MECH_MALA,
         s,
         1e-6,
         0,
         {0.1340187569, 0.1076298714, 0.0548894397, -0.0112898412, 0.0921618215, 0.0496147683,
          -0.0050797106, -0.0585304992, 2.3624818384, 1.2623568085}},
        {"mala-paper",
         FV_MECH_MALA,
         16,
         0,
         0,
         {4.4658766527, 2.9405977732, 0.6953580019, -1.7201296597, 2.0544773063, 0.6105498296,
          -0.9828615390, -2.3356341245, 30.1626304817, 43.5606887013}},
        {"pola",
         FV_MECH_POLA,
         1,
         1e-6,
         0,
         {-0.0177503545, -0.0074357224, 0.0046994339, 0.0156840048, 0.1081572506, 0.1168596511,
          0.0969507335, 0.0533048949, 2.9326241344, 1.1436147341}},
        {"nala, rotated",
         FV_MECH_NALA,
         1,
         1e-6,
         ROPE,
         {0.0216324403, 0.0300946987, 0.0311887253, 0.0246466642, -0.0343896259, 0.0042295513,
          0.0418131868, 0.0691594959, 3.7627392806, 1.3884025052}},
        {"nala",
         FV_MECH_NALA,
         1,
         1e-6,
         0,
         {0.0363251066, 0.0291575453, 0.0148512000, -0.0030912371, 0.0852754010, 0.0676210434,
          0.0334106960, -0.0089797550, 3.7010753279, 0.9338242935}},
        {"nala-paper",
         FV_MECH_NALA_PAPER,
         1,
         0,
         0,
         {-0.0179727108, 0.0033007336, 0.0237660434, 0.0384125969, 0.0541549521, 0.0439012425,
          0.0228989777, -0.0037097555, 3.3520371423, 0.6439082022}},
        {"sla-linear:identity",
         FV_MECH_IDENTITY,
         s,
         0,
         SLA,
         {0.4754583805, 0.3713330195, 0.1762923847, -0.0619107743, 0.3468508814, 0.3229969564,
          0.2200621115, 0.0632483868, 5.1575735824, 7.4050944629}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double out[ROWS * WIDE], again[WIDE];
        oracle_attention a = {.mech = cases[i].mech,
                              .heads = HEADS,
                              .d = D,
                              .dv = D,
                              .keys = ROWS,
                              .scale = cases[i].scale,
                              .eps = cases[i].eps,
                              .normalise = cases[i].extra != SLA,
                              .q = q,
                              .k = k,
                              .v = v,
                              .power = power,
                              .channel_scale = scale,
                              .alpha = (double)fv_mech_table[cases[i].mech]->alpha,
                              .rope_cos = cases[i].extra == ROPE ? rope_cos : NULL,
                              .rope_sin = rope_sin,
                              .gate_q = cases[i].extra == SLA ? gate_q : NULL,
                              .gate_k = cases[i].extra == SLA ? gate_k : NULL};
        for (uint32_t row = 0; row < ROWS; row++)
            oracle_attend(&a, row, out + row * WIDE);
        compare(cases[i].name, cases[i].values, out);
        if (a.mech == FV_MECH_ANY)
            continue;
        double *features = oracle_key_features(&a);
        a.k_features = features;
        oracle_attend(&a, 7, again);
        assert_memory_equal(again, out + 7 * WIDE, sizeof again);
        free(features);
    }
}

static void causal(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum { PLAIN, RETNET, GLA, DELTA } kind;
        bool gated;
        double values[10];
    } cases[] = {
        {"sla-linear:identity",
         PLAIN,
         true,
         {0.0622622691, 0.0485893624, 0.0230200851, -0.0081853119, 0.3468508814, 0.3229969564,
          0.2200621115, 0.0632483868, -18.4668781493, 6.4260633104}},
        {"sla-retention",
         RETNET,
         true,
         {0.0622622691, 0.0485893624, 0.0230200851, -0.0081853119, 0.3554985462, 0.3411662026,
          0.2433044740, 0.0858733246, -19.0964528006, 5.6893948860}},
        {"sla-gla",
         GLA,
         true,
         {0.0622622691, 0.0485893624, 0.0230200851, -0.0081853119, 0.3972773804, 0.3969660075,
          0.2994635112, 0.1286419033, -19.4961878408, 5.2435624423}},
        {"sla-gated-delta-rule",
         DELTA,
         true,
         {0.0031983166, 0.0024959605, 0.0011825062, -0.0004204668, 0.0087978468, 0.0198571050,
          0.0260546514, 0.0258731105, -1.9503921360, 0.4413454728}},
        {"gated-delta-rule",
         DELTA,
         false,
         {0.0077253645, 0.0060288605, 0.0028562812, -0.0010156154, 0.0372945291, 0.0668525378,
          0.0800427136, 0.0736356415, -3.4564645447, 1.5685795149}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double out[ROWS * WIDE], memory[HEADS * D * D] = {0};
        const bool delta = cases[i].kind == DELTA;
        const float *const decays[] = {NULL, retnet, gla, decay};
        oracle_sequence sequence = {.mech = FV_MECH_IDENTITY,
                                    .heads = HEADS,
                                    .d = D,
                                    .dv = D,
                                    .rows = ROWS,
                                    .scale = s,
                                    .delta = delta,
                                    .l2norm = delta,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .log_decay = decays[cases[i].kind],
                                    .decay_channel = cases[i].kind == GLA,
                                    .decay_constant = cases[i].kind == RETNET,
                                    .beta = delta ? beta : NULL,
                                    .gate_q = cases[i].gated ? gate_q : NULL,
                                    .gate_k = cases[i].gated ? gate_k : NULL};
        assert_int_equal(oracle_state_size(&sequence), HEADS * D * D);
        oracle_scan(&sequence, memory, out);
        compare(cases[i].name, cases[i].values, out);
    }
}

/* The recurrence with a denominator, gates and a map of two blocks equals the sum over earlier
 * tokens. */
static void scan_is_causal_sum(void **state)
{
    (void)state;
    static const enum fv_mech maps[] = {FV_MECH_ELU1, FV_MECH_NALA, FV_MECH_HEDGEHOG,
                                        FV_MECH_SOFTMAXF};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        double out[ROWS * WIDE], want[WIDE], memory[HEADS * 2 * D * (D + 1)] = {0};
        oracle_sequence sequence = {.mech = maps[i],
                                    .heads = HEADS,
                                    .d = D,
                                    .dv = D,
                                    .rows = ROWS,
                                    .scale = s,
                                    .eps = 0.01,
                                    .normalise = true,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .gate_q = gate_q,
                                    .gate_k = gate_k};
        assert_in_range(oracle_state_size(&sequence), 1, sizeof memory / sizeof *memory);
        oracle_scan(&sequence, memory, out);
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t h = 0; h < HEADS; h++) {
                double x[2 * D], y[2 * D], z = 0.01;
                const uint32_t width = oracle_blocks(maps[i]) * D;
                const oracle_row query = {.x = q + row * WIDE, .heads = HEADS, .d = D};
                oracle_features(maps[i], true, &query, h, x);
                for (uint32_t c = 0; c < D; c++)
                    want[h * D + c] = 0;
                for (uint32_t j = 0; j <= row; j++) {
                    const oracle_row key = {.x = k + j * WIDE, .heads = HEADS, .d = D};
                    double w = 0;
                    oracle_features(maps[i], false, &key, h, y);
                    for (uint32_t c = 0; c < width; c++)
                        w += s * (double)gate_k[j * HEADS + h] * x[c] * y[c];
                    z += w;
                    for (uint32_t c = 0; c < D; c++)
                        want[h * D + c] += w * (double)v[j * WIDE + h * D + c];
                }
                for (uint32_t c = 0; c < D; c++)
                    if (!(fabs(want[h * D + c] / z * (double)gate_q[row * HEADS + h] -
                               out[row * WIDE + h * D + c]) <= 1e-13))
                        fail_msg("map %u, row %u, head %u", (unsigned)maps[i], row, h);
            }
    }
}

/* MALA's recurrence, split in two parts, equals attention to all earlier tokens with their count.
 */
static void scan_is_causal_mala(void **state)
{
    (void)state;
    enum { FIRST = 5 };
    static const enum fv_mech maps[] = {FV_MECH_MALA, FV_MECH_MALA_RELU, FV_MECH_MALA_EXP};
    for (int i = 0; i < 6; i++) {
        const bool paper = i >= 3;
        double out[ROWS * WIDE], want[WIDE], memory[HEADS * (D * D + 2 * D + 1)] = {0};
        oracle_attention a = {.mech = maps[i % 3],
                              .heads = HEADS,
                              .d = D,
                              .dv = D,
                              .keys = ROWS,
                              .scale = s,
                              .eps = paper ? 0 : 0.01,
                              .causal = true,
                              .normalise = true,
                              .q = q,
                              .k = k,
                              .v = v,
                              .gate_q = gate_q,
                              .gate_k = gate_k};
        oracle_sequence sequence = {.mech = a.mech,
                                    .heads = HEADS,
                                    .d = D,
                                    .dv = D,
                                    .rows = FIRST,
                                    .scale = paper ? 0 : s,
                                    .scale_by_tokens = paper,
                                    .eps = a.eps,
                                    .q = q,
                                    .k = k,
                                    .v = v,
                                    .gate_q = gate_q,
                                    .gate_k = gate_k};
        assert_int_equal(oracle_state_size(&sequence), sizeof memory / sizeof *memory);
        oracle_scan(&sequence, memory, out);
        sequence.rows = ROWS - FIRST;
        sequence.q += FIRST * WIDE;
        sequence.k += FIRST * WIDE;
        sequence.v += FIRST * WIDE;
        sequence.gate_q += FIRST * HEADS;
        sequence.gate_k += FIRST * HEADS;
        oracle_scan(&sequence, memory, out + FIRST * WIDE);
        for (uint32_t row = 0; row < ROWS; row++) {
            a.scale = paper ? row + 1 : s;
            oracle_attend(&a, row, want);
            for (uint32_t c = 0; c < WIDE; c++)
                assert_true(fabs(out[row * WIDE + c] - want[c]) <= 1e-12 * (1 + fabs(want[c])));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bidirectional),
        cmocka_unit_test(causal),
        cmocka_unit_test(scan_is_causal_sum),
        cmocka_unit_test(scan_is_causal_mala),
    };
    make_inputs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
