/* processor_timm.c: preprocessing of timm and OpenCLIP, both of which use Pillow and torchvision's
 * CenterCrop. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/processor.h"
#include "checkpoint/processor_classes.h"

#define PIXELS 65536
#define TIMM_CROP 0.875 /* "crop_pct" if a file lacks it */

static void set_colours(fovea_preprocess *out, const fv_processor_colours3 *colours)
{
    memcpy(out->mean, colours->mean, sizeof out->mean);
    memcpy(out->std, colours->std, sizeof out->std);
}

/* Returns whether the file itself has the fields, as old files do. */
static bool in_file_itself(const fv_config *config)
{
    static const char *const fields[] = {"mean", "std", "crop_pct", "interpolation", "input_size"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fv_config_get(config, fields[i]))
            return true;
    return false;
}

/* Returns the length of a side after the resize, before the crop. */
static uint32_t scaled(uint32_t side, double part)
{
    const double whole = floor(side / part);
    return whole > PIXELS ? PIXELS : (uint32_t)whole;
}

/* Reads the sizes in the order channels, rows, columns. */
static fovea_status read_input(fovea_preprocess *out, const fv_config *c)
{
    uint32_t size[3] = {3, 224, 224};
    if (fv_config_get(c, "input_size"))
        FV_TRY(fv_config_u32s(size, 3, c, "input_size", 1, PIXELS));
    out->crop_height = size[1];
    out->crop_width = size[2];
    return FOVEA_OK;
}

static fovea_status read_crop(fovea_preprocess *out, const fv_config *c)
{
    const char *mode = "center";
    float part = 1; /* only checks the range; the division is in double precision */
    FV_TRY(fv_config_float(&part, c, "crop_pct", 0.05, 1));
    FV_TRY(fv_config_text(&mode, c, "crop_mode"));
    const json_t *given = fv_config_get(c, "crop_pct");
    const double exact = json_is_number(given) ? json_number_value(given) : part;
    const uint32_t width = scaled(out->crop_width, given ? exact : TIMM_CROP);
    const uint32_t height = scaled(out->crop_height, given ? exact : TIMM_CROP);
    out->short_edge = out->resize_width = out->resize_height = 0;
    if (strcmp(mode, "center") == 0 && width == height) {
        out->resize = FOVEA_RESIZE_SHORT;
        out->short_edge = width;
        return FOVEA_OK;
    }
    out->resize = strcmp(mode, "squash") == 0 ? FOVEA_RESIZE_EXACT : FOVEA_RESIZE_COVER;
    out->resize_width = width;
    out->resize_height = height;
    return strcmp(mode, "center") == 0 || strcmp(mode, "squash") == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOTSUP,
                         "%s: \"crop_mode\": \"%.20s\" is not supported; use center or squash",
                         c->file, mode);
}

fovea_status fv_processor_read_timm(fovea_preprocess *out, bool *found, const fv_config *config)
{
    fv_config c;
    FV_TRY(fv_config_section(&c, config, "pretrained_cfg"));
    if (!c.object)
        c = *config;
    *found = c.object != config->object || in_file_itself(config);
    if (!*found)
        return FOVEA_OK;
    set_colours(out, &fv_colours_imagenet);
    out->filter = FOVEA_FILTER_BICUBIC;
    out->resample = FOVEA_RESAMPLE_PILLOW;
    out->crop = FOVEA_CROP_EVEN;
    const json_t *filter = fv_config_get(&c, "interpolation");
    if (json_is_string(filter) && strcmp(json_string_value(filter), "random") == 0)
        out->filter = FOVEA_FILTER_BILINEAR; /* "random" is only used for training */
    else
        FV_TRY(fv_processor_filter(&out->filter, &c, "interpolation"));
    FV_TRY(fv_processor_colours(out, &c, "mean", "std"));
    FV_TRY(read_input(out, &c));
    return read_crop(out, &c);
}

/* ---- OpenCLIP ---- */

static const char preprocess_cfg[] = "fill_color interpolation mean mode=RGB resize_mode size std";

/* Reads "size", or else the size of the vision tower, or else leaves *width and *height unchanged.
 */
static fovea_status read_open_clip_size(uint32_t *width, uint32_t *height, const fv_config *config,
                                        const fv_config *c)
{
    fv_config model, vision = {config->file, "", NULL};
    bool square;
    FV_TRY(fv_config_section(&model, config, "model_cfg"));
    if (model.object)
        FV_TRY(fv_config_section(&vision, &model, "vision_cfg"));
    if (vision.object)
        FV_TRY(fv_config_size(width, height, &square, &vision, "image_size"));
    return fv_config_size(width, height, &square, c, "size");
}

static fovea_status resize_open_clip(fovea_preprocess *out, const fv_config *c, uint32_t width,
                                     uint32_t height)
{
    static const char *const modes[] = {"shortest", "longest", "squash"};
    static const fovea_resize rules[] = {FOVEA_RESIZE_COVER, FOVEA_RESIZE_INSIDE,
                                         FOVEA_RESIZE_EXACT};
    const char *mode = "shortest";
    uint32_t fill = 0;
    FV_TRY(fv_config_text(&mode, c, "resize_mode"));
    FV_TRY(fv_config_u32(&fill, c, "fill_color", 0, 255));
    const int rule = fv_index_of(mode, modes, 3);
    if (rule < 0)
        return fv_config_fail(c, "resize_mode", "shortest, longest or squash");
    if (fill && rules[rule] == FOVEA_RESIZE_INSIDE)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"preprocess_cfg.fill_color\": %u is not supported; use 0 (black)",
                       c->file, fill);
    out->resize = rules[rule];
    out->short_edge = 0;
    out->resize_width = width;
    out->resize_height = height;
    out->crop_width = out->resize == FOVEA_RESIZE_EXACT ? 0 : width;
    out->crop_height = out->resize == FOVEA_RESIZE_EXACT ? 0 : height;
    if (out->resize == FOVEA_RESIZE_COVER && width == height) {
        out->resize = FOVEA_RESIZE_SHORT;
        out->short_edge = width;
        out->resize_width = out->resize_height = 0;
    }
    if (out->resize == FOVEA_RESIZE_COVER)
        out->filter = FOVEA_FILTER_BICUBIC; /* used whatever "interpolation" says */
    return FOVEA_OK;
}

fovea_status fv_processor_read_open_clip(fovea_preprocess *out, bool *found,
                                         const fv_config *config, const json_t *ignore)
{
    fv_config c;
    const char *filter = "bicubic";
    uint32_t width = out->crop_width ? out->crop_width : out->resize_width;
    uint32_t height = out->crop_height ? out->crop_height : out->resize_height;
    FV_TRY(fv_config_section(&c, config, "preprocess_cfg"));
    *found = c.object;
    if (!c.object)
        return FOVEA_OK;
    FV_TRY(fv_field_list_check(&c, preprocess_cfg, NULL, ignore, "the pixels"));
    FV_TRY(fv_config_text(&filter, &c, "interpolation"));
    FV_TRY(read_open_clip_size(&width, &height, config, &c));
    set_colours(out, &fv_colours_clip);
    FV_TRY(fv_processor_colours(out, &c, "mean", "std"));
    out->filter = strcmp(filter, "bilinear") == 0 ? FOVEA_FILTER_BILINEAR : FOVEA_FILTER_BICUBIC;
    out->resample = FOVEA_RESAMPLE_PILLOW;
    out->crop = FOVEA_CROP_EVEN;
    out->alpha = FOVEA_ALPHA_DROP;
    return resize_open_clip(out, &c, width, height);
}
