/* processor.c: preprocessing rules: the defaults of families, and those in files that transformers
 * writes. */
#include "checkpoint/processor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/processor_classes.h"

#define SWIN_UNCROPPED 384 /* from this number of pixels on, Swin's rule does not crop */
#define VALUE_LIMIT 1e6    /* limit of means and standard deviations */
#define PIXELS 65536
#define AREA_MOST (1u << 31)

/* ---- families ---- */

/* `edge` and `crop` are in pixels for a native size of 224; for other sizes they are scaled in
 * proportion. */
static const struct rule {
    fovea_resize resize;
    fovea_filter filter;
    uint32_t edge, crop;
    const fv_processor_colours3 *colours;
    fovea_resample resample;
    fovea_alpha alpha;
} rules[] = {
#define EXACT FOVEA_RESIZE_EXACT
#define SHORT FOVEA_RESIZE_SHORT
#define LINEAR FOVEA_FILTER_BILINEAR
#define CUBIC FOVEA_FILTER_BICUBIC
#define BYTES FOVEA_RESAMPLE_TORCHVISION
#define PILLOW FOVEA_RESAMPLE_PILLOW
#define FLOAT FOVEA_RESAMPLE_FLOAT
#define DROP FOVEA_ALPHA_DROP
#define WHITE FOVEA_ALPHA_WHITE
    [FV_PROCESSOR_VIT] = {EXACT, LINEAR, 224, 0, &fv_colours_half, BYTES, DROP},
    [FV_PROCESSOR_DEIT] = {EXACT, CUBIC, 256, 224, &fv_colours_half, BYTES, DROP},
    [FV_PROCESSOR_DINOV2] = {SHORT, CUBIC, 256, 224, &fv_colours_imagenet, BYTES, WHITE},
    [FV_PROCESSOR_DINOV3] = {EXACT, LINEAR, 224, 0, &fv_colours_imagenet, FLOAT, DROP},
    [FV_PROCESSOR_OWL] = {EXACT, CUBIC, 224, 0, &fv_colours_clip, BYTES, WHITE},
    [FV_PROCESSOR_OWLV2] = {EXACT, LINEAR, 224, 0, &fv_colours_clip, FLOAT, WHITE},
    [FV_PROCESSOR_CLIP] = {SHORT, CUBIC, 224, 224, &fv_colours_clip, BYTES, WHITE},
    [FV_PROCESSOR_RADIO] = {SHORT, CUBIC, 224, 224, &fv_colours_none, BYTES, WHITE},
    [FV_PROCESSOR_NAFLEX] = {FOVEA_RESIZE_PATCHES, LINEAR, 0, 0, &fv_colours_half, BYTES, DROP},
    [FV_PROCESSOR_SAM] = {FOVEA_RESIZE_LONG, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, WHITE},
    [FV_PROCESSOR_SAM2] = {EXACT, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, WHITE},
    [FV_PROCESSOR_EOMT] = {FOVEA_RESIZE_BOUNDED, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, DROP},
    [FV_PROCESSOR_SEGFORMER] = {EXACT, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, DROP},
    [FV_PROCESSOR_MASK2FORMER] = {EXACT, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, DROP},
    [FV_PROCESSOR_SIGLIP] = {EXACT, CUBIC, 224, 0, &fv_colours_half, BYTES, WHITE},
    [FV_PROCESSOR_BEIT] = {EXACT, CUBIC, 224, 0, &fv_colours_half, BYTES, DROP},
    [FV_PROCESSOR_IDEFICS] = {EXACT, FOVEA_FILTER_LANCZOS, 224, 0, &fv_colours_half, BYTES, WHITE},
    [FV_PROCESSOR_MAVIT] = {SHORT, CUBIC, 256, 224, &fv_colours_imagenet, PILLOW, DROP},
    [FV_PROCESSOR_TIMM] = {SHORT, CUBIC, 248, 224, &fv_colours_imagenet, PILLOW, DROP},
    [FV_PROCESSOR_DPT] = {FOVEA_RESIZE_FIT, CUBIC, 224, 0, &fv_colours_imagenet, BYTES, DROP},
    [FV_PROCESSOR_VITPOSE] = {FOVEA_RESIZE_BOX, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, DROP},
    [FV_PROCESSOR_SWIN] = {EXACT, CUBIC, 256, 224, &fv_colours_imagenet, PILLOW, DROP},
    [FV_PROCESSOR_LW_DETR] = {EXACT, LINEAR, 224, 0, &fv_colours_imagenet, BYTES, DROP},
    [FV_PROCESSOR_RF_DETR] = {EXACT, LINEAR, 224, 0, &fv_colours_imagenet, FLOAT, DROP},
    [FV_PROCESSOR_BLIP] = {EXACT, CUBIC, 224, 0, &fv_colours_clip, BYTES, WHITE},
    [FV_PROCESSOR_PIXIO] = {EXACT, CUBIC, 224, 0, &fv_colours_imagenet, BYTES, WHITE},
    [FV_PROCESSOR_TIPS] = {EXACT, LINEAR, 224, 0, &fv_colours_none, BYTES, WHITE},
#undef EXACT
#undef SHORT
#undef LINEAR
#undef CUBIC
#undef BYTES
#undef PILLOW
#undef FLOAT
#undef DROP
#undef WHITE
};

