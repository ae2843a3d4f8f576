/* size_plot.h: results over a size as a picture, drawn by gnuplot: two panels, each with a line for
 * every series of results, which differ in other `params` than the size.
 */
#ifndef FOVEA_CLI_SIZE_PLOT_H
#define FOVEA_CLI_SIZE_PLOT_H

#include "cli/common/cli.h"

typedef struct plot_curve {
    const char *data;            /* a name of its own */
    double (*y)(const json_t *); /* of a result; NULL: there is no such curve */
} plot_curve;

typedef struct plot_panel {
    const char *title;
    plot_curve shown, promise; /* promise: dashed */
    bool linear;               /* its axis; else logarithmic, and what is not above 0 is left out */
} plot_panel;

typedef struct size_plot {
    const char *title;
    double (*extent)(const json_t *); /* of a result, above 0 */
    bool of_pixels;                   /* sizes are `width` and `height`; else tokens */
    plot_panel panel[2];              /* the first names the series */
} size_plot;

/* At least one result. */
int size_plot_write(const char *path, const json_t *results, const size_plot *plot);

#endif
