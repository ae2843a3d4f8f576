/* os_cgroup.h: lines of files under /proc and /sys, and the cgroups that this process is in,
 * versions 1 and 2.
 *
 *     /proc/self/cgroup   the groups of this process
 *     /sys/fs/cgroup      their limits
 *
 * `root` is the folder that contains /proc and /sys; it is "" for this machine.
 */
#ifndef FOVEA_PLATFORM_OS_CGROUP_H
#define FOVEA_PLATFORM_OS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define FV_LINE 4096 /* a list may name every other processor */

/* Reads the first line of a file under `root`, without its newline; false if there is none. */
bool fv_cgroup_line(char out[FV_LINE], const char *root, const char *format, ...) FV_PRINTF(3, 4);

/* Calls `visit` with the folder of each group: first the process's own, for which `nearest` is
 * true, then its ancestors. */
typedef void fv_cgroup_visit(void *ctx, const char *root, const char *folder, bool nearest);
void fv_cgroup_walk(const char *root, fv_cgroup_visit *visit, void *ctx);

/* Returns the memory limit of these cgroups in bytes, or UINT64_MAX if they set none. */
uint64_t fv_cgroup_memory(const char *root);
/* Returns the number of bytes that the kernel estimates it could give to a process now, including
 * caches that it would drop, but at most the limit of these cgroups. UINT64_MAX means unknown. */
uint64_t fv_cgroup_free(const char *root);

#endif
