/* polaformer_synthetic.c: Pola-PVT and Pola-Swin checkpoints of the published sizes with random
 * weights.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/dense/decoder_synthetic.h"
#include "models/pyramid/polaformer.h"
#include "models/synthetic.h"

#define CLASSES 1000
#define STAGES 4
#define KERNEL 5
#define PATCH 4

struct maker {
    fv_synthetic m;
    uint32_t image, mlp[STAGES];
    uint32_t width[STAGES], depth[STAGES], heads[STAGES];
    float added; /* gain of layers whose output is added to the residual stream, twice per block */
};

static void set_added(struct maker *k)
{
    uint32_t blocks = 0;
    for (int i = 0; i < STAGES; i++)
        blocks += k->depth[i];
    k->added = 1 / sqrtf(2 * (float)blocks);
}

static void linear(struct maker *k, const char *prefix, const char *stem, uint32_t rows,
                   uint32_t cols, float gain)
{
    fv_synthetic_linear(&k->m, prefix, stem, rows, cols, 1, gain);
}

static void table(struct maker *k, const char *prefix, const char *stem, uint64_t rows,
                  uint64_t cols, float spread)
{
    fv_synthetic_tensor(&k->m, prefix, stem, 3, (const uint64_t[]){1, rows, cols}, 0, spread);
}

/* Adds what a linear block has in addition to its matrices. */
static void learned(struct maker *k, const char *prefix, uint32_t i, uint64_t tokens)
{
    const uint32_t d = k->width[i] / k->heads[i];
    table(k, prefix, "attn.scale", 1, k->width[i], 0.5f);
    table(k, prefix, "attn.power", k->heads[i], d, 0.5f);
    table(k, prefix, "attn.positional_encoding", tokens, k->width[i], 0.035f);
    fv_synthetic_linear(&k->m, prefix, "attn.dwc.", d, 1, KERNEL, 1);
}

/* Adds what all blocks have around their attention. */
static void around(struct maker *k, const char *prefix, uint32_t i)
{
    const uint32_t c = k->width[i], hidden = k->mlp[i] * c;
    fv_synthetic_norm(&k->m, prefix, "norm1.", c);
    linear(k, prefix, "attn.proj.", c, c, k->added);
    fv_synthetic_norm(&k->m, prefix, "norm2.", c);
    linear(k, prefix, "mlp.fc1.", hidden, c, 1);
    linear(k, prefix, "mlp.fc2.", c, hidden, k->added);
}

/* Adds the classification head, or the neck and head that `name` ends in, with their part of
 * config.json. */
static void head(struct maker *k, const char *name, bool normed, json_t *made)
{
    size_t base;
    const int decoder = fv_decoder_suffix(&base, name);
    char stem[16];
    if (decoder >= 0) {
        for (uint32_t i = 0; normed && i < STAGES; i++) {
            snprintf(stem, sizeof stem, "norm%u.", i);
            fv_synthetic_norm(&k->m, "", stem, k->width[i]);
        }
        fv_decoder_synthetic_tensors(&k->m, decoder, k->width);
        fv_decoder_synthetic_config(made, decoder, k->width);
        return;
    }
    fv_synthetic_norm(&k->m, "", "norm.", k->width[STAGES - 1]);
    linear(k, "", "head.", CLASSES, k->width[STAGES - 1], 1);
}

/* Whether `name` is `size`, or begins with this backbone's name. */
static bool is_size(const char *size, const char *name)
{
    size_t base;
    fv_decoder_suffix(&base, name);
    return strlen(size) == base && strncmp(size, name, base) == 0;
}

/* ---- Pola-PVT ---- */

static const struct {
    const char *name;
    uint32_t depth[STAGES];
} pvt[] = {
    {"pola-pvt-t", {2, 2, 2, 2}},
    {"pola-pvt-s", {3, 4, 6, 3}},
    {"pola-pvt-m", {3, 4, 18, 3}},
    {"pola-pvt-l", {3, 8, 27, 3}},
};

const char *fv_pola_pvt_synthetic(size_t index)
{
    return index < sizeof pvt / sizeof *pvt ? pvt[index].name : NULL;
}

static void pvt_stage(struct maker *k, uint32_t i)
{
    const uint32_t c = k->width[i], side = k->image / (PATCH << i);
    char prefix[32];
    snprintf(prefix, sizeof prefix, "patch_embed%u.", i + 1);
    fv_synthetic_linear(&k->m, prefix, "proj.", c, i ? k->width[i - 1] : 3, i ? 2 : PATCH, 1);
    fv_synthetic_norm(&k->m, prefix, "norm.", c);
    snprintf(prefix, sizeof prefix, "pos_embed%u", i + 1);
    table(k, prefix, "", (uint64_t)side * side, c, 0.035f);
    for (uint32_t j = 0; j < k->depth[i]; j++) {
        snprintf(prefix, sizeof prefix, "block%u.%u.", i + 1, j);
        linear(k, prefix, "attn.qg.", 2 * c, c, 1);
        linear(k, prefix, "attn.kv.", 2 * c, c, 1);
        learned(k, prefix, i, (uint64_t)side * side);
        around(k, prefix, i);
    }
}

