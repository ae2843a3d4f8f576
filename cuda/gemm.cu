/* gemm.cu: products of rows and a packed weight on tensor cores: GEMM, and CONV as products of
 * windows, which are read in place. src/ops/ref/ref_gemm.c and ref_conv.c define the results.
 *
 * A work-group of four warps computes FV_BM x FV_BN results, a quarter each. Blocks of 32 steps of
 * k go through shared memory, FV_STAGES of them at a time:
 *
 *       k 0..31   32..63   64..95               columns
 *     +---------+--------+--------+          +-----+-----+
 *   A | in use  | copied | copied | ..       | w 0 | w 1 |
 *     +---------+--------+--------+     rows +-----+-----+
 *   W | in use  | copied | copied | ..       | w 2 | w 3 |
 *     +---------+--------+--------+          +-----+-----+
 *
 * The order of k inside a block is free, as long as A and W have the same. Thread (g, t) of a warp,
 * lane 4 g + t, takes steps 8 t .. 8 t + 7 of a row: these are contiguous, 16 bytes of 16-bit
 * numbers, and eight threads read two rows of 64 bytes, no bank twice. The weights are packed so
 * that the same holds for them: tiles of 8 columns x 32 steps, in the order of the threads. Rows of
 * floats have 128 bytes; there odd rows have neighbouring sixteens of bytes swapped, for the same
 * reason.
 *
 * The order of columns is free, too: of 32 of them, column 8 t + 2 i + j is number 2 t + j of the
 * i-th tile, so that thread (g, t) ends with 8 neighbours of a row. With SWIGLU column 2 n is value
 * row n and column 2 n + 1 its gate.
 *
 * Where A and W are both of float16 or of bfloat16, they are multiplied as they are (FV_MATH).
 * Products of int8 have blocks of 64 steps, of as many bytes as 32 of 16 bits: A is the output of
 * `quantise` in the scratch, and W ends with a scale for each packed column. Anything else is split
 * into sums of tf32 numbers, FV_A_PARTS and FV_W_PARTS of each; the product of two low parts is
 * left out. Tensor cores cut sums off where others round: those of parts have 16 steps at most, and
 * are added outside.
 *
 * Macros of the host side: those above; FV_CONV 1 for windows; FV_A_BYTES by which rows of A can be
 * moved, 16 of a window only where each tap can; FV_WIDE<n> 1 where those of operand n can by 16.
 */
#include "cuda/fragments.cuh"
#include "gpu/kernels/activation.cl"

#define MATH_TF32 0
#define MATH_F16 1
#define MATH_BF16 2
#define MATH_I8 3

#define STEPS (FV_MATH == MATH_I8 ? 64 : 32) /* of k in a block */
/* Rows of tiles that are computed together, so that they find columns in the cache. */
#define BAND 8
#define WARP_ROWS (FV_BM / 2)
#define WARP_COLS (FV_BN / 2)
#define MS (WARP_ROWS / 16) /* tiles of a warp */
#define NS (WARP_COLS / 8)
#define EACH_M(m) _Pragma("unroll") for (int m = 0; m < MS; m++)
#define EACH_N(n) _Pragma("unroll") for (int n = 0; n < NS; n++)
#define FV_PAIRS ((FV_EPI & FV_EPI_SWIGLU) != 0)

typedef FV_CELL(1) fv_weight;
#if FV_MATH == MATH_TF32
typedef float fv_factor; /* of A, in shared memory */
#else
typedef fv_weight fv_factor;
#endif

/* 16-byte units in a block: of a row of A, of a tile of W, of everything. */
#define A_WORDS (STEPS / FV_PER_WORDS(fv_factor))
#define W_WORDS (8 * STEPS / FV_PER_WORDS(fv_weight))
#define BLOCK_WORDS (FV_BM * A_WORDS + FV_BN / 8 * W_WORDS)

#define FV_ARGS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_OUT(5), FV_CALL

/* ---- where A comes from ---- */

typedef const FV_CELL(0) *fv_source;

