/* hostile_import.c: implements import extensions that the real library lacks, for memory files
 * (memfd) and host memory. Anything that the extensions leave to drivers is refused. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/devices/hostile_cl.h"

enum {
    KHR = 1,
    ARM = 2,
    QCOM_DMABUF = 4,
    QCOM_ION = 8,
    ARM_HOST = 16,
    ARM_AHB = 32,
    QCOM_AHB = 64
};
enum { IMPORTS = 32 };

/* Returns whether the driver reports this way of importing memory. */
static bool imports_by(long way)
{
    return hostile_lie(lie_imports, 0) & way;
}

void hostile_import_extensions(char *text)
{
    static const char *const imports[] = {" cl_khr_external_memory cl_khr_external_memory_dma_buf",
                                          " cl_arm_import_memory cl_arm_import_memory_dma_buf",
                                          " cl_qcom_dmabuf_host_ptr",
                                          " cl_qcom_ion_host_ptr",
                                          " cl_arm_import_memory_host",
                                          " cl_arm_import_memory_android_hardware_buffer",
                                          " cl_qcom_android_ahardwarebuffer_host_ptr"};
    for (size_t i = 0; i < sizeof imports / sizeof *imports; i++)
        if (imports_by(1L << i))
            strcat(text, imports[i]);
}

struct contents {
    void *map;
    size_t size;
    char garbage[]; /* content of the buffer while it is not acquired */
};
static struct import {
    cl_mem buffer;
    struct contents *contents;
    bool external, acquired;
} imported[IMPORTS];

static struct import *import_of(cl_mem m)
{
    for (size_t i = 0; i < IMPORTS; i++)
        if (imported[i].buffer == m)
            return &imported[i];
    return NULL;
}

/* Frees the contents once no command uses them any more. */
static void CL_CALLBACK drop_contents(cl_mem m, void *contents)
{
    struct contents *of = contents;
    (void)m;
    if (of->map != MAP_FAILED)
        munmap(of->map, of->size);
    free(of);
}

/* Makes a buffer of the memory behind `fd`. If `external` is set, the buffer has its contents only
 * between an acquire and a release; otherwise it is the memory itself. */
static cl_mem import(cl_context c, int fd, size_t size, bool external, cl_int *error)
{
    struct import *to = import_of(NULL);
    struct contents *of = malloc(sizeof *of + size);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!to || !of)
        abort();
    cl_mem m = map == MAP_FAILED
                   ? refuse(error, CL_INVALID_VALUE)
                   : real.clCreateBuffer(c, external ? CL_MEM_READ_ONLY : CL_MEM_USE_HOST_PTR, size,
                                         external ? NULL : map, error);
    *of = (struct contents){.map = map, .size = size};
    memset(of->garbage, 0x5a, size);
    if (!m || when_destroyed(m, drop_contents, of) != CL_SUCCESS) {
        drop_contents(m, of);
        return NULL;
    }
    *to = (struct import){.buffer = m, .contents = of, .external = external};
    born(BUFFER, m);
    return m;
}

void hostile_import_end(cl_mem m)
{
    struct import *i = import_of(m);
    if (!i)
        return;
    if (i->acquired && !hostile_failed()) /* a failed frame ends without a release */
        misused("imported memory is released while a frame has it");
    *i = (struct import){.buffer = NULL};
}

/* A function of OpenCL 3.0. */
API cl_mem clCreateBufferWithProperties(cl_context c, const cl_ulong *properties,
                                        cl_mem_flags flags, size_t size, void *host, cl_int *error);

API cl_mem clCreateBufferWithProperties(cl_context c, const cl_ulong *properties,
                                        cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    ENTER_CREATE(clCreateBufferWithProperties, error);
    (void)flags;
    if (!imports_by(KHR) || host || properties[0] != 0x2067 || properties[2])
        return refuse(error, CL_INVALID_VALUE);
    return import(c, (int)properties[1], size, true, error);
}

