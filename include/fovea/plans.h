/* plans.h: makes plans of a model for one device, frame size and attention, and runs frames. This
 * header is part of fovea.h, whose rules apply here. */
#ifndef FOVEA_PLANS_H
#define FOVEA_PLANS_H

#include <fovea/devices.h>
#include <fovea/models.h>
#include <fovea/tensors.h>
#include <fovea/wisdom_store.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_plan fovea_plan;

typedef enum fovea_pixel_format {
    FOVEA_FORMAT_RGB8,       /* bytes R, G, B */
    FOVEA_FORMAT_BGR8,       /* bytes B, G, R */
    FOVEA_FORMAT_GRAY8,      /* bytes, from 0 (black) to 255 (white); fovea_layout_convert
                                converts luma in limited range to this format */
    FOVEA_FORMAT_PLANES_F32, /* float32 planes R, G, B, packed and one after the other, already
                                normalised; they are never resized */
    FOVEA_FORMAT_NV12, /* a plane of bytes Y, and a plane with bytes U, V for every 2 x 2 pixels */
    FOVEA_FORMAT_YUYV, /* bytes Y, U, Y, V for every 2 pixels; also called YUY2 */
} fovea_pixel_format;

/* How luma and chroma are converted to R, G, B: the matrix, and whether black and white are 16 and
 * 235 (limited range) or 0 and 255 (full range). Most cameras use FOVEA_YUV_601: YUYV of USB
 * cameras, V4L2's default, most image signal processors. Video of 720 lines and more is mostly
 * BT.709; frames of a JPEG are BT.601 in full range. fovea_yuv_matrix_choose in video.h chooses the
 * matrix from the tags of a source. */
typedef enum fovea_yuv_matrix {
    FOVEA_YUV_601, /* BT.601, limited range */
    FOVEA_YUV_601_FULL,
    FOVEA_YUV_709, /* BT.709, limited range */
    FOVEA_YUV_709_FULL,
    FOVEA_YUV_2020, /* BT.2020 with non-constant luminance, limited range */
    FOVEA_YUV_2020_FULL,
} fovea_yuv_matrix;

typedef enum fovea_schedule {
    FOVEA_SCHEDULE_AUTO,     /* chosen by wisdom, or else by rules */
    FOVEA_SCHEDULE_STREAMED, /* a chunk of tokens runs through all steps of a sweep, then the
                                next chunk does */
    FOVEA_SCHEDULE_STEPWISE, /* a step runs over all tokens, then the next step does */
} fovea_schedule;

/* Precision of matrix multiplications: those of layers, convolutions and attention. Sums, the
 * residual stream, norms, feature maps and outputs are always float32. */
typedef enum fovea_compute {
    FOVEA_COMPUTE_F32,
    FOVEA_COMPUTE_BF16, /* operands are rounded to bfloat16; rows of activations are stored as
                           bfloat16 */
    FOVEA_COMPUTE_INT8, /* linear layers of blocks multiply int8: weights with a scale for each
                           output channel, rows with a scale for each token, both after a
                           rotation of 64 channels at a time that spreads outliers. Softmax
                           attention of blocks is also int8 on the CPU, and on OpenCL devices for
                           which measurements show a gain. On the CPU, foveated attention is int8
                           too, and so are, with int8 instructions, the convolutions of decoders,
                           quantised per pixel. The rest is as with FOVEA_COMPUTE_BF16 */
    FOVEA_COMPUTE_AUTO, /* the fastest precision that fovea_tune_accuracy has found within its
                           bound for these weights and this attention on this device. If it has
                           found none: FOVEA_COMPUTE_BF16 if the device has fast bfloat16
                           instructions (fovea_device_info.bf16), else FOVEA_COMPUTE_F32. If
                           weights or activations are not FOVEA_DTYPE_F32: FOVEA_COMPUTE_F32.
                           This is the default of the program, Python, the GStreamer element and
                           the ROS 2 component */
} fovea_compute;

/* The action when a device is lost: it fails, or does not finish a frame in time, as happens with
 * drivers of small GPUs. */
