/* mask2former_new.c: adds Mask2Former's decoders to a plain ViT for training. They are those of
 * transformers with fewer channels and layers; the grids of all levels are those of the patches. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/source.h"
#include "models/dense/mask2former.h"

#define ENCODER "model.pixel_level_module.encoder."
#define PIXELS "model.pixel_level_module.decoder."
#define QUERIES "model.transformer_module."
#define DECODER QUERIES "decoder."

enum {
    LEVELS = FV_MASK2FORMER_LEVELS,
    TAPS = 4, /* most blocks of the ViT that are read */
    WIDTH = 128,
    HEADS = 8,
    PIXEL_LAYERS = 3,
    LAYERS = 6,
    HIDDEN = 512, /* of both decoders */
    QUERY_COUNT = 100,
};

/* ---- the backbone ---- */

/* Sets `root` to the prefix of the names of a ViT's tensors, in the naming scheme of
 * transformers. */
static fovea_status find_root(char root[FV_SOURCE_ROOT], const fv_source *s, const char *file)
{
    static const char patch[] = "embeddings.patch_embeddings.projection.weight";
    for (uint32_t i = 0; i < s->count; i++) {
        const char *name = s->by_name[i]->plain;
        const size_t n = strlen(name) - (sizeof patch - 1);
        if (strlen(name) < sizeof patch - 1 || strcmp(name + n, patch) != 0 || n >= FV_SOURCE_ROOT)
            continue;
        snprintf(root, FV_SOURCE_ROOT, "%.*s", (int)n, name);
        return FOVEA_OK;
    }
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: the tensors do not have the names that transformers gives to the model of "
                   "%s; a Mask2Former head needs them",
                   s->name, file);
}

/* Gives the tensors under `root` the names of a backbone's, except those of other heads. */
static fovea_status rename_tensors(fv_source *s, const char *root)
{
    static const char *const part[] = {"embeddings.", "encoder.", "layernorm."};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char from[FV_SOURCE_ROOT + 16], to[64];
        snprintf(from, sizeof from, "%s%s", root, part[i]);
        snprintf(to, sizeof to, ENCODER "%s", part[i]);
        FV_TRY(fv_source_rename(s, from, to));
    }
    return FOVEA_OK;
}

/* Lists the ends of equal parts of the blocks. */
static json_t *taps_of(uint32_t depth)
{
    const uint32_t taps = depth < TAPS ? depth : TAPS;
    json_t *list = json_array();
    for (uint32_t i = 1; i <= taps; i++)
        json_array_append_new(list, json_integer(depth * i / taps));
    return list;
}

/* Removes fields from a backbone's section that belong to the whole, or to another task. */
static json_t *section_of(const json_t *config)
{
    static const char *const other[] = {"fovea",        "architectures", "id2label",
                                        "label2id",     "num_labels",    "problem_type",
                                        "torch_dtype",  "dtype",         "transformers_version",
                                        "out_features", "stage_names"};
    json_t *section = json_deep_copy(config);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        json_object_del(section, other[i]);
    return section;
}

/* Makes the configuration of the ViT that of the whole. */
static fovea_status describe(const fv_config *config, const char *type, uint32_t depth)
{
    json_t *section = section_of(config->object);
    json_t *own = json_incref(json_object_get(config->object, "fovea"));
    bool ok = section && json_object_set_new(section, "out_indices", taps_of(depth)) == 0;
    if (ok && strcmp(type, "vit") != 0)
        ok = json_object_set_new(section, "reshape_hidden_states", json_true()) == 0;
    json_t *whole = json_pack(
        "{s:s, s:[s], s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:[i,i,i,i], s:i, s:i}",
        "model_type", "mask2former", "architectures", "Mask2FormerForUniversalSegmentation",
        "backbone_config", section, "num_attention_heads", HEADS, "feature_size", WIDTH,
        "mask_feature_size", WIDTH, "hidden_dim", WIDTH, "encoder_layers", PIXEL_LAYERS,
        "encoder_feedforward_dim", HIDDEN, "decoder_layers", LAYERS + 1, "dim_feedforward", HIDDEN,
        "feature_strides", 4, 8, 16, 32, "common_stride", 4, "num_queries", QUERY_COUNT);
    ok = ok && whole && json_object_clear(config->object) == 0 &&
         json_object_update(config->object, whole) == 0 &&
         (!own || json_object_set(config->object, "fovea", own) == 0);
    json_decref(own);
    json_decref(whole);
    return ok ? FOVEA_OK : fv_fail(FOVEA_ENOMEM, "%s: not enough memory for a head", config->file);
}

