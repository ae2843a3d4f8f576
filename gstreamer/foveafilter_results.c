/* foveafilter_results.c: see foveafilter_results.h. */
#include "foveafilter_results.h"

#include <string.h>

static gsize bytes_of(const fovea_output_info *info)
{
    return (gsize)info->rows * info->columns * sizeof(float);
}

GstBufferPool *foveafilter_pool_open(gsize bytes)
{
    GstBufferPool *pool = gst_buffer_pool_new();
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, NULL, (guint)bytes, 1, 0);
    if (gst_buffer_pool_set_config(pool, config) && gst_buffer_pool_set_active(pool, TRUE))
        return pool;
    gst_object_unref(pool);
    return NULL;
}

void foveafilter_pool_close(GstBufferPool *pool)
{
    if (!pool)
        return;
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
}

gboolean foveafilter_results_open(Results *r, const fovea_model *model, const fovea_plan *plan,
                                  guint top)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_model_info about = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &about);
    *r = (Results){.model = model, .top = top};
    while (fovea_plan_output(plan, r->count, &info))
        r->count++;
    r->result = g_new0(Result, r->count);
    r->out = g_new0(fovea_output, r->count);
    r->score = g_new0(float, about.classes);
    for (guint i = 0; i < r->count; i++) {
        r->result[i].info.struct_size = sizeof r->result[i].info;
        fovea_plan_output(plan, i, &r->result[i].info);
        r->result[i].labels = r->result[i].info.kind == FOVEA_OUTPUT_LOGITS && about.classes > 0;
        r->result[i].pool = foveafilter_pool_open(bytes_of(&r->result[i].info));
        if (!r->result[i].pool)
            return FALSE;
    }
    return TRUE;
}

void foveafilter_results_close(Results *r)
{
    for (guint i = 0; i < r->count; i++)
        foveafilter_pool_close(r->result[i].pool);
    g_free(r->result);
    g_free(r->out);
    g_free(r->score);
    *r = (Results){0};
}

gboolean foveafilter_results_begin(Results *r)
{
    for (guint i = 0; i < r->count; i++) {
        Result *one = &r->result[i];
        if (gst_buffer_pool_acquire_buffer(one->pool, &one->buffer, NULL) != GST_FLOW_OK)
            return FALSE;
        if (!gst_buffer_map(one->buffer, &one->map, GST_MAP_WRITE))
            return FALSE;
        r->out[i] = (fovea_output){one->map.data, one->map.size};
    }
    return TRUE;
}

void foveafilter_results_written(Results *r)
{
    for (guint i = 0; i < r->count; i++) {
        Result *one = &r->result[i];
        if (one->map.memory)
            gst_buffer_unmap(one->buffer, &one->map);
        memset(&one->map, 0, sizeof one->map);
    }
}

void foveafilter_results_end(Results *r)
{
    for (guint i = 0; i < r->count; i++)
        gst_clear_buffer(&r->result[i].buffer);
}

/* ---- results as structures ---- */

void foveafilter_add(GstStructure *to, const char *name, GValue *list, GstStructure *s)
{
    GValue value = G_VALUE_INIT;
    gst_structure_set(to, name, GST_TYPE_STRUCTURE, s, NULL);
    g_value_init(&value, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&value, s);
    gst_value_list_append_and_take_value(list, &value);
}

/* The class with the largest logit that is not in `taken`. */
static guint best(const float *logit, guint n, const guint *taken, guint used)
{
    guint at = n;
    for (guint i = 0; i < n; i++) {
        gboolean free_one = TRUE;
        for (guint k = 0; k < used; k++)
            free_one = free_one && taken[k] != i;
        if (free_one && (at == n || logit[i] > logit[at]))
            at = i;
    }
    return at;
}

static void tell_labels(const Results *r, const Result *one, GstStructure *to, GValue *list)
{
    enum { MOST = 100 };
    char field[sizeof "label-99"];
    GstMapInfo map;
    if (!gst_buffer_map(one->buffer, &map, GST_MAP_READ))
        return;
    const float *logit = (const float *)(gconstpointer)map.data;
    const guint n = one->info.columns;
    const guint count = MIN(MIN(r->top, n), MOST);
    guint taken[MOST];
    for (guint k = 0; k < count; k++)
        taken[k] = best(logit, n, taken, k);
    fovea_class_scores(r->model, logit, n, r->score);
    for (guint k = 0; k < count; k++) {
        const char *name = fovea_model_label(r->model, taken[k]);
        g_snprintf(field, sizeof field, "label-%u", k);
        foveafilter_add(to, field, list,
                        gst_structure_new("label", "class", G_TYPE_UINT, taken[k], "label",
                                          G_TYPE_STRING, name ? name : "", "score", G_TYPE_DOUBLE,
                                          (double)r->score[taken[k]], NULL));
    }
    gst_buffer_unmap(one->buffer, &map);
}

void foveafilter_results_describe(const Results *r, GstStructure *to, gboolean values)
{
    GValue labels = G_VALUE_INIT, outputs = G_VALUE_INIT;
    g_value_init(&labels, GST_TYPE_LIST);
    g_value_init(&outputs, GST_TYPE_LIST);
    for (guint i = 0; i < r->count; i++) {
        const Result *one = &r->result[i];
        const fovea_output_info *info = &one->info;
        GstStructure *s = gst_structure_new(
            "output", "name", G_TYPE_STRING, info->name, "rows", G_TYPE_UINT, info->rows, "columns",
            G_TYPE_UINT, info->columns, "prefix", G_TYPE_UINT, info->prefix, "grid-width",
            G_TYPE_UINT, info->grid_width, "grid-height", G_TYPE_UINT, info->grid_height, "stride",
            G_TYPE_UINT, info->stride, NULL);
        if (one->labels)
            tell_labels(r, one, to, &labels);
        if (values)
            gst_structure_set(s, "values", GST_TYPE_BUFFER, one->buffer, NULL);
        foveafilter_add(to, info->name, &outputs, s);
    }
    if (gst_value_list_get_size(&labels) > 0)
        gst_structure_take_value(to, "labels", &labels);
    else
        g_value_unset(&labels);
    gst_structure_take_value(to, "outputs", &outputs);
}
