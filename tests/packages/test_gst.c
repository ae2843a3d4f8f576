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

/* The folder may contain any characters: pipeline descriptions use IN_QUOTES. */
#define MODEL TEST_DATA "/golden/models/vit-01" /* 64 x 64 pixels, 10 classes */
#define IN_QUOTES "\"" MODEL "\""

static const struct format {
    const char *name;
    fovea_layout layout;
} formats[] = {
    {"RGB", FOVEA_LAYOUT_RGB24},         {"BGR", FOVEA_LAYOUT_BGR24},
    {"GRAY8", FOVEA_LAYOUT_GRAY},        {"NV12", FOVEA_LAYOUT_NV12},
    {"YUY2", FOVEA_LAYOUT_YUYV422},      {"I420", FOVEA_LAYOUT_I420},
    {"YV12", FOVEA_LAYOUT_YV12},         {"NV21", FOVEA_LAYOUT_NV21},
    {"UYVY", FOVEA_LAYOUT_UYVY422},      {"YVYU", FOVEA_LAYOUT_YVYU422},
    {"Y42B", FOVEA_LAYOUT_I422},         {"Y444", FOVEA_LAYOUT_I444},
    {"Y41B", FOVEA_LAYOUT_I411},         {"NV16", FOVEA_LAYOUT_NV16},
    {"NV24", FOVEA_LAYOUT_NV24},         {"RGBx", FOVEA_LAYOUT_RGB0},
    {"RGBA", FOVEA_LAYOUT_RGB0},         {"BGRx", FOVEA_LAYOUT_BGR0},
    {"BGRA", FOVEA_LAYOUT_BGR0},         {"xRGB", FOVEA_LAYOUT_0RGB},
    {"ARGB", FOVEA_LAYOUT_0RGB},         {"xBGR", FOVEA_LAYOUT_0BGR},
    {"ABGR", FOVEA_LAYOUT_0BGR},         {"GBR", FOVEA_LAYOUT_GBRP},
    {"GBR_10LE", FOVEA_LAYOUT_GBRP10},   {"GRAY16_LE", FOVEA_LAYOUT_GRAY16},
    {"I420_10LE", FOVEA_LAYOUT_I420P10}, {"I422_10LE", FOVEA_LAYOUT_I422P10},
    {"Y444_10LE", FOVEA_LAYOUT_I444P10}, {"I420_12LE", FOVEA_LAYOUT_I420P12},
    {"I422_12LE", FOVEA_LAYOUT_I422P12}, {"Y444_12LE", FOVEA_LAYOUT_I444P12},
    {"Y444_16LE", FOVEA_LAYOUT_I444P16}, {"P010_10LE", FOVEA_LAYOUT_P010},
    {"P012_LE", FOVEA_LAYOUT_P010},      {"P016_LE", FOVEA_LAYOUT_P010},
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
    char *launch = g_strdup_printf("foveafilter model=" IN_QUOTES " threads=1 %s", properties);
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

/* Computes the library's result for the frame. */
static void ask_library(float *out, size_t capacity, const GstVideoInfo *info, GstBuffer *buffer,
                        fovea_layout layout, fovea_yuv_matrix yuv, fovea_compute compute,
                        const char *output)
{
    fovea_layout_info about = FOVEA_LAYOUT_INFO_INIT;
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
    const uint32_t width = (uint32_t)info->width, height = (uint32_t)info->height;
    assert_int_equal(fovea_layout_query(layout, width, height, yuv, &about), FOVEA_OK);
    options.frame.format = about.format;
    options.frame.width = width;
    options.frame.height = height;
    options.yuv = yuv;
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
    const fovea_output into = {out, capacity * sizeof *out};
    void *converted = g_malloc(about.buffer_size + 1);
    assert_int_equal(fovea_layout_convert(&frame, &frame, layout, width, height, yuv, converted,
                                          about.buffer_size),
                     FOVEA_OK);
    assert_int_equal(fovea_run(plan, &frame, &into, 1), FOVEA_OK);
    g_free(converted);
    gst_video_frame_unmap(&video);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

/* ---- contents of a structure ---- */

/* Returns item `i` of a list. The field `name` contains the same item. */
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

/* Pushes a frame and pulls it; the frame must be unchanged. */
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
    const fovea_yuv_matrix yuv = f->layout == FOVEA_LAYOUT_GRAY || f->layout == FOVEA_LAYOUT_GRAY16
                                     ? FOVEA_YUV_601_FULL
                                     : FOVEA_YUV_601;
    ask_library(want, CLASSES, &info, out, f->layout, yuv, compute, "logits");
    const GstStructure *s = attached(out), *output = item(s, "outputs", 0, "logits");
    assert_string_equal(gst_structure_get_string(output, "name"), "logits");
    same_values(output, want, CLASSES);
    labels_follow(s, want, CLASSES);
    gst_buffer_unref(out);
}

/* Changes the caps within one pipeline; each change needs another plan. */
static void formats_and_caps_changes(void **state)
{
    (void)state;
    GstHarness *h = harness("top-k=3");
    for (int i = 0; i < 2 * FORMATS; i++)
        one_frame(h, &formats[i % FORMATS], FOVEA_COMPUTE_AUTO, 140 - i, 64 + i, (guint8)i);
    one_frame(h, &formats[3], FOVEA_COMPUTE_AUTO, 97, 65, 50); /* odd */
    gst_harness_teardown(h);
}

/* Tests types of products by name; other tests use the default. */
static void types_of_products(void **state)
{
    (void)state;
    GstHarness *h = harness("top-k=3 compute=bf16");
    one_frame(h, &formats[0], FOVEA_COMPUTE_BF16, 96, 64, 1);
    gst_harness_teardown(h);
    h = harness("top-k=3 compute=f32");
    one_frame(h, &formats[0], FOVEA_COMPUTE_F32, 96, 64, 1);
    gst_harness_teardown(h);
}

/* Tests the colour information in caps. */
static void colours(void **state)
{
    (void)state;
    enum { CLASSES = 10 };
    static const struct {
        const char *format, *more;
        int height;
        fovea_layout layout;
        fovea_yuv_matrix want;
    } cases[] = {
        {"NV12", "", 64, FOVEA_LAYOUT_NV12, FOVEA_YUV_601},
        {"NV12", "", 720, FOVEA_LAYOUT_NV12, FOVEA_YUV_709},
        {"NV12", "", 600, FOVEA_LAYOUT_NV12, FOVEA_YUV_601},
        {"NV12", "colorimetry=bt709", 64, FOVEA_LAYOUT_NV12, FOVEA_YUV_709},
        {"NV12", "colorimetry=bt601", 720, FOVEA_LAYOUT_NV12, FOVEA_YUV_601},
        {"NV12", "colorimetry=bt2020", 64, FOVEA_LAYOUT_NV12, FOVEA_YUV_2020},
        {"P010_10LE", "colorimetry=bt2100-pq", 64, FOVEA_LAYOUT_P010, FOVEA_YUV_2020},
        {"I420", "colorimetry=\"1:4:0:0\"", 720, FOVEA_LAYOUT_I420,
         FOVEA_YUV_601_FULL}, /* jpegdec */
        {"I420", "colorimetry=\"1:3:5:1\"", 64, FOVEA_LAYOUT_I420, FOVEA_YUV_709_FULL},
        {"Y42B", "colorimetry=\"1:0:0:0\"", 720, FOVEA_LAYOUT_I422, FOVEA_YUV_601_FULL},
        {"I420", "colorimetry=\"1:0:0:0\",chroma-site=mpeg2", 720, FOVEA_LAYOUT_I420,
         FOVEA_YUV_709_FULL},
        {"I420", "colorimetry=\"2:0:0:0\"", 720, FOVEA_LAYOUT_I420, FOVEA_YUV_709},
        {"GRAY8", "", 64, FOVEA_LAYOUT_GRAY, FOVEA_YUV_601_FULL},
        {"GRAY8", "colorimetry=\"2:4:0:0\"", 64, FOVEA_LAYOUT_GRAY, FOVEA_YUV_601},
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        float want[CLASSES];
        GstVideoInfo info;
        char *text = g_strdup_printf("video/x-raw,format=%s,width=64,height=%d,framerate=30/1%s%s",
                                     cases[i].format, cases[i].height, *cases[i].more ? "," : "",
                                     cases[i].more);
        GstCaps *caps = gst_caps_from_string(text);
        GstHarness *h = harness("");
        assert_true(gst_video_info_from_caps(&info, caps));
        gst_harness_set_src_caps(h, caps);
        GstBuffer *out = pass(h, frame_of(&info, (guint8)i));
        ask_library(want, CLASSES, &info, out, cases[i].layout, cases[i].want, FOVEA_COMPUTE_AUTO,
                    "logits");
        print_message("%s\n", text);
        same_values(item(attached(out), "outputs", 0, "logits"), want, CLASSES);
        gst_buffer_unref(out);
        gst_harness_teardown(h);
        g_free(text);
    }
}

/* Returns the only message on the bus of an element that ran the frame. */
static GstMessage *posted(GstHarness *h, const char *caps, guint8 seed)
{
    GstVideoInfo info;
    GstCaps *of = gst_caps_from_string(caps);
    GstBus *bus = gst_bus_new();
    gst_element_set_bus(h->element, bus);
    assert_true(gst_video_info_from_caps(&info, of));
    gst_harness_set_src_caps(h, of);
    gst_buffer_unref(pass(h, frame_of(&info, seed)));
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT);
    assert_non_null(message);
    assert_null(gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT));
    assert_true(gst_structure_has_name(gst_message_get_structure(message), "foveafilter"));
    gst_element_set_bus(h->element, NULL);
    gst_object_unref(bus);
    return message;
}

