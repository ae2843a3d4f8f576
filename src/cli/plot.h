/* plot.h: curves as an SVG picture: panels side by side over the same x axis. */
#ifndef FOVEA_CLI_PLOT_H
#define FOVEA_CLI_PLOT_H

#include "cli.h"

typedef struct plot_line {
    const char *name; /* of a series; lines of one name share colour and mark */
    bool dashed;
    size_t n;
    double *x, *y; /* above 0, x ascending */
} plot_line;

typedef struct plot_panel {
    const char *title; /* what y is */
    const plot_line *line;
    size_t lines;
} plot_panel;

typedef struct plot {
    const char *title, *x_title;
    const char *solid, *dashed; /* what the two kinds of line are; NULL: all are solid */
    const double *tick;         /* of x, ascending, with their names */
    char *const *tick_name;
    size_t ticks;
    const plot_panel *panel;
    size_t panels;
} plot;

/* Axes whose values differ by a factor of five or more are logarithmic, others begin at 0. */
int plot_write(const char *path, const plot *p);

#endif