/* Acquires or releases one buffer. */
static cl_int pass(cl_command_queue q, cl_uint n, const cl_mem *m, bool acquire, cl_uint waits,
                   const cl_event *wait, cl_event *event)
{
    struct import *i = n == 1 ? import_of(*m) : NULL;
    if (!i || !i->external)
        return CL_INVALID_MEM_OBJECT;
    if (i->acquired == acquire)
        misused("imported memory is acquired or released twice");
    i->acquired = acquire;
    const void *from = acquire ? i->contents->map : i->contents->garbage;
    return enqueued(
        real.clEnqueueWriteBuffer(q, *m, CL_FALSE, 0, i->contents->size, from, waits, wait, event),
        q, false, waits, wait, event);
}

static cl_int acquire_external(cl_command_queue q, cl_uint n, const cl_mem *m, cl_uint waits,
                               const cl_event *wait, cl_event *event)
{
    ENTER(clEnqueueAcquireExternalMemObjectsKHR);
    return pass(q, n, m, true, waits, wait, event);
}

static cl_int release_external(cl_command_queue q, cl_uint n, const cl_mem *m, cl_uint waits,
                               const cl_event *wait, cl_event *event)
{
    ENTER(clEnqueueReleaseExternalMemObjectsKHR);
    return pass(q, n, m, false, waits, wait, event);
}

/* Imports an AHardwareBuffer as a whole; the driver knows its size. */
static cl_mem import_ahardwarebuffer(cl_context c, const void *buffer, cl_int *error)
{
    const hostile_ahardwarebuffer *of = buffer;
    return import(c, of->fd, of->size, false, error);
}

static cl_mem import_arm(cl_context c, cl_mem_flags flags, const intptr_t *properties, void *memory,
                         size_t size, cl_int *error)
{
    ENTER_CREATE(clImportMemoryARM, error);
    if (properties[0] != 0x40B2 || properties[2] || flags != CL_MEM_READ_ONLY)
        return refuse(error, CL_INVALID_PROPERTY);
    if (properties[1] == 0x40B4 && imports_by(ARM))
        return import(c, *(int *)memory, size, false, error);
    if (properties[1] == 0x41E2 && imports_by(ARM_AHB))
        return size == SIZE_MAX ? import_ahardwarebuffer(c, memory, error)
                                : refuse(error, CL_INVALID_VALUE);
    if (properties[1] != 0x40B3 || !imports_by(ARM_HOST))
        return refuse(error, CL_INVALID_PROPERTY);
    cl_mem m = real.clCreateBuffer(c, CL_MEM_USE_HOST_PTR, size, memory, error);
    if (m)
        born(BUFFER, m);
    return m;
}

bool hostile_import_function(const char *name, void **out)
{
    *out = NULL;
    if (!strcmp(name, "clImportMemoryARM") && imports_by(ARM | ARM_HOST | ARM_AHB))
        *out = *(void **)&(__typeof__(&import_arm)){import_arm};
    if (!strcmp(name, "clEnqueueAcquireExternalMemObjectsKHR") && imports_by(KHR))
        *out = *(void **)&(__typeof__(&acquire_external)){acquire_external};
    if (!strcmp(name, "clEnqueueReleaseExternalMemObjectsKHR") && imports_by(KHR))
        *out = *(void **)&(__typeof__(&release_external)){release_external};
    return *out != NULL;
}

static cl_mem create_qcom_ahardwarebuffer(cl_context c, size_t size, const void *pointer,
                                          cl_int *error)
{
    const struct {
        cl_uint type, policy;
        void *buffer;
    } *from = pointer;
    return size == 0 && imports_by(QCOM_AHB) ? import_ahardwarebuffer(c, from->buffer, error)
                                             : refuse(error, CL_INVALID_VALUE);
}

cl_mem hostile_import_qcom(cl_context c, size_t size, const void *pointer, cl_int *error)
{
    const struct {
        cl_uint type, policy;
        int fd;
        void *host;
    } *from = pointer;
    if (from->type == 0x4119)
        return create_qcom_ahardwarebuffer(c, size, pointer, error);
    const bool there = from->type == 0x411D ? imports_by(QCOM_DMABUF)
                                            : from->type == 0x40A8 && imports_by(QCOM_ION);
    return there && from->host ? import(c, from->fd, size, false, error)
                               : refuse(error, CL_INVALID_VALUE);
}
