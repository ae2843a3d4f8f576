/* mask_runs.c: fovea_mask_runs: the pixels of a mask as run lengths. */
#include <stdbool.h>

#include "base/status.h"
#include "run/task_output.h"

/* Counts a run, and writes it if there is space for it. */
static void append(uint32_t *runs, size_t capacity, size_t *n, uint32_t length)
{
    if (*n < capacity)
        runs[*n] = length;
    ++*n;
}

fovea_status fovea_mask_runs(const uint8_t *inside, uint32_t width, uint32_t height, uint32_t *runs,
                             size_t capacity, size_t *count)
{
    FV_TRY(fv_require(inside, "the map"));
    FV_TRY(fv_require(count, "the pointer to the number of runs"));
    if ((uint64_t)width * height > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "a mask of %u x %u pixels is too large; it may have %u pixels",
                       width, height, UINT32_MAX);
    const size_t space = runs ? capacity : 0;
    uint32_t length = 0;
    bool now = false;
    *count = 0;
    for (uint32_t x = 0; x < width; x++)
        for (uint32_t y = 0; y < height; y++, length++)
            if ((inside[(size_t)y * width + x] != 0) != now) {
                append(runs, space, count, length);
                length = 0;
                now = !now;
            }
    append(runs, space, count, length);
    return runs ? fv_task_output_capacity("runs", space, *count) : FOVEA_OK;
}
