/* video.h: frames of cameras, decoders and files: chooses the conversion of their luma and chroma
 * to R, G, B, and converts pixel layouts that plans do not read to layouts that they do. This
 * header is part of fovea.h, whose rules apply here.
 *
 * An example with a decoder that gives planes of Y, U and V, and tags of their colours:
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
 *                              info.buffer_size);
 *         fovea_run(plan, &frame, &out, 1);
 *     } */
#ifndef FOVEA_VIDEO_H
#define FOVEA_VIDEO_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

/* How the pixels of a frame are laid out in memory. The names are those of ffmpeg's pixel formats.
 * Samples of more than 8 bits are little-endian 16-bit integers with the value in the lower bits,
 * and are rounded to 8 bits. "not copied" means that plans read the layout in place. U and V are
 * subsampled as each comment states. */
typedef enum fovea_layout {
    FOVEA_LAYOUT_RGB24, /* bytes R, G, B; not copied */
    FOVEA_LAYOUT_BGR24, /* not copied */
    FOVEA_LAYOUT_RGB0,  /* four bytes per pixel, of which the byte without a colour is ignored */
    FOVEA_LAYOUT_BGR0,
    FOVEA_LAYOUT_0RGB,
    FOVEA_LAYOUT_0BGR,
    FOVEA_LAYOUT_GBRP, /* planes G, B, R */
    FOVEA_LAYOUT_GBRP10,
    FOVEA_LAYOUT_GRAY, /* only luma; not copied if it has full range */
    FOVEA_LAYOUT_GRAY10,
    FOVEA_LAYOUT_GRAY12,
    FOVEA_LAYOUT_GRAY16,
    FOVEA_LAYOUT_YUYV422, /* also called YUY2; not copied */
    FOVEA_LAYOUT_UYVY422,
    FOVEA_LAYOUT_YVYU422,
    FOVEA_LAYOUT_NV12, /* not copied */
    FOVEA_LAYOUT_NV21, /* NV12 with V before U; that plane is copied */
    FOVEA_LAYOUT_P010, /* NV12 with 16-bit samples, of which the upper 10 bits are used */
    FOVEA_LAYOUT_NV16, /* like NV12; U and V for every 2 pixels of a row */
    FOVEA_LAYOUT_NV24, /* like NV12; U and V for every pixel */
    FOVEA_LAYOUT_I420, /* yuv420p: planes Y, U, V; U and V for every 2 x 2 pixels; U and V are
                          copied */
    FOVEA_LAYOUT_YV12, /* like I420, with planes Y, V, U */
    FOVEA_LAYOUT_I420P10,
    FOVEA_LAYOUT_I420P12,
    FOVEA_LAYOUT_I420P16,
    FOVEA_LAYOUT_I422, /* yuv422p: planes; U and V for every 2 pixels of a row */
    FOVEA_LAYOUT_I422P10,
    FOVEA_LAYOUT_I422P12,
    FOVEA_LAYOUT_I422P16,
    FOVEA_LAYOUT_I444, /* yuv444p: planes; U and V for every pixel; converted to R, G, B */
    FOVEA_LAYOUT_I444P10,
    FOVEA_LAYOUT_I444P12,
    FOVEA_LAYOUT_I444P16,
    FOVEA_LAYOUT_I411, /* yuv411p: planes; U and V for every 4 pixels of a row */
} fovea_layout;

/* ---- colours of luma and chroma ---- */

/* The weights of R, G and B in luma, which standards and tags call matrix coefficients. */
typedef enum fovea_coefficients {
    FOVEA_COEFFICIENTS_UNKNOWN,
    FOVEA_COEFFICIENTS_601,
    FOVEA_COEFFICIENTS_709,
    FOVEA_COEFFICIENTS_2020, /* non-constant luminance */
} fovea_coefficients;

typedef enum fovea_range {
    FOVEA_RANGE_UNKNOWN,
    FOVEA_RANGE_LIMITED, /* in 8 bits: luma 16 to 235, chroma 16 to 240 */
    FOVEA_RANGE_FULL,    /* 0 to 255 */
} fovea_range;

