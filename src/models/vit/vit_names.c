/* vit_names.c: the names of tensors in the ViT families, by library. */
#include "models/vit/vit.h"

#define KIND(kind) (UINT64_C(1) << FV_VIT_##kind)
#define DINO_KINDS (KIND(DINOV2) | KIND(REGISTERS) | KIND(TIPS))
#define ALL_KINDS                                                                                  \
    (KIND(PLAIN) | KIND(DEIT) | KIND(DINOV2) | KIND(REGISTERS) | KIND(CLIP) | KIND(SIGLIP))
#define EVA_KINDS (KIND(EVA) | KIND(DINOV3) | KIND(BEIT))

const char *const fv_vit_prefixes[] = {
    "",
    "vit.",
    "deit.",
    "dinov2.",
    "dinov2_with_registers.",
    "vision_model.",
    "backbone.",
    "visual.",
    "visual.trunk.",
    "ijepa.",
    "vision_tower.",
    "vision_tower.vision_model.",
    "owlvit.vision_model.",
    "owlv2.vision_model.",
    "clip.vision_model.",
    "radio_model.model.",
    "beit.",
    "data2vec_vision.",
    "image_model.",
    "flava.image_model.",
    "vision_model.model.",
    "transformer.",
    "vision_model.transformer.",
    "vision_tower.transformer.",
    "mgp_str.",
    "vlm.vision_tower.",
    "vlm.vision_model.",
    "visual.vision_model.",
    "thinker.visual.",
    "vision_encoder.",
    "vlm.visual.",
    NULL,
};

/* Names that several schemes of transformers' encoders, or of the original repositories, share. */
#define HF_EMBEDDING                                                                               \
    .patch = "embeddings.patch_embeddings.projection.", .cls = "embeddings.cls_token",             \
    .pos = "embeddings.position_embeddings", .post = "layernorm.", .head = "classifier."
#define HF_BLOCK                                                                                   \
    .block = "encoder.layer.%u.", .q = "attention.attention.query.",                               \
    .k = "attention.attention.key.", .v = "attention.attention.value.",                            \
    .proj = "attention.output.dense."
#define HF_NAMES HF_EMBEDDING, HF_BLOCK
#define PROJECTIONS                                                                                \
    .q = "attention.q_proj.", .k = "attention.k_proj.", .v = "attention.v_proj.",                  \
    .proj = "attention.o_proj."
#define DINO_BLOCK                                                                                 \
    .reg = "embeddings.register_tokens", .ln1 = "norm1.", .ln2 = "norm2.",                         \
    .ls1 = "layer_scale1.lambda1", .ls2 = "layer_scale2.lambda1", .fc1 = "mlp.fc1.",               \
    .fc2 = "mlp.fc2."
#define VIT_HEADS                                                                                  \
    .dist = "embeddings.distillation_token", .ln1 = "layernorm_before.",                           \
    .ln2 = "layernorm_after.", .pooler = "pooler.dense.", .head_cls = "cls_classifier.",           \
    .head_dist = "distillation_classifier."
#define DINOV3_NAMES                                                                               \
    PROJECTIONS, .patch = "embeddings.patch_embeddings.", .cls = "embeddings.cls_token",           \
                 .reg = "embeddings.register_tokens", .post = "norm.", .ln1 = "norm1.",            \
                 .ln2 = "norm2.", .ls1 = "layer_scale1.lambda1", .ls2 = "layer_scale2.lambda1",    \
                 .fc1 = "mlp.up_proj.", .fc2 = "mlp.down_proj.", .gated2 = "mlp.down_proj.",       \
                 .gate = "mlp.gate_proj.", .up = "mlp.up_proj.", .head = "classifier."
#define CLIP_LAYERS                                                                                \
    .patch = "embeddings.patch_embedding.", .cls = "embeddings.class_embedding",                   \
    .post = "post_layernorm.", .ln1 = "layer_norm1.", .ln2 = "layer_norm2.", .fc1 = "mlp.fc1.",    \
    .fc2 = "mlp.fc2."
