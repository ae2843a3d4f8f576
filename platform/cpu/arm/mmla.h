/* mmla.h: tiles by an instruction that multiplies two rows by two columns, over 8 bytes of each.
 * MMLA is the instruction's name, OPERAND_SUFFIX the suffix of its operands' registers. Panels:
 *
 *   weight: groups x nr x 8 bytes             activations: groups x m x 8 bytes
 *
 * A tile of twelve rows by 8 columns needs all 32 registers. Compilers do not find such an
 * allocation:
 *
 *   v0 .. v3     two columns of the weight each, loaded half a group before they are needed
 *   v4 .. v7     two rows each: the first and the second four rows of a group; then the third four
 *                replace the first; the next group swaps the two pairs of registers
 *   v8 .. v31    accumulators of two rows by two columns: four per two rows
 *
 * The last group of steps loads itself once more instead of the next, so that nothing beyond an
 * operand is read.
 */

#define PRODUCT(sum, rows, w)                                                                      \
    MMLA " v" #sum ".4s, v" #rows "." OPERAND_SUFFIX ", v" #w "." OPERAND_SUFFIX "\n"
/* Multiplies four rows, in x and y, by two columns. */
#define COLUMNS(w, x, y, s, t) PRODUCT(s, x, w) PRODUCT(t, y, w)
#define LOAD(x, y, from, at) "ldp q" #x ", q" #y ", [%[" #from "], #" #at "]\n"
/* Rows from 8 on. */
#define LAST_12(x, y) LOAD(x, y, a, 64)
#define LAST_11(x, y) "ldr q" #x ", [%[a], #64]\n ldr d" #y ", [%[a], #80]\n"

/* clang-format off */
/* A group of steps: its first four rows are in x and y, the second four in z and u. */
#define GROUP(M, x, y, z, u)                                                                       \
    "prfm pldl2keep, [%[prefetch]]\n"                                                              \
    "add %[prefetch], %[prefetch], #64\n"                                                          \
    COLUMNS(0, x, y, 8, 12)                                                                        \
    COLUMNS(1, x, y, 9, 13)                                                                        \
    COLUMNS(2, x, y, 10, 14)                                                                       \
    COLUMNS(3, x, y, 11, 15)                                                                       \
    LAST_##M(x, y)                                                                                 \
    "subs %[groups], %[groups], #1\n"                                                              \
    "add %[next], %[a], #8 * " #M "\n"                                                             \
    "csel %[a], %[next], %[a], ne\n"                                                               \
    COLUMNS(0, z, u, 16, 20)                                                                       \
    COLUMNS(1, z, u, 17, 21)                                                                       \
    COLUMNS(2, z, u, 18, 22)                                                                       \
    COLUMNS(3, z, u, 19, 23)                                                                       \
    LOAD(z, u, a, 0)                                                                               \
    "add %[next], %[w], #64\n"                                                                     \
    "csel %[w], %[next], %[w], ne\n"                                                               \
    COLUMNS(0, x, y, 24, 28)                                                                       \
    COLUMNS(1, x, y, 25, 29)                                                                       \
    LOAD(0, 1, w, 0)                                                                               \
    COLUMNS(2, x, y, 26, 30)                                                                       \
    COLUMNS(3, x, y, 27, 31)                                                                       \
    LOAD(2, 3, w, 32)                                                                              \
    LOAD(x, y, a, 32)

#define ALL_SUMS(op)                                                                               \
    op " {v8.4s - v11.4s}, [%[sum]], #64\n" op " {v12.4s - v15.4s}, [%[sum]], #64\n" op            \
       " {v16.4s - v19.4s}, [%[sum]], #64\n" op " {v20.4s - v23.4s}, [%[sum]], #64\n" op           \
       " {v24.4s - v27.4s}, [%[sum]], #64\n" op " {v28.4s - v31.4s}, [%[sum]], #64\n"

