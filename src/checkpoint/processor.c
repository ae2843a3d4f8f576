/* processor.c: preprocessing rules of checkpoints. */
#include "checkpoint/processor.h"

#include <string.h>

#include "base/num.h"

#define SWIN_UNCROPPED 384 /* pixels from which on Swin's rule crops nothing */
#define VALUE_LIMIT 1e6    /* of means and deviations */
#define PIXELS 65536

static const struct colours {
    float mean[3], std[3];
} imagenet = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
  clip = {{0.48145466f, 0.4578275f, 0.40821073f}, {0.26862954f, 0.26130258f, 0.27577711f}},
  half = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}}, as_is = {{0, 0, 0}, {1, 1, 1}};

/* Edges for a native size of 224; others are in proportion. */
static const struct rule {
    fovea_resize resize;
    fovea_filter filter;
    uint32_t edge, crop;
    const struct colours *colours;
} rules[] = {
    [FV_PROCESSOR_VIT] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BILINEAR, 224, 0, &half},
    [FV_PROCESSOR_DEIT] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BICUBIC, 256, 224, &half},
    [FV_PROCESSOR_DINOV2] = {FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC, 256, 224, &imagenet},
    [FV_PROCESSOR_DINOV3] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BILINEAR, 224, 0, &imagenet},
    [FV_PROCESSOR_OWL] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BICUBIC, 224, 0, &clip},
    [FV_PROCESSOR_CLIP] = {FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC, 224, 224, &clip},
    [FV_PROCESSOR_RADIO] = {FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC, 224, 224, &as_is},
    [FV_PROCESSOR_NAFLEX] = {FOVEA_RESIZE_PATCHES, FOVEA_FILTER_BILINEAR, 0, 0, &half},
    [FV_PROCESSOR_SAM] = {FOVEA_RESIZE_PATCHES, FOVEA_FILTER_BILINEAR, 0, 0, &imagenet},
    [FV_PROCESSOR_SIGLIP] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BICUBIC, 224, 0, &half},
    [FV_PROCESSOR_IDEFICS] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_LANCZOS, 224, 0, &half},
    [FV_PROCESSOR_MAVIT] = {FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC, 256, 224, &imagenet},
    [FV_PROCESSOR_TIMM] = {FOVEA_RESIZE_SHORT, FOVEA_FILTER_BICUBIC, 248, 224, &imagenet},
    [FV_PROCESSOR_DPT] = {FOVEA_RESIZE_FIT, FOVEA_FILTER_BICUBIC, 224, 0, &imagenet},
    [FV_PROCESSOR_VITPOSE] = {FOVEA_RESIZE_BOX, FOVEA_FILTER_BILINEAR, 224, 0, &imagenet},
    [FV_PROCESSOR_SWIN] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BICUBIC, 256, 224, &imagenet},
    [FV_PROCESSOR_RF_DETR] = {FOVEA_RESIZE_EXACT, FOVEA_FILTER_BILINEAR, 224, 0, &imagenet},
};

/* Classes of transformers, by the beginning of their names. */
static const struct {
    const char *begin;
    enum fv_processor rule;
} classes[] = {
    {"ViT", FV_PROCESSOR_VIT},          {"DeiT", FV_PROCESSOR_DEIT},
    {"Bit", FV_PROCESSOR_CLIP},         {"CLIP", FV_PROCESSOR_CLIP},
    {"Siglip2", FV_PROCESSOR_NAFLEX},   {"Siglip", FV_PROCESSOR_SIGLIP},
    {"DINOv3", FV_PROCESSOR_DINOV3},    {"Owl", FV_PROCESSOR_OWL},
    {"Idefics3", FV_PROCESSOR_IDEFICS}, {"SmolVLM", FV_PROCESSOR_IDEFICS},
    {"Sam", FV_PROCESSOR_SAM},          {"Beit", FV_PROCESSOR_SIGLIP},
    {"DPT", FV_PROCESSOR_DPT},          {"VitPose", FV_PROCESSOR_VITPOSE},
    {"Eomt", FV_PROCESSOR_SAM},         {"RfDetr", FV_PROCESSOR_RF_DETR},
};

static uint32_t in_proportion(uint32_t edge, uint32_t native)
{
    uint64_t pixels = (uint64_t)edge * native / 224;
    return pixels == 0 && edge ? 1 : pixels > PIXELS ? PIXELS : (uint32_t)pixels;
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
    };
    if (r->resize == FOVEA_RESIZE_SHORT) {
        const uint32_t side = w < h ? w : h;
        p.short_edge =
            in_proportion(rule == FV_PROCESSOR_MAVIT && side > 224 ? 224 : r->edge, side);
    } else if (r->resize == FOVEA_RESIZE_PATCHES) {
        p.patch = 16;
        p.most_patches = rule == FV_PROCESSOR_SAM ? w / p.patch * (h / p.patch) : 256;
    } else {
        p.resize_width = in_proportion(r->edge, w);
        p.resize_height = in_proportion(r->edge, h);
    }
    if (r->resize == FOVEA_RESIZE_FIT)
        p.patch = 14;
    if (rule == FV_PROCESSOR_SWIN && w >= SWIN_UNCROPPED && h >= SWIN_UNCROPPED) {
        p.resize_width = w;
        p.resize_height = h;
        p.crop_width = p.crop_height = 0;
    }
    memcpy(p.mean, r->colours->mean, sizeof p.mean);
    memcpy(p.std, r->colours->std, sizeof p.std);
    return p;
}

