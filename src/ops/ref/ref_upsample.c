/* ref_upsample.c: UPSAMPLE: resizes a complete grid of tokens to a larger or smaller one.
 *
 *   dim    rows (= H * W), C
 *   IN     WHOLE: h x w pixels of C channels, row by row, no prefix
 *   RES    ROW, C wide, or absent        OUT  ROW, C wide: a grid W wide; not IN, may be RES
 *                                             unless it is BF16 by prob.out
 *   u      w, h, W; no side is longer than FV_UPSAMPLE_LONGEST
 *   flags  FV_FLAG_NEAREST or FV_FLAG_ALIGN_CORNERS, or none
 *
 *   out(Y, X) = up(Y, X) + res(Y, X)
 *   up        = (1 - s) ((1 - t) in(y, x) + t in(y, x')) + s ((1 - t) in(y', x) + t in(y', x'))
 *
 * with the coordinates y + s and x + t, 0 <= s, t < 1, y' = min(y + 1, h - 1), likewise x':
 *
 *   without flags    max(0, (Y + 1/2) h / H - 1/2)
 *   ALIGN_CORNERS    Y (h - 1) / (H - 1); 0 if H is 1
 *   NEAREST          floor(Y h / H), s = 0
 *
 * These are the rules of torch's interpolate in mode "bilinear", with align_corners False and True,
 * and in mode "nearest". Coordinates are exact. A smaller result is not antialiased.
 */
#include "base/half.h"
#include "ops/contracts/grid.h"
#include "ops/ref/ref_kernels.h"
#include "ops/upsample.h"

static uint32_t line(const fv_problem *p, const uint32_t *u)
{
    (void)p;
    return u[2];
}

static fv_rows reads(const fv_problem *p, const uint32_t *u, fv_rows r)
{
    const uint32_t height = p->dim[FV_DIM_ROWS] / u[2];
    const fv_upsample_source upper = fv_upsample_at(r.first / u[2], height, u[1], p->flags);
    const fv_upsample_source lower = fv_upsample_at((r.end - 1) / u[2], height, u[1], p->flags);
    return fv_grid_lines(upper.low, (int64_t)lower.high + 1, u[0], u[1]);
}

const fv_op fv_op_upsample = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_UPSAMPLE_IN] = {"IN", FV_ROW_C},
                [FV_UPSAMPLE_RES] = {"RES", FV_ROW_C},
                [FV_UPSAMPLE_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 10,
    .line = line,
    .reads = reads,
};

void fv_k_upsample_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->u[0], wide = a->u[2], flags = a->prob.flags;
    const size_t n = a->prob.dim[FV_ROW_C], ld = a->ld[FV_UPSAMPLE_IN];
    const float *in = c->p[FV_UPSAMPLE_IN], *res = c->p[FV_UPSAMPLE_RES];
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t row = c->row0 + r;
        const fv_upsample_source x = fv_upsample_at(row % wide, wide, width, flags);
        const fv_upsample_source y =
            fv_upsample_at(row / wide, a->prob.dim[FV_DIM_ROWS] / wide, a->u[1], flags);
        const float *upper = in + (size_t)y.low * width * ld;
        const float *lower = in + (size_t)y.high * width * ld;
        for (size_t i = 0; i < n; i++) {
            const float *first = upper + x.low * ld + i, *last = upper + x.high * ld + i;
            const float above = *first + x.part * (*last - *first);
            first = lower + x.low * ld + i;
            last = lower + x.high * ld + i;
            const float below = *first + x.part * (*last - *first);
            const float up = above + y.part * (below - above);
            fv_value_put(c->p[FV_UPSAMPLE_OUT], a->prob.out, r * (size_t)a->ld[FV_UPSAMPLE_OUT] + i,
                         res ? up + res[r * (size_t)a->ld[FV_UPSAMPLE_RES] + i] : up);
        }
    }
}
