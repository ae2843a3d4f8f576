/* segmenter.c: makes masks for points and boxes: keeps the features of a frame, makes the tokens of
 * a prompt, and runs the plan of the model's decoder. */
#include <fovea/prompts.h>

#include <math.h>
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "models/model.h"
#include "models/prompt_tokens.h"
#include "plan/prompt_plan.h"
#include "run/masks.h"
#include "run/run.h"
#include "run/sigmoid.h"
#include "run/task_output.h"

#define POINTS 8 /* default */

struct fovea_segmenter {
    fovea_plan *plan;
    const fv_prompts *prompts;
    uint32_t points; /* most points of a prompt */
    uint32_t tokens; /* tokens of the plan */
    size_t outs;     /* outputs of the plan of the frames */
    struct features {
        size_t output; /* which of them it is */
        uint64_t values;
        float *data; /* the values of the current frame */
    } features[FV_PROMPT_FEATURES_MOST];
    bool begun;
    float *token, *present; /* other inputs of the plan */
};

const char *fovea_model_prompt_output(const fovea_model *m, size_t index)
{
    return m && m->prompts && index < FV_PROMPT_FEATURES_MOST ? m->prompts->features[index] : NULL;
}

/* ---- creating a segmenter ---- */

static fovea_status find_features(fovea_segmenter *s, const fovea_plan *frames)
{
    s->outs = frames->graph.n_wanted;
    for (uint32_t i = 0; s->prompts->features[i]; i++) {
        const char *name = s->prompts->features[i];
        const fv_wanted *w = fv_graph_wanted(&frames->graph, name);
        if (!w)
            return fv_fail(FOVEA_EINVAL,
                           "the plan lacks output %s, which the segmenter reads; plan with all "
                           "outputs of fovea_model_prompt_output",
                           name);
        const fv_value *v = &frames->graph.value[w->value];
        s->features[i].output = (size_t)(w - frames->graph.wanted);
        s->features[i].values = (uint64_t)v->rows * v->cols;
    }
    return FOVEA_OK;
}

static fovea_status allocate(fovea_segmenter *s)
{
    const fv_prompts *p = s->prompts;
    for (uint32_t i = 0; p->features[i]; i++)
        FV_TRY(FV_MEM_ARRAY(&s->features[i].data, s->features[i].values, FV_MEM_PLAN,
                            "the features of a frame"));
    FV_TRY(FV_MEM_ARRAY(&s->token, (uint64_t)s->tokens * p->width, FV_MEM_PLAN,
                        "the tokens of a prompt"));
    FV_TRY(FV_MEM_ARRAY(&s->present, s->tokens, FV_MEM_PLAN, "the tokens of a prompt"));
    memcpy(s->token, p->tokens, (size_t)p->first * p->width * sizeof *s->token);
    return FOVEA_OK;
}

static fovea_status create(fovea_segmenter *s, const fovea_plan *frames,
                           const fovea_segmenter_options *o)
{
    s->prompts = frames->model->prompts;
    s->points = o->points ? o->points : POINTS;
    s->tokens = s->prompts->first + s->points + FV_PROMPT_MORE;
    FV_TRY(find_features(s, frames));
    FV_TRY(fv_prompt_plan(&s->plan, frames, s->tokens, o));
    return o->dry ? FOVEA_OK : allocate(s);
}

fovea_status fovea_segmenter_create(fovea_segmenter **out, const fovea_plan *plan,
                                    const fovea_segmenter_options *options)
{
    fovea_segmenter *s;
    fovea_segmenter_options o = FOVEA_SEGMENTER_OPTIONS_INIT;
    FV_TRY(fv_require(plan, "the plan"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_SEGMENTER_OPTIONS_INIT));
    if (!plan->model->prompts || plan->frame.planes == 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "the plan is not of a model that reads points and boxes, such as SAM");
    if (o.points > FV_PROMPT_POINTS)
        return fv_fail(FOVEA_EINVAL, "`points` is %u; a prompt can have at most %d points",
                       o.points, FV_PROMPT_POINTS);
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_PLAN, "the segmenter"));
    FV_RETURN_MADE(out, s, fovea_segmenter_free, create(s, plan, &o));
}

void fovea_segmenter_free(fovea_segmenter *s)
{
    if (!s)
        return;
    fovea_plan_free(s->plan);
    for (uint32_t i = 0; i < FV_PROMPT_FEATURES_MOST; i++)
        fv_mem_free(s->features[i].data);
    fv_mem_free(s->token);
    fv_mem_free(s->present);
    fv_mem_free(s);
}

fovea_plan *fovea_segmenter_plan(const fovea_segmenter *s)
{
    return s->plan;
}

