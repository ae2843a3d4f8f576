/* emit_sequence.c: emits the steps of language models, except for token mixers. */
#include "graph/emit.h"
#include "ops/contracts/rows.h"
#include "ops/contracts/sequence.h"

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

void fv_emit_softmax_scan(fv_builder *b, const char *label, const fv_softmax_scan *a)
{
    fv_step *s = fv_emit_step(b, FV_OP_SOFTMAX_SCAN, a->rows, label);
    s->prob.heads = (uint16_t)a->heads;
    s->prob.dim[FV_ATTN_D] = a->d;
    s->prob.dim[FV_ATTN_DV] = a->dv;
    s->prob.dim[FV_ATTN_KEYS] = a->capacity;
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

void fv_emit_short_conv(fv_builder *b, const char *label, const fv_short_conv *c)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_SHORT_CONV, label, c->in, FV_KIND_ROW, c->out, c->rows,
                                  c->w->rows);
    s->prob.dim[FV_SHORT_CONV_SIZE] = c->w->cols;
    s->prob.flags = c->silu ? FV_FLAG_SILU : 0;
    fv_use_weight(s, FV_SHORT_CONV_W, c->w);
    fv_use_weight(s, FV_SHORT_CONV_BIAS, c->bias);
    fv_use_value(s, FV_SHORT_CONV_STATE, c->state, FV_KIND_STATE);
}

void fv_emit_rope_rows(fv_builder *b, const char *label, fv_view in, fv_view cos, fv_view sin,
                       uint32_t heads, uint32_t d, fv_view out, uint32_t rows)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_ROPE, label, in, FV_KIND_ROW, out, rows, heads * d);
    s->prob.heads = (uint16_t)heads;
    s->prob.dim[FV_ROPE_D] = d;
    s->u[1] = 1; /* the angles have a row for each row of IN instead of a row per position */
    fv_use_value(s, FV_ROPE_COS, cos, FV_KIND_ROW);
    fv_use_value(s, FV_ROPE_SIN, sin, FV_KIND_ROW);
}
