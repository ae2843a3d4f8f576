/* test_model_names.c: tests that every naming scheme loads the same model; BEiT's biases; heads,
 * prefix tokens, gated MLPs. */
#include <fovea/plans.h>

#include "ops/kernel.h"
#include "tests/models/small_checkpoint.h"

#define FUSED_BLOCK(block)                                                                         \
    {block "norm1.weight", 1, C, {LN1_W}}, {block "norm1.bias", 1, C, {LN1_B}},                    \
        {block "attn.qkv.weight", C, C, {Q_W, K_W, V_W}},                                          \
        {block "attn.qkv.bias", 1, C, {Q_B, K_B, V_B}},                                            \
        {block "attn.proj.weight", C, C, {PROJ_W}}, {block "attn.proj.bias", 1, C, {PROJ_B}},      \
        {block "ls1.gamma", 1, C, {LS1}}, {block "norm2.weight", 1, C, {LN2_W}},                   \
        {block "norm2.bias", 1, C, {LN2_B}}, {block "mlp.fc1.weight", HIDDEN, C, {FC1_W}},         \
        {block "mlp.fc1.bias", 1, HIDDEN, {FC1_B}}, {block "mlp.fc2.weight", C, HIDDEN, {FC2_W}},  \
        {block "mlp.fc2.bias", 1, C, {FC2_B}}, {block "ls2.gamma", 1, C, {LS2}},                   \
        {"norm.weight", 1, C, {POST_W}}, {"norm.bias", 1, C, {POST_B}},                            \
        {"patch_embed.proj.weight", C, PIXELS, {PATCH_W}},                                         \
        {"patch_embed.proj.bias", 1, C, {PATCH_B}}, {"cls_token", 1, C, {CLS}},                    \
    {                                                                                              \
        "pos_embed", 1 + SIDE *SIDE, C,                                                            \
        {                                                                                          \
            POS                                                                                    \
        }                                                                                          \
    }

static const struct line original[] = {
    FUSED_BLOCK("blocks.%d."), {"mask_token", 1, C, {99}}, {NULL, 0, 0, {0}}};

static const struct line timm[] = {FUSED_BLOCK("blocks.%d."), {NULL, 0, 0, {0}}};

