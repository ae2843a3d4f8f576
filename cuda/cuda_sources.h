/* cuda_sources.h: the CUDA C++ sources in addition to those of gpu_sources.h, and programs compiled
 * with the library; the build writes their contents. */
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

/* A program that was compiled when the library was built, for where there is no compiler. */
typedef struct fv_cuda_ptx {
    const char *program, *mechanism; /* "" where it has none */
    const char *options;             /* " -DFV_GROUP=64 ...", as fv_gpu_specialise makes them */
    uint32_t arch;                   /* of which it is: 80; runs there and on all later ones */
    uint32_t size, near_size, packed_size; /* of the text, with near registers, as stored here */
    uint32_t sum;                          /* Adler-32 of the text */
    const uint8_t *packed;
} fv_cuda_ptx;
extern const fv_cuda_ptx fv_cuda_ptx_list[]; /* NULL program at the end */
/* Its text, to be freed. */
fovea_status fv_cuda_ptx_text(char **out, const fv_cuda_ptx *e);

#endif
