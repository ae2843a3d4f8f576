/* gemm.cl: products of rows and a packed weight (GEMM), and convolutions as products of windows,
 * which are read in place (CONV). src/ops/ref/ref_gemm.c and ref_conv.c define the results.
 *
 * The weight is stored in panels of 32 columns, K x 32 each, zeros past the last column; all
 * kernels use the same layout. With SWIGLU column 2n is value row n and column 2n + 1 its gate.
 *
 *   direct  a tile of FV_TM x FV_TN per work-item, operands from global memory: where local memory
 *           is main memory
 *   tile    the same, operands of a work-group staged in local memory
 *   wide    for CPUs: gemm_wide.cl
 *   thin    few rows: the work-items of a group share out k, then add up
 *   half    products in float16: gemm_half.cl, which has its own direct and tile, and
 *           gemm_subgroup.cl
 *   finish  the epilogue alone, of sums that another library left in the step's scratch
 *
 * Weights that are only stored as int8 end with a scale for each packed column, and are converted
 * to floats when they are read.
 *
 * Products of int8 work in the same way on words, which have four steps of k. The rows' words are
 * in the scratch, where `quantise` has written them; the weight ends with a scale for each packed
 * column.
 *
 * Every sum over k is ascending, with the same operations for every row, so that a result does not
 * depend on the other rows of its tile.
 *
 * Macros of the host side: FV_CONV 1 for windows; FV_I8 1 for products of int8, FV_W8 1 for weights
 * that are only stored so; FV_TM, FV_TN tile of a work-item (FV_TN columns of the packed weight: 2,
 * 4, 8 or 16); FV_LN work-items side by side along the columns.
 */
#define FV_PANEL 32
/* Loops over the rows of a tile. */
#define FV_EACH(i) FV_TIMES(i, FV_TM)
#define FV_PAIRS ((FV_EPI & FV_EPI_SWIGLU) != 0)

#include "gpu/kernels/activation.cl"

/* Vectors of FV_TN packed columns, and of the output columns that result from them. */
#define FV_V FV_CAT(float, FV_TN)
#if FV_EPI & FV_EPI_SWIGLU
#if FV_TN == 2
#define FV_OW 1
#elif FV_TN == 4
#define FV_OW 2
#elif FV_TN == 8
#define FV_OW 4
#else
#define FV_OW 8
#endif
#else
#define FV_OW FV_TN
#endif

#define float1 float
#define FV_GET1(n, p) FV_GET(n, p)
#define FV_GET2(n, p) (float2)(FV_GET(n, p), FV_GET(n, (p) + 1))
#define FV_GETV(w, n, p) FV_CAT(FV_GET, w)(n, p)
#define FV_PUT1(n, p, x) FV_PUT(n, p, x)
#define FV_PUT2(n, p, x) (FV_PUT(n, p, (x).s0), FV_PUT(n, (p) + 1, (x).s1))
#define FV_PUTV(w, n, p, x) FV_CAT(FV_PUT, w)(n, p, x)

/* ---- epilogue ---- */

/* Runs the epilogue for `w` sums and stores them in row r, columns from n on. gate: sums of the
 * gate columns, with SWIGLU. */
#define FV_FINISH(w, sum, gate, r, n)                                                              \
    do {                                                                                           \
        FV_CAT(float, w) y_ = sum;                                                                 \
        if (FV_EPI & FV_EPI_BIAS)                                                                  \
            y_ += FV_GETV(w, 2, FV_AT(2, 0) + (n));                                                \
        if (FV_PAIRS) {                                                                            \
            FV_CAT(float, w) g_ = gate;                                                            \
            if (FV_EPI & FV_EPI_BIAS)                                                              \
                g_ += FV_GETV(w, 2, FV_AT(2, 0) + dim.s1 + (n));                                   \
            y_ = FV_SILU(y_) * g_;                                                                 \
        }                                                                                          \
        y_ = FV_ACT(w, y_);                                                                        \
        if (FV_EPI & FV_EPI_SCALE)                                                                 \
            y_ *= FV_GETV(w, 3, FV_AT(3, 0) + (n));                                                \
        if (FV_EPI & FV_EPI_RESIDUAL)                                                              \
            y_ += FV_GETV(w, 4, FV_AT(4, r) + (n));                                                \
        FV_PUTV(w, 5, FV_AT(5, r) + (n), y_);                                                      \
    } while (0)

