/* plan.h: a plan: steps cut into sweeps, placed and bound. */
#ifndef FOVEA_SRC_PLAN_H
#define FOVEA_SRC_PLAN_H

#include <fovea/crops.h>

#include "device/import.h"
#include "plan/advice.h"
#include "plan/arena.h"
#include "plan/refusal.h"
#include "plan/sweep.h"
#include "plan/task_room.h"

/* Frame number `ticket` is at ticket % FV_FLIGHTS. */
typedef struct fv_flight {
    fv_fence fence;      /* of the backend; after a fallback: the fallback plan's ticket */
    fovea_status status; /* once it is done */
    const fovea_external_image *read; /* by the host until it is done; or NULL */
    /* With a fallback plan, the arguments of fovea_submit beside what that plan keeps, and when it
     * was called: */
    const fovea_external_image *image; /* in place of the frames; or NULL */
    uint32_t outs;
    double since;
} fv_flight;
#define FV_FLIGHTS 4 /* more frames than any device has in flight (2) */

/* The host has read what the frame reads. */
static inline void fv_flight_end(fv_flight *f)
{
    fv_external_image_end(f->read);
    f->read = NULL;
}

/* The plan that takes over when the device is lost. */
typedef struct fv_fallback {
    fovea_plan *plan;    /* NULL: no fallback */
    fovea_frame *frames; /* those in flight, one batch after the other */
    fovea_output *outs;  /* theirs */
    double patience;     /* seconds before the device counts as hung for a frame */
    double completed;    /* when the last frame was done */
    bool used;
} fv_fallback;

/* What is cut out of frames before they are run: of FOVEA_RESIZE_BOX the box around the whole
 * frame. The steps see R, G, B of these; there are as many as frames can be in flight. */
typedef struct fv_crops {
    uint8_t *pixels;
    uint64_t size; /* bytes of one; 0: frames are run as they are */
    fovea_yuv_matrix yuv;
} fv_crops;

struct fovea_plan {
    fovea_device *device; /* counted */
    fv_limits limits;
    fv_advice advice;
    fovea_model *model; /* counted; also owns the packed weights */
    fv_graph graph;
    fv_emit_options options;
    fv_result_scratch results;
    fv_refusal *refusal;
    uint32_t refusals, refusal_capacity;
    fv_plan_sweep *sweep;
    uint32_t sweeps;
    fv_bank *bank; /* banks of region r: first_bank[r] to first_bank[r + 1] */
    uint32_t first_bank[FV_REGIONS + 1];
    bool shares_kept; /* region KEPT belongs to another plan */
    uint64_t region_size[FV_REGIONS];
    fv_id oversize; /* a value that is larger than any buffer of the device; or none */
    uint64_t oversize_bytes;
    uint64_t blocks;        /* bytes of region RESIDUAL that it has for workers' blocks alone */
    uint64_t scratch;       /* bytes per worker */
    uint64_t free_memory;   /* of the device, when the plan was fitted; UINT64_MAX: not known */
    uint64_t weights_there; /* bytes of its weights that are on the device already */
    uint64_t picture_bytes; /* of the resizing tables */
    fv_picture picture;
    fv_patch_table patch_table;
    fovea_plan_info info;
    /* per frame */
    fv_queue *queue;
    fv_bound **bound;      /* one per live step, of one frame of a batch after the other */
    fv_sweep *run;         /* what submit gets */
    char **problem_text;   /* one per step */
    char *untrained;       /* the text of info.untrained; or NULL */
    uint32_t frame_planes; /* of a frame: the first values; 0: not a frame plan */
    fovea_pixel_format frame_format;
    uint32_t frame_width, frame_height;
    fv_crops crops;
    fovea_ticket ticket, completed; /* the last one given out; the last one that is done */
    fv_flight flight[FV_FLIGHTS];
    double seconds; /* of the device, for the last one */
    fv_trace trace; /* event NULL: off */
    bool dry;
    bool staged; /* use own staging buffers: a hung device must not touch caller memory that was
                    freed */
    fv_fallback fallback;
};

static inline fovea_box fv_whole_frame(const fovea_plan *p)
{
    return (fovea_box){0, 0, p->frame_width, p->frame_height};
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
    return p->region_size[FV_REGION_KEPT];
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

/* The phases of fv_plan_finish, in their order, after demand and cut (sweep.h). */

/* choose.c: a kernel for every step: what wisdom says, else the one of lowest cost. ENOTSUP. */
fovea_status fv_plan_choose(fovea_plan *p);
/* in_place.c: which values have one place, as the sweeps are scheduled. */
void fv_in_place_find(fovea_plan *p);
/* Whether y will take the place of another, if the steps [first, end) are a streamed sweep. */
bool fv_in_place_likely(const fv_graph *g, uint32_t first, uint32_t end, fv_id y);
/* account.c: the plan's bytes by kind, in p->info. */
void fv_plan_account(fovea_plan *p);
/* fit.c: schedules, kernels and places that fit the device and the memory limit. ENOMEM names
 * what does not. */
fovea_status fv_plan_fit(fovea_plan *p, const fv_plan_request *r);
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
