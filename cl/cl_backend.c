/* cl_backend.c: the backend for OpenCL devices: finds, opens and describes them, and manages their
 * memory. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cl/cl_import.h"
#include "cl/cl_kernels.h"
#include "gpu/gpu_queue.h"
#include "platform/os/os_machine.h"

/* ---- found ---- */

static void fill_info(fovea_device_info *out, int index, const fv_cl_place *p)
{
    fv_cl_fill_info(out, index, p);
    fv_cl_list_imports(out->imports, p);
}

static size_t probe(size_t index, fovea_device_info *out)
{
    const fv_cl_place *places;
    const size_t n = (size_t)fv_cl_devices(&places);
    if (index < n)
        fill_info(out, (int)index, &places[index]);
    return n;
}

/* ---- open and close ---- */

static void name_of(int index, char *out, size_t size)
{
    const fv_cl_place *places;
    fv_cl_devices(&places);
    fv_cl_device_text(&places[index], CL_DEVICE_NAME, out, size);
}

/* Releases the driver's objects, unless the device is hung and may still use them. */
static void stop(fv_device *d)
{
    fv_gpu_store_empty(&d->store);
    if (d->features & FV_NEED_CL_CLBLAST && !d->hung)
        fv_cl_clblast_forget();
    fv_cl_buffer_free(d, d->nothing);
    if (d->service && !d->hung)
        fv_cl.clReleaseCommandQueue(d->service);
    if (d->context && !d->hung)
        fv_cl.clReleaseContext(d->context);
    d->nothing = NULL;
    d->service = NULL;
    d->context = NULL;
}

static void close_device(fv_device *d)
{
    const bool stuck = fv_gpu_store_is_stuck(&d->store);
    if (stuck)
        d->hung = true;
    stop(d);
    fv_gpu_store_close(&d->store);
    pthread_mutex_destroy(&d->lock);
    if (!stuck) /* otherwise a thread inside the driver still uses the device */
        fv_mem_free(d);
}

/* cl_qcom_perf_hint: its constants, as in Qualcomm's header */
#define CL_CONTEXT_PERF_HINT_QCOM 0x40C2
#define CL_PERF_HINT_HIGH_QCOM 0x40C3

/* Creates a context. `hint` asks the driver for high clocks while something runs; without it clocks
 * rise only after some frames. */
static cl_context new_context(const fv_device *d, bool hint, cl_int *error)
{
    const cl_context_properties properties[] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)d->place.platform,
        hint ? CL_CONTEXT_PERF_HINT_QCOM : 0, CL_PERF_HINT_HIGH_QCOM, 0};
    return fv_cl.clCreateContext(properties, 1, &d->place.device, NULL, NULL, error);
}

/* Uses the caller's context, if it contains this device. */
static fovea_status take_context(fv_device *d, cl_context context)
{
    cl_device_id devices[FV_CL_DEVICES] = {NULL};
    size_t size = 0, found = 0;
    FV_CL_TRY("the caller's context", clGetContextInfo,
              (context, CL_CONTEXT_DEVICES, sizeof devices, devices, &size));
    while (found < size / sizeof *devices && devices[found] != d->place.device)
        found++;
    if (found == size / sizeof *devices)
        return fv_fail(FOVEA_EINVAL,
                       "the caller's context does not contain device cl:%d; create the context for "
                       "that device",
                       d->index);
    FV_CL_TRY("the caller's context", clRetainContext, (context));
    d->context = context;
    return FOVEA_OK;
}

