/* ref_row_max.c: ROW_MAX: computes the maximum of every row.
 *
 *   dim    rows, C
 *   IN     ROW, C wide        OUT  ROW, 1 wide
 *
 *   out = max_c in[c]; NaN is skipped; -infinity if all are NaN
 */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_row_max = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ROW_MAX_IN] = {"IN", FV_ROW_C},
                [FV_ROW_MAX_OUT] = {"OUT", .columns = fv_columns_one, .exact = true}},
    .element_flops = 1,
};

void fv_k_row_max_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ROW_MAX_IN] + r * a->ld[FV_ROW_MAX_IN];
        float max = -INFINITY;
        for (size_t i = 0; i < a->prob.dim[FV_ROW_C]; i++)
            max = in[i] > max ? in[i] : max;
        ((float *)c->p[FV_ROW_MAX_OUT])[r * a->ld[FV_ROW_MAX_OUT]] = max;
    }
}
