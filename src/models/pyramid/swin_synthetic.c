/* swin_synthetic.c: makes Swin checkpoints of the published sizes with random weights and the names
 * of transformers. */
#include "models/dense/decoder_synthetic.h"
#include "models/pyramid/swin.h"
#include "models/synthetic.h"

enum { STAGES = 4, PATCH = 4, MLP = 4, CLASSES = 1000 };

static const struct size {
    const char *name;
    uint32_t image, window, width, heads,
        deepest; /* width and heads of stage 1; depth of stage 3 */
} sizes[] = {
    {"swin-t", 224, 7, 96, 3, 6},   {"swin-s", 224, 7, 96, 3, 18},
    {"swin-b", 224, 7, 128, 4, 18}, {"swin-b384", 384, 12, 128, 4, 18},
    {"swin-l", 224, 7, 192, 6, 18}, {"swin-l384", 384, 12, 192, 6, 18},
};

struct maker {
    fv_synthetic *m;
    const char *root; /* prefix of all names */
    uint32_t window, width[STAGES], depth[STAGES], heads[STAGES];
};

static void block(const struct maker *k, uint32_t i, uint32_t j, float added)
{
    static const char *const qkv[] = {"query.", "key.", "value."};
    const uint32_t c = k->width[i], offsets = 2 * k->window - 1;
    fv_synthetic_under(k->m, "%sencoder.layers.%u.blocks.%u.attention.self.", k->root, i, j);
    for (uint32_t part = 0; part < 3; part++)
        fv_synthetic_linear(k->m, qkv[part], c, c, 1, 1);
    fv_synthetic_table(k->m, "relative_position_bias_table", offsets * offsets, k->heads[i], 0.5f);
    fv_synthetic_under(k->m, "%sencoder.layers.%u.blocks.%u.", k->root, i, j);
    fv_synthetic_norm(k->m, "layernorm_before.", c);
    fv_synthetic_linear(k->m, "attention.output.dense.", c, c, 1, added);
    fv_synthetic_norm(k->m, "layernorm_after.", c);
    fv_synthetic_linear(k->m, "intermediate.dense.", MLP * c, c, 1, 1);
    fv_synthetic_linear(k->m, "output.dense.", c, MLP * c, 1, added);
}

static void stage(const struct maker *k, uint32_t i)
{
    const float added =
        fv_synthetic_added(2 * (k->depth[0] + k->depth[1] + k->depth[2] + k->depth[3]));
    for (uint32_t j = 0; j < k->depth[i]; j++)
        block(k, i, j, added);
    if (i + 1 == STAGES)
        return;
    fv_synthetic_under(k->m, "%sencoder.layers.%u.downsample.", k->root, i);
    fv_synthetic_norm(k->m, "norm.", 4 * k->width[i]);
    fv_synthetic_matrix(k->m, "reduction.", 2 * k->width[i], 4 * k->width[i], 1, 1);
}

static void encoder(const struct maker *k)
{
    fv_synthetic_under(k->m, "%sembeddings.", k->root);
    fv_synthetic_linear(k->m, "patch_embeddings.projection.", k->width[0], 3, PATCH, 1);
    fv_synthetic_norm(k->m, "norm.", k->width[0]);
    for (uint32_t i = 0; i < STAGES; i++)
        stage(k, i);
}

/* Adds the last norm and the classification head, or the norms of the stages and the neck and head
 * that the name's ending selects. Returns their part of config.json. */
static json_t *head(const struct maker *k)
{
    const uint32_t last = k->width[STAGES - 1];
    if (!*k->m->ending) {
        fv_synthetic_under(k->m, "%s", k->root);
        fv_synthetic_norm(k->m, "layernorm.", last);
        fv_synthetic_under(k->m, "%s", "");
        fv_synthetic_linear(k->m, "classifier.", CLASSES, last, 1, 1);
        return json_object();
    }
    for (uint32_t i = 0; i < STAGES; i++) {
        fv_synthetic_under(k->m, "hidden_states_norms.stage%u.", i + 1);
        fv_synthetic_norm(k->m, "", k->width[i]);
    }
    return fv_decoder_synthetic(k->m, k->width);
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    struct maker k = {.m = m, .root = "swin.", .window = s->window};
    for (uint32_t i = 0; i < STAGES; i++) {
        k.width[i] = s->width << i;
        k.heads[i] = s->heads << i;
        k.depth[i] = i == 2 ? s->deepest : 2;
    }
    encoder(&k);
    json_t *config =
        json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:i, s:i}", "model_type", "swin", "image_size",
                  (int)s->image, "patch_size", PATCH, "embed_dim", (int)s->width, "depths",
                  fv_synthetic_four(k.depth), "num_heads", fv_synthetic_four(k.heads),
                  "window_size", (int)s->window, "mlp_ratio", MLP);
    return fv_synthetic_join(config, head(&k));
}

const fv_synthetic_list fv_swin_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
