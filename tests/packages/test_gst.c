/* test_gst.c: the GStreamer element: what it attaches and posts is what the library gives for the
 * same bytes, in every format; video passes untouched; caps may change; what cannot be is an error
 * on the bus; a frame makes the library allocate nothing.
 *
 *   test_gst
 *   test_gst surfaces      NVIDIA's, on the emulated device that FOVEA_CUDA names
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gst/allocators/gstdmabuf.h>
#include <gst/check/gstharness.h>
#include <gst/video/video.h>
#include <unistd.h>

#include <fovea/fovea.h>

#include "cuda/cuda_nvbuf.h"

#define MODEL TEST_DATA "/golden/models/vit-01" /* 64 x 64 pixels, 10 classes */

static const struct format {
    const char *name;
    fovea_format format;
} formats[] = {
    {"RGB", FOVEA_FORMAT_RGB8},  {"BGR", FOVEA_FORMAT_BGR8},  {"GRAY8", FOVEA_FORMAT_GRAY8},
    {"NV12", FOVEA_FORMAT_NV12}, {"YUY2", FOVEA_FORMAT_YUYV},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static GstCaps *caps_of(const char *format, int width, int height)
{
    return gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format, "width", G_TYPE_INT,
                               width, "height", G_TYPE_INT, height, "framerate", GST_TYPE_FRACTION,
                               30, 1, NULL);
}

static GstHarness *harness(const char *properties)
{
    char *launch = g_strdup_printf("foveafilter model=%s threads=1 %s", MODEL, properties);
    GstHarness *h = gst_harness_new_parse(launch);
    g_free(launch);
    return h;
}

static GstBuffer *frame_of(const GstVideoInfo *info, guint8 seed)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, info->size, NULL);
    GstMapInfo map;
    assert_true(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
    for (gsize i = 0; i < map.size; i++)
        map.data[i] = (guint8)(i * 37 + i / 251 * 11 + seed);
    gst_buffer_unmap(buffer, &map);
    GST_BUFFER_PTS(buffer) = seed * GST_MSECOND;
    return buffer;
}

