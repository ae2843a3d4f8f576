/* hostile_cl.c: an OpenCL library that forwards to the real one, reports false properties and fails
 * on request. See hostile.h.
 */
#define _DEFAULT_SOURCE
#include "tests/devices/hostile_cl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- false properties ---- */

static const char *const lie_names[] = {
#define X(name) #name,
    HOSTILE_CL_LIES(X)
#undef X
        NULL};

static const char *const kinds[] = {
    "context",     "queue",          "buffer",           "program",   "kernel",    "event",
    "timed queue", "hinted context", "recordable queue", "recording", "semaphore", NULL};

hostile_cl_api real;

static void *(*extension_of)(cl_platform_id, const char *);
cl_int (*when_destroyed)(cl_mem, void(CL_CALLBACK *)(cl_mem, void *), void *);
cl_int (*when_done)(cl_event, cl_int, void(CL_CALLBACK *)(cl_event, cl_int, void *), void *);

static void start(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
#define FV_CL_CALL(name)                                                                           \
    *(void **)&real.name = library ? dlsym(library, #name) : NULL;                                 \
    if (!real.name) {                                                                              \
        fprintf(stderr, "hostile_cl: no %s in libOpenCL.so.1\n", #name);                           \
        abort();                                                                                   \
    }
#include "cl/cl_calls.inc"
#undef FV_CL_CALL
    *(void **)&extension_of = dlsym(library, "clGetExtensionFunctionAddressForPlatform");
    *(void **)&when_destroyed = dlsym(library, "clSetMemObjectDestructorCallback");
    *(void **)&when_done = dlsym(library, "clSetEventCallback");
}

/* Number of programs that were made of texts since `stalls` or `dies` was set, and the one that
 * they mean. */
static long texts;
static cl_program doomed;

/* Reacts to a changed setting. A queue is stuck if it contains a kernel that never ends, and so is
 * every event queued after that kernel. */
static void changed(int lie)
{
    if (lie < 0 || lie == lie_stalls || lie == lie_dies) {
        texts = 0;
        doomed = NULL;
    }
    for (size_t k = 0; (lie < 0 || lie == lie_hang) && k < hostile_living; k++)
        hostile_objects[k].stuck = false;
}

const hostile_driver_self hostile_self = {.name = "hostile_cl",
                                          .environment = "HOSTILE_CL",
                                          .lies = lie_names,
                                          .kinds = kinds,
                                          .error = CL_OUT_OF_RESOURCES,
                                          .start = start,
                                          .changed = changed};

static bool is_set(int lie)
{
    return hostile_lie(lie, LONG_MIN) != LONG_MIN;
}

static bool at_most(int lie, size_t value)
{
    return value <= (size_t)hostile_lie(lie, LONG_MAX);
}

void misused(const char *what)
{
    pthread_mutex_lock(&hostile_lock);
    hostile_misused(what);
    pthread_mutex_unlock(&hostile_lock);
}

cl_mem refuse(cl_int *error, cl_int why)
{
    if (error)
        *error = why;
    return NULL;
}

/* ---- live objects ---- */

void born(enum kind kind, const void *handle)
{
    pthread_mutex_lock(&hostile_lock);
    hostile_born(kind, handle);
    pthread_mutex_unlock(&hostile_lock);
}

bool dies(enum kind kind, const void *handle)
{
    pthread_mutex_lock(&hostile_lock);
    const bool alive = hostile_dies(kind, handle);
    pthread_mutex_unlock(&hostile_lock);
    return alive;
}

cl_int enqueued(cl_int status, cl_command_queue queue, bool is_kernel, cl_uint n,
                const cl_event *wait, const cl_event *event)
{
    if (status != CL_SUCCESS)
        return status;
    if (event)
        born(EVENT, *event);
    pthread_mutex_lock(&hostile_lock);
    hostile_object *q = hostile_find(QUEUE, queue);
    bool stuck = hostile_lie(lie_hang, 0) == 2 && is_kernel;
    for (cl_uint i = 0; i < n; i++) {
        const hostile_object *e = hostile_find(EVENT, wait[i]);
        stuck = stuck || (e && e->stuck);
    }
    if (q)
        stuck = q->stuck = q->stuck || stuck;
    if (event)
        hostile_find(EVENT, *event)->stuck = stuck;
    pthread_mutex_unlock(&hostile_lock);
    return status;
}

/* Removes the object from `kind`, which it counts as in addition to its own kind. */
static void also_dies(enum kind kind, const void *handle)
{
    pthread_mutex_lock(&hostile_lock);
    if (hostile_find(kind, handle))
        hostile_dies(kind, handle);
    pthread_mutex_unlock(&hostile_lock);
}

/* Returns whether the event's command never ends. */
static bool never_done(cl_event event)
{
    const long hang = hostile_lie(lie_hang, 0);
    pthread_mutex_lock(&hostile_lock);
    const hostile_object *e = hostile_find(EVENT, event);
    const bool stuck = hang == 1 || (hang == 2 && e && e->stuck);
    pthread_mutex_unlock(&hostile_lock);
    return stuck;
}

/* ---- OpenCL: platforms and devices ---- */

API cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *out, cl_uint *count)
{
    ENTER(clGetPlatformIDs);
    return real.clGetPlatformIDs(n, out, count);
}

API cl_int clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t size, void *out,
                             size_t *need)
{
    ENTER(clGetPlatformInfo);
    return real.clGetPlatformInfo(p, what, size, out, need);
}

API cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *out,
                          cl_uint *count)
{
    ENTER(clGetDeviceIDs);
    return real.clGetDeviceIDs(p, type, n, out, count);
}

static cl_int answer(const void *value, size_t bytes, size_t size, void *out, size_t *need)
{
    if (need)
        *need = bytes;
    if (out && size < bytes)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, bytes);
    return CL_SUCCESS;
}

#define SUBGROUPS " cl_intel_subgroups cl_intel_subgroups_short cl_intel_required_subgroup_size"

/* Blanks every word that begins with `begin`. */
static void blank(char *text, const char *begin)
{
    for (char *at = text; (at = strstr(at, begin));)
        memset(at, ' ', strcspn(at, " "));
}

/* Returns the extensions, plus those claimed and minus those denied. Intel's subgroups, which PoCL
 * has from version 6 on, are only reported on request: programs that combine them with emulated
 * float16 do not build. */
static cl_int extensions(cl_device_id d, size_t size, void *out, size_t *need)
{
    static const char denied[] = "cl_khr_fp16";
    static const char claimed[] = " cl_khr_fp16 cl_khr_integer_dot_product" SUBGROUPS;
    static const char *const dots[] = {" cl_khr_integer_dot_product",
                                       " cl_arm_integer_dot_product_accumulate_int8"};
    enum { ADDED = 512 };
    char text[16384];
    const cl_int error = real.clGetDeviceInfo(d, CL_DEVICE_EXTENSIONS, sizeof text / 2, text, NULL);
    if (error != CL_SUCCESS)
        return error;
    blank(text, "cl_intel_subgroups");
    blank(text, "cl_intel_required_subgroup_size");
    char *at = strstr(text, denied);
    if (at && hostile_lie(lie_half, 1) == 0)
        memset(at, ' ', sizeof denied - 1);
    if (!at && hostile_lie(lie_half, 1) >= 2)
        strcat(strcat(text, " "), denied);
    if (hostile_lie(lie_dots, 0))
        strcat(text, dots[hostile_lie(lie_dots, 0) > 1]);
    if (hostile_lie(lie_subgroups, 0))
        strcat(text, SUBGROUPS);
    if (hostile_lie(lie_claims, 0))
        strcat(text, claimed);
    if (is_set(lie_images)) /* another device name, because its rates differ and are stored under
                               the name */
        snprintf(text + strlen(text), ADDED, " hostile_images_%ld", hostile_lie(lie_images, 1));
    hostile_record_extensions(text);
    hostile_import_extensions(text);
    hostile_fence_extensions(text);
    return answer(text, strlen(text) + 1, size, out, need);
}

static cl_int driver_version(cl_device_id d, size_t size, void *out, size_t *need)
{
    char text[512];
    const cl_int error = real.clGetDeviceInfo(d, CL_DRIVER_VERSION, sizeof text - 32, text, NULL);
    if (error != CL_SUCCESS)
        return error;
    snprintf(text + strlen(text), 32, " hostile %ld", hostile_lie(lie_version, 0));
    return answer(text, strlen(text) + 1, size, out, need);
}

API cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t size, void *out,
                           size_t *need)
{
    ENTER(clGetDeviceInfo);
    size_t number = 0, items[16];
    const cl_ulong memory = (cl_ulong)hostile_lie(lie_largest, 0);
    const cl_ulong local = (cl_ulong)hostile_lie(lie_local, 0);
    const cl_bool unified = hostile_lie(lie_unified, 0) != 0, images = CL_FALSE;
    const cl_uint vectors = (cl_uint)hostile_lie(lie_vectors, 0);
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    const cl_uint most = HOSTILE_RECORDABLE;
    const cl_device_local_mem_type type = hostile_lie(lie_own, 0) ? CL_LOCAL : CL_GLOBAL;
    switch (what) {
    case CL_DEVICE_TYPE:
        if (hostile_lie(lie_gpu, 0))
            return answer(&gpu, sizeof gpu, size, out, need);
        break;
    case CL_DEVICE_RECORDABLE_QUEUE_MAX_SIZE:
        return answer(&most, sizeof most, size, out, need);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        if (is_set(lie_largest))
            return answer(&memory, sizeof memory, size, out, need);
        break;
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        number = (size_t)hostile_lie(lie_group, 0);
        if (is_set(lie_group))
            return answer(&number, sizeof number, size, out, need);
        break;
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        for (int i = 0; i < 3; i++)
            items[i] = (size_t)hostile_lie(lie_group, 0);
        if (is_set(lie_group))
            return answer(items, 3 * sizeof *items, size, out, need);
        break;
    case CL_DEVICE_LOCAL_MEM_SIZE:
        if (is_set(lie_local))
            return answer(&local, sizeof local, size, out, need);
        break;
    case CL_DEVICE_LOCAL_MEM_TYPE:
        if (is_set(lie_own))
            return answer(&type, sizeof type, size, out, need);
        break;
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        if (is_set(lie_vectors))
            return answer(&vectors, sizeof vectors, size, out, need);
        break;
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        if (is_set(lie_unified))
            return answer(&unified, sizeof unified, size, out, need);
        break;
    case CL_DEVICE_IMAGE_SUPPORT:
        if (hostile_lie(lie_images, 1) == 0)
            return answer(&images, sizeof images, size, out, need);
        break;
    case CL_DEVICE_IMAGE_MAX_BUFFER_SIZE:
        number = (size_t)hostile_lie(lie_texels, 0);
        if (is_set(lie_texels))
            return answer(&number, sizeof number, size, out, need);
        break;
    case CL_DEVICE_EXTENSIONS:
        return extensions(d, size, out, need);
    case CL_DRIVER_VERSION:
        if (is_set(lie_version))
            return driver_version(d, size, out, need);
        break;
    default:
        break;
    }
    return real.clGetDeviceInfo(d, what, size, out, need);
}

/* ---- contexts, queues, buffers ---- */

API cl_context clCreateContext(const cl_context_properties *properties, cl_uint n,
                               const cl_device_id *d,
                               void(CL_CALLBACK *notify)(const char *, const void *, size_t,
                                                         void *),
                               void *user, cl_int *error)
{
    ENTER_CREATE(clCreateContext, error);
    cl_context_properties known[3] = {0};
    bool hinted = false;
    for (const cl_context_properties *p = properties; p && *p; p += 2)
        if (*p == CL_CONTEXT_PERF_HINT_QCOM && p[1] == CL_PERF_HINT_HIGH_QCOM)
            hinted = true;
        else
            memcpy(known, p, 2 * sizeof *p);
    if (hinted && hostile_lie(lie_hint, 0) != 1) {
        *error = CL_INVALID_PROPERTY;
        return NULL;
    }
    cl_context c = real.clCreateContext(known, n, d, notify, user, error);
    if (c)
        born(CONTEXT, c);
    if (c && hinted)
        born(HINTED, c);
    return c;
}

API cl_int clRetainContext(cl_context c)
{
    ENTER(clRetainContext);
    born(CONTEXT, c);
    return real.clRetainContext(c);
}

API cl_int clGetContextInfo(cl_context c, cl_context_info what, size_t size, void *out,
                            size_t *need)
{
    ENTER(clGetContextInfo);
    return real.clGetContextInfo(c, what, size, out, need);
}

API cl_int clReleaseContext(cl_context c)
{
    also_dies(HINTED, c);
    return dies(CONTEXT, c) ? real.clReleaseContext(c) : CL_INVALID_CONTEXT;
}

API cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d,
                                          cl_command_queue_properties properties, cl_int *error)
{
    ENTER_CREATE(clCreateCommandQueue, error);
    const bool recordable = hostile_record_takes(properties);
    cl_command_queue q = real.clCreateCommandQueue(c, d, recordable ? 0 : properties, error);
    if (q)
        born(QUEUE, q);
    if (q && properties & CL_QUEUE_PROFILING_ENABLE)
        born(TIMED, q);
    if (q && recordable)
        born(RECORDABLE, q);
    return q;
}

API cl_int clReleaseCommandQueue(cl_command_queue q)
{
    also_dies(TIMED, q);
    also_dies(RECORDABLE, q);
    return dies(QUEUE, q) ? real.clReleaseCommandQueue(q) : CL_INVALID_COMMAND_QUEUE;
}

API void *clGetExtensionFunctionAddressForPlatform(cl_platform_id p, const char *name)
{
    void *known;
    if (hostile_import_function(name, &known) || hostile_record_function(name, &known) ||
        hostile_fence_function(name, &known))
        return known;
    return extension_of ? extension_of(p, name) : NULL;
}

/* ---- buffers ---- */

#define EXT_HOST_PTR_QCOM (1 << 29)

API cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    ENTER_CREATE(clCreateBuffer, error);
    if (flags & EXT_HOST_PTR_QCOM)
        return hostile_import_qcom(c, size, host, error);
    if (!at_most(lie_largest, size))
        return refuse(error, CL_INVALID_BUFFER_SIZE);
    if (!at_most(lie_holds, size))
        return refuse(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    cl_mem m = real.clCreateBuffer(c, flags, size, host, error);
    if (m)
        born(BUFFER, m);
    return m;
}

API cl_mem clCreateImage(cl_context c, cl_mem_flags flags, const cl_image_format *format,
                         const cl_image_desc *desc, void *host, cl_int *error)
{
    ENTER_CREATE(clCreateImage, error);
    cl_image_desc of = *desc;
    if (!at_most(lie_texels, desc->image_width))
        return refuse(error, CL_INVALID_IMAGE_SIZE);
    const bool of_another = hostile_lie(lie_images, 1) == 3;
    if (of_another) /* the image keeps a reference to it */
        of.buffer = real.clCreateBuffer(c, CL_MEM_READ_WRITE, desc->image_width * 16, NULL, error);
    cl_mem m = real.clCreateImage(c, flags, format, &of, host, error);
    if (m)
        born(BUFFER, m);
    if (of_another)
        real.clReleaseMemObject(of.buffer);
    return m;
}

API cl_int clRetainMemObject(cl_mem m)
{
    ENTER(clRetainMemObject);
    born(BUFFER, m);
    return real.clRetainMemObject(m);
}

API cl_int clGetMemObjectInfo(cl_mem m, cl_mem_info what, size_t size, void *out, size_t *need)
{
    ENTER(clGetMemObjectInfo);
    return real.clGetMemObjectInfo(m, what, size, out, need);
}

API cl_int clReleaseMemObject(cl_mem m)
{
    if (!dies(BUFFER, m))
        return CL_INVALID_MEM_OBJECT;
    hostile_import_end(m);
    return real.clReleaseMemObject(m);
}

/* ---- programs and kernels ---- */

API cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char **text,
                                         const size_t *length, cl_int *error)
{
    enum { EMULATED = HOSTILE_WORDS, TEXTS = EMULATED + 12 };
    ENTER_CREATE(clCreateProgramWithSource, error);
    const char *all[TEXTS];
    hostile_words(all);
    const bool emulates = !length && n <= TEXTS - EMULATED;
    for (cl_uint i = 0; emulates && i < n; i++)
        all[EMULATED + i] = text[i];
    cl_program p = real.clCreateProgramWithSource(c, emulates ? EMULATED + n : n,
                                                  emulates ? all : text, length, error);
    if (p)
        born(PROGRAM, p);
    pthread_mutex_lock(&hostile_lock);
    const long which = hostile_lie(lie_stalls, hostile_lie(lie_dies, 0));
    if (++texts == which || which < 0)
        doomed = p;
    pthread_mutex_unlock(&hostile_lock);
    return p;
}

API cl_program clCreateProgramWithBinary(cl_context c, cl_uint n, const cl_device_id *d,
                                         const size_t *size, const unsigned char **data,
                                         cl_int *status, cl_int *error)
{
    ENTER_CREATE(clCreateProgramWithBinary, error);
    cl_program p = real.clCreateProgramWithBinary(c, n, d, size, data, status, error);
    if (p)
        born(PROGRAM, p);
    return p;
}

