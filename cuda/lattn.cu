/* lattn.cu: linear attention on tensor cores, bound by memory: keys, values, queries and results go
 * through the device once. The host compiles one kernel at a time: FV_LATTN_REDUCE or
 * FV_LATTN_APPLY; states are merged by lattn.cl. Features and norms are those of a mechanism, as in
 * lattn.cl. Mechanisms with shifts, or with statistics over all heads, only have the kernels of
 * lattn.cl.
 *
 * Thread (g, t) of a warp is lane 4 g + t. The order of rows, channels and columns inside a
 * fragment is free, as long as both operands have the same. So each thread reads contiguous
 * numbers, computes the features of a channel once, and has them in the registers that products
 * need.
 *
 * Tensor cores multiply numbers of 11 bits. Features, which have 24 bits, are split into sums of
 * two numbers, high + low. So are the numbers that they are multiplied by, unless they were stored
 * in 16 bits. With products of float16, scales that are powers of two keep all numbers in range:
 * one per channel in REDUCE; in APPLY one per channel of the state and one per row of queries.
 *
 *   FV_WIDE<n>  1 where a head's part of every row of operand n can be moved by 16 bytes
 *   FV_TILE, FV_STAGES  REDUCE: rows that are copied at a time, and how many such tiles are pending
 */
#include "cuda/fragments.cuh"
#include "gpu/kernels/lattn_common.cl"

#include "cuda/row_statistics.cuh"

#define WARPS (FV_GROUP / 32)
#define COLUMNS 64 /* value columns that are processed at a time */
#define SLICES ((FV_DV + COLUMNS - 1) / COLUMNS)

/* Cosine and sine of the rotation of channels c and c + 1 of a token. */
typedef struct turning {
    float cosine[2], sine[2];
} turning;

#define TURNING(token, c) turning_of(base3 + at3.x, at3.y, base4 + at4.x, at4.y, token, u.s0, c)
inline turning turning_of(const FV_CELL(3) *cosines, uint ldc, const FV_CELL(4) *sines, uint lds,
                          uint token, uint width, uint c)
{
    const bool second = width && c >= FV_D / 2;
    const uint row = !width ? token : second ? token % width : token / width;
    const uint at = second ? c - FV_D / 2 : c;
    const FV_CELL(3) *co = cosines + (size_t)row * ldc + at;
    const FV_CELL(4) *si = sines + (size_t)row * lds + at;
    return {{FV_GET(3, co), FV_GET(3, co + 1)}, {FV_GET(4, si), FV_GET(4, si + 1)}};
}

inline void turn(float &x, float &y, const turning &by)
{
    const float before = x;
    x = before * by.cosine[0] - y * by.sine[0];
    y = y * by.cosine[1] + before * by.sine[1];
}

/* The power of two that scales `most` to [2^13, 2^14), if a float can represent it and its inverse;
 * else the nearest one that it can. */
inline float fitting(float most, float &inverse)
{
    const int exponent = clamp(267 - (int)(fv_bits_of(most) >> 23 & 255u), 1, 253);
    inverse = fv_float_of((uint)(254 - exponent) << 23);
    return fv_float_of((uint)exponent << 23);
}

/* 1 / x for a power of two from 2^-126 to 2^126. */
inline float inverse_of(float x)
{
    return fv_float_of((254u << 23) - fv_bits_of(x));
}

/* Splits x and y into two pairs of float16, high + low. The relative error is 2^-22; the absolute
 * error is 2^-25 for small numbers. */
inline void in_halves(float x, float y, uint &high, uint &low)
{
    high = fv_half2_bits(x, y);
    low = fv_half2_bits(x - fv_half_to_float((ushort)high),
                        y - fv_half_to_float((ushort)(high >> 16)));
}

/* ---- REDUCE ---- */

#ifdef FV_LATTN_REDUCE

/* A warp computes the products of 32 features and 64 columns. SPREAD warps have the same rows and
 * different features; DOWN such groups have different rows. */
#define MINE (4 / FV_BLOCKS)   /* channels of a thread */
#define CHANNELS_OF (8 * MINE) /* of a warp */
#define ACROSS ((FV_D + CHANNELS_OF - 1) / CHANNELS_OF)
#define SPREAD (ACROSS > 2 ? WARPS : ACROSS)
#define DOWN (WARPS / SPREAD)
#define STEPS (FV_TILE / 16)
/* How many warps with the same rows divide the sums of values among them; one if they do not all
 * have the same number of features. */
#define SHARING (ACROSS == SPREAD ? SPREAD : 1)
/* Slices are processed in order if merging one into a state reads what other slices write. */
#define SERIAL CENTRED

typedef FV_CELL(0) key;
typedef FV_CELL(1) value;
#define HALVES (sizeof(value) == 2 && fv_same<value, half>::value)

