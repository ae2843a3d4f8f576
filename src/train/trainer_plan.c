/* trainer_plan.c: makes the plans that a trainer runs for a picture.
 *
 *     ATTENTION  the softmax model, block by block. After each block's attention follow the
 *                student's attention, its loss, and its gradients. No gradient crosses blocks.
 *     FEATURES   a plan of the teacher; then forward steps, loss and gradients of the student
 *     TASK       forward steps, loss and gradients
 *
 * With bfloat16 products, the student's plan multiplies rounded numbers in the products of its
 * blocks and of their gradients (rounded_operands.c). Its attention stays float32. The teacher's
 * plan is an inference plan. */
#include <math.h>
#include <string.h>

#include "plan/frame_plan.h"
#include "train/ref/training.h"
#include "train/rounded_operands.h"
#include "train/trainer.h"

/* The last two segments (the last block and the steps after it) are never recomputed: their
 * gradients come first, so that keeping them needs no more memory than recomputing them. */
#define ALWAYS_KEPT 2

#define COMMON_FACTOR 0.5f /* share of a common factor of all depths that the loss ignores */

/* Bytes reserved for lists, tables and losses. */
#define SMALL_THINGS (256u << 10)

static fovea_plan_options frame_options(const fovea_trainer *t, const char *attention,
                                        const char *const *output)
{
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.format = t->o.frame.format;
    o.frame.width = t->o.frame.width;
    o.frame.height = t->o.frame.height;
    o.attention = attention;
    o.outputs = output;
    o.n_outputs = 1;
    o.compute = t->o.compute;
    return o;
}

/* ---- losses ---- */

fv_view fv_trainer_loss_rows(fovea_trainer *t, fv_builder *b, uint32_t rows, double factor)
{
    const fv_view out = fv_emit_value(b, FV_VALUE_OUTPUT, rows, 1, FV_F32);
    t->loss[t->losses++] = (fv_loss){.value = out.id, .rows = rows, .factor = factor};
    return out;
}

static fv_step *loss_step(fv_builder *b, enum fv_op op, uint32_t rows, uint32_t cols, fv_view x,
                          fv_view target, fv_view out)
{
    fv_step *s = fv_emit_row_step(b, op, "loss", x, FV_KIND_ROW, out, rows, cols);
    fv_use_value(s, FV_MSE_B, target, FV_KIND_ROW);
    return s;
}

/* Emits lambda times the distance of x from the target; see fovea_loss. */
static void distance(fovea_trainer *t, fv_tape *tape, fv_view x, fv_view target, double lambda)
{
    fv_builder *b = tape->b;
    const uint32_t rows = b->graph->value[x.id].rows, cols = b->graph->value[x.id].cols;
    const bool relative = t->o.loss == FOVEA_LOSS_RELATIVE;
    const double factor = lambda / (relative ? rows : (double)rows * cols);
    b->checkpoint_segment = FV_TAPE_GRADIENTS;
    const fv_view out = fv_tape_rows(tape, rows, cols);
    for (int grad = 0; grad < 2; grad++) {
        fv_step *s = loss_step(b, grad ? FV_OP_MSE_GRAD : FV_OP_MSE_LOSS, rows, cols, x, target,
                               grad ? out : fv_trainer_loss_rows(t, b, rows, factor));
        s->prob.flags = relative ? FV_FLAG_RELATIVE : 0;
        s->f[0] = grad ? (float)(2 * factor) : 0;
    }
    fv_tape_pass(tape, x, out);
}

/* Emits the cross-entropy of the picture's logits. */
static void class_loss(fovea_trainer *t, fv_tape *tape, fv_view logits)
{
    fv_builder *b = tape->b;
    const uint32_t classes = b->graph->value[logits.id].cols;
    b->checkpoint_segment = FV_TAPE_GRADIENTS;
    const fv_view labels = fv_emit_input(b, "labels", 1, 2, FV_F32);
    const fv_view out = fv_tape_rows(tape, 1, classes);
    t->labels_in = labels.id;
    loss_step(b, FV_OP_CROSS_ENTROPY_LOSS, 1, classes, logits, labels,
              fv_trainer_loss_rows(t, b, 1, 1));
    loss_step(b, FV_OP_CROSS_ENTROPY_GRAD, 1, classes, logits, labels, out);
    fv_tape_pass(tape, logits, out);
}

