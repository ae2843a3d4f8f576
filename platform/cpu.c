/* cpu.c: ISA levels and core clusters. */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Feature bits are grouped into levels that are worth a build of their own; a level holds when the
 * processor has all of it and the system saves its registers (the compiler's test asks both). */
static const struct {
    const char *name;
    uint32_t features;
} levels[] = {
    {"scalar", FV_NEED_PORTABLE},
    {"neon", FV_NEED_NEON},
    {"avx2", FV_NEED_AVX2},
    {"avx512", FV_NEED_AVX2 | FV_NEED_AVX512},
};
#define LEVELS (sizeof levels / sizeof *levels)

uint32_t fv_cpu_features(void)
{
    uint32_t features = FV_NEED_PORTABLE;
#ifdef FV_ARCH_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        features |= FV_NEED_AVX2;
    if ((features & FV_NEED_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        features |= FV_NEED_AVX512;
#endif
#ifdef FV_ARCH_ARM64
    features |= FV_NEED_NEON; /* part of the base architecture */
#endif
    return features;
}

const char *fv_cpu_level_name(uint32_t features)
{
    const char *name = levels[0].name;
    for (size_t i = 1; i < LEVELS; i++)
        if (features & levels[i].features & ~levels[i - 1].features)
            name = levels[i].name;
    return name;
}

fovea_status fv_cpu_level(uint32_t *out, const char *name)
{
    uint32_t have = fv_cpu_features();
    if (!name)
        name = getenv("FOVEA_ISA");
    if (!name || !*name) {
        *out = have;
        return FOVEA_OK;
    }
    for (size_t i = 0; i < LEVELS; i++) {
        if (strcmp(name, levels[i].name))
            continue;
        if ((levels[i].features & ~have) == 0) {
            *out = levels[i].features;
            return FOVEA_OK;
        }
        return fv_fail(FOVEA_ENOTSUP, "isa %s: this processor has only %s; choose a lower level",
                       name, fv_cpu_level_name(have));
    }
    return fv_fail(FOVEA_EINVAL, "isa '%s' is unknown; choose scalar, neon, avx2 or avx512", name);
}

/* Cores within 10 % of each other's capacity are one kind: turbo bins differ a little. */
static bool same_kind(uint32_t a, uint32_t b)
{
    return (a < b ? b - a : a - b) * 10ull <= (a < b ? b : a);
}

static void extremes(const fv_processor *p, uint32_t n, uint32_t *lowest, uint32_t *highest)
{
    *lowest = *highest = p[0].capacity;
    for (uint32_t i = 1; i < n; i++) {
        if (p[i].capacity < *lowest)
            *lowest = p[i].capacity;
        if (p[i].capacity > *highest)
            *highest = p[i].capacity;
    }
}

void fv_cpu_clusters(uint32_t *clusters, uint32_t *big, uint32_t *all)
{
    fv_processor p[FV_PROCESSORS];
    uint32_t n = fv_machine_processors(p), lowest, highest;
    extremes(p, n, &lowest, &highest);
    *clusters = *big = 0;
    *all = n;
    for (uint32_t i = 0; i < n; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < i; j++)
            seen |= same_kind(p[i].capacity, p[j].capacity);
        *clusters += !seen;
        *big += same_kind(p[i].capacity, highest);
    }
}

/* Whether `list` ("4-7,0") names processor id; -1 when it is malformed. */
static int listed(const char *list, uint32_t id)
{
    int found = 0;
    for (const char *s = list; *s;) {
        char *end;
        unsigned long first = strtoul(s, &end, 10), last = first;
        if (end == s || *s == '-' || *s == '+')
            return -1;
        s = end;
        if (*s == '-') {
            last = strtoul(s + 1, &end, 10);
            if (end == s + 1 || last < first)
                return -1;
            s = end;
        }
        if (*s && *s != ',')
            return -1;
        if (*s)
            s++;
        found |= id >= first && id <= last;
    }
    return found;
}

fovea_status fv_cpu_cores(uint32_t out[FV_PROCESSORS], uint32_t *count, const char *which)
{
    fv_processor p[FV_PROCESSORS];
    uint32_t n = fv_machine_processors(p), lowest, highest;
    extremes(p, n, &lowest, &highest);
    if (!which || !*which)
        which = "big";
    *count = 0;
    for (uint32_t i = 0; i < n; i++) {
        int use;
        if (strcmp(which, "big") == 0)
            use = same_kind(p[i].capacity, highest);
        else if (strcmp(which, "little") == 0)
            use = same_kind(p[i].capacity, lowest);
        else if (strcmp(which, "all") == 0)
            use = 1;
        else
            use = listed(which, p[i].id);
        if (use < 0)
            return fv_fail(FOVEA_EINVAL,
                           "cores '%s' is no list; write big, little, all or numbers as in 0,4-7",
                           which);
        if (use)
            out[(*count)++] = p[i].id;
    }
    if (*count == 0)
        return fv_fail(FOVEA_EINVAL, "cores '%s': this process may use none of them", which);
    return FOVEA_OK;
}
