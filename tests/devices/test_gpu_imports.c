/* test_gpu_imports.c: pictures that a GPU reads in place or copies by itself, by each way that a
 * driver may have: the results of the same pixels in host memory, bit for bit; and each call that
 * fails. What every device does is in test_imports.c, the caller's own objects in test_cl_objects.c
 * and test_cuda_pictures.c.
 *
 *   test_gpu_imports path/to/libhostile_cl.so
 *   test_gpu_imports path/to/libemulated_cuda.so
 */
#include <limits.h>

#include "tests/devices/camera.h"

/* Recorded frames read the plan's own memory; some also read imported pictures. */
static void imports_with_recordings(void **state)
{
    (void)state;
    if (hostile.cuda) /* graphs: in each way of capturing */
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

/* Two frames of the same picture are in flight. */
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
                fovea_submit_external_image(c.plan, c.picture[1], NULL, &c.out[i], 1, &ticket[i]),
                FOVEA_OK);
        assert_int_equal(fovea_wait(c.plan, ticket[1], 60), FOVEA_OK);
        same_output(&c.out[0], &c.want[0], w->method);
        same_output(&c.out[1], &c.want[0], w->method);
        assert_int_equal(
            fovea_submit_external_image(c.plan, c.picture[1], NULL, &c.out[0], 1, &ticket[0]),
            FOVEA_OK);
        camera_close(&c); /* with a frame in flight */
    }
    hostile.set(NULL, 0);
}

/* A frame creates no driver objects and allocates nothing. */
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

/* ---- failures ---- */

/* A device and a plan that are reused until a failure makes the device lost. */
typedef struct rig {
    fovea_device *device;
    fovea_plan *plan;
    long objects; /* driver objects that imports create */
} rig;

/* Returns the number of live import objects. OpenCL events are not counted, because frames create
 * and release them. */
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
                     0); /* restoring the calling thread's context may have failed */
    assert_int_equal(hostile.misuse(), 0);
}

static void rig_open(rig *r, const pixel_memory *m)
{
    r->device = open_device(0);
    r->plan = pixels_plan(model, r->device, m->f->format, 0, FOVEA_DEVICE_LOST_FAIL);
    r->objects = imports_alive();
}

/* Imports a picture and runs two frames, while the n-th call of a function fails (0: none). The
 * result must be an error with a message, or the correct output. Returns the number of calls of the
 * function. */
static long fail_at(rig *r, const way *w, const pixel_memory *m, const fovea_output *want,
                    const char *function, long n)
{
    static const long cl[] = {-5, -6, -59}, cuda[] = {719, 2, 1};
    fovea_external_image *picture = NULL;
    const fovea_external_image_options o = pixels_options(m, w->kind, memory_of(m, w->kind));
    fovea_output out = output_of(r->plan);
    hostile.set("imports", w->imports);
    hostile.set("error", (hostile.cuda ? cuda : cl)[n % 3]);
    hostile.set("lasting", n % 4 == 0);
    hostile.only(function);
    hostile.set("fail", n);
    fovea_status status = fovea_external_image_import(&picture, r->device, &o);
    for (int i = 0; i < 2 && status == FOVEA_OK; i++) {
        memset(out.data, 0, out.size);
        status = fovea_run_external_image(r->plan, picture, NULL, &out, 1);
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
        /* Freeing the plan releases what remains of a frame. */
        fovea_plan_free(r->plan);
        r->plan = NULL;
        fovea_external_image_free(picture);
        rig_close(r);
    } else {
        fovea_external_image_free(picture);
        assert_int_equal(imports_alive(), r->objects);
    }
    hostile.set(NULL, 0);
    free(out.data);
    return calls;
}

/* Functions that are not in the library's own list. */
static const char *const extensions[] = {
    "clCreateBufferWithProperties", "clEnqueueAcquireExternalMemObjectsKHR",
    "clEnqueueReleaseExternalMemObjectsKHR", "clImportMemoryARM", NULL};

/* Makes the first and the last call of every function fail. */
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

/* If an import fails, the next way is tried, and finally host memory. */
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
        fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_RGB8, 1, FOVEA_DEVICE_LOST_FAIL);
        pixels_open(&m, &pixel_formats[0], 6);
        fovea_output want = pixels_want(plan, &m), out = output_of(plan);
        hostile.set("imports", has[at]);
        hostile.only(calls[at]);
        hostile.set("fail", 1);
        fovea_external_image *picture = pixels_import(&m, device, FOVEA_EXTERNAL_DMABUF, NULL);
        assert_non_null(hostile.failed());
        assert_string_equal(picture_info(picture).method, then[at]);
        hostile.set("fail", LONG_MIN);
        assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
        same_output(&out, &want, then[at]);
        hostile.set(NULL, 0);
        fovea_plan_free(plan);
        fovea_external_image_free(picture);
        fovea_device_close(device);
        pixels_close(&m);
        free(want.data);
        free(out.data);
        nothing_left();
    }
}

