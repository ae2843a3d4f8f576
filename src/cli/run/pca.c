/* pca.c: token features as a picture: their three principal components in red, green and blue. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

enum { COMPONENTS = 3, ITERATIONS = 64 };

static double dot(const double *a, const double *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Makes v orthogonal to the `k` unit vectors of `basis` and of length 1. */
static void tidy(double *v, const double *basis, uint32_t k, uint32_t n)
{
    for (uint32_t j = 0; j < k; j++) {
        double along = dot(v, basis + (size_t)j * n, n);
        for (uint32_t i = 0; i < n; i++)
            v[i] -= along * basis[(size_t)j * n + i];
    }
    double length = sqrt(dot(v, v, n));
    for (uint32_t i = 0; i < n; i++)
        v[i] = length > 0 ? v[i] / length : 0;
}

/* cov = sum over rows of (x - mean)(x - mean)^T. */
static void covariance(double *cov, const float *x, const double *mean, size_t rows, uint32_t n)
{
    double *row = cli_alloc(n, sizeof *row);
    for (size_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < n; i++)
            row[i] = x[r * n + i] - mean[i];
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = i; j < n; j++)
                cov[(size_t)i * n + j] += row[i] * row[j];
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            cov[(size_t)i * n + j] = cov[(size_t)j * n + i];
    free(row);
}

/* The leading eigenvectors of `cov`, by power iteration, one after the other. */
static void leading(double *basis, const double *cov, uint32_t n)
{
    double *next = cli_alloc(n, sizeof *next);
    for (uint32_t k = 0; k < COMPONENTS; k++) {
        double *v = basis + (size_t)k * n;
        for (uint32_t i = 0; i < n; i++)
            v[i] = 1 + (i * 7919u + k * 104729u) % 1009 / 1009.0; /* in general position */
        tidy(v, basis, k, n);
        for (int it = 0; it < ITERATIONS; it++) {
            for (uint32_t i = 0; i < n; i++)
                next[i] = dot(cov + (size_t)i * n, v, n);
            memcpy(v, next, n * sizeof *v);
            tidy(v, basis, k, n);
        }
        /* A component has no sign of its own: let its largest weight be positive. */
        uint32_t top = 0;
        for (uint32_t i = 0; i < n; i++)
            top = fabs(v[i]) > fabs(v[top]) ? i : top;
        for (uint32_t i = 0; v[top] < 0 && i < n; i++)
            v[i] = i == top ? v[i] : -v[i];
        v[top] = fabs(v[top]);
    }
    free(next);
}

static double clamp(double v, double high)
{
    return v < 0 ? 0 : v > high ? high : v;
}

double cli_sample(const double *grid, uint32_t gw, uint32_t gh, double x, double y)
{
    x = clamp(x, gw - 1);
    y = clamp(y, gh - 1);
    uint32_t x0 = (uint32_t)x, y0 = (uint32_t)y;
    uint32_t x1 = x0 + 1 < gw ? x0 + 1 : x0, y1 = y0 + 1 < gh ? y0 + 1 : y0;
    double fx = x - x0, fy = y - y0;
    double top = grid[(size_t)y0 * gw + x0] * (1 - fx) + grid[(size_t)y0 * gw + x1] * fx;
    double low = grid[(size_t)y1 * gw + x0] * (1 - fx) + grid[(size_t)y1 * gw + x1] * fx;
    return top * (1 - fy) + low * fy;
}

void cli_pca(cli_image *out, const float *features, uint32_t grid_width, uint32_t grid_height,
             uint32_t columns, uint32_t width, uint32_t height)
{
    size_t rows = (size_t)grid_width * grid_height;
    double *mean = cli_alloc(columns, sizeof *mean);
    double *cov = cli_alloc((size_t)columns * columns, sizeof *cov);
    double *basis = cli_alloc((size_t)COMPONENTS * columns, sizeof *basis);
    double *plane = cli_alloc(rows, sizeof *plane);
    for (size_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < columns; i++)
            mean[i] += features[r * columns + i] / (double)rows;
    covariance(cov, features, mean, rows, columns);
    leading(basis, cov, columns);
    *out = (cli_image){width, height, cli_alloc((size_t)width * height, 3)};
    for (uint32_t k = 0; k < COMPONENTS; k++) {
        double low = INFINITY, high = -INFINITY;
        for (size_t r = 0; r < rows; r++) {
            plane[r] = 0;
            for (uint32_t i = 0; i < columns; i++)
                plane[r] += (features[r * columns + i] - mean[i]) * basis[(size_t)k * columns + i];
            low = fmin(low, plane[r]);
            high = fmax(high, plane[r]);
        }
        double gain = high > low ? 255 / (high - low) : 0;
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++) {
                double v =
                    cli_sample(plane, grid_width, grid_height, (x + 0.5) * grid_width / width - 0.5,
                               (y + 0.5) * grid_height / height - 0.5);
                out->rgb[((size_t)y * width + x) * 3 + k] =
                    (uint8_t)clamp((v - low) * gain + 0.5, 255);
            }
    }
    free(mean);
    free(cov);
    free(basis);
    free(plane);
}

bool cli_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}
