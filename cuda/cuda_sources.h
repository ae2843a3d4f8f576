/* cuda_sources.h: the CUDA C++ sources in addition to those of gpu_sources.h; the build writes
 * their contents. */
#ifndef FOVEA_CUDA_CUDA_SOURCES_H
#define FOVEA_CUDA_CUDA_SOURCES_H

#include <stdint.h>

#include "base/status.h"
#include "gpu/gpu_sources.h"

/* Names and texts: "cuda_ptx", "cuda_prelude", "gemm.cu" for gemm.cu, ..; a NULL name at the
 * end. */
extern const fv_gpu_source fv_cuda_sources[];

enum { FV_CUDA_TEXTS = 7 };
/* Lists the texts of a program, in order: `program` is a .cu file's name, or "softmax" for
 * softmax.cl. Returns how many there are; the last is NULL if the file does not exist. */
uint32_t fv_cuda_texts(const char *program, uint16_t mech, const char *text[FV_CUDA_TEXTS]);

#endif