/* Emits the cross-entropy of the logits of a grid's patches, interpolated to the pixels of a
 * mask. */
static void pixel_loss(fovea_trainer *t, fv_tape *tape, fv_view logits, const fv_grid *grid)
{
    fv_builder *b = tape->b;
    const uint32_t tokens = b->graph->value[logits.id].rows,
                   classes = b->graph->value[logits.id].cols;
    const uint32_t width = t->info.mask_width, height = t->info.mask_height;
    b->checkpoint_segment = FV_TAPE_GRADIENTS;
    const fv_view mask = fv_emit_input(b, "mask", height, width, FV_U8);
    const fv_view weight = fv_emit_input(b, "weight", 1, 1, FV_F32);
    const fv_view out = fv_tape_rows(tape, tokens, classes);
    t->pixels_in = mask.id;
    t->weight_in = weight.id;
    for (int i = 0; i < 2; i++) {
        fv_step *s = fv_emit_step(b, i ? FV_OP_SEGMENT_GRAD : FV_OP_SEGMENT_LOSS, tokens, "loss");
        const fv_view to = i ? out : fv_trainer_loss_rows(t, b, tokens, 1);
        if (b->status != FOVEA_OK)
            return;
        s->prob.dim[FV_ROW_C] = classes;
        s->prob.dim[FV_SEGMENT_GRID] = grid->width;
        s->prob.dim[FV_SEGMENT_WIDTH] = width;
        s->prob.dim[FV_SEGMENT_HEIGHT] = height;
        s->align = grid->width;
        fv_use_value(s, FV_SEGMENT_LOGITS, logits, FV_KIND_WHOLE);
        fv_use_value(s, FV_SEGMENT_MASK, mask, FV_KIND_WHOLE);
        fv_use_value(s, FV_SEGMENT_WEIGHT, weight, FV_KIND_WHOLE);
        fv_use_value(s, FV_SEGMENT_OUT, to, FV_KIND_ROW);
    }
    fv_tape_pass(tape, logits, out);
}

/* Emits a DEPTH_LOSS or DEPTH_GRAD step. `mean` is absent, or the sum of the rows of the first
 * DEPTH_LOSS. */
static void depth_step(const fovea_trainer *t, fv_tape *tape, enum fv_op op, fv_view found,
                       const fv_grid *grid, fv_view truth, fv_view weight, fv_view mean, fv_view to)
{
    fv_builder *b = tape->b;
    fv_step *s = fv_emit_step(b, op, b->graph->value[found.id].rows, "loss");
    if (b->status != FOVEA_OK)
        return;
    s->prob.dim[FV_SEGMENT_GRID] = grid->width;
    s->prob.dim[FV_SEGMENT_WIDTH] = t->info.mask_width;
    s->prob.dim[FV_SEGMENT_HEIGHT] = t->info.mask_height;
    s->f[0] = COMMON_FACTOR;
    s->align = grid->width;
    fv_use_value(s, FV_DEPTH_FOUND, found, FV_KIND_WHOLE);
    fv_use_value(s, FV_DEPTH_TRUTH, truth, FV_KIND_WHOLE);
    fv_use_value(s, FV_DEPTH_WEIGHT, weight, FV_KIND_WHOLE);
    fv_use_value(s, FV_DEPTH_MEAN, mean, FV_KIND_WHOLE);
    fv_use_value(s, FV_DEPTH_OUT, to, FV_KIND_ROW);
}

/* Emits the distance of depths from the true ones, of which COMMON_FACTOR discounts a common
 * scale. */
