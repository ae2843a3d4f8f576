/* emit_sequence.c: steps of sequences, whose rows are tokens in order. */
#include "graph/emit.h"

void fv_emit_softmax_scan(fv_builder *b, const char *label, const fv_softmax_scan *a)
{
    fv_step *s = fv_emit_step(b, FV_OP_SOFTMAX_SCAN, a->rows, label);
    s->prob.heads = (uint16_t)a->heads;
    s->prob.dim[FV_ATTN_D] = a->d;
    s->prob.dim[FV_ATTN_DV] = a->dv;
    s->prob.dim[FV_ATTN_KEYS] = a->room;
    s->prob.dim[FV_CACHE_KV_HEADS] = a->kv_heads;
    s->f[0] = (float)a->scale;
    s->u[0] = a->window;
    fv_use_value(s, FV_CACHE_Q, a->q, FV_KIND_ROW);
    fv_use_value(s, FV_CACHE_K, a->k, FV_KIND_ROW);
    fv_use_value(s, FV_CACHE_V, a->v, FV_KIND_ROW);
    fv_use_value(s, FV_CACHE_POSITION, a->position, FV_KIND_ROW);
    fv_use_value(s, FV_CACHE_STATE, a->cache, FV_KIND_STATE);
    fv_use_value(s, FV_CACHE_OUT, a->out, FV_KIND_ROW);
}
