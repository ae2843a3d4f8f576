/* gemm_half.cl: GEMM in float16 arithmetic.
 *
 * Products are summed in float16 over 16 steps of k, and these sums in float32. Each row of A and
 * each column of the weight is scaled by a power of two, so that the largest number of a row is in
 * [1024, 2048) and that of a column in [0.5, 1). So nothing overflows. Numbers lose digits only
 * below 2^-24 of a row's largest, or 2^-13 of a column's. Rows and columns are stored in panels,
 * step by step of k, with zeros up to a multiple of 32 steps: the operands of a step are two
 * vectors.
 *
 *   row_scales, row_panels  pre-passes, which write to the scratch, the table of all kernels,
 *                           panels of rows | a scale for each row
 *   product                 FV_TM x FV_TN per work-item, panels from global memory; with FV_TILE
 *                           staged in local memory, with FV_IMAGE the weight's as an image;
 *                           gemm_subgroup.cl has its own
 */
#include "gpu/kernels/row_top.cl"

#define FV_CHUNK 16 /* steps whose products are summed in float16 */
/* Steps that are staged at a time; operands are filled up to a multiple of it. */
#define FV_STAGE (2 * FV_CHUNK)
#define FV_STEPS ((dim.s2 + FV_STAGE - 1) / FV_STAGE * FV_STAGE)
#define FV_ROWS ((rows + FV_ROW_PANEL - 1) / FV_ROW_PANEL * FV_ROW_PANEL)
#define FV_ROW_SCALES                                                                              \
    ((global const float *)((global const half *)table + (size_t)FV_ROWS * FV_STEPS))

#if FV_SUBGROUP
#define FV_ROW_PANEL 16 /* rows in a panel, so that a subgroup's operands are contiguous */
#else
#define FV_ROW_PANEL FV_PANEL
#endif

/* FV_OF_PANELS: number n of the panels at `from`, at step 0. Then the stride between pairs of
 * steps. */
#define FV_OF_PANELS(from, n, width)                                                               \
    ((from) + (size_t)((n) / (width)) * (width)*FV_STEPS + (n) % (width) / 4 * 8 + (n) % 4)
#define FV_IN_PANEL(from, n) FV_OF_PANELS(from, n, FV_PANEL)
#define FV_PAIR (2 * FV_PANEL)
#define FV_COLS_PACKED ((FV_COLS + FV_PANEL - 1) / FV_PANEL * FV_PANEL)

/* ---- the weight ---- */

/* FV_COLUMN: packed column n, a multiple of 4, at step 0. FV_COLUMN_PAIR: stride from there to the
 * next two steps. FV_COLUMN_RUN: the i-th eight numbers from w on. FV_SCALES: the scales of columns
 * from `col` on. */
#if FV_IMAGE
typedef uint fv_column;
#define FV_TEXEL(at) read_imageui(base1, (int)(at))
#define FV_COLUMN(n) ((uint)(FV_IN_PANEL(at1.x, n) / 8))
#define FV_COLUMN_PAIR (FV_PAIR / 8)
#define FV_COLUMN_RUN(w, i) FV_H_TEXEL(FV_TEXEL((w) + (i)))
#define FV_SCALES4(col) as_float4(FV_TEXEL(FV_COLUMN(FV_COLS_PACKED) + (col) / 4))
#define FV_SCALES8(col) (float8)(FV_SCALES4(col), FV_SCALES4((col) + 4))
#define FV_SCALES(col) FV_CAT(FV_SCALES, FV_TN)(col)
#else
typedef global const half *fv_column;
#define FV_COLUMN(n) FV_IN_PANEL(base1 + at1.x, n)
#define FV_COLUMN_PAIR FV_PAIR
#define FV_COLUMN_RUN(w, i) FV_GLOBAL_RUN(w, i)
#define FV_SCALES(col)                                                                             \
    FV_CAT(vload, FV_TN)(0, (global const float *)FV_COLUMN(FV_COLS_PACKED) + (col))
#endif

/* ---- rows ---- */

FV_KERNEL void row_scales(FV_ARGS)
{
    const uint runs = (dim.s2 + 15) / 16, lanes = 1u << fv_spread_bits(runs);
    const uint2 me = fv_spread(runs);
    const uint end = me.x < rows ? runs : 0;
    global const FV_CELL(0) *row = FV_AT(0, min(me.x, rows - 1));
    uint top = 0;
    for (uint run = me.y; run < end; run += lanes)
        top = max(top, fv_top(fv_get_some(row + 16 * run, (int)(dim.s2 - 16 * run))));
    FV_SHARE_TOP(top, me.y, lanes);
    /* Infinity and NaN need no scale. The exponent is limited so that the scale is never
     * denormal. */
    const uint exponent = top >> 23, scale = exponent == 255 ? 127 : max(exponent, 37u) - 10;
    if (me.y == 0 && me.x < rows)
        ((global float *)FV_ROW_SCALES)[me.x] = as_float(scale << 23);
}

