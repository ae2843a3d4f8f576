/* ref_rel_pos.h: reads relative positions for scores, for all references of softmax attention. */
#ifndef FOVEA_SRC_REF_REL_POS_H
#define FOVEA_SRC_REF_REL_POS_H

#include "base/half.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/kernel.h"

/* Returns the number that is added to the score of key j for the query of row r of the call, or 0
 * if operand `o`, whose rows are `rows`, is absent. */
static inline float ref_rel_pos_at(const fv_args *a, const void *rows, int o, size_t r, size_t head,
                                   size_t j)
{
    const size_t width = a->prob.dim[FV_REL_POS_COLUMNS];
    if (!width || !rows)
        return 0.f;
    const size_t height = a->prob.dim[FV_ATTN_KEYS] / width;
    const size_t own = r * a->ld[o] + head * (height + width);
    return fv_value_get(rows, a->type[o], own + j / width) +
           fv_value_get(rows, a->type[o], own + height + j % width);
}

#endif
