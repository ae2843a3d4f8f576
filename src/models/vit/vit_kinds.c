/* vit_kinds.c: the kinds of ViTs, and the model types of each kind in a configuration. */
#include <string.h>

#include "base/num.h"
#include "models/vit/vit_reader.h"
#include "ops/op.h"

#define CLASS FV_VIT_HAS_CLASS
#define BIAS FV_VIT_HAS_PATCH_BIAS
#define SCALES FV_VIT_HAS_SCALES
#define PRE_NORM FV_VIT_HAS_PRE_NORM
#define RMS_NORMS FV_VIT_HAS_RMS_NORMS
#define AXIAL FV_VIT_HAS_AXIAL
#define CLIP_NORMS (PRE_NORM | FV_VIT_HAS_POOLED_NORM)
const fv_vit_kind_info fv_vit_kinds[] = {
    [FV_VIT_PLAIN] = {"vit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VIT, CLASS | BIAS, FV_POS_PLAIN,
                      FV_HEAD_CLS},
    [FV_VIT_DEIT] = {"deit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_DEIT, CLASS | BIAS, FV_POS_PLAIN,
                     FV_HEAD_CLS},
    [FV_VIT_DINOV2] = {"dinov2", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_DINOV2, CLASS | BIAS | SCALES,
                       FV_POS_PLAIN, FV_HEAD_CLS_MEAN},
    [FV_VIT_REGISTERS] = {"dinov2_with_registers", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_DINOV2,
                          CLASS | BIAS | SCALES, FV_POS_AA, FV_HEAD_CLS_MEAN},
    [FV_VIT_DINOV3] = {"dinov3_vit", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_DINOV3, CLASS | BIAS | SCALES,
                       FV_POS_PLAIN, FV_HEAD_CLS},
    [FV_VIT_IJEPA] = {"ijepa", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VIT, BIAS, FV_POS_PLAIN,
                      FV_HEAD_MEAN},
    [FV_VIT_CLIP] = {"clip_vision_model", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_CLIP,
                     CLASS | CLIP_NORMS, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_OWL] = {"owlv2_vision_model", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_OWL,
                    CLASS | CLIP_NORMS, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_SIGLIP] = {"siglip_vision_model", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_SIGLIP, BIAS,
                       FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_NAFLEX] = {"siglip2_vision_model", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_NAFLEX, BIAS,
                       FV_POS_BILINEAR_AA, FV_HEAD_MEAN},
    [FV_VIT_IDEFICS] = {"idefics3_vision", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_IDEFICS, BIAS,
                        FV_POS_BUCKETS, FV_HEAD_MEAN},
    [FV_VIT_RADIO] = {"radio", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_RADIO, SCALES, FV_POS_CROPPED,
                      FV_HEAD_MEAN},
    [FV_VIT_BEIT] = {"beit", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_BEIT, CLASS | BIAS, FV_POS_PLAIN,
                     FV_HEAD_POOL},
    [FV_VIT_POSE] = {"vitpose_backbone", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_VITPOSE, BIAS,
                     FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_TIPS] = {"tipsv2_vision_model", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_TIPS,
                     CLASS | BIAS | SCALES, FV_POS_BILINEAR_AA, FV_HEAD_CLS_MEAN},
    [FV_VIT_PIXIO] = {"pixio", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_PIXIO, CLASS | BIAS, FV_POS_PLAIN,
                      FV_HEAD_CLS},
    [FV_VIT_GIT] = {"git_vision_model", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_CLIP,
                    CLASS | PRE_NORM, FV_POS_PLAIN, FV_HEAD_CLS},
    [FV_VIT_BLIP] = {"blip_vision_model", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_BLIP, CLASS | BIAS,
                     FV_POS_PLAIN, FV_HEAD_CLS},
    [FV_VIT_JANUS] = {"janus_vision_model", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_BLIP, BIAS,
                      FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_INTERN] = {"internvl_vision", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_BLIP,
                       CLASS | BIAS | SCALES, FV_POS_PLAIN, FV_HEAD_CLS},
    [FV_VIT_AIM] = {"aimv2_vision_model", 1e-5f, FV_EPI_SILU, FV_PROCESSOR_CLIP, BIAS | RMS_NORMS,
                    FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_MLCD] = {"mlcd_vision_model", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_CLIP,
                     CLASS | CLIP_NORMS | AXIAL, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_MGP] = {"mgp-str", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_VIT, CLASS | BIAS, FV_POS_PLAIN,
                    FV_HEAD_CLS},
    [FV_VIT_LW_DETR] = {"lw_detr_vit", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_LW_DETR, BIAS | SCALES,
                        FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_YOLOS] = {"yolos", 1e-12f, FV_EPI_GELU, FV_PROCESSOR_LW_DETR, CLASS | BIAS,
                      FV_POS_PLAIN, FV_HEAD_CLS},
    [FV_VIT_QWEN2] = {"qwen2_vl_vision", 1e-6f, FV_EPI_GELU_QUICK, FV_PROCESSOR_BLIP, AXIAL,
                      FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_QWEN2_5] = {"qwen2_5_vl_vision", 1e-6f, FV_EPI_SILU, FV_PROCESSOR_BLIP,
                        AXIAL | RMS_NORMS, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_QWEN3] = {"qwen3_vl_vision", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_SIGLIP, BIAS | AXIAL,
                      FV_POS_CORNERS, FV_HEAD_MEAN},
    [FV_VIT_GLM] = {"glm4v_vision", 1e-5f, FV_EPI_SILU, FV_PROCESSOR_BLIP, BIAS | AXIAL | RMS_NORMS,
                    FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_GLM_OCR] = {"glm_ocr_vision", 1e-5f, FV_EPI_SILU, FV_PROCESSOR_BLIP,
                        BIAS | AXIAL | RMS_NORMS | FV_VIT_HAS_HEAD_NORMS, FV_POS_PLAIN,
                        FV_HEAD_MEAN},
    [FV_VIT_GLM_IMAGE] = {"glm_image_vision", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_BLIP, BIAS,
                          FV_POS_BILINEAR, FV_HEAD_MEAN},
    [FV_VIT_PIXTRAL] = {"pixtral", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_BLIP,
                        AXIAL | RMS_NORMS | PRE_NORM, FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_KIMI] = {"kimi_k25_vision", 1e-5f, FV_EPI_GELU_TANH, FV_PROCESSOR_SIGLIP, BIAS | AXIAL,
                     FV_POS_PLAIN, FV_HEAD_MEAN},
    [FV_VIT_PADDLE] = {"paddleocr_vl_vision", 1e-6f, FV_EPI_GELU_TANH, FV_PROCESSOR_BLIP,
                       BIAS | AXIAL, FV_POS_BILINEAR, FV_HEAD_MEAN},
    [FV_VIT_HUNYUAN] = {"hunyuan_vl_vision", 1e-5f, FV_EPI_GELU, FV_PROCESSOR_BLIP, BIAS,
                        FV_POS_BILINEAR, FV_HEAD_MEAN},
    [FV_VIT_STEP] = {"step3p5_vision", 1e-5f, FV_EPI_GELU_QUICK, FV_PROCESSOR_BLIP,
                     AXIAL | SCALES | PRE_NORM, FV_POS_BILINEAR, FV_HEAD_MEAN},
    [FV_VIT_EVA] = {"eva", 1e-6f, FV_EPI_GELU, FV_PROCESSOR_TIMM, 0, FV_POS_AA, FV_HEAD_CLS},
};

