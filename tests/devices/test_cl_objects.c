/* test_cl_objects.c: pictures in buffers of the caller's own OpenCL context, with an event to wait
 * for and one that is waited for.
 *
 *   test_cl_objects path/to/libhostile_cl.so
 */
#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <time.h>

#include "cl/cl_loader.h"
#include "tests/devices/gpu_frames.h"
#include "tests/devices/shared_pixels.h"

static cl_mem put(cl_context context, const pixel_memory *m)
{
    cl_int error;
    cl_mem buffer = fv_cl.clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, m->size,
                                         m->data, &error);
    assert_int_equal(error, CL_SUCCESS);
    return buffer;
}

/* Events that the host ends, from the real library; they delay a command that waits for one. */
static struct {
    __typeof__(&clCreateUserEvent) create;
    __typeof__(&clSetUserEventStatus) end;
    __typeof__(&clReleaseEvent) release;
} late;

static cl_event late_event(cl_context context)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    cl_int error;
    *(void **)&late.create = dlsym(library, "clCreateUserEvent");
    *(void **)&late.end = dlsym(library, "clSetUserEventStatus");
    *(void **)&late.release = dlsym(library, "clReleaseEvent");
    const cl_event event = late.create(context, &error);
    assert_int_equal(error, CL_SUCCESS);
    return event;
}

/* By the time that the event ends, everything that does not wait for it has run. */
static void end_late(cl_event event)
{
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    assert_int_equal(late.end(event, CL_COMPLETE), CL_SUCCESS);
    late.release(event);
}

/* A context and queue of the caller, and a picture in one of the context's buffers. */
typedef struct owner {
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    pixel_memory memory;
    fovea_device *device;
    fovea_external_image *picture;
} owner;