/* Stride of rows in shared memory, in bytes: four consecutive rows are in different banks. */
#define PITCH(bytes) (((bytes) + 127) / 128 * 128 + 32)
#define KEYS (ACROSS * CHANNELS_OF)
#define KEY_PITCH PITCH(KEYS * sizeof(key))
#define VALUE_PITCH PITCH(COLUMNS * sizeof(value))
#define STAGE_WORDS (FV_TILE * (KEY_PITCH + VALUE_PITCH) / 16)
#define RESULT_PITCH (COLUMNS + 1)
#define RESULT_WORDS ((FV_BLOCKS * KEYS * RESULT_PITCH + 3) / 4)
#define SHARED_WORDS                                                                               \
    (FV_STAGES * STAGE_WORDS > RESULT_WORDS ? FV_STAGES * STAGE_WORDS : RESULT_WORDS)

/* Copies a row of a tile, if it exists: followed by zeros after `left` numbers, or all zeros. */
template <int N, bool WIDE, class C>
inline void copy_row(uchar *to, const C *from, bool there, int left, uint first, uint step)
{
    const int n = FV_PER_WORDS(C);
    for (uint i = first; i < N / n; i += step) {
        const int some = !there ? 0 : left >= N ? n : left - (int)i * n;
        fv_copy<C, WIDE>((fv_words *)to + i, from + (left >= N || some > 0 ? i * n : 0), some);
    }
}

/* Loads numbers [first, first + N) of a row in shared memory. */
template <int N, class C> inline void row_numbers(float *x, const uchar *row, uint first)
{
    const int bytes = FV_MOVE(C, N), n = bytes / (int)sizeof(C);
    EACH(i, N / n) {
        const fv_bytes<bytes> y = ((const fv_bytes<bytes> *)((const C *)row + first))[i];
        EACH(j, n)
            x[i * n + j] = fv_number<C>(y.w, j);
    }
}

/* Whether a channel's two features, one of which is always 0, are kept as one number: the first
 * block's minus the second's. */
#define SIGNED (FV_POLARISED && HALVES && !TURNED && !GATED)
#define KEPT (SIGNED ? 2 : 4) /* numbers per thread and row */

/* A thread's part of the keys' features: 4 features of rows t, t + 4, t + 8 and t + 12 of a step.
 * Feature i is block i / MINE of channel i % MINE. With SIGNED, number i is that of channel i. */
typedef struct features {
    float x[4][4];
} features;

/* A thread's sums: [m][n][i] is for feature 2 m + i / 2 and number 8 (i % 2) + n of its 16
 * columns. */
typedef float sums[2][8][4];

/* Adds the products of a step's features, which are already scaled, and the values. */
#define VALUES(row) (value_rows + (row)*VALUE_PITCH)
inline void multiply_halves(sums &acc, const features &f, const uchar *value_rows, uint g, uint t)
{
    fv_words v[4];
    EACH(r, 4)
        v[r] = *((const fv_words *)VALUES(t + 4 * r) + g);
    uint high[2][4], low[2][4];
    EACH(m, SIGNED ? 1 : 2)
        EACH(i, 4) {
            const float *x = f.x[2 * m + i % 2] + i / 2 * 2;
            in_halves(x[0], x[1], high[m][i], low[m][i]);
        }
    if (SIGNED) /* sums of the second block remain negative */
        EACH(i, 4) {
            const uint second = fv_negative_halves(high[0][i]);
            high[1][i] = high[0][i] & second;
            low[1][i] = low[0][i] & second;
            high[0][i] &= ~second;
            low[0][i] &= ~second;
        }
    EACH(n, 8) {
        uint b[2];
        EACH(i, 2) {
            const uint one = v[2 * i].w[n / 2], two = v[2 * i + 1].w[n / 2];
            b[i] = n % 2 ? fv_high_halves(one, two) : fv_low_halves(one, two);
        }
        EACH(m, 2)
            fv_mma_f16(acc[m][n], low[m], b);
        EACH(m, 2)
            fv_mma_f16(acc[m][n], high[m], b);
    }
}

#if FV_HAVE_MMA
inline void multiply_floats(sums &acc, const features &f, const uchar *value_rows, uint g, uint t)
{
    EACH(h, 2) {
        float v[2][8];
        EACH(i, 2)
            row_numbers<8, value>(v[i], VALUES(t + 8 * h + 4 * i), 8 * g);
        uint high[2][4], low[2][4];
        EACH(m, 2)
            EACH(i, 4)
                fv_split(f.x[2 * m + i % 2][2 * h + i / 2], high[m][i], low[m][i]);
        EACH(n, 8) {
            uint b[2], rest[2];
            EACH(i, 2)
                fv_split(v[i][n], b[i], rest[i]);
            EACH(m, 2) {
                float sum[4] = {}; /* tensor cores truncate sums */
                if (sizeof(value) == 4)
                    fv_mma_tf32(sum, high[m], rest);
                fv_mma_tf32(sum, low[m], b);
                fv_mma_tf32(sum, high[m], b);
                EACH(i, 4)
                    acc[m][n][i] += sum[i];
            }
        }
    }
}
#else
static_assert(HALVES, "such tensor cores multiply float16 alone");
#endif