/* Fields of configurations in addition to those of all ViTs. */
#define OF_MAE                                                                                     \
    "decoder_hidden_size decoder_intermediate_size decoder_num_attention_heads "                   \
    "decoder_num_hidden_layers mask_ratio norm_pix_loss"
#define OF_FLAVA "mask_token vocab_size"
#define OF_INTERN                                                                                  \
    "attention_bias hidden_dropout_rate layer_scale_init_value norm_type=layer_norm "              \
    "projection_dropout use_absolute_position_embeddings=true use_mean_pooling use_qk_norm=false " \
    "auto_map qk_normalization=false use_flash_attn"
#define OF_JANUS                                                                                   \
    "attention_bias depth hidden_dropout_rate num_image_tokens projection_dropout "                \
    "use_qk_norm=false"
#define OF_STEP "layer_scale_init_value max_position_embeddings rope_parameters"
#define OF_MOLMO "attention_bias=true head_dim num_key_value_heads num_position_embeddings"
/* what PaliGemma adds to the section of its tower */
#define OF_PALIGEMMA "num_image_tokens num_positions projector_hidden_act vocab_size"
#define OF_AIM                                                                                     \
    "hidden_stride is_native=false mlp_bias num_visual_indicator_tokens rms_norm_eps "             \
    "tokenize_function use_head vocab_size"
