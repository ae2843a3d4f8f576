/* test_boxes.c: compares anchors, decoding and suppression of boxes with plain definitions in
 * double precision, on random and on degenerate values: NaN, equal scores, boxes without area or
 * outside the picture. Also tests boxes of queries, which have neither anchors nor suppression. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/dense/decoder.h"
#include "models/model.h"
#include "run/boxes.h"

enum { WIDE = 7, HIGH = 5, CLASSES = 4, LEVELS = 2, ANCHORS = 3, QUERIES = 37, MOST = 4096 };
#define PICTURE_WIDTH 56.f
#define PICTURE_HEIGHT 40.f

static uint32_t state;

static double uniform(void) /* in [0, 1) */
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / 0x1p24;
}

/* ---- definitions ---- */

typedef struct box {
    double at[4], score;
    uint32_t level, place, label;
} box;

static int by_score(const void *one, const void *other)
{
    const box *a = one, *b = other;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->label < b->label ? -1 : 1;
}

static double overlap(const box *a, const box *b)
{
    const double w = fmin(a->at[2], b->at[2]) - fmax(a->at[0], b->at[0]);
    const double h = fmin(a->at[3], b->at[3]) - fmax(a->at[1], b->at[1]);
    if (w <= 0 || h <= 0)
        return 0;
    const double area_a = (a->at[2] - a->at[0]) * (a->at[3] - a->at[1]);
    const double area_b = (b->at[2] - b->at[0]) * (b->at[3] - b->at[1]);
    return w * h / (area_a + area_b - w * h);
}

static bool decode(box *b, const fv_detection *d, const float number[4])
{
    const double most = -log(16. / 1000), end[2] = {(double)PICTURE_WIDTH, (double)PICTURE_HEIGHT};
    const float *anchor = d->anchor[b->level][b->place % d->anchors];
    const uint32_t cell = b->place / d->anchors;
    for (int i = 0; i < 2; i++) {
        const double from = (i ? cell / WIDE : cell % WIDE) * (double)d->stride[b->level];
        const double side = (double)anchor[i + 2] - (double)anchor[i];
        const double move = (double)number[i] * (double)d->std[i] + (double)d->mean[i];
        double grow = (double)number[i + 2] * (double)d->std[i + 2] + (double)d->mean[i + 2];
        grow = grow > most ? most : grow < -most ? -most : grow;
        const double middle = from + (double)anchor[i] + side / 2 + side * move;
        for (int k = 0; k < 2; k++) {
            double x = middle + (k ? 0.5 : -0.5) * side * exp(grow);
            if (d->clip)
                x = x < 0 ? 0 : x > end[i] ? end[i] : x;
            b->at[i + 2 * k] = x;
            if (!isfinite(x))
                return false;
        }
    }
    return d->min_size < 0 ||
           (b->at[2] - b->at[0] > (double)d->min_size && b->at[3] - b->at[1] > (double)d->min_size);
}

static size_t define(box *out, const fv_detection *d, const fv_box_level *level)
{
    static box all[MOST], best[MOST];
    size_t n = 0, kept = 0;
    for (uint32_t l = 0; l < d->levels; l++) {
        size_t own = 0;
        for (uint32_t i = 0; i < WIDE * HIGH * d->anchors * d->classes; i++) {
            const double score = (double)(float)(1 / (1 + exp(-(double)level[l].cls[i])));
            if (score > (double)d->score_thr) /* not NaN */
                best[own++] = (box){
                    .score = score, .level = l, .place = i / d->classes, .label = i % d->classes};
        }
        qsort(best, own, sizeof *best, by_score);
        for (size_t i = 0; i < own && i < d->nms_pre; i++)
            if (decode(&best[i], d, level[l].box + 4ull * best[i].place))
                all[n++] = best[i];
    }
    qsort(all, n, sizeof *all, by_score);
    for (size_t i = 0; i < n && kept < d->max_per_img; i++) {
        bool covered = false;
        for (size_t k = 0; k < kept; k++)
            covered |= out[k].label == all[i].label &&
                       overlap(&out[k], &all[i]) > (double)d->iou_threshold;
        if (!covered)
            out[kept++] = all[i];
    }
    return kept;
}

static size_t define_of_queries(box *out, const fv_detection *d, const fv_box_level *level)
{
    static box all[QUERIES * CLASSES];
    const double end[2] = {(double)PICTURE_WIDTH, (double)PICTURE_HEIGHT};
    size_t n = 0, kept = 0;
    for (uint32_t i = 0; i < QUERIES * CLASSES; i++) {
        const double score = (double)(float)(1 / (1 + exp(-(double)level->cls[i])));
        if (score > (double)d->score_thr)
            all[n++] = (box){.score = score, .place = i / CLASSES, .label = i % CLASSES};
    }
    qsort(all, n, sizeof *all, by_score);
    for (size_t i = 0; i < n && i < QUERIES; i++) {
        const float *number = level->box + 4ull * all[i].place;
        bool good = true;
        for (int k = 0; k < 2; k++) {
            const double middle = (double)number[k], side = (double)number[k + 2];
            all[i].at[k] = (middle - side / 2) * end[k];
            all[i].at[k + 2] = (middle + side / 2) * end[k];
            good = good && isfinite(middle) && isfinite(side) && side >= 0;
        }
        if (good)
            out[kept++] = all[i];
    }
    return kept;
}

