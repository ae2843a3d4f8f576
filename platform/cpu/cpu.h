/* cpu.h: what this processor can do: ISA levels and the cores to use. */
#ifndef FOVEA_PLATFORM_CPU_H
#define FOVEA_PLATFORM_CPU_H

#include "base/status.h"
#include "ops/kernel.h"
#include "platform/os/os_cores.h"

/* Of these bits of enum fv_need any means instructions for products of bfloat16, of int8. */
#define FV_CPU_BF16 (FV_NEED_AVX512_BF16 | FV_NEED_NEON_DOT)
#define FV_CPU_INT8 (FV_NEED_AVX_VNNI | FV_NEED_AVX512_VNNI | FV_NEED_NEON_SDOT)

/* Bits of enum fv_need that hold on this machine, highest level included. */
uint32_t fv_cpu_features(void);

/* Features lowered to level `name` ("scalar", "neon", "neon-fp16", "neon-dot", "avx2", "avx512");
 * NULL takes FOVEA_ISA of the environment, else everything that is fast: fv_cpu_fast_features.
 * EINVAL lists what this machine has. */
fovea_status fv_cpu_level(uint32_t *out, const char *name);
/* Name of the highest level in `features`. */
const char *fv_cpu_level_name(uint32_t features);

/* The processors of `cores` that `which` selects ("big", "little", "all", "4-7,0"; NULL: big). Big
 * is what is at least half as fast as the fastest: of a phone's prime, middle and little cores the
 * first two kinds. Little is the slowest kind. EINVAL for a malformed list and for none. */
fovea_status fv_cpu_cores(uint32_t out[FV_PROCESSORS], uint32_t *count, const fv_cores *cores,
                          const char *which);
/* Kinds of cores, and how many of them are big. */
void fv_cpu_core_kinds(uint32_t *kinds, uint32_t *performance, const fv_cores *cores);

#endif
