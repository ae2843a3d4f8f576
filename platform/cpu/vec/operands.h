/* operands.h: the register tile for operands that are rounded to bfloat16, with float32 sums;
 * tile.h has the one for floats. After #define FV_OPERANDS_EXACT operands are unrounded floats, so
 * that the source of a kernel also serves for float32 (FV_EXACT 1, FV_PAIRS 0).
 *
 * Levels with instructions for products of bfloat16 keep operands as 16 bits, two steps of k in a
 * lane (FV_PAIRS 1); the others as floats that hold the rounded values. Either way the same numbers
 * are multiplied, and kernels are written once. An operand is packed in one of two ways:
 *
 *   rows    step k of row i is x[i ld + k]: k runs along the row
 *   depth   steps k and k + 1 of column j are at x[k ld + FV_PAIR j] (k even; ld columns): k runs
 *           from row to row. With FV_PAIRS they are side by side, else k + 1 is ld further on
 *
 * The number of steps is fv_operand_steps(): even unless operands are exact. Operands are filled up
 * to it with zeros. Rows to be packed are F32 or BF16. */
#ifndef FOVEA_PLATFORM_VEC_OPERANDS_H
#define FOVEA_PLATFORM_VEC_OPERANDS_H

#include "base/half.h"
#include "ops/kernel.h"
#include "platform/cpu/vec/row.h"
#include "platform/cpu/vec/tile.h"

#ifdef FV_OPERANDS_EXACT
#define FV_EXACT 1
#else
#define FV_EXACT 0
#endif

#if !FV_EXACT && (defined FV_ISA_AVX512_BF16 || defined FV_ISA_NEON_DOT)
#define FV_PAIRS 1
#define FV_PAIR 2
typedef uint16_t fv_operand_elem;
#else
#define FV_PAIRS 0
#define FV_PAIR 1
typedef float fv_operand_elem;
#endif

/* Returns n rounded up to the number of steps that an operand has after it is padded with zeros. */
FV_FN size_t fv_operand_steps(size_t n)
{
    return FV_EXACT ? n : fv_tile_round(n, 2);
}

/* Returns the type of an operand's rows. */
FV_FN enum fv_type fv_operand_row_type(const fv_args *a, int operand)
{
    return FV_EXACT ? FV_F32 : (enum fv_type)a->type[operand];
}

/* Returns how many floats take as much memory as n operand elements; with FV_PAIRS n is even. */
FV_FN size_t fv_operand_floats(size_t n)
{
    return n / FV_PAIR;
}

/* ---- pairs: FV_W lanes of two bfloat16 ---- */

#if FV_PAIRS && defined FV_ISA_AVX512_BF16
#include "platform/cpu/x86/dot.h"

typedef __m512bh fv_pairs;

FV_WORD(fv_pairs, fv_load_pairs, (const fv_operand_elem *p), (__m512bh)_mm512_loadu_si512(p))

FV_FN fv_pairs fv_set_pair(const fv_operand_elem *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

/* sum + the product of odd elements, then + the product of even elements */
FV_WORD(fv_v, fv_dot, (fv_pairs x, fv_pairs y, fv_v sum), fv_dpbf16(sum, x, y))

FV_FN fv_pairs fv_pair_up(fv_v even, fv_v odd)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i x = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    return (__m512bh)_mm512_permutexvar_epi16(order, x);
}

FV_FN void fv_store_pairs(fv_operand_elem *p, fv_pairs x)
{
    _mm512_storeu_si512(p, (__m512i)x);
}

/* sum + both of each lane */
FV_WORD(fv_v, fv_add_pairs, (fv_v sum, fv_pairs x),
        fv_dot(x, (__m512bh)_mm512_set1_epi16(0x3f80), sum))
#elif FV_PAIRS
typedef bfloat16x8_t fv_pairs;

FV_WORD(fv_pairs, fv_load_pairs, (const fv_operand_elem *p),
        vld1q_bf16((const bfloat16_t *)(const void *)p))

FV_FN fv_pairs fv_set_pair(const fv_operand_elem *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return vreinterpretq_bf16_u32(vdupq_n_u32(pair));
}

FV_WORD(fv_v, fv_dot, (fv_pairs x, fv_pairs y, fv_v sum), vbfdotq_f32(sum, x, y))

/* Computes fv_dot with pair number i of x broadcast to every lane. */
FV_FN fv_v fv_dot_four(fv_pairs x, int i, fv_pairs y, fv_v sum)
{
    switch (i) {
    case 0:
        return vbfdotq_laneq_f32(sum, y, x, 0);
    case 1:
        return vbfdotq_laneq_f32(sum, y, x, 1);
    case 2:
        return vbfdotq_laneq_f32(sum, y, x, 2);
    default:
        return vbfdotq_laneq_f32(sum, y, x, 3);
    }
}

/* Does not use vzip1q_u16: clang 14 treats it as a bfloat16 operation, for which it has no
 * instruction. */
