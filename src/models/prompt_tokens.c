/* prompt_tokens.c: see prompt_tokens.h. */
#include "models/prompt_tokens.h"

#include <math.h>

static void position(float *out, const fv_prompts *p, double x, double y)
{
    const double turn = 6.283185307179586476925286766559;
    const uint32_t half = p->width / 2;
    for (uint32_t i = 0; i < half; i++) {
        const double a = (2 * x - 1) * (double)p->rate[i] + (2 * y - 1) * (double)p->rate[half + i];
        out[i] = (float)sin(turn * a);
        out[half + i] = (float)cos(turn * a);
    }
}

void fv_prompt_token(float *out, const fv_prompts *p, fv_prompt_kind kind, double x, double y)
{
    if (kind == FV_PROMPT_NOTHING) {
        for (uint32_t i = 0; i < p->width; i++)
            out[i] = p->kind[kind][i];
        return;
    }
    position(out, p, x, y);
    for (uint32_t i = 0; i < p->width; i++)
        out[i] += p->kind[kind][i];
}

void fv_prompt_positions(float *out, const fv_prompts *p, const fv_grid *grid)
{
    for (uint32_t y = 0; y < grid->height; y++)
        for (uint32_t x = 0; x < grid->width; x++, out += p->width)
            position(out, p, (x + 0.5) / grid->width, (y + 0.5) / grid->height);
}
