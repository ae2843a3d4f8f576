/* trainers.h: trainers of small models, two pictures to train on, and the values that tests
 * compare. */
#ifndef FOVEA_TESTS_TRAINERS_H
#define FOVEA_TESTS_TRAINERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/trainer.h"

#define SIDE 42 /* in pixels: a multiple of 14, and not of 16 */
/* 21 x 2 patches of 14 pixels: two blocks of foveated attention see cells of two levels. */
#define WIDE 294
#define LOW 28
#define MODELS TEST_DATA "/golden/models/"
#define CLASSES 5

static uint8_t pixels[2][SIDE * SIDE * 3], wide[2][WIDE * LOW * 3], mask[SIDE * SIDE];
static float depths[SIDE * SIDE]; /* in metres; unknown depths are 0 or NaN */

static inline void draw(void)
{
    uint32_t x = 7;
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof pixels[p]; i++) {
            x = x * 1664525u + 1013904223u;
            pixels[p][i] = (uint8_t)((x >> 26) + (i / 3 % SIDE) * 3);
        }
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof wide[p]; i++)
            wide[p][i] = (uint8_t)(pixels[p][i % sizeof pixels[p]] + i / 40 % WIDE);
    for (size_t i = 0; i < sizeof mask; i++)
        mask[i] = i % SIDE < 5 ? 255 : (uint8_t)(i / 170 % CLASSES);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        depths[i] = i % 11 == 0 ? 0.f : i % 13 == 0 ? NAN : 1.f + (float)(i % SIDE + i / 99) / 10;
}

/* ---- trainers ---- */

static inline fovea_device *open_device(uint32_t threads)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_device *device;
    options.threads = threads;
    if (fovea_device_open(&device, "cpu", &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return device;
}

static inline const char *model_path(const char *name)
{
    static char path[512];
    const bool made = strncmp(name, "synthetic:", 10) == 0;
    snprintf(path, sizeof path, "%s%s", made ? "" : MODELS, name);
    return path;
}

static inline fovea_trainer_options options_of(fovea_stage stage, const char *attention)
{
    fovea_trainer_options o = FOVEA_TRAINER_OPTIONS_INIT;
    o.stage = stage;
    o.attention = attention;
    o.frame.width = o.frame.height = SIDE;
    o.lr = 1e-3f;
    o.classes = stage == FOVEA_STAGE_TASK ? CLASSES : 0;
    o.seed = 3;
    return o;
}

/* Returns options for training a segmentation head alone. */
static inline fovea_trainer_options options_of_head(fovea_head head)
{
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, NULL);
    o.task = FOVEA_TASK_SEGMENTATION;
    o.head = head;
    o.trainable = FOVEA_TRAIN_HEAD;
    return o;
}

static inline fovea_trainer_options wide_options_of(fovea_stage stage, const char *attention)
{
    fovea_trainer_options o = options_of(stage, attention);
    o.frame.width = WIDE;
    o.frame.height = LOW;
    return o;
}

static inline fovea_trainer *make(fovea_device *device, const char *model,
                                  const fovea_trainer_options *o)
{
    fovea_trainer *t;
    if (fovea_trainer_create(&t, model_path(model), NULL, device, o) != FOVEA_OK)
        fail_msg("%s: %s", model, fovea_error());
    return t;
}

static inline void add_picture(fovea_trainer *t, int picture)
{
    const bool is_wide = t->o.frame.width == WIDE;
    const fovea_frame frame = {.pixels = {is_wide ? wide[picture] : pixels[picture]}};
    const fovea_target target = {.label = 2, .mask = mask, .depth = depths};
    if (fovea_trainer_add(t, &frame, &target) != FOVEA_OK)
        fail_msg("%s", fovea_error());
}

static inline fovea_trainer_report run_step(fovea_trainer *t)
{
    fovea_trainer_report report = FOVEA_TRAINER_REPORT_INIT;
    add_picture(t, 0);
    add_picture(t, 1);
    if (fovea_trainer_step(t, &report) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return report;
}

/* ---- compared values ---- */

static inline double loss_of(fovea_trainer *t)
{
    double loss = 0;
    add_picture(t, 0);
    for (uint32_t i = 0; i < t->losses; i++)
        loss += t->sum[i];
    fovea_trainer_discard(t);
    return loss;
}

static inline double length(const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static inline void assert_same(const fovea_trainer *a, const fovea_trainer *b)
{
    assert_int_equal(a->masters.padded_floats, b->masters.padded_floats);
    for (int i = 0; i < 5; i++) {
        if (i != 1 && a->masters.block[i])
            assert_memory_equal(a->masters.block[i], b->masters.block[i],
                                (size_t)a->masters.padded_floats * sizeof(float));
    }
}

/* ---- states ---- */

static inline uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*size);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

static inline void write_file(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* Returns the checksum that a file contains. */
static inline uint64_t checksum(const uint8_t *data, size_t size)
{
    uint64_t h = 1;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word;
        memcpy(&word, data + i, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

/* Removes `word`, such as "\"loss\":0,", from a state, to simulate a file written before that
 * option existed.
 */
static inline void forget(const char *path, const char *word)
{
    size_t size;
    uint8_t *data = read_file(path, &size);
    char *at = strstr((char *)data + 16, word);
    assert_non_null(at);
    memset(at, ' ', strlen(word));
    const uint64_t sum = checksum(data, size - sizeof sum);
    memcpy(data + size - sizeof sum, &sum, sizeof sum);
    write_file(path, data, size);
    free(data);
}

#endif