/* What the library gives for the frame. */
static void ask_library(float *out, size_t room, const GstVideoInfo *info, GstBuffer *buffer,
                        fovea_format format, fovea_compute compute, const char *output)
{
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    GstVideoFrame video;
    fovea_device_options one = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    one.threads = 1;
    assert_int_equal(fovea_device_open(&device, "cpu", &one), FOVEA_OK);
    assert_int_equal(fovea_model_load(&model, MODEL), FOVEA_OK);
    fovea_model_preprocess(model, &rule);
    options.frame.format = format;
    options.frame.width = (uint32_t)info->width;
    options.frame.height = (uint32_t)info->height;
    options.preprocess = &rule;
    options.compute = compute;
    options.outputs = &output;
    options.n_outputs = 1;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_true(gst_video_frame_map(&video, info, buffer, GST_MAP_READ));
    fovea_frame frame = {.pixels = {NULL}};
    for (guint i = 0; i < GST_VIDEO_FRAME_N_PLANES(&video); i++) {
        frame.pixels[i] = GST_VIDEO_FRAME_PLANE_DATA(&video, i);
        frame.stride[i] = (size_t)GST_VIDEO_FRAME_PLANE_STRIDE(&video, i);
    }
    const fovea_output into = {out, room * sizeof *out};
    assert_int_equal(fovea_run(plan, &frame, &into, 1), FOVEA_OK);
    gst_video_frame_unmap(&video);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

/* ---- what is in a structure ---- */

/* Item `i` of a list, which is the field `name`, too. */
static const GstStructure *item(const GstStructure *s, const char *list, guint i, const char *name)
{
    const GValue *all = gst_structure_get_value(s, list), *alone = gst_structure_get_value(s, name);
    assert_non_null(all);
    assert_true(i < gst_value_list_get_size(all));
    assert_true(gst_structure_has_field_typed(s, name, GST_TYPE_STRUCTURE));
    const GstStructure *out = gst_value_get_structure(gst_value_list_get_value(all, i));
    assert_true(gst_structure_is_equal(gst_value_get_structure(alone), out));
    return out;
}

static const GstStructure *attached(GstBuffer *buffer)
{
    GstCustomMeta *meta = gst_buffer_get_custom_meta(buffer, "foveafilter");
    assert_non_null(meta);
    return gst_custom_meta_get_structure(meta);
}

static void same_values(const GstStructure *output, const float *want, size_t n)
{
    GstBuffer *values;
    GstMapInfo map;
    assert_true(gst_structure_get(output, "values", GST_TYPE_BUFFER, &values, NULL));
    assert_true(gst_buffer_map(values, &map, GST_MAP_READ));
    assert_int_equal(map.size, n * sizeof *want);
    assert_memory_equal(map.data, want, map.size);
    gst_buffer_unmap(values, &map);
    gst_buffer_unref(values);
}

static void labels_follow(const GstStructure *s, const float *logits, guint n)
{
    double last = 1;
    for (guint i = 0; i < 3; i++) {
        guint class;
        double score;
        char *field = g_strdup_printf("label-%u", i);
        const GstStructure *label = item(s, "labels", i, field);
        g_free(field);
        assert_true(gst_structure_get(label, "class", G_TYPE_UINT, &class, "score", G_TYPE_DOUBLE,
                                      &score, NULL));
        assert_true(class < n && score > 0 && score <= last);
        guint better = 0;
        for (guint k = 0; k < n; k++)
            better += logits[k] > logits[class];
        assert_int_equal(better, i);
        char *name = g_strdup_printf("LABEL_%u", class);
        assert_string_equal(gst_structure_get_string(label, "label"), name);
        g_free(name);
        last = score;
    }
}

/* ---- tests ---- */

/* Pushes a frame and pulls it, untouched. */
static GstBuffer *pass(GstHarness *h, GstBuffer *buffer)
{
    GstMapInfo sent, got;
    GstBuffer *copy = gst_buffer_copy_deep(buffer);
    assert_int_equal(gst_harness_push(h, buffer), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(h);
    assert_non_null(out);
    assert_true(gst_buffer_map(copy, &sent, GST_MAP_READ));
    assert_true(gst_buffer_map(out, &got, GST_MAP_READ));
    assert_int_equal(got.size, sent.size);
    assert_memory_equal(got.data, sent.data, sent.size);
    assert_int_equal(GST_BUFFER_PTS(out), GST_BUFFER_PTS(copy));
    gst_buffer_unmap(copy, &sent);
    gst_buffer_unmap(out, &got);
    gst_buffer_unref(copy);
    return out;
}

static void one_frame(GstHarness *h, const struct format *f, fovea_compute compute, int width,
                      int height, guint8 seed)
{
    enum { CLASSES = 10 };
    GstVideoInfo info;
    float want[CLASSES];
    GstCaps *caps = caps_of(f->name, width, height);
    assert_true(gst_video_info_from_caps(&info, caps));
    gst_harness_set_src_caps(h, caps);
    GstBuffer *out = pass(h, frame_of(&info, seed));
    ask_library(want, CLASSES, &info, out, f->format, compute, "logits");
    const GstStructure *s = attached(out), *output = item(s, "outputs", 0, "logits");
    assert_string_equal(gst_structure_get_string(output, "name"), "logits");
    same_values(output, want, CLASSES);
    labels_follow(s, want, CLASSES);
    gst_buffer_unref(out);
}

/* In one pipeline: every other one is another plan. */
static void formats_and_caps_changes(void **state)
{
    (void)state;
    GstHarness *h = harness("top-k=3");
    for (int i = 0; i < 2 * FORMATS; i++)
        one_frame(h, &formats[i % FORMATS], FOVEA_COMPUTE_F32, 96 - 2 * i, 64 + i, (guint8)i);
    one_frame(h, &formats[3], FOVEA_COMPUTE_F32, 97, 65, 50); /* odd */
    gst_harness_teardown(h);
}

static void products_of_bfloat16(void **state)
{
    (void)state;
    GstHarness *h = harness("top-k=3 compute=bf16");
    one_frame(h, &formats[0], FOVEA_COMPUTE_BF16, 96, 64, 1);
    gst_harness_teardown(h);
}

static void features_on_the_bus(void **state)
{
    (void)state;
    enum { ROWS = 17, COLUMNS = 64 };
    static float want[ROWS * COLUMNS];
    GstVideoInfo info;
    GstHarness *h = harness("output=last_hidden_state");
    GstBus *bus = gst_bus_new();
    gst_element_set_bus(h->element, bus);
    GstCaps *caps = caps_of("NV12", 128, 72);
    assert_true(gst_video_info_from_caps(&info, caps));
    gst_harness_set_src_caps(h, caps);
    GstBuffer *out = pass(h, frame_of(&info, 7));
    ask_library(want, ROWS * COLUMNS, &info, out, FOVEA_FORMAT_NV12, FOVEA_COMPUTE_F32,
                "last_hidden_state");
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT);
    assert_non_null(message);
    const GstStructure *s = gst_message_get_structure(message);
    assert_true(gst_structure_has_name(s, "foveafilter"));
    guint64 timestamp;
    guint rows, across;
    assert_true(gst_structure_get_uint64(s, "timestamp", &timestamp));
    assert_int_equal(timestamp, 7 * GST_MSECOND);
    const GstStructure *output = item(s, "outputs", 0, "last_hidden_state");
    assert_true(gst_structure_get_uint(output, "rows", &rows));
    assert_true(gst_structure_get_uint(output, "grid-width", &across));
    assert_int_equal(rows, ROWS);
    assert_int_equal(across, 4);
    same_values(output, want, ROWS * COLUMNS);
    same_values(item(attached(out), "outputs", 0, "last_hidden_state"), want, ROWS * COLUMNS);
    gst_message_unref(message);
    gst_buffer_unref(out);
    gst_element_set_bus(h->element, NULL);
    gst_object_unref(bus);
    gst_harness_teardown(h);
}

/* Boxes of a detector are regions of the buffer, the best ones first; key points are told. */
static void boxes_and_points(void **state)
{
    (void)state;
    const GstStructure *detection, *s;
    GstVideoInfo info;
    gpointer at = NULL;
    GstMeta *meta;
    guint regions = 0;
    double score, before = 1, x;
    GstHarness *h = gst_harness_new_parse("foveafilter model=" TEST_DATA
                                          "/golden/models/rf-detr-02 threads=1 score=0.4");
    GstCaps *caps = caps_of("RGB", 96, 64);
    assert_true(gst_video_info_from_caps(&info, caps));
    gst_harness_set_src_caps(h, caps);
    GstBuffer *out = pass(h, frame_of(&info, 3));
    while ((meta = gst_buffer_iterate_meta_filtered(out, &at,
                                                    GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))) {
        GstVideoRegionOfInterestMeta *region = (GstVideoRegionOfInterestMeta *)meta;
        assert_true(region->x + region->w <= 96 && region->y + region->h <= 64);
        detection = gst_video_region_of_interest_meta_get_param(region, "detection");
        assert_non_null(detection);
        assert_true(gst_structure_get_double(detection, "score", &score));
        assert_true(score >= 0.4 && score <= before);
        assert_string_equal(g_quark_to_string(region->roi_type),
                            gst_structure_get_string(detection, "label"));
        before = score;
        regions++;
    }
    assert_true(regions > 0);
    gst_buffer_unref(out);
    gst_harness_teardown(h);

    h = gst_harness_new_parse("foveafilter model=synthetic:vitpose-s-simple threads=1");
    gst_harness_set_src_caps(h, caps_of("RGB", 96, 64));
    out = pass(h, frame_of(&info, 5));
    s = item(attached(out), "keypoints", 16, "keypoint-16");
    assert_string_equal(gst_structure_get_string(s, "name"), "right ankle");
    assert_true(gst_structure_get_double(s, "x", &x));
    gst_buffer_unref(out);
    gst_harness_teardown(h);
}

/* Where the values of a frame lie. */
static const void *place_of(GstBuffer *frame)
{
    GstBuffer *values;
    GstMapInfo map;
    assert_true(gst_structure_get(item(attached(frame), "outputs", 0, "logits"), "values",
                                  GST_TYPE_BUFFER, &values, NULL));
    assert_true(gst_buffer_map(values, &map, GST_MAP_READ));
    const void *place = map.data;
    gst_buffer_unmap(values, &map);
    gst_buffer_unref(values);
    return place;
}

/* And buffers that nobody holds any more are used again. */
static void many_frames_allocate_nothing(void **state)
{
    (void)state;
    enum { FRAMES = 300, WARM = 3 };
    GstVideoInfo info;
    fovea_memory first = FOVEA_MEMORY_INIT, now = FOVEA_MEMORY_INIT;
    const void *place = NULL;
    GstHarness *h = harness("");
    GstCaps *caps = caps_of("YUY2", 64, 64);
    assert_true(gst_video_info_from_caps(&info, caps));
    gst_harness_set_src_caps(h, caps);
    for (int i = 0; i < FRAMES; i++) {
        GstBuffer *out = pass(h, frame_of(&info, (guint8)i));
        place = place ? place : place_of(out);
        assert_ptr_equal(place_of(out), place);
        gst_buffer_unref(out);
        fovea_memory_query(&now);
        if (i == WARM)
            first = now;
        assert_true(i < WARM || now.allocations == first.allocations);
    }
    gst_harness_teardown(h);
}

/* ---- shared memory ---- */

enum { SHARED_W = 96, SHARED_H = 64, SHARED_STRIDE = 128, SHARED_AT = 4096 };

/* Memory with a file descriptor, as a camera's pool has it: rows that are not packed, behind
 * something else. */
static GstBuffer *shared_frame(GstAllocator *allocator)
{
    gsize planes[GST_VIDEO_MAX_PLANES] = {SHARED_AT, SHARED_AT + SHARED_STRIDE * SHARED_H};
    gint strides[GST_VIDEO_MAX_PLANES] = {SHARED_STRIDE, SHARED_STRIDE};
    const gsize size = planes[1] + SHARED_STRIDE * SHARED_H / 2;
    char path[] = "/tmp/fovea_gst_XXXXXX";
    const int fd = mkstemp(path);
    GstBuffer *buffer = gst_buffer_new();
    assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)size) == 0);
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, fd, size));
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12,
                                   SHARED_W, SHARED_H, 2, planes, strides);
    return buffer;
}