static uint32_t in_proportion(uint32_t edge, uint32_t native)
{
    uint64_t pixels = (uint64_t)edge * native / 224;
    return pixels == 0 && edge ? 1 : pixels > PIXELS ? PIXELS : (uint32_t)pixels;
}

static void pad_to(fovea_preprocess *p, fovea_pad pad, uint32_t width, uint32_t height)
{
    p->pad = pad;
    p->pad_width = width;
    p->pad_height = height;
}

/* Sets those fields that only one rule uses, except for sizes that scale with the picture. */
static void set_own(fovea_preprocess *p, enum fv_processor rule, uint32_t w, uint32_t h)
{
    const uint32_t side = w < h ? w : h;
    if (rule == FV_PROCESSOR_MAVIT && side > 224)
        p->short_edge = side;
    if (rule == FV_PROCESSOR_NAFLEX) {
        p->patch = 16;
        p->most_patches = 256;
    }
    if (rule == FV_PROCESSOR_DPT)
        p->patch = 14;
    if (rule == FV_PROCESSOR_SWIN && side >= SWIN_UNCROPPED) {
        p->resize_width = w;
        p->resize_height = h;
        p->crop_width = p->crop_height = 0;
    }
    if (rule == FV_PROCESSOR_SAM) {
        p->long_edge = w > h ? w : h;
        pad_to(p, FOVEA_PAD_ZERO, w, h);
    }
    if (rule == FV_PROCESSOR_EOMT) {
        p->short_edge = h;
        p->long_edge = w;
        pad_to(p, FOVEA_PAD_BLACK, w, h);
    }
    if (rule == FV_PROCESSOR_OWLV2) {
        p->blur = p->no_antialias = 1;
        p->pad = FOVEA_PAD_SQUARE;
    }
    if (rule == FV_PROCESSOR_IDEFICS) {
        p->first_long_edge = 4 * w;
        p->first_multiple = w;
    }
    if (rule == FV_PROCESSOR_RF_DETR)
        p->no_antialias = 1;
}

fovea_preprocess fv_processor_default(enum fv_processor rule, uint32_t native_width,
                                      uint32_t native_height)
{
    const struct rule *r = &rules[rule];
    uint32_t w = native_width, h = native_height;
    if (rule == FV_PROCESSOR_DINOV2 || rule == FV_PROCESSOR_DINOV3)
        w = h = 224;
    fovea_preprocess p = {
        .struct_size = sizeof p,
        .resize = r->resize,
        .filter = r->filter,
        .crop_width = in_proportion(r->crop, w),
        .crop_height = in_proportion(r->crop, h),
        .rescale = 1.0f / 255,
        .resample = r->resample,
        .alpha = r->alpha,
        .crop = r->resample == FOVEA_RESAMPLE_PILLOW ? FOVEA_CROP_EVEN : FOVEA_CROP_DOWN,
    };
    if (r->resize == FOVEA_RESIZE_SHORT) {
        p.short_edge = in_proportion(r->edge, w < h ? w : h);
    } else if (r->resize == FOVEA_RESIZE_EXACT || r->resize == FOVEA_RESIZE_FIT ||
               r->resize == FOVEA_RESIZE_BOX) {
        p.resize_width = in_proportion(r->edge, w);
        p.resize_height = in_proportion(r->edge, h);
    }
    set_own(&p, rule, w, h);
    memcpy(p.mean, r->colours->mean, sizeof p.mean);
    memcpy(p.std, r->colours->std, sizeof p.std);
    return p;
}

/* ---- values ---- */

