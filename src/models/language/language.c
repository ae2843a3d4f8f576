/* language.c: emits the steps of language models made of token mixers, and of a lone mixer.
 *
 *     x = embeddings[ids]
 *     x = x + mixer(RMSNorm x)                                          per block
 *     x = x + W_down (silu(W_gate y) * W_up y), y = RMSNorm x           per block
 *     logits = W RMSNorm x
 *
 * The state that a mixer keeps between tokens is in values that outlive the frame. A plan for many
 * rows and a plan for a single row can therefore continue the same sequence. */
#include <math.h>

#include "models/language/language_read.h"
#include "models/layer.h"

typedef struct context {
    fv_builder *b;
    const fv_language *l;
    const fv_feed *feed;
    fv_mixer_feed mixer;
    float theta; /* base of the rotation in `mixer` */
    uint32_t d;
} context;

static fv_view norm(const context *c, const char *label, const fv_weight *w, fv_view in,
                    uint32_t rows)
{
    const fv_rmsnorm n = {.w = w,
                          .in = in,
                          .gate = FV_NO_VIEW,
                          .head_gate = FV_NO_VIEW,
                          .out = fv_emit_rows(c->b, rows, w->cols),
                          .heads = 1,
                          .rows = rows,
                          .eps = c->l->eps};
    fv_emit_rmsnorm(c->b, label, &n);
    return n.out;
}

/* ---- positions ---- */

static bool needs_position(const fv_mixer *m)
{
    return m->rope || m->kind == FV_MIXER_SOFTMAX;
}

/* Emits rows of sin(position theta^(-2j/d) + phase), in columns 2j and 2j + 1. */
static fv_view sines(const context *c, const char *label, const fv_mixer *m, float phase)
{
    const double turn = 2 * acos(-1);
    float *rates, *phases;
    /* row 1 contains the rounding errors of row 0 */
    const fv_weight rate = fv_emit_constant(c->b, 2, m->d, &rates);
    const fv_weight start = fv_emit_constant(c->b, 1, m->d, &phases);
    for (uint32_t i = 0; rates && phases && i < m->d; i++) {
        const double exact = pow(m->theta, -(double)(i / 2 * 2) / m->d) / turn;
        rates[i] = (float)exact;
        rates[m->d + i] = (float)(exact - rates[i]);
        phases[i] = phase;
    }
    return fv_emit_sine(c->b, label, c->mixer.position, 1, &rate, &start, c->feed->rows);
}

static void set_rotation(context *c, const fv_mixer *m)
{
    if (!m->rope || (c->d == m->d && c->theta == m->theta))
        return;
    c->d = m->d;
    c->theta = m->theta;
    c->mixer.cos = sines(c, "cosines of positions", m, 0.25f);
    c->mixer.sin = sines(c, "sines of positions", m, 0);
}

/* ---- blocks ---- */

static fv_view mix(context *c, const fv_mixer *m, fv_view normed, fv_view res)
{
    set_rotation(c, m);
    return fv_mixer_emit(c->b, m, &c->mixer, normed, res);
}

static fv_view mlp(const context *c, const fv_language_block *w, fv_view x, uint32_t rows)
{
    const fv_view normed = norm(c, "mlp norm", &w->mlp_norm, x, rows);
    const fv_gemm up = {.w = &w->up,
                        .in = normed,
                        .res = FV_NO_VIEW,
                        .out = fv_emit_rows(c->b, rows, w->up.rows / 2),
                        .act = FV_EPI_SWIGLU,
                        .rows = rows};
    fv_emit_gemm(c->b, "gate, up", &up);
    const fv_gemm down = {.w = &w->down,
                          .in = up.out,
                          .res = x,
                          .out = fv_emit_rows(c->b, rows, w->down.rows),
                          .rows = rows};
    fv_emit_gemm(c->b, "down", &down);
    return down.out;
}

