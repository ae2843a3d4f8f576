/* mixer_read.c: reads a token mixer from a checkpoint with the names of flash-linear-attention's
 * layers.
 *
 * Sizes are read from the tensors. The numbers of heads, and other facts that do not follow from
 * tensors, are read from config.json. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/config.h"
#include "graph/attention.h"
#include "models/language/mixer.h"
#include "ops/contracts/sequence.h"
#include "ops/mech_traits.h"

#define WIDTH 65536

/* Number of heads that share each head of queries, keys and values. */
typedef struct shares {
    uint32_t q, k, v;
} shares;

static fovea_status vector(fv_weight *w, const fv_mixer_reader *r, uint32_t n, float value)
{
    const fv_tensor *t;
    float *data;
    FV_TRY(fv_model_floats(&data, &t, r->t->m, 1, n));
    for (uint32_t i = 0; i < n; i++)
        data[i] = value;
    *w = fv_weight_of(t, 1, n);
    return FOVEA_OK;
}

static const fv_tensor *find(const fv_mixer_reader *r, const char *stem, const char *part)
{
    return fv_reader_find(r->t, r->prefix, stem, part);
}

static fovea_status read_text(const char **out, const fv_config *c, const char *key,
                              const char *usual)
{
    *out = usual;
    return fv_config_text(out, c, key);
}

/* ---- sizes ---- */

static fovea_status divides(const fv_mixer_reader *r, const char *what, uint32_t n, uint32_t heads)
{
    if (n > 0 && n <= WIDTH && heads > 0 && n % heads == 0)
        return FOVEA_OK;
    return fv_fail(FOVEA_EFORMAT, "%s: %s%s has %u channels, which %u heads do not divide",
                   r->t->source->name, r->prefix, what, n, heads);
}

static fovea_status read_heads(fv_mixer *m, const fv_mixer_reader *r, const fv_config *section)
{
    const bool gated = m->kind == FV_MIXER_GATED_DELTA;
    if (!fv_config_get(section, "num_heads"))
        return fv_config_fail(section, "num_heads", "the number of heads");
    FV_TRY(fv_config_u32(&m->heads, section, "num_heads", 1, UINT16_MAX));
    m->kv_heads = m->heads;
    FV_TRY(fv_config_u32(&m->kv_heads, section, gated ? "num_v_heads" : "num_kv_heads", 1,
                         UINT16_MAX));
    const uint32_t most = gated ? m->kv_heads : m->heads, least = gated ? m->heads : m->kv_heads;
    if (most % least != 0)
        return fv_fail(FOVEA_EFORMAT, "%s: %u heads cannot share the %s of %u heads",
                       r->config->file, most, gated ? "queries and keys" : "keys and values",
                       least);
    m->heads = most;
    m->kv_heads = least;
    return FOVEA_OK;
}

static shares shares_of(const fv_mixer *m)
{
    const uint32_t times = m->heads / m->kv_heads;
    if (m->kind == FV_MIXER_SOFTMAX)
        return (shares){1, 1, 1};
    return m->kind == FV_MIXER_GATED_DELTA ? (shares){times, times, 1} : (shares){1, times, times};
}

static fovea_status read_sizes(fv_mixer *m, const fv_mixer_reader *r, const fv_config *section)
{
    FV_TRY(read_heads(m, r, section));
    const shares s = shares_of(m);
    const uint32_t q = fv_tensor_dimension(find(r, "q_proj.", "weight"), 0);
    const uint32_t o = fv_tensor_dimension(find(r, "o_proj.", "weight"), 1);
    if (!find(r, "q_proj.", "weight"))
        return fv_reader_missing(r->t, "q_proj.weight", "of a mixer");
    FV_TRY(divides(r, "q_proj", q, m->heads / s.q));
    FV_TRY(divides(r, "o_proj", o, m->heads));
    m->d = q / (m->heads / s.q);
    m->dv = o / m->heads;
    if (m->rope && m->d % 2)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: heads have %u channels, but rotary positions need an even number",
                       r->config->file, m->d);
    return FOVEA_OK;
}