static void original_and_timm_names_mean_the_same(void **state)
{
    static const struct line chunked[] = {
        FUSED_BLOCK("blocks.0.%d."), {"mask_token", 1, C, {99}}, {NULL, 0, 0, {0}}};
    (void)state;
    fovea_model *hf = load_lines(dinov2, DINOV2_CONFIG(""));
    fovea_model *by_authors = load_lines(original, "{\"model_type\":\"dinov2\"}");
    fovea_model *in_chunks = load_lines(chunked, "{\"architecture\":\"dinov2_vits14\"}");
    fovea_model *by_timm = load_lines(
        timm, "{\"architecture\":\"vit_small_patch14_dinov2.lvd142m\",\"num_features\":64,"
              "\"pretrained_cfg\":{\"input_size\":[3,518,518],\"crop_pct\":1.0,"
              "\"mean\":[0.485,0.456,0.406],\"interpolation\":\"bilinear\"}}");
    same_roles(hf, by_authors);
    same_roles(hf, in_chunks);
    same_roles(hf, by_timm);
    assert_int_equal(((fv_vit *)hf->roles)->pos_rule, FV_POS_PLAIN);
    assert_int_equal(((fv_vit *)by_authors->roles)->pos_rule, FV_POS_OFFSET);
    assert_int_equal(((fv_vit *)by_timm->roles)->pos_rule, FV_POS_AA);
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(by_timm, &info);
    assert_int_equal(by_timm->preprocess.short_edge, 518);
    assert_int_equal(by_timm->preprocess.crop_width, 518);
    assert_int_equal(by_timm->preprocess.filter, FOVEA_FILTER_BILINEAR);
    assert_int_equal(info.native_width, 12);
    assert_string_equal(fovea_model_output(by_timm, 0), "last_hidden_state");
    assert_string_equal(fovea_model_output(by_timm, 1), "pooler_output");
    assert_string_equal(fovea_model_output(by_timm, 4), "hidden2");
    assert_string_equal(fovea_model_output(by_timm, 5), "block0.q");
    assert_string_equal(fovea_model_output(by_timm, 8), "block1.k");
    assert_null(fovea_model_output(by_timm, 9));

    /* Without the mask token, the names could be those of another model. */
    write_checkpoint(timm, "{\"model_type\":\"dinov2\"}");
    expect_failure(FOVEA_EFORMAT, "pos_interp");
    fovea_model *told = load_lines(
        timm, "{\"model_type\":\"dinov2\",\"fovea\":{\"pos_interp\":\"offset\",\"heads\":2,"
              "\"eps\":1e-5,\"attention\":\"linear:elu1\",\"activation\":\"relu\"}}");
    const fv_vit *v = told->roles;
    assert_int_equal(v->pos_rule, FV_POS_OFFSET);
    assert_int_equal(v->heads, 2);
    assert_int_equal(v->epi, FV_EPI_RELU);
    assert_true(v->eps == 1e-5f);
    assert_string_equal(told->info.attention, "linear:elu1");
    fovea_model_free(hf);
    fovea_model_free(by_authors);
    fovea_model_free(in_chunks);
    fovea_model_free(by_timm);
    fovea_model_free(told);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

#define CLIP_BLOCK(block)                                                                          \
    {block "layer_norm1.weight", 1, C, {LN1_W}}, {block "layer_norm1.bias", 1, C, {LN1_B}},        \
        {block "self_attn.q_proj.weight", C, C, {Q_W}},                                            \
        {block "self_attn.k_proj.weight", C, C, {K_W}},                                            \
        {block "self_attn.v_proj.weight", C, C, {V_W}},                                            \
        {block "self_attn.q_proj.bias", 1, C, {Q_B}},                                              \
        {block "self_attn.k_proj.bias", 1, C, {K_B}},                                              \
        {block "self_attn.v_proj.bias", 1, C, {V_B}},                                              \
        {block "self_attn.out_proj.weight", C, C, {PROJ_W}},                                       \
        {block "self_attn.out_proj.bias", 1, C, {PROJ_B}},                                         \
        {block "layer_norm2.weight", 1, C, {LN2_W}}, {block "layer_norm2.bias", 1, C, {LN2_B}},    \
        {block "mlp.fc1.weight", HIDDEN, C, {FC1_W}}, {block "mlp.fc1.bias", 1, HIDDEN, {FC1_B}},  \
        {block "mlp.fc2.weight", C, HIDDEN, {FC2_W}},                                              \
    {                                                                                              \
        block "mlp.fc2.bias", 1, C,                                                                \
        {                                                                                          \
            FC2_B                                                                                  \
        }                                                                                          \
    }

static const struct line clip[] = {
    CLIP_BLOCK("vision_model.encoder.layers.%d."),
    {"vision_model.embeddings.class_embedding", 1, C, {CLS}},
    {"vision_model.embeddings.position_embedding.weight", 1 + SIDE *SIDE, C, {POS}},
    {"vision_model.embeddings.patch_embedding.weight", C, PIXELS, {PATCH_W}},
    {"vision_model.pre_layrnorm.weight", 1, C, {PRE_W}},
    {"vision_model.pre_layrnorm.bias", 1, C, {PRE_B}},
    {"vision_model.post_layernorm.weight", 1, C, {POST_W}},
    {"vision_model.post_layernorm.bias", 1, C, {POST_B}},
    {"text_model.embeddings.token_embedding.weight", 3, C, {99}},
    {NULL, 0, 0, {0}},
};

static const struct line openai[] = {
    {"visual.transformer.resblocks.%d.ln_1.weight", 1, C, {LN1_W}},
    {"visual.transformer.resblocks.%d.ln_1.bias", 1, C, {LN1_B}},
    {"visual.transformer.resblocks.%d.attn.in_proj_weight", C, C, {Q_W, K_W, V_W}},
    {"visual.transformer.resblocks.%d.attn.in_proj_bias", 1, C, {Q_B, K_B, V_B}},
    {"visual.transformer.resblocks.%d.attn.out_proj.weight", C, C, {PROJ_W}},
    {"visual.transformer.resblocks.%d.attn.out_proj.bias", 1, C, {PROJ_B}},
    {"visual.transformer.resblocks.%d.ln_2.weight", 1, C, {LN2_W}},
    {"visual.transformer.resblocks.%d.ln_2.bias", 1, C, {LN2_B}},
    {"visual.transformer.resblocks.%d.mlp.c_fc.weight", HIDDEN, C, {FC1_W}},
    {"visual.transformer.resblocks.%d.mlp.c_fc.bias", 1, HIDDEN, {FC1_B}},
    {"visual.transformer.resblocks.%d.mlp.c_proj.weight", C, HIDDEN, {FC2_W}},
    {"visual.transformer.resblocks.%d.mlp.c_proj.bias", 1, C, {FC2_B}},
    {"visual.class_embedding", 1, C, {CLS}},
    {"visual.positional_embedding", 1 + SIDE *SIDE, C, {POS}},
    {"visual.conv1.weight", C, PIXELS, {PATCH_W}},
    {"visual.ln_pre.weight", 1, C, {PRE_W}},
    {"visual.ln_pre.bias", 1, C, {PRE_B}},
    {"visual.ln_post.weight", 1, C, {POST_W}},
    {"visual.ln_post.bias", 1, C, {POST_B}},
    {"visual.proj", C, 24, {EMBEDS}},
    {NULL, 0, 0, {0}},
};

static void wrapped_names_mean_the_same(void **state)
{
    static const char *const wrappers[] = {"module.", "model.module.", "state_dict.model.",
                                           "_orig_mod."};
    (void)state;
    fovea_model *bare = load_lines(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        struct checkpoint *c = checkpoint_of(dinov2);
        for (size_t k = 0; k < c->n; k++) {
            char name[sizeof c->name[k]];
            snprintf(name, sizeof name, "%s%.70s", wrappers[i], c->name[k]);
            strcpy(c->name[k], name);
        }
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
            FOVEA_OK);
        free_checkpoint(c);
        fovea_model *wrapped = load(folder);
        same_roles(bare, wrapped);
        fovea_model_free(wrapped);
    }
    fovea_model_free(bare);
}

