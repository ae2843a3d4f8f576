/* preprocess.c: tables that carry a picture to normalised patches: resize, crop, colour, positions.
 */
#include "ops/preprocess.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"

/* Longest side of a picture in pixels, before and after its resize. */
#define SIDE_MAX (1u << 20)
#define TABLE_MAX (1u << 26) /* weights of one axis: only much padding around little takes more */
#define FIXED_BITS 22
#define VALUE_MOST 1e6 /* the limit of preprocessor files too */
#define PI 3.14159265358979323846

/* ---- filters of the antialiased resize; each is zero from its support on ---- */

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

/* The cubic of Keys; a is the slope at 1. */
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

struct filter {
    double (*value)(double x);
    double support;
};

/* FOVEA_FILTER_NEAREST has no window: it is sampled, see nearest_taps. */
static const struct filter filters[] = {
    [FOVEA_FILTER_BILINEAR] = {triangle, 1.0}, [FOVEA_FILTER_BICUBIC] = {bicubic, 2.0},
    [FOVEA_FILTER_LANCZOS] = {lanczos, 3.0},   [FOVEA_FILTER_NEAREST] = {0},
    [FOVEA_FILTER_BOX] = {box, 0.5},           [FOVEA_FILTER_HAMMING] = {hamming, 1.0},
};

/* Taps of a position at most. */
static uint32_t window_taps(const struct filter *f, uint32_t in, uint32_t out)
{
    double scale = fmax((double)in / out, 1.0);
    return (uint32_t)ceil(f->support * scale) * 2 + 1;
}

/* The filter stretched over `scale` input positions when the axis shrinks, and normalised: taps of
 * position `o`, of which the first is *start. Returns their number. This is Pillow's arithmetic. */
static uint32_t window(double *weight, uint32_t *start, const struct filter *f, uint32_t in,
                       uint32_t out, uint32_t o)
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

/* ---- the two passes of a picture's resize ---- */

/* One axis: `in` positions become `whole`, of which [offset, offset + size) are kept; those outside
 * [0, whole) have no taps and come out black. */
struct axis {
    uint32_t in, whole, size;
    int64_t offset;
};

static int32_t fixed(double w)
{
    return (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << FIXED_BITS));
}

/* The nearest filter steps along the axis by repeated addition, as Pillow does: another rounding
 * would pick other pixels. */
static void nearest_taps(fv_resize_table *out, const struct axis *a)
{
    const double step = (double)a->in / a->whole;
    double at = step * 0.5;
    for (int64_t o = 0; o < a->whole && o < a->offset + a->size; o++, at += step) {
        if (o < a->offset || at >= a->in)
            continue;
        const size_t i = (size_t)(o - a->offset);
        out->start[i] = (uint32_t)at;
        out->count[i] = 1;
        out->weight[i] = 1 << FIXED_BITS;
    }
}

static fovea_status window_taps_fill(fv_resize_table *out, const struct axis *a,
                                     const struct filter *f)
{
    double *weight;
    FV_TRY(FV_MEM_ARRAY(&weight, out->taps, FV_MEM_PLAN, "resize taps"));
    for (uint32_t i = 0; i < a->size; i++) {
        const int64_t o = i + a->offset;
        if (o < 0 || o >= a->whole)
            continue;
        out->count[i] = window(weight, &out->start[i], f, a->in, a->whole, (uint32_t)o);
        for (uint32_t t = 0; t < out->count[i]; t++)
            out->weight[(size_t)i * out->taps + t] = fixed(weight[t]);
    }
    fv_mem_free(weight);
    return FOVEA_OK;
}

static fovea_status resize_table(fv_resize_table *out, const struct axis *a, fovea_filter filter)
{
    const struct filter *f = &filters[filter];
    const bool sampled = a->in == a->whole || filter == FOVEA_FILTER_NEAREST;
    out->size = a->size;
    out->taps = sampled ? 1 : window_taps(f, a->in, a->whole);
    if (fv_size_mul(a->size, out->taps) > TABLE_MAX)
        return fv_fail(
            FOVEA_EINVAL,
            "preprocess: %u pixels become %u, padded to %u, by a table of %.0f MiB; make "
            "the crop smaller or the resize larger",
            a->in, a->whole, a->size, (double)a->size * out->taps * 4 / (1 << 20));
    FV_TRY(FV_MEM_ARRAY(&out->start, a->size, FV_MEM_PLAN, "resize starts"));
    FV_TRY(FV_MEM_ARRAY(&out->count, a->size, FV_MEM_PLAN, "resize counts"));
    FV_TRY(
        FV_MEM_ARRAY(&out->weight, fv_size_mul(a->size, out->taps), FV_MEM_PLAN, "resize weights"));
    if (!sampled)
        return window_taps_fill(out, a, f);
    nearest_taps(out, a);
    return FOVEA_OK;
}

