/* check_region.h: memory between inaccessible pages, whose every byte is watched. */
#ifndef FOVEA_TESTS_CHECK_REGION_H
#define FOVEA_TESTS_CHECK_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct check_region {
    uint8_t *map, *pages, *at;
    uint8_t *image; /* what the pages held before the call */
    size_t mapped, usable, size;
} check_region;

/* `size` bytes at `at`, right before an inaccessible page or right after one; all poisoned. */
void check_region_open(check_region *r, size_t size, bool at_end, size_t align);
/* Takes the image. */
void check_region_remember(check_region *r);
/* Where the pages differ from the image, as an offset to `at`; false when nowhere. */
bool check_region_changed(const check_region *r, long *where);
void check_region_close(check_region *r);

#endif
