/* query_loss.c: emits the loss of every prediction of a decoder of queries: the cost of each class
 * for each query, the matching with the least cost, the loss of the matched queries, and its
 * gradient.
 *
 * The loss is that of transformers' Mask2FormerLoss for one picture: its factors, no class of
 * weight 0.1, and every prediction counts alike. The matching has no gradient. */
#include "train/ref/training.h"
#include "train/trainer.h"

void fv_query_predicted(void *predictions, fv_builder *b, fv_view classes, fv_view masks,
                        const fv_grid *grid)
{
    fv_query_predictions *p = predictions;
    (void)b;
    if (p->n == FV_QUERY_PREDICTIONS)
        return; /* the reader limits the number of layers */
    p->of[p->n].classes = classes;
    p->of[p->n].masks = masks;
    p->of[p->n++].grid = *grid;
}

/* The values that all steps of a prediction read. */
typedef struct prediction {
    fv_view classes, masks, places, targets;
    uint32_t queries, cells, number, width; /* number: of classes; width: of the grid */
} prediction;

static fv_step *step(fv_builder *b, enum fv_op op, const prediction *p, fv_view third)
{
    fv_step *s = fv_emit_step(b, op, p->queries, "loss of queries");
    s->prob.dim[FV_ROW_C] = p->cells;
    s->prob.dim[FV_QUERY_CLASSES] = p->number;
    s->prob.dim[FV_QUERY_POINTS] = FV_QUERY_POINTS_DRAWN;
    s->u[0] = p->width;
    s->f[FV_QUERY_F_CLASS] = 2.f;
    s->f[FV_QUERY_F_MASK] = s->f[FV_QUERY_F_DICE] = 5.f;
    s->f[FV_QUERY_F_NOTHING] = 0.1f;
    fv_use_value(s, FV_QUERY_MASKS, p->masks, FV_KIND_ROW);
    fv_use_value(s, FV_QUERY_LOGITS, p->classes, FV_KIND_ROW);
    fv_use_value(s, FV_QUERY_PLACES, p->places, FV_KIND_WHOLE);
    fv_use_value(s, FV_QUERY_TARGETS, p->targets, FV_KIND_WHOLE);
    fv_use_value(s, FV_QUERY_TARGETS + 1, third, FV_KIND_WHOLE);
    return s;
}

static fv_view match(fv_tape *tape, const prediction *p, fv_view present)
{
    fv_builder *b = tape->b;
    const fv_view cost = fv_tape_rows(tape, p->queries, p->number);
    const fv_view matched = fv_tape_rows(tape, 1, p->queries);
    fv_use_value(step(b, FV_OP_QUERY_COST, p, present), FV_COST_OUT, cost, FV_KIND_ROW);
    fv_step *s = fv_emit_step(b, FV_OP_QUERY_MATCH, 1, "matching of queries");
    s->prob.dim[FV_ROW_C] = p->queries;
    s->prob.dim[FV_QUERY_CLASSES] = p->number;
    fv_use_value(s, FV_MATCH_COST, cost, FV_KIND_WHOLE);
    fv_use_value(s, FV_MATCH_PRESENT, present, FV_KIND_WHOLE);
    fv_use_value(s, FV_MATCH_OUT, matched, FV_KIND_ROW);
    return matched;
}

/* Returns the value that was last emitted for one that the model emitted. */
static fv_view last(const fv_tape *tape, fv_view v)
{
    return fv_tape_now(tape, (fv_view){fv_tape_last(tape, v.id), v.col});
}

void fv_query_losses(fovea_trainer *t, fv_tape *tape, const fv_query_predictions *all)
{
    fv_builder *b = tape->b;
    fv_query_targets *q = &t->queries;
    const uint32_t classes = t->info.classes;
    b->checkpoint_segment = FV_TAPE_GRADIENTS;
    const fv_view places = fv_emit_input(b, "places", FV_QUERY_POINTS_DRAWN, 2, FV_F32);
    const fv_view targets = fv_emit_input(b, "targets", classes, FV_QUERY_POINTS_DRAWN, FV_F32);
    const fv_view present = fv_emit_input(b, "present", 1, classes, FV_F32);
    q->places_in = places.id;
    q->targets_in = targets.id;
    q->present_in = present.id;
    for (uint32_t i = 0; i < all->n && b->status == FOVEA_OK; i++) {
        const fv_view masks = last(tape, all->of[i].masks);
        const prediction p = {.classes = last(tape, all->of[i].classes),
                              .masks = masks,
                              .places = places,
                              .targets = targets,
                              .queries = b->graph->value[masks.id].rows,
                              .cells = b->graph->value[masks.id].cols,
                              .number = classes,
                              .width = all->of[i].grid.width};
        const fv_view matched = match(tape, &p, present);
        const fv_view rows = fv_trainer_loss_rows(t, b, p.queries, 1);
        const fv_view out = fv_tape_rows(tape, p.queries, p.cells + classes + 1);
        fv_use_value(step(b, FV_OP_QUERY_LOSS, &p, matched), FV_QUERY_OUT, rows, FV_KIND_ROW);
        fv_use_value(step(b, FV_OP_QUERY_GRAD, &p, matched), FV_QUERY_OUT, out, FV_KIND_ROW);
        fv_tape_pass(tape, p.masks, out);
        fv_tape_pass(tape, p.classes, fv_view_cols(out, p.cells));
    }
}
