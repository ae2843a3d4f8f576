/* adapt.h: turns a checkpoint made for softmax attention into one with linear attention, and trains
 * heads on it. Not included by fovea.h, whose rules hold here.
 *
 * Three stages (ViT-AdaLA), each a trainer of its own:
 *
 *     FOVEA_STAGE_ATTENTION  every block's linear attention learns to give what its softmax
 *                            attention gives. The picture runs through the softmax model; block i's
 *                            new attention reads the same normalised tokens X_i, and
 *                                L = sum_i mean_{tokens, channels} (O_i - O'_i)^2
 *                            with O the attention's output after its projection, before any layer
 *                            scale, O' the softmax model's. W_Q, W_K, W_V and their biases are
 *                            trained.
 *     FOVEA_STAGE_FEATURES   the whole linear model learns the features of the frozen softmax one:
 *                                L = lambda mean_{tokens, channels} (f - f')^2
 *                            with f = last_hidden_state, prefix tokens included, f' the softmax
 *                            model's.
 *     FOVEA_STAGE_TASK       a head (fovea_head) and the model under it learn a task from labels:
 *                            cross-entropy of the picture's class, or of the class of every pixel.
 *
 * A trainer runs one picture at a time and accumulates its gradients; a step then takes the mean
 * over the pictures that were added, and AdamW changes the weights:
 *
 *     fovea_trainer *trainer;
 *     fovea_trainer_options options = FOVEA_TRAINER_OPTIONS_INIT;
 *     fovea_trainer_report report = FOVEA_TRAINER_REPORT_INIT;
 *     options.stage = FOVEA_STAGE_FEATURES;
 *     options.attention = "linear:elu1";
 *     options.frame.width = options.frame.height = 518;
 *     options.lr = 1e-4;
 *     options.steps = 1000;
 *     options.schedule = FOVEA_LR_LINEAR;
 *     if (fovea_trainer_create(&trainer, "dinov2-base", NULL, device, &options))
 *         return fprintf(stderr, "%s\n", fovea_error());
 *     for (int step = 0; step < 1000; step++) {
 *         for (int i = 0; i < 16; i++)
 *             fovea_trainer_add(trainer, next_frame(), NULL);
 *         fovea_trainer_step(trainer, &report);
 *     }
 *     fovea_trainer_save(trainer, "dinov2-base-linear", FOVEA_DTYPE_F32, 0);
 *
 * Weights, moments, gradients of weights, and sums are float32, and so are what products multiply
 * unless `compute` says otherwise. The activations of a block are recomputed for its gradients, so
 * that memory grows with the tokens but hardly with the blocks; fovea_trainer_query gives all
 * bytes. Results do not depend on the number of threads. After fovea_trainer_create nothing is
 * allocated until weights or states are written. It runs on the CPU only.
 */
#ifndef FOVEA_ADAPT_H
#define FOVEA_ADAPT_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_trainer fovea_trainer;

typedef enum fovea_stage {
    FOVEA_STAGE_ATTENTION = 1,
    FOVEA_STAGE_FEATURES = 2,
    FOVEA_STAGE_TASK = 3,
} fovea_stage;

typedef enum fovea_trainable {
    FOVEA_TRAIN_DEFAULT, /* FOVEA_TRAIN_QKV in the first stage, else FOVEA_TRAIN_ALL */
    FOVEA_TRAIN_ALL,     /* every tensor that the loss depends on */
    FOVEA_TRAIN_QKV,     /* the projections to queries, keys and values, and what the attention
                            itself learns (gates, vectors of a feature map); in FOVEA_STAGE_TASK the
                            head too */
    FOVEA_TRAIN_HEAD,    /* FOVEA_STAGE_TASK: the head alone */
} fovea_trainable;

/* The learning rate of a step, with t = 0 for the first step after the warm-up, T steps from there
 * to the end, and `end` for lr_end:
 *     constant   lr
 *     linear     end + (lr - end) (1 - t / T)
 *     cosine     end + (lr - end) (1 + cos(pi t / T)) / 2
 * During a warm-up of w steps it is lr (t + 1) / w, t = 0 for the very first step; past the end it
 * stays at `end` (constant: at lr). */
typedef enum fovea_lr_schedule {
    FOVEA_LR_CONSTANT,
    FOVEA_LR_LINEAR,
    FOVEA_LR_COSINE,
} fovea_lr_schedule;

typedef enum fovea_task {
    FOVEA_TASK_CLASSES,      /* logits of the picture against its label */
    FOVEA_TASK_SEGMENTATION, /* logits of every patch, enlarged bilinearly to the mask (corners at
                                the edges of pixels: align_corners=False), against its pixels */
    FOVEA_TASK_DEPTH, /* depths of every cell of the head's grid, enlarged likewise, against a
                         map of true ones: with d = log(depth / true depth)
                             L = mean d^2 - (mean d)^2 / 2
                         (Eigen et al., 2014) over the pixels whose true depth is known */
} fovea_task;

