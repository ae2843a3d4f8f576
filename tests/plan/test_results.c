/* test_results.c: compares the results made from outputs (depth, classes, masks and key points)
 * with plain definitions in double precision, on smooth outputs and on degenerate ones. */
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

#include <fovea/results.h>

#include "tests/fixture.h"
#include "tests/plan/heap_calls.h"

#define MODELS TEST_DATA "/golden/models/"

/* A plan of a model, and buffers for its outputs. */
typedef struct subject {
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_plan_info info;
    uint32_t width, height; /* of frames */
    size_t n;
    fovea_output_info output[4];
    fovea_output out[4];
} subject;

/* Opens a subject with frames of width x height, which are resized until the short side is `edge`
 * and then cropped to the centre. With edge 0 they are not resized. `names` ends with NULL. */
static void open_subject(subject *s, const char *path, const char *const *names, uint32_t width,
                         uint32_t height, uint32_t edge)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    *s = (subject){.device = fixture_device(1), .width = width, .height = height};
    assert_int_equal(fovea_model_load(&s->model, path), FOVEA_OK);
    fovea_model_preprocess(s->model, &rule);
    rule.resize = FOVEA_RESIZE_SHORT;
    rule.short_edge = edge;
    rule.crop_width = rule.crop_height = edge;
    rule.patch = rule.most_patches = 0;
    options.preprocess = edge ? &rule : NULL;
    options.frame.width = width;
    options.frame.height = height;
    options.outputs = names;
    for (; names[s->n]; s->n++)
        ;
    options.n_outputs = s->n;
    options.dry = 1; /* no frame is run */
    assert_int_equal(fovea_plan_create(&s->plan, s->model, s->device, &options), FOVEA_OK);
    s->info = (fovea_plan_info)FOVEA_PLAN_INFO_INIT;
    fovea_plan_query(s->plan, &s->info);
    for (size_t i = 0; i < s->n; i++) {
        s->output[i] = (fovea_output_info)FOVEA_OUTPUT_INFO_INIT;
        assert_true(fovea_plan_output(s->plan, i, &s->output[i]));
        s->out[i].size = (size_t)s->output[i].rows * s->output[i].columns * sizeof(float);
        s->out[i].data = calloc(1, s->out[i].size);
    }
}

static void close_subject(subject *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->out[i].data);
    fovea_plan_free(s->plan);
    fovea_model_free(s->model);
    fovea_device_close(s->device);
}

static float *data_of(const subject *s, size_t i)
{
    return s->out[i].data;
}

static uint32_t state = 1;

static float uniform(void) /* in [-1, 1) */
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 0x1p23f - 1;
}

static void fill(const subject *s, size_t i, float scale)
{
    for (size_t k = 0; k < s->out[i].size / sizeof(float); k++)
        data_of(s, i)[k] = scale * uniform();
}

/* ---- definitions ---- */

/* Returns whether pixel (x, y) of the frame is in the picture; sets `at` to its position as a
 * fraction of the area that patches cover. */
static bool place(const subject *s, uint32_t x, uint32_t y, double at[2])
{
    const fovea_plan_info *i = &s->info;
    const double u = (x + 0.5 - i->left) / i->scale_x, v = (y + 0.5 - i->top) / i->scale_y;
    at[0] = u / (i->width - i->ignored_right);
    at[1] = v / (i->height - i->ignored_bottom);
    return u >= 0 && v >= 0 && u < i->width && v < i->height;
}

/* Returns column c of an output at a grid position; positions outside are clamped to the edge. */
static double at_place(const subject *s, size_t output, double x, double y, uint32_t c)
{
    const fovea_output_info *o = &s->output[output];
    const size_t column = (size_t)fmin(fmax(x, 0), o->grid_width - 1.0);
    const size_t row = (size_t)fmin(fmax(y, 0), o->grid_height - 1.0);
    return (double)data_of(s, output)[(row * o->grid_width + column) * o->columns + c];
}

/* The cubic of Keys with a = -0.75. */
static double cubic(double x)
{
    const double a = -0.75, d = fabs(x);
    return d < 1   ? (a + 2) * d * d * d - (a + 3) * d * d + 1
           : d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a
                   : 0;
}

/* Interpolates an output of one column bicubically, from the sixteen nearest grid positions. */
static double sample_cubic(const subject *s, size_t output, const double at[2])
{
    const fovea_output_info *o = &s->output[output];
    const double x = at[0] * o->grid_width - 0.5, y = at[1] * o->grid_height - 0.5;
    double sum = 0;
    for (double j = floor(y) - 1; j <= floor(y) + 2; j++)
        for (double i = floor(x) - 1; i <= floor(x) + 2; i++)
            sum += cubic(x - i) * cubic(y - j) * at_place(s, output, i, j, 0);
    return sum;
}

/* Interpolates column c bilinearly from four positions; `from` and `most` are the first and last
 * position along each side. */
static double blend(double value(const subject *, size_t, double, double, uint32_t),
                    const subject *s, size_t output, const double place[2], const double from[2],
                    const double most[2], uint32_t c)
{
    const double x = fmin(fmax(place[0], from[0]), most[0]);
    const double y = fmin(fmax(place[1], from[1]), most[1]);
    const double x0 = floor(x), y0 = floor(y), right = fmin(x0 + 1, most[0]);
    const double below = fmin(y0 + 1, most[1]), u = x - x0, v = y - y0;
    return (1 - v) * ((1 - u) * value(s, output, x0, y0, c) + u * value(s, output, right, y0, c)) +
           v * ((1 - u) * value(s, output, x0, below, c) + u * value(s, output, right, below, c));
}