/* ---- cases ---- */

static fv_detection rules(void)
{
    fv_detection d = {.levels = LEVELS,
                      .anchors = ANCHORS,
                      .classes = CLASSES,
                      .stride = {8, 16},
                      .std = {1, 1, 1, 1},
                      .clip = true,
                      .nms_pre = 50,
                      .score_thr = 0.2f,
                      .iou_threshold = 0.5f,
                      .min_size = -1,
                      .max_per_img = 25};
    for (uint32_t l = 0; l < LEVELS; l++)
        for (uint32_t a = 0; a < ANCHORS; a++)
            for (int i = 0; i < 4; i++)
                d.anchor[l][a][i] =
                    (i < 2 ? -1.f : 1.f) * (4.f + 2.f * (float)a + (float)(i % 2)) * (float)(l + 1);
    return d;
}

/* Fills in x with values of `kind`: 0 random, 1 some of them extreme or NaN, 2 many equal ones, 3
 * all zero. */
static void fill(float *x, size_t n, int kind, double spread)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, 1e30f, -1e30f, 17.5f, 1e-30f};
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(spread * (2 * uniform() - 1));
        if (kind == 1 && uniform() < 0.3)
            x[i] = odd[(size_t)(uniform() * 8)];
        if (kind == 2)
            x[i] = (float)floor(2 * uniform()); /* equal ones */
        if (kind == 3)
            x[i] = 0;
    }
}

static void check(const fv_detection *d, const fv_box_level *level, const box *want, size_t n)
{
    static fovea_detection got[MOST];
    fv_box_candidate *scratch = malloc(fv_detection_scratch(d) * sizeof(uint32_t));
    assert_non_null(scratch);
    const size_t found = fv_boxes_find(d, level, PICTURE_WIDTH, PICTURE_HEIGHT, scratch, got, MOST);
    assert_int_equal(found, n);
    for (size_t i = 0; i < n; i++) {
        const double at[4] = {(double)got[i].x1, (double)got[i].y1, (double)got[i].x2,
                              (double)got[i].y2};
        assert_int_equal(got[i].label, want[i].label);
        assert_true((double)got[i].score == want[i].score);
        for (int k = 0; k < 4; k++)
            assert_true(fabs(at[k] - want[i].at[k]) <= 1e-5 * (100 + fabs(want[i].at[k])));
    }
    /* A buffer that is too small receives the first boxes, and nothing is written after it. */
    got[1].label = 77;
    assert_int_equal(fv_boxes_find(d, level, PICTURE_WIDTH, PICTURE_HEIGHT, scratch, got, 1), n);
    assert_int_equal(got[1].label, 77);
    free(scratch);
}

static void compare(const fv_detection *d, int logits, int numbers)
{
    enum { CELLS = WIDE * HIGH * ANCHORS };
    static float cls[LEVELS][CELLS * CLASSES], number[LEVELS][CELLS * 4];
    static box want[MOST];
    fv_box_level level[LEVELS];
    for (int l = 0; l < LEVELS; l++) {
        fill(cls[l], CELLS * CLASSES, logits, 3);
        fill(number[l], CELLS * 4, numbers, 1.5);
        level[l] = (fv_box_level){cls[l], number[l], WIDE, HIGH};
    }
    check(d, level, want, define(want, d, level));
}

/* Compares the boxes; returns their number. */
static size_t compare_queries(const fv_detection *d, int logits, int numbers)
{
    static float cls[QUERIES * CLASSES], number[QUERIES * 4];
    static box want[QUERIES];
    const fv_box_level level = {cls, number, QUERIES, 1};
    fill(cls, QUERIES * CLASSES, logits, 3);
    fill(number, QUERIES * 4, numbers, 1);
    const size_t n = define_of_queries(want, d, &level);
    check(d, &level, want, n);
    return n;
}

static fv_detection rules_of_queries(void)
{
    return (fv_detection){.levels = 1,
                          .anchors = 1,
                          .classes = CLASSES,
                          .of_queries = true,
                          .nms_pre = QUERIES,
                          .min_size = -1,
                          .max_per_img = QUERIES};
}

static void test_random(void **unused)
{
    (void)unused;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        fv_detection d = rules();
        state = seed;
        d.nms_pre = 1 + (uint32_t)(uniform() * 200);
        d.max_per_img = 1 + (uint32_t)(uniform() * 60);
        d.score_thr = (float)uniform();
        d.iou_threshold = (float)uniform();
        d.min_size = seed % 3 ? -1 : (float)(8 * uniform());
        for (int i = 0; i < 4; i++) {
            d.std[i] = (float)(0.2 + uniform());
            d.mean[i] = (float)(0.2 * uniform());
        }
        compare(&d, 0, 0);
    }
}

