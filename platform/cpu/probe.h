/* probe.h: loops that reach one thread's peak. tmpl/probe_tmpl.c has those of float32, once per ISA
 * level; tmpl/probe_bf16_tmpl.c and probe_int8_tmpl.c have those of 16-bit and 8-bit products, once
 * per level that has instructions for them. Each returns the number of operations it did. */
#ifndef FOVEA_PLATFORM_PROBE_H
#define FOVEA_PLATFORM_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define FV_PROBE_DECLARE(isa)                                                                      \
    double fv_probe_fma_##isa(uint64_t rounds);                                                    \
    float fv_probe_read_##isa(const float *p, size_t n);

FV_PROBE_DECLARE(c)
FV_PROBE_DECLARE(avx2)
FV_PROBE_DECLARE(avx512)
FV_PROBE_DECLARE(neon)
FV_PROBE_DECLARE(rvv)

typedef double fv_probe_loop(uint64_t rounds);
fv_probe_loop fv_probe_bf16_avx512_bf16, fv_probe_bf16_neon_dot;
fv_probe_loop fv_probe_int8_avx2, fv_probe_int8_avx512, fv_probe_int8_avx_vnni;
fv_probe_loop fv_probe_int8_avx512_vnni, fv_probe_int8_neon_sdot, fv_probe_int8_neon_i8mm;

#endif