static void owner_open(owner *o)
{
    const fv_cl_place *place;
    cl_int error;
    assert_true(fv_cl_devices(&place) > 0);
    o->context = fv_cl.clCreateContext(NULL, 1, &place->device, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    o->queue = fv_cl.clCreateCommandQueue(o->context, place->device, 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.context = o->context;
    if (fovea_device_open(&o->device, hostile.device, &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    pixels_open(&o->memory, &pixel_formats[4], 8);
    o->buffer = put(o->context, &o->memory);
    o->picture = pixels_import(&o->memory, o->device, FOVEA_EXTERNAL_OPENCL, o->buffer);
    assert_int_equal(picture_info(o->picture).transfer, FOVEA_TRANSFER_NONE);
}

static void owner_close(owner *o)
{
    fovea_external_image_free(o->picture);
    fv_cl.clReleaseMemObject(o->buffer);
    fovea_device_close(o->device);
    fv_cl.clReleaseCommandQueue(o->queue);
    fv_cl.clReleaseContext(o->context);
    pixels_close(&o->memory);
    nothing_left();
}

/* Submits a frame that must wait for `begin`; the pixels are written when `begin` ends. */
static fovea_ticket submit_late(const owner *o, fovea_plan *plan, const fovea_output *out,
                                cl_event begin, cl_event *written)
{
    fovea_ticket ticket;
    assert_int_equal(fv_cl.clEnqueueWriteBuffer(o->queue, o->buffer, CL_FALSE, 0, o->memory.size,
                                                o->memory.data, 1, &begin, written),
                     CL_SUCCESS);
    assert_int_equal(fv_cl.clFlush(o->queue), CL_SUCCESS);
    const fovea_acquire_fence ready = {.event = *written};
    assert_int_equal(fovea_submit_external_image(plan, o->picture, &ready, out, 1, &ticket),
                     FOVEA_OK);
    return ticket;
}

static fovea_plan *owner_plan(const owner *o, fovea_device_lost_action lost)
{
    return pixels_plan(model, o->device, FOVEA_FORMAT_NV12, 1, lost);
}

/* Pixels are written while the frame waits, and overwritten once the frame has read them. */
static void events(void **state)
{
    (void)state;
    owner o;
    owner_open(&o);
    fovea_plan *plan = owner_plan(&o, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(plan);
    uint8_t *zeros = calloc(1, o.memory.size);
    assert_non_null(zeros);
    for (uint32_t i = 0; i < 5; i++) {
        cl_event written, overwritten;
        void *read;
        pixels_draw(&o.memory, i);
        fovea_output want = pixels_want(plan, &o.memory);
        const cl_event begin = late_event(o.context);
        const fovea_ticket ticket = submit_late(&o, plan, &out, begin, &written);
        assert_int_equal(fovea_plan_release_event(plan, ticket, &read), FOVEA_OK);
        const cl_event wait = read;
        assert_int_equal(fv_cl.clEnqueueWriteBuffer(o.queue, o.buffer, CL_FALSE, 0, o.memory.size,
                                                    zeros, 1, &wait, &overwritten),
                         CL_SUCCESS);
        assert_int_equal(fv_cl.clFlush(o.queue), CL_SUCCESS);
        end_late(begin);
        assert_int_equal(fovea_wait(plan, ticket, 60), FOVEA_OK);
        same_output(&out, &want, "a cl_mem");
        cl_int done = CL_QUEUED;
        while (done != CL_COMPLETE)
            fv_cl.clGetEventInfo(overwritten, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof done, &done,
                                 NULL);
        fv_cl.clReleaseEvent(written);
        fv_cl.clReleaseEvent(overwritten);
        free(want.data);
    }
    fovea_plan_free(plan);
    free(zeros);
    free(out.data);
    owner_close(&o);
}

/* Invalid buffers are refused. A picture keeps a reference to its buffer. */
static void buffers(void **state)
{
    (void)state;
    owner o;
    owner_open(&o);
    fovea_device *alone = open_device(0);
    fovea_external_image_options options =
        pixels_options(&o.memory, FOVEA_EXTERNAL_OPENCL, o.buffer);
    pixels_refused(alone, &options, FOVEA_EINVAL, "context");
    options.plane[1].offset += 500;
    pixels_refused(o.device, &options, FOVEA_EINVAL, "cl_mem has");
    options = pixels_options(&o.memory, FOVEA_EXTERNAL_CUDA, o.buffer);
    pixels_refused(o.device, &options, FOVEA_ENOTSUP, "");
    fovea_device_close(alone);
    fovea_plan *guarded = owner_plan(&o, FOVEA_DEVICE_LOST_CPU);
    fovea_output out = output_of(guarded);
    assert_int_equal(fovea_run_external_image(guarded, o.picture, NULL, &out, 1), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "FOVEA_DEVICE_LOST_FAIL"));
    fovea_plan_free(guarded);
    fovea_plan *plan = owner_plan(&o, FOVEA_DEVICE_LOST_FAIL);
    fv_cl.clReleaseMemObject(o.buffer);
    assert_int_equal(fovea_run_external_image(plan, o.picture, NULL, &out, 1), FOVEA_OK);
    fovea_external_image_free(o.picture);
    fovea_plan_free(plan);
    free(out.data);
    o.buffer = put(o.context, &o.memory);
    o.picture = pixels_import(&o.memory, o.device, FOVEA_EXTERNAL_OPENCL, o.buffer);
    owner_close(&o);
}

/* ---- sync_files ---- */

static bool signalled(int fd, int milliseconds)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, milliseconds) == 1 && p.revents & POLLIN;
}

/* The fence is not signalled while the frame waits for its pixels. Then another frame waits for the
 * fence. */
static void fences(void **state)
{
    (void)state;
    owner o;
    hostile.set("fences", 1);
    owner_open(&o);
    fovea_plan *plan = owner_plan(&o, FOVEA_DEVICE_LOST_FAIL),
               *next = owner_plan(&o, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(plan), other = output_of(next);
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    assert_int_equal(hostile.live("semaphore"), 2);
    for (uint32_t i = 0; i < 5; i++) {
        int fd = -1, again = -1;
        cl_event written;
        pixels_draw(&o.memory, i);
        fovea_output want = pixels_want(plan, &o.memory);
        const cl_event begin = late_event(o.context);
        fovea_memory_query(&before);
        const fovea_ticket ticket = submit_late(&o, plan, &out, begin, &written);
        assert_int_equal(fovea_plan_release_fence(plan, ticket, &fd), FOVEA_OK);
        assert_int_equal(fovea_plan_release_fence(plan, ticket, &again), FOVEA_OK);
        fovea_memory_query(&after);
        assert_int_equal(after.allocations, before.allocations);
        assert_true(fd >= 0 && again >= 0 && fd != again);
        assert_false(signalled(fd, 20) || signalled(again, 0));
        end_late(begin);
        assert_true(signalled(fd, 60000) && signalled(again, 60000));
        const fovea_acquire_fence ready = {.fd = fd};
        assert_int_equal(fovea_run_external_image(next, o.picture, &ready, &other, 1), FOVEA_OK);
        assert_int_equal(fovea_wait(plan, ticket, 60), FOVEA_OK);
        same_output(&out, &want, "the first frame");
        same_output(&other, &want, "the one that waited");
        close(fd);
        close(again);
        fd = -2;
        assert_int_equal(fovea_plan_release_fence(plan, ticket, &fd), FOVEA_EINVAL);
        assert_int_equal(fd, -2);
        fv_cl.clReleaseEvent(written);
        free(want.data);
    }
    assert_int_equal(fovea_plan_release_fence(plan, 1, NULL), FOVEA_EINVAL);
    fovea_plan_free(plan);
    fovea_plan_free(next);
    free(out.data);
    free(other.data);
    owner_close(&o);
    hostile.set(NULL, 0);
}

/* Frames work with a driver without fences, with one that only claims to have them, and with one in
 * which each call fails in turn. */
static void fences_that_fail(void **state)
{
    (void)state;
    static const struct {
        long has;
        const char *call; /* which fails */
        bool planning;    /* before the frame */
        fovea_status status;
    } turn[] = {
        {0, NULL, false, FOVEA_ENOTSUP},
        {2, NULL, false, FOVEA_ENOTSUP},
        {1, "clCreateSemaphoreWithPropertiesKHR", true, FOVEA_ENOTSUP},
        {1, "clEnqueueSignalSemaphoresKHR", false, FOVEA_EDEVICE},
        {1, "clFlush", false, FOVEA_EDEVICE},
        {1, "clGetSemaphoreHandleForTypeKHR", false, FOVEA_EDEVICE},
    };
    for (size_t i = 0; i < sizeof turn / sizeof *turn; i++) {
        int fd = -2;
        owner o;
        fovea_ticket ticket;
        hostile.set("fences", turn[i].has);
        hostile.set("error", CL_INVALID_OPERATION);
        owner_open(&o);
        hostile.only(turn[i].call);
        if (turn[i].planning)
            hostile.set("fail", 1);
        fovea_plan *plan = owner_plan(&o, FOVEA_DEVICE_LOST_FAIL);
        fovea_output want = pixels_want(plan, &o.memory), out = output_of(plan);
        assert_int_equal(fovea_submit_external_image(plan, o.picture, NULL, &out, 1, &ticket),
                         FOVEA_OK);
        if (turn[i].call && !turn[i].planning)
            hostile.set("fail", 1);
        assert_int_equal(fovea_plan_release_fence(plan, ticket, &fd), turn[i].status);
        const char *word =
            turn[i].status == FOVEA_ENOTSUP ? "fovea_plan_release_event" : turn[i].call;
        if (!strstr(fovea_error(), word))
            fail_msg("%s: %s is wanted", fovea_error(), word);
        assert_true(!turn[i].call || hostile.failed());
        hostile.set("fail", LONG_MIN);
        assert_int_equal(fovea_plan_release_fence(plan, ticket, &fd), FOVEA_ENOTSUP);
        assert_int_equal(fd, -2);
        assert_int_equal(fovea_wait(plan, ticket, 60), FOVEA_OK);
        same_output(&out, &want, "the frame");
        fovea_plan_free(plan);
        free(out.data);
        free(want.data);
        hostile.set(NULL, 0);
        owner_close(&o);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events),
        cmocka_unit_test(buffers),
        cmocka_unit_test(fences),
        cmocka_unit_test(fences_that_fail),
    };
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
