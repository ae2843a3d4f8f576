/* heat_map.c: draws a number for each patch as colours over a picture. */
#include "cli/picture/heat_map.h"

#include <math.h>

#include "cli/picture/colours.h"

enum { SIDE_MOST = 512 };

heat_panel heat_panel_for(const cli_image *picture)
{
    const uint32_t longer = picture->width > picture->height ? picture->width : picture->height;
    const double scale = fmin(fmax(longer, HEAT_SIDE_LEAST), SIDE_MOST) / longer;
    return (heat_panel){.width = (uint32_t)fmax(picture->width * scale, 1),
                        .height = (uint32_t)fmax(picture->height * scale, 1),
                        .scale = scale};
}

void heat_pixel(const cli_image *on, uint32_t x, uint32_t y, const double rgb[3])
{
    if (x < on->width && y < on->height)
        for (int c = 0; c < 3; c++)
            on->rgb[((size_t)y * on->width + x) * 3 + c] = (uint8_t)(rgb[c] + 0.5);
}

void heat_draw(const cli_image *on, const heat_panel *p, const cli_image *picture,
               const double *plane, const fovea_output_info *g)
{
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++) {
            const double px = (x + 0.5) / p->scale, py = (y + 0.5) / p->scale;
            const uint32_t sx = (uint32_t)fmin(px, picture->width - 1);
            const uint32_t sy = (uint32_t)fmin(py, picture->height - 1);
            const uint8_t *s = picture->rgb + ((size_t)sy * picture->width + sx) * 3;
            double rgb[3] = {s[0], s[1], s[2]};
            if (plane) {
                const double v = cli_sample(plane, g->grid_width, g->grid_height,
                                            px / g->stride - 0.5, py / g->stride - 0.5);
                const double grey = 0.299 * s[0] + 0.587 * s[1] + 0.114 * s[2];
                colour_at(rgb, &colours_inferno, v);
                for (int c = 0; c < 3; c++)
                    rgb[c] = 0.7 * rgb[c] + 0.3 * grey;
            }
            heat_pixel(on, p->x + x, p->y + y, rgb);
        }
}

void heat_label(cli_image *on, const heat_panel *p, const char *text)
{
    static const uint8_t ink[3] = {20, 20, 20};
    cli_letters(on, p->x, p->y - HEAT_STRIP + 4, HEAT_LETTER, ink, text);
}
