/* masks.c: fovea_masks: makes records and a map from the masks of queries, by the rules of EoMT or
 * of Mask2Former in transformers, and from the masks of an R-CNN's boxes. */
#include <math.h>
#include <string.h>

#include "base/abi.h"
#include "models/model.h"
#include "models/prompt_tokens.h"
#include "run/boxes.h"
#include "run/masks.h"
#include "run/region_masks.h"
#include "run/sigmoid.h"
#include "run/task_output.h"

typedef struct mask_search {
    const fovea_plan *plan;
    const fovea_output *outs;
    bool detector;   /* the queries have boxes, and a mask has the class and the score of its box */
    bool direct;     /* masks are enlarged directly to the frame, without a canvas */
    bool of_regions; /* masks are those of an R-CNN: each is over the cells of its box */
    fv_region_masks regions;
    fv_task_output masks;
    fv_task_output classes; /* not of a detector */
    fv_extent extent;
    /* map the frame's rows and columns to the canvas's, and the canvas's rows to the grid's */
    fv_side rows, columns, grid_rows;
    const fv_between *column; /* columns of the frame's pixels */
    fv_mask_scratch scratch;  /* its `columns` map the canvas to the grid */
    fv_canvas canvas;         /* the grid itself if `direct` */
    bool mask2former;         /* masks are made by Mask2Former's rules */
    uint32_t inside[2];       /* rows of the canvas in scratch.inside; UINT32_MAX: none */
    uint32_t kept;            /* number of kept queries in scratch.work */
    fovea_mask_options options;
    double overlap; /* options.overlap_threshold as the decimal number that was written */
    fovea_mask *found;
    size_t count;
    uint16_t *map;   /* or NULL */
    uint8_t *pixels; /* of fovea_mask_pixels */
} mask_search;

/* Maps each of n places to itself. */
static fv_side same_places(uint32_t n)
{
    return (fv_side){.scale = 1, .end = n, .high = n};
}

/* Finds the masks among the outputs, and prepares to enlarge them. */
static fovea_status begin_pixels(mask_search *s, const fovea_plan *p, const fovea_output *outs,
                                 const char *usual)
{
    fv_extent run;
    s->plan = p;
    s->outs = outs;
    FV_TRY(fv_task_output_of(&s->masks, p, outs, FOVEA_OUTPUT_MASKS, usual));
    const fv_grid *grid = &s->masks.grid;
    s->scratch = fv_result_scratch_masks(p);
    s->of_regions = s->detector && p->model->detection->of_regions;
    if (s->of_regions) {
        FV_TRY(fv_extent_of(&s->extent, p, FOVEA_EXTENT_FRAME));
        return fv_region_masks_begin(&s->regions, p, outs);
    }
    s->mask2former = p->model->mask_square != 0;
    s->inside[0] = s->inside[1] = UINT32_MAX;
    s->canvas = s->direct ? (fv_canvas){grid->width, grid->height} : fv_mask_canvas(p);
    FV_TRY(fv_extent_of(&s->extent, p, FOVEA_EXTENT_FRAME));
    FV_TRY(fv_extent_of_canvas(&run, p));
    const fv_side columns =
        s->direct ? same_places(grid->width) : fv_extent_across(&run, grid->width);
    s->columns = s->direct ? fv_extent_across(&s->extent, grid->width)
                           : fv_extent_canvas_across(&s->extent, p);
    s->rows =
        s->direct ? fv_extent_down(&s->extent, grid->height) : fv_extent_canvas_down(&s->extent, p);
    s->grid_rows = s->direct ? same_places(grid->height) : fv_extent_down(&run, grid->height);
    s->column = fv_side_columns(fv_result_scratch_columns(p), &s->columns, s->extent.width);
    fv_side_columns(s->scratch.columns, &columns, s->canvas.width);
    return FOVEA_OK;
}

