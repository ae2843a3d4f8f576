/* fovea.h: vision transformers with linear attention at high resolution on edge devices.
 *
 * The public interface; fovea/tuning.h and fovea/verification.h are parts of it. In one breath: a
 * *model* (immutable: configuration and memory-mapped weights) becomes a *plan* (one device, one
 * picture size, one attention), and a plan *runs* frames.
 *
 *     fovea_device *device;
 *     fovea_model *model;
 *     fovea_plan *plan;
 *     fovea_output_info features = FOVEA_OUTPUT_INFO_INIT;
 *     fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
 *     options.frame.width = 1920;
 *     options.frame.height = 1080;
 *     options.attention = "linear:elu1";
 *     if (fovea_device_open(&device, "cpu", NULL) || fovea_model_load(&model, "dinov2-base") ||
 *         fovea_plan_create(&plan, model, device, &options))
 *         return fprintf(stderr, "%s\n", fovea_error());
 *     fovea_plan_output(plan, 0, &features);
 *     size_t size = (size_t)features.rows * features.columns * sizeof(float);
 *     fovea_output out = {malloc(size), size};
 *     while (next(camera)) {
 *         fovea_frame frame = {.pixels = {camera->rgb}};
 *         fovea_run(plan, &frame, &out, 1);
 *     }
 *
 * Rules that hold for every function
 *   - What can fail returns a fovea_status, 0 or negative; its first argument `out` receives the
 *     result and is left untouched on failure. fovea_error() then holds one line that names the
 *     thing and the remedy. `void` functions cannot fail and take NULL. Functions that take
 *     an index return 0, or NULL, past the end.
 *   - Everything that can be decided is decided by fovea_plan_create. After it nothing is
 *     allocated, no file is opened, no lock is taken that another frame could hold. The library
 *     never prints, aborts or exits.
 *   - Threads: "Thread-safe" functions may be called by any threads at the same time. "One
 *     thread at a time" functions must not overlap on the same object; on different objects they
 *     may. A model may be used by many threads and a device by many plans. An object is freed or
 *     closed once, when nobody uses it any more.
 *   - Processes: after fork() devices of the CPU, with their plans and models, go on in the child,
 *     on the calling thread alone, unless another thread was inside the library. What was opened
 *     with a driver is for the process that opened it, as the drivers themselves are.
 *   - Units: seconds, bytes, pixels. Activations are float32, rows of channels: [token][channel],
 *     channels contiguous.
 *   - Structs that may grow begin with `struct_size`, their size as the caller was compiled:
 *     initialise them with their _INIT macro, those that the library fills too. A program that was
 *     compiled with an older header keeps running: options that it does not know have their
 *     defaults, results that it does not know are not written. With a newer header it runs while
 *     the options that this library does not know are zero. EINVAL for a `struct_size` that is not
 *     set, and for such options; index functions then return 0. In a struct that a callback gets,
 *     `struct_size` is the library's. The elements of arrays and the values that come with every
 *     frame have no size and never grow: fovea_frame, fovea_output, fovea_matrix, fovea_target,
 *     fovea_trace_event, fovea_tensor.
 *   - Zero in an option means "the default" unless the option says otherwise.
 */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include <stddef.h>
#include <stdint.h>

#include <fovea/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(FOVEA_STATIC)
#define FOVEA_API
#elif defined(__GNUC__)
#define FOVEA_API __attribute__((visibility("default")))
#else
#define FOVEA_API
#endif

/* For the _INIT macros: the size, the fields that are set (FOVEA_SET), and zeros. C++ has
 * designated initialisers since 2020 only. */
#ifdef __cplusplus
#define FOVEA_INIT(type, ...)                                                                      \
    [] {                                                                                           \
        type init_{};                                                                              \
        init_.struct_size = sizeof(type);                                                          \
        __VA_ARGS__;                                                                               \
        return init_;                                                                              \
    }()
#define FOVEA_SET(field, value) init_.field = value
#else
#define FOVEA_INIT(type, ...)                                                                      \
    {                                                                                              \
        .struct_size = sizeof(type), __VA_ARGS__                                                   \
    }
#define FOVEA_SET(field, value) .field = value
#endif

/* ---------------------------------------------------------------------------------------------
 * Status and messages
 */

typedef enum fovea_status {
    FOVEA_OK = 0,
    FOVEA_EINVAL = -1,   /* an argument or option is wrong: fix the call */
    FOVEA_ENOMEM = -2,   /* out of memory, or over the plan's memory limit: plan smaller */
    FOVEA_EIO = -3,      /* a file could not be opened or read */
    FOVEA_EFORMAT = -4,  /* a file is truncated, corrupt or contradicts itself */
    FOVEA_ENOTSUP = -5,  /* understood, but not supported here (model type, op, device) */
    FOVEA_ENODEV = -6,   /* no such device */
    FOVEA_EDEVICE = -7,  /* the device failed: close and reopen it */
    FOVEA_EWISDOM = -8,  /* a tuning file is malformed; nothing was changed */
    FOVEA_ETIMEOUT = -9, /* the wait ended before the frame did */
} fovea_status;

/* One line about this thread's last failure: the thing and the remedy. Never NULL; "" when nothing
 * has failed yet. Valid until the thread's next failing call. Thread-safe, as are the next two. */
FOVEA_API const char *fovea_error(void);

/* "ok", "out of memory", ... Static text for any value. */
FOVEA_API const char *fovea_status_text(fovea_status status);

/* Version of the library at run time, "0.1.0". */
FOVEA_API const char *fovea_version(void);

/* Remarks that are no failures (a remainder of the image that is ignored, a fallback taken) go to
 * `log`, one line without a newline each, from any thread while loading and planning, never while
 * running. NULL (the default) discards them. Not thread-safe: set it before other calls begin. */
typedef void fovea_log_fn(const char *line, void *payload);
FOVEA_API void fovea_log_set(fovea_log_fn *log, void *payload);

/* ---------------------------------------------------------------------------------------------
 * Devices
 */

typedef struct fovea_device fovea_device;

typedef struct fovea_device_info {
    size_t struct_size;
    char id[32];         /* what fovea_device_open takes: "cpu", "cl:0", "cuda:0" */
    char name[128];      /* "AMD EPYC 9755" */
    char features[64];   /* ISA level or device features: "avx512" */
    uint32_t units;      /* processors this process may use, or compute units */
    uint32_t clusters;   /* kinds of cores, fastest first; 1 on a symmetric machine */
    uint32_t big;        /* processors that are at least half as fast as the fastest */
    uint64_t memory;     /* bytes it can address */
    uint64_t max_buffer; /* bytes of its largest single buffer; 0: no limit of its own */
    /* Of devices that are not the CPU, else "" and 0: */
    char driver[128];      /* the driver and its version */
    uint64_t local_memory; /* bytes that a work-group shares; 0: none that is not main memory */
    uint32_t group_limit;  /* work-items of a work-group at most */
    char quirks[256];      /* what was found missing or wrong, and is worked around */
} fovea_device_info;
#define FOVEA_DEVICE_INFO_INIT FOVEA_INIT(fovea_device_info, )