typedef enum fovea_device_lost_action {
    FOVEA_DEVICE_LOST_FAIL, /* fovea_wait returns EDEVICE, and so do all calls for later frames */
    FOVEA_DEVICE_LOST_CPU,  /* the frame is run again on the CPU, and later frames run there */
} fovea_device_lost_action;

/* `attention` replaces the model's own attention by one of the bidirectional names in operations.h.
 * ViTs support all of them except linear:silu and linear:identity, which have no divisor. A
 * mechanism is used with the parts for which the checkpoint has tensors. For pola and focused,
 * these are learned vectors (attn.vectors of a block; zeros if missing). For sla-NAME, they are its
 * gates (attn.sla_q.weight and attn.sla_k.weight; all gates are 1 / heads if missing). For pola,
 * nala, nala-paper and focused, they are the depthwise convolution of the values, the norm and the
 * gate of their authors (attn.dwc, attn.ln and attn.gate of a block; left out if missing). ViTs
 * support one more name, for an attention that needs the grid of the tokens:
 *
 *   foveated[:MARGIN]  out_i = sum_j softmax_j(s q_i.k_j + log n_j) v_j
 *                      where j runs over the keys of the 8 x 8 block with token i: single tokens
 *                      up to a distance of MARGIN tokens (from 1 to 64; default 4), and beyond it
 *                      cells of 2 x 2, 4 x 4, ... tokens, whose k and v are means and whose n is
 *                      the number of tokens. All tokens attend to the prefix tokens, and the prefix
 *                      tokens attend to all single tokens. A query has about 520 keys at 5477
 *                      tokens, and 680 at 21905
 *
 * Blocks, counted from 0, may have different attentions:
 *
 *   linear:elu1+softmax@0-3+mala@11      softmax in the first four, MALA in the last of 12
 *   softmax+linear@8-                    linear from block 8 on
 *
 * The first name applies to all blocks. Further names, after '+', apply to one block or a range,
 * and replace earlier ones. "fovea": {"attention": ...} in config.json accepts the same text, or a
 * list of one name per block. MAViT and NaLaFormer support their own attention and softmax;
 * PolaFormers support only their own. */
