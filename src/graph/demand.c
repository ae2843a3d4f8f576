/* demand.c: finds which rows of every value are needed, and drops steps whose output is not
 * read. */
#include "base/num.h"
#include "graph/graph.h"

void fv_graph_demand(fv_graph *g)
{
    for (uint32_t i = 0; i < g->values; i++)
        g->value[i].need = g->value[i].kind == FV_VALUE_OUTPUT ? g->value[i].rows : 0;
    /* need[] holds the number of rows that later steps read; the need of a value is the maximum
     * over all its readers. */
    for (uint32_t i = g->steps; i-- > 0;) {
        fv_step *s = &g->step[i];
        fv_value *out = &g->value[s->use[s->out].view.id];
        uint32_t rows = s->prob.dim[FV_DIM_ROWS];
        if (out->need == 0) {
            s->dead = true;
            continue;
        }
        if (fv_step_span(s) == FV_SPAN_TOKEN || fv_step_span(s) == FV_SPAN_LOCAL) {
            if (s->align) /* windows are computed as a whole, even if only a part is read */
                out->need = fv_min_u32(rows, fv_round_up(out->need, s->align));
            rows = s->prob.dim[FV_DIM_ROWS] = fv_min_u32(rows, out->need);
        }
        for (uint32_t k = 0; k < FV_OPERANDS; k++) {
            const fv_use *use = &s->use[k];
            if (k == s->out || use->view.id < 0)
                continue;
            fv_value *in = &g->value[use->view.id];
            uint32_t need = rows;
            if (use->kind == FV_KIND_WHOLE || use->kind == FV_KIND_LOCAL)
                need = fv_op_table[s->prob.op]->operand[k].picked ? s->u[0] + rows : in->rows;
            if (use->kind == FV_KIND_STATE || use->kind == FV_KIND_PARTIAL)
                need = 1;
            if (need > in->need)
                in->need = need;
        }
    }
}
