/* upsample_tmpl.c: implements UPSAMPLE with vec.h's vector functions. A vector holds channels. */
#include "ops/contracts/grid.h"
#include "ops/upsample.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/row.h"

/* The pixels from which a pixel is interpolated: four, two, or a single one. */
struct between {
    const float *upper[2], *lower[2]; /* at the columns on the left and on the right */
    float across, down;
};

FV_FN fv_v along(const float *const side[2], fv_v part, size_t i, int lanes)
{
    const fv_v x = fv_load_n(side[0] + i, lanes);
    return fv_fma(part, fv_sub(fv_load_n(side[1] + i, lanes), x), x);
}

FV_FN void some(void *out, enum fv_type type, const struct between *b, const float *res, size_t i,
                int lanes, bool nearest)
{
    fv_v up = fv_load_n(b->upper[0] + i, lanes);
    if (!nearest) {
        const fv_v across = fv_set(b->across);
        up = along(b->upper, across, i, lanes);
        up = fv_fma(fv_set(b->down), fv_sub(along(b->lower, across, i, lanes), up), up);
    }
    fv_row_store(out, type, i, res ? fv_add(up, fv_load_n(res + i, lanes)) : up, lanes);
}

FV_FN void pixel(void *out, enum fv_type type, const struct between *b, const float *res, size_t n,
                 bool nearest)
{
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        some(out, type, b, res, i, FV_W, nearest);
    if (i < n)
        some(out, type, b, res, i, (int)(n - i), nearest);
}

FV_FN void pixels(const fv_args *a, const fv_call *c, bool nearest)
{
    const enum fv_type type = a->prob.out;
    const uint32_t width = a->u[0], wide = a->u[2], high = a->prob.dim[FV_DIM_ROWS] / wide;
    const uint32_t flags = a->prob.flags;
    const size_t n = a->prob.dim[FV_ROW_C], ld = a->ld[FV_UPSAMPLE_IN];
    const float *in = c->p[FV_UPSAMPLE_IN], *res = c->p[FV_UPSAMPLE_RES];
    void *out = c->p[FV_UPSAMPLE_OUT];
    uint32_t x = c->row0 % wide, y = c->row0 / wide;
    fv_upsample_source down = fv_upsample_at(y, high, a->u[1], flags);
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_upsample_source across = fv_upsample_at(x, wide, width, flags);
        const float *upper = in + (size_t)down.low * width * ld;
        const float *lower = in + (size_t)down.high * width * ld;
        const struct between b = {{upper + across.low * ld, upper + across.high * ld},
                                  {lower + across.low * ld, lower + across.high * ld},
                                  across.part,
                                  down.part};
        pixel(out, type, &b, res, n, nearest);
        out = fv_element(out, type, a->ld[FV_UPSAMPLE_OUT]);
        if (res)
            res += a->ld[FV_UPSAMPLE_RES];
        if (++x == wide) {
            x = 0;
            down = fv_upsample_at(++y, high, a->u[1], flags);
        }
    }
}

void FV_NAME(fv_k_upsample_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.flags & FV_FLAG_NEAREST)
        pixels(a, c, true);
    else
        pixels(a, c, false);
}
