/* plan.h: a plan: steps that are cut into sweeps, placed in memory and bound to kernels. */
#ifndef FOVEA_SRC_PLAN_H
#define FOVEA_SRC_PLAN_H

#include <fovea/crops.h>

#include "plan/advice.h"
#include "plan/candidate.h"
#include "plan/refusal.h"
#include "plan/runtime.h"
#include "weights/packed.h"

/* Default rows per chunk: the block of rows for which a GEMM reads its weights once (12 row tiles
 * of 14 rows). The caller, wisdom or a memory limit may choose another number. */
#define FV_CHUNK_ROWS 168

/* Crops of frames that are made before the steps run. With FOVEA_RESIZE_BOX the crop is the box
 * around the whole frame. The steps read R, G, B pixels of the crops; there is one crop for each
 * frame that can be in flight. */
typedef struct fv_crops {
    uint8_t *pixels;
    uint64_t size; /* bytes of one crop; 0: frames are not cropped */
    fovea_yuv_matrix yuv;
} fv_crops;

/* A value whose channels are divided by powers of two: equalise_channels.c. */
typedef struct fv_equal_value {
    bool divided;
    uint32_t first_step; /* the first step that writes or reads the divided channels */
    const float *factor; /* values of kind ROWS: the factor for each column that restores the
                            original */
} fv_equal_value;

/* The frames that a plan accepts. */
typedef struct fv_plan_frame {
    uint32_t planes; /* number of inputs of a frame, which are the graph's first values; 0: the
                        plan does not read frames */
    fovea_pixel_format format;
    uint32_t width, height;
    fv_picture picture; /* the picture that frames are converted to */
    fv_patch_table patch_table;
    fv_crops crops;
    uint64_t bytes; /* bytes of the picture's tables and the crops */
} fv_plan_frame;

/* Kernels that the device refused. */
typedef struct fv_refusals {
    fv_refusal *list;
    uint32_t count, capacity;
} fv_refusals;

struct fovea_plan {
    fovea_device *device; /* reference-counted */
    fv_limits limits;
    fv_advice advice;
    fovea_model *model; /* reference-counted; also owns the packed weights */
    /* known once the graph is emitted: */
    fv_plan_frame frame;
    fv_graph graph;
    fv_emit_options options;
    /* set by planning: */
    fv_cut cut;
    fv_equal_value *equal; /* parallel to the graph's values; NULL: there are no products of
                              int8, and nothing is divided */
    fv_plan_candidate chosen;
    fv_packed **packed;   /* packed weight of every operand of every step; NULL: a dry plan has
                             no weights */
    bool shares_kept;     /* region KEPT belongs to another plan */
    uint64_t free_memory; /* free bytes of the device when the plan was fitted; UINT64_MAX:
                             unknown */
    fv_refusals refused;
    fovea_plan_info info;
    char **problem_text; /* one per step */
    char *untrained;     /* the text of info.untrained; or NULL */
    bool dry;
    bool staged; /* inputs and outputs are copied through the plan's own buffers, because a hung
                    device must not touch memory that the caller has freed */
    /* state while the plan runs: */
    fv_runtime run;
};

/* Returns the plan's choices for a step of its graph. */
static inline const fv_step_plan *fv_plan_of_step(const fovea_plan *p, const fv_step *s)
{
    return &p->chosen.step[s - p->graph.step];
}

/* Returns the sweep that contains the step. */
static inline const fv_plan_sweep *fv_sweep_of_step(const fovea_plan *p, const fv_step *s)
{
    return &p->chosen.sweep[p->cut.step[s - p->graph.step].sweep];
}

/* Returns the packed weight of operand o of a step. */
static inline fv_packed *fv_packed_of_step(const fovea_plan *p, const fv_step *s, uint32_t o)
{
    return p->packed[(size_t)(s - p->graph.step) * FV_OPERANDS + o];
}

static inline fovea_box fv_whole_frame(const fovea_plan *p)
{
    return (fovea_box){0, 0, p->frame.width, p->frame.height};
}

typedef struct fv_plan_request {
    fovea_schedule schedule;
    uint32_t chunk;
    uint64_t memory_limit;
    bool dry;
    uint32_t reduced;       /* chunk of sweeps that reduce; 0: the same as for other sweeps */
    const fovea_plan *kept; /* the plan whose states this one continues; NULL: it has its own
                               states */
    const char *source;     /* origin of schedule and chunk; NULL: wisdom, or else the cost rules */
    bool unbanded;          /* banded sweeps run one step at a time instead */
} fv_plan_request;