#define CLIP_ATTENTION                                                                             \
    CLIP_LAYERS, .pos = "embeddings.position_embedding.weight", .q = "self_attn.q_proj.",          \
                 .k = "self_attn.k_proj.", .v = "self_attn.v_proj."
#define CLIP_NAMES CLIP_ATTENTION, .proj = "self_attn.out_proj."
#define AIM_NAMES                                                                                  \
    .pos = "embeddings.position_embedding.weight", .embed_norm = "embeddings.rms_norm.",           \
    .post = "rms_norm.", .block = "encoder.layers.%u.", .ln1 = "rms_norm1.", .ln2 = "rms_norm2.",  \
    .q = "attention.q_proj.", .k = "attention.k_proj.", .v = "attention.v_proj.",                  \
    .proj = "attention.out_proj.", .gate = "ffn.gate_proj.", .up = "ffn.up_proj.",                 \
    .gated2 = "ffn.down_proj."
#define INTERN_NAMES                                                                               \
    HF_EMBEDDING, .q = "attention.q_proj.", .k = "attention.k_proj.", .v = "attention.v_proj.",    \
                  .proj = "attention.projection_layer.", .ln1 = "layernorm_before.",               \
                  .ln2 = "layernorm_after.", .ls1 = "lambda_1", .ls2 = "lambda_2",                 \
                  .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."
#define ORIGINAL_BLOCK                                                                             \
    .post = "norm.", .block = "blocks.%u.", .ln1 = "norm1.", .ln2 = "norm2.",                      \
    .proj = "attn.proj.", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."
#define BLOCK_NAMES                                                                                \
    ORIGINAL_BLOCK, .patch = "patch_embed.proj.", .cls = "cls_token", .pos = "pos_embed"
#define ORIGINAL_NAMES BLOCK_NAMES, .qkv = "attn.qkv.", .ls1 = "ls1.gamma", .ls2 = "ls2.gamma"
#define POOL_NAMES                                                                                 \
    .probe = "attn_pool.latent", .map_q = "attn_pool.q.", .map_kv = "attn_pool.kv.",               \
    .map_proj = "attn_pool.proj.", .map_ln = "attn_pool.norm.", .map_fc1 = "attn_pool.mlp.fc1.",   \
    .map_fc2 = "attn_pool.mlp.fc2.", .fc_norm = "fc_norm.", .head = "head."
#define EVA_NAMES                                                                                  \
    BLOCK_NAMES, POOL_NAMES, .reg = "reg_token", .pre = "norm_pre.", .ls1 = "gamma_1",             \
                             .ls2 = "gamma_2", .frequencies = "rope.freqs", .inner = "attn.norm.", \
                             .inner_mlp = "mlp.norm."

/* encoders of vision-language models with the block names of the original ViT */
#define VL_PATCH_BLOCK                                                                             \
    .patch = "patch_embed.proj.", .block = "blocks.%u.", .ln1 = "norm1.", .ln2 = "norm2.",         \
    .proj = "attn.proj."
#define VL_BLOCK VL_PATCH_BLOCK, .qkv = "attn.qkv."
#define QWEN2_MERGER                                                                               \
    .merger_norm = "merger.ln_q.", .merger_fc1 = "merger.mlp.0.", .merger_fc2 = "merger.mlp.2."
#define VL_GATED .gate = "mlp.gate_proj.", .up = "mlp.up_proj.", .gated2 = "mlp.down_proj."
#define PIXTRAL_NAMES                                                                              \
    .patch = "patch_conv.", .pre = "ln_pre.", .block = "transformer.layers.%u.",                   \
    .ln1 = "attention_norm.", .ln2 = "ffn_norm."
#define KIMI_NAMES                                                                                 \
    .neighbours = true, .pos = "patch_embed.pos_emb.weight", .post = "encoder.final_layernorm.",   \
    .block = "encoder.blocks.%u.", .ln1 = "norm0.", .ln2 = "norm1.", .qkv = "wqkv.",               \
    .proj = "wo.", .fc1 = "mlp.fc0.", .fc2 = "mlp.fc1."
