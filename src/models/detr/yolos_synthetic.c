/* yolos_synthetic.c: makes YOLOS checkpoints of the published sizes for COCO, with random weights
 * and transformers' names. */
#include "models/detr/yolos.h"
#include "models/vit/vit_synthetic.h"

enum { PATCH = 16, TOKENS = 100, CLASSES = 91 };

static const struct size {
    const char *name;
    uint32_t width, heads, image_height, image_width;
    bool between; /* positions between blocks */
} sizes[] = {
    {"yolos-ti", 192, 3, 800, 1333, false},
    {"yolos-s", 384, 6, 512, 864, true},
    {"yolos-b", 768, 12, 800, 1344, true},
};
enum { DEPTH = 12 };

static void head(fv_synthetic *m, const char *name, uint32_t width, uint32_t rows)
{
    fv_synthetic_under(m, "%s", name);
    fv_synthetic_linear(m, "layers.0.", width, width, 1, 1);
    fv_synthetic_linear(m, "layers.1.", width, width, 1, 1);
    fv_synthetic_linear(m, "layers.2.", rows, width, 1, 1);
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    fv_vit_spec encoder = {.kind = FV_VIT_YOLOS,
                           .names = &fv_yolos_names,
                           .root = "vit.",
                           .width = s->width,
                           .depth = DEPTH,
                           .heads = s->heads,
                           .hidden = 4 * s->width,
                           .patch = PATCH,
                           .image = s->image_height,
                           .image_width = s->image_width,
                           .registers = TOKENS,
                           .spread = 0.1f};
    const uint64_t tokens =
        1 + TOKENS + (uint64_t)(s->image_height / PATCH) * (s->image_width / PATCH);
    fv_vit_synthetic_encoder(m, &encoder);
    if (s->between)
        fv_synthetic_tensor(m, "vit.encoder.mid_position_embeddings", 3,
                            (const uint64_t[]){DEPTH - 1, tokens, s->width}, 0, 0.03f);
    head(m, "class_labels_classifier.", s->width, CLASSES + 1);
    head(m, "bbox_predictor.", s->width, 4);
    fv_synthetic_under(m, "%s", "");
    return fv_synthetic_join(fv_vit_synthetic_config(&encoder, "yolos"),
                             json_pack("{s:i, s:b}", "num_detection_tokens", TOKENS,
                                       "use_mid_position_embeddings", (int)s->between));
}

const fv_synthetic_list fv_yolos_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
