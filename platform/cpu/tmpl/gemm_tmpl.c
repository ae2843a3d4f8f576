/* gemm_tmpl.c: tiles of GEMM and CONV, and their epilogue, written with vec.h's vector
 * functions. */

/* Rows and vectors of a tile: the accumulators, a row of the weight and a broadcast activation fill
 * the registers. KC: the default block of k, for the caches of such machines; a knob of the tuner.
 * RATE: assumed FLOP/s of a core, which only serves to order kernels by cost.
 *
 * TILES: a file for an ISA that has faster tiles than those below, or instructions that vec.h does
 * not cover. It defines tile() and the other parts of its microkernels.
 */
#if defined FV_ISA_AVX512_BF16
#define MR 14
#define VECS 2
#define TILE 14x32
#define PANEL "panel32x2"
#define KC 768
#define RATE 400e9
#define TILES "platform/cpu/x86/gemm_bf16.h"
#elif defined FV_ISA_AVX512
#define MR 14
#define VECS 2
#define TILE 14x32
#define PANEL "panel32"
#define KC 768
#define RATE 200e9
#elif defined FV_ISA_AVX2
#define MR 6
#define VECS 2
#define TILE 6x16
#define PANEL "panel16"
#define KC 384
#define RATE 100e9
#elif defined FV_ISA_NEON_DOT
#define MR 8
#define VECS 2
#define TILE 8x8
#define PANEL "panel8x4"
#define KC 384
#define RATE 36e9
#define TILES "platform/cpu/arm/gemm_dot.h"
#elif defined FV_ISA_NEON_FP16
#define MR 6
#define VECS 2
#define TILE 6x8
#define PANEL "panel8"
#define KC 384
#define RATE 21e9
#define TILES "platform/cpu/arm/gemm_fp16.h"
#elif defined FV_ISA_NEON
#define MR 6
#define VECS 4
#define TILE 6x16
#define PANEL "panel16"
#define KC 384
#define RATE 20e9
#define TILES "platform/cpu/arm/gemm_neon.h"
#elif defined FV_ISA_RVV
#define MR 6
#define VECS 4
#define TILE 6x16
#define PANEL "panel16"
#define KC 384
#define RATE 16e9
#else
#define MR 2
#define VECS 4
#define TILE 2x16
#define PANEL "panel16"
#define KC 384
#define RATE 15e9
#endif
#define NR (VECS * FV_W)

#include "ops/contracts/product.h"
#include "platform/cpu/gemm.h"
#include "platform/cpu/vec/vec.h"

FV_FN fv_v sums_of(const fv_gemm_out *o, const float *acc, uint32_t i, uint32_t j);
#define SUMS sums_of
#include "platform/cpu/tmpl/gemm_microkernel.h"

/* Returns the sums of row i of a tile from column j on. Weights of I8 are multiplied as unscaled
 * integers, and the column's scale is applied here: one product per sum instead of one per weight.
 */
FV_FN fv_v sums_of(const fv_gemm_out *o, const float *acc, uint32_t i, uint32_t j)
{
    const fv_v sum = fv_load(acc + NR * i + j);
    return o->column_scale ? fv_mul(sum, fv_load(o->column_scale + j)) : sum;
}

/* Loads FV_W weights of one step of k as floats. */
FV_FN fv_v weights_at(const void *w, enum fv_type type, size_t i)
{
    return type == FV_I8 ? fv_load_i8((const int8_t *)w + i) : fv_row_load(w, type, i, FV_W);
}

/* Adds four steps of k to the sums of a tile of m rows with a row stride of `ld` floats. The
 * weights, of type `type`, are also stored as floats to `wide` unless that is NULL. */
FV_FN void add_group(fv_v sum[MR][VECS], const float *a, size_t ld, const void *w,
                     enum fv_type type, int m, float *wide)
{
    fv_four x[MR];
    FV_UNROLL
    for (int i = 0; i < m; i++)
        x[i] = fv_load_four(a + i * ld);
    FV_UNROLL
    for (int k = 0; k < 4; k++) {
        fv_v row[VECS];
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            row[v] = weights_at(w, type, (size_t)(NR * k + FV_W * v));
        if (wide) {
            FV_UNROLL
            for (int v = 0; v < VECS; v++)
                fv_store(wide + NR * k + FV_W * v, row[v]);
        }
        FV_UNROLL
        for (int i = 0; i < m; i++) {
            FV_UNROLL
            for (int v = 0; v < VECS; v++)
                sum[i][v] = fv_fma_four(x[i], k, row[v], sum[i][v]);
        }
    }
}

/* The prefetch distance in bytes for narrow weights that only one tile reads. A step has so few
 * bytes that the hardware prefetcher is too late. */
enum { SOON = 2048 };
FV_FN void fetch_group(const void *w, enum fv_type type)
{
    FV_UNROLL
    for (size_t i = 0; i < 4 * NR * fv_type_size(type); i += 64)
        __builtin_prefetch((const char *)w + SOON + i, 0, 3);
}

/* Multiplies a tile of m rows by a panel of weights of type `type`. The panel is also stored as
 * floats to `wide` unless that is NULL. */