/* The kind of source that frames come from, which decides properties that have no tag. */
typedef enum fovea_origin {
    FOVEA_ORIGIN_VIDEO,  /* a decoder, a file or a pipe */
    FOVEA_ORIGIN_CAMERA, /* a sensor and its processor, uncompressed */
    FOVEA_ORIGIN_JPEG,   /* a JPEG, or a motion JPEG */
} fovea_origin;

/* The position of the U and V that several pixels share. Fovea always uses them for all of these
 * pixels, but chroma in the centre distinguishes a JPEG from other video. */
typedef enum fovea_siting {
    FOVEA_SITING_UNKNOWN,
    FOVEA_SITING_CENTRE, /* JPEG, MPEG-1 */
    FOVEA_SITING_LEFT,   /* MPEG-2, H.264, H.265 */
    FOVEA_SITING_TOP_LEFT,
} fovea_siting;

typedef struct fovea_colours {
    size_t struct_size;
    fovea_coefficients coefficients; /* from tags, else UNKNOWN */
    fovea_range range;               /* from tags, else UNKNOWN */
    fovea_siting siting;             /* from tags, else UNKNOWN */
    fovea_origin origin;
    fovea_layout layout;
    uint32_t height; /* height of a frame in pixels */
} fovea_colours;
#define FOVEA_COLOURS_INIT FOVEA_INIT(fovea_colours, )

/* Chooses the matrix and the range of a source. The program (for Y4M and raw video), the GStreamer
 * element and the ROS 2 node all follow this rule. Tags have priority. Properties without a tag get
 * these values:
 *
 *   coefficients   601      for a JPEG of any height; 8-bit video in full range counts as a JPEG,
 *                           unless its chroma is at the left
 *                  601      for a camera
 *                  601      for 8-bit video with U and V for every pixel, which ffmpeg makes from
 * R, G, B 709      for other video of 720 lines and more 601      for other video of fewer lines
 *   range          full     for a JPEG, and for luma only
 *                  limited  otherwise
 *
 * For layouts of R, G, B, *out is FOVEA_YUV_601_FULL, which has no effect. Returns EINVAL for an
 * unknown value. Thread-safe. */
FOVEA_API fovea_status fovea_yuv_matrix_choose(fovea_yuv_matrix *out, const fovea_colours *colours);

/* ---- layouts ---- */

typedef struct fovea_layout_info {
    size_t struct_size;
    const char *name;          /* "yuv420p" */
    fovea_pixel_format format; /* format of converted frames, for which the plan must be made */
    uint32_t planes;           /* number of planes of this layout */
    uint32_t rows[3];          /* rows of each plane */
    int reserved;              /* 0 */
    size_t bytes[3];           /* bytes of a packed row of each plane */
    size_t buffer_size;        /* bytes of the buffer that fovea_layout_convert needs; 0: it
                                  copies nothing */
} fovea_layout_info;
#define FOVEA_LAYOUT_INFO_INIT FOVEA_INIT(fovea_layout_info, )

/* Describes frames of width x height pixels, 1 to 65535 each, in a layout. `yuv` is the matrix of
 * the frames; it is not read for R, G, B. Returns EINVAL for an unknown layout or matrix, and for a
 * size out of range. Thread-safe. */
FOVEA_API fovea_status fovea_layout_query(fovea_layout layout, uint32_t width, uint32_t height,
                                          fovea_yuv_matrix yuv, fovea_layout_info *out);

/* Returns the name of layout `index`, from 0, or NULL past the end. The string is static.
 * Thread-safe. */
FOVEA_API const char *fovea_layout_name(size_t index);

/* Converts frame `in` to the format that fovea_layout_query reports. In *out, planes that plans
 * read in place point to the pixels of `in`, and the others point to `buffer`, of `size` bytes,
 * which must not change while the frame is used. U and V are not interpolated. Layouts with U and V
 * for every pixel, and luma in limited range, are converted to R, G, B or grey, with the same
 * arithmetic and the same bits as in a plan. Allocates nothing. Returns EINVAL for a missing plane,
 * for a stride of less than one row, and for a buffer of less than fovea_layout_info.buffer_size
 * bytes. Thread-safe. */
FOVEA_API fovea_status fovea_layout_convert(fovea_frame *out, const fovea_frame *in,
                                            fovea_layout layout, uint32_t width, uint32_t height,
                                            fovea_yuv_matrix yuv, void *buffer, size_t size);

FOVEA_END_DECLS

#endif
