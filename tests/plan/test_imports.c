/* test_imports.c: tests that imported pictures give the bits of the same pixels in host memory, on
 * the CPU and every other device of this machine.
 */
#include "tests/devices/shared_pixels.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "platform/os/os_machine.h"
#include "tests/plan/heap_calls.h"

static fovea_model *model;

static int load(void **state)
{
    (void)state;
    fixture_draw();
    model = fixture_load();
    return 0;
}

static int drop(void **state)
{
    (void)state;
    fovea_model_free(model);
    return 0;
}

/* ---- results ---- */

/* Simulates a camera's buffers: two are in flight, and the pixels change each time. */
static void run_camera(fovea_device *device, const pixel_format *f, fovea_external_image_kind kind,
                       int resized)
{
    enum { BUFFERS = 3, FRAMES = 8 };
    pixel_memory memory[BUFFERS];
    fovea_external_image *picture[BUFFERS];
    fovea_plan *plan = pixels_plan(model, device, f->format, resized, FOVEA_DEVICE_LOST_FAIL);
    fovea_output want[FRAMES], out[2] = {output_of(plan), output_of(plan)};
    fovea_ticket ticket[2];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        pixels_open(&memory[i], f, i + 1);
        picture[i] = pixels_import(&memory[i], device, kind, memory[i].data);
    }
    for (uint32_t i = 0; i < FRAMES; i++) {
        pixels_draw(&memory[i % BUFFERS], 100 + i);
        want[i] = pixels_want(plan, &memory[i % BUFFERS]);
    }
    for (uint32_t i = 0; i <= FRAMES; i++) {
        if (i < FRAMES) {
            pixels_draw(&memory[i % BUFFERS], 100 + i);
            if (fovea_submit_external_image(plan, picture[i % BUFFERS], NULL, &out[i % 2], 1,
                                            &ticket[i % 2]) != FOVEA_OK)
                fail_msg("%s: %s", f->name, fovea_error());
        }
        if (i == 0)
            continue;
        if (fovea_wait(plan, ticket[(i - 1) % 2], -1) != FOVEA_OK)
            fail_msg("%s: %s", f->name, fovea_error());
        same_output(&out[(i - 1) % 2], &want[i - 1], f->name);
    }
    fovea_plan_free(plan);
    for (uint32_t i = 0; i < FRAMES; i++)
        free(want[i].data);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        fovea_external_image_free(picture[i]);
        pixels_close(&memory[i]);
    }
    free(out[0].data);
    free(out[1].data);
}

static void every_format(void **state)
{
    (void)state;
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    for (size_t k = 0; fovea_device_list(k, &info); k++) {
        fovea_device *device;
        if (fovea_device_open(&device, info.id, NULL) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        for (size_t f = 0; f < PIXEL_FORMATS; f++)
            for (int resized = 0; resized < 2; resized++) {
                if (resized && pixel_formats[f].format == FOVEA_FORMAT_PLANES_F32)
                    continue;
                run_camera(device, &pixel_formats[f], FOVEA_EXTERNAL_DMABUF, resized);
                run_camera(device, &pixel_formats[f], FOVEA_EXTERNAL_HOST, resized);
            }
        fovea_device_close(device);
    }
}

/* The CPU reads imported pictures in place. Frames that share a picture do not interfere. */
static void on_the_cpu(void **state)
{
    (void)state;
    pixel_memory memory;
    fovea_device *device = fixture_device(2);
    pixels_open(&memory, &pixel_formats[0], 1);
    fovea_external_image *picture = pixels_import(&memory, device, FOVEA_EXTERNAL_DMABUF, NULL);
    const fovea_external_image_info info = picture_info(picture);
    assert_int_equal(info.transfer, FOVEA_TRANSFER_NONE);
    assert_string_equal(info.method, "mmap");
    assert_string_equal(info.reason, "");
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_RGB8, 0, FOVEA_DEVICE_LOST_FAIL);
    fovea_output want = pixels_want(plan, &memory), out = output_of(plan);
    fovea_ticket ticket[2];
    void *event;
    int fence;
    for (int i = 0; i < 2; i++)
        assert_int_equal(fovea_submit_external_image(plan, picture, NULL, &out, 1, &ticket[i]),
                         FOVEA_OK);
    assert_int_equal(fovea_submit_external_image(plan, picture, NULL, &out, 1, &ticket[0]),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_plan_release_event(plan, ticket[0], &event), FOVEA_ENOTSUP);
    assert_int_equal(fovea_plan_release_fence(plan, ticket[0], &fence), FOVEA_ENOTSUP);
    assert_int_equal(fovea_wait(plan, ticket[1], -1), FOVEA_OK);
    assert_int_equal(fovea_plan_release_event(plan, ticket[0], &event), FOVEA_EINVAL);
    same_output(&out, &want, "two frames of one picture");
    fovea_device_close(device); /* the picture and the plan keep the device open */
    fovea_plan_free(plan);
    fovea_external_image_free(picture);
    pixels_close(&memory);
    free(want.data);
    free(out.data);
}

