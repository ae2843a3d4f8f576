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
    if (!about.boxes && !about.masks)
        return NULL;
    static const char *const boxed[] = {"logits", "pred_scores", "pred_boxes", "pred_masks", NULL};
    static const char *const segmented[] = {"masks_queries_logits", "class_queries_logits", NULL};
    GPtrArray *names = g_ptr_array_new();
    for (gsize i = 0; (name = fovea_model_output(model, i)); i++)
        if (g_strv_contains(about.boxes ? boxed : segmented, name) ||
            (about.boxes && (g_str_has_prefix(name, "cls.") || g_str_has_prefix(name, "box."))))
            g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

gboolean foveafilter_found_open(Found *f, const fovea_model *model, fovea_plan *plan, int rule,
                                guint width, guint height)
{
    fovea_model_info about = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &about);
    *f = (Found){.model = model, .plan = plan, .width = width, .height = height};
    const gboolean boxes =
        about.boxes && has(plan, FOVEA_OUTPUT_BOXES) && has(plan, FOVEA_OUTPUT_BOX_CLASSES);
    if (boxes) {
        f->boxes = about.boxes;
        f->box = g_new0(fovea_detection, about.boxes);
    }
    if (about.masks && has(plan, FOVEA_OUTPUT_MASKS) &&
        (boxes || has(plan, FOVEA_OUTPUT_MASK_CLASSES))) {
        f->masks = boxes ? about.boxes : about.masks;
        f->mask = g_new0(fovea_mask, f->masks);
        f->rule = rule >= 0 ? (fovea_mask_rule)rule
                  : boxes   ? FOVEA_MASKS_INSTANCE
                            : FOVEA_MASKS_PANOPTIC;
        f->maps = foveafilter_pool_open(sizeof(guint16) * width * height);
        if (!f->maps)
            return FALSE;
    }
    if (about.keypoints && has(plan, FOVEA_OUTPUT_KEYPOINTS)) {
        f->points = about.keypoints;
        f->point = g_new0(fovea_keypoint, about.keypoints);
    }
    return TRUE;
}

void foveafilter_found_close(Found *f)
{
    gst_clear_buffer(&f->map);
    foveafilter_pool_close(f->maps);
    g_free(f->box);
    g_free(f->mask);
    g_free(f->point);
    *f = (Found){NULL};
}

/* Rounds a coordinate to whole pixels, clipped to a side of the frame. */
static guint whole(float at, guint side)
{
    return (guint)(CLAMP((double)at, 0, side) + 0.5);
}

typedef struct Place {
    guint x, y, width, height;
} Place;

static Place place_of(const float edges[4], guint width, guint height)
{
    const guint x = whole(edges[0], width), y = whole(edges[1], height);
    const guint right = whole(edges[2], width), bottom = whole(edges[3], height);
    return (Place){x, y, right - x, bottom - y};
}

static Place place_of_box(const fovea_detection *d, guint width, guint height)
{
    return place_of((const float[]){d->x1, d->y1, d->x2, d->y2}, width, height);
}

static Place place_of_mask(const fovea_mask *m, guint width, guint height)
{
    return place_of((const float[]){m->x1, m->y1, m->x2, m->y2}, width, height);
}

static const char *label_of(const Found *f, guint class)
{
    const char *label = fovea_model_label(f->model, class);
    return label ? label : "";
}

static void tell_boxes(const Found *f, guint width, guint height, double least, GstStructure *to)
{
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    for (gsize k = 0; k < f->found_boxes && (double)f->box[k].score >= least; k++) {
        const fovea_detection *d = &f->box[k];
        const Place at = place_of_box(d, width, height);
        char field[sizeof "box-4294967295"];
        g_snprintf(field, sizeof field, "box-%u", (guint)k);
        foveafilter_add(to, field, &list,
                        gst_structure_new("box", "class", G_TYPE_UINT, d->label, "label",
                                          G_TYPE_STRING, label_of(f, d->label), "score",
                                          G_TYPE_DOUBLE, (double)d->score, "x", G_TYPE_UINT, at.x,
                                          "y", G_TYPE_UINT, at.y, "width", G_TYPE_UINT, at.width,
                                          "height", G_TYPE_UINT, at.height, NULL));
    }
    gst_structure_take_value(to, "boxes", &list);
}

