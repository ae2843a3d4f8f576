/* masks.c: fovea_masks: makes records and a map from the masks of queries. */
#include <math.h>
#include <string.h>

#include "base/abi.h"
#include "models/model.h"
#include "run/boxes.h"
#include "run/sigmoid.h"
#include "run/task_output.h"

typedef struct mask_search {
    const fovea_plan *plan;
    const fovea_output *outs;
    bool detector; /* the queries have boxes, and a mask has the class and the score of its box */
    fv_task_output masks;
    fv_task_output classes; /* not of a detector */
    fv_extent extent;
    fv_side rows, grid_rows;  /* map the frame's rows to the picture's, and the picture's to the
                                 grid's. Of a detector, the picture is the grid itself */
    const fv_between *column; /* columns of the frame's pixels */
    fv_mask_scratch scratch;  /* its `columns` map the picture to the grid */
    uint32_t run_width;       /* columns of the picture */
    uint32_t kept;            /* number of kept queries in scratch.work */
    fovea_mask_options options;
    double overlap; /* options.overlap_threshold as the decimal number that was written */
    fovea_mask *found;
    size_t count;
    uint16_t *map; /* or NULL */
} mask_search;

/* Maps each of n places to itself. */
static fv_side same_places(uint32_t n)
{
    return (fv_side){.scale = 1, .end = n, .high = n};
}

static fovea_status begin(mask_search *s, const fovea_plan *p, const fovea_output *outs,
                          size_t n_outs)
{
    fv_extent run;
    FV_TRY(fv_task_output_check(p, outs, n_outs));
    s->plan = p;
    s->outs = outs;
    s->detector = p->model->detection != NULL;
    FV_TRY(fv_task_output_of(&s->masks, p, outs, FOVEA_OUTPUT_MASKS,
                             s->detector ? "pred_masks" : "masks_queries_logits"));
    if (!s->detector)
        FV_TRY(fv_task_output_of(&s->classes, p, outs, FOVEA_OUTPUT_MASK_CLASSES,
                                 "class_queries_logits"));
    const fv_grid *grid = &s->masks.grid;
    s->scratch = fv_result_scratch_masks(p);
    s->run_width = s->detector ? grid->width : p->info.width;
    FV_TRY(fv_extent_of(&s->extent, p, FOVEA_EXTENT_FRAME));
    FV_TRY(fv_extent_of(&run, p, FOVEA_EXTENT_PICTURE));
    const fv_side across = s->detector ? fv_extent_across(&s->extent, grid->width)
                                       : fv_extent_run_across(&s->extent, p);
    const fv_side columns =
        s->detector ? same_places(grid->width) : fv_extent_across(&run, grid->width);
    s->rows =
        s->detector ? fv_extent_down(&s->extent, grid->height) : fv_extent_run_down(&s->extent, p);
    s->grid_rows = s->detector ? same_places(grid->height) : fv_extent_down(&run, grid->height);
    s->column = fv_side_columns(fv_result_scratch_columns(p), &across, s->extent.width);
    fv_side_columns(s->scratch.columns, &columns, s->run_width);
    return FOVEA_OK;
}

/* ---- selection of queries ---- */

/* Returns the best of a query's first n classes, and sets *score to its probability among all
 * classes. */
static uint32_t best_class(float *score, const float *logits, uint32_t n, uint32_t all)
{
    uint32_t best = 0;
    double sum = 0;
    for (uint32_t k = 1; k < n; k++)
        best = logits[k] > logits[best] ? k : best;
    for (uint32_t k = 0; k < all; k++)
        sum += exp((double)logits[k] - logits[best]);
    *score = (float)(1 / sum);
    return best;
}

static void keep_queries(mask_search *s)
{
    const bool panoptic = s->options.rule == FOVEA_MASKS_PANOPTIC;
    const uint32_t all = s->classes.columns, nothing = all - 1;
    for (uint32_t q = 0; q < s->classes.rows; q++) {
        const float *logits = s->classes.data + (size_t)q * all;
        float score;
        const uint32_t label = best_class(&score, logits, panoptic ? all : nothing, all);
        /* The final score of an instance is at most this score, because this one is multiplied by
         * the mean probability of its pixels. */
        if (panoptic ? label != nothing && score > s->options.threshold
                     : score >= s->options.threshold)
            s->scratch.work[s->kept++] =
                (fv_query_mask){.query = q, .label = label, .score = score};
    }
}

