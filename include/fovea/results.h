/* results.h: computes results from the outputs of a frame: depth and class of every pixel, masks,
 * boxes, key points. This header is part of fovea.h, whose rules apply here.
 *
 * Each function takes a plan and the outputs of one frame, in the plan's order, as fovea_run wrote
 * them; fovea_output_info.kind is the kind of each output. The functions allocate nothing and
 * compute in the calling thread. One thread at a time per plan, as for running frames. They return
 * EINVAL if the plan lacks a required output, which the message names, or if a buffer is too small;
 * the message then states the required size. NaN and infinities in outputs give the results that
 * are described here, never an error.
 *
 * A map has a number for each pixel, row by row, and one of two extents:
 *
 *   FOVEA_EXTENT_FRAME    the frame: fovea_plan_options.frame.width x height
 *   FOVEA_EXTENT_PICTURE  the picture as it was run: fovea_plan_info.width x height
 *
 * Outputs have coarser grids, which are interpolated as torch does with align_corners=False: depth
 * bicubically, classes and the masks of detectors bilinearly, all directly to the pixels of the
 * map; other masks bilinearly to the picture as it was run, or to 384 x 384 pixels for Mask2Former,
 * and from there bilinearly to the map. Pixels that crop and resize have left out are outside the
 * picture; padding is not part of the map.
 *
 * The coordinates of masks, boxes and key points are in pixels of the frame, whatever the resize
 * and the crop: (0, 0) is the upper left corner of its first pixel. */
#ifndef FOVEA_RESULTS_H
#define FOVEA_RESULTS_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef enum fovea_extent {
    FOVEA_EXTENT_FRAME,
    FOVEA_EXTENT_PICTURE,
} fovea_extent;

/* ---- classes of the picture: an output of FOVEA_OUTPUT_LOGITS ---- */

/* Converts the n logits of one picture to the scores that fovea_model_info.scores describes. n is
 * the number of classes, and `scores`, which may be `logits`, has n elements. fovea_model_label
 * names the classes. Returns EINVAL if n is not the number of classes. Thread-safe. */
FOVEA_API fovea_status fovea_class_scores(const fovea_model *model, const float *logits, size_t n,
                                          float *scores);

/* ---- depth: an output of FOVEA_OUTPUT_DEPTH ---- */

/* Computes the depth of each pixel in the model's units: metres for metric models; inverse depth,
 * where larger is nearer, for relative models. Pixels outside the picture are NaN. `capacity` is
 * the number of elements of `depth`, at least the number of pixels of the map. */
FOVEA_API fovea_status fovea_depth_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                       fovea_extent extent, float *depth, size_t capacity);
/* Computes the same map in steps of `unit`, as depth cameras do: a metric model and a unit of 0.001
 * give millimetres. Values are rounded and limited to 1 .. 65535. With unit 0 the map is stretched,
 * so that its minimum becomes 1 and its maximum 65535. The map is 0 outside the picture, and for
 * NaN. Returns EINVAL for a negative unit. */
FOVEA_API fovea_status fovea_depth_map_u16(fovea_plan *plan, const fovea_output *outs,
                                           size_t n_outs, fovea_extent extent, double unit,
                                           uint16_t *depth, size_t capacity);

/* ---- classes of pixels: outputs of FOVEA_OUTPUT_CLASS_MAP, or FOVEA_OUTPUT_MASKS and
 * FOVEA_OUTPUT_MASK_CLASSES ---- */

#define FOVEA_NO_CLASS 0xffffu /* outside the picture */

/* Computes the class of each pixel, which fovea_model_label names: the class with the largest
 * logit, or the first of several equal ones. With masks, the score of class c at pixel p is
 *
 *     sum_q P_q(c) sigmoid(mask_q(p))
 *
 * over all queries q, where P_q is the softmax of the query's class logits. It is computed in the
 * picture as it was run, or in 384 x 384 pixels for Mask2Former, with queries x classes x pixels
 * multiplications, and then interpolated (post_process_semantic_segmentation of transformers).
 * `capacity` is the number of elements of `classes`, at least the number of pixels of the map. */
FOVEA_API fovea_status fovea_class_map(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                       fovea_extent extent, uint16_t *classes, size_t capacity);

/* ---- masks: outputs of FOVEA_OUTPUT_MASKS and FOVEA_OUTPUT_MASK_CLASSES; of a detector,
 * FOVEA_OUTPUT_MASKS and the outputs that boxes are found in ---- */

typedef enum fovea_mask_rule {
    FOVEA_MASKS_PANOPTIC, /* a pixel belongs to at most one mask */
    FOVEA_MASKS_INSTANCE, /* masks may overlap */
} fovea_mask_rule;

/* The defaults are those of transformers for EoMT or Mask2Former, and for a detector those for
 * RF-DETR. */
typedef struct fovea_mask_options {
    size_t struct_size;
    fovea_mask_rule rule;
    float threshold; /* minimum score of a mask; 0: 0.8, or 0.5 for Mask2Former and for a detector,
                        whose scores must be above it */
    /* These are not used for a detector. */
    float mask_threshold;    /* panoptic: minimum probability that a pixel is inside; 0: 0.5 */
    float overlap_threshold; /* panoptic: minimum share of its pixels that a mask must win; 0:
                                0.8 */
    const uint32_t *stuff;   /* panoptic: classes whose masks are merged into one; NULL: no
                                classes */
    size_t n_stuff;
} fovea_mask_options;
#define FOVEA_MASK_OPTIONS_INIT FOVEA_INIT(fovea_mask_options, )

