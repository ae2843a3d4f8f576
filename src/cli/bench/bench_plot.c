/* bench_plot.c: results of benchmarks as a picture, time and memory over pixels or tokens; gnuplot
 * draws it.
 */
#include "cli/bench/bench_results.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const json_t *params(const json_t *result)
{
    return json_object_get(result, "params");
}

/* ---- series: what differs beside the size ---- */

static bool is_size(const char *key)
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
    const json_t *first = NULL;
    bench_foreach(results, i, r) {
        first = first ? first : r;
        if (!json_equal(json_object_get(params(r), key), json_object_get(params(first), key)))
            return true;
    }
    return false;
}

/* The attention, then whatever else the results differ in. */
static char *series_name(const json_t *results, const json_t *result)
{
    char *name = cli_text("%s", bench_word(params(result), "attention"));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(result, "params"), key, value) {
        if (is_size(key) || strcmp(key, "attention") == 0 || !varies(results, key))
            continue;
        char *text = json_is_string(value) ? cli_text("%s", json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY);
        char *longer = cli_text("%s%s%s %s", name, *name ? ", " : "", key, text ? text : "");
        free(text);
        free(name);
        name = longer;
    }
    return name;
}

/* {name: {x: result}} in the order of their first results; of two for one x the later one counts.
 */
static json_t *series_of(const json_t *results)
{
    json_t *all = json_object(), *r;
    size_t i;
    bench_foreach(results, i, r) {
        char *name = series_name(results, r), x[32];
        json_t *own = json_object_get(all, name);
        if (!own) {
            own = json_object();
            json_object_set_new(all, name, own);
        }
        snprintf(x, sizeof x, "%.0f", bench_extent(r));
        json_object_set(own, x, r);
        free(name);
    }
    return all;
}

/* ---- gnuplot's language ---- */

/* A string between double quotes. Results may come from anybody's file: nothing in them ends the
 * line, or is a command between backquotes. */
static void write_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc((unsigned char)*text < ' ' ? ' ' : *text == '`' ? '\'' : *text, to);
    }
    fputc('"', to);
}

static int ascending(const void *a, const void *b)
{
    const double x = bench_extent(*(json_t *const *)a), y = bench_extent(*(json_t *const *)b);
    return (x > y) - (x < y);
}

/* What a panel shows: the data block's name, and what is in it. */
typedef struct curve {
    const char *data;
    double (*y)(const json_t *);
} curve;

/* A named block of data. */
static void write_points(FILE *to, size_t index, json_t *series, const curve *c)
{
    json_t **point = cli_alloc(json_object_size(series), sizeof *point), *r;
    const char *x;
    size_t n = 0;
    json_object_foreach(series, x, r)
        point[n++] = r;
    qsort(point, n, sizeof *point, ascending);
    fprintf(to, "$%s%zu << EOD\n", c->data, index);
    for (size_t i = 0; i < n; i++)
        if (c->y(point[i]) > 0) /* nothing is measured of a GPU's memory */
            fprintf(to, "%.0f %.9g\n", bench_extent(point[i]), c->y(point[i]));
    fputs("EOD\n", to);
    free(point);
}

static double time_of(const json_t *r)
{
    return bench_number(r, "p50_ms");
}

static double measured(const json_t *r)
{
    return bench_inner(r, "peak_bytes", "resident") / (1 << 20);
}

static double promised(const json_t *r)
{
    return bench_promised(r) / (1 << 20);
}

static void write_title(FILE *to, const json_t *result)
{
    const json_t *env = json_object_get(result, "env"), *p = params(result);
    char *what;
    if (bench_is_model(result))
        what = cli_text("%s", bench_word(p, "model"));
    else
        what = cli_text("%s, %.0f heads", bench_word(p, "what"), bench_number(p, "heads"));
    char *all = cli_text("%s: %s, %s, %s", what, bench_word(env, "name"), bench_word(env, "isa"),
                         bench_where(result).text);
    fputs("set multiplot layout 1,2 title ", to);
    write_string(to, all);
    fputc('\n', to);
    free(what);
    free(all);
}

/* The sizes that were measured, as they were asked for. */
static void write_tics(FILE *to, const json_t *results)
{
    size_t i;
    json_t *r;
    const char *gap = "";
    fputs("set xtics nomirror rotate by -30 (", to);
    bench_foreach(results, i, r) {
        const int width = (int)bench_number(params(r), "width");
        const int height = (int)bench_number(params(r), "height");
        if (!bench_is_model(r))
            fprintf(to, "%s\"%.0f\" %.0f", gap, bench_extent(r), bench_extent(r));
        else if (width == height)
            fprintf(to, "%s\"%d\u00b2\" %.0f", gap, width, bench_extent(r));
        else
            fprintf(to, "%s\"%d\u00d7%d\" %.0f", gap, width, height, bench_extent(r));
        gap = ", ";
    }
    fputs(")\n", to);
}

/* Room around all points of an axis: gnuplot itself goes on to the next power of ten. */
static void write_range(FILE *to, char axis, const json_t *results,
                        double (*const *of)(const json_t *), double margin)
{
    double low = 0, high = 0;
    size_t i;
    json_t *r;
    for (; *of; of++)
        bench_foreach(results, i, r) {
            const double v = (*of)(r);
            low = v > 0 && (low == 0 || v < low) ? v : low;
            high = v > high ? v : high;
        }
    if (high > 0)
        fprintf(to, "set %crange [%g:%g]\n", axis, low / margin, high * margin);
}

