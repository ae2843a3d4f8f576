/* arena.h: where every value lies in memory. */
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

/* Offsets for all values and the bytes of every region, unless p->oversize comes to be
 * set. */
fovea_status fv_arena_place(fovea_plan *p);

#endif
