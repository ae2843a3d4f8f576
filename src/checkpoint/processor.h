/* processor.h: the preprocessing of a checkpoint's pictures: rules of image processors, and the
 * files that contain them. */
#ifndef FOVEA_SRC_PROCESSOR_H
#define FOVEA_SRC_PROCESSOR_H

#include "checkpoint/config.h"

/* The preprocessing of a family if no file defines it. `native` is the picture size, in pixels,
 * that the position table was made for. Each line lists the class in transformers, the resize, its
 * filter, a centre crop if there is one ("centre"), and the mean and standard deviation. */
enum fv_processor {
    FV_PROCESSOR_UNSET,
    FV_PROCESSOR_VIT,     /* ViTImageProcessor: to native, bilinear, mean and std 0.5 */
    FV_PROCESSOR_DEIT,    /* DeiTImageProcessor: to native * 256/224, bicubic, centre, 0.5 */
    FV_PROCESSOR_DINOV2,  /* DINOv2's: short side 256, bicubic, centre 224, ImageNet */
    FV_PROCESSOR_DINOV3,  /* DINOv3ViTImageProcessor: to 224, bilinear, floats, ImageNet */
    FV_PROCESSOR_OWL,     /* OwlViTImageProcessor: to native, bicubic, CLIP */
    FV_PROCESSOR_OWLV2,   /* Owlv2ImageProcessor: a square, blurred, to native, bilinear, CLIP */
    FV_PROCESSOR_CLIP,    /* CLIPImageProcessor: short side to native, bicubic, centre, CLIP */
    FV_PROCESSOR_RADIO,   /* as CLIP, but with values from 0 to 1: C-RADIO normalises them itself */
    FV_PROCESSOR_NAFLEX,  /* Siglip2ImageProcessor: at most 256 patches, bilinear, 0.5 */
    FV_PROCESSOR_SAM,     /* SamImageProcessor: long side to native, bilinear, ImageNet, zeros */
    FV_PROCESSOR_SAM2,    /* Sam2ImageProcessor: to native, bilinear, ImageNet */
    FV_PROCESSOR_EOMT,    /* EomtImageProcessor: fitted into a native square, padded with black,
                             bilinear, ImageNet */
    FV_PROCESSOR_SIGLIP,  /* SiglipImageProcessor: to native, bicubic, 0.5 */
    FV_PROCESSOR_BEIT,    /* BeitImageProcessor: as SIGLIP */
    FV_PROCESSOR_IDEFICS, /* overview picture of Idefics3ImageProcessor: to 4 * native, then to
                             native, Lanczos, 0.5 */
    FV_PROCESSOR_MAVIT, /* short side native * 256/224, above 224 native; bicubic, centre, ImageNet
                         */
    FV_PROCESSOR_TIMM,  /* short side native / 0.9, bicubic, centre, ImageNet */
    FV_PROCESSOR_DPT, /* DPTImageProcessor of Depth Anything: one side to native, aspect ratio kept,
                         bicubic, ImageNet */
    FV_PROCESSOR_VITPOSE,     /* a person's box to native, ImageNet */
    FV_PROCESSOR_SWIN,        /* Swin's and PolaFormer's: to native * 256/224, bicubic, centre,
                                 ImageNet; from 384 pixels on: to native, without a crop */
    FV_PROCESSOR_LW_DETR,     /* DeformableDetrImageProcessor: to native, bilinear, ImageNet */
    FV_PROCESSOR_SEGFORMER,   /* SegformerImageProcessor: to native, bilinear, ImageNet */
    FV_PROCESSOR_MASK2FORMER, /* Mask2FormerImageProcessor: to native, bilinear, ImageNet */
    FV_PROCESSOR_RF_DETR,     /* RfDetrImageProcessor: to native, bilinear, floats, ImageNet */
    FV_PROCESSOR_BLIP,  /* BlipImageProcessor, GotOcr2ImageProcessor: to native, bicubic, CLIP */
    FV_PROCESSOR_PIXIO, /* Pixio's: to native, bicubic, ImageNet */
    FV_PROCESSOR_TIPS,  /* Tipsv2ImageProcessor: to native, bilinear, values from 0 to 1 */
};

fovea_preprocess fv_processor_default(enum fv_processor rule, uint32_t native_width,
                                      uint32_t native_height);

/* A class of image processors, with exactly its defaults in transformers 5. */
typedef struct fv_processor_class fv_processor_class;

/* A file that transformers wrote: a preprocessor_config.json, or "image_processor" of a
 * processor_config.json. */
typedef struct fv_processor_file {
    fv_config fields;
    const char *model_type; /* model_type of config.json; or NULL */
    const json_t *ignore;   /* "ignore" of the section "fovea", or NULL */
} fv_processor_file;

/* Reads a file into *out. Fields that the file lacks get the defaults of the class that the file
 * names, or else of the class for the model's type, or else keep their values in *out. Sets *name
 * to the name of this class, a static text, or to NULL if there is no class. Returns FOVEA_EFORMAT
 * or FOVEA_ENOTSUP if a class or field is unknown, or a value is not valid. */
fovea_status fv_processor_read(fovea_preprocess *out, const char **name,
                               const fv_processor_file *file);

/* Makes *out resize and crop with the arithmetic of torchvision or Pillow, if it resizes bytes. */
void fv_processor_resample(fovea_preprocess *out, fovea_resample resample);
/* Does the same for the library that `key` names: torchvision, pil or pillow. */
fovea_status fv_processor_backend(fovea_preprocess *out, const fv_config *c, const char *key);

/* Changes *out according to timm's "pretrained_cfg" in config.json, or to the same fields in the
 * file itself, where old files have them. Sets *found to whether such fields exist. */
fovea_status fv_processor_read_timm(fovea_preprocess *out, bool *found, const fv_config *config);

/* Changes *out according to an open_clip_config.json of OpenCLIP. Sets *found to whether the file
 * has a "preprocess_cfg". */
fovea_status fv_processor_read_open_clip(fovea_preprocess *out, bool *found,
                                         const fv_config *config, const json_t *ignore);

/* Reads a filter by Pillow's name for it, as timm and OpenCLIP write it. */
fovea_status fv_processor_filter(fovea_filter *out, const fv_config *c, const char *key);
/* Reads the mean and the standard deviation: three numbers, or one for all three colours. */
fovea_status fv_processor_colours(fovea_preprocess *out, const fv_config *c, const char *mean,
                                  const char *std);

#endif
