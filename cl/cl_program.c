/* cl_program.c: kernels' sources to kernel objects. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cl_device.h"
#include "cl_sources.h"
#include "mem.h"
#include "os_machine.h"

struct fv_cl_program {
    fv_cl_program *next;
    const char *name; /* of its file */
    bool plain;       /* that file alone */
    uint16_t mech;
    char *options;
    cl_program program;
    bool compiled;          /* by us, not taken from the cache */
    const char *kernels[8]; /* of a compiled one: those that the cache's binary has */
};

/* ---- options ---- */

static void append(fv_cl_text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const size_t room = sizeof t->text - t->length;
    const int n = vsnprintf(t->text + t->length, room, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= room)
        t->full = true;
    else
        t->length += (size_t)n;
}

void fv_cl_define(fv_cl_text *t, const char *name, uint32_t value)
{
    append(t, " -D%s=%u", name, value);
}

static void options_of(fv_cl_text *t, const fv_device *d, const fv_launch *l, uint32_t group)
{
    static const char *const types[] = {
        [FV_F32] = "f32", [FV_F16] = "f16", [FV_BF16] = "bf16", [FV_U8] = "u8"};
    /* Compilers may say to stderr that they have warnings. */
    append(t, "-cl-std=CL1.2 -w");
    fv_cl_define(t, "FV_GROUP", group);
    fv_cl_define(t, "FV_FLAGS", l->args.prob.flags);
    fv_cl_define(t, "FV_EPI", l->args.prob.epi);
    fv_cl_define(t, "FV_HALF", !!(d->features & FV_NEED_CL_HALF));
    for (int o = 0; o < FV_OPERANDS; o++) {
        const fv_operand *op = &l->operand[o];
        const bool present = op->ref.space != FV_SPACE_NONE;
        append(t, " -DFV_T%d=%s -DFV_HAS%d=%d", o, types[present ? op->type : FV_F32], o, present);
    }
    const fv_cl_code *code = l->kernel->code.cl;
    if (code->define)
        code->define(l, group, t);
}

/* ---- texts, and compiling them ---- */

