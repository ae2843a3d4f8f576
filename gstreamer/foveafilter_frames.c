/* foveafilter_frames.c: see foveafilter_frames.h. */
#include "foveafilter_frames.h"

static const struct {
    GstVideoFormat format;
    fovea_layout layout;
} layouts[] = {
    {GST_VIDEO_FORMAT_RGB, FOVEA_LAYOUT_RGB24},
    {GST_VIDEO_FORMAT_BGR, FOVEA_LAYOUT_BGR24},
    {GST_VIDEO_FORMAT_GRAY8, FOVEA_LAYOUT_GRAY},
    {GST_VIDEO_FORMAT_NV12, FOVEA_LAYOUT_NV12},
    {GST_VIDEO_FORMAT_YUY2, FOVEA_LAYOUT_YUYV422},
    {GST_VIDEO_FORMAT_I420, FOVEA_LAYOUT_I420},
    {GST_VIDEO_FORMAT_YV12, FOVEA_LAYOUT_YV12},
    {GST_VIDEO_FORMAT_NV21, FOVEA_LAYOUT_NV21},
    {GST_VIDEO_FORMAT_UYVY, FOVEA_LAYOUT_UYVY422},
    {GST_VIDEO_FORMAT_YVYU, FOVEA_LAYOUT_YVYU422},
    {GST_VIDEO_FORMAT_Y42B, FOVEA_LAYOUT_I422},
    {GST_VIDEO_FORMAT_Y444, FOVEA_LAYOUT_I444},
    {GST_VIDEO_FORMAT_Y41B, FOVEA_LAYOUT_I411},
    {GST_VIDEO_FORMAT_NV16, FOVEA_LAYOUT_NV16},
    {GST_VIDEO_FORMAT_NV24, FOVEA_LAYOUT_NV24},
    {GST_VIDEO_FORMAT_RGBx, FOVEA_LAYOUT_RGB0},
    {GST_VIDEO_FORMAT_RGBA, FOVEA_LAYOUT_RGB0},
    {GST_VIDEO_FORMAT_BGRx, FOVEA_LAYOUT_BGR0},
    {GST_VIDEO_FORMAT_BGRA, FOVEA_LAYOUT_BGR0},
    {GST_VIDEO_FORMAT_xRGB, FOVEA_LAYOUT_0RGB},
    {GST_VIDEO_FORMAT_ARGB, FOVEA_LAYOUT_0RGB},
    {GST_VIDEO_FORMAT_xBGR, FOVEA_LAYOUT_0BGR},
    {GST_VIDEO_FORMAT_ABGR, FOVEA_LAYOUT_0BGR},
    {GST_VIDEO_FORMAT_GBR, FOVEA_LAYOUT_GBRP},
    {GST_VIDEO_FORMAT_GBR_10LE, FOVEA_LAYOUT_GBRP10},
    {GST_VIDEO_FORMAT_GRAY16_LE, FOVEA_LAYOUT_GRAY16},
    {GST_VIDEO_FORMAT_I420_10LE, FOVEA_LAYOUT_I420P10},
    {GST_VIDEO_FORMAT_I422_10LE, FOVEA_LAYOUT_I422P10},
    {GST_VIDEO_FORMAT_Y444_10LE, FOVEA_LAYOUT_I444P10},
    {GST_VIDEO_FORMAT_I420_12LE, FOVEA_LAYOUT_I420P12},
    {GST_VIDEO_FORMAT_I422_12LE, FOVEA_LAYOUT_I422P12},
    {GST_VIDEO_FORMAT_Y444_12LE, FOVEA_LAYOUT_I444P12},
    {GST_VIDEO_FORMAT_Y444_16LE, FOVEA_LAYOUT_I444P16},
    {GST_VIDEO_FORMAT_P010_10LE, FOVEA_LAYOUT_P010},
    {GST_VIDEO_FORMAT_P012_LE, FOVEA_LAYOUT_P010}, /* in the upper bits, too */
    {GST_VIDEO_FORMAT_P016_LE, FOVEA_LAYOUT_P010},
};

/* ---- what caps say ---- */

/* If caps have no colorimetry, or leave parts of it open, GstVideoInfo contains GStreamer's
 * guesses, which differ from the rule of video.h. So the tags are read from the caps. */
