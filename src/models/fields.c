/* fields.c: what the config.json of a model may say. */
#include "models/fields.h"

#include <string.h>

#include "base/num.h"

/* What transformers' configurations of these models hold, those of old versions included. */
static const fv_field transformers[] = {
    {"add_cross_attention", FV_FIELD_FALSE, NULL},
    {"apply_layernorm", FV_FIELD_ANY, NULL},
    {"architectures", FV_FIELD_ANY, NULL},
    {"attention_dropout", FV_FIELD_ANY, NULL},
    {"attention_probs_dropout_prob", FV_FIELD_ANY, NULL},
    {"bad_words_ids", FV_FIELD_ANY, NULL},
    {"begin_suppress_tokens", FV_FIELD_ANY, NULL},
    {"bos_token_id", FV_FIELD_ANY, NULL},
    {"chunk_size_feed_forward", FV_FIELD_ANY, NULL},
    {"cross_attention_hidden_size", FV_FIELD_ANY, NULL},
    {"decoder_start_token_id", FV_FIELD_ANY, NULL},
    {"diversity_penalty", FV_FIELD_ANY, NULL},
    {"do_sample", FV_FIELD_ANY, NULL},
    {"drop_path_rate", FV_FIELD_ANY, NULL},
    {"dropout", FV_FIELD_ANY, NULL},
    {"dtype", FV_FIELD_ANY, NULL},
    {"early_stopping", FV_FIELD_ANY, NULL},
    {"encoder_no_repeat_ngram_size", FV_FIELD_ANY, NULL},
    {"encoder_stride", FV_FIELD_ANY, NULL},
    {"eos_token_id", FV_FIELD_ANY, NULL},
    {"exponential_decay_length_penalty", FV_FIELD_ANY, NULL},
    {"finetuning_task", FV_FIELD_ANY, NULL},
    {"forced_bos_token_id", FV_FIELD_ANY, NULL},
    {"forced_eos_token_id", FV_FIELD_ANY, NULL},
    {"fovea", FV_FIELD_ANY, NULL},
    {"golden", FV_FIELD_ANY, NULL},
    {"gradient_checkpointing", FV_FIELD_ANY, NULL},
    {"hidden_act", FV_FIELD_ANY, NULL},
    {"hidden_dropout_prob", FV_FIELD_ANY, NULL},
    {"hidden_size", FV_FIELD_ANY, NULL},
    {"id2label", FV_FIELD_ANY, NULL},
    {"image_size", FV_FIELD_ANY, NULL},
    {"initializer_factor", FV_FIELD_ANY, NULL},
    {"initializer_range", FV_FIELD_ANY, NULL},
    {"intermediate_size", FV_FIELD_ANY, NULL},
    {"is_decoder", FV_FIELD_FALSE, NULL},
    {"is_encoder_decoder", FV_FIELD_FALSE, NULL},
    {"key_bias", FV_FIELD_ANY, NULL},
    {"label2id", FV_FIELD_ANY, NULL},
    {"layer_norm_eps", FV_FIELD_ANY, NULL},
    {"layerscale_value", FV_FIELD_ANY, NULL},
    {"length_penalty", FV_FIELD_ANY, NULL},
    {"license", FV_FIELD_ANY, NULL},
    {"logit_scale_init_value", FV_FIELD_ANY, NULL},
    {"max_image_size", FV_FIELD_ANY, NULL},
    {"max_img_size", FV_FIELD_ANY, NULL},
    {"max_length", FV_FIELD_ANY, NULL},
    {"min_length", FV_FIELD_ANY, NULL},
    {"mlp_bias", FV_FIELD_TRUE, NULL},
    {"mlp_ratio", FV_FIELD_ANY, NULL},
    {"model_type", FV_FIELD_ANY, NULL},
    {"no_repeat_ngram_size", FV_FIELD_ANY, NULL},
    {"num_attention_heads", FV_FIELD_ANY, NULL},
    {"norm_mean", FV_FIELD_ANY, NULL},
    {"norm_std", FV_FIELD_ANY, NULL},
    {"num_beam_groups", FV_FIELD_ANY, NULL},
    {"num_beams", FV_FIELD_ANY, NULL},
    {"num_channels", FV_FIELD_ANY, NULL},
    {"num_cls_tokens", FV_FIELD_ANY, NULL},
    {"num_hidden_layers", FV_FIELD_ANY, NULL},
    {"num_labels", FV_FIELD_ANY, NULL},
    {"num_patches", FV_FIELD_ANY, NULL},
    {"num_register_tokens", FV_FIELD_ANY, NULL},
    {"num_registers", FV_FIELD_ANY, NULL},
    {"num_return_sequences", FV_FIELD_ANY, NULL},
    {"out_features", FV_FIELD_ANY, NULL},
    {"out_indices", FV_FIELD_ANY, NULL},
    {"output_attentions", FV_FIELD_ANY, NULL},
    {"output_hidden_states", FV_FIELD_ANY, NULL},
    {"output_scores", FV_FIELD_ANY, NULL},
    {"pad_token_id", FV_FIELD_ANY, NULL},
    {"patch_dim", FV_FIELD_ANY, NULL},
    {"patch_size", FV_FIELD_ANY, NULL},
    {"pooler_act", FV_FIELD_TEXT, "tanh"},
    {"pooler_output_size", FV_FIELD_ANY, NULL},
    {"pos_embed_jitter", FV_FIELD_ANY, NULL},
    {"pos_embed_rescale", FV_FIELD_ANY, NULL},
    {"pos_embed_shift", FV_FIELD_ANY, NULL},
    {"position_embedding_type", FV_FIELD_TEXT, "absolute"},
    {"prefix", FV_FIELD_ANY, NULL},
    {"problem_type", FV_FIELD_ANY, NULL},
    {"proj_bias", FV_FIELD_TRUE, NULL},
    {"projection_dim", FV_FIELD_ANY, NULL},
    {"pruned_heads", FV_FIELD_EMPTY, NULL},
    {"qkv_bias", FV_FIELD_ANY, NULL},
    {"query_bias", FV_FIELD_ANY, NULL},
    {"remove_invalid_values", FV_FIELD_ANY, NULL},
    {"repetition_penalty", FV_FIELD_ANY, NULL},
    {"reshape_hidden_states", FV_FIELD_ANY, NULL},
    {"return_dict", FV_FIELD_ANY, NULL},
    {"return_dict_in_generate", FV_FIELD_ANY, NULL},
    {"rope_theta", FV_FIELD_ANY, NULL},
    {"semantic_loss_ignore_index", FV_FIELD_ANY, NULL},
    {"sep_token_id", FV_FIELD_ANY, NULL},
    {"size", FV_FIELD_ANY, NULL},
    {"stage_names", FV_FIELD_ANY, NULL},
    {"summary_idxs", FV_FIELD_ANY, NULL},
    {"suppress_tokens", FV_FIELD_ANY, NULL},
    {"task_specific_params", FV_FIELD_ANY, NULL},
    {"temperature", FV_FIELD_ANY, NULL},
    {"text_config", FV_FIELD_ANY, NULL},
    {"text_config_dict", FV_FIELD_ANY, NULL},
    {"tf_legacy_loss", FV_FIELD_ANY, NULL},
    {"tie_encoder_decoder", FV_FIELD_ANY, NULL},
    {"tie_word_embeddings", FV_FIELD_ANY, NULL},
    {"tokenizer_class", FV_FIELD_ANY, NULL},
    {"top_k", FV_FIELD_ANY, NULL},
    {"top_p", FV_FIELD_ANY, NULL},
    {"torch_dtype", FV_FIELD_ANY, NULL},
    {"torchscript", FV_FIELD_ANY, NULL},
    {"transformers_version", FV_FIELD_ANY, NULL},
    {"typical_p", FV_FIELD_ANY, NULL},
    {"use_base_siglip", FV_FIELD_ANY, NULL},
    {"use_bfloat16", FV_FIELD_ANY, NULL},
    {"use_gated_mlp", FV_FIELD_ANY, NULL},
    {"use_mask_token", FV_FIELD_ANY, NULL},
    {"use_swiglu_ffn", FV_FIELD_ANY, NULL},
    {"value_bias", FV_FIELD_ANY, NULL},
    {"vision_config", FV_FIELD_ANY, NULL},
    {"vision_config_dict", FV_FIELD_ANY, NULL},
    {"vision_use_head", FV_FIELD_ANY, NULL},
    {"", FV_FIELD_ANY, NULL},
};

