/* softmax_rows.h: computes the attention of a panel of SOFTMAX's queries to all keys, tile by tile.
 */
#define FV_TILE_N FV_TILE_WIDE /* vectors of queries per tile */
#include "platform/cpu/tmpl/softmax_keys.h"
#include "platform/cpu/tmpl/softmax_relative.h"

enum { PANEL = 256 }; /* queries whose Qt and Ot stay in L2 */

static head head_of(const fv_args *a, const fv_call *c, const layout *l, size_t number)
{
    head h = {.type_q = fv_operand_row_type(a, FV_SOFTMAX_Q),
              .type_k = fv_operand_row_type(a, FV_SOFTMAX_K),
              .type_v = fv_operand_row_type(a, FV_SOFTMAX_V),
              .type_out = fv_operand_row_type(a, FV_SOFTMAX_OUT),
              .ld_q = a->ld[FV_SOFTMAX_Q],
              .ld_k = a->ld[FV_SOFTMAX_K],
              .ld_v = a->ld[FV_SOFTMAX_V],
              .ld_out = a->ld[FV_SOFTMAX_OUT]};
    h.q = fv_element(c->p[FV_SOFTMAX_Q], h.type_q, number * l->d);
    h.k = fv_element(c->p[FV_SOFTMAX_K], h.type_k, number * l->d);
    h.v = fv_element(c->p[FV_SOFTMAX_V], h.type_v, number * l->dv);
    h.out = fv_element(c->p[FV_SOFTMAX_OUT], h.type_out, number * l->dv);
    return h;
}

/* Attends queries [first, first + rows) of a call and one head to all keys that they see. */
static void attend_panel(const fv_args *a, const fv_call *c, const layout *l, size_t first,
                         size_t rows, size_t number)
{
    const head h = head_of(a, c, l, number);
    float *const scratch = c->scratch;
    const bool causal = a->prob.flags & FV_FLAG_CAUSAL;
    const size_t row0 = c->row0 + first;
    const float scale = a->f[0] * LOG2_E;
    size_t seen = a->prob.dim[FV_ATTN_KEYS];
    if (causal && row0 + rows < seen)
        seen = row0 + rows;

    begin_queries(scratch, l);
    pack_queries(scratch, l, fv_element(h.q, h.type_q, first * h.ld_q), h.type_q, h.ld_q, 0, rows,
                 scale);
    if (l->width)
        pack_relative(scratch + l->rel, l->queries, l->height + l->width, a, c, first, rows, number,
                      LOG2_E);
    for (size_t j = 0; j < seen; j += l->tile) {
        const size_t n = seen - j < l->tile ? seen - j : l->tile;
        pack_tile(scratch, l, &h, j, n);
        tile_prefetch next = prefetch_of(&h, l, j + n, seen, rows);
        for (size_t r = 0; r < rows; r += FV_TILE_COLS) {
            const size_t last = causal ? row0 + r : SIZE_MAX;
            if (causal && j >= last + FV_TILE_COLS)
                continue; /* all keys are masked */
            attend_block(l, scratch, r, rows - r, j, n, last, scale, NULL, &next);
        }
    }
    write_out(fv_element(h.out, h.type_out, first * h.ld_out), h.type_out, h.ld_out, l, scratch, 0,
              rows);
}

static void attend(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, &a->knobs, c->rows < PANEL ? c->rows : PANEL,
                             a->prob.dim[FV_REL_POS_COLUMNS]);
    for (size_t first = 0; first < c->rows; first += PANEL) {
        size_t rows = c->rows - first < PANEL ? c->rows - first : PANEL;
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++)
            attend_panel(a, c, &l, first, rows, h);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    return lay_out(p, k, rows < PANEL ? rows : PANEL, p->dim[FV_REL_POS_COLUMNS]).floats *
           sizeof(float);
}

static const fv_knob knobs[] = {{"keys", {64, 32, 128, 256}, 4}, {0}};
