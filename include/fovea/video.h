/* video.h: frames as cameras, decoders and files have them: which R, G, B their luma and chroma
 * stand for, and layouts that a plan does not read, brought into those that it does. A part of
 * fovea.h, whose rules hold here.
 *
 * A decoder that gives planes of Y, U and V, with what it says about their colours:
 *
 *     fovea_colours colours = FOVEA_COLOURS_INIT;
 *     fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
 *     fovea_yuv_matrix yuv;
 *     colours.layout = FOVEA_LAYOUT_I420;
 *     colours.height = 1080;
 *     colours.range = FOVEA_RANGE_LIMITED;
 *     fovea_yuv_matrix_choose(&yuv, &colours);
 *     fovea_layout_query(FOVEA_LAYOUT_I420, 1920, 1080, yuv, &info);
 *     options.frame.format = info.format;
 *     options.yuv = yuv;
 *     fovea_plan_create(&plan, model, device, &options);
 *     void *buffer = malloc(info.buffer_size);
 *     while (next(decoder, &planes)) {
 *         fovea_layout_convert(&frame, &planes, FOVEA_LAYOUT_I420, 1920, 1080, yuv, buffer,
 * info.buffer_size); fovea_run(plan, &frame, &out, 1);
 *     }
 */
#ifndef FOVEA_VIDEO_H
#define FOVEA_VIDEO_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

/* How the pixels of a frame lie in memory. Names are ffmpeg's, of its pixel formats. Samples of
 * more than 8 bits are little endian numbers of 16 bits, with their value in the lower bits; they
 * are rounded to 8 bits. */
typedef enum fovea_layout {
    FOVEA_LAYOUT_RGB24, /* bytes R, G, B; not copied */
    FOVEA_LAYOUT_BGR24, /* not copied */
    FOVEA_LAYOUT_RGB0,  /* four bytes a pixel, of which the one that is no colour is dropped */
    FOVEA_LAYOUT_BGR0,
    FOVEA_LAYOUT_0RGB,
    FOVEA_LAYOUT_0BGR,
    FOVEA_LAYOUT_GBRP, /* planes G, B, R */
    FOVEA_LAYOUT_GBRP10,
    FOVEA_LAYOUT_GRAY, /* luma alone; not copied in full range */
    FOVEA_LAYOUT_GRAY10,
    FOVEA_LAYOUT_GRAY12,
    FOVEA_LAYOUT_GRAY16,
    FOVEA_LAYOUT_YUYV422, /* also called YUY2; not copied */
    FOVEA_LAYOUT_UYVY422,
    FOVEA_LAYOUT_YVYU422,
    FOVEA_LAYOUT_NV12, /* not copied */
    FOVEA_LAYOUT_NV21, /* V before U, whose plane is copied */
    FOVEA_LAYOUT_P010, /* NV12 of 16 bits, of which the upper 10 count */
    FOVEA_LAYOUT_NV16, /* as NV12, of every 2 pixels of a row */
    FOVEA_LAYOUT_NV24, /* of every pixel */
    FOVEA_LAYOUT_I420, /* yuv420p: planes Y, U, V, of 2 x 2 pixels; U and V are copied */
    FOVEA_LAYOUT_YV12, /* planes Y, V, U */
    FOVEA_LAYOUT_I420P10,
    FOVEA_LAYOUT_I420P12,
    FOVEA_LAYOUT_I420P16,
    FOVEA_LAYOUT_I422, /* yuv422p: of 2 pixels of a row */
    FOVEA_LAYOUT_I422P10,
    FOVEA_LAYOUT_I422P12,
    FOVEA_LAYOUT_I422P16,
    FOVEA_LAYOUT_I444, /* yuv444p: of every pixel; becomes R, G, B */
    FOVEA_LAYOUT_I444P10,
    FOVEA_LAYOUT_I444P12,
    FOVEA_LAYOUT_I444P16,
    FOVEA_LAYOUT_I411, /* yuv411p: of 4 pixels of a row, whose U and V are given to both pairs */
} fovea_layout;

/* ---- what luma and chroma stand for ---- */

/* Which share R, G and B have of luma: what standards and tags call the matrix. */
typedef enum fovea_coefficients {
    FOVEA_COEFFICIENTS_UNKNOWN,
    FOVEA_COEFFICIENTS_601,
    FOVEA_COEFFICIENTS_709,
    FOVEA_COEFFICIENTS_2020, /* of luma that is not constant */
} fovea_coefficients;