#if FV_EPI & FV_EPI_SWIGLU
#define FV_VALUES(x) FV_EVEN(x)
#define FV_GATES(x) FV_ODD(x)
#define FV_GATE(x, i) FV_NUMBER(FV_ODD(x), i)
#else
#define FV_VALUES(x) (x)
#define FV_GATES(x) 0.f
#define FV_GATE(x, i) 0.f
#endif

/* Number i of a vector of 2, 4, 8 or 16, where i is known only at run time. Chosen by halves,
 * because an array that is indexed with i would be in memory, and a stack slows down the whole
 * kernel. */
#define fv_number1(x, i) (x)
static inline float fv_number2(float2 x, uint i)
{
    return i & 1 ? x.s1 : x.s0;
}
static inline float fv_number4(float4 x, uint i)
{
    return fv_number2(i & 2 ? FV_HIGH(x) : FV_LOW(x), i);
}
static inline float fv_number8(float8 x, uint i)
{
    return fv_number4(i & 4 ? FV_HIGH(x) : FV_LOW(x), i);
}
#if FV_TN == 16 /* OpenCL only */
static inline float fv_number16(float16 x, uint i)
{
    return fv_number8(i & 8 ? x.hi : x.lo, i);
}
#endif
#define FV_NUMBER(x, i) FV_CAT(fv_number, FV_OW)(x, i)

/* Finishes a row of a tile: FV_TN sums of packed columns from `col` on. */
#define FV_FINISH_ROW(x, r, col)                                                                   \
    do {                                                                                           \
        const FV_V sums_ = (x);                                                                    \
        const uint n_ = FV_PAIRS ? (col) / 2 : (col);                                              \
        if (n_ + FV_OW <= dim.s1) {                                                                \
            FV_FINISH(FV_OW, FV_VALUES(sums_), FV_GATES(sums_), r, n_);                            \
        } else {                                                                                   \
            for (uint j_ = 0; n_ + j_ < dim.s1; j_++)                                              \
                FV_FINISH(1, FV_NUMBER(FV_VALUES(sums_), j_), FV_GATE(sums_, j_), r, n_ + j_);     \
        }                                                                                          \
    } while (0)

/* Calls FV_FINISH_ONE(i, row, col) for each row i of a tile that begins at (row, col). Written out,
 * because Intel's compiler ignores the unroll pragma of a loop in which a function is called for
 * the first time. It does not unroll a loop with this many operations itself, and then keeps the
 * sums in memory. */
#define FV_FINISH_FOUR(i, row, col)                                                                \
    FV_FINISH_ONE(i, row, col);                                                                    \
    FV_FINISH_ONE((i) + 1, row, col);                                                              \
    FV_FINISH_ONE((i) + 2, row, col);                                                              \
    FV_FINISH_ONE((i) + 3, row, col)
#if FV_TM == 4
#define FV_FINISH_ALL(row, col) FV_FINISH_FOUR(0, row, col)
#elif FV_TM == 8
#define FV_FINISH_ALL(row, col)                                                                    \
    FV_FINISH_FOUR(0, row, col);                                                                   \
    FV_FINISH_FOUR(4, row, col)
#elif FV_TM == 16
#define FV_FINISH_ALL(row, col)                                                                    \
    FV_FINISH_FOUR(0, row, col);                                                                   \
    FV_FINISH_FOUR(4, row, col);                                                                   \
    FV_FINISH_FOUR(8, row, col);                                                                   \
    FV_FINISH_FOUR(12, row, col)
#else
#define FV_FINISH_ALL(row, col)                                                                    \
    FV_EACH(i)                                                                                     \
    FV_FINISH_ONE(i, row, col)
