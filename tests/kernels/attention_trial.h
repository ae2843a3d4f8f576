/* attention_trial.h: one attention with random inputs: runs it through the public interface and
 * compares the result with the oracle.
 */
#ifndef FOVEA_TESTS_TRIAL_H
#define FOVEA_TESTS_TRIAL_H

#include <fovea/operations.h>

#include "tests/kernels/oracle.h"

typedef struct trial {
    fovea_attention_options options; /* gates FOVEA_GATES_READY */
    float *q, *k, *v;                /* packed rows, rounded to options.storage */
    float *decay, *beta;    /* NULL if the mechanism has none; for retention, decay is one row of
                               `heads` values */
    float *gate_q, *gate_k; /* positive; the gates of one token sum to 1 over the heads */
} trial;

/* Returns n reproducible values in [-size, size]; the caller frees them. */
float *trial_values(size_t n, uint32_t seed, float size);

/* Returns random inputs, with decays in (-1, 0). `options` must outlive the trial. */
trial trial_make(const fovea_attention_options *options, uint32_t seed);
void trial_free(trial *t);

/* Returns x rounded to `type`. */
float trial_round(float x, fovea_dtype type);

/* Runs the attention with `gap` elements between rows and checks that the gaps are neither read nor
 * written. The test fails if the run fails. Returns packed rows; the caller frees them. */
float *trial_run(const trial *t, fovea_device *device, uint32_t gap);

/* Fills `inputs` with the inputs from row `row` on, as packed float32 in the operation's order.
 * Returns the number of inputs. */
size_t trial_inputs(const trial *t, uint32_t row, fovea_matrix inputs[8]);

/* Returns the options as the oracle's description of an attention. */
oracle_attention trial_attention(const trial *t);
oracle_sequence trial_sequence(const trial *t);

/* Compares `sampled` rows, spread evenly and including the last one, with the oracle; for causal
 * attention, compares all rows. The test fails if max
 * got - want
 *  > allowed max
 * want
 * . */
void trial_expect(const trial *t, const float *got, uint32_t sampled, double allowed);

/* Fails the test if max
 * got - want
 *  > allowed max
 * want
 *  over n numbers. */
void trial_close(const char *what, const float *got, const double *want, size_t n, double allowed);

#endif
