/* lattn_cpu.cl: LATTN_REDUCE and LATTN_APPLY for devices whose work-items run one after the other:
 * a work-item maps a block of rows to features in vectors of channels, then multiplies them with
 * the values, or with the state, in vectors of value channels. FV_WIDTH is 16.
 */
#include "gpu/kernels/lattn_common.cl"
#include "gpu/kernels/vectors.cl"

#define DP PAD(FV_D) /* channels of a block of features */
#define WIDTHP (FV_BLOCKS * DP)
#define DVP PAD(FV_DV)

DEFINE_LOAD(load_x, 0)
DEFINE_LOAD(load_1, 1)
DEFINE_LOAD(load_param, 2)
DEFINE_LOAD(load_6, 6)
DEFINE_STORE(store_6, 6)

/* ---- rows ---- */

/* Learned vectors from FIRST_CHANNEL on, finished; the last head's are read in sixteens too. */
#define KEPT_FLOATS SOME(FV_PARAMS *PAD(CHANNELS) + (FV_STAT_WIDE ? 16 : 0))
FV_FN void keep(float *kept, global const FV_CELL(2) *raw, float alpha)
{
    for (uint p = 0; p < FV_PARAMS; p++)
        for (uint c = 0; c < CHANNELS; c += 16)
            vstore16(fv_param(p, load_param(raw + p * FV_HEADS * FV_D + c, CHANNELS - c), alpha), 0,
                     kept + p * PAD(CHANNELS) + c);
}

/* The other arguments of phi for channels from c on, counted from FIRST_CHANNEL; statistics are
 * those of the row. */
FV_FN fv_row channels(fv_row r, const float *kept, uint c, const float *shift)
{
    for (uint p = 0; p < FV_PARAMS; p++)
        r.param[p] = vload16(0, kept + p * PAD(CHANNELS) + c);
    r.shift = SHIFTED ? vload16(0, shift + c) : (float16)0.f;
    return r;
}

/* The finished statistics of a row, `x` at FIRST_CHANNEL. */
FV_FN fv_row statistics(global const FV_CELL(0) *x, int query, const float *kept,
                        const float *shift, float alpha)
{
    const int count = query ? FV_STATS_QUERY : FV_STATS_KEY;
    fv_row done = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f, alpha};
    for (int t = 0; t < count; t++) {
        const bool top = FV_STAT_MAX >> t & 1;
        const float16 none = top ? -INFINITY : 0.f;
        float16 sum = none;
        for (uint c = 0; c < CHANNELS; c += 16) {
            const uint n = CHANNELS - c;
            const fv_row r = channels(done, kept, c, shift);
            const float16 term = first_n(fv_stat(t, query, load_x(x + c, n), r), n, none);
            sum = top ? fv_max(sum, term) : sum + term;
        }
        done.stat[t] = top ? max_of(sum) : sum_of(sum);
    }
    return count ? fv_stats_done(query, done) : done;
}

/* Features of channels from c on of the head, zeros after the last; x is the whole row. */
FV_FN void features(float16 out[FV_BLOCKS], int query, global const FV_CELL(0) *x, fv_row of_row,
                    const float *kept, const float *shift, uint c)
{
    const uint head = get_group_id(1);
    fv_phi(out, query, load_x(x + head * FV_D + c, FV_D - c),
           channels(of_row, kept, FV_STAT_WIDE ? head * FV_D + c : c, shift));
    for (uint b = 0; b < FV_BLOCKS; b++)
        out[b] = first_n(out[b], FV_D - c, 0.f);
}

#if TURNED
/* Cosines of all channels of a token, then sines. */
FV_FN void angles(float *to, global const FV_CELL(3) *cosines, uint ldc,
                  global const FV_CELL(4) *sines, uint lds, uint token, uint width)
{
    const size_t y = width ? token / width : token, x = width ? token % width : token;
    const uint split = width ? FV_D / 2 : FV_D;
    for (uint c = 0; c < FV_D; c++) {
        const size_t row = c < split ? y : x, at = c < split ? c : c - split;
        to[c] = FV_GET(3, cosines + row * ldc + at);
        to[DP + c] = FV_GET(4, sines + row * lds + at);
    }
}
#define ANGLES(to, token) angles(to, base3 + at3.x, at3.y, base4 + at4.x, at4.y, token, u.s0)

