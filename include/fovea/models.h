/* models.h: models, and how their pictures are preprocessed. This header is part of fovea.h, whose
 * rules apply here. */
#ifndef FOVEA_MODELS_H
#define FOVEA_MODELS_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

/* All functions of a model are thread-safe. */
typedef struct fovea_model fovea_model;

/* Loads a model. `path` is one of these:
 *
 *   a folder of Hugging Face  config.json; model.safetensors, or its shards with
 *                             model.safetensors.index.json; preprocessor_config.json if present
 *   a .safetensors file, or the index of its shards, next to its config.json
 *   "synthetic:NAME"          random weights from a seed; fovea_model_synthetic lists the names
 *
 * Returns EIO if a file cannot be read, EFORMAT if a file is malformed or a tensor has the wrong
 * shape, and ENOTSUP for a kind of model that is not supported. The message names the file and the
 * tensor.
 *
 * Weights are mapped, and read when plans are made. While the model exists, its files may be
 * renamed, removed, or replaced by other files, but must not be written to. Planning a model whose
 * file was written to fails with EIO. If a file is truncated while it is read, the system ends the
 * process (SIGBUS). */
FOVEA_API fovea_status fovea_model_load(fovea_model **out, const char *path);

/* Parameters of the linear attentions in the blocks of a plain ViT. A field that is 0 gets the
 * value of its key in section "fovea" of config.json or, if the key is missing, the default in
 * parentheses. */
typedef struct fovea_linear_attention_params {
    float nala_lambda; /* "nala_lambda", from 2 to 8: lambda of nala and nala-paper (3) */
    float pola_alpha;  /* "pola_alpha", from 0.01 to 16: alpha of pola (4) */
    float q_scale;     /* "q_scale", from 0.001 to 1000: multiplies queries before the feature
                          map (1) */
    uint32_t heads;    /* "linear_heads", a divisor of the width: heads of linear attentions
                          (number of heads of softmax attention) */
} fovea_linear_attention_params;

typedef struct fovea_model_options {
    size_t struct_size;
    const char
        *prefix; /* tensor name prefix of the model, such as "model.vision_tower.": only tensors
                    whose names begin with it are read, and the rest of the name is the model's
                    name of the tensor. If config.json has a section "vision_config", this
                    section describes the model. NULL: "fovea": {"prefix"} of config.json, else
                    the known prefixes of the model families */
    /* EINVAL for a value out of its range; ENOTSUP for nonzero values if the model is not a plain
     * ViT. */
    fovea_linear_attention_params linear;
    /* Folder in which packed weights are kept; it is created private to the user. A later plan, in
     * this process or another, maps the weights that an earlier one packed: processes that load the
     * same model share one read-only copy of its weights in memory, and planning is fast. NULL:
     * FOVEA_WEIGHTS_CACHE of the environment, else no folder; "": no folder.
     *
     * Only files that belong to the user or the administrator, and that nobody else may write to,
     * are read. Files that are damaged, or that belong to another model, processor or build of the
     * library, are replaced. A folder that cannot be written to only costs time. The folder holds
     * up to 4 GiB of weights in addition to those of the models in use; the oldest files are
     * removed first. Weights that the caller decrypts are stored decrypted. */
    const char *weights_cache;
} fovea_model_options;
#define FOVEA_MODEL_OPTIONS_INIT FOVEA_INIT(fovea_model_options, )

/* Loads a model like fovea_model_load, with options, which may be NULL. */
FOVEA_API fovea_status fovea_model_load_with(fovea_model **out, const char *path,
                                             const fovea_model_options *options);

/* --------------------------------------------------------------------------------------------- The
 * folder of packed weights, of all models. Both functions are thread-safe.
 *
 * If `folder` is NULL, the folder is FOVEA_WEIGHTS_CACHE of the environment, or else no folder. ""
 * means no folder. No folder, or a folder that does not exist, counts as empty. */

typedef struct fovea_weights_cache_info {
    size_t struct_size;
    size_t files;   /* number of files of packed weights, of any build of the library */
    uint64_t bytes; /* bytes of these files; a file that cannot be opened counts as 0 */
} fovea_weights_cache_info;
#define FOVEA_WEIGHTS_CACHE_INFO_INIT FOVEA_INIT(fovea_weights_cache_info, )

