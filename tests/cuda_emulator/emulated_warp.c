/* emulated_warp.c: what the lanes of a warp do together. Fragments have the layout of PTX ("Matrix
 * Fragments for mma.m16n8k16", "... m16n8k8", "... m16n8k32", "ldmatrix"): with g = lane / 4 and t
 * = lane % 4
 *
 *   D          2 numbers of row g, columns 2t and 2t + 1, then those of row g + 8
 *   A, 16 bits pairs (row, columns 2t and 2t + 1): (g), (g + 8), then both 8 columns further
 *   B, 16 bits pairs (rows 2t and 2t + 1, column g), then 8 rows further
 *   A, 8 bits  fours (row, columns 4t to 4t + 3): (g), (g + 8), then both 16 columns further
 *   B, 8 bits  fours (rows 4t to 4t + 3, column g), then 16 rows further
 *   A, TF32    (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
 *   B, TF32    (t, g), (t + 4, g)
 */
#include "tests/cuda_emulator/emulated_warp.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "base/half.h"

#define ALL 0xffffffffu
#define EACH_LANE(lane) for (unsigned lane = 0; lane < EMULATED_WARP; lane++)

/* ---- sync, shuffle, ballot ---- */

static void nothing(void *const brought[EMULATED_WARP], unsigned mask)
{
    (void)brought, (void)mask;
}

void emulated_warp_sync(unsigned mask)
{
    emulated_meet(mask, nothing, NULL);
}

struct shuffle {
    unsigned value, from, got;
};

static void shuffle_all(void *const brought[EMULATED_WARP], unsigned mask)
{
    EACH_LANE(lane)
        if (mask >> lane & 1) {
            struct shuffle *s = brought[lane];
            const unsigned from = s->from < EMULATED_WARP && mask >> s->from & 1 ? s->from : lane;
            s->got = ((const struct shuffle *)brought[from])->value;
        }
}

unsigned emulated_shuffle(unsigned mask, unsigned value, unsigned from)
{
    struct shuffle mine = {value, from, 0};
    emulated_meet(mask, shuffle_all, &mine);
    return mine.got;
}

struct ballot {
    unsigned true_here, all;
};

static void ballot_all(void *const brought[EMULATED_WARP], unsigned mask)
{
    unsigned all = 0;
    EACH_LANE(lane)
        if (mask >> lane & 1 && ((const struct ballot *)brought[lane])->true_here)
            all |= 1u << lane;
    EACH_LANE(lane)
        if (mask >> lane & 1)
            ((struct ballot *)brought[lane])->all = all;
}

unsigned emulated_ballot(unsigned mask, int true_here)
{
    struct ballot mine = {true_here != 0, 0};
    emulated_meet(mask, ballot_all, &mine);
    return mine.all;
}

/* ---- matrices ---- */

struct load {
    unsigned *to;
    const void *row;
    int matrices, transposed;
};

static void load_all(void *const brought[EMULATED_WARP], unsigned mask)
{
    (void)mask;
    const struct load *first = brought[0];
    uint16_t m[8][8];
    for (int k = 0; k < first->matrices; k++) {
        for (int r = 0; r < 8; r++)
            memcpy(m[r], ((const struct load *)brought[8 * k + r])->row, sizeof m[r]);
        EACH_LANE(lane) {
            const unsigned r = lane / 4, c = lane % 4 * 2;
            const uint16_t low = first->transposed ? m[c][r] : m[r][c];
            const uint16_t high = first->transposed ? m[c + 1][r] : m[r][c + 1];
            ((const struct load *)brought[lane])->to[k] = low | (unsigned)high << 16;
        }
    }
}

void emulated_load_matrices(unsigned *to, int matrices, const void *row, int transposed)
{
    struct load mine = {to, row, matrices, transposed};
    if ((uintptr_t)row % 16)
        emulated_block_calls.fail("a matrix's row is not aligned to 16 bytes", 0);
    emulated_meet(ALL, load_all, &mine);
}

struct product {
    enum emulated_product kind;
    void *d; /* four floats or ints */
    const unsigned *a, *b;
};

/* The operands in register format: two 16-bit numbers, four 8-bit numbers or one TF32 number per
 * register. */
