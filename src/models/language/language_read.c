/* language_read.c: reads the roles of a language model, or of a lone mixer, from a checkpoint of
 * flash-linear-attention's models that transformers has written. */
#include "models/language/language_read.h"

#include <stdio.h>
#include <string.h>

#include "models/fields.h"

#define WIDTH 65536
#define HIDDEN (1u << 20)
#define DEPTH 1024
#define VOCABULARY (1u << 22) /* ids up to this number are exact as floats */
#define SECTIONS 64           /* most descriptions of softmax layers */

static const char fields[] =
    "allow_neg_eigval attn attn_mode attnres_block_size={} clamp_min conv_bias conv_size "
    "elementwise_affine expand_k expand_v feature_map fuse_cross_entropy "
    "fuse_linear_cross_entropy fuse_norm fuse_swiglu gate_fn=swish gate_logit_normalizer "
    "gate_low_rank_dim head_dim hidden_ratio max_position_embeddings norm_eps num_heads "
    "num_kv_heads num_v_heads output_gate_activation qk_activation qk_norm use_beta use_cache "
    "use_gate use_gk=true use_gv=false use_l2warp use_output_gate use_output_norm=true "
    "use_short_conv vocab_size window_size";

typedef struct reader {
    fv_tensor_reader t;
    const fv_config *config;
    fv_config own;
    fv_language *l;
} reader;

/* ---- which layers are softmax ---- */

static bool lists(const json_t *section, uint32_t i)
{
    const json_t *list = json_object_get(section, "layers");
    for (size_t k = 0; k < json_array_size(list); k++) {
        int64_t layer;
        if (fv_json_whole(&layer, json_array_get(list, k)) && layer == i)
            return true;
    }
    return false;
}

/* Checks that every entry of every list "layers" is a number. If one were ignored, its block would
 * get the wrong mixer. */
static fovea_status check_layers(const reader *r)
{
    const json_t *attn = fv_config_get(r->config, "attn");
    const size_t sections = json_is_array(attn) ? json_array_size(attn) : 1;
    for (size_t i = 0; i < sections; i++) {
        const json_t *section = json_is_array(attn) ? json_array_get(attn, i) : attn;
        const json_t *list = json_object_get(section, "layers");
        for (size_t k = 0; k < json_array_size(list); k++) {
            int64_t layer;
            char key[64];
            if (json_is_array(attn))
                snprintf(key, sizeof key, "attn[%zu].layers[%zu]", i, k);
            else
                snprintf(key, sizeof key, "attn.layers[%zu]", k);
            if (!fv_json_whole(&layer, json_array_get(list, k)) || layer < 0)
                return fv_config_fail(r->config, key, "a block's number");
        }
    }
    return FOVEA_OK;
}

/* Returns the section of "attn" (an object or a list of objects) that lists block i, or NULL. */
static json_t *softmax_of(const reader *r, uint32_t i)
{
    json_t *attn = fv_config_get(r->config, "attn");
    if (!json_is_array(attn))
        return lists(attn, i) ? attn : NULL;
    for (size_t k = 0; k < json_array_size(attn) && k < SECTIONS; k++)
        if (lists(json_array_get(attn, k), i))
            return json_array_get(attn, k);
    return NULL;
}

static fovea_status read_mixer(reader *r, fv_mixer *m, const char *prefix, uint32_t i)
{
    const fv_mixer_reader from = {&r->t, r->config, &r->own, prefix};
    json_t *softmax = softmax_of(r, i);
    const fv_config section = {r->config->file, "attn", softmax};
    if (softmax)
        return fv_mixer_read_softmax(m, &from, &section, r->l->width);
    if (r->l->kind == FV_MIXER_SOFTMAX)
        return fv_mixer_read_softmax(m, &from, r->config, r->l->width);
    return fv_mixer_read(m, &from, r->l->kind, r->l->width);
}

/* ---- the model ---- */

static fovea_status read_block(reader *r, uint32_t i)
{
    fv_language_block *b = &r->l->block[i];
    const uint32_t width = r->l->width;
    char prefix[64], mixer[80];
    snprintf(prefix, sizeof prefix, "model.layers.%u.", i);
    snprintf(mixer, sizeof mixer, "%sattn.", prefix);
    uint32_t hidden;
    FV_TRY(fv_reader_dimension(&hidden, &r->t, prefix, "mlp.up_proj.", "weight", 0,
                               "width of the MLP", HIDDEN));
    FV_TRY(fv_reader_matrix(&b->attn_norm, &r->t, prefix, "attn_norm.", "weight", 1, width));
    FV_TRY(read_mixer(r, &b->mixer, mixer, i));
    FV_TRY(fv_reader_matrix(&b->mlp_norm, &r->t, prefix, "mlp_norm.", "weight", 1, width));
    fv_weight_part at = {.rows = hidden, .cols = width};
    b->up = (fv_weight){.rows = 2 * hidden, .cols = width};
    FV_TRY(fv_reader_part(&b->up, &r->t, prefix, "mlp.gate_proj.", "weight", at));
    at.row0 = hidden;
    FV_TRY(fv_reader_part(&b->up, &r->t, prefix, "mlp.up_proj.", "weight", at));
    FV_TRY(fv_reader_matrix(&b->down, &r->t, prefix, "mlp.down_proj.", "weight", width, hidden));
    fv_reader_ignore(&r->t, mixer, "rotary"); /* a table that Fovea computes */
    return fv_reader_all_used(&r->t, prefix);
}

