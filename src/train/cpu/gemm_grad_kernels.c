/* gemm_grad_kernels.c: the kernels of GEMM_GRAD_W, one for each GEMM microkernel that they use. */
#include "train/cpu/gemm_grad.h"
#include "train/cpu/train_cpu_kernels.h"

/* Defines the kernel `name` with the hooks `hooks`. It uses the microkernel `mk` and supports
 * problems for which FITS is true. */
#define GRAD_KERNEL(name, hooks, mk, FITS)                                                         \
    extern const fv_gemm_microkernel mk;                                                           \
    static bool applies_##name(const fv_problem *p)                                                \
    {                                                                                              \
        return FITS;                                                                               \
    }                                                                                              \
    static double cost_##name(const fv_problem *p, const fv_knobs *knobs)                          \
    {                                                                                              \
        (void)knobs;                                                                               \
        return fv_problem_flops(p) / mk.rate;                                                      \
    }                                                                                              \
    static size_t scratch_##name(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)        \
    {                                                                                              \
        (void)knobs;                                                                               \
        return fv_gemm_grad_scratch(&mk, p, rows);                                                 \
    }                                                                                              \
    const fv_kernel_hooks fv_h_##hooks = {                                                         \
        .applies = applies_##name, .cost = cost_##name, .scratch = scratch_##name};                \
    void fv_k_##name(const fv_args *a, const fv_call *c)                                           \
    {                                                                                              \
        fv_gemm_grad_run(&mk, a, c);                                                               \
    }

#define GRAD_OF_FLOATS(isa, NEED, tile, tile8, type)                                               \
    GRAD_KERNEL(gemm_grad_w_##type##_##tile##_##isa, gemm_grad_w_##type##_##isa,                   \
                fv_gemm_mk_##type##_##isa, p->in == FV_F32 || p->in == FV_BF16)
FV_ISAS(GRAD_OF_FLOATS, f32)

#ifdef FV_LEVEL_AVX512_BF16
GRAD_KERNEL(gemm_grad_w_bf16_14x32_avx512_bf16, gemm_grad_w_bf16_avx512_bf16,
            fv_gemm_mk_bf16_avx512_bf16, p->in == FV_BF16)
#endif
#ifdef FV_LEVEL_NEON_DOT
GRAD_KERNEL(gemm_grad_w_bf16_12x8_neon_dot, gemm_grad_w_bf16_neon_dot, fv_gemm_mk_bf16bf16_neon_dot,
            p->in == FV_BF16)
#endif