static void test_degenerate(void **unused)
{
    (void)unused;
    for (int logits = 0; logits < 4; logits++)
        for (int numbers = 0; numbers < 4; numbers++)
            for (int clip = 0; clip < 2; clip++) {
                fv_detection d = rules();
                state = 7;
                d.clip = clip != 0;
                compare(&d, logits, numbers);
                d.score_thr = 0;
                d.min_size = 0;
                compare(&d, logits, numbers);
                d.score_thr = 1;
                compare(&d, logits, numbers);
            }
}

/* There are as many boxes as queries. A query may have several classes; covered boxes and boxes
 * that extend beyond the picture stay. */
static void test_queries(void **unused)
{
    (void)unused;
    size_t most = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        fv_detection d = rules_of_queries();
        state = seed;
        d.score_thr = seed % 2 ? 0 : (float)uniform();
        const size_t n = compare_queries(&d, 0, 0);
        most = n > most ? n : most;
    }
    assert_true(most > 0 && most < QUERIES); /* some boxes have a negative side length */
    for (int logits = 0; logits < 4; logits++)
        for (int numbers = 0; numbers < 4; numbers++) {
            fv_detection d = rules_of_queries();
            state = 7;
            const size_t n = compare_queries(&d, logits, numbers);
            if (logits > 1 && numbers > 1) /* all boxes are equal, even without area */
                assert_int_equal(n, QUERIES);
            d.score_thr = 1;
            assert_int_equal(compare_queries(&d, logits, numbers), 0);
        }
}

/* With equal scores, boxes of queries are sorted by query, then by class. */
static void test_order(void **unused)
{
    (void)unused;
    const fv_detection d = rules_of_queries();
    static const float cls[QUERIES * CLASSES];
    static float number[QUERIES * 4];
    static fovea_detection got[QUERIES];
    const fv_box_level level = {cls, number, QUERIES, 1};
    fv_box_candidate scratch[QUERIES];
    for (int i = 0; i < QUERIES; i++)
        number[4 * i] = (float)i / QUERIES;
    assert_int_equal(fv_boxes_find(&d, &level, QUERIES, 1, scratch, got, QUERIES), QUERIES);
    for (uint32_t i = 0; i < QUERIES; i++) {
        assert_int_equal(got[i].label, i % CLASSES);
        assert_int_equal(lroundf(got[i].x1), i / CLASSES);
    }
}

/* Boxes without area are handled, and boxes outside the picture are clipped to zero size at its
 * border. */
static void test_empty(void **unused)
{
    (void)unused;
    const float empty[4] = {3, 4, 3, 9}, point[4] = {5, 5, 5, 5}, whole[4] = {0, 0, 9, 9};
    assert_true(fv_boxes_overlap(empty, empty) == 0);
    assert_true(fv_boxes_overlap(point, point) == 0);
    assert_true(fv_boxes_overlap(empty, whole) == 0);
    assert_true(fv_boxes_overlap(whole, whole) == 1);
    fv_detection d = rules();
    float at[4];
    const float away[4] = {1000, 0, 0, 0};
    assert_true(fv_boxes_decode(at, &d, 0, WIDE, 0, away, PICTURE_WIDTH, PICTURE_HEIGHT));
    assert_true(at[0] == PICTURE_WIDTH && at[2] == PICTURE_WIDTH);
    d.min_size = 0;
    assert_false(fv_boxes_decode(at, &d, 0, WIDE, 0, away, PICTURE_WIDTH, PICTURE_HEIGHT));
}

/* Anchors of the published model: three scales of an octave, three ratios, strides from 8 to 128.
 */
static void test_anchors(void **unused)
{
    (void)unused;
    fovea_model *m;
    assert_int_equal(fovea_model_load(&m, "synthetic:mavit-t-retinanet"), FOVEA_OK);
    const fv_detection *d = &m->decoder->detection;
    assert_int_equal(d->levels, 5);
    assert_int_equal(d->anchors, 9);
    for (uint32_t l = 0; l < d->levels; l++)
        for (uint32_t a = 0; a < d->anchors; a++) {
            const double ratio = pow(2, (double)(a / 3) - 1), size = 4 * pow(2, (a % 3) / 3.);
            const double w = (8 << l) * size / sqrt(ratio), h = (8 << l) * size * sqrt(ratio);
            const double want[4] = {-w / 2, -h / 2, w / 2, h / 2};
            for (int i = 0; i < 4; i++)
                assert_true(fabs((double)d->anchor[l][a][i] - want[i]) <= 1e-6 * fabs(want[i]));
        }
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    assert_int_equal(fovea_model_describe(m, &info), FOVEA_OK);
    assert_int_equal(info.boxes, 100);
    fovea_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),  cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_queries), cmocka_unit_test(test_order),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_anchors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