/* transformers treats null as false, but a missing field gets the default of the class. */
static bool is_null(const fv_config *c, const char *key)
{
    return json_is_null(json_object_get(c->object, key));
}

static fovea_status read_flag(bool *out, const fv_config *c, const char *key)
{
    if (is_null(c, key))
        *out = false;
    return fv_config_bool(out, c, key);
}

fovea_status fv_processor_filter(fovea_filter *out, const fv_config *c, const char *key)
{
    static const char *const names[] = {
        [FOVEA_FILTER_BILINEAR] = "bilinear", [FOVEA_FILTER_BICUBIC] = "bicubic",
        [FOVEA_FILTER_LANCZOS] = "lanczos",   [FOVEA_FILTER_NEAREST] = "nearest",
        [FOVEA_FILTER_BOX] = "box",           [FOVEA_FILTER_HAMMING] = "hamming",
    };
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, c, key));
    if (!name)
        return FOVEA_OK;
    const int filter = fv_index_of(name, names, sizeof names / sizeof *names);
    if (filter < 0)
        return fv_config_fail(c, key, "bilinear, bicubic, lanczos, nearest, box or hamming");
    *out = (fovea_filter)filter;
    return FOVEA_OK;
}

/* Reads "resample": a name, or Pillow's number. */
static fovea_status read_resample(fovea_preprocess *out, const fv_config *c)
{
    static const uint8_t filters[] = {FOVEA_FILTER_NEAREST,  FOVEA_FILTER_LANCZOS,
                                      FOVEA_FILTER_BILINEAR, FOVEA_FILTER_BICUBIC,
                                      FOVEA_FILTER_BOX,      FOVEA_FILTER_HAMMING};
    uint32_t number = UINT32_MAX;
    if (json_is_string(fv_config_get(c, "resample")))
        return fv_processor_filter(&out->filter, c, "resample");
    FV_TRY(fv_config_u32(&number, c, "resample", 0, sizeof filters - 1));
    if (number != UINT32_MAX)
        out->filter = (fovea_filter)filters[number];
    return FOVEA_OK;
}

static fovea_status read_colour(float *out, const fv_config *c, const char *key, double least)
{
    if (!json_is_number(fv_config_get(c, key)))
        return fv_config_floats(out, 3, c, key, least, VALUE_LIMIT);
    FV_TRY(fv_config_float(out, c, key, least, VALUE_LIMIT));
    out[1] = out[2] = out[0];
    return FOVEA_OK;
}

fovea_status fv_processor_colours(fovea_preprocess *out, const fv_config *c, const char *mean,
                                  const char *std)
{
    FV_TRY(read_colour(out->mean, c, mean, -VALUE_LIMIT));
    return read_colour(out->std, c, std, 1e-6);
}

/* ---- sizes ---- */

#define SIZES                                                                                      \
    "pixels, [height, width], or an object with \"height\" and \"width\", \"shortest_edge\", "     \
    "\"longest_edge\", both edges, or \"max_height\" and \"max_width\""

/* Reads one side of a size; null means that this side is not given. */
static fovea_status read_side(fv_processor_size *out, const fv_config *c, const char *key,
                              const char *side)
{
    static const struct {
        const char *name;
        size_t at;
    } sides[] = {
        {"height", offsetof(fv_processor_size, height)},
        {"width", offsetof(fv_processor_size, width)},
        {"shortest_edge", offsetof(fv_processor_size, shortest)},
        {"longest_edge", offsetof(fv_processor_size, longest)},
        {"max_height", offsetof(fv_processor_size, most_height)},
        {"max_width", offsetof(fv_processor_size, most_width)},
    };
    fv_config section;
    FV_TRY(fv_config_section(&section, c, key));
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        if (strcmp(side, sides[i].name) == 0)
            return fv_config_u32((uint32_t *)(void *)((char *)out + sides[i].at), &section, side, 1,
                                 PIXELS);
    return fv_config_fail(c, key, SIZES);
}

/* Reads a size. If the field is missing, *out is unchanged; null clears *out. With `square`, a
 * single number is both sides, else the shortest edge. */