static void tell_masks(const Found *f, guint width, guint height, GstStructure *to)
{
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    for (gsize k = 0; k < f->found_masks; k++) {
        const fovea_mask *m = &f->mask[k];
        const Place at = place_of_mask(m, width, height);
        char field[sizeof "mask-4294967295"];
        g_snprintf(field, sizeof field, "mask-%u", (guint)k);
        foveafilter_add(to, field, &list,
                        gst_structure_new("mask", "number", G_TYPE_UINT, (guint)k + 1, "class",
                                          G_TYPE_UINT, m->label, "label", G_TYPE_STRING,
                                          label_of(f, m->label), "score", G_TYPE_DOUBLE,
                                          (double)m->score, "area", G_TYPE_UINT64, (guint64)m->area,
                                          "x", G_TYPE_UINT, at.x, "y", G_TYPE_UINT, at.y, "width",
                                          G_TYPE_UINT, at.width, "height", G_TYPE_UINT, at.height,
                                          NULL));
    }
    gst_structure_take_value(to, "masks", &list);
}

static void tell_map(const Found *f, GstStructure *to)
{
    GstStructure *map =
        gst_structure_new("mask-map", "width", G_TYPE_UINT, f->width, "height", G_TYPE_UINT,
                          f->height, "values", GST_TYPE_BUFFER, f->map, NULL);
    gst_structure_set(to, "mask-map", GST_TYPE_STRUCTURE, map, NULL);
    gst_structure_free(map);
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

/* Finds masks, and writes the number of each pixel's mask to a new map. */
static void look_for_masks(Found *f, const fovea_output *out, gsize n, double least)
{
    fovea_mask_options options = FOVEA_MASK_OPTIONS_INIT;
    GstMapInfo map;
    options.rule = f->rule;
    options.threshold = (float)least;
    f->found_masks = 0;
    gst_clear_buffer(&f->map); /* from here on, the pool may use it again */
    if (!f->mask || gst_buffer_pool_acquire_buffer(f->maps, &f->map, NULL) != GST_FLOW_OK ||
        !gst_buffer_map(f->map, &map, GST_MAP_WRITE))
        return;
    if (fovea_masks(f->plan, out, n, &options, f->mask, f->masks, &f->found_masks,
                    (guint16 *)(gpointer)map.data, map.size / sizeof(guint16)) != FOVEA_OK)
        f->found_masks = 0;
    gst_buffer_unmap(f->map, &map);
}

void foveafilter_found_look(Found *f, const fovea_output *out, gsize n, double least_mask)
{
    look_for_masks(f, out, n, least_mask);
    if (!f->box || fovea_detections(f->plan, out, n, f->box, f->boxes, &f->found_boxes) != FOVEA_OK)
        f->found_boxes = 0;
    if (!f->point ||
        fovea_keypoints(f->plan, out, n, f->point, f->points, &f->found_points) != FOVEA_OK)
        f->found_points = 0;
}

void foveafilter_found_describe(const Found *f, guint width, guint height, double least,
                                gboolean values, GstStructure *to)
{
    if (f->box)
        tell_boxes(f, width, height, least, to);
    if (f->mask)
        tell_masks(f, width, height, to);
    if (f->map && values)
        tell_map(f, to);
    if (f->point)
        tell_points(f, to);
}

/* Attaches a region with a parameter of the name `kind`, and returns the parameter. */
static GstStructure *add_region(const Found *f, GstElement *from, GstBuffer *buffer,
                                const char *kind, Place at, guint class, float score)
{
    char *element = gst_element_get_name(from);
    const char *label = label_of(f, class);
    char number[sizeof "class-4294967295"];
    g_snprintf(number, sizeof number, "class-%u", class);
    GstVideoRegionOfInterestMeta *meta = gst_buffer_add_video_region_of_interest_meta(
        buffer, *label ? label : number, at.x, at.y, at.width, at.height);
    GstStructure *s =
        gst_structure_new(kind, "class", G_TYPE_UINT, class, "label", G_TYPE_STRING, label, "score",
                          G_TYPE_DOUBLE, (double)score, "element", G_TYPE_STRING, element, NULL);
    gst_video_region_of_interest_meta_add_param(meta, s);
    g_free(element);
    return s;
}

void foveafilter_found_attach(const Found *f, GstElement *from, guint width, guint height,
                              double least, GstBuffer *buffer)
{
    for (gsize k = 0; k < f->found_boxes && (double)f->box[k].score >= least; k++) {
        const fovea_detection *d = &f->box[k];
        add_region(f, from, buffer, "detection", place_of_box(d, width, height), d->label,
                   d->score);
    }
    for (gsize k = 0; k < f->found_masks; k++) {
        const fovea_mask *m = &f->mask[k];
        GstStructure *s = add_region(f, from, buffer, "mask", place_of_mask(m, width, height),
                                     m->label, m->score);
        gst_structure_set(s, "number", G_TYPE_UINT, (guint)k + 1, "area", G_TYPE_UINT64,
                          (guint64)m->area, NULL);
    }
}
