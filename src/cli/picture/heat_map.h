/* heat_map.h: a number for each patch as colours over a picture. */
#ifndef FOVEA_CLI_HEAT_MAP_H
#define FOVEA_CLI_HEAT_MAP_H

#include "cli/common/cli.h"

enum { HEAT_SIDE_LEAST = 320, HEAT_GAP = 8, HEAT_STRIP = 24, HEAT_LETTER = 2 };

/* Where a picture is shown in a larger one. */
typedef struct heat_panel {
    uint32_t x, y, width, height;
    double scale; /* pixels of the panel per pixel of the picture */
} heat_panel;

/* Its size for such a picture, at (0, 0). */
heat_panel heat_panel_for(const cli_image *picture);
void heat_pixel(const cli_image *on, uint32_t x, uint32_t y, const double rgb[3]);
/* The picture, and over it the colours of `plane`, a number from 0 to 1 for each patch of the grid,
 * between their centres bilinear. NULL: the picture alone. */
void heat_draw(const cli_image *on, const heat_panel *p, const cli_image *picture,
               const double *plane, const fovea_output_info *grid);
/* A text of the strip above the panel. */
void heat_label(cli_image *on, const heat_panel *p, const char *text);

#endif
