/* resample.c: makes the tables of a separable resize. Each library has its own arithmetic:
 *
 *   Pillow        the filter in double precision, stretched if the axis shrinks; weights of 22
 *                 fractional bits
 *   torchvision   the same window; weights of 16 bits with as many fractional bits as the largest
 *     on bytes    weight of the axis allows; two or four taps without antialias
 *   torchvision   everything in single precision, as PyTorch's kernels for float32 round it
 *     on floats
 */
#include "ops/resample.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#define TABLE_MAX (1u << 26) /* maximum weights of an axis; only extreme padding needs more */
#define PILLOW_BITS 22
#define NARROW_BITS 15 /* bits of a 16-bit weight without its sign */
#define PI 3.14159265358979323846

/* ---- filters in double precision ---- */

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x)
{
    x = fabs(x);
    if (x == 0.0)
        return 1.0;
    if (x >= 1.0)
        return 0.0;
    x *= PI;
    return sin(x) / x * (0.54 + 0.46 * cos(x));
}

/* Returns the cubic filter of Keys; a is its slope at 1. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0)
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

static double bicubic(double x)
{
    return cubic(x, -0.5);
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(x * PI) / (x * PI);
}

static double lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

const fv_filter fv_filters[6] = {
    [FOVEA_FILTER_BILINEAR] = {triangle, 1.0}, [FOVEA_FILTER_BICUBIC] = {bicubic, 2.0},
    [FOVEA_FILTER_LANCZOS] = {lanczos, 3.0},   [FOVEA_FILTER_NEAREST] = {0},
    [FOVEA_FILTER_BOX] = {box, 0.5},           [FOVEA_FILTER_HAMMING] = {hamming, 1.0},
};

uint32_t fv_window_taps(const fv_filter *f, uint32_t in, uint32_t out)
{
    double scale = fmax((double)in / out, 1.0);
    return (uint32_t)ceil(f->support * scale) * 2 + 1;
}

/* Computes weights as Pillow does, and as PyTorch does for bytes. */
uint32_t fv_window(double *weight, uint32_t *start, const fv_filter *f, uint32_t in, uint32_t out,
                   uint32_t o)
{
    const double step = (double)in / out, scale = fmax(step, 1.0), support = f->support * scale;
    const double centre = (o + 0.5) * step, inverse = 1.0 / scale;
    const double low = centre - support + 0.5, high = centre + support + 0.5;
    const uint32_t first = low < 0.0 ? 0 : (uint32_t)low;
    const uint32_t end = high > in ? in : (uint32_t)high;
    double sum = 0.0;
    for (uint32_t i = first; i < end; i++)
        sum += weight[i - first] = f->value(((double)i - centre + 0.5) * inverse);
    if (sum != 0.0)
        for (uint32_t i = first; i < end; i++)
            weight[i - first] /= sum;
    *start = first;
    return end - first;
}

double fv_point_weight(uint32_t taps, uint32_t t, double at)
{
    const double x = at - (floor(at) + t - (taps / 2 - 1.0));
    return taps == 2 ? triangle(x) : cubic(x, -0.75);
}

/* ---- filters in float32, with the rounding of PyTorch's kernels ---- */

static float triangle_single(float x)
{
    x = fabsf(x);
    return x < 1.f ? 1.f - x : 0.f;
}

/* Returns the cubic filter of a window. fmaf is used where PyTorch's compiler contracts to
 * multiply-adds. */
static float cubic_single(float x)
{
    const float a = -0.5f;
    x = fabsf(x);
    if (x < 1.f) {
        const float inner = fmaf(a + 2.f, x, -(a + 3.f)) * x;
        return fmaf(inner, x, 1.f);
    }
    if (x >= 2.f)
        return 0.f;
    return fmaf(fmaf(fmaf(a, x, -5.f * a), x, 8.f * a), x, -4.f * a);
}