fovea_status fv_mask2former_begin(fovea_model *m, const fv_config *config)
{
    const char *type = NULL;
    uint32_t depth = 0;
    char root[FV_SOURCE_ROOT];
    FV_TRY(fv_config_type(&type, config));
    if (type && strcmp(type, "mask2former") == 0)
        return FOVEA_OK;
    if (!type || (strcmp(type, "dinov2") != 0 && strcmp(type, "dinov2_with_registers") != 0 &&
                  strcmp(type, "vit") != 0))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: a Mask2Former head reads blocks of a model of type dinov2, "
                       "dinov2_with_registers or vit; this one is \"%.40s\"",
                       config->file, type ? type : "");
    if (m->config != config->object || *m->source->prefix || m->segmentation_source)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: a Mask2Former head can be added only to a ViT that has its own "
                       "checkpoint, in a folder without another file that has a head",
                       config->file);
    FV_TRY(fv_config_u32(&depth, config, "num_hidden_layers", 1, UINT16_MAX));
    if (depth < LEVELS)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: a Mask2Former head reads at least %d blocks, but the model has %u",
                       config->file, LEVELS, depth);
    FV_TRY(find_root(root, m->source, config->file));
    FV_TRY(rename_tensors(m->source, root));
    return describe(config, type, depth);
}

/* ---- the decoders ---- */

/* Random values keep the magnitude of the inputs. With `bent`, that before a ReLU. */
static fovea_status put_linear(fv_tensor_reader *t, const char *prefix, const char *stem,
                               uint32_t rows, uint32_t cols, bool bent)
{
    const uint64_t shape[2] = {rows, cols};
    FV_TRY(fv_reader_put(t, prefix, stem, "weight", 2, shape, 0,
                         sqrtf((bent ? 6.f : 3.f) / (float)cols)));
    return fv_reader_put(t, prefix, stem, "bias", 1, shape, 0, 0);
}

static fovea_status put_norm(fv_tensor_reader *t, const char *prefix, const char *stem)
{
    const uint64_t shape[1] = {WIDTH};
    FV_TRY(fv_reader_put(t, prefix, stem, "weight", 1, shape, 1, 0));
    return fv_reader_put(t, prefix, stem, "bias", 1, shape, 0, 0);
}

static fovea_status put_conv(fv_tensor_reader *t, const char *stem, uint32_t channels,
                             uint32_t size)
{
    const uint64_t shape[4] = {WIDTH, channels, size, size};
    return fv_reader_put_conv(t, PIXELS, stem, shape, true, false);
}

/* A convolution without a bias. */
static fovea_status put_filters(fv_tensor_reader *t, const char *stem, uint32_t channels,
                                uint32_t size)
{
    const uint64_t shape[4] = {WIDTH, channels, size, size};
    return fv_reader_put(t, PIXELS, stem, "weight", 4, shape, 0,
                         sqrtf(3.f / (float)(channels * size * size)));
}

/* A table of rows that are added to others. */
static fovea_status put_rows(fv_tensor_reader *t, const char *prefix, const char *stem,
                             const char *part, uint32_t rows)
{
    const uint64_t shape[2] = {rows, WIDTH};
    return fv_reader_put(t, prefix, stem, part, 2, shape, 0, 1);
}

/* The first samples of a new layer surround the centre: the offsets are biases, and the weights of
 * all samples are equal. */
static fovea_status put_sampling(fv_tensor_reader *t, const char *p)
{
    const uint32_t samples = HEADS * LEVELS * FV_MASK2FORMER_POINTS;
    const uint64_t shape[2] = {2 * samples, WIDTH}, weights[2] = {samples, WIDTH};
    FV_TRY(fv_reader_put(t, p, "self_attn.sampling_offsets.", "weight", 2, shape, 0, 0));
    FV_TRY(fv_reader_put(t, p, "self_attn.sampling_offsets.", "bias", 1, shape, 0,
                         FV_MASK2FORMER_POINTS));
    FV_TRY(fv_reader_put(t, p, "self_attn.attention_weights.", "weight", 2, weights, 0, 0));
    return fv_reader_put(t, p, "self_attn.attention_weights.", "bias", 1, weights, 0, 0);
}

