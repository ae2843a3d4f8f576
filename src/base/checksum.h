/* checksum.h: sums by which data that changed by accident are known; no use against attackers. */
#ifndef FOVEA_BASE_CHECKSUM_H
#define FOVEA_BASE_CHECKSUM_H

#include <stdint.h>

/* Of many bytes, at the speed of memory: it changes with any change of up to eight neighbouring
 * bytes, and of any others with a chance of 1 - 2^-64. */
uint64_t fv_checksum(const void *data, uint64_t size);

/* The sum `h`, continued by a word. */
static inline uint64_t fv_checksum_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

#endif
