/* test_gpu_imports.c: pictures that a GPU reads or copies where they lie, by each way that a driver
 * may have: the results of the same pixels in memory of the host's, bit for bit; and each call that
 * fails. What every device does is in test_imports.c.
 *
 *   test_gpu_imports path/to/libhostile_cl.so
 *   test_gpu_imports path/to/libemulated_cuda.so
 */
#include <dlfcn.h>
#include <limits.h>
#include <time.h>

#include "tests/devices/gpu_frames.h"
#include "tests/devices/shared_pixels.h"

#ifdef FV_HAVE_CL
#include "cl/cl_loader.h"
#endif
#ifdef FV_HAVE_CUDA
#include "cuda/cuda_loader.h"
#include "tests/cuda_emulator/emulated_import.h"
#endif

/* ---- ways ---- */

typedef struct way {
    long imports; /* what the driver has */
    fovea_picture_kind kind;
    fovea_transfer transfer;
    const char *method, *reason; /* what is said: the beginning of the one, words of the other */
} way;

static const way of_cl[] = {
    {1, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_NONE, "cl_khr_external_memory_dma_buf", ""},
    {2, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_NONE, "cl_arm_import_memory_dma_buf", ""},
    {4, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_NONE, "cl_qcom_dmabuf_host_ptr", ""},
    {8, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_NONE, "cl_qcom_ion_host_ptr", ""},
    {0, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_HOST, "mmap", "none of cl_khr_external_memory_dma"},
    {16, FOVEA_PICTURE_HOST, FOVEA_TRANSFER_NONE, "cl_arm_import_memory_host", ""},
    {0, FOVEA_PICTURE_HOST, FOVEA_TRANSFER_HOST, "host", "none of cl_arm_import_memory_host"},
    {32, FOVEA_PICTURE_AHARDWAREBUFFER, FOVEA_TRANSFER_NONE,
     "cl_arm_import_memory_android_hardware_buffer", ""},
    {64, FOVEA_PICTURE_AHARDWAREBUFFER, FOVEA_TRANSFER_NONE,
     "cl_qcom_android_ahardwarebuffer_host_ptr", ""},
    {-1, 0, 0, NULL, NULL},
};
static const way of_cuda[] = {
    {1, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_NONE, "cuImportExternalMemory", ""},
    {0, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_DEVICE, "mmap, cuMemHostRegister", "no cache"},
    {8, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_HOST, "mmap", "cuMemHostRegister: "},
    {0, FOVEA_PICTURE_HOST, FOVEA_TRANSFER_DEVICE, "cuMemHostRegister", "no cache"},
    {8, FOVEA_PICTURE_HOST, FOVEA_TRANSFER_HOST, "host", "cuMemHostRegister: "},
    {-1, 0, 0, NULL, NULL},
};

static const way *ways(void)
{
    return hostile.cuda ? of_cuda : of_cl;
}

/* What has no file descriptor; until the next call. */
static void *memory_of(const pixel_memory *m, fovea_picture_kind kind)
{
    static hostile_ahardwarebuffer buffer;
    buffer = (hostile_ahardwarebuffer){m->fd, m->size};
    return kind == FOVEA_PICTURE_AHARDWAREBUFFER ? (void *)&buffer : m->data;
}

static void check_way(const way *w, const fovea_picture *picture)
{
    const fovea_picture_info info = picture_info(picture);
    if (info.transfer != w->transfer || strncmp(info.method, w->method, strlen(w->method)) != 0 ||
        !strstr(info.reason, w->reason) || (!*w->reason && *info.reason))
        fail_msg("imports %ld: transfer %d by %s, \"%s\"", w->imports, (int)info.transfer,
                 info.method, info.reason);
}

/* What reads in place is named by the device. */
static void check_listed(const way *w, const fovea_device *device)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    assert_int_equal(fovea_device_describe(device, &info), FOVEA_OK);
    if (w->transfer == FOVEA_TRANSFER_NONE && !strstr(info.imports, w->method))
        fail_msg("%s is not among %s", w->method, info.imports);
    if (w->imports == 0 && !hostile.cuda && strcmp(info.imports, "cl_mem") != 0)
        fail_msg("imports of a driver without extensions: %s", info.imports);
}

/* ---- results ---- */