static fovea_status read_size(fv_processor_size *out, const fv_config *c, const char *key,
                              bool square)
{
    const json_t *value = fv_config_get(c, key);
    const char *side;
    json_t *unused;
    if (value || is_null(c, key))
        *out = (fv_processor_size){0};
    if (!json_is_object(value)) {
        uint32_t width = 0, height = 0;
        bool number = false;
        FV_TRY(fv_config_size(&width, &height, &number, c, key));
        if (value && number && !square)
            out->shortest = width;
        else if (value)
            *out = (fv_processor_size){.width = width, .height = height};
        return FOVEA_OK;
    }
    json_object_foreach((json_t *)(uintptr_t)value, side, unused) {
        (void)unused;
        FV_TRY(read_side(out, c, key, side));
    }
    const int pairs = (out->width || out->height) + (out->shortest || out->longest) +
                      (out->most_width || out->most_height);
    return pairs == 1 && !out->width == !out->height && !out->most_width == !out->most_height
               ? FOVEA_OK
               : fv_config_fail(c, key, SIZES);
}

static fovea_status refuse_size(const fv_config *c, const fv_processor_class *class,
                                const char *needed)
{
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: this kind of \"size\" cannot be used with %sImageProcessor, which needs %s",
                   c->file, class->name, needed);
}

/* ---- classes ---- */

/* The state while a file is read. */
struct reading {
    const fv_config *c;
    const fv_processor_class *class; /* NULL: the file names no class, so the family's rule
                                        applies */
    fovea_preprocess *out;
    fv_processor_size size, crop_size, pad_size;
    bool resizes, crops, rescales, normalises, converts, pads;
};

static enum fv_processor_way way(const struct reading *r)
{
    return r->class ? r->class->way : FV_WAY_PLAIN;
}

static fovea_status find_class(struct reading *r, const fv_processor_file *file)
{
    const char *name = NULL, *key = "image_processor_type", *nearest = "";
    FV_TRY(fv_config_text(&name, r->c, key));
    if (!name) {
        key = "feature_extractor_type";
        FV_TRY(fv_config_text(&name, r->c, key));
    }
    r->class =
        name ? fv_processor_class_named(name, &nearest) : fv_processor_class_of(file->model_type);
    return r->class || !name
               ? FOVEA_OK
               : fv_fail(
                     FOVEA_ENOTSUP,
                     "%s: \"%s\" is \"%.60s\", which is not known; the most similar known class is "
                     "%sImageProcessor. If it does the same, add \"fovea\": {\"preprocess\": "
                     "{\"%s\": \"%sImageProcessor\"}} to config.json, with the fields that differ",
                     r->c->file, key, name, nearest, key, nearest);
}

/* Sets the defaults of the class. */
static void begin(struct reading *r)
{
    const fv_processor_class *class = r->class;
    fovea_preprocess *p = r->out;
    r->resizes = r->rescales = r->normalises = true;
    if (!class) {
        r->size = (fv_processor_size){.width = p->resize_width,
                                      .height = p->resize_height,
                                      .shortest = p->short_edge,
                                      .longest = p->long_edge};
        r->crop_size = (fv_processor_size){.width = p->crop_width, .height = p->crop_height};
        r->crops = p->crop_width != 0;
        r->converts = p->alpha == FOVEA_ALPHA_WHITE;
        return;
    }
    *p = (fovea_preprocess){
        .struct_size = sizeof *p, .filter = class->filter, .rescale = 1.0f / 255};
    memcpy(p->mean, class->colours->mean, sizeof p->mean);
    memcpy(p->std, class->colours->std, sizeof p->std);
    r->size = class->size;
    r->crop_size = (fv_processor_size){.width = class->crop, .height = class->crop};
    r->crops = class->crops;
    r->pads = class->pads;
    r->converts = class->converts;
}

static fovea_status read_sizes(struct reading *r)
{
    bool square = r->class ? r->class->square : r->size.width != 0;
    FV_TRY(read_flag(&square, r->c, "default_to_square"));
    if (way(r) != FV_WAY_AREA) /* there, "size" limits the area */
        FV_TRY(read_size(&r->size, r->c, "size", square));
    square = false;
    FV_TRY(read_flag(&square, r->c, "use_square_size")); /* CLIP's class reads it, whatever
                                                            "size" is */
    if (square)
        r->size = (fv_processor_size){.width = 224, .height = 224};
    const bool detr = way(r) == FV_WAY_DETR || way(r) == FV_WAY_FLOORED;
    const bool edges = detr || way(r) == FV_WAY_DIVIDED;
    if (edges && is_null(r->c, "size"))
        r->size = r->class->size;
    if (detr && r->size.shortest && !json_is_object(fv_config_get(r->c, "size"))) {
        r->size.longest = 1333;
        FV_TRY(fv_config_u32(&r->size.longest, r->c, "max_size", 1, PIXELS));
    }
    FV_TRY(read_size(&r->crop_size, r->c, "crop_size", true));
    if (way(r) == FV_WAY_LONG && r->class)
        r->pad_size = (fv_processor_size){.width = 1024, .height = 1024};
    return read_size(&r->pad_size, r->c, "pad_size", true);
}

