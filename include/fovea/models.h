/* models.h: models, and the preprocessing of their pictures. A part of fovea.h, whose rules hold
 * here.
 */
#ifndef FOVEA_MODELS_H
#define FOVEA_MODELS_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

/* All functions of a model are thread-safe. */
typedef struct fovea_model fovea_model;

/* Loads `path`: a Hugging Face directory (config.json and model.safetensors, or its shards with
 * model.safetensors.index.json; preprocessor_config.json if present), a .safetensors file, or an
 * index of several, with config.json beside it, or "synthetic:NAME" (random weights from a seed;
 * fovea_model_synthetic lists the names). EIO, EFORMAT, ENOTSUP name file and tensor.
 *
 * Weights are mapped, and read when plans are made. As long as the model lives its files may be
 * renamed, removed and replaced by others, but not written to: planning a model whose file was
 * written to is EIO; if a file is truncated while it is being read, the system ends the process
 * (SIGBUS). */
FOVEA_API fovea_status fovea_model_load(fovea_model **out, const char *path);

/* What may differ in the linear attentions of a ViT's blocks. 0: what "fovea" of config.json says
 * under the name that stands behind it; without that what stands last. */
typedef struct fovea_linear_form {
    float nala_lambda; /* "nala_lambda", 2 to 8: of nala and nala-paper; 3 */
    float pola_alpha;  /* "pola_alpha", 0.01 to 16: of pola; 4 */
    float q_scale;  /* "q_scale", 0.001 to 1000: queries are multiplied by it before their features
                       are made; 1 */
    uint32_t heads; /* "linear_heads", a divisor of the width: heads of linear attentions; as many
                       as the model has */
} fovea_linear_form;

typedef struct fovea_model_options {
    size_t struct_size;
    const char *prefix; /* the model is what stands behind this in the names of tensors, such as
                           "model.vision_tower."; "vision_config" describes it where config.json has
                           that. NULL: "fovea": {"prefix"} of config.json, else the names that the
                           families are known to have */
    /* EINVAL out of its range; ENOTSUP where the family is no plain ViT */
    fovea_linear_form linear;
    /* Folder of packed weights, made private to the user: a later plan, in this process or another,
     * maps what one before has packed. Processes that load the same model so have one copy of its
     * weights in memory, read-only, and plans are soon made. NULL: FOVEA_WEIGHTS_CACHE of the
     * environment, else none; "": none.
     *
     * Only files of the user's or the administrator's that nobody else may write to are read. Files
     * that are damaged or of another model, processor or build of the library are replaced; a
     * folder that cannot be written to costs nothing but time. It holds up to 4 GiB of weights,
     * oldest removed first, and those of the models that are in use. Weights that are decrypted
     * lie there as they are. */
    const char *weights_cache;
} fovea_model_options;
#define FOVEA_MODEL_OPTIONS_INIT FOVEA_INIT(fovea_model_options, )

/* fovea_model_load with options; NULL: none. */
FOVEA_API fovea_status fovea_model_load_with(fovea_model **out, const char *path,
                                             const fovea_model_options *options);

/* ---------------------------------------------------------------------------------------------
 * The folder of packed weights, of whichever models: thread-safe
 *
 * `folder` NULL: FOVEA_WEIGHTS_CACHE of the environment, else none; "": none. None, and a folder
 * that does not exist, is empty.
 */

typedef struct fovea_weights_cache_info {
    size_t struct_size;
    size_t files;   /* of packed weights, whatever build of the library has written them */
    uint64_t bytes; /* of these files; of those that cannot be opened, none */
} fovea_weights_cache_info;
#define FOVEA_WEIGHTS_CACHE_INFO_INIT FOVEA_INIT(fovea_weights_cache_info, )

/* Opens no file but to learn its size. EINVAL, ENOMEM. */
FOVEA_API fovea_status fovea_weights_cache_describe(const char *folder,
                                                    fovea_weights_cache_info *out);
/* Removes the packed weights, and nothing else that may be in the folder; *removed gets their
 * number, with EIO too: some could not be removed. Plans that have mapped them keep them. */
FOVEA_API fovea_status fovea_weights_cache_clear(const char *folder, size_t *removed);

/* ---------------------------------------------------------------------------------------------
 * Models that lie in no folder: in memory, in a part of a file (the assets of an Android package),
 * in a container that the caller unpacks or decrypts
 */

