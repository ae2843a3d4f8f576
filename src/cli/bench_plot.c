/* bench_plot.c: results of benchmarks as a picture: time and memory over pixels or tokens. */
#include "bench_results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"

enum { LINES = 64 };

static const json_t *params(const json_t *result)
{
    return json_object_get(result, "params");
}

static double x_of(const json_t *result)
{
    const json_t *p = params(result);
    return bench_is_model(result) ? bench_number(p, "width") * bench_number(p, "height")
                                  : bench_number(p, "tokens");
}

static char *x_name(const json_t *result)
{
    const json_t *p = params(result);
    const int width = (int)bench_number(p, "width"), height = (int)bench_number(p, "height");
    if (!bench_is_model(result))
        return cli_text("%.0f", x_of(result));
    return width == height ? cli_text("%d\u00b2", width) : cli_text("%d\u00d7%d", width, height);
}

/* ---- series ---- */

static bool is_x(const char *key)
{
    static const char *const keys[] = {"width", "height", "tokens"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static bool varies(const json_t *results, const char *key)
{
    size_t i;
    json_t *r;
    json_array_foreach(
        results, i,
        r) if (!json_equal(json_object_get(params(r), key),
                           json_object_get(params(json_array_get(results, 0)), key))) return true;
    return false;
}

/* The attention, then whatever else the results differ in. */
static char *series_name(const json_t *results, json_t *result)
{
    char *name = cli_text("%s", bench_word(params(result), "attention"));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(result, "params"), key, value)
    {
        if (is_x(key) || strcmp(key, "attention") == 0 || !varies(results, key))
            continue;
        char *text = json_is_string(value) ? cli_text("%s", json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY);
        char *longer = cli_text("%s, %s %s", name, key, text ? text : "");
        free(text);
        free(name);
        name = longer;
    }
    return name;
}

struct curves {
    char *name[LINES];
    size_t names;
    plot_line time[LINES], memory[2 * LINES]; /* memory: measured, then promised of each name */
    double *tick;
    char **tick_name;
    size_t ticks;
};

/* Keeps x ascending; of two results for one x the later one counts. */
static void add_point(plot_line *l, double x, double y)
{
    size_t at = 0;
    while (at < l->n && l->x[at] < x)
        at++;
    if (at == l->n || l->x[at] > x) {
        memmove(l->x + at + 1, l->x + at, (l->n - at) * sizeof *l->x);
        memmove(l->y + at + 1, l->y + at, (l->n - at) * sizeof *l->y);
        l->n++;
    }
    l->x[at] = x;
    l->y[at] = y;
}

static void add_tick(struct curves *c, const json_t *result)
{
    const double x = x_of(result);
    size_t at = 0;
    while (at < c->ticks && c->tick[at] < x)
        at++;
    if (at < c->ticks && c->tick[at] == x)
        return;
    memmove(c->tick + at + 1, c->tick + at, (c->ticks - at) * sizeof *c->tick);
    memmove(c->tick_name + at + 1, c->tick_name + at, (c->ticks - at) * sizeof *c->tick_name);
    c->tick[at] = x;
    c->tick_name[at] = x_name(result);
    c->ticks++;
}

static void begin_line(plot_line *l, const char *name, bool dashed, size_t room)
{
    *l = (plot_line){.name = name,
                     .dashed = dashed,
                     .x = cli_alloc(room, sizeof *l->x),
                     .y = cli_alloc(room, sizeof *l->y)};
}

static size_t series(struct curves *c, const json_t *results, json_t *result)
{
    const size_t room = json_array_size(results);
    char *name = series_name(results, result);
    size_t i = 0;
    while (i < c->names && strcmp(c->name[i], name) != 0)
        i++;
    if (i < c->names) {
        free(name);
        return i;
    }
    c->name[c->names++] = name;
    begin_line(&c->time[i], name, false, room);
    begin_line(&c->memory[2 * i], name, false, room);
    begin_line(&c->memory[2 * i + 1], name, true, room);
    return i;
}

static void release(struct curves *c)
{
    for (size_t i = 0; i < c->names; i++) {
        plot_line *const lines[] = {&c->time[i], &c->memory[2 * i], &c->memory[2 * i + 1]};
        for (size_t k = 0; k < 3; k++) {
            free(lines[k]->x);
            free(lines[k]->y);
        }
        free(c->name[i]);
    }
    for (size_t i = 0; i < c->ticks; i++)
        free(c->tick_name[i]);
    free(c->tick);
    free(c->tick_name);
    free(c);
}

static char *title(const json_t *result)
{
    const json_t *env = json_object_get(result, "env"), *p = params(result);
    const int threads = (int)bench_number(p, "threads");
    char *what = bench_is_model(result)
                     ? cli_text("%s", bench_word(p, "model"))
                     : cli_text("attention, %.0f heads of %.0f", bench_number(p, "heads"),
                                bench_number(p, "dim"));
    char *all = threads
                    ? cli_text("%s: %s, %s, %d thread%s", what, bench_word(env, "name"),
                               bench_word(env, "isa"), threads, threads == 1 ? "" : "s")
                    : cli_text("%s: %s, %s", what, bench_word(env, "name"), bench_word(env, "isa"));
    free(what);
    return all;
}

/* Whether all are of models, or all of attentions. */
static bool plottable(const json_t *results)
{
    size_t i;
    json_t *r;
    json_array_foreach(results, i, r) if (x_of(r) <= 0 ||
                                          bench_is_model(r) != bench_is_model(json_array_get(
                                                                   results, 0))) return false;
    return true;
}

int bench_plot(const char *path, const json_t *results)
{
    if (!plottable(results))
        return cli_fail(CLI_UNSUPPORTED,
                        "--plot shows models, or attentions, not both and no more");
    const double mib = 1 << 20;
    const size_t n = json_array_size(results);
    struct curves *c = cli_alloc(1, sizeof *c);
    c->tick = cli_alloc(n, sizeof *c->tick);
    c->tick_name = cli_alloc(n, sizeof *c->tick_name);
    json_t *r;
    size_t i;
    json_array_foreach(results, i, r)
    {
        if (c->names == LINES) {
            release(c);
            return cli_fail(CLI_USAGE, "--plot: more than %d series; shorten the lists", LINES - 1);
        }
        const double measured = bench_number(json_object_get(r, "peak_bytes"), "resident");
        const size_t s = series(c, results, r);
        add_tick(c, r);
        add_point(&c->time[s], x_of(r), bench_number(r, "p50_ms"));
        add_point(&c->memory[2 * s + 1], x_of(r), bench_promised(r) / mib);
        if (measured > 0) /* small plans fit into pages that the process already had */
            add_point(&c->memory[2 * s], x_of(r), measured / mib);
    }
    const json_t *first = json_array_get(results, 0);
    char *heading = title(first);
    const plot_panel panels[] = {
        {bench_is_model(first) ? "time of a picture, ms" : "time, ms", c->time, c->names},
        {bench_is_model(first) ? "peak memory beside the weights, MiB" : "working memory, MiB",
         c->memory, 2 * c->names},
    };
    const plot all = {.title = heading,
                      .x_title = bench_is_model(first) ? "pixels" : "tokens",
                      .solid = "measured",
                      .dashed = "promised by the plan",
                      .tick = c->tick,
                      .tick_name = c->tick_name,
                      .ticks = c->ticks,
                      .panel = panels,
                      .panels = 2};
    int code = plot_write(path, &all);
    free(heading);
    release(c);
    return code;
}
