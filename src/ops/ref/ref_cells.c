/* ref_cells.c: CELLS: means of complete rows over cells of the token grid, for FOVEATED.
 *
 *   dim    rows (= cells of all levels), C, tokens, width, height (of the grid)
 *   IN     WHOLE, C wide: tokens - width * height prefix rows, which are skipped, then the grid
 *   OUT    ROW, C wide
 *   type   of each operand: F32 or BF16
 *
 *   out_i = mean of in_t over the tokens t of cell i: ops/foveated.h
 *
 * Sums are float32, over the tokens of a cell in order.
 */
#include "base/half.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/foveated.h"
#include "ops/ref/ref_kernels.h"

static double flops(const fv_problem *p)
{
    const fv_fovea f = fv_fovea_of(p);
    return (double)f.levels * f.width * f.height * p->dim[FV_ROW_C];
}

static double terms(const fv_problem *p)
{
    return 1 << 2 * fv_fovea_of(p).levels;
}

const fv_op fv_op_cells = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_ATTN_KEYS] = {"tokens", FV_DIM_TOKENS},
            [FV_FOVEA_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_FOVEA_HEIGHT] = {"height", FV_DIM_TOKENS}},
    .operand = {[FV_CELLS_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_CELLS_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .flops = flops,
    .terms = terms,
};

void fv_k_cells_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_fovea f = fv_fovea_of(&a->prob);
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_fovea_area cell = fv_fovea_cell(&f, c->row0 + r);
        const uint32_t tokens = (cell.y1 - cell.y0) * (cell.x1 - cell.x0);
        for (uint32_t i = 0; i < a->prob.dim[FV_ROW_C]; i++) {
            float sum = 0.f;
            for (uint32_t y = cell.y0; y < cell.y1; y++)
                for (uint32_t x = cell.x0; x < cell.x1; x++) {
                    const size_t row = f.prefix + (size_t)y * f.width + x;
                    sum += fv_value_get(c->p[FV_CELLS_IN], a->type[FV_CELLS_IN],
                                        row * a->ld[FV_CELLS_IN] + i);
                }
            fv_value_put(c->p[FV_CELLS_OUT], a->type[FV_CELLS_OUT],
                         (size_t)r * a->ld[FV_CELLS_OUT] + i, sum / (float)tokens);
        }
    }
}