/* Pairs of channels from c on. */
FV_FN float16 turn(float16 x, const float *angle, uint c)
{
    const float16 sign = (float16)(-1.f, 1.f, -1.f, 1.f, -1.f, 1.f, -1.f, 1.f, -1.f, 1.f, -1.f, 1.f,
                                   -1.f, 1.f, -1.f, 1.f);
    return x * vload16(0, angle + c) + sign * x.s1032547698badcfe * vload16(0, angle + DP + c);
}
#else
#define ANGLES(to, token)
#define turn(x, angle, c) (x)
#endif

/* Sums side by side, so that one need not wait for the other: as many as registers hold. */
#ifdef __AVX512F__
#define TALL 8
#else
#define TALL 4
#endif
#define FOR_TALL(i) _Pragma("unroll") for (uint i = 0; i < TALL; i++)
/* acc[0], acc[1], ... += factors a[0], a[step], ... times b. */
#define STEP(acc, a, step, b) FOR_TALL(t_) acc[t_] += (a)[t_ * (step)] * (b)

/* ---- REDUCE ---- */

#ifdef FV_LATTN_REDUCE
#define ROWS 32

/* SHIFTED: maxima of the channels, over what the state has seen and n keys, go to `shift` and into
 * the state; what it has is brought under them. */
FV_FN void raise_shift(global FV_CELL(6) *state, float *shift, global const FV_CELL(0) *k, uint ld,
                       uint n, uint first)
{
    for (uint c = 0; SHIFTED && c < FV_D; c += 16) {
        const float16 old = load_6(state + AT_SHIFT + c, FV_D - c);
        float16 top = old;
        for (uint r = 0; r < n; r++)
            top = fv_max(top, load_x(k + r * (size_t)ld + c, FV_D - c));
        vstore16(top, 0, shift + c);
        store_6(state + AT_SHIFT + c, top, FV_D - c);
        float fade[16];
        vstore16(exp(old - top), 0, fade);
        for (uint i = 0; !first && i < min(FV_D - c, 16u); i++) {
            FV_PUT(6, state + AT_M + c + i, fade[i] * FV_GET(6, state + AT_M + c + i));
            for (uint j = 0; j < FV_DV; j += 16) {
                global FV_CELL(6) *s = state + (c + i) * FV_DV + j;
                store_6(s, fade[i] * load_6(s, FV_DV - j), FV_DV - j);
            }
        }
    }
}

/* CENTRED: means of n rows of values. */
FV_FN void value_means(float *vmean, global const FV_CELL(1) *v, uint ld, uint n)
{
    const float share = 1.f / n;
    /* Sums of sums: a chain of many equal terms would drift. */
    for (uint j = 0; CENTRED && j < FV_DV; j += 16) {
        float16 sum = 0.f;
        for (uint r = 0; r < n;) {
            float16 some = 0.f;
            for (const uint end = min(r + 32, n); r < end; r++)
                some += share * load_1(v + r * (size_t)ld + j, FV_DV - j);
            sum += some;
        }
        vstore16(sum, 0, vmean + j);
    }
}

/* Values of n rows less their means [n][DVP]. */
FV_FN void read_values(float *val, global const FV_CELL(1) *v, uint ld, const float *vmean, uint n)
{
    for (uint row = 0; row < n; row++, v += ld) {
        SOON(v + ROWS * (size_t)ld, FV_DV);
        for (uint j = 0; j < FV_DV; j += 16) {
            float16 x = load_1(v + j, FV_DV - j);
            if (CENTRED)
                x -= vload16(0, vmean + j);
            vstore16(x, 0, val + row * DVP + j);
        }
    }
}

