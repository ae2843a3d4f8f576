/* num.h: small integer functions; a hash; tests of how texts begin and end; search in a list of
 * names. */
#ifndef FOVEA_BASE_NUM_H
#define FOVEA_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t fv_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t fv_ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

/* Rounds n up to a multiple of `unit`. */
static inline uint32_t fv_round_up(uint32_t n, uint32_t unit)
{
    return fv_ceil_div(n, unit) * unit;
}

static inline bool fv_begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static inline bool fv_ends_with(const char *text, const char *with)
{
    const size_t n = strlen(text), k = strlen(with);
    return n >= k && strcmp(text + n - k, with) == 0;
}

/* FNV-1a: begin with FV_HASH_BEGIN, and pass the last result to continue with more bytes. */
#define FV_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
static inline uint64_t fv_hash(uint64_t h, const void *data, size_t size)
{
    for (const unsigned char *at = data, *end = at + size; at < end; at++)
        h = (h ^ *at) * UINT64_C(0x100000001b3);
    return h;
}

/* Returns the index of `text` in `names`, some of which may be NULL, or -1 if `text` is not among
 * them. */
static inline int fv_index_of(const char *text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && strcmp(text, names[i]) == 0)
            return (int)i;
    return -1;
}

#endif