/* Messages contain the values if requested. */
static void features_on_the_bus(void **state)
{
    (void)state;
    enum { ROWS = 17, COLUMNS = 64 };
    static float want[ROWS * COLUMNS];
    static const char caps[] = "video/x-raw,format=NV12,width=128,height=72,framerate=30/1";
    GstVideoInfo info;
    GstCaps *of = gst_caps_from_string(caps);
    assert_true(gst_video_info_from_caps(&info, of));
    gst_caps_unref(of);
    GstBuffer *frame = frame_of(&info, 7);
    ask_library(want, ROWS * COLUMNS, &info, frame, FOVEA_LAYOUT_NV12, FOVEA_YUV_601,
                FOVEA_COMPUTE_AUTO, "last_hidden_state");
    gst_buffer_unref(frame);
    for (int values = 0; values < 2; values++) {
        GstHarness *h = harness(values ? "output=last_hidden_state post-values=true"
                                       : "output=last_hidden_state");
        GstMessage *message = posted(h, caps, 7);
        const GstStructure *s = gst_message_get_structure(message);
        guint64 timestamp;
        guint rows, across;
        assert_true(gst_structure_get_uint64(s, "timestamp", &timestamp));
        assert_int_equal(timestamp, 7 * GST_MSECOND);
        const GstStructure *output = item(s, "outputs", 0, "last_hidden_state");
        assert_true(gst_structure_get_uint(output, "rows", &rows));
        assert_true(gst_structure_get_uint(output, "grid-width", &across));
        assert_int_equal(rows, ROWS);
        assert_int_equal(across, 4);
        assert_int_equal(gst_structure_has_field(output, "values"), values);
        if (values)
            same_values(output, want, ROWS * COLUMNS);
        char *text = gst_structure_to_string(s);
        assert_true(values || strlen(text) < 1500);
        g_free(text);
        gst_message_unref(message);
        gst_harness_teardown(h);
    }
}

