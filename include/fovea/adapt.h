/* adapt.h: trains a model whose checkpoint was made for softmax attention to use linear attention,
 * and trains heads for tasks. These functions are in a separate library, libfovea-train, which
 * needs libfovea of the same build. fovea.h does not include this header, but its rules apply here.
 *
 * There are three stages (ViT-AdaLA), each with its own trainer:
 *
 *     FOVEA_STAGE_ATTENTION  the linear attention of every block learns to give the outputs of its
 *                            softmax attention. The picture runs through the softmax model; the new
 *                            attention of block i reads the same normalised tokens X_i, and
 *                                L = sum_i mean_{tokens, channels} (O_i - O'_i)^2
 *                            where O is the output of the attention after its projection, before
 *                            any layer scale, and O' that of the softmax model. W_Q, W_K, W_V and
 *                            their biases are trained.
 *     FOVEA_STAGE_FEATURES   the linear model learns the features of the frozen softmax model:
 *                                L = lambda mean_{tokens, channels} (f - f')^2
 *                            where f is last_hidden_state, prefix tokens included, and f' that of
 *                            the softmax model.
 *     FOVEA_STAGE_TASK       a head (fovea_head), and the model under it, learn a task from labels:
 *                            from the cross-entropy of the picture's class or of each pixel's
 *                            class, or from the error of each pixel's depth.
 *
 * A trainer runs one picture at a time and accumulates the gradients. A step computes their mean
 * over the pictures that were added, and AdamW updates the weights:
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
 * Weights, moments, gradients of weights and sums are float32, and so are matrix multiplications
 * unless `compute` selects another precision. The activations of a block are recomputed for its
 * gradients (gradient checkpointing), so that memory grows with the number of tokens but hardly
 * with the number of blocks. fovea_trainer_query reports the memory. Results do not depend on the
 * number of threads. After fovea_trainer_create, nothing is allocated until weights or states are
 * written. Training runs on the CPU only. */
#ifndef FOVEA_ADAPT_H
#define FOVEA_ADAPT_H

#include <fovea/plans.h>

#define FOVEA_TRAIN_API FOVEA_API /* a function of libfovea-train */

FOVEA_BEGIN_DECLS

/* Adds the operations of training to the library: fovea_kernel_list then names their kernels, and
 * fovea_device_verify tries them. fovea_trainer_create also calls this function. Thread-safe;
 * further calls do nothing. Returns ENOTSUP if the two libraries are from different builds. */
FOVEA_TRAIN_API fovea_status fovea_training_register(void);

typedef struct fovea_trainer fovea_trainer;

typedef enum fovea_stage {
    FOVEA_STAGE_ATTENTION = 1,
    FOVEA_STAGE_FEATURES = 2,
    FOVEA_STAGE_TASK = 3,
} fovea_stage;

typedef enum fovea_trainable {
    FOVEA_TRAIN_DEFAULT, /* FOVEA_TRAIN_QKV in the first stage, else FOVEA_TRAIN_ALL */
    FOVEA_TRAIN_ALL,     /* every tensor that the loss depends on */
    FOVEA_TRAIN_QKV,     /* the projections to queries, keys and values, and the parameters of the
                            attention itself (gates, vectors of a feature map); in FOVEA_STAGE_TASK
                            also the head */
    FOVEA_TRAIN_HEAD,    /* FOVEA_STAGE_TASK: only the head */
} fovea_trainable;

/* The learning rate of a step. t is 0 for the first step after the warm-up, T is the number of
 * steps after the warm-up, and `end` is lr_end:
 *     constant   lr
 *     linear     end + (lr - end) (1 - t / T)
 *     cosine     end + (lr - end) (1 + cos(pi t / T)) / 2
 * During a warm-up of w steps, the rate is lr (t + 1) / w, where t is 0 for the first step of all.
 * After the last step it stays at `end` (constant: at lr). */
typedef enum fovea_lr_schedule {
    FOVEA_LR_CONSTANT,
    FOVEA_LR_LINEAR,
    FOVEA_LR_COSINE,
} fovea_lr_schedule;

