/* plans.h: plans a model for one device, frame size and attention, and runs frames. A part of
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
    FOVEA_FORMAT_RGB8, /* bytes R, G, B */
    FOVEA_FORMAT_BGR8,
    FOVEA_FORMAT_GRAY8,      /* 0 is black, 255 white; fovea_layout_convert makes that of luma in
                                limited range */
    FOVEA_FORMAT_PLANES_F32, /* float planes R, G, B, one after the other, packed, already
                                normalised; never resized */
    FOVEA_FORMAT_NV12,       /* bytes Y, and in a second plane U, V of every 2 x 2 pixels */
    FOVEA_FORMAT_YUYV,       /* bytes Y, U, Y, V of every 2 pixels; also called YUY2 */
} fovea_pixel_format;

/* How luma and chroma become R, G, B: by which matrix, and whether black is 16 and white 235
 * (limited range) or 0 and 255 (full range). Cameras give FOVEA_YUV_601 unless they say otherwise:
 * YUYV of USB cameras, V4L2's default, most camera processors. Video of 720 lines and more is
 * mostly BT.709; frames that were a JPEG are BT.601 in full range. fovea_yuv_matrix_choose
 * (video.h) chooses by what a source says of its frames. */
typedef enum fovea_yuv_matrix {
    FOVEA_YUV_601, /* BT.601, limited range */
    FOVEA_YUV_601_FULL,
    FOVEA_YUV_709, /* BT.709, limited range */
    FOVEA_YUV_709_FULL,
    FOVEA_YUV_2020, /* BT.2020, limited range, of luma that is not constant */
    FOVEA_YUV_2020_FULL,
} fovea_yuv_matrix;

typedef enum fovea_schedule {
    FOVEA_SCHEDULE_AUTO,
    FOVEA_SCHEDULE_STREAMED, /* a chunk of tokens is carried through all steps of a sweep */
    FOVEA_SCHEDULE_STEPWISE, /* every step runs over all tokens */
} fovea_schedule;

/* Precision of matrix multiplications: those of layers, convolutions and attention. Sums, the
 * residual stream, norms, feature maps and outputs are float32 in any case. */
typedef enum fovea_compute {
    FOVEA_COMPUTE_F32,
    FOVEA_COMPUTE_BF16, /* factors rounded to bfloat16; rows of activations are stored so */
    FOVEA_COMPUTE_INT8, /* the layers of blocks with weights of 8 bits per output channel and rows
                           of 8 bits per token, both after a rotation of 64 channels at a time that
                           spreads outliers; on processors softmax and foveated attention of
                           blocks, too; on processors with int8 instructions the convolutions of
                           decoders, quantised per pixel; the rest as FOVEA_COMPUTE_BF16 */
    FOVEA_COMPUTE_AUTO, /* the fastest that fovea_tune_accuracy has found within its bound for these
                           weights and this attention on this device; where it has found none,
                           FOVEA_COMPUTE_BF16 if the device has fast instructions for that
                           (fovea_device_info.bf16), else FOVEA_COMPUTE_F32, as wherever weights or
                           activations are not FOVEA_DTYPE_F32. What the program, Python, the
                           GStreamer element and the ROS 2 component do if they are not told */
} fovea_compute;

/* What happens to frames when their device fails, as drivers of small GPUs sometimes do. */
typedef enum fovea_device_lost_action {
    FOVEA_DEVICE_LOST_FAIL, /* fovea_wait gives EDEVICE, and so does every call for a later frame */
    FOVEA_DEVICE_LOST_CPU,  /* the frame is run again on the CPU, and so are all after it */
} fovea_device_lost_action;

/* `attention`: what replaces the model's own attention, one of the bidirectional names of
 * operations.h. ViTs take every one of them, with what the checkpoint has for it and else bare:
 * pola and focused with learned vectors (attn.vectors of a block, else zeros), sla-NAME with its
 * gates (attn.sla_q.weight and attn.sla_k.weight, else all 1 / heads), pola, nala, nala-paper and
 * focused with the depthwise convolution of the values, norm and gate of their authors (attn.dwc,
 * attn.ln and attn.gate of a block, else none). linear:silu and linear:identity, which have no
 * divisor, are left out. And there is one more, in ViTs alone, because it needs to know the grid of
 * their tokens:
 *
 *   foveated[:MARGIN]  out_i = sum_j softmax_j(s q_i.k_j + log n_j) v_j
 *                      over what the 8 x 8 block with token i sees: tokens up to MARGIN (1 to 64;
 *                      4) away one by one, those further away as cells of 2 x 2, 4 x 4, .. tokens,
 *                      whose k and v are means and whose n is their number. Prefix tokens are seen
 *                      by all and see all tokens one by one. A query has some 520 keys at 5477
 *                      tokens, 680 at 21905
 *
 * Blocks, from 0, may differ:
 *
 *   linear:elu1+softmax@0-3+mala@11      softmax in the first four, MALA in the last of 12
 *   softmax+linear@8-                    linear from block 8 on
 *
 * First a name for all blocks, then with '+' names for one block or a range; later ones win.
 * "fovea": {"attention": ...} in config.json takes the same, or a list of one name per block. MAViT
 * and NaLaFormer take their own attention and softmax, the PolaFormers only their own. */