enum { BUFFERS = 3, TURNS = 6 };

typedef struct camera {
    fovea_device *device;
    fovea_plan *plan;
    pixel_memory memory[BUFFERS];
    fovea_picture *picture[BUFFERS];
    fovea_output want[TURNS], out[2];
} camera;

static void camera_open(camera *c, const pixel_format *f, const way *w, int resized)
{
    c->device = open_device(0);
    check_listed(w, c->device);
    c->plan = pixels_plan(model, c->device, f->format, resized, FOVEA_LOST_FAIL);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        pixels_open(&c->memory[i], f, i);
        c->picture[i] =
            pixels_import(&c->memory[i], c->device, w->kind, memory_of(&c->memory[i], w->kind));
        check_way(w, c->picture[i]);
    }
    for (uint32_t i = 0; i < TURNS; i++) {
        pixels_draw(&c->memory[0], 100 + i);
        c->want[i] = pixels_want(c->plan, &c->memory[0]);
    }
    for (int i = 0; i < 2; i++)
        c->out[i] = output_of(c->plan);
}

static void camera_close(camera *c)
{
    fovea_plan_free(c->plan);
    for (int i = 0; i < BUFFERS; i++) {
        fovea_picture_free(c->picture[i]);
        pixels_close(&c->memory[i]);
    }
    fovea_device_close(c->device);
    for (int i = 0; i < TURNS; i++)
        free(c->want[i].data);
    free(c->out[0].data);
    free(c->out[1].data);
    nothing_left();
}

/* Two frames in flight, the buffers' pixels others in each turn, every third one of the host's. */
static void camera_run(camera *c)
{
    fovea_ticket ticket[2];
    for (uint32_t i = 0; i <= TURNS; i++) {
        pixel_memory *m = &c->memory[i % BUFFERS];
        fovea_status status = FOVEA_OK;
        if (i < TURNS) {
            pixels_draw(m, 100 + i);
            const fovea_frame frame = pixels_frame(m);
            status = i % 3 == 2 ? fovea_submit(c->plan, &frame, &c->out[i % 2], 1, &ticket[i % 2])
                                : fovea_submit_picture(c->plan, c->picture[i % BUFFERS], NULL,
                                                       &c->out[i % 2], 1, &ticket[i % 2]);
        }
        if (status == FOVEA_OK && i > 0)
            status = fovea_wait(c->plan, ticket[(i - 1) % 2], 60);
        if (status != FOVEA_OK)
            fail_msg("turn %u: %s", i, fovea_error());
        if (i > 0)
            same_output(&c->out[(i - 1) % 2], &c->want[i - 1], m->f->name);
    }
}

/* Frames are recorded, which read the plan's own memory, and some read pictures beside it. */
static void beside_recorded(void **state)
{
    (void)state;
    if (hostile.cuda) /* graphs: in every way */
        skip();
    for (long records = 1; records <= 2; records++) {
        camera c;
        hostile.set("imports", of_cl->imports);
        hostile.set("gpu", 1);
        hostile.set("records", records);
        camera_open(&c, &pixel_formats[0], of_cl, 1);
        const char *call = records == 1 ? "clEnqueueCommandBufferKHR" : "clEnqueueRecordingQCOM";
        const long before = hostile.counted(call);
        camera_run(&c);
        assert_true(hostile.counted(call) > before);
        camera_close(&c);
        hostile.set(NULL, 0);
    }
}

static void every_way(void **state)
{
    (void)state;
    for (const way *w = ways(); w->method; w++)
        for (int unified = 0; unified < 2; unified++)
            for (size_t f = 0; f < PIXEL_FORMATS; f++) {
                const int resized =
                    f % 2 == 0 && pixel_formats[f].format != FOVEA_FORMAT_PLANES_F32;
                camera c;
                hostile.set("imports", w->imports);
                hostile.set("unified", unified);
                if (hostile.cuda)
                    hostile.set("graphs", f % 3 != 0);
                camera_open(&c, &pixel_formats[f], w, resized);
                camera_run(&c);
                camera_close(&c);
            }
    hostile.set(NULL, 0);
}

