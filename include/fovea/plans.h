/* plans.h: plans of a model for one device, frame size and attention; running frames. A part of
 * fovea.h, whose rules hold here.
 */
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
    FOVEA_FORMAT_GRAY8,      /* bytes, 0 black to 255 white; fovea_layout_convert converts luma in
                                limited range to it */
    FOVEA_FORMAT_PLANES_F32, /* float32 planes R, G, B, packed and one after the other, already
                                normalised; they are never resized */
    FOVEA_FORMAT_NV12, /* a plane of bytes Y, and a plane of bytes U, V for every 2 x 2 pixels */
    FOVEA_FORMAT_YUYV, /* bytes Y, U, Y, V for every 2 pixels; also called YUY2 */
} fovea_pixel_format;

/* How luma and chroma are converted to R, G, B: the matrix, and whether black and white are 16 and
 * 235 (limited range) or 0 and 255 (full range). Most cameras use FOVEA_YUV_601: YUYV of USB
 * cameras, V4L2's default, most image signal processors. Video of 720 lines and more is mostly
 * BT.709; frames of a JPEG are BT.601 in full range. fovea_yuv_matrix_choose in video.h chooses by
 * the tags of a source. */
typedef enum fovea_yuv_matrix {
    FOVEA_YUV_601, /* BT.601, limited range */
    FOVEA_YUV_601_FULL,
    FOVEA_YUV_709, /* BT.709, limited range */
    FOVEA_YUV_709_FULL,
    FOVEA_YUV_2020, /* BT.2020 with non-constant luminance, limited range */
    FOVEA_YUV_2020_FULL,
} fovea_yuv_matrix;

typedef enum fovea_schedule {
    FOVEA_SCHEDULE_AUTO,     /* chosen by wisdom, else by rules */
    FOVEA_SCHEDULE_STREAMED, /* a chunk of tokens goes through all steps of a sweep, then the next
                              */
    FOVEA_SCHEDULE_STEPWISE, /* a step runs over all tokens, then the next step does */
} fovea_schedule;

/* Precision of matrix multiplications: those of layers, convolutions and attention. Sums, the
 * residual stream, norms, feature maps and outputs are float32 in any case. */
typedef enum fovea_compute {
    FOVEA_COMPUTE_F32,
    FOVEA_COMPUTE_BF16, /* operands are rounded to bfloat16; rows of activations are stored so */
    FOVEA_COMPUTE_INT8, /* linear layers of blocks multiply int8: weights with a scale for each
                           output channel, rows with a scale for each token, both after a rotation
                           of 64 channels at a time that spreads outliers. So does softmax attention
                           of blocks on the CPU, and on OpenCL devices where it was measured to pay;
                           on the CPU also foveated attention, and with int8 instructions the
                           convolutions of decoders, quantised per pixel. The rest is as
                           FOVEA_COMPUTE_BF16 */
    FOVEA_COMPUTE_AUTO, /* the fastest that fovea_tune_accuracy has found within its bound for these
                           weights and this attention on this device. If it has found none:
                           FOVEA_COMPUTE_BF16 if the device has fast instructions for that
                           (fovea_device_info.bf16), else FOVEA_COMPUTE_F32; and FOVEA_COMPUTE_F32
                           if weights or activations are not FOVEA_DTYPE_F32. The default of the
                           program, Python, the GStreamer element and the ROS 2 component */
} fovea_compute;

/* What happens to frames when their device is lost: it fails, or does not finish in time, as
 * happens with drivers of small GPUs. */
typedef enum fovea_device_lost_action {
    FOVEA_DEVICE_LOST_FAIL, /* fovea_wait returns EDEVICE, and so do all calls for later frames */
    FOVEA_DEVICE_LOST_CPU,  /* the frame is run again on the CPU, and later frames run there */
} fovea_device_lost_action;

