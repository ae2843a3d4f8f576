/* foveafilter_memory.h: frames in memory that cameras and decoders share (dma-bufs, NVIDIA's
 * surfaces), imported once for each buffer of their pool. */
#ifndef FOVEAFILTER_MEMORY_H
#define FOVEAFILTER_MEMORY_H

#include <gst/video/video.h>

#include <fovea/fovea.h>

/* Reads the description of frames from caps. FALSE: the element does not support them. *surfaces:
 * buffers contain NVIDIA's surfaces (memory:NVMM). */
gboolean foveafilter_memory_video(GstVideoInfo *out, gboolean *surfaces, GstCaps *caps);

/* Frames of one plan. */
typedef struct Memory {
    GstElement *element; /* that log messages name */
    fovea_device *device;
    fovea_pixel_format format;
    const GstVideoInfo *video;
    gboolean surfaces, told;
    GQuark quark;   /* key under which pictures are stored at their memory */
    guint64 number; /* and which plan's they are */
} Memory;

void foveafilter_memory_open(Memory *m, GstElement *element, fovea_device *device,
                             fovea_pixel_format format, const GstVideoInfo *video,
                             gboolean surfaces);

/* The picture for the frame's memory, which owns it. NULL: the frame must be mapped instead; if
 * *failed is set, it cannot be read at all, and fovea_error() gives the reason for the first frame
 * of a buffer. */
const fovea_external_image *foveafilter_memory_find(Memory *m, GstBuffer *frame, gboolean *failed);

#endif
