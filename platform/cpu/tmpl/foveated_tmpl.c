/* foveated_tmpl.c: computes FOVEATED attention in float32, and CELLS. */
#define FV_OPERANDS_EXACT
#include "platform/cpu/tmpl/foveated_rows.h"

void FV_NAME(fv_k_foveated_f32)(const fv_args *a, const fv_call *c)
{
    attend(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_F32 && p->in == FV_F32 && p->out == FV_F32;
}

const fv_kernel_hooks FV_NAME(fv_h_foveated_f32) = {
    .applies = applies, .rate = FV_W * 5e9, .scratch = scratch_bytes, .knobs = knobs};

/* ---- means of cells ---- */

void FV_NAME(fv_k_cells_f32)(const fv_args *a, const fv_call *c)
{
    const fv_fovea f = fv_fovea_of(&a->prob);
    const enum fv_type from = a->type[FV_CELLS_IN], to = a->type[FV_CELLS_OUT];
    const size_t width = a->prob.dim[FV_ROW_C];
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_fovea_area cell = fv_fovea_cell(&f, c->row0 + r);
        const uint32_t columns = cell.x1 - cell.x0, tokens = columns * (cell.y1 - cell.y0);
        void *out = fv_element(c->p[FV_CELLS_OUT], to, r * a->ld[FV_CELLS_OUT]);
        for (size_t i = 0; i < width; i += FV_W) {
            const int n = fv_lanes(width - i);
            fv_v sum = fv_set(0.f);
            for (uint32_t y = cell.y0; y < cell.y1; y++) {
                const size_t row = f.prefix + (size_t)y * f.width + cell.x0;
                const void *in = fv_element(c->p[FV_CELLS_IN], from, row * a->ld[FV_CELLS_IN]);
                for (uint32_t x = 0; x < columns; x++)
                    sum = fv_add(
                        sum, fv_row_load(fv_element(in, from, x * a->ld[FV_CELLS_IN]), from, i, n));
            }
            fv_row_store(out, to, i, fv_div(sum, fv_set((float)tokens)), n);
        }
    }
}
