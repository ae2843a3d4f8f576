/* draw.h: draws lines, discs and labels in pictures, in sizes that suit the size of the picture. */
#ifndef FOVEA_CLI_DRAW_H
#define FOVEA_CLI_DRAW_H

#include "cli/common/cli.h"

/* line: width of a line in pixels; dot: side of one dot of a letter, in pixels. */
typedef struct draw_pen {
    cli_image *on;
    uint32_t line, dot;
} draw_pen;
draw_pen draw_pen_for(cli_image *on);

/* Blends pixel (x, y) with `share` (0 to 1) of the colour. */
void draw_blend(cli_image *on, uint32_t x, uint32_t y, const uint8_t rgb[3], double share);
/* These functions clip shapes to the picture. A shape with a NaN coordinate is not drawn. */
void draw_line(const draw_pen *p, double x1, double y1, double x2, double y2, const uint8_t rgb[3]);
void draw_disc(const draw_pen *p, double x, double y, double radius, const uint8_t rgb[3]);
void draw_box(const draw_pen *p, double x1, double y1, double x2, double y2, const uint8_t rgb[3]);
/* Draws text on a rectangle of the given colour. The rectangle's lower left corner is at (x, y), or
 * is moved to keep the rectangle inside the picture. */
void draw_label(const draw_pen *p, double x, double y, const uint8_t rgb[3], const char *text);

#endif