/* Device `index` of this machine, from 0: the CPU, then those of OpenCL and CUDA. Returns 0 past
 * the end. Drivers are asked once in a process, by the first call for an index beyond 0.
 * Thread-safe, as are the two lists below. */
FOVEA_API int fovea_device_list(size_t index, fovea_device_info *out);

/* A remark on backend `index`, from 0: its driver, or why it found no device. One line; NULL past
 * the end. Static text. */
FOVEA_API const char *fovea_backend_remark(size_t index);

typedef struct fovea_kernel_info {
    size_t struct_size;
    const char *name;      /* "gemm_f32_14x32_avx512" */
    const char *op;        /* "gemm" */
    const char *mechanism; /* "elu1", or "any" */
    const char *isa;       /* "scalar", "avx2", ... or the device's kind */
    int usable;            /* on this machine */
} fovea_kernel_info;
#define FOVEA_KERNEL_INFO_INIT FOVEA_INIT(fovea_kernel_info, )

/* Kernel `index` of all backends, from 0; returns 0 past the end. Static texts. */
FOVEA_API int fovea_kernel_list(size_t index, fovea_kernel_info *out);

/* A caller's own parallel loop: run fn(arg, i) for every i in [0, n), in any order, on any threads,
 * and return when all are done. At most n calls overlap. */
typedef void fovea_parallel_for(void (*fn)(void *arg, size_t i), void *arg, size_t n, void *ctx);

typedef struct fovea_device_options {
    size_t struct_size;
    uint32_t threads;  /* workers, the calling thread included; 0: one per performance core, at most
                          a cgroup's quota rounded up: 2 with 1.5 processors. A number that is given
                          is not limited by the quota */
    const char *isa;   /* highest level to use: "scalar", "avx2", "avx512", "neon", "neon-fp16",
                          "neon-dot"; NULL: FOVEA_ISA of the environment, else the best there is */
    const char *cores; /* "big" (default): those at least half as fast as the fastest; "little": the
                          slowest kind; "all"; or a list: "4-7" or "0,2". Where there are enough of
                          them, every worker keeps to one, away from the caller's */
    fovea_parallel_for *parallel_for; /* instead of the pool; needs `threads` */
    void *parallel_ctx;
    /* The fields above are the CPU's, those below of devices that compile their kernels. */
    double max_dispatch_seconds; /* approximate limit of one dispatch, because the device may also
                               draw the screen. 0: 0.02; no limit on processors (also through
                               OpenCL) and on CUDA cards without a display */
    const char *cache;           /* directory of compiled kernels, made private to the user; NULL:
                                    FOVEA_CACHE of the environment, else fovea/kernels in
                                    $XDG_CACHE_HOME or ~/.cache; "": none */
    /* For the CPU again, for frames that have a deadline. ENOMEM and ENOTSUP name the limit that
     * the system sets this process, and how to raise it. */
    int lock_memory;         /* keeps activations, packed weights and the workers' stacks in main
                                memory; a program that swaps must lock its own code and stacks */
    uint32_t priority;       /* of the workers, real time (SCHED_FIFO), 1 to 99; 0: as the calling
                                thread. That one takes part in every frame: give it the same */
    const char *thread_name; /* workers are called NAME-1, NAME-2, ...: 10 characters at most; NULL:
                                "fovea" */
} fovea_device_options;
#define FOVEA_DEVICE_OPTIONS_INIT FOVEA_INIT(fovea_device_options, )

/* Opens a device by id ("cpu", "cl:0", "cl:Mali", "cuda:0") or "auto". `options` may be NULL.
 * ENODEV if there is no device of that id, EINVAL for options that this machine cannot provide.
 * Thread-safe, as are the next three. */
FOVEA_API fovea_status fovea_device_open(fovea_device **out, const char *id,
                                         const fovea_device_options *options);
/* Plans, states and trainers keep what they need: a device may be closed before them, and goes with
 * the last of them. */
FOVEA_API void fovea_device_close(fovea_device *device);
FOVEA_API fovea_status fovea_device_describe(const fovea_device *device, fovea_device_info *out);
/* Workers that a plan of this device uses. */
FOVEA_API uint32_t fovea_device_threads(const fovea_device *device);

/* The peak rates of a device, all workers together. */
typedef struct fovea_rates {
    size_t struct_size;
    double flops; /* float32 operations per second, in registers; a multiply-add is two */
    double read;  /* bytes per second read from its memory */
    double copy;  /* bytes per second copied in its memory, those read and those written */
} fovea_rates;
#define FOVEA_RATES_INIT FOVEA_INIT(fovea_rates, )

/* Measures them, in a fraction of a second. One thread at a time, and while no plan of the device
 * runs: that would lower the rates. ENOMEM, EDEVICE. */
FOVEA_API fovea_status fovea_device_rates(fovea_device *device, fovea_rates *out);

/* Compiled kernels in memory, for a program that keeps them itself instead of in a directory: those
 * that the device's plans have used so far. *size gets their bytes (0 on a device that compiles
 * nothing); they are written to `data` unless it is NULL. EINVAL when `room` is less. Thread-safe,
 * as is fovea_cache_import. */
FOVEA_API fovea_status fovea_cache_export(fovea_device *device, void *data, size_t room,
                                          size_t *size);
/* Gives them back, before plans are made; `data` need not outlive the call. Kernels of another
 * device, driver or version of this library are skipped. EFORMAT when they are damaged. */
FOVEA_API fovea_status fovea_cache_import(fovea_device *device, const void *data, size_t size);

/* The folder of compiled kernels, whichever device they are of. `folder` NULL: FOVEA_CACHE of the
 * environment, else the default; "" has nothing. A folder that is not there is empty and is not
 * made; EIO for one that is not this user's alone. Thread-safe, as all functions of the folder. */
FOVEA_API fovea_status fovea_cache_folder(char *out, size_t room);

typedef struct fovea_cache_entry {
    size_t struct_size;
    const char *file;    /* its path */
    const char *device;  /* that it was compiled for */
    const char *program; /* "gemm.cl" */
    uint64_t size;       /* bytes of the file */
    const char *problem; /* why it is not used; "" when it is sound */
} fovea_cache_entry;
/* Nonzero ends the list. Texts live until it returns. */
typedef int fovea_cache_fn(const fovea_cache_entry *entry, void *payload);
/* Calls `fn` for every entry. The driver may still reject a sound one when it is loaded. */
FOVEA_API fovea_status fovea_cache_list(const char *folder, fovea_cache_fn *fn, void *payload);
/* Removes the entries, and nothing else that may be in the folder. */
FOVEA_API fovea_status fovea_cache_clear(const char *folder, size_t *removed);
/* All sound entries in the form that fovea_cache_import and fovea_cache_unpack read. *size gets
 * their bytes; they are written to `data` unless it is NULL. EINVAL when `room` is less. */