/* Counts the files of packed weights. Returns EINVAL or ENOMEM on failure. */
FOVEA_API fovea_status fovea_weights_cache_describe(const char *folder,
                                                    fovea_weights_cache_info *out);
/* Removes all files of packed weights, and no other file of the folder. *removed receives the
 * number of removed files. Plans that have mapped such a file keep it. Returns EIO if some files
 * could not be removed; *removed is then set, too. */
FOVEA_API fovea_status fovea_weights_cache_clear(const char *folder, size_t *removed);

/* ---------------------------------------------------------------------------------------------
 * Models that are not in a folder, but in memory, in a part of a file (the assets of an Android
 * package), or in a container that the caller unpacks or decrypts */

/* A file of a model: bytes in memory, or a part of an open file. */
typedef struct fovea_model_file {
    const char *name; /* the file's name in a model folder: "config.json", "model.safetensors" */
    const void *data; /* the file's bytes, with any alignment; NULL: read them from `descriptor` */
    uint64_t size;    /* size in bytes; with a descriptor, 0 means all bytes from `offset` to the
                         end */
    int descriptor;   /* descriptor of a regular file, which is mapped */
    uint64_t offset;  /* offset in the descriptor's file in bytes, any number */
} fovea_model_file;

/* Gives the bytes of the file `name`, which must not change until they are released. Sets *data to
 * NULL if there is no such file. Returns nonzero on failure, and loading then fails with EIO. */
typedef int fovea_open_file_fn(void *user, const char *name, const void **data, uint64_t *size);
/* Releases bytes that the open function has given. */
typedef void fovea_release_file_fn(void *user, const void *data, uint64_t size);

/* A source of a model's files: a list, and a function that is asked for files that are not in the
 * list. The files have the same names as in a folder: config.json; model.safetensors, or
 * model.safetensors.index.json with its shards; preprocessor_config.json and
 * segmentation.safetensors if the model has them. Bytes in memory stay the caller's. Configurations
 * are needed until loading returns. .safetensors files are needed until the model and the last of
 * its plans are freed, because every plan reads them. When a file is no longer needed, `release` is
 * called once for each file that `open` gave, whether loading succeeded or not, on the thread that
 * loads or frees. Descriptors may be closed when loading has returned. The list and its strings are
 * copied. */
typedef struct fovea_model_source {
    size_t struct_size;
    const char *name; /* name of the source in messages; NULL: "memory" */
    const fovea_model_file *files;
    size_t n_files;
    fovea_open_file_fn *open;       /* called only while the model is loaded; or NULL */
    fovea_release_file_fn *release; /* or NULL */
    void *user;                     /* the first argument of both */
} fovea_model_source;
#define FOVEA_MODEL_SOURCE_INIT FOVEA_INIT(fovea_model_source, )

/* Loads a model from a source. `options` is as for fovea_model_load_with, or NULL. Returns EINVAL
 * for a malformed list, EIO if a file is missing, could not be opened, or is shorter than its
 * `size`, and EFORMAT and ENOTSUP as fovea_model_load does. The library cannot check that `data`
 * points to `size` bytes. */
FOVEA_API fovea_status fovea_model_load_from(fovea_model **out, const fovea_model_source *source,
                                             const fovea_model_options *options);

/* Frees a model. Plans hold a reference, so a model may be freed before its plans. */
FOVEA_API void fovea_model_free(fovea_model *model);

/* Returns the name of synthetic model `index`, from 0, for "synthetic:NAME", or NULL past the end.
 * The string is static. Two kinds of names are not listed: "block-WIDTHxHEADSxRATIO", a ViT of one
 * block with patches of 2 x 2 pixels, for benchmarks; and the name of a pyramid (mavit, nalaformer,
 * pola) followed by -fpn, -upernet, -retinanet, -mask-rcnn or -cascade-rcnn, the head for a dense
 * task. */
FOVEA_API const char *fovea_model_synthetic(size_t index);
/* Returns the name of attention `index`, from 0, for fovea_plan_options.attention, or NULL past the
 * end. The string is static. All names except softmax may be preceded by "sla-". */
FOVEA_API const char *fovea_model_attention(size_t index);

