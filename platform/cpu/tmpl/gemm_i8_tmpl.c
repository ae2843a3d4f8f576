/* gemm_i8_tmpl.c: computes tiles of GEMM with 8-bit integers, and quantises rows for them as
 * src/ops/quantise.h defines.
 *
 * DOTS: the file that defines how a level multiplies: SPLIT, the sums per column (the tile adds
 * them up); INTERLEAVE, the steps of a column that one instruction multiplies, if not STEPS; BIAS,
 * the offset that instructions need on the weight; and
 *
 *   number                      type of packed rows: int8_t, or int16_t for products of 16 bits
 *   sums                        a vector of sums: FV_W / SPLIT columns
 *   none()                      of zeros
 *   columns(w)                  the numbers of one instruction for each of these columns, from w on
 *   steps(a)                    the numbers of one instruction at a, broadcast to all columns
 *   add(sum, steps, columns)    sum + products
 *   put(acc, sum[SPLIT])        the sums of FV_W columns
 *   of_whole(x, off)            FV_W whole numbers x - off as floats
 *   put_64(q, x, total)         64 floats, |x| < 128, as numbers, which are added to `total`, a
 *                               vector of sums, where BIAS is not 0
 *   total_of(total)             the sum of its lanes
 *
 * A level with an instruction that multiplies 8-bit numbers defines PIXELS. It multiplies the
 * pixels of a convolution in place, and also defines
 *
 *   begin(x)                    a vector of sums that begin with x
 *   as_floats(sum)              FV_W sums as floats
 *
 * TILES: the file of a level whose tiles are faster than the loops below. It defines tile(), BIAS,
 * number and the last three of the first list. */
#include "platform/cpu/vec/vec.h"

#if defined FV_ISA_AVX512_VNNI
#define MR 6
#define VECS 4
#define TILE 6x64
#define PANEL "panel64x4u"
#define RATE 800e9
#define DOTS "platform/cpu/x86/dot_vnni512.h"
#elif defined FV_ISA_AVX512
#define MR 6
#define VECS 4
#define TILE 6x64
#define PANEL "panel64x2"
#define RATE 190e9
#define DOTS "platform/cpu/x86/dot_madd512.h"
#elif defined FV_ISA_AVX_VNNI
#define MR 6
#define VECS 2
#define TILE 6x16
#define PANEL "panel16x4u"
#define RATE 400e9
#define DOTS "platform/cpu/x86/dot_vnni256.h"
#elif defined FV_ISA_AVX2
#define MR 6
#define VECS 2
#define TILE 6x16
#define PANEL "panel16x2"
#define RATE 150e9
#define DOTS "platform/cpu/x86/dot_madd256.h"
#elif defined FV_ISA_NEON_I8MM
#define MR 12
#define VECS 2
#define TILE 12x8
#define PANEL "panel8x8"
#define STEPS 8
#define RATE 160e9
#define TILES "platform/cpu/arm/gemm_i8_i8mm.h"
#elif defined FV_ISA_NEON_SDOT
#define MR 12
#define VECS 2
#define TILE 12x8
#define PANEL "panel8x4"
#define RATE 80e9
#define TILES "platform/cpu/arm/gemm_i8_sdot.h"
#elif defined FV_ISA_NEON
#define MR 6
#define VECS 2
#define TILE 6x8
#define PANEL "panel8x4"
#define RATE 24e9
#define DOTS "platform/cpu/arm/dot_neon.h"
#else
#define MR 2
#define VECS 2
#define TILE 2x8
#define PANEL "panel8x4"
#define RATE 4e9
#define DOTS "platform/cpu/vec/dot_c.h"
#endif
#define NR (VECS * FV_W)
#define KC 1024 /* no effect, since K is always one block */

#include "ops/quantise.h"
#include "ops/rows_i8.h"
#include "platform/cpu/gemm.h"
#include "platform/cpu/vec/butterfly.h"

FV_FN fv_v sums_of(const fv_gemm_out *o, const float *acc, uint32_t i, uint32_t j);
#define SUMS sums_of
#include "platform/cpu/tmpl/gemm_microkernel.h"

/* ---- tiles ---- */