static fovea_status read_flags(struct reading *r)
{
    FV_TRY(read_flag(&r->resizes, r->c, "do_resize"));
    FV_TRY(read_flag(&r->crops, r->c, "do_center_crop"));
    if (r->class && json_object_get(r->c->object, "rescale")) /* OWL's older files have this key */
        FV_TRY(read_flag(&r->rescales, r->c, "rescale"));
    else
        FV_TRY(read_flag(&r->rescales, r->c, "do_rescale"));
    FV_TRY(read_flag(&r->normalises, r->c, "do_normalize"));
    if (way(r) == FV_WAY_DETR || way(r) == FV_WAY_FLOORED)
        FV_TRY(read_flag(&r->pads, r->c, "pad_and_return_pixel_mask"));
    FV_TRY(read_flag(&r->pads, r->c, "do_pad"));
    return read_flag(&r->converts, r->c, "do_convert_rgb");
}

static fovea_status read_values(struct reading *r)
{
    fovea_preprocess *p = r->out;
    static const char *const needed[] = {"image_mean", "image_std"};
    for (int i = 0; i < 2; i++)
        if (r->normalises && is_null(r->c, needed[i]))
            return fv_config_fail(r->c, needed[i],
                                  "three numbers, because \"do_normalize\" is true");
    if (r->rescales && is_null(r->c, "rescale_factor"))
        return fv_config_fail(r->c, "rescale_factor", "a number, because \"do_rescale\" is true");
    if (r->resizes && is_null(r->c, "resample"))
        return fv_config_fail(r->c, "resample", "a filter, because \"do_resize\" is true");
    FV_TRY(read_resample(p, r->c));
    FV_TRY(fv_config_float(&p->rescale, r->c, "rescale_factor", 1e-9, VALUE_LIMIT));
    FV_TRY(fv_processor_colours(p, r->c, "image_mean", "image_std"));
    if (!r->rescales)
        p->rescale = 1;
    for (int i = 0; i < 3 && !r->normalises; i++) {
        p->mean[i] = 0;
        p->std[i] = 1;
    }
    p->alpha = r->converts ? FOVEA_ALPHA_WHITE : FOVEA_ALPHA_DROP;
    return FOVEA_OK;
}

static void resize_to(fovea_preprocess *p, uint32_t width, uint32_t height)
{
    p->resize = FOVEA_RESIZE_EXACT;
    p->resize_width = width;
    p->resize_height = height;
}

/* Reads the resize of classes without their own resize. */
static fovea_status resize_plain(struct reading *r)
{
    fovea_preprocess *p = r->out;
    const fv_processor_size *s = &r->size;
    p->short_edge = p->long_edge = p->resize_width = p->resize_height = 0;
    if (s->shortest) {
        p->resize = s->longest ? FOVEA_RESIZE_BOUNDED : FOVEA_RESIZE_SHORT;
        p->short_edge = s->shortest;
        p->long_edge = s->longest;
        return FOVEA_OK;
    }
    if (s->most_width) {
        p->resize = FOVEA_RESIZE_WITHIN;
        p->resize_width = s->most_width;
        p->resize_height = s->most_height;
        return FOVEA_OK;
    }
    resize_to(p, s->width, s->height);
    return s->width ? FOVEA_OK
                    : fv_config_fail(r->c, "size",
                                     "an object with \"height\" and \"width\", \"shortest_edge\", "
                                     "or \"max_height\" and \"max_width\"");
}

static fovea_status crop_plain(struct reading *r)
{
    const fv_processor_size *s = &r->crop_size;
    r->out->crop_width = r->crops ? s->width : 0;
    r->out->crop_height = r->crops ? s->height : 0;
    return !r->crops || s->width
               ? FOVEA_OK
               : fv_config_fail(
                     r->c, "crop_size",
                     "an object with \"height\" and \"width\", because \"do_center_crop\" is true");
}

/* Reads padding with zeros to "pad_size". Without this field, transformers pads pictures to the
 * largest of their batch. Here a batch is one picture, so nothing is padded. */
