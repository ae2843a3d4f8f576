/* ref_query_loss.c: QUERY_LOSS: the loss of the classes and masks of queries, as in Mask2Former.
 *
 *   dim, u[0], MASKS, LOGITS, PLACES, TARGETS  as in QUERY_COST (ref_query_cost.c)
 *   MATCHED  WHOLE, one row of a float per query: the result of QUERY_MATCH
 *   OUT      ROW, 1 wide
 *   f        factors of the class, of the mask and of its overlap; weight of no class
 *
 * With n queries that have a class, and the names of QUERY_COST:
 *
 *   w = 1 with a class, else f3;   W = n + f3 (queries - n)
 *   out = f0 w / W (log sum_k exp logit_k - logit of the query's class)
 *         + f1 / n mean_p (log(1 + e^x_p) - x_p y_p)                            with a class
 *         + f2 / n (1 - (2 sum_p s_p y_p + 1) / (sum_p s_p + sum_p y_p + 1))    with a class
 */
#include <math.h>

#include "train/ref/ref_query.h"
#include "train/ref/train_ref_kernels.h"

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * p->dim[FV_QUERY_CLASSES] * 8 +
           60. * p->dim[FV_QUERY_CLASSES] * p->dim[FV_QUERY_POINTS];
}

const fv_op fv_op_query_loss = {
    .dim = {FV_QUERY_SIZES},
    .operand = {FV_QUERY_OPERANDS, [FV_QUERY_MATCHED] = {"MATCHED", .columns = fv_query_count},
                [FV_QUERY_OUT] = {"OUT", .columns = fv_columns_one}},
    .flops = flops,
    .terms = fv_query_terms,
    .joint = true,
};

void fv_k_query_loss_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t points = a->prob.dim[FV_QUERY_POINTS];
    for (size_t r = 0; r < c->rows; r++) {
        const fv_query_role of = fv_query_role_of(a, c->p[FV_QUERY_MATCHED], c->row0 + (uint32_t)r);
        const float *mask = (const float *)c->p[FV_QUERY_MASKS] + r * a->ld[FV_QUERY_MASKS];
        const float *logit = (const float *)c->p[FV_QUERY_LOGITS] + r * a->ld[FV_QUERY_LOGITS];
        const float *target =
            (const float *)c->p[FV_QUERY_TARGETS] + (size_t)of.class * a->ld[FV_QUERY_TARGETS];
        double entropy = 0, both = 0, sum = 0;
        for (uint32_t p = 0; of.mask + of.dice > 0 && p < points; p++) {
            const float *place =
                (const float *)c->p[FV_QUERY_PLACES] + (size_t)p * a->ld[FV_QUERY_PLACES];
            const double x = fv_query_sample(a, mask, place), s = fv_query_sigmoid(x);
            entropy += fv_query_softplus(x) - x * (double)target[p];
            both += s * (double)target[p];
            sum += s + (double)target[p];
        }
        const double chance = fv_query_chance(logit, a->prob.dim[FV_QUERY_CLASSES] + 1, of.class);
        ((float *)c->p[FV_QUERY_OUT])[r * a->ld[FV_QUERY_OUT]] =
            (float)(-of.entropy * chance + of.mask * entropy / points +
                    of.dice * (1 - (2 * both + 1) / (sum + 1)));
    }
}
