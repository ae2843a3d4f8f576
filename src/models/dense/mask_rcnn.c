/* mask_rcnn.c: emits the steps of Mask R-CNN and Cascade Mask R-CNN.
 *
 *     proposals = best of the boxes that the proposal head finds on every level
 *     logits, boxes = linear layers of 7 x 7 cells of each proposal     per stage: boxes become
 *                                                                       the proposals of the next
 *     boxes = best of the last stage's boxes, by softmax of the mean logits
 *     masks = mean over the stages of the class's sigmoid of convolutions of 14 x 14 cells
 *
 * The numbers of proposals and boxes are constants of the model, so a frame takes the same time and
 * memory whatever it shows; missing ones are rows of zeros. */
#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "models/dense/decoder.h"
#include "models/layer.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/regions.h"

typedef struct context {
    const fv_decoder *d;
    const fv_mask_rcnn *n;
    fv_builder *b;
    fv_level level[FV_LEVELS];
    const uint32_t *box_neighbours; /* table of the convolutions of boxes, or NULL */
} context;

/* ---- proposals ---- */

/* Emits the best regions of a level, and returns their number in *count. */
static fv_view level_regions(const context *c, uint32_t i, uint32_t *count)
{
    const fv_detection *d = &c->n->proposals;
    const fv_level *level = &c->level[i];
    const uint32_t n = fv_grid_tokens(&level->grid);
    char label[40];
    snprintf(label, sizeof label, "proposals %u", i);
    const fv_level x = fv_conv_module_emit(c->b, label, &c->n->conv, level, 1);
    const fv_view scores = fv_emit_rows(c->b, n, d->anchors);
    const fv_view delta = fv_emit_rows(c->b, n, 4 * d->anchors);
    fv_conv_module_write(c->b, label, &c->n->cls, &x, 1, scores);
    fv_conv_module_write(c->b, label, &c->n->box, &x, 1, delta);
    *count = fv_min_u32(d->nms_pre, n * d->anchors);
    const fv_region_scores k = {
        .index = fv_emit_topk(c->b, label, scores, n, d->anchors, *count, NULL, 0),
        .scores = scores,
        .delta = delta,
        .region = FV_NO_VIEW,
        .rows = *count,
        .from = n,
        .columns = d->anchors,
        .deltas = d->anchors,
        .anchor = d->anchor[i],
        .width = level->grid.width,
        .of_class = i,
        .stride = d->stride[i],
        .mean = d->mean,
        .std = d->std,
        .size = {(float)c->b->options->width, (float)c->b->options->height},
        .score = -INFINITY,
        .side = d->min_size};
    return fv_emit_candidates(c->b, label, &k);
}

/* Emits the proposals. Regions of different levels count as different classes, so that they do not
 * suppress each other. */
static fv_view proposals(const context *c)
{
    const fv_detection *d = &c->n->proposals;
    fv_view part[FV_LEVELS];
    uint32_t rows[FV_LEVELS], all = 0;
    for (uint32_t i = 0; i < d->levels; i++) {
        part[i] = level_regions(c, i, &rows[i]);
        all += rows[i];
    }
    const fv_view joined =
        fv_emit_concatenate(c->b, "regions", part, rows, d->levels, FV_REGION_COLUMNS, true);
    return fv_emit_suppress(c->b, "proposals", joined, all, d->max_per_img, d->iou_threshold);
}

/* ---- features of regions ---- */

static fv_view features(const context *c, const char *label, const fv_region_features *f,
                        fv_view region, uint32_t regions)
{
    fv_roi_align r = {.region = region,
                      .finest_scale = f->finest_scale,
                      .regions = regions,
                      .levels = f->levels,
                      .channels = c->level[0].channels,
                      .size = f->size};
    for (uint32_t i = 0; i < f->levels; i++) {
        r.level[i] = c->level[i].rows;
        r.grid[i] = c->level[i].grid;
        r.stride[i] = f->stride[i];
    }
    return fv_emit_roi_align(c->b, label, &r);
}

/* Makes the table by which the 3 x 3 neighbours of every cell are gathered; those outside of the
 * cell's region are zeros. */
