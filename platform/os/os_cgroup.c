/* os_cgroup.c: finds the cgroups of this process and their limits. */
#define _GNU_SOURCE
#include "platform/os/os_cgroup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096 };

bool fv_cgroup_line(char out[FV_LINE], const char *root, const char *format, ...)
{
    char path[PATH];
    const int used = snprintf(path, sizeof path, "%s", root);
    va_list args;
    va_start(args, format);
    const int more = used < PATH ? vsnprintf(path + used, PATH - (size_t)used, format, args) : PATH;
    va_end(args);
    if (more < 0 || used + more >= PATH)
        return false;
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const bool read = fgets(out, FV_LINE, f) != NULL;
    fclose(f);
    if (read)
        out[strcspn(out, "\n")] = 0;
    return read;
}

/* Visits the folders from `group` up to the mount. In a container, the mount may be the process's
 * own group, while its name does not exist there. */
static void follow_group(const char *root, const char *mount, const char *group,
                         fv_cgroup_visit *visit, void *ctx)
{
    char folder[PATH];
    const size_t top = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= PATH)
        return;
    for (bool nearest = true;; nearest = false) {
        visit(ctx, root, folder, nearest);
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= top || !slash || (size_t)(slash - folder) < top)
            return;
        *slash = 0;
    }
}

/* Lines of /proc/self/cgroup: "0::/group" of version 2, "4:cpu,cpuacct:/group" of version 1. */
void fv_cgroup_walk(const char *root, fv_cgroup_visit *visit, void *ctx)
{
    char path[PATH], line[FV_LINE];
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= PATH)
        return;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char mount[PATH];
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        group[strcspn(group, "\n")] = 0;
        const char *slash = *controllers ? "/" : "";
        if (snprintf(mount, sizeof mount, "/sys/fs/cgroup%s%s", slash, controllers) >= PATH)
            continue;
        follow_group(root, mount, group, visit, ctx);
        if (!*controllers)
            follow_group(root, "/sys/fs/cgroup/unified", group, visit, ctx);
    }
    if (f)
        fclose(f);
}

/* Both limits count: above memory.high the kernel slows a group down, above memory.max it ends one
 * of its processes. */
static void lower_limit(void *ctx, const char *root, const char *folder, bool nearest)
{
    static const char *const files[] = {"memory.max", "memory.high", "memory.limit_in_bytes"};
    uint64_t *least = ctx;
    (void)nearest;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[FV_LINE], *end;
        if (!fv_cgroup_line(line, root, "%s/%s", folder, files[i]))
            continue;
        const unsigned long long bytes = strtoull(line, &end, 10);
        if (end != line && !*end && *line != '-' && bytes < *least) /* not "max", nor -1 */
            *least = bytes;
    }
}

uint64_t fv_cgroup_memory(const char *root)
{
    uint64_t least = UINT64_MAX;
    fv_cgroup_walk(root, lower_limit, &least);
    return least;
}

uint64_t fv_cgroup_free(const char *root)
{
    char path[PATH], line[FV_LINE];
    unsigned long long kilobytes = 0;
    bool said = false;
    FILE *f =
        snprintf(path, sizeof path, "%s/proc/meminfo", root) < PATH ? fopen(path, "re") : NULL;
    while (f && !said && fgets(line, sizeof line, f))
        said = sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1;
    if (f)
        fclose(f);
    const uint64_t limit = fv_cgroup_memory(root);
    const uint64_t free = said && kilobytes < UINT64_MAX >> 10 ? kilobytes << 10 : UINT64_MAX;
    return free < limit ? free : limit;
}
