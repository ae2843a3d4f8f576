/* gradients.c: the equations of gradients.h. */
#include "tests/kernels/gradients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "tests/kernels/check_run.h"

static double moments(double *mean, const double *x, uint32_t n, double eps)
{
    double var = 0;
    *mean = 0;
    for (uint32_t i = 0; i < n; i++)
        *mean += x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        var += (x[i] - *mean) * (x[i] - *mean) / n;
    return 1 / sqrt(var + eps);
}

void grad_norm(double *y, const double *x, const double *weight, const double *bias, uint32_t n,
               double eps)
{
    double mean;
    const double scale = moments(&mean, x, n, eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

double grad_norm_back(double *dx, double *unit, const double *x, const double *weight,
                      const double *dy, uint32_t n, double eps)
{
    double mean, flat = 0, along = 0;
    const double scale = moments(&mean, x, n, eps);
    for (uint32_t i = 0; i < n; i++) {
        unit[i] = (x[i] - mean) * scale;
        flat += dy[i] * weight[i] / n;
        along += dy[i] * weight[i] * unit[i] / n;
    }
    for (uint32_t i = 0; i < n; i++)
        dx[i] = scale * (dy[i] * weight[i] - flat - unit[i] * along);
    return scale;
}

double grad_entropy(double *dz, const double *z, uint32_t n, uint32_t class)
{
    double max = z[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        max = fmax(max, z[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp(z[i] - max);
    for (uint32_t i = 0; dz && i < n; i++)
        dz[i] = exp(z[i] - max) / sum - (i == class);
    return max - z[class] + log(sum);
}

/* Returns the weight of cell `cell` at pixel i. */
static double share(uint32_t cell, uint32_t i, uint32_t cells, uint32_t pixels)
{
    const double at = ((double)i + 0.5) * cells / pixels - 0.5;
    const double inside = fmin(fmax(at, 0), cells - 1);
    return fmax(0, 1 - fabs(inside - cell));
}

static void add_pixel(const grad_mask *m, const double *z, uint32_t y, uint32_t x, double *loss,
                      double *dz)
{
    const uint8_t class = m->pixel[(size_t)y * m->ld + x];
    const uint32_t n = m->classes;
    if (class >= n || class == 255)
        return;
    double *blend = check_must(calloc(2 * n, sizeof *blend)), *slope = blend + n;
    for (uint32_t v = 0; v < m->down; v++)
        for (uint32_t u = 0; u < m->across; u++) {
            const double part = share(v, y, m->down, m->height) * share(u, x, m->across, m->width);
            for (uint32_t c = 0; part > 0 && c < n; c++)
                blend[c] += part * z[(v * m->across + u) * n + c];
        }
    const double value = grad_entropy(slope, blend, n, class);
    if (loss) {
        const uint32_t v = (uint32_t)(((double)y + 0.5) * m->down / m->height);
        const uint32_t u = (uint32_t)(((double)x + 0.5) * m->across / m->width);
        loss[v * m->across + u] += value;
    }
    for (uint32_t v = 0; dz && v < m->down; v++)
        for (uint32_t u = 0; u < m->across; u++) {
            const double part = share(v, y, m->down, m->height) * share(u, x, m->across, m->width);
            for (uint32_t c = 0; part > 0 && c < n; c++)
                dz[(v * m->across + u) * n + c] += part * slope[c];
        }
    free(blend);
}

void grad_segment(const grad_mask *m, const double *z, double *loss, double *dz)
{
    const size_t tokens = (size_t)m->across * m->down;
    if (loss)
        memset(loss, 0, tokens * sizeof *loss);
    if (dz)
        memset(dz, 0, tokens * m->classes * sizeof *dz);
    for (uint32_t y = 0; y < m->height; y++)
        for (uint32_t x = 0; x < m->width; x++)
            add_pixel(m, z, y, x, loss, dz);
}