FOVEA_API fovea_status fovea_cache_pack(const char *folder, void *data, size_t room, size_t *size);
/* Adds them to the folder, which is made. EFORMAT when they are damaged; then none is. EIO when
 * they cannot be written there; *added of them were. */
FOVEA_API fovea_status fovea_cache_unpack(const char *folder, const void *data, size_t size,
                                          size_t *added);

/* ---------------------------------------------------------------------------------------------
 * Models
 */

typedef struct fovea_model fovea_model;

/* Loads `path`: a Hugging Face directory (config.json and model.safetensors, or its shards with
 * model.safetensors.index.json; preprocessor_config.json if present), a .safetensors file, or an
 * index of several, with config.json beside it, or "synthetic:NAME" (random weights from a seed;
 * fovea_model_synthetic lists the names). EIO, EFORMAT, ENOTSUP name file and tensor.
 *
 * Weights are mapped, and read when plans are made: as long as the model lives its files may be
 * renamed, removed and replaced by others, but not written to. Planning a model whose file was
 * written to is EIO; if a file is truncated while it is being read, the system ends the process
 * (SIGBUS). Thread-safe, as are all functions of a model. */
FOVEA_API fovea_status fovea_model_load(fovea_model **out, const char *path);
/* Plans keep what they need: a model may be freed before them. */
FOVEA_API void fovea_model_free(fovea_model *model);

/* Names that "synthetic:" takes, index from 0; NULL at the end. Beside them it takes
 * "block-WIDTHxHEADSxRATIO": a ViT of one block, on patches of 2 x 2 pixels, for benchmarks. */
FOVEA_API const char *fovea_model_synthetic(size_t index);
/* Names of attentions that models can be given, index from 0; NULL at the end. All but softmax can
 * have "sla-" before them. */
FOVEA_API const char *fovea_model_attention(size_t index);

typedef enum fovea_resize {
    FOVEA_RESIZE_NONE,  /* the frame has the plan's size already; remainders are cut */
    FOVEA_RESIZE_SHORT, /* the shorter side becomes `short_edge` (0: as long as it takes to cover
                           the crop), then centre crop */
    FOVEA_RESIZE_EXACT, /* to resize_width x resize_height, aspect ignored, then centre crop if any
                         */
} fovea_resize;

typedef enum fovea_filter {
    FOVEA_FILTER_BILINEAR,
    FOVEA_FILTER_BICUBIC,
    FOVEA_FILTER_LANCZOS,
    FOVEA_FILTER_NEAREST,
    FOVEA_FILTER_BOX,
    FOVEA_FILTER_HAMMING,
} fovea_filter;

/* From picture to normalised pixels, as the Hugging Face image processors do it (Pillow's
 * antialiased filters on 8-bit pixels, then (v * rescale - mean) / std per channel). Begin with a
 * model's (fovea_model_preprocess), or with the _INIT macro. */
typedef struct fovea_preprocess {
    size_t struct_size;
    fovea_resize resize;
    fovea_filter filter;
    uint32_t short_edge;
    uint32_t resize_width, resize_height;
    uint32_t crop_width, crop_height; /* 0: no crop; a smaller picture is padded with black */
    float rescale;                    /* 0: 1/255 */
    float mean[3], std[3];            /* in R, G, B order; zeros in both: the model's */
} fovea_preprocess;
#define FOVEA_PREPROCESS_INIT FOVEA_INIT(fovea_preprocess, )

typedef struct fovea_model_info {
    size_t struct_size;
    char type[32];         /* config.json's model_type: "dinov2" */
    const char *attention; /* what it was made for, as in fovea_plan_options: "softmax", or "fovea":
                              {"attention"} of config.json; belongs to the model */
    uint32_t width;        /* C */
    uint32_t depth, heads;
    uint32_t patch;  /* pixels */
    uint32_t prefix; /* tokens before the patches: class, distillation, registers */
    uint32_t native_width, native_height; /* the size its position table was made for */
    uint32_t classes;                     /* rows of the head, 0 without */
    uint32_t segments;                    /* classes of the segmentation head, 0 without */
    uint64_t parameters;
    uint64_t mapped_bytes; /* of the checkpoint */
} fovea_model_info;
#define FOVEA_MODEL_INFO_INIT FOVEA_INIT(fovea_model_info, )

FOVEA_API fovea_status fovea_model_describe(const fovea_model *model, fovea_model_info *out);
/* How its pictures are made: preprocessor_config.json, else the family's rule. */
FOVEA_API fovea_status fovea_model_preprocess(const fovea_model *model, fovea_preprocess *out);
/* id2label of class i, of the segmentation head where there is no other; or NULL. Belongs to the
 * model. */
FOVEA_API const char *fovea_model_label(const fovea_model *model, uint32_t i);
/* The outputs a model can give, index from 0, the main one first; NULL at the end. Belongs to the
 * model. Those of token rows have a grid and a stride, see fovea_plan_output: dense features are
 * the rows from `prefix` on, grid_height x grid_width of them, row by row.
 *
 *   logits              of the picture, if there is a head
 *   ViT                 last_hidden_state, normalised; pooler_output; image_embeds;
 *                       hidden0 (the embedding) ... hiddenL (after the last block);
 *                       block0.q, block0.k, ...: what a block's attention compares, rows of its
 *                       heads, one after the other
 *   MAViT, NaLaFormer   patch_embed; stage1, ...; down1, ... between them;
 *                       pooled: what the head reads
 *   Pola-PVT            embed1, ...; stage1, ...
 *   Pola-Swin           patch_embed; stage1, ...; down1, ... between them;
 *                       norm: the last stage, normalised
 *   segmentation        logits of every patch, if there is a linear head for it: tensors
 *                       segmentation_head.{weight,bias} or mmsegmentation's
 *                       decode_head.conv_seg with its batch normalisation, in the checkpoint or
 *                       in segmentation.safetensors beside it; it reads last_hidden_state, or
 *                       the last stage that is as wide as the head
 */
FOVEA_API const char *fovea_model_output(const fovea_model *model, size_t index);

/* Changes a model's preprocessing to give a picture of width x height: the same rule and
 * filter; a SHORT rule covers width x height and crops its centre. Thread-safe, as is the next. */
FOVEA_API fovea_status fovea_preprocess_resize(fovea_preprocess *p, uint32_t width,
                                               uint32_t height);

