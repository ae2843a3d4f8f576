/* ref_class_mask.c: CLASS_MASK: the probability of being inside a region's mask, from logits of all
 * classes.
 *
 *   dim     rows = regions * cells, C (classes), cells, regions
 *   IN      ROW, C wide: logits of a cell, by class
 *   REGION  WHOLE, `regions` rows, FV_REGION_COLUMNS wide
 *   RES     ROW, 1 wide, or absent
 *   OUT     ROW, 1 wide; may be RES
 *   f[0]    factor
 *
 *   out_i = res_i + f0 / (1 + exp(-in_i[k])),  k = class of region i / cells
 *
 * With C = 1, the column is that of every class. Without a column k, out_i is res_i, or 0.
 */
#include <math.h>

#include "ops/contracts/regions.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

static uint32_t region(const fv_problem *p)
{
    (void)p;
    return FV_REGION_COLUMNS;
}

static double flops(const fv_problem *p)
{
    return 20. * p->dim[FV_DIM_ROWS];
}

const fv_op fv_op_class_mask = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_CLASS_MASK_CELLS] = {"cells"},
            [FV_CLASS_MASK_REGIONS] = {"regions", FV_DIM_TOKENS}},
    .operand = {[FV_CLASS_MASK_IN] = {"IN", FV_ROW_C},
                [FV_CLASS_MASK_REGION] = {"REGION", .columns = region, .nature = FV_NATURE_FRACTION,
                                          .exact = true},
                [FV_CLASS_MASK_RES] = {"RES", .columns = fv_columns_one, .in_place = true},
                [FV_CLASS_MASK_OUT] = {"OUT", .columns = fv_columns_one}},
    .flops = flops,
};

void fv_k_class_mask_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t classes = a->prob.dim[FV_ROW_C];
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t number = (c->row0 + r) / a->prob.dim[FV_CLASS_MASK_CELLS];
        const float *res = c->p[FV_CLASS_MASK_RES];
        const float k =
            ((const float *)
                 c->p[FV_CLASS_MASK_REGION])[(size_t)number * a->ld[FV_CLASS_MASK_REGION] +
                                             FV_REGION_CLASS];
        const float *in =
            (const float *)c->p[FV_CLASS_MASK_IN] + (size_t)r * a->ld[FV_CLASS_MASK_IN];
        float sum = res ? res[(size_t)r * a->ld[FV_CLASS_MASK_RES]] : 0.f;
        if (k >= 0.f && (classes == 1 || k < (float)classes))
            sum += a->f[0] / (1.f + expf(-in[classes == 1 ? 0 : (uint32_t)k]));
        ((float *)c->p[FV_CLASS_MASK_OUT])[(size_t)r * a->ld[FV_CLASS_MASK_OUT]] = sum;
    }
}
