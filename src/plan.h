/* plan.h: a plan: steps cut into sweeps, placed and bound. */
#ifndef FOVEA_SRC_PLAN_H
#define FOVEA_SRC_PLAN_H

#include "emit.h"

/* Regions of device memory, one buffer each. LOCAL is per worker. */
enum fv_region {
    FV_REGION_RESIDUAL,
    FV_REGION_STATES,
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
    uint32_t n_inputs; /* op plans: matrices in */
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

#endif
