/* softmax.cl: softmax attention with online statistics: SOFTMAX over all keys and, with FV_WINDOW,
 * WSOFTMAX inside windows of rows.
 *
 * A work-group has a block of queries of one head and a slice of the value channels. Its items
 * stand in rows of ACROSS; a row has four queries. For every tile of keys
 *
 *     S = scale Q K^T     an item has MINE keys for its row's queries
 *     m' = max(m, S), P = 2^(S - m'), l = 2^(m - m') l + sum P
 *     O = 2^(m - m') O + P V    and then QUADS quads of channels
 *
 * so that only maxima and P are exchanged, and only inside a row. S comes with log2(e).
 *
 * FV_D, FV_DV  width of a head's keys and values
 * FV_STAGE     1: queries and keys go through local memory, where it is faster than the cache
 * FV_REGIONS   WSOFTMAX: 1 with a table of regions
 */
#define KEYS 32
#define SLICE 64 /* value channels */
#if FV_GROUP < 16
#define ACROSS FV_GROUP
#else
#define ACROSS 16
#endif
#define DOWN (FV_GROUP / ACROSS)
#define BLOCK (4 * DOWN) /* queries */
#define MINE (KEYS / ACROSS)
#define QUADS (SLICE / 4 / ACROSS)
#define STAGED (FV_STAGE && FV_GROUP > 1)
#define DEPTH 4 /* quads of channels that are staged at a time */
#define PITCH 5 /* from row to row of what is staged, without conflicts of banks */
#define LOG2_E 1.44269504f

/* Up to four values: those before `left`, then zeros. */
#define TAKE4(n, p, left)                                                                          \
    ((left) >= 4                                                                                   \
         ? FV_GET4(n, p)                                                                           \
         : (float4)((left) > 0 ? FV_GET(n, p) : 0.f, (left) > 1 ? FV_GET(n, (p) + 1) : 0.f,        \
                    (left) > 2 ? FV_GET(n, (p) + 2) : 0.f, 0.f))

/* Products of four queries with one key. */
inline float4 products(const float4 *q, float4 k)
{
    return (float4)(dot(q[0], k), dot(q[1], k), dot(q[2], k), dot(q[3], k));
}