static void depth_loss(fovea_trainer *t, fv_tape *tape, fv_view found, const fv_grid *grid)
{
    fv_builder *b = tape->b;
    const uint32_t tokens = b->graph->value[found.id].rows;
    b->checkpoint_segment = FV_TAPE_GRADIENTS;
    const fv_view truth =
        fv_emit_input(b, "depth", t->info.mask_height, t->info.mask_width, FV_F32);
    const fv_view weight = fv_emit_input(b, "weight", 1, 1, FV_F32);
    const fv_view logs = fv_tape_rows(tape, tokens, 1), mean = fv_tape_rows(tape, 1, 1);
    const fv_view out = fv_tape_rows(tape, tokens, 1);
    t->pixels_in = truth.id;
    t->weight_in = weight.id;
    depth_step(t, tape, FV_OP_DEPTH_LOSS, found, grid, truth, weight, FV_NO_VIEW, logs);
    fv_step *s = fv_emit_row_step(b, FV_OP_SUM_ROWS, "loss", logs, FV_KIND_WHOLE, mean, 1, 1);
    s->prob.dim[FV_GRAD_TOKENS] = tokens;
    fv_use_value(s, FV_SUM_B, FV_NO_VIEW, FV_KIND_WHOLE);
    depth_step(t, tape, FV_OP_DEPTH_LOSS, found, grid, truth, weight, mean,
               fv_trainer_loss_rows(t, b, tokens, 1));
    depth_step(t, tape, FV_OP_DEPTH_GRAD, found, grid, truth, weight, mean, out);
    fv_tape_pass(tape, found, out);
}

static void last_loss(fovea_trainer *t, fv_tape *tape, fv_view y, const fv_grid *grid)
{
    fv_builder *b = tape->b;
    if (t->o.stage == FOVEA_STAGE_TASK) {
        if (t->o.task == FOVEA_TASK_CLASSES)
            class_loss(t, tape, y);
        else if (t->o.head == FOVEA_HEAD_MASK2FORMER)
            fv_query_losses(t, tape, t->training.ctx);
        else if (t->o.task == FOVEA_TASK_DEPTH)
            depth_loss(t, tape, y, grid);
        else
            pixel_loss(t, tape, y, grid);
        return;
    }
    const fv_view features = fv_emit_input(b, "features", b->graph->value[y.id].rows,
                                           b->graph->value[y.id].cols, FV_F32);
    t->features_in = features.id;
    distance(t, tape, y, features, (double)t->o.lambda);
}

/* ---- the student as a whole ---- */

static void run_tape(fovea_trainer *t, fv_tape *tape, uint32_t segments, const fv_wanted *y)
{
    const uint32_t kept = ALWAYS_KEPT + t->info.blocks_not_recomputed;
    tape->keep_from = segments > kept ? segments - kept : 0;
    for (uint32_t i = 0; i < segments; i++)
        fv_tape_forward(tape, i);
    if (tape->b->status == FOVEA_OK)
        last_loss(t, tape, fv_tape_now(tape, (fv_view){fv_tape_last(tape, y->value), 0}), &y->grid);
    for (uint32_t i = segments; i-- > 0;)
        fv_tape_backward(tape, i);
}

/* ---- block by block ---- */

/* A block's two attentions, recorded while the model's steps are emitted. */
struct pair {
    uint32_t checkpoint_segment;
    fv_view student, softmax;
};

struct pairs {
    fovea_trainer *t;
    fv_attention_name *attention; /* attention of each of the student's blocks */
    struct pair *pair;
};

static void attended(void *ctx, fv_builder *b, uint32_t block, fv_view normed, fv_view seen)
{
    const struct pairs *all = ctx;
    const fovea_model *teacher = all->t->teacher, *student = all->t->model;
    struct pair *p = &all->pair[block];
    p->softmax = teacher->family->project(teacher, b, block, seen);
    p->checkpoint_segment = ++b->checkpoint_segment;
    seen = student->family->attend(student, b, block, &all->attention[block], normed);
    p->student = student->family->project(student, b, block, seen);
    b->checkpoint_segment++;
}