typedef struct fovea_mask {
    uint32_t label;       /* class, which fovea_model_label names */
    float score;          /* from 0 to 1 */
    uint32_t query;       /* column of the output of FOVEA_OUTPUT_MASKS; of an R-CNN, row of its
                             box */
    float x1, y1, x2, y2; /* left, top, right and bottom edge of its pixels */
    uint64_t area;        /* area in pixels of the frame */
} fovea_mask;

/* Finds the masks of a frame, in the order of their queries, as EomtImageProcessor of transformers
 * does:
 *
 *   panoptic  takes the queries whose best class is not "no object" and has a probability above
 *             `threshold`. A pixel goes to the query with the largest product of that score and the
 *             probability of being inside its mask, if that probability is at least
 *             `mask_threshold`. A mask is kept if the pixels that it wins are more than
 *             `overlap_threshold` of the pixels that are inside it
 *   instance  a mask has the pixels whose logit is above 0. Its score is the probability of the
 *             class times the mean probability of these pixels, and must be at least `threshold`
 *
 * For Mask2Former, these rules are those of Mask2FormerImageProcessor:
 *
 *   panoptic  as above, but probabilities are interpolated instead of logits, a mask has all pixels
 *             that its query wins, and pixels are inside if the product is at least
 *             `mask_threshold`
 *   instance  takes the most probable pairs of a query and a class, as many as there are queries,
 * so that a query may make several masks, in the order of their classes. Pixels and mean are those
 * of 384 x 384 pixels; each pixel of the frame takes the nearest one
 *
 * The masks of a detector are in descending order of scores, as RfDetrImageProcessor of
 * transformers finds them. A mask has the class and the score of a box that fovea_detections finds,
 * whose row in the output of FOVEA_OUTPUT_BOXES is `query`, and the pixels whose logit is above 0.
 * With FOVEA_MASKS_PANOPTIC, each pixel belongs to the first of the masks that contain it. Masks
 * without pixels are left out. Of an R-CNN, a mask has the pixels whose probability is at least 0.5
 * after the cells of its box were interpolated, as in mmdetection.
 *
 * A detector finds at most fovea_model_info.boxes masks, another model fovea_model_info.masks.
 * *count receives the number of masks, at most `capacity`, the number of elements of `masks`;
 * further masks are left out, also from the map. `map`, if it is not NULL, receives for each pixel
 * of the frame 1 + the index of its mask (if instances overlap, the last index; of a detector's,
 * the first, whose score is highest), or 0 if it has no mask; `map_capacity` is the number of
 * elements of `map`. If `options` is NULL, the defaults apply. */
FOVEA_API fovea_status fovea_masks(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                   const fovea_mask_options *options, fovea_mask *masks,
                                   size_t capacity, size_t *count, uint16_t *map,
                                   size_t map_capacity);
/* Computes the mask of one query, or of one box of an R-CNN, over the pixels of the frame: 1 where
 * the logit is above 0 or the probability at least 0.5, else 0. `capacity` is the number of
 * elements of `inside`. */
FOVEA_API fovea_status fovea_mask_pixels(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                         uint32_t query, uint8_t *inside, size_t capacity);
/* Writes a mask of width x height pixels, which are inside where `inside` is not 0, as run lengths
 * in the order of COCO's tools: down each column, from the left column to the right one. The runs
 * are alternately outside and inside; the first is outside and may be 0. Their sum is the number of
 * pixels, and a mask has at most width x height + 1 of them. Masks of objects have few runs, so
 * that messages and files with many masks stay small. *count receives the number of runs, also if
 * the buffer is too small; `capacity` is the number of elements of `runs`. If `runs` is NULL, the
 * runs are only counted. Needs no plan. Thread-safe. */
FOVEA_API fovea_status fovea_mask_runs(const uint8_t *inside, uint32_t width, uint32_t height,
                                       uint32_t *runs, size_t capacity, size_t *count);

/* ---- boxes: outputs of FOVEA_OUTPUT_BOXES and FOVEA_OUTPUT_BOX_CLASSES ---- */

typedef struct fovea_detection {
    float x1, y1, x2, y2; /* left, top, right and bottom edge; may be outside the frame */
    float score;          /* from 0 to 1 */
    uint32_t label;       /* class, which fovea_model_label names */
} fovea_detection;

/* Finds the boxes of a detector in a frame, in descending order of scores, at most
 * fovea_model_info.boxes of them. The outputs must include all of cls.0, box.0, cls.1, ..., or
 * logits and pred_boxes, or pred_scores and
 * pred_boxes. *count receives the number of boxes, at most `capacity`, which is the
 * number of elements of `boxes`; further boxes are left out. Boxes with equal scores have a fixed
 * order; NaN and infinities give no boxes. Returns ENOTSUP if the model is not a detector. */
FOVEA_API fovea_status fovea_detections(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                        fovea_detection *boxes, size_t capacity, size_t *count);

/* ---- key points: an output of FOVEA_OUTPUT_KEYPOINTS ---- */

typedef struct fovea_keypoint {
    float x, y;
    float score; /* maximum of the heat map */
} fovea_keypoint;

/* Finds a point for each heat map of a frame that shows one person: the position with the largest
 * value, refined by the logarithm of the smoothed map around it (DARK; post_process_pose_estimation
 * of transformers with kernel_size 11). If no value is above 0, the point is near the upper left
 * corner, as in transformers, and its score is not above 0 either; a map with only NaN has a score
 * of 0. *count receives the number of points. Returns EINVAL if `capacity`, the number of elements
 * of `points`, is less than the number of points. fovea_model_keypoint names the points. For a
 * person in a larger frame see fovea_box_keypoints in crops.h. */
FOVEA_API fovea_status fovea_keypoints(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                                       fovea_keypoint *points, size_t capacity, size_t *count);

FOVEA_END_DECLS

#endif