/* How a picture is resized. Names in `..` are fields of fovea_preprocess. */
typedef enum fovea_resize {
    FOVEA_RESIZE_NONE,    /* no resize; pixels that do not fill a patch are cropped */
    FOVEA_RESIZE_SHORT,   /* the shorter side becomes `short_edge` (0: the smallest picture that
                             covers the crop), with the aspect kept; then the centre is cropped */
    FOVEA_RESIZE_EXACT,   /* to resize_width x resize_height, without keeping the aspect; then the
                             centre is cropped, if there is a crop */
    FOVEA_RESIZE_PATCHES, /* to the largest size in whole patches that `most_patches` patches
                             allow, with the aspect kept as far as possible (NaFlex) */
    FOVEA_RESIZE_FIT,  /* both sides are scaled by resize_width / width or resize_height / height,
                          whichever factor is nearer 1, and rounded to whole patches (DPT) */
    FOVEA_RESIZE_LONG, /* the longer side becomes `long_edge`; the other keeps the aspect and is
                             rounded to the nearest pixel (SAM) */
    FOVEA_RESIZE_BOUNDED, /* the shorter side becomes `short_edge`, or less if the longer side
                             would exceed `long_edge` (DETR) */
    FOVEA_RESIZE_WITHIN,  /* to the largest size that fits into resize_width x resize_height,
                             with the aspect kept; both sides are rounded down */
    FOVEA_RESIZE_BOX,     /* fovea_box_crop of the whole frame to resize_width x resize_height:
                             with a border, and always bilinear, whatever `filter` and `resample`
                             are (ViTPose) */
    FOVEA_RESIZE_COVER,   /* to the smallest size that covers resize_width x resize_height, with
                             the aspect kept; both sides are rounded to the nearest pixel, ties to
                             even (timm) */
    FOVEA_RESIZE_INSIDE,  /* like WITHIN, with the rounding of COVER (OpenCLIP) */
    FOVEA_RESIZE_FLOORED, /* like BOUNDED, but both sides are rounded down to multiples of `patch`
                             (YOLOS) */
    FOVEA_RESIZE_AREA,    /* both sides are rounded to multiples of `patch`; if the area is then
                             outside `least_area` to `most_area`, both are scaled first, with the
                             aspect kept as far as possible (Qwen2-VL) */
    FOVEA_RESIZE_SHRINK,  /* a picture that does not fit into resize_width x resize_height is
                             scaled to fit, with the aspect kept; then both sides are rounded up to
                             multiples of `patch` (Pixtral) */
} fovea_resize;

typedef enum fovea_filter {
    FOVEA_FILTER_BILINEAR,
    FOVEA_FILTER_BICUBIC,
    FOVEA_FILTER_LANCZOS,
    FOVEA_FILTER_NEAREST,
    FOVEA_FILTER_BOX,
    FOVEA_FILTER_HAMMING,
} fovea_filter;

/* The arithmetic of a resize. The resulting bytes are identical to those of the library in the
 * name. */
typedef enum fovea_resample {
    FOVEA_RESAMPLE_TORCHVISION, /* 8-bit pixels, as torchvision resizes uint8 tensors on x86-64
                                   with AVX2: the default of transformers 5. For BOX and HAMMING,
                                   which torchvision lacks, Pillow's arithmetic is used */
    FOVEA_RESAMPLE_PILLOW,      /* 8-bit pixels, as in Pillow up to 12.3, always with antialias */
    FOVEA_RESAMPLE_FLOAT,       /* pixels are rescaled first and stay float32, as in torchvision;
                                   results are not clamped to 0 .. 1. BOX and HAMMING are not
                                   supported */
} fovea_resample;

/* Where a centred crop begins if `excess`, the number of pixels that it leaves out, is odd. */
typedef enum fovea_crop {
    FOVEA_CROP_DOWN, /* at excess / 2 rounded down; padding is also rounded down: transformers */
    FOVEA_CROP_EVEN, /* at excess / 2 rounded to the even pixel: torchvision's CenterCrop, timm */
    FOVEA_CROP_UP, /* at excess / 2 rounded down; padding is rounded up: transformers with Pillow */
} fovea_crop;

