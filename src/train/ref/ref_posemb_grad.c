/* ref_posemb_grad.c: POSEMB_GRAD: gradients of the prefix rows and of the position table, by the
 * transpose of the interpolation with which POSEMB adds the table to the grid.
 *
 *   dim     prefix + table rows, C, tokens
 *   DOUT    WHOLE: tokens x C, prefix first
 *   OUT     ROW: the prefix rows, then the rows of the table; not DOUT
 *   u       prefix, patches per grid row, patches per table row
 *   table   const fv_posemb_table, as in POSEMB; NULL if the table has the size of the grid
 *   flags   FV_FLAG_ACCUMULATE: the result is added to OUT
 *
 * For row i < prefix: out (+)= dout[i]. For the others, at table row v and column w:
 *   out (+)= sum_y weight_y(y, v) sum_x weight_x(x, w) dout[prefix + y u1 + x]
 * over the taps that read v and w; without a table, out (+)= dout[i]. */
#include "ops/preprocess.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

const fv_op fv_op_posemb_grad = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GRAD_TOKENS] = {"tokens"}},
    .operand =
        {[FV_POSEMB_GRAD_DOUT] = {"DOUT", FV_ROW_C}, [FV_POSEMB_GRAD_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
    .terms = fv_terms_tokens,
};

/* Adds the taps of grid row y that belong to table column w to out. */
static void add_line(const fv_args *a, const float *dout, size_t y, size_t w, float factor,
                     float *out)
{
    enum { RUN = 64 };
    const fv_posemb_table *t = a->table;
    const size_t width = a->prob.dim[FV_ROW_C], grid = a->u[1];
    for (size_t i0 = 0; i0 < width; i0 += RUN) {
        const size_t n = width - i0 < RUN ? width - i0 : RUN;
        float sum[RUN] = {0};
        for (size_t tap = 0; tap < grid * t->taps_x; tap++) {
            if (t->index_x[tap] != w || t->weight_x[tap] == 0.f)
                continue;
            const size_t token = a->u[0] + y * grid + tap / t->taps_x;
            const float *row = dout + token * a->ld[FV_POSEMB_GRAD_DOUT] + i0;
            for (size_t i = 0; i < n; i++)
                sum[i] += t->weight_x[tap] * row[i];
        }
        for (size_t i = 0; i < n; i++)
            out[i0 + i] += factor * sum[i];
    }
}

void fv_k_posemb_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_posemb_table *t = a->table;
    const size_t width = a->prob.dim[FV_ROW_C], prefix = a->u[0];
    const size_t lines = t ? (a->prob.dim[FV_GRAD_TOKENS] - prefix) / a->u[1] : 0;
    const float *dout = c->p[FV_POSEMB_GRAD_DOUT];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t row = c->row0 + r;
        float *out = (float *)c->p[FV_POSEMB_GRAD_OUT] + r * a->ld[FV_POSEMB_GRAD_OUT];
        for (size_t i = 0; i < width && !(a->prob.flags & FV_FLAG_ACCUMULATE); i++)
            out[i] = 0.f;
        if (row < prefix || !t) {
            for (size_t i = 0; i < width; i++)
                out[i] += dout[row * a->ld[FV_POSEMB_GRAD_DOUT] + i];
            continue;
        }
        const size_t v = (row - prefix) / a->u[2], w = (row - prefix) % a->u[2];
        for (size_t tap = 0; tap < lines * t->taps_y; tap++)
            if (t->index_y[tap] == v && t->weight_y[tap] != 0.f)
                add_line(a, dout, tap / t->taps_y, w, t->weight_y[tap], out);
    }
}