/* What a plan with this preprocessing makes of an RGB8 picture before it is normalised, to be shown
 * beside results: out_width x out_height as fovea_plan_info has them, packed rows into `out`. In
 * the calling thread, allocates. EINVAL when the result has another size. */
FOVEA_API fovea_status fovea_preprocess_apply(const fovea_preprocess *p, const uint8_t *rgb,
                                              uint32_t width, uint32_t height, uint8_t *out,
                                              uint32_t out_width, uint32_t out_height);

/* ---------------------------------------------------------------------------------------------
 * Wisdom: the fastest choices found so far, kept as text
 *
 * One self-contained fact a line, so that texts of several devices and models may be put together:
 * which kernel with which settings suits a step, how a sweep runs, how long a frame takes. Plans
 * ask it before their own estimate, by device and problem; fovea_tune adds to it.
 *
 * A process has one store. It is read when it is first asked for: the file that FOVEA_WISDOM names
 * (empty: nothing is read at all), else fovea/wisdom in $XDG_CACHE_HOME or ~/.cache; then, where
 * that says nothing, /etc/fovea/wisdom and what came with the library. A file that cannot be read
 * is a remark, not a failure. Lines about kernels that this version does not have are skipped. All
 * of this happens while planning, never while running. All functions are thread-safe.
 */

/* How much a plan may measure. */
typedef enum fovea_rigor {
    FOVEA_RIGOR_DEFAULT,    /* FOVEA_RIGOR of the environment (estimate, measure, exhaustive), else
                               FOVEA_RIGOR_ESTIMATE */
    FOVEA_RIGOR_ESTIMATE,   /* nothing: wisdom, else the cost model */
    FOVEA_RIGOR_MEASURE,    /* the kernels and settings that the cost model ranks first */
    FOVEA_RIGOR_EXHAUSTIVE, /* every kernel and every setting */
} fovea_rigor;

typedef struct fovea_wisdom_info {
    size_t struct_size;
    size_t taken;   /* facts */
    size_t skipped; /* lines about kernels, revisions or settings that this version does not have */
} fovea_wisdom_info;
#define FOVEA_WISDOM_INFO_INIT FOVEA_INIT(fovea_wisdom_info, )

/* Adds the facts of a file, or of `size` bytes of text, to the store: of two about the same thing
 * the more rigorous is kept, else the newer. `out` may be NULL. EWISDOM for what is no such text,
 * which then changes nothing; EIO. */
FOVEA_API fovea_status fovea_wisdom_load(const char *path, fovea_wisdom_info *out);
FOVEA_API fovea_status fovea_wisdom_import(const char *text, size_t size, fovea_wisdom_info *out);
/* Writes the user's and the found facts to `path`, merged with what is there, as a whole or not at
 * all. NULL: the file that is read first, its folder is made. EWISDOM when what is there is no
 * wisdom: it is left alone. */
FOVEA_API fovea_status fovea_wisdom_save(const char *path);
/* The whole store as text. *size gets its bytes; they are written to `text`, an end included,
 * unless it is NULL. EINVAL when `room` is less. */
FOVEA_API fovea_status fovea_wisdom_export(char *text, size_t room, size_t *size);
/* Empties the store; files stay as they are and are not read again. */
FOVEA_API void fovea_wisdom_forget(void);
/* The file that fovea_wisdom_save writes for NULL; "" when nothing is to be read. EIO without a
 * home; EINVAL when `room` is too small. */
FOVEA_API fovea_status fovea_wisdom_path(char *out, size_t room);

/* ---------------------------------------------------------------------------------------------
 * Plans
 */

typedef struct fovea_plan fovea_plan;

typedef enum fovea_format {
    FOVEA_FORMAT_RGB8, /* bytes R, G, B */
    FOVEA_FORMAT_BGR8,
    FOVEA_FORMAT_GRAY8,
    FOVEA_FORMAT_PLANES_F32, /* float planes R, G, B, one after the other, packed, already
                         normalised; never resized */
    FOVEA_FORMAT_NV12,       /* bytes Y, and in a second plane U, V of every 2 x 2 pixels */
    FOVEA_FORMAT_YUYV,       /* bytes Y, U, Y, V of every 2 pixels; also called YUY2 */
} fovea_format;

/* What luma and chroma mean: the matrix, and whether black is 16 and white 235 or they take the
 * whole byte. Cameras give the first one unless they say something else: a USB camera's YUYV, what
 * V4L2 takes for granted, most camera processors. Video of 720 lines and more is mostly BT.709,
 * frames that were a JPEG are BT.601 in full range. */
typedef enum fovea_yuv {
    FOVEA_YUV_601, /* BT.601, limited range */
    FOVEA_YUV_601_FULL,
    FOVEA_YUV_709, /* BT.709, limited range */
    FOVEA_YUV_709_FULL,
} fovea_yuv;

typedef enum fovea_schedule {
    FOVEA_SCHEDULE_AUTO,
    FOVEA_SCHEDULE_STREAMED, /* a chunk of tokens is carried through all steps of a sweep */
    FOVEA_SCHEDULE_STEPWISE, /* every step runs over all tokens */
} fovea_schedule;

typedef enum fovea_dtype { FOVEA_DTYPE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_BF16 } fovea_dtype;

/* What happens to frames when their device fails, as drivers of small GPUs sometimes do. */
typedef enum fovea_lost {
    FOVEA_LOST_FAIL, /* fovea_wait gives EDEVICE, and so does every call for a later frame */
    FOVEA_LOST_CPU,  /* the frame is run again on the CPU, and so are all after it */
} fovea_lost;

/* `attention`: what takes the place of a model's own, one of the bidirectional names of
 * fovea_attention_options. ViTs take every one of them, without rotation, table, convolution or
 * gate; pola and focused with the learned vectors of the checkpoint (attn.vectors of a block, else
 * zeros), sla-NAME with its gates (attn.sla_q.weight and attn.sla_k.weight, else all 1 / heads).
 * linear:silu and linear:identity have nothing to divide by and are left out. Blocks, from 0, may
 * differ:
 *
 *   linear:elu1+softmax@0-3+mala@11      softmax in the first four, MALA in the last of 12
 *   softmax+linear@8-                    linear from block 8 on
 *
 * A name for all, then with '+' names for one block or a range; later ones win. "fovea":
 * {"attention": ...} in config.json takes the same, or a list of one name per block. MAViT and
 * NaLaFormer know their own and softmax, the PolaFormers their own only. */
