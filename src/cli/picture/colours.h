/* colours.h: assigns colours to numbers, classes and instances in pictures. */
#ifndef FOVEA_CLI_COLOURS_H
#define FOVEA_CLI_COLOURS_H

#include <stddef.h>
#include <stdint.h>

/* A colour scale for numbers from 0 to 1: interpolated between stops at equal distances. */
typedef struct colour_map {
    const char *name;
    const uint8_t (*stop)[3];
    size_t stops;
} colour_map;

/* Its lightness increases steadily, so that it can be read in grey and by the colour blind. */
extern const colour_map colours_inferno;
/* Returns the map "inferno", "viridis", "turbo" or "gray", or NULL for any other name. */
const colour_map *colour_map_find(const char *name);
void colour_at(double rgb[3], const colour_map *map, double v);

/* Sets rgb to the colour that PASCAL VOC uses for a class. */
void colour_of_class(uint8_t rgb[3], uint32_t class);
/* Sets rgb to a bright colour; consecutive numbers get different colours. */
void colour_of_instance(uint8_t rgb[3], size_t i);

#endif