static void resize_table_free(fv_resize_table *t)
{
    fv_mem_free(t->start);
    fv_mem_free(t->count);
    fv_mem_free(t->weight);
    *t = (fv_resize_table){0};
}

/* A side that has become `scale` times as long, in whole patches, at least one. */
static uint64_t in_patches(uint32_t side, double scale, uint32_t patch)
{
    const double patches = ceil(side * scale / patch);
    return patch * (patches > 1 ? (uint64_t)patches : 1);
}

/* The largest scale at which the picture has no more patches, by halves, to 1e-5 as NaFlex's image
 * processor has it. */
static void fit_patches(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const uint32_t in_w = (uint32_t)*w, in_h = (uint32_t)*h;
    const uint64_t most = (uint64_t)p->most_patches * p->patch * p->patch;
    double low = 1e-6, high = 100;
    while (high - low >= 1e-5) {
        const double scale = (low + high) / 2;
        *w = in_patches(in_w, scale, p->patch);
        *h = in_patches(in_h, scale, p->patch);
        if (*w * *h <= most)
            low = scale;
        else
            high = scale;
    }
    *w = in_patches(in_w, low, p->patch);
    *h = in_patches(in_h, low, p->patch);
}

/* By the factor nearer to 1 of the two that make a side what is wanted, to whole patches, halves to
 * even numbers of them. */
static void fit_side(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const double across = (double)p->resize_width / (double)*w;
    const double down = (double)p->resize_height / (double)*h;
    const double scale = fabs(1 - across) < fabs(1 - down) ? across : down;
    *w = (uint64_t)rint(scale * (double)*w / p->patch) * p->patch;
    *h = (uint64_t)rint(scale * (double)*h / p->patch) * p->patch;
}

/* The size a picture takes before its crop. The longer side is rounded down, as by the image
 * processors; products fit 64 bits because no factor exceeds 32. */
static fovea_status resized(uint32_t *width, uint32_t *height, const fovea_preprocess *p,
                            uint32_t in_w, uint32_t in_h)
{
    uint64_t w = in_w, h = in_h;
    if (p->resize == FOVEA_RESIZE_EXACT) {
        w = p->resize_width;
        h = p->resize_height;
    } else if (p->resize == FOVEA_RESIZE_SHORT) {
        /* The box to be covered: a square, unless it is the crop. */
        const uint64_t bw = p->short_edge ? p->short_edge : p->crop_width;
        const uint64_t bh = p->short_edge ? p->short_edge : p->crop_height;
        const bool by_width = in_w * bh <= in_h * bw;
        w = by_width ? bw : bh * in_w / in_h;
        h = by_width ? bw * in_h / in_w : bh;
    } else if (p->resize == FOVEA_RESIZE_PATCHES) {
        if (p->patch < 1 || p->patch > SIDE_MAX || p->most_patches < 1)
            return fv_fail(FOVEA_EINVAL, "preprocess: a resize to %u patches of %u pixels",
                           p->most_patches, p->patch);
        fit_patches(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_FIT) {
        if (p->patch < 1 || p->patch > SIDE_MAX || p->resize_width > SIDE_MAX ||
            p->resize_height > SIDE_MAX)
            return fv_fail(FOVEA_EINVAL, "preprocess: a fit to %ux%u in patches of %u pixels",
                           p->resize_width, p->resize_height, p->patch);
        fit_side(&w, &h, p);
    } else if (p->resize != FOVEA_RESIZE_NONE) {
        return fv_fail(FOVEA_EINVAL, "preprocess: unknown resize rule %d", (int)p->resize);
    }
    if (w == 0 || h == 0)
        return fv_fail(FOVEA_EINVAL, "preprocess: a resize to %llux%llu; give it a size",
                       (unsigned long long)w, (unsigned long long)h);
    if (w > SIDE_MAX || h > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: a picture of %ux%u becomes %llux%llu, sides end at %u; crop it "
                       "first or resize to an exact size",
                       in_w, in_h, (unsigned long long)w, (unsigned long long)h, SIDE_MAX);
    *width = (uint32_t)w;
    *height = (uint32_t)h;
    return FOVEA_OK;
}

/* A centred crop; a crop larger than the picture pads both sides, the odd line on the low side. */
static struct axis cropped(uint32_t in, uint32_t whole, uint32_t crop)
{
    struct axis a = {in, whole, crop ? crop : whole, 0};
    const int64_t excess = (int64_t)whole - a.size;
    a.offset = excess >= 0 ? excess / 2 : -((1 - excess) / 2);
    return a;
}

void fv_resize_span(fv_resize_table *t)
{
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < t->size; i++)
        if (t->count[i]) {
            const uint32_t end = t->start[i] + t->count[i];
            low = t->start[i] < low ? t->start[i] : low;
            high = end > high ? end : high;
        }
    t->first = high ? low : 0;
    t->used = high - t->first;
}

