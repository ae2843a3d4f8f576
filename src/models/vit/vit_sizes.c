/* vit_sizes.c: reads the sizes of a ViT, and which parts its blocks have. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "models/linear_form.h"
#include "models/vit/vit_reader.h"
#include "ops/kernel.h"
#include "ops/mech_traits.h"

#define DEPTH 1024
#define PATCH 1024

bool fv_vit_find_block(fv_vit_reader *r, uint32_t i)
{
    char stem[64];
    snprintf(stem, sizeof stem, r->n->block, i);
    snprintf(r->block, sizeof r->block, "%s%s", r->prefix, stem);
    if (fv_reader_find(&r->t, r->block, r->n->ln1, "weight"))
        return true;
    for (; r->n->origin == FV_VIT_DINO && r->chunk <= i; r->chunk++) {
        snprintf(stem, sizeof stem, "blocks.%u.%u.", r->chunk, i);
        snprintf(r->block, sizeof r->block, "%s%s", r->prefix, stem);
        if (fv_reader_find(&r->t, r->block, r->n->ln1, "weight"))
            return true;
    }
    return false;
}

fovea_status fv_vit_read_norm(fv_vit_reader *r, fv_layer *l, const char *prefix, const char *stem)
{
    const uint32_t c = r->v->width;
    return fv_vit_kinds[r->kind].parts & FV_VIT_HAS_RMS_NORMS
               ? fv_reader_matrix(&l->w, &r->t, prefix, stem, "weight", 1, c)
               : fv_reader_norm(l, &r->t, prefix, stem, c);
}

fovea_status fv_vit_check_size(const fv_vit_reader *r, const char *what, uint32_t value,
                               uint32_t limit)
{
    if (value == 0 || value > limit)
        return fv_fail(FOVEA_EFORMAT, "%s: the %s is %u; it must be from 1 to %u",
                       r->t.source->name, what, value, limit);
    return FOVEA_OK;
}

/* Returns the number of heads for a checkpoint that does not specify it, from timm's and OpenCLIP's
 * definitions: 64 channels per head, except for a few names and widths. */
static uint32_t usual_heads(const fv_vit_reader *r)
{
    static const struct {
        const char *part;
        uint32_t width, heads;
    } few[] = {
        {"_gigantic_patch14_448", 1536, 16},
        {"_giantopt_", 1536, 16},
        {"vit_base_patch16_gap_", 768, 16},
        {"dinov3", 4096, 32},
        {"test_vit", 64, 2},
        {"test_vit", 96, 3},
        {"dinov3", 1280, 20},
        {"", 1152, 16},
        {"", 1280, 16},
        {"", 1408, 16},
        {"", 1664, 16},
    };
    const uint32_t width = r->v->width;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (width == few[i].width && strstr(r->type, few[i].part))
            return few[i].heads;
    return width % 64 == 0 ? width / 64 : 0;
}

/* Returns whether the configuration has Qwen2-VL's names for depth, heads and colours. */
static bool is_of_vl(const fv_vit_reader *r)
{
    return r->kind >= FV_VIT_QWEN2 && r->kind <= FV_VIT_GLM_IMAGE;
}

/* The field with the width of the tower. In Qwen2-VL, "hidden_size" is that of the merger. */
static const char *width_field(const fv_vit_reader *r)
{
    return r->kind == FV_VIT_QWEN2 && fv_config_get(&r->vision, "embed_dim") ? "embed_dim"
                                                                             : "hidden_size";
}

static fovea_status read_heads(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    fv_config arguments;
    const fv_tensor *periods = fv_reader_find(&r->t, r->prefix, r->n->periods, "");
    v->heads = 0;
    if (r->n->origin != FV_VIT_HF)
        v->heads = periods && periods->elements ? (uint32_t)(v->width / 4 / periods->elements)
                                                : usual_heads(r);
    else if (r->known && r->known->heads)
        v->heads = r->known->heads;
    else if (r->vision.object != r->config->object)
        v->heads = 12; /* the default, which may be omitted */
    FV_TRY(fv_config_section(&arguments, r->config, "model_args"));
    FV_TRY(fv_config_u32(&v->heads, &arguments, "num_heads", 1, FV_VIT_WIDTH_MOST));
    FV_TRY(fv_config_u32(&v->heads, &r->vision, "num_attention_heads", 1, FV_VIT_WIDTH_MOST));
    if (is_of_vl(r))
        FV_TRY(fv_config_u32(&v->heads, &r->vision, "num_heads", 1, FV_VIT_WIDTH_MOST));
    FV_TRY(fv_config_u32(&v->heads, &r->own, "heads", 1, FV_VIT_WIDTH_MOST));
    if (v->heads == 0)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: the number of heads is unknown; add \"fovea\": {\"heads\": N} to config.json",
            r->config->file);
    if (v->width % v->heads != 0 || v->heads > UINT16_MAX)
        return fv_fail(FOVEA_EFORMAT, "%s: %u heads do not divide a width of %u", r->config->file,
                       v->heads, v->width);
    return FOVEA_OK;
}

