/* ref_cross_entropy_loss.c: CROSS_ENTROPY_LOSS: the cross-entropy of rows of logits, each with its
 * class.
 *
 *   dim     rows, classes
 *   LOGITS  ROW, `classes` wide     LABELS  ROW, 2 wide: number of the class, weight
 *   OUT     ROW, one float
 *
 *   out = weight (log sum_c exp(x[c]) - x[class])
 *
 * The loss is 0 for a row whose weight is 0 or whose class is not in [0, classes). */
#include "train/ref/ref_loss.h"
#include "train/ref/train_ref_kernels.h"

const fv_op fv_op_cross_entropy_loss = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"classes"}},
    .operand = {[FV_ENTROPY_LOGITS] = {"LOGITS", FV_ROW_C},
                [FV_ENTROPY_LABELS] = {"LABELS"},
                [FV_ENTROPY_OUT] = {"OUT", .columns = fv_columns_one}},
    .element_flops = 20,
    .terms = fv_terms_row,
};

void fv_k_cross_entropy_loss_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_ENTROPY_LOGITS] + r * a->ld[FV_ENTROPY_LOGITS];
        const float *label = (const float *)c->p[FV_ENTROPY_LABELS] + r * a->ld[FV_ENTROPY_LABELS];
        double loss = 0;
        if (label[1] != 0.f && label[0] >= 0.f && label[0] < (float)n)
            loss = (double)label[1] * (fv_ref_log_sum(x, n) - x[(size_t)label[0]]);
        ((float *)c->p[FV_ENTROPY_OUT])[r * a->ld[FV_ENTROPY_OUT]] = (float)loss;
    }
}