static uint32_t *neighbours(fv_builder *b, uint32_t regions, uint32_t size)
{
    const uint32_t cells = size * size;
    uint32_t *table = fv_emit_table(b, regions * cells * 9);
    for (uint32_t i = 0; table && i < regions * cells; i++)
        for (uint32_t k = 0; k < 9; k++) {
            const uint32_t x = i % size + k % 3 - 1, y = i % cells / size + k / 3 - 1;
            table[9 * (size_t)i + k] =
                x < size && y < size ? i - i % cells + y * size + x : FV_GATHER_NONE;
        }
    return table;
}

/* Emits convolutions of the cells of every region. */
static fv_view convolve(const context *c, const char *label, const fv_conv_module *conv, uint32_t n,
                        fv_view x, const uint32_t *table, uint32_t rows)
{
    for (uint32_t i = 0; i < n; i++) {
        const fv_weight *w = &conv[i].l.w;
        const fv_view windows = fv_emit_rows(c->b, rows, w->cols);
        fv_emit_gather(c->b, label, x, table, 9, FV_NO_VIEW, windows, rows, w->cols / 9);
        x = fv_emit_rows(c->b, rows, w->rows);
        fv_emit_gemm(c->b, label,
                     &(fv_gemm){.w = w,
                                .bias = &conv[i].l.b,
                                .in = windows,
                                .res = FV_NO_VIEW,
                                .out = x,
                                .act = conv[i].act,
                                .rows = rows,
                                .decoder = true});
    }
    return x;
}

/* ---- boxes ---- */

/* Emits the shared layers of a stage: a row for each region. The first linear layer is a
 * convolution of all cells of a region, which lie one below the other. */
static fv_view shared_layers(const context *c, const char *label, const fv_box_stage *s,
                             fv_view region, uint32_t regions)
{
    const fv_region_features *f = &c->n->box_features;
    const fv_view cells = features(c, label, f, region, regions);
    const fv_conv first = {.w = &s->layer[0].w,
                           .bias = &s->layer[0].b,
                           .in = convolve(c, label, s->conv, s->convs, cells, c->box_neighbours,
                                          regions * f->size * f->size),
                           .out = fv_emit_rows(c->b, regions, s->layer[0].w.rows),
                           .from = {f->size, f->size * regions, 0, 0},
                           .to = {1, regions, 0, 0},
                           .channels = s->layer[0].w.cols / (f->size * f->size),
                           .size = f->size,
                           .stride = f->size,
                           .act = FV_EPI_RELU};
    fv_emit_conv(c->b, label, &first);
    fv_view x = first.out;
    for (uint32_t i = 1; i < s->layers; i++)
        x = fv_layer_product(c->b, label, &s->layer[i], x, FV_EPI_RELU, regions);
    return x;
}

/* Emits the logits of a stage, divided by the number of stages. */
static fv_view logits(const context *c, const char *label, const fv_box_stage *s, fv_view x,
                      uint32_t regions)
{
    const uint32_t n = s->cls.w.rows;
    float *share;
    const fv_weight scale = fv_emit_constant(c->b, 1, n, &share);
    for (uint32_t i = 0; share && i < n; i++)
        share[i] = 1.f / (float)c->n->boxes;
    const fv_gemm g = {.w = &s->cls.w,
                       .bias = &s->cls.b,
                       .scale = &scale,
                       .in = x,
                       .res = FV_NO_VIEW,
                       .out = fv_emit_rows(c->b, regions, n),
                       .rows = regions};
    fv_emit_gemm(c->b, label, &g);
    return g.out;
}

/* Emits the boxes that the model returns, best first. */
static fv_view boxes(const context *c, fv_view region)
{
    const fv_detection *d = &c->d->detection;
    const uint32_t regions = c->n->proposals.max_per_img, all = regions * d->classes;
    fv_view sum = FV_NO_VIEW;
    char label[40];
    for (uint32_t i = 0;; i++) {
        const fv_box_stage *s = &c->n->box_stage[i];
        const bool last = i + 1 == c->n->boxes;
        snprintf(label, sizeof label, "boxes %u", i);
        const fv_view x = shared_layers(c, label, s, region, regions);
        const fv_view own = logits(c, label, s, x, regions);
        if (i == 0)
            sum = own;
        else
            fv_emit_add(c->b, label, own, sum, sum, regions, d->classes + 1);
        const fv_region_scores k = {
            .index = FV_NO_VIEW,
            .scores = last ? fv_emit_gates(c->b, label, sum, 1, d->classes + 1, regions) : own,
            .delta = fv_layer_product(c->b, label, &s->box, x, 0, regions),
            .region = region,
            .rows = last ? all : regions,
            .largest = !last,
            .from = regions,
            .columns = d->classes,
            .deltas = s->agnostic ? 1 : d->classes,
            .mean = s->mean,
            .std = s->std,
            .size = {(float)c->b->options->width, (float)c->b->options->height},
            .score = last ? d->score_thr : -INFINITY,
            .side = -1};
        region = fv_emit_candidates(c->b, label, &k);
        if (last)
            return fv_emit_suppress(c->b, label, region, all, d->max_per_img, d->iou_threshold);
    }
}

