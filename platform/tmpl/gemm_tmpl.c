/* gemm_tmpl.c: tiles of GEMM and CONV, and their epilogue, over the vector vocabulary. */
#include "cpu_kernels.h"
#include "gemm.h"
#include "vec/math.h"
#include "vec/row.h"

/* Rows and vectors of a tile: the accumulators, a row of the weight and a broadcast activation fill
 * the registers. KC: a block of k that suits the caches of such machines. RATE: FLOP/s, for the
 * order of the kernels by cost. */
#if defined FV_ISA_AVX512
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
#elif defined FV_ISA_NEON
#define MR 6
#define VECS 4
#define TILE 6x16
#define PANEL "panel16"
#define KC 384
#define RATE 20e9
#else
#define MR 2
#define VECS 4
#define TILE 2x16
#define PANEL "panel16"
#define KC 384
#define RATE 15e9
#endif
#define NR (VECS * FV_W)

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
                const fv_v x = fv_set(a[4 * i + k]);
                FV_UNROLL
                for (int v = 0; v < VECS; v++)
                    sum[i][v] = fv_fma(x, row[v], sum[i][v]);
            }
        }
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
    switch (m) {
#define ROWS(M)                                                                                    \
    case M:                                                                                        \
        tile_rows(acc, a, w, type, groups, M, first, ahead, wide);                                 \
        break;
        ROWS(1)
        ROWS(2)
#if MR > 2
        ROWS(3)
        ROWS(4)
        ROWS(5)
        ROWS(6)
#endif
#if MR > 6
        ROWS(7)
        ROWS(8)
        ROWS(9)
        ROWS(10)
        ROWS(11)
        ROWS(12)
        ROWS(13)
        ROWS(14)
#endif
#undef ROWS
    }
}

static void tile(float *acc, const float *a, const float *w, size_t groups, uint32_t m, bool first,
                 const char *ahead)
{
    tile_of(acc, a, w, FV_F32, groups, m, first, ahead, NULL);
}

static void widen_f16(float *acc, const float *a, const uint16_t *w, size_t groups, uint32_t m,
                      bool first, const char *ahead, float *wide)
{
    tile_of(acc, a, w, FV_F16, groups, m, first, ahead, wide);
}

static void widen_bf16(float *acc, const float *a, const uint16_t *w, size_t groups, uint32_t m,
                       bool first, const char *ahead, float *wide)
{
    tile_of(acc, a, w, FV_BF16, groups, m, first, ahead, wide);
}

FV_FN fv_v activate(fv_v x, uint32_t act)
{
    const fv_v half = fv_set(0.5f), one = fv_set(1.f);
    switch (act) {
    case FV_EPI_GELU:
        return fv_mul(fv_mul(half, x), fv_add(one, fv_erf(fv_mul(x, fv_set(0.707106781f)))));
    case FV_EPI_GELU_TANH: {
        const fv_v cubic = fv_fma(fv_mul(fv_mul(x, x), x), fv_set(0.044715f), x);
        return fv_mul(fv_mul(half, x), fv_add(one, fv_tanh(fv_mul(cubic, fv_set(0.797884561f)))));
    }
    case FV_EPI_GELU_QUICK:
        return fv_mul(x, fv_sigmoid(fv_mul(x, fv_set(1.702f))));
    case FV_EPI_SILU:
        return fv_mul(x, fv_sigmoid(x));
    case FV_EPI_TANH:
        return fv_tanh(x);
    case FV_EPI_RELU:
        return fv_max(fv_set(0.f), x);
    default:
        return x;
    }
}

FV_FN fv_v load(const float *p, uint32_t n)
{
    return n == FV_W ? fv_load(p) : fv_load_n(p, (int)n);
}

FV_FN void store(float *p, fv_v x, uint32_t n)
{
    if (n == FV_W)
        fv_store(p, x);
    else
        fv_store_n(p, x, (int)n);
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
            x = fv_mul(activate(x, FV_EPI_SILU), fv_add(fv_load(acc + NR / 2 + j), gate_bias));
        else
            x = activate(x, act);
        x = fv_mul(x, scale);
        if (o->res)
            x = fv_add(x, load(o->res + i * o->ld_res + j, n));
        store(o->out + i * o->ld_out + j, x, n);
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

/* The kit of one type of weights, its hooks and its kernels. */
#define KIT(TYPE, type, WIDEN, NARROW)                                                             \
    static const fv_gemm_kit kit_##type = {.mr = MR,                                               \
                                           .nr = NR,                                               \
                                           .weight = TYPE,                                         \
                                           .tile = tile,                                           \
                                           .finish = finish,                                       \
                                           .widen = WIDEN,                                         \
                                           .narrow = NARROW};                                      \
    static bool applies_##type(const fv_problem *p)                                                \
    {                                                                                              \
        return p->weight == TYPE;                                                                  \
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

static void narrow_f16(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_F16, src, FV_F32, n);
}

static void narrow_bf16(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_BF16, src, FV_F32, n);
}

KIT(FV_F32, f32, NULL, NULL)
KIT(FV_F16, f16, widen_f16, narrow_f16)
KIT(FV_BF16, bf16, widen_bf16, narrow_bf16)
