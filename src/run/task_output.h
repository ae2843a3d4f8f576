/* task_output.h: what functions of results.h have in common: the caller's outputs by what they are,
 * and the positions of a map's pixels in an output's grid. */
#ifndef FOVEA_SRC_RUN_TASK_OUTPUT_H
#define FOVEA_SRC_RUN_TASK_OUTPUT_H

#include "plan/plan.h"
#include "plan/result_scratch.h"

/* An output that the caller gave. */
typedef struct fv_task_output {
    const float *data; /* from the first place of the grid on */
    uint32_t rows, columns;
    fv_grid grid;
} fv_task_output;

/* Checks arguments that all have. */
fovea_status fv_task_output_check(const fovea_plan *p, const fovea_output *outs, size_t n_outs);
/* The output of a name; EINVAL: the plan lacks it, or its buffer is too small. */
fovea_status fv_task_output_named(fv_task_output *out, const fovea_plan *p,
                                  const fovea_output *outs, const char *name);
/* The output of a kind, which `usual` names where the plan has none. */
fovea_status fv_task_output_of(fv_task_output *out, const fovea_plan *p, const fovea_output *outs,
                               fovea_output_kind kind, const char *usual);
/* EINVAL where `capacity` is less than `needed`. */
fovea_status fv_task_output_capacity(const char *what, size_t capacity, size_t needed);

/* A map, and the part of it that the picture's patches cover. */
typedef struct fv_extent {
    uint32_t width, height;
    double left, top, across, down; /* pixels of the map; `across` by `down` of them */
    double right, bottom;           /* where the picture ends: patches may leave a rest */
} fv_extent;
fovea_status fv_extent_of(fv_extent *out, const fovea_plan *p, fovea_extent which);

/* One side of a map over a row of places: pixel i is at place scale (i + 0.5 - first) - 0.5, in
 * single precision with one rounding, as in PyTorch's kernels: a position that is rounded otherwise
 * causes larger errors than the interpolation itself. */
typedef struct fv_side {
    float scale;       /* places per pixel */
    double first, end; /* pixels of the map: where the first place begins, where the picture ends */
    uint32_t low, high; /* places from low to high - 1 count; beyond them these are repeated */
} fv_side;
/* Of the columns and the rows of a map over a grid with `places` columns or rows. */
fv_side fv_extent_across(const fv_extent *e, uint32_t places);
fv_side fv_extent_down(const fv_extent *e, uint32_t places);

/* Of the same over the pixels of the picture that was run: only those that show the map count, not
 * what fills the picture up. */
fv_side fv_extent_run_across(const fv_extent *e, const fovea_plan *p);
fv_side fv_extent_run_down(const fv_extent *e, const fovea_plan *p);

/* Between which two places a pixel lies: bilinear interpolation. */
fv_between fv_side_between(const fv_side *s, uint32_t i);
/* And between which four: cubic interpolation with a = -0.75. */
fv_cubic fv_side_cubic(const fv_side *s, uint32_t i);
/* The columns of a map, which are the same in every row: computed once for a map, in the plan's
 * scratch. */
const fv_between *fv_side_columns(fv_between *out, const fv_side *s, uint32_t width);
const fv_between *fv_extent_columns(const fv_extent *e, const fovea_plan *p, uint32_t places);
const fv_cubic *fv_extent_cubic_columns(const fv_extent *e, const fovea_plan *p, uint32_t places);

/* out[i] = a[i] + part (b[i] - a[i]) */
static inline void fv_blend(float *out, const float *a, const float *b, float part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + part * (b[i] - a[i]);
}

#endif
