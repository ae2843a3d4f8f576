/* heat_map.h: draws a number for each patch as colours over a picture. */
#ifndef FOVEA_CLI_HEAT_MAP_H
#define FOVEA_CLI_HEAT_MAP_H

#include "cli/common/cli.h"

enum { HEAT_SIDE_LEAST = 320, HEAT_GAP = 8, HEAT_STRIP = 24, HEAT_LETTER = 2 };

/* The area of a larger picture that contains one picture and its label. */
typedef struct heat_panel {
    uint32_t x, y, width, height;
    double scale; /* pixels of the panel per pixel of the picture */
} heat_panel;

/* Returns a panel at (0, 0) whose size suits `picture`. */
heat_panel heat_panel_for(const cli_image *picture);
void heat_pixel(const cli_image *on, uint32_t x, uint32_t y, const double rgb[3]);
/* Draws the picture, and over it `plane` as colours: a number from 0 to 1 for each patch of the
 * grid, interpolated bilinearly between the centres of patches. If plane is NULL, draws only the
 * picture. */
void heat_draw(const cli_image *on, const heat_panel *p, const cli_image *picture,
               const double *plane, const fovea_output_info *grid);
/* Writes a text in the strip above the panel. */
void heat_label(cli_image *on, const heat_panel *p, const char *text);

#endif
