/* bench_measure.c: times benchmark cases alternately, so that the state of the machine affects all
 * of them equally. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/common/interrupt.h"

/* default length of a sample; several shorter runs are timed together */
#define SAMPLE_SECONDS 1e-3
#define CASE_SECONDS 1.0 /* minimum time of measuring each case */
/* the median counts as stable if its confidence interval has at most this half width, relative to
 * it */
#define STABLE 0.01
/* largest share of the time that is spent on measuring the devices' limits */
#define LIMITS_SHARE 0.1
enum { ROUNDS_LEAST = 5, ROUNDS_MOST = 10000 };

/* ---- statistics ---- */

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double *sorted(const double *value, size_t n)
{
    double *s = cli_alloc(n, sizeof *s);
    memcpy(s, value, n * sizeof *s);
    qsort(s, n, sizeof *s, ascending);
    return s;
}

double bench_quantile_of(const double *value, size_t n, double q)
{
    if (n == 0)
        return 0;
    double *s = sorted(value, n), at = q * (double)(n - 1);
    size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
    double v = s[low] + (s[high] - s[low]) * (at - (double)low);
    free(s);
    return v;
}

double bench_quantile(const bench_case *c, double q)
{
    return bench_quantile_of(c->sample, c->samples, q);
}

/* Uses the ranks of samples, which makes no assumption about their distribution. */
double bench_interval(const bench_case *c)
{
    if (c->samples == 0)
        return 0;
    const size_t n = c->samples;
    double *s = sorted(c->sample, n), middle = 0.5 * (double)(n - 1);
    const double reach = 0.98 * sqrt((double)n);
    const size_t low = (size_t)fmax(floor(middle - reach), 0);
    const size_t high = (size_t)fmin(ceil(middle + reach), (double)(n - 1));
    const double half = (s[high] - s[low]) / 2 / s[(size_t)middle];
    free(s);
    return half;
}

static bool is_stable(const bench_case *c)
{
    return c->samples >= ROUNDS_LEAST && bench_interval(c) <= STABLE;
}

/* ---- one case ---- */

/* Seconds of a run: the reported time, and the time by the device's clock. */
struct times {
    double counted, device;
};

static int time_once(bench_case *c, struct times *out)
{
    int code = CLI_OK;
    double begin = cli_seconds(), sum = 0, last = 0;
    for (uint32_t i = 0; i < c->inner && !code; i++) {
        code = c->run(c, &last);
        sum += last;
    }
    const double clock = cli_seconds() - begin;
    *out = (struct times){(c->device_time ? sum : clock) / c->inner, sum / c->inner};
    return code;
}

static void add_sample(bench_case *c, const struct times *t)
{
    c->sample = cli_grow(c->sample, c->samples, sizeof *c->sample);
    c->device = cli_grow(c->device, c->samples, sizeof *c->device);
    c->sample[c->samples] = t->counted;
    c->device[c->samples++] = t->device;
}

static int verify(bench_case *c)
{
    CLI_TRY(c->check(c, &c->verify));
    if (c->verify.ok)
        return CLI_OK;
    if (*c->verify.text)
        return cli_fail(CLI_WRONG, "%s: verification failed: %s", c->title, c->verify.text);
    return cli_fail(CLI_WRONG,
                    "%s: verification against %s failed; the error is %.3g of the largest value",
                    c->title, c->verify.reference, c->verify.rel);
}

void bench_plan_begin(bench_case *c)
{
    c->before = machine_memory_begin();
    c->plan_seconds = -cli_seconds();
}

/* Returns the peak growth of the process in bytes since the call of bench_plan_begin. */
static uint64_t grown_by(const bench_case *c)
{
    const uint64_t peak = machine_memory_peak();
    return peak > c->before ? peak - c->before : 0;
}

void bench_plan_end(bench_case *c)
{
    c->plan_seconds += cli_seconds();
    c->resident = grown_by(c);
    c->info.struct_size = sizeof c->info;
    fovea_plan_query(c->plan, &c->info);
    cli_tell_untrained(&c->info);
    cli_tell_reference(&c->info);
}

int bench_run_op(bench_case *c, double *seconds)
{
    const int code = cli_check(fovea_op_run(c->plan, c->input, c->inputs, c->out));
    *seconds = fovea_plan_seconds(c->plan);
    return code;
}

int bench_first(bench_case *c, const bench_options *o)
{
    struct times first;
    c->inner = 1;
    CLI_TRY(time_once(c, &first));
    c->first_seconds = first.counted;
    const uint64_t grown = grown_by(c);
    if (grown > c->resident + c->results)
        c->resident = grown - c->results;
    return o->check == BENCH_CHECK_OFF ? CLI_OK : verify(c);
}

int bench_warm_up(bench_case *c, const bench_options *o)
{
    const double sample = o->sample > 0 ? o->sample : SAMPLE_SECONDS;
    struct times t = {.counted = c->first_seconds};
    int code = CLI_OK;
    for (uint32_t i = 0; i < o->warmup && !code; i++)
        code = time_once(c, &t);
    c->inner = t.counted < sample ? (uint32_t)fmin(ceil(sample / t.counted), 1e4) : 1;
    return code;
}

int bench_sample(bench_case *c, const bench_options *o)
{
    struct times t;
    machine_watch(&c->machine);
    CLI_TRY(time_once(c, &t));
    add_sample(c, &t);
    return o->check == BENCH_CHECK_EVERY ? verify(c) : CLI_OK;
}

/* ---- all of them ---- */

static bool all_stable(bench_case *list, size_t n, const bench_options *o, uint32_t round,
                       double spent)
{
    bool done = round >= ROUNDS_LEAST && spent >= CASE_SECONDS * (double)n;
    for (size_t i = 0; i < n; i++) {
        list[i].stable = is_stable(&list[i]);
        done = done && list[i].stable;
    }
    return o->runs ? round >= o->runs
                   : done || round >= ROUNDS_MOST || (round >= 3 && spent > o->time * (double)n);
}

int bench_measure(bench_case *list, size_t n, const bench_options *o)
{
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    cli_progress bar;
    int code = CLI_OK;
    double limits = 0;
    uint64_t allocations = 0;
    CLI_TRY(bench_limits_raise(list, n, &limits));
    cli_progress_begin(&bar, "bench");
    for (size_t i = 0; i < n && !code && !interrupt_code(); i++)
        code = bench_warm_up(&list[i], o);
    const double begin = cli_seconds() - limits, most = o->time * (double)n;
    for (uint32_t round = 0; !code; round++) {
        const double spent = cli_seconds() - begin - limits;
        if (all_stable(list, n, o, round, spent) || interrupt_code())
            break;
        if (limits < LIMITS_SHARE * spent && (code = bench_limits_raise(list, n, &limits)))
            break;
        fovea_memory_query(&before);
        for (size_t i = 0; i < n && !code && !interrupt_code(); i++) {
            code = bench_sample(&list[(i + round) % n], o); /* starts at another case each round */
            cli_progress_show(&bar, o->runs ? round + (double)i / (double)n : spent,
                              o->runs ? o->runs : most);
        }
        fovea_memory_query(&after);
        allocations += after.allocations - before.allocations;
    }
    for (size_t i = 0; i < n; i++)
        list[i].allocations = allocations;
    cli_progress_end(&bar);
    return code;
}