#ifdef TILES
#include TILES
#define INTERLEAVE STEPS
#define PRODUCTS .tile = tile
#else
#include DOTS
#ifndef INTERLEAVE
#define INTERLEAVE STEPS
#endif

/* Adds the products of four steps to the sums of m rows and the first `vecs` vectors of columns.
 * row(i) points at row i's steps. */
#define ADD_GROUP(sum, row, w, m, vecs)                                                            \
    FV_UNROLL                                                                                      \
    for (int k = 0; k < 4; k += INTERLEAVE) {                                                      \
        numbers column[VECS * SPLIT];                                                              \
        FV_UNROLL                                                                                  \
        for (int v = 0; v < (vecs)*SPLIT; v++)                                                     \
            column[v] = columns((w) + NR * k + INTERLEAVE * FV_W / SPLIT * v);                     \
        FV_UNROLL                                                                                  \
        for (int i = 0; i < (m); i++) {                                                            \
            const numbers x = steps(row(i) + k);                                                   \
            FV_UNROLL                                                                              \
            for (int v = 0; v < (vecs)*SPLIT; v++)                                                 \
                sum[i][v] = add(sum[i][v], x, column[v]);                                          \
        }                                                                                          \
    }

/* Multiplies m rows by a panel. Row i's first four steps are at a + i ld; each following group of
 * four is `step` numbers further on. */
FV_FN void dot_rows(int32_t *acc, const number *a, size_t ld, size_t step, const int8_t *w,
                    size_t groups, int m, const char *prefetch)
{
    sums sum[MR][VECS * SPLIT];
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS * SPLIT; v++)
            sum[i][v] = none();
    }
    for (; groups > 0; groups--, a += step, w += 4 * NR) {
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        for (int v = 0; v < NR; v += 16) /* all of K does not stay in L1 */
            __builtin_prefetch(w + 32 * NR + 4 * v, 0, 3);
#define ROW(i) (a + (i)*ld)
        ADD_GROUP(sum, ROW, w, m, VECS)
#undef ROW
    }
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            put(acc + NR * i + FV_W * v, &sum[i][SPLIT * v]);
    }
}

/* `first` is not read: K is one block, so that every tile is the first. */
#if defined PIXELS
static void unpacked(float *acc, const void *a, size_t ld, const void *w, size_t groups, uint32_t m,
                     bool first, const char *prefetch)
{
    (void)first;
#define CALL(M) dot_rows((int32_t *)(void *)acc, a, ld, 4, w, groups, M, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}
#define PRODUCTS .unpacked = unpacked
#else
static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
    (void)first;
#define CALL(M) dot_rows((int32_t *)(void *)acc, a, 4, 4 * (M), w, groups, M, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}
#define PRODUCTS .tile = tile
#endif
#endif

/* ---- taps of a convolution, on levels whose instructions multiply 8 bits ---- */

#if defined PIXELS
FV_FN void add_pixels(float *acc, const int8_t *const *pixel, const int8_t *w, uint32_t channels,
                      int m, const int vecs, bool first)
{
    sums sum[MR][VECS];
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        const int32_t bias = BIAS * fv_rows_i8_sum(pixel[i], channels);
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = begin(-bias);
    }
    for (uint32_t c = 0; c < channels; c += 4, w += 4 * NR) {
#define IN_PLACE(i) (pixel[i] + c)
        ADD_GROUP(sum, IN_PLACE, w, m, vecs)
#undef IN_PLACE
    }
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        const fv_v by = fv_set(fv_rows_i8_scale(pixel[i], channels));
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *to = acc + NR * i + FV_W * v;
            fv_store(to, fv_fma(as_floats(sum[i][v]), by, first ? fv_set(0.f) : fv_load(to)));
        }
    }
}

