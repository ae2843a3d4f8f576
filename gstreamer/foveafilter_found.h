/* foveafilter_found.h: finds boxes and key points in a frame's outputs, and attaches them to its
 * buffer. */
#ifndef FOVEAFILTER_FOUND_H
#define FOVEAFILTER_FOUND_H

#include <gst/video/video.h>

#include <fovea/fovea.h>

/* Buffers for boxes and key points; NULL if the model has none, or if the plan lacks the outputs
 * for them. */
typedef struct Found {
    const fovea_model *model;
    fovea_plan *plan;
    fovea_detection *box;
    fovea_keypoint *point;
    guint boxes, points;              /* capacities */
    size_t found_boxes, found_points; /* in the last frame */
} Found;

/* The outputs that boxes are computed from, to be freed with g_strfreev; NULL: the main output
 * suffices, or the model has no boxes. */
char **foveafilter_found_outputs(const fovea_model *model);

void foveafilter_found_open(Found *f, const fovea_model *model, fovea_plan *plan);
void foveafilter_found_close(Found *f);

/* Finds boxes and key points in the outputs of a frame. */
void foveafilter_found_look(Found *f, const fovea_output *out, gsize n);
/* Adds them to `to`, in pixels of the frame of width x height: the boxes with a score of `least` or
 * more, best first, as a list `boxes` of
 *     box, class=(uint), label=(string), score=(double), x=(uint), y=(uint), width=(uint),
 *          height=(uint)
 * where the model finds boxes, and key points as a list `keypoints` of
 *     keypoint, name=(string), x=(double), y=(double), score=(double)
 * Every item is a field of its own as well: box-0, box-1, ..., keypoint-0, ... */
void foveafilter_found_describe(const Found *f, guint width, guint height, double least,
                                GstStructure *to);
/* Attaches the same boxes to the buffer: each is a GstVideoRegionOfInterestMeta of the type of its
 * label ("class-3" without one), with a parameter detection, class=(uint), label=(string),
 * score=(double), element=(string, the name of `from`). */
void foveafilter_found_attach(const Found *f, GstElement *from, guint width, guint height,
                              double least, GstBuffer *buffer);

#endif