/* Two frames of the one picture are in flight. */
static void the_same_twice(void **state)
{
    (void)state;
    for (const way *w = ways(); w->method; w++) {
        camera c;
        fovea_ticket ticket[2];
        hostile.set("imports", w->imports);
        camera_open(&c, &pixel_formats[4], w, 1);
        pixels_draw(&c.memory[1], 100);
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                fovea_submit_picture(c.plan, c.picture[1], NULL, &c.out[i], 1, &ticket[i]),
                FOVEA_OK);
        assert_int_equal(fovea_wait(c.plan, ticket[1], 60), FOVEA_OK);
        same_output(&c.out[0], &c.want[0], w->method);
        same_output(&c.out[1], &c.want[0], w->method);
        assert_int_equal(fovea_submit_picture(c.plan, c.picture[1], NULL, &c.out[0], 1, &ticket[0]),
                         FOVEA_OK);
        camera_close(&c); /* with a frame in flight */
    }
    hostile.set(NULL, 0);
}

/* A frame makes no object of the driver's, and is counted in no allocation. */
static void steady(void **state)
{
    (void)state;
    for (const way *w = ways(); w->method; w++) {
        camera c;
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        hostile.set("imports", w->imports);
        camera_open(&c, &pixel_formats[0], w, 1);
        camera_run(&c);
        const long objects = hostile.live(NULL);
        fovea_memory_query(&before);
        camera_run(&c);
        fovea_memory_query(&after);
        assert_int_equal(after.allocations, before.allocations);
        assert_int_equal(hostile.live(NULL), objects);
        camera_close(&c);
    }
    hostile.set(NULL, 0);
}

/* ---- what fails ---- */

/* A device and a plan that go on until a failure has cost the device. */
typedef struct rig {
    fovea_device *device;
    fovea_plan *plan;
    long objects; /* of the driver's that imports are of */
} rig;

/* Of OpenCL events come and go as frames do. */
static long imports_alive(void)
{
    return hostile.live(hostile.cuda ? NULL : "buffer");
}

static void rig_close(rig *r)
{
    fovea_plan_free(r->plan);
    fovea_device_close(r->device);
    *r = (rig){NULL, NULL, 0};
    assert_int_equal(hostile.live(NULL),
                     0); /* the calling thread's context may have failed to go */
    assert_int_equal(hostile.misuse(), 0);
}

static void rig_open(rig *r, const pixel_memory *m)
{
    r->device = open_device(0);
    r->plan = pixels_plan(model, r->device, m->f->format, 0, FOVEA_LOST_FAIL);
    r->objects = imports_alive();
}

/* Import and two frames, in which the n-th call of a function fails (0: none does): a status and a
 * message, or the right result. Returns how many such calls there were. */
static long fail_at(rig *r, const way *w, const pixel_memory *m, const fovea_output *want,
                    const char *function, long n)
{
    static const long cl[] = {-5, -6, -59}, cuda[] = {719, 2, 1};
    fovea_picture *picture = NULL;
    const fovea_picture_options o = pixels_options(m, w->kind, memory_of(m, w->kind));
    fovea_output out = output_of(r->plan);
    hostile.set("imports", w->imports);
    hostile.set("error", (hostile.cuda ? cuda : cl)[n % 3]);
    hostile.set("lasting", n % 4 == 0);
    hostile.only(function);
    hostile.set("fail", n);
    fovea_status status = fovea_picture_import(&picture, r->device, &o);
    for (int i = 0; i < 2 && status == FOVEA_OK; i++) {
        memset(out.data, 0, out.size);
        status = fovea_run_picture(r->plan, picture, NULL, &out, 1);
        if (status == FOVEA_OK)
            same_output(&out, want, hostile.failed() ? hostile.failed() : "no call");
    }
    const char *failed = hostile.failed();
    const long calls = hostile.calls();
    if (status != FOVEA_OK && (!failed || strlen(fovea_error()) < 10 ||
                               (status != FOVEA_EDEVICE && status != FOVEA_ENOMEM &&
                                status != FOVEA_ENOTSUP && status != FOVEA_EINVAL)))
        fail_msg("call %ld, %s: %s, %s", n, failed ? failed : "none", fovea_status_text(status),
                 fovea_error());
    if (failed && status != FOVEA_ENOTSUP && status != FOVEA_EINVAL) {
        /* What is left of a frame is done with once the plan is closed. */
        fovea_plan_free(r->plan);
        r->plan = NULL;
        fovea_picture_free(picture);
        rig_close(r);
    } else {
        fovea_picture_free(picture);
        assert_int_equal(imports_alive(), r->objects);
    }
    hostile.set(NULL, 0);
    free(out.data);
    return calls;
}

