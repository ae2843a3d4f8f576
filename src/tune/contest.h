/* contest.h: which of several ways is faster: interleaved rounds, medians, an eye on the clock. */
#ifndef FOVEA_SRC_CONTEST_H
#define FOVEA_SRC_CONTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define FV_CONTESTANTS 64
#define FV_CONTEST_ROUNDS 15

/* Contestant 0 is the one that the others must beat. */
typedef struct fv_contest {
    uint32_t contestants, rounds; /* rounds: maximum that are counted */
    uint32_t min_rounds;          /* 0: 3 */
    double budget;                /* seconds after which no more than min_rounds are run */
    uint32_t
        threads; /* that a run takes, whose waits for a processor are watched; 0: they are not */
    /* One run. A failure ends the contest and is its result. */
    fovea_status (*run)(void *ctx, uint32_t who, double *seconds);
    void *ctx;
} fv_contest;

typedef struct fv_score {
    double seconds;    /* median */
    double ratio;      /* to contestant 0 in the same round, median */
    double rounds_won; /* share of the rounds in which it was faster than contestant 0 */
    bool disturbed; /* other programs took processors in most of the rounds, of all contestants */
} fv_score;

/* Whether it takes at most `ratio` times as long, in at least 80 % of the rounds, so that it is not
 * ahead by chance. */
static inline bool fv_score_beats(const fv_score *s, double ratio)
{
    return s->ratio <= ratio && s->rounds_won >= 0.8;
}

/* Runs the contest and fills a score for each contestant. Those far behind after three rounds do
 * not run again. */
fovea_status fv_contest_run(const fv_contest *c, fv_score *score);

#endif
