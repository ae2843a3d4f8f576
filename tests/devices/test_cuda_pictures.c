/* test_cuda_pictures.c: pictures in memory that CUDA has names for: the caller's pointers and
 * events, surfaces of Jetson, and recorded frames, which read one buffer after the other.
 *
 *   test_cuda_pictures path/to/libemulated_cuda.so
 */
#include "cuda/cuda_loader.h"
#include "tests/cuda_emulator/emulated_import.h"
#include "tests/devices/camera.h"

#define GOOD(call) assert_int_equal(fv_cuda.call, CUDA_SUCCESS)

/* Addresses need no alignment beyond that of a float. */
static void odd_address(fovea_device *device, const pixel_memory *m, char *memory)
{
    fovea_external_image_options o = pixels_options(m, FOVEA_EXTERNAL_CUDA, memory + 1);
    fovea_external_image *picture;
    for (int i = 0; i < 2; i++)
        o.plane[i].offset--;
    assert_int_equal(fovea_external_image_import(&picture, device, &o), FOVEA_OK);
    assert_int_equal(picture_info(picture).transfer, FOVEA_TRANSFER_DEVICE);
    assert_non_null(strstr(picture_info(picture).reason, "multiple of 4"));
    fovea_external_image_free(picture);
}

/* Tests device memory with an event to wait for and one to signal, on the caller's stream, in each
 * order in which the driver may run streams. */
static void callers_pointer(void **state)
{
    (void)state;
    CUcontext context;
    CUstream stream;
    CUevent written;
    CUdeviceptr buffer;
    pixel_memory m;
    fovea_device *device = open_device(0);
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxPushCurrent(context));
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    pixels_open(&m, &pixel_formats[4], 8);
    GOOD(cuMemAlloc(&buffer, m.size));
    void *memory = (void *)(uintptr_t)buffer;
    fovea_external_image *picture = pixels_import(&m, device, FOVEA_EXTERNAL_CUDA, memory);
    assert_int_equal(picture_info(picture).transfer, FOVEA_TRANSFER_NONE);
    fovea_external_image_options o = pixels_options(&m, FOVEA_EXTERNAL_CUDA, m.data);
    pixels_refused(device, &o, FOVEA_EINVAL, "cudaMalloc");
    o = pixels_options(&m, FOVEA_EXTERNAL_CUDA, memory);
    o.plane[1].offset += 500;
    pixels_refused(device, &o, FOVEA_EINVAL, "follow its address");
    o = pixels_options(&m, FOVEA_EXTERNAL_OPENCL, memory);
    pixels_refused(device, &o, FOVEA_ENOTSUP, "");
    odd_address(device, &m, memory);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(plan);
    uint8_t *zeros = calloc(1, m.size);
    assert_non_null(zeros);
    for (uint32_t i = 0; i < 6; i++) {
        void *read;
        int fence;
        fovea_ticket ticket;
        const fovea_acquire_fence ready = {.event = written};
        pixels_draw(&m, i);
        fovea_output want = pixels_want(plan, &m);
        hostile.set("streams", i % 3);
        GOOD(cuMemcpyHtoDAsync(buffer, m.data, m.size, stream));
        GOOD(cuEventRecord(written, stream));
        assert_int_equal(fovea_submit_external_image(plan, picture, &ready, &out, 1, &ticket),
                         FOVEA_OK);
        assert_int_equal(fovea_plan_release_event(plan, ticket, &read), FOVEA_OK);
        assert_int_equal(fovea_plan_release_fence(plan, ticket, &fence), FOVEA_ENOTSUP);
        GOOD(cuStreamWaitEvent(stream, read, 0));
        GOOD(cuMemcpyHtoDAsync(buffer, zeros, m.size, stream));
        assert_int_equal(fovea_wait(plan, ticket, 60), FOVEA_OK);
        same_output(&out, &want, "device memory");
        free(want.data);
    }
    hostile.set(NULL, 0);
    free(zeros);
    free(out.data);
    fovea_plan_free(plan);
    fovea_plan *guarded = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_DEVICE_LOST_CPU);
    fovea_output never = output_of(guarded);
    assert_int_equal(fovea_run_external_image(guarded, picture, NULL, &never, 1), FOVEA_ENOTSUP);
    fovea_plan_free(guarded);
    free(never.data);
    fovea_external_image_free(picture);
    fovea_device_close(device);
    GOOD(cuMemFree(buffer));
    GOOD(cuEventDestroy(written));
    GOOD(cuStreamDestroy(stream));
    GOOD(cuCtxPopCurrent(&context));
    GOOD(cuDevicePrimaryCtxRelease(0));
    pixels_close(&m);
    nothing_left();
}

/* Returns the number of driver calls, without those that poll for the end of a frame. */
static long calls_so_far(void)
{
    long all = 0;
    for (const char *const *f = hostile.functions; *f; f++)
        all += strcmp(*f, "cuEventQuery") ? hostile.counted(*f) : 0;
    return all;
}

enum { FRAMES = 12 };

