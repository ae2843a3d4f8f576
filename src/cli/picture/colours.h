/* colours.h: which colours numbers, classes and instances have in pictures. */
#ifndef FOVEA_CLI_COLOURS_H
#define FOVEA_CLI_COLOURS_H

#include <stddef.h>
#include <stdint.h>

/* Numbers from 0 to 1, between stops at equal distances. */
typedef struct colour_map {
    const char *name;
    const uint8_t (*stop)[3];
    size_t stops;
} colour_map;

/* Ever lighter: to be told apart in grey and by the colour blind. */
extern const colour_map colours_inferno;
/* inferno, viridis, turbo or gray; NULL: unknown. */
const colour_map *colour_map_find(const char *name);
void colour_at(double rgb[3], const colour_map *map, double v);

/* Those of PASCAL VOC. */
void colour_of_class(uint8_t rgb[3], uint32_t class);
/* Bright ones, of which neighbours in number differ. */
void colour_of_instance(uint8_t rgb[3], size_t i);

#endif