FV_FN fv_pairs fv_pair_up(fv_v even, fv_v odd)
{
    static const uint8_t order[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
    const bfloat16x8_t both = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(even), odd);
    return vreinterpretq_bf16_u8(vqtbl1q_u8(vreinterpretq_u8_bf16(both), vld1q_u8(order)));
}

FV_FN void fv_store_pairs(fv_operand_elem *p, fv_pairs x)
{
    vst1q_u16(p, vreinterpretq_u16_bf16(x));
}

/* Returns sum + both elements of each lane. Does not multiply by ones, because GCC 12 mistakes a
 * bfloat16 constant for a float16 one. */
FV_FN fv_v fv_add_pairs(fv_v sum, fv_pairs x)
{
    const uint32x4_t bits = vreinterpretq_u32_bf16(x);
    sum = vaddq_f32(sum, vreinterpretq_f32_u32(vshlq_n_u32(bits, 16)));
    return vaddq_f32(sum, vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(0xffff0000))));
}
#endif

/* ---- packing ---- */

/* Returns x rounded as an operand is, as a float. */
FV_FN fv_v fv_operand_round(fv_v x)
{
    return FV_EXACT ? x : fv_round_bf16(x);
}

/* Stores n <= FV_W lanes to a packed row from column k on. */
FV_FN void fv_operand_put_row(fv_operand_elem *row, size_t k, fv_v x, int n)
{
#if FV_PAIRS
    fv_store_h(row + k, fv_to_bf16(x), n);
#else
    fv_store_n(row + k, fv_operand_round(x), n);
#endif
}

/* Stores FV_W lanes to a packed row from column k on; returns `sum` plus their rounded values. */
FV_FN fv_v fv_operand_put_row_sum(fv_operand_elem *row, size_t k, fv_v x, fv_v sum)
{
#if FV_PAIRS
    const fv_h narrow = fv_to_bf16(x);
    fv_store_h(row + k, narrow, FV_W);
    return fv_add(sum, fv_of_bf16(narrow));
#else
    x = fv_operand_round(x);
    fv_store(row + k, x);
    return fv_add(sum, x);
#endif
}

/* Stores steps k and k + 1 of FV_W columns from j on, packed by depth; k is even. */
FV_FN void fv_operand_put_depth(fv_operand_elem *x, size_t ld, size_t k, size_t j, fv_v even,
                                fv_v odd)
{
#if FV_PAIRS
    fv_store_pairs(x + k * ld + 2 * j, fv_pair_up(even, odd));
#else
    fv_store(x + k * ld + j, fv_operand_round(even));
    fv_store(x + (k + 1) * ld + j, fv_operand_round(odd));
#endif
}

/* Does what fv_operand_put_depth() does, and returns `sum` plus the rounded values. */
FV_FN fv_v fv_operand_put_sum(fv_operand_elem *x, size_t ld, size_t k, size_t j, fv_v even,
                              fv_v odd, fv_v sum)
{
#if FV_PAIRS
    const fv_pairs pairs = fv_pair_up(even, odd);
    fv_store_pairs(x + k * ld + 2 * j, pairs);
    return fv_add_pairs(sum, pairs);
#else
    even = fv_operand_round(even);
    odd = fv_operand_round(odd);
    fv_store(x + k * ld + j, even);
    fv_store(x + (k + 1) * ld + j, odd);
    return fv_add(fv_add(sum, even), odd);
#endif
}

/* Copies a packed row of `steps` to column j of an operand packed by depth. */
FV_FN void fv_operand_put_column(fv_operand_elem *x, size_t ld, size_t j,
                                 const fv_operand_elem *row, size_t steps)
{
    for (size_t k = 0; k < steps; k += FV_PAIR)
        memcpy(x + k * ld + FV_PAIR * j, row + k, FV_PAIR * sizeof *row);
}

/* Packs n rows of `width` values of `type` as rows of `widthp`, with zeros beyond `width`. */
FV_FN void fv_operand_pack_rows(fv_operand_elem *dst, size_t widthp, const void *src,
                                enum fv_type type, size_t ld, size_t n, size_t width)
{
    for (; n > 0; n--, dst += widthp, src = fv_element(src, type, ld)) {
        size_t j = 0;
        for (; j + FV_W <= width; j += FV_W)
            fv_operand_put_row(dst, j, fv_row_load(src, type, j, FV_W), FV_W);
        for (; j < widthp; j += FV_W)
            fv_operand_put_row(dst, j,
                               fv_row_load(src, type, j, j < width ? fv_lanes(width - j) : 0),
                               fv_lanes(widthp - j));
    }
}

/* Returns all steps of a row of `width` values of `type`: the row itself if its type and width
 * permit, else a copy packed into `buffer`. */
FV_FN const fv_operand_elem *fv_operand_row(fv_operand_elem *buffer, const void *src,
                                            enum fv_type type, size_t width)
{
    const size_t steps = fv_operand_steps(width);
    if (steps == width && (FV_EXACT || (FV_PAIRS && type == FV_BF16)))
        return src;
    fv_operand_pack_rows(buffer, steps, src, type, 0, 1, width);
    return buffer;
}

