/* trial.h: one attention as users ask for it, with random inputs, and what it has to give: the
 * public interface on one side, the oracle on the other.
 */
#ifndef FOVEA_TESTS_TRIAL_H
#define FOVEA_TESTS_TRIAL_H

#include <fovea/operations.h>

#include "tests/kernels/oracle.h"

typedef struct trial {
    fovea_attention_options options; /* gates FOVEA_GATES_READY */
    float *q, *k, *v;                /* packed rows, rounded as options.storage has them */
    float *decay, *beta;    /* NULL where the mechanism has none; retention: a row of heads */
    float *gate_q, *gate_k; /* positive, their heads sum to 1 */
} trial;

/* Reproducible values in [-size, size], to be freed. */
float *trial_values(size_t n, uint32_t seed, float size);

/* Random inputs, and decays within (-1, 0), for options that stay alive. */
trial trial_make(const fovea_attention_options *options, uint32_t seed);
void trial_free(trial *t);

/* Rounded as `type` holds it. */
float trial_round(float x, fovea_dtype type);

/* Runs it with `gap` elements between rows, which must stay unread and unwritten. Fails the test
 * unless it works. Returns packed rows, to be freed. */
float *trial_run(const trial *t, fovea_device *device, uint32_t gap);

/* The inputs from row `row` on, packed float32, in the order of the operation; their number. */
size_t trial_inputs(const trial *t, uint32_t row, fovea_matrix inputs[8]);

/* What the options mean. */
oracle_attention trial_attention(const trial *t);
oracle_sequence trial_sequence(const trial *t);

/* Compares `sampled` rows, spread over all and the last among them, with the oracle (causal: all
 * rows). The test fails if max|got - want| > allowed max|want|. */
void trial_expect(const trial *t, const float *got, uint32_t sampled, double allowed);

/* The same for any numbers. */
void trial_close(const char *what, const float *got, const double *want, size_t n, double allowed);

#endif