/* AHardwareBuffers that are not pictures, or that no device on this machine can read. */
static void hardware_buffers(void **state)
{
    (void)state;
    static const long has[] = {32, 64};
    pixel_memory m;
    fovea_device *device = open_device(0), *cpu;
    assert_int_equal(fovea_device_open(&cpu, "cpu", NULL), FOVEA_OK);
    pixels_open(&m, &pixel_formats[4], 8);
    fovea_external_image_options o = pixels_options(&m, FOVEA_EXTERNAL_AHARDWAREBUFFER,
                                                    memory_of(&m, FOVEA_EXTERNAL_AHARDWAREBUFFER));
    pixels_refused(cpu, &o, FOVEA_ENOTSUP, "host memory or dma-bufs");
    pixels_refused(device, &o, FOVEA_ENOTSUP,
                   hostile.cuda ? "Android" : "none of the extensions cl_arm_import");
    for (int i = 0; i < 2 && !hostile.cuda; i++) {
        hostile.set("imports", has[i]);
        o.plane[1].offset += 500;
        pixels_refused(device, &o, FOVEA_EINVAL, "an AHardwareBuffer has");
        o.plane[1].offset -= 500;
        o.plane[1].memory = NULL;
        pixels_refused(device, &o, FOVEA_EINVAL, "plane 1 of the external image has no memory");
        o.plane[1].memory = o.plane[0].memory;
        hostile.set(NULL, 0);
    }
    fovea_device_close(device);
    fovea_device_close(cpu);
    pixels_close(&m);
    nothing_left();
}

/* After the device is lost, the CPU runs frames of the imported pictures. */
static void lost(void **state)
{
    (void)state;
    for (int submitted = 0; submitted < 2; submitted++) {
        pixel_memory m;
        fovea_ticket ticket;
        hostile.set("imports", 1);
        fovea_device *device = open_device(0);
        fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_DEVICE_LOST_CPU);
        pixels_open(&m, &pixel_formats[4], 7);
        fovea_external_image *picture = pixels_import(&m, device, FOVEA_EXTERNAL_DMABUF, NULL);
        fovea_output want = pixels_want(plan, &m), out = output_of(plan);
        if (submitted)
            assert_int_equal(fovea_submit_external_image(plan, picture, NULL, &out, 1, &ticket),
                             FOVEA_OK);
        hostile.set("error", hostile.cuda ? 719 : -5);
        hostile.only(submitted      ? hostile.cuda ? "cuEventQuery" : "clGetEventInfo"
                     : hostile.cuda ? "cuGraphLaunch"
                                    : "clEnqueueAcquireExternalMemObjectsKHR");
        hostile.set("fail", 1);
        if (!submitted)
            assert_int_equal(fovea_submit_external_image(plan, picture, NULL, &out, 1, &ticket),
                             FOVEA_OK);
        assert_int_equal(fovea_wait(plan, ticket, -1), FOVEA_OK);
        assert_true(fovea_plan_device_lost(plan));
        for (int i = 0; i < 2; i++) {
            const float *a = out.data, *b = want.data;
            for (size_t k = 0; k < out.size / sizeof *a; k++)
                assert_true(a[k] - b[k] < 1e-3f && b[k] - a[k] < 1e-3f);
            void *event;
            assert_int_equal(fovea_submit_external_image(plan, picture, NULL, &out, 1, &ticket),
                             FOVEA_OK);
            assert_int_equal(fovea_plan_release_event(plan, ticket, &event), FOVEA_ENOTSUP);
            assert_int_equal(fovea_wait(plan, ticket, -1), FOVEA_OK);
        }
        fovea_plan_free(plan);
        fovea_external_image_free(picture);
        fovea_device_close(device);
        hostile.set(NULL, 0);
        pixels_close(&m);
        free(want.data);
        free(out.data);
        nothing_left();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way),
        cmocka_unit_test(imports_with_recordings),
        cmocka_unit_test(the_same_twice),
        cmocka_unit_test(steady),
        cmocka_unit_test(next_way),
        cmocka_unit_test(lost),
        cmocka_unit_test(hardware_buffers),
        cmocka_unit_test(
            every_call_fails), /* runs last, because it may leave contexts on the thread */
    };
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