static void openai_names_mean_the_same(void **state)
{
    (void)state;
    fovea_model *hf = load_lines(
        clip, "{\"model_type\":\"clip\",\"vision_config\":{\"hidden_size\":64,\"patch_size\":4,"
              "\"image_size\":12,\"num_hidden_layers\":2,\"num_attention_heads\":1}}");
    fovea_model *by_openai = load_lines(openai, "{\"model_type\":\"clip\"}");
    fv_vit *v = by_openai->roles;
    const fv_weight embeds = v->embeds.w;
    v->embeds.w = (fv_weight){.rows = 0};
    same_roles(hf, by_openai);
    assert_true(v->post_on_pooled);
    assert_true(v->eps == 1e-5f);
    assert_int_equal(v->epi, FV_EPI_GELU_QUICK);
    float row[C];
    assert_int_equal(embeds.rows, 24);
    fv_weight_read(&embeds, 5, 1, row); /* equals a column of the file */
    for (uint32_t i = 0; i < C; i++)
        assert_true(row[i] == value(EMBEDS, i * 24 + 5));
    fovea_model_free(hf);
    fovea_model_free(by_openai);
}

/* ---- BEiT ---- */

#define OFFSETS ((2 * SIDE - 1) * (2 * SIDE - 1) + 3) /* rows of a table of biases */

static const struct line beit[] = {
    {"beit.embeddings.cls_token", 1, C, {CLS}},
    {"beit.embeddings.mask_token", 1, C, {99}},
    {"beit.embeddings.patch_embeddings.projection.weight", C, PIXELS, {PATCH_W}},
    {"beit.embeddings.patch_embeddings.projection.bias", 1, C, {PATCH_B}},
    {"beit.encoder.layer.%d.layernorm_before.weight", 1, C, {LN1_W}},
    {"beit.encoder.layer.%d.layernorm_before.bias", 1, C, {LN1_B}},
    {"beit.encoder.layer.%d.attention.attention.query.weight", C, C, {Q_W}},
    {"beit.encoder.layer.%d.attention.attention.key.weight", C, C, {K_W}},
    {"beit.encoder.layer.%d.attention.attention.value.weight", C, C, {V_W}},
    {"beit.encoder.layer.%d.attention.attention.query.bias", 1, C, {Q_B}},
    {"beit.encoder.layer.%d.attention.attention.value.bias", 1, C, {V_B}},
    {"beit.encoder.layer.%d.attention.attention.relative_position_bias.relative_position_bias_"
     "table",
     OFFSETS,
     1,
     {REL_BIAS}},
    {"beit.encoder.layer.%d.attention.output.dense.weight", C, C, {PROJ_W}},
    {"beit.encoder.layer.%d.attention.output.dense.bias", 1, C, {PROJ_B}},
    {"beit.encoder.layer.%d.lambda_1", 1, C, {LS1}},
    {"beit.encoder.layer.%d.layernorm_after.weight", 1, C, {LN2_W}},
    {"beit.encoder.layer.%d.layernorm_after.bias", 1, C, {LN2_B}},
    {"beit.encoder.layer.%d.intermediate.dense.weight", HIDDEN, C, {FC1_W}},
    {"beit.encoder.layer.%d.intermediate.dense.bias", 1, HIDDEN, {FC1_B}},
    {"beit.encoder.layer.%d.output.dense.weight", C, HIDDEN, {FC2_W}},
    {"beit.encoder.layer.%d.output.dense.bias", 1, C, {FC2_B}},
    {"beit.encoder.layer.%d.lambda_2", 1, C, {LS2}},
    {"beit.encoder.relative_position_bias.relative_position_bias_table", OFFSETS, 1, {REL_SHARED}},
    {"beit.pooler.layernorm.weight", 1, C, {POST_W}},
    {"beit.pooler.layernorm.bias", 1, C, {POST_B}},
    {"classifier.weight", CLASSES, C, {HEAD_W}},
    {"classifier.bias", 1, CLASSES, {HEAD_B}},
    {NULL, 0, 0, {0}},
};

