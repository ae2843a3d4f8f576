/* processor.h: how a checkpoint wants its pictures: the rules of image processors, and the files
 * that say them.
 */
#ifndef FOVEA_SRC_PROCESSOR_H
#define FOVEA_SRC_PROCESSOR_H

#include "checkpoint/config.h"

/* What a family's pictures go through where no file says it; `native` pixels are what the position
 * table was made for. */
enum fv_processor {
    FV_PROCESSOR_VIT,    /* ViTImageProcessor: to native, bilinear, mean and std 0.5 */
    FV_PROCESSOR_DEIT,   /* DeiTImageProcessor: to native * 256/224, bicubic, centre, 0.5 */
    FV_PROCESSOR_DINOV2, /* DINOv2's: short side 256, bicubic, centre 224, ImageNet */
    FV_PROCESSOR_DINOV3, /* DINOv3ViTImageProcessor: to 224, bilinear, floats, ImageNet */
    FV_PROCESSOR_OWL,    /* OwlViTImageProcessor: to native, bicubic, CLIP */
    FV_PROCESSOR_OWLV2,  /* Owlv2ImageProcessor: a square, blurred, to native, bilinear, CLIP */
    FV_PROCESSOR_CLIP,   /* CLIPImageProcessor: short side to native, bicubic, centre, CLIP */
    FV_PROCESSOR_RADIO,  /* the same, 0 to 1: C-RADIO normalises inside */
    FV_PROCESSOR_NAFLEX, /* Siglip2ImageProcessor: at most 256 patches, bilinear, 0.5 */
    FV_PROCESSOR_SAM,    /* SamImageProcessor: long side to native, bilinear, ImageNet, zeros */
    FV_PROCESSOR_EOMT, /* EomtImageProcessor: into a square of native, bilinear, black, ImageNet */
    FV_PROCESSOR_SIGLIP,  /* SiglipImageProcessor: to native, bicubic, 0.5 */
    FV_PROCESSOR_BEIT,    /* BeitImageProcessor: the same */
    FV_PROCESSOR_IDEFICS, /* Idefics3ImageProcessor's whole picture: by way of 4 * native to native,
                             Lanczos, 0.5 */
    FV_PROCESSOR_MAVIT, /* short side native * 256/224, above 224 native; bicubic, centre, ImageNet
                         */
    FV_PROCESSOR_TIMM,  /* short side native / 0.9, bicubic, centre, ImageNet */
    FV_PROCESSOR_DPT,   /* DPTImageProcessor of Depth Anything: a side to native, the aspect kept,
                           bicubic, ImageNet */
    FV_PROCESSOR_VITPOSE, /* a person's box to native, ImageNet */
    FV_PROCESSOR_SWIN, /* Swin's and PolaFormer's: to native * 256/224, bicubic, centre, ImageNet;
                          from 384 pixels on to native */
    FV_PROCESSOR_RF_DETR, /* RfDetrImageProcessor: to native, bilinear, floats, ImageNet */
};

fovea_preprocess fv_processor_default(enum fv_processor rule, uint32_t native_width,
                                      uint32_t native_height);

/* The class of an image processor, exactly its defaults of transformers 5. */
typedef struct fv_processor_class fv_processor_class;

/* What a file of transformers says: a preprocessor_config.json, or "image_processor" of a
 * processor_config.json. */
typedef struct fv_processor_file {
    fv_config fields;
    const char *model_type; /* of config.json; or NULL */
    const json_t *ignore;   /* "ignore" of the section "fovea", or NULL */
} fv_processor_file;

/* *out gets what the file says over the defaults of its class: that which the file names, else that
 * of the model's type, else what *out has. *name gets the class, NULL: there is none; static text.
 * EFORMAT, ENOTSUP: a class or a field that is not known, or a value that cannot be. */
fovea_status fv_processor_read(fovea_preprocess *out, const char **name,
                               const fv_processor_file *file);

/* Resizes and crops with the arithmetic of torchvision or Pillow, where *out resizes bytes. */
void fv_processor_resample(fovea_preprocess *out, fovea_resample resample);
/* The library that `key` names: torchvision; pil or pillow. */
fovea_status fv_processor_backend(fovea_preprocess *out, const fv_config *c, const char *key);

/* Over *out what timm makes of the "pretrained_cfg" of config.json, or of the file itself, where
 * old files have its fields; *found: there is one. */
fovea_status fv_processor_read_timm(fovea_preprocess *out, bool *found, const fv_config *config);

/* Over *out what OpenCLIP makes of an open_clip_config.json; *found: it has a "preprocess_cfg". */
fovea_status fv_processor_read_open_clip(fovea_preprocess *out, bool *found,
                                         const fv_config *config, const json_t *ignore);

/* Pillow's names of its filters, as timm and OpenCLIP write them. */
fovea_status fv_processor_filter(fovea_filter *out, const fv_config *c, const char *key);
/* Three numbers, or one for all three. */
fovea_status fv_processor_colours(fovea_preprocess *out, const fv_config *c, const char *mean,
                                  const char *std);

#endif
