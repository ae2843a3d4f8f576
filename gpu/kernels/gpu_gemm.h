/* gpu_gemm.h: what the launch codes of gemm.cl share. */
#ifndef FOVEA_GPU_GPU_GEMM_H
#define FOVEA_GPU_GPU_GEMM_H

#include "gpu/gpu_code.h"

enum { FV_GPU_PANEL = 32 };                  /* columns of a panel of the packed weight */
enum { FV_GPU_KNOB_ROWS, FV_GPU_KNOB_COLS }; /* of a work-item's tile */

/* Columns of the weight for each of the result's. */
static inline uint32_t fv_gpu_gemm_sides(const fv_problem *p)
{
    return p->epi & FV_EPI_SWIGLU ? 2 : 1;
}

/* What a work-group computes: `across` work-items along the columns, the others along the rows, or
 * along k. */
typedef struct fv_gpu_tile {
    uint32_t rows, cols; /* of a work-item */
    uint32_t across, down;
} fv_gpu_tile;
/* By the knobs, of work-groups that are `width` columns wide at most. */
fv_gpu_tile fv_gpu_tile_of(const fv_launch *l, uint32_t group, uint32_t width);
void fv_gpu_define_tile(const fv_launch *l, const fv_gpu_tile *t, fv_gpu_text *out);
/* Work-groups of `height` rows and `width` columns of the packed weight. */
void fv_gpu_cover_product(const fv_launch *l, uint32_t rows, uint32_t height, uint32_t width,
                          size_t count[3]);

/* By what a product takes longer where work-groups have 64 x 64 results: with few of them most of a
 * large device is idle. */
double fv_gpu_gemm_idle(const fv_problem *p);

#endif