static fovea_status begin(mask_search *s, const fovea_plan *p, const fovea_output *outs,
                          size_t n_outs)
{
    FV_TRY(fv_task_output_check(p, outs, n_outs));
    s->detector = s->direct = p->model->detection != NULL;
    FV_TRY(begin_pixels(s, p, outs, s->detector ? "pred_masks" : "masks_queries_logits"));
    return s->detector ? FOVEA_OK
                       : fv_task_output_of(&s->classes, p, outs, FOVEA_OUTPUT_MASK_CLASSES,
                                           "class_queries_logits");
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

/* Returns the number by which a query's exponentials must be divided so that they sum to 1, after
 * *top has been subtracted from its logits. */
static double divisor_of(double *top, const float *logits, uint32_t all)
{
    double sum = 0;
    *top = logits[0];
    for (uint32_t k = 1; k < all; k++)
        *top = logits[k] > *top ? logits[k] : *top;
    for (uint32_t k = 0; k < all; k++)
        sum += exp(logits[k] - *top);
    return sum;
}

/* Appends to the kept pairs of a query and a class those whose probability is above `most`, and, as
 * long as *equal is not 0, those that are equal to it. Only counts if `keep` is false. Returns the
 * number of pairs. */
static uint64_t find_pairs(mask_search *s, float most, uint64_t equal, bool keep)
{
    const uint32_t all = s->classes.columns;
    uint64_t count = 0;
    for (uint32_t q = 0; q < s->classes.rows; q++) {
        const float *logits = s->classes.data + (size_t)q * all;
        double top;
        const double sum = divisor_of(&top, logits, all);
        for (uint32_t k = 0; k + 1 < all; k++) {
            const float score = (float)(exp(logits[k] - top) / sum);
            const bool same = score == most && equal > 0;
            if (!(score > most) && !same)
                continue;
            equal -= same;
            count++;
            if (keep)
                s->scratch.work[s->kept++] =
                    (fv_query_mask){.query = q, .label = k, .score = score};
        }
    }
    return count;
}

/* Keeps the most probable pairs of a query and a class, as many as there are queries. Pairs below
 * the threshold are left out, because their final scores would be below it too. */
static void keep_pairs(mask_search *s)
{
    const uint64_t capacity = s->classes.rows;
    const float least = nextafterf(s->options.threshold, 0);
    float low = least, high = 1; /* too many pairs are above low, and not too many above high */
    if (find_pairs(s, low, 0, false) <= capacity) {
        find_pairs(s, low, 0, true);
        return;
    }
    for (;;) {
        const float middle = low + (high - low) / 2;
        if (!(middle > low && middle < high))
            break;
        if (find_pairs(s, middle, 0, false) > capacity)
            low = middle;
        else
            high = middle;
    }
    find_pairs(s, high, capacity - find_pairs(s, high, 0, false), true);
}

static void keep_queries(mask_search *s)
{
    if (s->mask2former && s->options.rule == FOVEA_MASKS_INSTANCE) {
        keep_pairs(s);
        return;
    }
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

/* Enlarges a line of the grid to the width of the canvas. */
static void widen(const mask_search *s, float *to)
{
    for (uint32_t x = 0; x < s->canvas.width; x++, to += s->kept) {
        const fv_between *at = &s->scratch.columns[x];
        fv_blend(to, s->scratch.line + (size_t)at->first * s->kept,
                 s->scratch.line + (size_t)at->second * s->kept, at->part, s->kept);
    }
}

/* Makes scratch.wide the logits of the kept queries between two rows of the canvas. As in
 * transformers, masks are first enlarged to the canvas and then to the frame, but here along one
 * axis at a time. With `direct`, they are enlarged directly to the frame. */
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
    widen(s, s->scratch.wide);
}

/* Makes scratch.wide the logits in row y of the canvas. */
static void canvas_line(const mask_search *s, uint32_t y)
{
    blend_line(s, &(const fv_between){.first = y, .second = y});
}

/* Returns the probabilities that the pixels in row y of the canvas are inside, and does not
 * overwrite those of row `other`. */
static const float *inside_line(mask_search *s, uint32_t y, uint32_t other)
{
    const size_t n = (size_t)s->canvas.width * s->kept;
    for (int i = 0; i < 2; i++)
        if (s->inside[i] == y)
            return s->scratch.inside[i];
    const int to = s->inside[0] == other;
    s->inside[to] = y;
    canvas_line(s, y);
    for (size_t i = 0; i < n; i++)
        s->scratch.inside[to][i] = fv_sigmoidf(s->scratch.wide[i]);
    return s->scratch.inside[to];
}

/* Makes scratch.wide the numbers that are interpolated between columns of the canvas: logits, or
 * Mask2Former's probabilities. */
static void enlarge_line(mask_search *s, const fv_between *row)
{
    if (!s->mask2former) {
        blend_line(s, row);
        return;
    }
    const float *above = inside_line(s, row->first, row->second);
    const float *below = inside_line(s, row->second, row->first);
    fv_blend(s->scratch.wide, above, below, row->part, (size_t)s->canvas.width * s->kept);
}

/* Calls `see` with the numbers of the kept queries at every pixel of the frame. */
static void see_all(mask_search *s, see_pixel *see)
{
    const fv_extent *e = &s->extent;
    for (uint32_t y = 0; s->kept > 0 && y < e->height; y++) {
        const fv_between row = fv_side_between(&s->rows, y);
        if (row.outside)
            continue;
        enlarge_line(s, &row);
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

/* Calls `see` with the logits of the kept queries at every pixel of the canvas. */
static void see_canvas(mask_search *s, see_pixel *see)
{
    for (uint32_t y = 0; s->kept > 0 && y < s->canvas.height; y++) {
        canvas_line(s, y);
        for (uint32_t x = 0; x < s->canvas.width; x++)
            see(s, x, y, s->scratch.wide + (size_t)x * s->kept);
    }
}

/* Calls `see` for every pixel of the frame with the logits at the nearest pixel of the canvas. */
static void see_nearest(mask_search *s, see_pixel *see)
{
    for (uint32_t y = 0, last = UINT32_MAX; s->kept > 0 && y < s->extent.height; y++) {
        const uint32_t row = fv_side_nearest(&s->rows, y);
        if (fv_side_between(&s->rows, y).outside)
            continue;
        if (row != last)
            canvas_line(s, row);
        last = row;
        for (uint32_t x = 0; x < s->extent.width; x++)
            if (!s->column[x].outside)
                see(s, x, y, s->scratch.wide + (size_t)fv_side_nearest(&s->columns, x) * s->kept);
    }
}

/* Returns the kept query that wins a pixel, and its probability that the pixel is inside. For
 * Mask2Former, `logit` has these probabilities. */
static uint32_t winner(const mask_search *s, const float *logit, float *probability)
{
    uint32_t best = 0;
    float most = -1;
    *probability = 0;
    for (uint32_t k = 0; k < s->kept; k++) {
        const float inside = s->mask2former ? logit[k] : fv_sigmoidf(logit[k]);
        const float x = s->scratch.work[k].score * inside;
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

/* Mask2Former multiplies probabilities by the score before it compares them with the threshold, and
 * keeps all pixels that a query wins. */
static void count_weighted(mask_search *s, uint32_t x, uint32_t y, const float *inside)
{
    float probability;
    (void)x;
    (void)y;
    for (uint32_t k = 0; k < s->kept; k++)
        s->scratch.work[k].inside +=
            inside[k] * s->scratch.work[k].score >= s->options.mask_threshold;
    fv_query_mask *w = &s->scratch.work[winner(s, inside, &probability)];
    w->won++;
    w->sum++;
}

/* Counts the pixels of the frame, after those of the canvas were counted. */
static void count_in_frame(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    (void)x;
    (void)y;
    for (uint32_t k = 0; k < s->kept; k++)
        s->scratch.work[k].won += logit[k] > 0;
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
    if (s->mask2former || probability >= s->options.mask_threshold)
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

/* ---- masks of regions ---- */

static void count_region(void *ctx, uint32_t x, uint32_t y, uint32_t k)
{
    mask_search *s = ctx;
    (void)x;
    (void)y;
    s->scratch.work[k].inside++;
}

static void draw_region(void *ctx, uint32_t x, uint32_t y, uint32_t k)
{
    mask_search *s = ctx;
    add_pixel(s, s->scratch.work[k].id, x, y);
}

static void mark_region(void *ctx, uint32_t x, uint32_t y, uint32_t k)
{
    mask_search *s = ctx;
    (void)k;
    s->pixels[(size_t)y * s->extent.width + x] = 1;
}

static void see_regions(mask_search *s, fv_region_pixel *see)
{
    fv_region_masks_see(&s->regions, s->scratch.work, s->kept,
                        s->options.rule == FOVEA_MASKS_PANOPTIC, see, s);
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
                                                    sum > 0 means that it keeps some of them */
        return w->sum > 0 && w->inside > 0 &&
               (double)((float)w->won / (float)w->inside) > s->overlap;
    w->score *= (float)(w->sum / (w->inside + 1e-6));
    const uint32_t pixels = s->mask2former ? w->won : w->inside;
    return pixels > 0 && w->score >= s->options.threshold;
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
                                 bool half)
{
    *own = (fovea_mask_options)FOVEA_MASK_OPTIONS_INIT;
    FV_TRY(FV_ABI_READ(*own, options, FOVEA_MASK_OPTIONS_INIT));
    FV_TRY(fv_known("rule of masks", (int)own->rule, FOVEA_MASKS_INSTANCE));
    float *const share[] = {&own->threshold, &own->mask_threshold, &own->overlap_threshold};
    const float usual[] = {half ? 0.5f : 0.8f, 0.5f, 0.8f};
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
    FV_TRY(read_options(&s.options, options, s.detector || s.mask2former));
    s.overlap = as_written(s.options.overlap_threshold);
    FV_TRY(fv_require(count, "the pointer to the number of masks"));
    if (capacity > 0)
        FV_TRY(fv_require(masks, "the pointer to the masks"));
    const size_t pixels = (size_t)s.extent.width * s.extent.height;
    const bool panoptic = s.options.rule == FOVEA_MASKS_PANOPTIC;
    see_pixel *const count_pixel = !panoptic       ? count_instances
                                   : s.detector    ? count_first
                                   : s.mask2former ? count_weighted
                                                   : count_panoptic;
    see_pixel *const draw_pixel = !panoptic    ? draw_instances
                                  : s.detector ? draw_first
                                               : draw_panoptic;
    if (map) {
        FV_TRY(fv_task_output_capacity("pixels", map_capacity, pixels));
        memset(map, 0, pixels * sizeof *map);
    }
    const bool nearest = s.mask2former && !panoptic;
    if (s.detector)
        FV_TRY(keep_boxes(&s));
    else
        keep_queries(&s);
    if (s.of_regions) {
        see_regions(&s, count_region);
    } else if (nearest) {
        see_canvas(&s, count_instances);
        see_nearest(&s, count_in_frame);
    } else {
        see_all(&s, count_pixel);
    }
    make_records(&s, capacity < UINT16_MAX ? capacity : UINT16_MAX);
    if (s.count > 0 && s.of_regions)
        see_regions(&s, draw_region);
    else if (s.count > 0 && nearest)
        see_nearest(&s, draw_pixel);
    else if (s.count > 0)
        see_all(&s, draw_pixel);
    *count = s.count;
    return FOVEA_OK;
}

static void mark_pixel(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    s->pixels[(size_t)y * s->extent.width + x] = *logit > 0;
}

static void mark_and_add_pixel(mask_search *s, uint32_t x, uint32_t y, const float *logit)
{
    if (s->pixels)
        mark_pixel(s, x, y, logit);
    if (*logit > 0)
        add_pixel(s, 1, x, y);
}

/* Keeps only one query, whose pixels will be marked in `inside`, which may be NULL. */
static fovea_status keep_one(mask_search *s, uint32_t query, uint8_t *inside, size_t capacity)
{
    const size_t pixels = (size_t)s->extent.width * s->extent.height;
    const uint32_t masks = s->of_regions ? s->regions.boxes.rows : s->masks.columns;
    if (query >= masks)
        return fv_fail(FOVEA_EINVAL, "mask %u does not exist; there are %u masks, counted from 0",
                       query, masks);
    s->scratch.work[0] = (fv_query_mask){.query = query};
    s->kept = 1;
    s->pixels = inside;
    if (!inside)
        return FOVEA_OK;
    FV_TRY(fv_task_output_capacity("pixels", capacity, pixels));
    memset(inside, 0, pixels);
    return FOVEA_OK;
}

fovea_status fovea_mask_pixels(fovea_plan *plan, const fovea_output *outs, size_t n_outs,
                               uint32_t query, uint8_t *inside, size_t capacity)
{
    mask_search s = {0};
    FV_TRY(begin(&s, plan, outs, n_outs));
    FV_TRY(fv_require(inside, "the map"));
    FV_TRY(keep_one(&s, query, inside, capacity));
    if (s.of_regions)
        fv_region_masks_see(&s.regions, s.scratch.work, 1, false, mark_region, &s);
    else if (s.mask2former)
        see_nearest(&s, mark_pixel);
    else
        see_all(&s, mark_pixel);
    return FOVEA_OK;
}

fovea_status fv_masks_draw(const fovea_plan *p, const fovea_output *outs, uint32_t query,
                           fovea_mask *mask, uint8_t *inside, size_t capacity)
{
    mask_search s = {.found = mask, .direct = p->model->prompts->second};
    FV_TRY(begin_pixels(&s, p, outs, "pred_masks"));
    FV_TRY(keep_one(&s, query, inside, capacity));
    see_all(&s, mark_and_add_pixel);
    return FOVEA_OK;
}