static gboolean read_tags(fovea_colours *out, const GstVideoInfo *video, const GstCaps *caps)
{
    const GstStructure *s = gst_caps_get_structure(caps, 0);
    if (gst_structure_has_field(s, "chroma-site")) {
        if (video->chroma_site == GST_VIDEO_CHROMA_SITE_JPEG)
            out->siting = FOVEA_SITING_CENTRE;
        else if (video->chroma_site == GST_VIDEO_CHROMA_SITE_MPEG2)
            out->siting = FOVEA_SITING_LEFT;
        else if (video->chroma_site == GST_VIDEO_CHROMA_SITE_COSITED)
            out->siting = FOVEA_SITING_TOP_LEFT;
    }
    const char *text = gst_structure_get_string(s, "colorimetry");
    GstVideoColorimetry said;
    if (!text || !gst_video_colorimetry_from_string(&said, text))
        return TRUE;
    if (said.range == GST_VIDEO_COLOR_RANGE_0_255)
        out->range = FOVEA_RANGE_FULL;
    else if (said.range == GST_VIDEO_COLOR_RANGE_16_235)
        out->range = FOVEA_RANGE_LIMITED;
    switch (said.matrix) {
    case GST_VIDEO_COLOR_MATRIX_UNKNOWN:
        return TRUE;
    case GST_VIDEO_COLOR_MATRIX_BT601:
        out->coefficients = FOVEA_COEFFICIENTS_601;
        return TRUE;
    case GST_VIDEO_COLOR_MATRIX_BT709:
        out->coefficients = FOVEA_COEFFICIENTS_709;
        return TRUE;
    case GST_VIDEO_COLOR_MATRIX_BT2020:
        out->coefficients = FOVEA_COEFFICIENTS_2020;
        return TRUE;
    default:
        return !GST_VIDEO_INFO_IS_YUV(video);
    }
}

gboolean foveafilter_frames_describe(Frames *out, const GstVideoInfo *video, const GstCaps *caps)
{
    const fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
    fovea_colours colours = FOVEA_COLOURS_INIT;
    *out =
        (Frames){.info = info, .width = (uint32_t)video->width, .height = (uint32_t)video->height};
    for (guint i = 0; i < G_N_ELEMENTS(layouts); i++)
        if (layouts[i].format == GST_VIDEO_INFO_FORMAT(video))
            out->layout = layouts[i].layout;
    colours.layout = out->layout;
    colours.height = out->height;
    return read_tags(&colours, video, caps) &&
           fovea_yuv_matrix_choose(&out->yuv, &colours) == FOVEA_OK &&
           fovea_layout_query(out->layout, out->width, out->height, out->yuv, &out->info) ==
               FOVEA_OK;
}

gboolean foveafilter_frames_same(const Frames *a, const Frames *b)
{
    return a->layout == b->layout && a->yuv == b->yuv && a->width == b->width &&
           a->height == b->height;
}

/* ---- pixels ---- */

void foveafilter_frames_open(Frames *f)
{
    f->buffer = f->info.buffer_size ? g_malloc(f->info.buffer_size) : NULL;
}

void foveafilter_frames_close(Frames *f)
{
    g_clear_pointer(&f->buffer, g_free);
}

fovea_status foveafilter_frames_pixels(const Frames *f, const GstVideoFrame *video,
                                       fovea_frame *out)
{
    fovea_frame in = {.pixels = {NULL}};
    for (guint i = 0; i < f->info.planes; i++) {
        in.pixels[i] = GST_VIDEO_FRAME_PLANE_DATA(video, i);
        in.stride[i] = (size_t)GST_VIDEO_FRAME_PLANE_STRIDE(video, i);
    }
    return fovea_layout_convert(out, &in, f->layout, f->width, f->height, f->yuv, f->buffer,
                                f->info.buffer_size);
}

/* ---- padded frames ---- */

gboolean foveafilter_frames_padded(const GstVideoInfo *video, GstBuffer *frame)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
    for (guint i = 0; meta && i < meta->n_planes; i++)
        if (meta->offset[i] != GST_VIDEO_INFO_PLANE_OFFSET(video, i) ||
            meta->stride[i] != GST_VIDEO_INFO_PLANE_STRIDE(video, i))
            return TRUE;
    return FALSE;
}

GstBuffer *foveafilter_frames_pack(const GstVideoInfo *video, GstBuffer *frame)
{
    GstBuffer *out = gst_buffer_new_allocate(NULL, GST_VIDEO_INFO_SIZE(video), NULL);
    GstVideoFrame from, to;
    gboolean done = FALSE;
    if (out && gst_video_frame_map(&from, video, frame, GST_MAP_READ)) {
        if (gst_video_frame_map(&to, video, out, GST_MAP_WRITE)) {
            done = gst_video_frame_copy(&to, &from);
            gst_video_frame_unmap(&to);
        }
        gst_video_frame_unmap(&from);
    }
    if (!done) {
        gst_clear_buffer(&out);
        return NULL;
    }
    gst_buffer_copy_into(out, frame,
                         GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS | GST_BUFFER_COPY_META,
                         0, (gsize)-1);
    GstVideoMeta *meta = gst_buffer_get_video_meta(out);
    if (meta)
        gst_buffer_remove_meta(out, (GstMeta *)meta);
    return out;
}