#if FV_MATH == MATH_I8
#include "gpu/kernels/quantise.cl"
typedef const fv_factor *fv_row;
#define FV_ROW(r) ((fv_row)table + (size_t)(r)*FV_ROW_BYTES)
#define FV_COPY(to, row, k) fv_cp_async16(to, (row) + (k))
#elif FV_CONV
struct fv_row {
    int y, x; /* position of the window's first pixel */
};
#define FV_ROW(r) fv_row_of(row0 + (r), dim, u)
inline fv_row fv_row_of(uint pixel, uint8 dim, uint4 u)
{
    return {(int)(pixel / u.s2 * dim.s4) - (int)dim.s5, (int)(pixel % u.s2 * dim.s4) - (int)dim.s5};
}

/* Where step k of a row is; NULL: it is zero. */
inline fv_source fv_step(fv_source in, uint ld, fv_row row, uint k, uint8 dim, uint4 u)
{
    const uint tap = k / dim.s6;
    const int y = row.y + (int)(tap / dim.s3), x = row.x + (int)(tap % dim.s3);
    const bool inside = k < dim.s2 && y >= 0 && y < (int)u.s1 && x >= 0 && x < (int)u.s0;
    return inside ? in + ((size_t)y * u.s0 + x) * ld + k % dim.s6 : 0;
}

/* Copies steps from k on to shared memory. */
#define FV_COPY(to, row, k) fv_copy_window(to, base0 + at0.x, at0.y, row, k, dim, u)
inline void fv_copy_window(fv_words *to, fv_source in, uint ld, fv_row row, uint k, uint8 dim,
                           uint4 u)
{
    const int n = FV_PER_WORDS(fv_factor);
    if (FV_A_BYTES == 16) {
        fv_source p = fv_step(in, ld, row, k, dim, u);
        fv_copy<fv_factor, true>(to, p ? p : in, p ? n : 0);
        return;
    }
    float x[n];
#pragma unroll
    for (int i = 0; i < n; i++) {
        fv_source p = fv_step(in, ld, row, k + i, dim, u);
        x[i] = p ? fv_read(p) : 0.f;
    }
    *to = fv_bytes_of<fv_factor, 16>(x);
}
#else
typedef fv_source fv_row;
#define FV_ROW(r) FV_AT(0, r)
#define FV_COPY(to, row, k)                                                                        \
    fv_copy_by<fv_factor, FV_A_BYTES>(to, (row) + ((k) < dim.s2 ? (k) : 0), (int)dim.s2 - (int)(k))
#endif

/* ---- products of a block ---- */

#if FV_MATH == MATH_I8
typedef int fv_sum;
#else
typedef float fv_sum;
#endif
typedef fv_sum fv_sums[MS][NS][4];

#if FV_MATH != MATH_TF32
inline void fv_multiply(fv_sums acc, const fv_words *a, const fv_words *w, uint lane)
{
    fv_words x[2 * MS];
#pragma unroll
    for (int i = 0; i < 2 * MS; i++)
        x[i] = a[8 * i * A_WORDS + lane];
    EACH_N(n) {
        const fv_words y = w[n * W_WORDS + lane];
#pragma unroll
        for (int i = 0; i < 4; i += 2)
            EACH_M(m) {
                const uint rows[4] = {x[2 * m].w[i], x[2 * m + 1].w[i], x[2 * m].w[i + 1],
                                      x[2 * m + 1].w[i + 1]};
#if FV_MATH == MATH_I8
                fv_mma_s8(acc[m][n], rows, y.w + i);
#elif FV_MATH == MATH_F16
                fv_mma_f16(acc[m][n], rows, y.w + i);
#else
                fv_mma_bf16(acc[m][n], rows, y.w + i);
#endif
            }
    }
}
#else

/* Loads four of a thread's eight steps: the first four or the others. */
inline fv_parts fv_columns(const fv_words *w, uint lane, int half_)
{
    const bool wide = sizeof(fv_weight) == 4;
    const fv_words y = w[wide ? half_ * 32 + lane : lane];
    fv_parts out;
#pragma unroll
    for (int i = 0; i < 4; i++)
        fv_set<fv_weight, FV_W_PARTS>(out, i, fv_number<fv_weight>(y.w, wide ? i : 4 * half_ + i));
    return out;
}