typedef struct fovea_plan_options {
    size_t struct_size;
    struct {
        fovea_pixel_format format;
        uint32_t width, height; /* pixels of the frames */
        uint32_t count; /* maximum number of frames of a run, up to 256, for example from several
                           cameras or files; 0: 1. The results of each frame have the same bits
                           as those of a single frame, unless a memory limit makes chunks
                           smaller. A run takes no more time than its frames one by one, and less
                           time for small frames. Each frame needs its own memory, except for
                           weights and workers */
    } frame;
    const fovea_preprocess *preprocess; /* NULL: frames are run in their size; pixels at the
                                           right and bottom that do not fill a patch are ignored,
                                           and pixels are only normalised, with the model's mean
                                           and std */
    const char *attention;              /* NULL: the model's own attention; see above */
    const char *const *outputs;         /* names of outputs, see fovea_model_output; NULL: the
                                           main output */
    size_t n_outputs;
    fovea_schedule schedule;
    uint32_t chunk; /* tokens per chunk of streamed sweeps; 0: chosen automatically. On devices
                       other than the CPU, a chunk requests streaming, which saves memory there,
                       but no time */
    uint64_t memory_limit; /* bytes without weights; 0: no limit. ENOMEM if even the smallest
                              chunk needs more. The chunks of sums over tokens do not depend on
                              the number of threads, so that results have the same bits; ENOMEM
                              also if the threads need more memory with such chunks */
    int dry; /* nonzero: packs and allocates nothing; the plan can be queried but not run */
    /* Storage of the weights of matrix products and convolutions, and of the position table. The
     * 16-bit types need half the memory: weights are rounded to nearest when they are packed,
     * without loss if the checkpoint has the same type; activations and sums stay float32.
     * FOVEA_DTYPE_I8 needs a quarter: the weights of products of blocks with 64 columns and more
     * are stored as 8-bit integers with a scale for each output channel, and products still
     * multiply floats. Other weights and the position table keep their type. The level "neon-dot"
     * rounds activations to 17 bits if weights are FOVEA_DTYPE_BF16 and sums are long. ENOTSUP for
     * FOVEA_DTYPE_F16 and a weight beyond 65504. */
    fovea_dtype weights;
    /* Storage of rows of activations. The residual stream, states, inputs and outputs are always
     * float32, and so are sums. ENOTSUP for another type on the CPU, with one exception: at the
     * level "neon-fp16" FOVEA_DTYPE_F16, together with FOVEA_DTYPE_F16 weights, computes products
     * in float16, and adds four of them at a time in float16. The measured errors of models are up
     * to 6e-3 of the largest output. */
    fovea_dtype activations;
    /* Above FOVEA_RIGOR_ESTIMATE, steps and sweeps for which wisdom has no fact with this rigor are
     * tuned first, as by fovea_tune, except for a dry plan. Nothing is saved to files. */
    fovea_rigor rigor;
    double tune_seconds; /* time limit of that tuning in seconds; 0: no limit */
    /* With FOVEA_DEVICE_LOST_CPU a second plan, for the CPU, is made together with this one, and
     * can take over without an allocation. It stores activations in float32; `memory_limit` applies
     * to each plan, and FOVEA_COMPUTE_AUTO is resolved for each. If the device cannot run the plan
     * at all, for example because its driver's compiler does not return, the plan is made for the
     * CPU alone. Ignored if the plan's device is the CPU. */
    fovea_device_lost_action on_device_lost;
    fovea_device *fallback; /* the CPU device of the second plan; NULL: one with default options,
                               which is opened and closed with the plan */
    double device_timeout_seconds; /* a device that takes longer for a frame counts as lost; 0:
                                      10 */
    fovea_yuv_matrix yuv; /* for NV12 and YUYV, which are converted to R, G, B bytes as they are
                             read, with U and V of the nearest sample */
    int reserved;         /* 0 */
    /* A processor without instructions for a type computes the same numbers with wider
     * instructions. EINVAL for BF16 or INT8 together with `activations`, or with `weights` other
     * than FOVEA_DTYPE_I8. With FOVEA_DTYPE_I8 weights, int8 products do not change, and the other
     * products of blocks are float32 products of rows that are rounded to bfloat16. */
    fovea_compute compute;
} fovea_plan_options;
#define FOVEA_PLAN_OPTIONS_INIT FOVEA_INIT(fovea_plan_options, )