static void run_pairs(fovea_trainer *t, fv_tape *tape, uint32_t segments, const struct pair *pair,
                      uint32_t blocks)
{
    uint32_t next = 0;
    tape->keep_from = 0;
    for (uint32_t i = 0; i < segments && tape->b->status == FOVEA_OK; i++) {
        fv_tape_forward(tape, i);
        if (next == blocks || pair[next].checkpoint_segment != i || tape->b->status != FOVEA_OK)
            continue;
        const fv_view x = fv_tape_now(tape, pair[next].student);
        const fv_view y = fv_tape_now(tape, pair[next].softmax);
        distance(t, tape, x, y, 1);
        fv_tape_backward(tape, i);
        next++;
    }
}

/* ---- making them ---- */

static fovea_status take_tape(fovea_trainer *t, fv_builder *b, fv_tape *tape,
                              const struct pairs *pairs)
{
    const uint32_t segments = b->checkpoint_segment + 1;
    const fv_wanted y = b->graph->wanted[0];
    b->graph->value[y.value].kind = FV_VALUE_ROWS;
    b->graph->n_wanted = 0;
    FV_TRY(fv_tape_begin(tape, b, &t->masters));
    if (pairs)
        run_pairs(t, tape, segments, pairs->pair, b->options->blocks);
    else
        run_tape(t, tape, segments, &y);
    t->sink = tape->sink;
    t->sinks = tape->sinks;
    tape->sink = NULL;
    FV_TRY(b->status);
    return t->o.compute == FOVEA_COMPUTE_BF16 ? fv_operands_round(b) : FOVEA_OK;
}

static const char *learned_output(const fovea_trainer_options *o)
{
    if (o->stage != FOVEA_STAGE_TASK)
        return "last_hidden_state";
    if (o->task != FOVEA_TASK_SEGMENTATION)
        return o->task == FOVEA_TASK_DEPTH ? "predicted_depth" : "logits";
    if (o->head == FOVEA_HEAD_MASK2FORMER)
        return "masks_queries_logits";
    return o->head == FOVEA_HEAD_LINEAR ? "segmentation" : "seg_logits";
}

static fovea_status emit_with(fovea_trainer *t, struct pairs *pairs)
{
    const char *output = learned_output(&t->o);
    const fovea_plan_options o = frame_options(t, pairs ? "softmax" : t->attention, &output);
    fv_query_predictions predictions = {.n = 0};
    fv_tape tape = {0};
    fv_builder b;
    t->training = (fv_training){.attended = pairs ? attended : NULL, .ctx = pairs};
    if (t->o.head == FOVEA_HEAD_MASK2FORMER)
        t->training = (fv_training){.predicted = fv_query_predicted, .ctx = &predictions};
    FV_TRY(fv_frame_emit(&t->plan, &b, pairs ? t->teacher : t->model, t->device, &o, NULL,
                         &t->training));
    const fovea_status status = take_tape(t, &b, &tape, pairs);
    fv_tape_end(&tape);
    t->training = (fv_training){0};
    return status;
}

/* Frees the plan of an earlier attempt. */
static void discard(fovea_trainer *t)
{
    fovea_plan_free(t->plan);
    fv_mem_free(t->loss);
    fv_mem_free(t->sink);
    t->plan = NULL;
    t->loss = NULL;
    t->sink = NULL;
    t->losses = t->sinks = 0;
}

static bool only_softmax(const fv_attention_name *name, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++)
        if (name[i].kind != FV_ATTENTION_SOFTMAX)
            return false;
    return true;
}

