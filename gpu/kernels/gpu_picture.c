/* gpu_picture.c: launch code of resize.cl and patch.cl. */
#include <string.h>

#include "gpu/gpu_code.h"
#include "ops/preprocess.h"
#include "ops/yuv.h"

/* The factors of yuv_common.cl. */
static void yuv_define(const fv_launch *l, fv_gpu_text *out)
{
    const fv_yuv *t = &fv_yuv_table[l->args.u[3]];
    if (!(l->args.prob.flags & FV_FLAG_YUV))
        return;
    fv_gpu_define(out, "YUV_BLACK", (uint32_t)t->black);
    fv_gpu_define(out, "YUV_LUMA", (uint32_t)t->luma);
    fv_gpu_define(out, "YUV_RED_V", (uint32_t)t->red_v);
    fv_gpu_define(out, "YUV_GREEN_U", (uint32_t)t->green_u);
    fv_gpu_define(out, "YUV_GREEN_V", (uint32_t)t->green_v);
    fv_gpu_define(out, "YUV_BLUE_U", (uint32_t)t->blue_u);
}

/* ---- resize ---- */

static uint64_t resize_table(const fv_launch *l, uint32_t *out)
{
    const fv_resize_table *t = l->args.table;
    const size_t size = t->size, weights = size * t->taps;
    if (out) {
        out[0] = t->taps;
        memcpy(out + 1, t->start, size * sizeof *out);
        memcpy(out + 1 + size, t->count, size * sizeof *out);
        memcpy(out + 1 + 2 * size, t->weight, weights * sizeof *out);
    }
    return (1 + 2 * size + weights) * sizeof *out;
}

static void resize_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "CHANNELS", l->args.prob.dim[FV_RESIZE_CHANNELS]);
    yuv_define(l, out);
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

const fv_gpu_code fv_gpu_resize_x = {.program = "resize",
                                     .entry = "resize_x",
                                     .group = 64,
                                     .define = resize_define,
                                     .shape = resize_x_shape,
                                     .align = 1,
                                     .table = resize_table};
const fv_gpu_code fv_gpu_resize_y = {.program = "resize",
                                     .entry = "resize_y",
                                     .group = 64,
                                     .define = resize_define,
                                     .shape = resize_y_shape,
                                     .align = 1,
                                     .table = resize_table};

/* ---- patches ---- */

static uint64_t patch_table(const fv_launch *l, uint32_t *out)
{
    if (out)
        memcpy(out, l->args.table, sizeof(fv_patch_table));
    return sizeof(fv_patch_table);
}

static void patch_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "SIDE", l->args.prob.dim[FV_PATCH_SIZE]);
    yuv_define(l, out);
}

const fv_gpu_code fv_gpu_patch = {.program = "patch",
                                  .entry = "patch",
                                  .group = 64,
                                  .define = patch_define,
                                  .shape = fv_gpu_shape_columns,
                                  .align = 1,
                                  .table = patch_table};