/* Returns a mask's value at a pixel of the picture that is run. */
static double in_picture(const subject *s, size_t output, double x, double y, uint32_t c)
{
    const fovea_output_info *o = &s->output[output];
    const double place[2] = {
        (x + 0.5) / (s->info.width - s->info.ignored_right) * o->grid_width - 0.5,
        (y + 0.5) / (s->info.height - s->info.ignored_bottom) * o->grid_height - 0.5};
    return blend(at_place, s, output, place, (const double[]){0, 0},
                 (const double[]){o->grid_width - 1.0, o->grid_height - 1.0}, c);
}

/* Samples `value`, a function of the picture's pixels, at a position given as a fraction of the
 * area that patches cover. */
static double sample_of(double value(const subject *, size_t, double, double, uint32_t),
                        const subject *s, size_t output, const double at[2], uint32_t c)
{
    const fovea_plan_info *i = &s->info;
    const double place[2] = {at[0] * (i->width - i->ignored_right) - 0.5,
                             at[1] * (i->height - i->ignored_bottom) - 0.5};
    return blend(value, s, output, place, (const double[]){0, 0},
                 (const double[]){i->width - 1.0, i->height - 1.0}, c);
}

static double sample(const subject *s, size_t output, const double at[2], uint32_t c)
{
    return sample_of(in_picture, s, output, at, c);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Returns the softmax over a query's classes, including "no object", for one class. */
static double share(const subject *s, size_t output, uint32_t query, uint32_t class)
{
    const uint32_t n = s->output[output].columns;
    const float *logit = data_of(s, output) + (size_t)query * n;
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += exp((double)logit[k] - (double)logit[class]);
    return 1 / sum;
}

/* Returns the score of a class at a pixel of the picture, summed over all masks. */
static double score_in_picture(const subject *s, size_t output, double x, double y, uint32_t class)
{
    double sum = 0;
    for (uint32_t q = 0; q < s->output[1].rows; q++)
        sum += sigmoid(in_picture(s, output, x, y, q)) * share(s, 1, q, class);
    return sum;
}

/* ---- depth ---- */

static const char *const depth_names[] = {"predicted_depth", NULL};

static void depth_case(uint32_t width, uint32_t height, uint32_t edge)
{
    subject s;
    size_t outside = 0;
    open_subject(&s, "synthetic:depth-anything-s", depth_names, width, height, edge);
    const size_t pixels = (size_t)width * height;
    float *depth = malloc(pixels * sizeof *depth);
    uint16_t *steps = malloc(pixels * sizeof *steps);
    fill(&s, 0, 5);
    assert_int_equal(s.output[0].kind, FOVEA_OUTPUT_DEPTH);
    assert_int_equal(fovea_depth_map(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, depth, pixels), 0);
    assert_int_equal(fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, 1e-3, steps, pixels),
                     0);
    for (size_t i = 0; i < pixels; i++) {
        double at[2];
        if (!place(&s, (uint32_t)(i % width), (uint32_t)(i / width), at)) {
            assert_true(isnan(depth[i]) && steps[i] == 0);
            outside++;
            continue;
        }
        const double want = sample_cubic(&s, 0, at);
        assert_true(fabs(depth[i] - want) < 1e-4);
        assert_true(fabs(fmin(fmax(want * 1000, 1), 65535) - steps[i]) < 0.7);
    }
    assert_true(edge == 0 ? outside == 0 : outside > pixels / 10);
    /* A stretched map reaches both ends of the range. */
    uint16_t least = UINT16_MAX, greatest = 0;
    assert_int_equal(fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, 0, steps, pixels),
                     0);
    for (size_t i = 0; i < pixels; i++)
        if (steps[i]) {
            least = steps[i] < least ? steps[i] : least;
            greatest = steps[i] > greatest ? steps[i] : greatest;
        }
    assert_int_equal(least, 1);
    assert_int_equal(greatest, UINT16_MAX);
    /* The picture alone contains no pixels outside. */
    const size_t seen = (size_t)s.info.width * s.info.height;
    float *picture = malloc(seen * sizeof *picture);
    assert_int_equal(fovea_depth_map(s.plan, s.out, 1, FOVEA_EXTENT_PICTURE, picture, seen), 0);
    for (size_t i = 0; i < seen; i++)
        assert_true(isfinite(picture[i]));
    free(picture);
    free(steps);
    free(depth);
    close_subject(&s);
}

static void depth_lies_in_the_frame(void **unused)
{
    (void)unused;
    depth_case(61, 47, 0);
    depth_case(90, 60, 42);
    depth_case(57, 131, 28);
}

static void depth_of_no_numbers(void **unused)
{
    (void)unused;
    subject s;
    uint16_t steps[28 * 28];
    open_subject(&s, "synthetic:depth-anything-s", depth_names, 28, 28, 0);
    const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f};
    for (int k = 0; k < 5; k++) {
        for (size_t i = 0; i < s.output[0].rows; i++)
            data_of(&s, 0)[i] = odd[k];
        for (double unit = 0; unit < 1; unit += 0.5)
            assert_int_equal(
                fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, unit, steps, 28 * 28), 0);
        if (k == 0)
            assert_int_equal(steps[17], 0);
    }
    for (size_t i = 0; i < s.output[0].rows; i++) /* all values equal */
        data_of(&s, 0)[i] = 2;
    assert_int_equal(fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, 0, steps, 28 * 28),
                     0);
    assert_int_equal(steps[0], 1);
    assert_int_equal(fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, -1, steps, 28 * 28),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, NAN, steps, 28 * 28),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_depth_map_u16(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, 0, steps, 28 * 27),
                     FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "784"));
    uint16_t class;
    assert_int_equal(fovea_class_map(s.plan, s.out, 1, FOVEA_EXTENT_FRAME, &class, 1 << 20),
                     FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "seg_logits"));
    close_subject(&s);
}

