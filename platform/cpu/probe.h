/* probe.h: loops that reach one thread's peak; tmpl/probe_tmpl.c, once per ISA level. */
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

#endif
