/* foveafilter_found.c: see foveafilter_found.h. */
#include "foveafilter_found.h"

static gboolean has(const fovea_plan *plan, fovea_kind kind)
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
            g_str_has_prefix(name, "cls.") || g_str_has_prefix(name, "box."))
            g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

void foveafilter_found_open(Found *f, const fovea_model *model, fovea_plan *plan)
{
    fovea_model_info about = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &about);
    *f = (Found){.model = model, .plan = plan, .info = FOVEA_PLAN_INFO_INIT};
    fovea_plan_query(plan, &f->info);
    if (about.boxes && has(plan, FOVEA_KIND_BOXES) && has(plan, FOVEA_KIND_BOX_CLASSES)) {
        f->boxes = about.boxes;
        f->box = g_new0(fovea_detection, about.boxes);
    }
    if (about.keypoints && has(plan, FOVEA_KIND_KEYPOINTS)) {
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

/* From the picture that was run to whole pixels of the frame. */
static guint placed(double at, double first, double scale, guint side)
{
    return (guint)(CLAMP(first + at * scale, 0, side) + 0.5);
}

static void attach_box(const Found *f, const fovea_detection *d, guint width, guint height,
                       GstBuffer *buffer)
{
    const fovea_plan_info *i = &f->info;
    const guint x = placed((double)d->x1, i->left, i->scale_x, width);
    const guint y = placed((double)d->y1, i->top, i->scale_y, height);
    const guint right = placed((double)d->x2, i->left, i->scale_x, width);
    const guint bottom = placed((double)d->y2, i->top, i->scale_y, height);
    const char *label = fovea_model_label(f->model, d->label);
    char number[sizeof "class-4294967295"];
    g_snprintf(number, sizeof number, "class-%u", d->label);
    GstVideoRegionOfInterestMeta *meta = gst_buffer_add_video_region_of_interest_meta(
        buffer, label ? label : number, x, y, right - x, bottom - y);
    gst_video_region_of_interest_meta_add_param(
        meta,
        gst_structure_new("detection", "class", G_TYPE_UINT, d->label, "label", G_TYPE_STRING,
                          label ? label : "", "score", G_TYPE_DOUBLE, (double)d->score, NULL));
}

static void tell_points(const Found *f, gsize n, GstStructure *to)
{
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    for (gsize k = 0; k < n; k++) {
        const fovea_keypoint *p = &f->point[k];
        const char *name = fovea_model_keypoint(f->model, (guint)k);
        char field[sizeof "keypoint-4294967295"];
        GValue value = G_VALUE_INIT;
        GstStructure *s = gst_structure_new(
            "keypoint", "name", G_TYPE_STRING, name ? name : "", "x", G_TYPE_DOUBLE, (double)p->x,
            "y", G_TYPE_DOUBLE, (double)p->y, "score", G_TYPE_DOUBLE, (double)p->score, NULL);
        g_snprintf(field, sizeof field, "keypoint-%u", (guint)k);
        gst_structure_set(to, field, GST_TYPE_STRUCTURE, s, NULL);
        g_value_init(&value, GST_TYPE_STRUCTURE);
        g_value_take_boxed(&value, s);
        gst_value_list_append_and_take_value(&list, &value);
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

void foveafilter_found_attach(const Found *f, guint width, guint height, double least,
                              GstBuffer *buffer, GstStructure *to)
{
    for (size_t i = 0; i < f->found_boxes && (double)f->box[i].score >= least; i++)
        attach_box(f, &f->box[i], width, height, buffer);
    if (f->point)
        tell_points(f, f->found_points, to);
}
