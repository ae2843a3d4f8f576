/* ref_suppress.c: SUPPRESS: keeps the best regions, and leaves out those that overlap a better one.
 *
 *   dim   rows (most that are kept), from
 *   IN    WHOLE, `from` rows, FV_REGION_COLUMNS wide
 *   OUT   ROW, FV_REGION_COLUMNS wide
 *   f[0]  threshold of overlap
 *
 * Regions are considered in descending order of their scores; equal scores are in the order of
 * their rows. A region is kept unless one that is kept already has the same class, and their
 * intersection is larger than the threshold times their union. The kept regions are the first rows
 * of OUT, in this order; the others are zeros with the class -1. Rows of IN whose class is below 0
 * are not considered; no score is NaN.
 */
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_regions.h"

static uint32_t region(const fv_problem *p)
{
    (void)p;
    return FV_REGION_COLUMNS;
}

static double flops(const fv_problem *p)
{
    return 4. * p->dim[FV_DIM_ROWS] * p->dim[FV_SUPPRESS_FROM];
}

const fv_op fv_op_suppress = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_SUPPRESS_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_SUPPRESS_IN] = {"IN", .columns = region, .nature = FV_NATURE_FRACTION,
                                    .exact = true},
                [FV_SUPPRESS_OUT] = {"OUT", .columns = region, .exact = true}},
    .flops = flops,
};

/* Finds one region after the other: each is the first, in their order, that follows the previous
 * one. */
void fv_k_suppress_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *in = c->p[FV_SUPPRESS_IN];
    float *out = c->p[FV_SUPPRESS_OUT];
    const size_t ld = a->ld[FV_SUPPRESS_IN], out_ld = a->ld[FV_SUPPRESS_OUT];
    uint32_t kept = 0, last = UINT32_MAX;
    for (;;) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; kept < c->rows && i < a->prob.dim[FV_SUPPRESS_FROM]; i++)
            if (in[i * ld + FV_REGION_CLASS] >= 0.f &&
                (last == UINT32_MAX || fv_region_before(in, ld, last, i)) &&
                (best == UINT32_MAX || fv_region_before(in, ld, i, best)))
                best = i;
        if (best == UINT32_MAX)
            break;
        const float *box = in + best * ld;
        bool covered = false;
        for (uint32_t k = 0; k < kept && !covered; k++)
            covered = out[k * out_ld + FV_REGION_CLASS] == box[FV_REGION_CLASS] &&
                      fv_region_overlaps(out + k * out_ld, box, a->f[0]);
        if (!covered)
            memcpy(out + kept++ * out_ld, box, FV_REGION_COLUMNS * sizeof *out);
        last = best;
    }
    for (; kept < c->rows; kept++) {
        memset(out + kept * out_ld, 0, FV_REGION_COLUMNS * sizeof *out);
        out[kept * out_ld + FV_REGION_CLASS] = -1.f;
    }
}