/* What FOVEA_STAGE_TASK trains where the model has no such head:
 *     LINEAR    a product of each row of the last feature
 *     FPN       Semantic FPN on all stages of a pyramid (MAViT, NaLaFormer, PolaFormer):
 *               FOVEA_TASK_SEGMENTATION alone. neck and decode_head of mmsegmentation, with 128
 *               channels and without normalisations; trained and saved as checkpoints of
 *               mmsegmentation have them: "neck.*", "decode_head.*" and their sections in
 *               config.json. A Semantic FPN that is there is trained further; with another number
 *               of classes its last layer begins anew
 *     DPT_LITE  four depths of a plain ViT through DPT's neck at the grid of the patches, and
 *               convolutions at twice that: FOVEA_TASK_SEGMENTATION, or FOVEA_TASK_DEPTH, whose
 *               depths are max_depth times a sigmoid. 128 channels; tensors "dpt_head.*", whose
 *               neck has transformers' names, and the section "dpt_head" of "fovea" in config.json;
 *               trained further where it is there
 * Their output is `seg_logits` or `predicted_depth`, a linear head's `segmentation`. */
typedef enum fovea_head {
    FOVEA_HEAD_LINEAR,
    FOVEA_HEAD_FPN,
    FOVEA_HEAD_DPT_LITE,
} fovea_head;

/* How far y, which is O or f above, is from the softmax model's y', of C channels:
 *     SQUARED    mean_{tokens, channels} (y - y')^2
 *     RELATIVE   mean_tokens |y - y'|^2 / (|y'|^2 + 1e-6 C)
 * With RELATIVE all tokens count alike, and all blocks, however large their numbers are; so, but
 * for tokens of next to nothing,
 *     L = sum_i mean_tokens |O_i - O'_i|^2 / |O'_i|^2    in the first stage
 *     L = lambda mean_tokens |f - f'|^2 / |f'|^2         in the second */
typedef enum fovea_loss {
    FOVEA_LOSS_SQUARED,
    FOVEA_LOSS_RELATIVE,
} fovea_loss;

/* Sums n numbers over all processes, in place and with the same result in each: floats, or doubles
 * when `doubles` is nonzero. Returns nonzero on failure. */
typedef int fovea_sum_fn(void *data, size_t n, int doubles, void *payload);

