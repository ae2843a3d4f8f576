/* run_scores.h: classes in the order of their scores, as lists that are shown. */
#ifndef FOVEA_CLI_RUN_SCORES_H
#define FOVEA_CLI_RUN_SCORES_H

#include "cli/run/run_sink.h"

typedef struct run_score {
    uint32_t class;
    double p;
} run_score;

/* Labels name the classes of the picture's head where there is one, else of its pixels'. */
enum run_score_of { RUN_SCORE_OF_PICTURE, RUN_SCORE_OF_PIXELS };

/* The highest first; to be freed. */
run_score *run_rank(const double *p, uint32_t n);
void run_print_scores(const run_state *r, const run_score *s, uint32_t n, enum run_score_of of);
json_t *run_describe_scores(const run_state *r, const run_score *s, uint32_t n,
                            enum run_score_of of);

#endif
