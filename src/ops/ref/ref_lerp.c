/* ref_lerp.c: LERP: resizes a complete tensor along the token axis by linear interpolation.
 *
 *   dim    rows, C, from
 *   IN     WHOLE, from rows, C wide        OUT  ROW, C wide; not IN
 *
 *   x = max(0, (i + 1/2) from / rows - 1/2);   j = floor(x);   t = x - j
 *   out_i = in_j + t (in_k - in_j),   k = min(j + 1, from - 1)
 *
 * This is torch's interpolate with mode "linear" and align_corners False; x is exact.
 */
#include "ops/ref/ref_lerp.h"
#include "ops/contracts/grid.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_lerp = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_LERP_ROWS] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_LERP_IN] = {"IN", FV_ROW_C}, [FV_LERP_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 3,
};

void fv_k_lerp_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], ld = a->ld[FV_LERP_IN];
    const float *in = c->p[FV_LERP_IN];
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_lerp_source s =
            fv_lerp_at(c->row0 + r, a->prob.dim[FV_DIM_ROWS], a->prob.dim[FV_LERP_ROWS]);
        float *out = (float *)c->p[FV_LERP_OUT] + (size_t)r * a->ld[FV_LERP_OUT];
        for (size_t i = 0; i < width; i++) {
            const float low = in[s.low * ld + i], high = in[s.high * ld + i];
            out[i] = low + s.part * (high - low);
        }
    }
}
