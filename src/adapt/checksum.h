/* checksum.h: sums over words of 64 bits, of states and of pictures. */
#ifndef FOVEA_SRC_ADAPT_CHECKSUM_H
#define FOVEA_SRC_ADAPT_CHECKSUM_H

#include <stdint.h>

static inline uint64_t fv_checksum_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

#endif
