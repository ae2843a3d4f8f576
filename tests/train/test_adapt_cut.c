/* test_adapt_cut.c: tests the order of pictures in training and their crops: permutations,
 * reproducibility by seed, and masks that stay aligned with their pixels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/adapt/adapt_data.h"

enum { WIDTH = 23, HEIGHT = 31, SIDE = 12, CUTS = 200 };

/* ---- replacements for other files of the program ---- */

int cli_fail(int code, const char *format, ...)
{
    (void)format;
    return code;
}

int cli_check(fovea_status status)
{
    return status ? CLI_INPUT : CLI_OK;
}

void *cli_alloc(size_t count, size_t size)
{
    void *p = calloc(count, size);
    assert_non_null(p);
    return p;
}

/* ---- pictures ---- */

/* Red encodes the mask's class and the depth, green the column, blue the row. */
typedef struct scene {
    uint8_t rgb[3 * WIDTH * HEIGHT], mask[WIDTH * HEIGHT];
    float depth[WIDTH * HEIGHT];
    dataset_picture picture;
} scene;

static void draw(scene *s)
{
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        s->mask[i] = (uint8_t)(i * 7 % 251);
        s->rgb[3 * i] = s->mask[i];
        s->depth[i] = (float)s->mask[i] + 0.5f;
        s->rgb[3 * i + 1] = (uint8_t)(i % WIDTH);
        s->rgb[3 * i + 2] = (uint8_t)(i / WIDTH);
    }
    s->picture =
        (dataset_picture){.width = WIDTH, .height = HEIGHT, .rgb = s->rgb, .mask = s->mask};
}

/* ---- tests ---- */

/* Every n samples are a permutation of the n pictures, different in each epoch. */
static void permutations(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 5, 16, 17, 64, 100, 1000};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const size_t n = sizes[k];
        uint8_t *seen = cli_alloc(n, 3);
        size_t same = 0;
        for (uint64_t i = 0; i < 3 * n; i++) {
            const size_t at = adapt_pick(5, n, i);
            assert_in_range(at, 0, n - 1);
            assert_int_equal(seen[i / n * n + at]++, 0);
            same += at == adapt_pick(5, n, i % n);
            assert_int_equal(at, adapt_pick(5, n, i));
        }
        if (n >= 100)
            assert_in_range(same, n, n + n / 10);
        free(seen);
    }
    const size_t many = (size_t)1 << 5 * sizeof many; /* 2^40 with 64-bit addresses */
    assert_in_range(adapt_pick(1, many, 12345), 0, many - 1);
}

/* Without resizing, each pixel keeps its class. */
static void windows(void **state)
{
    (void)state;
    scene s;
    uint8_t rgb[3 * SIDE * SIDE], again[3 * SIDE * SIDE], mask[SIDE * SIDE];
    float depth[SIDE * SIDE];
    bool left = false, right = false, top = false, bottom = false, corner = false;
    draw(&s);
    s.picture.depth = s.depth;
    /* All of the width fits SIDE exactly 23/12 times; this share gives SIDE pixels. */
    const adapt_policy p = {.seed = 3,
                            .width = SIDE,
                            .height = SIDE,
                            .crop = ADAPT_RANDOM,
                            .least = (double)SIDE / WIDTH,
                            .most = (double)SIDE / WIDTH,
                            .flip = 0.5};
    size_t turned = 0;
    for (uint64_t i = 0; i < CUTS; i++) {
        assert_int_equal(adapt_cut(&(adapt_pixels){rgb, mask, depth}, &p, &s.picture, i, ""),
                         CLI_OK);
        for (size_t k = 0; k < SIDE * SIDE; k++) {
            assert_int_equal(rgb[3 * k], mask[k]);
            assert_true(depth[k] == (float)mask[k] + 0.5f);
        }
        const int step = rgb[3 + 1] - rgb[1];
        assert_true(step == 1 || step == -1);
        turned += step < 0;
        const uint8_t x = step > 0 ? rgb[1] : rgb[3 * (SIDE - 1) + 1], y = rgb[2];
        left = left || x == 0;
        right = right || x == WIDTH - SIDE;
        top = top || y == 0;
        bottom = bottom || y == HEIGHT - SIDE;
        corner = corner || (x < WIDTH / 8 && y > HEIGHT / 2);
        assert_in_range(x, 0, WIDTH - SIDE);
        assert_in_range(y, 0, HEIGHT - SIDE);
        adapt_cut(&(adapt_pixels){again, mask, depth}, &p, &s.picture, i, "");
        assert_memory_equal(rgb, again, sizeof rgb);
    }
    assert_true(left && right && top && bottom && corner);
    assert_in_range(turned, CUTS / 3, CUTS * 2 / 3);
}

