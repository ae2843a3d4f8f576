/* gpu_picture.c: launch code of resize.cl and patch.cl. */
#include <string.h>

#include "gpu/gpu_code.h"
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/yuv.h"

/* For frames of luma and chroma, adds the coefficients of yuv_common.cl after a table of `size`
 * bytes; returns the new size. */
static uint64_t add_yuv(const fv_launch *l, uint32_t *out, uint64_t size)
{
    if (!(l->args.prob.flags & FV_FLAG_YUV))
        return size;
    if (out)
        memcpy(out + size / sizeof *out, &fv_yuv_table[l->args.u[3]], sizeof(fv_yuv));
    return size + sizeof(fv_yuv);
}

/* ---- resize ---- */

static uint64_t resize_table(const fv_launch *l, uint32_t *out)
{
    const fv_resize_table *t = l->args.table;
    const size_t size = t->size, weights = size * t->taps;
    if (out) {
        out[0] = t->taps;
        out[1] = t->bits;
        memcpy(out + 2, &t->scale, sizeof *out);
        memcpy(out + 3, t->start, size * sizeof *out);
        memcpy(out + 3 + size, t->count, size * sizeof *out);
        memcpy(out + 3 + 2 * size, t->whole, weights * sizeof *out);
    }
    return add_yuv(l, out, (3 + 2 * size + weights) * sizeof *out);
}

static void resize_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "CHANNELS", l->args.prob.dim[FV_RESIZE_CHANNELS]);
}

static void resize_x_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, l->args.prob.dim[FV_RESIZE_WIDTH], p->group);
}

static void resize_y_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint32_t bytes = l->args.prob.dim[FV_RESIZE_WIDTH] * l->args.prob.dim[FV_RESIZE_CHANNELS];
    fv_gpu_spread(count, p->rows, (bytes + 15) / 16, p->group);
}

FV_GPU_CODE(fv_gpu_resize_x, "resize", "resize_x", 64, .define = resize_define,
            .shape = resize_x_shape, .align = 1, .table = resize_table)
FV_GPU_CODE(fv_gpu_resize_y, "resize", "resize_y", 64, .define = resize_define,
            .shape = resize_y_shape, .align = 1, .table = resize_table)

/* ---- patches ---- */

static uint64_t patch_table(const fv_launch *l, uint32_t *out)
{
    if (out)
        memcpy(out, l->args.table, sizeof(fv_patch_table));
    return add_yuv(l, out, sizeof(fv_patch_table));
}

static void patch_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "SIDE", l->args.prob.dim[FV_PATCH_SIZE]);
}

FV_GPU_CODE(fv_gpu_patch, "patch", "patch", 64, .define = patch_define,
            .shape = fv_gpu_shape_columns, .align = 1, .table = patch_table)
