/* plan.h: a plan: steps cut into sweeps, placed and bound. */
#ifndef FOVEA_SRC_PLAN_H
#define FOVEA_SRC_PLAN_H

#include "emit.h"

/* Regions of device memory, one buffer each. LOCAL is per worker. */
enum fv_region {
    FV_REGION_RESIDUAL,
    FV_REGION_STATES,
    FV_REGION_KEPT,
    FV_REGION_CHUNKS,
    FV_REGION_STAGING,
    FV_REGIONS
};

typedef struct fv_plan_sweep {
    uint32_t first, count; /* steps */
    uint32_t rows;         /* rows that it computes */
    uint32_t chunk, chunks, groups;
    bool streamed;
    bool reduces;
} fv_plan_sweep;

struct fovea_plan {
    const fovea_device *device;
    fovea_model *model; /* counted; also owns the packed weights */
    fv_builder b;
    fv_plan_sweep *sweep;
    uint32_t sweeps;
    fv_mem region[FV_REGIONS];
    bool shares_kept; /* region KEPT is another plan's */
    uint64_t region_size[FV_REGIONS];
    uint64_t local, scratch; /* bytes per worker: values of a sweep, then kernel scratch */
    uint64_t table_bytes;
    fv_picture picture;
    fv_patch_table patch_table;
    fv_posemb_table posemb_table;
    fovea_plan_info info;
    /* per frame */
    fv_queue *queue;
    fv_bound **bound;    /* one per live step */
    fv_sweep *run;       /* what submit gets */
    char **problem_text; /* one per step */
    uint64_t frame_row;  /* least bytes of a frame's row; 0: not a frame plan */
    uint32_t frame_planes;
    fovea_ticket ticket;
    fv_fence fence;
    bool in_flight;
    bool dry;
};

typedef struct fv_plan_request {
    fovea_schedule schedule;
    uint32_t chunk;
    uint64_t memory_limit;
    bool dry;
    const fv_mem *kept; /* the memory of a plan with the same state, to be used too; or NULL */
} fv_plan_request;

/* sweep.c */
/* Which rows of what are needed; marks steps that nothing needs. */
void fv_sweep_demand(fv_builder *b);
/* Cuts the live steps into sweeps. */
fovea_status fv_sweep_cut(fovea_plan *p);
/* Chunk, groups and schedule of each sweep; sizes of partial states. */
void fv_sweep_schedule(fovea_plan *p, const fv_plan_request *r, uint32_t chunk);

/* arena.c: offsets for all values and the bytes of every region. */
fovea_status fv_arena_place(fovea_plan *p);

/* plan.c: everything after emitting. Takes over nothing on failure. */
fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r);
fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device);

/* op_plan.c: fovea_op_plan_create, with the state of another plan. */
fovea_status fv_op_plan(fovea_plan **out, fovea_device *device, const fovea_op_options *options,
                        const fv_mem *kept);
static inline enum fv_type fv_op_type(fovea_dtype type)
{
    return type == FOVEA_F32 ? FV_F32 : type == FOVEA_F16 ? FV_F16 : FV_BF16;
}
/* op_check.c: whether the options of an attention fit together. */
fovea_status fv_op_check(const fovea_op_options *o, const fv_attention_name *name);
/* op_attention.c: its steps. */
fovea_status fv_op_attention(fv_builder *b, const fovea_op_options *o,
                             const fv_attention_name *name);
/* Floats of a causal operation's state, 0 without one: S of every head, then Z. */
uint64_t fv_op_state_floats(const fovea_plan *p);

/* run.c: an operation on its first `rows` rows; the state goes on from what it is. */
fovea_status fv_op_run(fovea_plan *p, uint32_t rows, const fovea_matrix *inputs, size_t n_inputs,
                       fovea_matrix output);

#endif
