/* hostile_record.c: implements cl_khr_command_buffer and cl_qcom_recordable_queues over a library
 * that has neither.
 *
 * A recording is a list of kernels with their arguments, which are enqueued one by one. Anything
 * that the extensions leave to drivers is refused, and counted as misuse if no error would show it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/hostile_cl.h"

#define CL_QUEUE_RECORDABLE_QCOM ((cl_command_queue_properties)1 << 30)

enum {
    ARGUMENTS = 64,
    BYTES = 256
}; /* maximum arguments of a kernel; maximum bytes of an argument */

typedef struct argument {
    bool set;
    size_t size;
    char value[BYTES];
} argument;

typedef struct known_kernel {
    struct known_kernel *next;
    cl_kernel kernel;
    argument now[ARGUMENTS];
} known_kernel;

typedef struct command {
    struct command *next;
    cl_kernel kernel;
    cl_uint dimensions;
    size_t items[3], group[3];
    argument with[ARGUMENTS];
} command;

typedef struct recording {
    struct recording *next;
    command *first, *last;
    cl_uint commands;
    cl_command_queue queue; /* Qualcomm's recording queue */
    bool ended;
    cl_event done; /* event of the last time that the recording was enqueued */
} recording;

static known_kernel *kernels;
static recording *open_recordings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { NONE, BUFFERS, QUEUES, LATE, LACKING }; /* values of the setting `records` */

static long records(void)
{
    return hostile_lie(lie_records, NONE);
}

static bool alive(enum kind kind, const void *handle)
{
    pthread_mutex_lock(&hostile_lock);
    const bool found = hostile_find(kind, handle);
    pthread_mutex_unlock(&hostile_lock);
    return found;
}

/* ---- reported extensions ---- */

void hostile_record_extensions(char *text)
{
    char *real_one = strstr(text, "cl_khr_command_buffer");
    if (real_one)
        memset(real_one, ' ', strcspn(real_one, " "));
    if (records() == BUFFERS || records() >= LATE)
        strcat(text, " cl_khr_command_buffer");
    if (records() == QUEUES)
        strcat(text, " cl_qcom_recordable_queues");
    if (hostile_lie(lie_hint, 0))
        strcat(text, " cl_qcom_perf_hint");
}

bool hostile_record_takes(cl_command_queue_properties properties)
{
    return records() == QUEUES && properties == CL_QUEUE_RECORDABLE_QCOM;
}

/* ---- arguments ---- */

static known_kernel *find_kernel(cl_kernel k)
{
    for (known_kernel *n = kernels; n; n = n->next)
        if (n->kernel == k)
            return n;
    known_kernel *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    n->kernel = k;
    n->next = kernels;
    return kernels = n;
}

void hostile_record_argument(cl_kernel k, cl_uint index, size_t size, const void *value)
{
    if (!value)
        return; /* local memory cannot change */
    if (index >= ARGUMENTS || size > BYTES)
        abort();
    pthread_mutex_lock(&lock);
    argument *a = &find_kernel(k)->now[index];
    a->set = true;
    a->size = size;
    memcpy(a->value, value, size);
    pthread_mutex_unlock(&lock);
}

void hostile_record_forget(cl_kernel k)
{
    pthread_mutex_lock(&lock);
    for (known_kernel **n = &kernels; *n; n = &(*n)->next)
        if ((*n)->kernel == k) {
            known_kernel *gone = *n;
            *n = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&lock);
}

static void set_arguments(cl_kernel k, const argument *with)
{
    for (cl_uint i = 0; i < ARGUMENTS; i++)
        if (with[i].set)
            real.clSetKernelArg(k, i, with[i].size, with[i].value);
}

/* ---- recordings ---- */

static recording *make_recording(cl_command_queue q)
{
    recording *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->queue = q;
    born(RECORDING, r);
    pthread_mutex_lock(&lock);
    r->next = open_recordings;
    open_recordings = r;
    pthread_mutex_unlock(&lock);
    return r;
}

