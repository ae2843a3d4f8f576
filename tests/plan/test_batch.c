/* test_batch.c: tests that frames in a batch have the bits of frames that are run alone, on every
 * device of this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "tests/fixture.h"

#define MODELS TEST_DATA "/golden/models/"

enum { MOST = 5, OUTPUTS = 2, WIDTH = 131, HEIGHT = 97, GAP = 9, GUARD = 64 };

/* Models with every kind of sweep: global attention, windows, grids, two outputs. */
static const struct subject {
    const char *path, *attention;
    uint32_t size; /* input size of the model; 0: the frame's */
    const char *outputs[OUTPUTS + 1];
} subjects[] = {
    {MODELS "dinov2-03", NULL, 0, {"last_hidden_state", "hidden1"}},
    {MODELS "dinov2-03", "mala", 0, {"last_hidden_state"}},
    {MODELS "dinov2-03", "linear:elu1+softmax@1", 98, {"last_hidden_state"}},
    {MODELS "dinov2-03", "nala", 0, {"last_hidden_state"}},
    {MODELS "dinov2-03", "foveated", 0, {"last_hidden_state"}},
    {MODELS "timm-samvit-01", NULL, 64, {NULL}},
    {MODELS "beit-01", NULL, 0, {NULL}},
    {"synthetic:depth-anything-s", NULL, 70, {NULL}},
    {"synthetic:mavit-t", NULL, 160, {NULL}},
    {"synthetic:pola-swin-t", NULL, 224, {NULL}},
};
#define SUBJECTS (sizeof subjects / sizeof *subjects)

typedef struct run {
    fovea_model *model;
    fovea_device *device;
    fovea_plan_options options;
    fovea_preprocess rule;
    size_t outputs, floats[OUTPUTS], all; /* all: floats per frame */
    uint8_t *pixels;
    fovea_frame frame[MOST];
} run;

static float *allocate(size_t floats)
{
    float *p = malloc((floats ? floats : 1) * sizeof *p);
    assert_non_null(p);
    return p;
}

static void draw(run *r)
{
    const size_t row = (size_t)WIDTH * 3, bytes = (row + GAP) * HEIGHT;
    uint32_t x = 1;
    r->pixels = malloc(MOST * bytes);
    assert_non_null(r->pixels);
    for (size_t i = 0; i < MOST * bytes; i++) {
        x = x * 1664525u + 1013904223u;
        r->pixels[i] = (uint8_t)(x >> 24);
    }
    for (size_t f = 0; f < MOST; f++)
        r->frame[f] =
            (fovea_frame){.pixels = {r->pixels + f * bytes}, .stride = {row + f % 2 * GAP}};
}

static void set_options(run *r, const struct subject *s)
{
    r->options = (fovea_plan_options)FOVEA_PLAN_OPTIONS_INIT;
    r->rule = (fovea_preprocess)FOVEA_PREPROCESS_INIT;
    r->options.frame.width = WIDTH;
    r->options.frame.height = HEIGHT;
    r->options.attention = s->attention;
    r->options.outputs = s->outputs;
    for (r->options.n_outputs = 0; s->outputs[r->options.n_outputs];)
        r->options.n_outputs++;
    if (!s->size)
        return;
    fovea_model_preprocess(r->model, &r->rule);
    r->rule.resize = FOVEA_RESIZE_EXACT;
    r->rule.resize_width = r->rule.resize_height = s->size;
    r->rule.crop_width = r->rule.crop_height = 0;
    r->options.preprocess = &r->rule;
}

/* Returns a plan, or NULL if the device lacks something that the model needs. */
static fovea_plan *plan_of(run *r, uint32_t count)
{
    fovea_plan *plan;
    r->options.frame.count = count;
    const fovea_status status = fovea_plan_create(&plan, r->model, r->device, &r->options);
    if (status != FOVEA_OK && status != FOVEA_ENOTSUP)
        fail_msg("%s", fovea_error());
    if (status != FOVEA_OK)
        return NULL;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    r->all = 0;
    for (r->outputs = 0; fovea_plan_output(plan, r->outputs, &info); r->outputs++) {
        r->floats[r->outputs] = (size_t)info.rows * info.columns;
        r->all += r->floats[r->outputs];
    }
    return plan;
}

/* Points outs at the outputs of frames [0, count), with guards after each. */
static void place(const run *r, fovea_output *outs, float *to, uint32_t count)
{
    for (uint32_t f = 0; f < count; f++)
        for (size_t i = 0; i < r->outputs; i++) {
            *outs++ = (fovea_output){to, r->floats[i] * sizeof(float)};
            to += r->floats[i] + GUARD;
        }
}

