/* test_prompts.c: tests that a segmenter finds the masks and scores of transformers' SamModel and
 * Sam2Model for points and boxes, whatever the largest prompt is, without an allocation, and that
 * it refuses prompts that are wrong. tests/data/make_sam.py has the same prompts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/prompts.h>

#include "tests/fixture.h"
#include "tests/plan/heap_calls.h"

#define MODELS TEST_DATA "/golden/models/"
static const char *const models[] = {MODELS "sam-01", MODELS "sam2-01"};
enum { MODEL_COUNT = 2, MASKS = 4, POINTS = 3, OUTS = 2, FEATURES = 3 };

static const struct example {
    const char *name;
    fovea_prompt_point point[POINTS];
    size_t points;
    bool boxed;
    fovea_box box;
} examples[] = {
    {"point", {{30, 20, 1}}, 1, false, {0}},
    {"points", {{30, 20, 1}, {70.5, 31.25, 0}, {2, 44, 1}}, 3, false, {0}},
    {"ignored", {{30, 20, 1}, {5, 5, -1}}, 2, false, {0}},
    {"box", {{0}}, 0, true, {12, 3.5, 48, 36.5}},
    {"both", {{30, 20, 0}, {50, 10, 1}}, 2, true, {12, 3.5, 48, 36.5}},
    {"other", {{80, 8, 0}}, 1, true, {0, 0, 89, 44}},
    {"none", {{0}}, 0, false, {0}},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

typedef struct scene {
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_tensors *file;
    fovea_tensor picture;
    uint32_t width, height;
    fovea_output features[FEATURES];
    size_t n; /* number of features */
} scene;

static fovea_output buffer(const fovea_plan *plan, size_t index)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    assert_true(fovea_plan_output(plan, index, &info));
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    return (fovea_output){calloc(1, size), size};
}

/* Plans the picture of the test's data, and computes its features. */
static scene open_scene(const char *folder, uint32_t threads)
{
    scene s = {.device = fixture_device(threads)};
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    const char *names[FEATURES];
    char path[512];
    snprintf(path, sizeof path, "%s/prompts.safetensors", folder);
    assert_int_equal(fovea_model_load(&s.model, folder), FOVEA_OK);
    assert_int_equal(fovea_model_preprocess(s.model, &rule), FOVEA_OK);
    assert_int_equal(fovea_tensors_open(&s.file, path), FOVEA_OK);
    while (s.n < FEATURES && (names[s.n] = fovea_model_prompt_output(s.model, s.n)))
        s.n++;
    assert_true(fovea_tensors_find(s.file, "picture", &s.picture));
    o.frame.width = s.width = (uint32_t)s.picture.shape[1];
    o.frame.height = s.height = (uint32_t)s.picture.shape[0];
    o.preprocess = &rule;
    o.outputs = names;
    o.n_outputs = s.n;
    assert_int_equal(fovea_plan_create(&s.plan, s.model, s.device, &o), FOVEA_OK);
    for (size_t i = 0; i < s.n; i++)
        s.features[i] = buffer(s.plan, i);
    const fovea_frame frame = {.pixels = {s.picture.data}};
    assert_int_equal(fovea_run(s.plan, &frame, s.features, s.n), FOVEA_OK);
    return s;
}

static void close_scene(scene *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->features[i].data);
    fovea_tensors_close(s->file);
    fovea_plan_free(s->plan);
    fovea_model_free(s->model);
    fovea_device_close(s->device);
}

static fovea_prompt prompt_of(const struct example *e)
{
    return (fovea_prompt){e->point, e->points, e->boxed ? &e->box : NULL};
}

/* Reads the expected values of an example. */
static float *wanted(const scene *s, const struct example *e, const char *what, size_t count)
{
    char name[64];
    fovea_tensor t;
    snprintf(name, sizeof name, "%s.%s", e->name, what);
    assert_true(fovea_tensors_find(s->file, name, &t));
    assert_int_equal(t.elements, count);
    float *out = malloc(count * sizeof *out);
    assert_int_equal(fovea_tensors_read(&t, 0, count, out), FOVEA_OK);
    return out;
}

