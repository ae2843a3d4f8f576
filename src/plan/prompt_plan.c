/* prompt_plan.c: see prompt_plan.h. */
#include "plan/prompt_plan.h"

#include "base/mem.h"
#include "models/model.h"

/* Takes over what the plan of the frames says about the picture and the precision. */
static void follow(fovea_plan *p, const fovea_plan *frames)
{
    const fovea_plan_info *from = &frames->info;
    p->model = frames->model;
    fv_model_ref(p->model);
    p->options = frames->options;
    p->options.attention = NULL;
    p->options.patch_table = NULL;
    p->frame.width = frames->frame.width;
    p->frame.height = frames->frame.height;
    p->info.width = from->width;
    p->info.height = from->height;
    p->info.ignored_right = from->ignored_right;
    p->info.ignored_bottom = from->ignored_bottom;
    p->info.grid_width = from->grid_width;
    p->info.grid_height = from->grid_height;
    p->info.left = from->left;
    p->info.top = from->top;
    p->info.scale_x = from->scale_x;
    p->info.scale_y = from->scale_y;
    p->info.compute = from->compute;
    p->info.compute_source = from->compute_source;
}

static fovea_status build(fovea_plan *p, const fovea_plan *frames, uint32_t tokens,
                          const fovea_segmenter_options *o)
{
    static const char *const outputs[FV_PROMPT_OUTPUTS] = {
        [FV_PROMPT_MASKS] = "pred_masks", [FV_PROMPT_SCORES] = "iou_scores"};
    const fv_plan_request r = {.memory_limit = o->memory_limit, .dry = o->dry != 0};
    fv_builder b = fv_builder_of(&p->graph, &p->options);
    follow(p, frames);
    FV_TRY(FV_MEM_ARRAY(&p->graph.wanted, FV_PROMPT_OUTPUTS, FV_MEM_PLAN, "the plan's outputs"));
    for (uint32_t i = 0; i < FV_PROMPT_OUTPUTS; i++)
        p->graph.wanted[p->graph.n_wanted++] =
            (fv_wanted){.name = outputs[i], .value = FV_NO_VALUE};
    FV_TRY(p->model->family->prompt(p->model, &b, tokens));
    fv_result_scratch_reserve(p, &b);
    FV_TRY(b.status);
    p->info.tokens = tokens;
    return fv_plan_finish(p, &r);
}

fovea_status fv_prompt_plan(fovea_plan **out, const fovea_plan *frames, uint32_t tokens,
                            const fovea_segmenter_options *o)
{
    fovea_plan *p;
    FV_TRY(fv_plan_alloc(&p, frames->device, frames->advice.wisdom));
    FV_RETURN_MADE(out, p, fv_plan_free, build(p, frames, tokens, o));
}
