/* processor_classes.c: defaults of image processors, as of transformers 5.24, and the fields of
 * their files.
 */
#include "checkpoint/processor_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define ENDING "ImageProcessor"
#define OLD_ENDING "FeatureExtractor"
#define NAME_MOST 64

const fv_processor_colours3 fv_colours_imagenet = {{0.485f, 0.456f, 0.406f},
                                                   {0.229f, 0.224f, 0.225f}},
                            fv_colours_clip = {{0.48145466f, 0.4578275f, 0.40821073f},
                                               {0.26862954f, 0.26130258f, 0.27577711f}},
                            fv_colours_half = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};

/* Those that change no pixel of a picture from a file: names of classes, forms of what comes in and
 * goes out, numbers of tokens. The last have one value that changes nothing. */
const fv_field fv_processor_fields[] = {
    {"auto_map", FV_FIELD_ANY, NULL},
    {"backend", FV_FIELD_ANY, NULL},
    {"crop_size", FV_FIELD_ANY, NULL},
    {"data_format", FV_FIELD_ANY, NULL},
    {"default_to_square", FV_FIELD_ANY, NULL},
    {"device", FV_FIELD_ANY, NULL},
    {"disable_grouping", FV_FIELD_ANY, NULL},
    {"do_center_crop", FV_FIELD_ANY, NULL},
    {"do_convert_rgb", FV_FIELD_ANY, NULL},
    {"do_normalize", FV_FIELD_ANY, NULL},
    {"do_pad", FV_FIELD_ANY, NULL},
    {"do_reduce_labels", FV_FIELD_ANY, NULL},
    {"do_rescale", FV_FIELD_ANY, NULL},
    {"do_resize", FV_FIELD_ANY, NULL},
    {"feature_extractor_type", FV_FIELD_ANY, NULL},
    {"image_mean", FV_FIELD_ANY, NULL},
    {"image_processor_type", FV_FIELD_ANY, NULL},
    {"image_seq_length", FV_FIELD_ANY, NULL},
    {"image_std", FV_FIELD_ANY, NULL},
    {"input_data_format", FV_FIELD_ANY, NULL},
    {"model_input_names", FV_FIELD_ANY, NULL},
    {"pad_size", FV_FIELD_ANY, NULL},
    {"processor_class", FV_FIELD_ANY, NULL},
    {"reduce_labels", FV_FIELD_ANY, NULL},
    {"resample", FV_FIELD_ANY, NULL},
    {"rescale_factor", FV_FIELD_ANY, NULL},
    {"return_tensors", FV_FIELD_ANY, NULL},
    {"size", FV_FIELD_ANY, NULL},
    {"transformers_version", FV_FIELD_ANY, NULL},
    {"use_fast", FV_FIELD_ANY, NULL},
    {"do_flip_channel_order", FV_FIELD_FALSE, NULL},
    {"offset", FV_FIELD_FALSE, NULL},
    {"rescale_offset", FV_FIELD_FALSE, NULL},
    {"", FV_FIELD_ANY, NULL},
};

static const fv_field of_clip[] = {{"use_square_size", FV_FIELD_ANY, NULL},
                                   {"", FV_FIELD_ANY, NULL}};
static const fv_field of_owl[] = {{"rescale", FV_FIELD_ANY, NULL}, {"", FV_FIELD_ANY, NULL}};
static const fv_field of_siglip2[] = {{"max_num_patches", FV_FIELD_ANY, NULL},
                                      {"patch_size", FV_FIELD_ANY, NULL},
                                      {"", FV_FIELD_ANY, NULL}};
static const fv_field of_idefics[] = {{"do_image_splitting", FV_FIELD_ANY, NULL},
                                      {"do_sample_frames", FV_FIELD_ANY, NULL},
                                      {"fps", FV_FIELD_ANY, NULL},
                                      {"max_frames", FV_FIELD_ANY, NULL},
                                      {"max_image_size", FV_FIELD_ANY, NULL},
                                      {"num_frames", FV_FIELD_ANY, NULL},
                                      {"return_metadata", FV_FIELD_ANY, NULL},
                                      {"return_row_col_info", FV_FIELD_ANY, NULL},
                                      {"video_sampling", FV_FIELD_ANY, NULL},
                                      {"", FV_FIELD_ANY, NULL}};
