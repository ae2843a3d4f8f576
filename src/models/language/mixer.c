/* mixer.c: emits the steps of a token mixer. */
#include "models/language/mixer.h"

#include <math.h>

#include "models/layer.h"
#include "ops/mech_traits.h"

/* The views of the projections of x. */
typedef struct mixed {
    fv_builder *b;
    const fv_mixer *m;
    const fv_mixer_feed *f;
    fv_view x, q, k, v, gate;
    uint32_t qk_cols; /* number of columns of q and k together */
} mixed;

static fv_view product(const mixed *c, const char *label, const fv_weight *w, const fv_weight *bias,
                       const fv_weight *scale, fv_view in, uint32_t act)
{
    const fv_gemm g = {.w = w,
                       .bias = bias,
                       .scale = scale,
                       .in = in,
                       .res = FV_NO_VIEW,
                       .out = fv_emit_rows(c->b, c->f->rows, w->rows),
                       .act = act,
                       .rows = c->f->rows};
    fv_emit_gemm(c->b, label, &g);
    return g.out;
}

/* ---- from x to q, k and v ---- */

static fv_view convolve(const mixed *c, const char *label, const fv_layer *l, bool silu, fv_view in)
{
    const uint32_t channels = l->w.rows, before = c->m->conv_size - 1;
    const fv_short_conv conv = {
        .w = &l->w,
        .bias = &l->b,
        .in = in,
        .out = fv_emit_rows(c->b, c->f->rows, channels),
        .state = fv_emit_value(c->b, FV_VALUE_KEPT, 1, before * channels, FV_F32),
        .rows = c->f->rows,
        .silu = silu};
    fv_emit_short_conv(c->b, label, &conv);
    return conv.out;
}

static void activate(const mixed *c, const char *label, uint32_t act, fv_view x, uint32_t cols)
{
    if (act)
        fv_emit_act(c->b, label, act, x, x, c->f->rows, cols);
}

static void project(mixed *c)
{
    const fv_mixer *m = c->m;
    const uint32_t kv_heads = m->kind == FV_MIXER_SOFTMAX ? m->kv_heads : m->heads;
    const uint32_t q_cols = m->heads * m->d, v_cols = kv_heads * m->dv;
    c->qk_cols = q_cols + kv_heads * m->d;
    c->q = product(c, "q, k, v", &m->in, &m->in_bias, NULL, c->x, 0);
    c->gate = fv_view_cols(c->q, m->gate_col);
    c->v = fv_view_cols(c->q, c->qk_cols);
    if (m->conv_size) {
        fv_view v = c->v;
        c->q = convolve(c, "short convolution", &m->conv_qk, m->conv_silu, c->q);
        c->v = fv_weight_present(&m->conv_v.w)
                   ? convolve(c, "short convolution of v", &m->conv_v, true, v)
                   : fv_view_cols(c->q, c->qk_cols);
    }
    c->k = fv_view_cols(c->q, q_cols);
    if (m->act_qk && m->act_qk == m->act_v) {
        activate(c, "activation of q, k, v", m->act_qk, c->q, c->qk_cols + v_cols);
        return;
    }
    activate(c, "activation of q, k", m->act_qk, c->q, c->qk_cols);
    activate(c, "activation of v", m->act_v, c->v, v_cols);
}

static fv_view norm_heads(const mixed *c, const char *label, const fv_weight *w, fv_view in,
                          uint32_t heads)
{
    const fv_rmsnorm n = {.w = w,
                          .in = in,
                          .gate = FV_NO_VIEW,
                          .head_gate = FV_NO_VIEW,
                          .out = in,
                          .heads = heads,
                          .rows = c->f->rows,
                          .eps = c->m->eps};
    if (fv_weight_present(w))
        fv_emit_rmsnorm(c->b, label, &n);
    return in;
}

static void rotate(const mixed *c, const char *label, fv_view x, uint32_t heads)
{
    if (c->m->rope)
        fv_emit_rope_rows(c->b, label, x, c->f->cos, c->f->sin, heads, c->m->d, x, c->f->rows);
}

/* ---- a scan ---- */

static fv_view gates(const mixed *c, const char *label, const fv_weight *w, fv_view of)
{
    const fv_view logits = product(c, label, w, NULL, NULL, c->m->sla_of_x ? c->x : of, 0);
    return fv_emit_gates(c->b, label, logits, c->m->sla_sum, c->m->heads, c->f->rows);
}

static uint32_t scan_flags(const fv_mixer *m)
{
    static const uint32_t of_kind[] = {
        [FV_MIXER_RETENTION] = FV_FLAG_DECAY,
        [FV_MIXER_GLA] = FV_FLAG_DECAY_CHANNEL,
        [FV_MIXER_DELTA] = FV_FLAG_DELTA,
        [FV_MIXER_GATED_DELTA] = FV_FLAG_DECAY | FV_FLAG_DELTA,
    };
    return of_kind[m->kind] | FV_FLAG_UNNORMALISED | (m->l2 ? FV_FLAG_L2 : 0);
}

/* Returns RetNet's log decay of each head h: ln(1 - 2^(-5 - h)). */
static fv_weight retention_decay(fv_builder *b, uint32_t heads)
{
    float *decay;
    const fv_weight w = fv_emit_constant(b, 1, heads, &decay);
    for (uint32_t h = 0; decay && h < heads; h++)
        decay[h] = (float)log1p(-exp2(-5.0 - h));
    return w;
}

