/* gpu_grid.c: launch code of posemb.cl, upsample.cl, dwconv.cl and adaptive_pool.cl. */
#include <string.h>

#include "base/num.h"
#include "gpu/gpu_code.h"
#include "ops/contracts/grid.h"
#include "ops/preprocess.h"

/* ---- positions ---- */

static uint32_t *append_words(uint32_t *out, const void *from, size_t count)
{
    memcpy(out, from, count * sizeof *out);
    return out + count;
}

static uint64_t posemb_table(const fv_launch *l, uint32_t *out)
{
    const fv_posemb_table *t = l->args.table;
    const size_t width = l->args.u[1],
                 height = (l->args.prob.dim[FV_DIM_ROWS] - l->args.u[0]) / width;
    const size_t in_x = width * t->taps_x, in_y = height * t->taps_y;
    if (out) {
        *out++ = t->taps_x;
        *out++ = t->taps_y;
        out = append_words(out, t->index_x, in_x);
        out = append_words(out, t->weight_x, in_x);
        out = append_words(out, t->index_y, in_y);
        append_words(out, t->weight_y, in_y);
    }
    return (2 + 2 * in_x + 2 * in_y) * sizeof *out;
}

static void posemb_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "TAPS", l->args.table != NULL);
}

FV_GPU_CODE(fv_gpu_posemb, "posemb", "posemb", 64, .define = posemb_define,
            .shape = fv_gpu_shape_columns, .align = 1, .table = posemb_table)

/* ---- another size ---- */

FV_GPU_CODE(fv_gpu_upsample, "upsample", "resample", 64, .shape = fv_gpu_shape_columns, .align = 1)

/* ---- depthwise convolution ---- */

static size_t dwconv_taps(const fv_problem *p)
{
    return (size_t)p->dim[FV_DWCONV_SIZE] * p->dim[FV_DWCONV_SIZE];
}

/* Numbers per tap in the packed weight. There is one for each channel, even if several channels
 * share a filter. */
static size_t dwconv_channels(const fv_problem *p)
{
    return fv_round_up(p->dim[FV_ROW_C], 16);
}

static size_t dwconv_packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return dwconv_taps(p) * dwconv_channels(p) * sizeof(float);
}

static void dwconv_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                        const fv_knobs *knobs)
{
    (void)knobs;
    float *to = dst;
    const size_t taps = dwconv_taps(p), channels = dwconv_channels(p);
    for (size_t i = 0; i < n; i++)
        for (size_t tap = 0; tap < taps; tap++)
            to[tap * channels + n0 + i] = src[i * taps + tap];
}

const fv_kernel_hooks fv_h_gpu_dwconv = {
    .packed = dwconv_packed, .pack = dwconv_pack, .format = "gpu_taps"};

static void dwconv_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "SIZE", l->args.prob.dim[FV_DWCONV_SIZE]);
}

/* The most grid rows that the tokens of a call touch. */
static uint64_t lines(const fv_launch *l, const fv_gpu_piece *p)
{
    const uint64_t width = l->args.u[0];
    return (p->rows + 2 * width - 2) / width;
}

static void dwconv_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint64_t tiles = (l->args.u[0] + 3) / 4;
    fv_gpu_spread(count, lines(l, p) * tiles, (l->args.prob.dim[FV_ROW_C] + 3) / 4, p->group);
}

FV_GPU_CODE(fv_gpu_dwconv, "dwconv", "dwconv", 64, .define = dwconv_define, .shape = dwconv_shape,
            .align = 1)

/* ---- adaptive pooling ---- */

static void pool_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    if (l->args.prob.flags & FV_FLAG_LARGEST)
        fv_gpu_define(out, "FV_LARGEST", 1);
}

FV_GPU_CODE(fv_gpu_adaptive_pool, "adaptive_pool", "adaptive_pool", 64, .define = pool_define,
            .shape = fv_gpu_shape_columns, .align = 1)