static void draw_shared(GstBuffer *buffer, guint seed)
{
    GstMapInfo map;
    assert_true(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
    for (gsize i = 0; i < map.size; i++)
        map.data[i] = (guint8)(i * (7 + seed) + i / 131 * 17);
    gst_buffer_unmap(buffer, &map);
}

/* A pool's buffers come again and again: after the first turn nothing is imported any more. */
static void run_shared(const char *caps_text)
{
    enum { BUFFERS = 3, FRAMES = 12, CLASSES = 10 };
    GstVideoInfo info;
    GstBuffer *buffer[BUFFERS];
    float want[CLASSES];
    uint64_t allocations = 0;
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstCaps *plain = caps_of("NV12", SHARED_W, SHARED_H);
    assert_true(gst_video_info_from_caps(&info, plain));
    gst_caps_unref(plain);
    GstHarness *h = harness("");
    gst_harness_set_src_caps_str(h, caps_text);
    for (int i = 0; i < BUFFERS; i++)
        buffer[i] = shared_frame(allocator);
    for (guint i = 0; i < FRAMES; i++) {
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        draw_shared(buffer[i % BUFFERS], i);
        GstBuffer *frame = gst_buffer_copy(buffer[i % BUFFERS]); /* of the same memory */
        fovea_memory_query(&before);
        assert_int_equal(gst_harness_push(h, frame), GST_FLOW_OK);
        fovea_memory_query(&after);
        allocations = after.allocations - before.allocations;
        assert_true(i < BUFFERS ? allocations > 0 : allocations == 0);
        GstBuffer *out = gst_harness_pull(h);
        ask_library(want, CLASSES, &info, out, FOVEA_FORMAT_NV12, FOVEA_COMPUTE_F32, "logits");
        same_values(item(attached(out), "outputs", 0, "logits"), want, CLASSES);
        gst_buffer_unref(out);
    }
    gst_harness_teardown(h);
    for (int i = 0; i < BUFFERS; i++) /* the pictures with them, after their device was closed */
        gst_buffer_unref(buffer[i]);
    gst_object_unref(allocator);
}

static void shared_memory(void **state)
{
    (void)state;
    const char *rest = "width=96,height=64,framerate=30/1";
    char *texts[] = {
        g_strdup_printf("video/x-raw(memory:DMABuf),format=NV12,%s", rest),
        g_strdup_printf("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,%s", rest),
        g_strdup_printf("video/x-raw,format=NV12,%s", rest), /* as v4l2src io-mode=dmabuf has it */
    };
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        fovea_memory_query(&before);
        run_shared(texts[i]);
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
        g_free(texts[i]);
    }
}

