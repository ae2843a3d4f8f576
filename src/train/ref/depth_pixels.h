/* depth_pixels.h: a pixel of the true depths, and the distance of the found depth from it, for
 * DEPTH_LOSS and DEPTH_GRAD. */
#ifndef FOVEA_SRC_OPS_DEPTH_PIXELS_H
#define FOVEA_SRC_OPS_DEPTH_PIXELS_H

#include <math.h>

#include "train/ref/segment_lines.h"
#include "train/ref/train_ref_kernels.h"

#define FV_DEPTH_LEAST 1e-6 /* smallest found depth; smaller values become this one */

/* Sizes and operands of both DEPTH operations. */
#define FV_DEPTH_SIZES                                                                             \
    {"tokens", FV_DIM_TOKENS}, [FV_SEGMENT_GRID] = {"grid"}, [FV_SEGMENT_WIDTH] = {"width"},       \
                               [FV_SEGMENT_HEIGHT] = {"height"}
#define FV_DEPTH_OPERANDS                                                                          \
    [FV_DEPTH_FOUND] = {"FOUND", .columns = fv_columns_one},                                       \
    [FV_DEPTH_TRUTH] = {"TRUTH", FV_SEGMENT_WIDTH}, [FV_DEPTH_WEIGHT] = {"WEIGHT"},                \
    [FV_DEPTH_MEAN] = {"MEAN"}, [FV_DEPTH_OUT] = {"OUT", .columns = fv_columns_one}

static inline double fv_depth_flops(const fv_problem *p)
{
    return 30. * p->dim[FV_SEGMENT_WIDTH] * p->dim[FV_SEGMENT_HEIGHT];
}

/* Returns the number of pixels to which a token contributes. */
static inline double fv_depth_terms(const fv_problem *p)
{
    return 4. * p->dim[FV_SEGMENT_WIDTH] * p->dim[FV_SEGMENT_HEIGHT] / p->dim[FV_DIM_ROWS];
}

typedef struct fv_depth_pixel {
    fv_segment_pixel around;
    bool known;
    double found;    /* at least FV_DEPTH_LEAST */
    bool least;      /* `found` was raised to FV_DEPTH_LEAST, so that its gradient is zero */
    double distance; /* d in the contract */
} fv_depth_pixel;

static inline fv_depth_pixel fv_depth_pixel_at(const fv_args *a, const fv_call *c, uint32_t y,
                                               uint32_t x)
{
    const float *found = (const float *)c->p[FV_DEPTH_FOUND];
    const double truth =
        (double)((const float *)c->p[FV_DEPTH_TRUTH])[(size_t)y * a->ld[FV_DEPTH_TRUTH] + x];
    fv_depth_pixel p = {.around = fv_segment_pixel_at(a->prob.dim, y, x),
                        .known = truth > 0 && isfinite(truth)};
    for (int i = 0; i < 4; i++)
        p.found +=
            p.around.share[i] * (double)found[(size_t)p.around.token[i] * a->ld[FV_DEPTH_FOUND]];
    p.least = p.found < FV_DEPTH_LEAST;
    if (p.least)
        p.found = FV_DEPTH_LEAST;
    p.distance = p.known ? log(p.found / truth) : 0;
    return p;
}

#endif