static fv_view scan(const mixed *c, fv_view *gate_q)
{
    const fv_mixer *m = c->m;
    fv_builder *b = c->b;
    const uint32_t features = fv_mech_table[m->mech]->blocks * m->d;
    fv_scan s = {.mech = m->mech,
                 .heads = m->heads,
                 .d = m->d,
                 .dv = m->dv,
                 .rows = c->f->rows,
                 .flags = scan_flags(m) | c->f->flags,
                 .in = FV_F32,
                 .out = FV_F32,
                 .scale = 1 / sqrt(m->d),
                 .q = c->q,
                 .k = c->k,
                 .v = c->v,
                 .gate_q = FV_NO_VIEW};
    *gate_q = FV_NO_VIEW;
    if (fv_weight_present(&m->sla_q)) {
        s.flags |= FV_FLAG_GATED;
        s.gate_k = gates(c, "gates of k", &m->sla_k, c->k);
        *gate_q = gates(c, "gates of q", &m->sla_q, c->q);
        if (!m->sla_after)
            s.gate_q = *gate_q;
    }
    rotate(c, "rotation of q", c->q, m->heads);
    rotate(c, "rotation of k", c->k, m->heads);
    if (m->kind == FV_MIXER_RETENTION)
        s.same_decay = retention_decay(b, m->heads);
    else if (fv_weight_present(&m->decay.w))
        s.decay = product(c, "log decays", &m->decay.w, &m->decay.b, &m->decay_scale,
                          fv_weight_present(&m->low)
                              ? product(c, "low rank of the decays", &m->low, NULL, NULL, c->x, 0)
                              : c->x,
                          FV_EPI_SOFTPLUS);
    if (fv_weight_present(&m->beta))
        s.beta = product(c, "beta", &m->beta, NULL, &m->beta_scale, c->x, FV_EPI_SIGMOID);
    s.state = fv_emit_value(b, FV_VALUE_KEPT, 1, m->heads * features * m->dv, FV_F32);
    const fv_view out = fv_emit_rows(b, c->f->rows, m->heads * m->dv);
    fv_emit_scan(b, "scan", &s, out);
    return out;
}

/* Emits the RMSNorm of each head, times the gate. */
static fv_view norm_outputs(const mixed *c, fv_view o, fv_view gate_q)
{
    const fv_mixer *m = c->m;
    fv_rmsnorm n = {.w = &m->norm,
                    .in = o,
                    .gate = m->gate_act ? c->gate : FV_NO_VIEW,
                    .head_gate = m->sla_after ? gate_q : FV_NO_VIEW,
                    .out = o,
                    .heads = m->heads,
                    .silu = m->gate_act == FV_EPI_SILU,
                    .rows = c->f->rows,
                    .eps = m->eps};
    if (m->gate_act == FV_EPI_SIGMOID)
        activate(c, "activation of the gate", FV_EPI_SIGMOID, c->gate, m->heads * m->dv);
    fv_emit_rmsnorm(c->b, "norm of the outputs", &n);
    return o;
}

/* ---- softmax ---- */

static fv_view softmax(const mixed *c)
{
    const fv_mixer *m = c->m;
    fv_softmax_scan s = {.q = c->q,
                         .k = c->k,
                         .v = c->v,
                         .position = c->f->position,
                         .heads = m->heads,
                         .kv_heads = m->kv_heads,
                         .d = m->d,
                         .dv = m->dv,
                         .rows = c->f->rows,
                         .capacity = c->f->capacity,
                         .window = m->window,
                         .scale = 1 / sqrt(m->d)};
    const uint64_t floats = fv_cache_floats(&s);
    if (floats > UINT32_MAX) {
        FV_THEN(c->b->status, fv_fail(FOVEA_ENOTSUP,
                                      "a cache of %u tokens has more than 2^32 - 1 numbers per "
                                      "layer; use a smaller context",
                                      s.capacity));
        return FV_NO_VIEW;
    }
    norm_heads(c, "norm of q", &m->q_norm, c->q, m->heads);
    norm_heads(c, "norm of k", &m->k_norm, c->k, m->kv_heads);
    rotate(c, "rotation of q", c->q, m->heads);
    rotate(c, "rotation of k", c->k, m->kv_heads);
    s.cache = fv_emit_value(c->b, FV_VALUE_KEPT, 1, (uint32_t)floats, FV_F32);
    s.out = fv_emit_rows(c->b, c->f->rows, m->heads * m->dv);
    fv_emit_softmax_scan(c->b, "softmax over the cache", &s);
    return s.out;
}

fv_view fv_mixer_emit(fv_builder *b, const fv_mixer *m, const fv_mixer_feed *feed, fv_view normed,
                      fv_view res)
{
    mixed c = {.b = b, .m = m, .f = feed, .x = normed};
    fv_view o, gate_q;
    project(&c);
    if (m->kind == FV_MIXER_SOFTMAX)
        o = softmax(&c);
    else
        o = norm_outputs(&c, scan(&c, &gate_q), gate_q);
    const fv_gemm g = {.w = &m->out,
                       .in = o,
                       .res = res,
                       .out = res.id >= 0 ? res : fv_emit_rows(b, feed->rows, m->width),
                       .rows = feed->rows};
    fv_emit_gemm(b, "output projection", &g);
    return g.out;
}
