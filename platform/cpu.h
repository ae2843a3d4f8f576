/* cpu.h: what this processor can do: ISA levels and the cores to use. */
#ifndef FOVEA_PLATFORM_CPU_H
#define FOVEA_PLATFORM_CPU_H

#include "kernel.h"
#include "os_machine.h"
#include "status.h"

/* Bits of enum fv_need that hold on this machine, highest level included. */
uint32_t fv_cpu_features(void);

/* Features lowered to level `name` ("scalar", "avx2", "avx512", "neon"); NULL takes FOVEA_ISA of
 * the environment, else everything. EINVAL lists what this machine has. */
fovea_status fv_cpu_level(uint32_t *out, const char *name);
/* Name of the highest level in `features`. */
const char *fv_cpu_level_name(uint32_t features);

/* The processors that `which` ("big", "little", "all", "4-7,0"; NULL: big) selects among those the
 * process may use. Returns how many, or EINVAL through *status. */
fovea_status fv_cpu_cores(uint32_t out[FV_PROCESSORS], uint32_t *count, const char *which);
/* Kinds of cores, and how many of the fastest there are. */
void fv_cpu_clusters(uint32_t *clusters, uint32_t *big, uint32_t *all);

#endif
