/* cuda_plans.c: the CUDA programs that plans ask for (every_plan.h), and whether this build has
 * them for machines without NVRTC (cuda/fallback.txt).
 *
 *   cuda_plans DEVICE           whether of each step's choices one is embedded; without DEVICE's
 *                               driver, or in a library without embedded programs: skipped
 *   cuda_plans DEVICE --list    a line for each step, its choices with tabs between them, the best
 *                               one first: file, mechanism or -, the architecture that it is from
 *                               on, options. For cuda/embed_ptx.py --fold, and test_cuda_plans.py
 *
 * Plans are dry: nothing is compiled or run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_device.h"
#include "cuda/cuda_sources.h"
#include "tests/devices/dry_launch.h"
#include "tests/devices/every_plan.h"

enum { MOST = 1 << 16 };
static char *seen[MOST]; /* NULL: a free slot */
static int passed, failed;
static bool listing;

static bool is_new(const char *line)
{
    uint64_t h = 14695981039346656037u;
    for (const char *at = line; *at; at++)
        h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    uint32_t i = (uint32_t)(h >> 32) % MOST;
    for (; seen[i]; i = (i + 1) % MOST)
        if (strcmp(seen[i], line) == 0)
            return false;
    seen[i] = strdup(line);
    return true;
}

/* The architecture that a kernel's program is from on: 72 stands for programs without tensor cores
 * that a device asks for that has none. */
static uint32_t arch_of(const fv_device *d, const fv_launch *l)
{
    return l && l->kernel->needs & FV_NEED_CUDA_MMA ? 80 : d->limits.arch < 75 ? 72 : 75;
}

/* Appends choice number `choice`; returns false if there are fewer choices. */
static bool add_choice(char *line, size_t size, const fv_device *d, const fv_launch *step,
                       uint32_t choice)
{
    const size_t used = strlen(line);
    fv_launch l = *step;
    fv_gpu_text options = {.length = 0};
    if (!fv_gpu_settle(&l, d->limits.units, choice))
        return false;
    fv_gpu_specialise(&options, &l, l.kernel->code.gpu->group);
    snprintf(line + used, size - used, "%s%s %s %u%s", choice ? "\t" : "",
             l.kernel->code.gpu->program, dry_mechanism(l.kernel->mech), arch_of(d, &l),
             options.text);
    return true;
}

static bool is_embedded(const fv_device *d, const fv_launch *step)
{
    fv_launch l = *step;
    for (uint32_t i = 0; fv_gpu_settle(&l, d->limits.units, i); l = *step, i++)
        if (fv_cuda_is_embedded(d, &l))
            return true;
    return false;
}

static void look_at(const fovea_plan *p, const fv_step *step)
{
    const fv_device *d = p->device->device;
    char line[8192] = "";
    fv_launch l;
    dry_launch(p, step, &l);
    for (uint32_t i = 0; add_choice(line, sizeof line, d, &l, i); i++)
        ;
    if (!is_new(line))
        return;
    const bool good = listing || is_embedded(d, &l);
    passed += good;
    failed += !good;
    if (listing)
        printf("%s\n", line);
    else if (!good)
        printf("FAIL %s: not in fallback.txt: %s\n", l.kernel->name, line);
}

/* Lists the programs that measure rates: the coarse rate that limits the size of calls, and the
 * best rates. */
static void list_probes(const fv_device *d)
{
    static const int which[] = {5, 7}; /* FV_PROBE_RATES and FV_PROBE_BEST of probe.cl */
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        char options[FV_CUDA_PROBE];
        fv_cuda_probe_options(options, which[i]);
        printf("probe - %u%s\n", arch_of(d, NULL), options);
    }
}

/* Whether the library has a program for the device's architecture. */
static bool has_programs(const fv_device *d)
{
    const fv_cuda_ptx *e = fv_cuda_ptx_list;
    while (e->program && e->arch > d->limits.arch)
        e++;
    return e->program != NULL;
}

int main(int argc, char **argv)
{
    fovea_device *device;
    listing = argc == 3 && strcmp(argv[2], "--list") == 0;
    if (argc < 2)
        return 1;
    if (!listing && !fv_cuda_ptx_list->program) {
        printf("skipped: this library was built without nvcc\n0 passed, 0 failed, 1 skipped\n");
        return 77;
    }
    if (fovea_device_open(&device, argv[1], NULL) != FOVEA_OK) {
        fprintf(stderr, "skipped: %s\n", fovea_error());
        return 77;
    }
    if (!listing && !has_programs(device->device)) {
        printf("skipped: the toolkit that compiled this library's programs does not support sm_%u\n"
               "0 passed, 0 failed, 1 skipped\n",
               device->device->limits.arch);
        fovea_device_close(device);
        return 77;
    }
    if (listing)
        list_probes(device->device);
    failed += (int)every_plan(device, look_at);
    fovea_device_close(device);
    for (int i = 0; i < MOST; i++)
        free(seen[i]);
    if (!listing)
        printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