/* What a picture is padded with, on which sides, and when. */
typedef enum fovea_pad {
    FOVEA_PAD_NONE,
    FOVEA_PAD_SQUARE,  /* before the resize: black, at the right or the bottom, to a square (OWLv2)
                        */
    FOVEA_PAD_BLACK,   /* after the resize: black, at the right and the bottom, to pad_width x
                          pad_height;   a longer side keeps its length (EoMT) */
    FOVEA_PAD_ZERO,    /* after normalisation: zeros, at the right and the bottom, to pad_width x
                          pad_height, which must be at least the size of the picture (SAM) */
    FOVEA_PAD_CENTRED, /* after normalisation: zeros, on all sides, to multiples of pad_width and
                          pad_height (DPT's size_divisor) */
} fovea_pad;

/* What to do with transparency, for a program that reads pictures from files. Frames have no
 * transparency. */
typedef enum fovea_alpha {
    FOVEA_ALPHA_DROP,  /* ignore it, as convert("RGB") of Pillow does */
    FOVEA_ALPHA_WHITE, /* blend with white: transformers 5 with do_convert_rgb */
} fovea_alpha;

/* How a picture is converted to normalised pixels, as in the image processors of Hugging Face:
 * padding, resize and crop according to the fields, then (v * rescale - mean) / std for each
 * channel. Start from the preprocessing of a model (fovea_model_preprocess), or from the _INIT
 * macro. All sizes are in pixels. */
typedef struct fovea_preprocess { /* More than 25 fields: a report, which grows at its end */
    size_t struct_size;
    fovea_resize resize;
    fovea_filter filter;
    uint32_t short_edge; /* length of the shorter side, for FOVEA_RESIZE_SHORT and
                            FOVEA_RESIZE_BOUNDED; the side of the squares, for `split` */
    uint32_t resize_width, resize_height;
    uint32_t crop_width, crop_height; /* 0: no crop. A smaller picture is padded with black */
    float rescale;                    /* 0: 1/255 */
    float mean[3], std[3];            /* for R, G, B; all zero: the model's values */
    uint32_t patch;                   /* FOVEA_RESIZE_PATCHES, FOVEA_RESIZE_FIT, FOVEA_RESIZE_AREA,
                                         FOVEA_RESIZE_SHRINK, FOVEA_RESIZE_FLOORED: side of a patch;
                                         FOVEA_RESIZE_BOUNDED, FOVEA_RESIZE_WITHIN: sides are
                                         rounded up to multiples of this; 0: they are not */
    uint32_t most_patches;            /* FOVEA_RESIZE_PATCHES: maximum number of patches */
    fovea_resample resample;
    uint32_t no_antialias; /* 1: BILINEAR and BICUBIC are not stretched when the picture shrinks;
                              BICUBIC then has a = -0.75 instead of -0.5 */
    uint32_t blur; /* 1: before a resize that shrinks both sides by a factor, the picture is blurred
                      with a Gaussian of (factor - 1) / 2 pixels, mirrored at the borders (OWLv2);
                      FOVEA_RESAMPLE_FLOAT only */
    uint32_t long_edge; /* length of the longer side, for FOVEA_RESIZE_LONG and
                           FOVEA_RESIZE_BOUNDED */
    fovea_crop crop;
    fovea_pad pad;
    uint32_t pad_width, pad_height;
    uint32_t first_long_edge; /* nonzero: the picture is first resized so that the longer side has
                                 this length; the other side keeps the aspect and is made
                                 even (Idefics3) */
    uint32_t first_multiple;  /* nonzero: the picture is then resized again, with both sides
                                 rounded up to a multiple of this (Idefics3, which cuts it into
                                 tiles) */
    fovea_alpha alpha;
    uint32_t split; /* 1: the resized picture is run in overlapping squares of short_edge pixels,
                       each of them a frame of a plan (EoMT); see crops.h */
    uint32_t least_area, most_area; /* FOVEA_RESIZE_AREA: limits of the area */
} fovea_preprocess;
#define FOVEA_PREPROCESS_INIT FOVEA_INIT(fovea_preprocess, )

/* The meaning of class scores: "problem_type" of config.json, as the pipelines of transformers read
 * it. */
typedef enum fovea_scores {
    FOVEA_SCORES_SOFTMAX, /* softmax of the logits, whose sum is 1: one class applies */
    FOVEA_SCORES_SIGMOID, /* sigmoid of each logit, from 0 to 1: any number of labels may apply;
                             also used for heads with a single output */
    FOVEA_SCORES_VALUES,  /* regression: the scores are the logits */
} fovea_scores;