/* Plans a model for a device. Weights that no other plan of the model has packed are packed here.
 * The plan holds references to the model and the device, which may be freed before it. Returns
 * EINVAL for a size below one patch and for an unknown output, ENOTSUP for an unknown attention and
 * for an operation that the device lacks, or ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_plan_create(fovea_plan **out, const fovea_model *model,
                                         fovea_device *device, const fovea_plan_options *options);
FOVEA_API void fovea_plan_free(fovea_plan *plan);

/* The properties of a plan that are known before a frame runs, in addition to steps and outputs. */
typedef struct fovea_plan_info { /* More than 25 fields: a report, which grows at its end */
    size_t struct_size;
    uint32_t width, height;                 /* size in pixels of the part that the patches cover */
    uint32_t ignored_right, ignored_bottom; /* pixels that do not fill a patch */
    uint32_t grid_width, grid_height; /* patches; later stages of pyramids have fewer tokens */
    uint32_t tokens;                  /* prefix tokens + patches of that grid */
    uint32_t sweeps, steps, dispatches;
    uint32_t threads;
    /* Peak bytes by kind. All except weights belong only to the plan. */
    uint64_t weights;      /* shared by the plans of a model */
    uint64_t residual;     /* tensors that are alive across sweeps: the residual stream, K and V
                              of softmax */
    uint64_t states;       /* attention states and their partial sums */
    uint64_t chunks;       /* values within a sweep: one chunk per worker when streamed */
    uint64_t scratch;      /* scratch memory of the kernels, of all workers together */
    uint64_t staging;      /* the resized picture, tables, and the plan itself */
    uint64_t largest;      /* the largest single buffer */
    double flops;          /* FLOPs of a run of all frames; a multiply-add counts as two */
    double seconds;        /* duration of a run of all frames, estimated by the cost model */
    uint64_t fallback;     /* bytes of the plan for a lost device, weights included */
    fovea_compute compute; /* the precision that is used, never FOVEA_COMPUTE_AUTO */
    const char *compute_source; /* why: "forced" by the options; for FOVEA_COMPUTE_AUTO "wisdom",
                                   "prior" (wisdom about another frame size), "device" (its
                                   instructions), "storage" (float32, because of the requested
                                   types of weights or activations) */
    /* Position of the picture that was run in the frame: the point (x, y) of the picture, in pixels
     * from its upper left corner, is at (left + x * scale_x, top + y * scale_y) of the frame.
     * Points in the padding are outside the frame. */
    double left, top, scale_x, scale_y;
    uint32_t count; /* maximum number of frames of a run */
    /* A line of text if blocks run an attention that their weights were not trained with, so that
     * outputs mean little before further training. It names the blocks, the loss that was measured
     * with a trained model, and the remedy. NULL if every block has the attention that it was
     * trained with ("softmax", or "fovea": {"attention"} of config.json) or foveated attention
     * instead of softmax, or if the weights are random. Belongs to the plan. */
    const char *untrained;
    double reference_seconds; /* the part of `seconds` in steps that only the plain C reference can
                                 run: see fovea_step_info.reference */
} fovea_plan_info;
#define FOVEA_PLAN_INFO_INIT FOVEA_INIT(fovea_plan_info, )

/* Describes a plan. Thread-safe. */
FOVEA_API fovea_status fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out);
/* Returns the seconds that a frame took when such a plan was tuned on this device, or 0 if wisdom
 * has no such fact. Thread-safe. */
FOVEA_API double fovea_plan_measured_seconds(const fovea_plan *plan);

/* One step of a plan: an operation, its sizes, and the kernel that was chosen. */
typedef struct fovea_step_info {
    size_t struct_size;
    const char *label;   /* "block 3 fc1" */
    const char *problem; /* operation, sizes, types and flags: "gemm f32 5477x3072x768 bias+gelu" */
    const char *op;      /* "gemm", "softmax", ..., as in fovea_kernel_info */
    const char *mechanism;  /* mechanism of an attention, such as "elu1"; else "any" */
    const char *activation; /* activation of "gemm" and "conv", as in fovea_gemm_options, or
                               "swiglu"; else NULL */
    fovea_dtype dtype; /* type of the activations that it reads; pixels count as FOVEA_DTYPE_F32 */
    fovea_dtype weight_dtype; /* type of the stored weight of "gemm" and "conv", else
                                 FOVEA_DTYPE_F32. `products` names the type that is multiplied */
    /* "gemm" and "conv": a product of an (m x k) and a (k x n) matrix; "swiglu" has n columns of
     * values and n columns of gates. Attention: m queries, k keys (of one window in "wsoftmax"; 0
     * if keys are not counted), and n = heads * value_dim output columns. Other operations: m rows
     * of n channels, k = 0. */
    uint32_t m, n, k;
    uint32_t heads, head_dim, value_dim; /* heads and head sizes of attention, else 0 */
    double flops;                        /* FLOPs of all frames; a multiply-add counts as two */
    double bytes;   /* bytes that all frames read and write, a lower bound: every operand once */
    double seconds; /* duration of all frames, estimated by the cost model */
    const char *kernel;
    const char *source;       /* why this kernel was chosen: "wisdom", "prior" (wisdom about
                                 another size or a similar device), "cost" (the cost model) */
    uint32_t sweep;           /* index of the sweep that the step belongs to */
    fovea_schedule schedule;  /* schedule of that sweep */
    uint32_t chunk;           /* maximum rows of one call of the kernel */
    const char *sweep_source; /* why this schedule and chunk were chosen: as `source`, or "forced"
                                 by the options */
    /* Type of the multiplied numbers: "f32", "bf16", "int8", or "f16" for weights of that type.
     * NULL for a step that is neither a matrix product nor attention. */
    const char *products;
    /* Nonzero: the device has no kernel for this problem, and the plain C reference runs instead,
     * which is correct but slow. */
    int reference;
} fovea_step_info;
#define FOVEA_STEP_INFO_INIT FOVEA_INIT(fovea_step_info, )

