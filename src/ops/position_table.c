/* position_table.c: makes the taps that resize position tables to other grids. */
#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "ops/preprocess.h"

#define SIDE_MAX (1u << 20) /* maximum side of a table or a grid */

struct taps {
    uint32_t taps;
    uint32_t *index;
    float *weight;
};

static uint32_t clamp_index(double i, uint32_t n)
{
    return i < 0 ? 0 : i > n - 1.0 ? n - 1 : (uint32_t)i;
}

/* Sets the taps of output `o` around input coordinate `at`: taps / 2 - 1 taps precede the floor of
 * `at`. */
static void point_taps(const struct taps *out, uint32_t o, double at, uint32_t in)
{
    const double base = floor(at);
    for (uint32_t t = 0; t < out->taps; t++) {
        const double i = base + t - (out->taps / 2 - 1.0);
        out->index[(size_t)o * out->taps + t] = clamp_index(i, in);
        out->weight[(size_t)o * out->taps + t] = (float)fv_point_weight(out->taps, t, at);
    }
}

/* Returns the filter of a rule with antialiasing, or NULL for other rules. */
static const fv_filter *window_filter(enum fv_pos_rule rule)
{
    return rule == FV_POS_AA            ? &fv_filters[FOVEA_FILTER_BICUBIC]
           : rule == FV_POS_BILINEAR_AA ? &fv_filters[FOVEA_FILTER_BILINEAR]
                                        : NULL;
}

static fovea_status window_positions(const struct taps *out, const fv_filter *filter, uint32_t in,
                                     uint32_t n)
{
    double *weight;
    FV_TRY(FV_MEM_ARRAY(&weight, out->taps, FV_MEM_PLAN, "position taps"));
    for (uint32_t o = 0; o < n; o++) {
        uint32_t start;
        const uint32_t count = fv_window(weight, &start, filter, in, n, o);
        for (uint32_t t = 0; t < count; t++) {
            out->index[(size_t)o * out->taps + t] = start + t;
            out->weight[(size_t)o * out->taps + t] = (float)weight[t];
        }
    }
    fv_mem_free(weight);
    return FOVEA_OK;
}

/* Returns the ratio q of FV_POS_PROGRESSION, for a table with `in` and a grid with `out` offsets on
 * each side of the middle. It is bisected as in BEiT's code, whose last guess is the result. */
static double progression(uint32_t in, uint32_t out)
{
    double left = 1.01, right = 1.5, q = left;
    while (right - left > 1e-6) {
        q = (left + right) / 2;
        if ((1 - pow(q, in)) / (1 - q) > out)
            right = q;
        else
            left = q;
    }
    return q;
}

static void progression_taps(const struct taps *out, uint32_t in, uint32_t n)
{
    assert(in % 2 && n % 2);
    const uint32_t half = in / 2, most = n / 2;
    const double q = progression(half, most);
    double before = 0, at = 0, step = 1;
    uint32_t k = 0; /* `before` and `at` are the offsets of entries k - 1 and k */
    for (uint32_t offset = 0; offset <= most; offset++) {
        while (at < offset && k < half) {
            before = at;
            at += step;
            step *= q;
            k++;
        }
        const double far = at > offset ? (offset - before) / (at - before) : 1;
        const uint32_t nearer = k ? k - 1 : 0;
        for (int side = -1; side <= 1; side += 2) {
            const size_t o = 2 * (size_t)(side < 0 ? most - offset : most + offset);
            out->index[o] = side < 0 ? half - nearer : half + nearer;
            out->index[o + 1] = side < 0 ? half - k : half + k;
            out->weight[o] = (float)(1 - far);
            out->weight[o + 1] = (float)far;
        }
    }
}

/* Returns border i between `in` equal buckets of the range 0 to 1. It is rounded as in PyTorch's
 * arange on CPUs, because rounding decides where positions and borders coincide. A vector of eight
 * borders is computed as float32 offsets from its first border; the last borders, which do not fill
 * two vectors, are computed one by one. */
static float bucket_border(uint32_t i, uint32_t in)
{
    const double step = 1.0 / in, size = ceil((1 - step) / step);
    const uint32_t eighth = i < (uint32_t)size / 16 * 16 ? i % 8 : 0;
    return (float)((double)(float)(step + step * (i - eighth)) + eighth * step);
}

