/* lm_sampler.h: chooses the next token from logits. */
#ifndef FOVEA_CLI_LM_SAMPLER_H
#define FOVEA_CLI_LM_SAMPLER_H

#include <stdint.h>

typedef struct lm_sampler {
    uint32_t vocabulary, top_k;      /* top_k is 0 for all tokens */
    double temperature;              /* 0 selects the most likely token */
    uint64_t state;                  /* state of the random numbers, initially the seed */
    struct lm_candidate *candidates; /* `vocabulary` candidates */
} lm_sampler;

lm_sampler lm_sampler_make(uint32_t vocabulary, uint32_t top_k, double temperature, uint64_t seed);
void lm_sampler_free(lm_sampler *s);
/* Returns the next token. If logits are equal, the smaller id counts as more likely. */
uint32_t lm_sampler_next(lm_sampler *s, const float *logits);

#endif