static fovea_status read_class(fovea_preprocess *out, const fv_config *c, uint32_t native_width,
                               uint32_t native_height)
{
    const char *name = NULL;
    const fovea_preprocess own = *out;
    FV_TRY(fv_config_text(&name, c, "feature_extractor_type"));
    FV_TRY(fv_config_text(&name, c, "image_processor_type"));
    for (size_t i = 0; name && i < sizeof classes / sizeof *classes; i++)
        if (strncmp(name, classes[i].begin, strlen(classes[i].begin)) == 0)
            *out = fv_processor_default(classes[i].rule, native_width, native_height);
    if (out->resize == FOVEA_RESIZE_PATCHES && own.resize == FOVEA_RESIZE_PATCHES) {
        out->patch = own.patch; /* the model's */
        out->most_patches = own.most_patches;
    }
    return FOVEA_OK;
}

static bool given(const json_t *size, const char *edge)
{
    const json_t *value = json_object_get(size, edge);
    return value && !json_is_null(value);
}

/* "size": an object with "shortest_edge", or with "height" and "width"; a plain number means the
 * short side for the processors that keep the aspect, and both sides for the others. With
 * "max_image_size" that is the tower's, and "size" that of the picture which tiles are cut from. */
static fovea_status read_size(fovea_preprocess *out, const fv_config *c)
{
    const json_t *size = fv_config_get(c, "size");
    uint32_t width = 0, height = 0;
    bool square = false;
    fv_config most;
    FV_TRY(fv_config_section(&most, c, "max_image_size"));
    if (most.object) {
        out->resize = FOVEA_RESIZE_EXACT;
        FV_TRY(fv_config_u32(&out->resize_width, &most, "longest_edge", 1, PIXELS));
        out->resize_height = out->resize_width;
        return FOVEA_OK;
    }
    if (!size)
        return FOVEA_OK;
    if (out->resize == FOVEA_RESIZE_PATCHES && given(size, "longest_edge")) {
        /* SAM's, which fills the picture up to a square: as many patches as that has. */
        fv_config section;
        FV_TRY(fv_config_section(&section, c, "size"));
        FV_TRY(fv_config_u32(&width, &section, "longest_edge", out->patch, PIXELS));
        out->most_patches = width / out->patch * (width / out->patch);
        return FOVEA_OK;
    }
    if (out->resize == FOVEA_RESIZE_FIT || out->resize == FOVEA_RESIZE_BOX)
        return fv_config_size(&out->resize_width, &out->resize_height, &square, c, "size");
    if (given(size, "shortest_edge")) {
        if (given(size, "longest_edge"))
            return fv_fail(FOVEA_ENOTSUP, "%s: \"size.longest_edge\" is not supported", c->file);
        fv_config section;
        FV_TRY(fv_config_section(&section, c, "size"));
        FV_TRY(fv_config_u32(&width, &section, "shortest_edge", 1, PIXELS));
        square = true;
        out->resize = FOVEA_RESIZE_SHORT;
    } else {
        FV_TRY(fv_config_size(&width, &height, &square, c, "size"));
    }
    if (square && out->resize == FOVEA_RESIZE_SHORT) {
        out->short_edge = width;
        out->resize_width = out->resize_height = 0;
    } else {
        out->resize = FOVEA_RESIZE_EXACT;
        out->short_edge = 0;
        out->resize_width = width;
        out->resize_height = height;
    }
    return FOVEA_OK;
}

/* What DPT's class says beside its size. */
static fovea_status read_fit(fovea_preprocess *out, const fv_config *c)
{
    bool aspect = true;
    if (out->resize != FOVEA_RESIZE_FIT)
        return FOVEA_OK;
    FV_TRY(fv_config_bool(&aspect, c, "keep_aspect_ratio"));
    FV_TRY(fv_config_u32(&out->patch, c, "ensure_multiple_of", 1, PIXELS));
    if (!aspect)
        out->resize = FOVEA_RESIZE_EXACT;
    return FOVEA_OK;
}

