/* adapt_plot.c: the losses of a training as an SVG: every step, and their mean over a window. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"

enum { WIDTH = 900, LEFT = 70, RIGHT = 20, TOP = 34, LOSS = 300, GAP = 36, RATE = 80, BOTTOM = 46 };
enum { HEIGHT = TOP + LOSS + GAP + RATE + BOTTOM, COLUMNS = WIDTH - LEFT - RIGHT };

/* A panel's vertical axis, logarithmic for losses. */
typedef struct axis {
    double low, high;
    int top, size;
    bool log;
} axis;

static double up(const axis *a, double v)
{
    const double low = a->log ? log10(a->low) : a->low, high = a->log ? log10(a->high) : a->high;
    const double at = a->log ? log10(v > a->low ? v : a->low) : v;
    return a->top + a->size * (1 - (at - low) / (high - low));
}

static double across(size_t n, double step)
{
    return n > 1 ? LEFT + COLUMNS * (step - 1) / (double)(n - 1) : LEFT + COLUMNS / 2.0;
}

static void text(FILE *to, double x, double y, const char *anchor, const char *format, double v)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    fprintf(to, format, v);
    fputs("</text>\n", to);
}

static void rule(FILE *to, const axis *a, double v)
{
    const double y = up(a, v);
    fprintf(to, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - RIGHT);
    text(to, LEFT - 6, y + 4, "end", "%.3g", v);
}

/* 1, 2 and 5 of every power of ten inside; of an axis that holds none, its ends. */
static void log_rules(FILE *to, const axis *a)
{
    static const double digit[] = {1, 2, 5};
    const double span = log10(a->high / a->low);
    size_t drawn = 0;
    for (int power = (int)floor(log10(a->low)); power <= (int)ceil(log10(a->high)); power++)
        for (int i = 0; i < (span > 3 ? 1 : 3); i++) {
            const double v = digit[i] * pow(10, power);
            if (v >= a->low && v <= a->high) {
                rule(to, a, v);
                drawn++;
            }
        }
    if (drawn < 2) {
        rule(to, a, a->low);
        rule(to, a, a->high);
    }
}

/* One point of a line; steps that fall onto one column of pixels share their mean. */
static void curve(FILE *to, const axis *a, const double *value, size_t n, const char *style)
{
    const size_t bin = n > COLUMNS ? (n + COLUMNS - 1) / COLUMNS : 1;
    char command = 'M';
    fputs("<path fill=\"none\" d=\"", to);
    for (size_t i = 0; i < n; i += bin) {
        const size_t end = i + bin < n ? i + bin : n;
        double sum = 0;
        for (size_t k = i; k < end; k++)
            sum += value[k];
        fprintf(to, "%c%.1f %.1f", command, across(n, 0.5 * (double)(i + end - 1) + 1),
                up(a, sum / (double)(end - i)));
        command = 'L';
    }
    fprintf(to, "\" %s/>\n", style);
}

/* Means over the `window` steps that end with each. */
static void smooth(double *out, const double *in, size_t n, size_t window)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += in[i];
        if (i >= window)
            sum -= in[i - window];
        out[i] = sum / (double)(i < window ? i + 1 : window);
    }
}

static axis fit(const double *value, size_t n, int top, int size, bool logarithmic)
{
    axis a = {INFINITY, 0, top, size, logarithmic};
    for (size_t i = 0; i < n; i++) {
        if (value[i] > 0)
            a.low = fmin(a.low, value[i]);
        a.high = fmax(a.high, value[i]);
    }
    if (!(a.high > 0))
        a.high = 1;
    if (!logarithmic) {
        a.low = 0;
        return a;
    }
    a.low = fmax(a.low < INFINITY ? a.low : a.high, 1e-9 * a.high) / 1.1;
    a.high *= 1.1;
    return a;
}

static void draw(FILE *to, const double *loss, const double *mean, const double *lr, size_t n,
                 size_t window)
{
    const axis left = fit(loss, n, TOP, LOSS, true);
    const axis rate = fit(lr, n, TOP + LOSS + GAP, RATE, false);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-size=\"13\" "
            "font-family=\"sans-serif\">\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    log_rules(to, &left);
    rule(to, &rate, 0);
    rule(to, &rate, rate.high);
    curve(to, &left, loss, n, "stroke=\"#9ecae1\" stroke-width=\"1\"");
    curve(to, &left, mean, n, "stroke=\"#0072b2\" stroke-width=\"2\"");
    curve(to, &rate, lr, n, "stroke=\"#d55e00\" stroke-width=\"2\"");
    text(to, LEFT, TOP - 12, "start", "loss, and its mean over %.0f steps", (double)window);
    text(to, LEFT, TOP + LOSS + GAP - 10, "start", "learning rate", 0);
    text(to, LEFT, HEIGHT - 24, "middle", "%.0f", 1);
    text(to, WIDTH - RIGHT, HEIGHT - 24, "end", "%.0f", (double)n);
    text(to, LEFT + COLUMNS / 2.0, HEIGHT - 8, "middle", "step", 0);
    fputs("</svg>\n", to);
}

int adapt_plot(const char *path, const adapt_point *point, size_t n)
{
    const size_t window = n > 250 ? n / 50 : n > 10 ? 5 : 1;
    double *loss = cli_alloc(3 * n, sizeof *loss), *lr = loss + n, *mean = lr + n;
    for (size_t i = 0; i < n; i++) {
        loss[i] = point[i].loss;
        lr[i] = point[i].lr;
    }
    smooth(mean, loss, n, window);
    cli_output o;
    int code = cli_output_begin(&o, path);
    if (!code) {
        draw(o.file, loss, mean, lr, n, window);
        code = cli_output_end(&o, NULL);
    }
    free(loss);
    return code;
}