typedef struct fovea_trainer_options {
    size_t struct_size;
    fovea_stage stage;
    struct {
        fovea_format format; /* FOVEA_FORMAT_RGB8, BGR8, GRAY8 or PLANES_F32 */
        uint32_t width,
            height; /* of every picture; pixels at right and bottom that fill no whole patch are
                       ignored. Positions are interpolated as when the model runs */
    } frame;
    const char *attention; /* of the student, as in fovea_plan_options, blocks included; NULL: the
                              model's own, or "linear:elu1" where that is softmax and the stage is
                              the first or second */
    fovea_trainable trainable;
    /* Names of tensors, NULL at the end; a NULL list: the default rule. `train` replaces
     * `trainable`. `decay`: those with weight decay; the rule leaves out tensors of one dimension
     * (biases, norms, layer scales) and the class, register, distillation and position rows. EINVAL
     * for a name that the model does not have or that the loss does not depend on. */
    const char *const *train;
    const char *const *decay;
    /* AdamW: m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
     *        w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay w) */
    float lr;     /* learning rate; must be given */
    float lr_end; /* of LINEAR and COSINE */
    fovea_lr_schedule schedule;
    uint32_t warm_up; /* steps */
    uint32_t steps;   /* in all, for LINEAR and COSINE */
    float
        backbone_ratio; /* FOVEA_STAGE_TASK: learning rate of all tensors but the head's, over lr */
    float beta1, beta2, eps, weight_decay;
    float clip;   /* greatest global norm: a larger gradient is scaled down to it; 0: none */
    float ema;    /* averages of the weights: a = ema a + (1 - ema) w after every step; 0: none */
    float lambda; /* of FOVEA_STAGE_FEATURES, see above */
    /* FOVEA_STAGE_TASK: */
    fovea_task task;
    uint32_t
        classes; /* 0: as many as the model's head has, which must exist. Otherwise, if the model
                    has no head or one with another number, a new head is made: uniform values of
                    standard deviation 0.02 from `seed`, bias 0. CLASSES: as heads of the family
                    are. SEGMENTATION: segmentation_head.{weight,bias} on last_hidden_state */
    const char *const *labels;        /* names of the classes for config.json, or NULL */
    uint32_t mask_width, mask_height; /* SEGMENTATION, DEPTH; 0: those of the frame */
    uint64_t seed;                    /* of a new head */
    uint64_t memory_limit; /* bytes in all; ENOMEM if it is too small. 0: no limit, and every block
                              is recomputed. With a limit, as many of the last blocks as it leaves
                              room for keep their activations, which may change the last digits of
                              results */
    fovea_sum_fn *sum;     /* sums over several processes; NULL: a single process */
    void *sum_payload;
    fovea_loss loss;    /* of the first two stages */
    const char *prefix; /* of both checkpoints, see fovea_model_options; or NULL */
    int whole; /* nonzero: blocks with pola, nala, nala-paper or focused get what the authors put
                  around the mechanism, where the model does not have it: a depthwise convolution of
                  the values (attn.dwc) and, but for focused, a gate (attn.gate). They begin as
                  zeros and ones, which change nothing. EINVAL where no block has such an attention
                */
    /* What the products of the blocks' layers and of their gradients multiply. F32; BF16: numbers
     * rounded to bfloat16, with sums of float32, the teacher's as in a plan with that compute;
     * AUTO: BF16 where the processor has instructions for it (fovea_device_info.bf16), else F32.
     * Attention of the student, its gradients, and everything else stay float32. INT8: ENOTSUP. */
    fovea_compute compute;
    /* FOVEA_STAGE_FEATURES: bytes at most for features of the softmax model, which is then not run
     * again for a picture whose pixels come again; 0: none. They count in memory_limit; results are
     * the same. The first pictures that fit are kept. */
    uint64_t teacher_memory;
    fovea_head head;          /* FOVEA_STAGE_TASK */
    float max_depth;          /* FOVEA_TASK_DEPTH: of a new head, metres; 0: 10 */
    fovea_linear_form linear; /* of the student, see fovea_model_options; saved with it */
} fovea_trainer_options;
#define FOVEA_TRAINER_OPTIONS_INIT                                                                 \
    FOVEA_INIT(fovea_trainer_options, FOVEA_SET(stage, FOVEA_STAGE_FEATURES),                      \
               FOVEA_SET(backbone_ratio, 0.1f), FOVEA_SET(beta1, 0.9f), FOVEA_SET(beta2, 0.999f),  \
               FOVEA_SET(eps, 1e-8f), FOVEA_SET(weight_decay, 0.05f), FOVEA_SET(lambda, 1))

/* `model`: what is trained, a path as fovea_model_load takes it. `teacher`: the softmax model of
 * the first two stages, of the same width, patches and prefix, in the first one of the same blocks
 * and heads too; NULL: `model` itself with softmax attention (where `model` comes from an earlier
 * training, name the original). The files are read here and needed later by fovea_trainer_save
 * alone. ENOTSUP for devices other than the CPU, and for families that are no plain ViT; but
 * MAViT, NaLaFormer and PolaFormer have FOVEA_STAGE_TASK with FOVEA_TRAIN_HEAD. The trainer keeps
 * the device, which may be closed before it. Thread-safe; all other functions of a trainer: one
 * thread at a time per trainer. */
FOVEA_API fovea_status fovea_trainer_create(fovea_trainer **out, const char *model,
                                            const char *teacher, fovea_device *device,
                                            const fovea_trainer_options *options);
FOVEA_API void fovea_trainer_free(fovea_trainer *trainer);

typedef struct fovea_trainer_info {
    size_t struct_size;
    uint32_t grid_width, grid_height, tokens;
    uint32_t mask_width, mask_height, classes; /* FOVEA_STAGE_TASK, else 0 */
    uint32_t layers;                           /* losses of single blocks in a report, or 0 */
    uint32_t tensors, trained;                 /* of the model; those that are trained */
    uint64_t parameters, trained_parameters;
    uint64_t step;         /* steps done */
    double flops;          /* of one picture: teacher, student, gradients, recomputation */
    double recomputed;     /* the part of `flops` that is recomputation */
    uint32_t kept;         /* blocks that are not recomputed */
    const char *attention; /* of the student; belongs to the trainer */
    /* Bytes, promised before anything runs: */
    uint64_t weights;      /* trained values, and all others of the model */
    uint64_t gradients;    /* gradients, and the buffers in which they are summed */
    uint64_t moments;      /* of AdamW */
    uint64_t averages;     /* of the weights */
    uint64_t packed;       /* weights in the kernels' layout, the teacher's too */
    uint64_t activations;  /* of student and teacher, states, scratch of all threads */
    uint64_t total;        /* sum of these and of the trainer's own lists: what fovea_memory_query
                              counts */
    uint64_t process;      /* upper bound of what comes in addition: thread stacks, the C library's
                              heap */
    fovea_compute compute; /* F32 or BF16 */
    uint64_t teacher;      /* bytes, a part of `total`: features of teacher_memory */
    uint64_t recalled;     /* pictures so far for which the softmax model was not run */
} fovea_trainer_info;
#define FOVEA_TRAINER_INFO_INIT FOVEA_INIT(fovea_trainer_info, )
FOVEA_API fovea_status fovea_trainer_query(const fovea_trainer *trainer, fovea_trainer_info *out);

