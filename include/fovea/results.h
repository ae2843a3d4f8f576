/* results.h: what the outputs of a frame say: depth and class of each pixel, masks, boxes, key
 * points. A part of fovea.h, whose rules hold here.
 *
 * Each function takes a plan and the outputs of a frame as fovea_run was given them, in the plan's
 * order; fovea_output_info.kind tells what they are. It allocates nothing and runs in the calling
 * thread. One thread at a time per plan, like a frame. EINVAL for outputs that the plan lacks, by
 * name, and for too little room, with how much is needed. Outputs that are no numbers give the
 * results named here, never an error.
 *
 * A map has a number for each pixel, row by row, of
 *
 *   FOVEA_EXTENT_FRAME    the frame: fovea_plan_options.frame.width x height
 *   FOVEA_EXTENT_PICTURE  the picture as it was run: fovea_plan_info.width x height
 *
 * Outputs have coarser grids; between the centres of their places it is interpolated as torch does
 * with align_corners=False: depth bicubically, classes bilinearly, both straight to the pixels of
 * the map; masks bilinearly to the picture as it was run, and from there bilinearly to the map.
 * What crop and resize have left out is outside, and what has filled the picture up is cut off.
 * Records (masks, boxes, key points) are in pixels of the frame.
 */
#ifndef FOVEA_RESULTS_H
#define FOVEA_RESULTS_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef enum fovea_extent {
    FOVEA_EXTENT_FRAME,
    FOVEA_EXTENT_PICTURE,
} fovea_extent;

/* ---- classes of the picture: an output of FOVEA_OUTPUT_LOGITS ---- */

/* What fovea_model_info.scores says, of the logits of one picture, `n` of them, which are as many
 * as the model has classes; `scores` has room for as many and may be `logits`. fovea_model_label
 * names them. Thread-safe. */
FOVEA_API fovea_status fovea_class_scores(const fovea_model *model, const float *logits, size_t n,
                                          float *scores);

/* ---- depth: outputs of FOVEA_OUTPUT_DEPTH ---- */

/* Of each pixel, as the model gives it: metres, or of relative models the more the nearer. NaN
 * outside. capacity: of floats, at least as many as pixels. */
FOVEA_API fovea_status fovea_depth_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                       fovea_extent extent, float *depth, size_t capacity);
/* The same in steps of `unit`, as depth cameras give it: with 0.001 and a metric model in
 * millimetres. 1 to 65535, what is beyond at the end that is nearer; with unit 0 the least of the
 * map becomes 1 and the greatest 65535. 0 outside, and for what is no number. EINVAL for a negative
 * unit. */
FOVEA_API fovea_status fovea_depth_map_u16(fovea_plan *plan, const fovea_output *outs,
                                           size_t n_outs, fovea_extent extent, double unit,
                                           uint16_t *depth, size_t capacity);

/* ---- classes of pixels: outputs of FOVEA_OUTPUT_CLASS_MAP, or FOVEA_OUTPUT_MASKS and
 * FOVEA_OUTPUT_MASK_CLASSES ---- */

#define FOVEA_NO_CLASS 0xffffu /* outside */

/* The class with the largest logit, of equals the first: fovea_model_label names it. Of masks a
 * class has the sum over all queries of their probability of it times that of the pixel being
 * inside their mask, in the picture as it was run; these sums are interpolated (transformers'
 * post_process_semantic_segmentation). The time of masks is that of queries x classes x pixels of
 * that picture products. */
FOVEA_API fovea_status fovea_class_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                       fovea_extent extent, uint16_t *classes, size_t capacity);

/* ---- masks: outputs of FOVEA_OUTPUT_MASKS and FOVEA_OUTPUT_MASK_CLASSES ---- */

typedef enum fovea_mask_rule {
    FOVEA_MASKS_PANOPTIC, /* every pixel in one mask at most */
    FOVEA_MASKS_INSTANCE, /* masks may overlap */
} fovea_mask_rule;

