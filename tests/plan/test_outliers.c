/* test_outliers.c: tests int8 products where one channel, or one row, is 100 times larger than the
 * others. The rotation keeps them close to float32, which a plain int8 product is not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fovea/operations.h>

#include "ops/quantise.h"
#include "tests/fixture.h"

enum { ROWS = 48, OUTLIER = 100, LARGEST = 1024 };

static const struct planted {
    const char *what;
    uint32_t channel, row; /* 0: none */
    double plain_most;     /* upper bound of the cosine without a rotation */
} kinds[] = {{"a channel", 37, 0, 0.9995}, {"a row", 0, 11, 1}};

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

/* Returns a nearly normal number with variance 1. */
static float next(uint64_t *seed)
{
    float sum = 0;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*seed >> 40) * 0x1p-24f;
    }
    return sum - 6;
}

static void fill(float *x, size_t n, float scale, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = scale * next(&seed);
}

static void plant(float *a, uint32_t k, const struct planted *kind)
{
    for (uint32_t i = 0; kind->channel && i < ROWS; i++)
        a[(size_t)i * k + kind->channel] *= OUTLIER;
    for (uint32_t i = 0; kind->row && i < k; i++)
        a[(size_t)kind->row * k + i] *= OUTLIER;
}

/* Computes a (ROWS, k) times w (k, k) transposed. */
static void multiply(double *out, const float *a, const float *w, uint32_t k)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t n = 0; n < k; n++) {
            double sum = 0;
            for (uint32_t j = 0; j < k; j++)
                sum += (double)a[(size_t)i * k + j] * w[(size_t)n * k + j];
            out[(size_t)i * k + n] = sum;
        }
    }
}

/* As multiply(), with rows rounded to int8 without a rotation. */
static void multiply_plain(double *out, float *a, float *w, uint32_t k)
{
    for (uint32_t i = 0; i < ROWS; i++)
        fv_int8_round(a + (size_t)i * k, k);
    for (uint32_t i = 0; i < k; i++)
        fv_int8_round(w + (size_t)i * k, k);
    multiply(out, a, w, k);
}

static void multiply_int8(double *out, float *a, const float *w, uint32_t k)
{
    fovea_device *device = fixture_device(2);
    fovea_plan *plan;
    fovea_gemm_options options = FOVEA_GEMM_OPTIONS_INIT;
    options.rows = ROWS;
    options.in = options.out = k;
    options.weight = w;
    options.compute = FOVEA_COMPUTE_INT8;
    succeed(fovea_gemm_plan_create(&plan, device, &options));
    float *result = malloc(sizeof *result * ROWS * k);
    assert_non_null(result);
    const fovea_matrix in = {a, 0};
    succeed(fovea_op_run(plan, &in, 1, (fovea_matrix){result, 0}));
    for (size_t i = 0; i < (size_t)ROWS * k; i++)
        out[i] = result[i];
    free(result);
    fovea_plan_free(plan);
    fovea_device_close(device);
}

/* Returns the smallest cosine of all rows. */
static double cosine(const double *x, const double *y, uint32_t k)
{
    double least = 1;
    for (uint32_t i = 0; i < ROWS; i++, x += k, y += k) {
        double product = 0, of_x = 0, of_y = 0;
        for (uint32_t n = 0; n < k; n++) {
            product += x[n] * y[n];
            of_x += x[n] * x[n];
            of_y += y[n] * y[n];
        }
        least = fmin(least, product / sqrt(of_x * of_y));
    }
    return least;
}

static void outliers(void **state)
{
    (void)state;
    static const uint32_t widths[] = {384, 768, LARGEST};
    float *a = malloc(sizeof *a * ROWS * LARGEST), *w = malloc(sizeof *w * LARGEST * LARGEST);
    double *want = malloc(sizeof *want * ROWS * LARGEST),
           *out = malloc(sizeof *out * ROWS * LARGEST);
    assert_true(a && w && want && out);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            const uint32_t k = widths[j];
            fill(a, (size_t)ROWS * k, 1, 1 + i);
            fill(w, (size_t)k * k, 1 / sqrtf((float)k), 7 + j);
            plant(a, k, &kinds[i]);
            multiply(want, a, w, k);
            multiply_int8(out, a, w, k);
            const double rotated = cosine(out, want, k);
            multiply_plain(out, a, w, k);
            const double plain = cosine(out, want, k);
            print_message("%s %d times larger, width %u: cosine of the worst row %.5f, without a "
                          "rotation %.5f\n",
                          kinds[i].what, OUTLIER, k, rotated, plain);
            assert_true(rotated >= 0.999 && plain < kinds[i].plain_most);
        }
    }
    free(a);
    free(w);
    free(want);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outliers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
