/* checksum.h: a sum over many bytes, at the speed of memory. */
#ifndef FOVEA_BASE_CHECKSUM_H
#define FOVEA_BASE_CHECKSUM_H

#include <stdint.h>

/* 64 bits that change with any change of up to eight neighbouring bytes, and of any others with a
 * chance of 1 - 2^-64. Against accidents, not attackers. */
uint64_t fv_checksum(const void *data, uint64_t size);

#endif
