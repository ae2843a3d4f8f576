/* bench_profile.c: measures the seconds of each step of a frame with the library's trace. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

enum { FRAMES = 5, CALLS = 1 << 20 };

struct layer {
    fovea_step_info info;
    double busy; /* seconds that all workers spent in the step, in all frames */
    size_t calls;
};

struct sweep {
    /* seconds from the step's first start to its last end, summed over frames */
    double span;
    double begin, end; /* times within the current frame; `end` is 0 before the first event */
    size_t steps;
};

struct profile {
    bench_case *c;
    fovea_trace_event *event;
    size_t capacity, events; /* capacity of the buffer; events of the last frame */
    struct layer *layer;
    size_t layers;
    struct sweep *sweep;
    size_t sweeps;
    double frame[FRAMES];
};

/* ---- looking ---- */

static void count_steps(struct profile *p)
{
    fovea_step_info info = FOVEA_STEP_INFO_INIT;
    while (fovea_plan_step(p->c->plan, p->layers, &info))
        p->layers++;
    p->layer = cli_alloc(p->layers, sizeof *p->layer);
    p->sweeps = p->c->info.sweeps;
    p->sweep = cli_alloc(p->sweeps, sizeof *p->sweep);
    for (size_t i = 0; i < p->layers; i++) {
        p->layer[i].info.struct_size = sizeof p->layer[i].info;
        fovea_plan_step(p->c->plan, i, &p->layer[i].info);
        p->sweep[p->layer[i].info.sweep].steps++;
    }
}

static void add_frame(struct profile *p)
{
    p->events = fovea_plan_trace_count(p->c->plan);
    p->events = p->events < p->capacity ? p->events : p->capacity;
    for (size_t i = 0; i < p->events; i++) {
        const fovea_trace_event *e = &p->event[i];
        struct layer *l = &p->layer[e->step];
        struct sweep *s = &p->sweep[l->info.sweep];
        l->busy += e->end - e->begin;
        l->calls++;
        s->begin = s->end == 0 || e->begin < s->begin ? e->begin : s->begin;
        s->end = e->end > s->end ? e->end : s->end;
    }
    for (size_t i = 0; i < p->sweeps; i++) {
        p->sweep[i].span += p->sweep[i].end - p->sweep[i].begin;
        p->sweep[i].end = 0;
    }
}

/* Traces several frames. A first, untimed frame finds the capacity that the buffer needs. */
static int trace(struct profile *p)
{
    fovea_trace_event probe;
    double seconds;
    CLI_TRY(cli_check(fovea_plan_trace(p->c->plan, &probe, 1)));
    CLI_TRY(p->c->run(p->c, &seconds));
    p->capacity = fovea_plan_trace_count(p->c->plan);
    p->capacity = p->capacity < CALLS ? p->capacity : CALLS;
    p->event = cli_alloc(p->capacity, sizeof *p->event);
    CLI_TRY(cli_check(fovea_plan_trace(p->c->plan, p->event, p->capacity)));
    for (int i = 0; i < FRAMES; i++) {
        CLI_TRY(p->c->run(p->c, &p->frame[i]));
        add_frame(p);
    }
    return CLI_OK;
}

/* ---- telling ---- */

static uint32_t workers(const struct profile *p)
{
    return p->c->info.threads ? p->c->info.threads : 1;
}

static json_t *describe_layers(const struct profile *p, double whole)
{
    json_t *list = json_array();
    const bench_limits *limits = &p->c->on->limits;
    for (size_t i = 0; i < p->layers; i++) {
        const struct layer *l = &p->layer[i];
        const double seconds = l->busy / FRAMES / workers(p);
        const double bound =
            bench_limits_bound(limits, bench_products(&l->info), l->info.flops, l->info.bytes);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f}", "label",
                            l->info.label, "problem", l->info.problem, "kernel", l->info.kernel,
                            "source", l->info.source, "sweep", (int)l->info.sweep, "calls",
                            (int)(l->calls / FRAMES), "ms", seconds * 1e3, "share", seconds / whole,
                            "gflops", seconds > 0 ? l->info.flops / seconds * 1e-9 : 0, "roofline",
                            seconds > 0 ? bound / seconds : 0));
    }
    return list;
}

static json_t *describe_sweeps(const struct profile *p, double whole)
{
    json_t *list = json_array();
    for (size_t i = 0, k = 0; i < p->sweeps; i++) {
        while (k < p->layers && p->layer[k].info.sweep < i)
            k++;
        if (k == p->layers)
            break;
        const fovea_step_info *first = &p->layer[k].info;
        const double seconds = p->sweep[i].span / FRAMES;
        json_array_append_new(
            list, json_pack("{s:i, s:s, s:s, s:i, s:i, s:f, s:f}", "sweep", (int)i, "label",
                            first->label, "schedule",
                            first->schedule == FOVEA_SCHEDULE_STREAMED ? "streamed" : "stepwise",
                            "chunk", (int)first->chunk, "steps", (int)p->sweep[i].steps, "ms",
                            seconds * 1e3, "share", seconds / whole));
    }
    return list;
}

/* Adds events that Chrome's trace viewer and Perfetto can read: a process per case, and a thread
 * per worker. */
static void add_events(const struct profile *p, json_t *events, size_t number)
{
    json_array_append_new(events,
                          json_pack("{s:s, s:s, s:i, s:{s:s}}", "name", "process_name", "ph", "M",
                                    "pid", (int)number, "args", "name", p->c->title));
    for (size_t i = 0; i < p->events; i++) {
        const fovea_trace_event *e = &p->event[i];
        const fovea_step_info *s = &p->layer[e->step].info;
        json_array_append_new(
            events,
            json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:s, s:s, s:i, s:i, s:i}}", "name",
                      s->label, "cat", s->kernel, "ph", "X", "pid", (int)number, "tid",
                      (int)e->worker, "ts", e->begin * 1e6, "dur", (e->end - e->begin) * 1e6,
                      "args", "problem", s->problem, "kernel", s->kernel, "sweep", (int)s->sweep,
                      "row", (int)e->row, "rows", (int)e->rows));
    }
}

static double mean(const double frame[FRAMES])
{
    double sum = 0;
    for (int i = 0; i < FRAMES; i++)
        sum += frame[i];
    return sum / FRAMES;
}

int bench_profile(bench_case *c, json_t *events, size_t number)
{
    struct profile p = {.c = c};
    count_steps(&p);
    int code = trace(&p);
    CLI_THEN(code, cli_check(fovea_plan_trace(c->plan, NULL, 0)));
    if (!code) {
        const double whole = mean(p.frame);
        c->profile = json_pack("{s:f, s:f, s:o, s:o}", "traced_ms", whole * 1e3, "untraced_ms",
                               1e3 * bench_quantile_of(c->device, c->samples, 0.5), "sweeps",
                               describe_sweeps(&p, whole), "layers", describe_layers(&p, whole));
        if (events)
            add_events(&p, events, number);
    }
    free(p.event);
    free(p.layer);
    free(p.sweep);
    return code;
}