static bool is_doomed(cl_program p)
{
    pthread_mutex_lock(&hostile_lock);
    const bool is = p == doomed;
    pthread_mutex_unlock(&hostile_lock);
    return is;
}

/* Compiles the program that `stalls` or `dies` means. */
static void compile_doomed(cl_program p)
{
    const struct timespec pause = {0, 5000000};
    if (is_doomed(p) && is_set(lie_dies))
        _exit(9);
    while (is_doomed(p) || hostile_lie(lie_stalls, 0) < 0)
        nanosleep(&pause, NULL);
}

API cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *d, const char *options,
                          void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    ENTER(clBuildProgram);
    if (hostile_lie(lie_build, 1) == 0)
        return CL_BUILD_PROGRAM_FAILURE;
    compile_doomed(p);
    char text[4096];
    if (hostile_lie(lie_barrier, 1) == 0) {
        snprintf(text, sizeof text, "%s -Dbarrier(x)=", options ? options : "");
        options = text;
    }
    return real.clBuildProgram(p, n, d, options, notify, user);
}

API cl_int clGetProgramInfo(cl_program p, cl_program_info what, size_t size, void *out,
                            size_t *need)
{
    ENTER(clGetProgramInfo);
    return real.clGetProgramInfo(p, what, size, out, need);
}

API cl_int clGetProgramBuildInfo(cl_program p, cl_device_id d, cl_program_build_info what,
                                 size_t size, void *out, size_t *need)
{
    ENTER(clGetProgramBuildInfo);
    return real.clGetProgramBuildInfo(p, d, what, size, out, need);
}

API cl_int clReleaseProgram(cl_program p)
{
    return dies(PROGRAM, p) ? real.clReleaseProgram(p) : CL_INVALID_PROGRAM;
}

API cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *error)
{
    ENTER_CREATE(clCreateKernel, error);
    cl_kernel k = real.clCreateKernel(p, name, error);
    if (k)
        born(KERNEL, k);
    return k;
}

API cl_int clReleaseKernel(cl_kernel k)
{
    hostile_record_forget(k);
    return dies(KERNEL, k) ? real.clReleaseKernel(k) : CL_INVALID_KERNEL;
}

API cl_int clSetKernelArg(cl_kernel k, cl_uint i, size_t size, const void *value)
{
    ENTER(clSetKernelArg);
    if (!value && !at_most(lie_local, size))
        return CL_INVALID_ARG_SIZE;
    const cl_int status = real.clSetKernelArg(k, i, size, value);
    if (status == CL_SUCCESS)
        hostile_record_argument(k, i, size, value);
    return status;
}

API cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what,
                                    size_t size, void *out, size_t *need)
{
    ENTER(clGetKernelWorkGroupInfo);
    const cl_int error = real.clGetKernelWorkGroupInfo(k, d, what, size, out, need);
    if (error != CL_SUCCESS || what != CL_KERNEL_WORK_GROUP_SIZE || !out)
        return error;
    size_t *limit = out;
    for (int lie = lie_group; lie <= lie_compiled; lie++)
        if (!at_most(lie, *limit))
            *limit = (size_t)hostile_lie(lie, 0);
    return error;
}

API cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dimensions,
                                  const size_t *offset, const size_t *items, const size_t *group,
                                  cl_uint n, const cl_event *wait, cl_event *event)
{
    ENTER(clEnqueueNDRangeKernel);
    size_t all = 1;
    cl_ulong local = 0;
    for (cl_uint i = 0; group && i < dimensions; i++)
        all *= group[i];
    if (!at_most(lie_group, all) || !at_most(lie_compiled, all))
        return CL_INVALID_WORK_GROUP_SIZE;
    if (is_set(lie_local)) {
        real.clGetKernelWorkGroupInfo(k, NULL, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local,
                                      NULL);
        if (!at_most(lie_local, (size_t)local))
            return CL_OUT_OF_RESOURCES;
    }
    cl_int status;
    if (hostile_record_enqueued(q, k, dimensions, offset, items, group, n, event, &status))
        return status;
    return enqueued(
        real.clEnqueueNDRangeKernel(q, k, dimensions, offset, items, group, n, wait, event), q,
        true, n, wait, event);
}

/* ---- commands ---- */