static const fv_field of_sam[] = {{"mask_pad_size", FV_FIELD_ANY, NULL},
                                  {"mask_size", FV_FIELD_ANY, NULL},
                                  {"", FV_FIELD_ANY, NULL}};
static const fv_field of_dpt[] = {{"ensure_multiple_of", FV_FIELD_ANY, NULL},
                                  {"keep_aspect_ratio", FV_FIELD_ANY, NULL},
                                  {"size_divisor", FV_FIELD_ANY, NULL},
                                  {"", FV_FIELD_ANY, NULL}};
static const fv_field of_vitpose[] = {{"do_affine_transform", FV_FIELD_TRUE, NULL},
                                      {"normalize_factor", FV_FIELD_ANY, NULL},
                                      {"", FV_FIELD_ANY, NULL}};
static const fv_field of_eomt[] = {{"do_split_image", FV_FIELD_ANY, NULL},
                                   {"ignore_index", FV_FIELD_ANY, NULL},
                                   {"num_labels", FV_FIELD_ANY, NULL},
                                   {"", FV_FIELD_ANY, NULL}};
static const fv_field of_rf_detr[] = {{"do_convert_annotations", FV_FIELD_ANY, NULL},
                                      {"format", FV_FIELD_ANY, NULL},
                                      {"max_size", FV_FIELD_ANY, NULL},
                                      {"pad_and_return_pixel_mask", FV_FIELD_ANY, NULL},
                                      {"", FV_FIELD_ANY, NULL}};
static const fv_field of_llava_next[] = {{"image_grid_pinpoints", FV_FIELD_ANY, NULL},
                                         {"", FV_FIELD_ANY, NULL}};
static const fv_field none[] = {{"", FV_FIELD_ANY, NULL}};

#define SQUARE(n)                                                                                  \
    {                                                                                              \
        .width = (n), .height = (n)                                                                \
    }
#define SHORT(n)                                                                                   \
    {                                                                                              \
        .shortest = (n)                                                                            \
    }
