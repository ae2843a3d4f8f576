/* language_synthetic.c: language models of published sizes with random weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/language/language.h"
#include "models/synthetic.h"

enum { VOCABULARY = 32000, CONV = 4, LOW = 16 };

static const struct spec {
    const char *name, *type;
    uint32_t width, depth, heads, d, dv, hidden;
    bool conv, gate, delta, decay, sla;
} specs[] = {
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

const char *fv_language_synthetic(size_t index)
{
    return index < sizeof specs / sizeof *specs ? specs[index].name : NULL;
}

static void vector(fv_synthetic *m, const char *prefix, const char *stem, uint32_t n, float mean,
                   float spread)
{
    const uint64_t shape = n;
    fv_synthetic_tensor(m, prefix, stem, 1, &shape, mean, spread);
}

static void convolution(fv_synthetic *m, const char *prefix, const char *stem, uint32_t channels)
{
    const uint64_t shape[3] = {channels, 1, CONV};
    fv_synthetic_tensor(m, prefix, stem, 3, shape, 0, sqrtf(3.f / CONV));
}

/* Adds the decays, with values near 1 as in trained models. */
static void decays(fv_synthetic *m, const struct spec *s, const char *p)
{
    if (s->delta) {
        fv_synthetic_matrix(m, p, "a_proj.", s->heads, s->width, 1, 1);
        vector(m, p, "A_log", s->heads, 1, 1);
        vector(m, p, "dt_bias", s->heads, -4, 1);
        return;
    }
    fv_synthetic_matrix(m, p, "gk_proj.0.", LOW, s->width, 1, 1);
    fv_synthetic_matrix(m, p, "gk_proj.1.", s->heads * s->d, LOW, 1, 1);
    vector(m, p, "gk_proj.1.bias", s->heads * s->d, 2, 1);
}

static void mixer(fv_synthetic *m, const struct spec *s, const char *p, float added)
{
    const uint32_t key = s->heads * s->d, value = s->heads * s->dv;
    fv_synthetic_matrix(m, p, "q_proj.", key, s->width, 1, 1);
    fv_synthetic_matrix(m, p, "k_proj.", key, s->width, 1, 1);
    fv_synthetic_matrix(m, p, "v_proj.", value, s->width, 1, 1);
    fv_synthetic_matrix(m, p, "o_proj.", s->width, value, 1, added);
    if (s->conv) {
        convolution(m, p, "q_conv1d.weight", key);
        convolution(m, p, "k_conv1d.weight", key);
        convolution(m, p, "v_conv1d.weight", value);
    }
    if (s->gate)
        fv_synthetic_matrix(m, p, "g_proj.", value, s->width, 1, 1);
    if (s->decay)
        decays(m, s, p);
    if (s->delta)
        fv_synthetic_matrix(m, p, "b_proj.", s->heads, s->width, 1, 1);
    if (s->sla) {
        fv_synthetic_matrix(m, p, "sla_q.", s->d, s->heads, 1, 0.1f);
        fv_synthetic_matrix(m, p, "sla_k.", s->d, s->heads, 1, 0.1f);
    }
    if (strcmp(s->type, "transformer") != 0)
        vector(m, p, s->delta ? "o_norm.weight" : "g_norm_swish_gate.weight", s->dv, 1, 0.1f);
}

static void block(fv_synthetic *m, const struct spec *s, uint32_t i)
{
    char p[64], attn[80];
    const float added = 1 / sqrtf(2 * (float)s->depth);
    snprintf(p, sizeof p, "model.layers.%u.", i);
    snprintf(attn, sizeof attn, "%sattn.", p);
    vector(m, p, "attn_norm.weight", s->width, 1, 0.1f);
    mixer(m, s, attn, added);
    vector(m, p, "mlp_norm.weight", s->width, 1, 0.1f);
    fv_synthetic_matrix(m, p, "mlp.gate_proj.", s->hidden, s->width, 1, 1);
    fv_synthetic_matrix(m, p, "mlp.up_proj.", s->hidden, s->width, 1, 1);
    fv_synthetic_matrix(m, p, "mlp.down_proj.", s->width, s->hidden, 1, added);
}

fovea_status fv_language_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    fv_synthetic m = {.source = source};
    const struct spec *s = specs;
    while (strcmp(s->name, name) != 0)
        s++;
    const uint64_t table[2] = {VOCABULARY, s->width};
    fv_synthetic_tensor(&m, "model.", "embeddings.weight", 2, table, 0, 1);
    for (uint32_t i = 0; i < s->depth; i++)
        block(&m, s, i);
    vector(&m, "model.", "norm.weight", s->width, 1, 0.1f);
    return fv_synthetic_end(config, name, m.status,
                            json_pack("{s:s, s:i, s:i, s:i, s:i, s:b}", "model_type", s->type,
                                      "hidden_size", (int)s->width, "num_hidden_layers",
                                      (int)s->depth, "num_heads", (int)s->heads, "vocab_size",
                                      VOCABULARY, "tie_word_embeddings", 1));
}