static const struct line beit_of_timm[] = {
    {"cls_token", 1, C, {CLS}},
    {"patch_embed.proj.weight", C, PIXELS, {PATCH_W}},
    {"patch_embed.proj.bias", 1, C, {PATCH_B}},
    {"rel_pos_bias.relative_position_bias_table", OFFSETS, 1, {REL_SHARED}},
    {"blocks.%d.norm1.weight", 1, C, {LN1_W}},
    {"blocks.%d.norm1.bias", 1, C, {LN1_B}},
    {"blocks.%d.attn.qkv.weight", C, C, {Q_W, K_W, V_W}},
    {"blocks.%d.attn.q_bias", 1, C, {Q_B}},
    {"blocks.%d.attn.v_bias", 1, C, {V_B}},
    {"blocks.%d.attn.relative_position_bias_table", OFFSETS, 1, {REL_BIAS}},
    {"blocks.%d.attn.proj.weight", C, C, {PROJ_W}},
    {"blocks.%d.attn.proj.bias", 1, C, {PROJ_B}},
    {"blocks.%d.gamma_1", 1, C, {LS1}},
    {"blocks.%d.norm2.weight", 1, C, {LN2_W}},
    {"blocks.%d.norm2.bias", 1, C, {LN2_B}},
    {"blocks.%d.mlp.fc1.weight", HIDDEN, C, {FC1_W}},
    {"blocks.%d.mlp.fc1.bias", 1, HIDDEN, {FC1_B}},
    {"blocks.%d.mlp.fc2.weight", C, HIDDEN, {FC2_W}},
    {"blocks.%d.mlp.fc2.bias", 1, C, {FC2_B}},
    {"blocks.%d.gamma_2", 1, C, {LS2}},
    {"fc_norm.weight", 1, C, {POST_W}},
    {"fc_norm.bias", 1, C, {POST_B}},
    {"head.weight", CLASSES, C, {HEAD_W}},
    {"head.bias", 1, CLASSES, {HEAD_B}},
    {NULL, 0, 0, {0}},
};

#define OWN_BIAS "\"use_relative_position_bias\":true"
#define SHARED_BIAS "\"use_shared_relative_position_bias\":true"
#define BEIT_CONFIG(type, more)                                                                    \
    "{\"model_type\":\"" type "\",\"hidden_size\":64,\"num_hidden_layers\":2,"                     \
    "\"num_attention_heads\":1,\"image_size\":12,\"patch_size\":4," more "}"

/* Writes `lines` with the line called `name` replaced by `with`, or without it if `with` is NULL.
 */
static void write_changed(const struct line *lines, const char *name, const struct line *with,
                          const char *config)
{
    struct line changed[MAX_TENSORS] = {{NULL, 0, 0, {0}}};
    size_t n = 0;
    bool found = false;
    for (; lines->name; lines++) {
        const bool it = strcmp(lines->name, name) == 0;
        found = found || it;
        if (!it || with)
            changed[n++] = it ? *with : *lines;
    }
    assert_true(found);
    write_checkpoint(changed, config);
}

