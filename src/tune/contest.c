/* contest.c: interleaved timing. Every round runs all contestants, in alternating order, so that a
 * slowdown of the machine affects all of them. A round during which the clock frequency changed, or
 * other programs took the processors, is repeated. */
#include "tune/contest.h"

#include <math.h>
#include <stdlib.h>

#include "platform/os/os_machine.h"

#define FIRST_ROUNDS 3
#define FAR_BEHIND 1.25      /* a contestant slower than the fastest times this is not run again */
#define SHORTEST 5e-4        /* minimum seconds of a measurement: shorter runs are repeated */
#define LONGEST 5e-3         /* maximum seconds of repeated runs, with the time spent waiting */
#define CLOCK_TOLERANCE 0.05 /* relative change of the duration of a fixed piece of work */
#define DISTURBED 0.05       /* maximum share of a round that its threads wait for processors */
#define MOST_REPEATS 1000
#define SPINS 100000

struct state {
    const fv_contest *c;
    uint32_t repeats[FV_CONTESTANTS];
    bool out[FV_CONTESTANTS];
    double time[FV_CONTESTANTS][FV_CONTEST_ROUNDS];
};

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, uint32_t n)
{
    double sorted[FV_CONTEST_ROUNDS];
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = values[i];
    qsort(sorted, n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ---- the clock ---- */

static double spin_once(void)
{
    volatile uint32_t result;
    uint32_t x = 1;
    const double begin = fv_machine_seconds();
    for (uint32_t i = 0; i < SPINS; i++)
        x = x * 1664525u + 1013904223u;
    result = x;
    (void)result;
    return fv_machine_seconds() - begin;
}

/* Returns the shortest time of four spins, because one may be interrupted. */
static double spin(void)
{
    double best = spin_once();
    for (int i = 0; i < 3; i++) {
        const double again = spin_once();
        best = again < best ? again : best;
    }
    return best;
}

static bool changed(double before, double after)
{
    const double ratio = after / before;
    return ratio > 1 + CLOCK_TOLERANCE || ratio < 1 / (1 + CLOCK_TOLERANCE);
}

/* ---- rounds ---- */

static fovea_status measure(const struct state *s, uint32_t who, double *out)
{
    double sum = 0, seconds;
    for (uint32_t i = 0; i < s->repeats[who]; i++) {
        FV_TRY(s->c->run(s->c->ctx, who, &seconds));
        sum += seconds;
    }
    *out = sum / s->repeats[who];
    return FOVEA_OK;
}

static fovea_status warm_up(struct state *s)
{
    for (uint32_t i = 0; i < s->c->contestants; i++) {
        double seconds, most = MOST_REPEATS, repeats = MOST_REPEATS;
        s->repeats[i] = 1;
        const double begin = fv_machine_seconds();
        FV_TRY(measure(s, i, &seconds));
        const double waited = fv_machine_seconds() - begin;
        if (waited * most > LONGEST)
            most = LONGEST / waited;
        if (seconds * repeats > SHORTEST)
            repeats = SHORTEST / seconds;
        repeats = repeats < most ? repeats : most;
        s->repeats[i] = repeats > 1 ? (uint32_t)repeats : 1;
    }
    return FOVEA_OK;
}

static fovea_status hold_round(struct state *s, uint32_t round)
{
    const uint32_t n = s->c->contestants;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t who = round % 2 ? n - 1 - i : i;
        if (!s->out[who])
            FV_TRY(measure(s, who, &s->time[who][round]));
    }
    return FOVEA_OK;
}

static void drop_the_slow(struct state *s)
{
    double best = median(s->time[0], FIRST_ROUNDS);
    for (uint32_t i = 1; i < s->c->contestants; i++) {
        const double m = median(s->time[i], FIRST_ROUNDS);
        best = m < best ? m : best;
    }
    for (uint32_t i = 1; i < s->c->contestants; i++)
        s->out[i] = median(s->time[i], FIRST_ROUNDS) > FAR_BEHIND * best;
}

/* The measurements at the beginning of a round, to compare with those at its end. */
struct start {
    double spin, seconds, waited;
};

static struct start begin_round(const fv_contest *c)
{
    return (struct start){spin(), fv_machine_seconds(), c->threads ? fv_machine_waited() : NAN};
}

/* Returns whether other programs took processors during the round, or false if the system does not
 * report how long threads waited. */
static bool was_disturbed(const fv_contest *c, const struct start *from)
{
    if (isnan(from->waited))
        return false;
    const double waited = fv_machine_waited() - from->waited;
    return waited > DISTURBED * c->threads * (fv_machine_seconds() - from->seconds);
}

static void award(const struct state *s, uint32_t rounds, uint32_t disturbed, fv_score *score)
{
    for (uint32_t i = 0; i < s->c->contestants; i++) {
        const uint32_t n = s->out[i] ? FIRST_ROUNDS : rounds;
        double ratio[FV_CONTEST_ROUNDS], rounds_won = 0;
        for (uint32_t k = 0; k < n; k++) {
            ratio[k] = s->time[0][k] > 0 ? s->time[i][k] / s->time[0][k] : 1;
            rounds_won += ratio[k] < 1;
        }
        score[i] = (fv_score){median(s->time[i], n), median(ratio, n), rounds_won / n,
                              2 * disturbed > rounds};
    }
}

fovea_status fv_contest_run(const fv_contest *c, fv_score *score)
{
    struct state s = {.c = c};
    const double begin = fv_machine_seconds();
    const uint32_t min_rounds = c->min_rounds ? c->min_rounds : FIRST_ROUNDS;
    uint32_t round = 0, discarded = 0, disturbed = 0;
    FV_TRY(warm_up(&s));
    for (bool late = false; round < c->rounds && !(late && round >= min_rounds);) {
        const struct start from = begin_round(c);
        FV_TRY(hold_round(&s, round));
        const bool taken = was_disturbed(c, &from), same_clock = !changed(from.spin, spin());
        late = fv_machine_seconds() - begin > c->budget;
        if ((taken || !same_clock) && !late && discarded++ < c->rounds)
            continue;
        disturbed += taken;
        if (++round == FIRST_ROUNDS)
            drop_the_slow(&s);
    }
    award(&s, round, disturbed, score);
    return FOVEA_OK;
}
