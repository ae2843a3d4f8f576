/* ref_topk.c: TOPK: finds the places of the largest values.
 *
 *   dim    rows (chosen), from, columns
 *   IN     WHOLE, from rows, `columns` wide       OUT  ROW, 1 wide
 *   u[0]   candidates, at least one
 *   u[1]   1: table has their places, and `columns` is 1; 0: there is no table, and all values are
 *          candidates
 *   table  uint32: places, ascending
 *
 *   place = row * columns + column of a value
 *   out_i = the place of candidate i in the order below, as a float; -1 if there is no candidate i
 *
 * Candidates are in descending order of their values. Equal values are in the order of their
 * places, and NaN is last. Places are below 2^24, so that a float can represent them.
 */
#include "ops/ref/ref_topk.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

static double flops(const fv_problem *p)
{
    return 8. * p->dim[FV_TOPK_FROM] * p->dim[FV_TOPK_COLUMNS];
}

const fv_op fv_op_topk = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_TOPK_FROM] = {"from", FV_DIM_TOKENS},
            [FV_TOPK_COLUMNS] = {"columns"}},
    .operand = {[FV_TOPK_IN] = {"IN", FV_TOPK_COLUMNS, .exact = true},
                [FV_TOPK_OUT] = {"OUT", .columns = fv_columns_one, .exact = true}},
    .flops = flops,
};

/* Finds one place after the other: each is the first, in this order, that follows the previous one.
 */
void fv_k_topk_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t *table = a->table, count = a->u[0], end = c->row0 + c->rows;
    uint32_t last = 0;
    for (uint32_t rank = 0; rank < end; rank++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t k = 0; k < count && rank < count; k++) {
            const uint32_t at = table ? table[k] : k;
            const float x = fv_topk_value(a, c, at);
            if (rank > 0 && !fv_topk_before(fv_topk_value(a, c, last), last, x, at))
                continue;
            if (best == UINT32_MAX || fv_topk_before(x, at, fv_topk_value(a, c, best), best))
                best = at;
        }
        last = best;
        if (rank >= c->row0)
            ((float *)c->p[FV_TOPK_OUT])[(rank - c->row0) * (size_t)a->ld[FV_TOPK_OUT]] =
                best == UINT32_MAX ? -1.f : (float)best;
    }
}
