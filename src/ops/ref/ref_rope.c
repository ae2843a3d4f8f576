/* ref_rope.c: ROPE: rotates every head's channel pairs by the token's angles.
 *
 *   dim       rows, heads * d, d; heads
 *   IN        ROW, heads * d wide        OUT  ROW, heads * d wide; may be IN
 *   COS, SIN  u[0] > 0, the width of the grid: (positions, d/2), d a multiple of 4
 *             u[0] = 0: a row of d per token, from token 0 on; d even
 *             u[0] = 0, u[1] = 1: ROW, d wide; d even
 *
 *             channels   0 .. d/2 - 1                   d/2 .. d - 1
 *             angles     row token / width of a table   row token % width of the same
 *
 *   out[2j]     = x[2j] cos[2j] - x[2j + 1] sin[2j]
 *   out[2j + 1] = x[2j + 1] cos[2j + 1] + x[2j] sin[2j + 1]
 *
 * There are no prefix tokens.
 */
#include "ops/ref/ref_rope.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_rope = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_ROPE_D] = {"d"}},
    .operand = {[FV_ROPE_IN] = {"IN", FV_ROW_C},
                [FV_ROPE_COS] = {"COS", .stored = FV_STORED_FLOATS, .exact = true},
                [FV_ROPE_SIN] = {"SIN", .stored = FV_STORED_FLOATS, .exact = true},
                [FV_ROPE_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 3,
    .grows = true,
};

void fv_k_rope_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t d = a->prob.dim[FV_ROPE_D];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t token = a->u[1] ? r : c->row0 + r;
        const ref_turn turn = ref_turn_at(c->p[FV_ROPE_COS], a->ld[FV_ROPE_COS], c->p[FV_ROPE_SIN],
                                          a->ld[FV_ROPE_SIN], token, a->u[0], d);
        const float *in = (const float *)c->p[FV_ROPE_IN] + r * a->ld[FV_ROPE_IN];
        float *out = (float *)c->p[FV_ROPE_OUT] + r * a->ld[FV_ROPE_OUT];
        for (size_t h = 0; h < a->prob.heads; h++)
            ref_turn_pairs(out + h * d, in + h * d, &turn, d);
    }
}
