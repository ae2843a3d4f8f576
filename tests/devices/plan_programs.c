/* plan_programs.c: the programs of a GPU that plans ask for, each once, for compilers.sh.
 *
 *   plan_programs DEVICE FOLDER PROFILE...
 *
 * DEVICE is an OpenCL one, which then passes for those of the profiles, or a CUDA one, of which the
 * profile is the name alone. The texts go to FOLDER, options to the standard output, a line for
 * each program:
 *
 *   the profile that was first, kernel, program, mechanism or -, its file in FOLDER, entries with
 *   commas, options
 *
 * Plans are dry: nothing is compiled or run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_sources.h"
#include "tests/devices/dry_launch.h"
#include "tests/devices/every_plan.h"
#include "tests/devices/gpu_profile.h"

/* ---- devices ---- */

static const gpu_profile *pretended; /* NULL: CUDA */
static const char *profile_name, *folder;

static bool is_cl(const fovea_device *device)
{
    return strcmp(device->backend->name, "cl") == 0;
}

/* Makes an OpenCL device imitate the profile; returns false if no profile has that name. */
static bool pretend(fovea_device *device, const char *name)
{
    profile_name = name;
    pretended = NULL;
    if (!is_cl(device))
        return true;
    pretended = gpu_profile_named(name);
    if (pretended)
        gpu_pretend(device, pretended);
    return pretended != NULL;
}

/* ---- programs ---- */

enum { CAPACITY = 1 << 16 };
static uint64_t seen[CAPACITY]; /* hashes of the programs already printed */
static uint32_t failed;

static bool is_new(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    h |= 1; /* 0 marks a free slot */
    uint32_t i = (uint32_t)(h >> 32) % CAPACITY;
    for (; seen[i]; i = (i + 1) % CAPACITY)
        if (seen[i] == h)
            return false;
    seen[i] = h;
    return true;
}

/* Writes a program's text unless it exists. */
static void write_text(const char *program, uint16_t mech, const char *path)
{
    const char *text[FV_CUDA_TEXTS];
    const fv_gpu_program like = {.name = program, .mech = mech};
    const uint32_t count =
        pretended ? fv_cl_compiler_cl.texts(&like, text) : fv_cuda_texts(program, mech, text);
    FILE *f = fopen(path, "wx");
    for (uint32_t i = 0; f && i < count; i++)
        fputs(text[i], f);
    if (f && fclose(f) != 0)
        failed++;
}

static void print_program(const fv_launch *l, const char *options)
{
    const fv_gpu_code *code = l->kernel->code.gpu;
    const char *mech = dry_mechanism(l->kernel->mech);
    char name[64], path[512];
    snprintf(name, sizeof name, "%s%s%s.%s", code->program, *mech == '-' ? "" : "-",
             *mech == '-' ? "" : mech, pretended ? "cl" : "cu");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_text(code->program, l->kernel->mech, path);
    printf("%s %s %s %s %s %s", profile_name, l->kernel->name, code->program, mech, name,
           code->entry);
    for (int i = 0; i < FV_GPU_PASSES && code->pre_pass[i].entry; i++)
        printf(",%s", code->pre_pass[i].entry);
    printf("%s\n", options);
}

/* Prints the program of a step, for the largest work-groups that the device allows. */
static void look_at(const fovea_plan *p, const fv_step *step)
{
    fv_launch l;
    fv_gpu_step s = {.base = {.l = {.rows = 0}}};
    fv_gpu_text options = {.length = 0};
    char line[2048];
    dry_launch(p, step, &l);
    fv_gpu_settle(&l, p->device->info.units, 0);
    if (fv_gpu_step_begin(&s, &l) != FOVEA_OK) {
        fprintf(stderr, "%s: %s\n", l.kernel->name, fovea_error());
        failed++;
        return;
    }
    uint32_t group = s.code->group;
    if (pretended) {
        group = fv_gpu_group(&s, group, pretended->limits.group, pretended->limits.local);
        fv_gpu_append(&options, " -cl-std=CL1.2 -w -DFV_COMPILES_%s=1 -DFV_HALF=%d -DFV_DOT=%d",
                      s.code->entry, (pretended->features & FV_NEED_CL_HALF) != 0, pretended->dot);
    }
    fv_gpu_specialise(&options, &l, group);
    snprintf(line, sizeof line, "%s %s%s", s.code->program, dry_mechanism(l.kernel->mech),
             options.text);
    if (is_new(line))
        print_program(&l, options.text);
}

int main(int argc, char **argv)
{
    fovea_device *device;
    if (argc < 4) {
        fprintf(stderr, "usage: plan_programs DEVICE FOLDER PROFILE...\n");
        return 1;
    }
    folder = argv[2];
    if (fovea_device_open(&device, argv[1], NULL) != FOVEA_OK) {
        fprintf(stderr, "%s: %s\n", argv[1], fovea_error());
        return 1;
    }
    for (char **name = argv + 3; *name; name++) {
        if (!pretend(device, *name)) {
            fprintf(stderr, "%s: no such profile\n", *name);
            return 1;
        }
        failed += every_plan(device, look_at);
    }
    fovea_device_close(device);
    return failed != 0;
}