static const char *source(const char *name)
{
    for (const fv_cl_source *s = fv_cl_sources; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s->text;
    return NULL;
}

#define TEXTS 5

/* Texts of a program; returns how many. */
static cl_uint texts_of(const fv_cl_program *p, const char *text[TEXTS])
{
    cl_uint n = 0;
    if (!p->plain) {
        text[n++] = fv_cl_names;
        text[n++] = source("prelude");
        text[n++] = p->mech ? source("vocabulary") : "";
        text[n++] = fv_cl_mechanisms[p->mech];
    }
    text[n++] = source(p->name);
    return n;
}

static fovea_status key_of(const fv_cl_program *p, const fv_device *d, fv_cl_key *out)
{
    const char *part[2 + TEXTS] = {d->identity, p->options};
    return fv_cl_key_make(out, part, 2 + texts_of(p, part + 2));
}

/* What a remark calls it. */
static const char *label(const fv_cl_program *p, char out[96])
{
    snprintf(out, 96, "%s (%.60s)", p->name,
             strlen(p->options) > 17 ? p->options + 17 : p->options); /* "-cl-std=CL1.2 -w " */
    return out;
}

/* The compiler's words in one line, to be freed; NULL where there are none. Drivers give all of
 * them or nothing. */
static char *build_log(const fv_device *d, cl_program program)
{
    size_t size = 0;
    void *memory;
    if (fv_cl.clGetProgramBuildInfo(program, d->place.device, CL_PROGRAM_BUILD_LOG, 0, NULL,
                                    &size) != CL_SUCCESS ||
        size == 0 || fv_mem_alloc(&memory, size + 1, FV_MEM_DEVICE, "a log") != FOVEA_OK)
        return NULL;
    char *log = memory;
    if (fv_cl.clGetProgramBuildInfo(program, d->place.device, CL_PROGRAM_BUILD_LOG, size, log,
                                    NULL) != CL_SUCCESS)
        *log = 0;
    for (char *c = log; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return log;
}

static fovea_status build_failed(const fv_device *d, cl_program program, cl_int error,
                                 const char *name)
{
    if (fv_cl_is_memory(error, "clBuildProgram"))
        return fv_cl_fail(error, "clBuildProgram", name);
    char *log = build_log(d, program);
    fv_fail(FOVEA_EDEVICE, "clBuildProgram %s.cl: %s (%d); another driver may do: %.300s", name,
            fv_cl_error_name(error), (int)error, log ? log : "it left no log");
    fv_mem_free(log);
    return FOVEA_EDEVICE;
}

static fovea_status compile(fv_cl_program *p, const fv_device *d)
{
    const char *text[TEXTS];
    char what[96];
    cl_int error;
    const double begin = fv_machine_seconds();
    cl_program program =
        fv_cl.clCreateProgramWithSource(d->context, texts_of(p, text), text, NULL, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateProgramWithSource", p->name);
    error = fv_cl.clBuildProgram(program, 1, &d->place.device, p->options, NULL, NULL);
    if (error != CL_SUCCESS) {
        fovea_status status = build_failed(d, program, error, p->name);
        fv_cl.clReleaseProgram(program);
        return status;
    }
    p->program = program;
    p->compiled = true;
    fv_cl_cache_built(d->cache, label(p, what), fv_machine_seconds() - begin);
    return FOVEA_OK;
}

/* ---- binaries ---- */

/* A program of a binary, or NULL. */
static cl_program load(const fv_cl_program *p, const fv_device *d, const fv_cl_binary *b)
{
    const size_t size = (size_t)b->size;
    const unsigned char *data = b->data;
    cl_int error, state = CL_SUCCESS;
    cl_program program = fv_cl.clCreateProgramWithBinary(d->context, 1, &d->place.device, &size,
                                                         &data, &state, &error);
    if (error != CL_SUCCESS)
        return NULL;
    if (state == CL_SUCCESS &&
        fv_cl.clBuildProgram(program, 1, &d->place.device, p->options, NULL, NULL) == CL_SUCCESS)
        return program;
    fv_cl.clReleaseProgram(program);
    return NULL;
}

/* Whatever is wrong with what is found, the program is compiled then. */
static void take_cached(fv_cl_program *p, fv_device *d)
{
    fv_cl_key key;
    fv_cl_binary binary;
    char what[96];
    if (key_of(p, d, &key) != FOVEA_OK)
        return;
    label(p, what);
    /* One from memory that is refused is not offered again, but one on disk may be. */
    for (bool again = true; again && fv_cl_cache_find(d->cache, &key, what, &binary);) {
        p->program = load(p, d, &binary);
        again = !p->program && !binary.owner;
        fv_cl_binary_free(&binary);
        if (p->program)
            fv_cl_cache_hit(d->cache, what);
        else
            fv_cl_cache_refused(d->cache, &key, what);
    }
    fv_cl_key_free(&key);
}

/* The driver's binary of a built program, to be freed; NULL where it gives none. */
static void *binary_of(const fv_cl_program *p, size_t *size)
{
    void *memory = NULL;
    *size = 0;
    if (fv_cl.clGetProgramInfo(p->program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL) !=
            CL_SUCCESS ||
        *size == 0 || fv_mem_alloc(&memory, *size, FV_MEM_DEVICE, "a program's binary") != FOVEA_OK)
        return NULL;
    unsigned char *binary = memory;
    if (fv_cl.clGetProgramInfo(p->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) !=
        CL_SUCCESS) {
        fv_mem_free(memory);
        return NULL;
    }
    return memory;
}

/* Drivers that compile a kernel when it is made (Mali) have it in the binary only then. */
static void keep(fv_cl_program *p, fv_device *d, const char *kernel)
{
    const size_t room = sizeof p->kernels / sizeof *p->kernels;
    fv_cl_key key;
    char what[96];
    size_t i = 0, size;
    while (i < room && p->kernels[i] && strcmp(p->kernels[i], kernel) != 0)
        i++;
    if (!p->compiled || i == room || p->kernels[i])
        return;
    p->kernels[i] = kernel;
    void *binary = binary_of(p, &size);
    if (binary && key_of(p, d, &key) == FOVEA_OK) {
        fv_cl_cache_store(d->cache, &key, label(p, what), binary, size);
        fv_cl_key_free(&key);
    }
    fv_mem_free(binary);
}

static fovea_status export_one(const fv_cl_program *p, const fv_device *d, char *out, size_t room,
                               size_t *size)
{
    fv_cl_key key;
    size_t binary_size;
    void *binary = binary_of(p, &binary_size);
    if (!binary)
        return FOVEA_OK; /* it will be compiled again */
    fovea_status status = key_of(p, d, &key);
    if (status == FOVEA_OK) {
        const uint64_t entry = fv_cl_entry_size(&key, binary_size);
        if (out && (*size > room || entry > room - *size))
            status =
                fv_fail(FOVEA_EINVAL, "kernel binaries need more than the %zu bytes given", room);
        else if (out)
            fv_cl_entry_write(out + *size, &key, binary, binary_size);
        *size += (size_t)entry;
        fv_cl_key_free(&key);
    }
    fv_mem_free(binary);
    return status;
}

fovea_status fv_cl_cache_out(fv_device *d, void *out, size_t room, size_t *size)
{
    *size = 0;
    FV_TRY(fv_cl_ready(d));
    fovea_status status = FOVEA_OK;
    pthread_mutex_lock(&d->lock);
    for (fv_cl_program *p = d->programs; p && status == FOVEA_OK; p = p->next)
        status = export_one(p, d, out, room, size);
    pthread_mutex_unlock(&d->lock);
    return status;
}

fovea_status fv_cl_cache_in(fv_device *d, const void *data, size_t size)
{
    pthread_mutex_lock(&d->lock);
    fovea_status status = fv_cl_cache_import(d->cache, data, size);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- programs ---- */

static void program_free(fv_cl_program *p, const fv_device *d)
{
    if (p->program && !d->hung)
        fv_cl.clReleaseProgram(p->program);
    fv_mem_free(p->options);
    fv_mem_free(p);
}

static fovea_status program_make(fv_cl_program **out, fv_device *d, const fv_cl_program *like)
{
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_cl_program), FV_MEM_DEVICE, "an OpenCL program"));
    fv_cl_program *p = memory;
    *p = *like;
    p->options = NULL;
    fovea_status status = fv_mem_text(&p->options, like->options, FV_MEM_DEVICE);
    if (status == FOVEA_OK) {
        take_cached(p, d);
        if (!p->program)
            status = compile(p, d);
    }
    if (status != FOVEA_OK) {
        program_free(p, d);
        return status;
    }
    *out = p;
    return FOVEA_OK;
}

static fovea_status program_get(fv_cl_program **out, fv_device *d, const fv_cl_program *like)
{
    for (fv_cl_program *p = d->programs; p; p = p->next)
        if (strcmp(p->name, like->name) == 0 && p->plain == like->plain && p->mech == like->mech &&
            strcmp(p->options, like->options) == 0) {
            *out = p;
            return FOVEA_OK;
        }
    FV_TRY(program_make(out, d, like));
    (*out)->next = d->programs;
    d->programs = *out;
    return FOVEA_OK;
}

void fv_cl_programs_free(fv_device *d)
{
    while (d->programs) {
        fv_cl_program *p = d->programs;
        d->programs = p->next;
        program_free(p, d);
    }
}

/* A binary that was taken but has no such kernel, or none that works, is compiled after all. */
static fovea_status kernel_from(cl_kernel *out, fv_cl_program *p, fv_device *d, const char *entry)
{
    cl_int error;
    cl_kernel kernel = fv_cl.clCreateKernel(p->program, entry, &error);
    if (error != CL_SUCCESS && !p->compiled && !fv_cl_is_memory(error, "clCreateKernel")) {
        const cl_program old = p->program;
        FV_TRY(compile(p, d));
        fv_cl.clReleaseProgram(old);
        kernel = fv_cl.clCreateKernel(p->program, entry, &error);
    }
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateKernel", entry);
    keep(p, d, entry);
    *out = kernel;
    return FOVEA_OK;
}

static fovea_status kernel_of(cl_kernel *out, fv_device *d, const fv_cl_program *like,
                              const char *entry)
{
    fv_cl_program *p = NULL;
    pthread_mutex_lock(&d->lock);
    fovea_status status = program_get(&p, d, like);
    if (status == FOVEA_OK)
        status = kernel_from(out, p, d, entry);
    pthread_mutex_unlock(&d->lock);
    return status;
}

fovea_status fv_cl_plain_kernel(cl_kernel *out, fv_device *d, const char *name, const char *entry,
                                const char *options)
{
    /* The options are copied, not written to. */
    const fv_cl_program like = {.name = name, .plain = true, .options = (char *)(uintptr_t)options};
    return kernel_of(out, d, &like, entry);
}

fovea_status fv_cl_kernel_create(cl_kernel *out, size_t *limit, fv_device *d, const fv_launch *l,
                                 uint32_t group)
{
    const fv_cl_code *code = l->kernel->code.cl;
    fv_cl_text options = {.length = 0};
    options_of(&options, d, l, group);
    if (options.full)
        return fv_fail(FOVEA_ENOTSUP, "kernel %s has more build options than there is room for",
                       l->kernel->name);
    const fv_cl_program like = {
        .name = code->program, .mech = l->kernel->mech, .options = options.text};
    cl_kernel kernel = NULL;
    FV_TRY(kernel_of(&kernel, d, &like, code->entry));
    const cl_int error = fv_cl.clGetKernelWorkGroupInfo(
        kernel, d->place.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof *limit, limit, NULL);
    if (error != CL_SUCCESS) {
        fv_cl.clReleaseKernel(kernel);
        return fv_cl_fail(error, "clGetKernelWorkGroupInfo", code->entry);
    }
    *out = kernel;
    return FOVEA_OK;
}
