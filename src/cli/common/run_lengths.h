/* run_lengths.h: masks as run lengths, in the order of COCO's tools: down each column, from the
 * left column to the right one. */
#ifndef FOVEA_CLI_RUN_LENGTHS_H
#define FOVEA_CLI_RUN_LENGTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* Runs of pixels that are alternately outside and inside the mask. The first run is outside and may
 * be empty. The sum of all runs is width * height. */
typedef struct run_lengths {
    uint32_t width, height;
    uint32_t *run;
    size_t n;
} run_lengths;

enum {
    RUN_LENGTHS_SIDE =
        65535, /* longest side of a mask, so that its pixels are counted in 32 bits */
    RUN_LENGTHS_FAR = 1000000 /* largest coordinate of a corner, in pixels */
};

run_lengths run_lengths_of_pixels(const uint8_t *inside, uint32_t width, uint32_t height);
/* The union of polygons, each drawn as by pycocotools: `xy` holds x and y of each corner in pixels,
 * at most RUN_LENGTHS_FAR. A mask begins as run_lengths_empty. */
run_lengths run_lengths_empty(uint32_t width, uint32_t height);
void run_lengths_add_polygon(run_lengths *to, const double *xy, size_t corners);
/* Reads the runs of COCO's `counts`: a list of lengths, or the packed text of pycocotools. Returns
 * false if the value is neither, or if the runs do not cover the mask exactly. */
bool run_lengths_read(run_lengths *out, const json_t *counts, uint32_t width, uint32_t height);
/* Returns the packed text. The caller frees it. */
char *run_lengths_pack(const run_lengths *m);
void run_lengths_free(run_lengths *m);

/* The number of pixels in a mask; of pixels that two masks of the same size share. */
uint64_t run_lengths_area(const run_lengths *m);
uint64_t run_lengths_shared(const run_lengths *a, const run_lengths *b);

#endif