typedef enum fovea_range {
    FOVEA_RANGE_UNKNOWN,
    FOVEA_RANGE_LIMITED, /* of 8 bits: luma 16 to 235, chroma 16 to 240 */
    FOVEA_RANGE_FULL,    /* 0 to 255 */
} fovea_range;

/* Where frames come from decides what is not said of them. */
typedef enum fovea_origin {
    FOVEA_ORIGIN_VIDEO,  /* a decoder, a file, a pipe */
    FOVEA_ORIGIN_CAMERA, /* a sensor and its processor, uncompressed */
    FOVEA_ORIGIN_JPEG,   /* a JPEG, or a motion JPEG */
} fovea_origin;

/* Where the one U and V of several pixels are meant to be. Fovea takes them for all of these pixels
 * whatever it is, but it tells a JPEG, where they are in the centre, from other video. */
typedef enum fovea_siting {
    FOVEA_SITING_UNKNOWN,
    FOVEA_SITING_CENTRE, /* JPEG, MPEG-1 */
    FOVEA_SITING_LEFT,   /* MPEG-2, H.264, H.265 */
    FOVEA_SITING_TOP_LEFT,
} fovea_siting;

typedef struct fovea_colours {
    size_t struct_size;
    fovea_coefficients coefficients; /* as far as tags have them */
    fovea_range range;
    fovea_siting siting;
    fovea_origin origin;
    fovea_layout layout;
    uint32_t height; /* lines of a frame */
} fovea_colours;
#define FOVEA_COLOURS_INIT FOVEA_INIT(fovea_colours, )

/* The rule of every front end: the program's Y4M and raw video, the GStreamer element, the ROS 2
 * node. Tags count; what they leave open is
 *
 *   coefficients   601   of a JPEG, whatever its height; 8-bit video in full range counts as one,
 *                        unless its chroma is sited at the left
 *                  601   of a camera
 *                  601   of 8-bit video with U and V for every pixel: R, G, B that ffmpeg converted
 *                  709   of other video of 720 lines and more
 *                  601   below
 *   range          full  of a JPEG, and of luma alone
 *                  limited  of others
 *
 * Layouts of R, G, B have no such rule: FOVEA_YUV_601_FULL. EINVAL: an unknown value. Thread-safe.
 */
FOVEA_API fovea_status fovea_yuv_matrix_choose(fovea_yuv_matrix *out, const fovea_colours *colours);

/* ---- layouts ---- */

typedef struct fovea_layout_info {
    size_t struct_size;
    const char *name;          /* "yuv420p" */
    fovea_pixel_format format; /* of the frames that fovea_layout_convert gives, for a plan */
    uint32_t planes;           /* of frames as they come */
    uint32_t rows[3];          /* of each plane */
    int reserved;              /* where a later version may have a field */
    size_t bytes[3];           /* of a row of each plane that is packed */
    size_t buffer_size;        /* bytes that fovea_layout_convert writes; 0: it copies nothing */
} fovea_layout_info;
#define FOVEA_LAYOUT_INFO_INIT FOVEA_INIT(fovea_layout_info, )

/* Frames of width x height pixels, of 1 to 65535 each. `yuv`: what their luma and chroma stand for;
 * not read for R, G, B. EINVAL: an unknown layout or yuv, a size out of range. Thread-safe. */
FOVEA_API fovea_status fovea_layout_query(fovea_layout layout, uint32_t width, uint32_t height,
                                          fovea_yuv_matrix yuv, fovea_layout_info *out);

/* Layout `index`, from 0, by its name; NULL past the end. */
FOVEA_API const char *fovea_layout_name(size_t index);

/* *out is `in` in the format that fovea_layout_query says: planes that a plan reads as they are
 * stay where they are, the others are in `buffer`, of `size` bytes, until the next call with it. U
 * and V are those of the same pixels. With U and V for every pixel, and for luma alone in limited
 * range, R, G, B or grey are computed here, by the same numbers as in a plan, to the bit. Allocates
 * nothing. EINVAL: a missing plane, a stride under one row, a buffer that is too small.
 * Thread-safe. */
FOVEA_API fovea_status fovea_layout_convert(fovea_frame *out, const fovea_frame *in,
                                            fovea_layout layout, uint32_t width, uint32_t height,
                                            fovea_yuv_matrix yuv, void *buffer, size_t size);

FOVEA_END_DECLS

#endif
