/* foveafilter.c: a GStreamer element that runs a model on the frames that pass through.
 *
 * Video goes through untouched. What the model finds is attached to its buffer, as the custom meta
 * "foveafilter", and posted as an element message of that name; both are a structure with
 * timestamp=(guint64, of the buffer), seconds=(double, that the device took) and what
 * foveafilter_results.h describes; boxes, masks and key points as foveafilter_found.h has them.
 * Messages leave out the values of outputs and of masks, unless post-values asks for them. Several
 * elements in a pipeline share the structure of the meta: a later one's fields replace those of the
 * same name, and in `elements` each element has a structure of its own, under its name. Everything
 * is planned when caps arrive; a frame makes Fovea allocate nothing. Memory of cameras and decoders
 * is read in place if the device can.
 */
#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include "foveafilter_found.h"
#include "foveafilter_frames.h"
#include "foveafilter_memory.h"
#include "foveafilter_results.h"

#define NAME "foveafilter"
#define MAPPED GST_VIDEO_CAPS_MAKE("{ " FOVEAFILTER_FORMATS " }")
#define IN_PLACE "{ " FOVEAFILTER_IN_PLACE " }"
#define DMABUF GST_VIDEO_CAPS_MAKE_WITH_FEATURES("memory:DMABuf", IN_PLACE)
#define NVMM GST_VIDEO_CAPS_MAKE_WITH_FEATURES("memory:NVMM", IN_PLACE)
/* From GStreamer 1.24 on, the format of dma-bufs is given in DRM's terms. */
#define DRM                                                                                        \
    "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={ NV12, YUYV, BG24, RG24, \"R8  \" }"
#define CAPS MAPPED ";" DMABUF ";" DRM ";" NVMM
#define TOP 5
#define SCORE 0.3
#define SETTING                                                                                    \
    ((GParamFlags)(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY))

GST_DEBUG_CATEGORY(foveafilter_debug);
#define GST_CAT_DEFAULT foveafilter_debug

#define FOVEA_TYPE_FILTER fovea_filter_get_type()
G_DECLARE_FINAL_TYPE(FoveaFilter, fovea_filter, FOVEA, FILTER, GstBaseTransform)

struct _FoveaFilter {
    GstBaseTransform parent;
    /* properties, under the object's lock */
    char *model_path, *device_id, *attention, *output, *size, *compute, *mask_rule;
    guint threads, top;
    double score, mask_score;
    gboolean post, post_values;
    /* between start and stop */
    fovea_device *device;
    fovea_model *model;
    /* between two caps */
    GstVideoInfo video;
    gboolean surfaces;
    Frames frames;
    gboolean mapped; /* frames are in ordinary memory, as the caps say */
    /* upstream was told that it may pad rows, but downstream does not know of padding, so frames
     * are packed */
    gboolean packs;
    fovea_plan *plan;
    Memory memory;
    Results results;
    Found found;
};

G_DEFINE_TYPE(FoveaFilter, fovea_filter, GST_TYPE_BASE_TRANSFORM)

enum {
    PROP_NONE,
    PROP_MODEL,
    PROP_DEVICE,
    PROP_ATTENTION,
    PROP_OUTPUT,
    PROP_SIZE,
    PROP_COMPUTE,
    PROP_MASK_RULE,
    PROP_THREADS,
    PROP_TOP,
    PROP_SCORE,
    PROP_MASK_SCORE,
    PROP_POST,
    PROP_POST_VALUES,
};

/* ---- properties ---- */

