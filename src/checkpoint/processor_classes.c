/* processor_classes.c: the classes of image processors, their defaults in transformers 5.24, and
 * the fields of their files. */
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
                            fv_colours_half = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}},
                            fv_colours_none = {{0, 0, 0}, {1, 1, 1}};

/* The common fields that are read, and those that do not change how a picture from a file is
 * preprocessed: names of classes, formats of input and output, numbers of tokens. Fields with "="
 * are allowed only with that value. */
const char fv_processor_fields[] =
    "auto_map backend crop_size data_format default_to_square device disable_grouping "
    "do_center_crop do_convert_rgb do_normalize do_pad do_reduce_labels do_rescale do_resize "
    "feature_extractor_type image_mean image_processor_type image_seq_length image_std "
    "input_data_format model_input_names pad_size processor_class reduce_labels resample "
    "rescale_factor return_tensors size transformers_version use_fast do_flip_channel_order=false "
    "offset=false rescale_offset=false";

static const char of_clip[] = "use_square_size";
static const char of_owl[] = "rescale";
static const char of_siglip2[] = "max_num_patches patch_size";
static const char of_idefics[] =
    "do_image_splitting do_sample_frames fps max_frames max_image_size num_frames return_metadata "
    "return_row_col_info video_sampling";
static const char of_sam[] = "mask_pad_size mask_size";
static const char of_dpt[] = "ensure_multiple_of keep_aspect_ratio size_divisor";
static const char of_vitpose[] = "do_affine_transform=true normalize_factor";
static const char of_eomt[] = "do_split_image ignore_index num_labels";
static const char of_mask2former[] = "_max_size ignore_index max_size num_labels size_divisor";
static const char of_detr[] = "do_convert_annotations format max_size pad_and_return_pixel_mask";
static const char of_llava_next[] = "image_grid_pinpoints";
static const char of_flava[] =
    "codebook_crop_size codebook_do_center_crop codebook_do_convert_rgb codebook_do_map_pixels "
    "codebook_do_normalize codebook_do_rescale codebook_do_resize codebook_image_mean "
    "codebook_image_std codebook_resample codebook_rescale_factor codebook_size input_size_patches "
    "mask_group_max_aspect_ratio mask_group_max_patches mask_group_min_aspect_ratio "
    "mask_group_min_patches return_codebook_pixels return_image_mask total_mask_patches";
static const char of_got_ocr2[] =
    "crop_to_patches max_patches min_patches patch_size use_covering_area_grid";
static const char of_qwen2_vl[] = "max_pixels merge_size min_pixels patch_size temporal_patch_size";
static const char of_pixtral[] = "patch_size";
static const char of_gemma3[] =
    "do_pan_and_scan pan_and_scan_max_num_crops pan_and_scan_min_crop_size "
    "pan_and_scan_min_ratio_to_activate";
#define BOX(w, h)                                                                                  \
    {                                                                                              \
        .width = (w), .height = (h)                                                                \
    }
#define SQUARE(n) BOX(n, n)
#define SHORT(n)                                                                                   \
    {                                                                                              \
        .shortest = (n)                                                                            \
    }
#define LONG(n)                                                                                    \
    {                                                                                              \
        .longest = (n)                                                                             \
    }
#define WITHIN(short, long)                                                                        \
    {                                                                                              \
        .shortest = (short), .longest = (long)                                                     \
    }