/* Requires the lock. */
static void leave_open(recording *r)
{
    for (recording **o = &open_recordings; *o; o = &(*o)->next)
        if (*o == r) {
            *o = r->next;
            break;
        }
}

static cl_int take(recording *r, cl_kernel k, cl_uint dimensions, const size_t *offset,
                   const size_t *items, const size_t *group)
{
    if (offset || !group || dimensions > 3 || r->ended)
        return CL_INVALID_OPERATION;
    command *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->kernel = k;
    c->dimensions = dimensions;
    memcpy(c->items, items, dimensions * sizeof *items);
    memcpy(c->group, group, dimensions * sizeof *group);
    pthread_mutex_lock(&lock);
    memcpy(c->with, find_kernel(k)->now, sizeof c->with);
    pthread_mutex_unlock(&lock);
    if (r->last)
        r->last->next = c;
    else
        r->first = c;
    r->last = c;
    r->commands++;
    return CL_SUCCESS;
}

static cl_int end(recording *r)
{
    if (!alive(RECORDING, r))
        return CL_INVALID_VALUE;
    if (r->ended)
        return CL_INVALID_OPERATION;
    r->ended = true;
    pthread_mutex_lock(&lock);
    leave_open(r);
    pthread_mutex_unlock(&lock);
    return CL_SUCCESS;
}

