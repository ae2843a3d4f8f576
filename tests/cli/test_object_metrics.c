/* test_object_metrics.c: average precision and recall of boxes against small cases computed by
 * hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/common/object_metrics.h"

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12))
        fail_msg("%.17g, not %.17g", got, want);
}

/* Returns a square of `side` pixels at (x, 0). */
static object_truth object(uint32_t image, uint32_t category, double x, double side)
{
    return (object_truth){image, category, {x, 0, side, side}, side * side, false, NULL};
}

static object_found box(uint32_t image, uint32_t category, double x, double side, double score)
{
    return (object_found){image, category, {x, 0, side, side}, score, NULL};
}

static object_scores score(const object_truth *truth, size_t n, const object_found *found, size_t m)
{
    return object_score(truth, n, found, m);
}

#define SCORE(truth, found)                                                                        \
    score(truth, sizeof(truth) / sizeof *(truth), found, sizeof(found) / sizeof *(found))

static void exact(void **state)
{
    (void)state;
    const object_truth truth[] = {object(0, 3, 10, 100)};
    const object_found found[] = {box(0, 3, 10, 100, 0.5)};
    const object_scores s = SCORE(truth, found);
    near(s.ap, 1);
    near(s.ap50, 1);
    near(s.ap_large, 1);
    near(s.ap_small, -1); /* there are no small objects */
    near(s.ap_medium, -1);
    near(s.ar1, 1);
    near(s.ar_large, 1);
    near(s.ar_small, -1);
    near(score(truth, 1, NULL, 0).ap, 0);
    near(score(truth, 1, NULL, 0).ar100, 0);
    near(score(NULL, 0, found, 1).ap, -1);
}

/* Right, wrong, right: precision 1 up to recall 1/2, then 2/3. */
static void a_wrong_one_between(void **state)
{
    (void)state;
    const object_truth truth[] = {object(0, 0, 0, 100), object(1, 0, 0, 100)};
    const object_found found[] = {box(1, 0, 0, 100, 0.7), box(0, 0, 500, 100, 0.8),
                                  box(0, 0, 0, 100, 0.9)};
    near(SCORE(truth, found).ap, (51 + 50 * 2.0 / 3) / 101);
    near(SCORE(truth, found).ar1, 1); /* the wrong box ranks second in its picture */
    near(SCORE(truth, found).ar100, 1);
}

/* Intersection over union 0.62: correct at .50, .55 and .60. */
static void thresholds(void **state)
{
    (void)state;
    const double off = 100 * (1 - 0.62) / 1.62;
    const object_truth truth[] = {object(0, 0, 0, 100)};
    const object_found found[] = {box(0, 0, off, 100, 0.5)};
    const object_scores s = SCORE(truth, found);
    near(s.ap, 0.3);
    near(s.ap50, 1);
    near(s.ap75, 0);
    near(s.ar100, 0.3);
}

/* A second box for an object is wrong. It lowers precision if it comes before another correct box.
 */
static void twice(void **state)
{
    (void)state;
    const object_truth truth[] = {object(0, 0, 0, 100), object(0, 0, 300, 100)};
    const object_found last[] = {box(0, 0, 0, 100, 0.9), box(0, 0, 300, 100, 0.8),
                                 box(0, 0, 0, 100, 0.1)};
    const object_found between[] = {box(0, 0, 0, 100, 0.9), box(0, 0, 300, 100, 0.1),
                                    box(0, 0, 0, 100, 0.8)};
    near(SCORE(truth, last).ap, 1);
    near(SCORE(truth, between).ap, (51 + 50 * 2.0 / 3) / 101);
}

/* Boxes in a crowd are ignored, whatever their number. An object inside a crowd is matched first.
 */
static void crowds(void **state)
{
    (void)state;
    object_truth truth[] = {object(0, 0, 0, 400), object(0, 0, 100, 100)};
    truth[0].crowd = true;
    const object_found found[] = {box(0, 0, 200, 100, 0.95), box(0, 0, 290, 100, 0.9),
                                  box(0, 0, 100, 100, 0.5), box(0, 0, 1000, 100, 0.4)};
    const object_scores s = SCORE(truth, found);
    near(s.ap, 1);
    near(s.ar1, 0); /* the first box is ignored */
    near(s.ar10, 1);
}

static void numbers_of_boxes(void **state)
{
    (void)state;
    object_truth truth[120];
    object_found found[120];
    for (int i = 0; i < 120; i++) {
        truth[i] = object(0, 0, 200.0 * i, 100);
        found[i] = box(0, 0, 200.0 * i, 100, 1 - 0.001 * i);
    }
    const object_scores s = SCORE(truth, found);
    near(s.ar1, 1 / 120.0);
    near(s.ar10, 10 / 120.0);
    near(s.ar100, 100 / 120.0);
    near(s.ap, 84 / 101.0); /* recalls from 0 to .83 */
}

/* Boxes and objects of another size are ignored; a wrong box counts if it has the size. */
static void sizes(void **state)
{
    (void)state;
    const object_truth truth[] = {object(0, 0, 0, 20), object(0, 0, 100, 50),
                                  object(0, 0, 300, 200)};
    const object_found found[] = {box(0, 0, 800, 20, 0.9), box(0, 0, 0, 20, 0.8),
                                  box(0, 0, 300, 200, 0.7)};
    const object_scores s = SCORE(truth, found);
    near(s.ap_small, 0.5);
    near(s.ap_medium, 0);
    near(s.ap_large, 1);
    near(s.ar_small, 1);
    near(s.ar_medium, 0);
    near(s.ap, 67 * (2.0 / 3) / 101); /* precision 2/3 up to recall 2/3 */
}

/* The mean over categories that have objects. */
static void categories(void **state)
{
    (void)state;
    const object_truth truth[] = {object(0, 9, 0, 100), object(0, 2, 0, 100)};
    const object_found found[] = {box(0, 2, 0, 100, 0.9), box(0, 5, 0, 100, 0.9),
                                  box(0, 11, 0, 100, 0.9)};
    near(SCORE(truth, found).ap, 0.5);
    near(SCORE(truth, found).ar100, 0.5);
}

/* Masks of one picture are compared by pixels, although their boxes are equal. Intersection over
 * union 4/7: correct at .50 and .55. */
static void masks(void **state)
{
    (void)state;
    const uint8_t a[8] = {1, 0, 1, 1, 1, 1, 1, 0}, b[8] = {0, 1, 1, 1, 1, 1, 0, 0};
    run_lengths x = run_lengths_of_pixels(a, 4, 2), y = run_lengths_of_pixels(b, 4, 2);
    object_truth truth[] = {object(0, 0, 0, 4)};
    object_found found[] = {box(0, 0, 0, 4, 0.5)};
    truth[0].mask = &x;
    found[0].mask = &y;
    near(SCORE(truth, found).ap, 0.2);
    near(SCORE(truth, found).ap50, 1);
    truth[0].crowd = true;
    truth[0].mask = &y;
    found[0].mask = &x;
    near(SCORE(truth, found).ap, -1);
    run_lengths_free(&x);
    run_lengths_free(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact),      cmocka_unit_test(a_wrong_one_between),
        cmocka_unit_test(thresholds), cmocka_unit_test(twice),
        cmocka_unit_test(crowds),     cmocka_unit_test(numbers_of_boxes),
        cmocka_unit_test(sizes),      cmocka_unit_test(categories),
        cmocka_unit_test(masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