typedef struct fovea_plan_options {
    size_t struct_size;
    struct {
        fovea_pixel_format format;
        uint32_t width, height; /* pixels of the frames that will come */
        uint32_t count;         /* frames of one run at most, of several cameras or files: up to
                                   256; 0: one. Each gets the bits that it would get alone, if no
                                   memory limit makes chunks smaller; together they take no more
                                   time, and small ones less; each takes memory of its own, but for
                                   weights and workers */
    } frame;
    const fovea_preprocess *preprocess; /* NULL: frames come in the size to be run (remainders of
                                           the patch are ignored at right and bottom), and are only
                                           normalised, with the model's mean and std */
    const char *attention;              /* NULL: the model's own; see above */
    const char *const *outputs;         /* names; NULL: the model's main output */
    size_t n_outputs;
    fovea_schedule schedule;
    uint32_t chunk;        /* tokens per chunk of streamed sweeps; 0: chosen. On devices other than
                              the CPU it asks for streaming, which saves memory there, not time */
    uint64_t memory_limit; /* bytes beside weights; 0: no limit. ENOMEM if even the smallest chunk
                              needs more. Sums over tokens have chunks that do not depend on the
                              number of threads, for the same bits: ENOMEM too if so many threads
                              need more with them */
    int dry;               /* nonzero: pack and allocate nothing; such a plan cannot run */
    /* Storage of the weights of matrix products and convolutions and of the position table: 16 bits
     * take half the memory. They are rounded to the nearest when they are packed, without loss
     * where the checkpoint has the same type; activations and sums stay float32. FOVEA_DTYPE_I8
     * takes a quarter: products of blocks with 64 columns and more, whose weights are numbers of 8
     * bits times a scale per output channel; products are still of floats. The others, and the
     * position table, keep the type that they have without it. The level
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
    /* FOVEA_DEVICE_LOST_CPU: a second plan is made with this one, and takes over without an
     * allocation. It keeps float32 activations; `memory_limit` holds for each, and
     * FOVEA_COMPUTE_AUTO is what each device has. Ignored on the CPU. */
    fovea_device_lost_action on_device_lost;
    fovea_device *fallback; /* CPU device of the second plan; NULL: one with default options, opened
                               and closed with the plan */
    double
        device_timeout_seconds; /* a device that takes longer for a frame counts as lost; 0: 10 */
    fovea_yuv_matrix yuv; /* of NV12 and YUYV, which are converted to R, G, B bytes as they are
                      read, with U and V of the nearest sample */
    int reserved;         /* where earlier versions have padding; 0 */
    /* A processor without instructions for it computes the same numbers with wider ones. With
     * BF16 or INT8 leave `activations` alone, and `weights` but for FOVEA_DTYPE_I8: EINVAL. Then
     * products of int8 are as without it, the others of blocks are float32 of BF16 rows. */
    fovea_compute compute;
} fovea_plan_options;
#define FOVEA_PLAN_OPTIONS_INIT FOVEA_INIT(fovea_plan_options, )

/* Plans `model` on `device`. Packs the weights that no other plan of the model has packed yet.
 * EINVAL: a size under one patch, an unknown output; ENOTSUP: an unknown attention, an op that the
 * device lacks; ENOMEM. Thread-safe. */
FOVEA_API fovea_status fovea_plan_create(fovea_plan **out, const fovea_model *model,
                                         fovea_device *device, const fovea_plan_options *options);
FOVEA_API void fovea_plan_free(fovea_plan *plan);

