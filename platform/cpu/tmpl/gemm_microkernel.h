/* gemm_microkernel.h: the parts that all microkernels of GEMM and CONV share: loops over the rows
 * of a tile, the epilogue, hooks and kernels. The including file defines MR, VECS, NR, TILE, PANEL,
 * KC and RATE, and STEPS if the groups of its panels do not have 4 steps. */
#include <string.h>

#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/gemm.h"
#include "platform/cpu/vec/act.h"
#include "platform/cpu/vec/row.h"

#ifndef STEPS
#define STEPS 4
#endif

/* Calls CALL(M) with M the constant that m equals, so that the compiler can unroll loops over
 * rows. */
#define CASE(CALL, M)                                                                              \
    case M:                                                                                        \
        CALL(M);                                                                                   \
        break;
#define CASES_2(CALL) CASE(CALL, 1) CASE(CALL, 2)
#define CASES_3(CALL) CASES_2(CALL) CASE(CALL, 3)
#define CASES_4(CALL) CASES_3(CALL) CASE(CALL, 4)
#define CASES_6(CALL) CASES_4(CALL) CASE(CALL, 5) CASE(CALL, 6)
#define CASES_8(CALL) CASES_6(CALL) CASE(CALL, 7) CASE(CALL, 8)
#define CASES_10(CALL) CASES_8(CALL) CASE(CALL, 9) CASE(CALL, 10)
#define CASES_14(CALL) CASES_10(CALL) CASE(CALL, 11) CASE(CALL, 12) CASE(CALL, 13) CASE(CALL, 14)
#define CASES_UP_TO(most, CALL) CASES_##most(CALL)
#define OF_ROWS(most, CALL)                                                                        \
    switch (m) {                                                                                   \
        CASES_UP_TO(most, CALL)                                                                    \
    }

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

/* Starts the sums of a tile of m rows: at 0 for the first block of k, else at the values in
 * `acc`. */
FV_FN void begin_sums(fv_v sum[MR][VECS], const float *acc, int m, bool first)
{
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            sum[i][v] = first ? fv_set(0.f) : fv_load(acc + NR * i + FV_W * v);
    }
}

FV_FN void end_sums(float *acc, fv_v sum[MR][VECS], int m)
{
    FV_UNROLL
    for (int i = 0; i < m; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            fv_store(acc + NR * i + FV_W * v, sum[i][v]);
    }
}

/* Loads the sums of row i of a tile from column j on, as floats. A file whose sums are not floats
 * defines its own. */
#ifndef SUMS
#define SUMS(o, acc, i, j) fv_load((acc) + NR * (i) + (j))
#endif

/* Runs the epilogue for columns [j, j + n) of all rows of a tile. */
FV_FN void finish_columns(const fv_gemm_out *o, const float *acc, uint32_t j, uint32_t n,
                          uint32_t act, bool rough)
{
    const fv_v bias = o->bias ? load(o->bias + j, n) : fv_set(0.f);
    const fv_v gate_bias = o->gate_bias ? load(o->gate_bias + j, n) : fv_set(0.f);
    const fv_v scale = o->scale ? load(o->scale + j, n) : fv_set(1.f);
    for (uint32_t i = 0; i < o->rows; i++) {
        fv_v x = fv_add(SUMS(o, acc, i, j), bias);
        if (act == FV_EPI_SWIGLU)
            x = fv_mul(fv_activate(x, FV_EPI_SILU), fv_add(SUMS(o, acc, i, NR / 2 + j), gate_bias));
        else
            x = rough ? fv_activate_roughly(x, act) : fv_activate(x, act);
        x = fv_mul(x, scale);
        if (o->res)
            x = fv_add(x, load(o->res + i * o->ld_res + j, n));
        if (o->type == FV_F32)
            store((float *)o->out + i * o->ld_out, FV_F32, j, x, n);
        else
            store((uint16_t *)o->out + i * o->ld_out, FV_BF16, j, x, n);
    }
}

/* Runs the epilogue for the last columns, which do not fill a vector. */
FV_PART void finish_part(const fv_gemm_out *o, const float *acc, uint32_t j, uint32_t act,
                         bool rough)
{
    finish_columns(o, acc, j, o->cols - j, act, rough);
}

FV_FN void finish_act(const fv_gemm_out *o, const float *acc, uint32_t act, bool rough)
{
    uint32_t j = 0;
    for (; j + FV_W <= o->cols; j += FV_W)
        finish_columns(o, acc, j, FV_W, act, rough);
    if (j < o->cols)
        finish_part(o, acc, j, act, rough);
}

