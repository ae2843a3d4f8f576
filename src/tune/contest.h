/* contest.h: finds the fastest of several ways by interleaved rounds and medians; rounds during
 * which the clock frequency changed are repeated. */
#ifndef FOVEA_SRC_CONTEST_H
#define FOVEA_SRC_CONTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define FV_CONTESTANTS 64
#define FV_CONTEST_ROUNDS 15

/* A contest. Contestant 0 is the one that the others must beat. */
typedef struct fv_contest {
    uint32_t contestants, rounds; /* rounds: maximum number that is counted */
    uint32_t min_rounds;          /* minimum number of rounds; 0: 3 */
    double budget;    /* seconds after which no round begins, once min_rounds have run */
    uint32_t threads; /* number of threads of a run, whose waits for a processor are measured; 0:
                         not measured */
    /* Does one run. A failure ends the contest and is its result. */
    fovea_status (*run)(void *ctx, uint32_t who, double *seconds);
    void *ctx;
} fv_contest;

typedef struct fv_score {
    double seconds;    /* median */
    double ratio;      /* median of the time divided by contestant 0's in the same round */
    double rounds_won; /* share of the rounds in which the contestant was faster than contestant
                          0 */
    bool disturbed;    /* other programs took processors in most of the rounds; the same for all
                          contestants */
} fv_score;

/* Returns whether a contestant takes at most `ratio` times as long as contestant 0 and is faster in
 * at least 80 % of the rounds, so that it does not win by chance. */
static inline bool fv_score_beats(const fv_score *s, double ratio)
{
    return s->ratio <= ratio && s->rounds_won >= 0.8;
}

/* Runs the contest and fills in a score for each contestant. After three rounds, contestants that
 * are much slower than the fastest do not run again. */
fovea_status fv_contest_run(const fv_contest *c, fv_score *score);

#endif
