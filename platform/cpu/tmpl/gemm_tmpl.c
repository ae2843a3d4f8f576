/* gemm_tmpl.c: tiles of GEMM and CONV, and their epilogue, over the vector vocabulary. */
#include <string.h>

#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/gemm.h"
#include "platform/cpu/vec/act.h"
#include "platform/cpu/vec/row.h"

/* Rows and vectors of a tile: the accumulators, a row of the weight and a broadcast activation fill
 * the registers. KC: the default block of k, for the caches of such machines; a knob of the
 * tuner. RATE: assumed FLOP/s of a core, which only order the kernels by cost.
 *
 * TILES: the file of an ISA that does better than the tiles below, or multiplies by instructions
 * that the vocabulary has no names for; it defines tile(), and what else its kits have. */
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
#else
#define MR 2
#define VECS 4
#define TILE 2x16
#define PANEL "panel16"
#define KC 384
#define RATE 15e9
#endif
#define NR (VECS * FV_W)

/* CALL(M) for the number of rows that m is, so that loops over them can be unrolled. */
#define CASE(CALL, M)                                                                              \
    case M:                                                                                        \
        CALL(M);                                                                                   \
        break;
#define CASES_2(CALL) CASE(CALL, 1) CASE(CALL, 2)
#define CASES_6(CALL) CASES_2(CALL) CASE(CALL, 3) CASE(CALL, 4) CASE(CALL, 5) CASE(CALL, 6)
#define CASES_8(CALL) CASES_6(CALL) CASE(CALL, 7) CASE(CALL, 8)
#define CASES_14(CALL)                                                                             \
    CASES_8(CALL)                                                                                  \
    CASE(CALL, 9)                                                                                  \
    CASE(CALL, 10) CASE(CALL, 11) CASE(CALL, 12) CASE(CALL, 13) CASE(CALL, 14)
#define CASES_UP_TO(most, CALL) CASES_##most(CALL)
#define OF_ROWS(most, CALL)                                                                        \
    switch (m) {                                                                                   \
        CASES_UP_TO(most, CALL)                                                                    \
    }

/* Four steps of k of a tile of m rows, whose weights of type `type` are left as floats in `wide`
 * unless that is NULL. */
FV_FN void add_group(fv_v sum[MR][VECS], const float *a, const void *w, enum fv_type type, int m,
                     float *wide)
{
    fv_four x[MR];
    FV_UNROLL
    for (int i = 0; i < m; i++)
        x[i] = fv_load_four(a + 4 * i);
    FV_UNROLL
    for (int k = 0; k < 4; k++) {
        fv_v row[VECS];
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            row[v] = fv_row_load(w, type, (size_t)(NR * k + FV_W * v), FV_W);
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

/* A tile of m rows by a panel of type `type`, its floats to `wide` unless that is NULL. */
FV_FN void tile_rows(float *acc, const float *a, const void *w, enum fv_type type, size_t groups,
                     int m, bool first, const char *ahead, float *wide)
{
    fv_v sum[MR][VECS];
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            sum[i][v] = first ? fv_set(0.f) : fv_load(acc + NR * i + FV_W * v);
    }
    for (; groups > 0; groups--, a += 4 * m, w = fv_element(w, type, 4 * NR)) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += 4 * FV_GEMM_AHEAD;
        add_group(sum, a, w, type, m, wide);
        if (wide)
            wide += 4 * NR;
    }
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            fv_store(acc + NR * i + FV_W * v, sum[i][v]);
    }
}

FV_FN void tile_of(float *acc, const float *a, const void *w, enum fv_type type, size_t groups,
                   uint32_t m, bool first, const char *ahead, float *wide)
{
#define CALL(M) tile_rows(acc, a, w, type, groups, M, first, ahead, wide)
    OF_ROWS(MR, CALL)
#undef CALL
}

#ifdef TILES
#include TILES
#else
static void tile(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *ahead)
{
    tile_of(acc, a, w, FV_F32, groups, m, first, ahead, NULL);
}
#endif

