/* sam_decoder_read.c: reads the decoder of masks of SAM and SAM 2: names and shapes of tensors
 * become roles. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "models/fields.h"
#include "models/fold.h"
#include "models/vit/sam_decoder.h"

#define WIDTH 4096
#define HIDDEN (1u << 20)
#define DECODER "mask_decoder."
#define PROMPTS "prompt_encoder."

/* The names of tensors by their origin: fv_sam_origin. */
static const struct names {
    const char *rate_prefix, *rate;
    const char *kind;        /* stem, with the number of a kind; NULL: one tensor has all kinds */
    const char *presence;    /* token of the object's presence, or NULL */
    const char *mask_prompt; /* part that reads masks as prompts */
    const char *out, *fc1, *fc2;
    const char *norm, *last_norm; /* norm: stem, with its number */
    const char *up[2], *up_norm;
    const char *mlp[FV_SAM_MLP];
    float eps, last_eps;
} names[] = {
    [FV_SAM_OF_TRANSFORMERS] = {"shared_image_embedding.",
                                "positional_embedding",
                                "point_embed.%u.",
                                NULL,
                                "mask_embed",
                                "out_proj.",
                                "mlp.lin1.",
                                "mlp.lin2.",
                                "layer_norm%u.",
                                "transformer.layer_norm_final_attn.",
                                {"upscale_conv1.", "upscale_conv2."},
                                "upscale_layer_norm.",
                                {"proj_in.", "layers.0.", "proj_out."},
                                1e-6f,
                                1e-5f},
    [FV_SAM_OF_AUTHORS] = {PROMPTS "pe_layer.",
                           "positional_encoding_gaussian_matrix",
                           "point_embeddings.%u.",
                           NULL,
                           "mask_downscaling",
                           "out_proj.",
                           "mlp.lin1.",
                           "mlp.lin2.",
                           "norm%u.",
                           "transformer.norm_final_attn.",
                           {"output_upscaling.0.", "output_upscaling.3."},
                           "output_upscaling.1.",
                           {"layers.0.", "layers.1.", "layers.2."},
                           1e-5f,
                           1e-5f},
    [FV_SAM2_OF_TRANSFORMERS] = {"shared_image_embedding.",
                                 "positional_embedding",
                                 NULL,
                                 "obj_score_token.",
                                 "mask_embed",
                                 "o_proj.",
                                 "mlp.proj_in.",
                                 "mlp.proj_out.",
                                 "layer_norm%u.",
                                 "transformer.layer_norm_final_attn.",
                                 {"upscale_conv1.", "upscale_conv2."},
                                 "upscale_layer_norm.",
                                 {"proj_in.", "layers.0.", "proj_out."},
                                 1e-5f,
                                 1e-5f},
};

/* Fields of its sections, in addition to those of ViTs. */
static const char decoder_fields[] =
    "attention_downsample_rate iou_head_depth iou_head_hidden_dim "
    "mlp_dim num_multimask_outputs dynamic_multimask_via_stability "
    "dynamic_multimask_stability_delta "
    "dynamic_multimask_stability_thresh",
                  prompt_fields[] =
                      "image_embedding_size mask_input_channels num_point_embeddings scale";

typedef struct reader {
    fv_tensor_reader *t;
    const struct names *n;
    fv_sam_decoder *d;
    char layer[64]; /* prefix of a layer */
} reader;

/* ---- prompts ---- */

/* Reads a tensor of rows x cols numbers into memory of the model. */
static fovea_status read_floats(const float **out, const reader *r, const char *prefix,
                                const char *stem, const char *part, uint32_t rows, uint32_t cols)
{
    const uint64_t shape[2] = {rows, cols};
    const fv_tensor *from, *to;
    float *data;
    FV_TRY(fv_reader_tensor(&from, r->t, prefix, stem, part, 2, shape));
    FV_TRY(fv_model_floats(&data, &to, r->t->m, rows, cols));
    fv_tensor_read(from, 0, (uint64_t)rows * cols, data);
    *out = data;
    return FOVEA_OK;
}