/* Those beside the library's own list. */
static const char *const extensions[] = {
    "clCreateBufferWithProperties", "clEnqueueAcquireExternalMemObjectsKHR",
    "clEnqueueReleaseExternalMemObjectsKHR", "clImportMemoryARM", NULL};

/* Of every function that is called the first call and the last. */
static void every_call_fails(void **state)
{
    (void)state;
    const char *const *const lists[] = {hostile.functions, extensions};
    for (const way *w = ways(); w->method; w++) {
        pixel_memory m;
        rig r;
        int failures = 0;
        pixels_open(&m, &pixel_formats[4], 5);
        rig_open(&r, &m);
        fovea_output want = pixels_want(r.plan, &m);
        for (int list = 0; list < 2; list++)
            for (const char *const *f = lists[list]; *f; f++) {
                const long calls = fail_at(&r, w, &m, &want, *f, 0);
                for (int k = 0; k < 2 && k < calls; k++) {
                    if (!r.device)
                        rig_open(&r, &m);
                    fail_at(&r, w, &m, &want, *f, k ? calls : 1);
                    failures++;
                }
                if (!r.device)
                    rig_open(&r, &m);
            }
        print_message("%s: %d calls failed\n", w->method, failures);
        assert_true(failures >= 10);
        rig_close(&r);
        free(want.data);
        pixels_close(&m);
    }
}

/* A driver whose import fails: the next way is taken, and then the host. */
static void next_way(void **state)
{
    (void)state;
    static const char *const calls[] = {"clCreateBufferWithProperties", "clImportMemoryARM",
                                        "cuImportExternalMemory", "cuMemHostRegister"};
    static const char *const then[] = {"cl_arm_import_memory_dma_buf", "mmap",
                                       "mmap, cuMemHostRegister", "mmap, cuMemHostRegister"};
    static const long has[] = {3, 2, 1, 0};
    for (int i = 0; i < 2; i++) {
        const int at = i + (hostile.cuda ? 2 : 0);
        pixel_memory m;
        fovea_device *device = open_device(0);
        fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_RGB8, 1, FOVEA_LOST_FAIL);
        pixels_open(&m, &pixel_formats[0], 6);
        fovea_output want = pixels_want(plan, &m), out = output_of(plan);
        hostile.set("imports", has[at]);
        hostile.only(calls[at]);
        hostile.set("fail", 1);
        fovea_picture *picture = pixels_import(&m, device, FOVEA_PICTURE_DMABUF, NULL);
        assert_non_null(hostile.failed());
        assert_string_equal(picture_info(picture).method, then[at]);
        hostile.set("fail", LONG_MIN);
        assert_int_equal(fovea_run_picture(plan, picture, NULL, &out, 1), FOVEA_OK);
        same_output(&out, &want, then[at]);
        hostile.set(NULL, 0);
        fovea_plan_free(plan);
        fovea_picture_free(picture);
        fovea_device_close(device);
        pixels_close(&m);
        free(want.data);
        free(out.data);
        nothing_left();
    }
}

static void refused_import(fovea_device *device, const fovea_picture_options *o,
                           fovea_status status, const char *word)
{
    fovea_picture *none;
    if (fovea_picture_import(&none, device, o) != status || !strstr(fovea_error(), word))
        fail_msg("%s: %s is wanted", fovea_error(), word);
}