/* ---- masks ---- */

static void masks(const context *c, fv_view region)
{
    const fv_detection *d = &c->d->detection;
    const fv_region_features *f = &c->n->mask_features;
    const uint32_t regions = d->max_per_img, cells = d->mask_size * d->mask_size;
    const fv_grid grid = {f->size, f->size * regions, 0, 0};
    const fv_grid fine = {d->mask_size, d->mask_size * regions, 0, 0};
    const fv_view out = fv_emit_task_output(c->b, "pred_masks", FOVEA_OUTPUT_MASKS, regions * cells,
                                            1, &fine, false);
    fv_view sum = FV_NO_VIEW;
    if (out.id < 0)
        return;
    const uint32_t *table = neighbours(c->b, regions, f->size);
    const fv_view x = features(c, "masks", f, region, regions);
    for (uint32_t i = 0; i < c->n->masks; i++) {
        const fv_mask_stage *s = &c->n->mask_stage[i];
        const uint32_t width = s->logits.w.cols;
        char label[40];
        snprintf(label, sizeof label, "masks %u", i);
        const fv_deconv up = {
            .w = &s->enlarge.w,
            .bias = &s->enlarge.b,
            .in = convolve(c, label, s->conv, s->convs, x, table, regions * f->size * f->size),
            .out = fv_emit_rows(c->b, regions * cells, width),
            .from = grid,
            .from_channels = s->enlarge.w.cols,
            .channels = width,
            .stride = 2,
            .act = FV_EPI_RELU};
        fv_emit_deconv(c->b, label, &up);
        const fv_class_mask m = {
            .in = fv_layer_product(c->b, label, &s->logits, up.out, 0, regions * cells),
            .region = region,
            .res = sum,
            .out = i + 1 == c->n->masks ? out : fv_emit_rows(c->b, regions * cells, 1),
            .regions = regions,
            .cells = cells,
            .classes = s->logits.w.rows,
            .factor = 1.f / (float)c->n->masks};
        fv_emit_class_mask(c->b, label, &m);
        sum = m.out;
    }
}

static void emit(const fv_decoder *d, fv_builder *b, const fv_level *level)
{
    context c = {.d = d, .n = &d->regions, .b = b};
    const uint32_t most = d->detection.max_per_img;
    for (uint32_t i = 0; i < d->regions.proposals.levels; i++)
        c.level[i] = fv_feature_pyramid_level(b, &level[i]);
    const fv_view proposed = proposals(&c);
    if (d->regions.box_stage[0].convs)
        c.box_neighbours =
            neighbours(b, d->regions.proposals.max_per_img, d->regions.box_features.size);
    const fv_view found = boxes(&c, proposed);
    const fv_view box =
        fv_emit_task_output(b, "pred_boxes", FOVEA_OUTPUT_BOXES, most, 4, NULL, false);
    const fv_view score =
        fv_emit_task_output(b, "pred_scores", FOVEA_OUTPUT_BOX_CLASSES, most, 2, NULL, false);
    if (box.id >= 0)
        fv_emit_copy(b, "pred_boxes", found, box, most, 4);
    if (score.id >= 0)
        fv_emit_copy(b, "pred_scores", fv_view_cols(found, FV_REGION_SCORE), score, most, 2);
    if (d->regions.masks)
        masks(&c, found);
}

const fv_decoder_head fv_head_mask_rcnn = {.type = "StandardRoIHead",
                                           .section = "roi_head",
                                           .last = "rpn_head.rpn_cls.",
                                           .read = fv_mask_rcnn_read,
                                           .emit = emit};
const fv_decoder_head fv_head_cascade_rcnn = {.type = "CascadeRoIHead",
                                              .section = "roi_head",
                                              .last = "rpn_head.rpn_cls.",
                                              .read = fv_mask_rcnn_read,
                                              .emit = emit};
