/* cpu.c: ISA levels, and which cores of a machine are big or little. */
#include "platform/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef FV_ARCH_X86
#include <cpuid.h>
#endif

#include "platform/cpu/cpu_rates.h"
#include "platform/os/os_machine.h"

#define NEON_SDOT (FV_NEED_NEON | FV_NEED_NEON_FP16 | FV_NEED_NEON_SDOT)

/* Feature bits are grouped into levels for which kernels are compiled separately. A machine has a
 * level if its processor has all features of it and the operating system saves the registers that
 * they use; the detection below checks both. */
static const struct {
    const char *name;
    uint32_t features;
} levels[] = {
    {"scalar", FV_NEED_PORTABLE},
    {"neon", FV_NEED_NEON},
    {"neon-fp16", FV_NEED_NEON | FV_NEED_NEON_FP16},
    {"neon-sdot", NEON_SDOT},
    {"neon-dot", NEON_SDOT | FV_NEED_NEON_DOT},
    {"neon-i8mm", NEON_SDOT | FV_NEED_NEON_DOT | FV_NEED_NEON_I8MM},
    {"rvv", FV_NEED_RVV},
    {"avx2", FV_NEED_AVX2},
    {"avx-vnni", FV_NEED_AVX2 | FV_NEED_AVX_VNNI},
    {"avx512", FV_NEED_AVX2 | FV_NEED_AVX512},
    {"avx512-vnni", FV_NEED_AVX2 | FV_NEED_AVX512 | FV_NEED_AVX512_VNNI},
    {"avx512-bf16", FV_NEED_AVX2 | FV_NEED_AVX512 | FV_NEED_AVX512_VNNI | FV_NEED_AVX512_BF16},
};
#define LEVELS (sizeof levels / sizeof *levels)

#ifdef FV_ARCH_ARM64
/* Levels above NEON that are compiled into this library and whose instructions the operating system
 * reports. Each level includes those before it, so the search ends at the first that is missing. */
static uint32_t above_neon(void)
{
    static const struct {
        uint32_t feature, instructions;
    } above[] = {
#ifdef FV_LEVEL_NEON_FP16
        {FV_NEED_NEON_FP16, FV_MACHINE_FP16},
#ifdef FV_LEVEL_NEON_SDOT
        {FV_NEED_NEON_SDOT, FV_MACHINE_DOT},
#ifdef FV_LEVEL_NEON_DOT
        {FV_NEED_NEON_DOT, FV_MACHINE_BF16},
#ifdef FV_LEVEL_NEON_I8MM
        {FV_NEED_NEON_I8MM, FV_MACHINE_I8MM},
#endif
#endif
#endif
#endif
        {0, UINT32_MAX}, /* ends the list: no processor has all of these */
    };
    const uint32_t have = fv_machine_instructions();
    uint32_t features = 0;
    for (size_t i = 0; (have & above[i].instructions) == above[i].instructions; i++)
        features |= above[i].feature;
    return features;
}
#endif

#ifdef FV_ARCH_X86
/* Levels above AVX2 that add products of 16-bit or 8-bit numbers. They use the registers of AVX2 or
 * AVX-512, which `features` says the system saves. */
static uint32_t above_avx(uint32_t features)
{
    /* CPUID leaf 7: ECX of subleaf 0 (_C), EAX of subleaf 1 (_A). */
    enum { VNNI_C = 1 << 11, AVX_VNNI_A = 1 << 4, BF16_A = 1 << 5 };
    unsigned a, b, c, d, more = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    const bool vnni = features & FV_NEED_AVX512 && c & VNNI_C;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
        more = a;
    return (vnni ? FV_NEED_AVX512_VNNI : 0) | (more & AVX_VNNI_A ? FV_NEED_AVX_VNNI : 0) |
           (vnni && more & BF16_A ? FV_NEED_AVX512_BF16 : 0);
}
#endif