static fovea_status pad_plain(struct reading *r)
{
    const fv_processor_size *s = &r->pad_size;
    if (!r->pads || (!s->width && !s->shortest && !s->longest && !s->most_width))
        return FOVEA_OK;
    if (!s->width)
        return fv_config_fail(r->c, "pad_size", "an object with \"height\" and \"width\"");
    pad_to(r->out, FOVEA_PAD_ZERO, s->width, s->height);
    return FOVEA_OK;
}

static fovea_status read_plain(struct reading *r)
{
    if (way(r) == FV_WAY_SQUARE && r->pads)
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: \"do_pad\": padding to a square with the mean colour is not supported; pad the "
            "pictures, and add \"fovea\": {\"preprocess\": {\"do_pad\": false}} to config.json",
            r->c->file);
    if (r->resizes && (r->class || fv_config_get(r->c, "size")))
        FV_TRY(resize_plain(r));
    FV_TRY(crop_plain(r));
    return r->class ? pad_plain(r) : FOVEA_OK;
}

/* Reads the overview picture, scaled down, that a model gets in addition to tiles. */
static fovea_status read_whole(struct reading *r)
{
    const uint32_t side = r->size.shortest;
    if (side && !r->size.longest)
        resize_to(r->out, side, side);
    else if (r->size.width)
        resize_to(r->out, r->size.width, r->size.height);
    else
        return refuse_size(r->c, r->class, "\"shortest_edge\", or \"height\" and \"width\"");
    return crop_plain(r);
}

static fovea_status read_rescaled(struct reading *r)
{
    /* Only pictures that are rescaled before the resize are resized as floats. */
    r->out->resample = r->rescales ? FOVEA_RESAMPLE_FLOAT : FOVEA_RESAMPLE_TORCHVISION;
    FV_TRY(resize_plain(r));
    return crop_plain(r);
}

static fovea_status read_blurred(struct reading *r)
{
    fovea_preprocess *p = r->out;
    p->resample = FOVEA_RESAMPLE_FLOAT;
    p->filter = FOVEA_FILTER_BILINEAR; /* used whatever "resample" says */
    p->no_antialias = p->blur = 1;
    p->pad = r->pads ? FOVEA_PAD_SQUARE : FOVEA_PAD_NONE;
    resize_to(p, r->size.width, r->size.height);
    return r->size.width ? FOVEA_OK : refuse_size(r->c, r->class, "\"height\" and \"width\"");
}

static fovea_status read_patches(struct reading *r)
{
    fovea_preprocess *p = r->out;
    p->resize = FOVEA_RESIZE_PATCHES;
    p->patch = 16;
    p->most_patches = 256;
    FV_TRY(fv_config_u32(&p->patch, r->c, "patch_size", 1, PIXELS));
    return fv_config_u32(&p->most_patches, r->c, "max_num_patches", 1, 1u << 24);
}

static fovea_status read_tiles(struct reading *r)
{
    fovea_preprocess *p = r->out;
    fv_processor_size tile = {.longest = 364};
    bool tiles = true;
    FV_TRY(read_flag(&tiles, r->c, "do_image_splitting"));
    FV_TRY(read_size(&tile, r->c, "max_image_size", true));
    if (!tile.longest || tile.shortest)
        return fv_config_fail(r->c, "max_image_size", "an object with \"longest_edge\"");
    if (r->resizes && (!r->size.longest || r->size.shortest))
        return refuse_size(r->c, r->class, "\"longest_edge\"");
    p->first_long_edge = r->resizes ? r->size.longest : 0;
    p->first_multiple = tiles ? tile.longest : 0;
    resize_to(p, tile.longest, tile.longest);
    r->resizes = true;
    return FOVEA_OK;
}

static fovea_status read_long(struct reading *r)
{
    r->out->resize = FOVEA_RESIZE_LONG;
    r->out->long_edge = r->size.longest;
    if (r->resizes && (!r->size.longest || r->size.shortest))
        return refuse_size(r->c, r->class, "\"longest_edge\"");
    FV_TRY(crop_plain(r));
    return pad_plain(r);
}

static uint32_t rounded(uint32_t pixels, uint32_t multiple)
{
    return (uint32_t)rint((double)pixels / multiple) * multiple;
}

