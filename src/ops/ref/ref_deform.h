/* ref_deform.h: the levels of DEFORM, and the positions at which it samples them. */
#ifndef FOVEA_SRC_REF_DEFORM_H
#define FOVEA_SRC_REF_DEFORM_H

#include "ops/contracts/softmax_attention.h"
#include "ops/kernel.h"

/* A grid of values, in rows from `first` on. */
typedef struct fv_deform_level {
    uint32_t width, height, first;
} fv_deform_level;

/* The columns of the operands of DEFORM and of its gradients: samples of a row in all heads and
 * levels, their offsets (x, y), and a box or a centre. */
static inline uint32_t fv_deform_samples(const fv_problem *p)
{
    return p->heads * p->dim[FV_DEFORM_LEVELS] * p->dim[FV_DEFORM_POINTS];
}

static inline uint32_t fv_deform_offsets(const fv_problem *p)
{
    return 2 * fv_deform_samples(p);
}

static inline uint32_t fv_deform_places(const fv_problem *p)
{
    return p->flags & FV_FLAG_CENTRES ? 2 : 4;
}

/* The four values around a position of the grid, and their weights. */
typedef struct fv_deform_corners {
    size_t row[4];
    float part[4];
    int count; /* number of corners inside the grid, which precede the others */
} fv_deform_corners;

/* Returns whether coordinate `at`, in values, is inside a grid of `size` values or adjacent to it;
 * NaN is not. */
static inline int fv_deform_inside(float at, uint32_t size)
{
    return at > -1.f && at < (float)size;
}

/* Returns the corners around position (x, y), in values, of a grid of width x height values. */
static inline fv_deform_corners fv_deform_at(float x, float y, uint32_t width, uint32_t height)
{
    fv_deform_corners k = {.count = 0};
    if (!fv_deform_inside(x, width) || !fv_deform_inside(y, height))
        return k;
    const int32_t left = (int32_t)(x + 1.f) - 1, top = (int32_t)(y + 1.f) - 1;
    const float right = x - (float)left, low = y - (float)top;
    for (int i = 0; i < 4; i++) {
        const int32_t column = left + i % 2, line = top + i / 2;
        if (column < 0 || line < 0 || column >= (int32_t)width || line >= (int32_t)height)
            continue;
        k.row[k.count] = (size_t)line * width + (size_t)column;
        k.part[k.count++] = (i % 2 ? right : 1.f - right) * (i / 2 ? low : 1.f - low);
    }
    return k;
}

/* Sets (x, y) to the position, in values of a level, of the sample with this offset from a box or a
 * centre. */
static inline void fv_deform_place(float *x, float *y, const fv_args *a, const fv_deform_level *l,
                                   const float *box, const float *offset)
{
    const float width = (float)l->width, height = (float)l->height;
    const float right = a->f[0] * offset[0], down = a->f[0] * offset[1];
    const bool centres = (a->prob.flags & FV_FLAG_CENTRES) != 0;
    *x = (centres ? box[0] * width + right : (box[0] + right * box[2]) * width) - 0.5f;
    *y = (centres ? box[1] * height + down : (box[1] + down * box[3]) * height) - 0.5f;
}

#endif