/* Keeps the boxes of a detector, best first. Several boxes may have the same query. */
static fovea_status keep_boxes(mask_search *s)
{
    size_t n;
    FV_TRY(fv_detections_find(&n, s->plan, s->outs, NULL, 0));
    const fv_box_candidate *c = s->plan->run.results.candidates;
    for (; n-- > 0 && c->score > s->options.threshold; c++)
        s->scratch.work[s->kept++] =
            (fv_query_mask){.query = c->place, .label = c->label, .score = c->score};
    return FOVEA_OK;
}

/* ---- pixels ---- */

typedef void see_pixel(mask_search *s, uint32_t x, uint32_t y, const float *logit);

/* Interpolates the grid's rows at the height of a row of the frame, for the kept queries, then
 * enlarges the result to the picture's width. As in transformers, masks are first enlarged to the
 * picture and then to the frame, but here along one axis at a time. Those of a detector are
 * enlarged directly to the frame. */
static void blend_line(const mask_search *s, const fv_between *row)
{
    const size_t queries = s->masks.columns, line = s->masks.grid.width * queries;
    const fv_between up = fv_side_between(&s->grid_rows, row->first);
    const fv_between low = fv_side_between(&s->grid_rows, row->second);
    const float *a = s->masks.data + up.first * line, *b = s->masks.data + up.second * line;
    const float *c = s->masks.data + low.first * line, *d = s->masks.data + low.second * line;
    float *to = s->scratch.line;
    for (uint32_t x = 0; x < s->masks.grid.width;
         x++, a += queries, b += queries, c += queries, d += queries)
        for (uint32_t k = 0; k < s->kept; k++) {
            const uint32_t q = s->scratch.work[k].query;
            const float above = a[q] + up.part * (b[q] - a[q]);
            const float below = c[q] + low.part * (d[q] - c[q]);
            *to++ = above + row->part * (below - above);
        }
    to = s->scratch.wide;
    for (uint32_t x = 0; x < s->run_width; x++, to += s->kept) {
        const fv_between *at = &s->scratch.columns[x];
        fv_blend(to, s->scratch.line + (size_t)at->first * s->kept,
                 s->scratch.line + (size_t)at->second * s->kept, at->part, s->kept);
    }
}

/* Calls `see` with the logits of the kept queries at every pixel of the frame. */
static void see_all(mask_search *s, see_pixel *see)
{
    const fv_extent *e = &s->extent;
    for (uint32_t y = 0; s->kept > 0 && y < e->height; y++) {
        const fv_between row = fv_side_between(&s->rows, y);
        if (row.outside)
            continue;
        blend_line(s, &row);
        for (uint32_t x = 0; x < e->width; x++) {
            const fv_between *at = &s->column[x];
            if (at->outside)
                continue;
            fv_blend(s->scratch.pixel, s->scratch.wide + (size_t)at->first * s->kept,
                     s->scratch.wide + (size_t)at->second * s->kept, at->part, s->kept);
            see(s, x, y, s->scratch.pixel);
        }
    }
}

/* Returns the kept query that wins a pixel, and its probability that the pixel is inside. */
static uint32_t winner(const mask_search *s, const float *logit, float *probability)
{
    uint32_t best = 0;
    float most = -1;
    *probability = 0;
    for (uint32_t k = 0; k < s->kept; k++) {
        const float inside = fv_sigmoidf(logit[k]), x = s->scratch.work[k].score * inside;
        if (x > most) {
            most = x;
            best = k;
            *probability = inside;
        }
    }
    return best;
}

static void count_panoptic(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    float probability;
    (void)x;
    (void)y;
    for (uint32_t k = 0; k < s->kept; k++)
        s->scratch.work[k].inside += fv_sigmoidf(logit[k]) >= s->options.mask_threshold;
    fv_query_mask *w = &s->scratch.work[winner(s, logit, &probability)];
    w->won++;
    w->sum += probability >= s->options.mask_threshold;
}

