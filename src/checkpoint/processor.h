/* processor.h: how a checkpoint wants its pictures: the rules of image processors, and
 * preprocessor_config.json.
 */
#ifndef FOVEA_SRC_PROCESSOR_H
#define FOVEA_SRC_PROCESSOR_H

#include "checkpoint/config.h"

/* Rules known by name; `native` pixels are what the position table was made for. */
enum fv_processor {
    FV_PROCESSOR_VIT,    /* ViTImageProcessor: to native, bilinear, mean and std 0.5 */
    FV_PROCESSOR_DEIT,   /* DeiTImageProcessor: to native * 256/224, bicubic, centre, 0.5 */
    FV_PROCESSOR_DINOV2, /* DINOv2's: short side 256, bicubic, centre 224, ImageNet */
    FV_PROCESSOR_DINOV3, /* DINOv3ViTImageProcessor: to 224, bilinear, ImageNet */
    FV_PROCESSOR_OWL,    /* OwlViTImageProcessor: to native, bicubic, CLIP */
    FV_PROCESSOR_CLIP,   /* CLIPImageProcessor, BitImageProcessor: short side, bicubic, centre, CLIP
                          */
    FV_PROCESSOR_RADIO,  /* to native, bicubic, 0 to 1: C-RADIO normalises inside */
    FV_PROCESSOR_NAFLEX, /* Siglip2ImageProcessor: at most 256 patches, bilinear, 0.5 */
    FV_PROCESSOR_SAM,    /* as many patches as native has, with the picture's aspect; bilinear,
                            ImageNet */
    FV_PROCESSOR_SIGLIP, /* SiglipImageProcessor, BeitImageProcessor: to native, bicubic, 0.5 */
    FV_PROCESSOR_IDEFICS, /* Idefics3ImageProcessor's whole picture: to native, Lanczos, 0.5 */
    FV_PROCESSOR_MAVIT, /* short side native * 256/224, above 224 native; bicubic, centre, ImageNet
                         */
    FV_PROCESSOR_TIMM,  /* short side native / 0.9, bicubic, centre, ImageNet */
    FV_PROCESSOR_DPT,   /* DPTImageProcessor of Depth Anything: a side to native, the aspect kept,
                           bicubic, ImageNet */
    FV_PROCESSOR_VITPOSE, /* a person's box to native, ImageNet */
    FV_PROCESSOR_SWIN, /* Swin's and PolaFormer's: to native * 256/224, bicubic, centre, ImageNet;
                          from 384 pixels on to native */
    FV_PROCESSOR_RF_DETR, /* RfDetrImageProcessor: to native, bilinear, ImageNet */
};

fovea_preprocess fv_processor_default(enum fv_processor rule, uint32_t native_width,
                                      uint32_t native_height);

/* Fields of a preprocessor_config.json over *out; the image processor's class, where it is named
 * and known, replaces the defaults first. EFORMAT, ENOTSUP. */
fovea_status fv_processor_read(fovea_preprocess *out, const fv_config *c, uint32_t native_width,
                               uint32_t native_height);

/* Fields of timm's "pretrained_cfg" (or of config.json itself, where old files have them) over
 * *out. */
fovea_status fv_processor_read_timm(fovea_preprocess *out, const fv_config *config);

#endif