FV_FN fv_v load(const float *p, uint32_t n)
{
    return n == FV_W ? fv_load(p) : fv_load_n(p, (int)n);
}

FV_FN void store(void *row, enum fv_type type, uint32_t j, fv_v x, uint32_t n)
{
    if (n == FV_W)
        fv_row_store(row, type, j, x, FV_W);
    else
        fv_row_store(row, type, j, x, (int)n);
}

/* Columns [j, j + n) of all rows. */
FV_FN void finish_columns(const fv_gemm_out *o, const float *acc, uint32_t j, uint32_t n,
                          uint32_t act)
{
    const fv_v bias = o->bias ? load(o->bias + j, n) : fv_set(0.f);
    const fv_v gate_bias = o->gate_bias ? load(o->gate_bias + j, n) : fv_set(0.f);
    const fv_v scale = o->scale ? load(o->scale + j, n) : fv_set(1.f);
    for (uint32_t i = 0; i < o->rows; i++, acc += NR) {
        fv_v x = fv_add(fv_load(acc + j), bias);
        if (act == FV_EPI_SWIGLU)
            x = fv_mul(fv_activate(x, FV_EPI_SILU), fv_add(fv_load(acc + NR / 2 + j), gate_bias));
        else
            x = fv_activate(x, act);
        x = fv_mul(x, scale);
        if (o->res)
            x = fv_add(x, load(o->res + i * o->ld_res + j, n));
        if (o->type == FV_F32)
            store((float *)o->out + i * o->ld_out, FV_F32, j, x, n);
        else
            store((uint16_t *)o->out + i * o->ld_out, FV_BF16, j, x, n);
    }
}

FV_FN void finish_act(const fv_gemm_out *o, const float *acc, uint32_t act)
{
    uint32_t j = 0;
    for (; j + FV_W <= o->cols; j += FV_W)
        finish_columns(o, acc, j, FV_W, act);
    if (j < o->cols)
        finish_columns(o, acc, j, o->cols - j, act);
}

static void finish(const fv_gemm_out *o, const float *acc)
{
    switch (o->epi & (FV_EPI_ACT | FV_EPI_SWIGLU)) {
#define ACT(NAME)                                                                                  \
    case NAME:                                                                                     \
        finish_act(o, acc, NAME);                                                                  \
        break;
        ACT(0)
        ACT(FV_EPI_GELU)
        ACT(FV_EPI_GELU_TANH)
        ACT(FV_EPI_GELU_QUICK)
        ACT(FV_EPI_SILU)
        ACT(FV_EPI_TANH)
        ACT(FV_EPI_RELU)
        ACT(FV_EPI_SWIGLU)
#undef ACT
    }
}

static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gemm_cost(p, RATE);
}

static const fv_knob knob_list[] = {
    [FV_GEMM_KC] = {.name = "kc", .value = {KC, 256, 512, 1024}, .count = 4},
    [FV_GEMM_MC] = {.name = "mc", .value = {168, 84, 252, 336}, .count = 4},
    {.name = NULL},
};

#define NAME_PASTE(op, type, size) op##_##type##_##size
#define NAME_VALUES(op, type, size) NAME_PASTE(op, type, size)