static fovea_status read_fit(struct reading *r)
{
    fovea_preprocess *p = r->out;
    bool aspect = r->class == NULL;
    uint32_t divisor = 0;
    p->patch = 1;
    FV_TRY(read_flag(&aspect, r->c, "keep_aspect_ratio"));
    FV_TRY(fv_config_u32(&p->patch, r->c, "ensure_multiple_of", 1, PIXELS));
    FV_TRY(fv_config_u32(&divisor, r->c, "size_divisor", 1, PIXELS));
    if (r->resizes && !r->size.width)
        return refuse_size(r->c, r->class, "\"height\" and \"width\"");
    resize_to(p, r->size.width, r->size.height);
    if (aspect)
        p->resize = FOVEA_RESIZE_FIT;
    else
        resize_to(p, rounded(p->resize_width, p->patch), rounded(p->resize_height, p->patch));
    if (r->resizes && (!p->resize_width || !p->resize_height))
        return fv_config_fail(r->c, "size", "at least half of \"ensure_multiple_of\"");
    if (r->pads && !divisor)
        return fv_config_fail(r->c, "size_divisor",
                              "a number of pixels, because \"do_pad\" is true");
    if (r->pads)
        pad_to(p, FOVEA_PAD_CENTRED, divisor, divisor);
    return crop_plain(r);
}

/* Reads the limits of the area: "size", or "min_pixels" and "max_pixels", and the side of the
 * squares of patches that the model merges. */
static fovea_status read_area(struct reading *r)
{
    fovea_preprocess *p = r->out;
    uint32_t patch = 14, merged = 2;
    fv_config size;
    FV_TRY(fv_config_section(&size, r->c, "size"));
    p->resize = FOVEA_RESIZE_AREA;
    p->least_area = size.object ? 0 : r->size.shortest;
    p->most_area = size.object ? 0 : r->size.longest;
    if (size.object) {
        FV_TRY(fv_config_u32(&p->least_area, &size, "shortest_edge", 1, AREA_MOST));
        FV_TRY(fv_config_u32(&p->most_area, &size, "longest_edge", 1, AREA_MOST));
    }
    FV_TRY(fv_config_u32(&p->least_area, r->c, "min_pixels", 1, AREA_MOST));
    FV_TRY(fv_config_u32(&p->most_area, r->c, "max_pixels", 1, AREA_MOST));
    FV_TRY(fv_config_u32(&patch, r->c, "patch_size", 1, PIXELS));
    FV_TRY(fv_config_u32(&merged, r->c, "merge_size", 1, PIXELS / patch));
    p->patch = patch * merged;
    return p->least_area && p->most_area >= p->least_area
               ? FOVEA_OK
               : refuse_size(r->c, r->class,
                             "\"shortest_edge\" and \"longest_edge\", the smallest and the "
                             "largest area in pixels");
}

static fovea_status read_shrink(struct reading *r)
{
    fovea_preprocess *p = r->out;
    const fv_processor_size *s = &r->size;
    uint32_t high = 16;
    bool square;
    p->patch = 16;
    FV_TRY(fv_config_size(&p->patch, &high, &square, r->c, "patch_size"));
    if (p->patch < 1 || p->patch > PIXELS || high != p->patch)
        return fv_config_fail(r->c, "patch_size", "equal \"height\" and \"width\"");
    p->resize_width = s->longest ? s->longest : s->width;
    p->resize_height = s->longest ? s->longest : s->height;
    p->resize = FOVEA_RESIZE_SHRINK;
    if (!p->resize_width || s->shortest)
        return refuse_size(r->c, r->class, "\"longest_edge\", or \"height\" and \"width\"");
    return crop_plain(r);
}

static fovea_status read_box(struct reading *r)
{
    resize_to(r->out, r->size.width, r->size.height);
    r->out->resize = FOVEA_RESIZE_BOX;
    return r->size.width ? FOVEA_OK : refuse_size(r->c, r->class, "\"height\" and \"width\"");
}

static fovea_status read_inside(struct reading *r)
{
    const fv_processor_size *s = &r->size;
    bool splits = false;
    FV_TRY(read_flag(&splits, r->c, "do_split_image"));
    if (!s->shortest && (splits || r->pads))
        return refuse_size(r->c, r->class, "\"shortest_edge\", with or without \"longest_edge\"");
    FV_TRY(resize_plain(r));
    r->out->split = splits;
    if (r->pads)
        pad_to(r->out, FOVEA_PAD_BLACK, s->longest ? s->longest : s->shortest, s->shortest);
    return FOVEA_OK;
}