FV_FN void tile_rows(float *acc, const float *a, const void *w, enum fv_type type, size_t groups,
                     int m, bool first, const char *prefetch, float *wide)
{
    fv_v sum[MR][VECS];
    begin_sums(sum, acc, m, first);
    for (; groups > 0; groups--, a += 4 * m, w = fv_element(w, type, 4 * NR)) {
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        if (type != FV_F32 && !wide)
            fetch_group(w, type);
        add_group(sum, a, 4, w, type, m, wide);
        if (wide)
            wide += 4 * NR;
    }
    end_sums(acc, sum, m);
}

FV_FN void tile_of(float *acc, const float *a, const void *w, enum fv_type type, size_t groups,
                   uint32_t m, bool first, const char *prefetch, float *wide)
{
#define CALL(M) tile_rows(acc, a, w, type, groups, M, first, prefetch, wide)
    OF_ROWS(MR, CALL)
#undef CALL
}

#ifdef TILES
#include TILES
#else
static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
    tile_of(acc, a, w, FV_F32, groups, m, first, prefetch, NULL);
}

FV_FN void unpacked_rows(float *acc, const float *a, size_t ld, const float *w, size_t groups,
                         int m, bool first, const char *prefetch)
{
    fv_v sum[MR][VECS];
    begin_sums(sum, acc, m, first);
    for (; groups > 0; groups--, a += 4, w += 4 * NR) {
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        add_group(sum, a, ld, w, FV_F32, m, NULL);
    }
    end_sums(acc, sum, m);
}

static void unpacked(float *acc, const void *rows, size_t ld, const void *w, size_t groups,
                     uint32_t m, bool first, const char *prefetch){
#define CALL(M) unpacked_rows(acc, rows, ld, w, groups, M, first, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}
#define UNPACKED unpacked
#endif

#define HOLDS(WEIGHT, IN) (p->weight == FV_##WEIGHT && p->in == FV_##IN)

#if defined FV_ISA_AVX512_BF16
MICROKERNEL(bf16, is_of_bf16(p), .weight = FV_BF16, .input = FV_BF16, .interleave = 2, .tile = tile,
            .finish = finish, .narrow = narrow, .round = round_rows, .unpacked = unpacked)
MATMUL_KERNEL(bf16)
#elif defined FV_ISA_NEON_DOT
MICROKERNEL(bf16, HOLDS(BF16, F32) && p->dim[FV_GEMM_K] >= LEAST_K, .weight = FV_BF16,
            .input = FV_F32, .tile = tile, .finish = finish, .narrow = narrow, .take = take)
#elif defined FV_ISA_NEON_FP16
MICROKERNEL(f16, HOLDS(F16, F32) && p->acc == FV_F16, .weight = FV_F16, .input = FV_F32,
            .tile = tile, .finish = finish, .narrow = narrow, .take = take, .scales_blocks = true)
#else
#define WIDEN(name, type)                                                                          \
    static void widen_##name(float *acc, const void *a, const void *w, size_t groups, uint32_t m,  \
                             bool first, const char *prefetch, float *wide)                        \
    {                                                                                              \
        tile_of(acc, a, w, type, groups, m, first, prefetch, wide);                                \
    }
WIDEN(f16, FV_F16)
WIDEN(bf16, FV_BF16)
WIDEN(w8, FV_I8)

static void narrow_f16(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_F16, src, FV_F32, n);
}

static void narrow_bf16(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_BF16, src, FV_F32, n);
}

/* Widens rows of bfloat16, which are stored at the end of the panel, to floats in place. */
static void take(void *panel, enum fv_type type, size_t groups, uint32_t m)
{
    const size_t n = 4 * groups * m;
    if (type == FV_BF16)
        fv_row_convert(panel, FV_F32, (const uint16_t *)panel + n, FV_BF16, n);
}

#ifndef UNPACKED
#define UNPACKED NULL
#endif

#define OF_ROWS_OF_FLOATS(WEIGHT) (HOLDS(WEIGHT, F32) || HOLDS(WEIGHT, BF16))
MICROKERNEL(f32, OF_ROWS_OF_FLOATS(F32), .weight = FV_F32, .input = FV_F32, .tile = tile,
            .finish = finish, .take = take, .unpacked = UNPACKED)
MICROKERNEL(f16, OF_ROWS_OF_FLOATS(F16), .weight = FV_F16, .input = FV_F32, .tile = tile,
            .finish = finish, .widen = widen_f16, .narrow = narrow_f16, .take = take)
MICROKERNEL(bf16, OF_ROWS_OF_FLOATS(BF16), .weight = FV_BF16, .input = FV_F32, .tile = tile,
            .finish = finish, .widen = widen_bf16, .narrow = narrow_bf16, .take = take)
MICROKERNEL(w8, p->weight == FV_I8 && p->acc == FV_F32 && (p->in == FV_F32 || p->in == FV_BF16),
            .weight = FV_I8, .input = FV_F32, .tile = tile, .finish = finish, .take = take,
            .widen = widen_w8)
KERNEL(gemm, f32)
KERNEL(conv, f32)
KERNEL(gemm, w8)
KERNEL(conv, w8)
#endif

#if !defined FV_ISA_AVX512_BF16 && !defined FV_ISA_NEON_DOT
KERNEL(gemm, f16)
KERNEL(conv, f16)
#endif
#ifndef FV_ISA_NEON_FP16
KERNEL(gemm, bf16)
KERNEL(conv, bf16)
#endif
