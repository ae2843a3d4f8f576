/* softmax_tiles.cuh: softmax attention of a block of queries on tensor cores with online
 * statistics, by tiles of KEYS keys. Scores never leave the registers.
 *
 * A work-group of four warps computes FV_QUERIES queries of one head, a warp 16 or 32 of them. Keys
 * and values of a tile are copied to shared memory, the next ones while these are in use. For each
 * tile and 16 queries
 *
 *     S = scale Q K^T                    16 x KEYS
 *     m' = max(m, S), P = 2^(S - m'), l = 2^(m - m') l + sum P
 *     O = 2^(m - m') O + P V             16 x FV_DV
 *
 * where S includes the factor log2(e). Tensor cores write S in the order in which they read P, so
 * that only maxima and sums are exchanged, between the four threads of a row. P V of a tile is
 * summed separately and added to O outside of tensor cores, because those truncate sums instead of
 * rounding.
 *
 * If Q, K and V have the same 16-bit type, they are multiplied unconverted, and P as a sum of two
 * such numbers. Everything else is split into sums of tf32 numbers, FV_<n>_PARTS for operand n. In
 * float16, P is scaled by 2^15, so that its low part does not underflow.
 *
 * Channels come in blocks of 32, zeros after the last. Thread (g, t) of a warp, lane 4 g + t, takes
 * channels 8 t .. 8 t + 7 of a row of Q and K, whatever order tensor cores think they are in.
 *
 *   K   a block: KEYS rows of 64 bytes, which eight threads read two of; of floats 128, where odd
 *       rows have neighbouring sixteens of bytes swapped
 *   V   the same, turned while it is read: sixteen c of row r is at c ^ r / 2 % 4; rows of floats
 *       have 16 bytes more, and threads read four channels of two rows
 *
 * In none of these does a bank serve two threads at once.
 *
 * Macros defined by the host: those above; FV_D, FV_DV width of a head's keys and values;
 * FV_WIDE<n>, FV_WIDE_OUT 1 where rows of operand n, and heads in them, can be moved by 16 bytes.
 *
 * The including file must define the type span, the queries of a work-group, with query_row(s, r)
 * and is_query(s, r). query_row gives the row of query r; it may be any row if there is no such
 * query. `mine` is a thread's first query.
 */
#define KEYS FV_KEYS
#define NK (KEYS / 8) /* tiles of keys */
#define DB ((FV_D + 31) / 32)
#define VB ((FV_DV + 31) / 32) /* blocks of channels */
#define MS (FV_QUERIES / 64)   /* tiles of 16 queries per warp */

#define MATH_TF32 0
#define MATH_F16 1
#define MATH_BF16 2

#if FV_MATH == MATH_TF32
typedef float fv_factor;
#define V_PITCH 9
#else
typedef FV_CELL(0) fv_factor;
#define V_PITCH 4
#endif
#define PER FV_PER_WORDS(fv_factor)
#define WORDS (32 / PER) /* 16-byte units in a row of a block */
#define SHIFT (FV_MATH == MATH_F16 ? 15.f : 0.f)

#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

/* Copies rows order(0) to order(rows - 1) of C, at the same channels of a head, to the blocks of a
 * stage; zeros past the end. */
template <int CHANNELS, int PITCH, bool TURNED, bool WIDE, class C, class O>
inline void fv_stage(fv_words *to, const C *from, uint ld, uint rows, O order)
{
    const uint all = (CHANNELS + 31) / 32 * KEYS * WORDS;
    const bool whole = CHANNELS % 32 == 0 && rows >= KEYS;
#pragma unroll
    for (uint first = 0; first < all; first += FV_GROUP) {
        const uint i = first + get_local_id(0);
        const uint row = i / WORDS % KEYS, word = i % WORDS, block = i / WORDS / KEYS;
        const uint c = 32 * block + PER * word;
        const uint swap = PITCH > WORDS ? 0 : TURNED ? row / 2 % 4 : WORDS > 4 ? row % 2 : 0;
        const bool inside = whole || (row < rows && c < CHANNELS);
        if (all % FV_GROUP && i >= all)
            break;
        fv_copy<fv_factor, WIDE>(to + (block * KEYS + row) * PITCH + (word ^ swap),
                                 inside ? from + (size_t)order(row) * ld + c : from,
                                 whole    ? PER
                                 : inside ? (int)(CHANNELS - c)
                                          : 0);
    }
}

/* ---- products ---- */

typedef fv_words fv_queries[DB][2][8 / PER]; /* rows g and g + 8 of 16 */
typedef float fv_scores[NK][4];
typedef float fv_sums[4][4]; /* of a block of value channels */

#if FV_MATH != MATH_TF32
inline void fv_mma(float d[4], const uint a[4], const uint b[2])
{
#if FV_MATH == MATH_F16
    fv_mma_f16(d, a, b);
#else
    fv_mma_bf16(d, a, b);
#endif
}