static void names_of_beit_mean_the_same(void **state)
{
    (void)state;
    fovea_model *hf = load_lines(beit, BEIT_CONFIG("beit", OWN_BIAS "," SHARED_BIAS));
    fovea_model *by_timm =
        load_lines(beit_of_timm, "{\"architecture\":\"beitv2_base_patch16_224.in1k\","
                                 "\"model_args\":{\"num_heads\":1},\"global_pool\":\"avg\"}");
    const fv_vit *v = hf->roles, *w = by_timm->roles;
    same_roles(hf, by_timm);
    same_weights(&v->fc_norm.w, &w->fc_norm.w);
    same_weights(&v->classifier.w, &w->classifier.w);
    same_weights(&v->bias, &w->bias);
    assert_int_equal(v->pool, FV_POOL_MEAN);
    assert_int_equal(w->pool, FV_POOL_MEAN);
    assert_int_equal(v->head, w->head);
    assert_int_equal(v->bias_width, SIDE);
    assert_int_equal(w->bias_height, SIDE);
    assert_int_equal(v->bias_rule, FV_POS_BILINEAR);
    assert_int_equal(w->bias_rule, FV_POS_PROGRESSION);
    assert_int_equal(by_timm->info.native_width, SIDE * PATCH);
    assert_true(v->eps == 1e-12f && w->eps == 1e-6f);
    assert_true(hf->preprocess.mean[0] == 0.5f && by_timm->preprocess.mean[0] == 0.485f);
    float row[1];
    fv_weight_read(&v->block[1].bias, 7, 1, row); /* the bias of a block, and the shared one */
    assert_true(row[0] == value(REL_BIAS + 100, 7) + value(REL_SHARED, 7));
    fovea_model_free(hf);
    fovea_model_free(by_timm);
    /* With pooling by class token, the last norm applies to all tokens. */
    struct line post[sizeof beit / sizeof *beit];
    memcpy(post, beit, sizeof beit);
    for (struct line *l = post; l->name; l++)
        l->name = strcmp(l->name, "beit.pooler.layernorm.weight") == 0 ? "beit.layernorm.weight"
                  : strcmp(l->name, "beit.pooler.layernorm.bias") == 0 ? "beit.layernorm.bias"
                                                                       : l->name;
    hf = load_lines(post, BEIT_CONFIG("data2vec-vision",
                                      OWN_BIAS "," SHARED_BIAS ",\"use_mean_pooling\":false"));
    v = hf->roles;
    assert_int_equal(v->pool, FV_POOL_CLS);
    assert_true(fv_weight_present(&v->post.w) && !fv_weight_present(&v->fc_norm.w));
    fovea_model_free(hf);
}

static void a_beit_that_does_not_fit_is_refused(void **state)
{
    static const char both[] = BEIT_CONFIG("beit", OWN_BIAS "," SHARED_BIAS);
    static const char timm_config[] = "{\"architecture\":\"beit_base_patch16_224\","
                                      "\"model_args\":{\"num_heads\":1}}";
    static const char shared[] = "beit.encoder.relative_position_bias.relative_position_bias_table";
    (void)state;
    write_checkpoint(beit, BEIT_CONFIG("beit", OWN_BIAS));
    expect_failure(FOVEA_ENOTSUP, "use_shared_relative_position_bias");
    write_checkpoint(beit, BEIT_CONFIG("beit", SHARED_BIAS));
    expect_failure(FOVEA_ENOTSUP, "layer.0.attention.attention.relative_position_bias");
    write_changed(beit, shared, NULL, both);
    expect_failure(FOVEA_EFORMAT, shared + strlen("beit."));
    write_changed(beit, shared, NULL, BEIT_CONFIG("beit", OWN_BIAS));
    fovea_model_free(load(folder));
    write_checkpoint(beit,
                     BEIT_CONFIG("beit", OWN_BIAS "," SHARED_BIAS ",\"layer_scale_init_value\":0"));
    expect_failure(FOVEA_ENOTSUP, "lambda_1");
    write_checkpoint(
        beit,
        BEIT_CONFIG("beit", OWN_BIAS "," SHARED_BIAS ",\"use_absolute_position_embeddings\":true"));
    expect_failure(FOVEA_EFORMAT, "position_embeddings");
    write_changed(beit, "beit.pooler.layernorm.weight", NULL, both);
    expect_failure(FOVEA_EFORMAT, "pooler.layernorm.weight");
    write_changed(beit, "beit.embeddings.mask_token",
                  &(struct line){"beit.embeddings.position_embeddings", 1 + SIDE * SIDE, C, {POS}},
                  both);
    expect_failure(FOVEA_ENOTSUP, "position_embeddings");
    write_checkpoint(
        beit, "{\"model_type\":\"beit\",\"num_attention_heads\":1,\"image_size\":[12,16]," OWN_BIAS
              "," SHARED_BIAS "}");
    expect_failure(FOVEA_EFORMAT, "have 28 rows, but a picture of 16 x 12 pixels needs 38");
    write_changed(
        beit_of_timm, "blocks.%d.attn.relative_position_bias_table",
        &(struct line){"blocks.%d.attn.relative_position_bias_table", OFFSETS + 1, 1, {REL_BIAS}},
        timm_config);
    expect_failure(FOVEA_EFORMAT, "do not match a square grid; add \"image_size\"");
    write_changed(beit_of_timm, "cls_token", NULL, timm_config);
    expect_failure(FOVEA_EFORMAT, "cls_token");
    /* A field of BEiT's configuration is unknown in other models. */
    write_checkpoint(dinov2, DINOV2_CONFIG("," OWN_BIAS));
    expect_failure(FOVEA_ENOTSUP, "\"use_relative_position_bias\" is not known");
    write_checkpoint(beit_of_timm, "{\"architecture\":\"eva02_base_patch14_224\"}");
    expect_failure(FOVEA_ENOTSUP, "relative_position_bias_table");
}

