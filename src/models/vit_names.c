/* vit_names.c: what the tensors of the ViT families are called, and by whom. */
#include "models/vit.h"

#define KIND(kind) (1u << FV_VIT_##kind)
#define DINO_KINDS (KIND(DINOV2) | KIND(REGISTERS))
#define ALL_KINDS (KIND(PLAIN) | KIND(DEIT) | DINO_KINDS | KIND(CLIP) | KIND(SIGLIP))

const char *const fv_vit_prefixes[] = {
    "",          "vit.",    "deit.",         "dinov2.", "dinov2_with_registers.", "vision_model.",
    "backbone.", "visual.", "visual.trunk.", NULL,
};

/* What the schemes of transformers' encoders, and of the original repositories, have in common. */
#define HF_NAMES                                                                                   \
    .patch = "embeddings.patch_embeddings.projection.", .cls = "embeddings.cls_token",             \
    .pos = "embeddings.position_embeddings", .post = "layernorm.", .block = "encoder.layer.%u.",   \
    .q = "attention.attention.query.", .k = "attention.attention.key.",                            \
    .v = "attention.attention.value.", .proj = "attention.output.dense.", .head = "classifier."
#define ORIGINAL_NAMES                                                                             \
    .patch = "patch_embed.proj.", .cls = "cls_token", .pos = "pos_embed", .post = "norm.",         \
    .block = "blocks.%u.", .ln1 = "norm1.", .ln2 = "norm2.", .qkv = "attn.qkv.",                   \
    .proj = "attn.proj.", .ls1 = "ls1.gamma", .ls2 = "ls2.gamma", .fc1 = "mlp.fc1.",               \
    .fc2 = "mlp.fc2."

const fv_vit_names fv_vit_schemes[] = {
    {
        /* transformers: DINOv2, with registers or without */
        .origin = FV_VIT_HF,
        .kinds = DINO_KINDS,
        .marks = {"encoder.layer.0.norm1.weight"},
        HF_NAMES,
        .reg = "embeddings.register_tokens",
        .ln1 = "norm1.",
        .ln2 = "norm2.",
        .ls1 = "layer_scale1.lambda1",
        .ls2 = "layer_scale2.lambda1",
        .fc1 = "mlp.fc1.",
        .fc2 = "mlp.fc2.",
        .gated1 = "mlp.weights_in.",
        .gated2 = "mlp.weights_out.",
    },
    {
        /* transformers: ViT, DeiT */
        .origin = FV_VIT_HF,
        .kinds = KIND(PLAIN) | KIND(DEIT),
        .marks = {"encoder.layer.0.layernorm_before.weight"},
        HF_NAMES,
        .dist = "embeddings.distillation_token",
        .ln1 = "layernorm_before.",
        .ln2 = "layernorm_after.",
        .fc1 = "intermediate.dense.",
        .fc2 = "output.dense.",
        .pooler = "pooler.dense.",
        .head_cls = "cls_classifier.",
        .head_dist = "distillation_classifier.",
    },
    {
        /* transformers: CLIP, SigLIP */
        .origin = FV_VIT_HF,
        .kinds = KIND(CLIP) | KIND(SIGLIP),
        .patch = "embeddings.patch_embedding.",
        .cls = "embeddings.class_embedding",
        .pos = "embeddings.position_embedding.weight",
        .pre = "pre_layrnorm.",
        .post = "post_layernorm.",
        .block = "encoder.layers.%u.",
        .ln1 = "layer_norm1.",
        .ln2 = "layer_norm2.",
        .q = "self_attn.q_proj.",
        .k = "self_attn.k_proj.",
        .v = "self_attn.v_proj.",
        .proj = "self_attn.out_proj.",
        .fc1 = "mlp.fc1.",
        .fc2 = "mlp.fc2.",
        .probe = "head.probe",
        .map_qkv = "head.attention.in_proj_",
        .map_proj = "head.attention.out_proj.",
        .map_ln = "head.layernorm.",
        .map_fc1 = "head.mlp.fc1.",
        .map_fc2 = "head.mlp.fc2.",
        .head = "classifier.",
        .embeds = "visual_projection.weight",
    },
    {
        /* DINOv2 as its authors publish it */
        .origin = FV_VIT_DINO,
        .kinds = DINO_KINDS,
        .marks = {"mask_token", "register_tokens", "blocks.0.mlp.w12.weight"},
        ORIGINAL_NAMES,
        .reg = "register_tokens",
        .gated1 = "mlp.w12.",
        .gated2 = "mlp.w3.",
        .head = "linear_head.",
    },
    {
        /* timm, and the original DeiT */
        .origin = FV_VIT_TIMM,
        .kinds = ALL_KINDS,
        ORIGINAL_NAMES,
        .dist = "dist_token",
        .reg = "reg_token",
        .pre = "norm_pre.",
        .probe = "attn_pool.latent",
        .map_q = "attn_pool.q.",
        .map_kv = "attn_pool.kv.",
        .map_proj = "attn_pool.proj.",
        .map_ln = "attn_pool.norm.",
        .map_fc1 = "attn_pool.mlp.fc1.",
        .map_fc2 = "attn_pool.mlp.fc2.",
        .head = "head.",
        .head_cls = "head.",
        .head_dist = "head_dist.",
    },
    {
        /* OpenAI's CLIP, OpenCLIP */
        .origin = FV_VIT_OPENAI,
        .kinds = KIND(CLIP),
        .patch = "conv1.",
        .cls = "class_embedding",
        .pos = "positional_embedding",
        .pre = "ln_pre.",
        .post = "ln_post.",
        .block = "transformer.resblocks.%u.",
        .ln1 = "ln_1.",
        .ln2 = "ln_2.",
        .qkv = "attn.in_proj_",
        .proj = "attn.out_proj.",
        .fc1 = "mlp.c_fc.",
        .fc2 = "mlp.c_proj.",
        .embeds_transposed = "proj",
    },
    {.patch = NULL},
};

const fv_vit_unlike fv_vit_unlikes[] = {
    {"vit_pe_", "", "rotary positions, which are not supported; use a ViT without, as CLIP's"},
    {"vit_", "_rope", "rotary positions, which are not supported; use a ViT without"},
    {"vit_", "_siglip_gap_",
     "the mean of its tokens for an output, which is not supported; use the vit_*_siglip_* of the "
     "same size that pools by attention"},
    {.begin = NULL},
};
