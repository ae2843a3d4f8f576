/* bench_pace.c: runs a case at a camera's frame rate, or long enough for the machine to heat up.
 * Cases run one after the other, so that none disturbs another's rate.
 *
 * A frame is due every 1 / rate seconds, and its latency counts from then. It misses its deadline
 * if it is not done when the next frame is due. Frames that become due in the meantime are dropped,
 * as a camera drops them. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cli/bench/bench.h"
#include "cli/common/interrupt.h"

#define WINDOWS 60       /* number of points in the time series of a long run */
#define WINDOW_LEAST 1.0 /* seconds */
/* the machine counts as throttled if the last window is this many times slower than the first */
#define SLOWER 1.1

struct window {
    double at; /* seconds since the start */
    size_t first, frames;
    machine_state machine;
};

struct pace {
    bench_case *c;
    const bench_options *o;
    cli_progress *bar;
    size_t index, cases;  /* index of the case; number of cases */
    double begin, period; /* start time; seconds per frame, or 0 to run frames without pauses */
    size_t missed, dropped;
    struct window window[WINDOWS + 1];
    size_t windows;
};

static void sleep_until(double seconds)
{
    for (double left; (left = seconds - cli_seconds()) > 0 && !interrupt_code();) {
        struct timespec t = {.tv_sec = (time_t)left};
        t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
        nanosleep(&t, NULL);
    }
}

static double duration(const bench_options *o)
{
    return o->sustain > 0 ? o->sustain : o->time;
}

static bool done(const struct pace *p, double now)
{
    if (interrupt_code())
        return true;
    if (p->o->sustain <= 0 && p->o->runs)
        return p->c->samples >= p->o->runs;
    return now - p->begin >= duration(p->o);
}

/* ---- the series ---- */

static void open_window(struct pace *p, double now)
{
    const double length = fmax(duration(p->o) / WINDOWS, WINDOW_LEAST);
    if (p->windows > WINDOWS || (p->windows && now - p->begin < length * (double)p->windows))
        return;
    struct window *w = &p->window[p->windows++];
    w->at = now - p->begin;
    w->first = p->c->samples;
    machine_look(&w->machine);
}

static void close_windows(struct pace *p)
{
    for (size_t i = 0; i < p->windows; i++) {
        const size_t end = i + 1 < p->windows ? p->window[i + 1].first : p->c->samples;
        p->window[i].frames = end - p->window[i].first;
    }
}

static double window_quantile(const struct pace *p, const struct window *w, double q)
{
    return bench_quantile_of(p->c->sample + w->first, w->frames, q);
}

/* ---- frames ---- */

/* Runs one frame that is due at time `due`, and sets *end to the time when it is done. */
static int frame(struct pace *p, double due, double *end)
{
    bench_case *c = p->c;
    if (p->period > 0)
        sleep_until(due);
    const int code = bench_sample(c, p->o);
    *end = cli_seconds();
    if (!code && p->period > 0)
        c->sample[c->samples - 1] = *end - due;
    return code;
}

static int run(struct pace *p)
{
    double due = cli_seconds(), end = due;
    int code = CLI_OK;
    p->begin = due;
    while (!code && !done(p, end)) {
        open_window(p, end);
        code = frame(p, due, &end);
        cli_progress_show(p->bar, (double)p->index + (end - p->begin) / duration(p->o),
                          (double)p->cases);
        if (p->period <= 0 || code)
            continue;
        due += p->period;
        if (end > due)
            p->missed++;
        for (; end > due; due += p->period)
            p->dropped++;
    }
    close_windows(p);
    return code;
}

/* ---- results ---- */

static json_t *describe_series(const struct pace *p)
{
    json_t *series = json_array();
    for (size_t i = 0; i < p->windows; i++) {
        const struct window *w = &p->window[i];
        if (w->frames == 0)
            continue;
        json_t *point = json_pack("{s:f, s:i, s:f, s:f}", "at_s", w->at, "frames", (int)w->frames,
                                  "p50_ms", 1e3 * window_quantile(p, w, 0.5), "p95_ms",
                                  1e3 * window_quantile(p, w, 0.95));
        const struct {
            const char *key;
            double value;
        } shown[] = {{"clock_mhz", w->machine.clock_mhz},
                     {"gpu_mhz", w->machine.gpu_mhz},
                     {"celsius", w->machine.celsius},
                     {"spin_us", 1e6 * w->machine.spin}};
        for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
            if (shown[k].value > 0)
                json_object_set_new(point, shown[k].key, json_real(shown[k].value));
        json_array_append_new(series, point);
    }
    return series;
}

/* Returns half the distance between the 5 % and the 95 % quantile of the latencies. */
static double jitter(const bench_case *c)
{
    return (bench_quantile(c, 0.95) - bench_quantile(c, 0.05)) / 2;
}

/* Returns the time of a frame in the last window, relative to the first. */
static double slowdown(const struct pace *p)
{
    if (p->windows < 3)
        return 1;
    const struct window *first = &p->window[0], *last = &p->window[p->windows - 1];
    last -= last->frames == 0;
    return window_quantile(p, last, 0.5) / window_quantile(p, first, 0.5);
}

static void describe(struct pace *p)
{
    bench_case *c = p->c;
    const double seconds = cli_seconds() - p->begin;
    c->pace =
        json_pack("{s:f, s:f, s:i, s:f}", "seconds", seconds, "achieved_fps",
                  (double)c->samples / seconds, "frames", (int)c->samples, "slowdown", slowdown(p));
    if (p->period > 0) {
        json_object_set_new(c->pace, "rate_fps", json_real(1 / p->period));
        json_object_set_new(c->pace, "missed", json_integer((json_int_t)p->missed));
        json_object_set_new(c->pace, "dropped", json_integer((json_int_t)p->dropped));
        json_object_set_new(c->pace, "jitter_ms", json_real(1e3 * jitter(c)));
    }
    if (p->o->sustain > 0)
        json_object_set_new(c->pace, "series", describe_series(p));
}

int bench_pace(bench_case *list, size_t n, const bench_options *o)
{
    cli_progress bar;
    int code = CLI_OK;
    double limits = 0;
    CLI_TRY(bench_limits_raise(list, n, &limits));
    cli_progress_begin(&bar, "bench");
    for (size_t i = 0; i < n && !code && !interrupt_code(); i++) {
        bench_case *c = &list[i];
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        struct pace p = {.c = c,
                         .o = o,
                         .bar = &bar,
                         .index = i,
                         .cases = n,
                         .period = o->rate > 0 ? 1 / o->rate : 0};
        if ((code = bench_warm_up(c, o)))
            break;
        c->inner = 1;
        fovea_memory_query(&before);
        code = run(&p);
        fovea_memory_query(&after);
        c->allocations = after.allocations - before.allocations;
        c->stable = slowdown(&p) <= SLOWER;
        if (!code && c->samples)
            describe(&p);
    }
    cli_progress_end(&bar);
    return code;
}