#define SUMS_OF(M)                                                                                 \
    __asm__ volatile(                                                                              \
        LOAD(4, 5, a, 0)                                                                           \
        LOAD(6, 7, a, 32)                                                                          \
        LOAD(0, 1, w, 0)                                                                           \
        LOAD(2, 3, w, 32)                                                                          \
        ALL_SUMS("ld1")                                                                            \
        "1:\n"                                                                                     \
        GROUP(M, 4, 5, 6, 7)                                                                       \
        "b.eq 2f\n"                                                                                \
        GROUP(M, 6, 7, 4, 5)                                                                       \
        "b.ne 1b\n"                                                                                \
        "2:\n"                                                                                     \
        "sub %[sum], %[sum], #384\n"                                                               \
        ALL_SUMS("st1")                                                                            \
        : [sum] "+r"(at), [a] "+r"(a), [w] "+r"(w), [groups] "+r"(groups),                         \
          [prefetch] "+r"(prefetch),                                                               \
          [next] "=&r"(next)                                                                       \
        :                                                                                          \
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",       \
          "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",      \
          "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31")
/* clang-format on */

/* Sums of two rows by two columns, row by row. */
typedef uint32x4_t square;

FV_FN square add_product(square sum, uint8x16_t rows, uint8x16_t columns)
{
    __asm__(MMLA " %0.4s, %1." OPERAND_SUFFIX ", %2." OPERAND_SUFFIX
            : "+w"(sum)
            : "w"(rows), "w"(columns));
    return sum;
}

/* Returns the number of rows i and i + 1 of m, with zeros for a row beyond m. */
FV_FN uint8x16_t two_rows(const uint8_t *a, int i, int m)
{
    if (i + 1 < m)
        return vld1q_u8(a + 8 * i);
    return vcombine_u8(vld1_u8(a + 8 * i), vdup_n_u8(0));
}

FV_FN void add_products(square sum[MR / 2][NR / 2], const uint8_t *a, const uint8_t *w,
                        size_t groups, int m, const char *prefetch)
{
    square of[MR / 2][NR / 2];
    memcpy(of, sum, sizeof of);
    for (; groups > 0; groups--, a += 8 * m, w += 8 * NR) {
        uint8x16_t columns[NR / 2];
        __builtin_prefetch(prefetch, 0, 2);
        prefetch += 4 * FV_GEMM_PREFETCH_BYTES;
        FV_UNROLL
        for (int j = 0; j < NR / 2; j++)
            columns[j] = vld1q_u8(w + 16 * j);
        FV_UNROLL
        for (int i = 0; i < m; i += 2) {
            const uint8x16_t rows = two_rows(a, i, m);
            FV_UNROLL
            for (int j = 0; j < NR / 2; j++)
                of[i / 2][j] = add_product(of[i / 2][j], rows, columns[j]);
        }
    }
    memcpy(sum, of, sizeof of);
}

/* Panels have 11 or 12 rows, except in blocks of few rows. */
static void multiply(square sum[MR / 2][NR / 2], const void *a, const void *w, size_t groups,
                     uint32_t m, const char *prefetch)
{
    void *at = sum;
    const void *next;
    if (m == 12)
        SUMS_OF(12);
    else if (m == 11)
        SUMS_OF(11);
    else {
#define CALL(M) add_products(sum, a, w, groups, M, prefetch)
        OF_ROWS(10, CALL)
#undef CALL
    }
}

FV_FN square first_halves(square x, square y)
{
    return vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(x), vreinterpretq_u64_u32(y)));
}

FV_FN square second_halves(square x, square y)
{
    return vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(x), vreinterpretq_u64_u32(y)));
}

static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch)
{
    /* Accumulators of any type are stored as bits; the bits of 0 are zero in every type. */
    uint32_t *out = (uint32_t *)(void *)acc;
    square sum[MR / 2][NR / 2] = {{{0}}};
    for (uint32_t i = 0; !first && i < m; i += 2)
        for (uint32_t j = 0; j < NR / 2; j += 2) {
            const uint32_t *from = out + NR * i + 2 * j;
            const square x = vld1q_u32(from), y = i + 1 < m ? vld1q_u32(from + NR) : vdupq_n_u32(0);
            sum[i / 2][j] = first_halves(x, y);
            sum[i / 2][j + 1] = second_halves(x, y);
        }
    multiply(sum, a, w, groups, m, prefetch);
    for (uint32_t i = 0; i < m; i += 2)
        for (uint32_t j = 0; j < NR / 2; j += 2) {
            uint32_t *to = out + NR * i + 2 * j;
            vst1q_u32(to, first_halves(sum[i / 2][j], sum[i / 2][j + 1]));
            if (i + 1 < m)
                vst1q_u32(to + NR, second_halves(sum[i / 2][j], sum[i / 2][j + 1]));
        }
}
