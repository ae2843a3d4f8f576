/* colours.c: see colours.h. */
#include "cli/picture/colours.h"

#include <math.h>
#include <string.h>

/* Stops of matplotlib's colour maps. */
static const uint8_t inferno[][3] = {{0, 0, 4},      {40, 11, 84},   {101, 21, 110},
                                     {159, 42, 99},  {212, 72, 66},  {245, 125, 21},
                                     {250, 193, 39}, {252, 255, 164}};
static const uint8_t viridis[][3] = {{68, 1, 84},    {72, 36, 117},  {65, 68, 135},  {53, 95, 141},
                                     {42, 120, 142}, {33, 145, 140}, {34, 168, 132}, {68, 191, 112},
                                     {122, 209, 81}, {189, 223, 38}, {253, 231, 37}};
static const uint8_t turbo[][3] = {{48, 18, 59},   {69, 89, 203},  {62, 155, 254}, {25, 213, 205},
                                   {70, 248, 132}, {164, 252, 60}, {225, 221, 55}, {254, 164, 49},
                                   {240, 91, 18},  {195, 37, 3},   {122, 4, 3}};
static const uint8_t gray[][3] = {{0, 0, 0}, {255, 255, 255}};

#define MAP(NAME)                                                                                  \
    {                                                                                              \
#NAME, NAME, sizeof NAME / sizeof *NAME                                                    \
    }
const colour_map colours_inferno = MAP(inferno);

const colour_map *colour_map_find(const char *name)
{
    static const colour_map maps[] = {MAP(inferno), MAP(viridis), MAP(turbo), MAP(gray)};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (strcmp(maps[i].name, name) == 0)
            return &maps[i];
    return NULL;
}

void colour_at(double rgb[3], const colour_map *map, double v)
{
    const size_t last = map->stops - 1;
    const double at = fmin(fmax(v, 0), 1) * (double)last;
    const size_t i = at >= (double)last ? last - 1 : (size_t)at;
    for (int c = 0; c < 3; c++)
        rgb[c] =
            map->stop[i][c] + (at - (double)i) * ((double)map->stop[i + 1][c] - map->stop[i][c]);
}

/* Distributes the bits of the class number, from the lowest on, to red, green and blue in turn,
 * starting at the highest bit of each colour. */
void colour_of_class(uint8_t rgb[3], uint32_t class)
{
    memset(rgb, 0, 3);
    for (int bit = 7; class && bit >= 0; bit--, class >>= 3)
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(rgb[c] | (class >> c & 1) << bit);
}

/* Hues of consecutive numbers differ by the golden section of the colour circle. */
void colour_of_instance(uint8_t rgb[3], size_t i)
{
    const double hue = 6 * fmod(0.08 + (double)i * 0.6180339887498949, 1);
    for (int c = 0; c < 3; c++) {
        /* distance from the hue opposite to colour c */
        const double away = fabs(fmod(hue - 2 * c + 9, 6) - 3);
        rgb[c] = (uint8_t)(70 + 185 * fmin(fmax(away - 1, 0), 1));
    }
}
