/* preprocess.c: plans how a picture is converted to normalised patches: sizes, crop, padding,
 * colour. */
#include "ops/preprocess.h"

#include <math.h>

/* Maximum side of a picture in pixels, before and after its resize. */
#define SIDE_MAX (1u << 20)
#define VALUE_MOST 1e6      /* maximum of statistics; preprocessor files have the same limit */
#define TILED_SIDE_MAX 4096 /* maximum side of Idefics3's first resize */
#define ASPECT_MOST 200u    /* largest ratio of sides, as in transformers, for FOVEA_RESIZE_AREA */

/* ---- sizes ---- */

/* Returns the length of a side that is scaled by `scale`, rounded up to whole patches, at least
 * one. */
static uint64_t in_patches(uint32_t side, double scale, uint32_t patch)
{
    const double patches = ceil(side * scale / patch);
    return patch * (patches > 1 ? (uint64_t)patches : 1);
}

/* Scales the picture as much as the maximum number of patches allows. Bisects the scale down to
 * 1e-5, as NaFlex's image processor does. */
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

/* Scales by the ratio of widths or of heights, whichever is nearer to 1; then rounds both sides to
 * whole patches, halves to an even number. */
static void fit_side(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const double across = (double)p->resize_width / (double)*w;
    const double down = (double)p->resize_height / (double)*h;
    const double scale = fabs(1 - across) < fabs(1 - down) ? across : down;
    *w = (uint64_t)rint(scale * (double)*w / p->patch) * p->patch;
    *h = (uint64_t)rint(scale * (double)*h / p->patch) * p->patch;
}

/* SAM: scales the longer side to `long_edge`; rounds both sides to the nearest pixel. */
static void fit_long(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const double scale = (double)p->long_edge / (double)(*w > *h ? *w : *h);
    *w = (uint64_t)((double)*w * scale + 0.5);
    *h = (uint64_t)((double)*h * scale + 0.5);
}

/* DETR: scales the shorter side to `short_edge`, or to less if the longer side would exceed
 * `long_edge`. The shorter side is then rounded to the nearest pixel. The longer side is computed
 * from the shorter side's exact length, and rounded down. */
static void fit_bounded(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const bool upright = *w < *h;
    const double least = (double)(upright ? *w : *h), most = (double)(upright ? *h : *w);
    double exact = p->short_edge, edge = exact;
    if (most / least * exact > p->long_edge) {
        exact = (double)p->long_edge * least / most;
        edge = rint(exact);
    }
    if (least == edge)
        return;
    *(upright ? w : h) = (uint64_t)edge;
    *(upright ? h : w) = (uint64_t)(exact * most / least);
}

/* Scales the picture to the largest size inside resize_width x resize_height, and rounds both sides
 * down. */
static void fit_within(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const double across = (double)p->resize_width / (double)*w;
    const double down = (double)p->resize_height / (double)*h;
    const double scale = across < down ? across : down;
    *w = (uint64_t)((double)*w * scale);
    *h = (uint64_t)((double)*h * scale);
}

/* Scales by the larger (`cover`) or smaller of the ratios to resize_width and resize_height. Like
 * timm and OpenCLIP, divides by the inverse and rounds both sides to the nearest pixel, halves to
 * even. */
static void fit_rounded(uint64_t *w, uint64_t *h, const fovea_preprocess *p, bool cover)
{
    const double across = (double)*w / p->resize_width, down = (double)*h / p->resize_height;
    const double ratio = (across < down) == cover ? across : down;
    *w = (uint64_t)rint((double)*w / ratio);
    *h = (uint64_t)rint((double)*h / ratio);
}

static uint64_t multiple_of(double side, uint32_t unit)
{
    return (uint64_t)ceil(side / unit) * unit;
}

/* Qwen2-VL: rounds both sides to multiples of `patch`, halves to even. If the area is then too
 * large or too small, scales both by one factor and rounds down or up. */
