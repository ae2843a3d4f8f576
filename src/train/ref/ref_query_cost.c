/* ref_query_cost.c: QUERY_COST: the cost of giving each class of a picture to each query, as in
 * Mask2Former.
 *
 *   dim      rows (queries), cells of a mask, classes, points;  u[0]  width of the grid of cells
 *   MASKS    ROW, cells wide: logits of the query's mask
 *   LOGITS   ROW, classes + 1 wide; the last is that of no class
 *   PLACES   WHOLE, points x 2, from 0 to 1            TARGETS  WHOLE, classes x points, from 0 to
 * 1 PRESENT  classes floats: 1 for a class that the picture has, else 0 OUT      ROW, classes wide
 *   f        factors of the class, of the mask and of its overlap
 *
 * With the probability c of class k, the mask's logits x_p at the points, their sigmoids s_p, and
 * the class's targets y_p:
 *
 *   out[k] = -f0 c + f1 mean_p (log(1 + e^x_p) - x_p y_p)
 *            + f2 (1 - (2 sum_p s_p y_p + 1) / (sum_p s_p + sum_p y_p + 1));  0 if k is not present
 */
#include <math.h>

#include "train/ref/ref_query.h"
#include "train/ref/train_ref_kernels.h"

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * p->dim[FV_QUERY_POINTS] * 60;
}

const fv_op fv_op_query_cost = {
    .dim = {FV_QUERY_SIZES},
    .operand = {FV_QUERY_OPERANDS, [FV_COST_PRESENT] = {"PRESENT", FV_QUERY_CLASSES},
                [FV_COST_OUT] = {"OUT", FV_QUERY_CLASSES}},
    .flops = flops,
    .terms = fv_query_terms,
};

static double cost_of(const fv_args *a, const fv_call *c, const float *mask, const float *logit,
                      uint32_t class)
{
    const uint32_t points = a->prob.dim[FV_QUERY_POINTS];
    const float *target =
        (const float *)c->p[FV_QUERY_TARGETS] + (size_t) class * a->ld[FV_QUERY_TARGETS];
    double entropy = 0, both = 0, sum = 0;
    for (uint32_t p = 0; p < points; p++) {
        const double x = fv_query_sample(
            a, mask, (const float *)c->p[FV_QUERY_PLACES] + (size_t)p * a->ld[FV_QUERY_PLACES]);
        const double s = fv_query_sigmoid(x), y = (double)target[p];
        entropy += fv_query_softplus(x) - x * y;
        both += s * y;
        sum += s + y;
    }
    return (double)a->f[FV_QUERY_F_MASK] * entropy / points +
           (double)a->f[FV_QUERY_F_DICE] * (1 - (2 * both + 1) / (sum + 1)) -
           (double)a->f[FV_QUERY_F_CLASS] *
               exp(fv_query_chance(logit, a->prob.dim[FV_QUERY_CLASSES] + 1, class));
}

void fv_k_query_cost_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *present = c->p[FV_COST_PRESENT];
    for (size_t r = 0; r < c->rows; r++) {
        const float *mask = (const float *)c->p[FV_QUERY_MASKS] + r * a->ld[FV_QUERY_MASKS];
        const float *logit = (const float *)c->p[FV_QUERY_LOGITS] + r * a->ld[FV_QUERY_LOGITS];
        float *out = (float *)c->p[FV_COST_OUT] + r * a->ld[FV_COST_OUT];
        for (uint32_t k = 0; k < a->prob.dim[FV_QUERY_CLASSES]; k++)
            out[k] = present[k] > 0.f ? (float)cost_of(a, c, mask, logit, k) : 0.f;
    }
}