typedef struct fragments {
    uint32_t a[16][8]; /* by row */
    uint32_t b[8][8];  /* by column: b[i] contains rows 2i and 2i + 1, or 4i to 4i + 3 */
} fragments;

static void take_fragments(fragments *f, void *const brought[EMULATED_WARP])
{
    EACH_LANE(lane) {
        const struct product *p = brought[lane];
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++)
            f->a[g + i % 2 * 8][t + i / 2 * 4] = p->a[i];
        for (unsigned i = 0; i < 2; i++)
            f->b[t + i * 4][g] = p->b[i];
    }
}

static float of_f16(uint32_t bits)
{
#ifdef __F16C__
    return _cvtsh_ss((unsigned short)bits);
#else
    return fv_float_of_f16((uint16_t)bits);
#endif
}

/* Widens one half of each of n registers. */
static void widen(enum emulated_product kind, float *to, const uint32_t *from, int n, int high)
{
    for (int i = 0; i < n; i++) {
        const uint32_t bits = high ? from[i] >> 16 : from[i] & 0xffff;
        to[i] = kind == EMULATED_F16 ? of_f16(bits) : fv_float_of_bits(bits << 16);
    }
}

/* Truncates to TF32: tensor cores ignore the last 13 bits. */
static void shorten(float *to, const uint32_t *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = fv_float_of_bits(from[i] & 0xffffe000u);
}

/* Converts to float by truncation, as tensor cores do. */
static float cut_off(double x)
{
    const float y = (float)x;
    union {
        float x;
        uint32_t bits;
    } nearest = {y};
    nearest.bits -= isfinite(y) && fabs((double)y) > fabs(x); /* the next smaller magnitude */
    return nearest.x;
}

/* Adds eight products at a time to the accumulator and truncates the sum. The even columns come
 * first, then the odd ones. */
static void multiply_all(void *const brought[EMULATED_WARP], unsigned mask)
{
    (void)mask;
    const enum emulated_product kind = ((const struct product *)brought[0])->kind;
    const int halves = kind == EMULATED_TF32 ? 1 : 2;
    fragments f;
    float a[16][8], b[8][8], d[16][8];
    take_fragments(&f, brought);
    EACH_LANE(lane)
        for (unsigned i = 0; i < 4; i++)
            d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] =
                ((const float *)((const struct product *)brought[lane])->d)[i];
    for (int half = 0; half < halves; half++) {
        if (kind == EMULATED_TF32) {
            shorten(a[0], f.a[0], 16 * 8);
            shorten(b[0], f.b[0], 8 * 8);
        } else {
            widen(kind, a[0], f.a[0], 16 * 8, half);
            widen(kind, b[0], f.b[0], 8 * 8, half);
        }
        for (int r = 0; r < 16; r++) {
            double sum[8];
            for (int c = 0; c < 8; c++)
                sum[c] = (double)d[r][c];
            for (int k = 0; k < 8; k++)
                for (int c = 0; c < 8; c++)
                    sum[c] += (double)a[r][k] * (double)b[k][c];
            for (int c = 0; c < 8; c++)
                d[r][c] = cut_off(sum[c]);
        }
    }
    EACH_LANE(lane)
        for (unsigned i = 0; i < 4; i++)
            ((float *)((const struct product *)brought[lane])->d)[i] =
                d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

/* int8 products are accumulated with wrap-around. */
static void multiply_whole(void *const brought[EMULATED_WARP], unsigned mask)
{
    (void)mask;
    fragments f;
    take_fragments(&f, brought);
    EACH_LANE(lane)
        for (unsigned i = 0; i < 4; i++) {
            uint32_t *d = (uint32_t *)((const struct product *)brought[lane])->d + i;
            const unsigned r = lane / 4 + i / 2 * 8, c = lane % 4 * 2 + i % 2;
            for (unsigned k = 0; k < 32; k++) {
                const int8_t a = (int8_t)(f.a[r][k / 4] >> 8 * (k % 4));
                const int8_t b = (int8_t)(f.b[k / 4][c] >> 8 * (k % 4));
                *d += (uint32_t)(a * b);
            }
        }
}

void emulated_multiply(enum emulated_product kind, void *d, const unsigned *a, const unsigned *b)
{
    struct product mine = {kind, d, a, b};
    emulated_meet(ALL, kind == EMULATED_S8 ? multiply_whole : multiply_all, &mine);
}