#endif

/* The weight's buffer or, with FV_IMAGE (OpenCL only), an image of it, with 16 bytes per texel. */
#if FV_IMAGE
#define FV_IN_WEIGHT read_only image1d_buffer_t base1, const uint2 at1
#else
#define FV_IN_WEIGHT FV_IN(1)
#endif
#define FV_ARGS FV_IN(0), FV_IN_WEIGHT, FV_IN(2), FV_IN(3), FV_IN(4), FV_OUT(5), FV_CALL

/* Number of packed columns, without those that only fill up the last panel. */
#define FV_COLS (FV_PAIRS ? 2 * dim.s1 : dim.s1)

#if FV_HALVES
#include "gpu/kernels/gemm_half.cl"
#else

/* ---- operands and sums ---- */

/* FV_STEPS    steps of k that are read at once: 1, or 4 as a word
 * FV_WEIGHT   where the packed weight begins; FV_GET_W(n, p, scale): loads n neighbours of it
 * FV_SCALE(n, col)  argument `scale` of FV_GET_W for n columns from `col` on; type fv_scale
 * FV_TO_W(x)  converts loaded weights to operands of FV_ADD
 * FV_ADD      adds the products of a number of A and several weights to sums
 * FV_REAL     converts the sums of row r, columns from `col` on, to floats */
#define FV_SCALES                                                                                  \
    ((global const float *)(FV_WEIGHT +                                                            \
                            (size_t)((FV_COLS + FV_PANEL - 1) / FV_PANEL) * FV_PANEL * FV_STEPS))
/* Number i of the four in a word, the lowest first. */
#define FV_BYTE(x, i) ((x) << (24 - 8 * (i)) >> 24)
#if !FV_W8
typedef int fv_scale; /* none */
#define FV_SCALE(n, col) 0
#endif
#if FV_I8
#include "gpu/kernels/quantise.cl"
typedef uint fv_factor;
typedef global const uint *fv_weight;
#define FV_F4 uint4
#define FV_F8 uint8
#define FV_SUM1 int
#define FV_SUM FV_CAT(int, FV_TN)
#define FV_STEPS (16 * FV_ROW_RUNS)
#define FV_WEIGHT ((fv_weight)(base1 + at1.x))
#define FV_GET_W(n, p, scale) FV_CAT(FV_LOAD, n)(FV_ALIGNED(n, p))
#define FV_REAL(sum, r, col)                                                                       \
    (FV_CAT(convert_float, FV_TN)(sum) *                                                           \
     (FV_ROW_SCALES[r] * FV_CAT(FV_LOAD, FV_TN)(FV_SCALES + (col))))
#if FV_DOT
#include "gpu/kernels/dots.cl"
static inline int8 fv_dots8(uint a, uint8 w, int8 sum)
{
    return (int8)(fv_dots4(a, FV_LOW(w), FV_LOW(sum)), fv_dots4(a, FV_HIGH(w), FV_HIGH(sum)));
}
#define FV_W FV_CAT(uint, FV_TN)
#define FV_TO_W(x) (x)
#define FV_ADD(a, w, sum) FV_CAT(fv_dots, FV_TN)(a, w, sum)
#else
typedef struct fv_bytes {
    FV_SUM s0, s1, s2, s3;
} fv_bytes;
static inline fv_bytes fv_bytes_of(FV_CAT(uint, FV_TN) words)
{
    const FV_SUM x = FV_CAT(as_int, FV_TN)(words);
    const fv_bytes out = {FV_BYTE(x, 0), FV_BYTE(x, 1), FV_BYTE(x, 2), FV_BYTE(x, 3)};
    return out;
}
#define FV_W fv_bytes
#define FV_TO_W(x) fv_bytes_of(x)
#define FV_ADD(a, w, sum)                                                                          \
    ((sum) + FV_BYTE((int)(a), 0) * (w).s0 + FV_BYTE((int)(a), 1) * (w).s1 +                       \
     FV_BYTE((int)(a), 2) * (w).s2 + FV_BYTE((int)(a), 3) * (w).s3)