/* Scales features to the range of float16, so that the largest of a channel so far is near its
 * upper end. If a scale changes, sums so far are rescaled. The error of a feature is below 2^-38 of
 * the largest. */
inline void fit(features &f, float scale[KEPT], sums &acc)
{
    float most[KEPT];
    bool over = false;
    EACH(i, KEPT) {
        most[i] = 0.f;
        EACH(r, 4)
            most[i] = fv_max(most[i], fabs(f.x[i][r]));
        over = over || most[i] * scale[i] > 32768.f;
    }
    if (fv_ballot(over))
        EACH(i, KEPT) {
            const float all = fv_quad_max(most[i]);
            if (all * scale[i] > 32768.f) {
                float inverse;
                const float now = fitting(all, inverse), fade = now * inverse_of(scale[i]);
                scale[i] = now;
                EACH(m, 4 / KEPT)
                    EACH(n, 8)
                        EACH(j, 2) {
                            const int block = SIGNED ? m : i / 2;
                            acc[block][n][i % 2 * 2 + j] *= fade;
                        }
            }
        }
    EACH(i, KEPT)
        EACH(r, 4)
            f.x[i][r] *= scale[i];
}

/* A thread's position: in the work-group, and in a tile of tensor cores; its part's first row and
 * number of rows; its warp's index along the features and along the rows; its first channel. */
typedef struct place {
    uint me, warp, g, t, head, r0, n, across, down, c;
} place;

/* A thread's sums over its rows: products, with the scale of their features; features; rotated
 * features; rotated features minus a reference; values. */
typedef struct part_sums {
    sums acc;
    float scale[KEPT], reference[4], m[4], turned[4], deviation[4], v[8];
} part_sums;

/* Sums of each warp, in shared memory: of values, and of features as in part_sums: m, turned,
 * deviation. */
typedef struct warp_sums {
    float vmean[WARPS][COLUMNS], of_warp[3][WARPS][32];
} warp_sums;

inline void copy_tile(OPERANDS, fv_words *shared_memory, const place &p, uint j0, uint tile)
{
    const key *keys = base0 + at0.x + (size_t)p.r0 * at0.y + p.head * FV_D;
    const value *values = base1 + at1.x + (size_t)p.r0 * at1.y + p.head * FV_DV + j0;
    uchar *to = (uchar *)(shared_memory + tile % FV_STAGES * STAGE_WORDS);
    const uint per = FV_GROUP / 8; /* eight threads have a row */
    for (uint r = p.me / 8; r < FV_TILE; r += per) {
        const uint row = tile * FV_TILE + r, from = min(row, p.n - 1);
        copy_row<KEYS, FV_WIDE0>(to + r * KEY_PITCH, keys + (size_t)from * at0.y, row < p.n, FV_D,
                                 p.me % 8, 8);
        copy_row<COLUMNS, FV_WIDE1>(to + FV_TILE * KEY_PITCH + r * VALUE_PITCH,
                                    values + (size_t)from * at1.y, row < p.n,
                                    FV_DV % COLUMNS ? (int)(FV_DV - j0) : COLUMNS, p.me % 8, 8);
    }
}

/* Zeros the features of rows after the part's last one, in a step that begins with row `row`. */
inline void cut_rows(features &y, const place &p, uint row)
{
    if (row + 16 > p.n)
        EACH(r, 4)
            if (row + p.t + 4 * r >= p.n)
                EACH(i, KEPT)
                    y.x[i][r] = 0.f;
}

/* Computes the features of step `step` of a tile, whose first row is row `row` of the part. */
inline void make_features(OPERANDS, features &y, const place &p, const float learned[2][MINE],
                          const uchar *tile, uint step, uint row)
{
    const uint g = p.g;
    EACH(r, 4) {
        const uchar *from = tile + (step * 16 + p.t + 4 * r) * KEY_PITCH;
        fv_row known = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f, f.s1};
        if (FV_STATS_KEY > 0) {
            const int some = (FV_D + 7) / 8;
            float x[some];
            EACH(i, some)
                x[i] = g * some + i < FV_D ? fv_read((const key *)from + g * some + i) : 0.f;
            known = fv_statistics<0, FV_STATS_KEY, some>(
                x, [&](int i) { return g * some + i < FV_D; }, 4, 16, f.s1);
        }
        float x[MINE], gate = 1.f;
        row_numbers<MINE, key>(x, from, p.c);
#if GATED
        gate = FV_GET(5, FV_AT(5, p.r0 + min(row + p.t + 4 * r, p.n - 1)) + p.head);
#endif
        EACH(i, MINE) {
            float out[FV_BLOCKS];
            EACH(param, FV_PARAMS)
                known.param[param] = learned[param][i];
#if FV_POLARISED
            if (SIGNED) {
                y.x[i][r] = fv_float_of(fv_bits_of(fv_phi_size(0, x[i], known)) |
                                        (fv_bits_of(x[i]) & 0x80000000u));
                continue;
            }
#endif
            fv_phi(out, 0, x[i], known);
            EACH(b, FV_BLOCKS)
                y.x[b * MINE + i][r] = GATED ? gate * out[b] : out[b];
        }
    }
    cut_rows(y, p, row);
}