/* ---- a frame ---- */

static fovea_status check_memory(const fovea_segmenter *s)
{
    FV_TRY(fv_require(s, "the segmenter"));
    return s->plan->dry
               ? fv_fail(FOVEA_EINVAL, "a dry segmenter cannot run; create it without `dry`")
               : FOVEA_OK;
}

fovea_status fovea_segmenter_begin(fovea_segmenter *s, const fovea_output *outs, size_t n_outs)
{
    FV_TRY(check_memory(s));
    FV_TRY(fv_require(outs, "the outputs"));
    if (n_outs != s->outs)
        return fv_fail(FOVEA_EINVAL, "the caller gave %zu outputs, but the plan has %zu", n_outs,
                       s->outs);
    for (uint32_t i = 0; s->prompts->features[i]; i++) {
        const fovea_output *o = &outs[s->features[i].output];
        const uint64_t bytes = s->features[i].values * sizeof(float);
        if (!o->data || o->size < bytes)
            return fv_fail(FOVEA_EINVAL, "output %s: the buffer has %zu bytes, but %llu are needed",
                           s->prompts->features[i], o->data ? o->size : 0,
                           (unsigned long long)bytes);
    }
    for (uint32_t i = 0; s->prompts->features[i]; i++)
        memcpy(s->features[i].data, outs[s->features[i].output].data,
               s->features[i].values * sizeof(float));
    const uint32_t width = s->prompts->width;
    for (uint64_t i = 0; i < s->features[0].values; i += width)
        for (uint32_t k = 0; k < width; k++)
            s->features[0].data[i + k] += s->prompts->added[k];
    s->begun = true;
    return FOVEA_OK;
}

/* ---- prompts ---- */

static fovea_status check_points(const fovea_segmenter *s, const fovea_prompt *p)
{
    if (p->n_points > s->points)
        return fv_fail(FOVEA_EINVAL,
                       "the prompt has %zu points, but the segmenter was created for at most %u",
                       p->n_points, s->points);
    if (p->n_points)
        FV_TRY(fv_require(p->points, "the points"));
    for (size_t i = 0; i < p->n_points; i++) {
        const fovea_prompt_point *k = &p->points[i];
        if (k->label < -1 || k->label > 1)
            return fv_fail(FOVEA_EINVAL,
                           "point %zu has label %d; it must be 1 (inside), 0 (outside) or -1", i,
                           k->label);
        if (!isfinite(k->x) || !isfinite(k->y))
            return fv_fail(FOVEA_EINVAL, "point %zu is at (%g, %g); coordinates must be finite", i,
                           k->x, k->y);
    }
    return FOVEA_OK;
}

static fovea_status check_box(const fovea_box *b)
{
    if (isfinite(b->x) && isfinite(b->y) && isfinite(b->x + b->width) &&
        isfinite(b->y + b->height) && b->width > 0 && b->height > 0)
        return FOVEA_OK;
    return fv_fail(FOVEA_EINVAL,
                   "the box is %g, %g, %g, %g; it must have finite coordinates, and a width and a "
                   "height above 0",
                   b->x, b->y, b->width, b->height);
}

/* Appends a token to the `n` tokens of the prompt so far. As in transformers, coordinates of the
 * frame are scaled to the picture first, and there moved to the centres of pixels. */
static void add_token(fovea_segmenter *s, uint32_t *n, fv_prompt_kind kind, double x, double y)
{
    const fovea_plan_info *i = &s->plan->info;
    fv_prompt_token(s->token + (size_t)*n * s->prompts->width, s->prompts, kind,
                    ((x - i->left) / i->scale_x + 0.5) / (i->width - i->ignored_right),
                    ((y - i->top) / i->scale_y + 0.5) / (i->height - i->ignored_bottom));
    ++*n;
}

static void make_tokens(fovea_segmenter *s, const fovea_prompt *p)
{
    uint32_t n = s->prompts->first;
    for (size_t i = 0; i < p->n_points; i++) {
        const fovea_prompt_point *k = &p->points[i];
        const fv_prompt_kind kind = k->label < 0    ? FV_PROMPT_NOTHING
                                    : k->label == 0 ? FV_PROMPT_OUTSIDE
                                                    : FV_PROMPT_INSIDE;
        add_token(s, &n, kind, k->x, k->y);
    }
    if (p->box) {
        add_token(s, &n, FV_PROMPT_FIRST_CORNER, p->box->x, p->box->y);
        add_token(s, &n, FV_PROMPT_LAST_CORNER, p->box->x + p->box->width,
                  p->box->y + p->box->height);
    }
    const bool empty = !p->box && p->n_points == 0, second = s->prompts->second;
    for (uint32_t left = second ? 1 + empty : !p->box && !empty; left > 0; left--)
        add_token(s, &n, FV_PROMPT_NOTHING, 0, 0);
    const size_t missing = s->tokens - n;
    memset(s->token + (size_t)n * s->prompts->width, 0,
           missing * s->prompts->width * sizeof *s->token);
    for (uint32_t i = 0; i < s->tokens; i++)
        s->present[i] = i < n;
}

