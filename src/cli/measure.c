/* measure.c: times benchmark cases in turns, so that all of them see the same machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SAMPLE_SECONDS 1e-3 /* shorter runs are timed several at once, unless told otherwise */
#define CASE_SECONDS 0.3    /* spent on every case at least */
#define STABLE 0.02         /* half width of the median's confidence interval */
enum { ROUNDS_LEAST = 5, ROUNDS_MOST = 10000 };

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double *sorted(const bench_case *c)
{
    double *s = cli_alloc(c->samples, sizeof *s);
    memcpy(s, c->sample, c->samples * sizeof *s);
    qsort(s, c->samples, sizeof *s, ascending);
    return s;
}

double bench_quantile(const bench_case *c, double q)
{
    double *s = sorted(c), at = q * (double)(c->samples - 1);
    size_t low = (size_t)at, high = low + 1 < c->samples ? low + 1 : low;
    double v = s[low] + (s[high] - s[low]) * (at - (double)low);
    free(s);
    return v;
}

/* Whether the 95 % confidence interval of the median, by ranks, is narrow. */
static bool is_stable(const bench_case *c)
{
    if (c->samples < ROUNDS_LEAST)
        return false;
    double *s = sorted(c), middle = 0.5 * (double)(c->samples - 1);
    double reach = 0.98 * sqrt((double)c->samples);
    size_t low = (size_t)fmax(floor(middle - reach), 0);
    size_t high = (size_t)fmin(ceil(middle + reach), (double)(c->samples - 1));
    bool narrow = s[high] - s[low] <= 2 * STABLE * s[(size_t)middle];
    free(s);
    return narrow;
}

static int time_once(bench_case *c, double *seconds)
{
    int code = CLI_OK;
    double begin = cli_seconds();
    for (uint32_t i = 0; i < c->inner && !code; i++)
        code = c->run(c->state);
    *seconds = (cli_seconds() - begin) / c->inner;
    return code;
}

static void add_sample(bench_case *c, double seconds)
{
    if (c->samples == c->room) {
        c->room = c->room ? 2 * c->room : 64;
        c->sample = realloc(c->sample, c->room * sizeof *c->sample);
        if (!c->sample)
            exit(cli_fail(CLI_UNSUPPORTED, "out of memory"));
    }
    c->sample[c->samples++] = seconds;
}

int bench_first(bench_case *c)
{
    c->inner = 1;
    int code = time_once(c, &c->first_seconds);
    if (code)
        return code;
    const uint64_t peak = bench_memory_peak();
    c->resident = peak > c->before ? peak - c->before : 0;
    code = c->check(c->state, &c->verify);
    if (!code && !c->verify.ok)
        code = cli_fail(CLI_WRONG, "%s: failed its verification: off by %.3g of the largest value",
                        c->title, c->verify.rel);
    return code;
}

static int warm_up(bench_case *c, const bench_options *o)
{
    const double sample = o->sample > 0 ? o->sample : SAMPLE_SECONDS;
    double seconds = c->first_seconds;
    int code = CLI_OK;
    for (uint32_t i = 0; i < o->warmup && !code; i++)
        code = time_once(c, &seconds);
    c->inner = seconds < sample ? (uint32_t)fmin(ceil(sample / seconds), 1e4) : 1;
    return code;
}

int bench_measure(bench_case *list, size_t n, const bench_options *o, uint64_t *allocations)
{
    fovea_memory before, after;
    cli_progress bar;
    int code = CLI_OK;
    cli_progress_begin(&bar, "bench");
    for (size_t i = 0; i < n && !code; i++)
        code = warm_up(&list[i], o);
    fovea_memory_query(&before);
    const double begin = cli_seconds(), limit = o->time * (double)n;
    for (uint32_t round = 0; !code; round++) {
        const double spent = cli_seconds() - begin;
        bool done = round >= ROUNDS_LEAST && spent >= CASE_SECONDS * (double)n;
        for (size_t i = 0; i < n; i++) {
            list[i].stable = is_stable(&list[i]);
            done = done && list[i].stable;
        }
        if (o->runs ? round >= o->runs
                    : done || round >= ROUNDS_MOST || (round >= 3 && spent > limit))
            break;
        for (size_t i = 0; i < n; i++)
            if (list[i].on->cpu && (i == 0 || list[i].on != list[i - 1].on))
                bench_fma_measure(&list[i].on->limits.fma, list[i].on->isa, list[i].plan.threads);
        for (size_t i = 0; i < n && !code; i++) {
            double seconds = 0;
            bench_case *c = &list[(i + round) % n]; /* nobody always follows the same */
            code = time_once(c, &seconds);
            add_sample(c, seconds);
            cli_progress_show(&bar, o->runs ? round + (double)i / (double)n : cli_seconds() - begin,
                              o->runs ? o->runs : limit);
        }
    }
    cli_progress_end(&bar);
    fovea_memory_query(&after);
    *allocations = after.allocations - before.allocations;
    return code;
}