typedef struct fovea_plan_options {
    size_t struct_size;
    struct {
        fovea_format format;
        uint32_t width, height; /* pixels of the frames that will come */
    } frame;
    const fovea_preprocess *preprocess; /* NULL: frames come in the size to be run (remainders of
                                           the patch are ignored at right and bottom), and are only
                                           normalised, with the model's mean and std */
    const char *attention;              /* NULL: the model's own; see above */
    const char *const *outputs;         /* names; NULL: the model's main output */
    size_t n_outputs;
    fovea_schedule schedule;
    uint32_t chunk;        /* tokens per chunk of streamed sweeps; 0: chosen. On devices other than
                              the CPU asks for streaming, where it needs the memory only */
    uint64_t memory_limit; /* bytes beside weights; ENOMEM if even the smallest chunk needs more, or
                              so many threads with the chunk that any number of them is given */
    int dry;               /* plan only: pack and allocate nothing; such a plan cannot run */
    /* Storage of the weights of matrix products and convolutions and of the position table: 16 bits
     * take half the memory. They are rounded to the nearest when they are packed, without loss
     * where the checkpoint has the same type; activations and sums stay float32. The level
     * "neon-dot" rounds activations to 17 bits where weights are FOVEA_DTYPE_BF16 and sums long.
     * ENOTSUP from fovea_plan_create for FOVEA_DTYPE_F16 and a weight beyond 65504. */
    fovea_dtype weights;
    /* Storage of rows of activations, except the residual stream, states, inputs and outputs, which
     * are float32, as sums are. ENOTSUP on the CPU, which keeps float32 rows; but at level
     * "neon-fp16" FOVEA_DTYPE_F16 computes products with FOVEA_DTYPE_F16 weights in float16, four
     * summed at a time: errors are up to 6e-3 of the largest output of the models that were
     * measured. */
    fovea_dtype activations;
    /* Above FOVEA_RIGOR_ESTIMATE, steps and sweeps that wisdom does not know with this rigor are
     * tuned first, as by fovea_tune; not for a dry plan. Nothing is saved. */
    fovea_rigor rigor;
    double tune_seconds; /* time limit of that; 0: none */
    /* FOVEA_LOST_CPU: a second plan is made with this one, and takes over without an allocation. It
     * keeps float32 activations; `memory_limit` holds for each. Ignored on the CPU. */
    fovea_lost on_device_lost;
    fovea_device *fallback; /* CPU device of the second plan; NULL: one with default options, opened
                            and closed with the plan */
    double lost_seconds;    /* a device that takes longer for a frame counts as lost; 0: 10 */
    fovea_yuv yuv; /* of NV12 and YUYV, which are converted to R, G, B bytes as they are read,
                      with U and V of the nearest sample */
} fovea_plan_options;
#define FOVEA_PLAN_OPTIONS_INIT FOVEA_INIT(fovea_plan_options, )

/* Plans `model` on `device`. Packs the weights that no other plan of the model has packed yet.
 * EINVAL: a size under one patch, an unknown output; ENOTSUP: an unknown attention, an op that the
 * device lacks; ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_plan_create(fovea_plan **out, const fovea_model *model,
                                         fovea_device *device, const fovea_plan_options *options);
FOVEA_API void fovea_plan_free(fovea_plan *plan);

typedef struct fovea_plan_info {
    size_t struct_size;
    uint32_t width, height;                 /* pixels that reach the patches */
    uint32_t ignored_right, ignored_bottom; /* remainder of the patch, in pixels */
    uint32_t grid_width, grid_height;       /* of the first tokens; later stages have fewer */
    uint32_t tokens;                        /* prefix + patches of that grid */
    uint32_t sweeps, steps, dispatches;
    uint32_t threads;
    /* Peak bytes by kind. Activations are everything that depends on the number of tokens or
     * workers; weights are shared by the plans of a model. */
    uint64_t weights;
    uint64_t residual; /* tensors that cross a sweep: the residual stream, K and V of softmax */
    uint64_t states;   /* attention states and their partial sums */
    uint64_t chunks;   /* what lives inside a sweep: one chunk per worker when streamed */
    uint64_t scratch;  /* of the kernels, all workers together */
    uint64_t staging;  /* resized picture, tables, and the plan itself */
    uint64_t largest;  /* the largest single buffer */
    double flops;      /* of one frame: a multiply-add is two */
    double seconds;    /* the cost model's estimate for one frame */
    uint64_t fallback; /* all bytes, weights included, of the plan for a lost device */
} fovea_plan_info;
#define FOVEA_PLAN_INFO_INIT FOVEA_INIT(fovea_plan_info, )

/* Known before anything runs, as are steps and outputs. Thread-safe, as are the next three. */
FOVEA_API fovea_status fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out);
/* Seconds of a frame as tuning has measured them for such a plan on this device; 0: wisdom has no
 * such fact. */
FOVEA_API double fovea_plan_measured(const fovea_plan *plan);

typedef struct fovea_step_info {
    size_t struct_size;
    const char *label;      /* "block 3 fc1" */
    const char *problem;    /* all of it as text: "gemm f32 5477x3072x768 bias+gelu" */
    const char *op;         /* "gemm", "softmax", ...: as fovea_kernel_info has it */
    const char *mechanism;  /* of attention, "elu1"; else "any" */
    const char *activation; /* of "gemm" and "conv", as fovea_gemm_options has it, or "swiglu"; else
                               NULL */
    fovea_dtype dtype;      /* of the activations that it reads; pixels count as FOVEA_DTYPE_F32 */
    fovea_dtype weight_dtype; /* of the weight of "gemm" and "conv", else FOVEA_DTYPE_F32 */
    /* m: rows. "gemm" and "conv": an (m x k) matrix times a (k x n) matrix; "swiglu" has n columns
     * of values and n of gates. Attention: m queries, k keys (of one window in "wsoftmax"; 0 where
     * none are counted), n = heads * value_dim columns. Others: n channels, k = 0. */
    uint32_t m, n, k;
    uint32_t heads, head_dim, value_dim; /* of attention, else 0 */
    double flops;                        /* a multiply-add is two */
    double bytes;   /* lower bound of bytes read and written: every operand once */
    double seconds; /* the cost model's estimate */
    const char *kernel;
    const char *source; /* where the choice came from: "wisdom", "prior" (wisdom about another size
                           or a device like this), "cost" */
    uint32_t sweep;
    fovea_schedule schedule;  /* of its sweep */
    uint32_t chunk;           /* rows of one call at most */
    const char *sweep_source; /* where schedule and chunk came from: the same, or "forced" */
} fovea_step_info;
#define FOVEA_STEP_INFO_INIT FOVEA_INIT(fovea_step_info, )

/* Step `index` of the plan, from 0; returns 0 past the end. The texts belong to the plan. */
FOVEA_API int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out);

