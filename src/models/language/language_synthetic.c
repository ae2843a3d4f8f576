/* language_synthetic.c: makes language models of published sizes with random weights. */
#include <math.h>
#include <string.h>

#include "models/language/language.h"
#include "models/synthetic.h"

enum { VOCABULARY = 32000, CONV = 4, LOW = 16 };

static const struct size {
    const char *name, *type;
    uint32_t width, depth, heads, d, dv, hidden;
    bool conv, gate, delta, decay, sla;
} sizes[] = {
    {"transformer-340m", "transformer", 1024, 24, 16, 64, 64, 2816},
    {"retnet-340m", "retnet", 1024, 24, 4, 256, 512, 1536, .gate = true},
    {"gla-340m", "gla", 1024, 24, 4, 128, 256, 2816, .gate = true, .decay = true},
    {"sla-gla-340m", "gla", 1024, 24, 4, 128, 256, 2816, .gate = true, .decay = true, .sla = true},
    {"delta-net-340m", "delta_net", 1024, 24, 8, 128, 128, 2816, .conv = true, .delta = true},
    {"gated-deltanet-340m", "gated_deltanet", 1024, 21, 3, 256, 512, 2816, .conv = true,
     .gate = true, .delta = true, .decay = true},
    {"sla-gated-deltanet-340m", "gated_deltanet", 1024, 21, 3, 256, 512, 2816, .conv = true,
     .gate = true, .delta = true, .decay = true, .sla = true},
};

static void convolution(fv_synthetic *m, const char *name, uint32_t channels)
{
    const uint64_t shape[3] = {channels, 1, CONV};
    fv_synthetic_tensor(m, name, 3, shape, 0, sqrtf(3.f / CONV));
}

/* Adds the decays, with values near 1 as in trained models. */
static void decays(fv_synthetic *m, const struct size *s)
{
    if (s->delta) {
        fv_synthetic_matrix(m, "a_proj.", s->heads, s->width, 1, 1);
        fv_synthetic_vector(m, "A_log", s->heads, 1, 1);
        fv_synthetic_vector(m, "dt_bias", s->heads, -4, 1);
        return;
    }
    fv_synthetic_matrix(m, "gk_proj.0.", LOW, s->width, 1, 1);
    fv_synthetic_matrix(m, "gk_proj.1.", s->heads * s->d, LOW, 1, 1);
    fv_synthetic_vector(m, "gk_proj.1.bias", s->heads * s->d, 2, 1);
}

static void mixer(fv_synthetic *m, const struct size *s, float added)
{
    const uint32_t key = s->heads * s->d, value = s->heads * s->dv;
    fv_synthetic_matrix(m, "q_proj.", key, s->width, 1, 1);
    fv_synthetic_matrix(m, "k_proj.", key, s->width, 1, 1);
    fv_synthetic_matrix(m, "v_proj.", value, s->width, 1, 1);
    fv_synthetic_matrix(m, "o_proj.", s->width, value, 1, added);
    if (s->conv) {
        convolution(m, "q_conv1d.weight", key);
        convolution(m, "k_conv1d.weight", key);
        convolution(m, "v_conv1d.weight", value);
    }
    if (s->gate)
        fv_synthetic_matrix(m, "g_proj.", value, s->width, 1, 1);
    if (s->decay)
        decays(m, s);
    if (s->delta)
        fv_synthetic_matrix(m, "b_proj.", s->heads, s->width, 1, 1);
    if (s->sla) {
        fv_synthetic_matrix(m, "sla_q.", s->d, s->heads, 1, 0.1f);
        fv_synthetic_matrix(m, "sla_k.", s->d, s->heads, 1, 0.1f);
    }
    if (strcmp(s->type, "transformer") != 0)
        fv_synthetic_vector(m, s->delta ? "o_norm.weight" : "g_norm_swish_gate.weight", s->dv, 1,
                            0.1f);
}

static void block(fv_synthetic *m, const struct size *s, uint32_t i)
{
    const float added = fv_synthetic_added(2 * s->depth);
    fv_synthetic_under(m, "model.layers.%u.attn.", i);
    mixer(m, s, added);
    fv_synthetic_under(m, "model.layers.%u.", i);
    fv_synthetic_vector(m, "attn_norm.weight", s->width, 1, 0.1f);
    fv_synthetic_vector(m, "mlp_norm.weight", s->width, 1, 0.1f);
    fv_synthetic_matrix(m, "mlp.gate_proj.", s->hidden, s->width, 1, 1);
    fv_synthetic_matrix(m, "mlp.up_proj.", s->hidden, s->width, 1, 1);
    fv_synthetic_matrix(m, "mlp.down_proj.", s->width, s->hidden, 1, added);
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    fv_synthetic_under(m, "model.");
    fv_synthetic_table(m, "embeddings.weight", VOCABULARY, s->width, 1);
    fv_synthetic_vector(m, "norm.weight", s->width, 1, 0.1f);
    for (uint32_t i = 0; i < s->depth; i++)
        block(m, s, i);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:b}", "model_type", s->type, "hidden_size",
                     (int)s->width, "num_hidden_layers", (int)s->depth, "num_heads", (int)s->heads,
                     "vocab_size", VOCABULARY, "tie_word_embeddings", 1);
}

const fv_synthetic_list fv_language_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
