/* rope.c: makes the tables of two-dimensional rotations. */
#include "ops/rope.h"

#include <math.h>
#include <stddef.h>

static void store_pair(float *cos_row, float *sin_row, uint32_t pair, float c, float s)
{
    cos_row[2 * pair] = cos_row[2 * pair + 1] = c;
    sin_row[2 * pair] = sin_row[2 * pair + 1] = s;
}

double fv_rope_angle(uint32_t j, uint32_t d)
{
    const uint32_t n = d / 4;
    return n > 1 ? pow(1e4, -(double)j / (double)(n - 1)) : 1;
}

void fv_rope_positions(float *cosines, float *sines, uint32_t positions, uint32_t d)
{
    const uint32_t pairs = d / 4;
    for (uint32_t j = 0; j < pairs; j++) {
        const double theta = fv_rope_angle(j, d);
        for (size_t i = 0; i < positions; i++)
            store_pair(cosines + i * (d / 2), sines + i * (d / 2), j, (float)cos((double)i * theta),
                       (float)sin((double)i * theta));
    }
}

void fv_rope_grid(float *cosines, float *sines, uint32_t width, uint32_t height, uint32_t d)
{
    const uint32_t pairs = d / 4, longest = width > height ? width : height;
    for (uint32_t j = 0; j < pairs; j++) {
        const double theta = fv_rope_angle(j, d);
        for (uint32_t i = 0; i < longest; i++) {
            const float c = (float)cos(i * theta), s = (float)sin(i * theta);
            for (size_t column = 0; column < width && i < height; column++) {
                const size_t token = (size_t)i * width + column;
                store_pair(cosines + token * d, sines + token * d, j, c, s);
            }
            for (size_t row = 0; row < height && i < width; row++) {
                const size_t token = row * width + i;
                store_pair(cosines + token * d, sines + token * d, pairs + j, c, s);
            }
        }
    }
}

#define TWO_PI 6.283185307179586476925

static double angle(const fv_rope *r, uint32_t i, uint32_t n, uint32_t j, double shift, uint32_t d)
{
    const double slower =
        r->periods ? 1 / (double)r->periods[j] : pow(r->base, -(4. * j + shift) / d);
    if (r->rule == FV_ROPE_CENTRES)
        return TWO_PI * (2 * (i + 0.5) / n - 1) * slower;
    return (i + r->offset) * (r->reference > 0 ? r->reference / n : 1) * slower;
}

/* Sets n entries for channels that are not rotated. */
static void leave(float *cosines, float *sines, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        cosines[i] = 1;
        sines[i] = 0;
    }
}

void fv_rope_mixed(float *cosines, float *sines, const float *by_column, const float *by_row,
                   uint32_t prefix, uint32_t width, uint32_t height, uint32_t c)
{
    leave(cosines, sines, (size_t)prefix * c);
    for (size_t i = 0; i < (size_t)width * height; i++) {
        const size_t at = (prefix + i) * c, x = i % width, y = i / width;
        for (uint32_t j = 0; j < c / 2; j++) {
            const double a = (double)x * (double)by_column[j] + (double)y * (double)by_row[j];
            store_pair(cosines + at, sines + at, j, (float)cos(a), (float)sin(a));
        }
    }
}

void fv_rope_tokens(float *cosines, float *sines, const fv_rope *r, uint32_t prefix, uint32_t width,
                    uint32_t height, uint32_t d)
{
    const uint32_t pairs = d / 4;
    leave(cosines, sines, (size_t)prefix * d);
    for (uint32_t j = 0; r->class_angles && j < d / 2; j++)
        store_pair(cosines, sines, j, cosf(r->class_angles[j]), sinf(r->class_angles[j]));
    for (uint32_t j = 0; j < pairs; j++) {
        const uint32_t first = r->alternating ? 2 * j : j;
        const uint32_t second = r->alternating ? 2 * j + 1 : pairs + j;
        const bool x_first = r->x_first || r->alternating;
        const uint32_t of_y = x_first ? second : first, of_x = x_first ? first : second;
        for (uint32_t y = 0; y < height; y++) {
            const double a = angle(r, y, height, j, 0, d);
            const float c = (float)cos(a), s = (float)sin(a);
            for (size_t x = 0; x < width; x++) {
                const size_t at = (prefix + (size_t)y * width + x) * d;
                store_pair(cosines + at, sines + at, of_y, c, s);
            }
        }
        for (uint32_t x = 0; x < width; x++) {
            const double a = angle(r, x, width, j, r->column_shift, d);
            const float c = (float)cos(a), s = (float)sin(a);
            for (size_t y = 0; y < height; y++) {
                const size_t at = (prefix + y * width + x) * d;
                store_pair(cosines + at, sines + at, of_x, c, s);
            }
        }
    }
}
