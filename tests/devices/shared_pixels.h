/* shared_pixels.h: frames of every format in shared memory for tests of imported pictures, with an
 * offset and gaps between rows and planes. For cmocka programs.
 */
#ifndef FOVEA_TESTS_SHARED_PIXELS_H
#define FOVEA_TESTS_SHARED_PIXELS_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <fovea/external_images.h>

#include "tests/fixture.h"

typedef struct pixel_format {
    const char *name;
    fovea_pixel_format format;
    uint32_t planes, row[2], rows[2]; /* bytes of a row and number of rows, per plane */
    uint32_t offset, gap; /* bytes before the first plane and after each row; 0 if packed */
} pixel_format;

enum { W = FIXTURE_WIDTH, H = FIXTURE_HEIGHT };
static const pixel_format pixel_formats[] = {
    {"RGB", FOVEA_FORMAT_RGB8, 1, {3 * W}, {H}, 64, 13},
    {"BGR, packed", FOVEA_FORMAT_BGR8, 1, {3 * W}, {H}, 0, 0},
    {"GRAY", FOVEA_FORMAT_GRAY8, 1, {W}, {H}, 3, 5},
    {"float planes", FOVEA_FORMAT_PLANES_F32, 1, {4 * W}, {3 * H}, 128, 0},
    {"NV12", FOVEA_FORMAT_NV12, 2, {W, (W + 1) / 2 * 2}, {H, (H + 1) / 2}, 256, 58},
    {"YUYV", FOVEA_FORMAT_YUYV, 1, {(W + 1) / 2 * 4}, {H}, 0, 32},
};
enum { PIXEL_FORMATS = sizeof pixel_formats / sizeof *pixel_formats };

/* A picture's memory: a memory file, and the part of it that a frame uses. */
typedef struct pixel_memory {
    const pixel_format *f;
    int fd;
    size_t size, offset[2], stride[2];
    uint8_t *data;
} pixel_memory;

static inline void pixels_draw(pixel_memory *m, uint32_t seed)
{
    uint32_t x = seed;
    for (size_t i = 0; i < m->size; i++) {
        x = x * 1664525u + 1013904223u;
        m->data[i] = (uint8_t)(x >> 24);
    }
    if (m->f->format == FOVEA_FORMAT_PLANES_F32)
        for (size_t i = 0; i < (size_t)m->f->row[0] / 4 * m->f->rows[0]; i++) {
            x = x * 1664525u + 1013904223u;
            ((float *)(void *)(m->data + m->offset[0]))[i] = (float)(x >> 24) / 128 - 1;
        }
}

static inline void pixels_open(pixel_memory *m, const pixel_format *f, uint32_t seed)
{
    char path[] = "/tmp/fovea_pixels_XXXXXX";
    *m = (pixel_memory){.f = f, .fd = mkstemp(path), .size = f->offset};
    assert_true(m->fd >= 0 && unlink(path) == 0);
    for (uint32_t i = 0; i < f->planes; i++) {
        m->offset[i] = m->size;
        m->stride[i] = f->row[i] + f->gap;
        m->size += m->stride[i] * f->rows[i];
    }
    assert_int_equal(ftruncate(m->fd, (off_t)m->size), 0);
    m->data = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    assert_true(m->data != MAP_FAILED);
    pixels_draw(m, seed);
}

static inline void pixels_close(pixel_memory *m)
{
    munmap(m->data, m->size);
    close(m->fd);
}

static inline fovea_frame pixels_frame(const pixel_memory *m)
{
    fovea_frame frame = {.pixels = {NULL}};
    for (uint32_t i = 0; i < m->f->planes; i++) {
        frame.pixels[i] = m->data + m->offset[i];
        frame.stride[i] = m->stride[i];
    }
    return frame;
}

/* `memory` has a kind that needs no file descriptor. */
static inline fovea_external_image_options
pixels_options(const pixel_memory *m, fovea_external_image_kind kind, void *memory)
{
    fovea_external_image_options o = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    o.kind = kind;
    o.format = m->f->format;
    o.width = W;
    o.height = H;
    for (uint32_t i = 0; i < m->f->planes; i++) {
        o.plane[i].fd = m->fd;
        o.plane[i].memory = memory;
        o.plane[i].offset = m->offset[i];
        o.plane[i].stride = m->stride[i];
    }
    return o;
}

static inline fovea_external_image *pixels_import(const pixel_memory *m, fovea_device *device,
                                                  fovea_external_image_kind kind, void *memory)
{
    fovea_external_image *picture;
    const fovea_external_image_options o = pixels_options(m, kind, memory);
    if (fovea_external_image_import(&picture, device, &o) != FOVEA_OK)
        fail_msg("%s: %s", m->f->name, fovea_error());
    return picture;
}

/* Checks that an import fails with `status` and a message that contains the word. */
static inline void pixels_refused(fovea_device *device, const fovea_external_image_options *o,
                                  fovea_status status, const char *word)
{
    fovea_external_image *none;
    if (fovea_external_image_import(&none, device, o) != status || !strstr(fovea_error(), word))
        fail_msg("%s: %s is wanted", fovea_error(), word);
}

static inline fovea_external_image_info picture_info(const fovea_external_image *picture)
{
    fovea_external_image_info info = FOVEA_EXTERNAL_IMAGE_INFO_INIT;
    assert_int_equal(fovea_external_image_query(picture, &info), FOVEA_OK);
    return info;
}

/* If `resized` is set, frames are preprocessed as the model requires; otherwise they are not
 * resized. */
static inline fovea_plan *pixels_plan(const fovea_model *of, fovea_device *device,
                                      fovea_pixel_format format, int resized,
                                      fovea_device_lost_action lost)
{
    fovea_plan *plan;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_plan_options o = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    assert_int_equal(fovea_model_preprocess(of, &rule), FOVEA_OK);
    assert_int_equal(fovea_preprocess_resize(&rule, 42, 28), FOVEA_OK);
    o.frame.format = format;
    o.preprocess = resized ? &rule : NULL;
    o.on_device_lost = lost;
    if (fovea_plan_create(&plan, of, device, &o) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return plan;
}

static inline fovea_output output_of(const fovea_plan *plan)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    assert_true(fovea_plan_output(plan, 0, &info));
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_output out = {calloc(1, size), size};
    assert_non_null(out.data);
    return out;
}

/* Returns the plan's output for the same pixels in host memory. */
static inline fovea_output pixels_want(fovea_plan *plan, const pixel_memory *m)
{
    const fovea_output out = output_of(plan);
    const fovea_frame frame = pixels_frame(m);
    if (fovea_run(plan, &frame, &out, 1) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return out;
}

static inline void same_output(const fovea_output *got, const fovea_output *want, const char *what)
{
    if (memcmp(got->data, want->data, want->size) != 0)
        fail_msg("%s: other results than of the same pixels in memory of the host's", what);
}

#endif