typedef struct fovea_output_info {
    size_t struct_size;
    const char *name;
    uint32_t rows, columns;           /* float32, rows * columns * 4 bytes */
    uint32_t prefix;                  /* leading rows that are no patches */
    uint32_t grid_width, grid_height; /* of the patch rows; 0 when rows are no patches */
    uint32_t stride;                  /* pixels from patch to patch */
} fovea_output_info;
#define FOVEA_OUTPUT_INFO_INIT FOVEA_INIT(fovea_output_info, )

/* Output `index` in the order of the options; returns 0 past the end. */
FOVEA_API int fovea_plan_output(const fovea_plan *plan, size_t index, fovea_output_info *out);

/* ---------------------------------------------------------------------------------------------
 * Running: one thread at a time per plan; different plans run concurrently.
 */

typedef struct fovea_frame {
    const void *pixels[3]; /* first byte of each plane; interleaved formats use pixels[0], and so do
                              float planes, where the others may be NULL; NV12 has U and V in
                              pixels[1], (height + 1) / 2 rows of them */
    size_t stride[3];      /* bytes from row to row; 0: rows are packed. With an odd width the last
                              pair of NV12 and YUYV is there as a whole */
} fovea_frame;

typedef struct fovea_output {
    void *data;  /* caller's buffer, 4-byte aligned */
    size_t size; /* bytes; at least what fovea_plan_output says */
} fovea_output;

typedef uint64_t fovea_ticket;

/* Runs one frame; outs[i] is the plan's output i. Equals fovea_submit and an unbounded fovea_wait.
 * EINVAL for a missing plane, a stride under one row, too small an output. */
FOVEA_API fovea_status fovea_run(fovea_plan *plan, const fovea_frame *frame,
                                 const fovea_output *outs, size_t n_outs);

/* Submits a frame; pixels and outputs must stay valid until fovea_wait returned for `ticket`. On
 * the CPU the work is done inside fovea_wait, by the caller and the pool; other devices compute
 * while the next frame is uploaded. EINVAL if two frames are in flight already. */
FOVEA_API fovea_status fovea_submit(fovea_plan *plan, const fovea_frame *frame,
                                    const fovea_output *outs, size_t n_outs, fovea_ticket *out);
/* Waits for the frame; frames complete in order; timeout in seconds, negative: without
 * bound. ETIMEOUT leaves it in flight. OK for a frame that was waited for already. */
FOVEA_API fovea_status fovea_wait(fovea_plan *plan, fovea_ticket ticket, double timeout);

/* Whether the plan's device was lost, so that frames run on the CPU (FOVEA_LOST_CPU). Planning anew
 * on the device opened again is up to the caller. */
FOVEA_API int fovea_plan_lost(const fovea_plan *plan);

/* Seconds that the device took for the frame or operation that was waited for last: by its own
 * clock where it has one, without the time that the frame waited for earlier frames. 0 before the
 * first.
 */
FOVEA_API double fovea_plan_seconds(const fovea_plan *plan);

/* One call of a kernel. */
typedef struct fovea_trace_event {
    uint32_t step;      /* as fovea_plan_step counts them */
    uint32_t worker;    /* 0 on devices that have none */
    uint32_t row, rows; /* the first one, and how many */
    double begin, end;  /* seconds since the frame began to be computed */
} fovea_trace_event;

/* From the next frame on, records the calls of each frame in `events`, in no particular order; they
 * can be read once the frame was waited for. Frames are then run one at a time. NULL ends it.
 * EINVAL with a frame in flight; ENOTSUP on a device that does not report times. This call may
 * allocate, frames do not. */
FOVEA_API fovea_status fovea_plan_trace(fovea_plan *plan, fovea_trace_event *events, size_t room);
/* Calls of the last frame that was traced; those beyond `room` are counted, not recorded. */
FOVEA_API size_t fovea_plan_traced(const fovea_plan *plan);

/* ---------------------------------------------------------------------------------------------
 * One operation, planned like a model
 *
 * Attention: rows of q are (heads * d) wide, head h owns columns [h d, (h+1) d); k likewise, v and
 * the output with dv. Below phi is a feature map, mean_j the mean over the keys, s `scale`.
 *
 * Bidirectional (`causal` 0), `attention` =
 *   softmax            out_i = sum_j softmax_j(s q_i.k_j) v_j
 *   linear[:MAP]       w_ij = s phi(q_i).phi(k_j);   out_i = sum_j w_ij v_j / (sum_j w_ij + eps)
 *                      MAP: elu1 (ELU + 1, the default), relu, exp, softplus, softmax (over the d
 *                      channels), silu, identity; the last two only with `normalise` 0, which
 *                      leaves the divisor out, and then e^x is at most e^88. (ViT-AdaLA: elu1)
 *   mala[:MAP]         z_i = s phi(q_i).mean_j phi(k_j)
 *                      out_i = (1 + 1/(z_i + eps)) s mean_j (R phi(q_i)).(R phi(k_j)) v_j
 *                              - z_i mean_j v_j
 *                      MAP: elu1 (default), relu, exp (to e^88); R the rotation `rope` or none
 *                      (official code of MALA, arXiv 2507.00698)
 *   mala-paper[:MAP]   the same with s = keys, eps = 0 (in floats the least there is, so that
 *                      rows without any feature do not divide by 0): equations 8 and 9
 *   pola               q, k <- q, k / softplus(channel_scale);  p = 1 + alpha sigmoid(power)
 *                      x+ = relu(x)^p, x- = relu(-x)^p, K = [k+, k-];  Q = [q+, q-] for the
 *                      first half of each head's value channels, Q = [q-, q+] for the second
 *                      out_i = Q_i mean_j K_j^T v_j / (Q_i.mean_j K_j + eps)
 *                      (PolaFormer, arXiv 2501.15061); alpha 4, dv even
 *   nala               n = |q_i|;  p = 3 (1/2 + tanh n);  Q = [relu(q/n)^p, relu(-q/n)^p]
 *                      K = [relu(k)^3, relu(-k)^3];  R as for mala, for each half on its own
 *                      out_i = R Q_i mean_j (R K_j)^T v_j / (Q_i.mean_j K_j + eps)
 *                      (official code of NaLaFormer); a zero query gives 0, not 0/0
 *   nala-paper         Q = |q/n|^p [cos f(q/n), sin f(q/n)];  f(x) = pi/4 tanh x
 *                      K = |k|^3 [cos f(k/|k|), sin f(k/|k|)]; out_i as for nala
 *                      (arXiv 2506.21137); a zero query gives 0
 *   focused            y = (relu(x) + 1e-6) / softplus(channel_scale);  phi(x) = y^3 |y| / |y^3|,
 *                      norms over the channels of all heads; out_i as for linear, eps to the mean
 *                      (FLatten, arXiv 2308.00442)
 *   sla-NAME           any of these but softmax with the gates of SLA (arXiv 2602.01744):
 *                      phi(k_j) <- G^K_j phi(k_j);  out_i <- G^Q_i out_i
 *
 * `eps` is added to sums for linear, to means for the others. `normalise` 0 is for linear, pola and
 * nala. `scale` plays no part where no s stands.
 *
 * Causal (`causal` 1; keys == rows): S is the state (d' x dv), Z (d') its denominator; both persist
 * in a fovea_state. `attention` =
 *   softmax            out_i = sum_{j<=i} ..; has no state
 *   linear[:MAP]       S_t = S_{t-1} + phi(k_t)^T v_t;  Z_t = Z_{t-1} + phi(k_t)
 *                      out_t = s phi(q_t) S_t, with normalise over s phi(q_t).Z_t + eps
 *   retention[:MAP]    S_t = e^{a_h} S_{t-1} + phi(k_t)^T v_t;  out_t = s phi(q_t) S_t
 *                      a_h = log_decay[h], NULL: ln(1 - 2^(-5-h)) (RetNet)
 *   gla[:MAP]          S_t = diag(e^{a_t}) S_{t-1} + phi(k_t)^T v_t;  out_t as for retention
 *                      input a (rows x heads*d), at most 0 (GLA)
 *   delta-rule[:MAP]   u_t = beta_t (v_t - phi(k_t) S_{t-1});  S_t = S_{t-1} + phi(k_t)^T u_t
 *                      input beta (rows x heads) (DeltaNet)
 *   gated-delta-rule[:MAP]  the same on e^{g_t} S_{t-1}; inputs g, beta (rows x heads)
 *   sla-NAME           phi(q) by G^Q, phi(k) by G^K, for the delta rules v by G^K; with normalise
 *                      out_t by G^Q
 *
 * `normalise` and `eps` are for linear only; the others have no divisor.
 *
 * MAP is one of linear's, nala or nala-paper (d' = 2 d; not for gla); identity when left out, for
 * linear elu1. `l2norm`: phi(q), phi(k) <- x / sqrt(|x|^2 + 1e-6), before scale and gates.
 *
 * Inputs, in this order, those that apply, with their names: q, k, v; log_decay (gla: a,
 * gated-delta-rule: g); beta; gate_q, gate_k: G^Q (rows x heads) and G^K (keys x heads), or their
 * logits, or x (rows x gate_width); out_gate (rows x heads*dv). q, k, v have type `storage`, the
 * output `out_storage`, all others are float32; arithmetic is float32.
 */