/* A detector's messages contain boxes, but no labels of the whole picture. */
static void boxes_on_the_bus(void **state)
{
    (void)state;
    guint x, width;
    GstHarness *h = gst_harness_new_parse("foveafilter model=\"" TEST_DATA
                                          "/golden/models/rf-detr-02\" threads=1 score=0.4");
    GstMessage *message = posted(h, "video/x-raw,format=RGB,width=96,height=64,framerate=30/1", 3);
    const GstStructure *s = gst_message_get_structure(message);
    const GstStructure *box = item(s, "boxes", 0, "box-0");
    assert_true(gst_structure_get(box, "x", G_TYPE_UINT, &x, "width", G_TYPE_UINT, &width, NULL));
    assert_true(x + width <= 96);
    assert_false(gst_structure_has_field(s, "labels"));
    assert_false(gst_structure_has_field(s, "label-0"));
    gst_message_unref(message);
    gst_harness_teardown(h);
}

/* With two elements in series both results are present, each in a structure of its own. */
static void two_in_series(void **state)
{
    (void)state;
    GstVideoInfo info;
    GstStructure *elements, *one;
    GstHarness *h = gst_harness_new_parse("foveafilter name=first model=" IN_QUOTES
                                          " threads=1 output=logits ! foveafilter name=second "
                                          "model=" IN_QUOTES " threads=1 output=last_hidden_state");
    GstCaps *caps = caps_of("I420", 96, 64);
    assert_true(gst_video_info_from_caps(&info, caps));
    gst_harness_set_src_caps(h, caps);
    GstBuffer *out = pass(h, frame_of(&info, 3));
    const GstStructure *s = attached(out);
    assert_true(gst_structure_has_field(s, "logits"));
    assert_true(gst_structure_has_field(s, "label-0"));
    assert_true(gst_structure_has_field(s, "last_hidden_state"));
    assert_true(gst_structure_get(s, "elements", GST_TYPE_STRUCTURE, &elements, NULL));
    assert_int_equal(gst_structure_n_fields(elements), 2);
    assert_true(gst_structure_get(elements, "first", GST_TYPE_STRUCTURE, &one, NULL));
    assert_true(gst_structure_has_field(one, "logits"));
    assert_false(gst_structure_has_field(one, "last_hidden_state"));
    item(one, "outputs", 0, "logits");
    gst_structure_free(one);
    assert_true(gst_structure_get(elements, "second", GST_TYPE_STRUCTURE, &one, NULL));
    assert_false(gst_structure_has_field(one, "logits"));
    item(one, "outputs", 0, "last_hidden_state");
    gst_structure_free(one);
    gst_structure_free(elements);
    gst_buffer_unref(out);
    gst_harness_teardown(h);
}