/* Compares the logits, which are rows of masks, with planes of masks. */
static void check_logits(const scene *s, const struct example *e, const fovea_output *out)
{
    const size_t places = out->size / sizeof(float) / MASKS;
    const float *got = out->data;
    float *want = wanted(s, e, "pred_masks", places * MASKS);
    double most = 0, worst = 0;
    for (size_t i = 0; i < places; i++)
        for (size_t k = 0; k < MASKS; k++) {
            const double x = (double)want[k * places + i];
            most = fmax(most, fabs(x));
            worst = fmax(worst, fabs((double)got[i * MASKS + k] - x));
        }
    if (!(worst <= 2e-5 * most))
        fail_msg("%s: the logits differ by %g of %g", e->name, worst, most);
    free(want);
}

static void check_scores(const scene *s, const struct example *e, const fovea_output *out)
{
    const float *got = out->data;
    float *want = wanted(s, e, "iou_scores", MASKS);
    for (size_t i = 0; i < MASKS; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f))
            fail_msg("%s: score %zu is %g, not %g", e->name, i, (double)got[i], (double)want[i]);
    free(want);
}

/* Returns whether two masks overlap by 0.999. */
static bool agree(const uint8_t *got, const float *want, size_t pixels)
{
    size_t both = 0, either = 0;
    for (size_t i = 0; i < pixels; i++) {
        both += got[i] && want[i] > 0;
        either += got[i] || want[i] > 0;
    }
    return (double)both >= 0.999 * (double)either;
}

static void check_mask(const scene *s, const fovea_mask *m, const uint8_t *inside)
{
    uint64_t area = 0;
    uint32_t x1 = s->width, y1 = s->height, x2 = 0, y2 = 0;
    for (uint32_t i = 0; i < s->width * s->height; i++) {
        const uint32_t x = i % s->width, y = i / s->width;
        if (!inside[i])
            continue;
        area++;
        x1 = x < x1 ? x : x1;
        y1 = y < y1 ? y : y1;
        x2 = x + 1 > x2 ? x + 1 : x2;
        y2 = y + 1 > y2 ? y + 1 : y2;
    }
    assert_int_equal(m->area, area);
    assert_true(area == 0 || (m->x1 == (float)x1 && m->y1 == (float)y1 && m->x2 == (float)x2 &&
                              m->y2 == (float)y2));
}

static void check_masks(const scene *s, const struct example *e, fovea_segmenter *segmenter,
                        const fovea_output outs[OUTS])
{
    const size_t pixels = (size_t)s->width * s->height;
    uint8_t *inside = malloc(pixels);
    float *want = wanted(s, e, "masks", MASKS * pixels);
    for (uint32_t k = 0; k < MASKS; k++) {
        fovea_mask mask, alone;
        assert_int_equal(fovea_segmenter_mask(segmenter, outs, OUTS, k, &mask, inside, pixels),
                         FOVEA_OK);
        if (!agree(inside, want + k * pixels, pixels))
            fail_msg("%s: mask %u differs", e->name, k);
        check_mask(s, &mask, inside);
        assert_int_equal(mask.query, k);
        assert_true(mask.score == ((const float *)outs[1].data)[k]);
        assert_int_equal(fovea_segmenter_mask(segmenter, outs, OUTS, k, &alone, NULL, 0), FOVEA_OK);
        assert_int_equal(alone.area, mask.area);
    }
    free(want);
    free(inside);
}

static fovea_segmenter *segmenter_of(const scene *s, uint32_t points)
{
    fovea_segmenter_options o = FOVEA_SEGMENTER_OPTIONS_INIT;
    fovea_segmenter *segmenter;
    o.points = points;
    assert_int_equal(fovea_segmenter_create(&segmenter, s->plan, &o), FOVEA_OK);
    assert_int_equal(fovea_segmenter_begin(segmenter, s->features, s->n), FOVEA_OK);
    return segmenter;
}

/* Checks which mask is chosen: with alternatives, the best of them. */
static void check_choice(const scene *s, size_t example, const fovea_segmenter *segmenter,
                         const fovea_output outs[OUTS])
{
    const float *score = outs[1].data;
    fovea_tensor t;
    float want = 0;
    uint32_t index;
    if (fovea_tensors_find(s->file, "chosen", &t))
        assert_int_equal(fovea_tensors_read(&t, example, 1, &want), FOVEA_OK);
    assert_int_equal(fovea_segmenter_choose(segmenter, outs, OUTS, 0, &index), FOVEA_OK);
    assert_int_equal(index, (int)want);
    assert_int_equal(fovea_segmenter_choose(segmenter, outs, OUTS, 1, &index), FOVEA_OK);
    assert_true(index > 0 && index < MASKS);
    for (uint32_t i = 1; i < MASKS; i++)
        assert_true(score[index] >= score[i]);
}