static fovea_status make_context(fv_device *d)
{
    const bool hint = fv_cl_has_extension(&d->place, "cl_qcom_perf_hint");
    cl_int error;
    cl_context context = new_context(d, hint, &error);
    if (hint && error != CL_SUCCESS)
        context = new_context(d, false, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateContext", NULL);
    d->context = context;
    return FOVEA_OK;
}

static fovea_status start(fv_device *d, cl_context context)
{
    FV_TRY(context ? take_context(d, context) : make_context(d));
    FV_TRY(fv_cl_queue_make(&d->service, d, 0));
    return fv_cl_buffer_make(&d->nothing, d, CL_MEM_READ_WRITE, 64, NULL, NULL);
}

/* Probes what the device can do. If that crashes the context of a faulty driver, a new context is
 * made, without probing. */
static fovea_status start_and_probe(fv_device *d, cl_context context)
{
    FV_TRY(start(d, context));
    fv_cl_probe(d);
    if (!d->lost)
        return FOVEA_OK;
    if (d->hung)
        return fv_cl_ready(d);
    stop(d);
    d->lost = false;
    d->features = 0;
    d->int8_attention = false;
    d->recorder.by = FV_CL_NO_RECORDS;
    fv_gpu_add_words(d->quirks, "crashed when probed: only its core features are used");
    return start(d, context);
}

static fovea_status set_up(fv_device *d, const fovea_device_options *options)
{
    char *identity;
    fv_cl_read_limits(&d->place, &d->limits);
    /* A CPU needs no limit: no screen and no watchdog waits for it. */
    d->dispatch = options->max_dispatch_seconds > 0 ? options->max_dispatch_seconds
                  : d->limits.cpu                   ? 0
                                                    : 0.02;
    FV_TRY(fv_cl_identify(&identity, &d->place));
    FV_TRY(fv_gpu_store_open(&d->store, d, &fv_cl_compiler_cl, identity, options));
    return start_and_probe(d, options->context);
}

static fovea_status open_device(fv_device **out, const char *which,
                                const fovea_device_options *options)
{
    const fv_cl_place *places;
    const int index = fv_gpu_find(which, fv_cl_devices(&places), name_of);
    if (index < 0)
        return fv_fail(FOVEA_ENODEV, "device 'cl:%s' does not exist (%s)", which, fv_cl_status());
    fv_device *d;
    FV_TRY(FV_MEM_NEW(&d, FV_MEM_DEVICE, "the device"));
    d->index = index;
    d->place = places[index];
    pthread_mutex_init(&d->lock, NULL);
    const fovea_status status = set_up(d, options);
    if (status == FOVEA_OK)
        *out = d;
    else
        close_device(d);
    return status;
}

static void describe_device(const fv_device *d, fovea_device_info *out)
{
    static const struct {
        uint32_t need;
        const char *text;
    } names[] = {
        {FV_NEED_CL_HALF, ", half"},    {FV_NEED_CL_SUBGROUPS, ", subgroups"},
        {FV_NEED_CL_DOT, ", dot"},      {FV_NEED_CL_IMAGE_FIRST, ", images"},
        {FV_NEED_CL_WIDE, ", vectors"}, {FV_NEED_CL_CLBLAST, ", CLBlast"},
    };
    fill_info(out, d->index, &d->place);
    out->int8 = (d->features & FV_NEED_CL_DOT) != 0;
    if (d->features & FV_NEED_CL_LOCAL)
        out->local_memory = d->limits.local;
    if (*d->quirks)
        fv_gpu_add_words(out->quirks, d->quirks);
    memcpy(out->compiler, d->compiler, sizeof out->compiler);
    fv_gpu_store_skipped(&d->store, out->skipped, sizeof out->skipped);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t used = strlen(out->features);
        if (d->features & names[i].need)
            snprintf(out->features + used, sizeof out->features - used, "%s", names[i].text);
    }
    const size_t used = strlen(out->features);
    if (d->recorder.by)
        snprintf(out->features + used, sizeof out->features - used, ", %s",
                 fv_cl_recorder_name(&d->recorder));
}

static void limits(const fv_device *d, fv_limits *out)
{
    *out = (fv_limits){.threads = 1,
                       .borrows = !d->limits.unified,
                       .throughput = true,
                       .partials = fv_gpu_partials(d->limits.units),
                       .frames = FV_GPU_FRAMES,
                       .largest = d->limits.largest,
                       .rows = d->limits.ends_long_loops ? FV_CL_FEW_ROWS : UINT32_MAX,
                       .half_sums = d->features & FV_NEED_CL_HALF,
                       .int8 = true,
                       .int8_attention = d->int8_attention};
}

/* ---- memory ---- */

/* Memory that is still free. OpenCL cannot report that of a card, only its driver could. */
static uint64_t free_memory(fv_device *d)
{
    return d->limits.unified ? fv_gpu_share(fv_machine_free(), true) : UINT64_MAX;
}

static fovea_status alloc(fv_device *d, uint64_t size, const char *what, fv_mem *out)
{
    cl_mem buffer;
    FV_TRY(fv_cl_ready(d));
    if (size > d->limits.largest)
        return fv_fail(FOVEA_ENOMEM,
                       "%s needs %.1f MiB in one buffer, but the device's buffers hold at most "
                       "%.1f MiB; use a smaller picture or a memory limit",
                       what, (double)size / (1 << 20), (double)d->limits.largest / (1 << 20));
    FV_TRY(fv_cl_buffer_make(&buffer, d, fv_cl_flags(d), size, NULL, what));
    *out = (fv_mem){.size = size, .handle = (uintptr_t)buffer};
    return FOVEA_OK;
}

