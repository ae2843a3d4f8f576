/* ref_rope.h: rotates one token by tables, for ROPE and linear attention.
 *
 * If the width of the grid is given, the tables are (positions, d/2): channels below d/2 use the
 * table's row for the token's grid row, and the others use the table's row for its grid column; d
 * is then a multiple of 4. If the width is 0, the tables have a row of d per token. */
#ifndef FOVEA_SRC_REF_REF_ROPE_H
#define FOVEA_SRC_REF_REF_ROPE_H

#include <stddef.h>
#include <stdint.h>

/* The table entries for one token: for channels below `split`, and for the others. */
typedef struct ref_turn {
    const float *cos[2], *sin[2];
    uint32_t split;
} ref_turn;

static inline ref_turn ref_turn_at(const float *cos, size_t ldc, const float *sin, size_t lds,
                                   size_t token, uint32_t width, uint32_t d)
{
    const size_t y = width ? token / width : token, x = width ? token % width : token;
    return (ref_turn){.cos = {cos + y * ldc, cos + x * ldc},
                      .sin = {sin + y * lds, sin + x * lds},
                      .split = width ? d / 2 : d};
}

/* Computes out = in with the pairs (2j, 2j + 1) of d channels rotated; out may be in. */
static inline void ref_turn_pairs(float *out, const float *in, const ref_turn *t, uint32_t d)
{
    for (uint32_t i = 0; i + 1 < d; i += 2) {
        const uint32_t half = i >= t->split, at = i - half * t->split;
        const float *cos = t->cos[half] + at, *sin = t->sin[half] + at;
        const float x0 = in[i], x1 = in[i + 1];
        out[i] = x0 * cos[0] - x1 * sin[0];
        out[i + 1] = x1 * cos[1] + x0 * sin[1];
    }
}

/* Applies the transpose of the rotation, which computes gradients of `in` from those of `out`. */
static inline void ref_turn_pairs_back(float *out, const float *in, const ref_turn *t, uint32_t d)
{
    for (uint32_t i = 0; i + 1 < d; i += 2) {
        const uint32_t half = i >= t->split, at = i - half * t->split;
        const float *cos = t->cos[half] + at, *sin = t->sin[half] + at;
        const float x0 = in[i], x1 = in[i + 1];
        out[i] = x0 * cos[0] + x1 * sin[1];
        out[i + 1] = x1 * cos[1] - x0 * sin[0];
    }
}

#endif