static void check_model(const char *folder)
{
    scene s = open_scene(folder, 2);
    fovea_segmenter *segmenter = segmenter_of(&s, 0);
    fovea_output outs[OUTS];
    for (size_t i = 0; i < OUTS; i++)
        outs[i] = buffer(fovea_segmenter_plan(segmenter), i);
    for (size_t i = 0; i < EXAMPLES; i++) {
        const fovea_prompt prompt = prompt_of(&examples[i]);
        assert_int_equal(fovea_segmenter_run(segmenter, &prompt, outs, OUTS), FOVEA_OK);
        check_logits(&s, &examples[i], &outs[0]);
        check_scores(&s, &examples[i], &outs[1]);
        check_masks(&s, &examples[i], segmenter, outs);
        check_choice(&s, i, segmenter, outs);
    }
    for (size_t i = 0; i < OUTS; i++)
        free(outs[i].data);
    fovea_segmenter_free(segmenter);
    close_scene(&s);
}

static void masks_of_transformers(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MODEL_COUNT; i++)
        check_model(models[i]);
}

/* The bits do not depend on the largest prompt, on earlier prompts or on the number of threads. */
static void check_independence(const char *folder)
{
    static const uint32_t most[] = {POINTS, 40};
    scene one = open_scene(folder, 1), two = open_scene(folder, 2);
    fovea_segmenter *first = segmenter_of(&one, 8);
    fovea_output want[OUTS], got[OUTS];
    for (size_t i = 0; i < OUTS; i++) {
        want[i] = buffer(fovea_segmenter_plan(first), i);
        got[i] = buffer(fovea_segmenter_plan(first), i);
    }
    for (size_t k = 0; k < sizeof most / sizeof *most; k++) {
        fovea_segmenter *other = segmenter_of(&two, most[k]);
        for (size_t i = 0; i < EXAMPLES; i++) {
            const fovea_prompt a = prompt_of(&examples[i]);
            const fovea_prompt b = prompt_of(&examples[EXAMPLES - 1 - i]);
            assert_int_equal(fovea_segmenter_run(first, &a, want, OUTS), FOVEA_OK);
            assert_int_equal(fovea_segmenter_run(other, &b, got, OUTS), FOVEA_OK);
            assert_int_equal(fovea_segmenter_run(other, &a, got, OUTS), FOVEA_OK);
            for (size_t o = 0; o < OUTS; o++)
                assert_memory_equal(want[o].data, got[o].data, want[o].size);
        }
        fovea_segmenter_free(other);
    }
    for (size_t i = 0; i < OUTS; i++) {
        free(want[i].data);
        free(got[i].data);
    }
    fovea_segmenter_free(first);
    close_scene(&one);
    close_scene(&two);
}

static void independent_of_the_largest_prompt(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MODEL_COUNT; i++)
        check_independence(models[i]);
}

static void check_allocations(const char *folder)
{
    scene s = open_scene(folder, 2);
    fovea_segmenter *segmenter = segmenter_of(&s, 0);
    fovea_plan *plan = fovea_segmenter_plan(segmenter);
    const fovea_output outs[OUTS] = {buffer(plan, 0), buffer(plan, 1)};
    const size_t pixels = (size_t)s.width * s.height;
    uint8_t *inside = malloc(pixels);
    fovea_mask mask;
    for (int pass = 0; pass < 2; pass++) {
        const uint64_t before = heap_calls();
        for (size_t i = 0; i < EXAMPLES; i++) {
            const fovea_prompt prompt = prompt_of(&examples[i]);
            assert_int_equal(fovea_segmenter_begin(segmenter, s.features, s.n), FOVEA_OK);
            assert_int_equal(fovea_segmenter_run(segmenter, &prompt, outs, OUTS), FOVEA_OK);
            assert_int_equal(fovea_segmenter_mask(segmenter, outs, OUTS, 1, &mask, inside, pixels),
                             FOVEA_OK);
        }
        assert_true(pass == 0 || heap_calls() == before);
    }
    free(inside);
    free(outs[0].data);
    free(outs[1].data);
    fovea_segmenter_free(segmenter);
    close_scene(&s);
}

static void no_allocation(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < MODEL_COUNT; i++)
        check_allocations(models[i]);
}