static bool under_way(const recording *r)
{
    cl_int state = CL_COMPLETE;
    if (r->done)
        real.clGetEventInfo(r->done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return state > CL_COMPLETE;
}

static cl_int enqueue(cl_command_queue q, recording *r)
{
    if (!alive(RECORDING, r) || !r->ended || !r->commands)
        return CL_INVALID_OPERATION;
    if (under_way(r)) {
        misused("a recording is enqueued again before it is done");
        return CL_INVALID_OPERATION;
    }
    if (r->done)
        real.clReleaseEvent(r->done);
    r->done = NULL;
    cl_int status = CL_SUCCESS;
    for (const command *c = r->first; c && status == CL_SUCCESS; c = c->next) {
        if (!alive(KERNEL, c->kernel)) {
            misused("a kernel that is recorded was released");
            return CL_INVALID_KERNEL;
        }
        pthread_mutex_lock(&lock);
        if (records() != LATE)
            set_arguments(c->kernel, c->with);
        status = real.clEnqueueNDRangeKernel(q, c->kernel, c->dimensions, NULL, c->items, c->group,
                                             0, NULL, c->next ? NULL : &r->done);
        set_arguments(c->kernel, find_kernel(c->kernel)->now);
        pthread_mutex_unlock(&lock);
    }
    return enqueued(status, q, true, 0, NULL, NULL);
}

static cl_int release(recording *r)
{
    if (!dies(RECORDING, r))
        return CL_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    leave_open(r);
    pthread_mutex_unlock(&lock);
    while (r->first) {
        command *next = r->first->next;
        free(r->first);
        r->first = next;
    }
    if (r->done)
        real.clReleaseEvent(r->done);
    free(r);
    return CL_SUCCESS;
}

/* ---- cl_khr_command_buffer ---- */

static void *clCreateCommandBufferKHR(cl_uint queues, const cl_command_queue *queue,
                                      const void *properties, cl_int *error)
{
    ENTER_CREATE(clCreateCommandBufferKHR, error);
    if (queues != 1 || !alive(QUEUE, *queue) || properties) {
        *error = CL_INVALID_VALUE;
        return NULL;
    }
    *error = CL_SUCCESS;
    return make_recording(*queue);
}

/* Sync points are numbered from 1. Each command must wait for the previous one. */
static cl_int clCommandNDRangeKernelKHR(void *buffer, cl_command_queue queue,
                                        const void *properties, cl_kernel kernel,
                                        cl_uint dimensions, const size_t *offset,
                                        const size_t *items, const size_t *group, cl_uint points,
                                        const cl_uint *wait, cl_uint *point, void **handle)
{
    ENTER(clCommandNDRangeKernelKHR);
    recording *r = buffer;
    if (!alive(RECORDING, r) || queue || properties || handle)
        return CL_INVALID_VALUE;
    if (r->commands ? points != 1 || *wait != r->commands : points != 0) {
        misused("a command does not wait for the one before");
        return CL_INVALID_VALUE;
    }
    const cl_int status = take(r, kernel, dimensions, offset, items, group);
    *point = r->commands;
    return status;
}

static cl_int clFinalizeCommandBufferKHR(void *buffer)
{
    ENTER(clFinalizeCommandBufferKHR);
    return end(buffer);
}

static cl_int clEnqueueCommandBufferKHR(cl_uint queues, cl_command_queue *queue, void *buffer,
                                        cl_uint events, const cl_event *wait, cl_event *event)
{
    ENTER(clEnqueueCommandBufferKHR);
    if (queues != 1 || events || wait || event || !alive(RECORDING, buffer) ||
        *queue != ((recording *)buffer)->queue)
        return CL_INVALID_VALUE;
    return enqueue(*queue, buffer);
}

static cl_int clReleaseCommandBufferKHR(void *buffer)
{
    return release(buffer);
}

/* ---- cl_qcom_recordable_queues ---- */

/* Returns the recording that is open on a queue. */
static recording *opened(cl_command_queue q)
{
    pthread_mutex_lock(&lock);
    recording *r = open_recordings;
    while (r && r->queue != q)
        r = r->next;
    pthread_mutex_unlock(&lock);
    return r;
}

static void *clNewRecordingQCOM(cl_command_queue queue, cl_int *error)
{
    ENTER_CREATE(clNewRecordingQCOM, error);
    if (!alive(RECORDABLE, queue) || opened(queue)) {
        *error = CL_INVALID_OPERATION;
        return NULL;
    }
    *error = CL_SUCCESS;
    return make_recording(queue);
}

bool hostile_record_enqueued(cl_command_queue q, cl_kernel k, cl_uint dimensions,
                             const size_t *offset, const size_t *items, const size_t *group,
                             cl_uint waits, const cl_event *event, cl_int *status)
{
    if (!alive(RECORDABLE, q))
        return false;
    recording *r = opened(q);
    if (!r || waits || event)
        *status = CL_INVALID_OPERATION;
    else if (r->commands == HOSTILE_RECORDABLE)
        *status = CL_OUT_OF_RESOURCES;
    else
        *status = take(r, k, dimensions, offset, items, group);
    return true;
}

static cl_int clEndRecordingQCOM(void *recorded)
{
    ENTER(clEndRecordingQCOM);
    return end(recorded);
}

static cl_int clEnqueueRecordingQCOM(cl_command_queue queue, void *recorded, size_t arguments,
                                     const void *argument_, size_t offsets, const void *offset,
                                     size_t all_items, const void *items, size_t groups,
                                     const void *group, cl_uint events, const cl_event *wait,
                                     cl_event *event)
{
    ENTER(clEnqueueRecordingQCOM);
    if (alive(RECORDABLE, queue) || arguments || argument_ || offsets || offset || all_items ||
        items || groups || group || events || wait || event)
        return CL_INVALID_VALUE;
    return enqueue(queue, recorded);
}

static cl_int clReleaseRecordingQCOM(void *recorded)
{
    return release(recorded);
}

/* ---- functions by name ---- */

bool hostile_record_function(const char *name, void **out)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } functions[] = {
#define FV_CL_RECORD(name, result, parameters) {#name, (void (*)(void))name},
#include "cl/cl_record_calls.inc"
#undef FV_CL_RECORD
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) {
            const bool there = records() != NONE && records() != LACKING;
            *out = there ? (void *)(size_t)functions[i].function : NULL;
            return true;
        }
    return false;
}