/* The names of the properties that are texts, and where their values are kept. */
static const struct {
    const char *name, *nick, *about, *standard;
    glong at;
} texts[] = {
    [PROP_MODEL] = {"model", "Model", "Checkpoint file, its folder, or synthetic:NAME", NULL,
                    G_STRUCT_OFFSET(FoveaFilter, model_path)},
    [PROP_DEVICE] = {"device", "Device", "Device as `fovea info` lists it: cpu, cl:0, cuda:0",
                     "cpu", G_STRUCT_OFFSET(FoveaFilter, device_id)},
    [PROP_ATTENTION] = {"attention", "Attention",
                        "Attention that replaces the model's own: linear, softmax, ...", NULL,
                        G_STRUCT_OFFSET(FoveaFilter, attention)},
    [PROP_OUTPUT] = {"output", "Output",
                     "Names of outputs, separated by commas; if unset, the model's main output",
                     NULL, G_STRUCT_OFFSET(FoveaFilter, output)},
    [PROP_SIZE] = {"size", "Size",
                   "Input size of the model: WxH or N; frame: the frame's size; if unset, as the "
                   "model's own preprocessing says",
                   NULL, G_STRUCT_OFFSET(FoveaFilter, size)},
    [PROP_COMPUTE] =
        {"compute", "Compute",
         "Type in which matrix products multiply: f32, bf16, int8; auto: the type that fovea tune "
         "has found, else bf16 if the device has instructions for it, else f32",
         "auto", G_STRUCT_OFFSET(FoveaFilter, compute)},
    [PROP_MASK_RULE] =
        {"mask-rule", "Rule of masks",
         "panoptic: every pixel is in at most one mask; instance: masks may overlap; "
         "auto: instance for a detector, else panoptic",
         "auto", G_STRUCT_OFFSET(FoveaFilter, mask_rule)},
};

static char **text_of(FoveaFilter *self, guint id)
{
    return id < G_N_ELEMENTS(texts) ? (char **)G_STRUCT_MEMBER_P(self, texts[id].at) : NULL;
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
    FoveaFilter *self = FOVEA_FILTER(object);
    char **text = text_of(self, id);
    GST_OBJECT_LOCK(self);
    if (text) {
        g_free(*text);
        *text = g_value_dup_string(value);
    } else if (id == PROP_THREADS) {
        self->threads = g_value_get_uint(value);
    } else if (id == PROP_TOP) {
        self->top = g_value_get_uint(value);
    } else if (id == PROP_SCORE) {
        self->score = g_value_get_double(value);
    } else if (id == PROP_MASK_SCORE) {
        self->mask_score = g_value_get_double(value);
    } else if (id == PROP_POST) {
        self->post = g_value_get_boolean(value);
    } else if (id == PROP_POST_VALUES) {
        self->post_values = g_value_get_boolean(value);
    } else {
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
    FoveaFilter *self = FOVEA_FILTER(object);
    char **text = text_of(self, id);
    GST_OBJECT_LOCK(self);
    if (text)
        g_value_set_string(value, *text);
    else if (id == PROP_THREADS)
        g_value_set_uint(value, self->threads);
    else if (id == PROP_TOP)
        g_value_set_uint(value, self->top);
    else if (id == PROP_SCORE)
        g_value_set_double(value, self->score);
    else if (id == PROP_MASK_SCORE)
        g_value_set_double(value, self->mask_score);
    else if (id == PROP_POST)
        g_value_set_boolean(value, self->post);
    else if (id == PROP_POST_VALUES)
        g_value_set_boolean(value, self->post_values);
    else
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    GST_OBJECT_UNLOCK(self);
}

static void finalize(GObject *object)
{
    FoveaFilter *self = FOVEA_FILTER(object);
    for (guint id = PROP_MODEL; text_of(self, id); id++)
        g_free(*text_of(self, id));
    G_OBJECT_CLASS(fovea_filter_parent_class)->finalize(object);
}

/* ---- model and device ---- */

static void drop_plan(FoveaFilter *self)
{
    foveafilter_found_close(&self->found);
    foveafilter_results_close(&self->results);
    foveafilter_frames_close(&self->frames);
    fovea_plan_free(self->plan);
    self->plan = NULL;
}

static gboolean stop(GstBaseTransform *base)
{
    FoveaFilter *self = FOVEA_FILTER(base);
    drop_plan(self);
    self->packs = FALSE;
    fovea_model_free(self->model);
    fovea_device_close(self->device);
    self->model = NULL;
    self->device = NULL;
    return TRUE;
}

static gboolean start(GstBaseTransform *base)
{
    FoveaFilter *self = FOVEA_FILTER(base);
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    GST_OBJECT_LOCK(self);
    char *path = g_strdup(self->model_path), *id = g_strdup(self->device_id);
    options.threads = self->threads;
    GST_OBJECT_UNLOCK(self);
    if (!path)
        GST_ELEMENT_ERROR(
            self, RESOURCE, SETTINGS,
            ("no model is set: set the property `model` to a checkpoint or synthetic:NAME"),
            (NULL));
    else if (fovea_device_open(&self->device, id ? id : "cpu", &options) != FOVEA_OK)
        GST_ELEMENT_ERROR(self, LIBRARY, INIT, ("%s", fovea_error()), (NULL));
    else if (fovea_model_load(&self->model, path) != FOVEA_OK)
        GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ, ("%s", fovea_error()), (NULL));
    g_free(path);
    g_free(id);
    if (!self->model)
        stop(base);
    return self->model != NULL;
}

