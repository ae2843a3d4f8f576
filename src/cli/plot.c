/* plot.c: curves as an SVG picture. Colours are Okabe and Ito's, which the colour blind can tell
 * apart; marks differ as well. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 460, HEIGHT = 280, LEFT = 64, RIGHT = 20, TOP = 96, BOTTOM = 52, TICK_GAP = 42 };
#define SERIES 7

static const char *const colours[SERIES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#000000"};

/* From values to places. */
struct axis {
    bool log;
    double low, high, from, length; /* `from` is the place of `low` */
};

static double place(const struct axis *a, double v)
{
    const double share =
        a->log ? log(v / a->low) / log(a->high / a->low) : (v - a->low) / (a->high - a->low);
    return a->from + share * a->length;
}

static void text(FILE *f, const char *s)
{
    for (; *s; s++) {
        const char *code = *s == '&' ? "&amp;" : *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : NULL;
        if (code)
            fputs(code, f);
        else
            fputc(*s, f);
    }
}

static void label(FILE *f, double x, double y, const char *anchor, const char *s)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    text(f, s);
    fputs("</text>\n", f);
}

static void rule(FILE *f, double x0, double y0, double x1, double y1, const char *colour)
{
    fprintf(f, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x0, y0, x1, y1, colour);
}

static void mark(FILE *f, size_t kind, double x, double y)
{
    static const char *const shapes[] = {"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "m-4 -4h8v8h-8z",
                                         "m0 -5l5 9h-10z", "m0 -5l5 5l-5 5l-5 -5z"};
    fprintf(f, "<path d=\"M%.1f %.1f%s\" fill=\"%s\"/>\n", x, y, shapes[kind % 4],
            colours[kind % SERIES]);
}

/* The largest of 1, 2 and 5 times a power of ten that is at most v. */
static double nice(double v)
{
    const double power = pow(10, floor(log10(v) + 1e-9)), lead = v / power + 1e-9;
    return power * (lead >= 5 ? 5 : lead >= 2 ? 2 : 1);
}

static double nicer(double v) /* the next after nice v */
{
    const double power = pow(10, floor(log10(v) + 1e-9)), lead = v / power + 1e-9;
    return power * (lead >= 5 ? 10 : lead >= 2 ? 5 : 2);
}

static struct axis axis_over(double low, double high, double from, double length)
{
    struct axis a = {high >= 5 * low, low, high, from, length};
    if (!a.log)
        a.low = 0;
    return a;
}

static struct axis y_axis(const plot_panel *p)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < p->lines; i++)
        for (size_t k = 0; k < p->line[i].n; k++) {
            low = fmin(low, p->line[i].y[k]);
            high = fmax(high, p->line[i].y[k]);
        }
    if (high <= 0)
        low = high = 1;
    struct axis a = axis_over(low, high, TOP + HEIGHT, -HEIGHT);
    const double top = nice(a.high);
    a.low = a.log ? nice(a.low) : 0;
    a.high = top < a.high * (1 - 1e-6) ? nicer(a.high) : top;
    return a;
}

/* Horizontal lines at round values: 1, 2, 5, or the powers of ten alone where these are many. */
static void draw_y(FILE *f, const struct axis *a, double left)
{
    const bool sparse = a->log && a->high > 2000 * a->low;
    const double step = a->high / 5;
    double v = a->log ? a->low : 0;
    while (v <= a->high * (1 + 1e-6)) {
        const double y = place(a, v), power = log10(v);
        char name[32];
        snprintf(name, sizeof name, "%.6g", v);
        if (!sparse || fabs(power - round(power)) < 1e-6) {
            rule(f, left, y, left + PANEL, y, "#ddd");
            label(f, left - 6, y + 4, "end", name);
        }
        v = a->log ? nicer(v) : v + step;
    }
}

/* Names that would run into the one before are left out. */
static void draw_x(FILE *f, const plot *p, const struct axis *a, double left)
{
    double before = -INFINITY;
    for (size_t i = 0; i < p->ticks; i++) {
        const double x = left + place(a, p->tick[i]);
        rule(f, x, TOP + HEIGHT, x, TOP + HEIGHT + 5, "#333");
        if (x - before < TICK_GAP)
            continue;
        label(f, x, TOP + HEIGHT + 19, "middle", p->tick_name[i]);
        before = x;
    }
    label(f, left + PANEL / 2., TOP + HEIGHT + 40, "middle", p->x_title);
}

