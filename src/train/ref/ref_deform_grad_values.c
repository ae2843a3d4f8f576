/* ref_deform_grad_values.c: DEFORM_GRAD_VALUES: the gradient of the values of deformable attention.
 *
 *   dim     rows (values of all levels), d, points, levels, queries; heads
 *   table, f[0], flags  as in DEFORM (ref_deform.c)
 *   BOX, OFFSET, WEIGHT  WHOLE: those of DEFORM
 *   DOUT    WHOLE: queries x (heads * d): the gradient of DEFORM's result
 *   OUT     ROW, heads * d wide; not another operand
 *   col0, cols  heads; a call covers all rows
 *
 *   out_i = sum of a_p part dout over the samples p of all queries that read value i, where part is
 *           the value's weight in the interpolation and a_p = e_p / sum_p e_p
 *
 * Queries are added in order, so that a head's result does not depend on how heads are split into
 * calls. */
#include <math.h>
#include <string.h>

#include "ops/ref/ref_deform.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DEFORM_QUERIES] * fv_deform_samples(p) * (8. * p->dim[FV_ATTN_D] + 40);
}

/* Every sample of every query could read the same value. */
static double terms(const fv_problem *p)
{
    return (double)p->dim[FV_DEFORM_QUERIES] * p->dim[FV_DEFORM_POINTS];
}

const fv_op fv_op_deform_grad_values = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_HEAD,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_DEFORM_POINTS] = {"points"},
            [FV_DEFORM_LEVELS] = {"levels"},
            [FV_DEFORM_QUERIES] = {"queries", FV_DIM_TOKENS}},
    .operand = {[FV_VALUES_GRAD_BOX] = {"BOX", .columns = fv_deform_places,
                                        .nature = FV_NATURE_FRACTION, .exact = true},
                [FV_VALUES_GRAD_OFFSET] = {"OFFSET", .columns = fv_deform_offsets, .exact = true},
                [FV_VALUES_GRAD_WEIGHT] = {"WEIGHT", .columns = fv_deform_samples},
                [FV_VALUES_GRAD_DOUT] = {"DOUT", FV_ATTN_D, .heads = true},
                [FV_VALUES_GRAD_OUT] = {"OUT", FV_ATTN_D, .heads = true}},
    .flops = flops,
    .terms = terms,
};

/* Adds one head of a query to the head's gradients. */
static void scatter(const fv_args *a, const float *box, const float *offset, const float *weight,
                    const float *dout, float *out)
{
    const uint32_t points = a->prob.dim[FV_DEFORM_POINTS], d = a->prob.dim[FV_ATTN_D];
    const uint32_t all = points * a->prob.dim[FV_DEFORM_LEVELS];
    double max = -INFINITY, sum = 0;
    for (uint32_t p = 0; p < all; p++)
        max = fmax(max, (double)weight[p]);
    for (uint32_t p = 0; p < all; p++)
        sum += exp((double)weight[p] - max);
    for (uint32_t p = 0; p < all; p++) {
        const fv_deform_level *l = (const fv_deform_level *)a->table + p / points;
        const double share = exp((double)weight[p] - max) / sum;
        float x, y;
        fv_deform_place(&x, &y, a, l, box, offset + 2 * (size_t)p);
        const fv_deform_corners k = fv_deform_at(x, y, l->width, l->height);
        for (int i = 0; i < k.count; i++)
            for (uint32_t n = 0; n < d; n++)
                out[(l->first + k.row[i]) * a->ld[FV_VALUES_GRAD_OUT] + n] +=
                    (float)(share * (double)k.part[i] * dout[n]);
    }
}

void fv_k_deform_grad_values_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], n = fv_deform_samples(&a->prob) / a->prob.heads;
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        float *out = (float *)c->p[FV_VALUES_GRAD_OUT] + h * d;
        for (size_t r = 0; r < c->rows; r++)
            memset(out + r * a->ld[FV_VALUES_GRAD_OUT], 0, d * sizeof *out);
        for (size_t q = 0; q < a->prob.dim[FV_DEFORM_QUERIES]; q++)
            scatter(a, (const float *)c->p[FV_VALUES_GRAD_BOX] + q * a->ld[FV_VALUES_GRAD_BOX],
                    (const float *)c->p[FV_VALUES_GRAD_OFFSET] + q * a->ld[FV_VALUES_GRAD_OFFSET] +
                        h * 2 * n,
                    (const float *)c->p[FV_VALUES_GRAD_WEIGHT] + q * a->ld[FV_VALUES_GRAD_WEIGHT] +
                        h * n,
                    (const float *)c->p[FV_VALUES_GRAD_DOUT] + q * a->ld[FV_VALUES_GRAD_DOUT] +
                        h * d,
                    out);
    }
}