/* Describes step `index` of the plan, from 0. Returns nonzero, or 0 past the end. The strings
 * belong to the plan. Thread-safe. */
FOVEA_API int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out);

/* The meaning of an output. results.h makes records of all kinds except features. */
typedef enum fovea_output_kind {
    FOVEA_OUTPUT_FEATURES,  /* rows of channels: one per token, or one for the picture */
    FOVEA_OUTPUT_LOGITS,    /* one row: logits of the picture's classes */
    FOVEA_OUTPUT_DEPTH,     /* one column: depth at each position of the grid */
    FOVEA_OUTPUT_CLASS_MAP, /* logits of classes at each position of the grid */
    FOVEA_OUTPUT_MASKS, /* a column for each query: logits of positions being inside its mask. Of
                           an R-CNN, the probabilities of each box's cells, one box after the
                           other */
    FOVEA_OUTPUT_MASK_CLASSES, /* a row for each query: logits of classes; last column: no object */
    FOVEA_OUTPUT_BOXES,        /* four numbers for each anchor or query; of an R-CNN, the edges of
                                  each box */
    FOVEA_OUTPUT_BOX_CLASSES,  /* logits of classes, for the same anchors or queries; of an R-CNN,
                                  the score and the class of each box, or -1 */
    FOVEA_OUTPUT_KEYPOINTS,    /* a column for each key point: its heat map */
    FOVEA_OUTPUT_MASK_SCORES,  /* one row: the estimated quality of each mask, see prompts.h */
} fovea_output_kind;

/* The shape that the model's original code (transformers, timm, the authors' repository) gives an
 * output of one frame, with C = columns, and H = grid_height and W = grid_width, or 1 without a
 * grid. The data of an output is rows of channels, [row][channel], in any case. A program that
 * compares the output with the original code, or passes it to code that was written for that
 * layout, must convert it. */
typedef enum fovea_output_layout {
    FOVEA_OUTPUT_LAYOUT_ROWS,   /* [row][channel]: rows x C */
    FOVEA_OUTPUT_LAYOUT_VECTOR, /* [channel]: C, for a single row */
    FOVEA_OUTPUT_LAYOUT_PLANES, /* [channel][row][column]: C x H x W */
    FOVEA_OUTPUT_LAYOUT_MAP,    /* [row][column]: H x W, for a single column */
} fovea_output_layout;

typedef struct fovea_output_info {
    size_t struct_size;
    const char *name;
    uint32_t rows, columns;           /* float32 elements: rows * columns * 4 bytes */
    uint32_t prefix;                  /* number of leading rows that are not patches: class token,
                                         registers */
    uint32_t grid_width, grid_height; /* patches in the rows from `prefix` on, row by row; 0: rows
                                         are not patches */
    uint32_t stride;                  /* distance of patches in pixels of the picture */
    fovea_output_kind kind;
    fovea_output_layout layout;
} fovea_output_info;
#define FOVEA_OUTPUT_INFO_INIT FOVEA_INIT(fovea_output_info, )

/* Describes output `index` of the plan, from 0, in the order of the options. Returns nonzero, or 0
 * past the end. The name belongs to the plan. Thread-safe. */
FOVEA_API int fovea_plan_output(const fovea_plan *plan, size_t index, fovea_output_info *out);

/* ---------------------------------------------------------------------------------------------
 * Running: one thread at a time per plan; different plans run concurrently.
 */