typedef enum fovea_task {
    FOVEA_TASK_CLASSES,      /* logits of the picture against its label */
    FOVEA_TASK_SEGMENTATION, /* logits of every patch, interpolated bilinearly to the size of the
                                mask (align_corners=False), against the class of each of its pixels
                              */
    FOVEA_TASK_DEPTH, /* depth at every position of the head's grid, interpolated bilinearly to
                         the size of the map of true depths; with d = log(depth / true depth),
                         the loss is L = mean d^2 - (mean d)^2 / 2 over pixels of known true
                         depth (Eigen et al., 2014) */
} fovea_task;

/* The head that FOVEA_STAGE_TASK adds to a model without a head for the task:
 *     LINEAR    a linear layer on each row of the last feature
 *     FPN       Semantic FPN on all stages of a pyramid (MAViT, NaLaFormer, PolaFormer), for
 *               FOVEA_TASK_SEGMENTATION: neck and decode_head of mmsegmentation, with 128 channels
 *               and without normalisations. It is saved in the format of mmsegmentation: tensors
 *               "neck.*" and "decode_head.*", and their sections in config.json. If the model
 *               already has a Semantic FPN, it is trained further; with another number of classes
 *               its last layer is initialised again
 *     DPT_LITE  for a plain ViT, four of its layers through DPT's neck at the grid of the patches,
 *               and convolutions at twice that, with 128 channels: for FOVEA_TASK_SEGMENTATION, and
 *               for FOVEA_TASK_DEPTH, whose depths are max_depth times a sigmoid. It is saved as
 *               tensors "dpt_head.*", with the names of transformers in the neck, and in section
 *               "dpt_head" of "fovea" in config.json. If the model already has such a head, that is
 *               trained further
 *     MASK2FORMER  for FOVEA_TASK_SEGMENTATION, on four blocks of a plain ViT with the tensor names
 *               of transformers: a pixel decoder with deformable attention, and 100 queries that
 *               predict a class and a mask each, with 128 channels. Only the head is trained. It is
 *               saved as a Mask2Former of transformers, whose backbone is the ViT. If the model
 *               already is a Mask2Former over a ViT, its decoders are trained further
 * The output is `segmentation` for LINEAR, masks and classes of queries for MASK2FORMER, else
 * `seg_logits` or `predicted_depth`. */
typedef enum fovea_head {
    FOVEA_HEAD_LINEAR,
    FOVEA_HEAD_FPN,
    FOVEA_HEAD_DPT_LITE,
    FOVEA_HEAD_MASK2FORMER,
} fovea_head;

/* The distance between y, which is O or f above, and y' of the softmax model. Both have C channels:
 *     SQUARED    mean_{tokens, channels} (y - y')^2
 *     RELATIVE   mean_tokens |y - y'|^2 / (|y'|^2 + 1e-6 C)
 * With RELATIVE, all tokens and all blocks have the same weight, however large their values are.
 * Except for tokens close to 0, L is
 *     L = sum_i mean_tokens |O_i - O'_i|^2 / |O'_i|^2    in the first stage
 *     L = lambda mean_tokens |f - f'|^2 / |f'|^2         in the second */
typedef enum fovea_loss {
    FOVEA_LOSS_SQUARED,
    FOVEA_LOSS_RELATIVE,
} fovea_loss;

/* Sums each of n numbers over all processes, in place, and gives every process the same results: an
 * all-reduce. `data` has floats, or doubles when `doubles` is nonzero. Returns nonzero on failure.
 */
typedef int fovea_allreduce_fn(void *data, size_t n, int doubles, void *payload);