/* A file of a model: bytes in memory, or a part of a file that is open. */
typedef struct fovea_file {
    const char *name; /* as it would have in a folder: "config.json", "model.safetensors" */
    const void *data; /* its bytes, any alignment; NULL: `descriptor` has them */
    uint64_t size;    /* bytes; of a descriptor 0: all up to its end */
    int descriptor;   /* a regular file, which is mapped */
    uint64_t offset;  /* in the descriptor's file, any number */
} fovea_file;

/* Gives the bytes of the file `name`, which must stay as they are until they are released; *data
 * NULL: there is no such file. Nonzero: it cannot be had, and loading fails with EIO. */
typedef int fovea_open_file(void *user, const char *name, const void **data, uint64_t *size);
/* The bytes that fovea_open_file gave are not needed any more. */
typedef void fovea_release_file(void *user, const void *data, uint64_t size);

/* Where the files of a model are: in a list, and for what that lacks behind a function. They are
 * those of a folder, and called as there: config.json; model.safetensors, or
 * model.safetensors.index.json with its shards; and if there are any preprocessor_config.json and
 * segmentation.safetensors.
 *
 * Bytes in memory stay the caller's. Those of configurations are needed until loading returns,
 * those of .safetensors until the model and the last of its plans are freed: they are read whenever
 * a plan is made. `release` is called then, once for each file that `open` gave, whether loading
 * succeeds or not, and on the thread that loads or frees. Descriptors may be closed when loading
 * has returned. The list and its texts are copied. */
typedef struct fovea_source {
    size_t struct_size;
    const char *name; /* what messages call it; NULL: "memory" */
    const fovea_file *files;
    size_t n_files;
    fovea_open_file *open;       /* or NULL; called while the model is loaded */
    fovea_release_file *release; /* or NULL */
    void *user;                  /* the first argument of both */
} fovea_source;
#define FOVEA_SOURCE_INIT FOVEA_INIT(fovea_source, )

/* Loads a model from there. `options`: as of fovea_model_load_with, or NULL. EINVAL for a list that
 * cannot be; EIO for a file that is missing, cannot be had, or is shorter than is said; EFORMAT,
 * ENOTSUP as fovea_model_load. That `size` bytes are at `data` is the caller's word. */
FOVEA_API fovea_status fovea_model_load_from(fovea_model **out, const fovea_source *source,
                                             const fovea_model_options *options);

/* Plans keep what they need: a model may be freed before them. */
FOVEA_API void fovea_model_free(fovea_model *model);

/* Names that "synthetic:" takes, index from 0; NULL past the end. Beside them it takes
 * "block-WIDTHxHEADSxRATIO": a ViT of one block, on patches of 2 x 2 pixels, for benchmarks; and
 * behind the name of a pyramid (mavit, nalaformer, pola) -fpn, -upernet or -retinanet: what is put
 * on it for dense tasks. */
FOVEA_API const char *fovea_model_synthetic(size_t index);
/* Names of attentions that models can be given, index from 0; NULL past the end. All but softmax
 * can have "sla-" before them. */
FOVEA_API const char *fovea_model_attention(size_t index);

typedef enum fovea_resize {
    FOVEA_RESIZE_NONE,  /* the frame has the plan's size already; remainders are cut */
    FOVEA_RESIZE_SHORT, /* the shorter side becomes `short_edge` (0: as long as it takes to cover
                           the crop), then centre crop */
    FOVEA_RESIZE_EXACT, /* to resize_width x resize_height, aspect ignored, then centre crop if any
                         */
    FOVEA_RESIZE_PATCHES, /* both sides to whole patches, as large as `most_patches` allow, with the
                             aspect kept as far as that goes (NaFlex) */
    FOVEA_RESIZE_FIT,     /* one side to resize_width or resize_height, that of them for which the
                             picture changes less, the other by the same factor, both rounded to whole
                             patches (DPT) */
    FOVEA_RESIZE_LONG,    /* the longer side becomes `long_edge`, the other keeps the aspect and is
                             rounded to the nearest pixel (SAM) */
    FOVEA_RESIZE_BOUNDED, /* the shorter side becomes `short_edge`, or less where the longer side
                             would exceed `long_edge` (DETR) */
    FOVEA_RESIZE_WITHIN,  /* as large as fits into resize_width x resize_height, the aspect kept,
                             both sides rounded down */
    FOVEA_RESIZE_BOX,     /* fovea_box_crop of the whole frame to resize_width x resize_height: with
                             a border, bilinear whatever `filter` and `resample` say (ViTPose) */
    FOVEA_RESIZE_COVER,   /* as small as covers resize_width x resize_height, the aspect kept, both
                             sides rounded to the nearest pixel, halves to the even one (timm) */
    FOVEA_RESIZE_INSIDE,  /* WITHIN, both sides rounded as of COVER (OpenCLIP) */
} fovea_resize;

