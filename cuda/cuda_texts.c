/* cuda_texts.c: lists the texts that a CUDA program consists of. */
#include "cuda/cuda_sources.h"

uint32_t fv_cuda_texts(const char *program, uint16_t mech, const char *text[FV_CUDA_TEXTS])
{
    const char *own = fv_gpu_source_text(fv_cuda_sources, program);
    uint32_t n = 0;
    text[n++] = fv_gpu_names;
    text[n++] = fv_gpu_source_text(fv_cuda_sources, "cuda_ptx");
    text[n++] = fv_gpu_source_text(fv_cuda_sources, "cuda_prelude");
    text[n++] = fv_gpu_source_text(fv_gpu_sources, "prelude");
    if (mech) {
        text[n++] = fv_gpu_source_text(fv_gpu_sources, "vocabulary");
        text[n++] = fv_gpu_mechanisms[mech];
    }
    text[n++] = own ? own : fv_gpu_source_text(fv_gpu_sources, program);
    return n;
}
