/* run_scores.h: sorts classes by their scores, and lists them for output. */
#ifndef FOVEA_CLI_RUN_SCORES_H
#define FOVEA_CLI_RUN_SCORES_H

#include "cli/run/run_sink.h"

typedef struct run_score {
    uint32_t class;
    double p;
} run_score;

/* The origin of class labels: the model's head for pictures if it has one, else its head for
 * pixels. */
enum run_score_of { RUN_SCORE_OF_PICTURE, RUN_SCORE_OF_PIXELS };

/* Returns the classes, highest score first. The caller frees them. */
run_score *run_rank(const double *p, uint32_t n);
void run_print_scores(const run_state *r, const run_score *s, uint32_t n, enum run_score_of of);
json_t *run_describe_scores(const run_state *r, const run_score *s, uint32_t n,
                            enum run_score_of of);

#endif