/* Where SLA's gates come from. The weights have no bias; W of G^Q is gate_q, of G^K gate_k. */
typedef enum fovea_gates {
    FOVEA_GATES_READY,       /* inputs are the gates */
    FOVEA_GATES_LOGITS,      /* inputs are logits: gates = softmax over the heads */
    FOVEA_GATES_X_DENSE,     /* logits = x W^T, W (heads, gate_width); keys == rows */
    FOVEA_GATES_Q_DENSE,     /* logits = [q_1 .. q_H] W^T, W (heads, heads*d); of k for G^K */
    FOVEA_GATES_Q_BLOCKDIAG, /* logit of head h = q_h.w_h, W (heads, d) */
} fovea_gates;

/* The last factor of the output. */
typedef enum fovea_out_gate {
    FOVEA_OUT_GATE_PLAIN,
    FOVEA_OUT_GATE_LINEAR,
    FOVEA_OUT_GATE_SILU
} fovea_out_gate;

typedef enum fovea_form {
    FOVEA_FORM_AUTO,
    FOVEA_FORM_RECURRENT, /* token by token */
    FOVEA_FORM_CHUNK,     /* matrix products over chunks of `chunk` tokens (0: chosen) */
} fovea_form;

typedef struct fovea_attention_options {
    size_t struct_size;
    const char *attention;               /* NULL: "softmax" */
    uint32_t rows;                       /* queries */
    uint32_t keys;                       /* 0: as many as rows */
    uint32_t heads, head_dim, value_dim; /* d and dv; must be given */
    double scale, eps;                   /* 1 and 1e-6 in FOVEA_ATTENTION_OPTIONS_INIT */
    int normalise;                       /* 1 there */
    int causal;
    fovea_dtype storage, out_storage;
    fovea_form form; /* of a causal operation */
    int l2norm;
    double alpha;               /* of pola; 0: 4 */
    const float *power;         /* pola (heads*d), as learned; NULL: zeros */
    const float *channel_scale; /* pola, focused (heads*d), as learned; NULL: zeros */
    const float *log_decay;     /* retention (heads) */
    /* Rotation of the features of bidirectional linear mechanisms (not of linear:exp with
     * `normalise`), keys == rows; pairs (2j, 2j+1): y[2j] = x[2j] cos - x[2j+1] sin,
     * y[2j+1] = x[2j+1] cos + x[2j] sin, cos and sin (rows x d). NULL with a grid: RoPE2D of MAViT,
     * n = d/4 angles theta_j = 10000^(-j/(n-1)), row times theta in the first half of the channels,
     * column times theta in the second. d even with tables, a multiple of 4 with a grid. */
    const float *rope_cos, *rope_sin;
    uint32_t rope_width, rope_height;
    fovea_gates gates;
    const float *gate_q, *gate_k;
    uint32_t gate_width;
    /* After the attention, in this order: + depthwise convolution of v over the grid
     * (bidirectional, keys == rows); layer normalisation over heads*dv; times g or silu(g). */
    uint32_t grid_width, grid_height;
    uint32_t local_size;       /* 0: no convolution; odd, up to 31; zeros around */
    int local_shared;          /* weight (dv, size, size), bias (dv), for every head alike; else
                                  (heads*dv, size, size) */
    const float *local_weight; /* cross-correlation */
    const float *local_bias;   /* or NULL */
    const float *norm_weight;  /* (heads*dv); NULL: no normalisation */
    const float *norm_bias;
    double norm_eps; /* 0: 1e-5 */
    fovea_out_gate out_gate;
    fovea_schedule schedule;
    uint32_t chunk;        /* rows at a time; 0: chosen */
    uint64_t memory_limit; /* these as in fovea_plan_options; a fovea_state is never tuned */
    fovea_rigor rigor;
    double tune_seconds;
} fovea_attention_options;
#define FOVEA_ATTENTION_OPTIONS_INIT                                                               \
    FOVEA_INIT(fovea_attention_options, FOVEA_SET(scale, 1), FOVEA_SET(eps, 1e-6),                 \
               FOVEA_SET(normalise, 1))

/* Plans an attention; everything that the options point to is copied. Free with fovea_plan_free;
 * query as any plan. EINVAL for shapes that contradict each other, zero tokens, a mechanism that
 * cannot do what is asked; ENOTSUP names an attention or a combination that is not there; ENOMEM.
 * Thread-safe. */
