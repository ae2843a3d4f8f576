/* ref_rel_pos.c: REL_POS: multiplies queries by the relative positions of a grid's rows and
 * columns; SOFTMAX and WSOFTMAX add the products to scores (the decomposed relative positions of
 * MViTv2 and SAM).
 *
 *   dim     rows, d, H, W; heads
 *   Q       ROW, heads * d wide
 *   DOWN    (d, 2H - 1): column H - 1 + n is for keys n rows further down than the query
 *   ACROSS  (d, 2W - 1): column W - 1 + n is for keys n columns further right
 *   OUT     ROW, heads * (H + W) wide
 *
 * Tokens are consecutive grids of H rows of W tokens: row i is at y = i / W % H, x = i % W of its
 * grid. For every head:
 *
 *   out[n]     = sum_c q[c] DOWN[c][H - 1 - y + n],     n < H
 *   out[H + n] = sum_c q[c] ACROSS[c][W - 1 - x + n],   n < W
 */
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_kernels.h"

static uint32_t columns_down(const fv_problem *p)
{
    return 2 * p->dim[FV_REL_POS_HEIGHT] - 1;
}

static uint32_t columns_across(const fv_problem *p)
{
    return 2 * p->dim[FV_REL_POS_WIDTH] - 1;
}

static uint32_t columns_out(const fv_problem *p)
{
    return p->heads * (p->dim[FV_REL_POS_HEIGHT] + p->dim[FV_REL_POS_WIDTH]);
}

static double flops(const fv_problem *p)
{
    return 2. * p->dim[FV_DIM_ROWS] * p->dim[FV_ATTN_D] * columns_out(p);
}

const fv_op fv_op_rel_pos = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_REL_POS_HEIGHT] = {"H", FV_DIM_TOKENS},
            [FV_REL_POS_WIDTH] = {"W", FV_DIM_TOKENS}},
    .operand = {[FV_REL_POS_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_REL_POS_DOWN] = {"DOWN", .stored = FV_STORED_FLOATS, .columns = columns_down},
                [FV_REL_POS_ACROSS] = {"ACROSS", .stored = FV_STORED_FLOATS,
                                       .columns = columns_across},
                [FV_REL_POS_OUT] = {"OUT", .columns = columns_out}},
    .flops = flops,
    .terms = fv_terms_row,
};

static void multiply(float *out, const float *q, const float *table, size_t ld, size_t d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = 0.f;
        for (size_t k = 0; k < d; k++)
            out[i] += q[k] * table[k * ld + i];
    }
}

void fv_k_rel_pos_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D];
    const size_t height = a->prob.dim[FV_REL_POS_HEIGHT], width = a->prob.dim[FV_REL_POS_WIDTH];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t y = (c->row0 + r) / width % height, x = (c->row0 + r) % width;
        const float *q = (const float *)c->p[FV_REL_POS_Q] + r * a->ld[FV_REL_POS_Q];
        float *out = (float *)c->p[FV_REL_POS_OUT] + r * a->ld[FV_REL_POS_OUT];
        const float *down = (const float *)c->p[FV_REL_POS_DOWN] + height - 1 - y;
        const float *across = (const float *)c->p[FV_REL_POS_ACROSS] + width - 1 - x;
        for (size_t h = 0; h < a->prob.heads; h++, q += d, out += height + width) {
            multiply(out, q, down, a->ld[FV_REL_POS_DOWN], d, height);
            multiply(out + height, q, across, a->ld[FV_REL_POS_ACROSS], d, width);
        }
    }
}
