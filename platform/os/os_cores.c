/* os_cores.c: reads the processors, their speeds and the share of their time from files of Linux.
 *
 *     /sys/devices/system/cpu/online           processors that are online
 *     .../cpuN/cpu_capacity                    relative speed, where the kernel reports it
 *     .../cpuN/cpufreq/cpuinfo_max_freq        clock rate, used where cpu_capacity is missing
 *     /sys/devices/cpu_atom/cpus               the small cores of an x86 hybrid
 *     .../cpuN/regs/identification/midr_el1    model of an ARM core
 *     the folders of os_cgroup.h               cpuset and quota, versions 1 and 2
 */
#include "platform/os/os_cores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/os/os_cgroup.h"
#include "platform/os/os_machine.h"

enum { EVEN = 1024 }; /* capacity of every core if the system reports no differences */

int fv_cores_listed(const char *list, uint32_t id)
{
    int found = 0;
    for (const char *s = list; *s;) {
        char *end;
        unsigned long first = strtoul(s, &end, 10), last = first;
        if (end == s || *s == '-' || *s == '+')
            return -1;
        s = end;
        if (*s == '-') {
            last = strtoul(s + 1, &end, 10);
            if (end == s + 1 || last < first)
                return -1;
            s = end;
        }
        if (*s && *s != ',')
            return -1;
        if (*s)
            s++;
        found |= id >= first && id <= last;
    }
    return found;
}

/* ---- which ---- */

/* Keeps the processors that the list names; a list that names none of them is ignored. */
static void keep_listed(fv_cores *c, const char *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        n += fv_cores_listed(list, c->cpu[i].id) == 1;
    if (n == 0)
        return;
    n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (fv_cores_listed(list, c->cpu[i].id) == 1)
            c->cpu[n++] = c->cpu[i];
    c->n = n;
}

/* ---- how fast ---- */

/* Reads a number from a file of every processor. Returns false unless all processors have the file,
 * since numbers of different files are not comparable. */
static bool read_numbers(uint32_t out[FV_PROCESSORS], const fv_cores *c, const char *root,
                         const char *file)
{
    for (uint32_t i = 0; i < c->n; i++) {
        char line[FV_LINE];
        unsigned value;
        if (!fv_cgroup_line(line, root, "/sys/devices/system/cpu/cpu%u/%s", c->cpu[i].id, file) ||
            sscanf(line, "%u", &value) != 1 || value == 0)
            return false;
        out[i] = value;
    }
    return true;
}

static bool differ(const uint32_t *value, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (value[i] != value[0])
            return true;
    return false;
}

/* Returns whether a core issues instructions in order: Cortex-A53, A35, A55, A510, A520. */
static bool issues_in_order(const char *root, uint32_t id)
{
    static const uint16_t parts[] = {0xd03, 0xd04, 0xd05, 0xd46, 0xd80};
    char line[FV_LINE];
    unsigned long long midr;
    if (!fv_cgroup_line(line, root, "/sys/devices/system/cpu/cpu%u/regs/identification/midr_el1",
                        id) ||
        sscanf(line, "%llx", &midr) != 1 || (midr >> 24 & 0xff) != 0x41)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if ((midr >> 4 & 0xfff) == parts[i])
            return true;
    return false;
}

static void read_capacities(fv_cores *c, const char *root)
{
    uint32_t value[FV_PROCESSORS];
    if (read_numbers(value, c, root, "cpu_capacity") && differ(value, c->n)) {
        for (uint32_t i = 0; i < c->n; i++)
            c->cpu[i].capacity = value[i];
        return;
    }
    /* The clock rate does not suffice to compare different kinds of cores: small cores of a hybrid
     * x86, and ARM cores that issue in order, multiply about half as much per cycle. */
    char atoms[FV_LINE];
    const bool clocks = read_numbers(value, c, root, "cpufreq/cpuinfo_max_freq");
    const bool hybrid = fv_cgroup_line(atoms, root, "/sys/devices/cpu_atom/cpus");
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t id = c->cpu[i].id, clock = clocks ? value[i] : EVEN;
        const bool small = (hybrid && fv_cores_listed(atoms, id) == 1) || issues_in_order(root, id);
        c->cpu[i].capacity = small ? (clock + 1) / 2 : clock;
    }
}

/* ---- how much of their time ---- */

/* Returns how many processors' worth of time a cgroup's folder allows; infinite if it sets no
 * limit. */
static double quota_in(const char *root, const char *folder)
{
    char line[FV_LINE];
    double time, period;
    if (fv_cgroup_line(line, root, "%s/cpu.max", folder)) {
        if (sscanf(line, "%lf %lf", &time, &period) != 2)
            return INFINITY; /* "max" */
    } else {
        if (!fv_cgroup_line(line, root, "%s/cpu.cfs_quota_us", folder) ||
            sscanf(line, "%lf", &time) != 1)
            return INFINITY;
        if (!fv_cgroup_line(line, root, "%s/cpu.cfs_period_us", folder) ||
            sscanf(line, "%lf", &period) != 1)
            return INFINITY;
    }
    return time > 0 && period > 0 ? time / period : INFINITY;
}

static bool cpuset_in(char out[FV_LINE], const char *root, const char *folder)
{
    return fv_cgroup_line(out, root, "%s/cpuset.cpus.effective", folder) ||
           fv_cgroup_line(out, root, "%s/cpuset.effective_cpus", folder) ||
           fv_cgroup_line(out, root, "%s/cpuset.cpus", folder);
}

/* The share of processor time. The smallest quota of the group and its ancestors applies, but only
 * the nearest cpuset. */
struct share {
    fv_cores *cores;
    double quota;
    bool placed;
};

static void read_share(void *ctx, const char *root, const char *folder, bool nearest)
{
    struct share *s = ctx;
    char set[FV_LINE];
    s->quota = fmin(s->quota, quota_in(root, folder));
    s->placed &= !nearest;
    if (!s->placed && cpuset_in(set, root, folder)) {
        keep_listed(s->cores, set);
        s->placed = true;
    }
}

/* ---- all of it ---- */

void fv_cores_read(fv_cores *out, const char *root, const bool allowed[FV_PROCESSORS])
{
    char online[FV_LINE];
    out->n = 0;
    for (uint32_t i = 0; i < FV_PROCESSORS; i++)
        if (allowed[i])
            out->cpu[out->n++] = (fv_processor){i, EVEN};
    if (fv_cgroup_line(online, root, "/sys/devices/system/cpu/online"))
        keep_listed(out, online);
    struct share s = {.cores = out, .quota = INFINITY};
    fv_cgroup_walk(root, read_share, &s);
    read_capacities(out, root);
    out->most = s.quota < out->n ? (uint32_t)ceil(s.quota) : out->n;
}

void fv_cores_find(fv_cores *out)
{
    bool allowed[FV_PROCESSORS];
    fv_machine_allowed(allowed, FV_PROCESSORS);
    fv_cores_read(out, "", allowed);
}