/* Returns true for a command that the caller waits for on a device where no command ends. */
static bool blocks_for_ever(cl_bool blocking)
{
    if (!blocking || !hostile_lie(lie_hang, 0))
        return false;
    misused(NULL); /* a real driver would never return */
    return true;
}

API cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event *wait,
                                       cl_event *event)
{
    ENTER(clEnqueueMarkerWithWaitList);
    return enqueued(real.clEnqueueMarkerWithWaitList(q, n, wait, event), q, false, n, wait, event);
}

API cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at,
                               size_t size, void *out, cl_uint n, const cl_event *wait,
                               cl_event *event)
{
    ENTER(clEnqueueReadBuffer);
    if (blocks_for_ever(blocking))
        return CL_OUT_OF_RESOURCES;
    return enqueued(real.clEnqueueReadBuffer(q, m, blocking, at, size, out, n, wait, event), q,
                    false, n, wait, event);
}

API cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at,
                                size_t size, const void *in, cl_uint n, const cl_event *wait,
                                cl_event *event)
{
    ENTER(clEnqueueWriteBuffer);
    if (blocks_for_ever(blocking))
        return CL_OUT_OF_RESOURCES;
    return enqueued(real.clEnqueueWriteBuffer(q, m, blocking, at, size, in, n, wait, event), q,
                    false, n, wait, event);
}

API cl_int clEnqueueReadBufferRect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *at,
                                   const size_t *to, const size_t *region, size_t row, size_t slice,
                                   size_t host_row, size_t host_slice, void *out, cl_uint n,
                                   const cl_event *wait, cl_event *event)
{
    ENTER(clEnqueueReadBufferRect);
    if (blocks_for_ever(blocking))
        return CL_OUT_OF_RESOURCES;
    return enqueued(real.clEnqueueReadBufferRect(q, m, blocking, at, to, region, row, slice,
                                                 host_row, host_slice, out, n, wait, event),
                    q, false, n, wait, event);
}

API cl_int clEnqueueWriteBufferRect(cl_command_queue q, cl_mem m, cl_bool blocking,
                                    const size_t *at, const size_t *from, const size_t *region,
                                    size_t row, size_t slice, size_t host_row, size_t host_slice,
                                    const void *in, cl_uint n, const cl_event *wait,
                                    cl_event *event)
{
    ENTER(clEnqueueWriteBufferRect);
    if (blocks_for_ever(blocking))
        return CL_OUT_OF_RESOURCES;
    return enqueued(real.clEnqueueWriteBufferRect(q, m, blocking, at, from, region, row, slice,
                                                  host_row, host_slice, in, n, wait, event),
                    q, false, n, wait, event);
}

API void *clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags,
                             size_t at, size_t size, cl_uint n, const cl_event *wait,
                             cl_event *event, cl_int *error)
{
    ENTER_CREATE(clEnqueueMapBuffer, error);
    if (blocks_for_ever(blocking)) {
        if (error)
            *error = CL_MAP_FAILURE;
        return NULL;
    }
    void *mapped = real.clEnqueueMapBuffer(q, m, blocking, flags, at, size, n, wait, event, error);
    enqueued(mapped ? CL_SUCCESS : CL_MAP_FAILURE, q, false, n, wait, event);
    return mapped;
}

API cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem m, void *mapped, cl_uint n,
                                   const cl_event *wait, cl_event *event)
{
    ENTER(clEnqueueUnmapMemObject);
    return enqueued(real.clEnqueueUnmapMemObject(q, m, mapped, n, wait, event), q, false, n, wait,
                    event);
}

API cl_int clGetEventInfo(cl_event e, cl_event_info what, size_t size, void *out, size_t *need)
{
    ENTER(clGetEventInfo);
    const cl_int submitted = CL_SUBMITTED;
    if (what == CL_EVENT_COMMAND_EXECUTION_STATUS && never_done(e))
        return answer(&submitted, sizeof submitted, size, out, need);
    return real.clGetEventInfo(e, what, size, out, need);
}

API cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info what, size_t size, void *out,
                                   size_t *need)
{
    ENTER(clGetEventProfilingInfo);
    return real.clGetEventProfilingInfo(e, what, size, out, need);
}

API cl_int clReleaseEvent(cl_event e)
{
    return dies(EVENT, e) ? real.clReleaseEvent(e) : CL_INVALID_EVENT;
}

API cl_int clFlush(cl_command_queue q)
{
    ENTER(clFlush);
    return real.clFlush(q);
}
