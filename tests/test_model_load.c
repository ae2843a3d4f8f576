/* test_model_load.c: checkpoints become models: every naming scheme, every refusal, no leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model.h"
#include "temp_folder.h"

/* ---- small checkpoints, written to a folder ---- */

#define C 64
#define HIDDEN 128
#define PATCH 4
#define SIDE 3
#define DEPTH 2
#define CLASSES 5
#define PIXELS (3 * PATCH * PATCH)

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A tensor is its pieces of rows x cols one below the other; a piece's values follow from its
 * number, so that schemes that cut weights differently can be compared. Block lines have %d in the
 * name. */
struct line {
    const char *name;
    uint32_t rows, cols;
    int piece[3];
};

#define MAX_TENSORS 64

struct checkpoint {
    fovea_tensor tensor[MAX_TENSORS];
    char name[MAX_TENSORS][96];
    size_t n;
};

static float value(int piece, uint32_t i)
{
    return (float)((piece * 7919 + (int)i * 31) % 1009) / 1009.0f;
}

static void add(struct checkpoint *c, const struct line *l, int block)
{
    fovea_tensor *t = &c->tensor[c->n];
    uint32_t pieces = 0, each = l->rows * l->cols;
    while (pieces < 3 && l->piece[pieces])
        pieces++;
    float *data = malloc(sizeof *data * pieces * each);
    assert_non_null(data);
    for (uint32_t p = 0; p < pieces; p++)
        for (uint32_t i = 0; i < each; i++)
            data[p * each + i] = value(l->piece[p] + 100 * block, i);
    sprintf(c->name[c->n], l->name, block);
    *t = (fovea_tensor){.name = c->name[c->n],
                        .dtype = "F32",
                        .rank = 2,
                        .shape = {pieces * l->rows, l->cols},
                        .data = data,
                        .size = sizeof *data * pieces * each};
    if (l->rows == 1 && pieces == 3) { /* a fused bias */
        t->rank = 1;
        t->shape[0] *= l->cols;
    }
    if (strstr(t->name, "patch") || strstr(t->name, "conv1")) {
        if (l->cols == PIXELS) {
            t->rank = 4;
            t->shape[1] = 3;
            t->shape[2] = t->shape[3] = PATCH;
        }
    }
    c->n++;
}

static struct checkpoint *checkpoint_of(const struct line *lines)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (; lines->name; lines++)
        for (int b = 0; b < (strchr(lines->name, '%') ? DEPTH : 1); b++)
            add(c, lines, b);
    return c;
}

static void free_checkpoint(struct checkpoint *c)
{
    for (size_t i = 0; i < c->n; i++)
        free((void *)(uintptr_t)c->tensor[i].data);
    free(c);
}

static void write_checkpoint(const struct line *lines, const char *config)
{
    struct checkpoint *c = checkpoint_of(lines);
    assert_int_equal(fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
                     FOVEA_OK);
    write_text("config.json", config);
    free_checkpoint(c);
}

static fovea_model *load(const char *path)
{
    fovea_model *m = NULL;
    if (fovea_model_load(&m, path) != FOVEA_OK)
        fail_msg("%s: %s", path, fovea_error());
    return m;
}

static fovea_model *load_lines(const struct line *lines, const char *config)
{
    write_checkpoint(lines, config);
    return load(folder);
}

static void expect_failure(fovea_status status, const char *says)
{
    fovea_model *m = NULL;
    const fovea_status got = fovea_model_load(&m, folder);
    if (got != status || !strstr(fovea_error(), says))
        fail_msg("expected %d \"%s\", got %d \"%s\"", status, says, got, got ? fovea_error() : "");
    assert_null(m);
}

/* ---- the same model by many names ---- */

enum {
    CLS = 1,
    REG,
    POS,
    PATCH_W,
    PATCH_B,
    POST_W,
    POST_B,
    LN1_W,
    LN1_B,
    Q_W,
    K_W,
    V_W,
    Q_B,
    K_B,
    V_B,
    PROJ_W,
    PROJ_B,
    LS1,
    LN2_W,
    LN2_B,
    FC1_W,
    FC1_B,
    FC2_W,
    FC2_B,
    LS2,
    HEAD_W,
    HEAD_B,
    PRE_W,
    PRE_B,
    EMBEDS,
    DIST,
    HEAD2_W,
    HEAD2_B,
};