/* Known before anything runs, as are steps and outputs. */
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
    uint64_t residual;     /* tensors that cross a sweep: the residual stream, K and V of softmax */
    uint64_t states;       /* attention states and their partial sums */
    uint64_t chunks;       /* what lives inside a sweep: one chunk per worker when streamed */
    uint64_t scratch;      /* of the kernels, all workers together */
    uint64_t staging;      /* resized picture, tables, and the plan itself */
    uint64_t largest;      /* the largest single buffer */
    double flops;          /* of a run of all frames: a multiply-add counts as two */
    double seconds;        /* the same, as the cost model estimates */
    uint64_t fallback;     /* all bytes, weights included, of the plan for a lost device */
    fovea_compute compute; /* what is used: of FOVEA_COMPUTE_AUTO what it has come to */
    const char *compute_source; /* "forced" by the options; of FOVEA_COMPUTE_AUTO "wisdom", "prior"
                                   (wisdom about another size of the frame), "device" (what it has
                                   instructions for), "storage" (float32, with the types of weights
                                   or activations that were asked for) */
    /* Where the picture that was run lies in the frame: pixel (x, y) of it, from its upper left
     * corner, is at (left + x * scale_x, top + y * scale_y); outside the frame where it is padded.
     */
    double left, top, scale_x, scale_y;
    uint32_t count; /* frames of one run at most */
    /* One line where blocks of the model run an attention that their weights were not trained with,
     * so that its outputs mean little until it is trained: which blocks, what that cost a trained
     * model, and what to do. NULL: every block has the attention it was trained with ("softmax",
     * or "fovea": {"attention"} of config.json), or foveated attention in place of softmax; or the
     * weights are random. Belongs to the plan. */
    const char *untrained;
    double reference_seconds; /* of `seconds`, those of steps for which there is none but the plain
                                 C reference: see `reference` of fovea_step_info */
} fovea_plan_info;
#define FOVEA_PLAN_INFO_INIT FOVEA_INIT(fovea_plan_info, )

/* Thread-safe. */
FOVEA_API fovea_status fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out);
/* Seconds of a frame as tuning has measured them for such a plan on this device; 0: wisdom has no
 * such fact. Thread-safe. */
FOVEA_API double fovea_plan_measured_seconds(const fovea_plan *plan);

typedef struct fovea_step_info {
    size_t struct_size;
    const char *label;      /* "block 3 fc1" */
    const char *problem;    /* all of it as text: "gemm f32 5477x3072x768 bias+gelu" */
    const char *op;         /* "gemm", "softmax", ...: as fovea_kernel_info has it */
    const char *mechanism;  /* of attention, "elu1"; else "any" */
    const char *activation; /* of "gemm" and "conv", as fovea_gemm_options has it, or "swiglu"; else
                               NULL */
    fovea_dtype dtype;      /* of the activations that it reads; pixels count as FOVEA_DTYPE_F32 */
    fovea_dtype weight_dtype; /* of the weight of "gemm" and "conv", else FOVEA_DTYPE_F32; I8 does
                                 not say what is multiplied: see `products` */
    /* m: rows. "gemm" and "conv": an (m x k) matrix times a (k x n) matrix; "swiglu" has n columns
     * of values and n of gates. Attention: m queries, k keys (of one window in "wsoftmax"; 0 where
     * none are counted), n = heads * value_dim columns. Others: n channels, k = 0. */
    uint32_t m, n, k;
    uint32_t heads, head_dim, value_dim; /* of attention, else 0 */
    double flops;                        /* of all frames; a multiply-add counts as two */
    double bytes;   /* lower bound of bytes read and written: every operand once */
    double seconds; /* the cost model's estimate, of all frames too, as `bytes` is */
    const char *kernel;
    const char *source; /* where the choice came from: "wisdom", "prior" (wisdom about another size
                           or a device like this), "cost" */
    uint32_t sweep;
    fovea_schedule schedule;  /* of its sweep */
    uint32_t chunk;           /* most rows of one call */
    const char *sweep_source; /* where schedule and chunk came from: the same, or "forced" */
    /* What it multiplies: "f32", "bf16", "int8", or "f16" by weights of that type; NULL where it is
     * neither a product of matrices nor attention. */
    const char *products;
    /* Nonzero: no kernel for this problem was written for this device, and the plain C reference,
     * which others are tested against, takes its place. It is right, and slow. */
    int reference;
} fovea_step_info;
#define FOVEA_STEP_INFO_INIT FOVEA_INIT(fovea_step_info, )

/* Step `index` of the plan, from 0; returns 0 past the end. The texts belong to the plan.
 * Thread-safe. */
FOVEA_API int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out);

/* What an output is: results.h makes records of those that are not features. */
typedef enum fovea_output_kind {
    FOVEA_OUTPUT_FEATURES,     /* rows of channels: of tokens, or of the picture */
    FOVEA_OUTPUT_LOGITS,       /* of the picture's classes */
    FOVEA_OUTPUT_DEPTH,        /* of each place of the grid */
    FOVEA_OUTPUT_CLASS_MAP,    /* logits of classes, of each place of the grid */
    FOVEA_OUTPUT_MASKS,        /* logits of queries: whether a place of the grid is inside */
    FOVEA_OUTPUT_MASK_CLASSES, /* logits of each query's classes; last column: no object */
    FOVEA_OUTPUT_BOXES,        /* four numbers for each anchor or query */
    FOVEA_OUTPUT_BOX_CLASSES,  /* logits of the same anchor's or query's classes */
    FOVEA_OUTPUT_KEYPOINTS,    /* heat maps: a column for each point */
} fovea_output_kind;