/* ---- masks ---- */

static const char *const mask_names[] = {"masks_queries_logits", "class_queries_logits", NULL};

/* Fills in queries, some of which are sure of a class and some of "no object". */
static void fill_masks(const subject *s)
{
    const uint32_t classes = s->output[1].columns;
    fill(s, 0, 3);
    fill(s, 1, 1);
    for (uint32_t q = 0; q < s->output[1].rows; q++)
        data_of(s, 1)[q * classes + (q % 4 == 3 ? classes - 1 : q % (classes - 1))] += 6;
}

static void classes_by_masks(void **unused)
{
    (void)unused;
    subject s;
    open_subject(&s, MODELS "eomt-masked-01", mask_names, 90, 64, 48);
    fill_masks(&s);
    assert_int_equal(s.output[0].kind, FOVEA_OUTPUT_MASKS);
    assert_int_equal(s.output[1].kind, FOVEA_OUTPUT_MASK_CLASSES);
    static uint16_t class[90 * 64];
    const uint32_t n = s.output[1].columns - 1;
    assert_int_equal(fovea_class_map(s.plan, s.out, 2, FOVEA_EXTENT_FRAME, class, 90 * 64), 0);
    for (uint32_t i = 0; i < 90 * 64; i++) {
        double at[2], best = -1, chosen = -1;
        if (!place(&s, i % 90, i / 90, at)) {
            assert_int_equal(class[i], FOVEA_NO_CLASS);
            continue;
        }
        assert_true(class[i] < n);
        for (uint32_t k = 0; k < n; k++) {
            const double score = sample_of(score_in_picture, &s, 0, at, k);
            best = fmax(best, score);
            chosen = k == class[i] ? score : chosen;
        }
        assert_true(chosen >= best - 1e-5); /* one of several classes with the same score */
    }
    close_subject(&s);
}

/* Computes the pixels of each query separately, by brute force. */
static void instances(void **unused)
{
    (void)unused;
    enum { WIDE = 75, HIGH = 50, PIXELS = WIDE * HIGH, MOST = 32 };
    subject s;
    fovea_mask found[MOST];
    static uint16_t map[PIXELS], want[PIXELS];
    static uint8_t inside[PIXELS];
    size_t count, next = 0;
    open_subject(&s, MODELS "eomt-masked-01", mask_names, WIDE, HIGH, 48);
    fill_masks(&s);
    fovea_mask_options o = FOVEA_MASK_OPTIONS_INIT;
    o.rule = FOVEA_MASKS_INSTANCE;
    o.threshold = 0.6f;
    assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, MOST, &count, map, PIXELS), 0);
    assert_true(count > 1);
    memset(want, 0, sizeof want);
    for (uint32_t q = 0; q < s.output[1].rows; q++) {
        double sum = 0, area = 0, best = 0;
        for (uint32_t k = 0; k + 1 < s.output[1].columns; k++)
            best = fmax(best, share(&s, 1, q, k));
        assert_int_equal(fovea_mask_pixels(s.plan, s.out, 2, q, inside, PIXELS), 0);
        for (uint32_t i = 0; i < PIXELS; i++) {
            double at[2];
            const double logit = place(&s, i % WIDE, i / WIDE, at) ? sample(&s, 0, at, q) : -1;
            if (fabs(logit) > 1e-4)
                assert_int_equal(inside[i], logit > 0);
            sum += inside[i] ? sigmoid(logit) : 0;
            area += inside[i];
        }
        const double score = best * sum / (area + 1e-6);
        if (fabs(score - 0.6) < 1e-5 || score < 0.6 || area == 0)
            continue;
        assert_true(next < count);
        assert_int_equal(found[next].query, q);
        assert_true(fabs(found[next].score - score) < 1e-5);
        assert_true(fabs(share(&s, 1, q, found[next].label) - best) < 1e-9);
        assert_int_equal(found[next].area, (uint64_t)area);
        next++;
        for (uint32_t i = 0; i < PIXELS; i++) {
            want[i] = inside[i] ? (uint16_t)next : want[i];
            if (inside[i])
                assert_true(i % WIDE >= found[next - 1].x1 && i % WIDE < found[next - 1].x2 &&
                            i / WIDE >= found[next - 1].y1 && i / WIDE < found[next - 1].y2);
        }
    }
    assert_int_equal(next, count);
    assert_memory_equal(map, want, sizeof map);
    /* With a smaller buffer for records, and without a map. */
    size_t few;
    assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, 1, &few, map, PIXELS), 0);
    assert_int_equal(few, 1);
    for (int i = 0; i < PIXELS; i++)
        assert_true(map[i] <= 1);
    assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, MOST, &few, NULL, 0), 0);
    assert_int_equal(few, count);
    close_subject(&s);
}