static void fit_area(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const double in_w = (double)*w, in_h = (double)*h, unit = p->patch;
    double across = rint(in_w / unit) * unit, down = rint(in_h / unit) * unit;
    if (across * down > p->most_area) {
        const double shrink = sqrt(in_h * in_w / p->most_area);
        across = fmax(unit, floor(in_w / shrink / unit) * unit);
        down = fmax(unit, floor(in_h / shrink / unit) * unit);
    } else if (across * down < p->least_area) {
        const double grow = sqrt(p->least_area / (in_h * in_w));
        across = ceil(in_w * grow / unit) * unit;
        down = ceil(in_h * grow / unit) * unit;
    }
    *w = (uint64_t)across;
    *h = (uint64_t)down;
}

/* Pixtral: scales a picture that is too large, rounding down; then rounds up to multiples of
 * `patch`. */
static void fit_shrunk(uint64_t *w, uint64_t *h, const fovea_preprocess *p)
{
    const double ratio = fmax((double)*h / p->resize_height, (double)*w / p->resize_width);
    if (ratio > 1) {
        *w = (uint64_t)floor((double)*w / ratio);
        *h = (uint64_t)floor((double)*h / ratio);
    }
    *w = multiple_of((double)*w, p->patch);
    *h = multiple_of((double)*h, p->patch);
}

static fovea_status area_check(const fovea_preprocess *p, uint32_t w, uint32_t h)
{
    const uint32_t longer = w > h ? w : h, shorter = w > h ? h : w;
    if (p->least_area < 1 || p->most_area < p->least_area)
        return fv_fail(
            FOVEA_EINVAL,
            "preprocess: the area is from %u to %u pixels; set least_area to at least 1, "
            "and most_area to at least least_area",
            p->least_area, p->most_area);
    if (longer > ASPECT_MOST * (uint64_t)shorter)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: a picture of %ux%u is too narrow; one side is at most %u times "
                       "as long as the other, so crop it first",
                       w, h, ASPECT_MOST);
    return FOVEA_OK;
}

/* Idefics3's first resize: scales the longer side to `edge`, rounds the other side down, then up to
 * an even number. Shrinks both sides if the longer side exceeds the maximum for tiles. */
static void fit_even(uint64_t *w, uint64_t *h, uint32_t edge)
{
    const double aspect = (double)*w / (double)*h;
    const bool wide = *w >= *h;
    uint64_t other = (uint64_t)(wide ? edge / aspect : edge * aspect);
    other += other % 2;
    uint64_t longer = edge;
    other = other ? other : 1;
    if (longer > TILED_SIDE_MAX) {
        const double now = wide ? (double)longer / (double)other : (double)other / (double)longer;
        longer = TILED_SIDE_MAX;
        other = (uint64_t)(wide ? TILED_SIDE_MAX / now : TILED_SIDE_MAX * now);
        other = other ? other : 1;
    }
    *w = wide ? longer : other;
    *h = wide ? other : longer;
}

/* Idefics3's second resize: rounds both sides up to multiples of `unit`. */
static void fit_multiple(uint64_t *w, uint64_t *h, uint32_t unit)
{
    const double aspect = (double)*w / (double)*h;
    if (*w >= *h) {
        *w = multiple_of((double)*w, unit);
        *h = multiple_of(floor((double)*w / aspect), unit);
    } else {
        *h = multiple_of((double)*h, unit);
        *w = multiple_of(floor((double)*h * aspect), unit);
    }
}

static fovea_status checked_size(uint32_t *width, uint32_t *height, uint64_t w, uint64_t h,
                                 uint32_t in_w, uint32_t in_h)
{
    if (w == 0 || h == 0)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: a picture of %ux%u would be resized to %llux%llu; set a size, "
                       "or use a picture that is less narrow",
                       in_w, in_h, (unsigned long long)w, (unsigned long long)h);
    if (w > SIDE_MAX || h > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: a picture of %ux%u would be resized to %llux%llu, but sides "
                       "are at most %u; crop it first or resize to an exact size",
                       in_w, in_h, (unsigned long long)w, (unsigned long long)h, SIDE_MAX);
    *width = (uint32_t)w;
    *height = (uint32_t)h;
    return FOVEA_OK;
}

