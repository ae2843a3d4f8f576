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
FOVEA_API fovea_status fovea_box_crop(const fovea_frame *frame, fovea_format format, fovea_yuv yuv,
                                      uint32_t width, uint32_t height, const fovea_box *box,
                                      uint8_t *out, uint32_t out_width, uint32_t out_height);

/* fovea_keypoints of a frame that fovea_box_crop has cut out: points are in pixels of the frame
 * that the box is in, as post_process_pose_estimation of the processor has them. */
FOVEA_API fovea_status fovea_box_keypoints(fovea_plan *plan, const fovea_output *outs,
                                           size_t n_outs, const fovea_box *box,
                                           fovea_keypoint *points, size_t room, size_t *count);

FOVEA_END_DECLS

#endif