/* AHardwareBuffers that are no picture, or that nothing here reads. */
static void hardware_buffers(void **state)
{
    (void)state;
    static const long has[] = {32, 64};
    pixel_memory m;
    fovea_device *device = open_device(0), *cpu;
    assert_int_equal(fovea_device_open(&cpu, "cpu", NULL), FOVEA_OK);
    pixels_open(&m, &pixel_formats[4], 8);
    fovea_picture_options o = pixels_options(&m, FOVEA_PICTURE_AHARDWAREBUFFER,
                                             memory_of(&m, FOVEA_PICTURE_AHARDWAREBUFFER));
    refused_import(cpu, &o, FOVEA_ENOTSUP, "the host's or dma-bufs");
    refused_import(device, &o, FOVEA_ENOTSUP, hostile.cuda ? "Android" : "none of cl_arm_import");
    for (int i = 0; i < 2 && !hostile.cuda; i++) {
        hostile.set("imports", has[i]);
        o.plane[1].offset += 500;
        refused_import(device, &o, FOVEA_EINVAL, "an AHardwareBuffer of");
        o.plane[1].offset -= 500;
        o.plane[1].memory = NULL;
        refused_import(device, &o, FOVEA_EINVAL, "plane 1 of the picture has no memory");
        o.plane[1].memory = o.plane[0].memory;
        hostile.set(NULL, 0);
    }
    fovea_device_close(device);
    fovea_device_close(cpu);
    pixels_close(&m);
    nothing_left();
}

/* The CPU goes on with pictures that the device was to read. */
static void lost(void **state)
{
    (void)state;
    for (int submitted = 0; submitted < 2; submitted++) {
        pixel_memory m;
        fovea_ticket ticket;
        hostile.set("imports", 1);
        fovea_device *device = open_device(0);
        fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_LOST_CPU);
        pixels_open(&m, &pixel_formats[4], 7);
        fovea_picture *picture = pixels_import(&m, device, FOVEA_PICTURE_DMABUF, NULL);
        fovea_output want = pixels_want(plan, &m), out = output_of(plan);
        if (submitted)
            assert_int_equal(fovea_submit_picture(plan, picture, NULL, &out, 1, &ticket), FOVEA_OK);
        hostile.set("error", hostile.cuda ? 719 : -5);
        hostile.only(submitted      ? hostile.cuda ? "cuEventQuery" : "clGetEventInfo"
                     : hostile.cuda ? "cuGraphLaunch"
                                    : "clEnqueueAcquireExternalMemObjectsKHR");
        hostile.set("fail", 1);
        if (!submitted)
            assert_int_equal(fovea_submit_picture(plan, picture, NULL, &out, 1, &ticket), FOVEA_OK);
        assert_int_equal(fovea_wait(plan, ticket, -1), FOVEA_OK);
        assert_true(fovea_plan_lost(plan));
        for (int i = 0; i < 2; i++) {
            const float *a = out.data, *b = want.data;
            for (size_t k = 0; k < out.size / sizeof *a; k++)
                assert_true(a[k] - b[k] < 1e-3f && b[k] - a[k] < 1e-3f);
            void *event;
            assert_int_equal(fovea_submit_picture(plan, picture, NULL, &out, 1, &ticket), FOVEA_OK);
            assert_int_equal(fovea_read_event(plan, ticket, &event), FOVEA_ENOTSUP);
            assert_int_equal(fovea_wait(plan, ticket, -1), FOVEA_OK);
        }
        fovea_plan_free(plan);
        fovea_picture_free(picture);
        fovea_device_close(device);
        hostile.set(NULL, 0);
        pixels_close(&m);
        free(want.data);
        free(out.data);
        nothing_left();
    }
}

/* ---- the caller's objects ---- */

#ifdef FV_HAVE_CL
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
    if (hostile.cuda)
        skip();
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
    fovea_picture *none;
    fovea_picture_options o = pixels_options(&m, FOVEA_PICTURE_OPENCL, buffer);
    assert_int_equal(fovea_picture_import(&none, apart, &o), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "context"));
    o.plane[1].offset += 500;
    assert_int_equal(fovea_picture_import(&none, device, &o), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "cl_mem of"));
    o = pixels_options(&m, FOVEA_PICTURE_CUDA, buffer);
    assert_int_equal(fovea_picture_import(&none, device, &o), FOVEA_ENOTSUP);
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
#else
static void callers_buffer(void **state)
{
    (void)state;
    skip();
}
#endif

#ifdef FV_HAVE_CUDA
#define GOOD(call) assert_int_equal(fv_cuda.call, CUDA_SUCCESS)

/* Floats are read where they may lie. */
static void odd_address(fovea_device *device, const pixel_memory *m, char *memory)
{
    fovea_picture_options o = pixels_options(m, FOVEA_PICTURE_CUDA, memory + 1);
    fovea_picture *picture;
    for (int i = 0; i < 2; i++)
        o.plane[i].offset--;
    assert_int_equal(fovea_picture_import(&picture, device, &o), FOVEA_OK);
    assert_int_equal(picture_info(picture).transfer, FOVEA_TRANSFER_DEVICE);
    assert_non_null(strstr(picture_info(picture).reason, "multiple of 4"));
    fovea_picture_free(picture);
}