static fovea_status patch_check(const fovea_preprocess *p)
{
    return p->patch >= 1 && p->patch <= SIDE_MAX
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL,
                         "preprocess: patch is %u pixels; this resize needs from 1 to %u", p->patch,
                         SIDE_MAX);
}

static fovea_status box_check(const fovea_preprocess *p)
{
    return p->resize_width && p->resize_height
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL,
                         "preprocess: the size is %ux%u pixels; set resize_width and "
                         "resize_height to at least 1",
                         p->resize_width, p->resize_height);
}

/* Computes the size of a picture after its resize, before its crop. The longer side is rounded
 * down, as by the image processors. Products fit 64 bits because no operand exceeds 32. */
static fovea_status resized(uint32_t *width, uint32_t *height, const fovea_preprocess *p,
                            uint32_t in_w, uint32_t in_h)
{
    uint64_t w = in_w, h = in_h;
    if (p->resize == FOVEA_RESIZE_EXACT) {
        w = p->resize_width;
        h = p->resize_height;
    } else if (p->resize == FOVEA_RESIZE_SHORT) {
        /* the box that the picture must cover: a square with side short_edge, or else the crop */
        const uint64_t bw = p->short_edge ? p->short_edge : p->crop_width;
        const uint64_t bh = p->short_edge ? p->short_edge : p->crop_height;
        const bool by_width = in_w * bh <= in_h * bw;
        w = by_width ? bw : bh * in_w / in_h;
        h = by_width ? bw * in_h / in_w : bh;
    } else if (p->resize == FOVEA_RESIZE_PATCHES) {
        FV_TRY(patch_check(p));
        if (p->most_patches < 1)
            return fv_fail(FOVEA_EINVAL, "preprocess: most_patches is 0; it must be at least 1");
        fit_patches(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_AREA) {
        FV_TRY(patch_check(p));
        FV_TRY(area_check(p, in_w, in_h));
        fit_area(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_SHRINK) {
        FV_TRY(patch_check(p));
        FV_TRY(box_check(p));
        fit_shrunk(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_FIT) {
        FV_TRY(patch_check(p));
        if (p->resize_width > SIDE_MAX || p->resize_height > SIDE_MAX)
            return fv_fail(FOVEA_EINVAL,
                           "preprocess: the size is %ux%u pixels; sides are at most %u",
                           p->resize_width, p->resize_height, SIDE_MAX);
        fit_side(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_LONG) {
        fit_long(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_BOUNDED) {
        fit_bounded(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_FLOORED) {
        FV_TRY(patch_check(p));
        fit_bounded(&w, &h, p);
        w -= w % p->patch;
        h -= h % p->patch;
    } else if (p->resize == FOVEA_RESIZE_WITHIN) {
        fit_within(&w, &h, p);
    } else if (p->resize == FOVEA_RESIZE_COVER || p->resize == FOVEA_RESIZE_INSIDE) {
        FV_TRY(box_check(p));
        fit_rounded(&w, &h, p, p->resize == FOVEA_RESIZE_COVER);
    } else if (p->resize != FOVEA_RESIZE_NONE) {
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: resize rule %d is unknown; choose a value of fovea_resize",
                       (int)p->resize);
    }
    if (p->patch && (p->resize == FOVEA_RESIZE_BOUNDED || p->resize == FOVEA_RESIZE_WITHIN)) {
        FV_TRY(patch_check(p));
        w = multiple_of((double)w, p->patch);
        h = multiple_of((double)h, p->patch);
    }
    return checked_size(width, height, w, h, in_w, in_h);
}

/* ---- the passes of a picture ---- */

/* Returns the number of pixels before a centred crop that it leaves out; `rule` decides how half of
 * an odd number is rounded. */
static int64_t before_crop(uint32_t excess, fovea_crop rule)
{
    return rule == FOVEA_CROP_EVEN ? (int64_t)rint(excess / 2.0) : excess / 2;
}

/* Returns the padding before the picture if the crop is larger; `rule` decides how half of an odd
 * number is rounded. */
static int64_t before_picture(uint32_t padding, fovea_crop rule)
{
    return rule == FOVEA_CROP_UP ? (padding + 1) / 2 : padding / 2;
}

/* Sets a centred crop of an axis to `wanted` positions (0: all), and pads it with black to `padded`
 * positions. */
static void crop(fv_axis *a, uint32_t wanted, fovea_crop rule, uint32_t padded)
{
    a->kept = wanted ? wanted : a->whole;
    a->offset = a->kept <= a->whole ? before_crop(a->whole - a->kept, rule)
                                    : -before_picture(a->kept - a->whole, rule);
    a->size = a->kept > padded ? a->kept : padded;
}

/* Limits the horizontal pass to the rows that the vertical pass reads. The starts of the vertical
 * pass then count from the first of these rows. */
static void trim_rows(fv_picture_resize *r)
{
    r->in_row0 = r->y.first;
    r->in_rows = r->y.used;
    for (uint32_t i = 0; i < r->y.size; i++)
        r->y.start[i] -= r->y.first;
    r->y.first = 0;
}

/* Adds a resize to the picture's list, unless it would change nothing. */
static fovea_status add_resize(fv_picture *out, const fv_axis *x, const fv_axis *y,
                               const fv_resampling *how, float rescale)
{
    const bool same = x->in == x->whole && y->in == y->whole && x->size == x->there &&
                      y->size == y->there && x->offset == 0 && y->offset == 0 &&
                      x->kept == x->size && y->kept == y->size;
    if (same)
        return FOVEA_OK;
    fv_picture_resize *r = &out->resize[out->resizes++];
    fv_resampling own = *how;
    own.fused = x->whole + y->whole <= 128;
    r->width = x->size;
    r->height = y->size;
    FV_TRY(fv_resize_table_make(&r->x, x, &own));
    r->x.scale = rescale;
    FV_TRY(fv_resize_table_make(&r->y, y, &own));
    FV_TRY(fv_resize_narrow(&r->x));
    trim_rows(r);
    return FOVEA_OK;
}

/* Returns the standard deviation of the Gaussian blur before a resize that shrinks `in` to `out`.
 */
static float blur_of(uint32_t in, uint32_t out)
{
    const float sigma = ((float)in / (float)out - 1.f) / 2.f;
    return sigma > 0 ? sigma : 0;
}

/* Adds a blur if both sides shrink. The Gaussians of the two axes are swapped, as in transformers;
 * for square results of square pictures they are equal. */
static void add_blur(fv_axis *x, fv_axis *y)
{
    const float across = blur_of(y->in, y->whole), down = blur_of(x->in, x->whole);
    if (across > 0 && down > 0) {
        x->sigma = across;
        y->sigma = down;
    }
}

static fovea_status rules_check(const fovea_preprocess *p)
{
    static const char *const names[] = {
        [FOVEA_FILTER_BILINEAR] = "bilinear", [FOVEA_FILTER_BICUBIC] = "bicubic",
        [FOVEA_FILTER_LANCZOS] = "Lanczos",   [FOVEA_FILTER_NEAREST] = "nearest",
        [FOVEA_FILTER_BOX] = "box",           [FOVEA_FILTER_HAMMING] = "Hamming",
    };
    if ((unsigned)p->filter >= sizeof names / sizeof *names)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: filter %d is unknown; choose a value of fovea_filter",
                       (int)p->filter);
    FV_TRY(fv_known("preprocess: resample", (int)p->resample, FOVEA_RESAMPLE_FLOAT));
    FV_TRY(fv_known("preprocess: crop", (int)p->crop, FOVEA_CROP_UP));
    FV_TRY(fv_known("preprocess: pad", (int)p->pad, FOVEA_PAD_CENTRED));
    const struct {
        const char *name;
        uint32_t value;
    } sides[] = {
        {"crop_width", p->crop_width},
        {"crop_height", p->crop_height},
        {"pad_width", p->pad_width},
        {"pad_height", p->pad_height},
        {"first_long_edge", p->first_long_edge},
        {"first_multiple", p->first_multiple},
    };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        if (sides[i].value > SIDE_MAX)
            return fv_fail(FOVEA_EINVAL, "preprocess: %s is %u; it must be at most %u",
                           sides[i].name, sides[i].value, SIDE_MAX);
    const bool narrow_filter = p->filter == FOVEA_FILTER_BILINEAR ||
                               p->filter == FOVEA_FILTER_BICUBIC ||
                               p->filter == FOVEA_FILTER_NEAREST;
    const bool boxy = p->filter == FOVEA_FILTER_BOX || p->filter == FOVEA_FILTER_HAMMING;
    if (p->resample != FOVEA_RESAMPLE_PILLOW && p->no_antialias && !narrow_filter)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: the %s filter needs antialias, as in torchvision; without "
                       "antialias use bilinear or bicubic",
                       names[p->filter]);
    if (p->resample == FOVEA_RESAMPLE_FLOAT && boxy)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: the %s filter cannot resize floats, as in torchvision; use "
                       "bilinear, bicubic, Lanczos or nearest",
                       names[p->filter]);
    if (p->blur && p->resample != FOVEA_RESAMPLE_FLOAT)
        return fv_fail(FOVEA_EINVAL, "preprocess: a blur before a resize needs floats; set "
                                     "resample to FOVEA_RESAMPLE_FLOAT");
    return FOVEA_OK;
}

/* Adds zeros around the complete picture. */
static fovea_status pad_zeros(fv_picture *out, const fovea_preprocess *p)
{
    const uint32_t width = out->inner.width, height = out->inner.height;
    out->width = width;
    out->height = height;
    if (p->pad == FOVEA_PAD_ZERO) {
        if (width > p->pad_width || height > p->pad_height)
            return fv_fail(FOVEA_EINVAL,
                           "preprocess: a picture of %ux%u cannot be padded to %ux%u; make the "
                           "padding larger or the resize smaller",
                           width, height, p->pad_width, p->pad_height);
        out->width = p->pad_width;
        out->height = p->pad_height;
    } else if (p->pad == FOVEA_PAD_CENTRED) {
        if (p->pad_width == 0 || p->pad_height == 0)
            return fv_fail(FOVEA_EINVAL,
                           "preprocess: padding to multiples of %ux%u pixels is not possible; set "
                           "pad_width and pad_height to at least 1",
                           p->pad_width, p->pad_height);
        uint32_t w = 0, h = 0;
        FV_TRY(checked_size(&w, &h, multiple_of(width, p->pad_width),
                            multiple_of(height, p->pad_height), width, height));
        out->width = w;
        out->height = h;
        out->inner.left = (w - width) / 2;
        out->inner.top = (h - height) / 2;
    }
    return FOVEA_OK;
}

static fovea_status picture_plan(fv_picture *out, const fovea_preprocess *p, uint32_t in_w,
                                 uint32_t in_h)
{
    const fv_resampling how = {
        .filter = p->filter, .resample = p->resample, .antialias = !p->no_antialias};
    const bool black = p->pad == FOVEA_PAD_BLACK;
    const float rescale = p->rescale != 0 ? p->rescale : 1.f / 255;
    fv_axis x = {.in = in_w, .there = in_w}, y = {.in = in_h, .there = in_h};
    if (p->pad == FOVEA_PAD_SQUARE)
        x.in = y.in = in_w > in_h ? in_w : in_h;
    const double whole_w = x.in, whole_h = y.in;
    for (int i = 0; i < 2; i++) {
        uint64_t w = x.in, h = y.in;
        if (!(i ? p->first_multiple : p->first_long_edge))
            continue;
        if (i)
            fit_multiple(&w, &h, p->first_multiple);
        else
            fit_even(&w, &h, p->first_long_edge);
        FV_TRY(checked_size(&x.whole, &y.whole, w, h, x.in, y.in));
        crop(&x, 0, p->crop, 0);
        crop(&y, 0, p->crop, 0);
        FV_TRY(add_resize(out, &x, &y, &how, rescale));
        x = (fv_axis){.in = x.whole, .there = x.whole};
        y = (fv_axis){.in = y.whole, .there = y.whole};
    }
    FV_TRY(resized(&x.whole, &y.whole, p, x.in, y.in));
    if (p->blur)
        add_blur(&x, &y);
    crop(&x, p->crop_width, p->crop, black ? p->pad_width : 0);
    crop(&y, p->crop_height, p->crop, black ? p->pad_height : 0);
    FV_TRY(add_resize(out, &x, &y, &how, rescale));
    out->floats = out->resizes && p->resample == FOVEA_RESAMPLE_FLOAT;
    out->inner.width = x.size;
    out->inner.height = y.size;
    FV_TRY(pad_zeros(out, p));
    out->scale_x = whole_w / x.whole;
    out->scale_y = whole_h / y.whole;
    out->left = ((double)x.offset - out->inner.left) * out->scale_x;
    out->top = ((double)y.offset - out->inner.top) * out->scale_y;
    return FOVEA_OK;
}

fovea_status fv_picture_plan(fv_picture *out, const fovea_preprocess *p, uint32_t in_w,
                             uint32_t in_h)
{
    *out = (fv_picture){0};
    if (in_w == 0 || in_h == 0 || in_w > SIDE_MAX || in_h > SIDE_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: the frame has %ux%u pixels; sides must be from 1 to %u", in_w,
                       in_h, SIDE_MAX);
    FV_TRY(rules_check(p));
    return picture_plan(out, p, in_w, in_h);
}

void fv_picture_free(fv_picture *p)
{
    for (uint32_t i = 0; i < p->resizes; i++) {
        fv_resize_table_free(&p->resize[i].x);
        fv_resize_table_free(&p->resize[i].y);
    }
    *p = (fv_picture){0};
}

uint64_t fv_picture_bytes(const fv_picture *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->resizes; i++)
        bytes += fv_resize_table_bytes(&p->resize[i].x) + fv_resize_table_bytes(&p->resize[i].y);
    return bytes;
}

/* ---- colour ---- */

/* Returns whether x is a number from low to high. */
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
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: rescale is %g; it must be from 1e-6 to 1e6, or 0 for 1/255",
                       (double)out->rescale);
    for (int c = 0; c < 3; c++)
        if (!between(out->std[c], 1 / VALUE_MOST, VALUE_MOST) ||
            !between(out->mean[c], -VALUE_MOST, VALUE_MOST))
            return fv_fail(
                FOVEA_EINVAL,
                "preprocess: channel %d has mean %g and std %g; std must be from 1e-6 to 1e6 and "
                "mean from -1e6 to 1e6, or set all to 0 for the model's values",
                c, (double)out->mean[c], (double)out->std[c]);
    return FOVEA_OK;
}

void fv_patch_table_fill(fv_patch_table *out, const fovea_preprocess *p, bool rescaled)
{
    const double rescale = rescaled ? 1 : (double)p->rescale;
    for (int c = 0; c < 3; c++) {
        out->scale[c] = (float)(rescale / p->std[c]);
        out->shift[c] = (float)(-(double)p->mean[c] / p->std[c]);
    }
}
