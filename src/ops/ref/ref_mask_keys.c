/* ref_mask_keys.c: MASK_KEYS: computes numbers that SOFTMAX adds to scores, so that a query attends
 * only to those of the last keys that are inside its mask.
 *
 *   dim   rows (queries), C (keys with a mask), before (keys without a mask, which precede); heads
 *   IN    ROW, C wide: a number for each key with a mask
 *   MOST  ROW, 1 wide: the largest of these numbers; absent for the first rule below
 *   OUT   ROW, heads * (before + C + 1) wide: SOFTMAX's REL_POS, for keys in one column
 *
 *   out[h][j]          = 0,                                    j < before
 *   out[h][before + j] = 0 where in[j] > 0, else FV_MASK_HIDDEN                without MOST
 *                      = FV_MASK_HIDDEN where in[j] < 0 <= most, else 0        with MOST
 *   out[h][before + C] = 0, for the only column
 *
 * With MOST, a query that would see none of these keys sees all of them.
 */
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_kernels.h"

static uint32_t columns(const fv_problem *p)
{
    return p->heads * (p->dim[FV_MASK_BEFORE] + p->dim[FV_ROW_C] + 1);
}

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * columns(p);
}

const fv_op fv_op_mask_keys = {
    .dim =
        {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C", FV_DIM_TOKENS}, [FV_MASK_BEFORE] = {"before"}},
    .operand = {[FV_MASK_IN] = {"IN", FV_ROW_C},
                [FV_MASK_MOST] = {"MOST", .columns = fv_columns_one},
                [FV_MASK_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
};

void fv_k_mask_keys_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t before = a->prob.dim[FV_MASK_BEFORE], n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_MASK_IN] + r * a->ld[FV_MASK_IN];
        const float *most = c->p[FV_MASK_MOST];
        if (most)
            most += r * a->ld[FV_MASK_MOST];
        float *out = (float *)c->p[FV_MASK_OUT] + r * a->ld[FV_MASK_OUT];
        for (size_t h = 0; h < a->prob.heads; h++)
            for (size_t j = 0; j < before + n + 1; j++) {
                const bool masked = j >= before && j < before + n;
                const float x = masked ? in[j - before] : 0.f;
                const bool hidden = most ? x < 0 && *most >= 0 : !(x > 0);
                *out++ = masked && hidden ? FV_MASK_HIDDEN : 0.f;
            }
    }
}