/* Returns the first kept query whose mask has the pixel, or s->kept if there is none. */
static uint32_t first_inside(const mask_search *s, const float *logit)
{
    uint32_t k = 0;
    while (k < s->kept && !(logit[k] > 0))
        k++;
    return k;
}

static void count_first(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    const uint32_t k = first_inside(s, logit);
    (void)x;
    (void)y;
    if (k < s->kept)
        s->scratch.work[k].inside++;
}

static void count_instances(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    (void)x;
    (void)y;
    for (uint32_t k = 0; k < s->kept; k++)
        if (logit[k] > 0) {
            s->scratch.work[k].inside++;
            s->scratch.work[k].sum += fv_sigmoidf(logit[k]);
        }
}

static void add_pixel(mask_search *s, uint32_t id, uint32_t x, uint32_t y)
{
    if (id == 0)
        return;
    fovea_mask *m = &s->found[id - 1];
    const bool first = m->area++ == 0;
    m->x1 = first ? (float)x : fminf(m->x1, (float)x);
    m->y1 = first ? (float)y : fminf(m->y1, (float)y);
    m->x2 = first ? (float)x + 1 : fmaxf(m->x2, (float)x + 1);
    m->y2 = first ? (float)y + 1 : fmaxf(m->y2, (float)y + 1);
    if (s->map)
        s->map[(size_t)y * s->extent.width + x] = (uint16_t)id;
}

static void draw_panoptic(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    float probability;
    const uint32_t best = winner(s, logit, &probability);
    if (probability >= s->options.mask_threshold)
        add_pixel(s, s->scratch.work[best].id, x, y);
}

static void draw_first(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    const uint32_t k = first_inside(s, logit);
    if (k < s->kept)
        add_pixel(s, s->scratch.work[k].id, x, y);
}

/* Draws the masks of a detector from the last to the first, which has the highest score. */
static void draw_instances(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    for (uint32_t i = 0; i < s->kept; i++) {
        const uint32_t k = s->detector ? s->kept - 1 - i : i;
        if (logit[k] > 0)
            add_pixel(s, s->scratch.work[k].id, x, y);
    }
}

/* ---- records ---- */

static bool is_stuff(const fovea_mask_options *o, uint32_t label)
{
    for (size_t i = 0; i < o->n_stuff; i++)
        if (o->stuff[i] == label)
            return true;
    return false;
}

/* Returns whether the pixels of a query make a mask; for an instance also sets its final score. */
static bool makes_mask(const mask_search *s, fv_query_mask *w)
{
    if (s->detector)
        return w->inside > 0;
    if (s->options.rule == FOVEA_MASKS_PANOPTIC) /* w->won is the number of pixels that it wins;
                                                    sum > 0 means that some pixels are inside */
        return w->sum > 0 && (double)((float)w->won / (float)w->inside) > s->overlap;
    w->score *= (float)(w->sum / (w->inside + 1e-6));
    return w->inside > 0 && w->score >= s->options.threshold;
}

/* Returns the id of an earlier record of the same class if the class is stuff, else 0. */
static uint32_t joined(const mask_search *s, const fv_query_mask *w)
{
    if (s->detector || s->options.rule != FOVEA_MASKS_PANOPTIC || !is_stuff(&s->options, w->label))
        return 0;
    for (const fv_query_mask *before = s->scratch.work; before < w; before++)
        if (before->id && before->label == w->label)
            return before->id;
    return 0;
}

static void make_records(mask_search *s, size_t capacity)
{
    for (fv_query_mask *w = s->scratch.work; w < s->scratch.work + s->kept; w++) {
        if (!makes_mask(s, w))
            continue;
        w->id = joined(s, w);
        if (w->id || s->count == capacity)
            continue;
        s->found[s->count++] =
            (fovea_mask){.label = w->label, .score = w->score, .query = w->query};
        w->id = (uint32_t)s->count;
    }
}

/* Returns the decimal number of at most six digits after the point from which the float was made.
 * transformers compares shares of areas with a double, and such shares are often exactly equal to
 * the threshold. */
