/* vit_fields.c: what a ViT's config.json may say. A field that no reader knows may change the
 * arithmetic, so that a model with one is refused: by name, unless "fovea": {"ignore": [...]} has
 * it.
 */
#include <string.h>

#include "base/num.h"
#include "models/vit_reader.h"

enum rule {
    ANY, /* it is read elsewhere, the tensors show it, or it changes nothing that runs here */
    TEXT,
    TRUE,
    FALSE,
    EMPTY, /* a list or an object without members */
};

typedef struct known {
    char name[36]; /* no pointer, which the loader would have to relocate */
    enum rule rule;
    const char *text; /* the one that is supported */
} known;

/* What transformers' configurations of these models hold, those of old versions included. */
static const known transformers[] = {
    {"add_cross_attention", FALSE, NULL},
    {"apply_layernorm", ANY, NULL},
    {"architectures", ANY, NULL},
    {"attention_dropout", ANY, NULL},
    {"attention_probs_dropout_prob", ANY, NULL},
    {"bad_words_ids", ANY, NULL},
    {"begin_suppress_tokens", ANY, NULL},
    {"bos_token_id", ANY, NULL},
    {"chunk_size_feed_forward", ANY, NULL},
    {"cross_attention_hidden_size", ANY, NULL},
    {"decoder_start_token_id", ANY, NULL},
    {"diversity_penalty", ANY, NULL},
    {"do_sample", ANY, NULL},
    {"drop_path_rate", ANY, NULL},
    {"dropout", ANY, NULL},
    {"dtype", ANY, NULL},
    {"early_stopping", ANY, NULL},
    {"encoder_no_repeat_ngram_size", ANY, NULL},
    {"encoder_stride", ANY, NULL},
    {"eos_token_id", ANY, NULL},
    {"exponential_decay_length_penalty", ANY, NULL},
    {"finetuning_task", ANY, NULL},
    {"forced_bos_token_id", ANY, NULL},
    {"forced_eos_token_id", ANY, NULL},
    {"fovea", ANY, NULL},
    {"golden", ANY, NULL},
    {"gradient_checkpointing", ANY, NULL},
    {"hidden_act", ANY, NULL},
    {"hidden_dropout_prob", ANY, NULL},
    {"hidden_size", ANY, NULL},
    {"id2label", ANY, NULL},
    {"image_size", ANY, NULL},
    {"initializer_factor", ANY, NULL},
    {"initializer_range", ANY, NULL},
    {"intermediate_size", ANY, NULL},
    {"is_decoder", FALSE, NULL},
    {"is_encoder_decoder", FALSE, NULL},
    {"key_bias", ANY, NULL},
    {"label2id", ANY, NULL},
    {"layer_norm_eps", ANY, NULL},
    {"layerscale_value", ANY, NULL},
    {"length_penalty", ANY, NULL},
    {"license", ANY, NULL},
    {"logit_scale_init_value", ANY, NULL},
    {"max_image_size", ANY, NULL},
    {"max_img_size", ANY, NULL},
    {"max_length", ANY, NULL},
    {"min_length", ANY, NULL},
    {"mlp_bias", TRUE, NULL},
    {"mlp_ratio", ANY, NULL},
    {"model_type", ANY, NULL},
    {"no_repeat_ngram_size", ANY, NULL},
    {"num_attention_heads", ANY, NULL},
    {"norm_mean", ANY, NULL},
    {"norm_std", ANY, NULL},
    {"num_beam_groups", ANY, NULL},
    {"num_beams", ANY, NULL},
    {"num_channels", ANY, NULL},
    {"num_cls_tokens", ANY, NULL},
    {"num_hidden_layers", ANY, NULL},
    {"num_labels", ANY, NULL},
    {"num_patches", ANY, NULL},
    {"num_register_tokens", ANY, NULL},
    {"num_registers", ANY, NULL},
    {"num_return_sequences", ANY, NULL},
    {"out_features", ANY, NULL},
    {"out_indices", ANY, NULL},
    {"output_attentions", ANY, NULL},
    {"output_hidden_states", ANY, NULL},
    {"output_scores", ANY, NULL},
    {"pad_token_id", ANY, NULL},
    {"patch_dim", ANY, NULL},
    {"patch_size", ANY, NULL},
    {"pooler_act", TEXT, "tanh"},
    {"pooler_output_size", ANY, NULL},
    {"pos_embed_jitter", ANY, NULL},
    {"pos_embed_rescale", ANY, NULL},
    {"pos_embed_shift", ANY, NULL},
    {"position_embedding_type", TEXT, "absolute"},
    {"prefix", ANY, NULL},
    {"problem_type", ANY, NULL},
    {"proj_bias", TRUE, NULL},
    {"projection_dim", ANY, NULL},
    {"pruned_heads", EMPTY, NULL},
    {"qkv_bias", ANY, NULL},
    {"query_bias", ANY, NULL},
    {"remove_invalid_values", ANY, NULL},
    {"repetition_penalty", ANY, NULL},
    {"reshape_hidden_states", ANY, NULL},
    {"return_dict", ANY, NULL},
    {"return_dict_in_generate", ANY, NULL},
    {"rope_theta", ANY, NULL},
    {"semantic_loss_ignore_index", ANY, NULL},
    {"sep_token_id", ANY, NULL},
    {"size", ANY, NULL},
    {"stage_names", ANY, NULL},
    {"summary_idxs", ANY, NULL},
    {"suppress_tokens", ANY, NULL},
    {"task_specific_params", ANY, NULL},
    {"temperature", ANY, NULL},
    {"text_config", ANY, NULL},
    {"text_config_dict", ANY, NULL},
    {"tf_legacy_loss", ANY, NULL},
    {"tie_encoder_decoder", ANY, NULL},
    {"tie_word_embeddings", ANY, NULL},
    {"tokenizer_class", ANY, NULL},
    {"top_k", ANY, NULL},
    {"top_p", ANY, NULL},
    {"torch_dtype", ANY, NULL},
    {"torchscript", ANY, NULL},
    {"transformers_version", ANY, NULL},
    {"typical_p", ANY, NULL},
    {"use_base_siglip", ANY, NULL},
    {"use_bfloat16", ANY, NULL},
    {"use_gated_mlp", ANY, NULL},
    {"use_mask_token", ANY, NULL},
    {"use_swiglu_ffn", ANY, NULL},
    {"value_bias", ANY, NULL},
    {"vision_config", ANY, NULL},
    {"vision_config_dict", ANY, NULL},
    {"vision_use_head", ANY, NULL},
    {"", ANY, NULL},
};