/* `attention` replaces the model's own attention: one of the bidirectional names in operations.h.
 * ViTs take all of them but linear:silu and linear:identity, which have no divisor. A mechanism is
 * used with the parts for which the checkpoint has tensors: pola and focused with learned vectors
 * (attn.vectors of a block; else zeros); sla-NAME with its gates (attn.sla_q.weight and
 * attn.sla_k.weight; else all are 1 / heads); pola, nala, nala-paper and focused with the depthwise
 * convolution of the values, the norm and the gate of their authors (attn.dwc, attn.ln and
 * attn.gate of a block; else none). ViTs take one more name, for an attention that needs the grid
 * of the tokens:
 *
 *   foveated[:MARGIN]  out_i = sum_j softmax_j(s q_i.k_j + log n_j) v_j
 *                      where j runs over what the 8 x 8 block with token i sees: single tokens up
 *                      to a distance of MARGIN tokens (1 to 64; default 4), and beyond it cells of
 *                      2 x 2, 4 x 4, ... tokens, whose k and v are means and whose n is the number
 *                      of tokens. Prefix tokens are seen by all tokens, and see all tokens singly.
 *                      A query has about 520 keys at 5477 tokens, and 680 at 21905
 *
 * Blocks, counted from 0, may have different attentions:
 *
 *   linear:elu1+softmax@0-3+mala@11      softmax in the first four, MALA in the last of 12
 *   softmax+linear@8-                    linear from block 8 on
 *
 * The first name is for all blocks; further names, after '+', are for one block or a range, and
 * later ones win. "fovea": {"attention": ...} in config.json takes the same text, or a list of one
 * name per block. MAViT and NaLaFormer take their own attention and softmax, the PolaFormers only
 * their own. */
typedef struct fovea_plan_options {
    size_t struct_size;
    struct {
        fovea_pixel_format format;
        uint32_t width, height; /* pixels of the frames that will come */
        uint32_t count; /* most frames of a run, up to 256, of several cameras or files; 0: 1.
                           Each frame gets the bits that it would get by itself, unless a memory
                           limit makes chunks smaller. Together they take no more time, and small
                           frames less. Each takes memory of its own, except for weights and
                           workers */
    } frame;
    const fovea_preprocess *preprocess; /* NULL: frames have the size to be run, remainders of the
                                           patch at right and bottom are ignored, and pixels are
                                           only normalised, with the model's mean and std */
    const char *attention;              /* NULL: the model's own; see above */
    const char *const *outputs;         /* names, see fovea_model_output; NULL: the main output */
    size_t n_outputs;
    fovea_schedule schedule;
    uint32_t chunk; /* tokens per chunk of streamed sweeps; 0: chosen. On devices other than the
                       CPU it asks for streaming, which saves memory there, not time */
    uint64_t memory_limit; /* bytes, weights not counted; 0: no limit. ENOMEM if even the smallest
                              chunk needs more. Sums over tokens have chunks that do not depend on
                              the number of threads, so that results have the same bits; ENOMEM also
                              if that many threads need more with such chunks */
    int dry; /* nonzero: pack and allocate nothing; the plan can be queried but not run */
    /* Storage of the weights of matrix products and convolutions, and of the position table. The
     * 16-bit types take half the memory: weights are rounded to nearest when they are packed,
     * without loss if the checkpoint has the same type; activations and sums stay float32.
     * FOVEA_DTYPE_I8 takes a quarter: the weights of products of blocks with 64 columns and more
     * become 8-bit integers with a scale for each output channel, and products are still of floats;
     * other weights and the position table keep their type. The level "neon-dot" rounds activations
     * to 17 bits if weights are FOVEA_DTYPE_BF16 and sums long. ENOTSUP: FOVEA_DTYPE_F16 and a
     * weight beyond 65504. */
    fovea_dtype weights;
    /* Storage of rows of activations. The residual stream, states, inputs and outputs are always
     * float32, and so are sums. ENOTSUP for another type on the CPU, with one exception: at the
     * level "neon-fp16" FOVEA_DTYPE_F16, together with FOVEA_DTYPE_F16 weights, computes products
     * in float16, of which four are summed at a time. Errors of the models that were measured are
     * up to 6e-3 of the largest output. */
    fovea_dtype activations;
    /* Above FOVEA_RIGOR_ESTIMATE, steps and sweeps that wisdom does not know with this rigor are
     * tuned first, as by fovea_tune; not for a dry plan. Nothing is saved to files. */
    fovea_rigor rigor;
    double tune_seconds; /* time limit of that tuning; 0: none */
    /* With FOVEA_DEVICE_LOST_CPU a second plan, for the CPU, is made together with this one, and
     * can take over without an allocation. It stores activations in float32; `memory_limit` holds
     * for each plan, and FOVEA_COMPUTE_AUTO is resolved for each. Ignored if the plan's device is
     * the CPU. */
    fovea_device_lost_action on_device_lost;
    fovea_device *fallback; /* the CPU device of the second plan; NULL: one with default options,
                               which is opened and closed with the plan */
    double device_timeout_seconds; /* a device that takes longer for a frame is lost; 0: 10 */
    fovea_yuv_matrix yuv; /* for NV12 and YUYV, which are converted to R, G, B bytes as they are
                             read, with U and V of the nearest sample */
    int reserved;         /* 0 */
    /* A processor without instructions for a type computes the same numbers with wider ones.
     * EINVAL: BF16 or INT8 together with `activations`, or with `weights` other than
     * FOVEA_DTYPE_I8. With those, products of int8 are the same as without, and the other products
     * of blocks are float32 products of rows that are rounded to bfloat16. */
    fovea_compute compute;
} fovea_plan_options;
#define FOVEA_PLAN_OPTIONS_INIT FOVEA_INIT(fovea_plan_options, )