/* Arguments of timm's constructors that the tensors show, or that matter in training alone. */
static const fv_field timm[] = {
    {"attn_drop_rate", FV_FIELD_ANY, NULL},
    {"class_token", FV_FIELD_ANY, NULL},
    {"depth", FV_FIELD_ANY, NULL},
    {"drop_path_rate", FV_FIELD_ANY, NULL},
    {"drop_rate", FV_FIELD_ANY, NULL},
    {"dynamic_img_pad", FV_FIELD_FALSE, NULL},
    {"dynamic_img_size", FV_FIELD_ANY, NULL},
    {"embed_dim", FV_FIELD_ANY, NULL},
    {"fc_norm", FV_FIELD_ANY, NULL},
    {"features_only", FV_FIELD_ANY, NULL},
    {"global_pool", FV_FIELD_ANY, NULL},
    {"head_init_scale", FV_FIELD_ANY, NULL},
    {"img_size", FV_FIELD_ANY, NULL},
    {"in_chans", FV_FIELD_ANY, NULL},
    {"init_values", FV_FIELD_ANY, NULL},
    {"mlp_ratio", FV_FIELD_ANY, NULL},
    {"no_embed_class", FV_FIELD_ANY, NULL},
    {"num_classes", FV_FIELD_ANY, NULL},
    {"num_heads", FV_FIELD_ANY, NULL},
    {"num_reg_tokens", FV_FIELD_ANY, NULL},
    {"patch_drop_rate", FV_FIELD_ANY, NULL},
    {"patch_size", FV_FIELD_ANY, NULL},
    {"pool_include_prefix", FV_FIELD_FALSE, NULL},
    {"pos_drop_rate", FV_FIELD_ANY, NULL},
    {"pre_norm", FV_FIELD_ANY, NULL},
    {"proj_drop_rate", FV_FIELD_ANY, NULL},
    {"qkv_bias", FV_FIELD_ANY, NULL},
    {"reg_tokens", FV_FIELD_ANY, NULL},
    {"scale_mlp", FV_FIELD_ANY, NULL},
    {"strict_img_size", FV_FIELD_ANY, NULL},
    {"swiglu_mlp", FV_FIELD_ANY, NULL},
    {"use_abs_pos_emb", FV_FIELD_ANY, NULL},
    {"use_fc_norm", FV_FIELD_ANY, NULL},
    {"use_rel_pos_bias", FV_FIELD_ANY, NULL},
    {"use_shared_rel_pos_bias", FV_FIELD_ANY, NULL},
    {"weight_init", FV_FIELD_ANY, NULL},
    {"", FV_FIELD_ANY, NULL},
};