fovea_status fovea_segmenter_run(fovea_segmenter *s, const fovea_prompt *prompt,
                                 const fovea_output *outs, size_t n_outs)
{
    FV_TRY(check_memory(s));
    FV_TRY(fv_require(prompt, "the prompt"));
    FV_TRY(fv_require(outs, "the outputs"));
    if (!s->begun)
        return fv_fail(FOVEA_EINVAL,
                       "the segmenter has no features yet; call fovea_segmenter_begin first");
    FV_TRY(check_points(s, prompt));
    if (prompt->box)
        FV_TRY(check_box(prompt->box));
    FV_TRY(fv_task_output_sizes(s->plan, outs, n_outs));
    make_tokens(s, prompt);
    const fovea_matrix in[FV_PROMPT_INPUTS] = {[FV_PROMPT_FEATURES] = {s->features[0].data, 0},
                                               [FV_PROMPT_TOKENS] = {s->token, 0},
                                               [FV_PROMPT_PRESENT] = {s->present, 0},
                                               [FV_PROMPT_FINEST] = {s->features[1].data, 0},
                                               [FV_PROMPT_FINER] = {s->features[2].data, 0}};
    const fovea_matrix out[FV_PROMPT_OUTPUTS] = {
        [FV_PROMPT_MASKS] = {outs[FV_PROMPT_MASKS].data, 0},
        [FV_PROMPT_SCORES] = {outs[FV_PROMPT_SCORES].data, 0}};
    const bool second = s->prompts->second;
    FV_TRY(fv_op_run(s->plan, UINT32_MAX, in, second ? FV_PROMPT_INPUTS : FV_PROMPT_FINEST, out));
    const uint32_t n = s->plan->model->info.prompt_masks;
    float *score = outs[FV_PROMPT_SCORES].data;
    for (uint32_t i = 0; second && i < n; i++)
        score[i] = (float)fv_sigmoid(score[i]);
    return FOVEA_OK;
}

/* Returns whether the usual mask is stable: whether nearly as many positions are well inside it as
 * are not well outside of it. */
static bool is_stable(const fovea_segmenter *s, const fv_task_output *masks)
{
    const float delta = s->prompts->delta, *logit = masks->data;
    uint32_t inside = 0, near = 0;
    for (uint32_t i = 0; i < masks->rows; i++, logit += masks->columns) {
        inside += *logit > delta;
        near += *logit > -delta;
    }
    return near == 0 || (float)inside / (float)near >= s->prompts->stable;
}

fovea_status fovea_segmenter_choose(const fovea_segmenter *s, const fovea_output *outs,
                                    size_t n_outs, int alternatives, uint32_t *index)
{
    fv_task_output masks;
    FV_TRY(check_memory(s));
    FV_TRY(fv_require(outs, "the outputs"));
    FV_TRY(fv_require(index, "the pointer to the index"));
    FV_TRY(fv_task_output_sizes(s->plan, outs, n_outs));
    FV_TRY(fv_task_output_of(&masks, s->plan, outs, FOVEA_OUTPUT_MASKS, "pred_masks"));
    const float *score = outs[FV_PROMPT_SCORES].data;
    *index = 0;
    if (!alternatives && (s->prompts->stable == 0 || is_stable(s, &masks)))
        return FOVEA_OK;
    *index = 1;
    for (uint32_t i = 2; i < masks.columns; i++)
        *index = score[i] > score[*index] ? i : *index;
    return FOVEA_OK;
}

fovea_status fovea_segmenter_mask(fovea_segmenter *s, const fovea_output *outs, size_t n_outs,
                                  uint32_t index, fovea_mask *mask, uint8_t *inside,
                                  size_t capacity)
{
    fovea_mask found = {.query = index};
    FV_TRY(check_memory(s));
    FV_TRY(fv_require(outs, "the outputs"));
    FV_TRY(fv_task_output_sizes(s->plan, outs, n_outs));
    FV_TRY(fv_masks_draw(s->plan, outs, index, &found, inside, capacity));
    found.score = ((const float *)outs[FV_PROMPT_SCORES].data)[index];
    if (mask)
        *mask = found;
    return FOVEA_OK;
}
