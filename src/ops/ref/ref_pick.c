/* ref_pick.c: PICK: copies rows of a complete tensor, whose row numbers are computed.
 *
 *   dim    rows, C, from
 *   IN     WHOLE, from rows, C wide, or a weight
 *   INDEX  ROW, 1 wide: row numbers of IN, as floats; absent: the output rows' own numbers, at most
 *          `from` of them
 *   OUT    ROW, C wide; not another operand
 *
 *   out_i = in[index_i]; zeros where index_i is not a row of IN: -1, NaN
 */
#include <string.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_pick.h"

const fv_op fv_op_pick = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_PICK_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_PICK_IN] = {"IN", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_PICK_INDEX] = {"INDEX", .columns = fv_columns_one, .nature = FV_NATURE_FRACTION,
                                   .exact = true},
                [FV_PICK_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 1,
};

void fv_k_pick_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C];
    for (uint32_t r = 0; r < c->rows; r++) {
        const float *index = c->p[FV_PICK_INDEX];
        const float *x =
            fv_pick_row(c->p[FV_PICK_IN], a->ld[FV_PICK_IN], a->prob.dim[FV_PICK_FROM],
                        index ? index + (size_t)r * a->ld[FV_PICK_INDEX] : NULL, c->row0 + r);
        float *out = (float *)c->p[FV_PICK_OUT] + (size_t)r * a->ld[FV_PICK_OUT];
        if (x)
            memcpy(out, x, width * sizeof *out);
        else
            memset(out, 0, width * sizeof *out);
    }
}