inline void rotate(OPERANDS, features &y, const place &p, uint row)
{
#if TURNED
    EACH(r, 4)
        EACH(pair, 2) {
            const uint at = row + p.t + 4 * r, channel = p.c + (FV_BLOCKS > 1 ? 0 : 2 * pair);
            if (at < p.n && channel < FV_D)
                turn(y.x[2 * pair][r], y.x[2 * pair + 1][r], TURNING(row0 + p.r0 + at, channel));
        }
#endif
}

inline float row_sum(const float x[4])
{
    return x[0] + x[1] + (x[2] + x[3]);
}

/* CENTRED: subtracts the reference from the features, and adds features and values to their
 * sums. */
inline void add_centred(part_sums &s, features &y, const place &p, const uchar *value_rows,
                        uint row)
{
    EACH(i, 4) {
        if (TURNED)
            s.turned[i] += row_sum(y.x[i]);
        EACH(r, 4)
            y.x[i][r] -= s.reference[i];
    }
    cut_rows(y, p, row);
    EACH(i, 4)
        s.deviation[i] += row_sum(y.x[i]);
    EACH(k, 4 / SHARING) {
        const uint r = SHARING > 1 ? k * SHARING + p.across : k;
        float x[8];
        row_numbers<8, value>(x, VALUES(p.t + 4 * r), 8 * p.g);
        EACH(i, 8)
            s.v[i] += x[i];
    }
}

/* Adds a step of features `y` and its values to all sums. */
inline void add_step(OPERANDS, part_sums &s, features &y, const place &p, const uchar *value_rows,
                     uint row)
{
    EACH(i, SIGNED ? 0 : 4)
        s.m[i] += row_sum(y.x[i]);
    EACH(i, SIGNED ? 2 : 0)
        EACH(r, 4) {
            s.m[i] += fv_max(y.x[i][r], 0.f);
            s.m[2 + i] += fv_max(-y.x[i][r], 0.f);
        }
    rotate(OPERANDS_GIVEN, y, p, row);
    if (CENTRED)
        add_centred(s, y, p, value_rows, row);
    if (HALVES) {
        fit(y, s.scale, s.acc);
        multiply_halves(s.acc, y, value_rows, p.g, p.t);
    }
#if FV_HAVE_MMA
    if (!HALVES)
        multiply_floats(s.acc, y, value_rows, p.g, p.t);
#endif
}

/* Adds all rows of the part, tile by tile; `shared_memory` is the shared memory for tiles. */
inline void add_rows(OPERANDS, part_sums &s, fv_words *shared_memory, const place &p,
                     const float learned[2][MINE], uint j0)
{
    const uint tiles = (p.n + FV_TILE - 1) / FV_TILE;
    EACH(tile, FV_STAGES - 1) {
        if (tile < tiles)
            copy_tile(OPERANDS_GIVEN, shared_memory, p, j0, tile);
        fv_cp_commit();
    }
    for (uint tile = 0; tile < tiles; tile++) {
        fv_cp_wait<FV_STAGES - 2>();
        FV_BARRIER();
        if (tile + FV_STAGES - 1 < tiles)
            copy_tile(OPERANDS_GIVEN, shared_memory, p, j0, tile + FV_STAGES - 1);
        fv_cp_commit();
        const uchar *here = (const uchar *)(shared_memory + tile % FV_STAGES * STAGE_WORDS);
        const uchar *value_rows = here + FV_TILE * KEY_PITCH;
        if (p.across >= ACROSS)
            continue;
        /* The product with values minus their mean equals that of features minus their mean. The
         * mean of the first 16 rows is subtracted from the features at once, so that the correction
         * at the end is small. */
        if (CENTRED && tile == 0) {
            features y;
            make_features(OPERANDS_GIVEN, y, p, learned, here, 0, 0);
            rotate(OPERANDS_GIVEN, y, p, 0);
            EACH(i, 4)
                s.reference[i] = fv_quad_sum(row_sum(y.x[i])) / (float)min(p.n, 16u);
        }
        for (uint step = p.down; step < STEPS; step += DOWN) {
            const uint row = tile * FV_TILE + step * 16;
            if (row >= p.n)
                break;
            features y;
            make_features(OPERANDS_GIVEN, y, p, learned, here, step, row);
            add_step(OPERANDS_GIVEN, s, y, p, VALUES(step * 16), row);
        }
    }
}

