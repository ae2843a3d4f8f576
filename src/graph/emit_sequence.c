/* emit_sequence.c: steps of sequences: what stands around the token mixers of language models. */
#include "graph/emit.h"

void fv_emit_rmsnorm(fv_builder *b, const char *label, const fv_rmsnorm *n)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_RMSNORM, label, n->in, FV_KIND_ROW, n->out, n->rows,
                                  n->heads * n->w->cols);
    s->prob.heads = (uint16_t)n->heads;
    s->prob.dim[FV_RMS_D] = n->w->cols;
    s->prob.flags = n->silu && n->gate.id >= 0 ? FV_FLAG_SILU : 0;
    s->f[0] = n->eps;
    fv_use_weight(s, FV_RMS_WEIGHT, n->w);
    fv_use_value(s, FV_RMS_GATE, n->gate, FV_KIND_ROW);
    fv_use_value(s, FV_RMS_HEAD_GATE, n->head_gate, FV_KIND_ROW);
}