/* The shape that the model's original code (transformers, timm, the authors' repository) gives an
 * output of one frame, with C = columns, H = grid_height and W = grid_width, both 1 without a grid.
 * The data of an output is rows of channels, [row][channel], whatever this says; a program that
 * compares with the original code, or hands outputs to code that was written for it, turns it
 * accordingly. */
typedef enum fovea_output_layout {
    FOVEA_OUTPUT_LAYOUT_ROWS,   /* [row][channel]: rows x C */
    FOVEA_OUTPUT_LAYOUT_VECTOR, /* [channel]: C, of the one row */
    FOVEA_OUTPUT_LAYOUT_PLANES, /* [channel][row][column]: C x H x W */
    FOVEA_OUTPUT_LAYOUT_MAP,    /* [row][column]: H x W, of the one channel */
} fovea_output_layout;

typedef struct fovea_output_info {
    size_t struct_size;
    const char *name;
    uint32_t rows, columns;           /* float32, rows * columns * 4 bytes */
    uint32_t prefix;                  /* leading rows that are no patches */
    uint32_t grid_width, grid_height; /* of the patch rows; 0 when rows are no patches */
    uint32_t stride;                  /* pixels from patch to patch */
    fovea_output_kind kind;
    fovea_output_layout layout;
} fovea_output_info;
#define FOVEA_OUTPUT_INFO_INIT FOVEA_INIT(fovea_output_info, )

/* Output `index` in the order of the options, from 0; returns 0 past the end. The name belongs to
 * the plan. Thread-safe. */
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

/* Runs one frame; outs[i] is the plan's output i. Of a plan of several (frame.count), runs the
 * frames frame[0], frame[1], .. that there are outputs for: outs[f * outputs + i] is output i of
 * frame f, so n_outs is the frames' number times the plan's outputs; the functions of results.h
 * take those of one frame. Equals fovea_submit and an unbounded fovea_wait. EINVAL for a missing
 * plane, a stride under one row, too small an output, more frames than planned. */
FOVEA_API fovea_status fovea_run(fovea_plan *plan, const fovea_frame *frame,
                                 const fovea_output *outs, size_t n_outs);

/* Submits a frame, or several; pixels and outputs must stay valid until fovea_wait returned for
 * `ticket`. On the CPU the work is done inside fovea_wait, by the caller and the pool; other
 * devices compute while the next frame is uploaded. EINVAL if two frames are in flight already. */
FOVEA_API fovea_status fovea_submit(fovea_plan *plan, const fovea_frame *frame,
                                    const fovea_output *outs, size_t n_outs, fovea_ticket *out);
/* Waits for the frame, `timeout` seconds at most; negative: without bound. Frames complete in
 * order. ETIMEOUT leaves it in flight. OK for a frame that was waited for already. */
FOVEA_API fovea_status fovea_wait(fovea_plan *plan, fovea_ticket ticket, double timeout);

/* Nonzero: the plan's device was lost, and frames run on the CPU (FOVEA_DEVICE_LOST_CPU). To use
 * the device again, the caller opens it and makes a new plan. */
FOVEA_API int fovea_plan_device_lost(const fovea_plan *plan);

/* Seconds that the device took for the frame or operation that was waited for last, without the
 * time that the frame waited for earlier frames: by its own clock where it has one that costs
 * nothing or the plan is traced, else by the host's. 0 before the first. */
FOVEA_API double fovea_plan_seconds(const fovea_plan *plan);

/* One call of a kernel. */
typedef struct fovea_trace_event {
    uint32_t step;      /* as fovea_plan_step counts them */
    uint32_t worker;    /* 0 on devices that have none */
    uint32_t row, rows; /* the first row, and how many */
    double begin, end;  /* seconds since the device began to compute the frame */
} fovea_trace_event;

/* From the next frame on, records the calls of each frame in `events`, of which there are
 * `capacity`, in no particular order; they can be read once the frame was waited for. Frames are
 * then run one at a time. NULL ends it. EINVAL with a frame in flight; ENOTSUP on a device that
 * does not report times. This call may allocate, frames do not. */
FOVEA_API fovea_status fovea_plan_trace(fovea_plan *plan, fovea_trace_event *events,
                                        size_t capacity);
/* Calls of the last frame that was traced; those beyond `capacity` are counted, not recorded. */
FOVEA_API size_t fovea_plan_trace_count(const fovea_plan *plan);

FOVEA_END_DECLS

#endif