/* Reads the parameters of linear attentions. Parameters that are not given get the authors'
 * values. */
static fovea_status read_form(fv_vit_reader *r)
{
    fovea_linear_attention_params *f = &r->v->linear;
    FV_TRY(fv_linear_form_read(f, &r->own));
    if (!(f->nala_lambda > 0))
        f->nala_lambda = fv_mech_table[FV_MECH_NALA]->alpha;
    if (!(f->pola_alpha > 0))
        f->pola_alpha = fv_mech_table[FV_MECH_POLA]->alpha;
    if (!(f->q_scale > 0))
        f->q_scale = 1;
    if (!f->heads)
        f->heads = r->v->heads;
    return r->v->width % f->heads == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL, "%s: linear_heads %u do not divide a width of %u",
                         r->config->file, f->heads, r->v->width);
}

/* Returns whether timm's definition of a SigLIP uses the tanh approximation of GELU. */
static bool tanh_of_timm(const fv_vit_reader *r)
{
    static const char *const begins[] = {"vit_base_patch32_", "vit_giantopt_",
                                         "vit_so400m_patch16_"};
    bool tanh = fv_begins_with(r->type, "vit_large_patch16_") && strstr(r->type, "_512");
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        tanh = tanh || fv_begins_with(r->type, begins[i]);
    return r->kind == FV_VIT_SIGLIP && tanh;
}

static fovea_status read_activation(fv_vit_reader *r)
{
    static const struct {
        const char *name;
        uint32_t epi;
    } known[] = {
        {"gelu", FV_EPI_GELU},           {"gelu_python", FV_EPI_GELU},
        {"gelu_tanh", FV_EPI_GELU_TANH}, {"gelu_pytorch_tanh", FV_EPI_GELU_TANH},
        {"gelu_new", FV_EPI_GELU_TANH},  {"gelu_fast", FV_EPI_GELU_TANH},
        {"silu", FV_EPI_SILU},           {"quick_gelu", FV_EPI_GELU_QUICK},
        {"swish", FV_EPI_SILU},          {"gelu_quick", FV_EPI_GELU_QUICK},
        {"relu", FV_EPI_RELU},
    };
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, &r->vision, "hidden_act"));
    FV_TRY(fv_config_text(&name, &r->own, "activation"));
    r->v->epi = fv_vit_kinds[r->kind].act;
    if (!name && r->n->origin == FV_VIT_TIMM)
        name = strstr(r->type, "quickgelu") ? "quick_gelu" : tanh_of_timm(r) ? "gelu_tanh" : "gelu";
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            r->v->epi = known[i].epi;
            return FOVEA_OK;
        }
    return name ? fv_fail(FOVEA_ENOTSUP,
                          "%s: activation \"%.40s\" is not supported; use gelu, relu, silu or "
                          "quick_gelu",
                          r->config->file, name)
                : FOVEA_OK;
}

static fovea_status read_eps(fv_vit_reader *r)
{
    float *eps = &r->v->eps;
    const bool of_kind =
        r->n->origin == FV_VIT_HF || r->kind == FV_VIT_CLIP || r->kind == FV_VIT_DINOV3;
    /* As in the definitions of timm and of the authors. */
    const bool large = fv_begins_with(r->type, "vit_pe_") || fv_begins_with(r->type, "beit3_");
    const float usual = large ? 1e-5f : 1e-6f;
    const float own = r->known && r->known->eps > 0 ? r->known->eps : fv_vit_kinds[r->kind].eps;
    *eps = of_kind ? own : usual;
    FV_TRY(fv_config_float(eps, &r->vision, "layer_norm_eps", 0, 1));
    FV_TRY(fv_config_float(eps, &r->vision, "rms_norm_eps", 0, 1));
    return fv_config_float(eps, &r->own, "eps", 0, 1);
}

static fovea_status fail_first_block(fv_vit_reader *r)
{
    fv_vit_find_block(r, 0);
    return fv_fail(FOVEA_ENOTSUP,
                   "%s has no tensor \"%s%s%sweight\", with which the blocks of a %s begin; this "
                   "variant is not supported",
                   r->t.source->name, r->t.root, r->block, r->n->ln1, r->t.m->info.type);
}