/* The CPU has no way to NVIDIA's surfaces, and says so. */
static void surfaces_are_cudas(void **state)
{
    (void)state;
    static char surface[256];
    GstHarness *h = harness("");
    GstBus *bus = gst_bus_new();
    gst_element_set_bus(h->element, bus);
    gst_harness_set_src_caps_str(
        h, "video/x-raw(memory:NVMM),format=NV12,width=96,height=64,framerate=30/1");
    GstBuffer *frame =
        gst_buffer_new_wrapped_full(0, surface, sizeof surface, 0, sizeof surface, NULL, NULL);
    assert_int_equal(gst_harness_push(h, frame), GST_FLOW_ERROR);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    GError *error;
    assert_non_null(message);
    gst_message_parse_error(message, &error, NULL);
    assert_non_null(strstr(error->message, "device cpu"));
    g_error_free(error);
    gst_message_unref(message);
    gst_element_set_bus(h->element, NULL);
    gst_object_unref(bus);
    gst_harness_teardown(h);
}

/* The logits of a frame on the CUDA device. */
static void logits_of(float out[10], const char *caps, GstBuffer *frame)
{
    GstBuffer *values;
    GstHarness *h = harness("device=cuda:0");
    gst_harness_set_src_caps_str(h, caps);
    assert_int_equal(gst_harness_push(h, frame), GST_FLOW_OK);
    GstBuffer *done = gst_harness_pull(h);
    assert_true(gst_structure_get(item(attached(done), "outputs", 0, "logits"), "values",
                                  GST_TYPE_BUFFER, &values, NULL));
    assert_int_equal(gst_buffer_extract(values, 0, out, 10 * sizeof *out), 10 * sizeof *out);
    gst_buffer_unref(values);
    gst_buffer_unref(done);
    gst_harness_teardown(h);
}

