/* ref_gather.c: GATHER: rows of a complete tensor in another order; `parts` of them make one output
 * row.
 *
 *   dim    rows, C (of one part), parts
 *   IN     WHOLE, C wide
 *   RES    ROW, parts * C wide, or absent
 *   OUT    ROW, parts * C wide; may be RES
 *   table  uint32: rows * parts row numbers of IN, those of one output row adjacent;
 *          FV_GATHER_NONE means a row of zeros
 *
 *   out_i = [in_t(i, 0), in_t(i, 1), ..] + res_i,  t(i, p) = table[i * parts + p]
 *
 * Window partition and its inverse, with or without a cyclic shift, have one part; merging four
 * neighbours into one token has four. Tokens beyond the grid are zeros.
 */
#include "ops/contracts/grid.h"
#include "ops/ref/ref_kernels.h"

static uint32_t columns(const fv_problem *p)
{
    return p->dim[FV_ROW_C] * p->dim[FV_GATHER_PARTS];
}

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * columns(p);
}

const fv_op fv_op_gather = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_GATHER_PARTS] = {"parts"}},
    .operand = {[FV_GATHER_IN] = {"IN", FV_ROW_C},
                [FV_GATHER_RES] = {"RES", .columns = columns},
                [FV_GATHER_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
};

void fv_k_gather_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], parts = a->prob.dim[FV_GATHER_PARTS];
    const float *in = c->p[FV_GATHER_IN];
    const uint32_t *from = (const uint32_t *)a->table + (size_t)c->row0 * parts;
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_GATHER_OUT] + r * a->ld[FV_GATHER_OUT];
        const float *res = c->p[FV_GATHER_RES];
        if (res)
            res += r * a->ld[FV_GATHER_RES];
        for (size_t p = 0; p < parts; p++, out += width) {
            const uint32_t row = *from++;
            const float *x = row == FV_GATHER_NONE ? NULL : in + (size_t)row * a->ld[FV_GATHER_IN];
            for (size_t i = 0; i < width; i++) {
                const float value = x ? x[i] : 0.f;
                out[i] = res ? value + res[p * width + i] : value;
            }
        }
    }
}
