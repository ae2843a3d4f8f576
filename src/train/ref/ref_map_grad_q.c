/* ref_map_grad_q.c: MAP_GRAD_Q: the gradient of the learned query of attention pooling.
 *
 *   dim      1, d, unused, keys; heads
 *   K, V     WHOLE, keys rows: head h at column h * d
 *   OUT      ROW, one row of heads * d; must not be another operand
 *   Q, FORWARD, DOUT, f, col0, cols  as in MAP_GRAD
 *
 *   dq = f0 sum_j ds_j k_j      with ds of MAP_GRAD
 *
 * Arithmetic is float32, with separate sums for blocks of rows. */
#include "train/ref/ref_map_grad.h"

const fv_op fv_op_map_grad_q = {
    .span = FV_SPAN_ALL,
    .cols = FV_COLS_HEAD,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ATTN_D] = {"d"}, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}},
    .operand = {REF_MAP_OPERANDS, [FV_MAP_GRAD_OUT] = {"OUT", FV_ATTN_D, .heads = true}},
    .flops = ref_map_grad_flops,
    .terms = fv_terms_softmax,
    .joint = true,
};

void fv_k_map_grad_q_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], keys = a->prob.dim[FV_ATTN_KEYS];
    float *p = c->scratch, *ds = p + keys;
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        float *dq = (float *)c->p[FV_MAP_GRAD_OUT] + h * d;
        ref_map_weights(p, ds, a, c, keys, h);
        for (size_t i = 0; i < d; i++) {
            float sum = 0.f;
            for (size_t r0 = 0; r0 < keys; r0 += REF_MAP_BLOCK) {
                float part = 0.f;
                for (size_t r = r0; r < keys && r < r0 + REF_MAP_BLOCK; r++)
                    part += ds[r] * ref_map_row(a, c, FV_MAP_GRAD_K, r)[h * d + i];
                sum += part;
            }
            dq[i] = sum;
        }
    }
}