/* The last block computes only the row whose logits are requested. */
static fv_view last_row(const context *c, fv_view x)
{
    const fv_pick p = {.in = x,
                       .index = fv_emit_input(c->b, "last", 1, 1, FV_F32),
                       .from = c->feed->rows,
                       .rows = 1,
                       .cols = c->l->width};
    return fv_emit_pick(c->b, "last row", &p);
}

static void emit_whole(context *c)
{
    fv_builder *b = c->b;
    const fv_language *l = c->l;
    uint32_t rows = c->feed->rows;
    const fv_pick embed = {.w = &l->embeddings,
                           .index = fv_emit_input(b, "ids", rows, 1, FV_F32),
                           .from = l->vocabulary,
                           .rows = rows,
                           .cols = l->width};
    for (uint32_t i = 0; i < l->depth && c->mixer.position.id < 0; i++)
        if (needs_position(&l->block[i].mixer))
            c->mixer.position = fv_emit_input(b, "position", rows, 1, FV_F32);
    fv_view x = fv_emit_pick(b, "embedding", &embed);
    for (uint32_t i = 0; i < l->depth; i++) {
        const fv_language_block *w = &l->block[i];
        fv_emit_enter_block(b, "block %u", i);
        x = mix(c, &w->mixer, norm(c, "norm", &w->attn_norm, x, rows), x);
        if (i + 1 == l->depth && rows > 1 && !c->feed->all) {
            x = last_row(c, x);
            rows = 1;
        }
        x = mlp(c, w, x, rows);
        fv_emit_leave_block(b);
    }
    const fv_gemm head = {.w = &l->head,
                          .in = norm(c, "last norm", &l->norm, x, rows),
                          .res = FV_NO_VIEW,
                          .out = fv_emit_result(b, rows, l->vocabulary, FV_F32),
                          .rows = rows};
    fv_emit_gemm(b, "logits", &head);
}

static void emit_lone(context *c)
{
    const uint32_t rows = c->feed->rows, width = c->l->width;
    const fv_view x = fv_emit_input(c->b, "x", rows, width, FV_F32);
    if (needs_position(&c->l->lone))
        c->mixer.position = fv_emit_input(c->b, "position", rows, 1, FV_F32);
    const fv_view y = mix(c, &c->l->lone, x, FV_NO_VIEW);
    fv_emit_copy(c->b, "output", y, fv_emit_result(c->b, rows, width, FV_F32), rows, width);
}

static fovea_status feed(const fovea_model *m, fv_builder *b, const fv_feed *f)
{
    context c = {
        .b = b,
        .l = m->roles,
        .feed = f,
        .mixer = {
            .rows = f->rows, .capacity = f->capacity, .flags = f->flags, .position = FV_NO_VIEW}};
    if (c.l->depth)
        emit_whole(&c);
    else
        emit_lone(&c);
    return b->status;
}

/* ---- families ---- */

static const enum fv_mixer_kind kinds[] = {FV_MIXER_SOFTMAX, FV_MIXER_RETENTION, FV_MIXER_GLA,
                                           FV_MIXER_DELTA, FV_MIXER_GATED_DELTA};

#define FAMILY(id, kind, mixer, ...)                                                               \
    FV_DEFINE_FAMILY(id, .name = #id, .types = #id, .attention = mixer, .form = &kinds[kind],      \
                     .read = fv_language_read, .feed = feed, .release = fv_language_release,       \
                     __VA_ARGS__)

/* The first family has the synthetic names of all families. */
FAMILY(transformer, FV_MIXER_SOFTMAX, "softmax", .synthetic = &fv_language_synthetics)
FAMILY(retnet, FV_MIXER_RETENTION, "retention", .synthetic = NULL)
FAMILY(gla, FV_MIXER_GLA, "gla", .synthetic = NULL)
FAMILY(delta_net, FV_MIXER_DELTA, "delta-rule", .synthetic = NULL)
FAMILY(gated_deltanet, FV_MIXER_GATED_DELTA, "gated-delta-rule", .synthetic = NULL)
