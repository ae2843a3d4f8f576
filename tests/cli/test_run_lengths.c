/* test_run_lengths.c: masks as run lengths: polygons and packed text as pycocotools 2.0 makes them,
 * areas and common pixels compared with a count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/common/run_lengths.h"

enum { CORNERS = 12, POLYGONS = 2 };

typedef struct drawing {
    uint32_t width, height;
    size_t corners[POLYGONS];
    double xy[POLYGONS][2 * CORNERS];
    const char *packed;
    uint64_t area;
} drawing;

static const drawing drawings[] = {
    {20, 16, {4}, {{2, 2, 14, 2, 14, 10, 2, 10}}, "R188000000000000000000000n2", 96},
    {20, 16, {3}, {{2.5, 1.25, 17.75, 3.5, 9.1, 13.9}}, "a12>2O1N2N2N2N1ON3N1O1O1N2O1O^1", 90},
    {9, 7, {3}, {{-4, -3, 30, 2.2, 5, 40}}, "0o1", 63}, /* around the picture */
    {12,
     12,
     {4, 4},
     {{1, 1, 8, 1, 8, 8, 1, 8}, {5, 5, 11, 5, 11, 11, 5, 11}},
     "=750000003M0004L00007",
     76},
    {10, 10, {3}, {{3, 3, 3.1, 3, 3.1, 3.1}}, "T3", 0}, /* smaller than a pixel */
    {17, 5, {4}, {{0, 0, 17, 0, 17, 5, 0, 5}}, "0e2", 85},
    {8, 8, {5}, {{6.9, 7.9, 0.3, 7.4, 3.3, 0.6, 5.2, 5.8, 2.2, 6.1}}, "=243M00L31MO609", 17},
    {31, /* crosses itself and leaves the picture */
     23,
     {12},
     {{13.9, 28.4, 1.8, 28.3, 7.3, 11.0, 24.3, 10.5, 15.1, -2.1, 21.9, 14.8,
       7.9,  23.0, 7.0, 12.0, 1.4, 10.3, 3.7,  5.7,  21.8, 6.3,  13.0, 29.4}},
     "f13b0200GNM3O010L34L010O<0ILK44ML34ML33NM23NM22ON120M02MM1N24L18MI60I0N2;MH59OEM>15Oh4",
     168},
};

static void polygons(void **state)
{
    (void)state;
    for (const drawing *d = drawings; d < drawings + sizeof drawings / sizeof *drawings; d++) {
        run_lengths m = run_lengths_empty(d->width, d->height);
        for (size_t k = 0; k < POLYGONS && d->corners[k]; k++)
            run_lengths_add_polygon(&m, d->xy[k], d->corners[k]);
        char *text = run_lengths_pack(&m);
        assert_string_equal(text, d->packed);
        assert_int_equal(run_lengths_area(&m), d->area);
        free(text);
        run_lengths_free(&m);
    }
}

static bool read_text(run_lengths *out, const char *text, uint32_t width, uint32_t height)
{
    json_t *value = json_string(text);
    const bool read = run_lengths_read(out, value, width, height);
    json_decref(value);
    return read;
}

static void packed_text(void **state)
{
    (void)state;
    for (const drawing *d = drawings; d < drawings + sizeof drawings / sizeof *drawings; d++) {
        run_lengths m;
        assert_true(read_text(&m, d->packed, d->width, d->height));
        assert_int_equal(run_lengths_area(&m), d->area);
        char *text = run_lengths_pack(&m);
        assert_string_equal(text, d->packed);
        free(text);
        run_lengths_free(&m);
        assert_false(read_text(&m, d->packed, d->width + 1, d->height));
        assert_null(m.run);
    }
}

static void what_is_no_mask(void **state)
{
    (void)state;
    static const char *const text[] = {"", "o", "oooooooo1", "1\x7f", "/", "T3T3", "PPPPPPPPPPPP0"};
    run_lengths m;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        assert_false(read_text(&m, text[i], 10, 10));
    assert_false(run_lengths_read(&m, NULL, 10, 10));
}

/* Pixels in blocks, so that runs are of all lengths. */
static void fill(uint8_t *inside, uint32_t width, uint32_t height, uint32_t *seed)
{
    for (uint32_t i = 0, left = 0, value = 0; i < width * height; i++, left--) {
        if (left == 0) {
            *seed = *seed * 1664525 + 1013904223;
            left = 1 + (*seed >> 24) % (1 + (*seed >> 16) % 40);
            value = !value;
        }
        inside[i] = (uint8_t)value;
    }
}

static void common_pixels(void **state)
{
    (void)state;
    enum { WIDTH = 37, HEIGHT = 29, PIXELS = WIDTH * HEIGHT };
    uint8_t a[PIXELS], b[PIXELS];
    uint32_t seed = 7;
    for (int round = 0; round < 50; round++) {
        uint64_t both = 0, all = 0;
        fill(a, WIDTH, HEIGHT, &seed);
        fill(b, WIDTH, HEIGHT, &seed);
        if (round == 0)
            memset(b, 1, sizeof b);
        for (int i = 0; i < PIXELS; i++) {
            both += a[i] && b[i];
            all += a[i];
        }
        run_lengths x = run_lengths_of_pixels(a, WIDTH, HEIGHT),
                    y = run_lengths_of_pixels(b, WIDTH, HEIGHT);
        assert_int_equal(run_lengths_area(&x), all);
        assert_int_equal(run_lengths_shared(&x, &y), both);
        assert_int_equal(run_lengths_shared(&y, &x), both);
        assert_int_equal(run_lengths_shared(&x, &x), all);
        run_lengths_free(&x);
        run_lengths_free(&y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polygons),
        cmocka_unit_test(packed_text),
        cmocka_unit_test(what_is_no_mask),
        cmocka_unit_test(common_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