/* Returns the weight of tap t of four, at distances 1 + far, far, 1 - far and 2 - far. */
static float cubic_point_single(uint32_t t, float far)
{
    const float a = -0.75f, near = 1.f - far;
    const float x = t == 0 ? far + 1.f : t == 1 ? far : t == 2 ? near : near + 1.f;
    if (t == 1 || t == 2)
        return ((a + 2.f) * x - (a + 3.f)) * x * x + 1.f;
    return fmaf(a * x - 5.f * a, x, 8.f * a) * x - 4.f * a;
}

static float sinc_single(float x)
{
    if (x == 0.f)
        return 1.f;
    x *= (float)PI;
    return (float)sin((double)x) / x;
}

static float window_single(float x, fovea_filter filter)
{
    if (filter == FOVEA_FILTER_BILINEAR)
        return triangle_single(x);
    if (filter == FOVEA_FILTER_BICUBIC)
        return cubic_single(x);
    return x >= -3.f && x < 3.f ? sinc_single(x) * sinc_single(x / 3.f) : 0.f;
}

static uint32_t window_floats(double *weight, uint32_t *start, fovea_filter filter, uint32_t in,
                              uint32_t out, uint32_t o)
{
    const float step = (float)in / (float)out, reach = (float)fv_filters[filter].support;
    const float support = step >= 1.f ? reach * step : reach;
    const float inverse = step >= 1.f ? 1.f / step : 1.f;
    const float centre = (float)((double)step * (o + 0.5));
    const float from = centre - support, to = centre + support;
    const double low = (double)from + 0.5, high = (double)to + 0.5;
    const uint32_t first = low < 0.0 ? 0 : (uint32_t)low;
    const uint32_t most = fv_window_taps(&fv_filters[filter], in, out);
    uint32_t end = high > in ? in : (uint32_t)high;
    end = end - first > most ? first + most : end;
    float sum = 0.f;
    for (uint32_t i = first; i < end; i++) {
        const float away = (float)i - centre;
        const float w = window_single((float)(((double)away + 0.5) * (double)inverse), filter);
        weight[i - first] = (double)w;
        sum += w;
    }
    for (uint32_t i = first; i < end && sum != 0.f; i++)
        weight[i - first] = (double)((float)weight[i - first] / sum);
    *start = first;
    return end - first;
}

/* ---- filters that are not stretched ---- */

/* Adds weight `w` to input position i, or to the position at the border if i is beyond it. */
static void add_point(double *weight, uint32_t start, uint32_t in, int64_t i, double w)
{
    const int64_t inside = i < 0 ? 0 : i >= in ? (int64_t)in - 1 : i;
    weight[inside - start] += w;
}

static uint32_t point(double *weight, uint32_t *start, const fv_axis *a, const fv_resampling *how,
                      uint32_t o)
{
    const uint32_t taps = how->filter == FOVEA_FILTER_BILINEAR ? 2 : 4;
    const bool single = how->resample == FOVEA_RESAMPLE_FLOAT;
    double at = (o + 0.5) * ((double)a->in / a->whole) - 0.5;
    if (single) {
        const float step = (float)a->in / (float)a->whole, middle = (float)o + 0.5f;
        const float product = step * middle;
        at = taps == 4 || how->fused ? (double)fmaf(step, middle, -0.5f) : (double)(product - 0.5f);
    }
    if (taps == 2 && at < 0)
        at = 0;
    int64_t base = (int64_t)floor(at);
    base = base >= a->in ? (int64_t)a->in - 1 : base;
    const int64_t low = base - (taps / 2 - 1), high = low + taps;
    *start = low < 0 ? 0 : (uint32_t)low;
    const uint32_t end = high > a->in ? a->in : (uint32_t)high;
    for (uint32_t t = 0; t < taps; t++)
        weight[t] = 0;
    for (uint32_t t = 0; t < taps; t++) {
        const float far = (float)at - (float)base;
        const double w = !single     ? fv_point_weight(taps, t, at)
                         : taps == 4 ? (double)cubic_point_single(t, far)
                         : t == 0    ? (double)(1.f - far)
                                     : (double)far;
        add_point(weight, *start, a->in, low + t, w);
    }
    return end - *start;
}