static void panoptic(void **unused)
{
    (void)unused;
    enum { WIDE = 64, HIGH = 64, PIXELS = WIDE * HIGH, MOST = 32 };
    subject s;
    fovea_mask found[MOST];
    static uint16_t map[PIXELS];
    size_t count, with_stuff;
    open_subject(&s, MODELS "eomt-masked-01", mask_names, WIDE, HIGH, 48);
    fill_masks(&s);
    fovea_mask_options o = FOVEA_MASK_OPTIONS_INIT;
    o.threshold = 0.5f;
    o.overlap_threshold = 0.3f;
    assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, MOST, &count, map, PIXELS), 0);
    assert_true(count > 1);
    const uint32_t queries = s.output[1].rows, nothing = s.output[1].columns - 1;
    uint64_t area[MOST] = {0};
    for (uint32_t i = 0; i < PIXELS; i++) {
        double at[2], best = -1, inside = 0, mine = -1;
        assert_true(map[i] <= count);
        area[map[i]]++;
        if (!map[i])
            continue;
        place(&s, i % WIDE, i / WIDE, at);
        for (uint32_t q = 0; q < queries; q++) {
            double top = 0;
            for (uint32_t k = 0; k < nothing; k++)
                top = fmax(top, share(&s, 1, q, k));
            if (top < share(&s, 1, q, nothing) || top <= 0.5)
                continue;
            const double p = sigmoid(sample(&s, 0, at, q));
            best = fmax(best, top * p);
            if (found[map[i] - 1].query == q) {
                mine = top * p;
                inside = p;
            }
        }
        assert_true(mine >= best - 1e-5 && inside >= 0.5 - 1e-5);
    }
    for (size_t k = 0; k < count; k++)
        assert_int_equal(area[k + 1], found[k].area);
    /* All masks of a "stuff" class are merged. */
    uint32_t all[64];
    for (uint32_t k = 0; k < 64; k++)
        all[k] = k;
    o.stuff = all;
    o.n_stuff = 64;
    assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, MOST, &with_stuff, map, PIXELS), 0);
    assert_true(with_stuff > 0 && with_stuff <= count);
    for (size_t k = 1; k < with_stuff; k++)
        for (size_t j = 0; j < k; j++)
            assert_int_not_equal(found[k].label, found[j].label);
    close_subject(&s);
}

static void masks_of_no_numbers(void **unused)
{
    (void)unused;
    subject s;
    fovea_mask found[4];
    static uint16_t map[64 * 64];
    size_t count = 7;
    open_subject(&s, MODELS "eomt-masked-01", mask_names, 64, 64, 0);
    const float odd[] = {NAN, INFINITY, -INFINITY, 0};
    for (int k = 0; k < 16; k++)
        for (int rule = 0; rule < 2; rule++) {
            fovea_mask_options o = FOVEA_MASK_OPTIONS_INIT;
            o.rule = (fovea_mask_rule)rule;
            for (size_t i = 0; i < s.out[0].size / 4; i++)
                data_of(&s, 0)[i] = odd[k % 4];
            for (size_t i = 0; i < s.out[1].size / 4; i++)
                data_of(&s, 1)[i] = odd[k / 4];
            assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, 4, &count, map, 64 * 64), 0);
            assert_int_equal(count, 0); /* no class is above the threshold */
            assert_int_equal(fovea_class_map(s.plan, s.out, 2, FOVEA_EXTENT_FRAME, map, 64 * 64),
                             0);
        }
    fovea_mask_options o = FOVEA_MASK_OPTIONS_INIT;
    o.threshold = 2;
    assert_int_equal(fovea_masks(s.plan, s.out, 2, &o, found, 4, &count, map, 64 * 64),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_masks(s.plan, s.out, 2, NULL, found, 4, &count, map, 64 * 63),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_masks(s.plan, s.out, 1, NULL, found, 4, &count, NULL, 0), FOVEA_EINVAL);
    assert_int_equal(fovea_mask_pixels(s.plan, s.out, 2, 1 << 20, (uint8_t *)map, 64 * 64),
                     FOVEA_EINVAL);
    close_subject(&s);
    const char *const half[] = {"masks_queries_logits", NULL};
    open_subject(&s, MODELS "eomt-masked-01", half, 64, 64, 0);
    assert_int_equal(fovea_masks(s.plan, s.out, 1, NULL, found, 4, &count, NULL, 0), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "class_queries_logits"));
    close_subject(&s);
}

/* ---- masks of a detector ---- */

static const char *const box_mask_names[] = {"logits", "pred_boxes", "pred_masks", NULL};

/* Returns a mask's value at a position, interpolated directly from its grid. */
static double sample_grid(const subject *s, size_t output, const double at[2], uint32_t c)
{
    const fovea_output_info *o = &s->output[output];
    const double place[2] = {at[0] * o->grid_width - 0.5, at[1] * o->grid_height - 0.5};
    return blend(at_place, s, output, place, (const double[]){0, 0},
                 (const double[]){o->grid_width - 1.0, o->grid_height - 1.0}, c);
}

/* Sets *pair to the number of the pair of a query and a class with the next lower logit. Returns
 * false if its score is at most the threshold. */
static bool next_pair(const subject *s, double threshold, uint32_t *pair, float *below)
{
    const uint32_t n = s->output[0].rows * s->output[0].columns;
    float best = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (data_of(s, 0)[i] < *below && data_of(s, 0)[i] > best) {
            best = data_of(s, 0)[i];
            *pair = i;
        }
    *below = best;
    return sigmoid((double)best) > threshold;
}

/* Compares the masks of boxes, by one rule, with masks by their definition. */
static void look_at_masks_of_boxes(const subject *s, fovea_mask_rule rule, float threshold)
{
    enum { MOST = 32 };
    const uint32_t wide = s->width, pixels = s->width * s->height;
    uint16_t *map = malloc(pixels * sizeof *map), *want = calloc(pixels, sizeof *want);
    uint8_t *inside = malloc(pixels);
    fovea_mask found[MOST];
    size_t count, next = 0;
    uint32_t pair = 0;
    float below = INFINITY;
    fovea_mask_options o = FOVEA_MASK_OPTIONS_INIT;
    o.rule = rule;
    o.threshold = threshold;
    assert_int_equal(fovea_masks(s->plan, s->out, 3, &o, found, MOST, &count, map, pixels), 0);
    assert_true(count > 1);
    for (uint32_t k = 0; k < s->output[0].rows &&
                         next_pair(s, threshold > 0 ? (double)threshold : 0.5, &pair, &below);
         k++) {
        const uint32_t query = pair / s->output[0].columns;
        uint64_t area = 0;
        assert_int_equal(fovea_mask_pixels(s->plan, s->out, 3, query, inside, pixels), 0);
        for (uint32_t i = 0; i < pixels; i++) {
            double at[2];
            const bool seen = place(s, i % wide, i / wide, at);
            const double logit = seen ? sample_grid(s, 2, at, query) : -1;
            if (fabs(logit) > 1e-4)
                assert_int_equal(inside[i], logit > 0);
            const bool own = inside[i] && (rule == FOVEA_MASKS_INSTANCE || !want[i]);
            area += own;
            if (own && !want[i])
                want[i] = (uint16_t)(next + 1);
        }
        if (area == 0)
            continue;
        assert_true(next < count);
        assert_int_equal(found[next].query, query);
        assert_int_equal(found[next].label, pair % s->output[0].columns);
        assert_true(fabs(found[next].score - sigmoid((double)below)) < 1e-6);
        assert_int_equal(found[next].area, area);
        next++;
    }
    assert_int_equal(next, count);
    assert_memory_equal(map, want, pixels * sizeof *map);
    free(inside);
    free(want);
    free(map);
}

