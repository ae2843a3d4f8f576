/* gemm_bf16.h: tiles of bfloat16 by bfloat16 on AVX-512 BF16, whose instruction multiplies two
 * steps of k in each lane.
 *
 *   weight                                    activations: groups of 4 steps of each row
 *   K4/4 x 2 x nr x 2 bfloat16                K4/4 x m x 4 bfloat16
 */
#include "platform/cpu/vec/operands.h"

static void narrow(uint16_t *dst, const float *src, size_t n)
{
    for (; n > 0; n -= 2 * NR, src += 2 * NR)
        for (uint32_t j = 0; j < NR; j++) {
            *dst++ = fv_bf16_of_float(src[j]);
            *dst++ = fv_bf16_of_float(src[NR + j]);
        }
}

/* Rows are addressed from a base for every five of them: with a pointer for each row, a tile would
 * need more registers than there are. */
enum { BASE_ROWS = 5, BASES = (MR + BASE_ROWS - 1) / BASE_ROWS };

/* Multiplies a tile of m rows with a stride of `ld` numbers. The next group of each row is `step`
 * numbers further on. */
FV_FN void pair_rows(float *acc, const uint16_t *a, size_t ld, size_t step, const uint16_t *w,
                     size_t groups, int m, bool first, const char *prefetch)
{
    fv_v sum[MR][VECS];
    const uint16_t *base[BASES];
    FV_UNROLL
    for (int i = 0; i < BASES; i++)
        base[i] = a + BASE_ROWS * i * ld;
    begin_sums(sum, acc, m, first);
    for (; groups > 0; groups--, w += 4 * NR) {
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        FV_UNROLL
        for (int k = 0; k < 4; k += 2) {
            fv_pairs row[VECS];
            FV_UNROLL
            for (int v = 0; v < VECS; v++)
                row[v] = fv_load_pairs(w + NR * k + 2 * FV_W * v);
            FV_UNROLL
            for (int i = 0; i < m; i++) {
                const fv_pairs x = fv_set_pair(base[i / BASE_ROWS] + i % BASE_ROWS * ld + k);
                FV_UNROLL
                for (int v = 0; v < VECS; v++)
                    sum[i][v] = fv_dot(x, row[v], sum[i][v]);
            }
        }
        FV_UNROLL
        for (int i = 0; i < BASES; i++)
            base[i] += step;
    }
    end_sums(acc, sum, m);
}

static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
#define CALL(M) pair_rows(acc, a, 4, 4 * (M), w, groups, M, first, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}

static void unpacked(float *acc, const void *rows, size_t ld, const void *w, size_t groups,
                     uint32_t m, bool first, const char *prefetch)
{
#define CALL(M) pair_rows(acc, rows, ld, 4, w, groups, M, first, prefetch)
    OF_ROWS(MR, CALL)
#undef CALL
}