static void add_tap(float *acc, const void *const *pixels, const void *w, uint32_t channels,
                    uint32_t m, uint32_t cols, bool first)
{
    const int8_t *pixel[MR];
    memcpy(pixel, pixels, m * sizeof *pixel);
#define ALL(M) add_pixels(acc, pixel, w, channels, M, VECS, first)
#define HALF(M) add_pixels(acc, pixel, w, channels, M, VECS / 2, first)
    if (cols > NR / 2)
        OF_ROWS(MR, ALL)
    else
        OF_ROWS(MR, HALF)
#undef ALL
#undef HALF
}
#define TAPS , .add_tap = add_tap
#elif defined TILES
static void add_scaled(float *acc, const float *whole, const float *scale, uint32_t m, bool first)
{
    for (uint32_t i = 0; i < m; i++) {
        const fv_v by = fv_set(scale[i]);
        FV_UNROLL
        for (int v = 0; v < VECS; v++) {
            float *to = acc + NR * i + FV_W * v;
            const int32_t *at = (const int32_t *)(const void *)whole + NR * i + (size_t)FV_W * v;
            fv_store(to, fv_fma(of_whole(at, 0), by, first ? fv_set(0.f) : fv_load(to)));
        }
    }
}
#define TAPS , .add_scaled = add_scaled
#else
#define TAPS
#endif

/* Returns the sums of row i of a tile from column j on, scaled to floats. */
FV_FN fv_v sums_of(const fv_gemm_out *o, const float *acc, uint32_t i, uint32_t j)
{
    const int32_t *at = (const int32_t *)(const void *)acc + NR * i + j;
    if (!o->row_scale)
        return fv_mul(fv_load(acc + NR * i + j), fv_load(o->column_scale + j));
    const fv_v by = fv_mul(fv_set(o->row_scale[i]), fv_load(o->column_scale + j));
    return fv_mul(of_whole(at, (int32_t)BIAS * o->row_sum[i]), by);
}

/* ---- rows ---- */

/* Rotates and quantises a row, and fills it with zeros up to a multiple of 64; returns its scale.
 * `rotated` is a buffer for the rotated row. */
FV_FN float quantise_row(number *q, int32_t *sum, const void *row, enum fv_type type, uint32_t k,
                         uint32_t block, float *rotated)
{
    float factor;
    const float top = type == FV_BF16 ? fv_rotate_row(rotated, row, FV_BF16, k, block)
                                      : fv_rotate_row(rotated, row, FV_F32, k, block);
    const float scale = fv_int8_scale(&factor, top);
    sums total = none();
    if (!(factor > 0))
        memset(q, 0, k * sizeof *q);
    for (uint32_t i = 0; factor > 0 && i < k; i += 64) {
        fv_v x[FV_ROTATED];
        FV_UNROLL
        for (int v = 0; v < FV_ROTATED; v++)
            x[v] = fv_mul(fv_load(rotated + i + FV_W * v), fv_set(factor));
        put_64(q + i, x, &total);
    }
    *sum = total_of(total);
    return scale;
}

static void quantise(void *packed, float *scale, int32_t *sum, const void *rows, enum fv_type type,
                     size_t ld, uint32_t m, uint32_t k, float *rotated)
{
    const uint32_t padded = (k + STEPS - 1) / STEPS * STEPS;
    const uint32_t block = fv_int8_block(k);
    number *q = packed;
    for (uint32_t r = 0; r < m; r++, q += padded) {
        const void *row = fv_element(rows, type, r * ld);
        scale[r] = block == 64 ? quantise_row(q, &sum[r], row, type, k, 64, rotated)
                               : quantise_row(q, &sum[r], row, type, k, block, rotated);
        memset(q + k, 0, (padded - k) * sizeof *q);
    }
}

MICROKERNEL(i8, p->weight == FV_I8 && p->acc == FV_I32, .weight = FV_I8,
            .input = sizeof(number) == 2 ? FV_I16 : FV_I8, .interleave = INTERLEAVE, .bias = BIAS,
            PRODUCTS, .finish = finish, .quantise = quantise TAPS)
KERNEL(gemm, i8)

#if defined PIXELS || defined TILES
static bool conv_applies(const fv_problem *p)
{
    return applies_i8(p) && p->dim[FV_CONV_C] % 8 == 0;
}

const fv_kernel_hooks FV_NAME(fv_h_conv_i8) = {
    .applies = conv_applies,
    .cost = cost,
    .scratch = scratch_i8,
    .packed = packed_i8,
    .pack = pack_i8,
    .format = "conv_i8_" PANEL,
    .knobs = knob_list,
};
KERNEL(conv, i8)
#endif
