/* sweep.h: how the list of steps is cut into sweeps, and how each sweep runs. */
#ifndef FOVEA_SRC_PLAN_SWEEP_H
#define FOVEA_SRC_PLAN_SWEEP_H

#include "graph/graph.h"

typedef struct fv_plan_sweep {
    /* set by the cut: */
    uint32_t first, count; /* first step and number of steps */
    uint32_t rows;         /* number of rows that it computes */
    uint32_t width;        /* if chunks are row tiles with halo: tokens in a grid row; else 0 */
    uint32_t reach;        /* the largest halo of a step of the sweep, in grid rows */
    uint32_t align;        /* chunks are multiples of this number of rows; a candidate may raise
                              it */
    bool reduces;
    bool alone;     /* one step that is never streamed */
    uint32_t bands; /* number of bands of a banded sweep (band.h), else 0 */
    fv_rows *band;  /* [step - first][band]: rows of each step; owned by the cut */
    /* set by the candidate (candidate.h): */
    uint32_t chunk, chunks;
    uint32_t groups;   /* number of reduction groups; a sweep that reduces nothing has one per
                          chunk */
    uint32_t partials; /* number of partials that one call of a REDUCE step adds to */
    uint32_t runs;     /* streamed: number of units of work, each of consecutive groups */
    bool streamed;
    bool saves;         /* before it begins, it saves the borders of values that others overwrite */
    uint32_t target;    /* the requested chunk, before equal_chunks */
    const char *source; /* origin of schedule and chunk */
    uint64_t block;     /* bytes per worker of the values inside a streamed sweep, if every
                           worker has its own memory */
    fv_ref blocks;      /* place of these blocks, one after the other */
} fv_plan_sweep;

/* The cut's data about a step. */
typedef struct fv_step_cut {
    uint32_t sweep; /* the sweep that contains the step */
    uint32_t halo;  /* number of grid rows that it computes beyond the sweep's row tile, on each
                       side */
} fv_step_cut;

/* The life of a value. */
typedef struct fv_value_life {
    uint32_t first_step, last_step; /* first and last step that use the value; first_step
                                       UINT32_MAX: unused */
    uint32_t first_sweep, last_sweep;
    uint32_t band_rows; /* inside a banded sweep: number of its rows in the band that needs the
                           most */
} fv_value_life;

/* The cut of a graph's steps into sweeps. It does not depend on the sweeps' schedules. */
typedef struct fv_cut {
    const fv_graph *graph;
    fv_step_cut *step;   /* parallel to the graph's steps */
    fv_value_life *life; /* parallel to the graph's values */
    fv_plan_sweep *sweep;
    uint32_t sweeps;
} fv_cut;

typedef struct fv_cut_request {
    uint32_t threads;
    bool bands; /* whether there may be banded sweeps */
} fv_cut_request;

/* Cuts the live steps into sweeps. The caller frees *out on failure too. */
fovea_status fv_cut_make(fv_cut *out, const fv_graph *g, const fv_cut_request *r);
void fv_cut_free(fv_cut *c);

/* Returns the best step in (after, at] before which to cut: the one where the values that cross the
 * cut have the fewest bytes per row. */
uint32_t fv_sweep_best_cut(const fv_cut *c, uint32_t after, uint32_t at);
/* Returns whether an operand must be complete before it is read, instead of being read row by row
 * as it is written. */
bool fv_reads_finished(const fv_use *u);

#endif
