/* probe.h: loops that show what one thread can do at best; probe.c is built once per ISA level. */
#ifndef FOVEA_CLI_PROBE_H
#define FOVEA_CLI_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define PROBE_DECLARE(isa)                                                                         \
    double probe_fma_##isa(uint64_t rounds);                                                       \
    float probe_read_##isa(const float *p, size_t n);

PROBE_DECLARE(c)
PROBE_DECLARE(avx2)
PROBE_DECLARE(avx512)
PROBE_DECLARE(neon)

#endif
