/* scan_cpu.cl: SCAN for devices whose work-items run one after the other: a work-item has a head,
 * and takes token by token, with the state in vectors of value channels. FV_WIDTH is 16.
 */
#include "gpu/kernels/scan_common.cl"
#include "gpu/kernels/vectors.cl"

#define DP PAD(FV_D) /* channels of a block of features */
#define WIDTHP (FV_BLOCKS * DP)
#define DVP PAD(FV_DV)
#define SIDE (DVP % 32 ? 1 : 2) /* vectors of the state side by side */
#define AHEAD 8                 /* tokens */

DEFINE_LOAD(load_q, 0)
DEFINE_LOAD(load_k, 1)
DEFINE_LOAD(load_v, 2)
DEFINE_LOAD(load_decay, 3)
DEFINE_LOAD(load_state, 7)
DEFINE_STORE(store_out, 8)

/* Defines a function: the features of one row of operand X, one head, times a factor; zeros after
 * each block. */
#define DEFINE_FEATURES(name, load, X, COUNT, QUERY)                                               \
    FV_FN void name(float *to, global const FV_CELL(X) *x, float factor)                           \
    {                                                                                              \
        fv_row r = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f, 0.f};                                        \
        for (int t = 0; t < COUNT; t++) {                                                          \
            const bool top = FV_STAT_MAX >> t & 1;                                                 \
            const float16 none = top ? -INFINITY : 0.f;                                            \
            float16 sum = none;                                                                    \
            for (uint c = 0; c < FV_D; c += 16) {                                                  \
                const float16 all = fv_stat(t, QUERY, load(x + c, FV_D - c), r);                   \
                const float16 term = first_n(all, FV_D - c, none);                                 \
                sum = top ? fv_max(sum, term) : sum + term;                                        \
            }                                                                                      \
            r.stat[t] = top ? max_of(sum) : sum_of(sum);                                           \
        }                                                                                          \
        if (COUNT > 0)                                                                             \
            r = fv_stats_done(QUERY, r);                                                           \
        float16 square = 0.f;                                                                      \
        for (uint c = 0; c < FV_D; c += 16) {                                                      \
            float16 out[FV_BLOCKS];                                                                \
            fv_phi(out, QUERY, load(x + c, FV_D - c), r);                                          \
            for (uint b = 0; b < FV_BLOCKS; b++) {                                                 \
                out[b] = first_n(out[b], FV_D - c, 0.f);                                           \
                square += out[b] * out[b];                                                         \
                vstore16(out[b], 0, to + b * DP + c);                                              \
            }                                                                                      \
        }                                                                                          \
        if (UNIT)                                                                                  \
            factor /= sqrt(sum_of(square) + 1e-6f);                                                \
        for (uint i = 0; i < WIDTHP; i += 16)                                                      \
            vstore16(factor *vload16(0, to + i), 0, to + i);                                       \
    }
DEFINE_FEATURES(features_of_query, load_q, 0, STATS, 1)
DEFINE_FEATURES(features_of_key, load_k, 1, FV_STATS_KEY, 0)

/* e^a x is stays x + change x, with `stays` 1 and `change` e^a - 1 where e^a is near 1, so that the
 * state does not drift; else with 0 and e^a. */
FV_FN void fade_of(float16 *change, float16 *stays, float16 a)
{
    float16 p = 1.9875691500e-4f;
    p = p * a + 1.3981999507e-3f;
    p = p * a + 8.3334519073e-3f;
    p = p * a + 4.1665795894e-2f;
    p = p * a + 1.6666665459e-1f;
    p = p * a + 5.0000001201e-1f;
    p = a * a * p + a;
    const float16 part = exp(a), less = fabs(a) < 0.34657359f ? p : part - 1.f;
    *change = part < 0.5f ? part : less;
    *stays = part < 0.5f ? (float16)0.f : (float16)1.f;
}

/* Factors of e^a of every feature of row r, as fade_of has them; centred, of what is left of a mean
 * of `now` tokens when the last of them comes. */