/* kept.c: return the size in bytes of all states that are kept from frame to frame; clear, read and
 * write these states. */
static inline uint64_t fv_plan_kept_bytes(const fovea_plan *p)
{
    return p->chosen.region_size[FV_REGION_KEPT];
}
fovea_status fv_plan_kept_reset(const fovea_plan *p);
fovea_status fv_plan_kept_read(const fovea_plan *p, void *out, uint64_t bytes);
fovea_status fv_plan_kept_write(const fovea_plan *p, const void *in, uint64_t bytes);

/* Runs all phases that follow the emission of the steps. On failure the caller still owns `p`. */
fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r);
/* Makes an empty plan. `wisdom` is the store for its choices, or NULL. */
fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device, fv_wisdom *wisdom);
/* Frees the plan, but not its fallback plan, which fovea_plan_free frees first. */
void fv_plan_free(fovea_plan *p);

/* The phases of fv_plan_finish in their order. They follow the cut (sweep.h) and
 * fv_plan_equalise. */

/* fit.c: compares candidates, and chooses one whose schedules, kernels and places fit the device
 * and the memory limit. Returns FOVEA_ENOMEM, with a message that names what does not fit. */
fovea_status fv_plan_fit(fovea_plan *p, const fv_plan_request *r);
/* candidate.c: makes a candidate with chunks of `chunk` rows for `workers` workers. Returns
 * FOVEA_ENOTSUP if a step has no kernel, or FOVEA_ENOMEM if memory runs out. */
fovea_status fv_candidate_make(fv_plan_candidate *out, const fovea_plan *p,
                               const fv_plan_request *r, uint32_t chunk, uint32_t workers);
/* schedule.c: sets chunk, groups and schedule of each sweep, the tiles of each step and the number
 * of partials. */
void fv_sweep_schedule(const fovea_plan *p, fv_plan_candidate *c, const fv_plan_request *r,
                       uint32_t chunk);
/* Splits a step of a stepwise sweep over the workers. Splits by rows first, because a kernel
 * prepares its rows once per call; splits by columns if there are too few rows, or if rows depend
 * on earlier rows. */
fv_step_tiles fv_sweep_tile(const fv_step *s, uint32_t threads);
/* in_place.c: finds values that can be written over another value, given how the sweeps are
 * scheduled. */
void fv_in_place_find(const fovea_plan *p, fv_plan_candidate *c);
/* Returns whether y will be written over another value if the steps [first, end) are a streamed
 * sweep. */
bool fv_in_place_likely(const fv_cut *c, uint32_t first, uint32_t end, fv_id y);
/* choose.c: chooses a kernel for every step: the one that wisdom names, or else the one of the
 * lowest cost. Returns FOVEA_ENOTSUP if a step has no kernel. */
fovea_status fv_plan_choose(const fovea_plan *p, fv_plan_candidate *c);
/* arena.c: sets the place of every value and the size of every region. If a value is larger than
 * any buffer of the device, only sets c->oversize. */
fovea_status fv_arena_place(const fovea_plan *p, fv_plan_candidate *c);
/* account.c: counts the bytes that the candidate needs, by kind, in c->info. */
void fv_plan_account(const fovea_plan *p, fv_plan_candidate *c);
/* Returns the bytes that the plan needs in addition to its weights. */
uint64_t fv_plan_activations(const fovea_plan_info *i);
/* equalise_channels.c: scales the channels that products of int8 read to similar ranges, by powers
 * of two in the weights before and after them. Results of float products do not change. This must
 * run before weights are counted and packed. */
fovea_status fv_plan_equalise(fovea_plan *p);
/* pack.c: fv_plan_pack packs the weights, or shares those that another plan of the model has
 * packed. fv_plan_allocate then allocates every region. */
fovea_status fv_plan_pack(fovea_plan *p);
fovea_status fv_plan_allocate(fovea_plan *p, const fovea_plan *kept);
/* Releases everything that fv_plan_allocate and fv_plan_bind have made, even if they failed
 * halfway. */
void fv_plan_unplace(fovea_plan *p);
/* info.c: makes the text of every step's problem, for fovea_plan_step. */
fovea_status fv_plan_describe_steps(fovea_plan *p);
/* bind.c: makes the backend bind every step to its kernel, weights and memory, and opens the queue.
 * Returns FOVEA_ENOTSUP if the device refused kernels. */
fovea_status fv_plan_bind(fovea_plan *p);

#endif