static const fv_processor_class classes[] = {
    {"ViT", " vit vit_msn vit_mae ijepa swin clipseg ", FV_WAY_PLAIN, FOVEA_FILTER_BILINEAR,
     &fv_colours_half, SQUARE(224), .square = true, .fields = ""},
    {"DeiT", " deit ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_half, SQUARE(256), 224,
     .crops = true, .square = true, .fields = ""},
    {"Bit", " dinov2 dinov2_with_registers pixio ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC,
     &fv_colours_clip, SHORT(224), 224, .crops = true, .converts = true, .fields = ""},
    {"CLIP", " clip clip_vision_model vipllava metaclip_2 altclip kosmos-2 git ", FV_WAY_PLAIN,
     FOVEA_FILTER_BICUBIC, &fv_colours_clip, SHORT(224), 224, .crops = true, .converts = true,
     .fields = of_clip},
    {"DINOv3ViT", " dinov3_vit ", FV_WAY_RESCALE, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     SQUARE(224), .square = true, .fields = ""},
    {"OwlViT", " owlvit owlvit_vision_model ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SQUARE(768), 768, .square = true, .converts = true, .fields = of_owl},
    {"Owlv2", " owlv2 owlv2_vision_model ", FV_WAY_BLUR, FOVEA_FILTER_BILINEAR, &fv_colours_clip,
     SQUARE(960), .pads = true, .square = true, .converts = true, .fields = of_owl},
    {"Siglip", " siglip siglip_vision_model paligemma colpali ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC,
     &fv_colours_half, SQUARE(224), .converts = true, .fields = ""},
    {"Siglip2",
     " siglip2 siglip2_vision_model ",
     FV_WAY_PATCHES,
     FOVEA_FILTER_BILINEAR,
     &fv_colours_half,
     {0},
     .square = true,
     .fields = of_siglip2},
    {"Beit", " beit data2vec-vision ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_half,
     SQUARE(224), 224, .square = true, .fields = ""},
    {"Idefics3", " idefics3 idefics3_vision ", FV_WAY_TILES, FOVEA_FILTER_LANCZOS, &fv_colours_half,
     LONG(4 * 364), .pads = true, .square = true, .converts = true, .fields = of_idefics},
    {"SmolVLM", " smolvlm smolvlm_vision ", FV_WAY_TILES, FOVEA_FILTER_LANCZOS, &fv_colours_half,
     LONG(4 * 364), .pads = true, .square = true, .converts = true, .fields = of_idefics},
    {"Sam", " sam sam_vision_model sam_hq sam_hq_vision_model ", FV_WAY_LONG, FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet, LONG(1024), .pads = true, .square = true, .converts = true,
     .fields = of_sam},
    {"Sam2", " sam2 sam2_vision_model sam2_video ", FV_WAY_PLAIN, FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet, SQUARE(1024), .square = true, .converts = true, .fields = of_sam},
    {"DPT", " depth_anything dpt ", FV_WAY_FIT, FOVEA_FILTER_BICUBIC, &fv_colours_half, SQUARE(384),
     .square = true, .fields = of_dpt},
    {"VitPose", " vitpose vitpose_backbone ", FV_WAY_BOX, FOVEA_FILTER_BILINEAR,
     &fv_colours_imagenet, BOX(192, 256), .square = true, .fields = of_vitpose},
    {"Eomt", " eomt eomt_dinov3 ", FV_WAY_INSIDE, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     WITHIN(640, 640), .fields = of_eomt},
    {"Segformer", " upernet ", FV_WAY_PLAIN, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     SQUARE(512), .square = true, .fields = ""},
    {"Mask2Former", " mask2former ", FV_WAY_DIVIDED, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     WITHIN(800, 1333), .pads = true, .fields = of_mask2former},
    {"RfDetr", " rf_detr ", FV_WAY_DETR, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     WITHIN(800, 1333), .pads = true, .floats = true, .fields = of_detr},
    {"DeformableDetr", " lw_detr ", FV_WAY_DETR, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     WITHIN(800, 1333), .pads = true, .fields = of_detr},
    {"Yolos", " yolos ", FV_WAY_FLOORED, FOVEA_FILTER_BILINEAR, &fv_colours_imagenet,
     WITHIN(800, 1333), .pads = true, .fields = of_detr},
    {"Llava", " llava ", FV_WAY_SQUARE, FOVEA_FILTER_BICUBIC, &fv_colours_clip, SHORT(224), 224,
     .crops = true, .converts = true, .fields = ""},
    {"LlavaNext", " llava_next llava_next_video ", FV_WAY_WHOLE, FOVEA_FILTER_BICUBIC,
     &fv_colours_clip, SHORT(224), 224, .crops = true, .pads = true, .converts = true,
     .fields = of_llava_next},
    {"LlavaOnevision", " llava_onevision ", FV_WAY_WHOLE, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SQUARE(384), .pads = true, .converts = true, .fields = of_llava_next},
    {"Blip", " blip blip-2 instructblip ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SQUARE(384), .square = true, .converts = true, .fields = ""},
    {"ChineseCLIP", " chinese_clip chinese_clip_vision_model ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC,
     &fv_colours_clip, SHORT(224), 224, .crops = true, .converts = true, .fields = ""},
    {"Flava", " flava ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip, SQUARE(224), 224,
     .crops = true, .square = true, .fields = of_flava},
    {"GotOcr2", " got_ocr2 internvl qianfan_ocr aya_vision ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC,
     &fv_colours_clip, SQUARE(384), .square = true, .converts = true, .fields = of_got_ocr2},
    {"Ovis2", " ovis2 ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip, SQUARE(384),
     .square = true, .converts = true, .fields = of_got_ocr2},
    {"Cohere2Vision", " cohere2_vision ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SQUARE(512), .square = true, .converts = true, .fields = of_got_ocr2},
    {"VideoLlava", " video_llava ", FV_WAY_PLAIN, FOVEA_FILTER_BICUBIC, &fv_colours_clip,
     SHORT(224), 224, .crops = true, .converts = true, .fields = ""},
    {"Gemma3", " gemma3 shieldgemma2 t5gemma2 ", FV_WAY_PLAIN, FOVEA_FILTER_BILINEAR,
     &fv_colours_half, SQUARE(224), .square = true, .converts = true, .fields = of_gemma3},
    {"Tipsv2", " tipsv2 tipsv2_vision_model ", FV_WAY_PLAIN, FOVEA_FILTER_BILINEAR,
     &fv_colours_none, SQUARE(448), .square = true, .converts = true, .fields = ""},
    {"Qwen2VL",
     " qwen2_vl qwen2_vl_vision qwen2_5_vl qwen2_5_vl_vision colqwen2 qwen2_5_omni qwen3_vl "
     "qwen3_vl_vision qwen3_vl_moe qwen3_5 qwen3_5_moe qwen3_omni_moe qwen4_exp ",
     FV_WAY_AREA, FOVEA_FILTER_BICUBIC, &fv_colours_clip, WITHIN(56 * 56, 28 * 28 * 1280),
     .converts = true, .fields = of_qwen2_vl},
    {"Pixtral", " pixtral mistral3 mistral_large4 lighton_ocr ", FV_WAY_SHRINK,
     FOVEA_FILTER_BICUBIC, &fv_colours_clip, LONG(1024), .square = true, .converts = true,
     .fields = of_pixtral},
};
#undef BOX
#undef SQUARE
#undef SHORT
#undef LONG
#undef WITHIN
#define CLASSES (sizeof classes / sizeof *classes)

/* Returns the edit distance of two names: the number of characters to change, add or remove to
 * convert one to the other. */
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

/* Returns the length of a name without its suffix, such as "ImageProcessorFast", or 0 if it has no
 * such suffix. */
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