/* Features of n keys from row r on [n][WIDTHP], and their sums, added to m. */
FV_FN void map_keys(OPERANDS, float *feat, float *m, const float *kept, const float *shift, uint r,
                    uint n)
{
    const uint head = get_group_id(1);
    for (uint row = 0; row < n; row++) {
        global const FV_CELL(0) *x = base0 + at0.x + (r + row) * (size_t)at0.y;
        SOON(x + ROWS * (size_t)at0.y + head * FV_D, FV_D);
        const fv_row of_row = statistics(x + FIRST_CHANNEL(head), 0, kept, shift, f.s1);
        for (uint c = 0; c < FV_D; c += 16) {
            float16 out[FV_BLOCKS];
            features(out, 0, x, of_row, kept, shift, c);
            for (uint b = 0; b < FV_BLOCKS; b++) {
#if GATED
                out[b] *= FV_GET(5, FV_AT(5, r + row) + head);
#endif
                vstore16(out[b], 0, feat + row * WIDTHP + b * DP + c);
            }
        }
    }
    for (uint i = 0; i < WIDTHP; i += 16) {
        float16 sum = 0.f;
        for (uint row = 0; row < n; row++)
            sum += vload16(0, feat + row * WIDTHP + i);
        vstore16(vload16(0, m + i) + sum, 0, m + i);
    }
}

/* Rotates the features of n keys from row r on, and adds them to w. */
FV_FN void turn_keys(OPERANDS, float *feat, float *w, uint r, uint n)
{
    float angle[2 * DP];
    for (uint i = 0; i < 2 * DP; i++)
        angle[i] = 0.f;
    for (uint row = 0; TURNED && row < n; row++) {
        ANGLES(angle, row0 + r + row);
        for (uint i = 0; i < WIDTHP; i += 16) {
            float *to = feat + row * WIDTHP + i;
            const float16 y = turn(vload16(0, to), angle, i % DP);
            vstore16(y, 0, to);
            vstore16(vload16(0, w + i) + y, 0, w + i);
        }
    }
}

/* Adds to the state the products of n rows of features with values, times the scale. */
FV_FN void add_products(global FV_CELL(6) *state, const float *feat, const float *val, float scale,
                        uint n)
{
    for (uint b = 0; b < FV_BLOCKS; b++)
        for (uint c = 0; c < FV_D; c += TALL)
            for (uint j = 0; j < FV_DV; j += 16) {
                float16 acc[TALL];
                FOR_TALL(i) acc[i] = 0.f;
                const float *left = feat + b * DP + c, *right = val + j;
                for (uint row = 0; row < n; row++, left += WIDTHP, right += DVP) {
                    const float16 y = vload16(0, right);
                    STEP(acc, left, 1, y);
                }
                FOR_TALL(i)
                {
                    if (c + i >= FV_D)
                        break;
                    global FV_CELL(6) *s = state + (b * FV_D + c + i) * FV_DV + j;
                    store_6(s, load_6(s, FV_DV - j) + scale * acc[i], FV_DV - j);
                }
            }
}

/* Sums of n rows' features, m, and rotated, w, into the state's means. CENTRED: S is about two
 * means as yet; about that of all tokens it is S + u^T (vmean' - vmean), with u = (n w' - n' w) /
 * (n + n'). */
FV_FN void fold_means(global FV_CELL(6) *state, const float *m, const float *w, const float *vmean,
                      float scale, uint n, uint first)
{
    const float before = CENTRED ? FV_GET(6, state + AT_COUNT) : 0.f, total = before + n;
    for (uint b = 0; b < FV_BLOCKS; b++)
        for (uint c = 0; c < FV_D; c++) {
            const uint to = b * FV_D + c;
            const float mean = scale * m[b * DP + c], turned = scale * (TURNED ? w : m)[b * DP + c];
            FV_PUT(6, state + AT_M + to, FV_GET(6, state + AT_M + to) + mean);
            if (!CENTRED)
                continue;
            const float old = FV_GET(6, state + AT_W + to);
            const float u = (before / total) * turned - n / total * old;
            FV_PUT(6, state + AT_W + to, old + turned);
            for (uint j = 0; !first && j < FV_DV; j += 16) {
                const float16 apart =
                    vload16(0, vmean + j) - load_6(state + AT_VMEAN + j, FV_DV - j);
                global FV_CELL(6) *s = state + to * FV_DV + j;
                store_6(s, load_6(s, FV_DV - j) + u * apart, FV_DV - j);
            }
        }
    for (uint j = 0; CENTRED && j < FV_DV; j++) {
        const float old = FV_GET(6, state + AT_VMEAN + j);
        FV_PUT(6, state + AT_VMEAN + j, first ? vmean[j] : old + n / total * (vmean[j] - old));
    }
    if (CENTRED)
        FV_PUT(6, state + AT_COUNT, total);
}