/* ---- heads, prefix tokens, gated MLP ---- */

static void two_heads_are_averaged(void **state)
{
    static const struct line deit[] = {
        FUSED_BLOCK("blocks.%d."),
        {"dist_token", 1, C, {DIST}},
        {"head.weight", CLASSES, C, {HEAD_W}},
        {"head.bias", 1, CLASSES, {HEAD_B}},
        {"head_dist.weight", CLASSES, C, {HEAD2_W}},
        {"head_dist.bias", 1, CLASSES, {HEAD2_B}},
        {NULL, 0, 0, {0}},
    };
    struct line lines[sizeof deit / sizeof *deit];
    float row[2 * C];
    (void)state;
    memcpy(lines, deit, sizeof deit);
    for (struct line *l = lines; l->name; l++)
        if (strcmp(l->name, "pos_embed") == 0)
            l->rows = 2 + SIDE * SIDE;
    fovea_model *m = load_lines(lines, "{\"architecture\":\"deit_tiny_distilled_patch16_224\","
                                       "\"label_names\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}");
    const fv_vit *v = m->roles;
    assert_int_equal(v->prefix, 2);
    assert_int_equal(v->head, FV_HEAD_CLS_DIST);
    assert_string_equal(fovea_model_output(m, 0), "logits");
    assert_string_equal(fovea_model_label(m, 4), "e");
    assert_null(fovea_model_label(m, 5));
    fv_weight_read(&v->classifier.w, 3, 1, row);
    for (uint32_t i = 0; i < C; i++) {
        assert_true(row[i] == 0.5f * value(HEAD_W, 3 * C + i));
        assert_true(row[C + i] == 0.5f * value(HEAD2_W, 3 * C + i));
    }
    fv_weight_read(&v->classifier.b, 0, 1, row);
    for (uint32_t i = 0; i < CLASSES; i++)
        assert_true(row[i] == 0.5f * value(HEAD_B, i) + 0.5f * value(HEAD2_B, i));
    fv_weight_read(&v->prefix_add, 1, 1, row);
    for (uint32_t i = 0; i < C; i++)
        assert_true(row[i] == value(POS, C + i));
    fovea_model_free(m);
}

static void registers_get_no_position(void **state)
{
    struct line lines[sizeof dinov2 / sizeof *dinov2 + 1];
    float rows[4 * C];
    (void)state;
    memcpy(lines + 1, dinov2, sizeof dinov2);
    lines[0] = (struct line){"embeddings.register_tokens", 3, C, {REG}};
    fovea_model *m =
        load_lines(lines, "{\"model_type\":\"dinov2_with_registers\",\"num_register_tokens\":3,"
                          "\"num_attention_heads\":1}");
    const fv_vit *v = m->roles;
    assert_int_equal(v->prefix, 4);
    assert_int_equal(v->class_tokens, 1);
    assert_int_equal(v->pos_rule, FV_POS_AA);
    fv_weight_read(&v->prefix_rows, 0, 4, rows);
    for (uint32_t i = 0; i < C; i++)
        assert_true(rows[i] == value(CLS, i) && rows[2 * C + i] == value(REG, C + i));
    fv_weight_read(&v->prefix_add, 0, 4, rows);
    for (uint32_t i = 0; i < C; i++)
        assert_true(rows[i] == value(POS, i) && rows[C + i] == 0 && rows[3 * C + i] == 0);
    fovea_model_free(m);
    write_checkpoint(lines, "{\"model_type\":\"dinov2_with_registers\",\"num_register_tokens\":2,"
                            "\"num_attention_heads\":1}");
    expect_failure(FOVEA_EFORMAT, "(3, 64), but (2, 64)");
}

