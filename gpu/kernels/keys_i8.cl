/* keys_i8.cl: KEYS_I8: quantises keys and values of softmax attention to 8-bit integers.
 * src/ops/ref/ref_keys_i8.c defines the results, src/ops/keys_i8.h their layout.
 *
 *   key_means     pre-pass: the mean of each channel of keys, summed in the order of the tokens
 *   value_scales  pre-pass: the scale of each channel of values, and its inverse
 *   keys_i8       quantises: neighbouring work-items process groups of four channels of a key and
 * of its value
 *
 * The pre-passes store, for every channel of the call's heads, in the scratch, which all three
 * kernels get as their table:
 *
 *   means of key channels | inverse scales of value channels
 */
#include "gpu/kernels/dot.cl"
#include "gpu/kernels/int8_numbers.cl"
#include "gpu/kernels/row_top.cl"

#define OPERANDS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_CALL_GIVEN

#define WIDTH_K dim.s1
#define WIDTH_V dim.s2
#define TOKENS dim.s3
#define CELLS dim.s4
#define MEANS ((global float *)table)
#define INVERSE_SCALES (MEANS + rows * WIDTH_K)
#define LOADED_AT_ONCE 8 /* tokens that are loaded before they are added */

/* ---- channels ---- */

FV_KERNEL void key_means(OPERANDS)
{
    const uint c = get_global_id(0), all = rows * WIDTH_K, ld = at0.y;
    global const FV_CELL(0) *p = FV_AT(0, 0) + row0 * WIDTH_K + min(c, all - 1);
    float sum = 0.f, x[LOADED_AT_ONCE];
    uint j = 0;
    for (; j + LOADED_AT_ONCE <= TOKENS; j += LOADED_AT_ONCE, p += (size_t)LOADED_AT_ONCE * ld) {
        FV_TIMES(i, LOADED_AT_ONCE)
            x[i] = FV_GET(0, p + (size_t)i * ld);
        FV_TIMES(i, LOADED_AT_ONCE)
            sum += x[i];
    }
    for (; j < TOKENS; j++, p += ld)
        sum += FV_GET(0, p);
    if (c < all)
        MEANS[c] = fv_quotient(sum, (float)TOKENS);
}

/* Defines a function: bits of the largest absolute value among n rows of operand X from p on.
 * Infinity and NaN count as the largest. */
#define DEFINE_TOP(name, X)                                                                        \
    static inline uint name(global const FV_CELL(X) *p, uint ld, uint n)                           \
    {                                                                                              \
        uint top = 0;                                                                              \
        for (uint j = 0; j < n; j++, p += ld)                                                      \
            top = max(top, as_uint(fabs(FV_GET(X, p))));                                           \
        return top;                                                                                \
    }
DEFINE_TOP(top_of_tokens, 1)
#if FV_HAS3
DEFINE_TOP(top_of_cells, 3)
#endif

FV_KERNEL void value_scales(OPERANDS)
{
    const uint c = get_global_id(0), all = rows * WIDTH_V;
    const uint mine = min(c, all - 1), from = row0 * WIDTH_V + mine;
    uint top = top_of_tokens(FV_AT(1, 0) + from, at1.y, TOKENS);
#if FV_HAS3
    top = max(top, top_of_cells(FV_AT(3, 0) + from, at3.y, CELLS));
#endif
    const float2 scale = fv_scale_of(top);
    if (c < all) {
        ((global float *)FV_AT(4, c / WIDTH_V))[c % WIDTH_V] = scale.s0;
        INVERSE_SCALES[c] = scale.s1;
    }
}

/* ---- numbers ---- */

/* Defines a function: channels [c, c + 4) of key or value j of a head with `width` channels; zeros
 * after the last. */