/* Adds up the products of all warps in `result`, and stores their other sums to `w`. */
inline void add_warps(float *result, warp_sums &w, const part_sums &s, const place &p)
{
    for (uint next = 0; next < DOWN; next++) {
        if (p.across < ACROSS && p.down == next)
            EACH(i, 4) {
                float back = HALVES ? inverse_of(s.scale[i % KEPT]) : 1.f;
                if (SIGNED && i >= MINE)
                    back = -back;
                float *to = result + ((i / MINE) * KEYS + p.c + i % MINE) * RESULT_PITCH + 16 * p.t;
                EACH(k, 8)
                    EACH(j, 2) {
                        const float x = back * s.acc[i / 2][k][i % 2 * 2 + j];
                        float &y = to[8 * j + k];
                        y = next ? y + x : x;
                    }
            }
        FV_BARRIER();
    }
    EACH(i, 4) {
        const float own[3] = {fv_quad_sum(s.m[i]), fv_quad_sum(TURNED ? s.turned[i] : s.m[i]),
                              fv_quad_sum(s.deviation[i])};
        EACH(k, 3)
            if (p.t == 0)
                w.of_warp[k][p.warp][4 * p.g + i] = own[k];
    }
    EACH(i, 8) {
        const float sum = fv_quad_sum(s.v[i]);
        if (CENTRED && p.t == 0)
            w.vmean[p.warp][8 * p.g + i] = sum;
    }
}

/* Adds up sum number `what` of a feature over the warps with different rows. */
inline float feature_sum(const warp_sums &w, int what, uint feature)
{
    const uint channel = feature % KEYS, owner = channel / CHANNELS_OF;
    const uint at = channel % CHANNELS_OF / MINE * 4 + feature / KEYS * MINE + channel % MINE;
    float sum = 0.f;
    EACH(i, DOWN)
        sum += w.of_warp[what][owner + i * SPREAD][at];
    return sum;
}

inline float value_mean(const warp_sums &w, uint j, uint n)
{
    float sum = 0.f;
    EACH(i, DOWN * SHARING)
        sum += w.vmean[i * (SPREAD / SHARING)][j];
    return sum / (float)max(n, 1u);
}

/* Writes the part's sums to its state, or adds them. `last`: this is the last of the slices that
 * are processed in order. */
inline void fold_into_state(OPERANDS, FV_CELL(6) *state, const float *result, const warp_sums &w,
                            const place &p, uint j0, bool last)
{
    const float before = CENTRED && !first ? FV_GET(6, state + AT_COUNT) : 0.f;
    const float all = fmax(before + p.n, 1.f), old = before / all, share = p.n / all;
    for (uint e = p.me; e < FV_BLOCKS * KEYS * COLUMNS; e += FV_GROUP) {
        const uint feature = e / COLUMNS, j = e % COLUMNS, channel = feature % KEYS;
        if (channel >= FV_D || j0 + j >= FV_DV)
            continue;
        const uint row = feature / KEYS * FV_D + channel;
        FV_CELL(6) *s = state + (size_t)row * FV_DV + j0 + j;
        float x = result[feature * RESULT_PITCH + j];
        if (CENTRED) {
            const float mean = value_mean(w, j, p.n);
            x = f.s0 * (x - feature_sum(w, 2, feature) * mean);
            if (!first)
                x += (old * f.s0 * feature_sum(w, 1, feature) -
                      share * FV_GET(6, state + AT_W + row)) *
                     (mean - FV_GET(6, state + AT_VMEAN + j0 + j));
        } else {
            x *= f.s0;
        }
        FV_PUT(6, s, first ? x : x + FV_GET(6, s));
    }
    FV_BARRIER();
    for (uint j = p.me; CENTRED && j < COLUMNS && j0 + j < FV_DV; j += FV_GROUP) {
        const float was = first ? 0.f : FV_GET(6, state + AT_VMEAN + j0 + j);
        const float mean = value_mean(w, j, p.n);
        FV_PUT(6, state + AT_VMEAN + j0 + j, first ? mean : was + share * (mean - was));
    }
    for (uint e = p.me; last && e < FV_BLOCKS * KEYS; e += FV_GROUP) {
        const uint row = e / KEYS * FV_D + e % KEYS;
        if (e % KEYS >= FV_D)
            continue;
        EACH(k, 1 + CENTRED) {
            FV_CELL(6) *s = state + (k ? AT_W : AT_M) + row;
            const float x = f.s0 * feature_sum(w, k, e);
            FV_PUT(6, s, first ? x : x + FV_GET(6, s));
        }
        if (CENTRED && e == 0)
            FV_PUT(6, state + AT_COUNT, before + p.n);
    }
}

/* A work-group reduces a part's rows of a head, for 64 columns of the values, or for all columns in
 * order. */
