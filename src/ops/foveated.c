/* foveated.c: see foveated.h. */
#include "ops/foveated.h"
#include "ops/contracts/softmax_attention.h"

fv_fovea fv_fovea_of(const fv_problem *p)
{
    const uint32_t width = p->dim[FV_FOVEA_WIDTH], height = p->dim[FV_FOVEA_HEIGHT];
    return (fv_fovea){p->dim[FV_ATTN_KEYS] - width * height, width, height,
                      fv_fovea_levels(width, height), p->dim[FV_FOVEA_MARGIN]};
}

uint32_t fv_fovea_at(const fv_fovea *f, uint32_t level, uint32_t y, uint32_t x)
{
    return fv_fovea_first(f, level) + (y >> level) * fv_fovea_columns(f, level) + (x >> level);
}

uint32_t fv_fovea_tokens(const fv_fovea *f, uint32_t cell)
{
    return fv_fovea_size(fv_fovea_cell(f, cell));
}

double fv_fovea_mean_keys(const fv_fovea *f)
{
    const double tokens = f->prefix + (double)f->width * f->height;
    double sum = f->prefix * tokens;
    for (uint32_t y = 0; y < f->height; y += FV_FOVEA_BLOCK)
        for (uint32_t x = 0; x < f->width; x += FV_FOVEA_BLOCK)
            sum += (double)fv_fovea_keys(f, y, x) * fv_min_u32(FV_FOVEA_BLOCK, f->height - y) *
                   fv_min_u32(FV_FOVEA_BLOCK, f->width - x);
    return sum / tokens;
}