/* Pillow's numbers of its filters. */
static fovea_status read_filter(fovea_preprocess *out, const fv_config *c)
{
    static const uint8_t filters[] = {FOVEA_FILTER_NEAREST,  FOVEA_FILTER_LANCZOS,
                                      FOVEA_FILTER_BILINEAR, FOVEA_FILTER_BICUBIC,
                                      FOVEA_FILTER_BOX,      FOVEA_FILTER_HAMMING};
    uint32_t number = UINT32_MAX;
    FV_TRY(fv_config_u32(&number, c, "resample", 0, sizeof filters - 1));
    if (number != UINT32_MAX)
        out->filter = (fovea_filter)filters[number];
    return FOVEA_OK;
}

static fovea_status read_colours(fovea_preprocess *out, const fv_config *c, const char *mean,
                                 const char *std)
{
    FV_TRY(fv_config_floats(out->mean, 3, c, mean, -VALUE_LIMIT, VALUE_LIMIT));
    return fv_config_floats(out->std, 3, c, std, 1e-6, VALUE_LIMIT);
}

fovea_status fv_processor_read(fovea_preprocess *out, const fv_config *c, uint32_t native_width,
                               uint32_t native_height)
{
    bool resize = true, crop = true, rescale = true, normalise = true, square;
    FV_TRY(read_class(out, c, native_width, native_height));
    if (out->crop_width == 0)
        crop = false;
    FV_TRY(read_size(out, c));
    FV_TRY(read_fit(out, c));
    FV_TRY(fv_config_u32(&out->patch, c, "patch_size", 1, PIXELS));
    FV_TRY(fv_config_u32(&out->most_patches, c, "max_num_patches", 1, 1u << 24));
    FV_TRY(read_filter(out, c));
    FV_TRY(fv_config_bool(&resize, c, "do_resize"));
    FV_TRY(fv_config_bool(&crop, c, "do_center_crop"));
    FV_TRY(fv_config_size(&out->crop_width, &out->crop_height, &square, c, "crop_size"));
    FV_TRY(fv_config_bool(&rescale, c, "do_rescale"));
    FV_TRY(fv_config_float(&out->rescale, c, "rescale_factor", 1e-9, VALUE_LIMIT));
    FV_TRY(fv_config_bool(&normalise, c, "do_normalize"));
    FV_TRY(read_colours(out, c, "image_mean", "image_std"));
    if (!resize)
        out->resize = FOVEA_RESIZE_NONE;
    if (!crop)
        out->crop_width = out->crop_height = 0;
    if (!rescale)
        out->rescale = 1;
    for (int i = 0; i < 3 && !normalise; i++) {
        out->mean[i] = 0;
        out->std[i] = 1;
    }
    return FOVEA_OK;
}

static fovea_status read_interpolation(fovea_preprocess *out, const fv_config *c)
{
    static const char *const names[] = {
        [FOVEA_FILTER_BILINEAR] = "bilinear", [FOVEA_FILTER_BICUBIC] = "bicubic",
        [FOVEA_FILTER_LANCZOS] = "lanczos",   [FOVEA_FILTER_NEAREST] = "nearest",
        [FOVEA_FILTER_BOX] = "box",           [FOVEA_FILTER_HAMMING] = "hamming",
    };
    const char *name = NULL;
    FV_TRY(fv_config_text(&name, c, "interpolation"));
    if (!name || strcmp(name, "random") == 0)
        return FOVEA_OK;
    const int filter = fv_index_of(name, names, sizeof names / sizeof *names);
    if (filter < 0)
        return fv_config_fail(c, "interpolation",
                              "bilinear, bicubic, lanczos, nearest, box or hamming");
    out->filter = (fovea_filter)filter;
    return FOVEA_OK;
}

fovea_status fv_processor_read_timm(fovea_preprocess *out, const fv_config *config)
{
    fv_config c;
    FV_TRY(fv_config_section(&c, config, "pretrained_cfg"));
    if (!c.object)
        c = *config;
    float size[3] = {3, (float)out->crop_height, (float)out->crop_width};
    float part = 0.9f;
    const char *mode = "center";
    FV_TRY(read_interpolation(out, &c));
    FV_TRY(read_colours(out, &c, "mean", "std"));
    FV_TRY(fv_config_floats(size, 3, &c, "input_size", 1, PIXELS));
    FV_TRY(fv_config_float(&part, &c, "crop_pct", 0.05, 1));
    FV_TRY(fv_config_text(&mode, &c, "crop_mode"));
    out->crop_height = (uint32_t)size[1];
    out->crop_width = (uint32_t)size[2];
    uint32_t height = (uint32_t)(size[1] / part), width = (uint32_t)(size[2] / part);
    bool squash = strcmp(mode, "squash") == 0;
    if (!squash && strcmp(mode, "center") != 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"crop_mode\": \"%.20s\" is not supported; center and "
                       "squash are",
                       c.file, mode);
    out->resize = squash ? FOVEA_RESIZE_EXACT : FOVEA_RESIZE_SHORT;
    out->short_edge = squash ? 0 : width < height ? width : height;
    out->resize_width = squash ? width : 0;
    out->resize_height = squash ? height : 0;
    return FOVEA_OK;
}