static fovea_status emit(fovea_trainer *t)
{
    const uint32_t depth = t->model->info.depth;
    struct pairs pairs = {.t = t};
    discard(t);
    FV_TRY(FV_MEM_ARRAY(&t->loss, depth + FV_QUERY_PREDICTIONS, FV_MEM_PLAN, "the losses"));
    if (t->o.stage != FOVEA_STAGE_ATTENTION)
        return emit_with(t, NULL);
    FV_TRY(fv_attention_blocks(&pairs.attention, t->attention, depth));
    fovea_status status = fv_attention_blocks_check(pairs.attention, depth);
    if (status == FOVEA_OK && only_softmax(pairs.attention, depth))
        status =
            fv_fail(FOVEA_EINVAL,
                    "attention \"%s\": stage 1 trains another attention to reproduce softmax, but "
                    "every block has softmax; choose another attention, such as linear:elu1",
                    t->attention);
    FV_THEN(status, FV_MEM_ARRAY(&pairs.pair, depth, FV_MEM_PLAN, "the losses"));
    FV_THEN(status, emit_with(t, &pairs));
    fv_mem_free(pairs.pair);
    fv_mem_free(pairs.attention);
    return status;
}

/* Checks that the sizes of the teacher's and the student's tokens are equal and, in the first
 * stage, also their numbers of blocks and heads. */
static fovea_status check_teacher(const fovea_trainer *t)
{
    const fovea_model_info *ours = &t->model->info, *theirs = &t->teacher->info;
    if (ours->width != theirs->width || ours->patch != theirs->patch ||
        ours->prefix != theirs->prefix)
        return fv_fail(FOVEA_EINVAL,
                       "the teacher has %u channels, patches of %u pixels and %u prefix tokens, "
                       "but the student has %u, %u and %u; use a teacher with equal numbers",
                       theirs->width, theirs->patch, theirs->prefix, ours->width, ours->patch,
                       ours->prefix);
    if (t->o.stage == FOVEA_STAGE_ATTENTION &&
        (ours->depth != theirs->depth || ours->heads != theirs->heads))
        return fv_fail(FOVEA_EINVAL,
                       "the teacher has %u blocks of %u heads, but the student has %u of %u; stage "
                       "1 compares them block by block, so use a teacher with equal numbers",
                       theirs->depth, theirs->heads, ours->depth, ours->heads);
    return FOVEA_OK;
}

static fovea_status plan_teacher(fovea_trainer *t)
{
    static const char *const output = "last_hidden_state";
    const fovea_plan_options o = frame_options(t, "softmax", &output);
    FV_TRY(fv_frame_plan(&t->guide, t->teacher, t->device, &o, NULL));
    fovea_output_info out = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(t->guide, 0, &out);
    const uint64_t floats = (uint64_t)out.rows * out.columns;
    FV_TRY(FV_MEM_ARRAY(&t->features, floats, FV_MEM_ARENA, "the teacher's features"));
    return t->o.teacher_memory ? fv_teacher_features_take(&t->kept, floats, t->o.teacher_memory)
                               : FOVEA_OK;
}

/* ---- memory ---- */

/* Returns the number of floats of the gathered gradients, which are scattered later. */
static uint64_t gathered_floats(const fovea_trainer *t)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < t->sinks; i++) {
        const fv_value *v = &t->plan->graph.value[t->sink[i].value];
        if (!t->sink[i].direct)
            all += (uint64_t)v->rows * v->cols;
    }
    return all;
}

/* Allocates the memory that the plan writes: gathered gradients and rows of losses. */
static fovea_status take_rows(fovea_trainer *t)
{
    t->n_gathered = gathered_floats(t);
    FV_TRY(FV_MEM_ARRAY(&t->gathered, t->n_gathered, FV_MEM_ARENA, "gradients of weights"));
    float *at = t->gathered;
    for (uint32_t i = 0; i < t->sinks; i++) {
        const fv_value *v = &t->plan->graph.value[t->sink[i].value];
        t->sink[i].rows = at;
        if (t->sink[i].direct)
            t->sink[i].rows = t->sink[i].direct->gradient + t->sink[i].offset;
        else
            at += (uint64_t)v->rows * v->cols;
    }
    if (t->o.head == FOVEA_HEAD_MASK2FORMER)
        FV_TRY(fv_query_targets_take(&t->queries, t->info.classes));
    for (uint32_t i = 0; i < t->losses; i++)
        FV_TRY(FV_MEM_ARRAY(&t->loss[i].row, t->loss[i].rows, FV_MEM_ARENA, "the losses"));
    return FOVEA_OK;
}