/* Upstream may pad rows, whatever follows the element. Elements without support for padding receive
 * packed rows.
 */
static void padded_rows(void **state)
{
    (void)state;
    enum { WIDTH = 90, HEIGHT = 64, STRIDE = 128, CLASSES = 10 };
    gsize planes[GST_VIDEO_MAX_PLANES] = {0, STRIDE * HEIGHT};
    gint strides[GST_VIDEO_MAX_PLANES] = {STRIDE, STRIDE};
    float want[CLASSES];
    GstVideoInfo info;
    GstCaps *caps = caps_of("NV12", WIDTH, HEIGHT);
    assert_true(gst_video_info_from_caps(&info, caps));
    for (int understood = 0; understood < 2; understood++) {
        GstHarness *h = harness("");
        if (understood)
            gst_harness_add_propose_allocation_meta(h, GST_VIDEO_META_API_TYPE, NULL);
        gst_harness_set_src_caps(h, gst_caps_ref(caps));
        GstQuery *query = gst_query_new_allocation(caps, FALSE);
        assert_true(gst_pad_peer_query(h->srcpad, query));
        assert_true(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL));
        assert_int_equal(gst_query_get_n_allocation_metas(query), 1);
        gst_query_unref(query);
        GstBuffer *plain = frame_of(&info, 9);
        GstBuffer *padded = gst_buffer_new_allocate(NULL, STRIDE * HEIGHT * 3 / 2, NULL);
        gst_buffer_add_video_meta_full(padded, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12,
                                       WIDTH, HEIGHT, 2, planes, strides);
        GST_BUFFER_PTS(padded) = 9 * GST_MSECOND;
        GstVideoFrame from, to;
        assert_true(gst_video_frame_map(&from, &info, plain, GST_MAP_READ));
        assert_true(gst_video_frame_map(&to, &info, padded, GST_MAP_WRITE));
        gst_video_frame_copy(&to, &from);
        gst_video_frame_unmap(&to);
        gst_video_frame_unmap(&from);
        ask_library(want, CLASSES, &info, plain, FOVEA_LAYOUT_NV12, FOVEA_YUV_601,
                    FOVEA_COMPUTE_AUTO, "logits");
        assert_int_equal(gst_harness_push(h, padded), GST_FLOW_OK);
        GstBuffer *out = gst_harness_pull(h);
        same_values(item(attached(out), "outputs", 0, "logits"), want, CLASSES);
        assert_int_equal(GST_BUFFER_PTS(out), 9 * GST_MSECOND);
        assert_int_equal(gst_buffer_get_video_meta(out) != NULL, understood);
        if (!understood) {
            GstMapInfo a, b;
            assert_true(gst_buffer_map(out, &a, GST_MAP_READ));
            assert_true(gst_buffer_map(plain, &b, GST_MAP_READ));
            assert_int_equal(a.size, b.size);
            for (int y = 0; y < HEIGHT; y++) /* bytes between rows are undefined */
                assert_memory_equal(a.data + y * info.stride[0], b.data + y * info.stride[0],
                                    WIDTH);
            gst_buffer_unmap(plain, &b);
            gst_buffer_unmap(out, &a);
        }
        gst_buffer_unref(out);
        gst_buffer_unref(plain);
        gst_harness_teardown(h);
    }
    gst_caps_unref(caps);
}

