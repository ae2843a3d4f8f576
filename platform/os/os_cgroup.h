/* os_cgroup.h: lines of files under /proc and /sys, and the cgroups that this process is in,
 * versions 1 and 2.
 *
 *     /proc/self/cgroup   which
 *     /sys/fs/cgroup      what they may have
 *
 * `root`: the folder that contains /proc and /sys; "" for this machine.
 */
#ifndef FOVEA_PLATFORM_OS_CGROUP_H
#define FOVEA_PLATFORM_OS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define FV_LINE 4096 /* a list may name every other processor */

/* Reads the first line of a file under `root`, without its newline; false if there is none. */
bool fv_cgroup_line(char out[FV_LINE], const char *root, const char *format, ...) FV_PRINTF(3, 4);

/* Calls `visit` with the folder of each group: the process's own, which is `nearest`, then those
 * above. */
typedef void fv_cgroup_visit(void *ctx, const char *root, const char *folder, bool nearest);
void fv_cgroup_walk(const char *root, fv_cgroup_visit *visit, void *ctx);

/* Memory limit of these cgroups in bytes; UINT64_MAX: none. */
uint64_t fv_cgroup_memory(const char *root);
/* Bytes that the kernel estimates it could give to a process now, including caches that it would
 * drop; at most these cgroups' limit. UINT64_MAX: unknown. */
uint64_t fv_cgroup_free(const char *root);

#endif
