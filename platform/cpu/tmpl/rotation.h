/* rotation.h: rotates pairs of channels by angles from tables, for ROPE and linear attention.
 * Tables have a row for each token, or for each row or column of a grid: src/ops/ref/ref_rope.c
 * describes them.
 */
#ifndef FOVEA_PLATFORM_TMPL_ROTATION_H
#define FOVEA_PLATFORM_TMPL_ROTATION_H

#include "ops/kernel.h"
#include "platform/cpu/vec/vec.h"

#include <stdbool.h>

/* y = x cos + turn(x) sin. The tables' row y has the angles of channels below `split`, row x those
 * of the others; a grid row has `width` tokens. A table by tokens is one of a grid of one column,
 * with all channels below `split`. */
typedef struct rotation {
    const float *cos, *sin; /* NULL: there is none */
    size_t ldc, lds, width, split;
    size_t y, x; /* of the first row */
} rotation;

FV_FN void rotation_move(rotation *t, size_t rows)
{
    t->y += (t->x + rows) / t->width;
    t->x = (t->x + rows) % t->width;
}

/* Returns the rotation of a call's rows by the tables that are operands `cos` and `sin`. */
FV_FN rotation rotation_of(const fv_args *a, const fv_call *c, int cos, int sin, size_t d)
{
    const uint32_t width = a->u[0];
    rotation t = {.cos = c->p[cos],
                  .sin = c->p[sin],
                  .ldc = a->ld[cos],
                  .lds = a->ld[sin],
                  .width = width ? width : 1,
                  .split = width ? d / 2 : SIZE_MAX};
    rotation_move(&t, c->row0);
    return t;
}

/* The angles of one row. */
typedef struct angles {
    const float *cos_y, *sin_y, *cos_x, *sin_x;
    size_t x;
} angles;

FV_FN angles angles_first(const rotation *t)
{
    return (angles){.cos_y = t->cos + t->y * t->ldc,
                    .sin_y = t->sin + t->y * t->lds,
                    .cos_x = t->cos + t->x * t->ldc,
                    .sin_x = t->sin + t->x * t->lds,
                    .x = t->x};
}

FV_FN void angles_next(angles *a, const rotation *t)
{
    a->cos_x += t->ldc;
    a->sin_x += t->lds;
    if (++a->x < t->width)
        return;
    a->x = 0;
    a->cos_x = t->cos;
    a->sin_x = t->sin;
    a->cos_y += t->ldc;
    a->sin_y += t->lds;
}

/* Rotates channels [i, i + n), which must be on one side of `split`. */
FV_FN fv_v rotate(fv_v x, const angles *a, size_t split, size_t i, int n)
{
    const fv_v cosine = fv_load_n(i < split ? a->cos_y + i : a->cos_x + (i - split), n);
    const fv_v sine = fv_load_n(i < split ? a->sin_y + i : a->sin_x + (i - split), n);
    return fv_fma(x, cosine, fv_mul(fv_turn(x), sine));
}

/* Applies the transpose of the rotation: converts gradients of rotated channels to gradients of the
 * channels. */
FV_FN fv_v rotate_back(fv_v x, const angles *a, size_t split, size_t i, int n)
{
    const fv_v cosine = fv_load_n(i < split ? a->cos_y + i : a->cos_x + (i - split), n);
    const fv_v sine = fv_load_n(i < split ? a->sin_y + i : a->sin_x + (i - split), n);
    return fv_sub(fv_mul(x, cosine), fv_turn(fv_mul(x, sine)));
}

/* Returns whether a vector of channels crosses `split`. Then its angles are from two rows of the
 * tables, which have to be joined in a buffer of rotation_joined() floats. */
FV_FN bool rotation_straddles(const rotation *t, size_t d)
{
    return t->split < d && t->split % FV_W;
}

FV_FN size_t rotation_joined(size_t rows, size_t d)
{
    return d / 2 % FV_W ? 2 * rows * d : 0;
}

/* Returns the rotation of the next `rows` rows, with joined angles in a table by tokens. */
FV_FN rotation rotation_join(float *joined, const rotation *t, size_t rows, size_t d)
{
    const size_t half = d / 2;
    float *cos = joined, *sin = joined + rows * d;
    angles a = angles_first(t);
    for (size_t r = 0; r < rows; r++, cos += d, sin += d, angles_next(&a, t)) {
        for (size_t i = 0; i < half; i += FV_W) {
            const int n = fv_lanes(half - i);
            fv_store_n(cos + i, fv_load_n(a.cos_y + i, n), n);
            fv_store_n(sin + i, fv_load_n(a.sin_y + i, n), n);
            fv_store_n(cos + half + i, fv_load_n(a.cos_x + i, n), n);
            fv_store_n(sin + half + i, fv_load_n(a.sin_x + i, n), n);
        }
    }
    return (rotation){
        .cos = joined, .sin = joined + rows * d, .ldc = d, .lds = d, .width = 1, .split = SIZE_MAX};
}

/* Returns the rotation of the rows of a call of linear attention, with angles joined in `buffer` if
 * necessary. */
static __attribute__((unused)) rotation rotation_at(const fv_args *a, const fv_call *c, int cos,
                                                    int sin, size_t d, float *buffer)
{
    if (!(a->prob.flags & FV_FLAG_ROPE))
        return (rotation){0};
    const rotation t = rotation_of(a, c, cos, sin, d);
    return rotation_straddles(&t, d) ? rotation_join(buffer, &t, c->rows, d) : t;
}

#endif
