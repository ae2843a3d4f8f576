/* task_output.h: code that the functions of results.h share: finds the caller's outputs by kind or
 * name, and the positions of a map's pixels in an output's grid. */
#ifndef FOVEA_SRC_RUN_TASK_OUTPUT_H
#define FOVEA_SRC_RUN_TASK_OUTPUT_H

#include "plan/plan.h"
#include "plan/result_scratch.h"

/* An output in the caller's memory. */
typedef struct fv_task_output {
    const float *data; /* begins at the first cell of the grid */
    uint32_t rows, columns;
    fv_grid grid;
} fv_task_output;

/* Checks the arguments that are common to all functions of results.h. */
fovea_status fv_task_output_check(const fovea_plan *p, const fovea_output *outs, size_t n_outs);
/* Checks that there are as many outputs as the plan has, with buffers of at least their sizes. */
fovea_status fv_task_output_sizes(const fovea_plan *p, const fovea_output *outs, size_t n_outs);
/* Finds an output by name. Returns FOVEA_EINVAL if the plan lacks it, or if its buffer is too
 * small. */
fovea_status fv_task_output_named(fv_task_output *out, const fovea_plan *p,
                                  const fovea_output *outs, const char *name);
/* Finds an output by kind. `usual` is its name in the message if the plan lacks it. */
fovea_status fv_task_output_of(fv_task_output *out, const fovea_plan *p, const fovea_output *outs,
                               fovea_output_kind kind, const char *usual);
/* Returns FOVEA_EINVAL if `capacity` is less than `needed`. */
fovea_status fv_task_output_capacity(const char *what, size_t capacity, size_t needed);

/* A map, and the part of it that the picture's patches cover. */
typedef struct fv_extent {
    uint32_t width, height;
    double left, top, across, down; /* in pixels of the map: origin and size of the part that the
                                       patches cover */
    double right, bottom;           /* in pixels of the map: end of the picture, which patches
                                       may not cover completely */
} fv_extent;
fovea_status fv_extent_of(fv_extent *out, const fovea_plan *p, fovea_extent which);

/* One side of a map over a row of cells: pixel i is at cell scale (i + 0.5 - first) - 0.5. It is
 * computed in float32 with one rounding, as in PyTorch's kernels, because a different rounding of
 * the position would cause larger errors than the interpolation itself. */
typedef struct fv_side {
    float scale;        /* cells per pixel */
    double first, end;  /* in pixels of the map: beginning of the first cell, and end of the
                           picture */
    uint32_t low, high; /* cells low to high - 1 are used; beyond them the outermost cell is
                           repeated */
} fv_side;
/* Map the columns (rows) of a map to a grid with `places` columns (rows). */
fv_side fv_extent_across(const fv_extent *e, uint32_t places);
fv_side fv_extent_down(const fv_extent *e, uint32_t places);

/* Sets *out to the canvas, to which masks are enlarged first (fv_mask_canvas). */
fovea_status fv_extent_of_canvas(fv_extent *out, const fovea_plan *p);
/* Map the columns (rows) of a map to the pixels of the canvas. Only pixels that show the map are
 * used, and no padding. */
fv_side fv_extent_canvas_across(const fv_extent *e, const fovea_plan *p);
fv_side fv_extent_canvas_down(const fv_extent *e, const fovea_plan *p);

/* Returns the two cells around the centre of pixel i, for bilinear interpolation. */
fv_between fv_side_between(const fv_side *s, uint32_t i);
/* Returns the cell of pixel i, as torch's interpolate with mode "nearest" does. */
uint32_t fv_side_nearest(const fv_side *s, uint32_t i);
/* Returns the four cells around the centre of pixel i, for cubic interpolation with a = -0.75. */
fv_cubic fv_side_cubic(const fv_side *s, uint32_t i);
/* Computes the columns of a map in the plan's scratch, once per map, because they are the same in
 * every row. */
const fv_between *fv_side_columns(fv_between *out, const fv_side *s, uint32_t width);
const fv_between *fv_extent_columns(const fv_extent *e, const fovea_plan *p, uint32_t places);
const fv_cubic *fv_extent_cubic_columns(const fv_extent *e, const fovea_plan *p, uint32_t places);

/* Computes out[i] = a[i] + part (b[i] - a[i]). */
static inline void fv_blend(float *out, const float *a, const float *b, float part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + part * (b[i] - a[i]);
}

#endif
