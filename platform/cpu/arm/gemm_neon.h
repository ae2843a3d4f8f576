/* gemm_neon.h: tiles of float32 weights on NEON. A tile of six rows by 16 columns needs all 32
 * registers. Compilers do not find such an allocation:
 *
 *   v0 .. v5     four steps of k of each row; a multiply-add takes one from a lane
 *   v6, v7       four columns of the weight each, loaded a row's length before they are needed
 *   v8 .. v31    accumulators: four vectors per row
 *
 * The last group of steps loads itself once more instead of the next, so that nothing beyond an
 * operand is read.
 */

#define FMA(sum, w, row, k) "fmla " sum ".4s, v" w ".4s, " row ".s[" #k "]\n"
#define ROWS_5(w, k, s0, s1, s2, s3, s4, s5)                                                       \
    FMA(s0, w, "v0", k)                                                                            \
    FMA(s1, w, "v1", k) FMA(s2, w, "v2", k) FMA(s3, w, "v3", k) FMA(s4, w, "v4", k)
#define ROWS_6(w, k, s0, s1, s2, s3, s4, s5)                                                       \
    ROWS_5(w, k, s0, s1, s2, s3, s4, s5) FMA(s5, w, "v5", k)

/* Multiplies four columns of a step, then loads the columns that are `next` bytes further on into
 * the same register. */
#define COLUMNS(M, w, k, next, ...) ROWS_##M(w, k, __VA_ARGS__) "ldr q" w ", [%[w], #" #next "]\n"
#define FIRST(M, k, next) COLUMNS(M, "6", k, next, "v8", "v12", "v16", "v20", "v24", "v28")
#define SECOND(M, k, next) COLUMNS(M, "7", k, next, "v9", "v13", "v17", "v21", "v25", "v29")
#define THIRD(M, k, next) COLUMNS(M, "6", k, next, "v10", "v14", "v18", "v22", "v26", "v30")
#define FOURTH(M, k, next) COLUMNS(M, "7", k, next, "v11", "v15", "v19", "v23", "v27", "v31")

#define LOAD_5 "ldp q0, q1, [%[a]]\n ldp q2, q3, [%[a], #32]\n ldr q4, [%[a], #64]\n"
#define LOAD_6 "ldp q0, q1, [%[a]]\n ldp q2, q3, [%[a], #32]\n ldp q4, q5, [%[a], #64]\n"
#define SUMS_5(op)                                                                                 \
    op " {v8.4s - v11.4s}, [%[acc]], #64\n" op " {v12.4s - v15.4s}, [%[acc]], #64\n" op            \
       " {v16.4s - v19.4s}, [%[acc]], #64\n" op " {v20.4s - v23.4s}, [%[acc]], #64\n" op           \
       " {v24.4s - v27.4s}, [%[acc]], #64\n"
#define SUMS_6(op) SUMS_5(op) op " {v28.4s - v31.4s}, [%[acc]], #64\n"

#define STEP(M, k, first, second, third, fourth)                                                   \
    FIRST(M, k, first) SECOND(M, k, second) THIRD(M, k, third) FOURTH(M, k, fourth)

/* clang-format off */
#define TILE_OF(M)                                                                                 \
    __asm__ volatile(                                                                              \
        LOAD_##M                                                                                   \
        "ldp q6, q7, [%[w]]\n"                                                                     \
        SUMS_##M("ld1")                                                                            \
        "1:\n"                                                                                     \
        "prfm pldl2keep, [%[prefetch]]\n"                                                          \
        "add %[prefetch], %[prefetch], #64\n"                                                      \
        STEP(M, 0, 32, 48, 64, 80)                                                                 \
        STEP(M, 1, 96, 112, 128, 144)                                                              \
        STEP(M, 2, 160, 176, 192, 208)                                                             \
        FIRST(M, 3, 224)                                                                           \
        SECOND(M, 3, 240)                                                                          \
        "subs %[groups], %[groups], #1\n"                                                          \
        "add %[next], %[w], #256\n"                                                                \
        "csel %[w], %[next], %[w], ne\n"                                                           \
        THIRD(M, 3, 0)                                                                             \
        FOURTH(M, 3, 16)                                                                           \
        "add %[next], %[a], #16 * " #M "\n"                                                        \
        "csel %[a], %[next], %[a], ne\n"                                                           \
        LOAD_##M                                                                                   \
        "b.ne 1b\n"                                                                                \
        "sub %[acc], %[acc], #64 * " #M "\n"                                                       \
        SUMS_##M("st1")                                                                            \
        : [acc] "+r"(acc), [a] "+r"(a), [w] "+r"(w), [groups] "+r"(groups),                        \
          [prefetch] "+r"(prefetch),                                                               \
          [next] "=&r"(next)                                                                       \
        :                                                                                          \
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",       \
          "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",      \
          "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31")
/* clang-format on */

/* Panels have five or six rows, except in blocks of few rows. */
static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
    const void *next;
    if (m < 5) {
        tile_of(acc, a, w, FV_F32, groups, m, first, prefetch, NULL);
        return;
    }
    if (first)
        memset(acc, 0, sizeof *acc * NR * m);
    if (m == 5)
        TILE_OF(5);
    else
        TILE_OF(6);
}
