/* cl_program.c: compiles kernels' sources and creates kernel objects. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cl/cl_device.h"
#include "gpu/gpu_sources.h"

/* `-w`, because some compilers print warnings to stderr. */
#define STANDARD "-cl-std=CL1.2 -w "

static uint32_t texts(const fv_gpu_program *p, const char *text[FV_GPU_TEXTS])
{
    uint32_t n = 0;
    if (!p->plain) {
        text[n++] = fv_gpu_names;
        text[n++] = fv_gpu_source_text(fv_gpu_sources, "prelude");
        text[n++] = p->mech ? fv_gpu_source_text(fv_gpu_sources, "vocabulary") : "";
        text[n++] = fv_gpu_mechanisms[p->mech];
    }
    text[n++] = fv_gpu_source_text(fv_gpu_sources, p->name);
    return n;
}

static const char *shown(const fv_gpu_program *p)
{
    const size_t standard = sizeof STANDARD - 1;
    return p->options + (strncmp(p->options, STANDARD, standard) == 0 ? standard : 0);
}

/* ---- compiling ---- */

/* The compiler's log as one line, to be freed by the caller; NULL if there is none. Drivers return
 * the whole log or none of it, so a buffer of its size is allocated. */
static char *build_log(const fv_device *d, cl_program program)
{
    size_t size = 0;
    char *log;
    if (fv_cl.clGetProgramBuildInfo(program, d->place.device, CL_PROGRAM_BUILD_LOG, 0, NULL,
                                    &size) != CL_SUCCESS ||
        size == 0 || fv_mem_alloc(&log, size + 1, FV_MEM_DEVICE, "a log") != FOVEA_OK)
        return NULL;
    if (fv_cl.clGetProgramBuildInfo(program, d->place.device, CL_PROGRAM_BUILD_LOG, size, log,
                                    NULL) != CL_SUCCESS)
        *log = 0;
    fv_gpu_one_line(log);
    return log;
}

static fovea_status build_failed(const fv_device *d, cl_program program, cl_int error,
                                 const char *name)
{
    if (fv_cl_is_memory(error, "clBuildProgram"))
        return fv_cl_fail(error, "clBuildProgram", name);
    char *log = build_log(d, program);
    fv_fail(FOVEA_EDEVICE,
            "clBuildProgram %s.cl: %s (%d); another driver may work. Its log: %.300s", name,
            fv_cl_error_name(error), (int)error, log ? log : "the compiler left no log");
    fv_mem_free(log);
    return FOVEA_EDEVICE;
}

static fovea_status compile(fv_device *d, const fv_gpu_program *p, void **built)
{
    const char *text[FV_GPU_TEXTS];
    cl_int error;
    cl_program program =
        fv_cl.clCreateProgramWithSource(d->context, texts(p, text), text, NULL, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateProgramWithSource", p->name);
    error = fv_cl.clBuildProgram(program, 1, &d->place.device, p->options, NULL, NULL);
    if (error != CL_SUCCESS) {
        fovea_status status = build_failed(d, program, error, p->name);
        fv_cl.clReleaseProgram(program);
        return status;
    }
    *built = program;
    return FOVEA_OK;
}

/* ---- binaries ---- */

static void *load(fv_device *d, const fv_gpu_program *p, const fv_gpu_binary *b)
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

static void *binary(void *built, size_t *size)
{
    unsigned char *bytes;
    *size = 0;
    if (fv_cl.clGetProgramInfo(built, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL) !=
            CL_SUCCESS ||
        *size == 0 || fv_mem_alloc(&bytes, *size, FV_MEM_DEVICE, "a program's binary") != FOVEA_OK)
        return NULL;
    if (fv_cl.clGetProgramInfo(built, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) !=
        CL_SUCCESS) {
        fv_mem_free(bytes);
        return NULL;
    }
    return bytes;
}

/* ---- kernels ---- */

static fovea_status make_kernel(void *built, const char *entry, void **out)
{
    cl_int error;
    cl_kernel kernel = fv_cl.clCreateKernel(built, entry, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateKernel", entry);
    *out = kernel;
    return FOVEA_OK;
}

static void drop_kernel(void *kernel)
{
    fv_cl.clReleaseKernel(kernel);
}

static void release_program(fv_device *d, void *built)
{
    if (!d->hung)
        fv_cl.clReleaseProgram(built);
}

const fv_gpu_compiler fv_cl_compiler_cl = {.texts = texts,
                                           .shown = shown,
                                           .compile = compile,
                                           .load = load,
                                           .binary = binary,
                                           .kernel = make_kernel,
                                           .release = release_program,
                                           .drop = drop_kernel};

fovea_status fv_cl_kernel_create(cl_kernel *out, size_t *limit, fv_device *d, const fv_launch *l,
                                 const char *entry, uint32_t group)
{
    char options[128];
    void *memory;
    snprintf(options, sizeof options, STANDARD "-DFV_COMPILES_%s=1 -DFV_HALF=%d -DFV_DOT=%d",
             l->kernel->code.gpu->entry, (d->features & FV_NEED_CL_HALF) != 0,
             d->features & FV_NEED_CL_DOT ? d->dot : 0);
    FV_TRY(fv_gpu_store_step(&memory, &d->store, l, entry, group, options));
    cl_kernel kernel = memory;
    const cl_int error = fv_cl.clGetKernelWorkGroupInfo(
        kernel, d->place.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof *limit, limit, NULL);
    if (error != CL_SUCCESS) {
        fv_cl.clReleaseKernel(kernel);
        return fv_cl_fail(error, "clGetKernelWorkGroupInfo", entry);
    }
    *out = kernel;
    return FOVEA_OK;
}