/* Finds the input pixel that is nearest to output pixel o. Near the middle between two pixels the
 * choice depends on rounding, so this function computes the position as each library does: Pillow
 * adds the step once per output pixel, and torchvision multiplies o by the step in float32. */
static uint32_t nearest(double *weight, uint32_t *start, const fv_axis *a, const fv_resampling *how,
                        uint32_t o, double *at)
{
    const double step = (double)a->in / a->whole;
    *at = o == 0 ? step * 0.5 : *at + step;
    double where = *at;
    if (how->resample != FOVEA_RESAMPLE_PILLOW) {
        const float single = (float)a->in / (float)a->whole;
        where = floor((double)(float)((o + 0.5) * (double)single));
        where = where >= a->in ? a->in - 1.0 : where;
    }
    if (where >= a->in)
        return 0;
    *start = (uint32_t)where;
    weight[0] = 1;
    return 1;
}

/* ---- a Gaussian before the filter ---- */

/* Returns the radius of the Gaussian in pixels. */
static uint32_t gaussian_radius(const fv_axis *a)
{
    return a->sigma > 0 ? (uint32_t)ceilf(3.f * a->sigma) : 0;
}

/* Replaces the taps of the resize by those of blur and resize combined, because both are linear.
 * `old` is scratch for the old weights. */
static uint32_t blur(double *weight, uint32_t *start, uint32_t count, double *old,
                     const double *bell, uint32_t radius, uint32_t in)
{
    const uint32_t first = *start < radius ? 0 : *start - radius;
    const uint32_t end = in - *start - count < radius ? in : *start + count + radius;
    memcpy(old, weight, count * sizeof *old);
    for (uint32_t i = first; i < end; i++)
        weight[i - first] = 0;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t k = 0; k <= 2 * radius; k++) {
            int64_t i = (int64_t)*start + t + k - radius;
            i = i < 0 ? -i : i >= in ? 2 * ((int64_t)in - 1) - i : i;
            weight[i - first] += old[t] * bell[k];
        }
    *start = first;
    return end - first;
}

static void bell_fill(double *bell, uint32_t radius, float sigma)
{
    double sum = 0;
    for (uint32_t k = 0; k <= 2 * radius; k++) {
        const double x = ((double)k - radius) / (double)sigma;
        sum += bell[k] = exp(-0.5 * x * x);
    }
    for (uint32_t k = 0; k <= 2 * radius; k++)
        bell[k] /= sum;
}

/* ---- tables ---- */

/* Scratch and arguments for computing the positions of an axis. */
struct work {
    const fv_axis *axis;
    const fv_resampling *how;
    uint32_t taps, radius;
    double *weight, *old, *bell;
    double at; /* coordinate for the nearest filter */
};

/* Computes the taps of position o. Call it for the positions in order, from 0 to `whole` - 1. */
static uint32_t row(struct work *w, uint32_t *start, uint32_t o)
{
    const fv_axis *a = w->axis;
    const fv_resampling *how = w->how;
    uint32_t count;
    *start = 0;
    if (a->in == a->whole && w->radius == 0) {
        *start = o;
        w->weight[0] = 1;
        count = 1;
    } else if (how->filter == FOVEA_FILTER_NEAREST) {
        count = nearest(w->weight, start, a, how, o, &w->at);
    } else if (!how->antialias) {
        count = point(w->weight, start, a, how, o);
    } else if (how->resample == FOVEA_RESAMPLE_FLOAT) {
        count = window_floats(w->weight, start, how->filter, a->in, a->whole, o);
    } else {
        count = fv_window(w->weight, start, &fv_filters[how->filter], a->in, a->whole, o);
    }
    if (w->radius)
        count = blur(w->weight, start, count, w->old, w->bell, w->radius, a->in);
    if (*start >= a->there)
        return 0;
    return count < a->there - *start ? count : a->there - *start;
}

