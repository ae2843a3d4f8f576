/* sweep.h: sweeps: how the list of steps is cut into them, and how each one runs. */
#ifndef FOVEA_SRC_PLAN_SWEEP_H
#define FOVEA_SRC_PLAN_SWEEP_H

#include "graph/graph.h"

typedef struct fv_plan_sweep {
    /* the cut's: */
    uint32_t first, count; /* steps */
    uint32_t rows;         /* rows that it computes */
    uint32_t width;        /* chunks are row tiles with halo: tokens in a grid row; else 0 */
    uint32_t reach;        /* grid rows: the largest halo of a step of the sweep */
    uint32_t align;        /* chunks are multiples of this many rows; a candidate may raise it */
    bool reduces;
    bool alone;     /* one step that is never streamed */
    uint32_t bands; /* of a banded sweep (band.h), else 0 */
    fv_rows *band;  /* [step - first][band]: rows of each step; the cut's own */
    /* the candidate's (candidate.h): */
    uint32_t chunk, chunks;
    uint32_t groups;   /* reduction groups; a sweep that reduces nothing has one per chunk */
    uint32_t partials; /* partials that one call of a REDUCE step adds to */
    uint32_t runs;     /* streamed: units of work, each of consecutive groups */
    bool streamed;
    bool saves;         /* before it begins, it saves the borders of values that others replace */
    uint32_t target;    /* the chunk asked for, before equal_chunks */
    const char *source; /* who chose schedule and chunk */
    uint64_t block;     /* streamed, if every worker has its own memory: bytes of the values inside,
                           per worker */
    fv_ref blocks;      /* where these blocks are, one after the other */
} fv_plan_sweep;

/* Of a step. */
typedef struct fv_step_cut {
    uint32_t sweep; /* that has it */
    uint32_t halo;  /* grid rows that it computes beyond the sweep's row tile, at each side */
} fv_step_cut;

/* The life of a value. */
typedef struct fv_value_life {
    uint32_t first_step, last_step; /* the first and last step that use it; first_step
                                       UINT32_MAX: unused */
    uint32_t first_sweep, last_sweep;
    uint32_t band_rows; /* inside a banded sweep: its rows in the band that needs most of them */
} fv_value_life;

/* How the steps of a graph are cut into sweeps. The cut does not depend on the sweeps'
 * schedules. */
typedef struct fv_cut {
    const fv_graph *graph;
    fv_step_cut *step;   /* parallel to the graph's steps */
    fv_value_life *life; /* and to its values */
    fv_plan_sweep *sweep;
    uint32_t sweeps;
} fv_cut;

typedef struct fv_cut_request {
    uint32_t threads;
    bool bands; /* there may be banded sweeps */
} fv_cut_request;

/* Cuts the live steps into sweeps. The caller frees *out on failure too. */
fovea_status fv_cut_make(fv_cut *out, const fv_graph *g, const fv_cut_request *r);
void fv_cut_free(fv_cut *c);

/* The best step before which to cut, in (after, at]: where the values that cross the cut have the
 * fewest bytes per row. */
uint32_t fv_sweep_best_cut(const fv_cut *c, uint32_t after, uint32_t at);
/* Whether an operand must be complete before it is read, instead of row by row as it is written. */
bool fv_reads_finished(const fv_use *u);

#endif