#define DEFINE_FOUR(name, X, CELL, width)                                                          \
    static inline float4 name(OPERANDS, uint head, uint j, uint c)                                 \
    {                                                                                              \
        const uint left = (width)-c, at = head * (width) + c;                                      \
        if (FV_HAS##CELL && j >= TOKENS)                                                           \
            return FV_GET_RUN(CELL, FV_AT(CELL, j - TOKENS) + at, left, 0.f);                      \
        return FV_GET_RUN(X, FV_AT(X, j) + at, left, 0.f);                                         \
    }
DEFINE_FOUR(key_four, 0, 2, WIDTH_K)
DEFINE_FOUR(value_four, 1, 3, WIDTH_V)

/* Loads four numbers of the scratch, of which `left` exist; the others are zero. */
static inline float4 four_of(global const float *p, uint left)
{
    return left >= 4 ? FV_LOAD4(p)
                     : (float4)(p[0], left > 1 ? p[1] : 0.f, left > 2 ? p[2] : 0.f, 0.f);
}

/* Stores four numbers, of which `left` exist. `wide`: rows are aligned to words. */
static inline void put_four(global uchar *to, uint word, uint left, bool wide)
{
    if (wide)
        *(global uint *)to = word;
    else
        for (uint i = 0; i < min(left, 4u); i++)
            to[i] = (uchar)(word >> 8 * i);
}

static inline float4 key_less_mean(OPERANDS, uint r, uint j, uint c)
{
    return key_four(OPERANDS_GIVEN, row0 + r, j, c) - four_of(MEANS + r * WIDTH_K + c, WIDTH_K - c);
}

FV_KERNEL void keys_i8(OPERANDS)
{
    const uint n = TOKENS + CELLS, r = get_group_id(1);
    const uint shift = fv_spread_bits((max(WIDTH_K, WIDTH_V) + 3) / 4), lanes = 1u << shift;
    const uint me = get_local_id(0) & (lanes - 1);
    const uint own = get_group_id(0) * ((uint)FV_GROUP >> shift) + (get_local_id(0) >> shift);
    const uint j = min(own, n - 1);
    const uint end_k = own < n ? WIDTH_K : 0, end_v = own < n ? WIDTH_V : 0;
    global uchar *out = FV_AT(4, r);
    global float *scales = (global float *)out + WIDTH_V;
    global uchar *k = out + 4 * (WIDTH_V + 2 * n), *v = k + (size_t)n * WIDTH_K;
    uint top = 0, sum = 0;
    for (uint c = 4 * me; c < end_k; c += 4 * lanes) {
        const uint4 bits = as_uint4(fabs(key_less_mean(OPERANDS_GIVEN, r, j, c)));
        top = max(top, max(max(bits.s0, bits.s1), max(bits.s2, bits.s3)));
    }
    FV_SHARE_TOP(top, me, lanes);
    const float2 scale = fv_scale_of(top);
    for (uint c = 4 * me; c < end_k; c += 4 * lanes) {
        const float4 x = key_less_mean(OPERANDS_GIVEN, r, j, c) * scale.s1;
        const uint word = scale.s1 > 0.f ? fv_whole4(x) : 0;
        put_four(k + (size_t)j * WIDTH_K + c, word, WIDTH_K - c, WIDTH_K % 4 == 0);
        sum = (uint)FV_DOT4(word, 0x01010101u, (int)sum);
    }
    FV_SHARE_ROW(sums, sum, me, lanes, FV_SUM2);
    if (me == 0 && own < n) {
        scales[j] = scale.s0;
        ((global uint *)scales)[n + j] = sum;
    }
    for (uint c = 4 * me; c < end_v; c += 4 * lanes) {
        const float4 by = four_of(INVERSE_SCALES + r * WIDTH_V + c, WIDTH_V - c);
        const float4 x = value_four(OPERANDS_GIVEN, row0 + r, j, c);
        /* The inverse scale is 0 also if a value is NaN or infinite. */
        const uint word = fv_whole4(select((float4)(0.f), x * by, by > (float4)(0.f)));
        put_four(v + (size_t)j * WIDTH_V + c, word, WIDTH_V - c,
                 WIDTH_V % 4 == 0 && n * WIDTH_K % 4 == 0);
    }
    global uchar *behind = v + (size_t)n * WIDTH_V;
    const uint rest = (64 - (uint)(behind - out) % 64) % 64;
    for (uint i = me; own == n - 1 && i < rest; i += lanes)
        behind[i] = 0;
}
