/* depth_anything.c: Depth Anything V1 and V2, relative and metric, as transformers saves them.
 *
 *     y = up(conv3x3 fused)                                to the pixels of all patches
 *     depth = max_depth act(conv1x1 relu(conv3x3 y))       act: relu; sigmoid in metric models */
#include "models/dense/depth_anything.h"

#include <stdio.h>
#include <string.h>

#include "checkpoint/processor.h"
#include "models/layer.h"

#define WIDTH 65536
#define FARTHEST 1e6

static const char output[] = "predicted_depth";

/* Fields of its configuration, in addition to those of every transformers configuration. */
static const char fields[] =
    "backbone_config depth_estimation_type fusion_hidden_size head_hidden_size head_in_index "
    "max_depth neck_hidden_sizes reassemble_factors reassemble_hidden_size "
    "use_pretrained_backbone=false use_timm_backbone=false backbone_kwargs={}";

static const fv_backbone_form backbone_form = {.types = " dinov2 ", .prefix = "backbone."};

/* ---- reading ---- */

/* Returns FOVEA_EFORMAT if `key` is present and is not n. */
static fovea_status agree(const fv_config *c, const char *key, uint32_t n, const char *of)
{
    uint32_t told = n;
    FV_TRY(fv_config_u32(&told, c, key, 1, WIDTH));
    return told == n
               ? FOVEA_OK
               : fv_fail(FOVEA_EFORMAT, "%s: \"%s\" is %u, but %s %u", c->file, key, told, of, n);
}

/* Reads the activation and scale of the last product, which depend on the kind of depth. */
static fovea_status read_kind(fv_depth_anything *d, fv_tensor_reader *t, const fv_config *c)
{
    const char *kind = "relative";
    float most = 1, *data;
    const fv_tensor *scale;
    FV_TRY(fv_config_text(&kind, c, "depth_estimation_type"));
    FV_TRY(fv_config_float(&most, c, "max_depth", 0, FARTHEST));
    if (strcmp(kind, "relative") != 0 && strcmp(kind, "metric") != 0)
        return fv_config_fail(c, "depth_estimation_type", "\"relative\" or \"metric\"");
    d->act = *kind == 'm' ? FV_EPI_SIGMOID : FV_EPI_RELU;
    /* in transformers' class, 0 has the same meaning as an absent value */
    if (most == 0 || most == 1)
        return FOVEA_OK;
    FV_TRY(fv_model_floats(&data, &scale, t->m, 1, 1));
    *data = most;
    d->scale = fv_weight_of(scale, 1, 1);
    return FOVEA_OK;
}

static fovea_status check_index(const fv_config *c, uint32_t levels)
{
    const json_t *index = fv_config_get(c, "head_in_index");
    int64_t at;
    if (!index || (fv_json_whole(&at, index) && (at == -1 || at == (int64_t)levels - 1)))
        return FOVEA_OK;
    return fv_fail(
        FOVEA_ENOTSUP,
        "%s: \"head_in_index\" is not -1; only a head that reads the last level is supported",
        c->file);
}