kernel void __launch_bounds__(FV_GROUP, FV_LEAST) lattn_reduce(OPERANDS)
{
    FV_SHARED fv_words shared_memory[SHARED_WORDS];
    FV_SHARED warp_sums w;
    const uint me = get_local_id(0), warp = me / 32, lane = me % 32, g = lane / 4;
    const uint part = get_group_id(1), head = get_group_id(0) / (SERIAL ? 1 : SLICES);
    const uint r0 = (ulong)rows * part / groups, r1 = (ulong)rows * (part + 1) / groups;
    const uint across = warp % SPREAD, c = across * CHANNELS_OF + g * MINE;
    const place p = {me, warp, g, lane % 4, head, r0, r1 - r0, across, warp / SPREAD, c};
    if (p.n == 0 && !first)
        return;

    FV_CELL(6) *state = FV_AT(6, part) + head * FLOATS;
    float learned[2][MINE];
    EACH(param, FV_PARAMS)
        EACH(i, MINE) {
            const uint at = param * FV_HEADS * FV_D + head * FV_D + c + i;
            learned[param][i] =
                c + i < FV_D ? fv_param(param, FV_GET(2, base2 + at2.x + at), f.s1) : 0.f;
        }

    const uint slice0 = SERIAL ? 0 : get_group_id(0) % SLICES;
    for (uint slice = slice0; slice < (SERIAL ? SLICES : slice0 + 1); slice++) {
        part_sums s = {};
        EACH(i, KEPT)
            s.scale[i] = 0x1p126f;
        FV_BARRIER();
        add_rows(OPERANDS_GIVEN, s, shared_memory, p, learned, slice * COLUMNS);
        fv_cp_wait<0>();
        FV_BARRIER();
        add_warps((float *)shared_memory, w, s, p);
        FV_BARRIER();
        fold_into_state(OPERANDS_GIVEN, state, (const float *)shared_memory, w, p, slice * COLUMNS,
                        slice == (SERIAL ? SLICES - 1 : 0));
    }
}
#endif

/* ---- APPLY ---- */

#ifdef FV_LATTN_APPLY

/* A thread has 8 channels of every 32, for rows g and g + 8 of one or two tiles of 16 rows. Of the
 * results it has 8 columns of every 32. */
#define RUNS ((FV_D + 31) / 32)
#define OWN (8 * RUNS)
#define TILES (FV_BLOCKS * RUNS <= 2 ? 2 : 1)
#define STEPS (2 * FV_BLOCKS * RUNS) /* of 16 features */
#define LISTED (16 * STEPS)
#define PER FV_PER_WORDS(FV_CELL(0))
#define SUMS (FV_STREAMS + CENTRED) /* z of every stream; w */
#define STREAM(j) ((j) / (FV_DV / FV_STREAMS))

/* Features are numbered in the order of the steps: feature i of thread t in step s is number 16 s +
 * 4 t + i. These macros give its block and channel. */
#define BLOCK_OF(k) ((k) / 16 / (2 * RUNS))
#define CHANNEL_OF(k) ((k) / 32 % RUNS * 32 + (k) % 16 / 4 * 8 + (k) / 16 % 2 * 4 + (k) % 4)
/* The column of number n in tile i of 8 columns. */
#define COLUMN_OF(i, n) ((i) / 4 * 32 + (n) / 2 * 8 + (i) % 4 * 2 + (n) % 2)

/* The shared memory of a work-group: the state as fragments of high and low parts, four words per
 * thread; the scale of each of its channels, and its inverse; z of every stream, and w; means of
 * values. */
typedef struct kept_state {
    fv_words s[STEPS * 8 * 32];
    float grown[LISTED], back[LISTED], listed[SUMS][LISTED], vmean[COLUMNS], least[WARPS];
    float learned[SOME(FV_PARAMS)][32 * RUNS];
} kept_state;

/* A thread's position: in the work-group, in its warp, in a tile of tensor cores; its head and
 * first column. */
typedef struct place {
    uint me, warp, lane, g, t, head, j0;
} place;

inline void keep_vectors(OPERANDS, kept_state &m, const place &p, const FV_CELL(1) *state)
{
    for (uint i = p.me; i < FV_PARAMS * 32 * RUNS; i += FV_GROUP) {
        const uint param = i / (32 * RUNS), c = i % (32 * RUNS);
        const uint at = (param * FV_HEADS + p.head) * FV_D + c;
        m.learned[param][c] = c < FV_D ? fv_param(param, FV_GET(2, base2 + at2.x + at), f.s2) : 0.f;
    }
    for (uint j = p.me; j < COLUMNS; j += FV_GROUP)
        m.vmean[j] = CENTRED && p.j0 + j < FV_DV ? FV_GET(1, state + AT_VMEAN + p.j0 + j) : 0.f;
    for (uint i = p.me; i < SUMS * LISTED; i += FV_GROUP) {
        const uint k = i % LISTED, sum = i / LISTED, c = CHANNEL_OF(k);
        const uint at = sum < FV_STREAMS ? AT_M + (BLOCK_OF(k) ^ sum) * FV_D + c
                                         : AT_W + BLOCK_OF(k) * FV_D + c;
        m.listed[sum][k] = c < FV_D ? f.s0 * FV_GET(1, state + at) : 0.f;
    }
}