/* What those of BEiT hold beside. */
static const known beit[] = {
    {"add_fpn", ANY, NULL},
    {"auxiliary_channels", ANY, NULL},
    {"auxiliary_concat_input", ANY, NULL},
    {"auxiliary_loss_weight", ANY, NULL},
    {"auxiliary_num_convs", ANY, NULL},
    {"layer_scale_init_value", ANY, NULL},
    {"pool_scales", ANY, NULL},
    {"segmentation_indices", ANY, NULL},
    {"use_absolute_position_embeddings", ANY, NULL},
    {"use_auxiliary_head", ANY, NULL},
    {"use_mean_pooling", ANY, NULL},
    {"use_relative_position_bias", ANY, NULL},
    {"use_shared_relative_position_bias", ANY, NULL},
    {"vocab_size", ANY, NULL},
    {"", ANY, NULL},
};

/* Arguments of timm's constructors that the tensors show, or that matter in training alone. */
static const known timm[] = {
    {"attn_drop_rate", ANY, NULL},
    {"class_token", ANY, NULL},
    {"depth", ANY, NULL},
    {"drop_path_rate", ANY, NULL},
    {"drop_rate", ANY, NULL},
    {"dynamic_img_pad", FALSE, NULL},
    {"dynamic_img_size", ANY, NULL},
    {"embed_dim", ANY, NULL},
    {"fc_norm", ANY, NULL},
    {"features_only", ANY, NULL},
    {"global_pool", ANY, NULL},
    {"head_init_scale", ANY, NULL},
    {"img_size", ANY, NULL},
    {"in_chans", ANY, NULL},
    {"init_values", ANY, NULL},
    {"mlp_ratio", ANY, NULL},
    {"no_embed_class", ANY, NULL},
    {"num_classes", ANY, NULL},
    {"num_heads", ANY, NULL},
    {"num_reg_tokens", ANY, NULL},
    {"patch_drop_rate", ANY, NULL},
    {"patch_size", ANY, NULL},
    {"pos_drop_rate", ANY, NULL},
    {"pre_norm", ANY, NULL},
    {"proj_drop_rate", ANY, NULL},
    {"qkv_bias", ANY, NULL},
    {"reg_tokens", ANY, NULL},
    {"scale_mlp", ANY, NULL},
    {"strict_img_size", ANY, NULL},
    {"swiglu_mlp", ANY, NULL},
    {"use_abs_pos_emb", ANY, NULL},
    {"use_fc_norm", ANY, NULL},
    {"use_rel_pos_bias", ANY, NULL},
    {"use_shared_rel_pos_bias", ANY, NULL},
    {"weight_init", ANY, NULL},
    {"", ANY, NULL},
};

static bool holds(const known *k, const json_t *value)
{
    const char *text = json_string_value(value);
    switch (k->rule) {
    case ANY:
        return true;
    case TEXT:
        return text && strcmp(text, k->text) == 0;
    case TRUE:
        return json_is_true(value);
    case FALSE:
        return json_is_false(value);
    case EMPTY:
        break;
    }
    return json_array_size(value) + json_object_size(value) == 0;
}

static bool ignored(const json_t *list, const char *name)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item) {
        const char *text = json_string_value(item);
        if (text && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

static const known *find(const known *list, const char *name)
{
    while (*list->name && strcmp(list->name, name) != 0)
        list++;
    return *list->name ? list : NULL;
}

/* `more`: a second list, or NULL. */
static fovea_status check(const fv_config *c, const known *list, const known *more,
                          const json_t *ignore)
{
    const char *name;
    json_t *value;
    const char *dot = *c->section ? "." : "";
    json_object_foreach(c->object, name, value) {
        const known *k = find(list, name);
        if (!k && more)
            k = find(more, name);
        if (json_is_null(value) || *name == '_' || ignored(ignore, name) || (k && holds(k, value)))
            continue;
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: \"%s%s%.60s\" %s; if that does not change what the encoder computes, add "
            "\"fovea\": {\"ignore\": [\"%.60s\"]}",
            c->file, c->section, dot, name,
            k ? "has a value that is not supported" : "is not known", name);
    }
    return FOVEA_OK;
}

fovea_status fv_vit_check_fields(const fv_vit_reader *r)
{
    fv_config arguments;
    const json_t *ignore = r->own.object ? fv_config_get(&r->own, "ignore") : NULL;
    if (ignore && !json_is_array(ignore))
        return fv_config_fail(&r->own, "ignore", "a list of names of fields");
    FV_TRY(fv_config_section(&arguments, r->config, "model_args"));
    if (arguments.object)
        FV_TRY(check(&arguments, timm, NULL, ignore));
    if (fv_config_get(r->config, "architecture"))
        return FOVEA_OK;
    return check(&r->vision, transformers, r->kind == FV_VIT_BEIT ? beit : NULL, ignore);
}