static const struct line dinov2[] = {
    {"embeddings.cls_token", 1, C, {CLS}},
    {"embeddings.position_embeddings", 1 + SIDE *SIDE, C, {POS}},
    {"embeddings.mask_token", 1, C, {99}},
    {"embeddings.patch_embeddings.projection.weight", C, PIXELS, {PATCH_W}},
    {"embeddings.patch_embeddings.projection.bias", 1, C, {PATCH_B}},
    {"encoder.layer.%d.norm1.weight", 1, C, {LN1_W}},
    {"encoder.layer.%d.norm1.bias", 1, C, {LN1_B}},
    {"encoder.layer.%d.attention.attention.query.weight", C, C, {Q_W}},
    {"encoder.layer.%d.attention.attention.key.weight", C, C, {K_W}},
    {"encoder.layer.%d.attention.attention.value.weight", C, C, {V_W}},
    {"encoder.layer.%d.attention.attention.query.bias", 1, C, {Q_B}},
    {"encoder.layer.%d.attention.attention.key.bias", 1, C, {K_B}},
    {"encoder.layer.%d.attention.attention.value.bias", 1, C, {V_B}},
    {"encoder.layer.%d.attention.output.dense.weight", C, C, {PROJ_W}},
    {"encoder.layer.%d.attention.output.dense.bias", 1, C, {PROJ_B}},
    {"encoder.layer.%d.layer_scale1.lambda1", 1, C, {LS1}},
    {"encoder.layer.%d.norm2.weight", 1, C, {LN2_W}},
    {"encoder.layer.%d.norm2.bias", 1, C, {LN2_B}},
    {"encoder.layer.%d.mlp.fc1.weight", HIDDEN, C, {FC1_W}},
    {"encoder.layer.%d.mlp.fc1.bias", 1, HIDDEN, {FC1_B}},
    {"encoder.layer.%d.mlp.fc2.weight", C, HIDDEN, {FC2_W}},
    {"encoder.layer.%d.mlp.fc2.bias", 1, C, {FC2_B}},
    {"encoder.layer.%d.layer_scale2.lambda1", 1, C, {LS2}},
    {"layernorm.weight", 1, C, {POST_W}},
    {"layernorm.bias", 1, C, {POST_B}},
    {NULL, 0, 0, {0}},
};

#define DINOV2_CONFIG(more)                                                                        \
    "{\"model_type\":\"dinov2\",\"hidden_size\":64,\"num_hidden_layers\":2,"                       \
    "\"num_attention_heads\":1,\"image_size\":12,\"patch_size\":4" more "}"

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