/* The state's entry in the row of feature k, times the scale; stream 1 has its blocks swapped. */
inline float state_entry(const FV_CELL(1) *state, float scale, uint k, uint j)
{
    const uint c = CHANNEL_OF(k);
    if (c >= FV_D || j >= FV_DV)
        return 0.f;
    const uint row = (BLOCK_OF(k) ^ STREAM(j)) * FV_D + c;
    return scale * FV_GET(1, state + (size_t)row * FV_DV + j);
}

/* Scales and splits the state, and stores it to m.s. Returns the factor of all results. */
inline float keep_state(kept_state &m, const place &p, const FV_CELL(1) *state, float scale)
{
    float smallest = 0x1p126f, most_of[LISTED / WARPS];
    EACH(i, LISTED / WARPS) {
        const uint k = p.warp + i * WARPS, j = p.j0 + p.lane;
        most_of[i] = fv_max(fabs(state_entry(state, scale, k, j)),
                            fabs(state_entry(state, scale, k, j + 32)));
    }
    EACH(i, LISTED / WARPS) {
        float most = most_of[i], inverse;
        EACH(step, 5)
            most = fv_max(most, fv_shfl_xor(most, 1 << step));
        const float fits = fitting(most, inverse);
        smallest = fmin(smallest, fits);
        if (p.lane == 0) {
            m.grown[p.warp + i * WARPS] = fits;
            m.back[p.warp + i * WARPS] = inverse;
        }
    }
    if (p.lane == 0)
        m.least[p.warp] = smallest;
    FV_BARRIER();
    /* The scale that all channels share is applied at the end, so that nothing underflows
     * before. */
    EACH(i, WARPS)
        smallest = fmin(smallest, m.least[i]);
    for (uint k = p.me; k < LISTED; k += FV_GROUP)
        m.back[k] *= smallest;
#pragma unroll 4
    for (uint i = p.warp; i < STEPS * 8; i += WARPS) {
        float x[4];
        EACH(e, 4) {
            const uint k = i / 8 * 16 + 4 * p.t + e;
            x[e] = m.grown[k] * state_entry(state, scale, k, p.j0 + COLUMN_OF(i % 8, p.g));
        }
        fv_words y;
        in_halves(x[0], x[1], y.w[0], y.w[2]);
        in_halves(x[2], x[3], y.w[1], y.w[3]);
        m.s[i * 32 + p.lane] = y;
    }
    return 1.f / smallest;
}

/* A thread's features of rows g + 8 i, as [block][run][8]; the scales of each stream's results, and
 * the coefficients of the values' means. */
typedef struct row_features {
    float y[2 * TILES][FV_BLOCKS * OWN], weight[2 * TILES][FV_STREAMS + 1];
} row_features;

/* Computes features and scales of the thread's i-th row, which is `row`, from the numbers in
 * `read`. */
inline void make_row(OPERANDS, row_features &of, const kept_state &m, const place &p, int i,
                     uint row, const fv_words *read)
{
    const uint t = p.t;
    float *y = of.y[i], *weight = of.weight[i];
    float x[OWN], sum[SUMS] = {}, eps = fmax(f.s1, FLT_MIN), most = 0.f, inverse;
    EACH(k, OWN)
        x[k] = fv_number<FV_CELL(0)>(read[k / PER].w, k % PER);
    const auto known = [&](int k) { return FV_D % 32 == 0 || k / 8 * 32 + 8 * t + k % 8 < FV_D; };
    fv_row belongs = fv_statistics<1, FV_STATS_QUERY, OWN>(x, known, 1, 2, f.s2);
    EACH(k, OWN) {
        const uint c = k / 8 * 32 + 8 * t + k % 8;
        float out[FV_BLOCKS];
        EACH(param, FV_PARAMS)
            belongs.param[param] = m.learned[param][c];
        fv_phi(out, 1, x[k], belongs);
        EACH(b, FV_BLOCKS)
            y[b * OWN + k] = known(k) ? out[b] : 0.f;
    }
    EACH(k, FV_BLOCKS * OWN)
        EACH(w, TURNED ? FV_STREAMS : SUMS)
            sum[w] += y[k] * m.listed[w][k / 4 * 16 + 4 * t + k % 4];
#if TURNED
    EACH(k, FV_BLOCKS * OWN / 2) {
        const uint c = 2 * k % OWN / 8 * 32 + 8 * t + 2 * k % 8;
        if (known(2 * k % OWN))
            turn(y[2 * k], y[2 * k + 1], TURNING(row0 + row, c));
    }
    EACH(k, CENTRED ? FV_BLOCKS * OWN : 0)
        sum[SUMS - 1] += y[k] * m.listed[SUMS - 1][k / 4 * 16 + 4 * t + k % 4];
#endif
    EACH(k, FV_BLOCKS * OWN) {
        y[k] *= m.back[k / 4 * 16 + 4 * t + k % 4];
        most = fv_max(most, fabs(y[k]));
    }
    EACH(w, SUMS)
        sum[w] = fv_quad_sum(sum[w]);
    const float fits = fitting(fv_quad_max(most), inverse);
    EACH(k, FV_BLOCKS * OWN)
        y[k] *= fits;
    float gate = 1.f;
#if GATED
    gate = FV_GET(5, FV_AT(5, row) + p.head);
#endif
    EACH(w, FV_STREAMS)
        weight[w] = gate * (NORMALISED ? fv_norm(sum[w], eps) : 1.f);
    weight[FV_STREAMS] =
        !CENTRED ? 0.f
                 : gate * (NORMALISED ? fv_norm_mean(sum[0], sum[SUMS - 1], eps) : sum[SUMS - 1]);
    EACH(w, FV_STREAMS)
        weight[w] *= inverse;
}

