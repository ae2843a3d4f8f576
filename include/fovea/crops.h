/* crops.h: models that see a part of a frame at a time: the person in a box, or overlapping parts
 * of the whole. A part of fovea.h, whose rules hold here.
 *
 * A plan for such parts has frames of FOVEA_FORMAT_RGB8 in the size of a part, and no
 * preprocessing: fovea_plan_options.preprocess NULL, which normalises them only.
 */
#ifndef FOVEA_CROPS_H
#define FOVEA_CROPS_H

#include <fovea/results.h>

FOVEA_BEGIN_DECLS

/* ---------------------------------------------------------------------------------------------
 * People in boxes: ViTPose
 */

/* A box in a frame, in pixels, as COCO has it: left edge, top edge, width, height. It may lie
 * outside of the frame in part or as a whole. */
typedef struct fovea_box {
    double x, y, width, height;
} fovea_box;

/* What a pose model sees of a box: the box grows about its middle to the aspect of out_width x
 * out_height, then by a quarter, and is sampled bilinearly; what lies outside of the frame is
 * black. `out` gets R, G, B in packed rows, bit for bit the bytes that transformers'
 * VitPoseImageProcessor makes of the box before it normalises them. out_width x out_height are the
 * model's: resize_width and resize_height of fovea_model_preprocess.
 *
 * frame, format, width, height, yuv: as of a plan, any format but float planes. Allocates nothing;
 * thread-safe. EINVAL: a box without width and height,
 * or with numbers that are not finite; a missing plane; a stride under one row; a side of `out`
 * under 2 pixels. */
FOVEA_API fovea_status fovea_box_crop(const fovea_frame *frame, fovea_pixel_format format,
                                      fovea_yuv_matrix yuv, uint32_t width, uint32_t height,
                                      const fovea_box *box, uint8_t *out, uint32_t out_width,
                                      uint32_t out_height);

/* fovea_keypoints of a frame that fovea_box_crop has cut out: points are in pixels of the frame
 * that the box is in, as post_process_pose_estimation of the processor has them. */
FOVEA_API fovea_status fovea_box_keypoints(fovea_plan *plan, const fovea_output *outs,
                                           size_t n_outs, const fovea_box *box,
                                           fovea_keypoint *points, size_t capacity, size_t *count);

/* ---------------------------------------------------------------------------------------------
 * Pictures that are run in overlapping parts: EoMT with "do_split_image"
 *
 * The picture is resized as fovea_preprocess says, and cut along its longer side into squares of
 * short_edge pixels, as few as cover it, whose overlaps are equal: as transformers'
 * EomtImageProcessor does it, the same bytes. Scores of classes are averaged where parts overlap
 * (merge_image_patches). How to run one:
 *
 *   fovea_parts_describe   says how many parts there are, and their size
 *   fovea_plan_create      a plan for frames of that size, of one or several at a time
 *   fovea_parts_create     for that plan: all memory that frames need
 *   fovea_parts_cut        the parts of a picture, as frames
 *   fovea_run              of all of them
 *   fovea_parts_class_map  the class of each pixel of the picture
 */

typedef struct fovea_parts fovea_parts;

typedef struct fovea_parts_info {
    size_t struct_size;
    uint32_t count;
    uint32_t width, height;             /* pixels of each part */
    uint32_t whole_width, whole_height; /* of the picture that they are cut out of */
} fovea_parts_info;
#define FOVEA_PARTS_INFO_INIT FOVEA_INIT(fovea_parts_info, )

/* For pictures of width x height. ENOTSUP: `rule` does not split, or resizes floats. Thread-safe.
 */
FOVEA_API fovea_status fovea_parts_describe(const fovea_preprocess *rule, uint32_t width,
                                            uint32_t height, fovea_parts_info *out);
/* For pictures of width x height and a plan of their parts that has the outputs
 * masks_queries_logits and class_queries_logits; the plan must live as long. EINVAL for a plan of
 * other frames. */
FOVEA_API fovea_status fovea_parts_create(fovea_parts **out, fovea_plan *plan,
                                          const fovea_preprocess *rule, uint32_t width,
                                          uint32_t height);
FOVEA_API void fovea_parts_free(fovea_parts *parts);

/* Cuts a picture of FOVEA_FORMAT_RGB8 into parts and describes each by one of `frames`, which has
 * room for `capacity` of them. Their pixels belong to `parts` and are valid until the next call,
 * except that a picture which needs no resize is not copied: the frames then point into its own
 * pixels. Allocates nothing. One thread at a time, as below. */
FOVEA_API fovea_status fovea_parts_cut(fovea_parts *parts, const fovea_frame *picture,
                                       fovea_frame *frames, size_t capacity);
/* The class of each pixel of the picture, row by row, as fovea_class_map: `outs` are the outputs of
 * the first part, then those of the second, ..; capacity: of numbers. Allocates nothing. */
FOVEA_API fovea_status fovea_parts_class_map(fovea_parts *parts, const fovea_output *outs,
                                             size_t n_outs, uint16_t *classes, size_t capacity);

FOVEA_END_DECLS

#endif