FV_FN void read_decays(OPERANDS, float *change, float *stays, uint r, float now)
{
    const uint head = get_group_id(0);
    const float left = (now - 1.f) / now;
    for (uint c = 0; FADING && c < FV_D; c += 16) {
        float16 less, whole;
#if CENTRED
        less = left < 0.5f ? left : -1.f / now;
        whole = left < 0.5f ? 0.f : 1.f;
#else
        fade_of(&less, &whole,
                BY_CHANNEL ? load_decay(FV_AT(3, r) + head * FV_D + c, FV_D - c)
                           : (float16)FV_GET(3, FV_AT(3, r) + head));
#endif
        for (uint b = 0; b < FV_BLOCKS; b++) {
            vstore16(less, 0, change + b * DP + c);
            vstore16(whole, 0, stays + b * DP + c);
        }
    }
}

/* Adds the key to Z, which decays before. Returns q Z. */
FV_FN float add_key(float *z, const float *q, const float *k, const float *change,
                    const float *stays)
{
    float16 sum = 0.f;
    for (uint i = 0; FADING && i < WIDTHP; i++)
        z[i] = (stays[i] != 0.f ? z[i] : 0.f) + change[i] * z[i];
    for (uint i = 0; i < WIDTHP; i += 16) {
        const float16 y = vload16(0, z + i) + vload16(0, k + i);
        vstore16(y, 0, z + i);
        sum += vload16(0, q + i) * y;
    }
    return sum_of(sum);
}

/* Makes of the key what it differs by from the mean of those before, and advances the mean, Z.
 * Returns q Z. */
FV_FN float centre_key(float *z, const float *q, float *k, float rate)
{
    float16 sum = 0.f;
    for (uint i = 0; i < WIDTHP; i += 16) {
        const float16 old = vload16(0, z + i), away = vload16(0, k + i) - old;
        const float16 mean = old + away * rate;
        vstore16(away, 0, k + i);
        vstore16(mean, 0, z + i);
        sum += vload16(0, q + i) * mean;
    }
    return sum_of(sum);
}

/* For every feature, without the padding of a block. */
#define FOR_FEATURES(i)                                                                            \
    for (uint b_ = 0; b_ < FV_BLOCKS; b_++)                                                        \
        for (uint i = b_ * DP; i < b_ * DP + FV_D; i++)
#define FOR_SIDE(t) _Pragma("unroll") for (uint t = 0; t < SIDE; t++)
#define FADED(x, i) ((stays[i] != 0.f ? (x) : (float16)0.f) + change[i] * (x))

#if DELTA
/* Decays SIDE vectors of the state's columns, and makes of the values u what the delta rule adds:
 * beta (u - k S). */
FV_FN void apply_delta(float16 u[SIDE], float *s, const float *k, const float *change,
                       const float *stays, float beta)
{
    float16 held[SIDE];
    FOR_SIDE(t) held[t] = 0.f;
    FOR_FEATURES(i)
    {
        FOR_SIDE(t)
        {
            float *at = s + i * DVP + 16 * t;
            float16 x = vload16(0, at);
#if FADING
            x = FADED(x, i);
            vstore16(x, 0, at);
#endif
            held[t] += k[i] * x;
        }
    }
    FOR_SIDE(t) u[t] = beta * (u[t] - held[t]);
}
#endif

/* Adds k^T u to SIDE vectors of the state's columns, which decay before unless apply_delta has done
 * that. Returns q S in `out`. */
FV_FN void add_values(float16 out[SIDE], const float16 u[SIDE], float *s, const float *q,
                      const float *k, const float *change, const float *stays)
{
    FOR_SIDE(t) out[t] = 0.f;
    FOR_FEATURES(i)
    {
        FOR_SIDE(t)
        {
            float *at = s + i * DVP + 16 * t;
            float16 x = vload16(0, at);
#if FADING && !DELTA
            x = FADED(x, i);
#endif
            x += k[i] * u[t];
            vstore16(x, 0, at);
            out[t] += q[i] * x;
        }
    }
}

