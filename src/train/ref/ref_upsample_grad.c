/* ref_upsample_grad.c: UPSAMPLE_GRAD: gradient of the grid that UPSAMPLE reads.
 *
 *   dim    rows (= h * w), C
 *   DOUT   WHOLE: H x W pixels of C channels, gradient of the resized grid
 *   RES    ROW, C wide, or absent: 0      OUT  ROW, C wide: a grid w wide; may be RES, not DOUT
 *   u      w, W, H; no side is longer than FV_UPSAMPLE_LONGEST
 *   flags  FV_FLAG_NEAREST or FV_FLAG_ALIGN_CORNERS, or none, as in UPSAMPLE
 *
 *   out(y, x) = res(y, x) + sum_Y sum_X share(Y, y) share(X, x) dout(Y, X)
 *
 * share(Y, y) is the weight of pixel y in pixel Y: 1 - s for the lower one of Y's two source
 * pixels, s for the upper one, and 1 if both are the same pixel. The pixels Y that read y are
 * consecutive, because coordinates grow with Y. Additions are in the order of rows from the top,
 * and in each row from the left. This order does not depend on how rows are split into calls. */
#include <string.h>

#include "ops/upsample.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_upsample_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ROW_GRAD_DOUT] = {"DOUT", FV_ROW_C},
                [FV_ROW_GRAD_RES] = {"RES", FV_ROW_C},
                [FV_ROW_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 10,
};

/* One side of both grids. */
struct side {
    uint32_t from, to, flags;
};

/* Returns the first pixel of the resized side whose lower source is `low` or larger. */
static uint32_t first_from(const struct side *s, uint32_t low)
{
    uint32_t begin = 0, end = s->to;
    while (begin < end) {
        const uint32_t middle = begin + (end - begin) / 2;
        if (fv_upsample_at(middle, s->to, s->from, s->flags).low < low)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static float share(const struct side *s, uint32_t at, uint32_t of)
{
    const fv_upsample_source x = fv_upsample_at(at, s->to, s->from, s->flags);
    return (x.low == of ? 1 - x.part : 0) + (x.high == of ? x.part : 0);
}

static void add(float *out, const float *in, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += factor * in[i];
}

void fv_k_upsample_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C], ld = a->ld[FV_ROW_GRAD_DOUT];
    const struct side across = {a->u[0], a->u[1], a->prob.flags};
    const struct side down = {a->prob.dim[FV_DIM_ROWS] / a->u[0], a->u[2], a->prob.flags};
    const float *dout = c->p[FV_ROW_GRAD_DOUT];
    for (size_t r = 0; r < c->rows; r++) {
        const uint32_t row = c->row0 + (uint32_t)r, y = row / across.from, x = row % across.from;
        float *out = (float *)c->p[FV_ROW_GRAD_OUT] + r * a->ld[FV_ROW_GRAD_OUT];
        const float *res = c->p[FV_ROW_GRAD_RES];
        if (!res)
            memset(out, 0, n * sizeof *out);
        else if (res + r * a->ld[FV_ROW_GRAD_RES] != out)
            memcpy(out, res + r * a->ld[FV_ROW_GRAD_RES], n * sizeof *out);
        const uint32_t left = first_from(&across, x ? x - 1 : 0),
                       right = first_from(&across, x + 1);
        const uint32_t bottom = first_from(&down, y + 1);
        for (uint32_t v = first_from(&down, y ? y - 1 : 0); v < bottom; v++) {
            const float height = share(&down, v, y);
            for (uint32_t u = left; u < right && height > 0; u++) {
                const float factor = height * share(&across, u, x);
                if (factor > 0)
                    add(out, dout + ((size_t)v * across.to + u) * ld, factor, n);
            }
        }
    }
}
