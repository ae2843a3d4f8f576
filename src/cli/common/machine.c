/* machine.c: reads what the operating system reports about this process and the machine, from files
 * in /proc and /sys, each of which may be missing. */
#include "cli/common/machine.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/common/cli.h"

/* the clock counts as lowered if the fixed work takes this many times longer   \ */
#define SLOWER 1.1
#define LOOK_EVERY 0.05 /* initial interval between samples, in seconds */

/* ---- files ---- */

static const char *root(void)
{
    const char *path = getenv("FOVEA_ROOT");
    return path ? path : "";
}

/* Finds the first line that begins with `key` in the file `path`, and copies the rest of the line
 * to `out`. */
static bool read_line(char *out, size_t size, const char *path, const char *key)
{
    char name[512], line[512];
    bool found = false;
    snprintf(name, sizeof name, "%s%s", root(), path);
    FILE *f = fopen(name, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        const size_t n = strlen(key);
        if (strncmp(line, key, n) != 0)
            continue;
        const char *value = line + n + strspn(line + n, " \t:");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    if (f)
        fclose(f);
    return found;
}

/* Returns the largest number, or with `sum` the sum of the numbers, in all files that match a
 * pattern. Returns 0 if no file matches. */
static double read_numbers(const char *pattern, bool sum)
{
    char path[512], text[64];
    glob_t found;
    double all = 0;
    snprintf(path, sizeof path, "%s%s", root(), pattern);
    if (glob(path, 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = found.gl_pathv[i] + strlen(root());
        const double value = read_line(text, sizeof text, name, "") ? strtod(text, NULL) : 0;
        all = sum ? all + value : value > all ? value : all;
    }
    globfree(&found);
    return all;
}

/* ---- memory ---- */

static uint64_t status_bytes(const char *key)
{
    char text[64];
    return read_line(text, sizeof text, "/proc/self/status", key) ? strtoull(text, NULL, 10) * 1024
                                                                  : 0;
}

/* Releases freed memory to the system first. Otherwise later allocations would reuse that memory,
 * and the resident size would not show them. */
uint64_t machine_memory_begin(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5\n", f); /* resets the peak resident size */
        fclose(f);
    }
    return status_bytes("VmRSS");
}

uint64_t machine_memory_peak(void)
{
    return status_bytes("VmHWM");
}

/* ---- clocks and heat ---- */

/* Runs a chain of dependent multiplications, whose time depends on the clock alone, and returns its
 * seconds. */
static double spin_once(void)
{
    const double begin = cli_seconds();
    uint64_t x = 1;
    for (int i = 0; i < 1 << 15; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    volatile uint64_t used = x;
    (void)used;
    return cli_seconds() - begin;
}

static double spin(void)
{
    double least = spin_once();
    for (int i = 1; i < 8; i++) {
        const double seconds = spin_once();
        least = seconds < least ? seconds : least;
    }
    return least;
}

static double processor_mhz(void)
{
    char text[64];
    double most =
        read_numbers("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", false) / 1e3;
    if (most == 0 && read_line(text, sizeof text, "/proc/cpuinfo", "cpu MHz"))
        most = strtod(text, NULL);
    return most;
}

void machine_look(machine_state *out)
{
    *out = (machine_state){
        .clock_mhz = processor_mhz(),
        .gpu_mhz = read_numbers("/sys/class/devfreq/*/cur_freq", false) / 1e6,
        .celsius = read_numbers("/sys/class/thermal/thermal_zone*/temp", false) / 1e3,
        .throttled = (uint64_t)read_numbers(
            "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count", true),
        .spin = spin(),
    };
}

/* Halves a full history: keeps every second sample, and doubles the interval between samples. */
static void thin_out(machine_history *h)
{
    for (uint32_t i = 0; 2 * i < h->looks; i++)
        h->look[i] = h->look[2 * i];
    h->looks /= 2;
    h->every *= 2;
}

void machine_watch(machine_history *h)
{
    if (h->looks == 0)
        h->every = LOOK_EVERY;
    else if (cli_seconds() - h->last < h->every)
        return;
    if (h->looks == MACHINE_LOOKS)
        thin_out(h);
    machine_look(&h->look[h->looks++]);
    h->last = cli_seconds();
}

static double least_spin(const machine_state *look, uint32_t n)
{
    double least = look[0].spin;
    for (uint32_t i = 1; i < n; i++)
        least = look[i].spin < least ? look[i].spin : least;
    return least;
}

bool machine_throttled(const machine_history *h)
{
    const uint32_t third = h->looks / 3;
    if (h->looks && h->look[h->looks - 1].throttled > h->look[0].throttled)
        return true;
    return third > 0 &&
           least_spin(h->look + h->looks - third, third) > SLOWER * least_spin(h->look, third);
}

static void pair(json_t *out, const char *key, double first, double last)
{
    if (first > 0 || last > 0)
        json_object_set_new(out, key, json_pack("[f, f]", first, last));
}

json_t *machine_describe(const machine_history *h)
{
    json_t *out = json_object();
    if (h->looks == 0)
        return out;
    const machine_state *first = &h->look[0], *last = &h->look[h->looks - 1];
    pair(out, "clock_mhz", first->clock_mhz, last->clock_mhz);
    pair(out, "gpu_mhz", first->gpu_mhz, last->gpu_mhz);
    pair(out, "celsius", first->celsius, last->celsius);
    pair(out, "spin_us", 1e6 * first->spin, 1e6 * last->spin);
    json_object_set_new(out, "throttled", json_boolean(machine_throttled(h)));
    return out;
}

/* ---- what it is ---- */

void machine_identify(json_t *out)
{
    static const struct {
        const char *path, *key, *name;
    } facts[] = {
        {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", "governor"},
        {"/proc/cpuinfo", "CPU part", "cpu_part"},
        {"/proc/cpuinfo", "cpu family", "cpu_family"},
        {"/proc/cpuinfo", "model\t", "cpu_model"},
        {"/proc/cpuinfo", "microcode", "microcode"},
        {"/sys/firmware/devicetree/base/model", "", "board"},
    };
    struct utsname name;
    char text[128];
    if (uname(&name) == 0)
        json_object_set_new(out, "system",
                            json_sprintf("%s %s %s", name.sysname, name.release, name.machine));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (read_line(text, sizeof text, facts[i].path, facts[i].key))
            json_object_set_new(out, facts[i].name, json_string(text));
}