static void fill_boxes(const subject *s)
{
    fill(s, 0, 2);
    fill(s, 2, 3);
    for (uint32_t i = 0; i < 4 * s->output[1].rows; i++)
        data_of(s, 1)[i] = 0.5f + 0.3f * uniform();
}

static void masks_of_boxes(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t width, height, edge;
    } frames[] = {{75, 50, 56}, {40, 90, 28}, {28, 42, 0}};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        subject s;
        open_subject(&s, MODELS "rf-detr-seg-01", box_mask_names, frames[i].width, frames[i].height,
                     frames[i].edge);
        fill_boxes(&s);
        look_at_masks_of_boxes(&s, FOVEA_MASKS_INSTANCE, 0.3f);
        look_at_masks_of_boxes(&s, FOVEA_MASKS_PANOPTIC, 0.3f);
        look_at_masks_of_boxes(&s, FOVEA_MASKS_INSTANCE, 0);
        close_subject(&s);
    }
}

/* Queries without a valid box, and masks that are not numbers, give no masks. Outputs that are
 * missing are named. */
static void masks_of_bad_boxes(void **unused)
{
    (void)unused;
    subject s;
    fovea_mask found[4];
    static uint16_t map[56 * 56];
    size_t count = 7;
    open_subject(&s, MODELS "rf-detr-seg-01", box_mask_names, 56, 56, 0);
    for (int k = 0; k < 3; k++) {
        fill_boxes(&s);
        for (size_t i = 0; i < s.out[k].size / 4; i++)
            data_of(&s, (size_t)k)[i] = NAN;
        assert_int_equal(fovea_masks(s.plan, s.out, 3, NULL, found, 4, &count, map, 56 * 56), 0);
        assert_int_equal(count, 0);
        assert_int_equal(fovea_detections(s.plan, s.out, 3, NULL, 0, &count), 0);
    }
    assert_int_equal(fovea_class_map(s.plan, s.out, 3, FOVEA_EXTENT_FRAME, map, 56 * 56),
                     FOVEA_EINVAL);
    close_subject(&s);
    const char *const boxes[] = {"logits", "pred_boxes", NULL};
    open_subject(&s, MODELS "rf-detr-seg-01", boxes, 56, 56, 0);
    assert_int_equal(fovea_masks(s.plan, s.out, 2, NULL, found, 4, &count, NULL, 0), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "pred_masks"));
    close_subject(&s);
    const char *const masks[] = {"pred_masks", NULL};
    open_subject(&s, MODELS "rf-detr-seg-01", masks, 56, 56, 0);
    assert_int_equal(fovea_masks(s.plan, s.out, 1, NULL, found, 4, &count, NULL, 0), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "logits and pred_boxes"));
    close_subject(&s);
}

/* Runs go down the columns and begin outside. They are counted if the buffer is too small. */
static void runs_of_masks(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t width, height;
        const char *inside; /* rows from the top */
        size_t runs;
        uint32_t run[10];
    } masks[] = {{3, 2, "......", 1, {6}},
                 {3, 2, "######", 2, {0, 6}},
                 {3, 2, ".##..#", 4, {2, 1, 1, 2}},
                 {4, 3, "#..#.##..#.#", 10, {0, 1, 3, 2, 1, 1, 1, 1, 1, 1}},
                 {0, 5, "", 1, {0}}};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const uint32_t width = masks[i].width, height = masks[i].height;
        uint8_t inside[12] = {0};
        uint32_t run[11], sum = 0;
        size_t count = 0, all = 0;
        for (uint32_t k = 0; k < sizeof inside && masks[i].inside[k]; k++)
            inside[k] = masks[i].inside[k] == '#' ? (uint8_t)(1 + 100 * k) : 0;
        assert_int_equal(fovea_mask_runs(inside, width, height, NULL, 0, &all), 0);
        assert_int_equal(all, masks[i].runs);
        memset(run, 0xee, sizeof run);
        assert_int_equal(fovea_mask_runs(inside, width, height, run, all, &count), 0);
        assert_int_equal(count, all);
        assert_int_equal(run[all], 0xeeeeeeee);
        for (size_t k = 0; k < all; k++)
            sum += run[k];
        assert_int_equal(sum, width * height);
        assert_memory_equal(run, masks[i].run, all * sizeof *run);
        assert_int_equal(fovea_mask_runs(inside, width, height, run, all - 1, &count),
                         FOVEA_EINVAL);
        assert_int_equal(count, all);
    }
    size_t count;
    assert_int_equal(fovea_mask_runs((const uint8_t *)"", 65536, 65536, NULL, 0, &count),
                     FOVEA_EINVAL);
    assert_int_equal(fovea_mask_runs(NULL, 1, 1, NULL, 0, &count), FOVEA_EINVAL);
    assert_int_equal(fovea_mask_runs((const uint8_t *)"", 1, 1, NULL, 0, NULL), FOVEA_EINVAL);
}