/* ---- projections and convolutions ---- */

/* One of the parts q, k, v and gate, whose columns are concatenated. */
typedef struct part_of {
    const char *stem;
    uint32_t cols, times, d;
    bool rotated;
} part_of;

static uint32_t parts_of(part_of out[4], const fv_mixer *m)
{
    const shares s = shares_of(m);
    const uint32_t kv = m->kind == FV_MIXER_SOFTMAX ? m->kv_heads : m->heads;
    out[0] = (part_of){"q_proj.", m->heads * m->d, s.q, m->d, m->rope};
    out[1] = (part_of){"k_proj.", kv * m->d, s.k, m->d, m->rope};
    out[2] = (part_of){"v_proj.", kv * m->dv, s.v, m->dv, false};
    out[3] = (part_of){"g_proj.", m->heads * m->dv, 1, m->dv, false};
    return m->gated ? 4 : 3;
}

/* Reads whether the output of the heads is gated. If there is a gate's tensor but no gate in the
 * configuration, the later check for unread tensors fails. */
static fovea_status read_gated(fv_mixer *m, const fv_mixer_reader *r)
{
    const bool delta = m->kind == FV_MIXER_DELTA || m->kind == FV_MIXER_GATED_DELTA;
    bool gated = m->kind != FV_MIXER_DELTA;
    FV_TRY(fv_config_bool(&gated, r->config, delta ? "use_gate" : "use_output_gate"));
    m->gated = gated && find(r, "g_proj.", "weight");
    return FOVEA_OK;
}

/* Reads a part of *w. The rows of its tensor are repeated at.repeats times. */
static fovea_status read_shared(fv_weight *w, const fv_mixer_reader *r, const char *stem,
                                const char *part, fv_weight_part at)
{
    const bool one = w->rows == 1; /* the part is a bias, which is divided by columns */
    const uint32_t times = at.repeats ? at.repeats : 1;
    const uint64_t shape[2] = {one ? at.cols / times : at.rows / times, one ? 1 : at.cols};
    FV_TRY(fv_reader_tensor(&at.tensor, r->t, r->prefix, stem, part, 2, shape));
    fv_weight_add(w, at);
    return FOVEA_OK;
}

static fovea_status read_projections(fv_mixer *m, const fv_mixer_reader *r)
{
    part_of p[4];
    const uint32_t n = parts_of(p, m);
    uint32_t col = 0;
    for (uint32_t i = 0; i < n; i++)
        m->in_cols += p[i].cols;
    m->gate_col = p[0].cols + p[1].cols + p[2].cols;
    m->in = (fv_weight){.rows = m->in_cols, .cols = m->width};
    m->in_bias = (fv_weight){.rows = find(r, "q_proj.", "bias") ? 1 : 0, .cols = m->in_cols};
    for (uint32_t i = 0; i < n; i++) {
        fv_weight_part at = {.row0 = col,
                             .rows = p[i].cols,
                             .cols = m->width,
                             .paired_rows = p[i].rotated ? m->d : 0,
                             .repeats = p[i].times,
                             .repeated = p[i].d};
        FV_TRY(read_shared(&m->in, r, p[i].stem, "weight", at));
        at = (fv_weight_part){
            .rows = 1, .col0 = col, .cols = p[i].cols, .paired_cols = at.paired_rows};
        if (m->in_bias.rows && i < 3)
            FV_TRY(read_shared(&m->in_bias, r, p[i].stem, "bias", at));
        col += p[i].cols;
    }
    return fv_reader_matrix(&m->out, r->t, r->prefix, "o_proj.", "weight", m->width,
                            m->heads * m->dv);
}