typedef struct fovea_trainer_options { /* More than 25 fields: options, each with a default */
    size_t struct_size;
    fovea_stage stage;
    struct {
        fovea_pixel_format format; /* FOVEA_FORMAT_RGB8, _BGR8, _GRAY8 or _PLANES_F32 */
        uint32_t width, height;    /* size of every picture; pixels at the right and bottom that do
                                      not fill a patch are ignored. Positions are interpolated as in
                                      a plan */
    } frame;
    const char *attention; /* attention of the student, as in fovea_plan_options, where blocks
                              may differ; NULL: the model's own or, if that is softmax and the
                              stage is the first or second, "linear:elu1" */
    fovea_trainable trainable;
    /* Lists of names of tensors, which end with NULL; a list that is NULL means the default rule.
     * `train` lists the tensors that are trained, and replaces `trainable`. `decay` lists the
     * tensors with weight decay; by default these are all except tensors of one dimension (biases,
     * norms, layer scales) and the class, register, distillation and position embeddings. Returns
     * EINVAL for a name that the model does not have, and for a tensor on which the loss does not
     * depend. */
    const char *const *train;
    const char *const *decay;
    /* AdamW: m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
     *        w -= lr (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay w) */
    float lr;     /* learning rate; must be given */
    float lr_end; /* final learning rate of LINEAR and COSINE */
    fovea_lr_schedule schedule;
    uint32_t warm_up;     /* steps of the warm-up */
    uint32_t steps;       /* steps in total, for LINEAR and COSINE */
    float backbone_ratio; /* FOVEA_STAGE_TASK: learning rate of all tensors except the head's,
                             divided by lr */
    float beta1, beta2, eps, weight_decay;
    float clip;   /* maximum global norm of the gradient, which is scaled down to it; 0: no limit */
    float ema;    /* decay of running averages of the weights, a = ema a + (1 - ema) w after each
                     step; 0: no averages */
    float lambda; /* lambda of FOVEA_STAGE_FEATURES, see above */
    /* FOVEA_STAGE_TASK: */
    fovea_task task;
    uint32_t classes;          /* number of classes; 0: that of the model's head, which must exist.
                                  Otherwise, if the model has no head or one with another number,
                                  a new head is made: uniform values of standard deviation 0.02
                                  from `seed`, bias 0. CLASSES: a head as in the model's family.
                                  SEGMENTATION: segmentation_head.{weight,bias} on
                                  last_hidden_state */
    const char *const *labels; /* names of the classes for config.json, or NULL */
    uint32_t mask_width, mask_height; /* size of masks in pixels, for SEGMENTATION and DEPTH; 0:
                                         that of the frame */
    uint64_t seed;                    /* seed of a new head */
    uint64_t memory_limit; /* total bytes; ENOMEM if the limit is too small. 0: no limit, and
                              every block is recomputed. With a limit, as many of the last blocks
                              as fit keep their activations instead, which may change the last
                              digits of results */
    fovea_allreduce_fn
        *allreduce; /* sums gradients and losses over processes; NULL: a single process */
    void *allreduce_payload;
    fovea_loss loss;    /* loss of the first two stages */
    const char *prefix; /* tensor name prefix of both checkpoints, see fovea_model_options; or
                           NULL */
    int full_module;    /* nonzero: blocks with pola, nala, nala-paper or focused get the full
                           module of the mechanism's authors, if the model does not have it: a
                           depthwise convolution of the values (attn.dwc) and, except for focused, a
                           gate (attn.gate). They are initialised so that outputs do not change.
                           EINVAL if no block has such an attention */
    /* Precision of the matrix multiplications of the blocks' layers and of their gradients. F32:
     * float32. BF16: operands are rounded to bfloat16 and sums are float32; the teacher computes as
     * a plan with FOVEA_COMPUTE_BF16. AUTO: BF16 if the processor has instructions for it
     * (fovea_device_info.bf16), else F32. INT8 returns ENOTSUP. The attention of the student, its
     * gradients, and everything else stay float32. */
    fovea_compute compute;
    /* FOVEA_STAGE_FEATURES: bytes of a cache of the softmax model's features, so that the softmax
     * model is not run again for a picture with the same pixels; 0: no cache. The cache counts
     * towards memory_limit, and does not change results. It holds the first pictures that fit. */
    uint64_t teacher_memory;
    fovea_head head; /* FOVEA_STAGE_TASK */
    float max_depth; /* FOVEA_TASK_DEPTH: maximum depth of a new head in metres; 0: 10 */
    fovea_linear_attention_params linear; /* parameters of the student's linear attentions, as in
                                             fovea_model_options; saved with the model */
} fovea_trainer_options;
#define FOVEA_TRAINER_OPTIONS_INIT                                                                 \
    FOVEA_INIT(fovea_trainer_options, FOVEA_SET(stage, FOVEA_STAGE_FEATURES),                      \
               FOVEA_SET(backbone_ratio, 0.1f), FOVEA_SET(beta1, 0.9f), FOVEA_SET(beta2, 0.999f),  \
               FOVEA_SET(eps, 1e-8f), FOVEA_SET(weight_decay, 0.05f), FOVEA_SET(lambda, 1))