static uint32_t count_blocks(const reader *r)
{
    uint32_t n = 0;
    for (; n <= DEPTH; n++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "model.layers.%u.", n);
        if (!fv_reader_find(&r->t, prefix, "attn_norm.", "weight"))
            break;
    }
    return n;
}

static fovea_status read_whole(reader *r)
{
    fv_language *l = r->l;
    const fv_tensor *table = fv_reader_find(&r->t, "model.", "embeddings.", "weight");
    const char *act = "swish";
    l->vocabulary = fv_tensor_dimension(table, 0);
    l->width = fv_tensor_dimension(table, 1);
    l->depth = count_blocks(r);
    if (l->depth == 0)
        return fv_reader_missing(&r->t, "model.layers.0.attn_norm.weight", "of the first block");
    FV_TRY(fv_reader_check_size(&r->t, "vocabulary", l->vocabulary, VOCABULARY));
    FV_TRY(fv_reader_check_size(&r->t, "width", l->width, WIDTH));
    FV_TRY(fv_reader_check_size(&r->t, "number of blocks", l->depth, DEPTH));
    FV_TRY(fv_reader_agree(&r->t, r->config, "vocab_size", l->vocabulary));
    FV_TRY(fv_reader_agree(&r->t, r->config, "num_hidden_layers", l->depth));
    FV_TRY(fv_config_text(&act, r->config, "hidden_act"));
    FV_TRY(check_layers(r));
    if (strcmp(act, "swish") != 0 && strcmp(act, "silu") != 0)
        return fv_fail(FOVEA_ENOTSUP, "%s: \"hidden_act\" is \"%.40s\"; only swish is supported",
                       r->config->file, act);
    FV_TRY(fv_reader_matrix(&l->embeddings, &r->t, "model.", "embeddings.", "weight", l->vocabulary,
                            l->width));
    FV_TRY(FV_MEM_ARRAY(&l->block, l->depth, FV_MEM_MODEL, "roles of blocks"));
    for (uint32_t i = 0; i < l->depth; i++)
        FV_TRY(read_block(r, i));
    FV_TRY(fv_reader_matrix(&l->norm, &r->t, "model.", "norm.", "weight", 1, l->width));
    l->head = l->embeddings;
    if (fv_reader_find(&r->t, "", "lm_head.", "weight"))
        FV_TRY(
            fv_reader_matrix(&l->head, &r->t, "", "lm_head.", "weight", l->vocabulary, l->width));
    return fv_reader_all_used(&r->t, "");
}

/* Reads the tensors of a lone layer. */
static fovea_status read_lone(reader *r)
{
    r->l->width = fv_tensor_dimension(fv_reader_find(&r->t, "", "q_proj.", "weight"), 1);
    FV_TRY(fv_reader_check_size(&r->t, "width", r->l->width, WIDTH));
    FV_TRY(read_mixer(r, &r->l->lone, "", UINT32_MAX));
    fv_reader_ignore(&r->t, "", "rotary");
    return fv_reader_all_used(&r->t, "");
}

static fovea_status fill_info(reader *r)
{
    fovea_model *m = r->t.m;
    const fv_language *l = r->l;
    m->info.width = l->width;
    m->info.depth = l->depth ? l->depth : 1;
    m->info.heads = l->depth ? l->block[0].mixer.heads : l->lone.heads;
    m->info.vocabulary = l->vocabulary;
    m->info.sequence = 1;
    FV_TRY(FV_MEM_ARRAY(&m->outputs, 2, FV_MEM_MODEL, "list of outputs"));
    return fv_model_add_output(m, l->vocabulary ? "logits" : "output");
}

fovea_status fv_language_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &r.own, fields));
    FV_TRY(FV_MEM_NEW(&r.l, FV_MEM_MODEL, "roles"));
    m->roles = r.l;
    r.l->kind = *(const enum fv_mixer_kind *)m->family->form;
    r.l->eps = 1e-6f;
    FV_TRY(fv_config_float(&r.l->eps, config, "norm_eps", 0, 1));
    snprintf(m->info.type, sizeof m->info.type, "%s", m->family->name);
    fv_reader_begin(&r.t);
    if (fv_reader_unwrap(&r.t, "model.", "embeddings.", "weight"))
        FV_TRY(read_whole(&r));
    else if (fv_reader_unwrap(&r.t, "", "q_proj.", "weight"))
        FV_TRY(read_lone(&r));
    else
        return fv_reader_fail_names(&r.t, "flash-linear-attention's models",
                                    "model.embeddings.weight");
    return fill_info(&r);
}

void fv_language_release(fovea_model *m)
{
    fv_language *l = m->roles;
    if (l)
        fv_mem_free(l->block);
    fv_mem_free(l);
    m->roles = NULL;
}