FOVEA_API fovea_status fovea_attention_plan_create(fovea_plan **out, fovea_device *device,
                                                   const fovea_attention_options *options);

/* Input a (rows x in), output (rows x out) = act(a weight^T + bias). */
typedef struct fovea_gemm_options {
    size_t struct_size;
    uint32_t rows, in, out;
    fovea_dtype storage, out_storage; /* of a and of the output; arithmetic is float32 */
    const float *weight;              /* (out, in), packed by the plan */
    const float *bias;                /* (out) or NULL */
    const char *activation; /* NULL, "gelu", "gelu_tanh", "gelu_quick", "silu", "relu", "tanh" */
    fovea_schedule schedule;
    uint32_t chunk;        /* rows at a time; 0: chosen */
    uint64_t memory_limit; /* these as in fovea_plan_options */
    fovea_rigor rigor;
    double tune_seconds;
} fovea_gemm_options;
#define FOVEA_GEMM_OPTIONS_INIT FOVEA_INIT(fovea_gemm_options, )

/* Plans a matrix product, as fovea_attention_plan_create an attention. */
FOVEA_API fovea_status fovea_gemm_plan_create(fovea_plan **out, fovea_device *device,
                                              const fovea_gemm_options *options);
/* Name of input `index` of the operation ("q", "beta", ...), NULL past the end. Static text.
 * Thread-safe. */
FOVEA_API const char *fovea_op_input(const fovea_plan *plan, size_t index);

typedef struct fovea_matrix {
    void *data;    /* aligned as its elements */
    size_t stride; /* elements from row to row; 0: packed */
} fovea_matrix;
/* Runs it: inputs in their order. A causal operation begins with a zero state. EINVAL for another
 * number of inputs, missing data, a stride under one row; EDEVICE. One thread at a time per plan.
 */
FOVEA_API fovea_status fovea_op_run(fovea_plan *plan, const fovea_matrix *inputs, size_t n_inputs,
                                    fovea_matrix output);

/* ---------------------------------------------------------------------------------------------
 * A causal operation with memory: one sequence, fed as it comes
 */

typedef struct fovea_state fovea_state;

/* A zero state and the plans to advance it, by up to options->rows tokens at a time. `options` as
 * for fovea_attention_plan_create, causal, not softmax. After it nothing is allocated. Thread-safe;
 * all other functions of a state: one thread at a time per state. */
FOVEA_API fovea_status fovea_state_create(fovea_state **out, fovea_device *device,
                                          const fovea_attention_options *options);
FOVEA_API void fovea_state_free(fovea_state *state);
/* As fovea_op_input. */
FOVEA_API const char *fovea_state_input(const fovea_state *state, size_t index);
/* One token in recurrent form: each input and the output are one row. */
FOVEA_API fovea_status fovea_state_step(fovea_state *state, const fovea_matrix *inputs,
                                        size_t n_inputs, fovea_matrix output);
/* The next `rows` tokens, 1 to options->rows, in the form of the options. Any division of a
 * sequence into calls gives the same results up to rounding. EINVAL leaves the state as it was. */
FOVEA_API fovea_status fovea_state_feed(fovea_state *state, uint32_t rows,
                                        const fovea_matrix *inputs, size_t n_inputs,
                                        fovea_matrix output);
/* Zeros again. EDEVICE leaves it as it may be. */
FOVEA_API fovea_status fovea_state_reset(fovea_state *state);
/* Floats of a saved state: S (heads, d', dv) of every head, then with `normalise` Z (heads, d').
 * d' is d, for nala 2 d. Neither contains `scale`. */
FOVEA_API size_t fovea_state_size(const fovea_state *state);
/* EINVAL when `floats` is not fovea_state_size. */
FOVEA_API fovea_status fovea_state_save(const fovea_state *state, float *out, size_t floats);
FOVEA_API fovea_status fovea_state_restore(fovea_state *state, const float *in, size_t floats);

/* ---------------------------------------------------------------------------------------------
 * 16-bit floats
 */

/* Converts n floats to `dtype`, rounding to the nearest, ties to even; beyond the range is
 * infinity. EINVAL for a type that is unknown. Thread-safe. */
FOVEA_API fovea_status fovea_floats_encode(void *out, fovea_dtype dtype, const float *in, size_t n);
/* And back, which is exact. */
FOVEA_API fovea_status fovea_floats_decode(float *out, fovea_dtype dtype, const void *in, size_t n);

/* ---------------------------------------------------------------------------------------------
 * Tensor files: thread-safe
 */

typedef struct fovea_tensors fovea_tensors;

/* An opened safetensors file. Element types as the file has them: "F32", "F16", "BF16", "I64", ...
 */
typedef struct fovea_tensor {
    const char *name;
    const char *dtype;
    uint32_t rank;
    uint64_t shape[8];
    uint64_t elements;
    const void *data;
    size_t size; /* bytes */
} fovea_tensor;

/* Maps and checks a safetensors file. EIO, EFORMAT. */
FOVEA_API fovea_status fovea_tensors_open(fovea_tensors **out, const char *path);
FOVEA_API void fovea_tensors_close(fovea_tensors *file);
/* Tensor `index` in file order; returns 0 past the end. Texts and data belong to the file. */
FOVEA_API int fovea_tensors_get(const fovea_tensors *file, size_t index, fovea_tensor *out);
FOVEA_API int fovea_tensors_find(const fovea_tensors *file, const char *name, fovea_tensor *out);
/* Text of key `key` in __metadata__, or NULL. */
FOVEA_API const char *fovea_tensors_metadata(const fovea_tensors *file, const char *key);
/* Elements [first, first + n) as float32; F32, F16, BF16, F64 and integers. ENOTSUP for others. */
FOVEA_API fovea_status fovea_tensors_read(const fovea_tensor *tensor, uint64_t first, uint64_t n,
                                          float *out);
/* Writes tensors (name, dtype, rank, shape, data, size are read) to `path`: to a temporary name,
 * then renamed, so that a failure leaves what was there. `metadata` holds n_metadata pairs. */
FOVEA_API fovea_status fovea_tensors_write(const char *path, const fovea_tensor *tensors, size_t n,
                                           const char *const (*metadata)[2], size_t n_metadata);

/* ---------------------------------------------------------------------------------------------
 * Accounting
 */

typedef struct fovea_memory {
    size_t struct_size;
    uint64_t current, peak; /* bytes the library holds through its allocator, all kinds */
    uint64_t allocations;   /* made since the process began */
} fovea_memory;
#define FOVEA_MEMORY_INIT FOVEA_INIT(fovea_memory, )
/* Thread-safe. */
FOVEA_API fovea_status fovea_memory_query(fovea_memory *out);

#ifdef __cplusplus
}
#endif

#include <fovea/tuning.h>
#include <fovea/verification.h>

#endif