#define OF_MGP                                                                                     \
    "attn_drop_rate distilled=false drop_rate max_token_length num_bpe_labels "                    \
    "num_character_labels num_wordpiece_labels output_a3_attentions"
/* Sizes under other names, which are read, and those of parts after the tower. */
#define OF_VL                                                                                      \
    "attention_bias depth embed_dim in_channels in_chans num_heads out_hidden_size "               \
    "rope_parameters spatial_merge_size spatial_patch_size temporal_patch_size"
#define OF_QWEN2_5 OF_VL " fullatt_block_indexes tokens_per_second window_size"
#define OF_QWEN3 OF_VL " deepstack_visual_indexes num_position_embeddings"
#define OF_GLM OF_VL " rms_norm_eps"
#define OF_PIXTRAL "head_dim is_composition rope_parameters"
#define OF_KIMI                                                                                    \
    "merge_kernel_size pos_emb_height pos_emb_time pos_emb_width pos_emb_type=divided_fixed "      \
    "rope_parameters video_attn_type=spatial_temporal"
#define OF_ERNIE OF_VL " rms_norm_eps temporal_merge_size"
#define OF_PADDLE "rope_parameters spatial_merge_size temporal_patch_size tokens_per_second"
#define OF_HUNYUAN                                                                                 \
    "img_max_token_num interpolate_mode=bilinear max_vit_seq_len min_image_size "                  \
    "num_key_value_heads out_hidden_size rms_norm_eps spatial_merge_size temporal_patch_size "     \
    "text_hidden_size"
#define OF_GRANITE "deepstack_visual_indexes out_hidden_size scale_factor use_fine_route"