/* The number of the series that a line belongs to, over all panels. */
static size_t series_of(const plot *p, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < p->panels; i++)
        for (size_t k = 0; k < p->panel[i].lines; k++) {
            const char *other = p->panel[i].line[k].name;
            bool seen = false;
            if (strcmp(other, name) == 0)
                return n;
            for (size_t j = 0; j < k; j++)
                seen = seen || strcmp(p->panel[i].line[j].name, other) == 0;
            n += i == 0 && !seen;
        }
    return n;
}

static void stroke(FILE *f, size_t series, bool dashed)
{
    fprintf(f, " stroke=\"%s\" stroke-width=\"2\" fill=\"none\"%s", colours[series % SERIES],
            dashed ? " stroke-dasharray=\"6 4\"" : "");
}

static void draw_panel(FILE *f, const plot *p, const plot_panel *panel, const struct axis *x,
                       double left)
{
    const struct axis y = y_axis(panel);
    draw_y(f, &y, left);
    draw_x(f, p, x, left);
    rule(f, left, TOP, left, TOP + HEIGHT, "#333");
    rule(f, left, TOP + HEIGHT, left + PANEL, TOP + HEIGHT, "#333");
    label(f, left, TOP - 12, "start", panel->title);
    for (size_t i = 0; i < panel->lines; i++) {
        const plot_line *l = &panel->line[i];
        const size_t series = series_of(p, l->name);
        fputs("<polyline points=\"", f);
        for (size_t k = 0; k < l->n; k++)
            fprintf(f, "%s%.1f,%.1f", k ? " " : "", left + place(x, l->x[k]), place(&y, l->y[k]));
        fputc('"', f);
        stroke(f, series, l->dashed);
        fputs("><title>", f);
        text(f, l->name);
        if (p->dashed)
            fprintf(f, ", %s", l->dashed ? p->dashed : p->solid);
        fputs("</title></polyline>\n", f);
        for (size_t k = 0; k < l->n && !l->dashed; k++)
            mark(f, series, left + place(x, l->x[k]), place(&y, l->y[k]));
    }
}

static double draw_name(FILE *f, double x, const char *name)
{
    label(f, x + 36, 52, "start", name);
    return x + 60 + 7 * (double)strlen(name);
}

static void draw_legend(FILE *f, const plot *p)
{
    const plot_panel *first = &p->panel[0];
    double x = LEFT;
    for (size_t i = 0; i < first->lines; i++) {
        const size_t series = series_of(p, first->line[i].name);
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || series_of(p, first->line[k].name) == series;
        if (seen)
            continue;
        fprintf(f, "<path d=\"M%.1f 48h30\"", x);
        stroke(f, series, false);
        fputs("/>\n", f);
        mark(f, series, x + 15, 48);
        x = draw_name(f, x, first->line[i].name);
    }
    for (int dashed = 0; p->dashed && dashed < 2; dashed++) {
        fprintf(f, "<path d=\"M%.1f 48h30\" stroke=\"#777\" stroke-width=\"2\"%s/>\n", x,
                dashed ? " stroke-dasharray=\"6 4\"" : "");
        x = draw_name(f, x, dashed ? p->dashed : p->solid);
    }
}

int plot_write(const char *path, const plot *p)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    const double step = LEFT + PANEL + RIGHT;
    struct axis x = axis_over(p->tick[0], p->tick[p->ticks - 1], 0, PANEL);
    /* Points are not drawn on the border. */
    x.low = x.log ? x.low / pow(x.high / x.low, 0.04) : 0;
    x.high *= x.log ? pow(x.high / x.low, 0.04) : 1.04;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %d\" width=\"%.0f\" "
            "height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            step * (double)p->panels, TOP + HEIGHT + BOTTOM, step * (double)p->panels,
            TOP + HEIGHT + BOTTOM);
    fprintf(f, "<text x=\"%d\" y=\"26\" font-size=\"16\">", LEFT);
    text(f, p->title);
    fputs("</text>\n", f);
    draw_legend(f, p);
    for (size_t i = 0; i < p->panels; i++)
        draw_panel(f, p, &p->panel[i], &x, LEFT + step * (double)i);
    fputs("</svg>\n", f);
    const bool failed = ferror(f) != 0;
    return fclose(f) || failed ? cli_fail(CLI_INPUT, "%s: cannot be written", path) : CLI_OK;
}
