/* plan.h: a plan: steps cut into sweeps, placed and bound. */
#ifndef FOVEA_SRC_PLAN_H
#define FOVEA_SRC_PLAN_H

#include "graph/emit.h"
#include "plan/advice.h"

/* Regions of device memory: a buffer each, or several where the device limits their size. */
enum fv_region {
    FV_REGION_RESIDUAL,
    FV_REGION_STATES,
    FV_REGION_KEPT,
    FV_REGION_CHUNKS,
    FV_REGION_STAGING,
    /* of a throughput device, where there is one worker and its block is a region as the others
       are: */
    FV_REGION_LOCAL,
    FV_REGION_SCRATCH,
    FV_REGIONS
};

/* One buffer of a region. */
typedef struct fv_bank {
    fv_mem mem;
    uint64_t size;
} fv_bank;

typedef struct fv_plan_sweep {
    uint32_t first, count; /* steps */
    uint32_t rows;         /* rows that it computes */
    uint32_t chunk, chunks, groups;
    uint32_t parts; /* partial states that one call of a REDUCE step serves */
    uint32_t runs;  /* streamed: units of work, each of consecutive groups */
    uint32_t width; /* chunks are bands: tokens in a row of the grid; else 0 */
    uint32_t reach; /* the most that a step runs ahead */
    uint32_t align; /* chunks are multiples of it */
    bool streamed;
    bool reduces;
    bool alone;         /* one step that is never streamed */
    uint32_t target;    /* the chunk that was aimed at */
    const char *source; /* who chose schedule and chunk */
} fv_plan_sweep;

/* Frame number `ticket` is at ticket % FV_FLIGHTS. */
typedef struct fv_flight {
    fv_fence fence;      /* once the fallback plan has taken over: its ticket */
    fovea_status status; /* once it is done */
    /* With a fallback plan, what was handed over, and when: */
    fovea_frame frame;
    double since;
} fv_flight;
#define FV_FLIGHTS 4 /* more than any device takes at once */

/* What takes over when the device is lost. */
typedef struct fv_fallback {
    fovea_plan *plan;   /* NULL: nothing does */
    fovea_output *outs; /* of the frames in flight, one after the other */
    double patience;    /* seconds for a frame */
    double completed;   /* when the last frame was done */
    bool used;
} fv_fallback;

struct fovea_plan {
    fovea_device *device; /* counted */
    fv_limits limits;
    fv_advice advice;
    fovea_model *model; /* counted; also owns the packed weights */
    fv_builder b;
    fv_plan_sweep *sweep;
    uint32_t sweeps;
    fv_bank *bank; /* those of region r: first_bank[r] to first_bank[r + 1] */
    uint32_t first_bank[FV_REGIONS + 1];
    bool shares_kept; /* region KEPT, always one buffer, is another plan's */
    uint64_t region_size[FV_REGIONS];
    fv_id oversize; /* a value that is larger than any buffer of the device; or none */
    uint64_t oversize_bytes;
    uint64_t local, scratch; /* bytes per worker: values of a sweep, then kernel scratch */
    uint64_t picture_bytes;  /* of the resizing tables */
    fv_picture picture;
    fv_patch_table patch_table;
    fovea_plan_info info;
    /* per frame */
    fv_queue *queue;
    fv_bound **bound;               /* one per live step */
    fv_sweep *run;                  /* what submit gets */
    char **problem_text;            /* one per step */
    uint32_t frame_planes;          /* of a frame: the first values; 0: not a frame plan */
    fovea_ticket ticket, completed; /* the last one given out; the last one that is done */
    fv_flight flight[FV_FLIGHTS];
    double seconds; /* of the device, for the last one */
    fv_trace trace; /* event NULL: off */
    bool dry;
    bool staged; /* a device that hangs must not find the caller's memory gone */
    fv_fallback fallback;
};

typedef struct fv_plan_request {
    fovea_schedule schedule;
    uint32_t chunk;
    uint64_t memory_limit;
    bool dry;
    uint32_t reduced;   /* the chunk of sweeps that reduce; 0: as that of all others */
    const fv_mem *kept; /* the memory of a plan with the same state, to be used too; or NULL */
    const char *source; /* who says how sweeps run; NULL: wisdom is asked, then the rules */
} fv_plan_request;

/* sweep.c */
/* Which rows of what are needed; marks steps that nothing needs. */
void fv_sweep_demand(fv_builder *b);
/* Cuts the live steps into sweeps. */
fovea_status fv_sweep_cut(fovea_plan *p);
/* Chunk, groups and schedule of each sweep; sizes of partial states. */
void fv_sweep_schedule(fovea_plan *p, const fv_plan_request *r, uint32_t chunk);

/* Splits a step of a stepwise sweep over the workers: rows first, because a kernel prepares its
 * rows once per call; columns where there are too few rows, or where rows come in order. */
void fv_sweep_tile(fv_step *s, uint32_t threads);

/* The place after step `after`, at most `at`, where a sweep may be cut with the fewest bytes
 * crossing, as far as step `to` reads them. */
uint32_t fv_sweep_best_cut(const fv_builder *b, uint32_t after, uint32_t at, uint32_t to);

/* band.c */
/* Of step i in a sweep that begins with `first`: the width of the grid, where it is LOCAL and reads
 * around in what the sweep writes, else 0; what its rows must be multiples of. */