/* ---- caps ---- */

/* "N" or "WxH". */
static gboolean parse_size(const char *text, guint *width, guint *height)
{
    char *end;
    const guint64 w = g_ascii_strtoull(text, &end, 10);
    const guint64 h = *end == 'x' ? g_ascii_strtoull(end + 1, &end, 10) : w;
    *width = (guint)w;
    *height = (guint)h;
    return *end == 0 && w > 0 && h > 0 && w <= G_MAXUINT16 && h <= G_MAXUINT16;
}

/* Applies `size` to the model's preprocessing; *out gets NULL if frames are used unchanged. */
static gboolean preprocessing(FoveaFilter *self, const char *size, fovea_preprocess *rule,
                              const fovea_preprocess **out)
{
    guint width, height;
    fovea_model_preprocess(self->model, rule);
    *out = rule;
    if (!size || !*size)
        return TRUE;
    if (strcmp(size, "frame") == 0) {
        *out = NULL;
        return TRUE;
    }
    if (!parse_size(size, &width, &height)) {
        GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS,
                          ("size is \"%s\"; it must be WxH, or N for NxN, with sides from 1 to %d "
                           "pixels, or \"frame\"",
                           size, G_MAXUINT16),
                          (NULL));
        return FALSE;
    }
    fovea_preprocess_resize(rule, width, height);
    return TRUE;
}

/* Sets *out to the index of `text` in `names`, which have the order of the library's constants and
 * commas in between; NULL: to that of "auto". */
static gboolean choose(FoveaFilter *self, const char *property, const char *text, const char *names,
                       int *out)
{
    char **name = g_strsplit(names, ", ", 0);
    for (*out = 0; name[*out] && strcmp(text ? text : "auto", name[*out]) != 0;)
        ++*out;
    const gboolean known = name[*out] != NULL;
    g_strfreev(name);
    if (!known)
        GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS,
                          ("%s is \"%s\"; it must be one of %s", property, text, names), (NULL));
    return known;
}

/* Creates a plan for the frames of self->video, from a copy of the properties. */
static gboolean make_plan(FoveaFilter *self, const char *attention, char **outputs,
                          const char *size, int compute, int rule, guint top)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_preprocess seen = FOVEA_PREPROCESS_INIT;
    options.frame.format = self->frames.info.format;
    options.frame.width = self->frames.width;
    options.frame.height = self->frames.height;
    options.yuv = self->frames.yuv;
    options.attention = attention;
    options.outputs = (const char *const *)outputs;
    options.n_outputs = outputs ? g_strv_length(outputs) : 0;
    options.compute = (fovea_compute)compute;
    if (!preprocessing(self, size, &seen, &options.preprocess))
        return FALSE;
    if (fovea_plan_create(&self->plan, self->model, self->device, &options) != FOVEA_OK) {
        GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("%s", fovea_error()), (NULL));
        return FALSE;
    }
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan_query(self->plan, &info);
    if (info.untrained)
        GST_ELEMENT_WARNING(self, LIBRARY, SETTINGS, ("%s", info.untrained), (NULL));
    if (!foveafilter_results_open(&self->results, self->model, self->plan, top) ||
        !foveafilter_found_open(&self->found, self->model, self->plan,
                                rule > FOVEA_MASKS_INSTANCE ? -1 : rule, self->frames.width,
                                self->frames.height)) {
        GST_ELEMENT_ERROR(
            self, RESOURCE, NO_SPACE_LEFT,
            ("not enough memory for the outputs; use fewer outputs or a smaller size"), (NULL));
        return FALSE;
    }
    foveafilter_frames_open(&self->frames);
    foveafilter_memory_open(&self->memory, GST_ELEMENT(self), self->device, options.frame.format,
                            &self->video, self->surfaces);
    return TRUE;
}