#define HUNYUAN_NAMES                                                                              \
    .patch = "embeddings.patch_embedding.", .pos = "embeddings.position_embedding.weight",         \
    .block = "layers.%u.", .q = "self_attn.q_proj.", .k = "self_attn.k_proj.",                     \
    .v = "self_attn.v_proj.", .proj = "self_attn.o_proj."

#define SCHEME(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
const fv_vit_names fv_vit_schemes[] = {
    /* transformers 5's memory, which has other names than its files: DINOv2 */
    SCHEME(.origin = FV_VIT_HF, .in_memory = true, .kinds = DINO_KINDS,
           .marks = {"encoder.layer.0.attention.q_proj.weight"}, HF_EMBEDDING, PROJECTIONS,
           DINO_BLOCK, .block = "encoder.layer.%u.", .gate = "mlp.gate_proj.", .up = "mlp.up_proj.",
           .gated2 = "mlp.down_proj."),
    /* transformers: DINOv2, with registers or without */
    SCHEME(.origin = FV_VIT_HF, .kinds = DINO_KINDS, .marks = {"encoder.layer.0.norm1.weight"},
           HF_NAMES, DINO_BLOCK, .gated1 = "mlp.weights_in.", .gated2 = "mlp.weights_out."),
    /* transformers: ViTPose's backbone */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(POSE),
           .marks = {"encoder.layer.0.layernorm_before.weight"}, HF_NAMES,
           .ln1 = "layernorm_before.", .ln2 = "layernorm_after.", .fc1 = "mlp.fc1.",
           .fc2 = "mlp.fc2."),
    /* transformers: LW-DETR's backbone */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(LW_DETR),
           .marks = {"encoder.layer.0.layernorm_before.weight"}, .patch = "embeddings.projection.",
           .pos = "embeddings.position_embeddings", .block = "encoder.layer.%u.",
           .ln1 = "layernorm_before.", .ln2 = "layernorm_after.", .q = "attention.attention.query.",
           .k = "attention.attention.key.", .v = "attention.attention.value.",
           .proj = "attention.output.", .ls1 = "gamma_1", .ls2 = "gamma_2",
           .fc1 = "intermediate.fc1.", .fc2 = "intermediate.fc2."),
    /* transformers: ViT, DeiT */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(PLAIN) | KIND(DEIT) | KIND(IJEPA),
           .marks = {"encoder.layer.0.layernorm_before.weight"}, HF_NAMES, VIT_HEADS,
           .fc1 = "intermediate.dense.", .fc2 = "output.dense."),
    /* transformers 5.24: what it saves for a classifier of MSN, whose blocks have no prefix */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(PLAIN),
           .marks = {"encoder.layer.0.layernorm_before.weight"}, HF_BLOCK, .head = "classifier.",
           .patch = "vit.embeddings.patch_embeddings.projection.",
           .cls = "vit.embeddings.cls_token", .pos = "vit.embeddings.position_embeddings",
           .post = "vit.layernorm.", .ln1 = "layernorm_before.", .ln2 = "layernorm_after.",
           .fc1 = "intermediate.dense.", .fc2 = "output.dense."),
    /* transformers: BEiT, Data2Vec for pictures */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(BEIT),
           .marks = {"encoder.layer.0.layernorm_before.weight"}, HF_NAMES,
           .ln1 = "layernorm_before.", .ln2 = "layernorm_after.", .ls1 = "lambda_1",
           .ls2 = "lambda_2", .fc1 = "intermediate.dense.", .fc2 = "output.dense.",
           .rel_bias = "attention.attention.relative_position_bias.relative_position_bias_table",
           .rel_bias_shared = "encoder.relative_position_bias.relative_position_bias_table",
           .fc_norm = "pooler.layernorm."),
    /* transformers: MLCD */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(MLCD), CLIP_NAMES, .block = "encoder.layers.%u.",
           .pre = "pre_layrnorm.", .class_angles = "class_pos_emb"),
    /* transformers 5: AltCLIP */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(CLIP),
           .marks = {"encoder.layer.0.self_attn.q_proj.weight"}, CLIP_NAMES,
           .block = "encoder.layer.%u.", .pre = "pre_layrnorm.",
           .embeds = "visual_projection.weight"),
    /* transformers: Molmo 2 */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(NAFLEX), .marks = {"positional_embedding"},
           .patch = "patch_embedding.", .pos = "positional_embedding", .block = "layers.%u.",
           .ln1 = "layer_norm1.", .ln2 = "layer_norm2.", .q = "self_attn.q_proj.",
           .k = "self_attn.k_proj.", .v = "self_attn.v_proj.", .proj = "self_attn.o_proj.",
           .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* transformers: Cosmos 3 Edge */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(NAFLEX),
           .marks = {"encoder.layers.0.self_attn.to_q.weight"},
           .patch = "embeddings.patch_embedding.", .pos = "embeddings.position_embedding.weight",
           .post = "post_layernorm.", .block = "encoder.layers.%u.", .ln1 = "layer_norm1.",
           .ln2 = "layer_norm2.", .q = "self_attn.to_q.", .k = "self_attn.to_k.",
           .v = "self_attn.to_v.", .proj = "self_attn.out_proj.", .fc1 = "mlp.up_proj.",
           .fc2 = "mlp.down_proj."),
    /* transformers: CLIP, SigLIP, SigLIP in Idefics3 */
    SCHEME(.origin = FV_VIT_HF,
           .kinds =
               KIND(CLIP) | KIND(GIT) | KIND(SIGLIP) | KIND(NAFLEX) | KIND(IDEFICS) | KIND(PADDLE),
           CLIP_NAMES, .block = "encoder.layers.%u.", .pre = "pre_layrnorm.", .probe = "head.probe",
           .map_qkv = "head.attention.in_proj_", .map_proj = "head.attention.out_proj.",
           .map_ln = "head.layernorm.", .map_fc1 = "head.mlp.fc1.", .map_fc2 = "head.mlp.fc2.",
           .head = "classifier.", .embeds = "visual_projection.weight"),
    /* transformers: OWL-ViT, OWLv2 */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(OWL), CLIP_NAMES, .block = "encoder.layers.%u.",
           .pre = "pre_layernorm."),
    /* transformers: BLIP and its successors */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(BLIP),
           .marks = {"encoder.layers.0.self_attn.qkv.weight"}, CLIP_LAYERS,
           .block = "encoder.layers.%u.", .pos = "embeddings.position_embedding",
           .qkv = "self_attn.qkv.", .proj = "self_attn.projection."),
    /* transformers: Janus */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(JANUS),
           .marks = {"encoder.layers.0.self_attn.projection_layer.weight"}, CLIP_ATTENTION,
           .block = "encoder.layers.%u.", .proj = "self_attn.projection_layer."),
    /* transformers: InternVL */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(INTERN),
           .marks = {"encoder.layer.0.attention.projection_layer.weight"}, INTERN_NAMES,
           .block = "encoder.layer.%u."),
    /* InternViT as its authors publish it, and Qianfan-OCR */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(INTERN),
           .marks = {"encoder.layers.0.attn.qkv.weight"}, .patch = "embeddings.patch_embedding.",
           .cls = "embeddings.class_embedding", .pos = "embeddings.position_embedding",
           .block = "encoder.layers.%u.", .ln1 = "norm1.", .ln2 = "norm2.", .qkv = "attn.qkv.",
           .proj = "attn.proj.", .ls1 = "ls1", .ls2 = "ls2", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* transformers: TIPSv2 */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(TIPS), .marks = {"blocks.0.mlp.c_fc.weight"},
           .patch = "patch_embed.proj.", .cls = "cls_token", .pos = "pos_embed",
           .reg = "register_tokens", .post = "norm.", .block = "blocks.%u.", .ln1 = "norm1.",
           .ln2 = "norm2.", .qkv = "attn.qkv.", .proj = "attn.proj.", .ls1 = "ls1.gamma",
           .ls2 = "ls2.gamma", .fc1 = "mlp.c_fc.", .fc2 = "mlp.c_proj."),
    /* transformers: AIMv2 */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(AIM), AIM_NAMES, .patch = "embeddings.patch_embed."),
    /* transformers: AIMv2 in Ovis2 */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(AIM), AIM_NAMES,
           .patch = "embeddings.patch_embedding."),
    /* transformers: MGP-STR */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(MGP), .patch = "embeddings.proj.",
           .cls = "embeddings.cls_token", .pos = "embeddings.pos_embed",
           .block = "encoder.blocks.%u.", .ln1 = "norm1.", .ln2 = "norm2.", .qkv = "attn.qkv.",
           .proj = "attn.proj.", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* transformers: Pixio */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(PIXIO), .marks = {"encoder.layer.0.norm1.weight"},
           HF_NAMES, .ln1 = "norm1.", .ln2 = "norm2.", .fc1 = "intermediate.dense.",
           .fc2 = "output.dense."),
    /* transformers 5's memory: Qianfan-OCR */
    SCHEME(.origin = FV_VIT_HF, .in_memory = true, .kinds = KIND(INTERN),
           .marks = {"layers.0.attention.projection_layer.weight"}, INTERN_NAMES,
           .block = "layers.%u."),
    /* transformers: DINOv3 */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(DINOV3), .marks = {"layer.0.attention.q_proj.weight"},
           DINOV3_NAMES, .block = "layer.%u."),
    /* transformers 5's memory: DINOv3 */
    SCHEME(.origin = FV_VIT_HF, .in_memory = true, .kinds = KIND(DINOV3),
           .marks = {"model.layer.0.attention.q_proj.weight"}, DINOV3_NAMES,
           .block = "model.layer.%u."),
    /* transformers 5's memory: ViT, DeiT, I-JEPA, Pixio */
    SCHEME(.origin = FV_VIT_HF, .in_memory = true,
           .kinds = KIND(PLAIN) | KIND(DEIT) | KIND(IJEPA) | KIND(PIXIO),
           .marks = {"layers.0.layernorm_before.weight"}, HF_EMBEDDING, PROJECTIONS, VIT_HEADS,
           .block = "layers.%u.", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* Qwen2-VL */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(QWEN2), .marks = {"merger.ln_q.weight"}, VL_BLOCK,
           QWEN2_MERGER, .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* Qwen2.5-VL */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(QWEN2_5), .marks = {"blocks.0.attn.qkv.weight"},
           VL_BLOCK, VL_GATED, QWEN2_MERGER),
    /* Qwen2.5-Omni */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(QWEN2_5), .marks = {"blocks.0.attn.q.weight"},
           VL_PATCH_BLOCK, VL_GATED, QWEN2_MERGER, .q = "attn.q.", .k = "attn.k.", .v = "attn.v."),
    /* ERNIE 4.5-VL */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(QWEN2), .marks = {"ln.weight"}, VL_BLOCK,
           .post = "ln.", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* Qwen3-VL */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(QWEN3), .marks = {"merger.linear_fc1.weight"},
           VL_BLOCK, .pos = "pos_embed.weight", .fc1 = "mlp.linear_fc1.", .fc2 = "mlp.linear_fc2.",
           .merger_norm = "merger.norm.", .merger_fc1 = "merger.linear_fc1.",
           .merger_fc2 = "merger.linear_fc2."),
    /* Qwen3-Omni */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(QWEN3), .marks = {"merger.mlp.0.weight"}, VL_BLOCK,
           QWEN2_MERGER, .pos = "pos_embed.weight", .fc1 = "mlp.linear_fc1.",
           .fc2 = "mlp.linear_fc2."),
    /* GLM-4V */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(GLM), .marks = {"post_conv_layernorm.weight"},
           VL_BLOCK, VL_GATED, .pos = "embeddings.position_embedding.weight",
           .embed_norm = "post_conv_layernorm.", .post = "post_layernorm."),
    /* GLM-OCR */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(GLM_OCR), .marks = {"blocks.0.attn.q_norm.weight"},
           VL_BLOCK, VL_GATED, .post = "post_layernorm.", .norm_q = "attn.q_norm.weight",
           .norm_k = "attn.k_norm.weight"),
    /* GLM-Image */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(GLM_IMAGE), .marks = {"blocks.0.mlp.fc1.weight"},
           VL_BLOCK, .pos = "embeddings.position_embedding.weight", .fc1 = "mlp.fc1.",
           .fc2 = "mlp.fc2."),
    /* Pixtral */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(PIXTRAL),
           .marks = {"transformer.layers.0.attention.q_proj.weight"}, PIXTRAL_NAMES, PROJECTIONS,
           .gate = "feed_forward.gate_proj.", .up = "feed_forward.up_proj.",
           .gated2 = "feed_forward.down_proj."),
    /* Pixtral as its authors publish it */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(PIXTRAL), .neighbours = true, PIXTRAL_NAMES,
           .q = "attention.wq.", .k = "attention.wk.", .v = "attention.wv.",
           .proj = "attention.wo.", .gate = "feed_forward.w1.", .up = "feed_forward.w3.",
           .gated2 = "feed_forward.w2."),
    /* Step3-VL */
    SCHEME(.origin = FV_VIT_HF, .neighbours = true, .kinds = KIND(STEP), .patch = "conv1.",
           .pos = "positional_embedding", .pre = "ln_pre.", .block = "transformer.resblocks.%u.",
           .ln1 = "ln_1.", .ln2 = "ln_2.", .qkv = "attn.in_proj_", .proj = "attn.out_proj.",
           .ls1 = "ls_1.gamma", .ls2 = "ls_2.gamma", .fc1 = "mlp.c_fc.", .fc2 = "mlp.c_proj."),
    /* MoonViT in Kimi-VL, and as transformers saves it */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(KIMI), .marks = {"encoder.blocks.0.wqkv.weight"},
           KIMI_NAMES, .patch = "patch_embed.proj."),
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(KIMI), .marks = {"encoder.blocks.0.wqkv.weight"},
           KIMI_NAMES, .patch = "encoder.patch_embed.proj."),
    /* transformers 5's memory: MoonViT */
    SCHEME(.origin = FV_VIT_HF, .in_memory = true, .kinds = KIND(KIMI),
           .patch = "patch_embed.proj.", .pos = "patch_embed.pos_emb.position_embeddings",
           .post = "final_layernorm.", .block = "layers.%u.", .ln1 = "norm1.", .ln2 = "norm2.",
           .q = "attn.q_proj.", .k = "attn.k_proj.", .v = "attn.v_proj.", .proj = "attn.proj.",
           .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* HunyuanVL */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(HUNYUAN),
           .marks = {"layers.0.input_layernorm.weight"}, HUNYUAN_NAMES, .ln1 = "input_layernorm.",
           .ln2 = "post_attention_layernorm.", .fc1 = "mlp.dense_h_to_4h.",
           .fc2 = "mlp.dense_4h_to_h."),
    /* transformers 5's memory: HunyuanVL */
    SCHEME(.origin = FV_VIT_HF, .in_memory = true, .kinds = KIND(HUNYUAN), HUNYUAN_NAMES,
           .ln1 = "layer_norm1.", .ln2 = "layer_norm2.", .fc1 = "mlp.fc1.", .fc2 = "mlp.fc2."),
    /* C-RADIO */
    SCHEME(.origin = FV_VIT_HF, .kinds = KIND(RADIO), .marks = {"patch_generator.cls_token.token"},
           ORIGINAL_BLOCK, .patch = "patch_generator.embedder.",
           .reg = "patch_generator.cls_token.token", .pos = "patch_generator.pos_embed",
           .qkv = "attn.qkv.", .ls1 = "layer_scale1.lambda1", .ls2 = "layer_scale2.lambda1",
           .gated1 = "mlp.w12.", .gated2 = "mlp.w3."),
    /* DINOv3 as its authors publish it */
    SCHEME(.origin = FV_VIT_DINO, .kinds = KIND(DINOV3),
           .marks = {"rope_embed.periods", "storage_tokens", "blocks.0.attn.qkv.bias_mask"},
           ORIGINAL_NAMES, .reg = "storage_tokens", .gate = "mlp.w1.", .up = "mlp.w2.",
           .gated2 = "mlp.w3.", .periods = "rope_embed.periods", .head = "linear_head."),
    /* DINOv2 as its authors publish it */
    SCHEME(.origin = FV_VIT_DINO, .kinds = KIND(DINOV2) | KIND(REGISTERS),
           .marks = {"mask_token", "register_tokens", "blocks.0.mlp.w12.weight"}, ORIGINAL_NAMES,
           .reg = "register_tokens", .gated1 = "mlp.w12.", .gated2 = "mlp.w3.",
           .head = "linear_head."),
    /* timm, and the original DeiT */
    SCHEME(.origin = FV_VIT_TIMM, .kinds = ALL_KINDS, ORIGINAL_NAMES, .dist = "dist_token",
           .reg = "reg_token", .pre = "norm_pre.", .inner = "attn.norm.", .inner_mlp = "mlp.norm.",
           POOL_NAMES, .head_cls = "head.", .head_dist = "head_dist."),
    /* timm: EVA and models based on it, BEiT; queries, keys and values in one tensor */
    SCHEME(.origin = FV_VIT_TIMM, .kinds = EVA_KINDS, .marks = {"blocks.0.attn.qkv.weight"},
           EVA_NAMES, .qkv = "attn.qkv.", .q_bias = "attn.q_bias", .v_bias = "attn.v_bias",
           .rel_bias = "attn.relative_position_bias_table",
           .rel_bias_shared = "rel_pos_bias.relative_position_bias_table", .gate = "mlp.fc1_g.",
           .up = "mlp.fc1_x.", .gated2 = "mlp.fc2."),
    /* timm: the same models; queries, keys and values in three tensors */
    SCHEME(.origin = FV_VIT_TIMM, .kinds = EVA_KINDS, .marks = {"blocks.0.attn.q_proj.weight"},
           EVA_NAMES, .q = "attn.q_proj.", .k = "attn.k_proj.", .v = "attn.v_proj.",
           .gate = "mlp.fc1_g.", .up = "mlp.fc1_x.", .gated2 = "mlp.fc2."),
    /* OpenAI's CLIP, OpenCLIP */
    SCHEME(.origin = FV_VIT_OPENAI, .kinds = KIND(CLIP), .patch = "conv1.",
           .cls = "class_embedding", .pos = "positional_embedding", .pre = "ln_pre.",
           .post = "ln_post.", .block = "transformer.resblocks.%u.", .ln1 = "ln_1.", .ln2 = "ln_2.",
           .qkv = "attn.in_proj_", .proj = "attn.out_proj.", .fc1 = "mlp.c_fc.",
           .fc2 = "mlp.c_proj.", .embeds_transposed = "proj"),
    {.patch = NULL},
};

const fv_vit_unlike fv_vit_unlikes[] = {
    {"vit_", "_sapiens2",
     "grouped queries and normalised queries, which are not supported; use a DINOv3 of the same "
     "size"},
    {"vit_", "_rpn_",
     "norms after attention and MLP, which are not supported; use vit_base_patch16_224"},
    {"eva02_enormous_", "",
     "norms after its blocks, which are not supported; use eva02_large_patch14_clip_*"},
    {.begin = NULL},
};