/* Some timm names look like those of a ViT and need config.json to be told apart. */
static void what_no_tensor_tells_is_refused(void **state)
{
    static const char *const names[] = {"vit_base_patch16_sapiens2",
                                        "eva02_enormous_patch14_clip_224.laion2b",
                                        "vit_base_patch16_rpn_224.sw_in1k"};
    char config[160];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(config, sizeof config, "{\"architecture\":\"%s\"}", names[i]);
        write_checkpoint(timm, config);
        expect_failure(FOVEA_ENOTSUP, names[i]);
        assert_non_null(strstr(fovea_error(), "config.json: \"architecture\""));
        assert_non_null(strstr(fovea_error(), "; use "));
    }
}

/* Linear attention requires one set of angles for all heads. */
static void frequencies_of_heads_are_for_softmax(void **state)
{
    static const struct {
        const char *attention;
        bool runs;
    } cases[] = {{"softmax", true},
                 {"foveated", true},
                 {"linear:elu1", false},
                 {"linear:exp", false},
                 {"softmax+mala@1", false}};
    fovea_device *cpu;
    fovea_plan *plan;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    (void)state;
    o.frame.width = o.frame.height = 40;
    o.dry = 1;
    fovea_model *m = load(TEST_DATA "/golden/models/timm-rope-mixed-01");
    assert_int_equal(fovea_device_open(&cpu, "cpu", NULL), FOVEA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        o.attention = cases[i].attention;
        plan = NULL;
        assert_int_equal(fovea_plan_create(&plan, m, cpu, &o),
                         cases[i].runs ? FOVEA_OK : FOVEA_ENOTSUP);
        if (!cases[i].runs)
            assert_non_null(strstr(fovea_error(), "frequencies for each head"));
        fovea_plan_free(plan);
    }
    fovea_device_close(cpu);
    fovea_model_free(m);
}

/* Unknown fields that may change the arithmetic are refused, and so are unsupported values of known
 * fields. */
static void unknown_fields_are_refused(void **state)
{
    static const struct {
        const char *config, *name;
    } cases[] = {
        {DINOV2_CONFIG(",\"window_size\":7"), "\"window_size\" is not known"},
        {DINOV2_CONFIG(",\"pruned_heads\":{\"0\":[1]}"), "\"pruned_heads\" has a value"},
        {DINOV2_CONFIG(",\"position_embedding_type\":\"rotary\""), "position_embedding_type"},
        {DINOV2_CONFIG(",\"mlp_bias\":false"), "mlp_bias"},
        {DINOV2_CONFIG(",\"auto_map\":{\"AutoModel\":\"x.Y\"}"), "auto_map"},
        {DINOV2_CONFIG(",\"vision_config\":{\"hidden_size\":64,\"shift\":1}"),
         "\"vision_config.shift\""},
        {DINOV2_CONFIG(",\"x\":1,\"fovea\":{\"ignore\":[\"y\"]}"), "\"ignore\": [\"x\"]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_checkpoint(dinov2, cases[i].config);
        expect_failure(FOVEA_ENOTSUP, cases[i].name);
    }
    write_checkpoint(timm, "{\"architecture\":\"vit_small_patch14_dinov2\","
                           "\"model_args\":{\"qk_norm\":true}}");
    expect_failure(FOVEA_ENOTSUP, "\"model_args.qk_norm\"");
    write_checkpoint(dinov2, DINOV2_CONFIG(",\"fovea\":{\"ignore\":\"x\"}"));
    expect_failure(FOVEA_EFORMAT, "ignore");
    fovea_model_free(load_lines(dinov2, DINOV2_CONFIG(",\"x\":1,\"_y\":2,\"z\":null,"
                                                      "\"fovea\":{\"ignore\":[\"x\"]}")));
}

/* Unknown tensors of the encoder are refused; heads and other towers are allowed. */
static void unread_tensors_are_refused(void **state)
{
    static const struct {
        const char *name;
        bool fine;
    } cases[] = {{"blocks.1.attn.q_norm.weight", false},
                 {"patch_embed.norm.weight", false},
                 {"rope.freqs", false},
                 {"neck.weight", false},
                 {"mask_token", true},
                 {"dino_head.weight", true},
                 {"blocks.2.norm1.bias", true}};
    enum { LINES = sizeof timm / sizeof *timm };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct line more[LINES + 1];
        memcpy(more, timm, sizeof timm);
        more[LINES] = more[LINES - 1];
        more[LINES - 1] = (struct line){cases[i].name, 1, C, {99}};
        write_checkpoint(more, "{\"architecture\":\"vit_small_patch14_dinov2.lvd142m\"}");
        if (cases[i].fine)
            fovea_model_free(load(folder));
        else
            expect_failure(FOVEA_ENOTSUP, cases[i].name);
    }
}