typedef enum fovea_filter {
    FOVEA_FILTER_BILINEAR,
    FOVEA_FILTER_BICUBIC,
    FOVEA_FILTER_LANCZOS,
    FOVEA_FILTER_NEAREST,
    FOVEA_FILTER_BOX,
    FOVEA_FILTER_HAMMING,
} fovea_filter;

/* The arithmetic of a resize. Bytes are bit-identical to those of the library it is named after. */
typedef enum fovea_resample {
    FOVEA_RESAMPLE_TORCHVISION, /* 8-bit pixels, as torchvision resizes uint8 tensors on an x86-64
                                   with AVX2: the default of transformers 5. BOX and HAMMING, which
                                   torchvision lacks, are Pillow's */
    FOVEA_RESAMPLE_PILLOW,      /* 8-bit pixels, as Pillow up to 12.3, always with antialias */
    FOVEA_RESAMPLE_FLOAT,       /* pixels are rescaled first and stay float32, as in torchvision;
                                   they are not cut to 0 .. 1. Neither BOX nor HAMMING */
} fovea_resample;

/* The first pixel of a centred crop where the excess is odd. */
typedef enum fovea_crop {
    FOVEA_CROP_DOWN, /* excess / 2 rounded down, padding as well: transformers */
    FOVEA_CROP_EVEN, /* excess / 2 rounded to the even pixel: torchvision's CenterCrop, timm */
    FOVEA_CROP_UP,   /* excess / 2 rounded down, padding up: transformers with Pillow */
} fovea_crop;

/* What fills a picture up, and when. */
typedef enum fovea_pad {
    FOVEA_PAD_NONE,
    FOVEA_PAD_SQUARE, /* before the resize, black at the right or bottom, to a square (OWLv2) */
    FOVEA_PAD_BLACK,  /* after the resize, black at the right and bottom, to pad_width x pad_height;
                         a side that is longer stays so (EoMT) */
    FOVEA_PAD_ZERO,   /* after normalisation, zeros at the right and bottom, to pad_width x
                         pad_height, which must not be smaller than the picture (SAM) */
    FOVEA_PAD_CENTRED, /* after normalisation, zeros on all sides, to multiples of pad_width and
                          pad_height (DPT's size_divisor) */
} fovea_pad;

/* What becomes of transparency, which frames have not: for whoever reads a picture from a file. */
typedef enum fovea_alpha {
    FOVEA_ALPHA_DROP,  /* colours as they are stored, as Pillow's convert("RGB") */
    FOVEA_ALPHA_WHITE, /* laid on white: transformers 5, where do_convert_rgb is true */
} fovea_alpha;

/* From picture to normalised pixels, as the Hugging Face image processors do it: padding, resize
 * and crop as the fields say, then (v * rescale - mean) / std per channel. Begin with a model's
 * (fovea_model_preprocess), or with the _INIT macro. */