typedef struct fovea_target {
    uint32_t label;      /* FOVEA_TASK_CLASSES */
    const uint8_t *mask; /* FOVEA_TASK_SEGMENTATION: class of every pixel, rows from the top; 255 is
                            ignored */
    size_t stride;       /* bytes from row to row; 0: rows are packed */
    const float *depth;  /* FOVEA_TASK_DEPTH: metres of every pixel, rows from the top; what is not
                            above 0 and finite is not known, and ignored */
} fovea_target;

/* Runs a picture and adds its loss and gradients to those of the next step. `target` may be NULL in
 * the first two stages. A loss over pixels is the mean over those that are not ignored. EINVAL for
 * a label beyond the classes; then nothing is added. */
FOVEA_API fovea_status fovea_trainer_add(fovea_trainer *trainer, const fovea_frame *frame,
                                         const fovea_target *target);
/* Discards the losses and gradients added since the last step. */
FOVEA_API void fovea_trainer_discard(fovea_trainer *trainer);

typedef struct fovea_trainer_report {
    size_t struct_size;
    uint64_t step;            /* number of this step, 1 for the first */
    uint64_t pictures;        /* of all processes */
    double loss;              /* mean over them, before the step */
    const double *layer_loss; /* FOVEA_STAGE_ATTENTION: of every block; belongs to the trainer,
                                 until the next step; else NULL */
    uint32_t layers;
    double lr;            /* of this step; the head's */
    double gradient_norm; /* of the mean over all pictures, before it was clipped */
} fovea_trainer_report;
#define FOVEA_TRAINER_REPORT_INIT FOVEA_INIT(fovea_trainer_report, )

/* Updates the weights with the mean gradient over all added pictures of all processes. EINVAL when
 * nothing was added, and when loss or gradient are not finite (the weights then stay as they are,
 * and what was added is discarded); EIO when `sum` fails. `report` may be NULL. */
FOVEA_API fovea_status fovea_trainer_step(fovea_trainer *trainer, fovea_trainer_report *report);

typedef enum fovea_numbers {
    FOVEA_WEIGHT,
    FOVEA_GRADIENT, /* after a step: its mean gradient, before clipping; else the sum so far */
    FOVEA_AVERAGE,  /* of the weight, with `ema`; else the weight */
} fovea_numbers;
/* Trained tensor `index`, from 0, in the order of the model's file: float32 data that belong to the
 * trainer and change with the next call. Returns 0 past the end. */
FOVEA_API int fovea_trainer_tensor(const fovea_trainer *trainer, size_t index, fovea_numbers which,
                                   fovea_tensor *out);

/* Writes a model as fovea_model_load takes it: model.safetensors with every tensor of the original
 * (those of floating type as `dtype`, others as they are), config.json with all of its keys and
 * "fovea": {"attention"} (the student's, after every stage), and preprocessor_config.json where
 * there is one. The folder is made; every file is replaced as a whole. `average` nonzero: averages
 * instead of the weights. EIO; ENOTSUP for a value that FOVEA_DTYPE_F16 cannot hold. */
FOVEA_API fovea_status fovea_trainer_save(fovea_trainer *trainer, const char *folder,
                                          fovea_dtype dtype, int average);

/* Writes what a trainer is between two steps: weights, moments, averages, number of the step. The
 * file is written under a temporary name, synchronised to disk, then renamed: at any moment `path`
 * holds a complete state. A trainer made with the same model and options that reads it continues
 * with bit-identical results. `note`: text of the caller (its own options, for example) that is
 * stored with it, at most 65535 bytes; NULL: none. EIO. */
FOVEA_API fovea_status fovea_trainer_write_state(fovea_trainer *trainer, const char *path,
                                                 const char *note);
/* Reads such a state. *note gets its text, which belongs to the trainer; `note` may be NULL. EIO;
 * EFORMAT for a damaged file; EINVAL for a state of another model, stage, or of options that change
 * the result, which the message names. On failure the trainer is as before. */
FOVEA_API fovea_status fovea_trainer_read_state(fovea_trainer *trainer, const char *path,
                                                const char **note);

FOVEA_END_DECLS

#endif
