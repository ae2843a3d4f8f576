/* plan.h: a plan: steps cut into sweeps, placed and bound. */
#ifndef FOVEA_SRC_PLAN_H
#define FOVEA_SRC_PLAN_H

#include <fovea/crops.h>

#include "plan/advice.h"
#include "plan/candidate.h"
#include "plan/refusal.h"
#include "plan/runtime.h"
#include "weights/packed.h"

/* What is cut out of frames before they are run: of FOVEA_RESIZE_BOX the box around the whole
 * frame. The steps see R, G, B of these; there are as many as frames can be in flight. */
typedef struct fv_crops {
    uint8_t *pixels;
    uint64_t size; /* bytes of one; 0: frames are run as they are */
    fovea_yuv_matrix yuv;
} fv_crops;

/* A value whose channels are divided by powers of two: equalise_channels.c. */
typedef struct fv_equal_value {
    bool divided;
    uint32_t first_step; /* by this step, and those after it */
    const float *factor; /* of rows: what each column is multiplied by */
} fv_equal_value;

/* The frames that a plan is for. */
typedef struct fv_plan_frame {
    uint32_t planes; /* the first values of the graph; 0: not a plan of frames */
    fovea_pixel_format format;
    uint32_t width, height;
    fv_picture picture; /* what they become */
    fv_patch_table patch_table;
    fv_crops crops;
    uint64_t bytes; /* of the picture's tables and the crops */
} fv_plan_frame;

/* Kernels that the device did not take. */
typedef struct fv_refusals {
    fv_refusal *list;
    uint32_t count, capacity;
} fv_refusals;

struct fovea_plan {
    fovea_device *device; /* counted */
    fv_limits limits;
    fv_advice advice;
    fovea_model *model; /* counted; also owns the packed weights */
    /* known once the graph is emitted: */
    fv_plan_frame frame;
    fv_graph graph;
    fv_emit_options options;
    /* once it is planned: */
    fv_cut cut;
    fv_equal_value *equal; /* parallel to the graph's values; NULL: no channel was equalised */
    fv_plan_candidate chosen;
    fv_packed **packed;   /* of every operand of every step; NULL: dry */
    bool shares_kept;     /* region KEPT belongs to another plan */
    uint64_t free_memory; /* of the device, when the plan was fitted; UINT64_MAX: not known */
    fv_refusals refused;
    fovea_plan_info info;
    char **problem_text; /* one per step */
    char *untrained;     /* the text of info.untrained; or NULL */
    bool dry;
    bool staged; /* use own staging buffers: a hung device must not touch caller memory that was
                    freed */
    /* while it runs: */
    fv_runtime run;
};

/* What was decided of a step of the plan's graph. */
static inline const fv_step_plan *fv_plan_of_step(const fovea_plan *p, const fv_step *s)
{
    return &p->chosen.step[s - p->graph.step];
}

/* The sweep that has it. */
static inline const fv_plan_sweep *fv_sweep_of_step(const fovea_plan *p, const fv_step *s)
{
    return &p->chosen.sweep[p->cut.step[s - p->graph.step].sweep];
}

/* The packed weight of operand o of a step. */
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
    uint32_t reduced;       /* the chunk of sweeps that reduce; 0: the same as of the others */
    const fovea_plan *kept; /* the plan whose states this one continues; NULL: it has its own */
    const char *source;     /* origin of schedule and chunk; NULL: wisdom, then the cost rules */
    bool unbanded;          /* steps of banded sweeps are by themselves */
} fv_plan_request;

/* kept.c: bytes of all states that outlive frames, and these: made zero, read, written. */
static inline uint64_t fv_plan_kept_bytes(const fovea_plan *p)
{
    return p->chosen.region_size[FV_REGION_KEPT];
}
fovea_status fv_plan_kept_reset(const fovea_plan *p);
fovea_status fv_plan_kept_read(const fovea_plan *p, void *out, uint64_t bytes);
fovea_status fv_plan_kept_write(const fovea_plan *p, const void *in, uint64_t bytes);

/* All phases after emitting. On failure the caller keeps ownership of `p`. */
fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r);
/* An empty plan. `wisdom`: the store for its choices; NULL: none. */
fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device, fv_wisdom *wisdom);
/* The plan without its fallback, which fovea_plan_free frees first. */
void fv_plan_free(fovea_plan *p);

/* The phases of fv_plan_finish, in their order, after the cut (sweep.h) and equal channels. */

/* fit.c: compares candidates: schedules, kernels and places that fit the device and the memory
 * limit. ENOMEM names what does not. */
fovea_status fv_plan_fit(fovea_plan *p, const fv_plan_request *r);
/* candidate.c: with chunks of `chunk` rows, planned for `workers` workers. ENOTSUP, ENOMEM. */
fovea_status fv_candidate_make(fv_plan_candidate *out, const fovea_plan *p,
                               const fv_plan_request *r, uint32_t chunk, uint32_t workers);
/* schedule.c: chunk, groups and schedule of each sweep, tiles of each step, sizes of partials. */
void fv_sweep_schedule(const fovea_plan *p, fv_plan_candidate *c, const fv_plan_request *r,
                       uint32_t chunk);
/* Splits a step of a stepwise sweep over the workers: by rows first, because a kernel prepares its
 * rows once per call; by columns where there are too few rows, or where rows depend on earlier
 * rows. */
fv_step_tiles fv_sweep_tile(const fv_step *s, uint32_t threads);
/* in_place.c: which values have one place, as the sweeps are scheduled. */
void fv_in_place_find(const fovea_plan *p, fv_plan_candidate *c);
/* Whether y will replace another, if the steps [first, end) are a streamed sweep. */
bool fv_in_place_likely(const fv_cut *c, uint32_t first, uint32_t end, fv_id y);
/* choose.c: a kernel for every step: what wisdom says, else the one of lowest cost. ENOTSUP. */
fovea_status fv_plan_choose(const fovea_plan *p, fv_plan_candidate *c);
/* arena.c: the place of every value, and the size of every region; if a value is larger than any
 * buffer of the device, c->oversize instead. */
fovea_status fv_arena_place(const fovea_plan *p, fv_plan_candidate *c);
/* account.c: the candidate's bytes by kind, in c->info. */
void fv_plan_account(const fovea_plan *p, fv_plan_candidate *c);
/* Bytes of everything but the weights. */
uint64_t fv_plan_activations(const fovea_plan_info *i);
/* equalise_channels.c: channels that products of int8 read are made alike, by factors of weights
 * that change no result of float products. Before weights are counted and packed. */
fovea_status fv_plan_equalise(fovea_plan *p);
/* pack.c: packed weights, shared with the model's other plans; memory for every region. */
fovea_status fv_plan_pack(fovea_plan *p);
fovea_status fv_plan_allocate(fovea_plan *p, const fovea_plan *kept);
/* Gives back what fv_plan_allocate and fv_plan_bind have made, also in part. */
void fv_plan_unplace(fovea_plan *p);
/* info.c: texts of the problems. */
fovea_status fv_plan_describe_steps(fovea_plan *p);
/* bind.c: the backend freezes every step; opens the queue. ENOTSUP: kernels were refused. */
fovea_status fv_plan_bind(fovea_plan *p);

#endif