#endif
#else
typedef float fv_factor;
typedef global const FV_CELL(1) *fv_weight;
#define FV_F4 float4
#define FV_F8 float8
#define FV_SUM1 float
#define FV_SUM FV_V
#define FV_STEPS dim.s2
#define FV_WEIGHT (base1 + at1.x)
#if FV_W8
/* Columns are packed four to a word. */
static inline float4 fv_numbers4(fv_weight p)
{
    const int x = *(global const int *)p;
    return (float4)(FV_BYTE(x, 0), FV_BYTE(x, 1), FV_BYTE(x, 2), FV_BYTE(x, 3));
}
static inline float8 fv_numbers8(fv_weight p)
{
    return (float8)(fv_numbers4(p), fv_numbers4(p + 4));
}
#if FV_TN == 16
static inline float16 fv_numbers16(fv_weight p)
{
    return (float16)(fv_numbers8(p), fv_numbers8(p + 8));
}
#endif
typedef FV_V fv_scale;
#define FV_SCALE(n, col) FV_CAT(FV_LOAD, n)(FV_SCALES + (col))
#define FV_GET_W(n, p, scale) (FV_CAT(fv_numbers, n)(p) * (scale))
#else
#define FV_GET_W(n, p, scale) FV_GETV(n, 1, FV_ALIGNED(n, p))
#endif
#define FV_W FV_V
#define FV_TO_W(x) (x)
#define FV_ADD(a, w, sum) FV_MAD((FV_V)(a), w, sum)
#define FV_REAL(sum, r, col) (sum)
#endif

#define FV_FINISH_ONE(i, row, col)                                                                 \
    if ((row) + (i) < rows)                                                                        \
    FV_FINISH_ROW(FV_REAL(acc[i], (row) + (i), col), (row) + (i), col)

/* A column of the packed weight at step 0; the next step is FV_PANEL numbers further on. */
#define FV_COLUMN(col)                                                                             \
    (FV_WEIGHT + (size_t)((col) / FV_PANEL) * FV_PANEL * FV_STEPS + (col) % FV_PANEL)

/* ---- where A comes from ---- */

/* The sum over k consists of FV_TAPS runs of FV_DEPTH steps that are contiguous in A. For a window
 * these are its taps, FV_SIDE in a line; for GEMM it is one run, the row. */
#if FV_CONV
#define FV_SIDE dim.s3
#define FV_DEPTH dim.s6
#else
#define FV_SIDE 1
#define FV_DEPTH FV_STEPS
#endif
#define FV_TAPS (FV_SIDE * FV_SIDE)

/* The elements of a run in one of the call's rows; NULL: they are zeros. */
#if FV_I8
typedef global const uint *fv_source;
#else
typedef global const FV_CELL(0) *fv_source;
#endif

/* Finds where row r of a call begins. This is done once, because divisions are slow. Then finds the
 * row's run of tap (kx, ky). */
#if FV_CONV
typedef struct fv_place {
    int x, y; /* position of the window's first tap, which may be outside the grid */
} fv_place;
static inline fv_place fv_place_of(uint pixel, uint8 dim, uint4 u)
{
    const uint y = pixel / u.s2, x = pixel - y * u.s2;
    const fv_place out = {(int)(x * dim.s4) - (int)dim.s5, (int)(y * dim.s4) - (int)dim.s5};
    return out;
}
static inline fv_source fv_window(fv_source in, uint ld, int x, int y, uint4 u)
{
    const bool inside = y >= 0 && y < (int)u.s1 && x >= 0 && x < (int)u.s0;
    return inside ? in + ((size_t)y * u.s0 + x) * ld : 0;
}
#define FV_PLACE(r) fv_place_of(row0 + (r), dim, u)
#define FV_RUN(place, kx, ky)                                                                      \
    fv_window(base0 + at0.x, at0.y, (place).x + (int)(kx), (place).y + (int)(ky), u)
