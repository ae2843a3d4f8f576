/* test_cl_buffers.c: pictures in buffers of the caller's own OpenCL context, with an event to wait
 * for and one that is waited for.
 *
 *   test_cl_buffers path/to/libhostile_cl.so
 */
#include <dlfcn.h>
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

/* Events that the host ends, of the real library: a command that waits for one is late. */
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

/* What is not waited for has run by then. */
static void end_late(cl_event event)
{
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
    assert_int_equal(late.end(event, CL_COMPLETE), CL_SUCCESS);
    late.release(event);
}

/* A buffer, an event to wait for, and one that is waited for, in the caller's own context. */
static void callers_buffer(void **state)
{
    (void)state;
    const fv_cl_place *place;
    cl_int error;
    pixel_memory m;
    assert_true(fv_cl_devices(&place) > 0);
    cl_context context = fv_cl.clCreateContext(NULL, 1, &place->device, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    cl_command_queue queue = fv_cl.clCreateCommandQueue(context, place->device, 0, &error);
    assert_int_equal(error, CL_SUCCESS);
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.context = context;
    fovea_device *device, *apart = open_device(0);
    if (fovea_device_open(&device, hostile.device, &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    pixels_open(&m, &pixel_formats[4], 8);
    cl_mem buffer = put(context, &m);
    fovea_picture *picture = pixels_import(&m, device, FOVEA_PICTURE_OPENCL, buffer);
    assert_int_equal(picture_info(picture).transfer, FOVEA_TRANSFER_NONE);
    fovea_picture_options o = pixels_options(&m, FOVEA_PICTURE_OPENCL, buffer);
    pixels_refused(apart, &o, FOVEA_EINVAL, "context");
    o.plane[1].offset += 500;
    pixels_refused(device, &o, FOVEA_EINVAL, "cl_mem of");
    o = pixels_options(&m, FOVEA_PICTURE_CUDA, buffer);
    pixels_refused(device, &o, FOVEA_ENOTSUP, "");
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_LOST_FAIL);
    fovea_output out = output_of(plan);
    /* Its pixels are written while the frame waits, and overwritten once it has read them. */
    for (uint32_t i = 0; i < 5; i++) {
        cl_event written, overwritten;
        void *read;
        fovea_ticket ticket;
        pixels_draw(&m, i);
        uint8_t *zeros = calloc(1, m.size);
        fovea_output want = pixels_want(plan, &m);
        assert_non_null(zeros);
        const cl_event begin = late_event(context);
        assert_int_equal(fv_cl.clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, m.size, m.data, 1,
                                                    &begin, &written),
                         CL_SUCCESS);
        assert_int_equal(fv_cl.clFlush(queue), CL_SUCCESS);
        const fovea_ready ready = {.event = written};
        assert_int_equal(fovea_submit_picture(plan, picture, &ready, &out, 1, &ticket), FOVEA_OK);
        assert_int_equal(fovea_read_event(plan, ticket, &read), FOVEA_OK);
        const cl_event wait = read;
        assert_int_equal(fv_cl.clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, m.size, zeros, 1,
                                                    &wait, &overwritten),
                         CL_SUCCESS);
        assert_int_equal(fv_cl.clFlush(queue), CL_SUCCESS);
        end_late(begin);
        assert_int_equal(fovea_wait(plan, ticket, 60), FOVEA_OK);
        same_output(&out, &want, "a cl_mem");
        cl_int done = CL_QUEUED;
        while (done != CL_COMPLETE)
            fv_cl.clGetEventInfo(overwritten, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof done, &done,
                                 NULL);
        fv_cl.clReleaseEvent(written);
        fv_cl.clReleaseEvent(overwritten);
        free(zeros);
        free(want.data);
    }
    fv_cl.clReleaseMemObject(buffer); /* the picture has its own */
    assert_int_equal(fovea_run_picture(plan, picture, NULL, &out, 1), FOVEA_OK);
    fovea_plan_free(plan);
    fovea_picture_free(picture);
    fovea_plan *guarded = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_LOST_CPU);
    buffer = put(context, &m);
    picture = pixels_import(&m, device, FOVEA_PICTURE_OPENCL, buffer);
    assert_int_equal(fovea_run_picture(guarded, picture, NULL, &out, 1), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "FOVEA_LOST_FAIL"));
    fovea_plan_free(guarded);
    fovea_picture_free(picture);
    fv_cl.clReleaseMemObject(buffer);
    fovea_device_close(device);
    fovea_device_close(apart);
    fv_cl.clReleaseCommandQueue(queue);
    fv_cl.clReleaseContext(context);
    pixels_close(&m);
    free(out.data);
    nothing_left();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(callers_buffer)};
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