/* A detector's boxes are regions of the buffer, sorted by score; key points are in the message. */
static void boxes_and_points(void **state)
{
    (void)state;
    const GstStructure *detection, *s;
    GstVideoInfo info;
    gpointer at = NULL;
    GstMeta *meta;
    guint regions = 0;
    double score, before = 1, x;
    GstHarness *h = gst_harness_new_parse("foveafilter model=\"" TEST_DATA
                                          "/golden/models/rf-detr-02\" threads=1 score=0.4");
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

enum { MASK_WIDTH = 96, MASK_HEIGHT = 64, MASK_PIXELS = MASK_WIDTH * MASK_HEIGHT, MOST_MASKS = 32 };

/* A model that finds masks, and the outputs that they are made from. */
typedef struct masked {
    const char *model, *properties;
    fovea_mask_rule rule;
    float score;
    const char *output[4]; /* the last is NULL */
} masked;

/* Finds masks with the library, in the values of the element's outputs. */
static size_t ask_masks(fovea_mask *found, guint16 *pixels, const masked *m, const GstStructure *s)
{
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_device_options one = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_mask_options which = FOVEA_MASK_OPTIONS_INIT;
    GstBuffer *values[3];
    GstMapInfo map[3];
    fovea_output out[3];
    size_t n = 0, count;
    one.threads = 1;
    assert_int_equal(fovea_device_open(&device, "cpu", &one), FOVEA_OK);
    assert_int_equal(fovea_model_load(&model, m->model), FOVEA_OK);
    fovea_model_preprocess(model, &rule);
    options.frame.width = MASK_WIDTH;
    options.frame.height = MASK_HEIGHT;
    options.preprocess = &rule;
    options.outputs = m->output;
    for (; m->output[n]; n++) {
        const GstStructure *output =
            gst_value_get_structure(gst_structure_get_value(s, m->output[n]));
        assert_true(gst_structure_get(output, "values", GST_TYPE_BUFFER, &values[n], NULL));
        assert_true(gst_buffer_map(values[n], &map[n], GST_MAP_READ));
        out[n] = (fovea_output){map[n].data, map[n].size};
    }
    options.n_outputs = n;
    which.rule = m->rule;
    which.threshold = m->score;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_int_equal(
        fovea_masks(plan, out, n, &which, found, MOST_MASKS, &count, pixels, MASK_PIXELS),
        FOVEA_OK);
    for (size_t i = 0; i < n; i++) {
        gst_buffer_unmap(values[i], &map[i]);
        gst_buffer_unref(values[i]);
    }
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    return count;
}

static void same_map(const GstStructure *s, const guint16 *want)
{
    guint width, height;
    GstBuffer *values;
    GstMapInfo got;
    const GstStructure *map = gst_value_get_structure(gst_structure_get_value(s, "mask-map"));
    assert_true(gst_structure_get(map, "width", G_TYPE_UINT, &width, "height", G_TYPE_UINT, &height,
                                  "values", GST_TYPE_BUFFER, &values, NULL));
    assert_int_equal(width, MASK_WIDTH);
    assert_int_equal(height, MASK_HEIGHT);
    assert_true(gst_buffer_map(values, &got, GST_MAP_READ));
    assert_int_equal(got.size, MASK_PIXELS * sizeof *want);
    assert_memory_equal(got.data, want, got.size);
    gst_buffer_unmap(values, &got);
    gst_buffer_unref(values);
}

/* The record and the region of mask k. */
static void same_mask(const GstStructure *s, GstVideoRegionOfInterestMeta *region, guint k,
                      const fovea_mask *want)
{
    char name[sizeof "mask-4294967295"];
    guint number, label, x, y, width, height;
    guint64 area;
    double score;
    g_snprintf(name, sizeof name, "mask-%u", k);
    assert_true(gst_structure_get(
        item(s, "masks", k, name), "number", G_TYPE_UINT, &number, "class", G_TYPE_UINT, &label,
        "score", G_TYPE_DOUBLE, &score, "area", G_TYPE_UINT64, &area, "x", G_TYPE_UINT, &x, "y",
        G_TYPE_UINT, &y, "width", G_TYPE_UINT, &width, "height", G_TYPE_UINT, &height, NULL));
    assert_int_equal(number, k + 1);
    assert_int_equal(label, want->label);
    assert_true(score == (double)want->score);
    assert_int_equal(area, want->area);
    assert_true(x == want->x1 && y == want->y1 && x + width == want->x2 && y + height == want->y2);
    assert_true(region->x == x && region->y == y && region->w == width && region->h == height);
    const GstStructure *own = gst_video_region_of_interest_meta_get_param(region, "mask");
    assert_true(
        gst_structure_get(own, "number", G_TYPE_UINT, &number, "area", G_TYPE_UINT64, &area, NULL));
    assert_int_equal(number, k + 1);
    assert_int_equal(area, want->area);
}

/* Masks are those of the library: records, regions after those of boxes, and a map of pixels. */
static void masks(void **state)
{
    (void)state;
    static const masked cases[] = {{TEST_DATA "/golden/models/rf-detr-seg-01",
                                    "score=1 mask-score=0.1",
                                    FOVEA_MASKS_INSTANCE,
                                    0.1f,
                                    {"logits", "pred_boxes", "pred_masks"}},
                                   {TEST_DATA "/golden/models/rf-detr-seg-01",
                                    "score=0.1 mask-score=0.1 mask-rule=panoptic",
                                    FOVEA_MASKS_PANOPTIC,
                                    0.1f,
                                    {"logits", "pred_boxes", "pred_masks"}},
                                   {TEST_DATA "/golden/models/mavit-mask-rcnn-01",
                                    "score=0.1 mask-score=0.1",
                                    FOVEA_MASKS_INSTANCE,
                                    0.1f,
                                    {"pred_scores", "pred_boxes", "pred_masks"}},
                                   {TEST_DATA "/golden/models/eomt-masked-01",
                                    "mask-score=0.02",
                                    FOVEA_MASKS_PANOPTIC,
                                    0.02f,
                                    {"masks_queries_logits", "class_queries_logits"}},
                                   {TEST_DATA "/golden/models/eomt-masked-01",
                                    "",
                                    FOVEA_MASKS_PANOPTIC,
                                    0,
                                    {"masks_queries_logits", "class_queries_logits"}}};
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        static guint16 pixels[MASK_PIXELS];
        fovea_mask found[MOST_MASKS];
        GstVideoInfo info;
        GstMeta *meta;
        gpointer at = NULL;
        guint k = 0;
        char *launch = g_strdup_printf("foveafilter model=\"%s\" threads=1 compute=f32 %s",
                                       cases[i].model, cases[i].properties);
        GstHarness *h = gst_harness_new_parse(launch);
        GstCaps *caps = caps_of("RGB", MASK_WIDTH, MASK_HEIGHT);
        assert_true(gst_video_info_from_caps(&info, caps));
        gst_harness_set_src_caps(h, caps);
        GstBuffer *out = pass(h, frame_of(&info, 3));
        const GstStructure *s = attached(out);
        const size_t n = ask_masks(found, pixels, &cases[i], s);
        assert_true(n > 0 || cases[i].score == 0);
        assert_int_equal(gst_value_list_get_size(gst_structure_get_value(s, "masks")), n);
        same_map(s, pixels);
        while ((meta = gst_buffer_iterate_meta_filtered(
                    out, &at, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))) {
            GstVideoRegionOfInterestMeta *region = (GstVideoRegionOfInterestMeta *)meta;
            if (gst_video_region_of_interest_meta_get_param(region, "detection"))
                assert_int_equal(k, 0);
            else
                same_mask(s, region, k, &found[k]);
            k += gst_video_region_of_interest_meta_get_param(region, "mask") != NULL;
        }
        assert_int_equal(k, n);
        gst_buffer_unref(out);
        gst_harness_teardown(h);
        g_free(launch);
    }
}

