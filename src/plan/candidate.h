/* candidate.h: one way in which the sweeps of a plan could run: their schedules, a kernel for every
 * step and a place for every value. fit.c makes several candidates from the same cut, compares
 * them, and commits the best one to the plan. Making a candidate does not change the plan. */
#ifndef FOVEA_SRC_PLAN_CANDIDATE_H
#define FOVEA_SRC_PLAN_CANDIDATE_H

#include <fovea/plans.h>

#include "plan/arena.h"
#include "plan/sweep.h"

/* How a step of a stepwise sweep is split over the workers. */
typedef struct fv_step_tiles {
    uint32_t rows, cols; /* size of a tile */
    uint32_t all_cols;   /* columns of the step, in units of its op: columns, heads, or 1 */
} fv_step_tiles;

/* The candidate's choices for a step. */
typedef struct fv_step_plan {
    const fv_kernel *kernel;
    fv_knobs knobs;
    const char *source; /* origin of the choice of the kernel */
    double flops, seconds;
    fv_step_tiles tiles;
    uint32_t groups; /* number of partials that the step reads or writes; 0: none */
} fv_step_plan;

/* The place of a value in memory. */
typedef struct fv_value_place {
    uint32_t groups;      /* PARTIAL: number of partials */
    uint32_t ring, shift; /* inside a sweep of row tiles: see fv_operand */
    bool persistent;      /* rows are kept from one row tile to the next */
    bool reuses;          /* overwrites another value */
    fv_id reused_by;      /* the value that overwrites this one, row by row, in its last sweep;
                             or FV_NO_VALUE */
    uint32_t saved_rows;  /* number of rows at each end of a unit of that sweep that are saved
                             before the sweep begins */
    fv_ref saved;         /* place of the saved rows: head and tail of each unit */
    fv_ref ref;
} fv_value_place;

typedef struct fv_plan_candidate {
    fv_step_plan *step;    /* parallel to the graph's steps */
    fv_value_place *place; /* parallel to the graph's values */
    fv_plan_sweep *sweep;  /* the sweeps of the cut, with their schedules */
    fv_bank *bank;         /* banks of region r: first_bank[r] to first_bank[r + 1] */
    uint32_t first_bank[FV_REGIONS + 1];
    uint64_t region_size[FV_REGIONS];
    fv_id oversize; /* a value that is larger than the device's largest buffer; or FV_NO_VALUE */
    uint64_t oversize_bytes;
    uint64_t blocks;        /* bytes of region RESIDUAL that only the workers' blocks need */
    uint64_t scratch;       /* bytes per worker */
    uint64_t weights_there; /* bytes of the plan's packed weights that are already on the device */
    fovea_plan_info info;   /* the plan's info, with the numbers of this candidate */
} fv_plan_candidate;

/* Returns the problem of step i with the candidate's number of partials. */
static inline fv_problem fv_candidate_problem(const fv_plan_candidate *c, const fv_step *s,
                                              uint32_t i)
{
    fv_problem p = s->prob;
    const uint8_t groups = fv_op_table[p.op]->groups;
    if (groups && c->step[i].groups)
        p.dim[groups] = c->step[i].groups;
    return p;
}

void fv_candidate_free(fv_plan_candidate *c);

#endif
