/* camera.h: simulates a camera whose buffers a GPU reads in place or copies, in each way that a
 * driver may support. For cmocka programs.
 */
#ifndef FOVEA_TESTS_CAMERA_H
#define FOVEA_TESTS_CAMERA_H

#include "tests/devices/gpu_frames.h"
#include "tests/devices/shared_pixels.h"

typedef struct way {
    long imports; /* import extensions of the driver */
    fovea_external_image_kind kind;
    fovea_transfer transfer;
    const char *method,
        *reason; /* expected beginning of the reported method, and words of the reason */
} way;

static const way of_cl[] = {
    {1, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_NONE, "cl_khr_external_memory_dma_buf", ""},
    {2, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_NONE, "cl_arm_import_memory_dma_buf", ""},
    {4, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_NONE, "cl_qcom_dmabuf_host_ptr", ""},
    {8, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_NONE, "cl_qcom_ion_host_ptr", ""},
    {0, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_HOST, "mmap",
     "none of the extensions cl_khr_external_memory_dma"},
    {16, FOVEA_EXTERNAL_HOST, FOVEA_TRANSFER_NONE, "cl_arm_import_memory_host", ""},
    {0, FOVEA_EXTERNAL_HOST, FOVEA_TRANSFER_HOST, "host",
     "none of the extensions cl_arm_import_memory_host"},
    {32, FOVEA_EXTERNAL_AHARDWAREBUFFER, FOVEA_TRANSFER_NONE,
     "cl_arm_import_memory_android_hardware_buffer", ""},
    {64, FOVEA_EXTERNAL_AHARDWAREBUFFER, FOVEA_TRANSFER_NONE,
     "cl_qcom_android_ahardwarebuffer_host_ptr", ""},
    {-1, 0, 0, NULL, NULL},
};
static const way of_cuda[] = {
    {1, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_NONE, "cuImportExternalMemory", ""},
    {0, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_DEVICE, "mmap, cuMemHostRegister", "does not cache"},
    {8, FOVEA_EXTERNAL_DMABUF, FOVEA_TRANSFER_HOST, "mmap", "cuMemHostRegister: "},
    {0, FOVEA_EXTERNAL_HOST, FOVEA_TRANSFER_DEVICE, "cuMemHostRegister", "does not cache"},
    {8, FOVEA_EXTERNAL_HOST, FOVEA_TRANSFER_HOST, "host", "cuMemHostRegister: "},
    {-1, 0, 0, NULL, NULL},
};

static inline const way *ways(void)
{
    return hostile.cuda ? of_cuda : of_cl;
}

/* Returns memory without a file descriptor; the memory is valid until the next call. */
static inline void *memory_of(const pixel_memory *m, fovea_external_image_kind kind)
{
    static hostile_ahardwarebuffer buffer;
    buffer = (hostile_ahardwarebuffer){m->fd, m->size};
    return kind == FOVEA_EXTERNAL_AHARDWAREBUFFER ? (void *)&buffer : m->data;
}

static inline void check_way(const way *w, const fovea_external_image *picture)
{
    const fovea_external_image_info info = picture_info(picture);
    if (info.transfer != w->transfer || strncmp(info.method, w->method, strlen(w->method)) != 0 ||
        !strstr(info.reason, w->reason) || (!*w->reason && *info.reason))
        fail_msg("imports %ld: transfer %d by %s, \"%s\"", w->imports, (int)info.transfer,
                 info.method, info.reason);
}

/* Checks that the device lists each method of reading in place. */
static inline void check_listed(const way *w, const fovea_device *device)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    assert_int_equal(fovea_device_describe(device, &info), FOVEA_OK);
    if (w->transfer == FOVEA_TRANSFER_NONE && !strstr(info.imports, w->method))
        fail_msg("%s is not among %s", w->method, info.imports);
    if (w->imports == 0 && !hostile.cuda && strcmp(info.imports, "cl_mem") != 0)
        fail_msg("imports of a driver without extensions: %s", info.imports);
}

enum { BUFFERS = 3, ROUNDS = 6 };

typedef struct camera {
    fovea_device *device;
    fovea_plan *plan;
    pixel_memory memory[BUFFERS];
    fovea_external_image *picture[BUFFERS];
    fovea_output want[ROUNDS], out[2];
} camera;

static inline void camera_open(camera *c, const pixel_format *f, const way *w, int resized)
{
    c->device = open_device(0);
    check_listed(w, c->device);
    c->plan = pixels_plan(model, c->device, f->format, resized, FOVEA_DEVICE_LOST_FAIL);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        pixels_open(&c->memory[i], f, i);
        c->picture[i] =
            pixels_import(&c->memory[i], c->device, w->kind, memory_of(&c->memory[i], w->kind));
        check_way(w, c->picture[i]);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        pixels_draw(&c->memory[0], 100 + i);
        c->want[i] = pixels_want(c->plan, &c->memory[0]);
    }
    for (int i = 0; i < 2; i++)
        c->out[i] = output_of(c->plan);
}

static inline void camera_close(camera *c)
{
    fovea_plan_free(c->plan);
    for (int i = 0; i < BUFFERS; i++) {
        fovea_external_image_free(c->picture[i]);
        pixels_close(&c->memory[i]);
    }
    fovea_device_close(c->device);
    for (int i = 0; i < ROUNDS; i++)
        free(c->want[i].data);
    free(c->out[0].data);
    free(c->out[1].data);
    nothing_left();
}

/* Runs frames with two in flight. The buffers' pixels change in each round, and every third frame
 * is in host memory. */
static inline void camera_run(camera *c)
{
    fovea_ticket ticket[2];
    for (uint32_t i = 0; i <= ROUNDS; i++) {
        pixel_memory *m = &c->memory[i % BUFFERS];
        fovea_status status = FOVEA_OK;
        if (i < ROUNDS) {
            pixels_draw(m, 100 + i);
            const fovea_frame frame = pixels_frame(m);
            status = i % 3 == 2
                         ? fovea_submit(c->plan, &frame, &c->out[i % 2], 1, &ticket[i % 2])
                         : fovea_submit_external_image(c->plan, c->picture[i % BUFFERS], NULL,
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

#endif