inline void fv_multiply(fv_sums acc, const fv_words *a, const fv_words *w, uint lane)
{
    const uint row = lane / 4, sixteen = lane % 4 * 2;
#pragma unroll
    for (int half_ = 0; half_ < 2; half_++) {
        fv_parts y[NS];
        EACH_N(n)
            y[n] = fv_columns(w + n * W_WORDS, lane, half_);
        EACH_M(m) {
            const fv_words *from = a + (16 * m + row) * A_WORDS + ((sixteen + half_) ^ row % 2);
            const fv_words x[2] = {from[0], from[8 * A_WORDS]};
            float sum[NS][4] = {};
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                fv_parts rows;
#pragma unroll
                for (int j = 0; j < 4; j++)
                    fv_set<FV_CELL(0), FV_A_PARTS>(rows, j, fv_float_of(x[j % 2].w[i + j / 2]));
                if (FV_A_PARTS > 1)
                    EACH_N(n)
                        fv_mma_tf32(sum[n], rows.low, y[n].high + i);
                if (FV_W_PARTS > 1)
                    EACH_N(n)
                        fv_mma_tf32(sum[n], rows.high, y[n].low + i);
                EACH_N(n)
                    fv_mma_tf32(sum[n], rows.high, y[n].high + i);
            }
            EACH_N(n)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    acc[m][n][i] += sum[n][i];
        }
    }
}
#endif

/* ---- epilogue ---- */

#define OUTS (FV_PAIRS ? 4 : 8) /* output columns that result from eight packed ones */
#define EACH_OUT(i) _Pragma("unroll") for (int i = 0; i < OUTS; i++)
#define FV_TAKE(o, x, p, n) fv_load_row<OUTS, FV_WIDE##o>(x, (p) + (n), (int)dim.s1 - (int)(n))

/* Runs the epilogue for row r of the call, columns from n on. x: their sums; gate: sums of the gate
 * columns, with SWIGLU. */
#define FV_FINISH(x, gate, r, n)                                                                   \
    do {                                                                                           \
        float some_[OUTS];                                                                         \
        if (FV_EPI & FV_EPI_BIAS) {                                                                \
            FV_TAKE(2, some_, FV_AT(2, 0), n);                                                     \
            EACH_OUT(i_)                                                                           \
                x[i_] += some_[i_];                                                                \
        }                                                                                          \
        if (FV_PAIRS && FV_EPI & FV_EPI_BIAS) {                                                    \
            fv_load_row<OUTS, false>(some_, FV_AT(2, 0) + dim.s1 + (n), (int)dim.s1 - (int)(n));   \
            EACH_OUT(i_)                                                                           \
                gate[i_] += some_[i_];                                                             \
        }                                                                                          \
        EACH_OUT(i_)                                                                               \
            x[i_] = FV_PAIRS ? FV_SILU(x[i_]) * gate[i_] : FV_ACT(1, x[i_]);                       \
        if (FV_EPI & FV_EPI_SCALE) {                                                               \
            FV_TAKE(3, some_, FV_AT(3, 0), n);                                                     \
            EACH_OUT(i_)                                                                           \
                x[i_] *= some_[i_];                                                                \
        }                                                                                          \
        if (FV_EPI & FV_EPI_RESIDUAL) {                                                            \
            FV_TAKE(4, some_, FV_AT(4, r), n);                                                     \
            EACH_OUT(i_)                                                                           \
                x[i_] += some_[i_];                                                                \
        }                                                                                          \
        fv_give<OUTS, FV_WIDE5>(FV_AT(5, r) + (n), x, (int)dim.s1 - (int)(n));                     \
    } while (0)

/* Converts the sum of row r and packed column `col` to a float. */
#if FV_MATH == MATH_I8
#define FV_REAL(sum, r, col)                                                                       \
    ((r) < rows && (col) < columns ? (float)(sum) * (FV_ROW_SCALES[r] * scales[col]) : 0.f)
#else
#define FV_REAL(sum, r, col) (sum)
#endif

/* ---- a tile ---- */

/* The tile of this work-group. Tiles are counted down the rows of a band, then along its
 * columns. */