/* Device memory, an event to wait for, and one that is waited for, on a stream of the caller's; in
 * each order in which the driver may run streams. */
static void callers_pointer(void **state)
{
    (void)state;
    CUcontext context;
    CUstream stream;
    CUevent written;
    CUdeviceptr buffer;
    pixel_memory m;
    if (!hostile.cuda)
        skip();
    fovea_device *device = open_device(0);
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxPushCurrent(context));
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    pixels_open(&m, &pixel_formats[4], 8);
    GOOD(cuMemAlloc(&buffer, m.size));
    void *memory = (void *)(uintptr_t)buffer;
    fovea_picture *picture = pixels_import(&m, device, FOVEA_PICTURE_CUDA, memory), *none;
    assert_int_equal(picture_info(picture).transfer, FOVEA_TRANSFER_NONE);
    fovea_picture_options o = pixels_options(&m, FOVEA_PICTURE_CUDA, m.data);
    assert_int_equal(fovea_picture_import(&none, device, &o), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "cudaMalloc"));
    o = pixels_options(&m, FOVEA_PICTURE_CUDA, memory);
    o.plane[1].offset += 500;
    assert_int_equal(fovea_picture_import(&none, device, &o), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "ends after"));
    o = pixels_options(&m, FOVEA_PICTURE_OPENCL, memory);
    assert_int_equal(fovea_picture_import(&none, device, &o), FOVEA_ENOTSUP);
    odd_address(device, &m, memory);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_LOST_FAIL);
    fovea_output out = output_of(plan);
    uint8_t *zeros = calloc(1, m.size);
    assert_non_null(zeros);
    for (uint32_t i = 0; i < 6; i++) {
        void *read;
        fovea_ticket ticket;
        const fovea_ready ready = {.event = written};
        pixels_draw(&m, i);
        fovea_output want = pixels_want(plan, &m);
        hostile.set("streams", i % 3);
        GOOD(cuMemcpyHtoDAsync(buffer, m.data, m.size, stream));
        GOOD(cuEventRecord(written, stream));
        assert_int_equal(fovea_submit_picture(plan, picture, &ready, &out, 1, &ticket), FOVEA_OK);
        assert_int_equal(fovea_read_event(plan, ticket, &read), FOVEA_OK);
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
    fovea_plan *guarded = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_LOST_CPU);
    fovea_output never = output_of(guarded);
    assert_int_equal(fovea_run_picture(guarded, picture, NULL, &never, 1), FOVEA_ENOTSUP);
    fovea_plan_free(guarded);
    free(never.data);
    fovea_picture_free(picture);
    fovea_device_close(device);
    GOOD(cuMemFree(buffer));
    GOOD(cuEventDestroy(written));
    GOOD(cuStreamDestroy(stream));
    GOOD(cuCtxPopCurrent(&context));
    GOOD(cuDevicePrimaryCtxRelease(0));
    pixels_close(&m);
    nothing_left();
}

/* Of all calls of the driver, those left out that look for the end of a frame. */
static long calls_so_far(void)
{
    long all = 0;
    for (const char *const *f = hostile.functions; *f; f++)
        all += strcmp(*f, "cuEventQuery") ? hostile.counted(*f) : 0;
    return all;
}

enum { FRAMES = 12 };

/* Frames one after the other, of pictures in turn; returns the driver's calls for each. */
static long calls_of_a_frame(camera *c, uint32_t pictures)
{
    const long before = calls_so_far();
    for (uint32_t i = 0; i < FRAMES; i++)
        assert_int_equal(fovea_run_picture(c->plan, c->picture[i % pictures], NULL, &c->out[0], 1),
                         FOVEA_OK);
    const long calls = calls_so_far() - before;
    assert_int_equal(calls % FRAMES, 0);
    return calls / FRAMES;
}