/* Reads the learned tokens: of the object's presence, of the scores, of the masks. */
static fovea_status read_tokens(reader *r)
{
    fv_prompts *p = &r->d->prompts;
    const uint32_t c = p->width, before = r->n->presence ? 1 : 0;
    const struct {
        const char *stem;
        uint32_t rows;
    } tokens[] = {{r->n->presence, before}, {"iou_token.", 1}, {"mask_tokens.", FV_SAM_MASKS}};
    const fv_tensor *from, *to;
    float *data;
    FV_TRY(fv_model_floats(&data, &to, r->t->m, before + FV_SAM_FIRST, c));
    p->tokens = data;
    p->first = before + FV_SAM_FIRST;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const uint64_t shape[2] = {tokens[i].rows, c};
        if (!tokens[i].stem)
            continue;
        FV_TRY(fv_reader_tensor(&from, r->t, DECODER, tokens[i].stem, "weight", 2, shape));
        fv_tensor_read(from, 0, shape[0] * c, data);
        data += shape[0] * c;
    }
    return FOVEA_OK;
}

/* Reads the rows of the kinds of points. */
static fovea_status read_kinds(reader *r)
{
    fv_prompts *p = &r->d->prompts;
    const uint32_t c = p->width;
    const float *all = NULL;
    if (!r->n->kind)
        FV_TRY(read_floats(&all, r, PROMPTS, "point_embed.", "weight", FV_PROMPT_NOTHING, c));
    for (uint32_t i = 0; i < FV_PROMPT_NOTHING; i++) {
        char stem[32];
        p->kind[i] = all ? all + (size_t)i * c : NULL;
        if (all)
            continue;
        snprintf(stem, sizeof stem, r->n->kind, i);
        FV_TRY(read_floats(&p->kind[i], r, PROMPTS, stem, "weight", 1, c));
    }
    return read_floats(&p->kind[FV_PROMPT_NOTHING], r, PROMPTS, "not_a_point_embed.", "weight", 1,
                       c);
}

static fovea_status read_prompts(reader *r)
{
    fv_prompts *p = &r->d->prompts;
    const uint32_t c = p->width;
    FV_TRY(read_tokens(r));
    FV_TRY(read_floats(&p->rate, r, r->n->rate_prefix, r->n->rate, "", 2, c / 2));
    FV_TRY(read_kinds(r));
    FV_TRY(read_floats(&p->added, r, PROMPTS, "no_mask_embed.", "weight", 1, c));
    fv_reader_ignore(r->t, PROMPTS, "shared_embedding"); /* a copy of the frequencies */
    fv_reader_leave(r->t, PROMPTS, r->n->mask_prompt);
    return fv_reader_all_used(r->t, PROMPTS);
}

/* ---- layers ---- */

/* Reads one of the layers of an attention, from `cols` to `rows` channels. */
static fovea_status part(fv_layer *l, const reader *r, const char *attention, const char *name,
                         uint32_t rows, uint32_t cols)
{
    char stem[64];
    snprintf(stem, sizeof stem, "%s%s", attention, name);
    return fv_reader_linear(l, r->t, r->layer, stem, rows, cols);
}

/* Reads two of them as one, whose rows are those of the first, then those of the second. */
static fovea_status pair(fv_layer *l, const reader *r, const char *first, const char *second,
                         uint32_t rows)
{
    const char *const stems[] = {first, second};
    const uint32_t each[] = {rows, rows};
    return fv_reader_stacked(l, r->t, r->layer, stems, each, 2, r->d->width);
}