/* Sets the taps of buckets: output position o of `n` is at o / n, rounded to float32. */
static void bucket_taps(const struct taps *out, uint32_t in, uint32_t n)
{
    const float step = 1.f / (float)n, last = (float)(1 - 1e-6);
    uint32_t bucket = 0;
    for (uint32_t o = 0; o < n; o++) {
        const float at = fminf((float)o * step, last);
        while (bucket + 1 < in && bucket_border(bucket, in) <= at)
            bucket++;
        out->index[o] = bucket;
        out->weight[o] = 1.f;
    }
}

static fovea_status position_taps(uint32_t *taps, uint32_t **index, float **weight,
                                  enum fv_pos_rule rule, bool same, uint32_t in, uint32_t out,
                                  uint32_t whole)
{
    const fv_filter *filter = window_filter(rule);
    const bool linear = rule == FV_POS_BILINEAR || rule == FV_POS_CROPPED ||
                        rule == FV_POS_PROGRESSION || rule == FV_POS_CORNERS ||
                        rule == FV_POS_LINEAR_OFFSET;
    const bool buckets = rule == FV_POS_BUCKETS;
    *taps = same || buckets ? 1 : filter ? fv_window_taps(filter, in, out) : linear ? 2 : 4;
    const uint64_t entries = fv_size_mul(out, *taps);
    FV_TRY(FV_MEM_ARRAY(index, entries, FV_MEM_PLAN, "position indices"));
    FV_TRY(FV_MEM_ARRAY(weight, entries, FV_MEM_PLAN, "position weights"));
    const struct taps t = {*taps, *index, *weight};
    if (buckets) {
        bucket_taps(&t, in, out);
        return FOVEA_OK;
    }
    if (same) {
        for (uint32_t o = 0; o < out; o++) {
            t.index[o] = o;
            t.weight[o] = 1.f;
        }
        return FOVEA_OK;
    }
    if (filter)
        return window_positions(&t, filter, in, out);
    if (rule == FV_POS_PROGRESSION) {
        progression_taps(&t, in, out);
        return FOVEA_OK;
    }
    const bool offset = rule == FV_POS_OFFSET || rule == FV_POS_LINEAR_OFFSET;
    const bool corners = rule == FV_POS_CORNERS;
    const double scale = corners  ? out > 1 ? (in - 1.) / (out - 1.) : 0
                         : offset ? in / (out + 0.1)
                                  : (double)in / whole;
    const double centre = corners ? 0 : 0.5; /* of the first patch */
    for (uint32_t o = 0; o < out; o++)
        point_taps(&t, o, (o + centre) * scale - centre, in);
    return FOVEA_OK;
}

fovea_status fv_posemb_plan(fv_posemb_table *out, enum fv_pos_rule rule, uint32_t in_w,
                            uint32_t in_h, uint32_t out_w, uint32_t out_h)
{
    *out = (fv_posemb_table){0};
    if (!in_w || !in_h || !out_w || !out_h || in_w > SIDE_MAX || in_h > SIDE_MAX ||
        out_w > SIDE_MAX || out_h > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "positions: a table of %ux%u cannot be resized to a grid of %ux%u; use a "
                       "smaller picture",
                       in_w, in_h, out_w, out_h);
    const bool same = in_w == out_w && in_h == out_h;
    const uint32_t longer = out_w > out_h ? out_w : out_h;
    const bool cut = rule == FV_POS_CROPPED;
    FV_TRY(position_taps(&out->taps_x, &out->index_x, &out->weight_x, rule, same, in_w, out_w,
                         cut ? longer : out_w));
    return position_taps(&out->taps_y, &out->index_y, &out->weight_y, rule, same, in_h, out_h,
                         cut ? longer : out_h);
}

void fv_posemb_free(fv_posemb_table *t)
{
    fv_mem_free(t->index_x);
    fv_mem_free(t->index_y);
    fv_mem_free(t->weight_x);
    fv_mem_free(t->weight_y);
    *t = (fv_posemb_table){0};
}
