/* sweep.h: which rows are needed, where the list of steps is cut, how each sweep runs. */
#ifndef FOVEA_SRC_PLAN_SWEEP_H
#define FOVEA_SRC_PLAN_SWEEP_H

#include "graph/graph.h"

typedef struct fv_plan_request fv_plan_request;

typedef struct fv_plan_sweep {
    uint32_t first, count; /* steps */
    uint32_t rows;         /* rows that it computes */
    uint32_t chunk, chunks;
    uint32_t groups;   /* reduction groups; of a sweep that reduces nothing as many as chunks */
    uint32_t partials; /* that one call of a REDUCE step adds to */
    uint32_t runs;     /* streamed: units of work, each of consecutive groups */
    uint32_t width;    /* chunks are row tiles with halo: tokens in a grid row; else 0 */
    uint32_t reach;    /* grid rows: the most that a step runs ahead */
    uint32_t align;    /* chunks are multiples of it */
    bool streamed;
    bool reduces;
    bool saves;         /* borders of values that others take the place of, before it begins */
    bool alone;         /* one step that is never streamed */
    uint32_t target;    /* the chunk asked for, before equal_chunks */
    const char *source; /* who chose schedule and chunk */
    uint64_t block; /* streamed, with several workers' memory: bytes of each one's values inside */
    fv_ref blocks;  /* where they are, one after the other */
    uint32_t bands; /* of a banded sweep (band.h), else 0 */
    fv_rows *band;  /* [step - first][band]: rows of each step; the sweep's own */
} fv_plan_sweep;

/* Cuts the live steps into sweeps. */
fovea_status fv_sweep_cut(fovea_plan *p);
/* Chunk, groups and schedule of each sweep; sizes of partial states. */
void fv_sweep_schedule(fovea_plan *p, const fv_plan_request *r, uint32_t chunk);

/* Splits a step of a stepwise sweep over the workers: by rows first, because a kernel prepares its
 * rows once per call; by columns where there are too few rows, or where rows depend on earlier
 * rows. */
void fv_sweep_tile(fv_step *s, uint32_t threads);

/* Where to cut after step `after` and not beyond `at`: the place that values of the fewest bytes
 * cross. */
uint32_t fv_sweep_best_cut(const fv_graph *g, uint32_t after, uint32_t at);
/* Whether an operand must be complete before it is read, instead of row by row as it is written. */
bool fv_reads_finished(const fv_use *u);

#endif