static void release_buffer(fv_device *d, fv_mem *m)
{
    fv_cl_buffer_free(d, fv_cl_buffer(m));
    *m = (fv_mem){.host = NULL};
}

static fovea_status write_mapped(fv_device *d, fv_mem *m, const void *src, uint64_t size)
{
    void *to;
    FV_TRY(fv_cl_map(d, d->service, fv_cl_buffer(m), CL_MAP_WRITE_INVALIDATE_REGION, size, &to));
    if (src)
        memcpy(to, src, (size_t)size);
    else
        memset(to, 0, (size_t)size);
    return fv_cl_unmap(d, d->service, fv_cl_buffer(m), to, NULL);
}

static fovea_status write(fv_device *d, fv_mem *m, const void *src, uint64_t size)
{
    /* Never written; if it were const, the zeros would be in the file. */
    static char zeros[1 << 16];
    FV_TRY(fv_cl_ready(d));
    if (size == 0)
        return FOVEA_OK;
    if (d->limits.unified)
        return write_mapped(d, m, src, size);
    const uint64_t most = src ? size : sizeof zeros;
    for (uint64_t at = 0; at < size; at += most) {
        const size_t n = (size_t)(size - at < most ? size - at : most);
        cl_event event = NULL;
        FV_CL_RUN(d, "a buffer", clEnqueueWriteBuffer,
                  (d->service, fv_cl_buffer(m), CL_FALSE, (size_t)at, n, src ? src : zeros, 0, NULL,
                   &event));
        FV_TRY(fv_cl_finish(d, d->service, event, n));
    }
    return FOVEA_OK;
}

static fovea_status read(fv_device *d, const fv_mem *m, void *dst, uint64_t size)
{
    FV_TRY(fv_cl_ready(d));
    if (size == 0)
        return FOVEA_OK;
    if (d->limits.unified) {
        void *from;
        FV_TRY(fv_cl_map(d, d->service, fv_cl_buffer(m), CL_MAP_READ, size, &from));
        memcpy(dst, from, (size_t)size);
        return fv_cl_unmap(d, d->service, fv_cl_buffer(m), from, NULL);
    }
    cl_event event = NULL;
    FV_CL_RUN(d, "a buffer", clEnqueueReadBuffer,
              (d->service, fv_cl_buffer(m), CL_FALSE, 0, (size_t)size, dst, 0, NULL, &event));
    return fv_cl_finish(d, d->service, event, size);
}

/* ---- kernels ---- */

static const fv_kernel *kernels(fv_device *d, int *count, uint32_t *features)
{
    *features = d ? d->features : 0;
    return fv_cl_kernels(count);
}

static const char *level(uint32_t needs)
{
    return needs & FV_NEED_CL_HALF      ? "opencl half"
           : needs & FV_NEED_CL_CLBLAST ? "clblast"
           : needs & FV_NEED_CL_LOCAL   ? "opencl local"
                                        : "opencl";
}

const fv_backend fv_backend_cl = {
    .name = "cl",
    .abi = FV_BACKEND_ABI,
    .probe = probe,
    .status = fv_cl_status,
    .open = open_device,
    .close = close_device,
    .describe = describe_device,
    .limits = limits,
    .free_memory = free_memory,
    .alloc = alloc,
    .release = release_buffer,
    .write = write,
    .read = read,
    .import = fv_cl_import,
    .forget = fv_cl_forget,
    .kernels = kernels,
    .level = level,
    .bind = fv_cl_bind,
    .unbind = fv_cl_unbind,
    .queue_open = fv_cl_queue_open,
    .queue_close = fv_gpu_queue_close,
    .prepare = fv_cl_prepare,
    .upload = fv_gpu_upload,
    .upload_from = fv_gpu_upload_from,
    .submit = fv_gpu_submit,
    .download = fv_gpu_download,
    .wait = fv_gpu_wait,
    .read_event = fv_cl_read_event,
    .read_fence = fv_cl_read_fence,
    .trace = fv_cl_queue_trace,
    .timed = fv_cl_queue_timed,
    .rates = fv_cl_rates_best,
};