uint32_t fv_halo_width(const fv_builder *b, uint32_t first, uint32_t i);
uint32_t fv_halo_unit(const fv_builder *b, uint32_t first, uint32_t i);
/* Whether its chunks can be those of the steps before. */
bool fv_halo_fits(const fv_builder *b, uint32_t first, uint32_t i);
/* Whether a value is seen by the steps [first, end) alone. */
bool fv_halo_inside(const fv_builder *b, uint32_t first, uint32_t end, fv_id id);
/* Sets how far ahead each step of [first, end) runs; returns where the sweep must end, at most
 * `end`, for that to be possible. */
uint32_t fv_halo_assign(fv_builder *b, uint32_t first, uint32_t end);
/* The rings of a sweep of bands. */
void fv_halo_rings(fv_builder *b, const fv_plan_sweep *w);

/* arena.c: offsets for all values and the bytes of every region, unless p->oversize comes to be
 * set. */
fovea_status fv_arena_place(fovea_plan *p);
/* The buffer of the state that outlives frames. */
static inline fv_mem *fv_plan_kept(const fovea_plan *p)
{
    return &p->bank[p->first_bank[FV_REGION_KEPT]].mem;
}

/* plan.c: everything after emitting. Takes over nothing on failure. */
fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r);
/* `wisdom`: whom it asks; NULL: nobody. */
fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device, fv_wisdom *wisdom);

/* One operation to be planned: what attention's and GEMM's options have in common. */
typedef struct fv_op_options {
    const fovea_attention_options *attention; /* or NULL, and gemm */
    const fovea_gemm_options *gemm;
    uint32_t rows, chunk;
    fovea_dtype storage, out_storage;
    fovea_schedule schedule;
    uint64_t memory_limit;
    fovea_rigor rigor;
    double tune_seconds;
} fv_op_options;
/* op_plan.c: complete options as such; they must outlive them. */
fv_op_options fv_op_of_attention(const fovea_attention_options *attention);
fv_op_options fv_op_of_gemm(const fovea_gemm_options *gemm);

/* tune.c: the rigor that is meant; EINVAL for one that is unknown. What a plan's options ask to be
 * tuned before it is made: of `plan` or `op`, the other is NULL. */
fovea_status fv_tune_rigor(fovea_rigor *out, fovea_rigor asked);
fovea_status fv_tune_for(const fovea_model *model, fovea_device *device,
                         const fovea_plan_options *plan, const fv_op_options *op);

/* frame_plan.c: *own gets the defaults and what the caller's options say; *rule belongs to it. */
fovea_status fv_plan_options(fovea_plan_options *own, fovea_preprocess *rule,
                             const fovea_plan_options *options);
/* fovea_plan_create, asking `wisdom`. */
fovea_status fv_frame_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                           const fovea_plan_options *options, fv_wisdom *wisdom);
/* Its steps alone, for fv_plan_finish. */
fovea_status fv_frame_emit(fovea_plan **out, const fovea_model *model, fovea_device *device,
                           const fovea_plan_options *options, fv_wisdom *wisdom,
                           const fv_training *training);

/* op_plan.c: the plan of one operation, asking `wisdom`, with the state of another plan. */
fovea_status fv_op_plan(fovea_plan **out, fovea_device *device, const fv_op_options *options,
                        const fv_mem *kept, fv_wisdom *wisdom);
/* Name of the activation of an epilogue, as fovea_gemm_options has it; NULL without one. */
const char *fv_op_activation(uint32_t epi);
/* op_check.c: whether the options of an attention fit together. */
fovea_status fv_op_check(const fovea_attention_options *o, const fv_attention_name *name);
/* op_attention.c: its steps. */
fovea_status fv_op_attention(fv_builder *b, const fovea_attention_options *o,
                             const fv_attention_name *name);
/* Floats of a causal operation's state, 0 without one: S of every head, then Z. */
uint64_t fv_op_state_floats(const fovea_plan *p);

/* fallback.c: the fallback plan that the options ask for. */
fovea_status fv_fallback_make(fovea_plan *p, const fovea_plan_options *options);
void fv_fallback_free(fv_fallback *s);
/* Of a frame that was handed over; then the seconds that the device has left for it. */
void fv_fallback_note(fovea_plan *p, fovea_ticket ticket, const fovea_frame *frame,
                      const fovea_output *outs);
double fv_fallback_patience(const fovea_plan *p, fovea_ticket ticket);
/* The device was lost: gives all frames in flight to the fallback plan, to be waited for there. */
fovea_status fv_fallback_take_over(fovea_plan *p);
fovea_status fv_fallback_wait(fovea_plan *p, fovea_ticket ticket, double timeout);

/* run.c: checks a plane of a frame; EINVAL. *stride gets the bytes from row to row. */
fovea_status fv_frame_plane(const fovea_plan *p, const fovea_frame *frame, uint32_t plane,
                            uint64_t *stride);

/* run.c: the planes of a frame become the plan's first inputs. */
fovea_status fv_frame_bind(fovea_plan *p, const fovea_frame *frame);

/* run.c: an operation on its first `rows` rows; the state goes on from what it is. */
fovea_status fv_op_run(fovea_plan *p, uint32_t rows, const fovea_matrix *inputs, size_t n_inputs,
                       fovea_matrix output);

#endif