typedef struct fovea_preprocess {
    size_t struct_size;
    fovea_resize resize;
    fovea_filter filter;
    uint32_t short_edge; /* pixels, as all sizes here */
    uint32_t resize_width, resize_height;
    uint32_t crop_width, crop_height; /* 0: no crop; a smaller picture is padded with black */
    float rescale;                    /* 0: 1/255 */
    float mean[3], std[3];            /* in R, G, B order; zeros in both: the model's */
    uint32_t patch, most_patches;     /* FOVEA_RESIZE_PATCHES; FOVEA_RESIZE_FIT: patch */
    fovea_resample resample;
    uint32_t no_antialias; /* 1: filters keep their width where the picture shrinks: BILINEAR and
                              BICUBIC, which is then that of a = -0.75 instead of -0.5 */
    uint32_t blur;      /* 1: a Gaussian of (factor - 1) / 2 pixels, mirrored at the borders, comes
                           before a resize that shrinks both sides by its factor (OWLv2); with
                           FOVEA_RESAMPLE_FLOAT alone */
    uint32_t long_edge; /* FOVEA_RESIZE_LONG, FOVEA_RESIZE_BOUNDED */
    fovea_crop crop;
    fovea_pad pad;
    uint32_t pad_width, pad_height;
    uint32_t first_long_edge; /* not 0: a resize before the one above brings the longer side to
                                 this, the other keeps the aspect and is made even (Idefics3) */
    uint32_t first_multiple;  /* not 0: a second resize then brings both sides up to multiples of
                                 this (Idefics3's cut into tiles) */
    fovea_alpha alpha;
    uint32_t split; /* 1: what is resized is run in overlapping squares of short_edge pixels, of
                       which a plan has one (EoMT) */
} fovea_preprocess;
#define FOVEA_PREPROCESS_INIT FOVEA_INIT(fovea_preprocess, )

/* What scores of classes are: "problem_type" of config.json, as transformers' pipelines read it. */
typedef enum fovea_scores {
    FOVEA_SCORES_SOFTMAX, /* one class is right: their sum is 1 */
    FOVEA_SCORES_SIGMOID, /* each label by itself, from 0 to 1: of several that may be right, and of
                             heads with one output */
    FOVEA_SCORES_VALUES,  /* a regression: the outputs as they are */
} fovea_scores;

typedef struct fovea_model_info {
    size_t struct_size;
    char type[32];         /* config.json's model_type: "dinov2" */
    const char *attention; /* what it was made for, as in fovea_plan_options: "softmax", or "fovea":
                              {"attention"} of config.json; belongs to the model */
    uint32_t width;        /* C */
    uint32_t depth, heads;
    uint32_t patch;  /* pixels */
    uint32_t prefix; /* tokens before the patches: class, distillation, registers */
    uint32_t native_width, native_height; /* pixels that its position table was made for */
    uint32_t classes;                     /* rows of the head; 0: no head */
    uint32_t segments; /* classes of the segmentation head, or of masks; 0: none */
    uint64_t parameters;
    uint64_t mapped_bytes;         /* of the checkpoint */
    uint32_t boxes;                /* that it finds in a picture, at most; 0: it finds none */
    uint32_t keypoints;            /* that it finds in a picture; 0: it finds none */
    uint32_t masks;                /* queries of masks; 0: none */
    uint32_t metric;               /* 1: the depth that it gives is in metres */
    uint32_t vocabulary;           /* tokens that a language model knows; 0: it is none */
    uint32_t sequence;             /* 1: it reads sequences, not pictures: fovea_sequence_create */
    fovea_linear_form linear;      /* of a plain ViT, all as they are used; else 0 */
    uint32_t reduced_labels;       /* 1: in masks that it learned from, 0 is no class and k is class
                                      k - 1: do_reduce_labels of its preprocessing file */
    const char *preprocess_source; /* which file says how pictures are preprocessed, and by which
                                      class: "preprocessor_config.json: CLIPImageProcessor"; or
                                      that none does, and what is assumed. Belongs to the model;
                                      NULL: it sees no pictures */
    uint32_t preprocess_assumed;   /* 1: no file of the model says it */
    fovea_scores scores;           /* of its classes, as fovea_class_scores gives them */
} fovea_model_info;
#define FOVEA_MODEL_INFO_INIT FOVEA_INIT(fovea_model_info, )

/* Describes a model. */
FOVEA_API fovea_status fovea_model_describe(const fovea_model *model, fovea_model_info *out);
/* The model's preprocessing: that of the first of these files, else the family's:
 *   config.json              "pretrained_cfg" of timm
 *   processor_config.json    its section "image_processor" (transformers 5)
 *   preprocessor_config.json
 *   open_clip_config.json    "preprocess_cfg" of OpenCLIP
 * Keys of "fovea": {"preprocess"} of config.json stand in place of theirs. */