/* Arguments of the constructors of MAViT, NaLaFormer and PolaFormer, and the fields of the necks
 * and heads that detectors put on them. */
static const fv_field pyramids[] = {
    {"alpha", FV_FIELD_ANY, NULL},
    {"ape", FV_FIELD_ANY, NULL},
    {"architectures", FV_FIELD_ANY, NULL},
    {"attn_drop_rate", FV_FIELD_ANY, NULL},
    {"attn_type", FV_FIELD_ANY, NULL},
    {"auxiliary_head", FV_FIELD_ANY, NULL},
    {"bbox_head", FV_FIELD_ANY, NULL},
    {"decode_head", FV_FIELD_ANY, NULL},
    {"depths", FV_FIELD_ANY, NULL},
    {"drop_path_rate", FV_FIELD_ANY, NULL},
    {"drop_rate", FV_FIELD_ANY, NULL},
    {"dtype", FV_FIELD_ANY, NULL},
    {"embed_dim", FV_FIELD_ANY, NULL},
    {"embed_dims", FV_FIELD_ANY, NULL},
    {"flagss", FV_FIELD_ANY, NULL},
    {"fovea", FV_FIELD_ANY, NULL},
    {"frozen_stages", FV_FIELD_ANY, NULL},
    {"golden", FV_FIELD_ANY, NULL},
    {"id2label", FV_FIELD_ANY, NULL},
    {"image_size", FV_FIELD_ANY, NULL},
    {"img_size", FV_FIELD_ANY, NULL},
    {"in_chans", FV_FIELD_ANY, NULL},
    {"kernel_size", FV_FIELD_ANY, NULL},
    {"la_sr_ratios", FV_FIELD_ANY, NULL},
    {"label2id", FV_FIELD_ANY, NULL},
    {"layer_init_values", FV_FIELD_ANY, NULL},
    {"layerscales", FV_FIELD_ANY, NULL},
    {"mlp_ratio", FV_FIELD_ANY, NULL},
    {"mlp_ratios", FV_FIELD_ANY, NULL},
    {"model_type", FV_FIELD_ANY, NULL},
    {"neck", FV_FIELD_ANY, NULL},
    {"num_classes", FV_FIELD_ANY, NULL},
    {"num_heads", FV_FIELD_ANY, NULL},
    {"out_indices", FV_FIELD_ANY, NULL},
    {"patch_norm", FV_FIELD_ANY, NULL},
    {"patch_size", FV_FIELD_ANY, NULL},
    {"pretrained", FV_FIELD_ANY, NULL},
    {"pretrained_cfg", FV_FIELD_ANY, NULL},
    {"projection", FV_FIELD_ANY, NULL},
    {"qk_scale", FV_FIELD_ANY, NULL},
    {"qkv_bias", FV_FIELD_ANY, NULL},
    {"sr_ratios", FV_FIELD_ANY, NULL},
    {"test_cfg", FV_FIELD_ANY, NULL},
    {"torch_dtype", FV_FIELD_ANY, NULL},
    {"train_cfg", FV_FIELD_ANY, NULL},
    {"transformers_version", FV_FIELD_ANY, NULL},
    {"use_checkpoint", FV_FIELD_ANY, NULL},
    {"window_size", FV_FIELD_ANY, NULL},
    {"", FV_FIELD_ANY, NULL},
};