/* Limits the horizontal pass to the rows that the vertical pass reads, whose starts then count from
 * the first of them. */
static void trim_rows(fv_picture *out)
{
    out->in_row0 = out->y.first;
    out->in_rows = out->y.used;
    for (uint32_t i = 0; i < out->y.size; i++)
        if (out->y.count[i])
            out->y.start[i] -= out->y.first;
    out->y.first = 0;
}

fovea_status fv_picture_plan(fv_picture *out, const fovea_preprocess *p, uint32_t in_w,
                             uint32_t in_h)
{
    *out = (fv_picture){0};
    if (in_w == 0 || in_h == 0 || in_w > SIDE_MAX || in_h > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL, "preprocess: a frame of %ux%u; sides go from 1 to %u", in_w,
                       in_h, SIDE_MAX);
    if ((unsigned)p->filter >= sizeof filters / sizeof *filters)
        return fv_fail(FOVEA_EINVAL, "preprocess: unknown filter %d", (int)p->filter);
    if (p->crop_width > SIDE_MAX || p->crop_height > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL, "preprocess: a crop of %ux%u; sides end at %u", p->crop_width,
                       p->crop_height, SIDE_MAX);
    uint32_t w = 0, h = 0;
    FV_TRY(resized(&w, &h, p, in_w, in_h));
    const struct axis x = cropped(in_w, w, p->crop_width), y = cropped(in_h, h, p->crop_height);
    out->width = x.size;
    out->height = y.size;
    out->scale_x = (double)in_w / w;
    out->scale_y = (double)in_h / h;
    out->left = (double)x.offset * out->scale_x;
    out->top = (double)y.offset * out->scale_y;
    if (x.size == in_w && y.size == in_h && w == in_w && h == in_h)
        return FOVEA_OK;
    out->resample = 1;
    FV_TRY(resize_table(&out->x, &x, p->filter));
    FV_TRY(resize_table(&out->y, &y, p->filter));
    fv_resize_span(&out->x);
    fv_resize_span(&out->y);
    trim_rows(out);
    return FOVEA_OK;
}

void fv_picture_free(fv_picture *p)
{
    resize_table_free(&p->x);
    resize_table_free(&p->y);
    *p = (fv_picture){0};
}

/* Whether x is a number from low to high. */
static bool between(float x, double low, double high)
{
    return (double)x >= low && (double)x <= high;
}

fovea_status fv_preprocess_complete(fovea_preprocess *out, const fovea_preprocess *p,
                                    const fovea_preprocess *usual)
{
    bool given = false;
    *out = *p;
    if (out->rescale == 0)
        out->rescale = 1.f / 255;
    for (int c = 0; c < 3; c++)
        given |= p->mean[c] != 0 || p->std[c] != 0;
    for (int c = 0; c < 3 && !given; c++) {
        out->mean[c] = usual->mean[c];
        out->std[c] = usual->std[c];
    }
    if (!between(out->rescale, 1 / VALUE_MOST, VALUE_MOST))
        return fv_fail(FOVEA_EINVAL, "preprocess: rescale %g; give 1e-6 to 1e6, or 0 (1/255)",
                       (double)out->rescale);
    for (int c = 0; c < 3; c++)
        if (!between(out->std[c], 1 / VALUE_MOST, VALUE_MOST) ||
            !between(out->mean[c], -VALUE_MOST, VALUE_MOST))
            return fv_fail(FOVEA_EINVAL,
                           "preprocess: channel %d has mean %g and std %g; give a std of 1e-6 to "
                           "1e6, a mean of at most 1e6, or zeros for the model's",
                           c, (double)out->mean[c], (double)out->std[c]);
    return FOVEA_OK;
}