/* A work-item packs 8 steps of a row; neighbouring work-items have neighbouring rows. */
FV_KERNEL void row_panels(FV_ARGS)
{
    const uint r = get_group_id(0) * FV_GROUP + get_local_id(0), k = 8 * get_group_id(1);
    if (r >= FV_ROWS)
        return;
    global half *to =
        FV_OF_PANELS((global half *)table, r, FV_ROW_PANEL) + (size_t)k * FV_ROW_PANEL;
    global const FV_CELL(0) *row = FV_AT(0, min(r, rows - 1));
    const float scale = FV_ROW_SCALES[min(r, rows - 1)];
    const float factor = as_float((254u << 23) - as_uint(scale));
    for (uint i = 0; i < 8; i++) {
        const float x = r < rows && k + i < dim.s2 ? FV_GET(0, row + k + i) : 0.f;
        vstore_half_rte(x * factor, 0, to + i / 2 * 2 * FV_ROW_PANEL + i % 2 * 4);
    }
}

/* ---- sums ---- */

/* Operations on vectors of n float16, whose addresses are multiples of their size. The tests'
 * driver has no such arithmetic and defines them in float32. */
#ifndef FV_H
#define FV_H(n) FV_CAT(half, n)
#define FV_H_GLOBAL(p) (*(global const half8 *)(p))
#define FV_H_LOCAL(p) (*(local const half8 *)(p))
#define FV_H_TEXEL(x) as_half8(x)
#ifdef FP_FAST_FMA_HALF
#define FV_H_MAD(n, a, w, sum) fma((FV_H(n))(a), w, sum)
#else /* because not every compiler fuses a product and a sum */
#define FV_H_MAD(n, a, w, sum) mad((FV_H(n))(a), w, sum)
#endif
#define FV_H_FLOAT(n, x) FV_CAT(convert_float, n)(x)
#endif

#define FV_GLOBAL_RUN(p, i) FV_H_GLOBAL((p) + 8 * (i))
#define FV_LOCAL_RUN(p, i) FV_H_LOCAL((p) + 8 * (i))

#define FV_ROW_SUM(i, a, w) sum[i] = FV_H_MAD(FV_TN, a, w, sum[i])
#define FV_ROW_SUMS(i, a, w)                                                                       \
    do {                                                                                           \
        FV_ROW_SUM(i, (a).s0, w);                                                                  \
        FV_ROW_SUM((i) + 1, (a).s1, w);                                                            \
        FV_ROW_SUM((i) + 2, (a).s2, w);                                                            \
        FV_ROW_SUM((i) + 3, (a).s3, w);                                                            \
    } while (0)

/* Adds the products of two steps, whose columns are `first` and `second`, to the sums of all
 * rows. */
#if FV_TN == 8
#define FV_PAIR_COLUMNS(RUN, w)                                                                    \
    const FV_H(8) w0_ = RUN(w, 0), w1_ = RUN(w, 1);                                                \
    const FV_H(8) first_ = (FV_H(8))(w0_.lo, w1_.lo), second_ = (FV_H(8))(w0_.hi, w1_.hi)
#else
#define FV_PAIR_COLUMNS(RUN, w)                                                                    \
    const FV_H(8) w_ = RUN(w, 0);                                                                  \
    const FV_H(4) first_ = w_.lo, second_ = w_.hi
#endif
#define FV_PAIR_ROWS(i, RUN, a)                                                                    \
    do {                                                                                           \
        const FV_H(8) a_ = RUN(a, (i) / 4);                                                        \
        FV_ROW_SUMS(i, a_.lo, first_);                                                             \
        FV_ROW_SUMS(i, a_.hi, second_);                                                            \
    } while (0)

/* Adds the products of FV_CHUNK steps. From two steps to the next two, a and w move by the given
 * strides. Four steps are written out; loading the operands of all would take too many
 * registers. */
