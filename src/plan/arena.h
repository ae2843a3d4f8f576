/* arena.h: regions and banks of device memory. */
#ifndef FOVEA_SRC_PLAN_ARENA_H
#define FOVEA_SRC_PLAN_ARENA_H

#include "device/backend.h"

/* Regions of device memory. Each region is one buffer, or several if the device limits the size of
 * buffers. */
enum fv_region {
    FV_REGION_RESIDUAL,
    FV_REGION_STATES,
    FV_REGION_KEPT,
    FV_REGION_CHUNKS,
    FV_REGION_STAGING,
    /* LOCAL is a region only on throughput devices, which have one worker; its block is then like
     * the other regions */
    FV_REGION_LOCAL,
    FV_REGION_SCRATCH,
    FV_REGIONS
};

/* One buffer of a region. */
typedef struct fv_bank {
    fv_mem mem;
    uint64_t size;
} fv_bank;

#endif