/* transformers 5 renames tensors when it saves a model, but not in a state_dict. */
static void names_inside_transformers_mean_the_same(void **state)
{
    static const char *const words[][2] = {{"attention.attention.query.", "attention.q_proj."},
                                           {"attention.attention.key.", "attention.k_proj."},
                                           {"attention.attention.value.", "attention.v_proj."},
                                           {"attention.output.dense.", "attention.o_proj."}};
    struct line lines[sizeof dinov2 / sizeof *dinov2];
    char name[sizeof lines / sizeof *lines][96];
    (void)state;
    memcpy(lines, dinov2, sizeof dinov2);
    for (size_t i = 0; lines[i].name; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            const char *at = strstr(lines[i].name, words[k][0]);
            if (!at)
                continue;
            snprintf(name[i], sizeof name[i], "%.*s%s%s", (int)(at - lines[i].name), lines[i].name,
                     words[k][1], at + strlen(words[k][0]));
            lines[i].name = name[i];
            break;
        }
    fovea_model *saved = load_lines(dinov2, DINOV2_CONFIG(""));
    fovea_model *inside = load_lines(lines, DINOV2_CONFIG(""));
    same_roles(saved, inside);
    fovea_model_free(saved);
    fovea_model_free(inside);
}

/* Biases may only be multiplied by a mask of ones and zeros. */
static void a_mask_of_other_values_is_refused(void **state)
{
    static const char config[] = "{\"model_type\":\"dinov3_vit\",\"fovea\":{\"heads\":4}}";
    enum { LINES = sizeof original / sizeof *original };
    struct line lines[LINES + 1];
    size_t n = 0;
    (void)state;
    for (size_t i = 0; original[i].name; i++)
        if (strcmp(original[i].name, "pos_embed") != 0)
            lines[n++] = original[i];
    lines[n++] = (struct line){"storage_tokens", 2, C, {REG}};
    lines[n] = (struct line){NULL, 0, 0, {0}};
    fovea_model *plain = load_lines(lines, config);
    const fv_vit *v = plain->roles;
    assert_int_equal(v->prefix, 3);
    assert_int_equal(v->rope.rule, FV_ROPE_CENTRES);
    fovea_model_free(plain);
    lines[n++] = (struct line){"blocks.%d.attn.qkv.bias_mask", 1, 3 * C, {99}};
    lines[n] = (struct line){NULL, 0, 0, {0}};
    write_checkpoint(lines, config);
    expect_failure(FOVEA_EFORMAT, "blocks.0.attn.qkv.bias_mask\" holds");
}

/* Messages and wisdom contain the model type. */
static void a_type_is_a_name(void **state)
{
    (void)state;
    static const char *const bad[] = {"vit_\\tx\\ny", "vit_ x", "vit_\\u001b[2J", "vit_\\u00e9"};
    char config[320];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(config, sizeof config, "{\"model_type\":\"%s\"}", bad[i]);
        write_checkpoint(timm, config);
        expect_failure(FOVEA_EFORMAT, "model_type");
    }
    memset(config, 'x', sizeof config);
    memcpy(config, "{\"architecture\":\"vit_", 21);
    strcpy(config + 200, "\"}");
    write_checkpoint(timm, config);
    expect_failure(FOVEA_EFORMAT, "architecture");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(original_and_timm_names_mean_the_same),
        cmocka_unit_test(wrapped_names_mean_the_same),
        cmocka_unit_test(openai_names_mean_the_same),
        cmocka_unit_test(names_of_beit_mean_the_same),
        cmocka_unit_test(a_beit_that_does_not_fit_is_refused),
        cmocka_unit_test(two_heads_are_averaged),
        cmocka_unit_test(registers_get_no_position),
        cmocka_unit_test(what_no_tensor_tells_is_refused),
        cmocka_unit_test(frequencies_of_heads_are_for_softmax),
        cmocka_unit_test(unknown_fields_are_refused),
        cmocka_unit_test(unread_tensors_are_refused),
        cmocka_unit_test(names_inside_transformers_mean_the_same),
        cmocka_unit_test(a_mask_of_other_values_is_refused),
        cmocka_unit_test(a_type_is_a_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