#define FV_ADD_CHUNK(ROW_RUN, a, row_stride, COLUMN_RUN, w, column_stride)                         \
    do {                                                                                           \
        FV_H(FV_TN) sum[FV_TM];                                                                    \
        FV_EACH(i)                                                                                 \
            sum[i] = (FV_H(FV_TN))(0);                                                             \
        for (uint k = 0; k < FV_CHUNK; k += 4) {                                                   \
            FV_TIMES(s, 2) {                                                                       \
                FV_PAIR_COLUMNS(COLUMN_RUN, (w) + s * (column_stride));                            \
                FV_PAIR_ROWS(0, ROW_RUN, (a) + s * (row_stride));                                  \
                if (FV_TM == 8)                                                                    \
                    FV_PAIR_ROWS(FV_TM - 4, ROW_RUN, (a) + s * (row_stride));                      \
            }                                                                                      \
            a += 2 * (row_stride);                                                                 \
            w += 2 * (column_stride);                                                              \
        }                                                                                          \
        FV_EACH(i)                                                                                 \
            acc[i] += FV_H_FLOAT(FV_TN, sum[i]);                                                   \
    } while (0)

/* Finishes row i of the tile with the scales of its columns. */
#define FV_FINISH_ONE(i, row, col)                                                                 \
    if ((row) + (i) < rows)                                                                        \
    FV_FINISH_ROW(acc[i] * (FV_ROW_SCALES[(row) + (i)] * columns_), (row) + (i), col)
#define FV_FINISH_TILE(row, col)                                                                   \
    do {                                                                                           \
        const FV_V columns_ = FV_SCALES(col);                                                      \
        FV_FINISH_ALL(row, col);                                                                   \
    } while (0)

#if FV_SUBGROUP
#include "gpu/kernels/gemm_subgroup.cl"
#elif FV_TILE && FV_GROUP > 1
#define FV_BM (FV_GROUP / FV_LN * FV_TM) /* rows and columns of a work-group */
#define FV_BN (FV_LN * FV_TN)

/* Stages two steps of `width` numbers of the panels at `from`, from number n0 on, as fours; then
 * the next two steps. Numbers from `end` on do not exist and are not used. */
#define FV_STAGE_PANELS(to, width, from, n0, end)                                                  \
    for (uint i = lane; i < (width)*FV_STAGE / 8; i += FV_GROUP)                                   \
    to[i] =                                                                                        \
        *(global const uint4 *)(FV_IN_PANEL(from, min((n0) + i % ((width) / 4) * 4, (end)-4)) +    \
                                (size_t)(k0 / 2 + i / ((width) / 4)) * FV_PAIR)

FV_KERNEL void product(FV_ARGS)
{
    FV_SHARED uint4 as[FV_STAGE * FV_BM / 8];
    FV_SHARED uint4 ws[FV_STAGE * FV_BN / 8];
    const uint lane = get_local_id(0), m = lane / FV_LN * FV_TM, n = lane % FV_LN * FV_TN;
    const uint row = get_group_id(0) * FV_BM, col = get_group_id(1) * FV_BN;
    FV_V acc[FV_TM];
    FV_EACH(i)
        acc[i] = (FV_V)(0);
    for (uint k0 = 0; k0 < FV_STEPS; k0 += FV_STAGE) {
        FV_BARRIER();
        FV_STAGE_PANELS(as, FV_BM, (global const half *)table, row, FV_ROWS);
        FV_STAGE_PANELS(ws, FV_BN, base1 + at1.x, col, FV_COLS_PACKED);
        FV_BARRIER();
        local const half *a = (local const half *)as + 2 * m, *w = (local const half *)ws + 2 * n;
        /* Both chunks are written out: in a loop over them, Intel's compiler keeps the sums of all
         * rows twice, and runs out of registers. */
        FV_ADD_CHUNK(FV_LOCAL_RUN, a, 2 * FV_BM, FV_LOCAL_RUN, w, 2 * FV_BN);
        FV_ADD_CHUNK(FV_LOCAL_RUN, a, 2 * FV_BM, FV_LOCAL_RUN, w, 2 * FV_BN);
    }
    if (col + n < FV_COLS)
        FV_FINISH_TILE(row + m, col + n);
}
#else
FV_KERNEL void product(FV_ARGS)
{
    const uint lane = get_local_id(0);
    const uint row = (get_group_id(0) * (FV_GROUP / FV_LN) + lane / FV_LN) * FV_TM;
    const uint col = (get_group_id(1) * FV_LN + lane % FV_LN) * FV_TN;
    if (row >= rows || col >= FV_COLS)
        return;
    FV_V acc[FV_TM];
    global const half *a = FV_IN_PANEL((global const half *)table, row);
    fv_column w = FV_COLUMN(col);
    FV_EACH(i)
        acc[i] = (FV_V)(0);
    for (uint k0 = 0; k0 < FV_STEPS; k0 += FV_CHUNK)
        FV_ADD_CHUNK(FV_GLOBAL_RUN, a, FV_PAIR, FV_COLUMN_RUN, w, FV_COLUMN_PAIR);
    FV_FINISH_TILE(row, col);
}
#endif