static void surfaces(void **state)
{
    (void)state;
    float want[10], got[10];
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstBuffer *shared = shared_frame(allocator);
    draw_shared(shared, 3);
    const gsize size = gst_buffer_get_size(shared);
    fv_nvbuf_params params = {
        .width = SHARED_W,
        .height = SHARED_H,
        .descriptor = (uint64_t)gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(shared, 0)),
        .size = (uint32_t)size,
        .planes = {.count = 2,
                   .pitch = {SHARED_STRIDE, SHARED_STRIDE},
                   .offset = {SHARED_AT, SHARED_AT + SHARED_STRIDE * SHARED_H}}};
    fv_nvbuf_surface surface = {.batch = 1, .filled = 1, .memory = 4, .list = &params};
    GstBuffer *frame =
        gst_buffer_new_wrapped_full(0, &surface, sizeof surface, 0, sizeof surface, NULL, NULL);
    logits_of(got, "video/x-raw(memory:NVMM),format=NV12,width=96,height=64,framerate=30/1", frame);
    assert_null(params.egl_image); /* went with the buffer */
    logits_of(want, "video/x-raw,format=NV12,width=96,height=64,framerate=30/1", shared);
    assert_memory_equal(got, want, sizeof want);
    gst_object_unref(allocator);
}

