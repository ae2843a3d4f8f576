/* checksum.c: checksums in eight independent chains, so that a multiplication need not wait for
 * that of the other chains. */
#include "base/checksum.h"

#include <string.h>

#include "base/num.h"

#define LANES 8
#define BLOCK (LANES * sizeof(uint64_t))

/* Adds x to the hash h. The function is invertible in h and in x, so that every change of x changes
 * the result; the rotation carries high bits to low ones. */
static inline uint64_t add(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h << 31 | h >> 33;
}

uint64_t fv_checksum(const void *data, uint64_t size)
{
    const char *at = data;
    uint64_t lane[LANES] = {1, 2, 3, 4, 5, 6, 7, 8}, h = size;
    for (uint64_t left = size / BLOCK; left > 0; left--, at += BLOCK) {
        uint64_t x[LANES];
        memcpy(x, at, BLOCK);
        for (int i = 0; i < LANES; i++)
            lane[i] = add(lane[i], x[i]);
    }
    for (int i = 0; i < LANES; i++)
        h = add(h, lane[i]);
    return fv_hash(h, at, (size_t)(size % BLOCK));
}