static fovea_status read_layer(reader *r, uint32_t i, uint32_t hidden)
{
    fv_sam_decoder_layer *l = &r->d->layer[i];
    const uint32_t c = r->d->width, inner = r->d->inner;
    const char *of_tokens = "self_attn.", *of_picture = "cross_attn_token_to_image.",
               *to_tokens = "cross_attn_image_to_token.";
    snprintf(r->layer, sizeof r->layer, DECODER "transformer.layers.%u.", i);
    FV_TRY(pair(&l->self_qk, r, "self_attn.q_proj.", "self_attn.k_proj.", c));
    FV_TRY(part(&l->self_v, r, of_tokens, "v_proj.", c, c));
    FV_TRY(part(&l->self_out, r, of_tokens, r->n->out, c, c));
    FV_TRY(part(&l->cross_q, r, of_picture, "q_proj.", inner, c));
    FV_TRY(part(&l->cross_v, r, of_picture, "v_proj.", inner, c));
    FV_TRY(part(&l->cross_out, r, of_picture, r->n->out, c, inner));
    FV_TRY(pair(&l->picture_kq, r, "cross_attn_token_to_image.k_proj.",
                "cross_attn_image_to_token.q_proj.", inner));
    FV_TRY(part(&l->token_k, r, to_tokens, "k_proj.", inner, c));
    FV_TRY(part(&l->token_v, r, to_tokens, "v_proj.", inner, c));
    FV_TRY(part(&l->picture_out, r, to_tokens, r->n->out, c, inner));
    FV_TRY(part(&l->fc1, r, "", r->n->fc1, hidden, c));
    FV_TRY(part(&l->fc2, r, "", r->n->fc2, c, hidden));
    for (uint32_t k = 0; k < 4; k++) {
        char stem[32];
        snprintf(stem, sizeof stem, r->n->norm, k + 1);
        FV_TRY(fv_reader_norm(&l->norm[k], r->t, r->layer, stem, c));
    }
    return FOVEA_OK;
}

static fovea_status read_last(reader *r)
{
    fv_sam_decoder *d = r->d;
    const uint32_t c = d->width, inner = d->inner;
    const char *attention = "transformer.final_attn_token_to_image.";
    snprintf(r->layer, sizeof r->layer, DECODER);
    FV_TRY(part(&d->last_q, r, attention, "q_proj.", inner, c));
    FV_TRY(part(&d->last_k, r, attention, "k_proj.", inner, c));
    FV_TRY(part(&d->last_v, r, attention, "v_proj.", inner, c));
    FV_TRY(part(&d->last_out, r, attention, r->n->out, c, inner));
    return fv_reader_norm(&d->last_norm, r->t, DECODER, r->n->last_norm, c);
}

/* ---- heads ---- */

static fovea_status read_head(fv_layer l[FV_SAM_MLP], const reader *r, const char *stem,
                              uint32_t hidden, uint32_t out)
{
    for (uint32_t i = 0; i < FV_SAM_MLP; i++)
        FV_TRY(part(&l[i], r, stem, r->n->mlp[i], i + 1 < FV_SAM_MLP ? hidden : out,
                    i > 0 ? hidden : r->d->width));
    return FOVEA_OK;
}

static fovea_status read_heads(reader *r)
{
    fv_sam_decoder *d = r->d;
    const uint32_t c = d->width;
    char first[64];
    uint32_t hidden;
    for (uint32_t i = 0; i < 2; i++) {
        const fv_fold_deconv f = {
            .stem = r->n->up[i], .channels = i ? c / 4 : c, .rows = i ? c / 8 : c / 4, .stride = 2};
        FV_TRY(fv_fold_transposed(&d->up[i], r->t, DECODER, &f));
    }
    FV_TRY(fv_reader_norm(&d->up_norm, r->t, DECODER, r->n->up_norm, c / 4));
    for (uint32_t i = 0; i < FV_SAM_MASKS; i++) {
        char stem[48];
        snprintf(stem, sizeof stem, "output_hypernetworks_mlps.%u.", i);
        FV_TRY(read_head(d->mask[i], r, stem, c, c / 8));
    }
    snprintf(first, sizeof first, "iou_prediction_head.%s", r->n->mlp[0]);
    FV_TRY(fv_reader_dimension(&hidden, r->t, DECODER, first, "weight", 0,
                               "number of outputs of the head of scores", HIDDEN));
    return read_head(d->score, r, "iou_prediction_head.", hidden, FV_SAM_MASKS);
}

/* ---- sizes ---- */

static fovea_status read_section(fv_config *out, const fv_config *config, const char *key,
                                 const char *more)
{
    fv_config own;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_config_section(out, config, key));
    return out->object ? fv_fields_check(config, out, &own, more) : FOVEA_OK;
}

