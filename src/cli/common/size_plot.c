/* size_plot.c: results over a size, in two panels, drawn by gnuplot. */
#include "cli/common/size_plot.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const json_t *params(const json_t *result)
{
    return json_object_get(result, "params");
}

/* ---- series: results that differ in more than the size ---- */

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
    json_array_foreach(results, i, r) {
        first = first ? first : r;
        if (!json_equal(json_object_get(params(r), key), json_object_get(params(first), key)))
            return true;
    }
    return false;
}

/* The attention, then whatever else the results differ in. */
static char *series_name(const json_t *results, const json_t *result)
{
    const char *attention = json_string_value(json_object_get(params(result), "attention"));
    char *name = cli_text("%s", attention ? attention : "");
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
static json_t *series_of(const json_t *results, const size_plot *plot)
{
    json_t *all = json_object(), *r;
    size_t i;
    json_array_foreach(results, i, r) {
        char *name = series_name(results, r), x[32];
        json_t *own = json_object_get(all, name);
        if (!own) {
            own = json_object();
            json_object_set_new(all, name, own);
        }
        snprintf(x, sizeof x, "%.0f", plot->extent(r));
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

typedef struct point {
    double x, y;
} point;

static int ascending(const void *a, const void *b)
{
    const point *p = a, *q = b;
    return (p->x > q->x) - (p->x < q->x);
}

/* Of a logarithmic axis only what is above 0: nothing is measured of a GPU's memory. */
static bool is_shown(const plot_panel *panel, double y)
{
    return panel->linear || y > 0;
}

/* A named block of data. */
static void write_points(FILE *to, size_t index, json_t *series, const size_plot *plot,
                         const plot_panel *panel, const plot_curve *c)
{
    point *all = cli_alloc(json_object_size(series), sizeof *all);
    const char *x;
    json_t *r;
    size_t n = 0;
    json_object_foreach(series, x, r)
        all[n++] = (point){plot->extent(r), c->y(r)};
    qsort(all, n, sizeof *all, ascending);
    fprintf(to, "$%s%zu << EOD\n", c->data, index);
    for (size_t i = 0; i < n; i++)
        if (is_shown(panel, all[i].y))
            fprintf(to, "%.0f %.9g\n", all[i].x, all[i].y);
    fputs("EOD\n", to);
    free(all);
}

/* The sizes that were measured, as they were asked for. */
static void write_tics(FILE *to, const json_t *results, const size_plot *plot)
{
    size_t i;
    json_t *r;
    const char *gap = "";
    fputs("set xtics nomirror rotate by -30 (", to);
    json_array_foreach(results, i, r) {
        const int width = (int)json_number_value(json_object_get(params(r), "width"));
        const int height = (int)json_number_value(json_object_get(params(r), "height"));
        if (!plot->of_pixels)
            fprintf(to, "%s\"%.0f\" %.0f", gap, plot->extent(r), plot->extent(r));
        else if (width == height)
            fprintf(to, "%s\"%d\u00b2\" %.0f", gap, width, plot->extent(r));
        else
            fprintf(to, "%s\"%d\u00d7%d\" %.0f", gap, width, height, plot->extent(r));
        gap = ", ";
    }
    fputs(")\n", to);
}

/* The smallest and largest of what is shown; false: nothing is. */
static bool ends(double *low, double *high, const json_t *results, const plot_panel *panel)
{
    const plot_curve *const curves[] = {&panel->shown, &panel->promise};
    bool any = false;
    size_t i;
    json_t *r;
    for (int k = 0; k < 2; k++) {
        if (!curves[k]->y)
            continue;
        json_array_foreach(results, i, r) {
            const double v = curves[k]->y(r);
            if (!is_shown(panel, v))
                continue;
            *low = !any || v < *low ? v : *low;
            *high = !any || v > *high ? v : *high;
            any = true;
        }
    }
    return any;
}

/* Room around all points of an axis: gnuplot itself goes on to the next power of ten. */
static void write_range(FILE *to, char axis, double low, double high, double margin)
{
    fprintf(to, "set %crange [%g:%g]\n", axis, low / margin, high * margin);
}

/* 1, 2 and 5 of every power of ten. */
static void write_scale(FILE *to)
{
    fputs("set format y \"%g\"\nset ytics nomirror (", to);
    for (int power = -6; power < 9; power++)
        fprintf(to, "%s1e%d, 2e%d, 5e%d", power > -6 ? ", " : "", power, power, power);
    fputs(")\n", to);
}

static void write_axis(FILE *to, const json_t *results, const plot_panel *panel)
{
    double low = 0, high = 0;
    const bool any = ends(&low, &high, results, panel);
    if (panel->linear) {
        const double room = 0.08 * (high - low) + 1e-6;
        fputs("unset logscale y\nset ytics nomirror autofreq\n", to);
        fprintf(to, "set yrange [%.9g:%.9g]\n", low - room, high + room);
        return;
    }
    fputs("set logscale y\n", to);
    write_scale(to);
    if (any)
        write_range(to, 'y', low, high, 1.5);
}

/* gnuplot complains about a line without points. */
static bool has_points(json_t *series, const plot_panel *panel, const plot_curve *c)
{
    const char *x;
    json_t *r;
    bool any = false;
    json_object_foreach(series, x, r)
        any = any || (c->y && is_shown(panel, c->y(r)));
    return any;
}

/* One line for each series; a promise is dashed, in the same colour. */
static void write_panel(FILE *to, json_t *series, const plot_panel *panel, bool names)
{
    const plot_curve *shown = &panel->shown, *promise = &panel->promise;
    const char *name, *gap = "";
    json_t *own;
    size_t i = 0;
    fprintf(to, "set title \"%s\"\nplot ", panel->title);
    json_object_foreach(series, name, own) {
        i++;
        if (has_points(own, panel, shown)) {
            fprintf(to, "%s$%s%zu with linespoints lw 2 pt 7 ps 0.5 lc %zu %s", gap, shown->data,
                    i - 1, i, names ? "title " : "notitle");
            if (names)
                write_string(to, name);
            gap = ", ";
        }
        if (has_points(own, panel, promise)) {
            fprintf(to, "%s$%s%zu with lines lw 1.5 dt 2 lc %zu %s", gap, promise->data, i - 1, i,
                    i > 1 ? "notitle" : "title \"promised by the plan\"");
            gap = ", ";
        }
    }
    fputc('\n', to);
}

static void write_data(FILE *to, json_t *series, const size_plot *plot)
{
    const char *name;
    json_t *own;
    size_t i = 0;
    json_object_foreach(series, name, own) {
        for (int k = 0; k < 2; k++) {
            const plot_panel *p = &plot->panel[k];
            write_points(to, i, own, plot, p, &p->shown);
            if (p->promise.y)
                write_points(to, i, own, plot, p, &p->promise);
        }
        i++;
    }
}

static void write_plot(FILE *to, const char *path, const json_t *results, const size_plot *plot)
{
    static const char style[] =
        "set terminal svg size 1080,470 font \"sans-serif,13\" noenhanced rounded background rgb "
        "\"white\"\nset logscale xy\nset border 3\nset grid y lc rgb \"#dddddd\" lt 1\n"
        "set key outside bottom center horizontal Left reverse\nset tics out scale 0.5\n"
        "set linetype 1 lc rgb \"#0072b2\"\nset linetype 2 lc rgb \"#d55e00\"\n"
        "set linetype 3 lc rgb \"#009e73\"\nset linetype 4 lc rgb \"#cc79a7\"\n"
        "set linetype 5 lc rgb \"#e69f00\"\nset linetype 6 lc rgb \"#56b4e9\"\n";
    json_t *series = series_of(results, plot), *r;
    double low = INFINITY, high = 0;
    size_t i;
    fputs(style, to);
    fputs("set output ", to);
    write_string(to, path);
    fputc('\n', to);
    write_data(to, series, plot);
    fputs("set multiplot layout 1,2 title ", to);
    write_string(to, plot->title);
    fputc('\n', to);
    write_tics(to, results, plot);
    fprintf(to, "set xlabel \"%s\"\n", plot->of_pixels ? "pixels" : "tokens");
    json_array_foreach(results, i, r) {
        low = fmin(low, plot->extent(r));
        high = fmax(high, plot->extent(r));
    }
    write_range(to, 'x', low, high, 1.15);
    for (int k = 0; k < 2; k++) {
        write_axis(to, results, &plot->panel[k]);
        write_panel(to, series, &plot->panel[k], k == 0);
    }
    fputs("unset multiplot\n", to);
    json_decref(series);
}

int size_plot_write(const char *path, const json_t *results, const size_plot *plot)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before); /* where there is no gnuplot, nobody reads */
    FILE *to = popen("gnuplot", "w");
    if (to)
        write_plot(to, path, results, plot);
    const int status = to ? pclose(to) : -1;
    sigaction(SIGPIPE, &before, NULL);
    return status == 0
               ? CLI_OK
               : cli_fail(CLI_UNSUPPORTED,
                          "--plot %s: gnuplot did not draw it; is gnuplot-nox installed?", path);
}
