/* lm_sampler.c: chooses the most likely token, or a random one of the K most likely tokens by
 * softmax(logits / temperature). */
#include "cli/run/lm_sampler.h"

#include <math.h>
#include <stdlib.h>

#include "cli/common/cli.h"

struct lm_candidate {
    float logit;
    uint32_t id;
};

lm_sampler lm_sampler_make(uint32_t vocabulary, uint32_t top_k, double temperature, uint64_t seed)
{
    const bool all = top_k == 0 || top_k > vocabulary;
    return (lm_sampler){.vocabulary = vocabulary,
                        .top_k = all ? vocabulary : top_k,
                        .temperature = temperature,
                        .state = seed,
                        .candidates = cli_alloc(vocabulary, sizeof(struct lm_candidate))};
}

void lm_sampler_free(lm_sampler *s)
{
    free(s->candidates);
}

/* Returns a random number in [0, 1), by SplitMix64. */
static double uniform(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* Returns the logit, with NaN as the lowest value. */
static float value_of(float logit)
{
    return isnan(logit) ? -INFINITY : logit;
}

static uint32_t likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (value_of(logits[i]) > value_of(logits[best]))
            best = i;
    return best;
}

static int by_logit(const void *a, const void *b)
{
    const struct lm_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

uint32_t lm_sampler_next(lm_sampler *s, const float *logits)
{
    double sum = 0;
    if (s->temperature <= 0)
        return likeliest(logits, s->vocabulary);
    for (uint32_t i = 0; i < s->vocabulary; i++)
        s->candidates[i] = (struct lm_candidate){value_of(logits[i]), i};
    qsort(s->candidates, s->vocabulary, sizeof *s->candidates, by_logit);
    for (uint32_t i = 0; i < s->top_k; i++)
        sum += exp((s->candidates[i].logit - s->candidates[0].logit) / s->temperature);
    double left = uniform(&s->state) * sum;
    for (uint32_t i = 0; i < s->top_k; i++) {
        left -= exp((s->candidates[i].logit - s->candidates[0].logit) / s->temperature);
        if (left < 0)
            return s->candidates[i].id;
    }
    return s->candidates[0].id;
}