/* After the import, a frame allocates nothing. */
static void steady(void **state)
{
    (void)state;
    pixel_memory memory;
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    fovea_device *device = fixture_device(2);
    pixels_open(&memory, &pixel_formats[4], 1);
    fovea_external_image *picture = pixels_import(&memory, device, FOVEA_EXTERNAL_DMABUF, NULL);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(plan);
    assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
    fovea_memory_query(&before);
    const uint64_t heap = heap_calls();
    for (int i = 0; i < 20; i++)
        assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
    assert_int_equal(heap_calls(), heap);
    fovea_memory_query(&after);
    assert_int_equal(after.allocations, before.allocations);
    fovea_plan_free(plan);
    fovea_external_image_free(picture);
    fovea_device_close(device);
    pixels_close(&memory);
    free(out.data);
}

/* ---- dma-buf synchronisation ---- */

/* A driver with a non-coherent cache: reads before begin and after end return wrong data. */
static struct {
    pixel_memory *memory; /* NULL: no driver is simulated */
    uint32_t seed;
    int begun, ended, interrupted, refuse;
} driver;

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    const uint64_t *flags = va_arg(list, const uint64_t *);
    va_end(list);
    if (!driver.memory)
        return __real_ioctl(fd, request, flags);
    assert_int_equal(request, _IOW('b', 0, uint64_t));
    assert_true(*flags == 1 || *flags == 5); /* flags for begin and end of reading */
    if (driver.interrupted-- > 0 || driver.refuse) {
        errno = driver.refuse ? driver.refuse : EINTR;
        return -1;
    }
    driver.begun += *flags == 1;
    driver.ended += *flags == 5;
    pixels_draw(driver.memory, driver.begun > driver.ended ? driver.seed : 999);
    return 0;
}

static void begins_and_ends(void **state)
{
    (void)state;
    pixel_memory memory;
    fovea_device *device = fixture_device(2);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_NV12, 1, FOVEA_DEVICE_LOST_FAIL);
    pixels_open(&memory, &pixel_formats[4], 1);
    driver.memory = &memory;
    driver.interrupted = 2;
    fovea_external_image *picture = pixels_import(&memory, device, FOVEA_EXTERNAL_DMABUF, NULL);
    assert_int_equal(driver.begun, driver.ended);
    fovea_output out = output_of(plan);
    for (uint32_t i = 0; i < 4; i++) {
        const int before = driver.begun;
        driver.seed = 10 + i;
        pixels_draw(&memory, driver.seed);
        fovea_output want = pixels_want(plan, &memory);
        pixels_draw(&memory, 999);
        driver.interrupted = 1;
        assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
        assert_int_equal(driver.begun, before + 1);
        assert_int_equal(driver.ended, driver.begun);
        same_output(&out, &want, "a dma-buf");
        free(want.data);
    }
    driver.refuse = ENODEV;
    assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_EIO);
    driver.refuse = 0;
    assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 0), FOVEA_EINVAL);
    assert_int_equal(driver.begun, driver.ended);
    fovea_ticket ticket;
    assert_int_equal(fovea_submit_external_image(plan, picture, NULL, &out, 1, &ticket), FOVEA_OK);
    fovea_plan_free(plan); /* with the frame in flight */
    assert_int_equal(driver.begun, driver.ended);
    fovea_external_image_free(picture);
    driver.memory = NULL;
    fovea_device_close(device);
    pixels_close(&memory);
    free(out.data);
}

/* ---- fences ---- */

static void fences(void **state)
{
    (void)state;
    pixel_memory memory;
    int pipe_ends[2];
    fovea_device *device = fixture_device(1);
    pixels_open(&memory, &pixel_formats[0], 1);
    fovea_external_image *picture = pixels_import(&memory, device, FOVEA_EXTERNAL_DMABUF, NULL);
    fovea_plan *plan = pixels_plan(model, device, FOVEA_FORMAT_RGB8, 0, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(plan);
    fovea_acquire_fence ready = {.fd = 0};
    assert_int_equal(pipe(pipe_ends), 0);
    /* A pipe becomes readable when it is signalled, like a sync_file. */
    ready.fd = pipe_ends[0];
    assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    assert_int_equal(fovea_run_external_image(plan, picture, &ready, &out, 1), FOVEA_OK);
    ready.fd = 987;
    assert_int_equal(fovea_run_external_image(plan, picture, &ready, &out, 1), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "987"));
    ready = (fovea_acquire_fence){.event = &ready};
    assert_int_equal(fovea_run_external_image(plan, picture, &ready, &out, 1), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "event"));
    /* A refused frame is not in flight. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
    char byte;
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    ready = (fovea_acquire_fence){.fd = pipe_ends[0]};
    const double begin = fv_machine_seconds();
    assert_int_equal(fovea_run_external_image(plan, picture, &ready, &out, 1), FOVEA_ETIMEOUT);
    assert_true(fv_machine_seconds() - begin >= 9.9);
    assert_int_equal(fovea_run_external_image(plan, picture, NULL, &out, 1), FOVEA_OK);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    fovea_plan_free(plan);
    fovea_external_image_free(picture);
    fovea_device_close(device);
    pixels_close(&memory);
    free(out.data);
}

/* ---- refusals ---- */