#else
typedef fv_source fv_place;
#if FV_I8
#define FV_PLACE(r) (table + (size_t)(r)*FV_STEPS)
#else
#define FV_PLACE(r) FV_AT(0, r)
#endif
#define FV_RUN(place, kx, ky) (place)
#endif

/* Loads one or four steps of a run; zeros if it is outside the grid. */
#if FV_CONV
#define FV_A1(p, k) ((p) ? FV_GET(0, (p) + (k)) : 0.f)
#define FV_A4(p, k) ((p) ? FV_GET4(0, (p) + (k)) : (float4)(0.f))
#elif FV_I8
#define FV_A1(p, k) (p)[k]
#define FV_A4(p, k) FV_LOAD4((p) + (k))
#else
#define FV_A1(p, k) FV_GET(0, (p) + (k))
#define FV_A4(p, k) FV_GET4(0, (p) + (k))
#endif

/* ---- direct ---- */

#if FV_DIRECT || (FV_TILE && FV_GROUP == 1)
#define FV_STEP(s)                                                                                 \
    do {                                                                                           \
        const FV_W w_ = FV_TO_W(FV_GET_W(FV_TN, w, scale));                                        \
        w += FV_PANEL;                                                                             \
        FV_EACH(i)                                                                                 \
            acc[i] = FV_ADD(a[i].s, w_, acc[i]);                                                   \
    } while (0)

static inline void fv_add_run(FV_SUM acc[FV_TM], const fv_source run[FV_TM], fv_weight *weight,
                              fv_scale scale, uint depth)
{
    fv_weight w = *weight;
    FV_F4 a[FV_TM];
    uint k = 0;
    for (; k + 4 <= depth; k += 4) {
        FV_EACH(i)
            a[i] = FV_A4(run[i], k);
        FV_STEP(s0);
        FV_STEP(s1);
        FV_STEP(s2);
        FV_STEP(s3);
    }
    for (; k < depth; k++) {
        FV_EACH(i)
            a[i] = (FV_F4)(FV_A1(run[i], k));
        FV_STEP(s0);
    }
    *weight = w;
}

FV_KERNEL void product(FV_ARGS)
{
    const uint lane = get_local_id(0);
    const uint row = (get_group_id(0) * (FV_GROUP / FV_LN) + lane / FV_LN) * FV_TM;
    const uint col = (get_group_id(1) * FV_LN + lane % FV_LN) * FV_TN;
    if (row >= rows || col >= FV_COLS)
        return;
    FV_SUM acc[FV_TM];
    fv_source run[FV_TM];
    fv_weight w = FV_COLUMN(col);
    FV_EACH(i)
        acc[i] = (FV_SUM)(0);
    for (uint tap = 0; tap < FV_TAPS; tap++) {
        /* Positions are computed again, because keeping them would take too many registers. */
        FV_EACH(i)
            run[i] = FV_RUN(FV_PLACE(min(row + i, rows - 1)), tap % FV_SIDE, tap / FV_SIDE);
        fv_add_run(acc, run, &w, FV_SCALE(FV_TN, col), FV_DEPTH);
    }
    FV_FINISH_ALL(row, col);
}
#endif

#if FV_WIDE
#include "gpu/kernels/gemm_wide.cl"
#endif

/* ---- tile ---- */

#if FV_TILE && FV_GROUP > 1
#define FV_BK 16                         /* steps of k that are staged in local memory at a time */
#define FV_BM (FV_GROUP / FV_LN * FV_TM) /* rows and columns of a work-group */
#define FV_BN (FV_LN * FV_TN)
/* Stride between steps of the staged rows: a multiple of four, which also spreads steps over the
 * banks. */
#define FV_PITCH ((FV_BM + 3) / 4 * 4 + 4)
#define FV_FOURS (FV_BM * FV_BK / 4)                     /* of steps, of all rows */
#define FV_STAGED ((FV_FOURS + FV_GROUP - 1) / FV_GROUP) /* fours that a work-item stages */

