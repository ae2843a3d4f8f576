/* check_region.h: memory between inaccessible pages, with a check of every byte. */
#ifndef FOVEA_TESTS_CHECK_REGION_H
#define FOVEA_TESTS_CHECK_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct check_region {
    uint8_t *map, *pages, *at;
    uint8_t *image; /* content of the pages before the call */
    size_t mapped, usable, size;
} check_region;

/* Allocates `size` bytes directly before an inaccessible page (`at_end`) or directly after one, all
 * poisoned. */
void check_region_open(check_region *r, size_t size, bool at_end, size_t align);
/* Saves the current content as the image. */
void check_region_remember(check_region *r);
/* Returns whether the pages differ from the image, and sets *where to the offset of the difference
 * from `at`. */
bool check_region_changed(const check_region *r, long *where);
void check_region_close(check_region *r);

#endif