inline void fv_score(fv_scores s[MS], const fv_queries q[MS], const fv_words *k, uint lane)
{
    EACH(b, DB) {
        fv_words y[NK];
        EACH(n, NK)
            y[n] = k[(b * KEYS + 8 * n) * WORDS + lane];
        EACH(i, 2)
            EACH(m, MS) {
                const uint *x = q[m][b][0][0].w + 2 * i, *z = q[m][b][1][0].w + 2 * i;
                const uint rows[4] = {x[0], z[0], x[1], z[1]};
                EACH(n, NK)
                    fv_mma(s[m][n], rows, y[n].w + 2 * i);
            }
    }
}

/* P as its two parts. */
struct fv_weights {
    uint high[NK / 2][4], low[NK / 2][4];
};
inline void fv_set_weights(fv_weights &p, const fv_scores s)
{
    const uint mask = FV_MATH == MATH_F16 ? 0xffffe000u : 0xffff0000u;
    EACH(i, 4 * (NK / 2)) {
        const float *x = s[i / 4 * 2 + i % 4 / 2] + i % 2 * 2;
        const float high[2] = {fv_float_of(fv_bits_of(x[0]) & mask),
                               fv_float_of(fv_bits_of(x[1]) & mask)};
        p.high[i / 4][i % 4] = fv_narrow<fv_factor>::pair(high[0], high[1]);
        p.low[i / 4][i % 4] = fv_narrow<fv_factor>::pair(x[0] - high[0], x[1] - high[1]);
    }
}

inline void fv_mix(fv_sums sum[MS], const fv_weights p[MS], const fv_words *v, uint lane)
{
    /* The row of V and the 16-byte unit whose address this lane passes. */
    const uint row = lane % 16, sixteen = lane / 16, swap = row / 2 % 4;
    EACH(k, NK / 2) {
        uint y[2][4];
        EACH(i, 2)
            fv_ldmatrix_x4_trans(y[i], v + (16 * k + row) * V_PITCH + ((2 * i + sixteen) ^ swap));
        EACH(m, MS) {
            EACH(n, 4)
                fv_mma(sum[m][n], p[m].low[k], y[n / 2] + n % 2 * 2);
            EACH(n, 4)
                fv_mma(sum[m][n], p[m].high[k], y[n / 2] + n % 2 * 2);
        }
    }
}

/* Where number i of the eight that a thread has of a row is among the sums, and its channel. */
#define RUN 2
#define FV_SUM(sum, s, i) sum[(i) / 2][2 * (s) + (i) % 2]
#define FV_CHANNEL(i) (8 * ((i) / 2) + 2 * (lane % 4) + (i) % 2)
#else

inline void fv_score(fv_scores s[MS], const fv_queries q[MS], const fv_words *k, uint lane)
{
    const uint row = lane / 4, sixteen = lane % 4 * 2;
    EACH(b, 2 * DB) {
        const int half_ = b % 2;
        fv_parts y[NK];
        EACH(n, NK) {
            const fv_words z =
                k[(b / 2 * KEYS + 8 * n + row) * WORDS + ((sixteen + half_) ^ row % 2)];
            EACH(i, 4)
                fv_set<FV_CELL(1), FV_1_PARTS>(y[n], i, fv_float_of(z.w[i]));
        }
        EACH(j, 2)
            EACH(m, MS) {
                fv_parts x;
                EACH(i, 4)
                    fv_set<FV_CELL(0), FV_0_PARTS>(
                        x, i, fv_float_of(q[m][b / 2][i % 2][half_].w[2 * j + i / 2]));
                if (FV_0_PARTS > 1)
                    EACH(n, NK)
                        fv_mma_tf32(s[m][n], x.low, y[n].high + 2 * j);
                if (FV_1_PARTS > 1)
                    EACH(n, NK)
                        fv_mma_tf32(s[m][n], x.high, y[n].low + 2 * j);
                EACH(n, NK)
                    fv_mma_tf32(s[m][n], x.high, y[n].high + 2 * j);
            }
    }
}

struct fv_weights {
    fv_parts tile[NK];
};
inline void fv_set_weights(fv_weights &p, const fv_scores s)
{
    EACH(n, NK)
        EACH(i, 4)
            fv_set<float, 2>(p.tile[n], i, s[n][i % 2 * 2 + i / 2]);
}

/* Tile i of a block has channels 4 g + i. */
inline void fv_mix(fv_sums sum[MS], const fv_weights p[MS], const fv_words *v, uint lane)
{
    EACH(n, NK) {
        fv_parts y[2]; /* of rows 2 t and 2 t + 1 */
        EACH(r, 2) {
            const fv_words z = v[(8 * n + lane % 4 * 2 + r) * V_PITCH + lane / 4];
            EACH(i, 4)
                fv_set<FV_CELL(2), FV_2_PARTS>(y[r], i, fv_float_of(z.w[i]));
        }
        EACH(i, 4)
            EACH(m, MS) {
                const uint high[2] = {y[0].high[i], y[1].high[i]},
                           low[2] = {y[0].low[i], y[1].low[i]};
                fv_mma_tf32(sum[m][i], p[m].tile[n].low, high);
                if (FV_2_PARTS > 1)
                    fv_mma_tf32(sum[m][i], p[m].tile[n].high, low);
                fv_mma_tf32(sum[m][i], p[m].tile[n].high, high);
            }
    }
}