static double as_written(float x)
{
    const double decimal = rint((double)x * 1e6) / 1e6;
    return (float)decimal == x ? decimal : (double)x;
}

static fovea_status read_options(fovea_mask_options *own, const fovea_mask_options *options,
                                 bool detector)
{
    *own = (fovea_mask_options)FOVEA_MASK_OPTIONS_INIT;
    FV_TRY(FV_ABI_READ(*own, options, FOVEA_MASK_OPTIONS_INIT));
    FV_TRY(fv_known("rule of masks", (int)own->rule, FOVEA_MASKS_INSTANCE));
    float *const share[] = {&own->threshold, &own->mask_threshold, &own->overlap_threshold};
    const float usual[] = {detector ? 0.5f : 0.8f, 0.5f, 0.8f};
    static const char *const name[] = {"threshold", "mask_threshold", "overlap_threshold"};
    for (int i = 0; i < 3; i++) {
        if (!(*share[i] >= 0 && *share[i] <= 1))
            return fv_fail(FOVEA_EINVAL, "%s of masks is %g; it must be from 0 (the default) to 1",
                           name[i], (double)*share[i]);
        if (*share[i] == 0)
            *share[i] = usual[i];
    }
    return own->n_stuff == 0 ? FOVEA_OK : fv_require(own->stuff, "the classes of stuff");
}

fovea_status fovea_masks(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                         const fovea_mask_options *options, fovea_mask *masks, size_t capacity,
                         size_t *count, uint16_t *map, size_t map_capacity)
{
    mask_search s = {.found = masks, .map = map};
    FV_TRY(begin(&s, plan, outs, n_outs));
    FV_TRY(read_options(&s.options, options, s.detector));
    s.overlap = as_written(s.options.overlap_threshold);
    FV_TRY(fv_require(count, "the pointer to the number of masks"));
    if (capacity > 0)
        FV_TRY(fv_require(masks, "the pointer to the masks"));
    const size_t pixels = (size_t)s.extent.width * s.extent.height;
    const bool panoptic = s.options.rule == FOVEA_MASKS_PANOPTIC;
    see_pixel *const count_pixel = !panoptic    ? count_instances
                                   : s.detector ? count_first
                                                : count_panoptic;
    see_pixel *const draw_pixel = !panoptic    ? draw_instances
                                  : s.detector ? draw_first
                                               : draw_panoptic;
    if (map) {
        FV_TRY(fv_task_output_capacity("pixels", map_capacity, pixels));
        memset(map, 0, pixels * sizeof *map);
    }
    if (s.detector)
        FV_TRY(keep_boxes(&s));
    else
        keep_queries(&s);
    see_all(&s, count_pixel);
    make_records(&s, capacity < UINT16_MAX ? capacity : UINT16_MAX);
    if (s.count > 0)
        see_all(&s, draw_pixel);
    *count = s.count;
    return FOVEA_OK;
}

fovea_status fovea_mask_pixels(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                               uint32_t query, uint8_t *inside, size_t capacity)
{
    mask_search s = {0};
    FV_TRY(begin(&s, plan, outs, n_outs));
    FV_TRY(fv_require(inside, "the map"));
    FV_TRY(fv_task_output_capacity("pixels", capacity, (size_t)s.extent.width * s.extent.height));
    if (query >= s.masks.columns)
        return fv_fail(FOVEA_EINVAL,
                       "query %u does not exist; the model has %u queries, counted from 0", query,
                       s.masks.columns);
    s.scratch.work[0] = (fv_query_mask){.query = query};
    s.kept = 1;
    for (uint32_t y = 0; y < s.extent.height; y++) {
        const fv_between row = fv_side_between(&s.rows, y);
        blend_line(&s, &row);
        for (uint32_t x = 0; x < s.extent.width; x++) {
            const fv_between *at = &s.column[x];
            const float a = s.scratch.wide[at->first], b = s.scratch.wide[at->second];
            *inside++ = !row.outside && !at->outside && a + at->part * (b - a) > 0;
        }
    }
    return FOVEA_OK;
}
