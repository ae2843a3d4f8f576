/* small_checkpoint.h: writes checkpoints of a ViT with two blocks to the test's folder
 * (temp_folder.h), and compares models. */
#ifndef FOVEA_TESTS_SMALL_CHECKPOINT_H
#define FOVEA_TESTS_SMALL_CHECKPOINT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/tensors.h>

#include "models/model.h"
#include "models/vit/vit.h"
#include "tests/temp_folder.h"

#define C 64
#define HIDDEN 128
#define PATCH 4
#define SIDE 3
#define DEPTH 2
#define CLASSES 5
#define PIXELS (3 * PATCH * PATCH)

static inline void write_text(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A tensor consists of pieces of rows x cols, one below the other. The values of a piece follow
 * from its number, so that naming schemes that split weights differently can be compared. Names of
 * lines for blocks contain %d. */
struct line {
    const char *name;
    uint32_t rows, cols;
    int piece[3];
};

#define MAX_TENSORS 128
#define NAME 160

struct checkpoint {
    fovea_tensor tensor[MAX_TENSORS];
    char name[MAX_TENSORS][NAME];
    size_t n;
};

static inline float value(int piece, uint32_t i)
{
    return (float)((piece * 7919 + (int)i * 31) % 1009) / 1009.0f;
}

static inline void add(struct checkpoint *c, const struct line *l, int block)
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

static inline struct checkpoint *checkpoint_of(const struct line *lines)
{
    struct checkpoint *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (; lines->name; lines++)
        for (int b = 0; b < (strchr(lines->name, '%') ? DEPTH : 1); b++)
            add(c, lines, b);
    return c;
}

static inline void free_checkpoint(struct checkpoint *c)
{
    for (size_t i = 0; i < c->n; i++)
        free((void *)(uintptr_t)c->tensor[i].data);
    free(c);
}

static inline void write_checkpoint(const struct line *lines, const char *config)
{
    struct checkpoint *c = checkpoint_of(lines);
    assert_int_equal(fovea_tensors_write(in_folder("model.safetensors"), c->tensor, c->n, NULL, 0),
                     FOVEA_OK);
    write_text("config.json", config);
    free_checkpoint(c);
}

static inline fovea_model *load(const char *path)
{
    fovea_model *m = NULL;
    if (fovea_model_load(&m, path) != FOVEA_OK)
        fail_msg("%s: %s", path, fovea_error());
    return m;
}

static inline fovea_model *load_lines(const struct line *lines, const char *config)
{
    write_checkpoint(lines, config);
    return load(folder);
}

static inline void expect_failure(fovea_status status, const char *says)
{
    fovea_model *m = NULL;
    const fovea_status got = fovea_model_load(&m, folder);
    if (got != status || !strstr(fovea_error(), says))
        fail_msg("expected %d \"%s\", got %d \"%s\"", status, says, got, got ? fovea_error() : "");
    assert_null(m);
}

/* Numbers of the pieces, independent of a scheme's names. */
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
    REL_BIAS,
    REL_SHARED,
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

/* ---- comparison ---- */

static inline void same_weights(const fv_weight *a, const fv_weight *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    const size_t n = (size_t)a->rows * a->cols;
    float *x = malloc(sizeof *x * (n + 1)), *y = malloc(sizeof *y * (n + 1));
    assert_true(x && y);
    fv_weight_read(a, 0, a->rows, x);
    for (uint32_t r = 0; r < b->rows; r++) /* compares row by row */
        fv_weight_read(b, r, 1, y + (size_t)r * b->cols);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x);
    free(y);
}

static inline void same_roles(const fovea_model *a, const fovea_model *b)
{
    const fv_vit *x = a->roles, *y = b->roles;
    assert_int_equal(x->depth, y->depth);
    assert_int_equal(x->heads, y->heads);
    assert_int_equal(x->epi, y->epi);
    assert_int_equal(x->hidden, y->hidden);
    assert_int_equal(x->prefix, y->prefix);
    assert_int_equal(x->table_width, y->table_width);
    same_weights(&x->embed.w, &y->embed.w);
    same_weights(&x->embed.b, &y->embed.b);
    same_weights(&x->prefix_rows, &y->prefix_rows);
    same_weights(&x->prefix_add, &y->prefix_add);
    same_weights(&x->table, &y->table);
    same_weights(&x->pre.w, &y->pre.w);
    same_weights(&x->post.w, &y->post.w);
    same_weights(&x->post.b, &y->post.b);
    same_weights(&x->embeds.w, &y->embeds.w);
    for (uint32_t i = 0; i < x->depth; i++) {
        const fv_weight *p = &x->block[i].ln1.w, *q = &y->block[i].ln1.w;
        for (size_t k = 0; k < sizeof x->block[i] / sizeof *p; k++)
            same_weights(p + k, q + k);
    }
}

#endif