static void finish(const fv_gemm_out *o, const float *acc)
{
    switch (o->epi & (FV_EPI_ACT | FV_EPI_SWIGLU)) {
#define ACT(NAME)                                                                                  \
    case NAME:                                                                                     \
        if ((NAME)&FV_EPI_ROUGH && o->rough)                                                       \
            finish_act(o, acc, NAME, true);                                                        \
        else                                                                                       \
            finish_act(o, acc, NAME, false);                                                       \
        break;
        ACT(0)
#define FV_ACTIVATION(NAME, ...) ACT(FV_EPI_##NAME)
#include "act/activations.inc"
#undef FV_ACTIVATION
        ACT(FV_EPI_SWIGLU)
#undef ACT
    }
}

/* Rounds rows of floats to bfloat16. */
FV_FN void round_rows(uint16_t *dst, const float *src, size_t n)
{
    fv_row_convert(dst, FV_BF16, src, FV_F32, n);
}

/* Returns whether a problem multiplies bfloat16 by bfloat16: its rows are bfloat16, or may be
 * rounded to it. */
FV_FN bool is_of_bf16(const fv_problem *p)
{
    return p->weight == FV_BF16 && (p->in == FV_BF16 || p->acc == FV_BF16);
}

static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gemm_cost(p, RATE);
}

/* The default of mc is at least the rows of the largest chunk that plan/schedule.c makes by
 * default. */
static const fv_knob knob_list[] = {
    [FV_GEMM_KC] = {.name = "kc", .value = {KC, 256, 512, 1024}, .count = 4},
    [FV_GEMM_MC] = {.name = "mc", .value = {176, 84, 252, 336}, .count = 4},
    {.name = NULL},
};

#define NAME_PASTE(op, type, size) op##_##type##_##size
#define NAME_VALUES(op, type, size) NAME_PASTE(op, type, size)

#define MK_OF(type) FV_NAME(fv_gemm_mk_##type)

/* Defines the microkernel for a type of products and the hooks of its kernels. FITS is a condition
 * on a problem `p`; the arguments in `...` are the microkernel's functions. */
#define MICROKERNEL(type, FITS, ...)                                                               \
    FV_GEMM_MK_VISIBLE const fv_gemm_microkernel MK_OF(type) = {                                   \
        .rate = RATE, .mr = MR, .nr = NR, .steps = STEPS, __VA_ARGS__};                            \
    static bool applies_##type(const fv_problem *p)                                                \
    {                                                                                              \
        return FITS;                                                                               \
    }                                                                                              \
    static size_t scratch_##type(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)        \
    {                                                                                              \
        return fv_gemm_scratch(&MK_OF(type), p, knobs, rows);                                      \
    }                                                                                              \
    static size_t packed_##type(const fv_problem *p, const fv_knobs *knobs)                        \
    {                                                                                              \
        (void)knobs;                                                                               \
        return fv_gemm_packed(&MK_OF(type), p);                                                    \
    }                                                                                              \
    static void pack_##type(void *dst, const float *src, uint32_t n0, uint32_t n,                  \
                            const fv_problem *p, const fv_knobs *knobs)                            \
    {                                                                                              \
        (void)knobs;                                                                               \
        fv_gemm_pack(&MK_OF(type), dst, src, n0, n, p);                                            \
    }                                                                                              \
    const fv_kernel_hooks FV_NAME(fv_h_gemm_##type) = {                                            \
        .applies = applies_##type,                                                                 \
        .cost = cost,                                                                              \
        .scratch = scratch_##type,                                                                 \
        .packed = packed_##type,                                                                   \
        .pack = pack_##type,                                                                       \
        .format = #type "_" PANEL,                                                                 \
        .knobs = knob_list,                                                                        \
    };

/* Defines the kernel of an op that runs the microkernel of this type. */
#define KERNEL(op, type)                                                                           \
    void FV_NAME(NAME_VALUES(fv_k_##op, type, TILE))(const fv_args *a, const fv_call *c)           \
    {                                                                                              \
        fv_gemm_run(&MK_OF(type), a, c);                                                           \
    }

/* Defines MATMUL by a microkernel that rounds its operands to bfloat16. */
#define MATMUL_KERNEL(mk)                                                                          \
    static bool matmul_applies(const fv_problem *p)                                                \
    {                                                                                              \
        return p->acc == FV_BF16;                                                                  \
    }                                                                                              \
    static size_t matmul_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)        \
    {                                                                                              \
        return fv_gemm_matmul_scratch(&MK_OF(mk), p, knobs, rows);                                 \
    }                                                                                              \
    const fv_kernel_hooks FV_NAME(fv_h_matmul_bf16) = {                                            \
        .applies = matmul_applies, .cost = cost, .scratch = matmul_scratch, .knobs = knob_list};   \
    void FV_NAME(NAME_VALUES(fv_k_matmul, bf16, TILE))(const fv_args *a, const fv_call *c)         \
    {                                                                                              \
        fv_gemm_matmul_run(&MK_OF(mk), a, c);                                                      \
    }
