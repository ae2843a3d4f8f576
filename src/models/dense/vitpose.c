/* vitpose.c: ViTPose as transformers saves it, with either head.
 *
 *     simple     maps = conv3x3 up(relu(x))                        up: bilinear
 *     classic    maps = conv1x1 relu(deconv relu(deconv x))        each deconv has a BatchNorm */
#include "models/dense/vitpose.h"

#include <stdio.h>

#include "models/fold.h"
#include "models/layer.h"

#define WIDTH 65536
#define SCALE 16
#define EXPERTS 64

static const char output[] = "heatmaps";

/* Fields of its configuration, in addition to those of every transformers configuration. */
static const char fields[] =
    "backbone_config scale_factor use_simple_decoder use_pretrained_backbone=false "
    "use_timm_backbone=false backbone_kwargs={}";
static const fv_backbone_form backbone_form = {
    .types = " vitpose_backbone ", .prefix = "backbone.", .fields = "num_experts part_features"};

/* ---- reading ---- */

/* Refuses ViTPose+, which has one expert per data set. */
static fovea_status check_experts(const fv_config *config)
{
    fv_config backbone;
    uint32_t experts = 1;
    FV_TRY(fv_config_section(&backbone, config, "backbone_config"));
    if (backbone.object)
        FV_TRY(fv_config_u32(&experts, &backbone, "num_experts", 1, EXPERTS));
    return experts == 1 ? FOVEA_OK
                        : fv_fail(FOVEA_ENOTSUP,
                                  "%s: \"backbone_config.num_experts\" is %u; models with experts "
                                  "(ViTPose+) are not supported, only models with 1",
                                  config->file, experts);
}

/* Reads dimension i of a tensor as a number of channels. */
static fovea_status channels_of(uint32_t *out, const fv_tensor_reader *t, const char *stem,
                                uint32_t i)
{
    *out = fv_tensor_dimension(fv_reader_find(t, "head.", stem, "weight"), i);
    return *out > 0 && *out <= WIDTH ? FOVEA_OK
                                     : fv_fail(FOVEA_EFORMAT,
                                               "%s: tensor \"head.%sweight\" is missing or has %u "
                                               "channels; it must have from 1 to %d",
                                               t->source->name, stem, *out, WIDTH);
}

static fovea_status read_classic(fv_vitpose *p, fv_tensor_reader *t)
{
    static const char *const stems[] = {"deconv1.", "deconv2."}, *const norms[] = {"batchnorm1.",
                                                                                   "batchnorm2."};
    uint32_t from = p->backbone.vit.width, maps;
    for (int i = 0; i < 2; i++) {
        FV_TRY(channels_of(&p->channels[i], t, stems[i], 1));
        const fv_fold_deconv f = {.stem = stems[i],
                                  .norm = norms[i],
                                  .channels = from,
                                  .rows = p->channels[i],
                                  .stride = 2,
                                  .overlap = true};
        FV_TRY(fv_fold_transposed(&p->deconv[i], t, "head.", &f));
        from = p->channels[i];
    }
    FV_TRY(channels_of(&maps, t, "conv.", 0));
    return fv_reader_linear(&p->maps, t, "head.", "conv.", maps, from);
}

static fovea_status read_head(fv_vitpose *p, fv_tensor_reader *t, const fv_config *c)
{
    bool simple = true;
    uint32_t maps;
    p->scale = 4;
    FV_TRY(fv_config_bool(&simple, c, "use_simple_decoder"));
    FV_TRY(fv_config_u32(&p->scale, c, "scale_factor", 1, SCALE));
    if (!simple) {
        FV_TRY(read_classic(p, t));
    } else {
        FV_TRY(channels_of(&maps, t, "conv.", 0));
        FV_TRY(fv_reader_conv(&p->maps, t, "head.", "conv.", maps, p->backbone.vit.width, 3));
    }
    return fv_reader_all_used(t, "head.");
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_tensor_reader t = {.m = m, .source = source, .config = config->file};
    fv_vitpose *p;
    fv_config own;
    snprintf(m->info.type, sizeof m->info.type, "vitpose");
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &own, fields));
    FV_TRY(check_experts(config));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof *p, FV_MEM_MODEL, "roles"));
    p = m->roles;
    FV_TRY(fv_backbone_read(&p->backbone, &t, config, &backbone_form));
    p->backbone.tap[0] = p->backbone.tap[p->backbone.taps - 1]; /* the head reads the last tap */
    p->backbone.taps = 1;
    FV_TRY(read_head(p, &t, config));
    m->info.keypoints = p->maps.w.rows;
    return fv_backbone_list_outputs(m, &p->backbone, output, NULL);
}