/* Returns the address of the values in a field of a frame. */
static const void *place_of(GstBuffer *frame, const char *field)
{
    GstBuffer *values;
    GstMapInfo map;
    const GstStructure *s =
        gst_value_get_structure(gst_structure_get_value(attached(frame), field));
    assert_true(gst_structure_get(s, "values", GST_TYPE_BUFFER, &values, NULL));
    assert_true(gst_buffer_map(values, &map, GST_MAP_READ));
    const void *place = map.data;
    gst_buffer_unmap(values, &map);
    gst_buffer_unref(values);
    return place;
}

/* Buffers that nobody holds any more are reused. */
static void allocate_nothing(GstHarness *h, const char *field, int frames)
{
    enum { WARM = 3 };
    GstVideoInfo info;
    fovea_memory first = FOVEA_MEMORY_INIT, now = FOVEA_MEMORY_INIT;
    const void *place = NULL;
    GstCaps *caps = caps_of("YUY2", 64, 64);
    assert_true(gst_video_info_from_caps(&info, caps));
    gst_harness_set_src_caps(h, caps);
    for (int i = 0; i < frames; i++) {
        GstBuffer *out = pass(h, frame_of(&info, (guint8)i));
        place = place ? place : place_of(out, field);
        assert_ptr_equal(place_of(out, field), place);
        gst_buffer_unref(out);
        fovea_memory_query(&now);
        if (i == WARM)
            first = now;
        assert_true(i < WARM || now.allocations == first.allocations);
    }
    gst_harness_teardown(h);
}