/* Reads the depth from the configuration, which may select only the first blocks. If it is absent,
 * counts the blocks. */
static fovea_status read_depth(fv_vit_reader *r)
{
    uint32_t *depth = &r->v->depth;
    FV_TRY(fv_config_u32(depth, &r->vision, "num_hidden_layers", 1, DEPTH));
    if (is_of_vl(r))
        FV_TRY(fv_config_u32(depth, &r->vision, "depth", 1, DEPTH));
    if (*depth && fv_vit_find_block(r, *depth))
        fv_log("%s: num_hidden_layers is %u; %s has more blocks, which are ignored",
               r->config->file, *depth, r->t.source->name);
    if (*depth == 0)
        while (*depth <= DEPTH && fv_vit_find_block(r, *depth))
            ++*depth;
    if (*depth == 0)
        return fail_first_block(r);
    return fv_vit_check_size(r, "number of blocks", *depth, DEPTH);
}

fovea_status fv_vit_read_sizes(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    const fv_tensor *patch = fv_reader_find(&r->t, r->prefix, r->n->patch, "weight");
    if (!patch)
        /* the tensor is listed, so opening its shard failed */
        return fv_source_failed(r->t.source);
    uint32_t high;
    const uint32_t rank = patch->rank; /* 4: a convolution; 5: of several frames; 2: a product */
    bool square, conv = rank >= 4;
    v->width = fv_tensor_dimension(patch, 0);
    v->channels = conv ? fv_tensor_dimension(patch, 1) : 3;
    v->patch = conv ? fv_tensor_dimension(patch, rank - 1) : 0;
    high = conv ? fv_tensor_dimension(patch, rank - 2) : 0;
    FV_TRY(fv_config_u32(&v->width, &r->vision, width_field(r), 1, FV_VIT_WIDTH_MOST));
    FV_TRY(fv_config_u32(&v->channels, &r->vision, "num_channels", 1, FV_VIT_WIDTH_MOST));
    if (is_of_vl(r))
        FV_TRY(fv_config_u32(&v->channels, &r->vision, "in_channels", 1, FV_VIT_WIDTH_MOST));
    FV_TRY(fv_config_size(&v->patch, &high, &square, &r->vision, "patch_size"));
    FV_TRY(fv_config_size(&v->patch, &high, &square, &r->own, "patch_size"));
    FV_TRY(fv_vit_check_size(r, "width", v->width, FV_VIT_WIDTH_MOST));
    FV_TRY(fv_vit_check_size(r, "patch size", v->patch, PATCH));
    if (high != v->patch)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: patches have %u x %u pixels; only square ones are supported",
                       r->t.source->name, v->patch, high);
    if (v->channels != 3)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the model reads %u colour channels; only RGB models are supported",
                       r->t.source->name, v->channels);
    FV_TRY(read_depth(r));
    FV_TRY(read_heads(r));
    FV_TRY(read_form(r));
    FV_TRY(read_activation(r));
    FV_TRY(fv_vit_read_rotation(r));
    return read_eps(r);
}

/* Reads how the logits of SLA's gates are computed from "attn.sla_q.weight" and "attn.sla_k.weight"
 * of a block, and the sum of a token's gates. A shape of (d, heads) means q_blockdiag; the other
 * kinds share one shape. */
static fovea_status read_sla_form(fv_vit_reader *r)
{
    static const char *const names[] = {[FV_VIT_SLA_Q_BLOCKDIAG] = "q_blockdiag",
                                        [FV_VIT_SLA_Q_DENSE] = "q_dense",
                                        [FV_VIT_SLA_X_DENSE] = "x_dense"};
    const uint32_t d = r->v->width / r->v->linear.heads;
    const fv_tensor *t = fv_reader_find(&r->t, r->block, FV_VIT_SLA_Q, "weight");
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, &r->own, "sla_gates"));
    for (int i = FV_VIT_SLA_Q_BLOCKDIAG; name && i <= FV_VIT_SLA_X_DENSE; i++)
        if (strcmp(names[i], name) == 0)
            r->sla = i;
    if (name && r->sla == FV_VIT_SLA_TOLD_BY_SHAPE)
        return fv_config_fail(&r->own, "sla_gates", "q_blockdiag, q_dense or x_dense");
    if (t && r->sla == FV_VIT_SLA_TOLD_BY_SHAPE && d != r->v->width &&
        fv_tensor_dimension(t, 0) == r->v->width)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: tensor \"%.80s\" may read q or the block's input; add \"fovea\": "
                       "{\"sla_gates\": \"q_dense\"} or \"x_dense\" to %s",
                       r->t.source->name, t->name, r->config->file);
    if (r->sla == FV_VIT_SLA_TOLD_BY_SHAPE)
        r->sla = FV_VIT_SLA_Q_BLOCKDIAG;
    r->v->sla_of_x = r->sla == FV_VIT_SLA_X_DENSE;
    name = NULL;
    FV_TRY(fv_config_text(&name, &r->own, "sla_gates_sum"));
    r->v->sla_share = name && strcmp(name, "one") == 0;
    if (name && !r->v->sla_share && strcmp(name, "heads") != 0)
        return fv_config_fail(&r->own, "sla_gates_sum", "heads or one");
    return FOVEA_OK;
}

