/* processor_classes.h: the supported classes of transformers' image processors. */
#ifndef FOVEA_SRC_PROCESSOR_CLASSES_H
#define FOVEA_SRC_PROCESSOR_CLASSES_H

#include "checkpoint/field_list.h"
#include "checkpoint/processor.h"

/* How a class preprocesses a picture: the order of its operations, or the fields that only it has.
 */
enum fv_processor_way {
    FV_WAY_PLAIN,   /* resize, crop, rescale and normalise, pad */
    FV_WAY_SQUARE,  /* pad to a square with the mean colour, then as FV_WAY_PLAIN (LLaVA) */
    FV_WAY_WHOLE,   /* resize to both sides of "size" exactly: the overview picture next to tiles */
    FV_WAY_RESCALE, /* rescale before the resize (DINOv3) */
    FV_WAY_BLUR,    /* rescale, pad to a square, blur, resize (OWLv2) */
    FV_WAY_PATCHES, /* resize by "max_num_patches" (SigLIP 2) */
    FV_WAY_TILES,   /* resize by "size" and "max_image_size" (Idefics3) */
    FV_WAY_LONG,    /* resize the long side, pad to "pad_size" (SAM) */
    FV_WAY_FIT,     /* resize by "keep_aspect_ratio" and "ensure_multiple_of" (DPT) */
    FV_WAY_BOX,     /* crop a person's box (ViTPose) */
    FV_WAY_INSIDE,  /* pad to "size" before normalising, or split into parts (EoMT) */
    FV_WAY_DIVIDED, /* sides rounded up to multiples of "size_divisor" (Mask2Former) */
    FV_WAY_AREA,    /* resize to an area, in whole patches (Qwen2-VL) */
    FV_WAY_SHRINK,  /* resize what is too large, in whole patches (Pixtral) */
    FV_WAY_FLOORED, /* as DETR, with sides rounded down to multiples of 16 (YOLOS) */
    FV_WAY_DETR,    /* as DETR; RF-DETR rescales before a resize that is not antialiased */
};

/* A "size", a "crop_size" or a "pad_size"; missing members are 0. */
typedef struct fv_processor_size {
    uint32_t width, height, shortest, longest, most_width, most_height;
} fv_processor_size;

typedef struct fv_processor_colours3 {
    float mean[3], std[3];
} fv_processor_colours3;
extern const fv_processor_colours3 fv_colours_imagenet, fv_colours_clip, fv_colours_half,
    fv_colours_none;

struct fv_processor_class {
    const char *name;
    const char *types; /* model types whose files need not name the class, with a space before
                          and after each */
    enum fv_processor_way way;
    fovea_filter filter;
    const fv_processor_colours3 *colours;
    fv_processor_size size;
    uint32_t crop;      /* both sides of "crop_size" in pixels; 0: no crop */
    bool crops;         /* default of "do_center_crop" */
    bool pads;          /* default of "do_pad" */
    bool floats;        /* pixels are rescaled before they are resized, without an antialias */
    bool square;        /* default of "default_to_square" */
    bool converts;      /* default of "do_convert_rgb" */
    const char *fields; /* fields of this class, in addition to the common ones */
};

/* The fields that files of any class may have. */
extern const char fv_processor_fields[];

/* Returns the class with a name, or NULL if there is none; *nearest is then the most similar name.
 * "Fast" or "Pil" may follow the name, and FeatureExtractor may replace ImageProcessor in it. */
const fv_processor_class *fv_processor_class_named(const char *name, const char **nearest);
/* Returns the class for files of this model type that name none, or NULL. */
const fv_processor_class *fv_processor_class_of(const char *model_type);

#endif