/* Plans a model for a device. Weights that no other plan of the model has packed are packed here.
 * The plan keeps what it needs of the model and the device, which may be freed before it. EINVAL: a
 * size below one patch, an unknown output; ENOTSUP: an unknown attention, an operation that the
 * device lacks; ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_plan_create(fovea_plan **out, const fovea_model *model,
                                         fovea_device *device, const fovea_plan_options *options);
FOVEA_API void fovea_plan_free(fovea_plan *plan);

/* What is known before a frame runs, in addition to steps and outputs. */
typedef struct fovea_plan_info { /* More than 25 fields: a report, which grows at its end */
    size_t struct_size;
    uint32_t width, height;                 /* pixels that reach the patches */
    uint32_t ignored_right, ignored_bottom; /* pixels that fill no whole patch */
    uint32_t grid_width, grid_height; /* patches; later stages of pyramids have fewer tokens */
    uint32_t tokens;                  /* prefix tokens + patches of that grid */
    uint32_t sweeps, steps, dispatches;
    uint32_t threads;
    /* Peak bytes by kind. All but weights are the plan's own. */
    uint64_t weights;      /* shared by the plans of a model */
    uint64_t residual;     /* tensors that cross a sweep: the residual stream, K and V of softmax */
    uint64_t states;       /* attention states and their partial sums */
    uint64_t chunks;       /* values within a sweep: one chunk per worker when streamed */
    uint64_t scratch;      /* scratch memory of the kernels, of all workers together */
    uint64_t staging;      /* resized picture, tables, and the plan itself */
    uint64_t largest;      /* the largest single buffer */
    double flops;          /* of a run of all frames; a multiply-add counts as two */
    double seconds;        /* of a run of all frames, estimated by the cost model */
    uint64_t fallback;     /* bytes of the plan for a lost device, weights included */
    fovea_compute compute; /* the precision that is used: never FOVEA_COMPUTE_AUTO */
    const char *compute_source; /* why: "forced" by the options; for FOVEA_COMPUTE_AUTO "wisdom",
                                   "prior" (wisdom about another frame size), "device" (its
                                   instructions), "storage" (float32, because of the types of
                                   weights or activations that were asked for) */
    /* Position of the picture that was run in the frame: the point (x, y) of the picture, in pixels
     * from its upper left corner, is at (left + x * scale_x, top + y * scale_y) of the frame.
     * Points in the padding are outside of the frame. */
    double left, top, scale_x, scale_y;
    uint32_t count; /* most frames of a run */
    /* A line of text if blocks run an attention that their weights were not trained with, so that
     * outputs mean little before further training: which blocks, how much that cost a trained
     * model, and what to do. NULL: every block has the attention that it was trained with
     * ("softmax", or "fovea":
     * {"attention"} of config.json), or foveated attention in place of softmax; or the weights are
     * random. Belongs to the plan. */
    const char *untrained;
    double reference_seconds; /* the part of `seconds` in steps that only the plain C reference can
                                 run: see fovea_step_info.reference */
} fovea_plan_info;
#define FOVEA_PLAN_INFO_INIT FOVEA_INIT(fovea_plan_info, )

/* Describes a plan. Thread-safe. */
FOVEA_API fovea_status fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out);
/* Seconds that a frame took when such a plan was tuned on this device; 0: wisdom has no such fact.
 * Thread-safe. */
FOVEA_API double fovea_plan_measured_seconds(const fovea_plan *plan);