/* The defaults are transformers' for EoMT. */
typedef struct fovea_mask_options {
    size_t struct_size;
    fovea_mask_rule rule;
    float threshold;         /* of scores: 0: 0.8 */
    float mask_threshold;    /* panoptic: of a pixel's probability; 0: 0.5 */
    float overlap_threshold; /* panoptic: the share of a mask that others must leave it; 0: 0.8 */
    const uint32_t *stuff;   /* panoptic: classes whose masks are one; NULL: none */
    size_t n_stuff;
} fovea_mask_options;
#define FOVEA_MASK_OPTIONS_INIT FOVEA_INIT(fovea_mask_options, )

typedef struct fovea_mask {
    uint32_t label;       /* class: fovea_model_label */
    float score;          /* between 0 and 1 */
    uint32_t query;       /* that it is of: a column of the masks */
    float x1, y1, x2, y2; /* corners of the box around its pixels */
    uint64_t area;        /* pixels of the frame */
} fovea_mask;

/* The masks of a frame, in the order of their queries, as transformers' EomtImageProcessor finds
 * them:
 *
 *   panoptic  of queries whose best class is not "nothing" and above threshold. A pixel belongs to
 *             the query with the largest score times its probability of being inside, if that is
 *             at least mask_threshold; a mask stays if what it wins is more than overlap_threshold
 *             of what is inside by itself
 *   instance  pixels whose logit is above 0; the score is the class' times the mean probability of
 *             those pixels, and at least threshold
 *
 * *count: how many; those beyond `capacity` are left out, of the map too. `map`, unless NULL, has
 * for each pixel of the frame 1 + the index of its mask, of instances that overlap the last one's,
 * or 0; map_capacity: of numbers. options NULL: the defaults. */
FOVEA_API fovea_status fovea_masks(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                   const fovea_mask_options *options, fovea_mask *masks,
                                   size_t capacity, size_t *count, uint16_t *map,
                                   size_t map_capacity);
/* The pixels of the frame that are inside the mask of a query by itself (logit above 0): 1, others
 * 0. */
FOVEA_API fovea_status fovea_mask_pixels(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                         uint32_t query, uint8_t *inside, size_t capacity);

/* ---- boxes: outputs of FOVEA_OUTPUT_BOXES and FOVEA_OUTPUT_BOX_CLASSES ---- */

/* A box that a detector has found. */
typedef struct fovea_detection {
    float x1, y1, x2, y2; /* corners, in pixels of the frame; a box may reach beyond the frame */
    float score;          /* between 0 and 1 */
    uint32_t label;       /* class: fovea_model_label */
} fovea_detection;

/* Makes boxes of a frame's outputs as fovea_run was given them, all of cls.0, box.0, .. among them,
 * or logits and pred_boxes: at most as many as fovea_model_info.boxes, best first; without
 * allocating. *count: how many; those beyond `capacity` are left out. Equal scores have a fixed
 * order; outputs that are no numbers give no boxes. One thread at a time, like a frame. ENOTSUP:
 * the model finds no boxes; EINVAL: outputs are missing. */
FOVEA_API fovea_status fovea_detections(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                        fovea_detection *boxes, size_t capacity, size_t *count);

/* ---- key points: an output of FOVEA_OUTPUT_KEYPOINTS ---- */

typedef struct fovea_keypoint {
    float x, y;
    float score; /* of the heat map, where it is highest */
} fovea_keypoint;

/* A point for each heat map, of a frame that is the crop of one: where the map is highest, moved by
 * what its logarithm, smoothed, says about its neighbours (DARK; transformers'
 * post_process_pose_estimation with kernel_size 11). Where nothing is above 0 the point lies near
 * the map's upper left corner, where transformers puts it, and its score is not above 0 either; a
 * map without a number has a score of 0. *count: how many. fovea_model_keypoint names them.
 * fovea_box_keypoints of crops.h is for a person in a larger frame. */
FOVEA_API fovea_status fovea_keypoints(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                       fovea_keypoint *points, size_t capacity, size_t *count);

FOVEA_END_DECLS

#endif