static float *compute(run *r, fovea_plan *plan, const fovea_frame *frame, uint32_t count)
{
    const size_t floats = count * (r->all + r->outputs * GUARD);
    float *out = allocate(floats);
    fovea_output outs[MOST * OUTPUTS];
    memset(out, 0x55, floats * sizeof *out);
    place(r, outs, out, count);
    if (fovea_run(plan, frame, outs, count * r->outputs) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return out;
}

/* Compares a batch with single frames, including the guards after the values. */
static void compare(run *r, const struct subject *s, const char *where)
{
    fovea_plan *one = plan_of(r, 0), *many = plan_of(r, MOST);
    assert_int_equal(one == NULL, many == NULL);
    for (uint32_t count = 1; one && count <= MOST; count += 2) {
        const size_t each = (r->all + r->outputs * GUARD) * sizeof(float);
        float *together = compute(r, many, r->frame, count);
        for (uint32_t f = 0; f < count; f++) {
            float *alone = compute(r, one, &r->frame[f], 1);
            if (memcmp((char *)together + f * each, alone, each) != 0)
                fail_msg("%s %s, %s: frame %u of %u has other bits than alone", s->path,
                         s->attention ? s->attention : "", where, f, count);
            free(alone);
        }
        free(together);
    }
    fovea_plan_free(one);
    fovea_plan_free(many);
}

static void open_run(run *r, const struct subject *s)
{
    *r = (run){NULL};
    if (fovea_model_load(&r->model, s->path) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    set_options(r, s);
    draw(r);
}

static void close_run(run *r)
{
    fovea_model_free(r->model);
    free(r->pixels);
}

static void bits_of_one(void **state)
{
    static const fovea_compute computes[] = {FOVEA_COMPUTE_F32, FOVEA_COMPUTE_BF16,
                                             FOVEA_COMPUTE_INT8};
    static const fovea_schedule schedules[] = {FOVEA_SCHEDULE_AUTO, FOVEA_SCHEDULE_STEPWISE,
                                               FOVEA_SCHEDULE_STREAMED};
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++) {
        const bool large = strncmp(subjects[i].path, "synthetic:", 10) == 0;
        run r;
        open_run(&r, &subjects[i]);
        for (uint32_t threads = 1; threads <= 4; threads++) {
            char where[64];
            if (large && threads != 3)
                continue;
            const uint32_t turn = (uint32_t)i + threads;
            r.device = fixture_device(threads);
            r.options.compute = computes[turn % 3];
            r.options.schedule = large ? FOVEA_SCHEDULE_STREAMED : schedules[turn / 3 % 3];
            snprintf(where, sizeof where, "%u threads, products %u, schedule %u", threads,
                     (unsigned)r.options.compute, (unsigned)r.options.schedule);
            compare(&r, &subjects[i], where);
            fovea_device_close(r.device);
        }
        close_run(&r);
    }
}

static void bits_on_devices(void **state)
{
    fovea_device_info list = FOVEA_DEVICE_INFO_INIT;
    (void)state;
    for (size_t k = 1; fovea_device_list(k, &list); k++)
        for (size_t i = 0; i < 3; i++) {
            run r;
            open_run(&r, &subjects[i]);
            if (fovea_device_open(&r.device, list.id, NULL) != FOVEA_OK)
                fail_msg("%s", fovea_error());
            compare(&r, &subjects[i], list.id);
            fovea_device_close(r.device);
            close_run(&r);
        }
}

static void refused(fovea_status status, const char *says)
{
    assert_int_equal(status, FOVEA_EINVAL);
    if (!strstr(fovea_error(), says))
        fail_msg("\"%s\" says nothing of \"%s\"", fovea_error(), says);
}

static void what_cannot_be(void **state)
{
    fovea_output outs[2 * MOST];
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    run r;
    (void)state;
    open_run(&r, &subjects[0]);
    r.device = fixture_device(2);
    r.options.frame.count = 257;
    fovea_plan *plan = NULL;
    refused(fovea_plan_create(&plan, r.model, r.device, &r.options), "at most 256");
    plan = plan_of(&r, 2);
    float *out = allocate(3 * (r.all + r.outputs * GUARD));
    place(&r, outs, out, 3);
    fovea_plan_query(plan, &info);
    assert_int_equal(info.count, 2);
    refused(fovea_run(plan, r.frame, outs, 6), "at most 2 frames");
    refused(fovea_run(plan, r.frame, outs, 3), "at most 2 frames");
    refused(fovea_run(plan, r.frame, outs, 0), "at most 2 frames");
    const fovea_frame lacking[2] = {r.frame[0], {.pixels = {NULL}}};
    refused(fovea_run(plan, lacking, outs, 4), "no pixels");
    outs[3].size--;
    refused(fovea_run(plan, r.frame, outs, 4), "are needed");
    fovea_plan_free(plan);
    free(out);
    fovea_device_close(r.device);
    close_run(&r);
}

/* The memory that a plan reports grows by each frame's own data, not by weights. */
static void memory(void **state)
{
    fovea_plan_info one = FOVEA_PLAN_INFO_INIT, four = FOVEA_PLAN_INFO_INIT;
    run r;
    (void)state;
    open_run(&r, &subjects[1]);
    r.device = fixture_device(2);
    fovea_plan *plan = plan_of(&r, 1);
    fovea_plan_query(plan, &one);
    fovea_plan_free(plan);
    plan = plan_of(&r, 4);
    fovea_plan_query(plan, &four);
    fovea_plan_free(plan);
    assert_int_equal(four.weights, one.weights);
    assert_int_equal(four.states, 4 * one.states);
    assert_true(four.residual <= 4 * one.residual && four.residual > 3 * one.residual);
    assert_int_equal(four.scratch, one.scratch);
    assert_true(four.flops == 4 * one.flops);
    fovea_device_close(r.device);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_one),
        cmocka_unit_test(bits_on_devices),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
