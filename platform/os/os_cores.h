/* os_cores.h: the processors that this process may use, how fast each is, and how many of them it
 * can keep busy.
 */
#ifndef FOVEA_PLATFORM_OS_CORES_H
#define FOVEA_PLATFORM_OS_CORES_H

#include <stdbool.h>
#include <stdint.h>

#define FV_PROCESSORS 1024

/* `capacity`: relative speed; equal on a symmetric machine, larger for faster cores. */
typedef struct fv_processor {
    uint32_t id, capacity;
} fv_processor;

typedef struct fv_cores {
    uint32_t n;
    uint32_t most; /* how many can be busy at once; fewer than n if a cgroup limits their time */
    fv_processor cpu[FV_PROCESSORS];
} fv_cores;

/* Finds the processors of this process, considering affinity, cpuset and processors that are off.
 * At least one. */
void fv_cores_find(fv_cores *out);

/* Does the same for a system whose /sys and /proc are under `root`, and a thread that may use the
 * processors with allowed[id]. */
void fv_cores_read(fv_cores *out, const char *root, const bool allowed[FV_PROCESSORS]);

/* Whether `list` ("4-7,0") names processor id; -1 when it is malformed. */
int fv_cores_listed(const char *list, uint32_t id);

#endif
