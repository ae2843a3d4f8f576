/* depth_anything.c: Depth Anything V1 and V2, relative and metric, and DPT for depth, as
 * transformers saves them.
 *
 *     y = up(conv3x3 project fused)                        to the pixels of all patches; in DPT to
 *                                                          twice the size. project: only in some
 *                                                          DPTs, relu(conv3x3)
 *     depth = max_depth act(conv1x1 relu(conv3x3 y))       act: relu; sigmoid in metric models */
#include "models/dense/depth_anything.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/processor.h"
#include "models/layer.h"

#define WIDTH 65536
#define FARTHEST 1e6

static const char output[] = "predicted_depth";

/* A family: the names of its tensors, and the fields of its configuration in addition to those of
 * every transformers configuration. */
typedef struct form {
    const char *type, *fields, *conv[3];
    bool dpt;
} form;

static const form depth_anything = {
    "depth_anything",
    "backbone_config depth_estimation_type fusion_hidden_size head_hidden_size head_in_index "
    "max_depth neck_hidden_sizes reassemble_factors reassemble_hidden_size "
    "use_pretrained_backbone=false use_timm_backbone=false backbone_kwargs={}",
    {"head.conv1.", "head.conv2.", "head.conv3."},
    false};

static const form dpt = {
    "dpt",
    "add_projection auxiliary_loss_weight backbone_config backbone_featmap_shape "
    "backbone_out_indices fusion_hidden_size head_in_index is_hybrid=false neck_hidden_sizes "
    "neck_ignore_stages readout_type reassemble_factors semantic_classifier_dropout "
    "use_auxiliary_head use_batch_norm_in_fusion_residual=false use_bias_in_fusion_residual "
    "use_pretrained_backbone=false use_timm_backbone=false backbone_kwargs={}",
    {"head.head.0.", "head.head.2.", "head.head.4."},
    true};

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

static fovea_status read_head(fv_depth_anything *d, fv_tensor_reader *t, const fv_config *c,
                              const form *f)
{
    const uint32_t half = d->neck.width / 2;
    const uint32_t hidden = fv_tensor_dimension(fv_reader_find(t, "", f->conv[1], "weight"), 0);
    bool projects = false;
    if (half == 0 || hidden > WIDTH)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the head has %u channels after %u channels, which is out of range",
                       t->source->name, hidden, d->neck.width);
    if (f->dpt)
        FV_TRY(fv_config_bool(&projects, c, "add_projection"));
    if (projects)
        FV_TRY(fv_reader_conv(&d->projection, t, "", "head.projection.", d->neck.width,
                              d->neck.width, 3));
    FV_TRY(fv_reader_conv(&d->conv1, t, "", f->conv[0], half, d->neck.width, 3));
    FV_TRY(fv_reader_conv(&d->conv2, t, "", f->conv[1], hidden, half, 3));
    FV_TRY(fv_reader_linear(&d->conv3, t, "", f->conv[2], 1, hidden));
    FV_TRY(agree(c, "fusion_hidden_size", d->neck.width, "the neck's tensors have"));
    FV_TRY(agree(c, "head_hidden_size", hidden, "the head's tensors have"));
    d->act = FV_EPI_RELU;
    if (!f->dpt)
        FV_TRY(read_kind(d, t, c));
    return fv_reader_all_used(t, "head.");
}

/* Reads what DPT does with the class token. */
static fovea_status read_readout(fv_dpt *neck, const fv_config *c)
{
    static const char *const names[] = {
        [FV_DPT_IGNORE] = "ignore", [FV_DPT_ADD] = "add", [FV_DPT_PROJECT] = "project"};
    const char *name = "project", *act = "gelu";
    FV_TRY(fv_config_text(&name, c, "readout_type"));
    FV_TRY(fv_config_text(&act, c, "hidden_act"));
    const int readout = fv_index_of(name, names, sizeof names / sizeof *names);
    if (readout < 0)
        return fv_config_fail(c, "readout_type", "\"ignore\", \"add\" or \"project\"");
    neck->readout = (enum fv_dpt_readout)readout;
    neck->doubles = true;
    return readout != FV_DPT_PROJECT || strcmp(act, "gelu") == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOTSUP, "%s: \"hidden_act\" is \"%.40s\"; only gelu is supported",
                         c->file, act);
}