static void same_weights(const fv_weight *a, const fv_weight *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    const size_t n = (size_t)a->rows * a->cols;
    float *x = malloc(sizeof *x * (n + 1)), *y = malloc(sizeof *y * (n + 1));
    assert_true(x && y);
    fv_weight_read(a, 0, a->rows, x);
    for (uint32_t r = 0; r < b->rows; r++) /* row by row must be the same */
        fv_weight_read(b, r, 1, y + (size_t)r * b->cols);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

static void same_roles(const fovea_model *a, const fovea_model *b)
{
    const fv_vit *x = a->roles, *y = b->roles;
    assert_int_equal(x->depth, y->depth);
    assert_int_equal(x->heads, y->heads);
    assert_int_equal(x->epi, y->epi);
    assert_int_equal(x->hidden, y->hidden);
    assert_int_equal(x->prefix, y->prefix);
    assert_int_equal(x->table_width, y->table_width);
    same_weights(&x->embed_w, &y->embed_w);
    same_weights(&x->embed_b, &y->embed_b);
    same_weights(&x->prefix_rows, &y->prefix_rows);
    same_weights(&x->prefix_add, &y->prefix_add);
    same_weights(&x->table, &y->table);
    same_weights(&x->pre_w, &y->pre_w);
    same_weights(&x->post_w, &y->post_w);
    same_weights(&x->post_b, &y->post_b);
    same_weights(&x->embeds_w, &y->embeds_w);
    for (uint32_t i = 0; i < x->depth; i++) {
        const fv_weight *p = &x->block[i].ln1_w, *q = &y->block[i].ln1_w;
        for (size_t k = 0; k < sizeof x->block[i] / sizeof *p; k++)
            same_weights(p + k, q + k);
    }
}

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
    fovea_model_info info;
    fovea_model_describe(by_timm, &info);
    assert_int_equal(info.preprocess.short_edge, 518);
    assert_int_equal(info.preprocess.crop_width, 518);
    assert_int_equal(info.preprocess.filter, FOVEA_FILTER_BILINEAR);
    assert_int_equal(info.native_width, 12);
    assert_string_equal(fovea_model_output(by_timm, 0), "last_hidden_state");
    assert_string_equal(fovea_model_output(by_timm, 1), "pooler_output");
    assert_string_equal(fovea_model_output(by_timm, 4), "hidden2");
    assert_string_equal(fovea_model_output(by_timm, 5), "block0.q");
    assert_string_equal(fovea_model_output(by_timm, 8), "block1.k");
    assert_null(fovea_model_output(by_timm, 9));

    /* Without the mask token nobody can tell whose names they are. */
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
    const fv_weight embeds = v->embeds_w;
    v->embeds_w = (fv_weight){.rows = 0};
    same_roles(hf, by_openai);
    assert_true(v->post_on_pooled);
    assert_true(v->eps == 1e-5f);
    assert_int_equal(v->epi, FV_EPI_GELU_QUICK);
    float row[C];
    assert_int_equal(embeds.rows, 24);
    fv_weight_read(&embeds, 5, 1, row); /* is a column of the file */
    for (uint32_t i = 0; i < C; i++)
        assert_true(row[i] == value(EMBEDS, i * 24 + 5));
    fovea_model_free(hf);
    fovea_model_free(by_openai);
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
    fv_weight_read(&v->head_w, 3, 1, row);
    for (uint32_t i = 0; i < C; i++) {
        assert_true(row[i] == 0.5f * value(HEAD_W, 3 * C + i));
        assert_true(row[C + i] == 0.5f * value(HEAD2_W, 3 * C + i));
    }
    fv_weight_read(&v->head_b, 0, 1, row);
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

/* ---- refusals ---- */

static void unusable_configurations_are_refused(void **state)
{
    static const struct {
        const char *config;
        fovea_status status;
        const char *says;
    } cases[] = {
        {"{", FOVEA_EFORMAT, "JSON"},
        {"[1]", FOVEA_EFORMAT, "object"},
        {"{\"a\":1,\"a\":2}", FOVEA_EFORMAT, "duplicate"},
        {"{}", FOVEA_EFORMAT, "model_type"},
        {"{\"model_type\":3}", FOVEA_EFORMAT, "\"model_type\" must be a text"},
        {"{\"model_type\":\"resnet\"}", FOVEA_ENOTSUP, "known are vit"},
        {"{\"model_type\":\"vit\"}", FOVEA_EFORMAT, "none of the names of a vit"},
        {"{\"model_type\":\"dinov2\"}", FOVEA_EFORMAT, "heads"},
        {DINOV2_CONFIG(",\"fovea\":[]"), FOVEA_EFORMAT, "\"fovea\" must be an object"},
        {DINOV2_CONFIG(",\"fovea\":{\"heads\":5}"), FOVEA_EFORMAT, "5 heads do not divide"},
        {DINOV2_CONFIG(",\"fovea\":{\"heads\":-1}"), FOVEA_EFORMAT, "\"fovea.heads\" must be"},
        {DINOV2_CONFIG(",\"fovea\":{\"pos_interp\":\"cubic\"}"), FOVEA_EFORMAT, "plain, offset"},
        {DINOV2_CONFIG(",\"num_channels\":1"), FOVEA_ENOTSUP, "RGB"},
        {DINOV2_CONFIG(",\"hidden_act\":\"mish\""), FOVEA_ENOTSUP, "mish"},
        {DINOV2_CONFIG(",\"qkv_bias\":0"), FOVEA_EFORMAT, "true or false"},
        {DINOV2_CONFIG(",\"qkv_bias\":false"), FOVEA_ENOTSUP, "no place"},
        {DINOV2_CONFIG(",\"intermediate_size\":96"), FOVEA_EFORMAT, "(128, 64), but (96, 64)"},
        {"{\"model_type\":\"dinov2\",\"hidden_size\":1e99}", FOVEA_EFORMAT, "integer"},
        {"{\"model_type\":\"dinov2\",\"hidden_size\":99999999}", FOVEA_EFORMAT, "1 to 65536"},
        {"{\"model_type\":\"dinov2\",\"hidden_size\":32,\"num_attention_heads\":1}", FOVEA_EFORMAT,
         "(64, 3, 4, 4), but (32, 3, 4, 4)"},
        {"{\"model_type\":\"dinov2\",\"num_hidden_layers\":3,\"num_attention_heads\":1}",
         FOVEA_EFORMAT, "encoder.layer.2."},
        {"{\"model_type\":\"dinov2\",\"num_attention_heads\":1,\"image_size\":16}", FOVEA_EFORMAT,
         "image_size"},
        {"{\"model_type\":\"dinov2\",\"num_attention_heads\":1,\"image_size\":[8]}", FOVEA_EFORMAT,
         "a size"},
        {"{\"model_type\":\"dinov2\",\"num_attention_heads\":1,\"patch_size\":[4,2]}",
         FOVEA_ENOTSUP, "square"},
    };
    (void)state;
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", cases[i].config);
        expect_failure(cases[i].status, cases[i].says);
    }
    unlink(in_folder("config.json"));
    expect_failure(FOVEA_EIO, "config.json");
    write_text("config.json", DINOV2_CONFIG(""));
    unlink(in_folder("model.safetensors"));
    expect_failure(FOVEA_EIO, "neither");
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static void keep_remark(const char *line, void *payload)
{
    snprintf(payload, 400, "%s", line);
}

static void blocks_that_are_left_out_are_told_of(void **state)
{
    char remark[400] = "";
    (void)state;
    fovea_log_set(keep_remark, remark);
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    fovea_model_free(load(folder));
    assert_string_equal(remark, "");
    write_text("config.json",
               "{\"model_type\":\"dinov2\",\"num_hidden_layers\":1,\"num_attention_heads\":1}");
    fovea_model *m = load(folder);
    assert_int_equal(m->info.depth, 1);
    assert_non_null(strstr(remark, "num_hidden_layers is 1"));
    assert_non_null(strstr(remark, "model.safetensors"));
    fovea_model_free(m);
    fovea_log_set(NULL, NULL);
}

static void every_missing_or_misshapen_tensor_is_named(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_of(dinov2);
    write_text("config.json", DINOV2_CONFIG(""));
    for (size_t i = 0; i < c->n; i++) {
        const fovea_tensor whole = c->tensor[i], last = c->tensor[c->n - 1];
        if (strstr(whole.name, "mask_token"))
            continue;
        c->tensor[i] = last;
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n - 1, NULL, 0),
            FOVEA_OK);
        c->tensor[i] = whole;
        expect_failure(FOVEA_EFORMAT, strstr(whole.name, "projection.weight")  ? "none of the names"
                                      : strstr(whole.name, "0.norm1.weight")   ? "none of the names"
                                      : strstr(whole.name, "norm1.weight")     ? "layer.1."
                                      : strstr(whole.name, "0.mlp.fc2.weight") ? "MLP"
                                                                               : whole.name);
        c->tensor[i].shape[0]++;
        c->tensor[i].size += 4 * (whole.size / 4 / (c->tensor[i].shape[0] - 1));
        char *longer = calloc(1, c->tensor[i].size);
        assert_non_null(longer);
        c->tensor[i].data = longer;
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
            FOVEA_OK);
        expect_failure(FOVEA_EFORMAT, strstr(whole.name, "position") ? "position" : whole.name);
        free(longer);
        c->tensor[i] = whole;
        c->tensor[i].dtype = "I32";
        assert_int_equal(
            fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
            FOVEA_OK);
        expect_failure(FOVEA_ENOTSUP, "has type I32");
        c->tensor[i] = whole;
    }
    free_checkpoint(c);
}

