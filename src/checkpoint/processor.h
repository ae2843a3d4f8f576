/* processor.h: how a checkpoint's pictures are preprocessed: rules of image processors, and the
 * files that contain them. */
#ifndef FOVEA_SRC_PROCESSOR_H
#define FOVEA_SRC_PROCESSOR_H

#include "checkpoint/config.h"

/* The preprocessing of a family for which no file gives it. `native`: the picture size, in pixels,
 * that the position table was made for. Each line lists the class in transformers, the resize, its
 * filter, a centre crop if there is one ("centre"), and the mean and standard deviation. */
enum fv_processor {
    FV_PROCESSOR_VIT,    /* ViTImageProcessor: to native, bilinear, mean and std 0.5 */
    FV_PROCESSOR_DEIT,   /* DeiTImageProcessor: to native * 256/224, bicubic, centre, 0.5 */
    FV_PROCESSOR_DINOV2, /* DINOv2's: short side 256, bicubic, centre 224, ImageNet */
    FV_PROCESSOR_DINOV3, /* DINOv3ViTImageProcessor: to 224, bilinear, floats, ImageNet */
    FV_PROCESSOR_OWL,    /* OwlViTImageProcessor: to native, bicubic, CLIP */
    FV_PROCESSOR_OWLV2,  /* Owlv2ImageProcessor: a square, blurred, to native, bilinear, CLIP */
    FV_PROCESSOR_CLIP,   /* CLIPImageProcessor: short side to native, bicubic, centre, CLIP */
    FV_PROCESSOR_RADIO,  /* the same, but values from 0 to 1: C-RADIO normalises them itself */
    FV_PROCESSOR_NAFLEX, /* Siglip2ImageProcessor: at most 256 patches, bilinear, 0.5 */
    FV_PROCESSOR_SAM,    /* SamImageProcessor: long side to native, bilinear, ImageNet, zeros */
    FV_PROCESSOR_EOMT, /* EomtImageProcessor: to fit a native square filled up with black, bilinear,
                          ImageNet */
    FV_PROCESSOR_SIGLIP,  /* SiglipImageProcessor: to native, bicubic, 0.5 */
    FV_PROCESSOR_BEIT,    /* BeitImageProcessor: the same */
    FV_PROCESSOR_IDEFICS, /* Idefics3ImageProcessor's whole picture: to 4 * native, then to native,
                             Lanczos, 0.5 */
    FV_PROCESSOR_MAVIT, /* short side native * 256/224, above 224 native; bicubic, centre, ImageNet
                         */
    FV_PROCESSOR_TIMM,  /* short side native / 0.9, bicubic, centre, ImageNet */
    FV_PROCESSOR_DPT, /* DPTImageProcessor of Depth Anything: one side to native, aspect ratio kept,
                         bicubic, ImageNet */
    FV_PROCESSOR_VITPOSE, /* a person's box to native, ImageNet */
    FV_PROCESSOR_SWIN, /* Swin's and PolaFormer's: to native * 256/224, bicubic, centre, ImageNet;
                          from 384 pixels on to native without a crop */
    FV_PROCESSOR_RF_DETR, /* RfDetrImageProcessor: to native, bilinear, floats, ImageNet */
};

fovea_preprocess fv_processor_default(enum fv_processor rule, uint32_t native_width,
                                      uint32_t native_height);

/* A class of image processors, with exactly the defaults that it has in transformers 5. */
typedef struct fv_processor_class fv_processor_class;

/* A file of transformers: a preprocessor_config.json, or "image_processor" of a
 * processor_config.json. */
typedef struct fv_processor_file {
    fv_config fields;
    const char *model_type; /* of config.json; or NULL */
    const json_t *ignore;   /* "ignore" of the section "fovea", or NULL */
} fv_processor_file;

/* Reads a file into *out. Fields that it does not have get the defaults of the class that the file
 * names, else of the class of the model's type, else keep their values in *out. *name: that class,
 * a static text; NULL: there is no class. EFORMAT, ENOTSUP: a class or field is not known, or a
 * value is not valid. */
fovea_status fv_processor_read(fovea_preprocess *out, const char **name,
                               const fv_processor_file *file);

/* Makes *out resize and crop with the arithmetic of torchvision or Pillow, if it resizes bytes. */
void fv_processor_resample(fovea_preprocess *out, fovea_resample resample);
/* The same for the library that `key` names: torchvision, pil or pillow. */
fovea_status fv_processor_backend(fovea_preprocess *out, const fv_config *c, const char *key);

/* Changes *out as timm does by "pretrained_cfg" of config.json, or by fields of the file itself,
 * where old files have them. *found: such fields exist. */
fovea_status fv_processor_read_timm(fovea_preprocess *out, bool *found, const fv_config *config);

/* Changes *out as OpenCLIP does by an open_clip_config.json. *found: it has a "preprocess_cfg". */
fovea_status fv_processor_read_open_clip(fovea_preprocess *out, bool *found,
                                         const fv_config *config, const json_t *ignore);

/* Reads a filter by Pillow's name for it, as timm and OpenCLIP write it. */
fovea_status fv_processor_filter(fovea_filter *out, const fv_config *c, const char *key);
/* Reads the mean and the standard deviation: three numbers, or one for all three colours. */
fovea_status fv_processor_colours(fovea_preprocess *out, const fv_config *c, const char *mean,
                                  const char *std);

#endif
