/* cpu.h: what this processor can do: ISA levels and the cores to use. */
#ifndef FOVEA_PLATFORM_CPU_H
#define FOVEA_PLATFORM_CPU_H

#include "base/status.h"
#include "ops/kernel.h"
#include "platform/os/os_cores.h"

/* The bits of enum fv_need that mean instructions for products of bfloat16, and those for products
 * of int8. One bit of a mask is enough. */
#define FV_CPU_BF16 (FV_NEED_AVX512_BF16 | FV_NEED_NEON_DOT)
#define FV_CPU_INT8 (FV_NEED_AVX_VNNI | FV_NEED_AVX512_VNNI | FV_NEED_NEON_SDOT)

/* The bits of enum fv_need that this machine satisfies, including those of its highest level. */
uint32_t fv_cpu_features(void);

/* The features of the level `name` ("scalar", "neon", "neon-fp16", "neon-dot", "avx2", "avx512"
 * and others). If it is NULL, FOVEA_ISA of the environment names the level; without that it is
 * everything that is fast, fv_cpu_fast_features. ENOTSUP if this machine does not have the level,
 * with the highest that it has; EINVAL if there is no such level, with the names to choose from. */
fovea_status fv_cpu_level(uint32_t *out, const char *name);
/* Name of the highest level in `features`. */
const char *fv_cpu_level_name(uint32_t features);

/* The processors of `cores` that `which` selects ("big", "little", "all", "4-7,0"; NULL: big). Big
 * cores are at least half as fast as the fastest: of a phone's prime, middle and little cores the
 * first two kinds. Little cores are those of the slowest kind. EINVAL if the list is malformed or
 * selects no processor. */
fovea_status fv_cpu_cores(uint32_t out[FV_PROCESSORS], uint32_t *count, const fv_cores *cores,
                          const char *which);
/* How many kinds of cores there are, and how many cores are big. */
void fv_cpu_core_kinds(uint32_t *kinds, uint32_t *performance, const fv_cores *cores);

#endif