/* transformers refuses a size with only one edge. */
static fovea_status check_edges(const struct reading *r)
{
    return !r->resizes || !r->size.longest == !r->size.shortest
               ? FOVEA_OK
               : refuse_size(r->c, r->class,
                             "\"height\" and \"width\", \"shortest_edge\" and "
                             "\"longest_edge\", or \"max_height\" and \"max_width\"");
}

static fovea_status read_divided(struct reading *r)
{
    fovea_preprocess *p = r->out;
    uint32_t unit = is_null(r->c, "size_divisor") ? 0 : 32;
    FV_TRY(fv_config_u32(&unit, r->c, "size_divisor", 0, PIXELS));
    FV_TRY(check_edges(r));
    FV_TRY(resize_plain(r));
    p->patch = unit;
    if (p->resize == FOVEA_RESIZE_EXACT && unit) {
        p->resize_width = (p->resize_width + unit - 1) / unit * unit;
        p->resize_height = (p->resize_height + unit - 1) / unit * unit;
    }
    return pad_plain(r);
}

static fovea_status read_detr(struct reading *r)
{
    if (r->class && r->class->floats) {
        r->out->resample = r->rescales ? FOVEA_RESAMPLE_FLOAT : FOVEA_RESAMPLE_TORCHVISION;
        r->out->no_antialias = 1;
    }
    FV_TRY(check_edges(r));
    FV_TRY(resize_plain(r));
    return pad_plain(r);
}

static fovea_status read_floored(struct reading *r)
{
    FV_TRY(read_detr(r));
    if (r->out->resize == FOVEA_RESIZE_BOUNDED) {
        r->out->resize = FOVEA_RESIZE_FLOORED;
        r->out->patch = 16;
    }
    return FOVEA_OK;
}

static fovea_status read_way(struct reading *r)
{
    static fovea_status (*const readers[])(struct reading *) = {
        [FV_WAY_PLAIN] = read_plain,   [FV_WAY_SQUARE] = read_plain,
        [FV_WAY_WHOLE] = read_whole,   [FV_WAY_RESCALE] = read_rescaled,
        [FV_WAY_BLUR] = read_blurred,  [FV_WAY_PATCHES] = read_patches,
        [FV_WAY_TILES] = read_tiles,   [FV_WAY_LONG] = read_long,
        [FV_WAY_FIT] = read_fit,       [FV_WAY_BOX] = read_box,
        [FV_WAY_INSIDE] = read_inside, [FV_WAY_DIVIDED] = read_divided,
        [FV_WAY_AREA] = read_area,     [FV_WAY_SHRINK] = read_shrink,
        [FV_WAY_DETR] = read_detr,     [FV_WAY_FLOORED] = read_floored,
    };
    FV_TRY(readers[way(r)](r));
    if (!r->resizes)
        r->out->resize = FOVEA_RESIZE_NONE;
    return FOVEA_OK;
}

fovea_status fv_processor_backend(fovea_preprocess *out, const fv_config *c, const char *key)
{
    static const char *const names[] = {"torchvision", "pil", "pillow"};
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, c, key));
    if (!name)
        return FOVEA_OK;
    const int backend = fv_index_of(name, names, sizeof names / sizeof *names);
    if (backend < 0)
        return fv_config_fail(c, key, "torchvision, pil or pillow");
    fv_processor_resample(out, backend ? FOVEA_RESAMPLE_PILLOW : FOVEA_RESAMPLE_TORCHVISION);
    return FOVEA_OK;
}

void fv_processor_resample(fovea_preprocess *out, fovea_resample resample)
{
    const bool pillow = resample == FOVEA_RESAMPLE_PILLOW;
    if (out->resample == FOVEA_RESAMPLE_FLOAT || out->resample == resample)
        return;
    out->resample = resample;
    if (out->crop != FOVEA_CROP_EVEN)
        out->crop = pillow ? FOVEA_CROP_UP : FOVEA_CROP_DOWN;
}

fovea_status fv_processor_read(fovea_preprocess *out, const char **name,
                               const fv_processor_file *file)
{
    struct reading r = {.c = &file->fields, .out = out};
    FV_TRY(find_class(&r, file));
    FV_TRY(fv_field_list_check(r.c, fv_processor_fields, r.class ? r.class->fields : NULL,
                               file->ignore, "the pixels"));
    begin(&r);
    FV_TRY(read_sizes(&r));
    FV_TRY(read_flags(&r));
    FV_TRY(read_values(&r));
    FV_TRY(read_way(&r));
    *name = r.class ? r.class->name : NULL;
    return fv_processor_backend(out, r.c, "backend");
}
