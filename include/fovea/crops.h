/* crops.h: models that process one part of a frame at a time: the person in a box, or overlapping
 * parts of the whole frame. This header is part of fovea.h, whose rules apply here.
 *
 * A plan for such parts reads frames of FOVEA_FORMAT_RGB8 that have the size of a part, without
 * preprocessing: with fovea_plan_options.preprocess NULL they are only normalised. */
#ifndef FOVEA_CROPS_H
#define FOVEA_CROPS_H

#include <fovea/results.h>

FOVEA_BEGIN_DECLS

/* ---------------------------------------------------------------------------------------------
 * People in boxes: ViTPose
 */

/* A box in pixels of a frame, in COCO's format: left edge, top edge, width, height. It may be
 * partly or entirely outside of the frame. */
typedef struct fovea_box {
    double x, y, width, height;
} fovea_box;

/* Cuts out the part of a frame that a pose model reads for a box. The box is extended about its
 * centre to the aspect ratio of out_width x out_height, then enlarged by a quarter, and sampled
 * bilinearly. It is black outside the frame. `out` receives out_width x out_height pixels of three
 * bytes R, G, B in packed rows, with the same bits as those that VitPoseImageProcessor of
 * transformers computes for the box before it normalises them. out_width and out_height are
 * resize_width and resize_height of fovea_model_preprocess.
 *
 * `frame`, `format`, `width`, `height` and `yuv` describe a frame as for a plan, of any format
 * except FOVEA_FORMAT_PLANES_F32. Allocates nothing. Returns EINVAL for a box without width or
 * height, or with coordinates that are not finite, for a missing plane, for a stride of less than
 * one row, and for a side of `out` below 2 pixels. Thread-safe. */
FOVEA_API fovea_status fovea_box_crop(const fovea_frame *frame, fovea_pixel_format format,
                                      fovea_yuv_matrix yuv, uint32_t width, uint32_t height,
                                      const fovea_box *box, uint8_t *out, uint32_t out_width,
                                      uint32_t out_height);

/* Does the same as fovea_keypoints for a frame that fovea_box_crop has cut out. The points are in
 * pixels of the original frame, as those of post_process_pose_estimation of the image processor. */
FOVEA_API fovea_status fovea_box_keypoints(fovea_plan *plan, const fovea_output *outs,
                                           size_t n_outs, const fovea_box *box,
                                           fovea_keypoint *points, size_t capacity, size_t *count);

/* ---------------------------------------------------------------------------------------------
 * Pictures that are run in overlapping parts: EoMT with "do_split_image"
 *
 * The picture is resized as fovea_preprocess defines. Along its longer side it is divided into the
 * smallest number of squares of short_edge pixels that covers it, with equal overlaps. The bytes
 * are those of EomtImageProcessor of transformers. Class scores are averaged where parts overlap
 * (merge_image_patches). The calls are:
 *
 *   fovea_parts_describe   reports how many parts there are, and their size
 *   fovea_plan_create      makes a plan for frames of that size, for one or several at a time
 *   fovea_parts_create     allocates, for that plan, all memory that pictures need
 *   fovea_parts_cut        cuts a picture into parts, as frames
 *   fovea_run              runs all of these frames
 *   fovea_parts_class_map  gives the class of each pixel of the picture */

typedef struct fovea_parts fovea_parts;

typedef struct fovea_parts_info {
    size_t struct_size;
    uint32_t count;                     /* number of parts */
    uint32_t width, height;             /* pixels of each part */
    uint32_t whole_width, whole_height; /* pixels of the resized picture that is divided */
} fovea_parts_info;
#define FOVEA_PARTS_INFO_INIT FOVEA_INIT(fovea_parts_info, )

/* Describes the parts of a picture of width x height pixels. Returns ENOTSUP if the rule does not
 * split pictures, or resizes floats. Thread-safe. */
FOVEA_API fovea_status fovea_parts_describe(const fovea_preprocess *rule, uint32_t width,
                                            uint32_t height, fovea_parts_info *out);
/* Allocates the memory for pictures of width x height pixels. `plan` is a plan for their parts with
 * the outputs masks_queries_logits and class_queries_logits, and must outlive the object. Returns
 * EINVAL for a plan for other frames, ENOTSUP as fovea_parts_describe does, or ENOMEM. */
FOVEA_API fovea_status fovea_parts_create(fovea_parts **out, fovea_plan *plan,
                                          const fovea_preprocess *rule, uint32_t width,
                                          uint32_t height);
FOVEA_API void fovea_parts_free(fovea_parts *parts);

/* Cuts a picture of FOVEA_FORMAT_RGB8 into parts. frames[i] receives part i; `capacity` is the
 * number of elements of `frames`, at least the number of parts. The pixels belong to `parts` and
 * are valid until the next call; a picture that needs no resize is not copied, and the frames then
 * point to its own pixels. Allocates nothing. One thread at a time per object. */
FOVEA_API fovea_status fovea_parts_cut(fovea_parts *parts, const fovea_frame *picture,
                                       fovea_frame *frames, size_t capacity);
/* Computes the class of each pixel of the picture, row by row, as fovea_class_map does. `outs` has
 * the outputs of the first part, then those of the second, and so on; `capacity` is the number of
 * elements of `classes`, at least the number of pixels. Allocates nothing. One thread at a time per
 * object. */
FOVEA_API fovea_status fovea_parts_class_map(fovea_parts *parts, const fovea_output *outs,
                                             size_t n_outs, uint16_t *classes, size_t capacity);

FOVEA_END_DECLS

#endif