typedef struct fovea_frame {
    const void *pixels[3]; /* the first byte of each plane. Interleaved formats use pixels[0]. So
                              do float planes, for which the others may be NULL. NV12 has U and V
                              in pixels[1], with (height + 1) / 2 rows */
    size_t stride[3]; /* row stride in bytes; 0: rows are packed. With an odd width the last pair
                         of pixels of NV12 and YUYV must be complete */
} fovea_frame;

typedef struct fovea_output {
    void *data;  /* the caller's buffer, 4-byte aligned */
    size_t size; /* bytes of the buffer: at least rows * columns * 4 of fovea_plan_output */
} fovea_output;

typedef uint64_t fovea_ticket;

/* Runs a frame and waits for it: fovea_submit and fovea_wait without a timeout. outs[i] receives
 * output i of the plan, and n_outs is the number of outputs. A plan for several frames
 * (frame.count) runs frame[0], frame[1], ..., as many as there are outputs for: outs[f outputs + i]
 * receives output i of frame f, and n_outs is the number of frames times the number of outputs. The
 * functions of results.h read the outputs of one frame. Returns EINVAL for a missing plane, a
 * stride of less than one row, a buffer that is too small, or more frames than planned. Returns
 * EDEVICE if the device was lost. */
FOVEA_API fovea_status fovea_run(fovea_plan *plan, const fovea_frame *frame,
                                 const fovea_output *outs, size_t n_outs);

/* Submits one frame or several, in the same way as fovea_run. Pixels and outputs must stay valid
 * until fovea_wait has returned for *out. Two submissions may be in flight: while a device computes
 * one, the next is uploaded. On the CPU the work is done inside fovea_wait, by the calling thread
 * and the workers. Returns EINVAL if two are in flight already; other errors are those of
 * fovea_run. */
FOVEA_API fovea_status fovea_submit(fovea_plan *plan, const fovea_frame *frame,
                                    const fovea_output *outs, size_t n_outs, fovea_ticket *out);
/* Waits until a submission is complete, at most `timeout` seconds, or without limit if `timeout` is
 * negative. Submissions complete in order. Returns FOVEA_OK also for a submission that was waited
 * for before, ETIMEOUT if it is still in flight, and EDEVICE if the device was lost. */
FOVEA_API fovea_status fovea_wait(fovea_plan *plan, fovea_ticket ticket, double timeout);

/* Returns nonzero if frames run on the CPU because the plan's device was lost or could not run the
 * plan (FOVEA_DEVICE_LOST_CPU). To use the device again, open it again and make a new plan. */
FOVEA_API int fovea_plan_device_lost(const fovea_plan *plan);

/* Returns the seconds that the device took for the frame or operation that was waited for last,
 * without the time that it waited for earlier frames. The time is that of the device's clock if
 * reading the clock costs nothing or the plan is traced, or else that of the host's clock. Returns
 * 0 before the first frame. */
FOVEA_API double fovea_plan_seconds(const fovea_plan *plan);

/* One call of a kernel. */
typedef struct fovea_trace_event {
    uint32_t step;      /* index for fovea_plan_step */
    uint32_t worker;    /* from 0; 0 on devices without workers */
    uint32_t row, rows; /* the first row, and the number of rows */
    double begin, end;  /* in seconds, since the device began to compute the frame */
} fovea_trace_event;

/* Traces the frames that follow: `events`, of `capacity` elements, receives the calls of each
 * frame, in no particular order, and may be read once the frame was waited for. Traced frames run
 * one at a time. NULL ends tracing. This call may allocate; frames do not. Returns EINVAL if a
 * frame is in flight, or ENOTSUP if the device does not report times. */
FOVEA_API fovea_status fovea_plan_trace(fovea_plan *plan, fovea_trace_event *events,
                                        size_t capacity);
/* Returns the number of calls in the last frame that was traced. Calls beyond `capacity` are
 * counted, but not recorded. */
FOVEA_API size_t fovea_plan_trace_count(const fovea_plan *plan);

FOVEA_END_DECLS

#endif