/* A work-item has the state of a head of a part. */
FV_KERNEL void lattn_reduce(OPERANDS)
{
    float feat[ROWS * WIDTHP], val[ROWS * DVP], kept[KEPT_FLOATS];
    float m[WIDTHP], w[WIDTHP], shift[DP], vmean[DVP];
    const uint part = get_group_id(0), head = get_group_id(1);
    const uint r0 = (ulong)rows * part / groups, r1 = (ulong)rows * (part + 1) / groups;
    global FV_CELL(6) *state = FV_AT(6, part) + head * FLOATS;
    global const FV_CELL(0) *k = base0 + at0.x + r0 * (size_t)at0.y + head * FV_D;
    global const FV_CELL(1) *v = base1 + at1.x + r0 * (size_t)at1.y + head * FV_DV;
    for (uint i = 0; first && i < AT_SHIFT; i++)
        FV_PUT(6, state + i, 0.f);
    for (uint i = AT_SHIFT; first && i < FLOATS; i++)
        FV_PUT(6, state + i, SHIFTED ? -FLT_MAX : 0.f);
    if (r0 == r1)
        return;
    keep(kept, base2 + at2.x + FIRST_CHANNEL(head), f.s1);
    raise_shift(state, shift, k, at0.y, r1 - r0, first);
    value_means(vmean, v, at1.y, r1 - r0);
    for (uint i = 0; i < WIDTHP; i++)
        m[i] = w[i] = 0.f;
    for (uint r = r0; r < r1; r += ROWS) {
        const uint n = min(r1 - r, (uint)ROWS);
        read_values(val, v + (r - r0) * (size_t)at1.y, at1.y, vmean, n);
        map_keys(OPERANDS_GIVEN, feat, m, kept, shift, r, n);
        turn_keys(OPERANDS_GIVEN, feat, w, r, n);
        add_products(state, feat, val, f.s0, n);
    }
    fold_means(state, m, w, vmean, f.s0, r1 - r0, first);
}
#endif

/* ---- APPLY ---- */

#ifdef FV_LATTN_APPLY
#define ROWS 64
#define AHEAD 8 /* rows */
#define STREAM_COLS (FV_DV / FV_STREAMS)

/* Values from column j on of channel c of block b, as the streams of these columns see it. */
FV_FN float16 state_at(global const FV_CELL(1) *state, uint b, uint c, uint j)
{
    const float16 x = load_1(state + (b * FV_D + c) * FV_DV + j, FV_DV - j);
    if (FV_STREAMS == 1 || j + 16 <= STREAM_COLS)
        return x;
    const float16 y = load_1(state + ((b ^ 1) * FV_D + c) * FV_DV + j, FV_DV - j);
    return j >= STREAM_COLS ? y : first_n(x, STREAM_COLS - j, y);
}

/* What of the state all rows of a head need, times the scale: z of every stream, w, and the shift,
 * negative. */
FV_FN void read_state(float *z_of, float *w_of, float *shift, global const FV_CELL(1) *state,
                      float scale)
{
    for (uint b = 0; b < FV_BLOCKS; b++)
        for (uint c = 0; c < FV_D; c += 16) {
            const uint to = b * DP + c, lanes = FV_D - c;
            for (uint t = 0; t < FV_STREAMS; t++)
                vstore16(scale * load_1(state + AT_M + (b ^ t) * FV_D + c, lanes), 0,
                         z_of + t * WIDTHP + to);
            if (CENTRED)
                vstore16(scale * load_1(state + AT_W + b * FV_D + c, lanes), 0, w_of + to);
            if (SHIFTED)
                vstore16(-load_1(state + AT_SHIFT + c, lanes), 0, shift + c);
        }
}