static fovea_status read_head(fv_depth_anything *d, fv_tensor_reader *t, const fv_config *c)
{
    const uint32_t half = d->neck.width / 2;
    const uint32_t hidden = fv_tensor_dimension(fv_reader_find(t, "", "head.conv2.", "weight"), 0);
    if (half == 0 || hidden > WIDTH)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the head has %u channels after %u channels, which is out of range",
                       t->source->name, hidden, d->neck.width);
    FV_TRY(fv_reader_conv(&d->conv1, t, "", "head.conv1.", half, d->neck.width, 3));
    FV_TRY(fv_reader_conv(&d->conv2, t, "", "head.conv2.", hidden, half, 3));
    FV_TRY(fv_reader_linear(&d->conv3, t, "", "head.conv3.", 1, hidden));
    FV_TRY(agree(c, "fusion_hidden_size", d->neck.width, "the neck's tensors have"));
    FV_TRY(agree(c, "head_hidden_size", hidden, "the head's tensors have"));
    FV_TRY(read_kind(d, t, c));
    return fv_reader_all_used(t, "head.");
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_tensor_reader t = {.m = m, .source = source, .config = config->file};
    fv_depth_anything *d;
    fv_config own;
    snprintf(m->info.type, sizeof m->info.type, "depth_anything");
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &own, fields));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof *d, FV_MEM_MODEL, "roles"));
    d = m->roles;
    FV_TRY(fv_backbone_read(&d->backbone, &t, config, &backbone_form));
    const fv_vit *v = &d->backbone.vit;
    FV_TRY(agree(config, "patch_size", v->patch, "the backbone's patches are of"));
    FV_TRY(agree(config, "reassemble_hidden_size", v->width, "the backbone's width is"));
    FV_TRY(fv_dpt_read(&d->neck, &t, "", config, v->width));
    if (d->neck.levels != d->backbone.taps)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"backbone_config.out_indices\" has %u stages, but the neck's tensors "
                       "have %u levels",
                       config->file, d->backbone.taps, d->neck.levels);
    FV_TRY(check_index(config, d->neck.levels));
    FV_TRY(read_head(d, &t, config));
    m->info.metric = d->act == FV_EPI_SIGMOID;
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_DPT, m->info.native_width, m->info.native_height);
    m->preprocess.patch = v->patch;
    return fv_backbone_list_outputs(m, &d->backbone, output, NULL);
}

static void release(fovea_model *m)
{
    fv_depth_anything *d = m->roles;
    if (d)
        fv_mem_free(d->backbone.vit.block);
    fv_mem_free(d);
    m->roles = NULL;
}

/* ---- computing ---- */

struct context {
    const fv_depth_anything *d;
    fv_view projected[FV_DPT_LEVELS];
};

static void give(void *ctx, fv_builder *b, uint32_t i, fv_view rows)
{
    struct context *c = ctx;
    c->projected[i] = fv_dpt_project(&c->d->neck, b, i, rows);
}

static void head(const fv_depth_anything *d, fv_builder *b, fv_view fused, const fv_grid *grid)
{
    const uint32_t patch = d->backbone.vit.patch;
    const fv_grid pixels = {b->options->grid.width * patch, b->options->grid.height * patch, 1, 0};
    const uint32_t n = pixels.width * pixels.height;
    snprintf(b->scope, sizeof b->scope, "head");
    fv_view x = fv_dpt_conv(b, "conv1", &d->conv1, fused, grid, 0, NULL);
    x = fv_dpt_resize(b, "up", x, grid, &pixels, d->conv1.w.rows, FV_NO_VIEW);
    x = fv_dpt_conv(b, "conv2", &d->conv2, x, &pixels, FV_EPI_RELU, NULL);
    const fv_gemm g = {.w = &d->conv3.w,
                       .bias = &d->conv3.b,
                       .scale = &d->scale,
                       .in = x,
                       .res = FV_NO_VIEW,
                       .out =
                           fv_emit_task_output(b, output, FOVEA_OUTPUT_DEPTH, n, 1, &pixels, true),
                       .act = d->act,
                       .rows = n};
    fv_emit_gemm(b, "depth", &g);
    b->scope[0] = 0;
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_depth_anything *d = m->roles;
    struct context c = {.d = d};
    fv_grid grid = b->options->grid;
    fv_backbone_emit(&d->backbone, b, give, &c);
    if (b->status != FOVEA_OK)
        return b->status;
    const fv_view fused = fv_dpt_fuse(&d->neck, b, c.projected, &grid);
    head(d, b, fused, &grid);
    return b->status;
}

FV_DEFINE_FAMILY(depth_anything, .name = "depth_anything", .types = "depth_anything",
                 .sign = "head.conv3.",
                 .second_sign = "neck.fusion_stage.layers.0.projection.weight",
                 .attention = "softmax", .shapes = true, .read = read_model, .emit = emit,
                 .release = release, .synthetic = &fv_depth_anything_synthetics)
