/* gpu_gemm.h: code that the launch codes of gemm.cl and of gemm_half.cl share. */
#ifndef FOVEA_GPU_GPU_GEMM_H
#define FOVEA_GPU_GPU_GEMM_H

#include "gpu/gpu_code.h"

enum { FV_GPU_PANEL = 32 };                  /* columns of a panel of the packed weight */
enum { FV_GPU_KNOB_ROWS, FV_GPU_KNOB_COLS }; /* of a work-item's tile */

/* Packed columns for each column of the result. */
static inline uint32_t fv_gpu_gemm_sides(const fv_problem *p)
{
    return p->epi & FV_EPI_SWIGLU ? 2 : 1;
}

/* What a work-group computes: `across` work-items are next to each other along the columns; the
 * others are along the rows, or along k. */
typedef struct fv_gpu_tile {
    uint32_t rows, cols; /* of a work-item */
    uint32_t across, down;
} fv_gpu_tile;
/* The tile that the knobs choose, for work-groups that are at most `width` columns wide. */
fv_gpu_tile fv_gpu_tile_of(const fv_launch *l, uint32_t group, uint32_t width);
void fv_gpu_define_tile(const fv_launch *l, const fv_gpu_tile *t, fv_gpu_text *out);
/* Counts work-groups that compute `height` rows and `width` columns of the packed weight each. */
void fv_gpu_cover_product(const fv_launch *l, uint32_t rows, uint32_t height, uint32_t width,
                          size_t count[3]);

/* How many times longer a product takes with work-groups of 64 x 64 results, because few of them
 * leave most of a large device idle. */
double fv_gpu_gemm_idle(const fv_problem *p);

#endif
