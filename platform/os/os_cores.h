/* os_cores.h: finds the processors that this process may use, how fast each one is, and how many of
 * them the process can keep busy. */
#ifndef FOVEA_PLATFORM_OS_CORES_H
#define FOVEA_PLATFORM_OS_CORES_H

#include <stdbool.h>
#include <stdint.h>

#define FV_PROCESSORS 1024

/* A processor. `capacity` is its relative speed: equal for all cores of a symmetric machine, larger
 * for faster cores. */
typedef struct fv_processor {
    uint32_t id, capacity;
} fv_processor;

typedef struct fv_cores {
    uint32_t n;
    /* How many can be busy at the same time; fewer than n if a cgroup limits their time. */
    uint32_t most;
    fv_processor cpu[FV_PROCESSORS];
} fv_cores;

/* Finds the processors of this process, at least one, considering affinity, cpuset and processors
 * that are off. */
void fv_cores_find(fv_cores *out);

/* Does what fv_cores_find() does for a system whose /sys and /proc are under `root`, and for a
 * thread that may use each processor `id` for which allowed[id] is true. */
void fv_cores_read(fv_cores *out, const char *root, const bool allowed[FV_PROCESSORS]);

/* Returns whether `list` (such as "4-7,0") names processor `id`, or -1 if the list is malformed. */
int fv_cores_listed(const char *list, uint32_t id);

#endif