/* ---- errors ---- */

/* The first error of a pipeline. */
static void fails_on(const char *caps, const char *properties, const char *why)
{
    GError *error = NULL;
    char *launch = g_strdup_printf("videotestsrc num-buffers=2 ! "
                                   "video/x-raw,width=64,height=64,%s ! foveafilter %s ! fakesink",
                                   caps, properties);
    GstElement *pipeline = gst_parse_launch(launch, &error);
    assert_non_null(pipeline);
    assert_null(error);
    GstBus *bus = gst_element_get_bus(pipeline);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
    assert_non_null(message);
    assert_int_equal(GST_MESSAGE_TYPE(message), GST_MESSAGE_ERROR);
    gst_message_parse_error(message, &error, NULL);
    if (!strstr(error->message, why))
        fail_msg("'%s' does not say '%s'", error->message, why);
    assert_true(g_str_has_prefix(GST_MESSAGE_SRC_NAME(message), "foveafilter"));
    g_error_free(error);
    gst_message_unref(message);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
    g_free(launch);
}

static void fails(const char *properties, const char *why)
{
    fails_on("format=RGB", properties, why);
}

static void errors_reach_the_bus(void **state)
{
    (void)state;
    fails("", "no model");
    fails("model=/nowhere/at/all", "/nowhere/at/all");
    fails("model=" MODEL " device=cl:none-such", "none-such");
    fails("model=" MODEL " output=nothing", "nothing");
    fails("model=" MODEL " attention=wrong", "wrong");
    fails("model=" MODEL " size=12y", "12y");
    fails("model=" MODEL " compute=int4", "int4");
    fails("model=" MODEL " size=8", "patch");
    fails("model=" MODEL " size=65535x8", "patch");
    fails("model=" MODEL " size=65536x8", "1 to 65535");
    fails_on("format=NV12,colorimetry=bt2020", "model=" MODEL, "colorimetry=bt709");
    fails_on("format=YUY2,colorimetry=smpte240m", "model=" MODEL, "smpte240m");
}

/* No others of GStreamer's own are there: GST_PLUGIN_SYSTEM_PATH is the element's folder. */
static void load(const char *file)
{
    GError *error = NULL;
    GstPlugin *plugin = gst_plugin_load_file(file, &error);
    if (!plugin)
        g_error("%s", error->message);
    gst_object_unref(plugin);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_and_caps_changes),     cmocka_unit_test(products_of_bfloat16),
        cmocka_unit_test(features_on_the_bus),          cmocka_unit_test(boxes_and_points),
        cmocka_unit_test(many_frames_allocate_nothing), cmocka_unit_test(shared_memory),
        cmocka_unit_test(surfaces_are_cudas),           cmocka_unit_test(errors_reach_the_bus),
    };
    const struct CMUnitTest on_cuda[] = {cmocka_unit_test(surfaces)};
    gst_init(&argc, &argv);
    load(PLUGINS "/libgstcoreelements.so");
    load(PLUGINS "/libgstvideotestsrc.so");
    const int failed = argc > 1 ? cmocka_run_group_tests(on_cuda, NULL, NULL)
                                : cmocka_run_group_tests(tests, NULL, NULL);
    gst_deinit();
    return failed;
}
