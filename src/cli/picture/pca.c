/* pca.c: draws token features as a picture whose red, green and blue are their first three
 * principal components. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

enum { COMPONENTS = CLI_COMPONENTS, ITERATIONS = 64 };

static double dot(const double *a, const double *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Makes v orthogonal to the `k` unit vectors of `basis`, and scales v to length 1. */
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

/* Computes cov, the sum over rows of (x - mean)(x - mean)^T. */
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

/* Finds the leading eigenvectors of `cov` one after the other, by power iteration. */
static void leading(double *basis, const double *cov, uint32_t n)
{
    double *next = cli_alloc(n, sizeof *next);
    for (uint32_t k = 0; k < COMPONENTS; k++) {
        double *v = basis + (size_t)k * n;
        for (uint32_t i = 0; i < n; i++)
            /* in general position, so that no eigenvector is orthogonal to it */
            v[i] = 1 + (i * 7919u + k * 104729u) % 1009 / 1009.0;
        tidy(v, basis, k, n);
        for (int it = 0; it < ITERATIONS; it++) {
            for (uint32_t i = 0; i < n; i++)
                next[i] = dot(cov + (size_t)i * n, v, n);
            memcpy(v, next, n * sizeof *v);
            tidy(v, basis, k, n);
        }
        /* The sign of a component is arbitrary: make its largest weight positive. */
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

/* Returns the coordinate of a row along component k. */
static double along(const cli_basis *b, const float *row, uint32_t k)
{
    double sum = 0;
    for (uint32_t i = 0; i < b->columns; i++)
        sum += (row[i] - b->mean[i]) * b->axis[(size_t)k * b->columns + i];
    return sum;
}

static cli_basis new_basis(uint32_t columns)
{
    return (cli_basis){.columns = columns,
                       .mean = cli_alloc(columns, sizeof(double)),
                       .axis = cli_alloc((size_t)COMPONENTS * columns, sizeof(double))};
}

cli_basis cli_basis_of(const float *features, size_t rows, uint32_t columns)
{
    cli_basis b = new_basis(columns);
    double *cov = cli_alloc((size_t)columns * columns, sizeof *cov);
    for (size_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < columns; i++)
            b.mean[i] += features[r * columns + i] / (double)rows;
    covariance(cov, features, b.mean, rows, columns);
    leading(b.axis, cov, columns);
    free(cov);
    for (uint32_t k = 0; k < COMPONENTS; k++) {
        b.low[k] = INFINITY;
        b.high[k] = -INFINITY;
        for (size_t r = 0; r < rows; r++) {
            const double v = along(&b, features + r * columns, k);
            b.low[k] = fmin(b.low[k], v);
            b.high[k] = fmax(b.high[k], v);
        }
    }
    return b;
}

void cli_basis_free(cli_basis *b)
{
    free(b->mean);
    free(b->axis);
    memset(b, 0, sizeof *b);
}

void cli_pca(cli_image *out, const cli_basis *b, const float *features, uint32_t grid_width,
             uint32_t grid_height, uint32_t width, uint32_t height)
{
    const size_t rows = (size_t)grid_width * grid_height;
    double *plane = cli_alloc(rows, sizeof *plane);
    *out = (cli_image){width, height, cli_alloc((size_t)width * height, 3)};
    for (uint32_t k = 0; k < COMPONENTS; k++) {
        for (size_t r = 0; r < rows; r++)
            plane[r] = along(b, features + r * b->columns, k);
        const double low = b->low[k], high = b->high[k], gain = high > low ? 255 / (high - low) : 0;
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++) {
                double v =
                    cli_sample(plane, grid_width, grid_height, (x + 0.5) * grid_width / width - 0.5,
                               (y + 0.5) * grid_height / height - 0.5);
                out->rgb[((size_t)y * width + x) * 3 + k] =
                    (uint8_t)clamp((v - low) * gain + 0.5, 255);
            }
    }
    free(plane);
}

/* ---- a basis in a file ---- */

static float *floats(const double *v, size_t n)
{
    float *out = cli_alloc(n, sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)v[i];
    return out;
}

int cli_basis_write(const cli_basis *b, const char *path)
{
    const uint64_t columns = b->columns, axes[2] = {COMPONENTS, columns},
                   range[2] = {2, COMPONENTS};
    double ends[2 * COMPONENTS];
    memcpy(ends, b->low, sizeof b->low);
    memcpy(ends + COMPONENTS, b->high, sizeof b->high);
    float *data[] = {floats(b->mean, b->columns), floats(b->axis, (size_t)COMPONENTS * b->columns),
                     floats(ends, 2 * COMPONENTS)};
    const fovea_tensor tensors[] = {cli_tensor("mean", data[0], 1, &columns),
                                    cli_tensor("axes", data[1], 2, axes),
                                    cli_tensor("range", data[2], 2, range)};
    const char *const metadata[][2] = {{"producer", "fovea"}, {"version", fovea_version()}};
    const int code = cli_check(fovea_tensors_write(path, tensors, 3, metadata, 2));
    for (int i = 0; i < 3; i++)
        free(data[i]);
    return code;
}

static int read_part(double *out, fovea_tensors *file, const char *path, const char *name, size_t n)
{
    fovea_tensor t;
    if (!fovea_tensors_find(file, name, &t) || t.elements != n)
        return cli_fail(
            CLI_INPUT,
            "%s is not a basis of features; give a file that does not exist to create one", path);
    float *values = cli_alloc(n, sizeof *values);
    const int code = cli_check(fovea_tensors_read(&t, 0, n, values));
    for (size_t i = 0; i < n; i++)
        out[i] = values[i];
    free(values);
    return code;
}

int cli_basis_read(cli_basis *out, const char *path)
{
    enum { COLUMNS_MOST = 1 << 20 };
    fovea_tensors *file;
    fovea_tensor mean;
    double ends[2 * COMPONENTS];
    CLI_TRY(cli_check(fovea_tensors_open(&file, path)));
    const bool there = fovea_tensors_find(file, "mean", &mean) && mean.elements <= COLUMNS_MOST;
    *out = new_basis(there ? (uint32_t)mean.elements : 0);
    int code = read_part(ends, file, path, "range", 2 * COMPONENTS);
    CLI_THEN(code, read_part(out->axis, file, path, "axes", (size_t)COMPONENTS * out->columns));
    CLI_THEN(code, read_part(out->mean, file, path, "mean", out->columns));
    fovea_tensors_close(file);
    if (code) {
        cli_basis_free(out);
        return code;
    }
    memcpy(out->low, ends, sizeof out->low);
    memcpy(out->high, ends + COMPONENTS, sizeof out->high);
    return CLI_OK;
}