/* The first line that fits a name applies. */
static const fv_vit_type types[] = {
    {"vit", .kind = FV_VIT_PLAIN},
    {"vit_msn", .kind = FV_VIT_PLAIN, .eps = 1e-6f, .heads = 12},
    {"vit_mae", .kind = FV_VIT_PLAIN, .heads = 12, .fields = OF_MAE},
    {"flava", .kind = FV_VIT_PLAIN, .processor = FV_PROCESSOR_BLIP, .fields = OF_FLAVA},
    {"flava_image_model", .kind = FV_VIT_PLAIN, .processor = FV_PROCESSOR_CLIP, .heads = 12,
     .fields = OF_FLAVA},
    {"pixio", .kind = FV_VIT_PIXIO, .fields = "n_cls_tokens"},
    {"deit", .kind = FV_VIT_DEIT},
    {"dinov2", .kind = FV_VIT_DINOV2},
    {"dinov2_with_registers", .kind = FV_VIT_REGISTERS},
    {"tipsv2", .kind = FV_VIT_TIPS},
    {"tipsv2_vision_model", .kind = FV_VIT_TIPS},
    {"dinov3_vit", .kind = FV_VIT_DINOV3},
    {"ijepa", .kind = FV_VIT_IJEPA},
    {"radio", .kind = FV_VIT_RADIO},
    {"vitpose_backbone", .kind = FV_VIT_POSE},
    {"beit", .kind = FV_VIT_BEIT, .fields = fv_vit_bias_fields},
    {"data2vec-vision", .kind = FV_VIT_BEIT, .fields = fv_vit_bias_fields},
    {"owlv2", .kind = FV_VIT_OWL, .processor = FV_PROCESSOR_OWLV2},
    {"owlv2_vision_model", .kind = FV_VIT_OWL, .processor = FV_PROCESSOR_OWLV2},
    {"owlvit", .kind = FV_VIT_OWL},
    {"owlvit_vision_model", .kind = FV_VIT_OWL},
    {"clip", .kind = FV_VIT_CLIP},
    {"clip_vision_model", .kind = FV_VIT_CLIP},
    {"metaclip_2", .kind = FV_VIT_CLIP},
    {"metaclip_2_vision_model", .kind = FV_VIT_CLIP},
    {"altclip", .kind = FV_VIT_CLIP},
    {"altclip_vision_model", .kind = FV_VIT_CLIP},
    {"chinese_clip", .kind = FV_VIT_CLIP},
    {"chinese_clip_vision_model", .kind = FV_VIT_CLIP},
    {"clipseg", .kind = FV_VIT_CLIP, .processor = FV_PROCESSOR_VIT},
    {"clipseg_vision_model", .kind = FV_VIT_CLIP, .processor = FV_PROCESSOR_VIT},
    {"kosmos-2", .kind = FV_VIT_CLIP, .heads = 16},
    {"kosmos_2_vision_model", .kind = FV_VIT_CLIP, .heads = 16},
    {"git", .kind = FV_VIT_GIT},
    {"git_vision_model", .kind = FV_VIT_GIT},
    {"mlcd_vision_model", .kind = FV_VIT_MLCD, .heads = 16,
     .fields = "num_key_value_groups=true rope_parameters"},
    {"blip", .kind = FV_VIT_BLIP},
    {"blip_vision_model", .kind = FV_VIT_BLIP},
    {"blip-2", .kind = FV_VIT_BLIP, .eps = 1e-6f, .heads = 16},
    {"blip_2_vision_model", .kind = FV_VIT_BLIP, .eps = 1e-6f, .heads = 16},
    {"instructblip", .kind = FV_VIT_BLIP, .eps = 1e-6f, .heads = 16},
    {"instructblip_vision_model", .kind = FV_VIT_BLIP, .eps = 1e-6f, .heads = 16},
    {"instructblipvideo", .kind = FV_VIT_BLIP, .eps = 1e-6f, .heads = 16},
    {"instructblipvideo_vision_model", .kind = FV_VIT_BLIP, .eps = 1e-6f, .heads = 16},
    {"siglip2", .kind = FV_VIT_NAFLEX},
    {"siglip2_vision_model", .kind = FV_VIT_NAFLEX},
    {"siglip", .kind = FV_VIT_SIGLIP},
    {"siglip_vision_model", .kind = FV_VIT_SIGLIP, .fields = OF_PALIGEMMA},
    {"janus", .kind = FV_VIT_JANUS, .heads = 16, .fields = OF_JANUS},
    {"janus_vision_model", .kind = FV_VIT_JANUS, .heads = 16, .fields = OF_JANUS},
    {"idefics2", .kind = FV_VIT_IDEFICS, .processor = FV_PROCESSOR_SIGLIP, .heads = 12},
    {"idefics2_vision", .kind = FV_VIT_IDEFICS, .processor = FV_PROCESSOR_SIGLIP, .heads = 12},
    {"idefics3", .kind = FV_VIT_IDEFICS, .heads = 16},
    {"idefics3_vision", .kind = FV_VIT_IDEFICS, .heads = 16},
    {"smolvlm", .kind = FV_VIT_IDEFICS, .heads = 16},
    {"smolvlm_vision", .kind = FV_VIT_IDEFICS, .heads = 16},
    {"granite_docling", .kind = FV_VIT_IDEFICS, .heads = 12, .fields = OF_GRANITE},
    {"granite_docling_vision", .kind = FV_VIT_IDEFICS, .heads = 12, .fields = OF_GRANITE},
    {"internvl", .kind = FV_VIT_INTERN, .heads = 16, .fields = OF_INTERN},
    {"internvl_vision", .kind = FV_VIT_INTERN, .heads = 16, .fields = OF_INTERN},
    {"intern_vit_6b", .kind = FV_VIT_INTERN, .heads = 16, .fields = OF_INTERN},
    {"qianfan_ocr", .kind = FV_VIT_INTERN, .heads = 16, .fields = OF_INTERN},
    {"qianfan_ocr_vision", .kind = FV_VIT_INTERN, .heads = 16, .fields = OF_INTERN},
    {"aimv2", .kind = FV_VIT_AIM, .heads = 8, .fields = OF_AIM},
    {"aimv2_vision_model", .kind = FV_VIT_AIM, .heads = 8, .fields = OF_AIM},
    {"ovis2", .kind = FV_VIT_AIM, .heads = 8, .fields = OF_AIM},
    {"ovis2_vision", .kind = FV_VIT_AIM, .heads = 8, .fields = OF_AIM},
    {"mgp-str", .kind = FV_VIT_MGP, .fields = OF_MGP},
    {"qwen2_vl", .kind = FV_VIT_QWEN2, .heads = 16, .fields = OF_VL},
    {"qwen2_vl_vision", .kind = FV_VIT_QWEN2, .heads = 16, .fields = OF_VL},
    {"ernie4_5_vl_moe", .kind = FV_VIT_QWEN2, .heads = 16, .fields = OF_ERNIE},
    {"ernie4_5_vl_moe_vision", .kind = FV_VIT_QWEN2, .heads = 16, .fields = OF_ERNIE},
    {"qwen2_5_vl", .kind = FV_VIT_QWEN2_5, .heads = 16, .fields = OF_QWEN2_5},
    {"qwen2_5_vl_vision", .kind = FV_VIT_QWEN2_5, .heads = 16, .fields = OF_QWEN2_5},
    {"qwen2_5_omni_vision_encoder", .kind = FV_VIT_QWEN2_5, .heads = 16, .fields = OF_QWEN2_5},
    {"qwen3_vl", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_vl_vision", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_vl_moe", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_vl_moe_vision", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_5", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_5_vision", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_5_moe", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_5_moe_vision", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen3_omni_moe_vision_encoder", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen4_exp", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"qwen4_exp_vision", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"cohere_compass", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"cohere_compass_vision", .kind = FV_VIT_QWEN3, .heads = 16, .fields = OF_QWEN3},
    {"glm4v", .kind = FV_VIT_GLM, .heads = 12, .fields = OF_GLM},
    {"glm4v_vision", .kind = FV_VIT_GLM, .heads = 12, .fields = OF_GLM},
    {"glm4v_moe", .kind = FV_VIT_GLM, .heads = 12, .fields = OF_GLM},
    {"glm4v_moe_vision", .kind = FV_VIT_GLM, .heads = 12, .fields = OF_GLM},
    {"glm_ocr", .kind = FV_VIT_GLM_OCR, .heads = 16, .fields = OF_GLM},
    {"glm_ocr_vision", .kind = FV_VIT_GLM_OCR, .heads = 16, .fields = OF_GLM},
    {"glm_image", .kind = FV_VIT_GLM_IMAGE, .heads = 16, .fields = OF_VL},
    {"glm_image_vision", .kind = FV_VIT_GLM_IMAGE, .heads = 16, .fields = OF_VL},
    {"pixtral", .kind = FV_VIT_PIXTRAL, .heads = 16, .fields = OF_PIXTRAL},
    {"kimi_k25", .kind = FV_VIT_KIMI, .heads = 16, .fields = OF_KIMI},
    {"kimi_k25_vision", .kind = FV_VIT_KIMI, .heads = 16, .fields = OF_KIMI},
    {"video_llama_3", .kind = FV_VIT_PADDLE, .fields = OF_PADDLE},
    {"video_llama_3_vision", .kind = FV_VIT_PADDLE, .heads = 12, .fields = OF_PADDLE},
    {"paddleocr_vl", .kind = FV_VIT_PADDLE, .heads = 16, .fields = OF_PADDLE},
    {"paddleocr_vl_vision", .kind = FV_VIT_PADDLE, .heads = 16, .fields = OF_PADDLE},
    {"hunyuan_vl", .kind = FV_VIT_HUNYUAN, .heads = 16, .fields = OF_HUNYUAN},
    {"hunyuan_vl_vision", .kind = FV_VIT_HUNYUAN, .heads = 16, .fields = OF_HUNYUAN},
    {"hy_v4_vl", .kind = FV_VIT_HUNYUAN, .heads = 16, .fields = OF_HUNYUAN},
    {"hy_v4_vl_vision", .kind = FV_VIT_HUNYUAN, .heads = 16, .fields = OF_HUNYUAN},
    {"step3p5_vision", .kind = FV_VIT_STEP, .heads = 16, .fields = OF_STEP},
    {"molmo2_vision", .kind = FV_VIT_NAFLEX, .heads = 16, .fields = OF_MOLMO},
    {"cosmos3_edge", .kind = FV_VIT_NAFLEX, .heads = 16, .fields = "spatial_merge_size"},
    {"cosmos3_edge_vision", .kind = FV_VIT_NAFLEX, .heads = 16, .fields = "spatial_merge_size"},
    {"dinov3_vit", "", FV_VIT_DINOV3},
    {"dinov2_vit", "_reg", FV_VIT_REGISTERS},
    {"dinov2_vit", "", FV_VIT_DINOV2},
    {"vit_", "_dinov3", FV_VIT_DINOV3},
    {"vit_", "_lingbot", FV_VIT_DINOV3},
    {"vit_pe_", "", FV_VIT_EVA},
    {"vit_", "_rope_", FV_VIT_EVA},
    {"beit_", "", FV_VIT_BEIT, .fields = fv_vit_bias_fields},
    {"beitv2_", "", FV_VIT_BEIT, .fields = fv_vit_bias_fields},
    {"eva_", "", FV_VIT_EVA},
    {"eva02_", "", FV_VIT_EVA},
    {"vit_", "_reg4_dinov2", FV_VIT_REGISTERS},
    {"vit_", "_dinov2", FV_VIT_DINOV2},
    {"vit_", "_clip_", FV_VIT_CLIP},
    {"vit_", "_siglip_", FV_VIT_SIGLIP},
    {"vit_", "", FV_VIT_PLAIN},
    {"deit", "", FV_VIT_DEIT},
    {"flexivit_", "", FV_VIT_PLAIN},
    {"beit3_", "", FV_VIT_PLAIN},
    {"test_vit", "", FV_VIT_PLAIN},
};

const fv_vit_type *fv_vit_find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *part = types[i].part;
        if (part ? fv_begins_with(name, types[i].begin) && strstr(name, part)
                 : strcmp(name, types[i].begin) == 0)
            return &types[i];
    }
    return NULL;
}

bool fv_vit_owns(const char *model_type)
{
    return fv_vit_find_type(model_type) != NULL;
}

const char *fv_vit_type_name(size_t i)
{
    if (i >= sizeof types / sizeof *types)
        return NULL;
    return types[i].part ? "" : types[i].begin;
}