typedef struct fovea_model_info { /* More than 25 fields: a report, which grows at its end */
    size_t struct_size;
    char type[32];         /* model_type of config.json: "dinov2" */
    const char *attention; /* the attention that the model was trained with, as in
                              fovea_plan_options: "softmax", or "fovea": {"attention"} of
                              config.json. Belongs to the model */
    uint32_t width;        /* channels of a token */
    uint32_t depth;        /* blocks */
    uint32_t heads;        /* attention heads */
    uint32_t patch;        /* side of a patch in pixels */
    uint32_t prefix;       /* number of tokens before the patches: class, distillation, registers */
    uint32_t native_width, native_height; /* picture size of its position table in pixels */
    uint32_t classes;                     /* classes of the classifier; 0: no classifier */
    uint32_t segments; /* classes of the segmentation head, or of masks; 0: neither */
    uint64_t parameters;
    uint64_t mapped_bytes; /* mapped bytes of the checkpoint */
    uint32_t boxes;        /* maximum number of boxes per picture; 0: not a detector */
    uint32_t keypoints;    /* key points of a person; 0: not a pose model */
    uint32_t masks;        /* number of queries or boxes with a mask; 0: no masks */
    uint32_t metric;       /* 1: depth is in metres */
    uint32_t vocabulary;   /* number of token ids of a language model; 0: not a language model */
    uint32_t sequence;     /* 1: the model reads sequences, not pictures: fovea_sequence_create */
    fovea_linear_attention_params linear; /* the values that a plain ViT uses; else 0 */
    uint32_t reduced_labels;       /* 1: in the masks that the model was trained with, 0 is not a
                                      class, and k is class k - 1: do_reduce_labels */
    const char *preprocess_source; /* the source of the preprocessing: the file and the class in
                                      it, "preprocessor_config.json: CLIPImageProcessor"; or a
                                      text that no file has it, and what is assumed. Belongs to
                                      the model. NULL: the model reads no pictures */
    uint32_t preprocess_assumed;   /* 1: no file of the model has the preprocessing */
    fovea_scores scores;           /* the kind of scores that fovea_class_scores computes */
    uint32_t prompt_masks;         /* masks of each prompt of points and boxes; 0: the model reads
                                      no prompts. See fovea_segmenter_create in prompts.h */
} fovea_model_info;
#define FOVEA_MODEL_INFO_INIT FOVEA_INIT(fovea_model_info, )

/* Describes a model. */
FOVEA_API fovea_status fovea_model_describe(const fovea_model *model, fovea_model_info *out);
/* Returns the preprocessing of the model, read from the first of these files that exists, or else
 * the default of its family:
 *
 *   config.json              "pretrained_cfg" of timm
 *   processor_config.json    its section "image_processor" (transformers 5)
 *   preprocessor_config.json
 *   open_clip_config.json    "preprocess_cfg" of OpenCLIP
 *
 * Keys of "fovea": {"preprocess"} in config.json override those of the file. */
FOVEA_API fovea_status fovea_model_preprocess(const fovea_model *model, fovea_preprocess *out);
/* Selects the library whose arithmetic resizes and crops bytes: FOVEA_RESAMPLE_TORCHVISION or
 * FOVEA_RESAMPLE_PILLOW. Does not change a preprocessing with FOVEA_RESAMPLE_FLOAT, because its
 * image processor has no other arithmetic. Returns EINVAL for another value. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_resample(fovea_preprocess *p, fovea_resample resample);
/* Describes a preprocessing in words: "short side to 224, bicubic, bytes as torchvision, centre
 * 224x224, mean 0.481 0.458 0.408, std 0.269 0.261 0.276". `capacity` is the size of `text` in
 * bytes, and includes the terminating 0; 256 is always enough. Returns EINVAL if the text does not
 * fit. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_text(const fovea_preprocess *p, char *text,
                                             size_t capacity);
/* Returns the name of class i, from id2label of config.json, for the classifier, or else for the
 * segmentation head or for boxes. A value that is not a string is returned as its JSON text.
 * Returns NULL if the class has no name, or if there is no such class. The string belongs to the
 * model. */
FOVEA_API const char *fovea_model_label(const fovea_model *model, uint32_t i);
/* Returns the name of key point i, or NULL if it has no name. Models with 17 points have COCO's
 * names, whatever the file says. The string is static. */