/* One step of a plan: an operation, its sizes, and the kernel that was chosen. */
typedef struct fovea_step_info {
    size_t struct_size;
    const char *label;   /* "block 3 fc1" */
    const char *problem; /* operation, sizes, types and flags: "gemm f32 5477x3072x768 bias+gelu" */
    const char *op;      /* "gemm", "softmax", ..., as in fovea_kernel_info */
    const char *mechanism; /* of attention, "elu1"; else "any" */
    const char
        *activation;   /* of "gemm" and "conv", as in fovea_gemm_options, or "swiglu"; else NULL */
    fovea_dtype dtype; /* of the activations that it reads; pixels count as FOVEA_DTYPE_F32 */
    fovea_dtype weight_dtype; /* of the weight of "gemm" and "conv", else FOVEA_DTYPE_F32. What is
                                 multiplied is in `products` */
    /* "gemm" and "conv": a product of an (m x k) and a (k x n) matrix; "swiglu" has n columns of
     * values and n columns of gates. Attention: m queries, k keys (of one window in "wsoftmax"; 0
     * if keys are not counted), and n = heads * value_dim output columns. Other operations: m rows
     * of n channels, k = 0. */
    uint32_t m, n, k;
    uint32_t heads, head_dim, value_dim; /* of attention, else 0 */
    double flops;                        /* of all frames; a multiply-add counts as two */
    double bytes;   /* of all frames: every operand read or written once, a lower bound */
    double seconds; /* of all frames, estimated by the cost model */
    const char *kernel;
    const char *source;      /* why this kernel: "wisdom", "prior" (wisdom about another size or a
                                similar      device), "cost" (the cost model) */
    uint32_t sweep;          /* index of the sweep that the step belongs to */
    fovea_schedule schedule; /* of that sweep */
    uint32_t chunk;          /* most rows of one call of the kernel */
    const char
        *sweep_source; /* why this schedule and chunk: as `source`, or "forced" by the options */
    /* What is multiplied: "f32", "bf16", "int8", or "f16" for weights of that type; NULL for a step
     * that is neither a matrix product nor attention. */
    const char *products;
    /* Nonzero: the device has no kernel for this problem, and the plain C reference runs in its
     * place, which is correct and slow. */
    int reference;
} fovea_step_info;
#define FOVEA_STEP_INFO_INIT FOVEA_INIT(fovea_step_info, )

/* Describes step `index` of the plan, from 0. Returns nonzero, or 0 past the end. The strings
 * belong to the plan. Thread-safe. */
FOVEA_API int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out);

/* The meaning of an output. results.h makes records of all kinds except features. */
typedef enum fovea_output_kind {
    FOVEA_OUTPUT_FEATURES,  /* rows of channels: of tokens, or one row of the picture */
    FOVEA_OUTPUT_LOGITS,    /* one row: logits of the picture's classes */
    FOVEA_OUTPUT_DEPTH,     /* one column: depth of each place of the grid */
    FOVEA_OUTPUT_CLASS_MAP, /* logits of classes, for each place of the grid */
    FOVEA_OUTPUT_MASKS,     /* a column for each query: logit of each place being inside its mask */
    FOVEA_OUTPUT_MASK_CLASSES, /* a row for each query: logits of classes; last column: no object */
    FOVEA_OUTPUT_BOXES,        /* four numbers for each anchor or query */
    FOVEA_OUTPUT_BOX_CLASSES,  /* logits of classes, for the same anchors or queries */
    FOVEA_OUTPUT_KEYPOINTS,    /* a column for each key point: its heat map */
} fovea_output_kind;

/* The shape that the model's original code (transformers, timm, the authors' repository) gives an
 * output of one frame, with C = columns, and H = grid_height and W = grid_width, or 1 without a
 * grid. The data of an output is rows of channels, [row][channel], in any case; a program that
 * compares it with the original code, or passes it to code that was written for that, turns it
 * accordingly. */
typedef enum fovea_output_layout {
    FOVEA_OUTPUT_LAYOUT_ROWS,   /* [row][channel]: rows x C */
    FOVEA_OUTPUT_LAYOUT_VECTOR, /* [channel]: C, of a single row */
    FOVEA_OUTPUT_LAYOUT_PLANES, /* [channel][row][column]: C x H x W */
    FOVEA_OUTPUT_LAYOUT_MAP,    /* [row][column]: H x W, of a single column */
} fovea_output_layout;

