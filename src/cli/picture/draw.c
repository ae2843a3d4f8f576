/* draw.c: see draw.h. */
#include "cli/picture/draw.h"

#include <math.h>
#include <string.h>

enum { LETTER_WIDE = 6, LETTER_HIGH = 7 }; /* in dots, including the gap after or below a letter */

draw_pen draw_pen_for(cli_image *on)
{
    const uint32_t side = on->width < on->height ? on->width : on->height;
    const uint32_t line = side / 240, dot = side / 320;
    return (draw_pen){on, line > 1 ? line : 1, dot > 1 ? dot : 1};
}

void draw_blend(cli_image *on, uint32_t x, uint32_t y, const uint8_t rgb[3], double share)
{
    uint8_t *to = on->rgb + ((size_t)y * on->width + x) * 3;
    for (int c = 0; c < 3; c++)
        to[c] = (uint8_t)(to[c] + share * (rgb[c] - to[c]) + 0.5);
}

/* Finds the range of pixels on one axis whose centres are in [from, to), clipped to the picture. */
static void clip(uint32_t *first, uint32_t *end, double from, double to, uint32_t side)
{
    *first = (uint32_t)fmin(fmax(ceil(from - 0.5), 0), side);
    *end = (uint32_t)fmin(fmax(ceil(to - 0.5), 0), side);
}

static void fill(const draw_pen *p, double x1, double y1, double x2, double y2,
                 const uint8_t rgb[3])
{
    uint32_t left, right, top, bottom;
    clip(&left, &right, x1, x2, p->on->width);
    clip(&top, &bottom, y1, y2, p->on->height);
    for (uint32_t y = top; y < bottom; y++)
        for (uint32_t x = left; x < right; x++)
            memcpy(p->on->rgb + ((size_t)y * p->on->width + x) * 3, rgb, 3);
}

/* Colours the pixels whose centres are at most `radius` from the line between two points. */
static void stroke(const draw_pen *p, double x1, double y1, double x2, double y2, double radius,
                   const uint8_t rgb[3])
{
    const double across = x2 - x1, down = y2 - y1, length = across * across + down * down;
    uint32_t left, right, top, bottom;
    if (!isfinite(x1) || !isfinite(y1) || !isfinite(x2) || !isfinite(y2))
        return;
    clip(&left, &right, fmin(x1, x2) - radius, fmax(x1, x2) + radius + 1, p->on->width);
    clip(&top, &bottom, fmin(y1, y2) - radius, fmax(y1, y2) + radius + 1, p->on->height);
    for (uint32_t y = top; y < bottom; y++)
        for (uint32_t x = left; x < right; x++) {
            const double px = x + 0.5 - x1, py = y + 0.5 - y1;
            const double t = length > 0 ? fmin(fmax((px * across + py * down) / length, 0), 1) : 0;
            const double away = hypot(px - t * across, py - t * down);
            if (away < radius + 0.5)
                draw_blend(p->on, x, y, rgb, fmin(1, radius + 0.5 - away));
        }
}

void draw_line(const draw_pen *p, double x1, double y1, double x2, double y2, const uint8_t rgb[3])
{
    stroke(p, x1, y1, x2, y2, 0.5 * p->line, rgb);
}

void draw_disc(const draw_pen *p, double x, double y, double radius, const uint8_t rgb[3])
{
    static const uint8_t rim[3] = {20, 20, 20};
    stroke(p, x, y, x, y, radius + 0.5 * p->line, rim);
    stroke(p, x, y, x, y, radius, rgb);
}

void draw_box(const draw_pen *p, double x1, double y1, double x2, double y2, const uint8_t rgb[3])
{
    const double w = p->line;
    if (!isfinite(x1) || !isfinite(y1) || !isfinite(x2) || !isfinite(y2))
        return;
    fill(p, x1, y1, x2, y1 + w, rgb);
    fill(p, x1, y2 - w, x2, y2, rgb);
    fill(p, x1, y1, x1 + w, y2, rgb);
    fill(p, x2 - w, y1, x2, y2, rgb);
}

void draw_label(const draw_pen *p, double x, double y, const uint8_t rgb[3], const char *text)
{
    static const uint8_t dark[3] = {16, 16, 16}, light[3] = {255, 255, 255};
    const double rim = 2.0 * p->dot, wide = (double)strlen(text) * LETTER_WIDE * p->dot + 2 * rim;
    const double high = LETTER_HIGH * p->dot + 2 * rim;
    if (!isfinite(x) || !isfinite(y))
        return;
    x = floor(fmax(fmin(x, p->on->width - wide), 0));
    y = floor(fmax(fmin(y - high, p->on->height - high), 0));
    fill(p, x, y, x + wide, y + high, rgb);
    cli_letters(p->on, (uint32_t)(x + rim), (uint32_t)(y + rim), p->dot,
                299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] > 128000 ? dark : light, text);
}
