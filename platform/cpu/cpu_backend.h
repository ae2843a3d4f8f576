/* cpu_backend.h: the CPU backend's list of kernels, for tests that call kernels without a plan. */
#ifndef FOVEA_PLATFORM_CPU_BACKEND_H
#define FOVEA_PLATFORM_CPU_BACKEND_H

#include "device/backend.h"
#include "platform/cpu/cpu.h"

extern const fv_backend fv_backend_cpu;

/* Return the list of all kernels, and the list without kernels of extensions (ops/extension.h). */
const fv_kernel *fv_cpu_kernels(int *count);
const fv_kernel *fv_cpu_own_kernels(int *count);

#endif