static fovea_status put_pixels(fv_tensor_reader *t, uint32_t channels)
{
    char p[64];
    for (uint32_t k = 0; k < LEVELS; k++) {
        snprintf(p, sizeof p, "input_projections.%u.0.", k);
        FV_TRY(put_conv(t, p, channels, 1));
        snprintf(p, sizeof p, "input_projections.%u.1.", k);
        FV_TRY(put_norm(t, PIXELS, p));
    }
    for (uint32_t i = 0; i < PIXEL_LAYERS; i++) {
        snprintf(p, sizeof p, PIXELS "encoder.layers.%u.", i);
        FV_TRY(put_sampling(t, p));
        FV_TRY(put_linear(t, p, "self_attn.value_proj.", WIDTH, WIDTH, false));
        FV_TRY(put_linear(t, p, "self_attn.output_proj.", WIDTH, WIDTH, false));
        FV_TRY(put_linear(t, p, "fc1.", HIDDEN, WIDTH, true));
        FV_TRY(put_linear(t, p, "fc2.", WIDTH, HIDDEN, false));
        FV_TRY(put_norm(t, p, "self_attn_layer_norm."));
        FV_TRY(put_norm(t, p, "final_layer_norm."));
    }
    FV_TRY(put_filters(t, "adapter_1.0.", channels, 1));
    FV_TRY(put_norm(t, PIXELS, "adapter_1.1."));
    FV_TRY(put_filters(t, "layer_1.0.", WIDTH, 3));
    FV_TRY(put_norm(t, PIXELS, "layer_1.1."));
    FV_TRY(put_conv(t, "mask_projection.", WIDTH, 1));
    return put_rows(t, PIXELS, "level_embed", "", LEVELS);
}

static fovea_status put_layer(fv_tensor_reader *t, uint32_t i)
{
    static const char *const self[] = {"self_attn.q_proj.", "self_attn.k_proj.",
                                       "self_attn.v_proj.", "self_attn.out_proj."};
    static const char *const norm[] = {"cross_attn_layer_norm.", "self_attn_layer_norm.",
                                       "final_layer_norm."};
    const uint64_t shape[2] = {3 * WIDTH, WIDTH};
    char p[64];
    snprintf(p, sizeof p, DECODER "layers.%u.", i);
    FV_TRY(fv_reader_put(t, p, "cross_attn.in_proj_weight", "", 2, shape, 0, sqrtf(3.f / WIDTH)));
    FV_TRY(fv_reader_put(t, p, "cross_attn.in_proj_bias", "", 1, shape, 0, 0));
    FV_TRY(put_linear(t, p, "cross_attn.out_proj.", WIDTH, WIDTH, false));
    for (int k = 0; k < 4; k++)
        FV_TRY(put_linear(t, p, self[k], WIDTH, WIDTH, false));
    FV_TRY(put_linear(t, p, "fc1.", HIDDEN, WIDTH, true));
    FV_TRY(put_linear(t, p, "fc2.", WIDTH, HIDDEN, false));
    for (int k = 0; k < 3; k++)
        FV_TRY(put_norm(t, p, norm[k]));
    return FOVEA_OK;
}

static fovea_status put_queries(fv_tensor_reader *t)
{
    char p[64];
    FV_TRY(put_rows(t, QUERIES, "queries_features.", "weight", QUERY_COUNT));
    FV_TRY(put_rows(t, QUERIES, "queries_embedder.", "weight", QUERY_COUNT));
    FV_TRY(put_rows(t, QUERIES, "level_embed.", "weight", LEVELS));
    for (uint32_t i = 0; i < LAYERS; i++)
        FV_TRY(put_layer(t, i));
    FV_TRY(put_norm(t, DECODER, "layernorm."));
    for (uint32_t k = 0; k < 2; k++) {
        snprintf(p, sizeof p, "mask_predictor.mask_embedder.%u.0.", k);
        FV_TRY(put_linear(t, DECODER, p, WIDTH, WIDTH, true));
    }
    /* small, because the logits of masks are sums over all channels */
    const uint64_t shape[2] = {WIDTH, WIDTH};
    FV_TRY(fv_reader_put(t, DECODER, "mask_predictor.mask_embedder.2.0.", "weight", 2, shape, 0,
                         FV_NEW_HEAD));
    return fv_reader_put(t, DECODER, "mask_predictor.mask_embedder.2.0.", "bias", 1, shape, 0, 0);
}

fovea_status fv_mask2former_put(fv_tensor_reader *t, const fv_config *config)
{
    const uint32_t classes = t->m->additions->segments;
    fv_config backbone;
    uint32_t channels = 0;
    fv_reader_begin(t);
    if (!fv_reader_find(t, QUERIES, "queries_features.", "weight")) {
        FV_TRY(fv_config_section(&backbone, config, "backbone_config"));
        FV_TRY(fv_config_u32(&channels, &backbone, "hidden_size", 1, UINT16_MAX));
        FV_TRY(put_pixels(t, channels));
        FV_TRY(put_queries(t));
    }
    const fv_tensor *last = fv_reader_find(t, "", "class_predictor.", "weight");
    const fv_tensor *query = fv_reader_find(t, QUERIES, "queries_features.", "weight");
    if (!classes || fv_tensor_dimension(last, 0) == classes + 1)
        return FOVEA_OK;
    json_object_set_new(config->object, "num_labels", json_integer(classes));
    return fv_reader_put_head(t, "class_predictor.", classes + 1, fv_tensor_dimension(query, 1));
}