static fovea_status read_conv(fv_layer *l, const fv_mixer *m, const fv_mixer_reader *r,
                              const part_of *p, uint32_t n, const char *const *stem)
{
    uint32_t rows = 0, row = 0;
    for (uint32_t i = 0; i < n; i++)
        rows += p[i].cols;
    l->w = (fv_weight){.rows = rows, .cols = m->conv_size};
    l->b = (fv_weight){.rows = find(r, stem[0], "bias") ? 1 : 0, .cols = rows};
    for (uint32_t i = 0; i < n; i++) {
        fv_weight_part at = {.row0 = row,
                             .rows = p[i].cols,
                             .cols = m->conv_size,
                             .repeats = p[i].times,
                             .repeated = p[i].d};
        FV_TRY(read_shared(&l->w, r, stem[i], "weight", at));
        at = (fv_weight_part){
            .rows = 1, .col0 = row, .cols = p[i].cols, .repeats = p[i].times, .repeated = p[i].d};
        if (l->b.rows)
            FV_TRY(read_shared(&l->b, r, stem[i], "bias", at));
        row += p[i].cols;
    }
    return FOVEA_OK;
}

/* Reads one convolution for q, k and v, or two if the convolution of q and k has no SiLU. */
static fovea_status read_convs(fv_mixer *m, const fv_mixer_reader *r)
{
    static const char *const stem[] = {"q_conv1d.", "k_conv1d.", "v_conv1d."};
    const fv_tensor *t = find(r, stem[0], "weight");
    part_of p[4];
    if (!t)
        return FOVEA_OK;
    m->conv_size = fv_tensor_dimension(t, t->rank - 1);
    if (m->conv_size < 2 || m->conv_size > FV_SHORT_CONV_LARGEST)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: tensor \"%.80s\" has %u taps; from 2 to %u are supported",
                       r->t->source->name, t->name, m->conv_size, FV_SHORT_CONV_LARGEST);
    parts_of(p, m);
    if (m->conv_silu)
        return read_conv(&m->conv_qk, m, r, p, 3, stem);
    FV_TRY(read_conv(&m->conv_qk, m, r, p, 2, stem));
    return read_conv(&m->conv_v, m, r, p + 2, 1, stem + 2);
}

/* ---- decays, beta, gates ---- */

/* Reads the log decay a = logsigmoid(x) / 16, which equals -softplus(-x) / 16. */
static fovea_status read_gla_decay(fv_mixer *m, const fv_mixer_reader *r)
{
    const fv_tensor *t = find(r, "gk_proj.0.", "weight");
    const uint32_t low = fv_tensor_dimension(t, 0), cols = m->heads * m->d;
    float normaliser = 16;
    FV_TRY(fv_config_float(&normaliser, r->config, "gate_logit_normalizer", 1e-3, 1e6));
    if (fv_config_get(r->config, "clamp_min"))
        return fv_fail(FOVEA_ENOTSUP, "%s: \"clamp_min\" is not supported; use a model without it",
                       r->config->file);
    if (low == 0 || low > WIDTH)
        return fv_reader_missing(r->t, "gk_proj.0.weight", "of the decays");
    FV_TRY(fv_reader_matrix(&m->low, r->t, r->prefix, "gk_proj.0.", "weight", low, m->width));
    fv_weight_part at = {.rows = cols,
                         .cols = low,
                         .factor = -1,
                         .repeats = m->heads / m->kv_heads,
                         .repeated = m->d};
    m->decay.w = (fv_weight){.rows = cols, .cols = low};
    FV_TRY(read_shared(&m->decay.w, r, "gk_proj.1.", "weight", at));
    at.rows = 1;
    at.cols = cols;
    m->decay.b = (fv_weight){.rows = 1, .cols = cols};
    FV_TRY(read_shared(&m->decay.b, r, "gk_proj.1.", "bias", at));
    return vector(&m->decay_scale, r, cols, -1 / normaliser);
}