/* Runs frames of alternating pictures; returns the driver calls per frame. */
static long calls_of_a_frame(camera *c, uint32_t pictures)
{
    const long before = calls_so_far();
    for (uint32_t i = 0; i < FRAMES; i++)
        assert_int_equal(
            fovea_run_external_image(c->plan, c->picture[i % pictures], NULL, &c->out[0], 1),
            FOVEA_OK);
    const long calls = calls_so_far() - before;
    assert_int_equal(calls % FRAMES, 0);
    return calls / FRAMES;
}

/* A frame recorded once can read different buffers without copies or new recordings. */
static void recorded_frames(void **state)
{
    (void)state;
    __typeof__(fv_cuda.cuGraphExecKernelNodeSetParams) change =
        fv_cuda.cuGraphExecKernelNodeSetParams;
    const char *const copy = "cuMemcpy2DAsync", *const set = "cuGraphExecKernelNodeSetParams",
                      *const record = "cuStreamBeginCapture";
    const way *w = &of_cuda[0];
    if (!change)
        skip();
    for (size_t f = 0; f < PIXEL_FORMATS; f++) {
        const uint32_t planes = pixel_formats[f].planes;
        const way old = {1, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_DEVICE, w->method, "recorded"};
        camera c;
        hostile.set("imports", w->imports);
        fv_cuda.cuGraphExecKernelNodeSetParams = NULL; /* simulates a driver before CUDA 12 */
        camera_open(&c, &pixel_formats[f], &old, 0);
        camera_run(&c);
        const long copies = hostile.counted(copy);
        const long copied = calls_of_a_frame(&c, BUFFERS);
        assert_int_equal(hostile.counted(copy) - copies, FRAMES * planes);
        camera_close(&c);
        fv_cuda.cuGraphExecKernelNodeSetParams = change;
        hostile.set("imports", w->imports);
        camera_open(&c, &pixel_formats[f], w, 0);
        camera_run(&c);
        const long recordings = hostile.counted(record), changes = hostile.counted(set);
        const long in_place = calls_of_a_frame(&c, BUFFERS);
        assert_int_equal(hostile.counted(set) - changes, FRAMES); /* one kernel reads all planes */
        for (int i = 0; i < 2; i++) /* each of the two recordings is updated once more */
            assert_int_equal(fovea_run_external_image(c.plan, c.picture[0], NULL, &c.out[0], 1),
                             FOVEA_OK);
        const long same = hostile.counted(set);
        const long again = calls_of_a_frame(&c, 1);
        assert_int_equal(hostile.counted(set), same);
        assert_int_equal(hostile.counted(record), recordings);
        print_message("%s: %ld calls a frame with copies, %ld in place, %ld of the same buffer\n",
                      pixel_formats[f].name, copied, in_place, again);
        assert_int_equal(in_place, copied - planes + 1);
        assert_int_equal(again, copied - planes);
        camera_close(&c);
        hostile.set(NULL, 0);
    }
}

/* A driver that records but does not list the graph's nodes: only one of the two recordings is
 * used. */
static void unknown_nodes(void **state)
{
    (void)state;
    camera c;
    hostile.set("imports", of_cuda->imports);
    hostile.set("error", CUDA_ERROR_NOT_SUPPORTED);
    hostile.only("cuStreamGetCaptureInfo_v2");
    hostile.set("fail", 1);
    camera_open(&c, &pixel_formats[4], of_cuda, 1);
    assert_non_null(hostile.failed());
    const long launches = hostile.counted("cuLaunchKernel");
    const long replays = hostile.counted("cuGraphLaunch");
    camera_run(&c);
    assert_true(hostile.counted("cuLaunchKernel") >
                launches); /* frames that read imported pictures */
    assert_true(hostile.counted("cuGraphLaunch") > replays); /* frames from host memory */
    camera_close(&c);
    hostile.set(NULL, 0);
}

/* The format of NVIDIA's surfaces: both planes have the same stride. */
static const pixel_format surface_format = {
    "a surface", FOVEA_FORMAT_NV12, 2, {128, 128}, {H, 38}, 512, 0};

static fovea_external_image_options surface_options(fovea_external_image_kind kind, void *memory)
{
    fovea_external_image_options o = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    o.kind = kind;
    o.format = FOVEA_FORMAT_NV12;
    o.width = W;
    o.height = H;
    o.plane[0].memory = memory;
    return o;
}

static void run_surface(fovea_device *device, pixel_memory *m,
                        const fovea_external_image_options *o, const char *method,
                        fovea_transfer transfer)
{
    fovea_external_image *picture;
    if (fovea_external_image_import(&picture, device, o) != FOVEA_OK)
        fail_msg("%s: %s", method, fovea_error());
    assert_string_equal(picture_info(picture).method, method);
    assert_int_equal(picture_info(picture).transfer, transfer);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(plan);
    for (uint32_t i = 0; i < 3; i++) {
        pixels_draw(m, i);
        fovea_output want = pixels_want(plan, m);
        assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
        same_output(&out, &want, method);
        free(want.data);
    }
    fovea_plan_free(plan);
    fovea_external_image_free(picture);
    free(out.data);
}