/* A step of the sum: its tap, and its offset in the tap's run. */
typedef struct fv_step {
    uint kx, ky, k;
} fv_step;

static inline fv_step fv_forward(fv_step at, uint steps, uint8 dim)
{
    at.k += steps;
    for (; FV_CONV && at.k >= dim.s6; at.k -= dim.s6)
        if (++at.kx == dim.s3) {
            at.kx = 0;
            at.ky++;
        }
    return at;
}

/* Number i of a row's numbers from a step on, of which `left` exist before the end. */
#define FV_A_NEXT(i)                                                                               \
    do {                                                                                           \
        x.s##i = left > i ? FV_A1(FV_RUN(place[j], at.kx, at.ky), at.k) : 0;                       \
        at = fv_forward(at, 1, dim);                                                               \
    } while (0)

/* FV_TN numbers in fours. */
#if FV_TN == 4
#define FV_OF_FOURS(p) (p)[0]
#elif FV_TN == 8
#define FV_OF_FOURS(p) FV_VEC(FV_F8)((p)[0], (p)[1])
#endif

#define FV_ADD_ROW(i, a) acc[i] = FV_ADD(a, w, acc[i])
#define FV_ADD_ROWS(i)                                                                             \
    do {                                                                                           \
        const FV_F4 a_ = as[(k * FV_PITCH + m + (i)) / 4];                                         \
        FV_ADD_ROW(i, a_.s0);                                                                      \
        FV_ADD_ROW((i) + 1, a_.s1);                                                                \
        FV_ADD_ROW((i) + 2, a_.s2);                                                                \
        FV_ADD_ROW((i) + 3, a_.s3);                                                                \
    } while (0)

FV_KERNEL void product(FV_ARGS)
{
    /* declared as vectors of four, so that these are aligned */
    FV_SHARED FV_F4 as[FV_BK * FV_PITCH / 4];
    FV_SHARED FV_F4 ws[FV_BK * FV_BN / 4];
    const uint lane = get_local_id(0), m = lane / FV_LN * FV_TM, n = lane % FV_LN * FV_TN;
    const uint row = get_group_id(0) * FV_BM, col = get_group_id(1) * FV_BN;
    FV_SUM acc[FV_TM];
    fv_place place[FV_STAGED];
    fv_step front = {0, 0, 0};
    FV_EACH(i)
        acc[i] = (FV_SUM)(0);
    FV_TIMES(j, FV_STAGED)
        place[j] = FV_PLACE(min(row + (lane + j * FV_GROUP) / (FV_BK / 4), rows - 1));
    for (uint k0 = 0; k0 < FV_STEPS; k0 += FV_BK) {
        FV_BARRIER();
        FV_TIMES(j, FV_STAGED) {
            const uint four = lane + j * FV_GROUP, r = four / (FV_BK / 4),
                       k = four % (FV_BK / 4) * 4;
            const uint left = FV_STEPS - min(k0 + k, FV_STEPS);
            fv_step at = fv_forward(front, k, dim);
            local fv_factor *to = (local fv_factor *)as + k * FV_PITCH + r;
            FV_F4 x = (FV_F4)(0);
            if (left >= 4 && FV_DEPTH % 4 == 0) {
                x = FV_A4(FV_RUN(place[j], at.kx, at.ky), at.k);
            } else {
                FV_A_NEXT(0);
                FV_A_NEXT(1);
                FV_A_NEXT(2);
                FV_A_NEXT(3);
            }
            if (four < FV_FOURS) {
                to[0] = x.s0;
                to[FV_PITCH] = x.s1;
                to[2 * FV_PITCH] = x.s2;
                to[3 * FV_PITCH] = x.s3;
            }
        }
        for (uint i = lane; i < FV_BN * FV_BK / 4; i += FV_GROUP) {
            const uint k = i / (FV_BN / 4), c = i % (FV_BN / 4) * 4;
            const bool inside = col + c < FV_COLS && k0 + k < FV_STEPS;
            ws[i] = inside ? FV_GET_W(4, FV_COLUMN(col + c) + (size_t)(k0 + k) * FV_PANEL,
                                      FV_SCALE(4, col + c))
                           : (FV_F4)(0);
        }
        front = fv_forward(front, FV_BK, dim);
        FV_BARRIER();
        for (uint k4 = 0; k4 < FV_BK; k4 += 4) {
            FV_TIMES(s, 4) {
                const uint k = k4 + s;
                local const FV_F4 *w4 = ws + (k * FV_BN + n) / 4;
                const FV_W w = FV_TO_W(FV_OF_FOURS(w4));
#if FV_TM == 8
                FV_ADD_ROWS(0);
                FV_ADD_ROWS(4);
#elif FV_TM == 4
                FV_ADD_ROWS(0);
#else
                FV_EACH(i)
                    FV_ADD_ROW(i, ((local const fv_factor *)as)[k * FV_PITCH + m + i]);
#endif
            }
        }
    }
    if (col + n >= FV_COLS)
        return;
    FV_FINISH_ALL(row + m, col + n);
}
#endif

