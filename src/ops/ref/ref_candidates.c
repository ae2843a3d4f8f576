/* ref_candidates.c: CANDIDATES: makes regions from scores and from the numbers by which a detector
 * moves and scales boxes.
 *
 *   dim     rows, C (scores of a row), from, deltas: 1, or C, of which each column has its own
 *   INDEX   ROW, 1 wide: numbers of scores, row * C + column, as floats; or absent
 *   SCORE   WHOLE, `from` rows, C wide
 *   DELTA   WHOLE, `from` rows, deltas * 4 wide
 *   REGION  WHOLE, `from` rows, FV_REGION_COLUMNS wide: the boxes that are moved; absent: anchors
 *   OUT     ROW, FV_REGION_COLUMNS wide
 *   u[0]    anchors: number of cells in a line of the grid, whose cells the rows of SCORE are
 *   u[1]    anchors: class of the results
 *   f       width and height of the picture; the score that must be exceeded; the side that must be
 *           exceeded, or a negative number
 *   table   fv_region_coder
 *
 *   number_i = INDEX_i; without INDEX, i, or with LARGEST the largest score of row i
 *   box = REGION of the score's row, or the anchor of its column and cell
 *   (dx, dy, dw, dh) = DELTA std + mean;  dw and dh are limited to +-FV_REGION_GROWTH
 *   x = (x1 + x2) / 2 + dx (x2 - x1);  w = (x2 - x1) exp(dw);  the same for y
 *   out_i = (x - w/2, y - h/2, x + w/2, y + h/2), clipped to the picture; the score; its column, or
 *           the class of the anchors
 *
 * out_i is zeros and the class -1 if there is no such score or region, if the score or a side does
 * not exceed its limit, or if the box is not finite or its sides are negative. A score that is NaN
 * exceeds nothing.
 */
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_regions.h"

static uint32_t deltas(const fv_problem *p)
{
    return 4 * p->dim[FV_CANDIDATES_DELTAS];
}

static uint32_t region(const fv_problem *p)
{
    (void)p;
    return FV_REGION_COLUMNS;
}

static double flops(const fv_problem *p)
{
    return 60. * p->dim[FV_DIM_ROWS];
}

const fv_op fv_op_candidates = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_CANDIDATES_FROM] = {"from", FV_DIM_TOKENS},
            [FV_CANDIDATES_DELTAS] = {"deltas"}},
    .operand = {[FV_CANDIDATES_INDEX] = {"INDEX", .columns = fv_columns_one,
                                         .nature = FV_NATURE_FRACTION, .exact = true},
                [FV_CANDIDATES_SCORE] = {"SCORE", FV_ROW_C, .exact = true},
                [FV_CANDIDATES_DELTA] = {"DELTA", .columns = deltas, .exact = true},
                [FV_CANDIDATES_REGION] = {"REGION", .columns = region, .nature = FV_NATURE_FRACTION,
                                          .exact = true},
                [FV_CANDIDATES_OUT] = {"OUT", .columns = region, .exact = true}},
    .flops = flops,
};

void fv_k_candidates_f32_ref(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++)
        fv_region_row(a, c, r);
}