/* Creates a trainer. `model` is the path of the model that is trained, as for fovea_model_load.
 * `teacher` is the path of the softmax model of the first two stages. It must have the same width,
 * patches and prefix, and in the first stage also the same blocks and heads. If it is NULL, the
 * teacher is `model` itself with softmax attention; if `model` was trained before, pass the
 * original. The files are read by this call; later, only fovea_trainer_save reads them. The trainer
 * holds a reference to the device, which may be closed before the trainer. Returns ENOTSUP for a
 * device other than the CPU, and for a model other than a plain ViT; FOVEA_STAGE_TASK with
 * FOVEA_TRAIN_HEAD also supports MAViT, NaLaFormer, PolaFormer and Swin. Other errors are those of
 * fovea_model_load and fovea_plan_create. Thread-safe. All other functions of a trainer: one thread
 * at a time per trainer. */
FOVEA_TRAIN_API fovea_status fovea_trainer_create(fovea_trainer **out, const char *model,
                                                  const char *teacher, fovea_device *device,
                                                  const fovea_trainer_options *options);
FOVEA_TRAIN_API void fovea_trainer_free(fovea_trainer *trainer);

typedef struct fovea_trainer_info { /* More than 25 fields: a report, which grows at its end */
    size_t struct_size;
    uint32_t grid_width, grid_height, tokens;  /* size of the grid, and number of tokens, of one
                                                  picture */
    uint32_t mask_width, mask_height, classes; /* FOVEA_STAGE_TASK, else 0 */
    uint32_t layers;           /* number of blocks with their own loss in a report, or 0 */
    uint32_t tensors, trained; /* number of tensors of the model, and number of trained tensors */
    uint64_t parameters, trained_parameters;
    uint64_t step;                  /* number of completed steps */
    double flops;                   /* FLOPs of one picture: teacher, student, gradients,
                                       recomputation */
    double recomputed;              /* the part of `flops` that is recomputation */
    uint32_t blocks_not_recomputed; /* number of blocks that keep their activations */
    const char *attention;          /* attention of the student; belongs to the trainer */
    /* Bytes, known before anything runs: */
    uint64_t weights;      /* trained weights, and all other weights of the model */
    uint64_t gradients;    /* gradients, and the buffers in which they are summed */
    uint64_t moments;      /* moments of AdamW */
    uint64_t averages;     /* running averages of the weights */
    uint64_t packed;       /* weights in the kernels' layout, including the teacher's */
    uint64_t activations;  /* activations of student and teacher, states, scratch of all threads */
    uint64_t total;        /* the sum of these and of the trainer's own lists, as counted by
                              fovea_memory_query */
    uint64_t process;      /* upper bound of other memory: thread stacks, the C library's heap */
    fovea_compute compute; /* F32 or BF16 */
    uint64_t teacher;      /* bytes of `total` for the cache of the teacher's features */
    uint64_t teacher_cache_hits; /* number of pictures so far whose features were read from that
                                    cache */
} fovea_trainer_info;
#define FOVEA_TRAINER_INFO_INIT FOVEA_INIT(fovea_trainer_info, )
/* Describes a trainer. */
FOVEA_TRAIN_API fovea_status fovea_trainer_query(const fovea_trainer *trainer,
                                                 fovea_trainer_info *out);

/* The expected outputs for a picture. */
typedef struct fovea_target {
    uint32_t label;      /* FOVEA_TASK_CLASSES: the class of the picture */
    const uint8_t *mask; /* FOVEA_TASK_SEGMENTATION: the class of each pixel, rows from the top;
                            255: the pixel is ignored */
    size_t stride;       /* row stride in bytes; 0: rows are packed */
    const float *depth;  /* FOVEA_TASK_DEPTH: metres of each pixel, packed rows from the top;
                            pixels whose values are not finite or not above 0 are unknown, and
                            ignored */
} fovea_target;