/* Returns the number of fractional bits with which the largest weight of the axis fits 16 bits, as
 * PyTorch computes it; black pixels count too. */
static uint32_t narrow_bits(double largest)
{
    uint32_t bits = 0;
    while (bits < PILLOW_BITS && (int)(0.5 + largest * (1 << (bits + 1))) < 1 << NARROW_BITS)
        bits++;
    return bits;
}

static double largest_weight(struct work *w)
{
    double largest = 0;
    fv_axis all = *w->axis;
    const fv_axis *own = w->axis;
    all.there = all.in;
    w->axis = &all;
    for (uint32_t o = 0; o < all.whole; o++) {
        uint32_t start;
        const uint32_t count = row(w, &start, o);
        for (uint32_t t = 0; t < count; t++)
            largest = fmax(largest, w->weight[t]);
    }
    w->axis = own;
    return largest;
}

static int32_t fixed(double w, uint32_t bits)
{
    return (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << bits));
}

static void fill(fv_resize_table *out, struct work *w)
{
    const fv_axis *a = w->axis;
    const int64_t end = a->offset + a->kept < a->whole ? a->offset + a->kept : a->whole;
    for (int64_t o = 0; o < end; o++) {
        uint32_t start;
        if (o < a->offset && w->how->filter != FOVEA_FILTER_NEAREST)
            continue;
        const uint32_t count = row(w, &start, (uint32_t)o);
        if (o < a->offset)
            continue;
        const size_t i = (size_t)(o - a->offset), first = i * out->taps;
        out->start[i] = start;
        out->count[i] = count;
        for (uint32_t t = 0; t < count && out->bits; t++)
            out->whole[first + t] = fixed(w->weight[t], out->bits);
        for (uint32_t t = 0; t < count && !out->bits; t++)
            out->real[first + t] = (float)w->weight[t];
    }
}

static uint32_t most_taps(const fv_axis *a, const fv_resampling *how)
{
    if (a->in == a->whole || how->filter == FOVEA_FILTER_NEAREST)
        return 1;
    if (how->antialias)
        return fv_window_taps(&fv_filters[how->filter], a->in, a->whole);
    return how->filter == FOVEA_FILTER_BILINEAR ? 2 : 4;
}

static fovea_status make(fv_resize_table *out, struct work *w)
{
    const fv_axis *a = w->axis;
    FV_TRY(FV_MEM_ARRAY(&w->weight, w->taps, FV_MEM_PLAN, "resize taps"));
    FV_TRY(FV_MEM_ARRAY(&w->old, w->taps, FV_MEM_PLAN, "resize taps"));
    FV_TRY(FV_MEM_ARRAY(&w->bell, 2 * w->radius + 1, FV_MEM_PLAN, "blur taps"));
    if (w->radius)
        bell_fill(w->bell, w->radius, a->sigma);
    out->size = a->size;
    out->taps = w->taps;
    if (w->how->resample == FOVEA_RESAMPLE_PILLOW)
        out->bits = PILLOW_BITS;
    else if (w->how->resample == FOVEA_RESAMPLE_TORCHVISION)
        out->bits = narrow_bits(largest_weight(w));
    FV_TRY(FV_MEM_ARRAY(&out->start, a->size, FV_MEM_PLAN, "resize starts"));
    FV_TRY(FV_MEM_ARRAY(&out->count, a->size, FV_MEM_PLAN, "resize counts"));
    FV_TRY(
        FV_MEM_ARRAY(&out->whole, fv_size_mul(a->size, out->taps), FV_MEM_PLAN, "resize weights"));
    fill(out, w);
    fv_resize_span(out);
    return FOVEA_OK;
}