static void refused_import(fovea_device *device, const fovea_external_image_options *o,
                           fovea_status status, const char *word)
{
    fovea_external_image *picture = (fovea_external_image *)&picture;
    const fovea_status got = fovea_external_image_import(&picture, device, o);
    if (got != status || !strstr(fovea_error(), word) ||
        picture != (fovea_external_image *)&picture)
        fail_msg("%s, %s: wanted %s", fovea_status_text(got), fovea_error(), word);
}

static void refusals(void **state)
{
    (void)state;
    pixel_memory m;
    fovea_device *device = fixture_device(1), *other = fixture_device(1);
    pixels_open(&m, &pixel_formats[4], 1);
    const fovea_external_image_options good = pixels_options(&m, FOVEA_EXTERNAL_DMABUF, NULL);
    const long descriptors = dup(0);
    close((int)descriptors);
    fovea_external_image_options o = good;
    o.modifier = 1;
    refused_import(device, &o, FOVEA_ENOTSUP, "DRM_FORMAT_MOD_LINEAR");
    o = good;
    o.kind = (fovea_external_image_kind)99;
    refused_import(device, &o, FOVEA_EINVAL, "external image kind");
    o = good;
    o.format = (fovea_pixel_format)99;
    refused_import(device, &o, FOVEA_EINVAL, "format");
    o = good;
    o.width = 0;
    refused_import(device, &o, FOVEA_EINVAL, "pixels");
    o = good;
    o.plane[1].fd = -1;
    refused_import(device, &o, FOVEA_EINVAL, "file descriptor");
    o.plane[1].fd = 987;
    refused_import(device, &o, FOVEA_EINVAL, "987");
    o = good;
    o.plane[0].stride = W - 1;
    refused_import(device, &o, FOVEA_EINVAL, "stride");
    o = good;
    o.plane[1].offset += 1000;
    refused_import(device, &o, FOVEA_EINVAL, "bytes");
    o = good;
    o.plane[1].offset = SIZE_MAX - 10;
    refused_import(device, &o, FOVEA_EINVAL, "4 GiB");
    o = good;
    o.plane[0].size = 10;
    refused_import(device, &o, FOVEA_EINVAL, "10 bytes");
    o = pixels_options(&m, FOVEA_EXTERNAL_HOST, NULL);
    refused_import(device, &o, FOVEA_EINVAL, "memory");
    o = pixels_options(&m, FOVEA_EXTERNAL_OPENCL, m.data);
    refused_import(device, &o, FOVEA_ENOTSUP, "CPU");
    o = pixels_options(&m, FOVEA_EXTERNAL_EGL, m.data);
    refused_import(device, &o, FOVEA_EINVAL, "layout");
    o = good;
    o.format = FOVEA_FORMAT_PLANES_F32;
    o.plane[0].stride = 4 * W + 4;
    refused_import(device, &o, FOVEA_EINVAL, "float planes");
    refused_import(device, NULL, FOVEA_EINVAL, "options");
    refused_import(NULL, &good, FOVEA_EINVAL, "device");
    const int next = dup(0); /* no descriptor leaked */
    assert_int_equal(next, descriptors);
    close(next);

    fovea_external_image *nv12 = pixels_import(&m, device, FOVEA_EXTERNAL_DMABUF, NULL);
    fovea_plan *rgb = pixels_plan(model, device, FOVEA_FORMAT_RGB8, 0, FOVEA_DEVICE_LOST_FAIL);
    fovea_plan *elsewhere = pixels_plan(model, other, FOVEA_FORMAT_NV12, 0, FOVEA_DEVICE_LOST_FAIL);
    fovea_output out = output_of(rgb);
    assert_int_equal(fovea_run_external_image(rgb, nv12, NULL, &out, 1), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "format"));
    assert_int_equal(fovea_run_external_image(elsewhere, nv12, NULL, &out, 1), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "device"));
    assert_int_equal(fovea_run_external_image(rgb, NULL, NULL, &out, 1), FOVEA_EINVAL);
    fovea_plan_free(rgb);
    fovea_plan_free(elsewhere);
    fovea_external_image_free(nv12);
    fovea_external_image_free(NULL);
    fovea_device_close(device);
    fovea_device_close(other);
    pixels_close(&m);
    free(out.data);
}

int main(void)
{
    setenv("RUSTICL_ENABLE", "llvmpipe", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),    cmocka_unit_test(on_the_cpu), cmocka_unit_test(steady),
        cmocka_unit_test(begins_and_ends), cmocka_unit_test(fences),     cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, load, drop);
}
