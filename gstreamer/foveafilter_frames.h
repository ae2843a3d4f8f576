/* foveafilter_frames.h: frames as their caps describe them: layout and colours in Fovea's terms,
 * and their pixels in a format that plans accept. */
#ifndef FOVEAFILTER_FRAMES_H
#define FOVEAFILTER_FRAMES_H

#include <gst/video/video.h>

#include <fovea/fovea.h>

/* Formats that plans read in place; they are listed first. */
#define FOVEAFILTER_IN_PLACE "RGB, BGR, GRAY8, NV12, YUY2"
#define FOVEAFILTER_FORMATS                                                                        \
    FOVEAFILTER_IN_PLACE                                                                           \
    ", I420, YV12, NV21, UYVY, YVYU, Y42B, Y444, Y41B, NV16, NV24, RGBx, RGBA, BGRx, BGRA, xRGB, " \
    "ARGB, xBGR, ABGR, GBR, GBR_10LE, GRAY16_LE, I420_10LE, I422_10LE, Y444_10LE, I420_12LE, "     \
    "I422_12LE, Y444_12LE, Y444_16LE, P010_10LE, P012_LE, P016_LE"

typedef struct Frames {
    fovea_layout layout;
    fovea_yuv_matrix yuv;
    fovea_layout_info info; /* info.buffer_size 0: plans read such frames in place */
    uint32_t width, height;
    guint8 *buffer;
} Frames;

/* Converts the description of frames in caps, from which `video` was made. FALSE: the library does
 * not know the matrix for luma and chroma. */
gboolean foveafilter_frames_describe(Frames *out, const GstVideoInfo *video, const GstCaps *caps);
gboolean foveafilter_frames_same(const Frames *a, const Frames *b);

/* Allocates buffers for frames that must be converted. */
void foveafilter_frames_open(Frames *f);
void foveafilter_frames_close(Frames *f);
/* The pixels of a mapped frame, converted if necessary; valid until the next call. */
fovea_status foveafilter_frames_pixels(const Frames *f, const GstVideoFrame *video,
                                       fovea_frame *out);

/* Whether the strides or offsets of a frame differ from those that the caps imply. */
gboolean foveafilter_frames_padded(const GstVideoInfo *video, GstBuffer *frame);
/* A copy of the frame with the layout that the caps imply, and with everything that is attached to
 * it; NULL: it cannot be read. */
GstBuffer *foveafilter_frames_pack(const GstVideoInfo *video, GstBuffer *frame);

#endif