/* ---- masks of regions ---- */

static const char *const region_names[] = {"pred_scores", "pred_boxes", "pred_masks", NULL};

/* Draws boxes, of which a few have no area or are beyond the picture, and their masks. */
static void fill_regions(const subject *s)
{
    for (uint32_t i = 0; i < s->output[2].rows; i++)
        data_of(s, 2)[i] = 0.5f + 0.5f * uniform();
    for (uint32_t i = 0; i < s->output[0].rows; i++) {
        float *score = data_of(s, 0) + 2 * i, *edge = data_of(s, 1) + 4 * i;
        score[0] = 1 - 0.05f * (float)i;
        score[1] = (float)(i % 3);
        edge[0] = 25 + 35 * uniform();
        edge[1] = 20 + 30 * uniform();
        edge[2] = edge[0] + (i % 5 == 4 ? 0 : 25 + 15 * uniform());
        edge[3] = edge[1] + 25 + 15 * uniform();
    }
}

/* Each mask has the pixels of its box's probabilities; as the masks of a panoptic rule, those that
 * no better mask has. */
static void look_at_regions(const subject *s, fovea_mask_rule rule)
{
    enum { MOST = 12 };
    const uint32_t pixels = s->width * s->height;
    fovea_mask_options o = FOVEA_MASK_OPTIONS_INIT;
    fovea_mask found[MOST];
    uint16_t *map = calloc(pixels, sizeof *map);
    uint8_t *inside = calloc(pixels, 1), *taken = calloc(pixels, 1);
    size_t count = 0, last = 0;
    assert_true(map && inside && taken);
    o.rule = rule;
    o.threshold = 0.5f;
    assert_int_equal(fovea_masks(s->plan, s->out, 3, &o, found, MOST, &count, map, pixels), 0);
    assert_in_range(count, 3, 4); /* the last of five has no area */
    for (size_t k = 0; k < count; k++) {
        const uint32_t q = found[k].query;
        uint64_t area = 0;
        assert_true(k == 0 || q > last);
        last = q;
        assert_true(found[k].score > 0.5f && found[k].label == q % 3 && q % 5 != 4);
        assert_int_equal(fovea_mask_pixels(s->plan, s->out, 3, q, inside, pixels), 0);
        for (uint32_t i = 0; i < pixels; i++) {
            const bool mine = inside[i] && !(rule == FOVEA_MASKS_PANOPTIC && taken[i]);
            taken[i] |= inside[i];
            area += mine;
            if (mine)
                assert_in_range(map[i], 1, k + 1); /* the best mask is on top */
            if (map[i] == k + 1)
                assert_true(inside[i]);
        }
        assert_int_equal(area, found[k].area);
    }
    assert_int_equal(fovea_mask_pixels(s->plan, s->out, 3, s->output[0].rows, inside, pixels),
                     FOVEA_EINVAL);
    free(map);
    free(inside);
    free(taken);
}

static void masks_of_regions(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t width, height, edge;
    } frames[] = {{75, 50, 64}, {40, 90, 32}, {80, 64, 0}};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        subject s;
        open_subject(&s, MODELS "mavit-mask-rcnn-01", region_names, frames[i].width,
                     frames[i].height, frames[i].edge);
        fill_regions(&s);
        look_at_regions(&s, FOVEA_MASKS_INSTANCE);
        look_at_regions(&s, FOVEA_MASKS_PANOPTIC);
        close_subject(&s);
    }
}

/* Numbers that are not finite, huge or tiny boxes, and classes that do not exist give no masks. */
static void masks_of_bad_regions(void **unused)
{
    (void)unused;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f};
    subject s;
    fovea_mask found[12];
    static uint16_t map[80 * 64];
    static uint8_t inside[80 * 64];
    size_t count = 7;
    open_subject(&s, MODELS "mavit-mask-rcnn-01", region_names, 80, 64, 0);
    for (int k = 0; k < 2; k++)
        for (size_t b = 0; b < 3; b++) {
            fill_regions(&s);
            for (size_t i = 0; i < s.out[k].size / 4; i++)
                data_of(&s, (size_t)k)[i] = bad[b];
            assert_int_equal(fovea_masks(s.plan, s.out, 3, NULL, found, 12, &count, map, 80 * 64),
                             0);
            assert_int_equal(count, 0);
            assert_int_equal(fovea_detections(s.plan, s.out, 3, NULL, 0, &count), 0);
        }
    for (size_t i = 0; i < 400; i++) {
        fill_regions(&s);
        for (uint32_t row = 0; row < s.output[0].rows; row++) {
            data_of(&s, 0)[2 * row + 1] = i % 7 == 0 ? bad[i % 5] : (float)(i % 4);
            data_of(&s, 1)[4 * row + i % 4] = bad[(i + row) % 5] * (i % 3 ? 1 : 1e-32f);
        }
        for (size_t n = 0; i % 2 && n < s.out[2].size / 4; n += 3)
            data_of(&s, 2)[n] = bad[i % 5];
        assert_int_equal(fovea_masks(s.plan, s.out, 3, NULL, found, 12, &count, map, 80 * 64), 0);
        assert_int_equal(
            fovea_mask_pixels(s.plan, s.out, 3, (uint32_t)(i % s.output[0].rows), inside, 80 * 64),
            0);
    }
    close_subject(&s);
    const char *const masks[] = {"pred_masks", NULL};
    open_subject(&s, MODELS "mavit-mask-rcnn-01", masks, 80, 64, 0);
    assert_int_equal(fovea_masks(s.plan, s.out, 1, NULL, found, 4, &count, NULL, 0), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "pred_boxes"));
    close_subject(&s);
}