static void many_frames_allocate_nothing(void **state)
{
    (void)state;
    allocate_nothing(harness(""), "logits", 300);
    allocate_nothing(gst_harness_new_parse("foveafilter model=\"" TEST_DATA
                                           "/golden/models/rf-detr-seg-01\" threads=1"),
                     "mask-map", 20);
}

/* ---- shared memory ---- */

enum { SHARED_W = 96, SHARED_H = 64, SHARED_STRIDE = 128, SHARED_AT = 4096 };

/* Returns memory with a file descriptor, like a camera's pool: an offset, and rows with gaps. */
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

/* Buffers of a pool recur: after the first round nothing is imported any more. */
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
        GstBuffer *frame = gst_buffer_copy(buffer[i % BUFFERS]); /* a buffer of the same memory */
        fovea_memory_query(&before);
        assert_int_equal(gst_harness_push(h, frame), GST_FLOW_OK);
        fovea_memory_query(&after);
        allocations = after.allocations - before.allocations;
        assert_true(i < BUFFERS ? allocations > 0 : allocations == 0);
        GstBuffer *out = gst_harness_pull(h);
        ask_library(want, CLASSES, &info, out, FOVEA_LAYOUT_NV12, FOVEA_YUV_601, FOVEA_COMPUTE_AUTO,
                    "logits");
        same_values(item(attached(out), "outputs", 0, "logits"), want, CLASSES);
        gst_buffer_unref(out);
    }
    gst_harness_teardown(h);
    for (int i = 0; i < BUFFERS; i++) /* frees the pictures, too, after their device was closed */
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
        g_strdup_printf("video/x-raw,format=NV12,%s",
                        rest), /* as v4l2src io-mode=dmabuf provides it */
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

