/* cl_record.c: records kernels with either of the two extensions. */
#include "cl/cl_record.h"

#include <string.h>

#include "base/mem.h"
#include "cl/cl_device.h"

/* Constants of cl_qcom_recordable_queues, as in Qualcomm's header. A recordable queue allows no
 * other property. */
#define CL_QUEUE_RECORDABLE_QCOM ((cl_command_queue_properties)1 << 30)
#define CL_DEVICE_RECORDABLE_QUEUE_MAX_SIZE 0x41DE
/* cl_khr_command_buffer */
#ifndef CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR
#define CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR 0x12AA
#endif

struct fv_cl_part {
    struct fv_cl_part *next;
    void *handle; /* the driver's */
    uint32_t dispatches, kernels;
    double seconds;
    bool ended;
    cl_uint point; /* of the last kernel */
};

/* ---- what there is ---- */

/* Whether the driver has all functions of the extension; their names end in `end`. */
static bool resolve(fv_cl_recorder *out, const fv_cl_place *p, const char *end)
{
    bool all = true;
#define FV_CL_RECORD(name, result, parameters)                                                     \
    if (all && strstr(#name, end)) {                                                               \
        *(void **)&out->name = fv_cl_extension_function(p, #name);                                 \
        all = out->name;                                                                           \
    }
#include "cl/cl_record_calls.inc"
#undef FV_CL_RECORD
    return all;
}

/* Whether recordings need queues with properties. Ours have none, except for profiling while frames
 * are timed. */
static bool wants_other_queues(const fv_cl_place *p)
{
    cl_command_queue_properties wanted = 0;
    return fv_cl.clGetDeviceInfo(p->device, CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR,
                                 sizeof wanted, &wanted, NULL) == CL_SUCCESS &&
           wanted;
}

void fv_cl_recorder_find(fv_cl_recorder *out, const fv_cl_place *p)
{
    cl_uint most = 0;
    *out = (fv_cl_recorder){.most = UINT32_MAX};
    if (fv_cl_has_extension(p, "cl_khr_command_buffer") && resolve(out, p, "KHR") &&
        !wants_other_queues(p)) {
        out->by = FV_CL_COMMAND_BUFFERS;
    } else if (fv_cl_has_extension(p, "cl_qcom_recordable_queues") && resolve(out, p, "QCOM") &&
               fv_cl.clGetDeviceInfo(p->device, CL_DEVICE_RECORDABLE_QUEUE_MAX_SIZE, sizeof most,
                                     &most, NULL) == CL_SUCCESS &&
               most) {
        out->by = FV_CL_RECORDABLE_QUEUES;
        out->most = most;
    }
}

const char *fv_cl_recorder_name(const fv_cl_recorder *r)
{
    return r->by == FV_CL_COMMAND_BUFFERS ? "command buffers" : "recordable queues";
}

/* ---- record ---- */

#define RECORD(call, arguments)                                                                    \
    do {                                                                                           \
        const cl_int error_ = d->recorder.call arguments;                                          \
        if (error_ != CL_SUCCESS)                                                                  \
            return fv_cl_fail(error_, #call, NULL);                                                \
    } while (0)

static fovea_status end_part(struct fv_cl_part *part, const fv_device *d)
{
    if (!part || !part->handle || part->ended)
        return FOVEA_OK;
    part->ended = true;
    if (d->recorder.by == FV_CL_COMMAND_BUFFERS)
        RECORD(clFinalizeCommandBufferKHR, (part->handle));
    else
        RECORD(clEndRecordingQCOM, (part->handle));
    return FOVEA_OK;
}

static fovea_status make_handle(struct fv_cl_part *part, fv_cl_recording *r, const fv_device *d,
                                cl_command_queue queue)
{
    const bool buffers = d->recorder.by == FV_CL_COMMAND_BUFFERS;
    cl_int error;
    if (!buffers && !r->own)
        FV_TRY(fv_cl_queue_make(&r->own, d, CL_QUEUE_RECORDABLE_QCOM));
    void *handle = buffers ? d->recorder.clCreateCommandBufferKHR(1, &queue, NULL, &error)
                           : d->recorder.clNewRecordingQCOM(r->own, &error);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, buffers ? "clCreateCommandBufferKHR" : "clNewRecordingQCOM", NULL);
    part->handle = handle;
    return FOVEA_OK;
}

static fovea_status begin_part(fv_cl_recording *r, fv_device *d, cl_command_queue queue)
{
    struct fv_cl_part *part;
    FV_TRY(end_part(r->last, d));
    FV_TRY(FV_MEM_NEW(&part, FV_MEM_PLAN, "a recorded frame"));
    if (r->last)
        r->last->next = part;
    else
        r->first = part;
    r->last = part;
    return make_handle(part, r, d, queue);
}

fovea_status fv_cl_record_dispatch(fv_cl_recording *r, fv_device *d, cl_command_queue queue,
                                   uint32_t kernels, double seconds)
{
    const struct fv_cl_part *last = r->last;
    if (!last || last->kernels + kernels > d->recorder.most ||
        (d->dispatch > 0 && last->seconds + seconds > d->dispatch))
        FV_TRY(begin_part(r, d, queue));
    r->last->dispatches++;
    r->last->seconds += seconds;
    r->dispatches++;
    return FOVEA_OK;
}

/* Every kernel waits for the previous one explicitly, even if the queue is in order: a command
 * buffer's order is only that of its sync points. */
fovea_status fv_cl_record_kernel(fv_cl_recording *r, const fv_device *d, cl_kernel kernel,
                                 const size_t items[3], const size_t group[3])
{
    struct fv_cl_part *part = r->last;
    const cl_uint before = part->point, waits = part->kernels ? 1 : 0;
    part->kernels++;
    if (d->recorder.by == FV_CL_COMMAND_BUFFERS)
        RECORD(clCommandNDRangeKernelKHR, (part->handle, NULL, NULL, kernel, 3, NULL, items, group,
                                           waits, waits ? &before : NULL, &part->point, NULL));
    else
        FV_CL_TRY("a recorded frame", clEnqueueNDRangeKernel,
                  (r->own, kernel, 3, NULL, items, group, 0, NULL, NULL));
    return FOVEA_OK;
}

fovea_status fv_cl_record_end(fv_cl_recording *r, const fv_device *d, uint64_t key)
{
    FV_TRY(end_part(r->last, d));
    r->key = key;
    return FOVEA_OK;
}

/* ---- replay ---- */

static fovea_status enqueue_part(const struct fv_cl_part *part, const fv_device *d,
                                 cl_command_queue queue)
{
    if (d->recorder.by == FV_CL_COMMAND_BUFFERS)
        RECORD(clEnqueueCommandBufferKHR, (1, &queue, part->handle, 0, NULL, NULL));
    else
        RECORD(clEnqueueRecordingQCOM,
               (queue, part->handle, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, NULL));
    return FOVEA_OK;
}

fovea_status fv_cl_replay(const fv_cl_recording *r, fv_device *d, cl_command_queue queue,
                          uint32_t *dispatches)
{
    *dispatches = 0;
    for (const struct fv_cl_part *part = r->first; part; part = part->next) {
        if (enqueue_part(part, d, queue) != FOVEA_OK)
            return FOVEA_OK;
        *dispatches += part->dispatches;
        FV_CL_RUN(d, NULL, clFlush, (queue));
    }
    return FOVEA_OK;
}

/* ---- free ---- */

static void release_handle(const fv_device *d, void *handle)
{
    if (d->recorder.by == FV_CL_COMMAND_BUFFERS)
        d->recorder.clReleaseCommandBufferKHR(handle);
    else
        d->recorder.clReleaseRecordingQCOM(handle);
}

void fv_cl_recording_free(fv_cl_recording *r, const fv_device *d)
{
    struct fv_cl_part *part = r->first;
    /* The recordable queue allows no other recording meanwhile, and must not be released. */
    if (r->own)
        end_part(r->last, d);
    while (part) {
        struct fv_cl_part *next = part->next;
        if (part->handle && !d->hung)
            release_handle(d, part->handle);
        fv_mem_free(part);
        part = next;
    }
    if (r->own && !d->hung)
        fv_cl.clReleaseCommandQueue(r->own);
    *r = (fv_cl_recording){.key = 0};
}
