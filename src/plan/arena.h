/* arena.h: regions and banks of device memory, and the place of every value in them. */
#ifndef FOVEA_SRC_PLAN_ARENA_H
#define FOVEA_SRC_PLAN_ARENA_H

#include "graph/emit.h"

/* Regions of device memory: a buffer each, or several where the device limits their size. */
enum fv_region {
    FV_REGION_RESIDUAL,
    FV_REGION_STATES,
    FV_REGION_KEPT,
    FV_REGION_CHUNKS,
    FV_REGION_STAGING,
    /* only on throughput devices, which have one worker: its block is a region like the others */
    FV_REGION_LOCAL,
    FV_REGION_SCRATCH,
    FV_REGIONS
};

/* One buffer of a region. */
typedef struct fv_bank {
    fv_mem mem;
    uint64_t size;
} fv_bank;

/* Sets the offsets of all values and the size of every region; if a value is larger than any buffer
 * of the device, sets p->oversize instead. */
fovea_status fv_arena_place(fovea_plan *p);

#endif