static const fv_processor_class classes[] = {
    {"ViT", " vit ijepa swin ", FV_WAY_PLAIN, FOVEA_FILTER_BILINEAR, &fv_colours_half, SQUARE(224),
     .square = true, .fields = none},
    {"DeiT", " deit ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_half, SQUARE(256), 224,
     .crops = true, .square = true, .fields = none},
    {"Bit", " dinov2 dinov2_with_registers ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SHORT(224), 224, .crops = true, .converts = true, .fields = none},
    {"CLIP", " clip clip_vision_model vipllava ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC,
     &fv_colours_clip, SHORT(224), 224, .crops = true, .converts = true, .fields = of_clip},
    {"DINOv3ViT", " dinov3_vit ", FV_WAY_RESCALE, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     SQUARE(224), .square = true, .fields = none},
    {"OwlViT", " owlvit owlvit_vision_model ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SQUARE(768), 768, .square = true, .converts = true, .fields = of_owl},
    {"Owlv2", " owlv2 owlv2_vision_model ", FV_WAY_BLUR, FOVEA_FILTER_BILINEAR, &fv_colours_clip,
     SQUARE(960), .pads = true, .square = true, .converts = true, .fields = of_owl},
    {"Siglip", " siglip siglip_vision_model paligemma ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC,
     &fv_colours_half, SQUARE(224), .converts = true, .fields = none},
    {"Siglip2",
     " siglip2 siglip2_vision_model ",
     FV_WAY_PATCHES,
     FOVEA_FILTER_BILINEAR,
     &fv_colours_half,
     {0},
     .square = true,
     .fields = of_siglip2},
    {"Beit", " beit data2vec-vision ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_half,
     SQUARE(224), 224, .square = true, .fields = none},
    {"Idefics3",
     " idefics3 idefics3_vision ",
     FV_WAY_TILES,
     FOVEA_FILTER_LANCZOS,
     &fv_colours_half,
     {.longest = 4 * 364},
     .pads = true,
     .square = true,
     .converts = true,
     .fields = of_idefics},
    {"SmolVLM",
     " smolvlm smolvlm_vision ",
     FV_WAY_TILES,
     FOVEA_FILTER_LANCZOS,
     &fv_colours_half,
     {.longest = 4 * 364},
     .pads = true,
     .square = true,
     .converts = true,
     .fields = of_idefics},
    {"Sam",
     " sam sam_vision_model ",
     FV_WAY_LONG,
     FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet,
     {.longest = 1024},
     .pads = true,
     .square = true,
     .converts = true,
     .fields = of_sam},
    {"DPT", " depth_anything ", FV_WAY_FIT, FOVEA_FILTER_BICUBIC, &fv_colours_half, SQUARE(384),
     .square = true, .fields = of_dpt},
    {"VitPose",
     " vitpose vitpose_backbone ",
     FV_WAY_BOX,
     FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet,
     {.width = 192, .height = 256},
     .square = true,
     .fields = of_vitpose},
    {"Eomt",
     " eomt eomt_dinov3 ",
     FV_WAY_INSIDE,
     FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet,
     {.shortest = 640, .longest = 640},
     .fields = of_eomt},
    {"RfDetr",
     " rf_detr ",
     FV_WAY_DETR,
     FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet,
     {.shortest = 800, .longest = 1333},
     .pads = true,
     .fields = of_rf_detr},
    {"Llava", " llava ", FV_WAY_SQUARE, FOVEA_FILTER_BICUBIC, &fv_colours_clip, SHORT(224), 224,
     .crops = true, .converts = true, .fields = none},
    {"LlavaNext", " llava_next llava_next_video ", FV_WAY_WHOLE, FOVEA_FILTER_BICUBIC,
     &fv_colours_clip, SHORT(224), 224, .crops = true, .pads = true, .converts = true,
     .fields = of_llava_next},
    {"LlavaOnevision", " llava_onevision ", FV_WAY_WHOLE, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SQUARE(384), .pads = true, .converts = true, .fields = of_llava_next},
};
#undef SQUARE
#undef SHORT
#define CLASSES (sizeof classes / sizeof *classes)

/* How many characters are to be changed, added or left out to make one name of the other. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MOST + 1];
    const size_t n = strlen(b) < NAME_MOST ? strlen(b) : NAME_MOST;
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0]++;
        for (size_t k = 1; k <= n; k++) {
            const size_t changed = corner + (a[i] != b[k - 1]);
            const size_t less = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;
            corner = row[k];
            row[k] = changed < less ? changed : less;
        }
    }
    return row[n];
}

/* The length of the name without what follows the class's own. */
static size_t stem(const char *name)
{
    static const char *const endings[] = {ENDING,     ENDING "Fast",     ENDING "Pil",
                                          OLD_ENDING, OLD_ENDING "Fast", OLD_ENDING "Pil"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (fv_ends_with(name, endings[i]))
            return strlen(name) - strlen(endings[i]);
    return 0;
}

const fv_processor_class *fv_processor_class_named(const char *name, const char **nearest)
{
    const size_t n = stem(name);
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < CLASSES && n; i++)
        if (strlen(classes[i].name) == n && strncmp(classes[i].name, name, n) == 0)
            return &classes[i];
    for (size_t i = 0; i < CLASSES; i++) {
        char whole[NAME_MOST];
        snprintf(whole, sizeof whole, "%s" ENDING, classes[i].name);
        const size_t d = distance(name, whole);
        if (d < least) {
            least = d;
            *nearest = classes[i].name;
        }
    }
    return NULL;
}

const fv_processor_class *fv_processor_class_of(const char *model_type)
{
    char word[NAME_MOST + 2];
    if (!model_type || strlen(model_type) >= NAME_MOST)
        return NULL;
    snprintf(word, sizeof word, " %s ", model_type);
    for (size_t i = 0; i < CLASSES; i++)
        if (strstr(classes[i].types, word))
            return &classes[i];
    return NULL;
}