/* ---- key points ---- */

static const char *const heat_names[] = {"heatmaps", NULL};

/* The peak of a Gaussian is found between grid positions: its logarithm is a paraboloid, also after
 * blurring. */
static void points_between_places(void **unused)
{
    (void)unused;
    subject s;
    fovea_keypoint points[64];
    size_t count;
    open_subject(&s, "synthetic:vitpose-s", heat_names, 150, 110, 0);
    const fovea_output_info *o = &s.output[0];
    assert_int_equal(o->kind, FOVEA_OUTPUT_KEYPOINTS);
    const double across = (double)s.info.width / (o->grid_width - 1);
    const double down = (double)s.info.height / (o->grid_height - 1);
    double top[64][2];
    for (uint32_t k = 0; k < o->columns; k++) {
        top[k][0] = 4 + (0.5 + 0.5 * (double)uniform()) * (o->grid_width - 9);
        top[k][1] = 4 + (0.5 + 0.5 * (double)uniform()) * (o->grid_height - 9);
        for (uint32_t i = 0; i < o->rows; i++) {
            const double x = i % o->grid_width - top[k][0], y = i / o->grid_width - top[k][1];
            data_of(&s, 0)[(size_t)i * o->columns + k] =
                (float)exp(-(x * x + y * y + 0.8 * x * y) / 8);
        }
    }
    assert_int_equal(fovea_keypoints(s.plan, s.out, 1, points, 64, &count), 0);
    assert_int_equal(count, o->columns);
    for (uint32_t k = 0; k < count; k++) {
        assert_true(fabs(points[k].x - top[k][0] * across) < 0.02 * across);
        assert_true(fabs(points[k].y - top[k][1] * down) < 0.02 * down);
        assert_true(points[k].score > 0.8f && points[k].score <= 1);
    }
    assert_int_equal(fovea_keypoints(s.plan, s.out, 1, points, count - 1, &count), FOVEA_EINVAL);
    /* Peaks at the edges, on a grid of one position, and maps without a peak give finite points
     * inside the picture. */
    const float odd[] = {NAN, INFINITY, -INFINITY, 0, -1, 1};
    for (int c = 0; c < 6; c++) {
        for (size_t i = 0; i < s.out[0].size / 4; i++)
            data_of(&s, 0)[i] = odd[c];
        data_of(&s, 0)[o->columns * (o->rows - 1)] = c == 3 ? 1 : odd[c]; /* the last corner */
        assert_int_equal(fovea_keypoints(s.plan, s.out, 1, points, 64, &count), 0);
        for (uint32_t k = 0; k < count; k++)
            assert_true(isfinite(points[k].x) && isfinite(points[k].y));
        if (c == 0)
            assert_true(points[0].score == 0);
        if (c == 3)
            assert_true(fabs(points[0].x - s.info.width) < across);
    }
    close_subject(&s);
}

/* ---- common properties ---- */

static void nothing_is_allocated(void **unused)
{
    (void)unused;
    subject mask, boxed, regions, depth, heat;
    static uint16_t map[64 * 64];
    fovea_mask found[4];
    fovea_keypoint points[64];
    size_t count;
    open_subject(&mask, MODELS "eomt-masked-01", mask_names, 64, 64, 0);
    open_subject(&boxed, MODELS "rf-detr-seg-01", box_mask_names, 56, 56, 0);
    open_subject(&regions, MODELS "mavit-mask-rcnn-01", region_names, 64, 64, 0);
    open_subject(&depth, "synthetic:depth-anything-s", depth_names, 64, 64, 0);
    open_subject(&heat, "synthetic:vitpose-s", heat_names, 64, 64, 0);
    fill_regions(&regions);
    fill_masks(&mask);
    fill_boxes(&boxed);
    const uint64_t before = heap_calls();
    int status = fovea_masks(mask.plan, mask.out, 2, NULL, found, 4, &count, map, 64 * 64);
    status |= fovea_masks(boxed.plan, boxed.out, 3, NULL, found, 4, &count, map, 64 * 64);
    status |= fovea_masks(regions.plan, regions.out, 3, NULL, found, 4, &count, map, 64 * 64);
    status |= fovea_class_map(mask.plan, mask.out, 2, FOVEA_EXTENT_FRAME, map, 64 * 64);
    status |= fovea_depth_map_u16(depth.plan, depth.out, 1, FOVEA_EXTENT_FRAME, 0, map, 64 * 64);
    status |= fovea_keypoints(heat.plan, heat.out, 1, points, 64, &count);
    const uint64_t calls = heap_calls() - before;
    assert_int_equal(status, 0);
    assert_int_equal(calls, 0);
    close_subject(&heat);
    close_subject(&depth);
    close_subject(&regions);
    close_subject(&boxed);
    close_subject(&mask);
}

/* A query's box that covers the middle quarter of the picture has its corners in frame pixels. The
 * frame is shrunk by 1.5 and loses 192 pixels at each side. */
static void boxes_lie_in_the_frame(void **unused)
{
    (void)unused;
    subject s;
    static const char *const names[] = {"logits", "pred_boxes", NULL};
    static const float middle[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    static const double want[] = {192 + 0.25 * 768, 0.25 * 768, 192 + 0.75 * 768, 0.75 * 768};
    fovea_detection box[2];
    size_t count;
    open_subject(&s, "synthetic:rf-detr-n", names, 1152, 768, 512);
    assert_int_equal(s.info.width, 512);
    for (size_t i = 0; i < (size_t)s.output[0].rows * s.output[0].columns; i++)
        data_of(&s, 0)[i] = -20;
    data_of(&s, 0)[3 * s.output[0].columns + 7] = 5;
    memcpy(data_of(&s, 1) + 3 * s.output[1].columns, middle, sizeof middle);
    assert_int_equal(fovea_detections(s.plan, s.out, 2, box, 1, &count), FOVEA_OK);
    assert_int_equal(count, 1);
    assert_int_equal(box[0].label, 7);
    const double at[] = {(double)box[0].x1, (double)box[0].y1, (double)box[0].x2,
                         (double)box[0].y2};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(at[i] - want[i]) < 1e-3);
    close_subject(&s);
}