/* The CPU does not support NVIDIA's surfaces and reports that. */
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

/* Computes the logits of a frame on the CUDA device. */
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
    assert_null(params.egl_image); /* unmapped together with the buffer */
    logits_of(want, "video/x-raw,format=NV12,width=96,height=64,framerate=30/1", shared);
    assert_memory_equal(got, want, sizeof want);
    gst_object_unref(allocator);
}

/* ---- errors ---- */

/* Checks the first error of a pipeline. */
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
    fails("model=" IN_QUOTES " device=cl:none-such", "none-such");
    fails("model=" IN_QUOTES " output=nothing", "nothing");
    fails("model=" IN_QUOTES " attention=wrong", "wrong");
    fails("model=" IN_QUOTES " size=12y", "12y");
    fails("model=" IN_QUOTES " compute=int4", "int4");
    fails("model=" IN_QUOTES " size=8", "patch");
    fails("model=" IN_QUOTES " size=65535x8", "patch");
    fails("model=" IN_QUOTES " size=65536x8", "1 to 65535");
    fails_on("format=NV12,colorimetry=smpte240m", "model=" IN_QUOTES, "colorimetry=bt709");
    fails_on("format=YUY2,colorimetry=smpte240m", "model=" IN_QUOTES, "smpte240m");
}

/* GST_PLUGIN_SYSTEM_PATH is the element's folder, so no other plugins of GStreamer are loaded. */
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
        cmocka_unit_test(formats_and_caps_changes),
        cmocka_unit_test(types_of_products),
        cmocka_unit_test(features_on_the_bus),
        cmocka_unit_test(boxes_and_points),
        cmocka_unit_test(boxes_on_the_bus),
        cmocka_unit_test(masks),
        cmocka_unit_test(two_in_series),
        cmocka_unit_test(padded_rows),
        cmocka_unit_test(colours),
        cmocka_unit_test(many_frames_allocate_nothing),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(surfaces_are_cudas),
        cmocka_unit_test(errors_reach_the_bus),
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