#if FV_WINDOW
#define FV_TOUT FV_T4
#define baseOUT base4
#define atOUT at4
kernel void wsoftmax(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
#else
#define FV_TOUT FV_T3
#define baseOUT base3
#define atOUT at3
kernel void softmax(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
#endif
{
    const uint x = get_local_id(0) % ACROSS, y = get_local_id(0) / ACROSS;
    const uint head = get_group_id(1), keys = dim.s3;
#if FV_WINDOW
    const uint blocks = (keys + BLOCK - 1) / BLOCK;
    const uint base = get_group_id(0) / blocks * keys, queries = keys;
    const uint begin = get_group_id(0) % blocks * BLOCK;
#else
    const uint base = 0, queries = rows, begin = get_group_id(0) * BLOCK;
#endif
    const uint mine = begin + 4 * y; /* this row's first query */
    const uint last = min(begin + BLOCK, queries) - 1;
    const uint end = FV_FLAGS & FV_FLAG_CAUSAL ? min(keys, row0 + last + 1) : keys;
    const float scale = f.s0 * LOG2_E;
    float4 top = -INFINITY, sum = 0.f, o[4][QUADS];
#if FV_GROUP > 1
    FV_SHARED float4 tops[ACROSS * DOWN], weights[KEYS * (DOWN + 1)];
#else
    float4 tops[ACROSS * DOWN], weights[KEYS * (DOWN + 1)];
#endif
#if STAGED
    FV_SHARED float4 some_q[BLOCK * PITCH], some_k[KEYS * PITCH];
#endif
    for (uint i = 0; i < QUADS; i++)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;

    for (uint j0 = 0; j0 < end; j0 += KEYS) {
        const uint n = min(end - j0, (uint)KEYS);
        float4 s[MINE], high = top, fade;
        for (uint i = 0; i < MINE; i++)
            s[i] = 0.f;
#if STAGED
        for (uint c0 = 0; c0 < FV_D; c0 += 4 * DEPTH) {
            FV_BARRIER();
            for (uint i = get_local_id(0); i < BLOCK * DEPTH; i += FV_GROUP) {
                const uint r = min(begin + i / DEPTH, queries - 1), c = c0 + i % DEPTH * 4;
                some_q[i / DEPTH * PITCH + i % DEPTH] =
                    TAKE4(0, FV_AT(0, base + r) + head * FV_D + c, (int)FV_D - (int)c);
            }
            for (uint i = get_local_id(0); i < KEYS * DEPTH; i += FV_GROUP) {
                const uint j = min(j0 + i / DEPTH, end - 1), c = c0 + i % DEPTH * 4;
                some_k[i / DEPTH * PITCH + i % DEPTH] =
                    TAKE4(1, FV_AT(1, base + j) + head * FV_D + c, (int)FV_D - (int)c);
            }
            FV_BARRIER();
            for (uint c = 0; c < DEPTH; c++) {
                float4 q[4];
                for (uint t = 0; t < 4; t++)
                    q[t] = some_q[(4 * y + t) * PITCH + c];
                for (uint i = 0; i < MINE; i++)
                    s[i] += products(q, some_k[(x + ACROSS * i) * PITCH + c]);
            }
        }
#else
        for (uint c = 0; c < FV_D; c += 4) {
            float4 q[4];
            for (uint t = 0; t < 4; t++)
                q[t] = TAKE4(0, FV_AT(0, base + min(mine + t, queries - 1)) + head * FV_D + c,
                             (int)FV_D - (int)c);
            for (uint i = 0; i < MINE; i++)
                s[i] += products(
                    q,
                    TAKE4(1, FV_AT(1, base + min(j0 + x + ACROSS * i, end - 1)) + head * FV_D + c,
                          (int)FV_D - (int)c));
        }
#endif
        for (uint i = 0; i < MINE; i++) {
            const uint j = j0 + x + ACROSS * i;
            s[i] *= scale;
#if FV_WINDOW
            const uint4 at = min(mine + (uint4)(0, 1, 2, 3), (uint4)(keys - 1));
            const uint k = min(j, keys - 1);
#if FV_HAS3
            s[i] += LOG2_E * (float4)(FV_GET(3, FV_AT(3, head * keys + at.s0) + k),
                                      FV_GET(3, FV_AT(3, head * keys + at.s1) + k),
                                      FV_GET(3, FV_AT(3, head * keys + at.s2) + k),
                                      FV_GET(3, FV_AT(3, head * keys + at.s3) + k));
#endif
#if FV_REGIONS
            global const uint *region = table + row0 + base;
            const uint4 own = (uint4)(region[at.s0], region[at.s1], region[at.s2], region[at.s3]);
            s[i] -= select((float4)0.f, (float4)(100.f * LOG2_E), own != region[k]);
#endif
#endif
            if (j >= end)
                s[i] = -INFINITY;
            if (FV_FLAGS & FV_FLAG_CAUSAL)
                s[i] = select(s[i], (float4)-INFINITY, j > row0 + mine + (uint4)(0, 1, 2, 3));
            high = fmax(high, s[i]);
        }
        tops[x * DOWN + y] = high;
        FV_BARRIER();
        for (uint i = 0; i < ACROSS; i++)
            high = fmax(high, tops[i * DOWN + y]);
        fade = select(exp2(top - high), (float4)1.f, top == high);
        top = high;
        sum *= fade;
        for (uint i = 0; i < MINE; i++) {
            const float4 p = exp2(s[i] - top);
            weights[(x + ACROSS * i) * (DOWN + 1) + y] = p;
            sum += p;
        }
        FV_BARRIER();
        for (uint i = 0; i < QUADS; i++) {
            const uint c = get_group_id(2) * SLICE + 4 * (x + ACROSS * i);
            if (c >= FV_DV)
                continue;
            o[0][i] *= fade.s0;
            o[1][i] *= fade.s1;
            o[2][i] *= fade.s2;
            o[3][i] *= fade.s3;
            for (uint j = 0; j < n; j++) {
                const float4 p = weights[j * (DOWN + 1) + y];
                const float4 v =
                    TAKE4(2, FV_AT(2, base + j0 + j) + head * FV_DV + c, (int)FV_DV - (int)c);
                o[0][i] += p.s0 * v;
                o[1][i] += p.s1 * v;
                o[2][i] += p.s2 * v;
                o[3][i] += p.s3 * v;
            }
        }
    }

    FV_BARRIER();
    tops[x * DOWN + y] = sum;
    FV_BARRIER();
    sum = 0.f;
    for (uint i = 0; i < ACROSS; i++)
        sum += tops[i * DOWN + y];
    for (uint t = 0; t < 4; t++) {
        if (mine + t > last)
            break;
        const float part = t == 0 ? sum.s0 : t == 1 ? sum.s1 : t == 2 ? sum.s2 : sum.s3;
        for (uint i = 0; i < QUADS; i++) {
            const uint c = get_group_id(2) * SLICE + 4 * (x + ACROSS * i);
            global FV_CELL(OUT) *out = FV_AT(OUT, base + mine + t) + head * FV_DV + c;
            const float4 value = o[t][i] / part;
            if (c + 4 <= FV_DV) {
                FV_PUT4(OUT, out, value);
                continue;
            }
            if (c < FV_DV)
                FV_PUT(OUT, out, value.s0);
            if (c + 1 < FV_DV)
                FV_PUT(OUT, out + 1, value.s1);
            if (c + 2 < FV_DV)
                FV_PUT(OUT, out + 2, value.s2);
        }
    }
}