/* ---- thin ---- */

#if FV_THIN
#define FV_LK (FV_GROUP / FV_LN) /* work-items that split k among them */

FV_KERNEL void product(FV_ARGS)
{
    const uint lane = get_local_id(0), part = lane / FV_LN;
    const uint row = get_group_id(0) * FV_TM;
    const uint col = (get_group_id(1) * FV_LN + lane % FV_LN) * FV_TN;
    const bool wanted = col < FV_COLS;
    FV_SUM acc[FV_TM];
    FV_EACH(i)
        acc[i] = (FV_SUM)(0);
    fv_place place[FV_TM];
    FV_EACH(i)
        place[i] = FV_PLACE(min(row + i, rows - 1));
    for (uint tap = 0; tap < FV_TAPS && wanted; tap++) {
        fv_source run[FV_TM];
        FV_EACH(i)
            run[i] = FV_RUN(place[i], tap % FV_SIDE, tap / FV_SIDE);
        for (uint k = part; k < FV_DEPTH; k += FV_LK) {
            const FV_W w =
                FV_TO_W(FV_GET_W(FV_TN, FV_COLUMN(col) + (size_t)(tap * FV_DEPTH + k) * FV_PANEL,
                                 FV_SCALE(FV_TN, col)));
            FV_EACH(i)
                acc[i] = FV_ADD(FV_A1(run[i], k), w, acc[i]);
        }
    }
#if FV_LK > 1
    FV_SHARED FV_SUM1 partial[FV_GROUP * FV_TN];
    local FV_SUM1 *mine = partial + lane * FV_TN;
    FV_EACH(i) {
        FV_BARRIER();
        FV_CAT(vstore, FV_TN)(acc[i], 0, mine);
        for (uint left = FV_LK / 2; left > 0; left /= 2) {
            FV_BARRIER();
            if (part < left) {
                acc[i] += FV_CAT(vload, FV_TN)(0, mine + left * FV_LN * FV_TN);
                FV_CAT(vstore, FV_TN)(acc[i], 0, mine);
            }
        }
    }
#endif
    if (part == 0 && wanted) {
        FV_FINISH_ALL(row, col);
    }
}
#endif

#endif /* FV_HALVES */

/* ---- finish ---- */

#if FV_SUMS
/* The sums begin at float ring.s0 of the scratch. A row has N sums; with SWIGLU N values, then N
 * gates. */
FV_KERNEL void finish(FV_ARGS)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint n = 4 * me.y, r = me.x;
    const uint width = FV_COLS, gate = FV_PAIRS ? dim.s1 : 0;
    global const float *sums = (global const float *)table + ring.s0 + (size_t)r * width;
    if (n + 4 <= dim.s1)
        FV_FINISH(4, FV_LOAD4(sums + n), FV_LOAD4(sums + gate + n), r, n);
    else
        for (uint i = n; i < dim.s1; i++)
            FV_FINISH(1, sums[i], sums[gate + i], r, i);
}
#endif