inline void multiply_rows(float acc[TILES][8][4], const row_features &of, const kept_state &m,
                          uint lane)
{
    EACH(step, STEPS) {
        uint high[TILES][4], low[TILES][4];
        EACH(tile, TILES)
            EACH(i, 4) {
                const float *x = of.y[2 * tile + i % 2] + 4 * step + i / 2 * 2;
                in_halves(x[0], x[1], high[tile][i], low[tile][i]);
            }
        EACH(n, 8) {
            const fv_words b = m.s[(step * 8 + n) * 32 + lane];
            EACH(tile, TILES) {
                fv_mma_f16(acc[tile][n], low[tile], b.w);
                fv_mma_f16(acc[tile][n], high[tile], b.w + 2);
                fv_mma_f16(acc[tile][n], high[tile], b.w);
            }
        }
    }
}

kernel void __launch_bounds__(FV_GROUP, FV_LEAST) lattn_apply(OPERANDS)
{
    FV_SHARED kept_state m;
    const uint me = get_local_id(0), lane = me % 32, g = lane / 4, t = lane % 4;
    const uint head = get_group_id(0) / SLICES, j0 = get_group_id(0) % SLICES * COLUMNS;
    const place p = {me, me / 32, lane, g, t, head, j0};
    const FV_CELL(1) *state = base1 + at1.x + head * FLOATS;
    keep_vectors(OPERANDS_GIVEN, m, p, state);
    const float common = keep_state(m, p, state, f.s0);
    FV_BARRIER();

    /* Blocks of rows are distributed evenly over the work-groups. */
    const uint each = 16 * TILES, blocks = (rows + WARPS * each - 1) / (WARPS * each);
    const uint iterations = (blocks + get_num_groups(1) - 1) / get_num_groups(1);
    for (uint iteration = 0; iteration < iterations; iteration++) {
        const uint r = ((get_group_id(1) * iterations + iteration) * WARPS + p.warp) * each;
        if (r >= rows)
            break;
        /* All loads are issued before any of them is used. */
        fv_words read[2 * TILES][OWN / PER];
        EACH(i, 2 * TILES) {
            const FV_CELL(0) *from = FV_AT(0, min(r + g + 8 * i, rows - 1)) + head * FV_D;
            EACH(k, OWN / PER) {
                const uint at = k * PER / 8 * 32 + 8 * t + k * PER % 8;
                const int left = FV_D % 32 ? (int)(FV_D - at) : 32;
                read[i][k] = fv_fetch<FV_CELL(0), FV_WIDE0>(from + (left > 0 ? at : 0), left);
            }
        }
        row_features of;
        EACH(i, 2 * TILES)
            make_row(OPERANDS_GIVEN, of, m, p, i, min(r + g + 8 * i, rows - 1), read[i]);
        float acc[TILES][8][4] = {};
        multiply_rows(acc, of, m, lane);

        EACH(i, 2 * TILES)
            EACH(half_of, 2) {
                const uint row = r + g + 8 * i, j = half_of * 32 + 8 * t;
                float out[8];
                EACH(e, 8) {
                    const bool second = FV_STREAMS > 1 && STREAM(min(j0 + j + e, FV_DV - 1u)) > 0;
                    out[e] = acc[i / 2][half_of * 4 + e / 2][i % 2 * 2 + e % 2] *
                             (second ? of.weight[i][FV_STREAMS - 1] : of.weight[i][0]) * common;
                    if (CENTRED)
                        out[e] += of.weight[i][FV_STREAMS] * m.vmean[j + e];
                }
                if (row < rows && j0 + j < FV_DV)
                    fv_give<8, FV_WIDE6>(FV_AT(6, row) + head * FV_DV + j0 + j, out,
                                         (int)(FV_DV - j0 - j));
            }
    }
}
#endif