/* gnuplot complains about a line without points. */
static bool has_points(json_t *series, double (*y)(const json_t *))
{
    const char *x;
    json_t *r;
    bool any = false;
    json_object_foreach(series, x, r)
        any = any || y(r) > 0;
    return any;
}

/* One line for each series; those of the plans' promises are dashed, in the same colour. The panel
 * that has none names the series. */
static void write_panel(FILE *to, const char *title, json_t *series, const curve *shown,
                        const curve *promise)
{
    const char *name, *gap = "";
    json_t *own;
    size_t i = 0;
    fprintf(to, "set title \"%s\"\nplot ", title);
    json_object_foreach(series, name, own) {
        i++;
        if (has_points(own, shown->y)) {
            fprintf(to, "%s$%s%zu with linespoints lw 2 pt 7 ps 0.5 lc %zu %s", gap, shown->data,
                    i - 1, i, promise ? "notitle" : "title ");
            if (!promise)
                write_string(to, name);
            gap = ", ";
        }
        if (promise && has_points(own, promise->y)) {
            fprintf(to, "%s$%s%zu with lines lw 1.5 dt 2 lc %zu %s", gap, promise->data, i - 1, i,
                    i > 1 ? "notitle" : "title \"promised by the plan\"");
            gap = ", ";
        }
    }
    fputc('\n', to);
}

/* 1, 2 and 5 of every power of ten. */
static void write_scale(FILE *to)
{
    fputs("set format y \"%g\"\nset ytics nomirror (", to);
    for (int power = -6; power < 9; power++)
        fprintf(to, "%s1e%d, 2e%d, 5e%d", power > -6 ? ", " : "", power, power, power);
    fputs(")\n", to);
}

static void write_plot(FILE *to, const char *path, const json_t *results)
{
    static const char style[] =
        "set terminal svg size 1080,470 font \"sans-serif,13\" noenhanced rounded background rgb "
        "\"white\"\nset logscale xy\nset border 3\nset grid y lc rgb \"#dddddd\" lt 1\n"
        "set key outside bottom center horizontal Left reverse\nset tics out scale 0.5\n"
        "set linetype 1 lc rgb \"#0072b2\"\nset linetype 2 lc rgb \"#d55e00\"\n"
        "set linetype 3 lc rgb \"#009e73\"\nset linetype 4 lc rgb \"#cc79a7\"\n"
        "set linetype 5 lc rgb \"#e69f00\"\nset linetype 6 lc rgb \"#56b4e9\"\n";
    static double (*const extents[])(const json_t *) = {bench_extent, NULL};
    static double (*const times[])(const json_t *) = {time_of, NULL};
    static double (*const memories[])(const json_t *) = {measured, promised, NULL};
    static const curve time = {"time", time_of}, memory = {"measured", measured},
                       promise = {"promised", promised};
    json_t *series = series_of(results), *own;
    const json_t *first = json_array_get(results, 0);
    const bool model = bench_is_model(first);
    const char *name;
    size_t i = 0;
    fputs(style, to);
    fputs("set output ", to);
    write_string(to, path);
    fputc('\n', to);
    write_scale(to);
    json_object_foreach(series, name, own) {
        write_points(to, i, own, &time);
        write_points(to, i, own, &memory);
        write_points(to, i++, own, &promise);
    }
    write_title(to, first);
    write_tics(to, results);
    fprintf(to, "set xlabel \"%s\"\n", model ? "pixels" : "tokens");
    write_range(to, 'x', results, extents, 1.15);
    write_range(to, 'y', results, times, 1.5);
    write_panel(to, model ? "time of a picture, ms" : "time, ms", series, &time, NULL);
    write_range(to, 'y', results, memories, 1.5);
    write_panel(to, model ? "peak memory beside the weights, MiB" : "working memory, MiB", series,
                &memory, &promise);
    fputs("unset multiplot\n", to);
    json_decref(series);
}

/* ---- the program ---- */

/* All are of one kind and have a size. */
static bool plottable(const json_t *results)
{
    size_t i, n = 0;
    json_t *r;
    const char *what = NULL;
    bench_foreach(results, i, r) {
        const char *own = bench_word(params(r), "what");
        if (bench_extent(r) <= 0 || (what && strcmp(what, own) != 0))
            return false;
        what = own;
        n++;
    }
    return n > 0;
}

int bench_plot(const char *path, const json_t *results)
{
    if (!plottable(results))
        return cli_fail(CLI_UNSUPPORTED,
                        "--plot shows models, blocks or attentions, one kind at a time");
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before); /* where there is no gnuplot, nobody reads */
    FILE *to = popen("gnuplot", "w");
    if (to)
        write_plot(to, path, results);
    const int status = to ? pclose(to) : -1;
    sigaction(SIGPIPE, &before, NULL);
    return status == 0
               ? CLI_OK
               : cli_fail(CLI_UNSUPPORTED,
                          "--plot %s: gnuplot did not draw it; is gnuplot-nox installed?", path);
}