/* Runs a picture, and adds its loss and its gradients to those of the next step. `target` may be
 * NULL in the first two stages. A loss over pixels is the mean over pixels that are not ignored.
 * Returns EINVAL for a label that is not below the number of classes; nothing is added then. */
FOVEA_TRAIN_API fovea_status fovea_trainer_add(fovea_trainer *trainer, const fovea_frame *frame,
                                               const fovea_target *target);
/* Discards the losses and gradients added since the last step. */
FOVEA_TRAIN_API void fovea_trainer_discard(fovea_trainer *trainer);

typedef struct fovea_trainer_report {
    size_t struct_size;
    uint64_t step;            /* number of this step, from 1 */
    uint64_t pictures;        /* number of pictures of this step, over all processes */
    double loss;              /* mean over the pictures of this step, before the update */
    const double *layer_loss; /* FOVEA_STAGE_ATTENTION: the loss of each block; belongs to the
                                 trainer and is valid until the next step. Otherwise NULL */
    uint32_t layers;          /* number of elements of layer_loss */
    double lr;                /* learning rate of this step; with backbone_ratio, that of the
                                 head */
    double gradient_norm;     /* norm of the mean gradient, before clipping */
} fovea_trainer_report;
#define FOVEA_TRAINER_REPORT_INIT FOVEA_INIT(fovea_trainer_report, )

/* Updates the weights with the mean gradient of all pictures that all processes have added.
 * `report` may be NULL. Returns EINVAL if nothing was added, or if the loss or the gradient is not
 * finite; the weights then do not change, and the added gradients are discarded. Returns EIO if
 * `allreduce` failed. */
FOVEA_TRAIN_API fovea_status fovea_trainer_step(fovea_trainer *trainer,
                                                fovea_trainer_report *report);

/* The numbers of a tensor that fovea_trainer_tensor returns. */
typedef enum fovea_numbers {
    FOVEA_WEIGHT,
    FOVEA_GRADIENT, /* after a step, the mean gradient before clipping; otherwise the sum so far */
    FOVEA_AVERAGE,  /* the running average of the weight with `ema`, otherwise the weight */
} fovea_numbers;
/* Describes trained tensor `index`, from 0, in the order of the model's file. Its data is float32,
 * belongs to the trainer and changes with the next call. Returns nonzero, or 0 past the end. */
FOVEA_TRAIN_API int fovea_trainer_tensor(const fovea_trainer *trainer, size_t index,
                                         fovea_numbers which, fovea_tensor *out);

/* Writes the model to a folder that fovea_model_load accepts. The folder has model.safetensors with
 * all tensors of the original (floating-point ones as `dtype`, others unchanged); config.json with
 * all keys of the original and the student's attention as "fovea": {"attention"}; and
 * preprocessor_config.json if the original has one. The folder is created if necessary, and each
 * file is replaced atomically. If `average` is nonzero, the running averages replace the weights.
 * Returns EIO if a file cannot be written, or ENOTSUP for a value that FOVEA_DTYPE_F16 cannot
 * represent. */
FOVEA_TRAIN_API fovea_status fovea_trainer_save(fovea_trainer *trainer, const char *folder,
                                                fovea_dtype dtype, int average);

/* Writes the state of the trainer between two steps: weights, moments, averages, step number. A
 * trainer that was created with the same model and options, and that reads this state, continues
 * with bit-identical results. The file is written under a temporary name, synchronised to disk and
 * then renamed, so that `path` holds a complete state at any time. `note` is a text of the caller,
 * such as its own options, that is stored with the state, or NULL; it has at most 65535 bytes.
 * Returns EIO if the file cannot be written. */
FOVEA_TRAIN_API fovea_status fovea_trainer_write_state(fovea_trainer *trainer, const char *path,
                                                       const char *note);
/* Reads a state. *note receives the text that was stored with it, which belongs to the trainer;
 * `note` may be NULL. Returns EIO if the file cannot be read, EFORMAT if it is damaged, or EINVAL
 * if the state is that of another model or stage, or of options that change the results, which the
 * message names. After a failure, the trainer is unchanged. */
FOVEA_TRAIN_API fovea_status fovea_trainer_read_state(fovea_trainer *trainer, const char *path,
                                                      const char **note);

FOVEA_END_DECLS

#endif
