/* picture_text.c: fovea_preprocess_text: describes a preprocessing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <fovea/models.h>

#include "base/abi.h"

struct text {
    char *at;
    size_t capacity;
};

/* Appends to the text, which is truncated at its capacity. */
FV_PRINTF(2, 3) static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->at, t->capacity, format, args);
    va_end(args);
    const size_t used = n < 0 ? 0 : (size_t)n < t->capacity ? (size_t)n : t->capacity - 1;
    t->at += used;
    t->capacity -= used;
}

static void add_resize(struct text *t, const fovea_preprocess *p)
{
    const uint32_t w = p->resize_width, h = p->resize_height;
    switch (p->resize) {
    case FOVEA_RESIZE_NONE:
        add(t, "no resize");
        break;
    case FOVEA_RESIZE_SHORT:
        if (p->short_edge)
            add(t, "short side to %u", p->short_edge);
        else
            add(t, "to cover %ux%u", p->crop_width, p->crop_height);
        break;
    case FOVEA_RESIZE_EXACT:
        add(t, "to %ux%u", w, h);
        break;
    case FOVEA_RESIZE_BOX:
        add(t, "the box around a person to %ux%u", w, h);
        break;
    case FOVEA_RESIZE_PATCHES:
        add(t, "to at most %u patches of %u pixels", p->most_patches, p->patch);
        break;
    case FOVEA_RESIZE_FLOORED:
        add(t, "short side to %u, long side to %u at most, in multiples of %u", p->short_edge,
            p->long_edge, p->patch);
        break;
    case FOVEA_RESIZE_AREA:
        add(t, "to multiples of %u with an area of %u to %u pixels", p->patch, p->least_area,
            p->most_area);
        break;
    case FOVEA_RESIZE_SHRINK:
        add(t, "into %ux%u unless smaller, in multiples of %u", w, h, p->patch);
        break;
    case FOVEA_RESIZE_FIT:
        add(t, "to %u wide or %u high in multiples of %u", w, h, p->patch);
        break;
    case FOVEA_RESIZE_LONG:
        add(t, "long side to %u", p->long_edge);
        break;
    case FOVEA_RESIZE_BOUNDED:
        add(t, "short side to %u, long side to %u at most", p->short_edge, p->long_edge);
        break;
    case FOVEA_RESIZE_WITHIN:
    case FOVEA_RESIZE_INSIDE:
        add(t, "into %ux%u", w, h);
        break;
    case FOVEA_RESIZE_COVER:
        add(t, "to cover %ux%u", w, h);
        break;
    }
}

static void add_filter(struct text *t, const fovea_preprocess *p)
{
    static const char *const filters[] = {
        [FOVEA_FILTER_BILINEAR] = "bilinear", [FOVEA_FILTER_BICUBIC] = "bicubic",
        [FOVEA_FILTER_LANCZOS] = "Lanczos",   [FOVEA_FILTER_NEAREST] = "nearest",
        [FOVEA_FILTER_BOX] = "box",           [FOVEA_FILTER_HAMMING] = "Hamming",
    };
    static const char *const ways[] = {
        [FOVEA_RESAMPLE_TORCHVISION] = "bytes as torchvision",
        [FOVEA_RESAMPLE_PILLOW] = "bytes as Pillow",
        [FOVEA_RESAMPLE_FLOAT] = "floats as torchvision",
    };
    if (p->resize == FOVEA_RESIZE_BOX || (p->resize == FOVEA_RESIZE_NONE && !p->first_multiple))
        return;
    if ((size_t)p->filter < sizeof filters / sizeof *filters)
        add(t, ", %s%s", p->blur ? "blurred, " : "", filters[p->filter]);
    if (p->no_antialias)
        add(t, " without antialias");
    if ((size_t)p->resample < sizeof ways / sizeof *ways)
        add(t, ", %s", ways[p->resample]);
}

static void add_pad(struct text *t, const fovea_preprocess *p)
{
    if (p->pad == FOVEA_PAD_BLACK)
        add(t, ", black to %ux%u", p->pad_width, p->pad_height);
    else if (p->pad == FOVEA_PAD_ZERO)
        add(t, ", zeros to %ux%u", p->pad_width, p->pad_height);
    else if (p->pad == FOVEA_PAD_CENTRED)
        add(t, ", zeros around to multiples of %ux%u", p->pad_width, p->pad_height);
}

static void add_colours(struct text *t, const fovea_preprocess *p)
{
    const double rescale = p->rescale > 0 ? (double)p->rescale : 1.0 / 255;
    const float *m = p->mean, *s = p->std;
    if (rescale * 255 < 0.999 || rescale * 255 > 1.001)
        add(t, ", values times %.4g", rescale);
    if (m[0] != 0 || m[1] != 0 || m[2] != 0 || s[0] != 1 || s[1] != 1 || s[2] != 1)
        add(t, ", mean %.3g %.3g %.3g, std %.3g %.3g %.3g", (double)m[0], (double)m[1],
            (double)m[2], (double)s[0], (double)s[1], (double)s[2]);
    else
        add(t, ", not normalised");
}

fovea_status fovea_preprocess_text(const fovea_preprocess *p, char *text, size_t capacity)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    struct text t = {text, capacity};
    FV_TRY(fv_require(p, "the preprocess"));
    FV_TRY(fv_require(text, "the text"));
    if (capacity == 0)
        return fv_fail(FOVEA_EINVAL,
                       "`capacity` is 0; it must be at least 1, for the terminating null");
    FV_TRY(FV_ABI_READ(own, p, FOVEA_PREPROCESS_INIT));
    if (own.pad == FOVEA_PAD_SQUARE)
        add(&t, "black to a square, ");
    if (own.first_long_edge)
        add(&t, "long side to %u, then ", own.first_long_edge);
    if (own.first_multiple)
        add(&t, "to multiples of %u, then ", own.first_multiple);
    add_resize(&t, &own);
    add_filter(&t, &own);
    if (own.crop_width && own.crop_height)
        add(&t, ", centre %ux%u", own.crop_width, own.crop_height);
    add_pad(&t, &own);
    if (own.split)
        add(&t, ", squares of %u", own.short_edge);
    add_colours(&t, &own);
    return FOVEA_OK;
}
