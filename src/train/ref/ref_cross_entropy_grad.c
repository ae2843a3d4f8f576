/* ref_cross_entropy_grad.c: CROSS_ENTROPY_GRAD: gradient of CROSS_ENTROPY_LOSS's logits.
 *
 *   dim     rows, classes
 *   LOGITS  ROW, `classes` wide     LABELS  ROW, 2 wide: number of the class, weight
 *   OUT     ROW, `classes` wide; may be LOGITS
 *
 *   out[c] = weight (exp(x[c]) / sum_c exp(x[c]) - (c == class))
 *
 * Rows without a loss get zeros.
 */
#include "train/ref/ref_loss.h"
#include "train/ref/train_ref_kernels.h"

const fv_op fv_op_cross_entropy_grad = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"classes"}},
    .operand = {[FV_ENTROPY_LOGITS] = {"LOGITS", FV_ROW_C},
                [FV_ENTROPY_LABELS] = {"LABELS"},
                [FV_ENTROPY_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 20,
    .terms = fv_terms_row,
};

void fv_k_cross_entropy_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_ENTROPY_LOGITS] + r * a->ld[FV_ENTROPY_LOGITS];
        const float *label = (const float *)c->p[FV_ENTROPY_LABELS] + r * a->ld[FV_ENTROPY_LABELS];
        float *out = (float *)c->p[FV_ENTROPY_OUT] + r * a->ld[FV_ENTROPY_OUT];
        const bool counts = label[1] != 0.f && label[0] >= 0.f && label[0] < (float)n;
        const double all = counts ? fv_ref_log_sum(x, n) : 0;
        for (size_t i = 0; i < n; i++) {
            const double p = counts ? exp(x[i] - all) - (i == (size_t)label[0]) : 0;
            out[i] = counts ? (float)((double)label[1] * p) : 0.f;
        }
    }
}
