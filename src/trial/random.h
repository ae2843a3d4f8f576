/* random.h: pseudo-random numbers, the same on every machine. */
#ifndef FOVEA_SRC_RANDOM_H
#define FOVEA_SRC_RANDOM_H

#include <stdint.h>

/* Returns the next number (splitmix64). *state may start with any seed. */
static inline uint64_t fv_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
