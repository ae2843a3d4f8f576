/* polaformer_synthetic.c: makes Pola-PVT and Pola-Swin checkpoints of the published sizes with
 * random weights. */
#include <string.h>

#include "models/dense/decoder_synthetic.h"
#include "models/pyramid/polaformer.h"
#include "models/synthetic.h"

#define CLASSES 1000
#define STAGES 4
#define KERNEL 5
#define PATCH 4

struct maker {
    fv_synthetic *m;
    uint32_t image, mlp[STAGES];
    uint32_t width[STAGES], depth[STAGES], heads[STAGES];
};

static void table(struct maker *k, const char *name, uint64_t rows, uint64_t cols, float spread)
{
    fv_synthetic_tensor(k->m, name, 3, (const uint64_t[]){1, rows, cols}, 0, spread);
}

/* Adds the tensors of a linear block other than its matrices. */
static void learned(struct maker *k, uint32_t i, uint64_t tokens)
{
    const uint32_t d = k->width[i] / k->heads[i];
    table(k, "attn.scale", 1, k->width[i], 0.5f);
    table(k, "attn.power", k->heads[i], d, 0.5f);
    table(k, "attn.positional_encoding", tokens, k->width[i], 0.035f);
    fv_synthetic_linear(k->m, "attn.dwc.", d, 1, KERNEL, 1);
}

/* Adds the tensors that all blocks have around their attention. */
static void around(struct maker *k, uint32_t i)
{
    const uint32_t c = k->width[i], hidden = k->mlp[i] * c;
    const float added =
        fv_synthetic_added(2 * (k->depth[0] + k->depth[1] + k->depth[2] + k->depth[3]));
    fv_synthetic_norm(k->m, "norm1.", c);
    fv_synthetic_linear(k->m, "attn.proj.", c, c, 1, added);
    fv_synthetic_norm(k->m, "norm2.", c);
    fv_synthetic_linear(k->m, "mlp.fc1.", hidden, c, 1, 1);
    fv_synthetic_linear(k->m, "mlp.fc2.", c, hidden, 1, added);
}

/* Adds the classification head, or the neck and head that the name's ending selects. Returns their
 * part of config.json. */
static json_t *head(struct maker *k, bool normed)
{
    fv_synthetic_under(k->m, "%s", "");
    if (!*k->m->ending) {
        fv_synthetic_norm(k->m, "norm.", k->width[STAGES - 1]);
        fv_synthetic_linear(k->m, "head.", CLASSES, k->width[STAGES - 1], 1, 1);
        return json_object();
    }
    for (uint32_t i = 0; normed && i < STAGES; i++) {
        fv_synthetic_under(k->m, "norm%u.", i);
        fv_synthetic_norm(k->m, "", k->width[i]);
    }
    return fv_decoder_synthetic(k->m, k->width);
}

/* ---- Pola-PVT ---- */

static const struct pvt {
    const char *name;
    uint32_t depth[STAGES];
} pvt[] = {
    {"pola-pvt-t", {2, 2, 2, 2}},
    {"pola-pvt-s", {3, 4, 6, 3}},
    {"pola-pvt-m", {3, 4, 18, 3}},
    {"pola-pvt-l", {3, 8, 27, 3}},
};

static void pvt_stage(struct maker *k, uint32_t i)
{
    const uint32_t c = k->width[i], side = k->image / (PATCH << i);
    fv_synthetic_under(k->m, "patch_embed%u.", i + 1);
    fv_synthetic_linear(k->m, "proj.", c, i ? k->width[i - 1] : 3, i ? 2 : PATCH, 1);
    fv_synthetic_norm(k->m, "norm.", c);
    fv_synthetic_under(k->m, "pos_embed%u", i + 1);
    table(k, "", (uint64_t)side * side, c, 0.035f);
    for (uint32_t j = 0; j < k->depth[i]; j++) {
        fv_synthetic_under(k->m, "block%u.%u.", i + 1, j);
        fv_synthetic_linear(k->m, "attn.qg.", 2 * c, c, 1, 1);
        fv_synthetic_linear(k->m, "attn.kv.", 2 * c, c, 1, 1);
        learned(k, i, (uint64_t)side * side);
        around(k, i);
    }
}

