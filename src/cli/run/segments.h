/* segments.h: segmentation logits become the class of every pixel. */
#ifndef FOVEA_CLI_SEGMENTS_H
#define FOVEA_CLI_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct segments_grid {
    uint32_t width, height, classes; /* of logits[y][x][class]; 256 classes at most */
} segments_grid;

/* Floats that segments_classify works in. */
size_t segments_room(const segments_grid *grid);
/* Logits resized to width x height bilinearly (torch's align_corners False); the largest wins, the
 * first of equals. */
void segments_classify(uint8_t *class, uint32_t width, uint32_t height, const float *logits,
                       const segments_grid *grid, float *room);

#endif
