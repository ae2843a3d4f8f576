/* checksum.h: checksums that detect accidental changes of data; they do not protect against
 * attackers. */
#ifndef FOVEA_BASE_CHECKSUM_H
#define FOVEA_BASE_CHECKSUM_H

#include <stdint.h>

/* Returns a checksum, at the speed of memory. A change within eight adjacent bytes always changes
 * the checksum; any other change is missed with a probability of 2^-64. */
uint64_t fv_checksum(const void *data, uint64_t size);

/* Continues the checksum `h` with a word. */
static inline uint64_t fv_checksum_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

#endif