static gboolean set_caps(GstBaseTransform *base, GstCaps *in, GstCaps *out)
{
    FoveaFilter *self = FOVEA_FILTER(base);
    GstVideoInfo video;
    Frames frames;
    gboolean surfaces;
    (void)out;
    if (!foveafilter_memory_video(&video, &surfaces, in))
        return FALSE;
    const gboolean mapped = gst_caps_features_is_equal(gst_caps_get_features(in, 0),
                                                       GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY);
    if (!foveafilter_frames_describe(&frames, &video, in)) {
        char *colours = gst_video_colorimetry_to_string(&video.colorimetry);
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("colorimetry %s is not BT.601, BT.709 or BT.2020; put \"videoconvert ! "
                           "video/x-raw,colorimetry=bt709\" before the element",
                           colours ? colours : "unknown"),
                          (NULL));
        g_free(colours);
        return FALSE;
    }
    if (surfaces && frames.info.buffer_size) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("%s frames in memory:NVMM cannot be read in place; put \"nvvideoconvert "
                           "! video/x-raw(memory:NVMM),format=NV12\" before the element",
                           frames.info.name),
                          (NULL));
        return FALSE;
    }
    if (self->plan && foveafilter_frames_same(&frames, &self->frames) &&
        surfaces == self->surfaces) {
        self->video = video;
        self->mapped = mapped;
        return TRUE;
    }
    drop_plan(self);
    self->video = video;
    self->surfaces = surfaces;
    self->frames = frames;
    self->mapped = mapped;
    GST_OBJECT_LOCK(self);
    char *attention = g_strdup(self->attention), *size = g_strdup(self->size);
    char *compute = g_strdup(self->compute), *mask_rule = g_strdup(self->mask_rule);
    char **outputs = self->output && *self->output ? g_strsplit(self->output, ",", 0)
                                                   : foveafilter_found_outputs(self->model);
    const guint top = self->top;
    GST_OBJECT_UNLOCK(self);
    int type, rule;
    const gboolean made = choose(self, "compute", compute, "f32, bf16, int8, auto", &type) &&
                          choose(self, "mask-rule", mask_rule, "panoptic, instance, auto", &rule) &&
                          make_plan(self, attention, outputs, size, type, rule, top);
    g_strfreev(outputs);
    g_free(attention);
    g_free(size);
    g_free(compute);
    g_free(mask_rule);
    if (!made)
        drop_plan(self);
    return made;
}

/* ---- frames ---- */

/* A structure that describes the results for the frame; `values`: including the values of
 * outputs. */
static GstStructure *describe(const FoveaFilter *self, GstBuffer *buffer, double score,
                              gboolean values)
{
    GstStructure *out =
        gst_structure_new(NAME, "timestamp", G_TYPE_UINT64, GST_BUFFER_PTS(buffer), "seconds",
                          G_TYPE_DOUBLE, fovea_plan_seconds(self->plan), NULL);
    foveafilter_results_describe(&self->results, out, values);
    foveafilter_found_describe(&self->found, (guint)self->video.width, (guint)self->video.height,
                               score, values, out);
    return out;
}

static gboolean set_field(GQuark field, const GValue *value, gpointer to)
{
    gst_structure_id_set_value(to, field, value);
    return TRUE;
}

/* Adds the results to the buffer's meta, which an earlier element may have attached. */
static void attach(FoveaFilter *self, GstBuffer *buffer, const GstStructure *found)
{
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, NAME);
    GstStructure *to, *elements = NULL;
    char *name = gst_object_get_name(GST_OBJECT(self));
    if (!meta)
        meta = gst_buffer_add_custom_meta(buffer, NAME);
    to = gst_custom_meta_get_structure(meta);
    if (!gst_structure_get(to, "elements", GST_TYPE_STRUCTURE, &elements, NULL))
        elements = gst_structure_new_empty("elements");
    gst_structure_set(elements, name, GST_TYPE_STRUCTURE, found, NULL);
    gst_structure_foreach(found, set_field, to);
    gst_structure_set(to, "elements", GST_TYPE_STRUCTURE, elements, NULL);
    gst_structure_free(elements);
    g_free(name);
}