typedef struct fovea_output_info {
    size_t struct_size;
    const char *name;
    uint32_t rows, columns; /* of float32: rows * columns * 4 bytes */
    uint32_t prefix;        /* leading rows that are not patches: class token, registers */
    uint32_t grid_width, grid_height; /* patches in the rows from `prefix` on, row by row; 0: rows
                                         are not patches */
    uint32_t stride;                  /* pixels of the picture from patch to patch */
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
    const void *pixels[3]; /* the first byte of each plane. Interleaved formats use pixels[0], and
                              so do float planes, whose others may be NULL; NV12 has U and V in
                              pixels[1], (height + 1) / 2 rows of them */
    size_t stride[3]; /* bytes from row to row; 0: rows are packed. With an odd width the last pair
                         of pixels of NV12 and YUYV must be complete */
} fovea_frame;

typedef struct fovea_output {
    void *data;  /* the caller's buffer, 4-byte aligned */
    size_t size; /* its bytes: at least rows * columns * 4 of fovea_plan_output */
} fovea_output;

typedef uint64_t fovea_ticket;

/* Runs a frame and waits for it: fovea_submit and fovea_wait without a timeout. outs[i] receives
 * output i of the plan, and n_outs is the number of outputs. A plan for several frames
 * (frame.count) runs as many of the frames frame[0], frame[1], ... as there are outputs for: outs[f
 * outputs + i] receives output i of frame f, and n_outs is the number of frames times the number
 * of outputs. The functions of results.h take the outputs of one frame. EINVAL: a missing plane, a
 * stride of less than one row, a buffer that is too small, more frames than planned. EDEVICE: the
 * device was lost. */
FOVEA_API fovea_status fovea_run(fovea_plan *plan, const fovea_frame *frame,
                                 const fovea_output *outs, size_t n_outs);

/* Submits a frame, or several, as fovea_run takes them. Pixels and outputs must stay valid until
 * fovea_wait has returned for *out. Two submissions may be in flight: while a device computes one,
 * the next is uploaded. On the CPU the work is done inside fovea_wait, by the calling thread and
 * the workers. EINVAL: two are in flight already; other errors as of fovea_run. */
FOVEA_API fovea_status fovea_submit(fovea_plan *plan, const fovea_frame *frame,
                                    const fovea_output *outs, size_t n_outs, fovea_ticket *out);
/* Waits until a submission is complete, at most `timeout` seconds; negative: without limit.
 * Submissions complete in order. FOVEA_OK also for one that was waited for before. ETIMEOUT: it is
 * still in flight. EDEVICE: the device was lost. */
FOVEA_API fovea_status fovea_wait(fovea_plan *plan, fovea_ticket ticket, double timeout);

/* Nonzero: the plan's device was lost, and frames run on the CPU (FOVEA_DEVICE_LOST_CPU). To use
 * the device again, open it again and make a new plan. */
FOVEA_API int fovea_plan_device_lost(const fovea_plan *plan);

/* Seconds that the device took for the frame or operation that was waited for last, not counting
 * the time that it waited for earlier frames: by the device's clock if reading it costs nothing or
 * the plan is traced, else by the host's. 0 before the first. */
FOVEA_API double fovea_plan_seconds(const fovea_plan *plan);

/* One call of a kernel. */
typedef struct fovea_trace_event {
    uint32_t step;      /* index for fovea_plan_step */
    uint32_t worker;    /* from 0; 0 on devices without workers */
    uint32_t row, rows; /* the first row, and the number of rows */
    double begin, end;  /* seconds since the device began to compute the frame */
} fovea_trace_event;

/* Traces the frames that follow: `events`, of `capacity` elements, receives the calls of each
 * frame, in no particular order, and may be read once the frame was waited for. Traced frames run
 * one at a time. NULL ends tracing. This call may allocate, frames do not. EINVAL: a frame is in
 * flight; ENOTSUP: the device does not report times. */
FOVEA_API fovea_status fovea_plan_trace(fovea_plan *plan, fovea_trace_event *events,
                                        size_t capacity);
/* Number of calls in the last frame that was traced; those beyond `capacity` are counted, not
 * recorded. */
FOVEA_API size_t fovea_plan_trace_count(const fovea_plan *plan);

FOVEA_END_DECLS

#endif