FOVEA_API const char *fovea_model_keypoint(const fovea_model *model, uint32_t i);
/* Returns the name of output `index`, from 0, of all outputs that the model can compute, or NULL
 * past the end. The main output has index 0. The string belongs to the model. Outputs of token rows
 * have a grid and a stride, see fovea_plan_output: dense features are the grid_height x grid_width
 * rows that follow the `prefix` rows, row by row.
 *
 *   logits              logits of the picture's classes, if there is a classifier
 *   ViT                 last_hidden_state, normalised; pooler_output; image_embeds;
 *                       summary, features: class tokens and patches of C-RADIO;
 *                       hidden0 (the embedding) to hiddenL (after the last block);
 *                       block0.q, block0.k, ...: the queries and keys that the attention of a
 *                       block compares, with the channels of all heads in a row
 *   MAViT, NaLaFormer   patch_embed; stage1, ...; down1, ... between them;
 *                       pooled: the input of the classifier
 *   Pola-PVT            embed1, ...; stage1, ...
 *   Pola-Swin           patch_embed; stage1, ...; down1, ... between them;
 *                       norm: the last stage, normalised
 *   Depth Anything, DPT predicted_depth: one column, a row for each pixel of the patches (DPT: for
 *                       each place of a grid that is about as fine). Relative models give inverse
 *                       depth, larger is nearer; metric ones metres. hidden0, ...
 *   ViTPose             heatmaps: rows of a grid finer than that of the patches, a column for each
 *                       key point. hidden0, ...
 *   EoMT                masks_queries_logits: rows of a grid finer than that of the patches, a
 *                       column for each query. class_queries_logits: a row for each query, a column
 *                       for each class and a last one for no object. last_hidden_state, the queries
 *                       first; hidden0, ...
 *   segmentation        logits of the classes of every patch, if there is a linear head for it: the
 *                       tensors segmentation_head.{weight,bias}, or decode_head.conv_seg of
 *                       mmsegmentation with its batch normalisation, in the checkpoint or in
 *                       segmentation.safetensors next to it. The head reads last_hidden_state, or
 *                       the last stage that is as wide as the head
 *   seg_logits          logits of the classes of every place of the finest level: Semantic FPN,
 *                       UperNet
 *   logits, pred_boxes  a row for each query; a box is its centre, width and height as fractions of
 *                       the picture: RF-DETR
 *   pred_masks          rows of a grid finer than that of the patches, a column for each query:
 *                       RF-DETR for instance segmentation
 *   pred_scores, pred_boxes, pred_masks  a row for each box, best first: its score and class, of
 *                       which -1 means no box; its left, top, right and bottom edge in pixels of
 * the picture that was run. One column with the probabilities of the cells of each box, row by row:
 * Mask R-CNN and Cascade Mask R-CNN cls.0, .., box.0, ..  a row for each place of a level: for each
 * anchor the logits of all classes, and four numbers of which fovea_detections makes a box:
 * RetinaNet logits              logits of the next token: language models, which have sequences
 * instead of plans, see sequences.h output              rows of a single token mixer, also with
 * sequences */
FOVEA_API const char *fovea_model_output(const fovea_model *model, size_t index);

/* Changes a preprocessing so that its result has width x height pixels, with the same filter. A
 * preprocessing that crops then resizes the picture to cover width x height, and crops the centre.
 * One that pads then resizes it to fit into width x height, and pads. All others become
 * FOVEA_RESIZE_EXACT. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_resize(fovea_preprocess *p, uint32_t width,
                                               uint32_t height);

/* Pads, resizes and crops a picture of FOVEA_FORMAT_RGB8 with packed rows, as a plan with this
 * preprocessing does before it normalises, so that the result can be shown next to outputs. `out`
 * receives out_width x out_height pixels of three bytes in packed rows; the size is that of
 * fovea_plan_info. Floats are rounded, and padding with zeros is black. Computes in the calling
 * thread, and allocates. Returns EINVAL if the result has another size, or ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_preprocess_apply(const fovea_preprocess *p, const uint8_t *rgb,
                                              uint32_t width, uint32_t height, uint8_t *out,
                                              uint32_t out_width, uint32_t out_height);

FOVEA_END_DECLS

#endif
