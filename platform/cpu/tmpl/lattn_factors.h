/* lattn_factors.h: what the products of lattn_tmpl.c multiply: floats, or with FV_FACTORS_BF16 what
 * vec/factors.h has, numbers rounded to bfloat16.
 *
 * PAIR steps of the depth lie side by side in factors that are packed by depth: kernels work out so
 * many, and pack them at once. */
#ifndef FOVEA_PLATFORM_TMPL_LATTN_FACTORS_H
#define FOVEA_PLATFORM_TMPL_LATTN_FACTORS_H

#include "platform/cpu/tmpl/lattn_rows.h"

#if FV_FACTORS_BF16
#include "platform/cpu/vec/factors.h"

/* op_bf16_<mechanism>_<isa> */
#define KERNEL(op) FV_MECH_NAME(op##_bf16, FV_ISA)
enum { PAIR = FV_PAIR };
typedef fv_factor factor;

FV_FN fv_v rounded(fv_v x)
{
    return fv_factor_round(x);
}

/* Columns [j, j + FV_W) of a row. */
FV_FN void put_row(factor *row, size_t j, fv_v x)
{
    fv_factor_put_row(row, j, x, FV_W);
}

/* Columns [j, j + FV_W) of steps [k, k + PAIR), ld columns each. */
FV_FN void put_depth(factor *x, size_t ld, size_t k, size_t j, const fv_v step[PAIR])
{
#if FV_PAIRS
    fv_factor_put_depth(x, ld, k, j, step[0], step[1]);
#else
    put_row(x + k * ld, j, step[0]);
#endif
}

/* Steps [k, k + PAIR) of n rows of `width` values, the first of which is at x; with one of a pair,
 * which the other is packed with, there is nothing to do. */
FV_FN void pack_depth(factor *dst, size_t ld, size_t k, const void *x, enum fv_type type,
                      size_t ldx, size_t n, size_t width)
{
    const void *row = fv_element(x, type, k * ldx);
#if FV_PAIRS
    if (k % PAIR == 0)
        fv_factor_pack_depth(dst + k * ld, ld, row, type, ldx, n - k < PAIR ? n - k : PAIR, width);
#else
    (void)n;
    fv_factor_pack_rows(dst + k * ld, ld, row, type, 0, 1, width);
#endif
}

/* `am`, `ak`: from row to row of a, from step to step. */
FV_FN void multiply_tile(fv_v acc[FV_TILE_M][FV_TILE_N], const factor *a, size_t am, size_t ak,
                         const factor *b, size_t ldb, size_t depth)
{
    fv_factor_tile(acc, FV_TILE_N, a, am, ak, b, ldb, depth);
}

#else
#include "base/half.h"
#include "platform/cpu/vec/tile.h"

/* op_f32_<mechanism>_<isa> */
#define KERNEL(op) FV_MECH_NAME(op##_f32, FV_ISA)
enum { PAIR = 1 };
typedef float factor;

FV_FN fv_v rounded(fv_v x)
{
    return x;
}

FV_FN void put_row(factor *row, size_t j, fv_v x)
{
    fv_store(row + j, x);
}

FV_FN void put_depth(factor *x, size_t ld, size_t k, size_t j, const fv_v step[PAIR])
{
    fv_store(x + k * ld + j, step[0]);
}

FV_FN void pack_depth(factor *dst, size_t ld, size_t k, const void *x, enum fv_type type,
                      size_t ldx, size_t n, size_t width)
{
    (void)type, (void)n;
    fv_tile_pack(dst + k * ld, ld, (const float *)x + k * ldx, 0, 1, width);
}

FV_FN void multiply_tile(fv_v acc[FV_TILE_M][FV_TILE_N], const factor *a, size_t am, size_t ak,
                         const factor *b, size_t ldb, size_t depth)
{
    fv_tile(acc, a, am, ak, b, ldb, depth);
}
#endif

#endif