fovea_status fv_pola_pvt_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    struct maker k = {.m = {.source = source},
                      .image = 224,
                      .mlp = {8, 8, 4, 4},
                      .width = {64, 128, 320, 512},
                      .heads = {1, 2, 5, 8}};
    size_t s = 0;
    while (!is_size(pvt[s].name, name))
        s++;
    memcpy(k.depth, pvt[s].depth, sizeof k.depth);
    set_added(&k);
    for (uint32_t i = 0; i < STAGES; i++)
        pvt_stage(&k, i);
    json_t *made = json_pack(
        "{s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:b, s:s, s:s}", "model_type", "pola_pvt", "img_size",
        (int)k.image, "patch_size", PATCH, "embed_dims", fv_synthetic_list(k.width), "depths",
        fv_synthetic_list(k.depth), "num_heads", fv_synthetic_list(k.heads), "mlp_ratios",
        fv_synthetic_list(k.mlp), "qkv_bias", 1, "la_sr_ratios", "1111", "attn_type", "LLLL");
    head(&k, name, false, made);
    return fv_synthetic_end(config, name, k.m.status, made);
}

/* ---- Pola-Swin ---- */

static const struct {
    const char *name;
    uint32_t image, width, heads, deepest; /* width and heads of stage 1; depth of stage 3 */
} swin[] = {
    {"pola-swin-t", 224, 96, 3, 6},
    {"pola-swin-s", 224, 96, 3, 18},
    {"pola-swin-b", 224, 128, 4, 18},
    {"pola-swin-b384", 384, 128, 4, 18},
};

const char *fv_pola_swin_synthetic(size_t index)
{
    return index < sizeof swin / sizeof *swin ? swin[index].name : NULL;
}

static void swin_stage(struct maker *k, uint32_t i)
{
    const uint32_t c = k->width[i], side = k->image / (PATCH << i);
    const uint32_t window = k->image / 32, offsets = 2 * window - 1;
    char prefix[32];
    for (uint32_t j = 0; j < k->depth[i]; j++) {
        snprintf(prefix, sizeof prefix, "layers.%u.blocks.%u.", i, j);
        linear(k, prefix, i < 2 ? "attn.qkvg." : "attn.qkv.", (i < 2 ? 4 : 3) * c, c, 1);
        if (i < 2)
            learned(k, prefix, i, (uint64_t)side * side);
        else
            table(k, prefix, "attn.relative_position_bias_table", (uint64_t)offsets * offsets,
                  k->heads[i], 0.5f);
        around(k, prefix, i);
    }
    if (i + 1 == STAGES)
        return;
    snprintf(prefix, sizeof prefix, "layers.%u.downsample.", i);
    fv_synthetic_norm(&k->m, prefix, "norm.", 4 * c);
    fv_synthetic_matrix(&k->m, prefix, "reduction.", 2 * c, 4 * c, 1, 1);
}

fovea_status fv_pola_swin_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    struct maker k = {.m = {.source = source}, .mlp = {4, 4, 4, 4}};
    size_t s = 0;
    while (!is_size(swin[s].name, name))
        s++;
    k.image = swin[s].image;
    for (uint32_t i = 0; i < STAGES; i++) {
        k.width[i] = swin[s].width << i;
        k.heads[i] = swin[s].heads << i;
        k.depth[i] = i == 2 ? swin[s].deepest : 2;
    }
    set_added(&k);
    fv_synthetic_linear(&k.m, "patch_embed.", "proj.", k.width[0], 3, PATCH, 1);
    fv_synthetic_norm(&k.m, "patch_embed.", "norm.", k.width[0]);
    for (uint32_t i = 0; i < STAGES; i++)
        swin_stage(&k, i);
    json_t *made = json_pack(
        "{s:s, s:i, s:i, s:i, s:o, s:o, s:i, s:i, s:b, s:s}", "model_type", "pola_swin", "img_size",
        (int)k.image, "patch_size", PATCH, "embed_dim", (int)k.width[0], "depths",
        fv_synthetic_list(k.depth), "num_heads", fv_synthetic_list(k.heads), "window_size",
        (int)(k.image / PATCH), "mlp_ratio", 4, "qkv_bias", 1, "attn_type", "LLSS");
    head(&k, name, true, made);
    return fv_synthetic_end(config, name, k.m.status, made);
}
