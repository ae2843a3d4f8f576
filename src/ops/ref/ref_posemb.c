/* ref_posemb.c: POSEMB: sets prefix rows, and adds the position table, resized to the grid.
 *
 *   dim     rows (tokens, prefix included), C
 *   IN      ROW: embedded patches
 *   PREFIX  prefix x C, packed: the prefix rows of the result; absent: they are copied from IN
 *   TABLE   native patches x C, packed, u[2] patches to a table row; or a row per patch of the
 *           grid; float32 or, by prob.weight, 16 bits; absent: positions are not added
 *   OUT     ROW; may be IN
 *   u       prefix, patches per grid row, patches per table row
 *   table   const fv_posemb_table: separable taps; NULL: TABLE has the size of the grid
 *
 * Token i < prefix: out = PREFIX[i]. Token i >= prefix, at grid row y and column x:
 *   out = in + sum_{ty} sum_{tx} (weight_y[y][ty] * weight_x[x][tx]) TABLE[index_y][index_x]
 * summed in this order, without taps of weight 0; if `table` is NULL
 *   out = in + TABLE[i - prefix]
 */
#include <string.h>

#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_posemb = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_POSEMB_IN] = {"IN", FV_ROW_C},
                [FV_POSEMB_PREFIX] = {"PREFIX", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_POSEMB_TABLE] = {"TABLE", FV_ROW_C, .stored = FV_STORED_NARROW},
                [FV_POSEMB_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
};

/* Computes out += w * row of the table. */
static void add_table_row(const fv_args *a, const fv_call *c, float *out, float w, size_t row)
{
    const uint32_t width = a->prob.dim[FV_ROW_C];
    for (uint32_t i = 0; i < width; i++)
        out[i] += w * fv_value_get(c->p[FV_POSEMB_TABLE], a->prob.weight, row * width + i);
}

void fv_k_posemb_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_posemb_table *t = a->table;
    const uint32_t width = a->prob.dim[1], prefix = a->u[0], grid = a->u[1];
    for (uint32_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_POSEMB_IN] + (size_t)r * a->ld[FV_POSEMB_IN];
        float *out = (float *)c->p[FV_POSEMB_OUT] + (size_t)r * a->ld[FV_POSEMB_OUT];
        const uint32_t token = c->row0 + r;
        const float *rows = c->p[FV_POSEMB_PREFIX];
        const float *start = token < prefix && rows ? rows + (size_t)token * width : in;
        if (out != start)
            memcpy(out, start, width * sizeof *out);
        if (token < prefix || !c->p[FV_POSEMB_TABLE])
            continue;
        if (!t) {
            add_table_row(a, c, out, 1.f, token - prefix);
            continue;
        }
        const size_t y = (token - prefix) / grid, x = (token - prefix) % grid;
        for (uint32_t ty = 0; ty < t->taps_y; ty++)
            for (uint32_t tx = 0; tx < t->taps_x; tx++) {
                const size_t iy = y * t->taps_y + ty, ix = x * t->taps_x + tx;
                const float w = t->weight_y[iy] * t->weight_x[ix];
                if (w == 0.f)
                    continue;
                add_table_row(a, c, out, w, (size_t)t->index_y[iy] * a->u[2] + t->index_x[ix]);
            }
    }
}