/* Resized masks contain the class of the pixel below. */
static void masks(void **state)
{
    (void)state;
    scene s;
    uint8_t rgb[3 * SIDE * 2 * SIDE], mask[SIDE * 2 * SIDE];
    draw(&s);
    const adapt_policy p = {.width = SIDE, .height = 2 * SIDE, .crop = ADAPT_CENTRE};
    for (size_t i = 0; i < WIDTH * HEIGHT; i++)
        s.mask[i] = (uint8_t)((i % WIDTH >= WIDTH / 2) + 2 * (i / WIDTH >= 12));
    assert_int_equal(adapt_cut(&(adapt_pixels){rgb, mask, NULL}, &p, &s.picture, 0, ""), CLI_OK);
    /* The crop has all 31 rows and 16 of 23 columns, from column 4 on. */
    for (size_t i = 0; i < SIDE * 2 * SIDE; i++) {
        const double x = floor((i % SIDE + 0.5) * 16 / SIDE) + 4;
        const double y = floor((i / SIDE + 0.5) * HEIGHT / (2 * SIDE));
        assert_int_equal(mask[i], (x >= WIDTH / 2) + 2 * (y >= 12));
    }
}

static void colours(void **state)
{
    (void)state;
    scene s;
    uint8_t plain[3 * WIDTH * HEIGHT], rgb[3 * WIDTH * HEIGHT], mask[WIDTH * HEIGHT];
    adapt_policy p = {.width = WIDTH, .height = HEIGHT, .crop = ADAPT_NONE};
    draw(&s);
    assert_int_equal(adapt_cut(&(adapt_pixels){plain, mask, NULL}, &p, &s.picture, 1, ""), CLI_OK);
    assert_memory_equal(plain, s.rgb, sizeof plain);
    assert_memory_equal(mask, s.mask, sizeof mask);
    p.jitter = 0.4;
    assert_int_equal(adapt_cut(&(adapt_pixels){rgb, mask, NULL}, &p, &s.picture, 1, ""), CLI_OK);
    assert_memory_not_equal(rgb, plain, sizeof rgb);
    /* A uniformly grey picture only changes its brightness, by a factor below 1.4. */
    memset(s.rgb, 100, sizeof s.rgb);
    uint8_t low = 255, high = 0;
    for (uint64_t i = 0; i < CUTS; i++) {
        adapt_cut(&(adapt_pixels){rgb, mask, NULL}, &p, &s.picture, i, "");
        for (size_t k = 1; k < sizeof rgb; k++)
            assert_int_equal(rgb[k], rgb[0]);
        low = rgb[0] < low ? rgb[0] : low;
        high = rgb[0] > high ? rgb[0] : high;
    }
    assert_in_range(low, 60, 65);
    assert_in_range(high, 135, 140);
    p.width = WIDTH + 1;
    assert_int_equal(adapt_cut(&(adapt_pixels){rgb, mask, NULL}, &p, &s.picture, 1, ""), CLI_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(permutations), cmocka_unit_test(windows),
                                       cmocka_unit_test(masks), cmocka_unit_test(colours)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
