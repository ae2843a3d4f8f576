/* task_output.h: what functions of results.h have in common: the caller's outputs by what they are,
 * and where the pixels of a map lie in an output's grid. */
#ifndef FOVEA_SRC_RUN_TASK_OUTPUT_H
#define FOVEA_SRC_RUN_TASK_OUTPUT_H

#include "plan/plan.h"
#include "plan/task_room.h"

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
                               fovea_kind kind, const char *usual);
/* EINVAL where `room` is less than `needed`. */
fovea_status fv_task_output_room(const char *what, size_t room, size_t needed);

/* A map, and where the picture's patches lie among its pixels. */
typedef struct fv_extent {
    uint32_t width, height;
    double left, top, across, down; /* pixels of the map; `across` by `down` of them */
    double right, bottom;           /* where the picture ends: patches may leave a rest */
} fv_extent;
fovea_status fv_extent_of(fv_extent *out, const fovea_plan *p, fovea_extent which);

/* Of the rows and the columns of a map where they lie in a grid of so many places. Columns are the
 * same in every row: they are worked out once for a map, in the plan's room. */
fv_between fv_extent_row(const fv_extent *e, uint32_t y, uint32_t places);
const fv_between *fv_extent_columns(const fv_extent *e, const fovea_plan *p, uint32_t places);

/* out[i] = a[i] + part (b[i] - a[i]) */
static inline void fv_blend(float *out, const float *a, const float *b, float part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] + part * (b[i] - a[i]);
}

#endif
