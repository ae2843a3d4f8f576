/* test_eval_depth.c: compares errors of depths, alignment, and a model's output against a depth
 * picture of another size with values computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#ifdef CLI_PNG
#include <png.h>
#endif

#include "cli/eval/eval.h"

/* Replacements for functions of main.c. */
void cli_tell(const char *format, ...)
{
    (void)format;
}

int cli_fail(int code, const char *format, ...)
{
    (void)format;
    return code;
}

int cli_check(fovea_status status)
{
    return (int)status;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%.17g, not %.17g", got, want);
}

static void errors(void **state)
{
    (void)state;
    const double truth[] = {1, 2, 4, 8}, found[] = {1, 3, 3, 9.5};
    const depth_errors e = depth_compare(found, truth, 4);
    near(e.abs_rel, (0 + 0.5 + 0.25 + 1.5 / 8) / 4);
    near(e.rmse, sqrt((0 + 1 + 1 + 2.25) / 4));
    near(e.delta1, 0.5); /* 3 / 2 and 4 / 3 exceed 1.25 */
    const double edge[] = {1.25, 0.8, 1.2499, -1}, one[] = {1, 1, 1, 1};
    near(depth_compare(edge, one, 4).delta1,
         0.25); /* delta1 requires less than 1.25; predictions are at least 0 */
    near(depth_compare(truth, truth, 4).delta1, 1);
    near(depth_compare(truth, truth, 4).abs_rel, 0);
}

static void medians(void **state)
{
    (void)state;
    const double truth[] = {4, 1, 3, 10};                                             /* 3.5 */
    double found[] = {0.5, 7, 1, 1.5}, zero[] = {0, 0, 0, 5}, as_is[] = {1, 2, 3, 4}; /* 1.25 */
    depth_align(found, truth, 4, DEPTH_MEDIAN);
    near(found[0], 1.4);
    near(found[1], 19.6);
    depth_align(zero, truth, 4, DEPTH_MEDIAN); /* no scale exists */
    near(zero[3], 5);
    depth_align(as_is, truth, 4, DEPTH_AS_IS);
    near(as_is[2], 3);
}

static void affine(void **state)
{
    (void)state;
    const double truth[] = {1, 2, 4, 5};
    double exact[4], flat[] = {3, 3, 3, 3}, noisy[] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        exact[i] = 7 / truth[i] - 20;
    depth_align(exact, truth, 4, DEPTH_AFFINE);
    for (int i = 0; i < 4; i++)
        near(exact[i], truth[i]);
    depth_align(flat, truth, 4, DEPTH_AFFINE); /* uses the mean inverse depth */
    near(flat[0], 4 / (1 + 0.5 + 0.25 + 0.2));
    /* The line through (i, 1 / truth): mean 0.4875, slope -(1.5 + 0.25 - 0.125 - 0.3) / 5. */
    depth_align(noisy, truth, 4, DEPTH_AFFINE);
    const double slope = (-1.5 * 1 - 0.5 * 0.5 + 0.5 * 0.25 + 1.5 * 0.2) / 5;
    near(noisy[0], 1 / (0.4875 - 1.5 * slope));
    near(noisy[2], 1 / (0.4875 + 0.5 * slope));
    near(noisy[3], 5); /* 11.1 m, clipped to the maximum depth */
}

#ifdef CLI_PNG

static void write_depth(const char *path, const uint16_t *depth, uint32_t width, uint32_t height)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, f);
    png_set_IHDR(png, info, width, height, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < height; y++) {
        uint8_t row[64];
        for (uint32_t x = 0; x < width; x++) {
            row[2 * x] = (uint8_t)(depth[y * width + x] >> 8);
            row[2 * x + 1] = (uint8_t)depth[y * width + x];
        }
        png_write_row(png, row);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(f), 0);
}

/* A frame of 16 x 8, whose middle 8 x 8 pixels are resized to 4 x 4 pixels with one depth each. The
 * depth picture has 8 x 4 pixels, so its columns 2 to 5 coincide with the cells. */
static void against_a_picture(void **state)
{
    (void)state;
    char folder[] = "/tmp/eval-depth-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *depth = cli_text("%s/depth", folder), *path = cli_text("%s/depth/a.b.png", folder);
    char *picture = cli_text("%s/images/a.b.jpg", folder);
    float found[16];
    uint16_t truth[32];
    double abs_rel = 0;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 8; x++)
            truth[8 * y + x] = x < 2 || x > 5 ? 1 : (uint16_t)(256 * (x - 1) + 100 * y);
    for (int i = 0; i < 16; i++)
        found[i] = (float)(truth[8 * (i / 4) + i % 4 + 2] * (i == 5 ? 3.0 : 1.5) / 512);
    truth[8 * 3 + 3] = 0; /* not known */
    for (int i = 0; i < 16; i++)
        abs_rel += i == 13 ? 0 : (i == 5 ? 2.0 : 0.5) / 15;
    assert_int_equal(mkdir(depth, 0700), 0);
    write_depth(path, truth, 8, 4);

    dataset_file file = {.path = picture};
    fovea_output out = {found, sizeof found};
    eval_run r = {.data_path = folder, .depth_scale = 512, .data = {.n = 1, .file = &file}};
    eval_case c = {.run = {.width = 16,
                           .height = 8,
                           .info = {.width = 4, .height = 4, .left = 4, .scale_x = 2, .scale_y = 2},
                           .out = {.rows = 16, .columns = 1, .grid_width = 4, .grid_height = 4},
                           .outs = &out}};
    json_t *record = json_object();
    assert_int_equal(eval_depth.measure(record, &r, &c, NULL, 0), CLI_OK);
    near(json_number_value(json_object_get(record, "abs_rel")), abs_rel);
    near(json_number_value(json_object_get(record, "delta1")), 0);
    r.align = DEPTH_MEDIAN;
    assert_int_equal(eval_depth.measure(record, &r, &c, NULL, 0), CLI_OK);
    near(json_number_value(json_object_get(record, "delta1")), 14 / 15.0);

    uint16_t unknown[32] = {1}; /* a known depth only at a corner outside the crop */
    write_depth(path, unknown, 8, 4);
    assert_int_equal(eval_depth.measure(record, &r, &c, NULL, 0), EVAL_SKIP);
    remove(path);
    assert_int_equal(eval_depth.measure(record, &r, &c, NULL, 0), EVAL_SKIP);
    c.run.out.columns = 2;
    assert_int_equal(eval_depth.measure(record, &r, &c, NULL, 0), CLI_UNSUPPORTED);
    json_decref(record);
    rmdir(depth);
    rmdir(folder);
    free(picture);
    free(path);
    free(depth);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),
        cmocka_unit_test(medians),
        cmocka_unit_test(affine),
#ifdef CLI_PNG
        cmocka_unit_test(against_a_picture),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