/* Reads the log decay a = -exp(A_log) softplus(x W + dt_bias). */
static fovea_status read_delta_decay(fv_mixer *m, const fv_mixer_reader *r)
{
    const uint64_t shape[1] = {m->heads};
    const fv_tensor *log, *t;
    float *data;
    FV_TRY(fv_reader_matrix(&m->decay.w, r->t, r->prefix, "a_proj.", "weight", m->heads, m->width));
    FV_TRY(fv_reader_matrix(&m->decay.b, r->t, r->prefix, "dt_bias", "", 1, m->heads));
    FV_TRY(fv_reader_tensor(&log, r->t, r->prefix, "A_log", "", 1, shape));
    FV_TRY(fv_model_floats(&data, &t, r->t->m, 1, m->heads));
    fv_tensor_read(log, 0, m->heads, data);
    for (uint32_t i = 0; i < m->heads; i++)
        data[i] = -expf(data[i]);
    m->decay_scale = fv_weight_of(t, 1, m->heads);
    return FOVEA_OK;
}

static fovea_status read_beta(fv_mixer *m, const fv_mixer_reader *r)
{
    bool negative = false, learned = true;
    FV_TRY(fv_config_bool(&negative, r->config, "allow_neg_eigval"));
    if (m->kind == FV_MIXER_DELTA)
        FV_TRY(fv_config_bool(&learned, r->config, "use_beta"));
    if (!learned) { /* 1 or 2, because sigmoid(0) is a half */
        float *zeros;
        const fv_tensor *t;
        FV_TRY(fv_model_floats(&zeros, &t, r->t->m, m->heads, m->width));
        m->beta = fv_weight_of(t, m->heads, m->width);
        return vector(&m->beta_scale, r, m->heads, negative ? 4 : 2);
    }
    FV_TRY(fv_reader_matrix(&m->beta, r->t, r->prefix, "b_proj.", "weight", m->heads, m->width));
    return negative ? vector(&m->beta_scale, r, m->heads, 2) : FOVEA_OK;
}

/* Reads the RMSNorm over the channels of a head. A norm without a weight gets ones. */
static fovea_status read_norm(fv_mixer *m, const fv_mixer_reader *r)
{
    static const char *const names[] = {"g_norm_swish_gate.", "g_norm.", "o_norm."};
    const char *act;
    FV_TRY(read_text(&act, r->config, "output_gate_activation", "swish"));
    if (m->in_cols > m->gate_col)
        m->gate_act = strcmp(act, "sigmoid") == 0 ? FV_EPI_SIGMOID : FV_EPI_SILU;
    if (strcmp(act, "sigmoid") != 0 && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return fv_config_fail(r->config, "output_gate_activation", "swish, silu or sigmoid");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (find(r, names[i], "weight"))
            return fv_reader_matrix(&m->norm, r->t, r->prefix, names[i], "weight", 1, m->dv);
    return vector(&m->norm, r, m->dv, 1);
}

/* ---- SLA ---- */

/* Reads the weights of gate logits, for the inputs q (the d channels of each head), q (all
 * channels) or x. Shapes are as in "attn.sla_q.weight" of a ViT. */
static fovea_status read_logits(fv_weight *w, const fv_mixer *m, const fv_mixer_reader *r,
                                const char *stem)
{
    const uint32_t wide = m->heads * m->d, from = m->sla_of_x ? m->width : wide;
    const uint32_t own = fv_tensor_dimension(find(r, stem, "weight"), 0);
    const bool by_head = !m->sla_of_x && own == m->d && m->heads > 1;
    const uint32_t rows = by_head ? m->d : from;
    const uint64_t shape[2] = {rows, m->heads};
    const fv_tensor *t, *made;
    float *data;
    FV_TRY(fv_reader_tensor(&t, r->t, r->prefix, stem, "weight", 2, shape));
    FV_TRY(fv_model_floats(&data, &made, r->t->m, m->heads, from));
    for (uint32_t h = 0; h < m->heads; h++)
        for (uint32_t i = 0; i < from; i++) {
            const uint32_t at = m->sla_of_x ? i : fv_weight_paired(i, m->rope ? m->d : 0);
            if (!by_head || i / m->d == h)
                fv_tensor_read(t, (uint64_t)(by_head ? at % m->d : at) * m->heads + h, 1,
                               &data[(size_t)h * from + i]);
        }
    *w = fv_weight_of(made, m->heads, from);
    return FOVEA_OK;
}

/* Reads a text that must be one of two or three words. If `key` is missing, uses `usual`. Returns
 * FOVEA_EFORMAT for any other word. */
static fovea_status read_word(const char **out, const fv_config *c, const char *key,
                              const char *usual, const char *other, const char *third)
{
    char expected[96];
    FV_TRY(read_text(out, c, key, usual));
    if (strcmp(*out, usual) == 0 || strcmp(*out, other) == 0 || (third && strcmp(*out, third) == 0))
        return FOVEA_OK;
    snprintf(expected, sizeof expected, "%s%s%s or %s", usual, third ? ", " : "",
             third ? third : "", other);
    return fv_config_fail(c, key, expected);
}

static fovea_status read_sla(fv_mixer *m, const fv_mixer_reader *r)
{
    const char *from, *sum, *read;
    if (!find(r, "sla_q.", "weight"))
        return FOVEA_OK;
    FV_TRY(read_word(&from, r->own, "sla_gates", "q_blockdiag", "x_dense", "q_dense"));
    FV_TRY(read_word(&sum, r->own, "sla_gates_sum", "one", "heads", NULL));
    FV_TRY(read_word(&read, r->own, "read_gate", "literal", "post_norm", NULL));
    m->sla_of_x = strcmp(from, "x_dense") == 0;
    m->sla_sum = strcmp(sum, "heads") == 0 ? (float)m->heads : 1;
    m->sla_after = strcmp(read, "post_norm") == 0;
    FV_TRY(read_logits(&m->sla_q, m, r, "sla_q."));
    return read_logits(&m->sla_k, m, r, "sla_k.");
}

/* ---- kinds ---- */

static fovea_status read_activation(uint32_t *act, const fv_config *c, const char *key)
{
    const char *name;
    FV_TRY(read_text(&name, c, key, ""));
    *act = strcmp(name, "relu") == 0                                 ? FV_EPI_RELU
           : strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0 ? FV_EPI_SILU
           : strcmp(name, "sigmoid") == 0                            ? FV_EPI_SIGMOID
                                                                     : 0;
    if (*name && !*act)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"%s\" is \"%.40s\"; only relu, silu and sigmoid are supported",
                       c->file, key, name);
    return FOVEA_OK;
}