/* Reads when SAM 2 replaces the usual mask. Its layers have ReLU, whatever "hidden_act" is. */
static fovea_status read_stability(reader *r, const fv_config *own)
{
    fv_prompts *p = &r->d->prompts;
    bool dynamic = true;
    r->d->act = FV_EPI_RELU;
    p->second = true;
    p->stable = 0.98f;
    p->delta = 0.05f;
    FV_TRY(fv_config_bool(&dynamic, own, "dynamic_multimask_via_stability"));
    FV_TRY(fv_config_float(&p->stable, own, "dynamic_multimask_stability_thresh", 0, 1));
    FV_TRY(fv_config_float(&p->delta, own, "dynamic_multimask_stability_delta", 0, 1e6));
    if (!dynamic)
        p->stable = 0;
    return FOVEA_OK;
}

/* Reads the sizes, and sets *hidden to the width of the layers' MLPs. */
static fovea_status read_sizes(reader *r, const fv_config *config, uint32_t *hidden)
{
    fv_sam_decoder *d = r->d;
    fv_config own, prompts;
    char fc1[64];
    FV_TRY(read_section(&prompts, config, "prompt_encoder_config", prompt_fields));
    FV_TRY(read_section(&own, config, "mask_decoder_config", decoder_fields));
    FV_TRY(fv_reader_dimension(&d->width, r->t, DECODER, "iou_token.", "weight", 1,
                               "width of the decoder", WIDTH));
    FV_TRY(fv_reader_dimension(&d->inner, r->t, DECODER,
                               "transformer.layers.0.cross_attn_token_to_image.q_proj.", "weight",
                               0, "inner width of attention", WIDTH));
    snprintf(fc1, sizeof fc1, "transformer.layers.0.%s", r->n->fc1);
    FV_TRY(fv_reader_dimension(hidden, r->t, DECODER, fc1, "weight", 0,
                               "hidden width of the decoder", HIDDEN));
    d->layers = fv_reader_count(r->t, DECODER, "transformer.layers.%u.self_attn.q_proj.",
                                FV_SAM_DECODER_LAYERS);
    FV_TRY(fv_reader_check_size(r->t, "number of layers of the decoder", d->layers,
                                FV_SAM_DECODER_LAYERS));
    d->prompts.width = d->width;
    d->heads = 8;
    d->eps = r->n->eps;
    d->last_eps = r->n->last_eps;
    const struct {
        const fv_config *section;
        const char *key;
        uint32_t n;
    } told[] = {
        {&prompts, "hidden_size", d->width}, {&prompts, "num_point_embeddings", FV_PROMPT_NOTHING},
        {&own, "hidden_size", d->width},     {&own, "num_hidden_layers", d->layers},
        {&own, "mlp_dim", *hidden},          {&own, "num_multimask_outputs", FV_SAM_MASKS - 1},
        {&own, "iou_head_depth", FV_SAM_MLP}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        FV_TRY(fv_reader_agree(r->t, told[i].section, told[i].key, told[i].n));
    FV_TRY(fv_config_u32(&d->heads, &own, "num_attention_heads", 1, WIDTH));
    FV_TRY(fv_config_float(&d->eps, &own, "layer_norm_eps", 0, 1));
    if (r->n->presence)
        FV_TRY(read_stability(r, &own));
    else
        FV_TRY(fv_config_activation(&d->act, &own, "hidden_act", "relu"));
    if (d->width % 8 || d->width % d->heads || d->inner % d->heads)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: the mask decoder has %u and %u channels; %u heads must divide both, and "
            "8 the first",
            config->file, d->width, d->inner, d->heads);
    return FOVEA_OK;
}

fovea_status fv_sam_decoder_read(fv_sam_decoder *d, fv_tensor_reader *t, const fv_config *config,
                                 enum fv_sam_origin origin)
{
    reader r = {.t = t, .n = &names[origin], .d = d};
    uint32_t hidden;
    FV_TRY(read_sizes(&r, config, &hidden));
    FV_TRY(read_prompts(&r));
    FV_TRY(FV_MEM_ARRAY(&d->layer, d->layers, FV_MEM_MODEL, "layers of the decoder"));
    for (uint32_t i = 0; i < d->layers; i++)
        FV_TRY(read_layer(&r, i, hidden));
    FV_TRY(read_last(&r));
    FV_TRY(read_heads(&r));
    fv_reader_leave(t, DECODER, "pred_obj_score_head");
    return fv_reader_all_used(t, DECODER);
}

void fv_sam_decoder_release(fv_sam_decoder *d)
{
    fv_mem_free(d->layer);
}
