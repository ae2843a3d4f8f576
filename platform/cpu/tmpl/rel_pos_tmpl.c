/* rel_pos_tmpl.c: implements REL_POS with vec.h's vector functions. A vector holds positions. */
#include "ops/contracts/softmax_attention.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/vec.h"

enum { WIDE = 4 }; /* vectors of sums that are kept in registers at a time */

/* Computes `vecs` vectors of sums, of which the last has `lanes` lanes. */
FV_FN void multiply_some(float *out, const float *q, const float *table, size_t ld, size_t d,
                         int vecs, int lanes)
{
    fv_v sum[WIDE];
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        sum[v] = fv_set(0.f);
    for (size_t k = 0; k < d; k++) {
        const fv_v factor = fv_set(q[k]);
        const float *row = table + k * ld;
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[v] = fv_fma(factor, fv_load_n(row + v * FV_W, v + 1 < vecs ? FV_W : lanes), sum[v]);
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        fv_store_n(out + v * FV_W, sum[v], v + 1 < vecs ? FV_W : lanes);
}

static void multiply(float *out, const float *q, const float *table, size_t ld, size_t d, size_t n)
{
    size_t i = 0;
    for (; i + WIDE * FV_W <= n; i += WIDE * FV_W)
        multiply_some(out + i, q, table + i, ld, d, WIDE, FV_W);
    for (; i + FV_W <= n; i += FV_W)
        multiply_some(out + i, q, table + i, ld, d, 1, FV_W);
    if (i < n)
        multiply_some(out + i, q, table + i, ld, d, 1, (int)(n - i));
}

void FV_NAME(fv_k_rel_pos_f32)(const fv_args *a, const fv_call *c)
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