/* The kit of one type of weights, its hooks and its kernels, for problems that FITS. */
#define KIT(TYPE, type, FACTOR, FITS, WIDEN, NARROW, TAKE)                                         \
    static const fv_gemm_kit kit_##type = {.mr = MR,                                               \
                                           .nr = NR,                                               \
                                           .weight = TYPE,                                         \
                                           .factor = FACTOR,                                       \
                                           .tile = tile,                                           \
                                           .finish = finish,                                       \
                                           .take = TAKE,                                           \
                                           .widen = WIDEN,                                         \
                                           .narrow = NARROW};                                      \
    static bool applies_##type(const fv_problem *p)                                                \
    {                                                                                              \
        return p->weight == TYPE && (FITS);                                                        \
    }                                                                                              \
    static size_t scratch_##type(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)        \
    {                                                                                              \
        return fv_gemm_scratch(&kit_##type, p, knobs, rows);                                       \
    }                                                                                              \
    static size_t packed_##type(const fv_problem *p, const fv_knobs *knobs)                        \
    {                                                                                              \
        (void)knobs;                                                                               \
        return fv_gemm_packed(&kit_##type, p);                                                     \
    }                                                                                              \
    static void pack_##type(void *dst, const float *src, uint32_t n0, uint32_t n,                  \
                            const fv_problem *p, const fv_knobs *knobs)                            \
    {                                                                                              \
        (void)knobs;                                                                               \
        fv_gemm_pack(&kit_##type, dst, src, n0, n, p);                                             \
    }                                                                                              \
    const fv_kernel_hooks FV_NAME(fv_h_gemm_##type) = {                                            \
        .applies = applies_##type,                                                                 \
        .cost = cost,                                                                              \
        .scratch = scratch_##type,                                                                 \
        .packed = packed_##type,                                                                   \
        .pack = pack_##type,                                                                       \
        .format = #type "_" PANEL,                                                                 \
        .knobs = knob_list,                                                                        \
    };                                                                                             \
    void FV_NAME(NAME_VALUES(fv_k_gemm, type, TILE))(const fv_args *a, const fv_call *c)           \
    {                                                                                              \
        fv_gemm_run(&kit_##type, a, c);                                                            \
    }                                                                                              \
    void FV_NAME(NAME_VALUES(fv_k_conv, type, TILE))(const fv_args *a, const fv_call *c)           \
    {                                                                                              \
        fv_gemm_run(&kit_##type, a, c);                                                            \
    }

#if defined FV_ISA_AVX512_BF16
KIT(FV_BF16, bf16, FV_BF16, p->in == FV_BF16, NULL, narrow, NULL)
#elif defined FV_ISA_NEON_DOT
KIT(FV_BF16, bf16, FV_F32, p->in == FV_F32 && p->dim[FV_GEMM_K] >= LEAST_K, NULL, narrow, take)
#elif defined FV_ISA_NEON_FP16
KIT(FV_F16, f16, FV_F32, p->acc == FV_F16, NULL, narrow, take)
#else
static void widen_f16(float *acc, const void *a, const uint16_t *w, size_t groups, uint32_t m,
                      bool first, const char *ahead, float *wide)
{
    tile_of(acc, a, w, FV_F16, groups, m, first, ahead, wide);
}

static void narrow_f16(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_F16, src, FV_F32, n);
}

static void widen_bf16(float *acc, const void *a, const uint16_t *w, size_t groups, uint32_t m,
                       bool first, const char *ahead, float *wide)
{
    tile_of(acc, a, w, FV_BF16, groups, m, first, ahead, wide);
}

static void narrow_bf16(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_BF16, src, FV_F32, n);
}

/* Rows of bfloat16, which lie at the end of the panel's room, as floats. */
static void take(void *panel, enum fv_type type, size_t groups, uint32_t m)
{
    const size_t n = 4 * groups * m;
    if (type == FV_BF16)
        fv_row_convert(panel, FV_F32, (const uint16_t *)panel + n, FV_BF16, n);
}

KIT(FV_F32, f32, FV_F32, p->in == FV_F32, NULL, NULL, NULL)
KIT(FV_F16, f16, FV_F32, p->in == FV_F32, widen_f16, narrow_f16, NULL)
KIT(FV_BF16, bf16, FV_F32, true, widen_bf16, narrow_bf16, take)

#ifdef FV_ADAPT
static size_t grad_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs;
    return fv_gemm_grad_scratch(&kit_f32, p, rows);
}

const fv_kernel_hooks FV_NAME(fv_h_gemm_grad_w_f32) = {.rate = RATE, .scratch = grad_scratch};

void FV_NAME(NAME_VALUES(fv_k_gemm_grad_w, f32, TILE))(const fv_args *a, const fv_call *c)
{
    fv_gemm_grad_run(&kit_f32, a, c);
}
#endif
#endif