static void attach_results(FoveaFilter *self, GstBuffer *buffer)
{
    GST_OBJECT_LOCK(self);
    const gboolean post = self->post, post_values = self->post_values;
    const double score = self->score;
    GST_OBJECT_UNLOCK(self);
    GstStructure *found = describe(self, buffer, score, TRUE);
    attach(self, buffer, found);
    gst_structure_free(found);
    foveafilter_found_attach(&self->found, GST_ELEMENT(self), (guint)self->video.width,
                             (guint)self->video.height, score, buffer);
    if (post)
        gst_element_post_message(
            GST_ELEMENT(self),
            gst_message_new_element(GST_OBJECT(self), describe(self, buffer, score, post_values)));
}

/* Runs the model on a frame: on `picture` if that is not NULL, else on the mapped pixels. */
static fovea_status run_pixels(FoveaFilter *self, const fovea_external_image *picture,
                               const GstVideoFrame *video)
{
    fovea_frame frame = {.pixels = {NULL}};
    if (picture)
        return fovea_run_external_image(self->plan, picture, NULL, self->results.out,
                                        self->results.count);
    const fovea_status status = foveafilter_frames_pixels(&self->frames, video, &frame);
    if (status != FOVEA_OK)
        return status;
    return fovea_run(self->plan, &frame, self->results.out, self->results.count);
}

static GstFlowReturn run(FoveaFilter *self, const fovea_external_image *picture,
                         const GstVideoFrame *video)
{
    if (!foveafilter_results_begin(&self->results)) {
        GST_ELEMENT_ERROR(
            self, RESOURCE, NO_SPACE_LEFT,
            ("not enough memory for the outputs; use fewer outputs or a smaller size"), (NULL));
        return GST_FLOW_ERROR;
    }
    if (run_pixels(self, picture, video) != FOVEA_OK) {
        GST_ELEMENT_ERROR(self, STREAM, FAILED, ("%s", fovea_error()), (NULL));
        return GST_FLOW_ERROR;
    }
    GST_OBJECT_LOCK(self);
    const double mask_score = self->mask_score;
    GST_OBJECT_UNLOCK(self);
    foveafilter_found_look(&self->found, self->results.out, self->results.count, mask_score);
    return GST_FLOW_OK;
}

static GstFlowReturn run_mapped(FoveaFilter *self, GstBuffer *buffer)
{
    GstVideoFrame video;
    if (self->surfaces || !gst_video_frame_map(&video, &self->video, buffer, GST_MAP_READ)) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("the frame's memory does not have the size and layout of its caps; "
                           "correct the upstream element"),
                          (NULL));
        return GST_FLOW_ERROR;
    }
    const GstFlowReturn flow = run(self, NULL, &video);
    /* Unmapped first, because nothing can be attached to a buffer that is still mapped. */
    gst_video_frame_unmap(&video);
    return flow;
}

static GstFlowReturn transform_ip(GstBaseTransform *base, GstBuffer *buffer)
{
    FoveaFilter *self = FOVEA_FILTER(base);
    gboolean failed = FALSE;
    if (!self->plan)
        return GST_FLOW_NOT_NEGOTIATED;
    const fovea_external_image *picture =
        self->frames.info.buffer_size ? NULL
                                      : foveafilter_memory_find(&self->memory, buffer, &failed);
    if (failed) {
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", fovea_error()), (NULL));
        return GST_FLOW_ERROR;
    }
    const GstFlowReturn flow = picture ? run(self, picture, NULL) : run_mapped(self, buffer);
    foveafilter_results_written(&self->results);
    if (flow == GST_FLOW_OK)
        attach_results(self, buffer);
    foveafilter_results_end(&self->results);
    return flow;
}

/* ---- frames with padded rows ---- */

/* Passes downstream's answer on, as frames pass through. But the element itself always accepts
 * GstVideoMeta, so that upstream need not copy frames; if downstream does not accept it, frames are
 * packed. */
static gboolean propose_allocation(GstBaseTransform *base, GstQuery *decided, GstQuery *query)
{
    const gboolean answered = GST_BASE_TRANSFORM_CLASS(fovea_filter_parent_class)
                                  ->propose_allocation(base, decided, query);
    const gboolean understood =
        answered && gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    if (!understood)
        gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    FOVEA_FILTER(base)->packs = !understood;
    return TRUE;
}

