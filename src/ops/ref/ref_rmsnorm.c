/* ref_rmsnorm.c: RMSNORM: divides every group of d channels by its root mean square, then scales
 * and gates it.
 *
 *   dim        rows, C, d, which divides C;  heads: C / d
 *   prob.in, prob.out  types of IN and OUT, F32 or BF16
 *   IN         ROW, C wide       OUT  ROW, C wide; may be IN if their types are equal
 *   WEIGHT     d floats, the same for all groups
 *   GATE       ROW, C wide, F32 or BF16, or NULL; not OUT
 *   HEAD_GATE  ROW, heads wide, float32, or NULL
 *   f[0]       eps
 *   flags      FV_FLAG_SILU: silu of GATE is used
 *
 *           group 0   group 1
 *   row i  | x x x x | x x x x | ..    y[h d + c] = x[h d + c] / sqrt(sum(x^2) / d + eps) weight[c]
 *                                      y[h d + c] *= gate[h d + c], or silu(gate[h d + c])
 *                                      y[h d + c] *= head_gate[h]
 *
 * Sums are float32, over channels h d .. h d + d - 1. A row's result does not depend on the other
 * rows of a call.
 */
#include <math.h>

#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

static double terms(const fv_problem *p)
{
    return p->dim[FV_RMS_D];
}

const fv_op fv_op_rmsnorm = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_RMS_D] = {"d"}},
    .operand = {[FV_RMS_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_RMS_WEIGHT] = {"WEIGHT", FV_RMS_D, .stored = FV_STORED_FLOATS,
                                   .nature = FV_NATURE_FACTOR},
                [FV_RMS_GATE] = {"GATE", FV_ROW_C, .narrow = true},
                [FV_RMS_HEAD_GATE] = {"HEAD_GATE", .heads = true, .nature = FV_NATURE_FRACTION},
                [FV_RMS_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 8,
    .terms = terms,
};

/* Returns the product of the gates for channel i of row r of the call. */
static float gate_at(const fv_args *a, const fv_call *c, size_t r, size_t i)
{
    float gate = 1.f;
    if (c->p[FV_RMS_GATE]) {
        const size_t at = r * a->ld[FV_RMS_GATE] + i;
        gate = fv_value_get(c->p[FV_RMS_GATE], a->type[FV_RMS_GATE], at);
        if (a->prob.flags & FV_FLAG_SILU)
            gate /= 1.f + expf(-gate);
    }
    if (c->p[FV_RMS_HEAD_GATE]) {
        const float *heads = c->p[FV_RMS_HEAD_GATE];
        gate *= heads[r * a->ld[FV_RMS_HEAD_GATE] + i / a->prob.dim[FV_RMS_D]];
    }
    return gate;
}

/* Normalises the group that begins at channel `first`. */
static void normalise(const fv_args *a, const fv_call *c, size_t r, size_t first)
{
    const size_t d = a->prob.dim[FV_RMS_D], in = r * a->ld[FV_RMS_IN] + first;
    const float *weight = c->p[FV_RMS_WEIGHT];
    float sum = 0.f;
    for (size_t i = 0; i < d; i++) {
        const float x = fv_value_get(c->p[FV_RMS_IN], a->prob.in, in + i);
        sum += x * x;
    }
    const float scale = 1.f / sqrtf(sum / (float)d + a->f[0]);
    for (size_t i = 0; i < d; i++) {
        const float x = fv_value_get(c->p[FV_RMS_IN], a->prob.in, in + i) * scale * weight[i];
        fv_value_put(c->p[FV_RMS_OUT], a->prob.out, r * a->ld[FV_RMS_OUT] + first + i,
                     x * gate_at(a, c, r, first + i));
    }
}

void fv_k_rmsnorm_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++)
        for (size_t first = 0; first < a->prob.dim[FV_ROW_C]; first += a->prob.dim[FV_RMS_D])
            normalise(a, c, r, first);
}