/* ---- shards ---- */

static void shards_are_joined(void **state)
{
    char index[8192] = "{\"weight_map\":{";
    (void)state;
    clear_folder();
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    fovea_model *whole = load(folder);
    unlink(in_folder("model.safetensors"));
    struct checkpoint *c = checkpoint_of(dinov2);
    const size_t cut = c->n / 2;
    assert_int_equal(fovea_tensors_write(in_folder("one.safetensors"), c->tensor, cut, NULL, 0),
                     FOVEA_OK);
    assert_int_equal(
        fovea_tensors_write(in_folder("two.safetensors"), c->tensor + cut, c->n - cut, NULL, 0),
        FOVEA_OK);
    for (size_t i = 0; i < c->n; i++)
        sprintf(index + strlen(index), "%s\"%s\":\"%s.safetensors\"", i ? "," : "", c->name[i],
                i < cut ? "one" : "two");
    free_checkpoint(c);
    strcat(index, "}}");
    write_text("model.safetensors.index.json", index);
    fovea_model *sharded = load(folder);
    same_roles(whole, sharded);
    assert_true(sharded->info.mapped_bytes > 0);
    fovea_model_free(sharded);
    sharded = load(in_folder("model.safetensors.index.json"));
    same_roles(whole, sharded);
    fovea_model_free(whole);
    fovea_model_free(sharded);

    static const char *const bad[][2] = {
        {"{}", "weight_map"},
        {"{\"weight_map\":{\"a\":1}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "same folder"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\"}}", "\"a\" is not in"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("model.safetensors.index.json", bad[i][0]);
        expect_failure(FOVEA_EFORMAT, bad[i][1]);
    }
    write_text("model.safetensors.index.json", "{\"weight_map\":{\"a\":\"other.safetensors\"}}");
    expect_failure(FOVEA_EIO, "other.safetensors");
    clear_folder();
}

/* ---- files that do not stay as they were ---- */

static fovea_status plan(fovea_model *m, int dry)
{
    fovea_device *device;
    fovea_plan *p = NULL;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = SIDE * PATCH;
    o.dry = dry;
    assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
    const fovea_status status = fovea_plan_create(&p, m, device, &o);
    fovea_plan_free(p);
    fovea_device_close(device);
    return status;
}

/* One that is replaced is still there; one that is cut would end the process where it is read. */
static void changed_files_are_not_read(void **state)
{
    (void)state;
    clear_folder();
    fovea_model *m = load_lines(dinov2, DINOV2_CONFIG(""));
    fovea_model *other = load(folder);
    struct stat st;
    assert_int_equal(plan(m, 0), FOVEA_OK);
    write_checkpoint(dinov2, DINOV2_CONFIG("")); /* renames */
    assert_int_equal(plan(m, 0), FOVEA_OK);
    fovea_model *cut = load(folder);
    assert_int_equal(stat(in_folder("model.safetensors"), &st), 0);
    assert_int_equal(truncate(in_folder("model.safetensors"), st.st_size / 2), 0);
    assert_int_equal(plan(cut, 0), FOVEA_EIO);
    assert_non_null(strstr(fovea_error(), "model.safetensors: was written to"));
    assert_int_equal(plan(cut, 1), FOVEA_OK);
    assert_int_equal(plan(other, 0), FOVEA_OK);
    fovea_model_free(cut);
    fovea_model_free(other);
    fovea_model_free(m);
    clear_folder();
}

/* ---- preprocessing ---- */

static void image_processors_are_read(void **state)
{
    static const struct {
        const char *config;
        fovea_preprocess want;
    } cases[] = {
        {"{\"image_processor_type\":\"BitImageProcessor\",\"size\":{\"shortest_edge\":256},"
         "\"crop_size\":{\"height\":224,\"width\":200},\"resample\":3,\"do_center_crop\":true,"
         "\"image_mean\":[0.5,0.25,0.125],\"image_std\":[1,2,3]}",
         {1,
          FOVEA_RESIZE_SHORT,
          FOVEA_FILTER_BICUBIC,
          256,
          0,
          0,
          200,
          224,
          1 / 255.0f,
          {0.5f, 0.25f, 0.125f},
          {1, 2, 3}}},
        {"{\"feature_extractor_type\":\"ViTFeatureExtractor\",\"size\":384,\"resample\":2,"
         "\"image_mean\":[0,0,0],\"image_std\":[1,1,1]}",
         {1,
          FOVEA_RESIZE_EXACT,
          FOVEA_FILTER_BILINEAR,
          0,
          384,
          384,
          0,
          0,
          1 / 255.0f,
          {0, 0, 0},
          {1, 1, 1}}},
        {"{\"feature_extractor_type\":\"CLIPFeatureExtractor\",\"size\":224,\"crop_size\":224,"
         "\"resample\":1,\"do_normalize\":false,\"rescale_factor\":0.5}",
         {1,
          FOVEA_RESIZE_SHORT,
          FOVEA_FILTER_LANCZOS,
          224,
          0,
          0,
          224,
          224,
          0.5f,
          {0, 0, 0},
          {1, 1, 1}}},
        {"{\"size\":{\"height\":30,\"width\":40},\"do_rescale\":false,\"do_center_crop\":false,"
         "\"do_normalize\":false,\"resample\":0}",
         {1, FOVEA_RESIZE_EXACT, FOVEA_FILTER_NEAREST, 0, 40, 30, 0, 0, 1, {0, 0, 0}, {1, 1, 1}}},
    };
    (void)state;
    write_checkpoint(dinov2, DINOV2_CONFIG(""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("preprocessor_config.json", cases[i].config);
        fovea_model *m = load(folder);
        const fovea_preprocess *p = &m->info.preprocess, *w = &cases[i].want;
        assert_int_equal(p->version, w->version);
        assert_int_equal(p->resize, w->resize);
        assert_int_equal(p->filter, w->filter);
        assert_int_equal(p->short_edge, w->short_edge);
        assert_int_equal(p->resize_width, w->resize_width);
        assert_int_equal(p->resize_height, w->resize_height);
        assert_int_equal(p->crop_width, w->crop_width);
        assert_int_equal(p->crop_height, w->crop_height);
        assert_true(p->rescale == w->rescale);
        assert_memory_equal(p->mean, w->mean, sizeof p->mean);
        assert_memory_equal(p->std, w->std, sizeof p->std);
        fovea_model_free(m);
    }
    static const char *const bad[][2] = {
        {"{\"image_std\":[1,1]}", "image_std"},   {"{\"image_std\":[1,1,0]}", "image_std"},
        {"{\"resample\":9}", "resample"},         {"{\"size\":\"big\"}", "size"},
        {"{\"size\":{\"height\":5}}", "size"},    {"{\"size\":-3}", "size"},
        {"{\"do_resize\":\"yes\"}", "do_resize"}, {"{\"rescale_factor\":-1}", "rescale_factor"},
        {"{\"crop_size\":[1,2,3]}", "crop_size"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("preprocessor_config.json", bad[i][0]);
        expect_failure(FOVEA_EFORMAT, bad[i][1]);
        assert_non_null(strstr(fovea_error(), "preprocessor_config.json"));
    }
    unlink(in_folder("preprocessor_config.json"));
}

/* ---- synthetic models ---- */

static void synthetic_models_load(void **state)
{
    const char *name;
    (void)state;
    for (size_t i = 0; (name = fovea_model_synthetic(i)) != NULL; i++) {
        char path[64];
        snprintf(path, sizeof path, "synthetic:%s", name);
        fovea_model *m = load(path);
        if (strcmp(m->family->name, "vit") != 0) {
            fovea_model_free(m);
            continue;
        }
        const fv_vit *v = m->roles;
        const fv_weight *w = &v->block[v->depth - 1].fc1_w;
        float rows[2][4608];
        double sum = 0, squares = 0;
        for (uint32_t r = 0; r < 64; r++) {
            fv_weight_read(w, r, 1, rows[0]);
            for (uint32_t k = 0; k < w->cols; k++) {
                sum += rows[0][k];
                squares += (double)rows[0][k] * rows[0][k];
            }
        }
        const double n = 64.0 * w->cols;
        assert_true(sum / n < 0.01 && sum / n > -0.01);
        assert_true(squares / n * w->cols > 0.9 && squares / n * w->cols < 1.1);
        fv_weight_read(w, 7, 2, rows[0]);
        fv_weight_read(w, 8, 1, rows[1]);
        assert_memory_equal(rows[0] + w->cols, rows[1], w->cols * sizeof(float));
        assert_true(m->info.mapped_bytes == 0 && m->info.parameters > 5000000);
        fovea_model_free(m);
    }
    fovea_model *none = NULL;
    assert_int_equal(fovea_model_load(&none, "synthetic:vit-x99"), FOVEA_EINVAL);
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

/* ---- real checkpoints ---- */

static void golden_checkpoints_load(void **state)
{
    static const struct {
        const char *name;
        uint32_t width, depth, prefix, classes;
        const char *output;
    } cases[] = {
        {"vit-01", 64, 3, 1, 10, "logits"},
        {"vit-02", 72, 3, 1, 0, "last_hidden_state"},
        {"dinov2-01", 64, 3, 1, 0, "last_hidden_state"},
        {"dinov2-02", 96, 3, 1, 10, "logits"},
        {"dinov2-03", 64, 3, 1, 0, "last_hidden_state"},
        {"dinov2-with-registers-01", 64, 3, 5, 0, "last_hidden_state"},
        {"dinov2-with-registers-02", 64, 3, 4, 0, "last_hidden_state"},
        {"dinov2-with-registers-03", 64, 2, 2, 0, "last_hidden_state"},
        {"clip-vision-01", 64, 3, 1, 0, "last_hidden_state"},
        {"clip-vision-02", 72, 3, 1, 0, "last_hidden_state"},
        {"clip-vision-03", 64, 2, 1, 0, "last_hidden_state"},
        {"siglip-01", 64, 3, 0, 0, "last_hidden_state"},
        {"siglip-02", 72, 3, 0, 0, "last_hidden_state"},
    };
    const char *golden = getenv("FOVEA_GOLDEN");
    size_t found = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/models/%s", golden ? golden : TEST_DATA "/golden",
                 cases[i].name);
        if (stat(path, &st) != 0)
            continue;
        fovea_model *m = load(path);
        fovea_model_info info;
        fovea_model_describe(m, &info);
        assert_int_equal(info.width, cases[i].width);
        assert_int_equal(info.depth, cases[i].depth);
        assert_int_equal(info.prefix, cases[i].prefix);
        assert_int_equal(info.classes, cases[i].classes);
        assert_string_equal(fovea_model_output(m, 0), cases[i].output);
        fovea_model_free(m);
        strcat(path, "/model.safetensors"); /* the file itself is a model too */
        fovea_model_free(load(path));
        found++;
    }
    if (!found) {
        print_message("skipped: no such files here\n");
        skip();
    }
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    write_checkpoint(dinov2, DINOV2_CONFIG(",\"id2label\":{\"0\":\"a\"}"));
    write_text("preprocessor_config.json", "{}");
    const char *const paths[] = {folder, "synthetic:siglip-b16"};
    for (size_t i = 0; i < 2; i++)
        for (uint64_t n = 1, done = 0; !done; n++) {
            fovea_model *m = NULL;
            fv_mem_fail_at(n);
            const fovea_status status = fovea_model_load(&m, paths[i]);
            fv_mem_fail_at(0);
            done = status == FOVEA_OK;
            assert_true(done || status == FOVEA_ENOMEM);
            fovea_model_free(m);
            assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_checkpoints_load),
        cmocka_unit_test(original_and_timm_names_mean_the_same),
        cmocka_unit_test(wrapped_names_mean_the_same),
        cmocka_unit_test(openai_names_mean_the_same),
        cmocka_unit_test(two_heads_are_averaged),
        cmocka_unit_test(registers_get_no_position),
        cmocka_unit_test(unusable_configurations_are_refused),
        cmocka_unit_test(blocks_that_are_left_out_are_told_of),
        cmocka_unit_test(every_missing_or_misshapen_tensor_is_named),
        cmocka_unit_test(shards_are_joined),
        cmocka_unit_test(changed_files_are_not_read),
        cmocka_unit_test(image_processors_are_read),
        cmocka_unit_test(synthetic_models_load),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