/* Reads which of q, k and v have biases. */
static fovea_status read_bias_form(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    const char *part = n->qkv ? "" : "bias";
    if (n->origin != FV_VIT_HF) {
        r->q_bias = fv_reader_find(&r->t, r->block, n->qkv ? n->q_bias : n->q, part) != NULL;
        r->k_bias = fv_reader_find(&r->t, r->block, n->k, part) != NULL;
        r->v_bias = fv_reader_find(&r->t, r->block, n->qkv ? n->v_bias : n->v, part) != NULL;
        return FOVEA_OK;
    }
    const bool rms = fv_vit_kinds[r->kind].parts & FV_VIT_HAS_RMS_NORMS;
    bool all = r->kind == FV_VIT_QWEN2_5 || (r->kind != FV_VIT_INTERN && !rms); /* default */
    FV_TRY(fv_config_bool(&all, &r->vision, "qkv_bias"));
    FV_TRY(fv_config_bool(&all, &r->vision, "attention_bias"));
    r->q_bias = r->k_bias = r->v_bias = all;
    if (r->kind == FV_VIT_BEIT || r->kind == FV_VIT_LW_DETR)
        r->k_bias = false;
    if (r->kind != FV_VIT_DINOV3)
        return FOVEA_OK;
    r->k_bias = false;
    FV_TRY(fv_config_bool(&r->q_bias, &r->vision, "query_bias"));
    FV_TRY(fv_config_bool(&r->k_bias, &r->vision, "key_bias"));
    return fv_config_bool(&r->v_bias, &r->vision, "value_bias");
}

fovea_status fv_vit_read_block_form(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    fv_vit *v = r->v;
    r->chunk = 0;
    if (!fv_vit_find_block(r, 0))
        return fail_first_block(r);
    FV_TRY(read_bias_form(r));
    bool scales = fv_vit_kinds[r->kind].parts & FV_VIT_HAS_SCALES;
    if (r->kind == FV_VIT_BEIT) {
        float value = 0.1f; /* initial value of layer scales; 0 without layer scales */
        FV_TRY(fv_config_float(&value, &r->vision, "layer_scale_init_value", -1e9, 1e9));
        scales = value > 0;
    }
    if (n->origin != FV_VIT_HF)
        scales = fv_reader_find(&r->t, r->block, n->ls1, "") != NULL;
    r->scaled = n->ls1 && scales;
    r->split = fv_reader_find(&r->t, r->block, n->gate, "weight") != NULL;
    r->gated = r->split || fv_reader_find(&r->t, r->block, n->gated1, "weight");
    FV_TRY(read_sla_form(r));
    const fv_tensor *fc1 = fv_reader_find(&r->t, r->block, n->fc1, "weight");
    FV_TRY(fv_reader_dimension(&v->hidden, &r->t, r->block, r->gated ? n->gated2 : n->fc2, "weight",
                               1, "width of the MLP", FV_VIT_HIDDEN_MOST));
    if (r->kind != FV_VIT_GLM) /* there, it is that of the merger */
        FV_TRY(fv_config_u32(&v->hidden, &r->vision, "intermediate_size", 1, FV_VIT_HIDDEN_MOST));
    const bool joined = n->origin == FV_VIT_TIMM && fv_tensor_dimension(fc1, 0) == 2 * v->hidden;
    const bool act_told = r->kind == FV_VIT_DINOV3 || r->kind == FV_VIT_AIM ||
                          r->kind == FV_VIT_GLM || r->kind == FV_VIT_GLM_OCR ||
                          r->kind == FV_VIT_QWEN2_5;
    /* Pixtral's gated MLP may have any activation. */
    v->gated = r->split && r->kind == FV_VIT_PIXTRAL && v->epi != FV_EPI_SILU;
    if (r->split && n->origin == FV_VIT_HF && act_told && v->epi != FV_EPI_SILU)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: a gated MLP must have \"hidden_act\" silu; others are not supported",
                       r->config->file);
    if ((r->gated || joined) && !v->gated)
        v->epi = FV_EPI_SWIGLU;
    return FOVEA_OK;
}
