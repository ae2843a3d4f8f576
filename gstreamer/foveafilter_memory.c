/* foveafilter_memory.c: an imported picture is stored with the first memory of its buffer and freed
 * with it, so that each buffer of a pool is imported only once. */
#include "foveafilter_memory.h"

#include <gst/allocators/gstdmabuf.h>

GST_DEBUG_CATEGORY_EXTERN(foveafilter_debug);
#define GST_CAT_DEFAULT foveafilter_debug

enum { PLANES = 3 };

typedef struct Entry {
    guint64 number; /* of the plan */
    /* What it was imported as. */
    fovea_external_image_options options;
    const GstMemory *memory[PLANES];
    fovea_external_image *picture;
} Entry;

/* ---- caps ---- */

/* DRM's names of linear formats; they give the order of bytes in memory. */
static const struct {
    const char *drm, *name;
} formats[] = {
    {"NV12", "NV12"}, {"YUYV", "YUY2"}, {"BG24", "RGB"}, {"RG24", "BGR"}, {"R8  ", "GRAY8"},
};

static const char *name_of(const char *drm)
{
    for (guint i = 0; i < G_N_ELEMENTS(formats); i++)
        if (g_str_has_prefix(drm, formats[i].drm) &&
            (!drm[4] || strcmp(drm + 4, ":0x0000000000000000") == 0 ||
             strcmp(drm + 4, ":0x0") == 0))
            return formats[i].name;
    return NULL;
}

gboolean foveafilter_memory_video(GstVideoInfo *out, gboolean *surfaces, GstCaps *caps)
{
    const char *drm = gst_structure_get_string(gst_caps_get_structure(caps, 0), "drm-format");
    GstCaps *plain = gst_caps_copy(caps);
    *surfaces = gst_caps_features_contains(gst_caps_get_features(caps, 0), "memory:NVMM");
    gst_caps_set_features_simple(plain, NULL);
    if (drm && name_of(drm))
        gst_caps_set_simple(plain, "format", G_TYPE_STRING, name_of(drm), NULL);
    const gboolean known = (!drm || name_of(drm)) && gst_video_info_from_caps(out, plain);
    gst_caps_unref(plain);
    return known;
}

/* ---- one buffer ---- */

void foveafilter_memory_open(Memory *m, GstElement *element, fovea_device *device,
                             fovea_pixel_format format, const GstVideoInfo *video,
                             gboolean surfaces)
{
    static guint64 plans;
    static GMutex lock;
    char *name = g_strdup_printf("foveafilter %p", (void *)element);
    *m = (Memory){.element = element,
                  .device = device,
                  .format = format,
                  .video = video,
                  .surfaces = surfaces,
                  .quark = g_quark_from_string(name)};
    g_free(name);
    g_mutex_lock(&lock);
    m->number = ++plans;
    g_mutex_unlock(&lock);
}

static void entry_free(gpointer data)
{
    Entry *e = data;
    fovea_external_image_free(e->picture);
    g_free(e);
}

/* Describes the dma-bufs of the frame's planes; FALSE: not all planes are in dma-bufs. */
static gboolean fill_dmabuf(Entry *e, const Memory *m, GstBuffer *frame)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(frame);
    e->options.kind = FOVEA_EXTERNAL_DMABUF;
    for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(m->video); i++) {
        const gsize at = meta ? meta->offset[i] : GST_VIDEO_INFO_PLANE_OFFSET(m->video, i);
        const gint stride = meta ? meta->stride[i] : GST_VIDEO_INFO_PLANE_STRIDE(m->video, i);
        fovea_external_image_plane *plane = &e->options.plane[i];
        guint index, length;
        gsize skip, offset;
        if (stride <= 0 || !gst_buffer_find_memory(frame, at, 1, &index, &length, &skip))
            return FALSE;
        GstMemory *memory = gst_buffer_peek_memory(frame, index);
        if (!gst_is_dmabuf_memory(memory))
            return FALSE;
        gst_memory_get_sizes(memory, &offset, NULL);
        e->memory[i] = memory;
        plane->fd = gst_dmabuf_memory_get_fd(memory);
        plane->offset = offset + skip;
        plane->stride = (size_t)stride;
    }
    return TRUE;
}

/* Describes NVIDIA's surface, whose structure is in the memory of such buffers. */
static gboolean fill_surface(Entry *e, GstBuffer *frame)
{
    GstMapInfo map;
    if (!gst_buffer_map(frame, &map, GST_MAP_READ))
        return FALSE;
    e->options.kind = FOVEA_EXTERNAL_NVMM;
    e->options.plane[0].memory = map.data;
    e->memory[0] = gst_buffer_peek_memory(frame, 0);
    gst_buffer_unmap(frame, &map);
    return TRUE;
}

static gboolean same_layout(const Entry *a, const Entry *b)
{
    for (guint i = 0; i < PLANES; i++) {
        const fovea_external_image_plane *p = &a->options.plane[i], *q = &b->options.plane[i];
        if (a->memory[i] != b->memory[i] || p->memory != q->memory || p->fd != q->fd ||
            p->offset != q->offset || p->stride != q->stride)
            return FALSE;
    }
    return a->number == b->number;
}

static void tell(Memory *m, const fovea_external_image *picture)
{
    fovea_external_image_info info = FOVEA_EXTERNAL_IMAGE_INFO_INIT;
    if (m->told)
        return;
    m->told = TRUE;
    if (!picture || fovea_external_image_query(picture, &info) != FOVEA_OK)
        GST_INFO_OBJECT(m->element, "frames are mapped, not read in place: %s", fovea_error());
    else
        GST_INFO_OBJECT(m->element, "frames are read %s by %s%s%s",
                        info.transfer == FOVEA_TRANSFER_NONE     ? "in place"
                        : info.transfer == FOVEA_TRANSFER_DEVICE ? "with a copy by the device"
                                                                 : "with a copy by the host",
                        info.method, *info.reason ? ": " : "", info.reason);
}

/* Failures are stored too, so that they are not repeated for every frame. */
static const Entry *import(Memory *m, const Entry *as, GstMemory *keeper)
{
    Entry *e = g_new(Entry, 1);
    *e = *as;
    if (fovea_external_image_import(&e->picture, m->device, &as->options) != FOVEA_OK)
        e->picture = NULL;
    tell(m, e->picture);
    gst_mini_object_set_qdata(GST_MINI_OBJECT(keeper), m->quark, e, entry_free);
    return e;
}

const fovea_external_image *foveafilter_memory_find(Memory *m, GstBuffer *frame, gboolean *failed)
{
    const fovea_external_image_options none = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    Entry now = {.number = m->number, .options = none};
    *failed = FALSE;
    if (gst_buffer_n_memory(frame) == 0 ||
        !(m->surfaces ? fill_surface(&now, frame) : fill_dmabuf(&now, m, frame)))
        return NULL;
    GstMemory *keeper = gst_buffer_peek_memory(frame, 0);
    const Entry *kept = gst_mini_object_get_qdata(GST_MINI_OBJECT(keeper), m->quark);
    if (!kept || !same_layout(kept, &now)) {
        now.options.format = m->format;
        now.options.width = (uint32_t)m->video->width;
        now.options.height = (uint32_t)m->video->height;
        kept = import(m, &now, keeper);
    }
    *failed = m->surfaces && !kept->picture;
    return kept->picture;
}