#define RUN 8
#define FV_SUM(sum, s, i) sum[(i) % 4][2 * (s) + (i) / 4]
#define FV_CHANNEL(i) (8 * (lane % 4) + (i))
#endif

/* ---- attention ---- */

/* Loops over every score of a thread: number i of tile n, for queries m. */
#define EACH_SCORE(m, n, i)                                                                        \
    EACH(m, MS)                                                                                    \
        EACH(n, NK)                                                                                \
            EACH(i, 4)

/* Loads a thread's queries, each eighth one from `mine` on. With `flip` their sign is changed. */
inline void fv_read_queries(OPERANDS, fv_queries q[MS], span s, uint mine, bool flip)
{
    EACH(m, 2 * MS)
        EACH(b, DB)
            EACH(i, 8 / PER) {
                const uint c = 32 * b + get_local_id(0) % 4 * 8 + i * PER;
                q[m / 2][b][m % 2][i] = fv_fetch<fv_factor, FV_WIDE0>(
                    FV_AT(0, query_row(s, mine + 8 * m)) + get_group_id(1) * FV_D + c,
                    (int)(FV_D - c));
                const uint sign = !flip ? 0u : PER == 4 ? 0x80000000u : 0x80008000u;
                EACH(w, 4)
                    q[m / 2][b][m % 2][i].w[w] ^= sign;
            }
}

/* A thread's statistics of its 2 MS rows: the largest score, times the scale, minus SHIFT; the sum
 * of its own powers; 2^(m - m') of the last tile. */
typedef struct fv_online {
    float peak[2 * MS], sum[2 * MS], fade[2 * MS];
} fv_online;

/* Computes m', l, and P in place of S. S is multiplied by `by` first. */
inline void fv_weigh(fv_online &of, fv_scores score[MS], float by)
{
    float top[2 * MS];
    EACH(r, 2 * MS)
        top[r] = -FLT_MAX;
    EACH_SCORE(m, n, i)
        top[2 * m + i / 2] = fmax(top[2 * m + i / 2], score[m][n][i]);
    EACH(r, 2 * MS) {
        of.fade[r] = of.peak[r];
        of.peak[r] = fmax(of.peak[r], fv_quad_max(top[r]) * by - SHIFT);
        of.fade[r] = fv_exp2_fast(of.fade[r] - of.peak[r]);
        of.sum[r] *= of.fade[r];
    }
    EACH_SCORE(m, n, i) {
        score[m][n][i] = fv_exp2_fast(fma(score[m][n][i], by, -of.peak[2 * m + i / 2]));
        of.sum[2 * m + i / 2] += score[m][n][i];
    }
}

/* O = fade O + P V. */
inline void fv_add_values(fv_sums o[MS][VB], const fv_weights p[MS], const float fade[2 * MS],
                          const fv_words *values, uint lane)
{
    EACH(b, VB) {
        fv_sums more[MS] = {};
        fv_mix(more, p, values + KEYS * b * V_PITCH, lane);
        EACH(m, MS)
            EACH(n, 4)
                EACH(i, 4)
                    o[m][b][n][i] = fma(o[m][b][n][i], fade[2 * m + i / 2], more[m][n][i]);
    }
}

/* Writes O / l of this thread's rows. */
inline void fv_write_rows(OPERANDS, const fv_sums o[MS][VB], const float sum[2 * MS], span s,
                          uint mine, uint lane)
{
    EACH(r, 2 * MS) {
        const float part = 1.f / fv_quad_sum(sum[r]);
        if (!is_query(s, mine + 8 * r))
            continue;
        EACH(b, VB)
            EACH(i, 8 / RUN) {
                float x[RUN];
                const uint c = 32 * b + FV_CHANNEL(i * RUN);
                EACH(j, RUN)
                    x[j] = FV_SUM(o[r / 2][b], r % 2, i * RUN + j) * part;
                fv_give<RUN, FV_WIDE_OUT>(FV_AT(OUT, query_row(s, mine + 8 * r)) +
                                              get_group_id(1) * FV_DV + c,
                                          x, (int)(FV_DV - c));
            }
    }
}

/* The fewest work-groups that a multiprocessor must be able to run, by which the compiler limits
 * registers: three if it would use nearly few enough anyway. */
#define LEAST (MS == 1 && FV_MATH != MATH_TF32 && DB <= 2 && VB <= 2 ? 3 : 1)
