/* gemm_i8_tmpl.c: tiles of GEMM with whole numbers of 8 bits, and the rows that they multiply:
 * src/ops/quantise.h.
 *
 * DOTS: the file that says how a level multiplies: SPLIT, the sums that a column has (the tile adds
 * them up), BIAS, what instructions want added to the weight, and
 *
 *   sums                        a vector of sums: FV_W / SPLIT columns
 *   none()                      of zeros
 *   columns(w)                  the 4 numbers of each of these columns, from w on
 *   steps(a)                    the 4 numbers at a, for all of them
 *   add(sum, steps, columns)    sum + products
 *   put(acc, sum[SPLIT])        the sums of FV_W columns
 *   whole(x), put_bytes(q, x)   floats as numbers, of which it returns the sum; |x| < 128
 *
 * TILES: the file of a level that does better than a vector at a time; it defines tile(), BIAS and
 * the last two. */
#include "platform/cpu/vec/vec.h"

#if defined FV_ISA_AVX512_VNNI
#define MR 14
#define VECS 2
#define TILE 14x32
#define PANEL "panel32x4u"
#define RATE 800e9
#define DOTS "platform/cpu/x86/dot_vnni512.h"
#elif defined FV_ISA_AVX512
#define MR 6
#define VECS 2
#define TILE 6x32
#define PANEL "panel32x4"
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
#define VECS 1
#define TILE 6x8
#define PANEL "panel8x4"
#define RATE 110e9
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
#define KC 1024 /* of no effect: K is one block */

#include "ops/quantise.h"
#include "platform/cpu/tmpl/gemm_kit.h"
#include "platform/cpu/vec/butterfly.h"

/* ---- tiles ---- */

#ifdef TILES
#include TILES
#else
#include DOTS

FV_FN void dot_rows(int32_t *acc, const int8_t *a, const int8_t *w, size_t groups, int m,
                    const char *ahead)
{
    enum { PARTS = VECS * SPLIT };
    sums sum[MR][PARTS];
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < PARTS; v++)
            sum[i][v] = none();
    }
    for (; groups > 0; groups--, a += 4 * m, w += 4 * NR) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += 4 * FV_GEMM_AHEAD;
        numbers column[PARTS];
        FV_UNROLL
        for (int v = 0; v < PARTS; v++)
            column[v] = columns(w + 4 * FV_W / SPLIT * v);
        FV_UNROLL
        for (int i = 0; i < m; i++) {
            const numbers x = steps(a + 4 * i);
            FV_UNROLL
            for (int v = 0; v < PARTS; v++)
                sum[i][v] = add(sum[i][v], x, column[v]);
        }
    }
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            put(acc + NR * i + FV_W * v, &sum[i][SPLIT * v]);
    }
}

static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *ahead)
{
    (void)first; /* K is one block */
#define CALL(M) dot_rows((int32_t *)(void *)acc, a, w, groups, M, ahead)
    OF_ROWS(MR, CALL)
#undef CALL
}
#endif

/* The sums as floats, in place, then the epilogue. */
static void finish_i8(const fv_gemm_out *o, float *acc)
{
    for (uint32_t i = 0; i < o->rows; i++) {
        const int32_t off = (int32_t)BIAS * o->row_sum[i];
        const fv_v scale = fv_set(o->row_scale[i]);
        FV_UNROLL
        for (int v = 0; v < VECS; v++) {
            float *at = acc + NR * i + FV_W * v;
            const fv_v by = fv_mul(scale, fv_load(o->column_scale + FV_W * v));
            fv_store(at, fv_mul(of_whole((const int32_t *)(const void *)at, off), by));
        }
    }
    finish(o, acc);
}

/* ---- rows ---- */

/* Rotates a row; returns its largest absolute value, NaN where one is infinite or NaN. */
static float rotate_row(float *y, uint32_t k)
{
    const uint32_t block = fv_int8_block(k);
    fv_v top = fv_set(0.f), poison = fv_set(0.f);
    if (block < 64)
        fv_int8_rotate(y, k, block);
    for (uint32_t i = 0; block == 64 && i < k; i += 64) {
        fv_v x[FV_ROTATED];
        FV_UNROLL
        for (int v = 0; v < FV_ROTATED; v++)
            x[v] = fv_load(y + i + FV_W * v);
        fv_rotate_64(x);
        FV_UNROLL
        for (int v = 0; v < FV_ROTATED; v++) {
            fv_store(y + i + FV_W * v, x[v]);
            top = fv_max(top, fv_abs(x[v]));
            poison = fv_fma(x[v], fv_set(0.f), poison);
        }
    }
    for (uint32_t i = 0; block < 64 && i < k; i += FV_W) {
        const fv_v x = fv_load_n(y + i, fv_lanes(k - i));
        top = fv_max(top, fv_abs(x));
        poison = fv_fma(x, fv_set(0.f), poison);
    }
    return fv_hsum(poison) == 0 ? fv_hmax(top) : NAN;
}

static void quantise(int8_t *q, float *scale, int32_t *sum, const void *rows, enum fv_type type,
                     size_t ld, uint32_t m, uint32_t k, float *room)
{
    const uint32_t k4 = (k + STEPS - 1) / STEPS * STEPS;
    for (uint32_t r = 0; r < m; r++, q += k4) {
        float factor;
        fv_row_convert(room, FV_F32, fv_element(rows, type, r * ld), type, k);
        scale[r] = fv_int8_scale(&factor, rotate_row(room, k));
        sum[r] = 0;
        memset(q + k, 0, k4 - k);
        if (!(factor > 0)) {
            memset(q, 0, k);
            continue;
        }
        uint32_t i = 0;
        for (; i + FV_W <= k; i += FV_W)
            sum[r] += put_bytes(q + i, fv_mul(fv_load(room + i), fv_set(factor)));
        if (i < k) {
            int8_t last[FV_W];
            sum[r] += put_bytes(last, fv_mul(fv_load_n(room + i, (int)(k - i)), fv_set(factor)));
            memcpy(q + i, last, k - i);
        }
    }
}

KIT(i8, p->weight == FV_I8 && p->acc == FV_I32, .weight = FV_I8, .factor = FV_I8, .bias = BIAS,
    .finish = finish_i8, .quantise = quantise)
KERNEL(gemm, i8)
