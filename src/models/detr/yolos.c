/* yolos.c: emits the steps of YOLOS.
 *
 *     x = embed(patches) + positions, before them the class and the detection tokens
 *     x = block(x) + positions        per block; the last one without positions
 *     logits, boxes = heads of the detection tokens of LN x
 *
 * transformers puts the detection tokens after the patches, as do the outputs hidden0, ... and
 * last_hidden_state here. Its hidden states are those of blocks before positions are added. */
#include "models/detr/yolos.h"

#include <stdio.h>

#include "models/layer.h"
#include "models/vit/vit_emit.h"
#include "ops/contracts/grid.h"

/* Adds the positions between two blocks. */
static void add_positions(fv_vit_stream *s, const struct fv_yolos_positions *p)
{
    fv_builder *b = s->b;
    const fv_vit *v = s->v;
    const uint32_t width = v->width;
    const fv_weight none = {0};
    const fv_posemb table = {&none, &p->table, v->table_width, v->table_height, v->pos_rule};
    const fv_view rows = fv_emit_weight_rows(b, "positions of tokens", &p->prefix, v->prefix);
    const fv_view out = fv_emit_rows(b, s->tokens, width);
    uint32_t *order = fv_emit_table(b, s->tokens);
    for (uint32_t i = 0; order && i < s->tokens; i++)
        order[i] = i < v->prefix ? i : FV_GATHER_NONE;
    if (order)
        fv_emit_gather(b, "positions of tokens added", rows, order, 1, s->x, out, s->tokens, width);
    fv_emit_posemb(b, "positions", &table, &b->options->grid, out, out);
    s->x = out;
}

/* Emits rows as an output, in transformers' order: class, patches, detection tokens. */
static void write_ordered(const fv_vit_stream *s, uint32_t detections, fv_view in, fv_view out)
{
    const uint32_t n = s->tokens, patches = n - 1 - detections;
    uint32_t *order = fv_emit_table(s->b, n);
    for (uint32_t i = 0; order && i < n; i++)
        order[i] = i == 0 ? 0 : i <= patches ? detections + i : i - patches;
    if (order)
        fv_emit_gather(s->b, "tokens in order", in, order, 1, FV_NO_VIEW, out, n, s->v->width);
}

static fv_view output(const fv_vit_stream *s, const char *name)
{
    return fv_emit_output(s->b, name, s->tokens, s->v->width, NULL, false);
}

static void hidden(const fv_vit_stream *s, uint32_t detections, uint32_t i)
{
    char name[24];
    snprintf(name, sizeof name, "hidden%u", i);
    const fv_view out = output(s, name);
    if (out.id >= 0)
        write_ordered(s, detections, s->x, out);
}

static void last_hidden(const fv_vit_stream *s, uint32_t detections)
{
    const fv_view out = output(s, "last_hidden_state");
    if (out.id < 0)
        return;
    const fv_view normed =
        fv_layer_norm(s->b, "final norm", &s->v->post, s->x, s->v->eps, s->tokens);
    write_ordered(s, detections, normed, out);
}

/* Emits a head of three layers, whose last activation is `act`. */
static void head(fv_builder *b, const char *label, const fv_layer *l, fv_view x, uint32_t act,
                 fv_view out, uint32_t rows)
{
    for (uint32_t i = 0; i + 1 < FV_YOLOS_LAYERS; i++)
        x = fv_layer_product(b, label, &l[i], x, FV_EPI_RELU, rows);
    const fv_layer *last = &l[FV_YOLOS_LAYERS - 1];
    const fv_gemm g = {.w = &last->w,
                       .bias = &last->b,
                       .in = x,
                       .res = FV_NO_VIEW,
                       .out = out,
                       .act = act,
                       .rows = rows};
    fv_emit_gemm(b, label, &g);
}

static void detect(const fv_vit_stream *s, const fv_yolos *y)
{
    fv_builder *b = s->b;
    const fv_vit *v = s->v;
    const uint32_t n = y->tokens;
    const fv_view logits = fv_emit_task_output(b, "logits", FOVEA_OUTPUT_BOX_CLASSES, n,
                                               y->classes[FV_YOLOS_LAYERS - 1].w.rows, NULL, false);
    const fv_view boxes =
        fv_emit_task_output(b, "pred_boxes", FOVEA_OUTPUT_BOXES, n, 4, NULL, false);
    if (logits.id < 0 && boxes.id < 0)
        return;
    const fv_view rows = fv_emit_rows(b, n, v->width);
    fv_emit_take(b, "detection tokens", s->x, v->class_tokens, rows, n, v->width);
    const fv_view x = fv_layer_norm(b, "norm of detection tokens", &v->post, rows, v->eps, n);
    if (logits.id >= 0)
        head(b, "classes", y->classes, x, 0, logits, n);
    if (boxes.id >= 0)
        head(b, "boxes", y->box, x, FV_EPI_SIGMOID, boxes, n);
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_yolos *y = m->roles;
    const uint32_t depth = y->vit.depth;
    fv_vit_stream s = {.b = b, .v = &y->vit, .tokens = fv_grid_tokens(&b->options->grid)};
    fv_vit_emit_embed(&s);
    hidden(&s, y->tokens, 0);
    for (uint32_t i = 0; i < depth && b->status == FOVEA_OK; i++) {
        fv_vit_emit_block(&s, i);
        hidden(&s, y->tokens, i + 1);
        if (y->after && i + 1 < depth)
            add_positions(&s, &y->after[i]);
    }
    last_hidden(&s, y->tokens);
    if (m->detection)
        detect(&s, y);
    return b->status;
}

FV_DEFINE_FAMILY(yolos, .name = "yolos", .types = "yolos",
                 .sign = "class_labels_classifier.layers.2.",
                 .second_sign = "vit.embeddings.detection_tokens", .attention = "softmax",
                 .shapes = true, .read = fv_yolos_read, .emit = emit, .release = fv_yolos_release,
                 .synthetic = &fv_yolos_synthetics)