/* Reads how DeltaNet maps queries and keys. */
static fovea_status read_delta_maps(fv_mixer *m, const fv_mixer_reader *r)
{
    const char *act, *norm;
    FV_TRY(read_text(&act, r->config, "qk_activation", "silu"));
    FV_TRY(read_text(&norm, r->config, "qk_norm", "l2"));
    if (strcmp(norm, "l2") != 0)
        return fv_fail(FOVEA_ENOTSUP, "%s: \"qk_norm\" is \"%.40s\"; only l2 is supported",
                       r->config->file, norm);
    m->conv_silu = strcmp(act, "silu") == 0;
    m->act_qk = m->conv_silu ? FV_EPI_SILU : 0;
    if (strcmp(act, "relu") == 0)
        m->mech = FV_MECH_RELU;
    else if (strcmp(act, "elu") == 0)
        m->mech = FV_MECH_ELU1;
    else if (!m->conv_silu && strcmp(act, "identity") != 0)
        return fv_config_fail(r->config, "qk_activation", "silu, relu, elu or identity");
    return FOVEA_OK;
}

/* Reads a feature map that replaces the layer's own, as in "fovea": {"attention":
 * "sla-delta-rule:nala"}. */
static fovea_status read_map(fv_mixer *m, const fv_mixer_reader *r)
{
    static const enum fv_attention_kind kinds[] = {[FV_MIXER_RETENTION] = FV_ATTENTION_RETENTION,
                                                   [FV_MIXER_GLA] = FV_ATTENTION_GLA,
                                                   [FV_MIXER_DELTA] = FV_ATTENTION_DELTA,
                                                   [FV_MIXER_GATED_DELTA] =
                                                       FV_ATTENTION_GATED_DELTA};
    const json_t *text = r->own->object ? fv_config_get(r->own, "attention") : NULL;
    fv_attention_name name;
    if (!json_is_string(text))
        return FOVEA_OK;
    FV_TRY(fv_attention_parse(&name, json_string_value(text)));
    if (name.kind != kinds[m->kind])
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"attention\" is %s, which this model does not have; remove the key",
                       r->config->file, json_string_value(text));
    FV_TRY(fv_attention_check(&name, true));
    if (!strchr(json_string_value(text), ':'))
        return FOVEA_OK;
    m->mech = name.mech;
    m->act_qk = 0;
    if (m->kind == FV_MIXER_DELTA || m->kind == FV_MIXER_GATED_DELTA)
        m->conv_silu = false; /* SiLU is the map of these layers, which is replaced */
    return FOVEA_OK;
}