/* Packs two rows, which are two steps of k, by depth. If `next` is NULL, the second is zero. */
FV_FN void fv_operand_pack_steps(fv_operand_elem *dst, size_t widthp, const void *src,
                                 const void *next, enum fv_type type, size_t width)
{
    const fv_v none = fv_set(0.f);
    size_t j = 0;
    for (; j + FV_W <= width; j += FV_W)
        fv_operand_put_depth(dst, widthp, 0, j, fv_row_load(src, type, j, FV_W),
                             next ? fv_row_load(next, type, j, FV_W) : none);
    for (; j < widthp; j += FV_W) {
        const int n = j < width ? fv_lanes(width - j) : 0;
        fv_operand_put_depth(dst, widthp, 0, j, fv_row_load(src, type, j, n),
                             next ? fv_row_load(next, type, j, n) : none);
    }
}

/* Packs n rows of `width` values of `type`, each of which is a step of k, by depth. There are
 * `widthp` columns, a multiple of FV_W, with zeros beyond `width`; an odd n is followed by a row of
 * zeros. */
FV_FN void fv_operand_pack_depth(fv_operand_elem *dst, size_t widthp, const void *src,
                                 enum fv_type type, size_t ld, size_t n, size_t width)
{
    for (; n >= 2; n -= 2, dst += 2 * widthp, src = fv_element(src, type, 2 * ld))
        fv_operand_pack_steps(dst, widthp, src, fv_element(src, type, ld), type, width);
    if (n)
        fv_operand_pack_steps(dst, widthp, src, NULL, type, width);
}

/* ---- tiles ---- */

#if FV_PAIRS && FV_FOURS
/* Multiplies two steps of k whose values of `a` are in registers: the pair for row i of the tile is
 * number at + i step of x. */
FV_FN void fv_operand_step(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_pairs *x, int at,
                           int step, const fv_operand_elem *b)
{
    fv_pairs col[FV_TILE_N];
    FV_UNROLL
    for (int j = 0; j < vecs; j++)
        col[j] = fv_load_pairs(b + 2 * j * FV_W);
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i++) {
        const int n = at + i * step;
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            acc[i][j] = fv_dot_four(x[n / 4], n % 4, col[j], acc[i][j]);
    }
}

/* Computes the steps of k for which `a` can be loaded in whole registers (ak is 1, or am is
 * FV_PAIR); returns how many steps that was. */
FV_FN size_t fv_operand_add_fours(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs,
                                  const fv_operand_elem *a, size_t am, size_t ak,
                                  const fv_operand_elem *b, size_t ldb, size_t depth)
{
    size_t k = 0;
    if (ak == 1) {
        for (; k + 8 <= depth; k += 8) {
            fv_pairs x[FV_TILE_M];
            FV_UNROLL
            for (int i = 0; i < FV_TILE_M; i++)
                x[i] = fv_load_pairs(a + i * am + k);
            FV_UNROLL
            for (int s = 0; s < 4; s++)
                fv_operand_step(acc, vecs, x, s, 4, b + (k + 2 * s) * ldb);
        }
    } else if (am == FV_PAIR) {
        for (; k < depth; k += 2) {
            fv_pairs x[FV_TILE_M / 4];
            FV_UNROLL
            for (int i = 0; i < FV_TILE_M / 4; i++)
                x[i] = fv_load_pairs(a + k * ak + 8 * i);
            fv_operand_step(acc, vecs, x, 0, 1, b + k * ldb);
        }
    }
    return k;
}
#endif

/* acc[i][j] += the sum over k of a's row or column i times b's column j (by depth), k ascending.
 * `am`: stride in a between rows of the tile; FV_PAIR if a is packed by depth. `ak`: stride between
 * steps of k; 1 if a is packed by rows. */
FV_FN void fv_operand_tile_add(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_operand_elem *a,
                               size_t am, size_t ak, const fv_operand_elem *b, size_t ldb,
                               size_t depth)
{
#if FV_PAIRS
    size_t k = 0;
#if FV_FOURS
    k = fv_operand_add_fours(acc, vecs, a, am, ak, b, ldb, depth);
#endif
    for (; k < depth; k += 2) {
        fv_pairs col[FV_TILE_N];
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            col[j] = fv_load_pairs(b + k * ldb + 2 * j * FV_W);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            const fv_pairs row = fv_set_pair(a + i * am + k * ak);
            FV_UNROLL
            for (int j = 0; j < vecs; j++)
                acc[i][j] = fv_dot(row, col[j], acc[i][j]);
        }
    }
#else
    fv_tile_add_cols(acc, vecs, a, am, ak, b, ldb, depth);
#endif
}

FV_FN void fv_operand_tile(fv_v acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_operand_elem *a,
                           size_t am, size_t ak, const fv_operand_elem *b, size_t ldb, size_t depth)
{
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i++) {
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            acc[i][j] = fv_set(0.f);
    }
    fv_operand_tile_add(acc, vecs, a, am, ak, b, ldb, depth);
}

#endif