/* A work-item has some rows of a head. */
FV_KERNEL void lattn_apply(OPERANDS)
{
    float feat[ROWS * WIDTHP], panel[WIDTH * 16], kept[KEPT_FLOATS], angle[2 * DP], shift[DP];
    float z_of[FV_STREAMS * WIDTHP], w_of[WIDTHP];
    float weight[FV_STREAMS * ROWS], mean[ROWS];
    const uint r0 = get_group_id(0) * ROWS, head = get_group_id(1);
    const uint n = min(rows - r0, (uint)ROWS);
    global const FV_CELL(1) *state = base1 + at1.x + head * FLOATS;
    keep(kept, base2 + at2.x + FIRST_CHANNEL(head), f.s2);
    read_state(z_of, w_of, shift, state, f.s0);
    for (uint i = 0; i < 2 * DP; i++)
        angle[i] = 0.f;

    for (uint row = 0; row < n; row++) {
        global const FV_CELL(0) *x = FV_AT(0, r0 + row);
        SOON(x + AHEAD * (size_t)at0.y + head * FV_D, FV_D);
        const fv_row of_row = statistics(x + FIRST_CHANNEL(head), 1, kept, shift, f.s2);
        float16 z[FV_STREAMS], w = 0.f;
        for (uint t = 0; t < FV_STREAMS; t++)
            z[t] = 0.f;
        ANGLES(angle, row0 + r0 + row);
        for (uint c = 0; c < FV_D; c += 16) {
            float16 out[FV_BLOCKS];
            features(out, 1, x, of_row, kept, shift, c);
            for (uint b = 0; b < FV_BLOCKS; b++) {
                for (uint t = 0; t < FV_STREAMS; t++)
                    z[t] += out[b] * vload16(0, z_of + t * WIDTHP + b * DP + c);
                out[b] = turn(out[b], angle, c);
                if (CENTRED)
                    w += out[b] * vload16(0, w_of + b * DP + c);
                vstore16(out[b], 0, feat + row * WIDTHP + b * DP + c);
            }
        }
        float eps = fmax(f.s1, FLT_MIN);
        if (SHIFTED && f.s1 > 0.f)
            eps = fmax(f.s1 * exp(-of_row.stat[0].s0), FLT_MIN);
        for (uint t = 0; t < FV_STREAMS; t++)
            weight[t * ROWS + row] = NORMALISED ? fv_norm(sum_of(z[t]), eps).s0 : 1.f;
        if (CENTRED)
            mean[row] = NORMALISED ? fv_norm_mean(sum_of(z[0]), sum_of(w), eps).s0 : sum_of(w);
    }

    for (uint j = 0; j < FV_DV; j += 16) {
        for (uint b = 0; b < FV_BLOCKS; b++)
            for (uint c = 0; c < FV_D; c++)
                vstore16(f.s0 * state_at(state, b, c, j), b * FV_D + c, panel);
        const float16 vmean = CENTRED ? load_1(state + AT_VMEAN + j, FV_DV - j) : (float16)0.f;
        for (uint row = 0; row < n; row += TALL) {
            float16 acc[TALL];
            FOR_TALL(i) acc[i] = 0.f;
            for (uint b = 0; b < FV_BLOCKS; b++) {
                const float *left = feat + row * WIDTHP + b * DP, *right = panel + b * FV_D * 16;
                for (uint c = 0; c < FV_D; c++, left++, right += 16) {
                    const float16 y = vload16(0, right);
                    STEP(acc, left, WIDTHP, y);
                }
            }
            FOR_TALL(i)
            {
                if (row + i >= n)
                    break;
                float16 o = weight[row + i];
                if (FV_STREAMS > 1 && j + 16 > STREAM_COLS) {
                    const float16 second = weight[(FV_STREAMS - 1) * ROWS + row + i];
                    o = j >= STREAM_COLS ? second : first_n(o, STREAM_COLS - j, second);
                }
                o *= acc[i];
                if (CENTRED)
                    o += mean[row + i] * vmean;
#if GATED
                o *= FV_GET(5, FV_AT(5, r0 + row + i) + head);
#endif
                store_6(FV_AT(6, r0 + row + i) + head * FV_DV + j, o, FV_DV - j);
            }
        }
    }
}
#endif