FOVEA_API fovea_status fovea_model_preprocess(const fovea_model *model, fovea_preprocess *out);
/* Selects whose arithmetic resizes bytes, and crops: FOVEA_RESAMPLE_TORCHVISION or _PILLOW. A rule
 * that resizes floats stays as it is: its class has no other. EINVAL. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_resample(fovea_preprocess *p, fovea_resample resample);
/* A preprocessing in words, "short side to 224, bicubic, bytes as torchvision, centre 224x224, mean
 * 0.481 0.458 0.408, std 0.269 0.261 0.276"; at most `room` bytes with the 0 at their end. 256 are
 * enough for every rule. EINVAL. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_text(const fovea_preprocess *p, char *text, size_t room);
/* Name of class i (id2label), of the segmentation head or of boxes where there is no other head;
 * what is no text in config.json as it is written there. NULL: it has none, or there is no such
 * class. Belongs to the model. */
FOVEA_API const char *fovea_model_label(const fovea_model *model, uint32_t i);
/* Name of key point i; of 17 those of COCO's people, whatever the file says; NULL: it has none.
 * Static text. */
FOVEA_API const char *fovea_model_keypoint(const fovea_model *model, uint32_t i);
/* Names of the outputs that a model can give, index from 0, the main one first; NULL past the end.
 * They belong to the model. Outputs of token rows have a grid and a stride, see fovea_plan_output:
 * dense features are the rows from `prefix` on, grid_height x grid_width of them, row by row.
 *
 *   logits              of the picture, if there is a head
 *   ViT                 last_hidden_state, normalised; pooler_output; image_embeds;
 *                       summary, features: C-RADIO's class tokens and patches;
 *                       hidden0 (the embedding) ... hiddenL (after the last block);
 *                       block0.q, block0.k, ...: the queries and keys that a block's attention
 *                       compares, in rows of all its heads, one after the other
 *   MAViT, NaLaFormer   patch_embed; stage1, ...; down1, ... between them;
 *                       pooled: the input of the head
 *   Pola-PVT            embed1, ...; stage1, ...
 *   Pola-Swin           patch_embed; stage1, ...; down1, ... between them;
 *                       norm: the last stage, normalised
 *   Depth Anything      predicted_depth: one column, a row for each pixel of the patches; relative
 *                       models give the nearer the more, metric ones metres; hidden0, ...
 *   ViTPose             heatmaps: rows of a grid finer than the patches', a column for each key
 *                       point; hidden0, ...
 *   EoMT                masks_queries_logits: rows of a grid finer than the patches', a column for
 *                       each query; class_queries_logits: a row for each query, of its classes and
 *                       at the end of nothing; last_hidden_state, the queries first; hidden0, ...
 *   segmentation        logits of every patch, if there is a linear head for it: tensors
 *                       segmentation_head.{weight,bias} or mmsegmentation's
 *                       decode_head.conv_seg with its batch normalisation, in the checkpoint or
 *                       in segmentation.safetensors beside it. It reads last_hidden_state, or
 *                       the last stage that is as wide as the head
 *   seg_logits          logits of every place of the finest level: Semantic FPN, UperNet
 *   logits, pred_boxes  of every query; a box is centre, width, height as shares: RF-DETR
 *   cls.0, ..; box.0, .. of every level, for each anchor one after the other: logits of all
 *                       classes, and four numbers of which fovea_detections makes boxes: RetinaNet
 *   logits              of the next token: language models, which are no plan's, see sequences.h
 *   output              rows of a token mixer by itself, the same
 */
FOVEA_API const char *fovea_model_output(const fovea_model *model, size_t index);

/* Changes a preprocessing so that its result has width x height pixels: same filter; a rule that
 * crops covers width x height and crops its centre, one that fills a picture up fits it into width
 * x height and fills it up to them, others become EXACT. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_resize(fovea_preprocess *p, uint32_t width,
                                               uint32_t height);

/* Pads, resizes and crops an RGB8 picture as a plan with this preprocessing does before it
 * normalises, so that the result can be shown beside outputs; floats are rounded, zeros black.
 * out_width x out_height are those of fovea_plan_info; `out` gets packed rows. Runs in the calling
 * thread and allocates. EINVAL when the result has another size. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_apply(const fovea_preprocess *p, const uint8_t *rgb,
                                              uint32_t width, uint32_t height, uint8_t *out,
                                              uint32_t out_width, uint32_t out_height);

FOVEA_END_DECLS

#endif
