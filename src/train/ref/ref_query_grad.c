/* ref_query_grad.c: QUERY_GRAD: the gradients of QUERY_LOSS, whose operands it has.
 *
 *   OUT  ROW, cells + classes + 1 wide: gradient of the mask's logits, then of the classes' logits
 *
 * With the names of QUERY_LOSS, N = 2 sum_p s_p y_p + 1 and D = sum_p s_p + sum_p y_p + 1:
 *
 *   dlogit_k = f0 w / W (c_k - (k is the query's class))
 *   dx_p = f1 / n (s_p - y_p) / points - f2 / n (2 y_p D - N) / D^2 s_p (1 - s_p)
 *
 * The gradient of a cell is the sum over the points of dx_p times the cell's weight in the
 * interpolation. It is 0 for a query without a class. */
#include <math.h>
#include <string.h>

#include "train/ref/ref_query.h"
#include "train/ref/train_ref_kernels.h"

static uint32_t columns(const fv_problem *p)
{
    return p->dim[FV_ROW_C] + p->dim[FV_QUERY_CLASSES] + 1;
}

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * columns(p) +
           100. * p->dim[FV_QUERY_CLASSES] * p->dim[FV_QUERY_POINTS];
}

const fv_op fv_op_query_grad = {
    .dim = {FV_QUERY_SIZES},
    .operand = {FV_QUERY_OPERANDS, [FV_QUERY_MATCHED] = {"MATCHED", .columns = fv_query_count},
                [FV_QUERY_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_query_terms,
    .joint = true,
};

static void mask_gradient(const fv_args *a, const fv_call *c, const fv_query_role *of,
                          const float *mask, float *out)
{
    const uint32_t points = a->prob.dim[FV_QUERY_POINTS];
    const float *target =
        (const float *)c->p[FV_QUERY_TARGETS] + (size_t)of->class * a->ld[FV_QUERY_TARGETS];
    const float *places = c->p[FV_QUERY_PLACES];
    double both = 0, sum = 0;
    for (uint32_t p = 0; p < points; p++) {
        const float *place = places + (size_t)p * a->ld[FV_QUERY_PLACES];
        const double s = fv_query_sigmoid(fv_query_sample(a, mask, place));
        both += s * (double)target[p];
        sum += s + (double)target[p];
    }
    for (uint32_t p = 0; p < points; p++) {
        const float *place = places + (size_t)p * a->ld[FV_QUERY_PLACES];
        const fv_deform_corners k = fv_query_corners(a, place);
        const double s = fv_query_sigmoid(fv_query_sample(a, mask, place)), y = (double)target[p];
        const double dice = (2 * y * (sum + 1) - (2 * both + 1)) / ((sum + 1) * (sum + 1));
        const double dx = of->mask * (s - y) / points - of->dice * dice * s * (1 - s);
        for (int i = 0; i < k.count; i++)
            out[k.row[i]] += (float)((double)k.part[i] * dx);
    }
}

void fv_k_query_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t cells = a->prob.dim[FV_ROW_C], n = a->prob.dim[FV_QUERY_CLASSES] + 1;
    for (size_t r = 0; r < c->rows; r++) {
        const fv_query_role of = fv_query_role_of(a, c->p[FV_QUERY_MATCHED], c->row0 + (uint32_t)r);
        const float *logit = (const float *)c->p[FV_QUERY_LOGITS] + r * a->ld[FV_QUERY_LOGITS];
        float *out = (float *)c->p[FV_QUERY_OUT] + r * a->ld[FV_QUERY_OUT];
        memset(out, 0, cells * sizeof *out);
        if (of.mask + of.dice > 0)
            mask_gradient(a, c, &of,
                          (const float *)c->p[FV_QUERY_MASKS] + r * a->ld[FV_QUERY_MASKS], out);
        for (uint32_t k = 0; k < n; k++)
            out[cells + k] =
                (float)(of.entropy * (exp(fv_query_chance(logit, n, k)) - (k == of.class ? 1 : 0)));
    }
}