/* ENOTSUP: what a file says of its quantisation. */
static fovea_status fail_quantised(const fv_config *c, const json_t *value)
{
    static const char *const converted[] = {"torchao", "bitsandbytes", "compressed-tensors",
                                            "fp8",     "fbgemm_fp8",   "modelopt"};
    const char *method = json_string_value(json_object_get(value, "quant_method"));
    const char *slash = strrchr(c->file, '/');
    const int folder = slash ? (int)(slash - c->file) : 1;
    if (method && fv_index_of(method, converted, sizeof converted / sizeof *converted) < 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: quantised by %.60s, which is not supported; take the model that it was "
                       "made of, of which --dtype int8 stores weights in 8 bits",
                       c->file, method);
    return fv_fail(
        FOVEA_ENOTSUP,
        "%s: quantised by %.60s; \"fovea convert %.*s OUT\" makes a float32 model of it, "
        "of which --dtype int8 stores weights in 8 bits",
        c->file, method ? method : "another program", folder, slash ? c->file : ".");
}

/* `more`: a second list, or NULL. */
static fovea_status check(const fv_config *c, const fv_field *list, const fv_field *more,
                          const json_t *ignore)
{
    static const char *const quantised[] = {"quantization_config", "compression_config"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = fv_config_get(c, quantised[i]);
        if (value && !fv_field_list_has(ignore, quantised[i]))
            return fail_quantised(c, value);
    }
    return fv_field_list_check(c, list, more, ignore, "what the encoder computes");
}

fovea_status fv_fields_check_section(const fv_config *section, const fv_config *config,
                                     const fv_field *list)
{
    fv_config own;
    const json_t *ignore;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_field_list_ignore(&ignore, &own));
    return check(section, list, NULL, ignore);
}

fovea_status fv_fields_ignored(bool *out, const fv_config *config, const char *name)
{
    fv_config own;
    const json_t *ignore;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_field_list_ignore(&ignore, &own));
    *out = fv_field_list_has(ignore, name);
    return FOVEA_OK;
}

fovea_status fv_fields_check_pyramid(const fv_config *config)
{
    return fv_fields_check_section(config, config, pyramids);
}

fovea_status fv_fields_check(const fv_config *config, const fv_config *vision, const fv_config *own,
                             const fv_field *more)
{
    fv_config arguments;
    const json_t *ignore;
    FV_TRY(fv_field_list_ignore(&ignore, own));
    FV_TRY(fv_config_section(&arguments, config, "model_args"));
    if (arguments.object)
        FV_TRY(check(&arguments, timm, more, ignore));
    if (fv_config_get(config, "architecture"))
        return FOVEA_OK;
    return check(vision, transformers, more, ignore);
}