static void kinds_and_layouts_of_outputs(void **unused)
{
    (void)unused;
    static const struct {
        const char *model, *output;
        fovea_output_kind kind;
        fovea_output_layout layout;
    } cases[] = {
        {"synthetic:dinov2-s", "last_hidden_state", FOVEA_OUTPUT_FEATURES,
         FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:dinov2-s", "pooler_output", FOVEA_OUTPUT_FEATURES, FOVEA_OUTPUT_LAYOUT_VECTOR},
        {"synthetic:mavit-t", "logits", FOVEA_OUTPUT_LOGITS, FOVEA_OUTPUT_LAYOUT_VECTOR},
        {"synthetic:mavit-t", "stage1", FOVEA_OUTPUT_FEATURES, FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:mavit-t", "pooled", FOVEA_OUTPUT_FEATURES, FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:nalaformer-xt", "patch_embed", FOVEA_OUTPUT_FEATURES,
         FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:mavit-t-fpn", "seg_logits", FOVEA_OUTPUT_CLASS_MAP, FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:mavit-t-upernet", "seg_logits", FOVEA_OUTPUT_CLASS_MAP,
         FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:mavit-t-retinanet", "cls.1", FOVEA_OUTPUT_BOX_CLASSES,
         FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:mavit-t-retinanet", "box.0", FOVEA_OUTPUT_BOXES, FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:rf-detr-n", "pred_boxes", FOVEA_OUTPUT_BOXES, FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:rf-detr-n", "logits", FOVEA_OUTPUT_BOX_CLASSES, FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:rf-detr-seg-n", "pred_masks", FOVEA_OUTPUT_MASKS, FOVEA_OUTPUT_LAYOUT_PLANES},
        {MODELS "mavit-mask-rcnn-01", "pred_scores", FOVEA_OUTPUT_BOX_CLASSES,
         FOVEA_OUTPUT_LAYOUT_ROWS},
        {MODELS "mavit-mask-rcnn-01", "pred_boxes", FOVEA_OUTPUT_BOXES, FOVEA_OUTPUT_LAYOUT_ROWS},
        {MODELS "mavit-mask-rcnn-01", "pred_masks", FOVEA_OUTPUT_MASKS, FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:pola-pvt-t", "logits", FOVEA_OUTPUT_LOGITS, FOVEA_OUTPUT_LAYOUT_VECTOR},
        {"synthetic:pola-pvt-t", "stage1", FOVEA_OUTPUT_FEATURES, FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:sam-b16", "last_hidden_state", FOVEA_OUTPUT_FEATURES,
         FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:sam-b16", "hidden1", FOVEA_OUTPUT_FEATURES, FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:depth-anything-s", "hidden1", FOVEA_OUTPUT_FEATURES, FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:depth-anything-s", "predicted_depth", FOVEA_OUTPUT_DEPTH,
         FOVEA_OUTPUT_LAYOUT_MAP},
        {"synthetic:dpt-dinov2-s", "predicted_depth", FOVEA_OUTPUT_DEPTH, FOVEA_OUTPUT_LAYOUT_MAP},
        {"synthetic:eomt-s", "masks_queries_logits", FOVEA_OUTPUT_MASKS,
         FOVEA_OUTPUT_LAYOUT_PLANES},
        {"synthetic:eomt-s", "class_queries_logits", FOVEA_OUTPUT_MASK_CLASSES,
         FOVEA_OUTPUT_LAYOUT_ROWS},
        {"synthetic:vitpose-s", "heatmaps", FOVEA_OUTPUT_KEYPOINTS, FOVEA_OUTPUT_LAYOUT_PLANES},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        subject s;
        const char *const names[] = {cases[i].output, NULL};
        open_subject(&s, cases[i].model, names, 512, 512, 0);
        assert_int_equal(s.output[0].kind, cases[i].kind);
        assert_int_equal(s.output[0].layout, cases[i].layout);
        close_subject(&s);
    }
}

static void names_of_points(void **unused)
{
    (void)unused;
    fovea_model *model;
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    assert_int_equal(fovea_model_load(&model, "synthetic:vitpose-s"), FOVEA_OK);
    fovea_model_describe(model, &info);
    assert_int_equal(info.keypoints, 17);
    assert_string_equal(fovea_model_keypoint(model, 0), "nose");
    assert_string_equal(fovea_model_keypoint(model, 16), "right ankle");
    assert_null(fovea_model_keypoint(model, 17));
    fovea_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_lies_in_the_frame),
        cmocka_unit_test(depth_of_no_numbers),
        cmocka_unit_test(classes_by_masks),
        cmocka_unit_test(instances),
        cmocka_unit_test(panoptic),
        cmocka_unit_test(masks_of_no_numbers),
        cmocka_unit_test(masks_of_boxes),
        cmocka_unit_test(masks_of_bad_boxes),
        cmocka_unit_test(runs_of_masks),
        cmocka_unit_test(masks_of_regions),
        cmocka_unit_test(masks_of_bad_regions),
        cmocka_unit_test(points_between_places),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(boxes_lie_in_the_frame),
        cmocka_unit_test(kinds_and_layouts_of_outputs),
        cmocka_unit_test(names_of_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
