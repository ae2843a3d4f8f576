/* prompt_plan.h: plans that make masks from the features of a frame and a prompt. */
#ifndef FOVEA_SRC_PLAN_PROMPT_PLAN_H
#define FOVEA_SRC_PLAN_PROMPT_PLAN_H

#include <fovea/prompts.h>

#include "plan/plan.h"

/* The inputs and outputs of such a plan, in its order. Only SAM 2 has the finer features. */
enum {
    FV_PROMPT_FEATURES,
    FV_PROMPT_TOKENS,
    FV_PROMPT_PRESENT,
    FV_PROMPT_FINEST,
    FV_PROMPT_FINER,
    FV_PROMPT_INPUTS
};
enum { FV_PROMPT_MASKS, FV_PROMPT_SCORES, FV_PROMPT_OUTPUTS };

/* Makes a plan for prompts with at most `tokens` tokens, the learned ones included, for the frames
 * of the plan `frames`, whose device, precision and picture it has. The model must read prompts. */
fovea_status fv_prompt_plan(fovea_plan **out, const fovea_plan *frames, uint32_t tokens,
                            const fovea_segmenter_options *o);

#endif