/* Tests EGL images and NvBufSurfaces of Jetson. */
static void surfaces(void **state)
{
    (void)state;
    pixel_memory m;
    fovea_device *device = open_device(0);
    pixels_open(&m, &surface_format, 9);
    emulated_egl_image image = {
        .width = W,
        .height = H,
        .planes = 2,
        .pitch = 128,
        .plane = {(char *)m.data + m.offset[0], (char *)m.data + m.offset[1]},
        .memory = (char *)m.data,
        .size = m.size};
    fv_nvbuf_params params = {.width = W,
                              .height = H,
                              .descriptor = (uint64_t)m.fd,
                              .size = (uint32_t)m.size,
                              .planes = {.count = 2,
                                         .pitch = {128, 128},
                                         .offset = {(uint32_t)m.offset[0], (uint32_t)m.offset[1]}}};
    fv_nvbuf_surface surface = {.batch = 1, .filled = 1, .memory = 4, .list = &params};
    fovea_external_image_options egl = surface_options(FOVEA_EXTERNAL_EGL, &image);
    fovea_external_image_options nvmm = surface_options(FOVEA_EXTERNAL_NVMM, &surface);
    fovea_external_image_options fd = pixels_options(&m, FOVEA_EXTERNAL_DMABUF, NULL);
    pixels_refused(device, &egl, FOVEA_ENOTSUP, "cuGraphicsEGLRegisterImage");
    pixels_refused(device, &nvmm, FOVEA_ENOTSUP, "cuGraphicsEGLRegisterImage");
    for (int arrays = 0; arrays < 2; arrays++) {
        const fovea_transfer transfer = arrays ? FOVEA_TRANSFER_DEVICE : FOVEA_TRANSFER_NONE;
        hostile.set("imports", arrays ? 4 : 2);
        run_surface(device, &m, &egl, "EGLImage", transfer);
        run_surface(device, &m, &nvmm, "NvBufSurface", transfer);
        assert_null(params.egl_image); /* the image is unmapped */
        emulated_surface_fn *tell;
        *(void **)&tell = hostile_symbol("emulated_surface");
        tell(&surface);
        run_surface(device, &m, &fd, "NvBufSurface", transfer);
        tell(NULL);
    }
    egl.width = W + 1;
    pixels_refused(device, &egl, FOVEA_EINVAL, "pixels");
    surface.filled = 0;
    pixels_refused(device, &nvmm, FOVEA_EINVAL, "contains no picture");
    surface.filled = 1;
    hostile.only("NvBufSurfaceMapEglImage");
    hostile.set("fail", 1);
    pixels_refused(device, &nvmm, FOVEA_ENOTSUP, "NvBufSurfaceMapEglImage");
    hostile.set(NULL, 0);
    params.data = m.data;
    surface.memory = 6;
    pixels_refused(device, &nvmm, FOVEA_ENOTSUP, "FOVEA_EXTERNAL_HOST");
    fovea_device_close(device);
    pixels_close(&m);
    nothing_left();
}

/* Tests a surface in device memory, as on discrete GPUs. */
static void surface_in_device_memory(void **state)
{
    (void)state;
    pixel_memory m;
    void *pinned;
    CUcontext context;
    fovea_device *device = open_device(0);
    pixels_open(&m, &surface_format, 9);
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxPushCurrent(context));
    GOOD(cuMemHostAlloc(&pinned, m.size, CU_MEMHOSTALLOC_PORTABLE));
    uint8_t *shared = m.data;
    m.data = pinned; /* same address for host and device */
    fv_nvbuf_params params = {.width = W,
                              .height = H,
                              .data = pinned,
                              .planes = {.count = 2,
                                         .pitch = {128, 128},
                                         .offset = {(uint32_t)m.offset[0], (uint32_t)m.offset[1]}}};
    fv_nvbuf_surface surface = {.batch = 1, .filled = 1, .memory = 2, .list = &params};
    const fovea_external_image_options nvmm = surface_options(FOVEA_EXTERNAL_NVMM, &surface);
    run_surface(device, &m, &nvmm, "NvBufSurface", FOVEA_TRANSFER_NONE);
    surface.memory = 1; /* pinned host memory */
    run_surface(device, &m, &nvmm, "NvBufSurface", FOVEA_TRANSFER_DEVICE);
    fovea_external_image *address = pixels_import(&m, device, FOVEA_EXTERNAL_CUDA, pinned);
    assert_non_null(strstr(picture_info(address).reason, "does not cache"));
    fovea_external_image_free(address);
    params.planes.count = 4;
    pixels_refused(device, &nvmm, FOVEA_EINVAL, "planes");
    m.data = shared;
    GOOD(cuMemFreeHost(pinned));
    GOOD(cuCtxPopCurrent(&context));
    GOOD(cuDevicePrimaryCtxRelease(0));
    fovea_device_close(device);
    pixels_close(&m);
    nothing_left();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_pointer),
        cmocka_unit_test(recorded_frames),
        cmocka_unit_test(unknown_nodes),
        cmocka_unit_test(surfaces),
        cmocka_unit_test(surface_in_device_memory),
    };
    if (argc == 2)
        setenv("FOVEA_NVBUFSURFACE", argv[1], 1);
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
