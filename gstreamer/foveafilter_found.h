/* foveafilter_found.h: finds boxes, masks and key points in a frame's outputs, and attaches them to
 * its buffer. */
#ifndef FOVEAFILTER_FOUND_H
#define FOVEAFILTER_FOUND_H

#include <gst/video/video.h>

#include <fovea/fovea.h>

/* Buffers for boxes, masks and key points; NULL if the model has none, or if the plan lacks the
 * outputs for them. */
typedef struct Found {
    const fovea_model *model;
    fovea_plan *plan;
    fovea_detection *box;
    fovea_mask *mask;
    fovea_keypoint *point;
    guint boxes, masks, points;                    /* capacities */
    size_t found_boxes, found_masks, found_points; /* in the last frame */
    fovea_mask_rule rule;
    guint width, height; /* of the plan's frames */
    GstBufferPool *maps; /* of buffers for `map` */
    GstBuffer *map;      /* the number of each pixel's mask in the last frame, or NULL */
} Found;

/* The outputs that boxes and masks are computed from, to be freed with g_strfreev; NULL: the main
 * output suffices, or the model has neither. */
char **foveafilter_found_outputs(const fovea_model *model);

/* The frames of `plan` have width x height pixels. `rule` is a fovea_mask_rule; -1: instance for a
 * detector, else panoptic. FALSE: out of memory. Close it in any case. */
gboolean foveafilter_found_open(Found *f, const fovea_model *model, fovea_plan *plan, int rule,
                                guint width, guint height);
void foveafilter_found_close(Found *f);

/* Finds boxes, masks and key points in the outputs of a frame. Masks have a score of `least_mask`
 * or more; 0: the model's usual limit. */
void foveafilter_found_look(Found *f, const fovea_output *out, gsize n, double least_mask);
/* Adds them to `to`, in pixels of the frame of width x height: the boxes with a score of `least` or
 * more, best first, as a list `boxes` of
 *     box, class=(uint), label=(string), score=(double), x=(uint), y=(uint), width=(uint),
 *          height=(uint)
 * where the model finds boxes; masks as a list `masks` of
 *     mask, number=(uint), class=(uint), label=(string), score=(double), area=(guint64), x=(uint),
 *           y=(uint), width=(uint), height=(uint)
 * whose edges are those of the mask's pixels; and key points as a list `keypoints` of
 *     keypoint, name=(string), x=(double), y=(double), score=(double)
 * Every item is a field of its own as well: box-0, box-1, ..., mask-0, ..., keypoint-0, ... With
 * `values`, the pixels of the masks are
 *     mask-map, width=(uint), height=(uint), values=(GstBuffer)
 * the values being the number of each pixel's mask in 16 bits, or 0, rows from the top. */
void foveafilter_found_describe(const Found *f, guint width, guint height, double least,
                                gboolean values, GstStructure *to);
/* Attaches the same boxes and masks to the buffer: each is a GstVideoRegionOfInterestMeta of the
 * type of its label ("class-3" without one). A box has a parameter detection, class=(uint),
 * label=(string), score=(double), element=(string, the name of `from`); a mask has a parameter mask
 * with these fields, number=(uint) and area=(guint64). */
void foveafilter_found_attach(const Found *f, GstElement *from, guint width, guint height,
                              double least, GstBuffer *buffer);

#endif
