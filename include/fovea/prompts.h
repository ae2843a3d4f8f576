/* prompts.h: models that find the object which points or a box mark in a frame: Segment Anything
 * (SAM) and SAM 2.
 * This header is part of fovea.h, whose rules apply here.
 *
 * A plan of such a model computes features of the frame, which takes nearly all of the time. A
 * segmenter then makes masks from them for any number of prompts:
 *
 *     fovea_segmenter_options options = FOVEA_SEGMENTER_OPTIONS_INIT;
 *     fovea_segmenter_create(&segmenter, plan, &options);
 *     while (next(camera)) {
 *         fovea_run(plan, &frame, &features, 1);
 *         fovea_segmenter_begin(segmenter, &features, 1);
 *         for (i = 0; i < objects; i++) {
 *             fovea_segmenter_run(segmenter, &prompt[i], outs, 2);
 *             fovea_segmenter_mask(segmenter, outs, 2, 0, &mask, inside, pixels);
 *         }
 *     }
 *
 * A prompt is one object. Its points are inside the object, or outside of it where the model would
 * otherwise take too much, and its box is around the object. Points and box may be combined.
 *
 * Masks and scores are those of SamModel or Sam2Model of transformers for the same numbers. As
 * there, the coordinates of a pixel are whole numbers, (0, 0) for the first pixel of the frame. */
#ifndef FOVEA_PROMPTS_H
#define FOVEA_PROMPTS_H

#include <fovea/crops.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_segmenter fovea_segmenter;

typedef struct fovea_segmenter_options {
    size_t struct_size;
    uint32_t points; /* maximum number of points of a prompt, without its box, up to 1024; 0: 8 */
    uint64_t memory_limit; /* maximum bytes without weights; 0: no limit */
    int dry; /* nonzero: allocates nothing. The segmenter's plan can be queried, but not run */
} fovea_segmenter_options;
#define FOVEA_SEGMENTER_OPTIONS_INIT FOVEA_INIT(fovea_segmenter_options, )

/* Returns the name of output `index`, from 0, that a plan must have for a segmenter: the features
 * of SAM, or those of SAM 2 on three grids. Returns NULL past the end, and for models that read no
 * prompts. The name belongs to the model. Thread-safe. */
FOVEA_API const char *fovea_model_prompt_output(const fovea_model *model, size_t index);

/* Creates a segmenter for the frames of `plan`, which must have the outputs that
 * fovea_model_prompt_output names. It uses the plan's device and precision. The plan may be freed
 * before it. Nothing is allocated afterwards. `options` may be NULL. Returns ENOTSUP if the model
 * reads no prompts (fovea_model_info.prompt_masks), EINVAL if the plan lacks an output, or ENOMEM.
 */
FOVEA_API fovea_status fovea_segmenter_create(fovea_segmenter **out, const fovea_plan *plan,
                                              const fovea_segmenter_options *options);
FOVEA_API void fovea_segmenter_free(fovea_segmenter *segmenter);

/* Returns the plan that makes masks. It may be queried and traced, and belongs to the segmenter.
 * Its outputs, for fovea_segmenter_run, are described by fovea_plan_output:
 *
 *   pred_masks  FOVEA_OUTPUT_MASKS: a column for each mask; logits of positions being inside it.
 *               Mask 0 is the usual one for a box or several points. Masks 1, 2 and 3 are the
 *               alternatives for a single point, which may mean a whole object or a part of it
 *   iou_scores  FOVEA_OUTPUT_MASK_SCORES: an estimate of each mask's overlap with the object
 *
 * transformers returns masks 1 to 3 with multimask_output, and otherwise the mask that
 * fovea_segmenter_choose chooses. Thread-safe. */
FOVEA_API fovea_plan *fovea_segmenter_plan(const fovea_segmenter *segmenter);

/* One thread at a time per segmenter may call the functions below. They allocate nothing. */

/* Begins a frame: keeps its features until the next call. `outs` has the outputs of one frame of
 * the plan that the segmenter was created for, and may be reused after the call. Returns EINVAL if
 * a buffer is missing or too small. */
FOVEA_API fovea_status fovea_segmenter_begin(fovea_segmenter *segmenter, const fovea_output *outs,
                                             size_t n_outs);

/* A point in pixels of the frame. */
typedef struct fovea_prompt_point {
    double x, y;
    int label; /* 1: inside the object; 0: outside of it; -1: no point, which the model was trained
                  to ignore */
} fovea_prompt_point;

typedef struct fovea_prompt {
    const fovea_prompt_point *points;
    size_t n_points;
    const fovea_box *box; /* NULL: no box */
} fovea_prompt;

/* Makes the masks of one prompt in the current frame, and waits for them. outs[i] receives output i
 * of the segmenter's plan; `n_outs` is 2. A prompt without points and box gives what the model
 * finds by itself. Returns EINVAL for more points than planned, for another label, for coordinates
 * that are not finite, for a box without a positive width and height, and if no frame was begun.
 * Returns EDEVICE if the device was lost. */
FOVEA_API fovea_status fovea_segmenter_run(fovea_segmenter *segmenter, const fovea_prompt *prompt,
                                           const fovea_output *outs, size_t n_outs);

/* Chooses a mask of a prompt, and sets *index to it. With `alternatives` nonzero, it is the one of
 * masks 1 to 3 with the highest score, which is best for a single point. Otherwise it is mask 0;
 * or, in SAM 2, the best alternative if mask 0 is not stable, as in transformers with
 * dynamic_multimask_via_stability. */
FOVEA_API fovea_status fovea_segmenter_choose(const fovea_segmenter *segmenter,
                                              const fovea_output *outs, size_t n_outs,
                                              int alternatives, uint32_t *index);

/* Computes mask `index` over the pixels of the frame, from the outputs of fovea_segmenter_run:
 * `inside` receives 1 where the logit is above 0, else 0. `capacity` is the number of its elements,
 * at least the number of pixels of the frame. `mask`, if it is not NULL, receives the mask's score,
 * area and edges, `index` as its query, and the label 0. A mask without pixels has only zeros as
 * edges. `inside` may be NULL. */
FOVEA_API fovea_status fovea_segmenter_mask(fovea_segmenter *segmenter, const fovea_output *outs,
                                            size_t n_outs, uint32_t index, fovea_mask *mask,
                                            uint8_t *inside, size_t capacity);

FOVEA_END_DECLS

#endif
