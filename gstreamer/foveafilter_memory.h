/* foveafilter_memory.h: frames in memory that cameras and decoders share (dma-bufs, NVIDIA's
 * surfaces), imported once for each buffer of their pool. */
#ifndef FOVEAFILTER_MEMORY_H
#define FOVEAFILTER_MEMORY_H

#include <gst/video/video.h>

#include <fovea/fovea.h>

/* What caps say of frames. FALSE: they are none of the element's. *surfaces: buffers hold NVIDIA's
 * surfaces (memory:NVMM). */
gboolean foveafilter_memory_video(GstVideoInfo *out, gboolean *surfaces, GstCaps *caps);

/* Frames of one plan. */
typedef struct Memory {
    GstElement *element; /* that log messages name */
    fovea_device *device;
    fovea_pixel_format format;
    const GstVideoInfo *video;
    gboolean surfaces, told;
    GQuark quark;   /* under which pictures are kept at their memory, */
    guint64 number; /* and which plan's they are */
} Memory;

void foveafilter_memory_open(Memory *m, GstElement *element, fovea_device *device,
                             fovea_pixel_format format, const GstVideoInfo *video,
                             gboolean surfaces);

/* The picture that the frame's memory is; it belongs to that memory. NULL: the frame is to be
 * mapped; with *failed it cannot be read at all, which fovea_error() explains for the first frame
 * of a buffer. */
const fovea_external_image *foveafilter_memory_find(Memory *m, GstBuffer *frame, gboolean *failed);

#endif
