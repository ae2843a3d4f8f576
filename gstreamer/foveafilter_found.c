/* foveafilter_found.c: see foveafilter_found.h. */
#include "foveafilter_found.h"

#include "foveafilter_results.h"

static gboolean has(const fovea_plan *plan, fovea_output_kind kind)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    for (gsize i = 0; fovea_plan_output(plan, i, &info); i++)
        if (info.kind == kind)
            return TRUE;
    return FALSE;
}

char **foveafilter_found_outputs(const fovea_model *model)
{
    fovea_model_info about = FOVEA_MODEL_INFO_INIT;
    const char *name;
    fovea_model_describe(model, &about);
    if (!about.boxes)
        return NULL;
    GPtrArray *names = g_ptr_array_new();
    for (gsize i = 0; (name = fovea_model_output(model, i)); i++)
        if (g_str_equal(name, "logits") || g_str_equal(name, "pred_boxes") ||
            g_str_equal(name, "pred_scores") || g_str_has_prefix(name, "cls.") ||
            g_str_has_prefix(name, "box."))
            g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

void foveafilter_found_open(Found *f, const fovea_model *model, fovea_plan *plan)
{
    fovea_model_info about = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &about);
    *f = (Found){.model = model, .plan = plan};
    if (about.boxes && has(plan, FOVEA_OUTPUT_BOXES) && has(plan, FOVEA_OUTPUT_BOX_CLASSES)) {
        f->boxes = about.boxes;
        f->box = g_new0(fovea_detection, about.boxes);
    }
    if (about.keypoints && has(plan, FOVEA_OUTPUT_KEYPOINTS)) {
        f->points = about.keypoints;
        f->point = g_new0(fovea_keypoint, about.keypoints);
    }
}

void foveafilter_found_close(Found *f)
{
    g_free(f->box);
    g_free(f->point);
    *f = (Found){NULL};
}

/* Rounds a coordinate to whole pixels, clipped to a side of the frame. */
static guint whole(float at, guint side)
{
    return (guint)(CLAMP((double)at, 0, side) + 0.5);
}

/* Of box `d`. */
typedef struct Place {
    guint x, y, width, height;
} Place;

static Place place_of(const fovea_detection *d, guint width, guint height)
{
    const guint x = whole(d->x1, width), y = whole(d->y1, height);
    const guint right = whole(d->x2, width), bottom = whole(d->y2, height);
    return (Place){x, y, right - x, bottom - y};
}

static const char *label_of(const Found *f, const fovea_detection *d)
{
    const char *label = fovea_model_label(f->model, d->label);
    return label ? label : "";
}

static void tell_boxes(const Found *f, guint width, guint height, double least, GstStructure *to)
{
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    for (gsize k = 0; k < f->found_boxes && (double)f->box[k].score >= least; k++) {
        const fovea_detection *d = &f->box[k];
        const Place at = place_of(d, width, height);
        char field[sizeof "box-4294967295"];
        g_snprintf(field, sizeof field, "box-%u", (guint)k);
        foveafilter_add(to, field, &list,
                        gst_structure_new("box", "class", G_TYPE_UINT, d->label, "label",
                                          G_TYPE_STRING, label_of(f, d), "score", G_TYPE_DOUBLE,
                                          (double)d->score, "x", G_TYPE_UINT, at.x, "y",
                                          G_TYPE_UINT, at.y, "width", G_TYPE_UINT, at.width,
                                          "height", G_TYPE_UINT, at.height, NULL));
    }
    gst_structure_take_value(to, "boxes", &list);
}

static void tell_points(const Found *f, GstStructure *to)
{
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    for (gsize k = 0; k < f->found_points; k++) {
        const fovea_keypoint *p = &f->point[k];
        const char *name = fovea_model_keypoint(f->model, (guint)k);
        char field[sizeof "keypoint-4294967295"];
        g_snprintf(field, sizeof field, "keypoint-%u", (guint)k);
        foveafilter_add(to, field, &list,
                        gst_structure_new("keypoint", "name", G_TYPE_STRING, name ? name : "", "x",
                                          G_TYPE_DOUBLE, (double)p->x, "y", G_TYPE_DOUBLE,
                                          (double)p->y, "score", G_TYPE_DOUBLE, (double)p->score,
                                          NULL));
    }
    gst_structure_take_value(to, "keypoints", &list);
}

void foveafilter_found_look(Found *f, const fovea_output *out, gsize n)
{
    if (!f->box || fovea_detections(f->plan, out, n, f->box, f->boxes, &f->found_boxes) != FOVEA_OK)
        f->found_boxes = 0;
    if (!f->point ||
        fovea_keypoints(f->plan, out, n, f->point, f->points, &f->found_points) != FOVEA_OK)
        f->found_points = 0;
}

void foveafilter_found_describe(const Found *f, guint width, guint height, double least,
                                GstStructure *to)
{
    if (f->box)
        tell_boxes(f, width, height, least, to);
    if (f->point)
        tell_points(f, to);
}

void foveafilter_found_attach(const Found *f, GstElement *from, guint width, guint height,
                              double least, GstBuffer *buffer)
{
    char *element = gst_element_get_name(from);
    for (gsize k = 0; k < f->found_boxes && (double)f->box[k].score >= least; k++) {
        const fovea_detection *d = &f->box[k];
        const Place at = place_of(d, width, height);
        const char *label = label_of(f, d);
        char number[sizeof "class-4294967295"];
        g_snprintf(number, sizeof number, "class-%u", d->label);
        GstVideoRegionOfInterestMeta *meta = gst_buffer_add_video_region_of_interest_meta(
            buffer, *label ? label : number, at.x, at.y, at.width, at.height);
        gst_video_region_of_interest_meta_add_param(
            meta, gst_structure_new("detection", "class", G_TYPE_UINT, d->label, "label",
                                    G_TYPE_STRING, label, "score", G_TYPE_DOUBLE, (double)d->score,
                                    "element", G_TYPE_STRING, element, NULL));
    }
    g_free(element);
}