static void release(fovea_model *m)
{
    fv_vitpose *p = m->roles;
    if (p)
        fv_mem_free(p->backbone.vit.block);
    fv_mem_free(p);
    m->roles = NULL;
}

/* ---- computing ---- */

static fv_grid finer(const fv_grid *g, uint32_t scale, uint32_t patch)
{
    return (fv_grid){g->width * scale, g->height * scale, patch / scale, 0};
}

static fv_view maps_of(const fv_vitpose *p, fv_builder *b, const fv_grid *grid)
{
    return fv_emit_task_output(b, output, FOVEA_OUTPUT_KEYPOINTS, fv_grid_tokens(grid),
                               p->maps.w.rows, grid, true);
}

static void simple(const fv_vitpose *p, fv_builder *b, fv_view rows)
{
    const uint32_t n = fv_grid_tokens(&b->options->grid), width = p->backbone.vit.width;
    const fv_grid grid = finer(&b->options->grid, p->scale, p->backbone.vit.patch);
    const fv_view bent = fv_emit_rows(b, n, width);
    fv_emit_act(b, "relu", FV_EPI_RELU, rows, bent, n, width);
    const fv_upsample u = {.in = bent,
                           .res = FV_NO_VIEW,
                           .out = fv_emit_rows(b, fv_grid_tokens(&grid), width),
                           .from = b->options->grid,
                           .to = grid,
                           .channels = width};
    fv_emit_upsample(b, "up", &u);
    const fv_conv c = {.w = &p->maps.w,
                       .bias = &p->maps.b,
                       .in = u.out,
                       .out = maps_of(p, b, &grid),
                       .from = grid,
                       .to = grid,
                       .channels = width,
                       .size = 3,
                       .stride = 1,
                       .pad = 1};
    fv_emit_conv(b, "heat maps", &c);
}

static void classic(const fv_vitpose *p, fv_builder *b, fv_view rows)
{
    uint32_t channels = p->backbone.vit.width;
    fv_grid grid = finer(&b->options->grid, 1, p->backbone.vit.patch);
    for (int i = 0; i < 2; i++) {
        const fv_grid to = finer(&grid, 2, grid.stride);
        const fv_deconv d = {.w = &p->deconv[i].w,
                             .bias = &p->deconv[i].b,
                             .in = rows,
                             .out = fv_emit_rows(b, fv_grid_tokens(&to), p->channels[i]),
                             .from = grid,
                             .from_channels = channels,
                             .channels = p->channels[i],
                             .stride = 2,
                             .overlap = true,
                             .act = FV_EPI_RELU};
        fv_emit_deconv(b, i ? "deconv2" : "deconv1", &d);
        rows = d.out;
        channels = p->channels[i];
        grid = to;
    }
    fv_layer_write(b, "heat maps", &p->maps, rows, maps_of(p, b, &grid), fv_grid_tokens(&grid));
}

static void give(void *ctx, fv_builder *b, uint32_t i, fv_view rows)
{
    const fv_vitpose *p = ctx;
    (void)i;
    snprintf(b->scope, sizeof b->scope, "head");
    if (fv_weight_present(&p->deconv[0].w))
        classic(p, b, rows);
    else
        simple(p, b, rows);
    b->scope[0] = 0;
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    fv_vitpose *p = m->roles;
    fv_backbone_emit(&p->backbone, b, give, p);
    return b->status;
}

FV_DEFINE_FAMILY(vitpose, .name = "vitpose", .types = "vitpose",
                 .sign = "backbone.embeddings.patch_embeddings.projection.",
                 .second_sign = "head.conv.weight", .attention = "softmax", .shapes = true,
                 .read = read_model, .emit = emit, .release = release,
                 .synthetic = &fv_vitpose_synthetics)
