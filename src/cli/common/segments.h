/* segments.h: segmentation logits, or masks and their classes, become the class of every pixel. */
#ifndef FOVEA_CLI_SEGMENTS_H
#define FOVEA_CLI_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct segments_grid {
    uint32_t width, height, classes; /* of logits[y][x][class]; 256 classes at most */
} segments_grid;

/* Where the grid lies among the pixels that get a class; of all of them: {0, 0, width, height}. */
typedef struct segments_place {
    double left, top, width, height;
} segments_place;

/* Floats that segments_classify works in. */
size_t segments_room(const segments_grid *grid);
/* Logits resized bilinearly (torch's align_corners False) to where they lie among width x height
 * pixels, with those at its edges beyond it; the largest wins, the first of equals. */
void segments_classify(uint8_t *class, uint32_t width, uint32_t height, const float *logits,
                       const segments_grid *grid, const segments_place *place, float *room);

/* The same of masks[y][x][query], whose `grid` counts queries as classes, and of the logits of each
 * query's classes and, at the end, of nothing. A class has the sum over all queries of their
 * probability of it times that of the pixel being inside their mask. */
size_t segments_masks_room(const segments_grid *grid, uint32_t classes);
void segments_classify_masks(uint8_t *class, uint32_t width, uint32_t height, const float *masks,
                             const segments_grid *grid, const segments_place *place,
                             const float *logits, uint32_t classes, float *room);

#endif
