/* ref_adaptive_pool.h: the area whose mean an output pixel of ADAPTIVE_POOL is. */
#ifndef FOVEA_SRC_REF_REF_ADAPTIVE_POOL_H
#define FOVEA_SRC_REF_REF_ADAPTIVE_POOL_H

#include "ops/contracts/grid.h"
#include "ops/op.h"

/* Pixels of lines y0 to y1 - 1 and columns x0 to x1 - 1; at least one. */
typedef struct fv_pool_area {
    uint32_t y0, y1, x0, x1;
} fv_pool_area;

static inline fv_pool_area fv_pool_area_of(const fv_problem *p, uint32_t row)
{
    const uint64_t width = p->dim[FV_POOL_WIDTH], height = p->dim[FV_POOL_HEIGHT];
    const uint64_t columns = p->dim[FV_POOL_COLUMNS], lines = p->dim[FV_DIM_ROWS] / columns;
    const uint64_t y = row / columns, x = row % columns;
    return (fv_pool_area){
        (uint32_t)(y * height / lines), (uint32_t)(((y + 1) * height + lines - 1) / lines),
        (uint32_t)(x * width / columns), (uint32_t)(((x + 1) * width + columns - 1) / columns)};
}

#endif
