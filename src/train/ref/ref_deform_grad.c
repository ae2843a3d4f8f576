/* ref_deform_grad.c: DEFORM_GRAD: the gradients of the offsets and weights of deformable attention.
 *
 *   dim, table, f[0], flags, heads, VALUES, BOX, OFFSET, WEIGHT  as in DEFORM (ref_deform.c)
 *   DOUT  ROW, heads * d wide: the gradient of DEFORM's result
 *   OUT   ROW, heads * levels * points * 3 wide: gradients of the offsets, then of the weights; not
 *         another operand
 *
 * For sample p of a head, with DEFORM's e_p, v_p, x_p and y_p, and a_p = e_p / sum_p e_p:
 *
 *   dweight_p = a_p (v_p.dout - sum_k a_k v_k.dout)
 *   doffset_p = a_p (dx f0 w width, dy f0 h height);   a_p (dx f0, dy f0) with CENTRES
 *   dx = the derivative of v_p.dout by x_p; at the centre of a value, the derivative towards larger
 *        x_p;   dy = the same for y_p
 *
 * Samples beyond the grid have no gradient of the offset.
 */
#include <math.h>

#include "ops/ref/ref_deform.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return 3 * fv_deform_samples(p);
}

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * fv_deform_samples(p) * (8. * p->dim[FV_ATTN_D] + 60);
}

static double terms(const fv_problem *p)
{
    return p->dim[FV_ATTN_D] + p->dim[FV_DEFORM_LEVELS] * (double)p->dim[FV_DEFORM_POINTS];
}

const fv_op fv_op_deform_grad = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_DEFORM_POINTS] = {"points"},
            [FV_DEFORM_LEVELS] = {"levels"},
            [FV_DEFORM_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_DEFORM_GRAD_VALUES] = {"VALUES", FV_ATTN_D, .heads = true},
                [FV_DEFORM_GRAD_BOX] = {"BOX", .columns = fv_deform_places,
                                        .nature = FV_NATURE_FRACTION, .exact = true},
                [FV_DEFORM_GRAD_OFFSET] = {"OFFSET", .columns = fv_deform_offsets, .exact = true},
                [FV_DEFORM_GRAD_WEIGHT] = {"WEIGHT", .columns = fv_deform_samples},
                [FV_DEFORM_GRAD_DOUT] = {"DOUT", FV_ATTN_D, .heads = true},
                [FV_DEFORM_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = terms,
};

/* The product of a sample with dout, and its derivatives by the position. */
typedef struct sample {
    double value, dx, dy;
} sample;

static sample take(const fv_args *a, const fv_deform_level *l, const float *values,
                   const float *dout, float x, float y)
{
    const int32_t left = (int32_t)floorf(x), top = (int32_t)floorf(y);
    const double right = (double)x - left, low = (double)y - top;
    sample s = {0, 0, 0};
    for (int i = 0; i < 4; i++) {
        const int32_t column = left + i % 2, line = top + i / 2;
        const double by_x = i % 2 ? right : 1 - right, by_y = i / 2 ? low : 1 - low;
        double dot = 0;
        if (column < 0 || line < 0 || column >= (int32_t)l->width || line >= (int32_t)l->height)
            continue;
        const size_t row = l->first + (size_t)line * l->width + (size_t)column;
        for (uint32_t k = 0; k < a->prob.dim[FV_ATTN_D]; k++)
            dot += (double)values[row * a->ld[FV_DEFORM_GRAD_VALUES] + k] * dout[k];
        s.value += by_x * by_y * dot;
        s.dx += i % 2 ? by_y * dot : -by_y * dot;
        s.dy += i / 2 ? by_x * dot : -by_x * dot;
    }
    return s;
}

/* Return the unit of an offset, in values. */
static double across(const fv_args *a, const fv_deform_level *l, const float *box)
{
    return a->prob.flags & FV_FLAG_CENTRES ? 1 : (double)box[2] * l->width;
}

static double down(const fv_args *a, const fv_deform_level *l, const float *box)
{
    return a->prob.flags & FV_FLAG_CENTRES ? 1 : (double)box[3] * l->height;
}

/* Computes one head of a row. The pointers are to the head's values, offsets, weights and
 * gradients. */
static void head(const fv_args *a, const float *values, const float *box, const float *offset,
                 const float *weight, const float *dout, float *doffset, float *dweight)
{
    const uint32_t points = a->prob.dim[FV_DEFORM_POINTS];
    const uint32_t all = points * a->prob.dim[FV_DEFORM_LEVELS];
    double max = -INFINITY, sum = 0, mean = 0;
    for (uint32_t p = 0; p < all; p++)
        max = fmax(max, (double)weight[p]);
    for (uint32_t p = 0; p < all; p++)
        sum += exp((double)weight[p] - max);
    for (int pass = 0; pass < 2; pass++) /* the mean is known in the second */
        for (uint32_t p = 0; p < all; p++) {
            const fv_deform_level *l = (const fv_deform_level *)a->table + p / points;
            const double share = exp((double)weight[p] - max) / sum;
            const double unit = share * (double)a->f[0];
            float x, y;
            sample s = {0, 0, 0};
            fv_deform_place(&x, &y, a, l, box, offset + 2 * (size_t)p);
            const bool inside = fv_deform_inside(x, l->width) && fv_deform_inside(y, l->height);
            if (inside)
                s = take(a, l, values, dout, x, y);
            mean += pass ? 0 : share * s.value;
            dweight[p] = (float)(share * (s.value - mean));
            doffset[2 * p] = inside ? (float)(unit * s.dx * across(a, l, box)) : 0.f;
            doffset[2 * p + 1] = inside ? (float)(unit * s.dy * down(a, l, box)) : 0.f;
        }
}

void fv_k_deform_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], heads = a->prob.heads,
                 n = fv_deform_samples(&a->prob) / heads;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < heads; h++) {
            float *out = (float *)c->p[FV_DEFORM_GRAD_OUT] + r * a->ld[FV_DEFORM_GRAD_OUT];
            head(a, (const float *)c->p[FV_DEFORM_GRAD_VALUES] + h * d,
                 (const float *)c->p[FV_DEFORM_GRAD_BOX] + r * a->ld[FV_DEFORM_GRAD_BOX],
                 (const float *)c->p[FV_DEFORM_GRAD_OFFSET] + r * a->ld[FV_DEFORM_GRAD_OFFSET] +
                     h * 2 * n,
                 (const float *)c->p[FV_DEFORM_GRAD_WEIGHT] + r * a->ld[FV_DEFORM_GRAD_WEIGHT] +
                     h * n,
                 (const float *)c->p[FV_DEFORM_GRAD_DOUT] + r * a->ld[FV_DEFORM_GRAD_DOUT] + h * d,
                 out + h * 2 * n, out + heads * 2 * n + h * n);
        }
}
