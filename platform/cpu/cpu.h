/* cpu.h: what this processor can do: ISA levels and the cores to use. */
#ifndef FOVEA_PLATFORM_CPU_H
#define FOVEA_PLATFORM_CPU_H

#include "base/status.h"
#include "ops/kernel.h"
#include "platform/os/os_cores.h"

/* Masks of enum fv_need: the instructions for products of bfloat16, and those for products of int8.
 * A machine has such instructions if it satisfies any bit of the mask. */
#define FV_CPU_BF16 (FV_NEED_AVX512_BF16 | FV_NEED_NEON_DOT)
#define FV_CPU_INT8 (FV_NEED_AVX_VNNI | FV_NEED_AVX512_VNNI | FV_NEED_NEON_SDOT)

/* Returns the bits of enum fv_need that this machine satisfies, including those of its highest
 * level. */
uint32_t fv_cpu_features(void);

/* Sets *out to the features of the level `name` ("scalar", "neon", "neon-fp16", "neon-dot", "avx2",
 * "avx512" and others). If `name` is NULL, the environment variable FOVEA_ISA names the level. If
 * FOVEA_ISA is not set either, *out contains all features that fv_cpu_fast_features keeps. Returns
 * FOVEA_ENOTSUP if this machine does not have the level; the message names its highest level.
 * Returns FOVEA_EINVAL if there is no such level; the message lists the names. */
fovea_status fv_cpu_level(uint32_t *out, const char *name);
/* Returns the name of the highest level in `features`. */
const char *fv_cpu_level_name(uint32_t features);

/* Sets `out` to the processors of `cores` that `which` selects ("big", "little", "all", a list such
 * as "4-7,0"; NULL means "big"), and *count to their number. Big cores are at least half as fast as
 * the fastest core: on a phone with prime, middle and little cores, the first two kinds. Little
 * cores are the slowest kind. Returns FOVEA_EINVAL if the list is malformed or selects no
 * processor. */
fovea_status fv_cpu_cores(uint32_t out[FV_PROCESSORS], uint32_t *count, const fv_cores *cores,
                          const char *which);
/* Sets *kinds to the number of kinds of cores, and *performance to the number of big cores. */
void fv_cpu_core_kinds(uint32_t *kinds, uint32_t *performance, const fv_cores *cores);

#endif