FV_KERNEL void scan(OPERANDS)
{
    float q[WIDTHP], k[WIDTHP], s[WIDTHP * DVP], z[WIDTHP], change[WIDTHP], stays[WIDTHP];
    float means[DVP]; /* of the values */
    const uint head = get_group_id(0), heads = get_num_groups(0), features = FV_BLOCKS * FV_D;
    global FV_CELL(7) *state = base7 + at7.x + (size_t)head * features * FV_DV;
    global FV_CELL(7) *divisor = base7 + at7.x + ((size_t)heads * FV_DV + head) * features;
    /* After the divisors of all heads, as far as there are any. */
    global FV_CELL(7) *behind = base7 + at7.x + (size_t)heads * (FV_DV + 1) * features;
    global FV_CELL(7) *mean = behind + head * FV_DV, *count = behind + heads * FV_DV + head;
    float now = CENTRED ? *count : 0.f;
    for (uint j = 0; CENTRED && j < FV_DV; j += 16)
        vstore16(load_state(mean + j, FV_DV - j), 0, means + j);
    for (uint b = 0; b < FV_BLOCKS; b++)
        for (uint c = 0; c < FV_D; c++)
            for (uint j = 0; j < FV_DV; j += 16)
                vstore16(load_state(state + (b * FV_D + c) * FV_DV + j, FV_DV - j), 0,
                         s + (b * DP + c) * DVP + j);
    for (uint i = 0; i < WIDTHP; i++) {
        const bool there = NORMALISED && i % DP < FV_D;
        z[i] = there ? divisor[i / DP * FV_D + i % DP] : 0.f;
    }

    for (uint r = 0; r < rows; r++) {
        global const FV_CELL(0) *of_q = FV_AT(0, r) + head * FV_D;
        global const FV_CELL(1) *of_k = FV_AT(1, r) + head * FV_D;
        global const FV_CELL(2) *of_v = FV_AT(2, r) + head * FV_DV;
        SOON(of_q + AHEAD * (size_t)at0.y, FV_D);
        SOON(of_k + AHEAD * (size_t)at1.y, FV_D);
        SOON(of_v + AHEAD * (size_t)at2.y, FV_DV);
        const float gate_q = GATED && FV_HAS5 ? FV_GET(5, FV_AT(5, r) + head) : 1.f;
        const float gate_k = GATED ? FV_GET(6, FV_AT(6, r) + head) : 1.f;
        now += 1.f;
        features_of_query(q, of_q, CENTRED ? f.s0 + f.s2 * now : NORMALISED ? f.s0 : f.s0 * gate_q);
        features_of_key(k, of_k, DELTA ? 1.f : gate_k);
        read_decays(OPERANDS_GIVEN, change, stays, r, now);
#if CENTRED
        const float rate = 1.f / now, weight = centre_key(z, q, k, rate);
        const float over = gate_q / (weight + f.s1), read = gate_q + over, share = over * weight;
#else
        const float read = NORMALISED ? gate_q / (add_key(z, q, k, change, stays) + f.s1) : 1.f;
#endif
        for (uint j = 0; j < FV_DV; j += 16 * SIDE) {
            float16 u[SIDE], out[SIDE];
            FOR_SIDE(t)
            {
                const uint c = j + 16 * t;
                u[t] = (DELTA ? gate_k : 1.f) * (c < FV_DV ? load_v(of_v + c, FV_DV - c) : 0.f);
#if CENTRED
                float16 to = vload16(0, means + c);
                to += (u[t] - to) * rate;
                vstore16(to, 0, means + c);
                u[t] = (u[t] - to) * rate;
#endif
            }
#if DELTA
            apply_delta(u, s + j, k, change, stays, FV_GET(4, FV_AT(4, r) + head));
#endif
            add_values(out, u, s + j, q, k, change, stays);
            FOR_SIDE(t)
            {
                const uint c = j + 16 * t;
                out[t] *= read;
#if CENTRED
                out[t] += share * vload16(0, means + c);
#endif
                if (c < FV_DV)
                    store_out(FV_AT(8, r) + head * FV_DV + c, out[t], FV_DV - c);
            }
        }
    }

    for (uint b = 0; b < FV_BLOCKS; b++)
        for (uint c = 0; c < FV_D; c++) {
            for (uint j = 0; j < FV_DV; j++)
                state[(b * FV_D + c) * FV_DV + j] = s[(b * DP + c) * DVP + j];
            if (NORMALISED)
                divisor[b * FV_D + c] = z[b * DP + c];
        }
    for (uint j = 0; CENTRED && j < FV_DV; j++)
        mean[j] = means[j];
    if (CENTRED)
        *count = now;
}