static fovea_status read_kind(fv_mixer *m, const fv_mixer_reader *r)
{
    m->mech = FV_MECH_IDENTITY;
    m->conv_silu = true;
    switch ((enum fv_mixer_kind)m->kind) {
    case FV_MIXER_RETENTION:
        m->rope = true;
        m->theta = 10000;
        return read_activation(&m->act_qk, r->config, "feature_map");
    case FV_MIXER_GLA:
        return read_activation(&m->act_qk, r->config, "feature_map");
    case FV_MIXER_DELTA:
        m->l2 = true;
        m->act_v = FV_EPI_SILU;
        return read_delta_maps(m, r);
    case FV_MIXER_GATED_DELTA:
        m->l2 = true;
        m->act_qk = m->act_v = FV_EPI_SILU;
        return FOVEA_OK;
    case FV_MIXER_SOFTMAX:
        break;
    }
    return FOVEA_OK;
}

fovea_status fv_mixer_read(fv_mixer *m, const fv_mixer_reader *r, enum fv_mixer_kind kind,
                           uint32_t width)
{
    *m = (fv_mixer){.kind = (uint8_t)kind, .width = width, .eps = 1e-5f};
    FV_TRY(fv_config_float(&m->eps, r->config, "norm_eps", 0, 1));
    FV_TRY(read_kind(m, r));
    FV_TRY(read_map(m, r));
    FV_TRY(read_sizes(m, r, r->config));
    FV_TRY(read_gated(m, r));
    FV_TRY(read_projections(m, r));
    FV_TRY(read_convs(m, r));
    if (m->conv_size && (kind == FV_MIXER_DELTA || kind == FV_MIXER_GATED_DELTA))
        m->act_qk = m->act_v = 0; /* the convolutions apply the activation */
    if (kind == FV_MIXER_GLA)
        FV_TRY(read_gla_decay(m, r));
    if (kind == FV_MIXER_GATED_DELTA)
        FV_TRY(read_delta_decay(m, r));
    if (kind == FV_MIXER_DELTA || kind == FV_MIXER_GATED_DELTA)
        FV_TRY(read_beta(m, r));
    FV_TRY(read_norm(m, r));
    return read_sla(m, r);
}

fovea_status fv_mixer_read_softmax(fv_mixer *m, const fv_mixer_reader *r, const fv_config *section,
                                   uint32_t width)
{
    *m = (fv_mixer){.kind = FV_MIXER_SOFTMAX, .width = width, .rope = true, .theta = 10000};
    FV_TRY(fv_config_float(&m->theta, section, "rope_theta", 1e-6, 1e12));
    FV_TRY(fv_config_u32(&m->window, section, "window_size", 1, 1u << 28));
    FV_TRY(read_sizes(m, r, section));
    FV_TRY(read_projections(m, r));
    const fv_weight_part turned = {.rows = 1, .cols = m->d, .paired_cols = m->d};
    if (!find(r, "q_norm.", "weight"))
        return FOVEA_OK;
    m->eps = 1e-5f;
    m->q_norm = m->k_norm = (fv_weight){.rows = 1, .cols = m->d};
    FV_TRY(fv_reader_part(&m->q_norm, r->t, r->prefix, "q_norm.", "weight", turned));
    return fv_reader_part(&m->k_norm, r->t, r->prefix, "k_norm.", "weight", turned);
}
