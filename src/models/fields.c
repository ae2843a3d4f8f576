/* fields.c: lists the fields that a model's config.json may have. */
#include "models/fields.h"

#include <string.h>

#include "base/num.h"

/* Fields of transformers' configurations of these models, including old versions. */
static const char transformers[] =
    "add_cross_attention=false apply_layernorm architectures attention_dropout "
    "attention_probs_dropout_prob bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty "
    "do_sample drop_path_rate dropout dtype early_stopping encoder_no_repeat_ngram_size "
    "encoder_stride eos_token_id exponential_decay_length_penalty finetuning_task "
    "forced_bos_token_id forced_eos_token_id fovea golden gradient_checkpointing hidden_act "
    "hidden_dropout_prob hidden_size id2label image_size initializer_factor initializer_range "
    "intermediate_size is_decoder=false is_encoder_decoder=false key_bias label2id layer_norm_eps "
    "layerscale_value length_penalty license logit_scale_init_value max_image_size max_img_size "
    "max_length min_length mlp_bias=true mlp_ratio model_type no_repeat_ngram_size "
    "num_attention_heads norm_mean norm_std num_beam_groups num_beams num_channels num_cls_tokens "
    "num_hidden_layers num_labels num_patches num_register_tokens num_registers "
    "num_return_sequences out_features out_indices output_attentions output_hidden_states "
    "output_scores pad_token_id patch_dim patch_size pooler_act=tanh pooler_output_size "
    "pos_embed_jitter pos_embed_rescale pos_embed_shift position_embedding_type=absolute prefix "
    "problem_type proj_bias=true projection_dim pruned_heads={} qkv_bias query_bias "
    "remove_invalid_values repetition_penalty reshape_hidden_states return_dict "
    "return_dict_in_generate rope_theta semantic_loss_ignore_index sep_token_id size stage_names "
    "summary_idxs suppress_tokens task_specific_params temperature text_config text_config_dict "
    "tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p "
    "torch_dtype torchscript transformers_version typical_p use_base_siglip use_bfloat16 "
    "use_gated_mlp use_mask_token use_swiglu_ffn value_bias vision_config vision_config_dict "
    "vision_use_head";

/* Arguments of timm's constructors whose values follow from the tensors, or that matter only in
 * training. */
static const char timm[] =
    "attn_drop_rate class_token depth drop_path_rate drop_rate dynamic_img_pad=false "
    "dynamic_img_size embed_dim fc_norm features_only global_pool head_init_scale img_size "
    "in_chans init_values mlp_ratio no_embed_class num_classes num_heads num_reg_tokens "
    "patch_drop_rate patch_size pool_include_prefix=false pos_drop_rate pre_norm proj_drop_rate "
    "qkv_bias reg_tokens scale_mlp strict_img_size swiglu_mlp use_abs_pos_emb use_fc_norm "
    "use_rel_pos_bias use_shared_rel_pos_bias weight_init";

/* Arguments of the constructors of MAViT, NaLaFormer and PolaFormer, and the fields of the necks
 * and heads that detectors add to them. */
static const char pyramids[] =
    "alpha ape architectures attn_drop_rate attn_type auxiliary_head bbox_head decode_head depths "
    "drop_path_rate drop_rate dtype embed_dim embed_dims flagss fovea frozen_stages golden "
    "id2label image_size img_size in_chans kernel_size la_sr_ratios label2id layer_init_values "
    "layerscales mlp_ratio mlp_ratios model_type neck num_classes num_heads out_features "
    "out_indices "
    "patch_norm patch_size pretrained pretrained_cfg projection qk_scale qkv_bias roi_head "
    "rpn_head sr_ratios "
    "test_cfg torch_dtype train_cfg transformers_version use_checkpoint window_size";

/* Fails with FOVEA_ENOTSUP and a message that names the file's quantisation method. */
static fovea_status fail_quantised(const fv_config *c, const json_t *value)
{
    static const char *const converted[] = {"torchao", "bitsandbytes", "compressed-tensors",
                                            "fp8",     "fbgemm_fp8",   "modelopt"};
    const char *method = json_string_value(json_object_get(value, "quant_method"));
    const char *slash = strrchr(c->file, '/');
    const int folder = slash ? (int)(slash - c->file) : 1;
    if (method && fv_index_of(method, converted, sizeof converted / sizeof *converted) < 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the model was quantised by %.60s, which is not supported; use the "
                       "original model, whose weights --dtype int8 stores in 8 bits",
                       c->file, method);
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: the model was quantised by %.60s; \"fovea convert %.*s OUT\" converts it "
                   "to float32, and --dtype int8 then stores its weights in 8 bits",
                   c->file, method ? method : "another program", folder, slash ? c->file : ".");
}

/* `more` is a second list, or NULL. */
static fovea_status check(const fv_config *c, const char *list, const char *more,
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
                                     const char *list)
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

fovea_status fv_fields_check_pyramid(const fv_config *pyramid, const fv_config *config)
{
    return fv_fields_check_section(pyramid, config, pyramids);
}

fovea_status fv_fields_check(const fv_config *config, const fv_config *vision, const fv_config *own,
                             const char *more)
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