uint32_t fv_cpu_features(void)
{
    uint32_t features = FV_NEED_PORTABLE;
#ifdef FV_ARCH_X86
    unsigned a, b, c, d;
    __builtin_cpu_init();
    /* CPUID is read for F16C because not every compiler knows it by name. A virtual machine may
     * hide F16C although it shows AVX2. */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C))
        features |= FV_NEED_AVX2;
    if ((features & FV_NEED_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        features |= FV_NEED_AVX512;
    if (features & FV_NEED_AVX2)
        features |= above_avx(features);
#endif
#ifdef FV_ARCH_ARM64
    features |= FV_NEED_NEON | above_neon(); /* NEON is part of the base architecture */
#endif
#ifdef FV_LEVEL_RVV
    if (fv_machine_instructions() & FV_MACHINE_RVV)
        features |= FV_NEED_RVV;
#endif
    return features;
}

const char *fv_cpu_level_name(uint32_t features)
{
    const char *name = levels[0].name;
    for (size_t i = 1; i < LEVELS; i++)
        if ((features & levels[i].features & ~levels[i - 1].features) != 0)
            name = levels[i].name;
    return name;
}

fovea_status fv_cpu_level(uint32_t *out, const char *name)
{
    uint32_t have = fv_cpu_features();
    if (!name)
        name = getenv("FOVEA_ISA");
    if (!name || !*name) {
        *out = fv_cpu_fast_features(have);
        return FOVEA_OK;
    }
    for (size_t i = 0; i < LEVELS; i++) {
        if (strcmp(name, levels[i].name))
            continue;
        if ((levels[i].features & ~have) == 0) {
            *out = levels[i].features;
            return FOVEA_OK;
        }
        return fv_fail(FOVEA_ENOTSUP,
                       "isa %s: the processor lacks these instructions; its highest level is %s",
                       name, fv_cpu_level_name(have));
    }
    return fv_fail(FOVEA_EINVAL,
                   "isa '%s' is unknown; choose scalar, neon, neon-fp16, neon-sdot, neon-dot, "
                   "neon-i8mm, rvv, avx2, avx-vnni, avx512, avx512-vnni or avx512-bf16",
                   name);
}

/* Cores within 10 % of each other's capacity are of one kind, since the maximal turbo frequency
 * differs a little between cores. */
static bool same_kind(uint32_t a, uint32_t b)
{
    return (a < b ? b - a : a - b) * 10ull <= (a < b ? b : a);
}

static void extremes(const fv_cores *c, uint32_t *lowest, uint32_t *highest)
{
    *lowest = *highest = c->cpu[0].capacity;
    for (uint32_t i = 1; i < c->n; i++) {
        if (c->cpu[i].capacity < *lowest)
            *lowest = c->cpu[i].capacity;
        if (c->cpu[i].capacity > *highest)
            *highest = c->cpu[i].capacity;
    }
}

/* Returns whether a core is at least half as fast as the fastest. Cores claim units of work one by
 * one, so such a core still helps. A slower one costs more time than it saves, because the others
 * wait for its last unit. */
static bool is_big(uint32_t capacity, uint32_t highest)
{
    return capacity * 2ull >= highest;
}

void fv_cpu_core_kinds(uint32_t *kinds, uint32_t *performance, const fv_cores *c)
{
    uint32_t lowest, highest;
    extremes(c, &lowest, &highest);
    *kinds = *performance = 0;
    for (uint32_t i = 0; i < c->n; i++)
        *performance += is_big(c->cpu[i].capacity, highest);
    for (uint32_t top = highest; top > 0;) { /* the fastest core of each kind */
        uint32_t next = 0;
        for (uint32_t i = 0; i < c->n; i++) {
            const uint32_t own = c->cpu[i].capacity;
            if (own < top && !same_kind(own, top) && own > next)
                next = own;
        }
        ++*kinds;
        top = next;
    }
}

fovea_status fv_cpu_cores(uint32_t out[FV_PROCESSORS], uint32_t *count, const fv_cores *c,
                          const char *which)
{
    uint32_t lowest, highest;
    extremes(c, &lowest, &highest);
    if (!which || !*which)
        which = "big";
    *count = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        int use;
        if (strcmp(which, "big") == 0)
            use = is_big(c->cpu[i].capacity, highest);
        else if (strcmp(which, "little") == 0)
            use = same_kind(c->cpu[i].capacity, lowest);
        else if (strcmp(which, "all") == 0)
            use = 1;
        else
            use = fv_cores_listed(which, c->cpu[i].id);
        if (use < 0)
            return fv_fail(
                FOVEA_EINVAL,
                "cores '%s' is not a list; write big, little, all or numbers as in 0,4-7", which);
        if (use)
            out[(*count)++] = c->cpu[i].id;
    }
    if (*count == 0)
        return fv_fail(FOVEA_EINVAL,
                       "cores '%s': this process may run on none of these cores; see taskset",
                       which);
    return FOVEA_OK;
}