inline uint2 fv_tile(uint down, uint across)
{
    const uint number = get_group_id(0) + get_group_id(1) * down;
    const uint band = number / (BAND * across), first = band * BAND;
    const uint high = min(down - first, (uint)BAND), at = number % (BAND * across);
    return uint2(first + at % high, at / high);
}

kernel void product(FV_ARGS)
{
    FV_SHARED fv_words stage[FV_STAGES][BLOCK_WORDS];
    const uint me = get_local_id(0), warp = me / 32, lane = me % 32;
    const uint columns = FV_PAIRS ? 2 * dim.s1 : dim.s1;
    const uint2 tile = fv_tile((rows + FV_BM - 1) / FV_BM, (columns + FV_BN - 1) / FV_BN);
    const uint row = tile.x * FV_BM, col = tile.y * FV_BN;

    /* The part of A that this thread copies: a 16-byte unit of every PASS-th row. In odd rows of
     * floats, neighbouring units are swapped. */
    const uint PASS = FV_GROUP / A_WORDS, from = me / A_WORDS, sixteen = me % A_WORDS;
    const uint to = from * A_WORDS + (FV_MATH == MATH_TF32 ? sixteen ^ from % 2 : sixteen);
    fv_row run[FV_BM / PASS];
#pragma unroll
    for (uint i = 0; i < FV_BM / PASS; i++)
        run[i] = FV_ROW(min(row + from + i * PASS, rows - 1));
    /* The part of W that it copies, from panels of 32 columns. */
    const uint blocks = (dim.s2 + STEPS - 1) / STEPS, panels = (columns + 31) / 32;
    const fv_words *weight = (const fv_words *)(base1 + at1.x);
#if FV_MATH == MATH_I8
    const float *scales = (const float *)(weight + (size_t)panels * blocks * 4 * W_WORDS);
#endif

    const auto copy = [&](uint block) {
        fv_words *a = stage[block % FV_STAGES], *w = a + FV_BM * A_WORDS;
        const uint k = block * STEPS + sixteen * FV_PER_WORDS(fv_factor);
#pragma unroll
        for (uint i = 0; i < FV_BM / PASS; i++)
            FV_COPY(a + i * PASS * A_WORDS + to, run[i], k);
#pragma unroll
        for (uint i = 0; i < FV_BN / 32; i++) {
            const uint panel = min(col / 32 + i, panels - 1);
#pragma unroll
            for (uint j = me; j < 4 * W_WORDS; j += FV_GROUP)
                fv_cp_async16(w + i * 4 * W_WORDS + j,
                              weight + ((size_t)panel * blocks + block) * 4 * W_WORDS + j);
        }
    };

    fv_sums acc = {};
    const uint top = warp / 2 * WARP_ROWS, left = warp % 2 * WARP_COLS;
    for (uint block = 0; block < FV_STAGES - 1; block++) {
        if (block < blocks)
            copy(block);
        fv_cp_commit();
    }
    for (uint block = 0; block < blocks; block++) {
        fv_cp_wait<FV_STAGES - 2>();
        FV_BARRIER();
        if (block + FV_STAGES - 1 < blocks)
            copy(block + FV_STAGES - 1);
        fv_cp_commit();
        const fv_words *a = stage[block % FV_STAGES], *w = a + FV_BM * A_WORDS;
        fv_multiply(acc, a + top * A_WORDS, w + left / 8 * W_WORDS, lane);
    }

#pragma unroll
    for (uint i = 0; i < 2 * MS * (NS / 4); i++) {
        const uint n = i % (NS / 4) * 4, s = i / (NS / 4);
        const uint r = row + top + 8 * s + lane / 4, at = col + left + 8 * n + lane % 4 * 8;
        float x[8], gate[8];
#pragma unroll
        for (uint j = 0; j < 8; j++) {
            const fv_sum whole = acc[s / 2][n + j / 2][s % 2 * 2 + j % 2];
            const float sum = FV_REAL(whole, r, at + j);
            if (FV_PAIRS && j % 2)
                gate[j / 2] = sum;
            else
                x[FV_PAIRS ? j / 2 : j] = sum;
        }
        if (r < rows && at < columns)
            FV_FINISH(x, gate, r, FV_PAIRS ? at / 2 : at);
    }
}
