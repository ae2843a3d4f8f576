/* ref_topk.c: TOPK: finds the rows with the largest numbers, each row having one number.
 *
 *   dim    rows (chosen), from
 *   IN     WHOLE, from rows, 1 wide       OUT  ROW, 1 wide
 *   u[0]   candidates, at least one
 *   u[1]   1: table has their rows; 0: there is no table, and all `from` rows are candidates
 *   table  uint32: rows, ascending
 *
 *   out_i = the row of candidate i in the order below, as a float; -1 if there is no candidate i
 *
 * Candidates are in descending order of their numbers. Equal numbers are in the order of their
 * rows, and NaN is last. Row numbers are below 2^24, so that a float can represent them.
 */
#include "ops/ref/ref_topk.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

static double flops(const fv_problem *p)
{
    return 8. * p->dim[FV_TOPK_FROM];
}

const fv_op fv_op_topk = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_TOPK_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_TOPK_IN] = {"IN", .columns = fv_columns_one, .exact = true},
                [FV_TOPK_OUT] = {"OUT", .columns = fv_columns_one, .exact = true}},
    .flops = flops,
};

/* Finds one row after the other: each is the first, in this order, that follows the previous one.
 */
void fv_k_topk_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *in = c->p[FV_TOPK_IN];
    const uint32_t *table = a->table, count = a->u[0], end = c->row0 + c->rows;
    const size_t ld = a->ld[FV_TOPK_IN];
    uint32_t last = 0;
    for (uint32_t rank = 0; rank < end; rank++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t k = 0; k < count && rank < count; k++) {
            const uint32_t row = table ? table[k] : k;
            if (rank > 0 && !fv_topk_before(in[last * ld], last, in[row * ld], row))
                continue;
            if (best == UINT32_MAX || fv_topk_before(in[row * ld], row, in[best * ld], best))
                best = row;
        }
        last = best;
        if (rank >= c->row0)
            ((float *)c->p[FV_TOPK_OUT])[(rank - c->row0) * (size_t)a->ld[FV_TOPK_OUT]] =
                best == UINT32_MAX ? -1.f : (float)best;
    }
}