void fv_patch_table_fill(fv_patch_table *out, const fovea_preprocess *p)
{
    for (int c = 0; c < 3; c++) {
        out->scale[c] = (float)((double)p->rescale / p->std[c]);
        out->shift[c] = (float)(-(double)p->mean[c] / p->std[c]);
    }
}

/* ---- position tables ---- */

struct taps {
    uint32_t taps;
    uint32_t *index;
    float *weight;
};

static uint32_t clamp_index(double i, uint32_t n)
{
    return i < 0 ? 0 : i > n - 1.0 ? n - 1 : (uint32_t)i;
}

/* Tap t of `taps` around source coordinate `at`: taps / 2 - 1 of them lie before its floor. */
static void point_taps(const struct taps *out, uint32_t o, double at, uint32_t in)
{
    const double base = floor(at);
    for (uint32_t t = 0; t < out->taps; t++) {
        const double i = base + t - (out->taps / 2 - 1.0);
        const double w = out->taps == 2 ? triangle(at - i) : cubic(at - i, -0.75);
        out->index[(size_t)o * out->taps + t] = clamp_index(i, in);
        out->weight[(size_t)o * out->taps + t] = (float)w;
    }
}

/* The filter of an antialiased rule, else NULL. */
static const struct filter *window_filter(enum fv_pos_rule rule)
{
    return rule == FV_POS_AA            ? &filters[FOVEA_FILTER_BICUBIC]
           : rule == FV_POS_BILINEAR_AA ? &filters[FOVEA_FILTER_BILINEAR]
                                        : NULL;
}

static fovea_status window_positions(const struct taps *out, const struct filter *filter,
                                     uint32_t in, uint32_t n)
{
    double *weight;
    FV_TRY(FV_MEM_ARRAY(&weight, out->taps, FV_MEM_PLAN, "position taps"));
    for (uint32_t o = 0; o < n; o++) {
        uint32_t start;
        const uint32_t count = window(weight, &start, filter, in, n, o);
        for (uint32_t t = 0; t < count; t++) {
            out->index[(size_t)o * out->taps + t] = start + t;
            out->weight[(size_t)o * out->taps + t] = (float)weight[t];
        }
    }
    fv_mem_free(weight);
    return FOVEA_OK;
}

/* q of FV_POS_PROGRESSION, of a table that has `in` and a grid that has `out` offsets beside the
 * middle: bisected as BEiT's authors do, whose last guess counts. */
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

/* Border i between `in` buckets of the range 0 to 1, with the rounding of PyTorch's arange on CPUs,
 * which decides where places and borders coincide: to single precision at every eighth border, and
 * from there on at each; alone behind the last sixteen. */
static float bucket_border(uint32_t i, uint32_t in)
{
    const double step = 1.0 / in, size = ceil((1 - step) / step);
    const uint32_t eighth = i < (uint32_t)size / 16 * 16 ? i % 8 : 0;
    return (float)((double)(float)(step + step * (i - eighth)) + eighth * step);
}

/* Place o of `n` lies at o / n, in single precision as well. */
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
    const struct filter *filter = window_filter(rule);
    const bool linear =
        rule == FV_POS_BILINEAR || rule == FV_POS_CROPPED || rule == FV_POS_PROGRESSION;
    const bool buckets = rule == FV_POS_BUCKETS;
    *taps = same || buckets ? 1 : filter ? window_taps(filter, in, out) : linear ? 2 : 4;
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
    const double scale = rule == FV_POS_OFFSET ? in / (out + 0.1) : (double)in / whole;
    for (uint32_t o = 0; o < out; o++)
        point_taps(&t, o, (o + 0.5) * scale - 0.5, in);
    return FOVEA_OK;
}

fovea_status fv_posemb_plan(fv_posemb_table *out, enum fv_pos_rule rule, uint32_t in_w,
                            uint32_t in_h, uint32_t out_w, uint32_t out_h)
{
    *out = (fv_posemb_table){0};
    if (!in_w || !in_h || !out_w || !out_h || in_w > SIDE_MAX || in_h > SIDE_MAX ||
        out_w > SIDE_MAX || out_h > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL, "positions: a table of %ux%u for a grid of %ux%u", in_w, in_h,
                       out_w, out_h);
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
