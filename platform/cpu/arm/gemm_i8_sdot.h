/* gemm_i8_sdot.h: tiles of GEMM with 8-bit numbers, by FEAT_DotProd's instruction, which multiplies
 * over 4 steps of k. A tile is twelve rows by 8 columns. Instructions are ordered so that in-order
 * cores do not wait for loads:
 *
 *   v0, v1       four columns of the weight each
 *   v2 .. v4     four rows each; a product reads a row from a lane. With 11 rows, the last four
 *                begin at row 7
 *   v8 .. v31    accumulators: two vectors per row
 *
 * An operand is loaded as soon as the previous group no longer needs its register. The last group
 * loads itself again instead of the next, so that nothing beyond an operand is read.
 */
#include "platform/cpu/arm/whole_neon.h"

#define BIAS 0

#define SDOT(sum, w, rows, lane) "sdot v" #sum ".4s, v" #w ".16b, v" #rows ".4b[" #lane "]\n"
/* Multiplies by the rows in lanes 0 and 1, and by those in lanes 2 and 3. */
#define LOWER(w, rows, s, t) SDOT(s, w, rows, 0) SDOT(t, w, rows, 1)
#define UPPER(w, rows, s, t) SDOT(s, w, rows, 2) SDOT(t, w, rows, 3)
#define FOUR(w, rows, s, t, u, v) LOWER(w, rows, s, t) UPPER(w, rows, u, v)
#define LAST_12(w, s, t, u, v) FOUR(w, 4, s, t, u, v)
#define LAST_11(w, s, t, u, v) SDOT(s, w, 4, 1) UPPER(w, 4, t, u)
#define LAST_AT_12 "32"
#define LAST_AT_11 "28"

#define SUMS_11(op)                                                                                \
    op " {v8.4s - v11.4s}, [%[acc]], #64\n" op " {v12.4s - v15.4s}, [%[acc]], #64\n" op            \
       " {v16.4s - v19.4s}, [%[acc]], #64\n" op " {v20.4s - v23.4s}, [%[acc]], #64\n" op           \
       " {v24.4s - v27.4s}, [%[acc]], #64\n" op " {v28.4s, v29.4s}, [%[acc]], #32\n"
#define SUMS_12(op) SUMS_11(op) op " {v30.4s, v31.4s}, [%[acc]], #32\n"

/* clang-format off */
#define TILE_OF(M)                                                                                 \
    __asm__ volatile(                                                                              \
        "ldp q2, q3, [%[a]]\n"                                                                     \
        "ldr q4, [%[a], #" LAST_AT_##M "]\n"                                                       \
        "ldp q0, q1, [%[w]]\n"                                                                     \
        SUMS_##M("ld1")                                                                            \
        "1:\n"                                                                                     \
        "prfm pldl2keep, [%[prefetch]]\n"                                                          \
        "add %[prefetch], %[prefetch], #64\n"                                                      \
        FOUR(0, 2, 8, 10, 12, 14)                                                                  \
        "subs %[groups], %[groups], #1\n"                                                          \
        "add %[next], %[a], #4 * " #M "\n"                                                         \
        "csel %[a], %[next], %[a], ne\n"                                                           \
        FOUR(1, 2, 9, 11, 13, 15)                                                                  \
        "ldr q2, [%[a]]\n"                                                                         \
        FOUR(0, 3, 16, 18, 20, 22)                                                                 \
        "add %[next], %[w], #32\n"                                                                 \
        "csel %[w], %[next], %[w], ne\n"                                                           \
        FOUR(1, 3, 17, 19, 21, 23)                                                                 \
        "ldr q3, [%[a], #16]\n"                                                                    \
        LAST_##M(0, 24, 26, 28, 30)                                                                \
        "ldr q0, [%[w]]\n"                                                                         \
        LAST_##M(1, 25, 27, 29, 31)                                                                \
        "ldr q1, [%[w], #16]\n"                                                                    \
        "ldr q4, [%[a], #" LAST_AT_##M "]\n"                                                       \
        "b.ne 1b\n"                                                                                \
        "sub %[acc], %[acc], #32 * " #M "\n"                                                       \
        SUMS_##M("st1")                                                                            \
        : [acc] "+r"(whole), [a] "+r"(a), [w] "+r"(w), [groups] "+r"(groups),                      \
          [prefetch] "+r"(prefetch),                                                               \
          [next] "=&r"(next)                                                                       \
        :                                                                                          \
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v8", "v9", "v10", "v11", "v12", "v13",    \
          "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",      \
          "v26", "v27", "v28", "v29", "v30", "v31")
/* clang-format on */

FV_FN int32x4_t add_products(int32x4_t sum, int8x16_t columns, int8x16_t rows, int lane)
{
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(sum, columns, rows, 0);
    case 1:
        return vdotq_laneq_s32(sum, columns, rows, 1);
    case 2:
        return vdotq_laneq_s32(sum, columns, rows, 2);
    default:
        return vdotq_laneq_s32(sum, columns, rows, 3);
    }
}

/* Returns the first of the four rows that are loaded together for rows from i on. None of the four
 * is beyond m. */
FV_FN int first_row(int i, int m)
{
    return i + 4 <= m || m < 4 ? i : m - 4;
}

FV_FN int8x16_t four_rows(const int8_t *a, int i, int m)
{
    int8_t few[16] = {0};
    if (m >= 4)
        return vld1q_s8(a + 4 * first_row(i, m));
    memcpy(few, a, (size_t)(4 * m));
    return vld1q_s8(few);
}

FV_FN void few_rows(int32_t *acc, const int8_t *a, const int8_t *w, size_t groups, int m,
                    const char *prefetch)
{
    int32x4_t sum[MR][VECS];
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            sum[i][v] = vdupq_n_s32(0);
    }
    for (; groups > 0; groups--, a += 4 * m, w += 4 * NR) {
        int8x16_t columns[VECS], rows[(MR + 3) / 4];
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            columns[v] = vld1q_s8(w + 16 * v);
        FV_UNROLL
        for (int i = 0; i < m; i += 4)
            rows[i / 4] = four_rows(a, i, m);
        FV_UNROLL
        for (int i = 0; i < m; i++) {
            FV_UNROLL
            for (int v = 0; v < VECS; v++)
                sum[i][v] =
                    add_products(sum[i][v], columns[v], rows[i / 4], i - first_row(i / 4 * 4, m));
        }
    }
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            vst1q_s32(acc + NR * i + 4 * v, sum[i][v]);
    }
}

/* Panels have 11 or 12 rows, except in blocks of few rows. */
static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
    int32_t *whole = (int32_t *)(void *)acc;
    const void *next;
    (void)first; /* K is one block */
    if (m >= 11)
        memset(whole, 0, sizeof *whole * NR * m);
    if (m == 12)
        TILE_OF(12);
    else if (m == 11)
        TILE_OF(11);
    else {
#define CALL(M) few_rows(whole, a, w, groups, M, prefetch)
        OF_ROWS(10, CALL)
#undef CALL
    }
}
