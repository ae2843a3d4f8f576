/* cpu_levels.h: macros for the lists of CPU kernels, cpu_kernels.inc and
 * src/train/cpu/train_cpu_kernels.inc. Each macro adds one line for every ISA for which the
 * template is compiled.
 *
 *   FV_EVERY_ISA(OP, MECH, name, rev)                   name_<isa>, no hooks
 *   FV_EVERY_ISA_HOOKED(OP, MECH, name, rev, hooks)     name_<isa>, hooks_<isa>
 *   FV_EVERY_ISA_TILED(OP, MECH, name, rev, hooks)      name_<tile>_<isa>, hooks_<isa>
 *
 * An ISA that is not compiled for this architecture, or by this compiler, is left out. Small builds
 * define FV_NO_PORTABLE. Then the reference kernels, of which every op has one, are the only
 * portable kernels.
 */
#ifndef FOVEA_PLATFORM_CPU_LEVELS_H
#define FOVEA_PLATFORM_CPU_LEVELS_H

/* LINE(isa, NEED, tiles for float products, tiles for 8-bit products, ...) for each ISA. */
#ifdef FV_NO_PORTABLE
#define FV_PORTABLE_ISA(LINE, ...)
#else
#define FV_PORTABLE_ISA(LINE, ...) LINE(c, PORTABLE, 2x16, 2x8, __VA_ARGS__)
#endif
#if defined FV_ARCH_X86
#define FV_NATIVE_ISAS(LINE, ...)                                                                  \
    LINE(avx2, AVX2, 6x16, 6x16, __VA_ARGS__) LINE(avx512, AVX512, 14x32, 6x64, __VA_ARGS__)
#elif defined FV_ARCH_ARM64
#define FV_NATIVE_ISAS(LINE, ...) LINE(neon, NEON, 6x16, 6x8, __VA_ARGS__)
#elif defined FV_LEVEL_RVV
#define FV_NATIVE_ISAS(LINE, ...) LINE(rvv, RVV, 6x16, 2x8, __VA_ARGS__)
#else
#define FV_NATIVE_ISAS(LINE, ...)
#endif
#if defined FV_LEVEL_AVX512_BF16
#define FV_BF16_LEVEL(LINE, ...) LINE(avx512_bf16, AVX512_BF16, , , __VA_ARGS__)
#elif defined FV_LEVEL_NEON_DOT
#define FV_BF16_LEVEL(LINE, ...) LINE(neon_dot, NEON_DOT, , , __VA_ARGS__)
#else
#define FV_BF16_LEVEL(LINE, ...)
#endif
/* Levels with instructions for products of 8-bit numbers. */
#ifdef FV_LEVEL_AVX_VNNI
#define FV_AVX_VNNI_LEVEL(LINE, ...) LINE(avx_vnni, AVX_VNNI, , , __VA_ARGS__)
#else
#define FV_AVX_VNNI_LEVEL(LINE, ...)
#endif
#ifdef FV_LEVEL_AVX512_VNNI
#define FV_AVX512_VNNI_LEVEL(LINE, ...) LINE(avx512_vnni, AVX512_VNNI, , , __VA_ARGS__)
#else
#define FV_AVX512_VNNI_LEVEL(LINE, ...)
#endif
#ifdef FV_LEVEL_NEON_SDOT
#define FV_SDOT_LEVEL(LINE, ...) LINE(neon_sdot, NEON_SDOT, , , __VA_ARGS__)
#else
#define FV_SDOT_LEVEL(LINE, ...)
#endif
#ifdef FV_LEVEL_NEON_I8MM
#define FV_I8MM_LEVEL(LINE, ...) LINE(neon_i8mm, NEON_I8MM, , , __VA_ARGS__)
#else
#define FV_I8MM_LEVEL(LINE, ...)
#endif
#define FV_INT8_LEVELS(...)                                                                        \
    FV_AVX_VNNI_LEVEL(__VA_ARGS__)                                                                 \
    FV_AVX512_VNNI_LEVEL(__VA_ARGS__) FV_SDOT_LEVEL(__VA_ARGS__) FV_I8MM_LEVEL(__VA_ARGS__)
#define FV_ISAS(...) FV_PORTABLE_ISA(__VA_ARGS__) FV_NATIVE_ISAS(__VA_ARGS__)

#define FV_PLAIN(isa, NEED, tile, tile8, OP, MECH, name, rev)                                      \
    FV_CPU_KERNEL(OP, MECH, name##_##isa, NEED, rev, none)
#define FV_HOOKED(isa, NEED, tile, tile8, OP, MECH, name, rev, hooks)                              \
    FV_CPU_KERNEL(OP, MECH, name##_##isa, NEED, rev, hooks##_##isa)
#define FV_TILED(isa, NEED, tile, tile8, OP, MECH, name, rev, hooks)                               \
    FV_CPU_KERNEL(OP, MECH, name##_##tile##_##isa, NEED, rev, hooks##_##isa)
#define FV_TILED_8(isa, NEED, tile, tile8, OP, MECH, name, rev, hooks)                             \
    FV_CPU_KERNEL(OP, MECH, name##_##tile8##_##isa, NEED, rev, hooks##_##isa)
#define FV_EVERY_ISA(...) FV_ISAS(FV_PLAIN, __VA_ARGS__)
#define FV_EVERY_ISA_HOOKED(...) FV_ISAS(FV_HOOKED, __VA_ARGS__)
#define FV_EVERY_ISA_TILED(...) FV_ISAS(FV_TILED, __VA_ARGS__)

#endif