/* Returns the bytes of everything except the student's activations: those already allocated, and
 * those still to be allocated. */
static uint64_t fixed_bytes(const fovea_trainer *t, uint64_t before)
{
    fovea_memory now = FOVEA_MEMORY_INIT;
    fovea_memory_query(&now);
    const uint64_t numbers = fv_masters_floats(&t->masters) * (t->o.ema > 0 ? 5 : 4);
    const uint64_t targets =
        t->o.head == FOVEA_HEAD_MASK2FORMER ? fv_query_targets_bytes(t->info.classes) : 0;
    return now.current - before + targets + (numbers + gathered_floats(t)) * sizeof(float) +
           t->plan->info.weights + fv_trainer_follow_bytes(t) + SMALL_THINGS;
}

/* Sets *fits to whether a plan that keeps `kept` more blocks fits the memory limit, by making a dry
 * plan. */
static fovea_status try_kept(fovea_trainer *t, uint32_t kept, uint64_t before, bool *fits)
{
    const fv_plan_request r = {.schedule = FOVEA_SCHEDULE_AUTO, .dry = true};
    t->info.blocks_not_recomputed = kept;
    FV_TRY(emit(t));
    FV_TRY(fv_plan_finish(t->plan, &r));
    const uint64_t rows = fv_plan_activations(&t->plan->info);
    *fits = fixed_bytes(t, before) + rows <= t->o.memory_limit;
    return FOVEA_OK;
}

/* Keeps as many blocks as fit the memory limit. */
static fovea_status choose_kept(fovea_trainer *t, uint64_t before)
{
    const uint32_t depth = t->model->info.depth;
    uint32_t low = 0, high = depth > 1 ? depth - 1 : 0;
    while (low < high) {
        const uint32_t middle = high - (high - low) / 2;
        bool fits;
        FV_TRY(try_kept(t, middle, before, &fits));
        if (fits)
            low = middle;
        else
            high = middle - 1;
    }
    t->info.blocks_not_recomputed = low;
    return FOVEA_OK;
}

static fovea_status finish(fovea_trainer *t, uint64_t before)
{
    fv_plan_request r = {.schedule = FOVEA_SCHEDULE_AUTO};
    if (t->o.memory_limit) {
        bool fits;
        FV_TRY(try_kept(t, t->info.blocks_not_recomputed, before, &fits));
        const uint64_t fixed = fixed_bytes(t, before);
        if (fixed >= t->o.memory_limit)
            return fv_fail(FOVEA_ENOMEM,
                           "weights, gradients and moments need %.1f MiB, but memory_limit is %.1f "
                           "MiB; train fewer tensors or a smaller model",
                           (double)fixed / (1 << 20), (double)t->o.memory_limit / (1 << 20));
        r.memory_limit = t->o.memory_limit - fixed;
    }
    FV_TRY(emit(t));
    FV_TRY(fv_trainer_chosen(t));
    FV_TRY(fv_masters_take(&t->masters, t->o.ema > 0));
    return fv_plan_finish(t->plan, &r);
}

fovea_status fv_trainer_plan(fovea_trainer *t, uint64_t before)
{
    if (t->teacher)
        FV_TRY(check_teacher(t));
    if (t->o.stage == FOVEA_STAGE_FEATURES)
        FV_TRY(plan_teacher(t));
    if (t->o.memory_limit && t->o.stage != FOVEA_STAGE_ATTENTION)
        FV_TRY(choose_kept(t, before));
    FV_TRY(finish(t, before));
    FV_TRY(take_rows(t));
    return fv_trainer_follow(t);
}