/* Reads the ViT, which in DPT may have no section of its own. */
static fovea_status read_backbone(fv_depth_anything *d, fv_tensor_reader *t, const fv_config *c,
                                  const form *f)
{
    if (f->dpt)
        FV_TRY(read_readout(&d->neck, c));
    if (f->dpt && !json_is_object(fv_config_get(c, "backbone_config")))
        return fv_backbone_read_plain(&d->backbone, t, c, "dpt.", "backbone_out_indices");
    FV_TRY(fv_backbone_read(&d->backbone, t, c, &backbone_form));
    return f->dpt ? FOVEA_OK
                  : agree(c, "patch_size", d->backbone.vit.patch, "the backbone's patches are of");
}

/* Refuses DPT for semantic segmentation, whose tensors have the same names. */
static fovea_status check_class(const fv_config *c)
{
    const char *class = json_string_value(json_array_get(fv_config_get(c, "architectures"), 0));
    return !class || strcmp(class, "DPTForSemanticSegmentation") != 0
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOTSUP,
                         "%s: \"architectures\" has DPTForSemanticSegmentation, which is not "
                         "supported; use a DPT for depth",
                         c->file);
}

static fovea_status read_form(fovea_model *m, const fv_source *source, const fv_config *config,
                              const form *f)
{
    fv_tensor_reader t = {.m = m, .source = source, .config = config->file};
    fv_depth_anything *d;
    fv_config own;
    snprintf(m->info.type, sizeof m->info.type, "%s", f->type);
    FV_TRY(check_class(config));
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &own, f->fields));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof *d, FV_MEM_MODEL, "roles"));
    d = m->roles;
    FV_TRY(read_backbone(d, &t, config, f));
    const fv_vit *v = &d->backbone.vit;
    FV_TRY(agree(config, "reassemble_hidden_size", v->width, "the backbone's width is"));
    FV_TRY(fv_dpt_read(&d->neck, &t, "", config, v->width));
    const bool section = json_is_object(fv_config_get(config, "backbone_config"));
    if (d->neck.levels != d->backbone.taps)
        return fv_fail(
            FOVEA_EFORMAT, "%s: \"%s\" has %u stages, but the neck's tensors have %u levels",
            config->file, section ? "backbone_config.out_indices" : "backbone_out_indices",
            d->backbone.taps, d->neck.levels);
    FV_TRY(check_index(config, d->neck.levels));
    FV_TRY(read_head(d, &t, config, f));
    m->info.metric = d->act == FV_EPI_SIGMOID;
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_DPT, m->info.native_width, m->info.native_height);
    m->preprocess.patch = v->patch;
    return fv_backbone_list_outputs(m, &d->backbone, output, NULL);
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    return read_form(m, source, config, &depth_anything);
}

static fovea_status read_dpt(fovea_model *m, const fv_source *source, const fv_config *config)
{
    return read_form(m, source, config, &dpt);
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
    const bool twice = d->neck.doubles;
    const fv_grid pixels = {twice ? 2 * grid->width : b->options->grid.width * patch,
                            twice ? 2 * grid->height : b->options->grid.height * patch, 1, 0};
    const uint32_t n = pixels.width * pixels.height;
    snprintf(b->scope, sizeof b->scope, "head");
    if (fv_weight_present(&d->projection.w))
        fused = fv_dpt_conv(b, "projection", &d->projection, fused, grid, FV_EPI_RELU, NULL);
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

FV_DEFINE_FAMILY(dpt, .name = "dpt", .types = "dpt", .sign = "head.head.4.",
                 .second_sign = "neck.fusion_stage.layers.0.projection.weight",
                 .attention = "softmax", .shapes = true, .read = read_dpt, .emit = emit,
                 .release = release, .synthetic = &fv_dpt_synthetics)