static json_t *make_pvt(fv_synthetic *m, const void *size)
{
    const struct pvt *s = size;
    struct maker k = {.m = m,
                      .image = 224,
                      .mlp = {8, 8, 4, 4},
                      .width = {64, 128, 320, 512},
                      .heads = {1, 2, 5, 8}};
    memcpy(k.depth, s->depth, sizeof k.depth);
    for (uint32_t i = 0; i < STAGES; i++)
        pvt_stage(&k, i);
    json_t *config = json_pack(
        "{s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:b, s:s, s:s}", "model_type", "pola_pvt", "img_size",
        (int)k.image, "patch_size", PATCH, "embed_dims", fv_synthetic_four(k.width), "depths",
        fv_synthetic_four(k.depth), "num_heads", fv_synthetic_four(k.heads), "mlp_ratios",
        fv_synthetic_four(k.mlp), "qkv_bias", 1, "la_sr_ratios", "1111", "attn_type", "LLLL");
    return fv_synthetic_join(config, head(&k, false));
}

const fv_synthetic_list fv_pola_pvt_synthetics = {FV_SYNTHETIC_SIZES(pvt), .make = make_pvt};

/* ---- Pola-Swin ---- */

static const struct swin {
    const char *name;
    uint32_t image, width, heads, deepest; /* width and heads of stage 1; depth of stage 3 */
} swin[] = {
    {"pola-swin-t", 224, 96, 3, 6},
    {"pola-swin-s", 224, 96, 3, 18},
    {"pola-swin-b", 224, 128, 4, 18},
    {"pola-swin-b384", 384, 128, 4, 18},
};

static void swin_stage(struct maker *k, uint32_t i)
{
    const uint32_t c = k->width[i], side = k->image / (PATCH << i);
    const uint32_t window = k->image / 32, offsets = 2 * window - 1;
    for (uint32_t j = 0; j < k->depth[i]; j++) {
        fv_synthetic_under(k->m, "layers.%u.blocks.%u.", i, j);
        fv_synthetic_linear(k->m, i < 2 ? "attn.qkvg." : "attn.qkv.", (i < 2 ? 4 : 3) * c, c, 1, 1);
        if (i < 2)
            learned(k, i, (uint64_t)side * side);
        else
            table(k, "attn.relative_position_bias_table", (uint64_t)offsets * offsets, k->heads[i],
                  0.5f);
        around(k, i);
    }
    if (i + 1 == STAGES)
        return;
    fv_synthetic_under(k->m, "layers.%u.downsample.", i);
    fv_synthetic_norm(k->m, "norm.", 4 * c);
    fv_synthetic_matrix(k->m, "reduction.", 2 * c, 4 * c, 1, 1);
}

static json_t *make_swin(fv_synthetic *m, const void *size)
{
    const struct swin *s = size;
    struct maker k = {.m = m, .image = s->image, .mlp = {4, 4, 4, 4}};
    for (uint32_t i = 0; i < STAGES; i++) {
        k.width[i] = s->width << i;
        k.heads[i] = s->heads << i;
        k.depth[i] = i == 2 ? s->deepest : 2;
    }
    fv_synthetic_under(m, "patch_embed.");
    fv_synthetic_linear(m, "proj.", k.width[0], 3, PATCH, 1);
    fv_synthetic_norm(m, "norm.", k.width[0]);
    for (uint32_t i = 0; i < STAGES; i++)
        swin_stage(&k, i);
    json_t *config = json_pack(
        "{s:s, s:i, s:i, s:i, s:o, s:o, s:i, s:i, s:b, s:s}", "model_type", "pola_swin", "img_size",
        (int)k.image, "patch_size", PATCH, "embed_dim", (int)k.width[0], "depths",
        fv_synthetic_four(k.depth), "num_heads", fv_synthetic_four(k.heads), "window_size",
        (int)(k.image / PATCH), "mlp_ratio", 4, "qkv_bias", 1, "attn_type", "LLSS");
    return fv_synthetic_join(config, head(&k, true));
}

const fv_synthetic_list fv_pola_swin_synthetics = {FV_SYNTHETIC_SIZES(swin), .make = make_swin};