fovea_status fv_resize_table_make(fv_resize_table *out, const fv_axis *a, const fv_resampling *how)
{
    fv_resampling own = *how;
    struct work w = {.axis = a, .how = &own, .radius = gaussian_radius(a)};
    /* torchvision lacks these filters, so Pillow's are used. */
    if (own.resample == FOVEA_RESAMPLE_TORCHVISION &&
        (own.filter == FOVEA_FILTER_BOX || own.filter == FOVEA_FILTER_HAMMING))
        own.resample = FOVEA_RESAMPLE_PILLOW;
    if (own.resample == FOVEA_RESAMPLE_PILLOW)
        own.antialias = true;
    w.taps = most_taps(a, &own) + 2 * w.radius;
    if (w.radius >= a->in)
        return fv_fail(
            FOVEA_EINVAL,
            "preprocess: the blur of a resize from %u to %u pixels reaches %u pixels on each side, "
            "more than the picture has; use a larger picture or resize to a larger size",
            a->in, a->whole, w.radius);
    if (fv_size_mul(a->size, w.taps) > TABLE_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: the table for a resize from %u to %u pixels, padded to %u, "
                       "would have %.0f MiB; use a smaller crop or resize to a larger size",
                       a->in, a->whole, a->size, (double)a->size * w.taps * 4 / (1 << 20));
    const fovea_status status = make(out, &w);
    fv_mem_free(w.weight);
    fv_mem_free(w.old);
    fv_mem_free(w.bell);
    return status;
}

void fv_resize_table_free(fv_resize_table *t)
{
    fv_mem_free(t->start);
    fv_mem_free(t->count);
    fv_mem_free(t->whole);
    fv_mem_free(t->narrow);
    *t = (fv_resize_table){0};
}

uint64_t fv_resize_table_bytes(const fv_resize_table *t)
{
    return t->size * (8 + 4ull * t->taps + 4ull * t->pairs);
}

void fv_resize_span(fv_resize_table *t)
{
    uint32_t low = UINT32_MAX, high = 0;
    t->most = 0;
    for (uint32_t i = 0; i < t->size; i++)
        if (t->count[i]) {
            const uint32_t end = t->start[i] + t->count[i];
            low = t->start[i] < low ? t->start[i] : low;
            high = end > high ? end : high;
            t->most = t->count[i] > t->most ? t->count[i] : t->most;
        }
    t->first = high ? low : 0;
    t->used = high ? high - low : 1;
    for (uint32_t i = 0; i < t->size; i++)
        if (t->count[i] == 0)
            t->start[i] = t->first;
}

/* Returns whether every weight fits 16 bits. */
static bool is_narrow(const fv_resize_table *t)
{
    for (size_t i = 0; i < (size_t)t->size * t->taps; i++)
        if (t->whole[i] < INT16_MIN || t->whole[i] > INT16_MAX)
            return false;
    return true;
}

fovea_status fv_resize_narrow(fv_resize_table *t)
{
    if (!t->bits || !is_narrow(t))
        return FOVEA_OK;
    for (uint32_t o = 0; o < t->size; o++) {
        const uint32_t pairs = (t->start[o] % 2 + t->count[o] + 1) / 2;
        t->pairs = pairs > t->pairs ? pairs : t->pairs;
    }
    FV_TRY(FV_MEM_ARRAY(&t->narrow, fv_size_mul(t->size, 2 * (uint64_t)t->pairs), FV_MEM_PLAN,
                        "resize weights"));
    for (uint32_t o = 0; o < t->size; o++)
        for (uint32_t k = 0; k < t->count[o]; k++)
            t->narrow[(size_t)o * 2 * t->pairs + t->start[o] % 2 + k] =
                (int16_t)t->whole[(size_t)o * t->taps + k];
    return FOVEA_OK;
}
