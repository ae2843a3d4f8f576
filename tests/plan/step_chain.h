/* step_chain.h: plans of a list of steps over a grid of tokens, without a model. */
#ifndef FOVEA_TESTS_PLAN_STEP_CHAIN_H
#define FOVEA_TESTS_PLAN_STEP_CHAIN_H

#include "graph/emit.h"
#include "plan/plan.h"

enum { CHAIN_THREADS = 4 }; /* at most */

/* Everything that is needed to emit steps. `seed` is the seed of the weights. */
typedef struct step_chain {
    fv_builder *b; /* `own` */
    uint32_t width, height, seed;
    fv_builder own;
} step_chain;

/* Sets up a test group's devices, one for each number of threads. */
int chain_open(void **state);
int chain_close(void **state);
fovea_device *chain_device(uint32_t threads);

/* Fails the test if `status` is an error. The functions below do the same. */
void chain_succeed(fovea_status status);
/* Begins a plan that reads `*in`, a grid of `channels`, and has one output. */
fovea_plan *chain_begin(step_chain *c, fv_view *in, uint32_t width, uint32_t height,
                        uint32_t channels, uint32_t threads);
void chain_finish(fovea_plan *p, const fv_plan_request *r);

/* Returns random weights whose rows have a length of about 1. */
fv_weight chain_weight(step_chain *c, uint32_t rows, uint32_t cols);

/* Runs two frames of `values` numbers through one plan, to show that the first frame does not
 * affect the second. Returns both results, which the caller frees, and sets *bytes to their size.
 */
float *chain_results(fovea_plan *p, uint32_t values, size_t *bytes);

#endif
