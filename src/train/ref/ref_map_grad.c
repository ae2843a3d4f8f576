/* ref_map_grad.c: MAP_GRAD: the gradients of keys and values of attention pooling.
 *
 *   dim      rows (= keys), d, unused, keys; heads
 *   Q        WHOLE, one row of heads * d
 *   K, V     ROW: head h at column h * d
 *   FORWARD  WHOLE, one row of heads * d: the result of MAP_MERGE
 *   DOUT     WHOLE, one row of heads * d: the gradient of FORWARD
 *   OUT      ROW, 2 heads * d wide: gradients of k, then of v; must not be another operand
 *   f[0]     scale
 *   col0, cols  heads; a call covers all rows
 *
 *   p_j = exp(f0 q.k_j) / sum_j exp(f0 q.k_j);   ds_j = p_j dout.(v_j - out)
 *   dk_j = f0 ds_j q;   dv_j = p_j dout
 *
 * Arithmetic is float32, with separate sums for blocks of rows. */
#include "train/ref/ref_map_grad.h"

static uint32_t columns(const fv_problem *p)
{
    return 2 * p->heads * p->dim[FV_ATTN_D];
}

const fv_op fv_op_map_grad = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_HEAD,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ATTN_D] = {"d"}, [FV_ATTN_KEYS] = {"keys", FV_DIM_SAME}},
    .operand = {REF_MAP_OPERANDS, [FV_MAP_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = ref_map_grad_flops,
    .terms = fv_terms_softmax,
    .joint = true,
};

void fv_k_map_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], heads = a->prob.heads;
    float *p = c->scratch, *ds = p + c->rows;
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *q = (const float *)c->p[FV_MAP_GRAD_Q] + h * d;
        const float *dout = (const float *)c->p[FV_MAP_GRAD_DOUT] + h * d;
        ref_map_weights(p, ds, a, c, c->rows, h);
        for (size_t r = 0; r < c->rows; r++) {
            float *dk = (float *)c->p[FV_MAP_GRAD_OUT] + r * a->ld[FV_MAP_GRAD_OUT] + h * d;
            float *dv = dk + heads * d;
            for (size_t i = 0; i < d; i++) {
                dk[i] = ds[r] * q[i];
                dv[i] = p[r] * dout[i];
            }
        }
    }
}

const fv_kernel_hooks fv_h_map_grad_f32_ref = {.scratch = ref_map_scratch};