static void refusals(void **unused)
{
    (void)unused;
    scene s = open_scene(models[0], 1);
    fovea_segmenter *segmenter = NULL;
    fovea_segmenter_options o = FOVEA_SEGMENTER_OPTIONS_INIT;
    o.points = 1025;
    assert_int_equal(fovea_segmenter_create(&segmenter, s.plan, &o), FOVEA_EINVAL);
    assert_null(segmenter);
    o.points = 1;
    assert_int_equal(fovea_segmenter_create(&segmenter, s.plan, &o), FOVEA_OK);
    const fovea_output outs[OUTS] = {buffer(fovea_segmenter_plan(segmenter), 0),
                                     buffer(fovea_segmenter_plan(segmenter), 1)};
    const fovea_output small[OUTS] = {{outs[0].data, outs[0].size - 1}, outs[1]};
    const fovea_output less = {s.features[0].data, s.features[0].size - 1};
    const fovea_prompt one = {examples[0].point, 1, NULL};
    assert_int_equal(fovea_segmenter_run(segmenter, &one, outs, OUTS), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_begin(segmenter, &less, 1), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_begin(segmenter, s.features, 2), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_begin(segmenter, s.features, s.n), FOVEA_OK);
    assert_int_equal(fovea_segmenter_run(segmenter, &one, small, OUTS), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_run(segmenter, &one, outs, 1), FOVEA_EINVAL);
    const fovea_prompt_point wrong[] = {{1, 1, 2}, {1, 1, -2}, {NAN, 1, 1}, {1, INFINITY, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const fovea_prompt p = {&wrong[i], 1, NULL};
        assert_int_equal(fovea_segmenter_run(segmenter, &p, outs, OUTS), FOVEA_EINVAL);
    }
    const fovea_box boxes[] = {{1, 1, 0, 5}, {1, 1, 5, -1}, {NAN, 1, 2, 2}, {1, 1, INFINITY, 2}};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        const fovea_prompt p = {NULL, 0, &boxes[i]};
        assert_int_equal(fovea_segmenter_run(segmenter, &p, outs, OUTS), FOVEA_EINVAL);
    }
    const fovea_prompt many = {examples[1].point, 2, NULL}, nowhere = {NULL, 1, NULL};
    assert_int_equal(fovea_segmenter_run(segmenter, &many, outs, OUTS), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_run(segmenter, &nowhere, outs, OUTS), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_run(segmenter, &one, outs, OUTS), FOVEA_OK);
    uint8_t pixel;
    uint32_t index;
    assert_int_equal(fovea_segmenter_choose(segmenter, outs, 1, 0, &index), FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_mask(segmenter, outs, OUTS, MASKS, NULL, NULL, 0),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_segmenter_mask(segmenter, outs, OUTS, 0, NULL, &pixel, 1), FOVEA_EINVAL);
    free(outs[0].data);
    free(outs[1].data);
    fovea_segmenter_free(segmenter);
    close_scene(&s);
}

/* Plans that lack what a segmenter needs are refused. */
static void other_plans(void **unused)
{
    (void)unused;
    static const char *const hidden[MODEL_COUNT] = {"hidden1", "image_embeddings"};
    fovea_device *device = fixture_device(1);
    fovea_model *plain = fixture_load(), *model;
    fovea_plan *plan = fixture_plan(plain, device, NULL, FOVEA_SCHEDULE_AUTO);
    fovea_segmenter *segmenter = NULL;
    assert_int_equal(fovea_segmenter_create(&segmenter, plan, NULL), FOVEA_ENOTSUP);
    assert_null(fovea_model_prompt_output(plain, 0));
    fovea_plan_free(plan);
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
        assert_int_equal(fovea_model_load(&model, models[i]), FOVEA_OK);
        assert_null(fovea_model_prompt_output(model, FEATURES));
        o.frame.width = o.frame.height = 64;
        o.outputs = &hidden[i];
        o.n_outputs = 1;
        assert_int_equal(fovea_plan_create(&plan, model, device, &o), FOVEA_OK);
        assert_int_equal(fovea_segmenter_create(&segmenter, plan, NULL), FOVEA_EINVAL);
        assert_null(segmenter);
        fovea_plan_free(plan);
        fovea_model_free(model);
    }
    fovea_model_free(plain);
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_transformers),
        cmocka_unit_test(independent_of_the_largest_prompt),
        cmocka_unit_test(no_allocation),
        cmocka_unit_test(refusals),
        cmocka_unit_test(other_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
