/* sweep.h: where the list of steps is cut into sweeps. */
#ifndef FOVEA_SRC_PLAN_SWEEP_H
#define FOVEA_SRC_PLAN_SWEEP_H

#include "graph/graph.h"

typedef struct fv_plan_sweep {
    /* the cut's: */
    uint32_t first, count; /* steps */
    uint32_t rows;         /* rows that it computes */
    uint32_t width;        /* chunks are row tiles with halo: tokens in a grid row; else 0 */
    uint32_t reach;        /* grid rows: the largest halo of a step */
    uint32_t align;        /* chunks are multiples of it; a candidate may take a larger one */
    bool reduces;
    bool alone;     /* one step that is never streamed */
    uint32_t bands; /* of a banded sweep (band.h), else 0 */
    fv_rows *band;  /* [step - first][band]: rows of each step; the cut's own */
    /* the candidate's (candidate.h): */
    uint32_t chunk, chunks;
    uint32_t groups;   /* reduction groups; of a sweep that reduces nothing as many as chunks */
    uint32_t partials; /* that one call of a REDUCE step adds to */
    uint32_t runs;     /* streamed: units of work, each of consecutive groups */
    bool streamed;
    bool saves;         /* borders of values that others replace, before it begins */
    uint32_t target;    /* the chunk asked for, before equal_chunks */
    const char *source; /* who chose schedule and chunk */
    uint64_t block; /* streamed, with several workers' memory: bytes of each one's values inside */
    fv_ref blocks;  /* where they are, one after the other */
} fv_plan_sweep;

/* Of a step. */
typedef struct fv_step_cut {
    uint32_t sweep; /* that has it */
    uint32_t halo;  /* grid rows computed before its sweep's row tile needs them */
} fv_step_cut;

/* The life of a value. */
typedef struct fv_value_life {
    uint32_t first_step, last_step; /* that use it; first_step UINT32_MAX: none does */
    uint32_t first_sweep, last_sweep;
    uint32_t band_rows; /* inside a banded sweep: the rows of the largest band */
} fv_value_life;

/* How the steps of a graph are cut into sweeps, whatever schedule these are given. */
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

/* Cuts the live steps into sweeps. On failure *out is to be freed too. */
fovea_status fv_cut_make(fv_cut *out, const fv_graph *g, const fv_cut_request *r);
void fv_cut_free(fv_cut *c);

/* Where to cut after step `after` and not beyond `at`: the place that values of the fewest bytes
 * cross. */
uint32_t fv_sweep_best_cut(const fv_cut *c, uint32_t after, uint32_t at);
/* Whether an operand must be complete before it is read, instead of row by row as it is written. */
bool fv_reads_finished(const fv_use *u);

#endif