/* What was recorded once reads one buffer after the other: neither copies nor recordings. */
static void recorded_frames(void **state)
{
    (void)state;
    __typeof__(fv_cuda.cuGraphExecKernelNodeSetParams) change =
        fv_cuda.cuGraphExecKernelNodeSetParams;
    const char *const copy = "cuMemcpy2DAsync", *const set = "cuGraphExecKernelNodeSetParams",
                      *const record = "cuStreamBeginCapture";
    const way *w = &of_cuda[0];
    if (!hostile.cuda || !change)
        skip();
    for (size_t f = 0; f < PIXEL_FORMATS; f++) {
        const uint32_t planes = pixel_formats[f].planes;
        const way old = {1, FOVEA_PICTURE_DMABUF, FOVEA_TRANSFER_DEVICE, w->method, "recorded"};
        camera c;
        hostile.set("imports", w->imports);
        fv_cuda.cuGraphExecKernelNodeSetParams = NULL; /* as of a driver before CUDA 12 */
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
        for (int i = 0; i < 2; i++) /* each of the two recordings is changed once more */
            assert_int_equal(fovea_run_picture(c.plan, c.picture[0], NULL, &c.out[0], 1), FOVEA_OK);
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

/* A driver that records, but does not say what: one of the two recordings. */
static void unknown_nodes(void **state)
{
    (void)state;
    camera c;
    if (!hostile.cuda)
        skip();
    hostile.set("imports", of_cuda->imports);
    hostile.set("error", CUDA_ERROR_NOT_SUPPORTED);
    hostile.only("cuStreamGetCaptureInfo_v2");
    hostile.set("fail", 1);
    camera_open(&c, &pixel_formats[4], of_cuda, 1);
    assert_non_null(hostile.failed());
    const long launches = hostile.counted("cuLaunchKernel");
    const long replays = hostile.counted("cuGraphLaunch");
    camera_run(&c);
    assert_true(hostile.counted("cuLaunchKernel") > launches); /* those of pictures */
    assert_true(hostile.counted("cuGraphLaunch") > replays);   /* those of the host */
    camera_close(&c);
    hostile.set(NULL, 0);
}

/* What a picture of NVIDIA's says of itself: one distance for the rows of both planes. */
static const pixel_format surface_format = {
    "a surface", FOVEA_FORMAT_NV12, 2, {128, 128}, {H, 38}, 512, 0};

static fovea_picture_options surface_options(fovea_picture_kind kind, void *memory)
{
    fovea_picture_options o = FOVEA_PICTURE_OPTIONS_INIT;
    o.kind = kind;
    o.format = FOVEA_FORMAT_NV12;
    o.width = W;
    o.height = H;
    o.plane[0].memory = memory;
    return o;
}

static void run_surface(fovea_device *device, pixel_memory *m, const fovea_picture_options *o,
                        const char *method, fovea_transfer transfer)
{
    fovea_picture *picture;
    if (fovea_picture_import(&picture, device, o) != FOVEA_OK)
        fail_msg("%s: %s", method, fovea_error());
    assert_string_equal(picture_info(picture).method, method);
    assert_int_equal(picture_info(picture).transfer, transfer);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_LOST_FAIL);
    fovea_output out = output_of(plan);
    for (uint32_t i = 0; i < 3; i++) {
        pixels_draw(m, i);
        fovea_output want = pixels_want(plan, m);
        assert_int_equal(fovea_run_picture(plan, picture, NULL, &out, 1), FOVEA_OK);
        same_output(&out, &want, method);
        free(want.data);
    }
    fovea_plan_free(plan);
    fovea_picture_free(picture);
    free(out.data);
}

/* EGL images and NvBufSurfaces of Jetson. */
static void surfaces(void **state)
{
    (void)state;
    pixel_memory m;
    if (!hostile.cuda)
        skip();
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
    fovea_picture_options egl = surface_options(FOVEA_PICTURE_EGL, &image);
    fovea_picture_options nvmm = surface_options(FOVEA_PICTURE_NVMM, &surface);
    fovea_picture_options fd = pixels_options(&m, FOVEA_PICTURE_DMABUF, NULL);
    refused_import(device, &egl, FOVEA_ENOTSUP, "cuGraphicsEGLRegisterImage");
    refused_import(device, &nvmm, FOVEA_ENOTSUP, "cuGraphicsEGLRegisterImage");
    for (int arrays = 0; arrays < 2; arrays++) {
        const fovea_transfer transfer = arrays ? FOVEA_TRANSFER_DEVICE : FOVEA_TRANSFER_NONE;
        hostile.set("imports", arrays ? 4 : 2);
        run_surface(device, &m, &egl, "EGLImage", transfer);
        run_surface(device, &m, &nvmm, "NvBufSurface", transfer);
        assert_null(params.egl_image); /* what was mapped is not any more */
        emulated_surface_fn *tell;
        *(void **)&tell = hostile_symbol("emulated_surface");
        tell(&surface);
        run_surface(device, &m, &fd, "NvBufSurface", transfer);
        tell(NULL);
    }
    egl.width = W + 1;
    refused_import(device, &egl, FOVEA_EINVAL, "pixels");
    surface.filled = 0;
    refused_import(device, &nvmm, FOVEA_EINVAL, "without a picture");
    surface.filled = 1;
    hostile.only("NvBufSurfaceMapEglImage");
    hostile.set("fail", 1);
    refused_import(device, &nvmm, FOVEA_ENOTSUP, "NvBufSurfaceMapEglImage");
    hostile.set(NULL, 0);
    params.data = m.data;
    surface.memory = 6;
    refused_import(device, &nvmm, FOVEA_ENOTSUP, "FOVEA_PICTURE_HOST");
    fovea_device_close(device);
    pixels_close(&m);
    nothing_left();
}

/* A surface in device memory, as GPUs with memory of their own have it. */
static void surface_in_device_memory(void **state)
{
    (void)state;
    pixel_memory m;
    void *pinned;
    CUcontext context;
    if (!hostile.cuda)
        skip();
    fovea_device *device = open_device(0);
    pixels_open(&m, &surface_format, 9);
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxPushCurrent(context));
    GOOD(cuMemHostAlloc(&pinned, m.size, CU_MEMHOSTALLOC_PORTABLE));
    uint8_t *shared = m.data;
    m.data = pinned; /* which host and device have at the same address */
    fv_nvbuf_params params = {.width = W,
                              .height = H,
                              .data = pinned,
                              .planes = {.count = 2,
                                         .pitch = {128, 128},
                                         .offset = {(uint32_t)m.offset[0], (uint32_t)m.offset[1]}}};
    fv_nvbuf_surface surface = {.batch = 1, .filled = 1, .memory = 2, .list = &params};
    const fovea_picture_options nvmm = surface_options(FOVEA_PICTURE_NVMM, &surface);
    run_surface(device, &m, &nvmm, "NvBufSurface", FOVEA_TRANSFER_NONE);
    surface.memory = 1; /* the host's, pinned */
    run_surface(device, &m, &nvmm, "NvBufSurface", FOVEA_TRANSFER_DEVICE);
    fovea_picture *address = pixels_import(&m, device, FOVEA_PICTURE_CUDA, pinned);
    assert_non_null(strstr(picture_info(address).reason, "no cache"));
    fovea_picture_free(address);
    params.planes.count = 4;
    refused_import(device, &nvmm, FOVEA_EINVAL, "planes");
    m.data = shared;
    GOOD(cuMemFreeHost(pinned));
    GOOD(cuCtxPopCurrent(&context));
    GOOD(cuDevicePrimaryCtxRelease(0));
    fovea_device_close(device);
    pixels_close(&m);
    nothing_left();
}
#else
static void callers_pointer(void **state)
{
    (void)state;
    skip();
}
#define surfaces callers_pointer
#define recorded_frames callers_pointer
#define unknown_nodes callers_pointer
#define surface_in_device_memory callers_pointer
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way),
        cmocka_unit_test(beside_recorded),
        cmocka_unit_test(the_same_twice),
        cmocka_unit_test(steady),
        cmocka_unit_test(next_way),
        cmocka_unit_test(lost),
        cmocka_unit_test(hardware_buffers),
        cmocka_unit_test(callers_buffer),
        cmocka_unit_test(callers_pointer),
        cmocka_unit_test(recorded_frames),
        cmocka_unit_test(unknown_nodes),
        cmocka_unit_test(surfaces),
        cmocka_unit_test(surface_in_device_memory),
        cmocka_unit_test(every_call_fails), /* which leaves the thread's contexts as they are */
    };
    if (argc == 2)
        setenv("FOVEA_NVBUFSURFACE", argv[1], 1);
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