static GstFlowReturn generate_output(GstBaseTransform *base, GstBuffer **out)
{
    FoveaFilter *self = FOVEA_FILTER(base);
    const GstFlowReturn flow =
        GST_BASE_TRANSFORM_CLASS(fovea_filter_parent_class)->generate_output(base, out);
    if (flow != GST_FLOW_OK || !*out || !self->packs || !self->mapped ||
        !foveafilter_frames_padded(&self->video, *out))
        return flow;
    GstBuffer *packed = foveafilter_frames_pack(&self->video, *out);
    if (!packed) {
        GST_ELEMENT_ERROR(self, RESOURCE, NO_SPACE_LEFT,
                          ("not enough memory for a frame; use smaller frames"), (NULL));
        return GST_FLOW_ERROR;
    }
    gst_buffer_unref(*out);
    *out = packed;
    return GST_FLOW_OK;
}

/* ---- the element ---- */

static void add_number(GObjectClass *class, guint id, const char *name, const char *nick,
                       const char *about, guint most, guint standard)
{
    g_object_class_install_property(
        class, id, g_param_spec_uint(name, nick, about, 0, most, standard, SETTING));
}

static void add_score(GObjectClass *class, guint id, const char *name, const char *nick,
                      const char *about, double standard)
{
    g_object_class_install_property(
        class, id,
        g_param_spec_double(name, nick, about, 0, 1, standard,
                            (GParamFlags)(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS)));
}

static void fovea_filter_class_init(FoveaFilterClass *class)
{
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseTransformClass *base = GST_BASE_TRANSFORM_CLASS(class);
    GstCaps *caps = gst_caps_from_string(CAPS);
    object->set_property = set_property;
    object->get_property = get_property;
    object->finalize = finalize;
    base->start = start;
    base->stop = stop;
    base->set_caps = set_caps;
    base->transform_ip = transform_ip;
    base->propose_allocation = propose_allocation;
    base->generate_output = generate_output;
    for (guint id = PROP_MODEL; id < G_N_ELEMENTS(texts); id++)
        g_object_class_install_property(object, id,
                                        g_param_spec_string(texts[id].name, texts[id].nick,
                                                            texts[id].about, texts[id].standard,
                                                            SETTING));
    add_number(
        object, PROP_THREADS, "threads", "Threads",
        "Number of worker threads, including the streaming thread; 0: one per performance core",
        1024, 0);
    add_number(object, PROP_TOP, "top-k", "Labels", "Number of best labels to report", 100, TOP);
    add_score(object, PROP_SCORE, "score", "Score", "Minimum score of boxes to attach", SCORE);
    add_score(object, PROP_MASK_SCORE, "mask-score", "Score of masks",
              "Minimum score of masks; 0: the model's usual one, 0.8 for EoMT and else 0.5", 0);
    g_object_class_install_property(
        object, PROP_POST,
        g_param_spec_boolean(
            "post-messages", "Post messages",
            "Whether results are posted on the bus; they are always attached to buffers", TRUE,
            (GParamFlags)(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS)));
    g_object_class_install_property(
        object, PROP_POST_VALUES,
        g_param_spec_boolean(
            "post-values", "Post values",
            "Whether messages contain the values of outputs and of masks, which may be megabytes",
            FALSE, (GParamFlags)(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS)));
    gst_element_class_add_pad_template(
        element, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
    gst_element_class_add_pad_template(
        element, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
    gst_element_class_set_static_metadata(
        element, "Fovea", "Filter/Analyzer/Video",
        "Runs a vision transformer on the frames that pass through", "The Fovea developers");
}

static void fovea_filter_init(FoveaFilter *self)
{
    self->device_id = g_strdup("cpu");
    self->compute = g_strdup("auto");
    self->mask_rule = g_strdup("auto");
    self->top = TOP;
    self->score = SCORE;
    self->post = TRUE;
    gst_base_transform_set_in_place(GST_BASE_TRANSFORM(self), TRUE);
}

static gboolean init(GstPlugin *plugin)
{
    static const gchar *no_tags[] = {NULL};
    GST_DEBUG_CATEGORY_INIT(foveafilter_debug, NAME, 0, "Fovea's element");
    gst_meta_register_custom(NAME, no_tags, NULL, NULL, NULL);
    return gst_element_register(plugin, NAME, GST_RANK_NONE, FOVEA_TYPE_FILTER);
}

#define PACKAGE "fovea"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, fovea, "Vision transformers on video", init,
                  FOVEA_VERSION, "Apache 2.0", "Fovea", "fovea")
