/* parts.c: fovea_parts: splits a picture into overlapping parts that are run one by one, and finds
 * the classes of its pixels from the masks of all parts. */
#include <math.h>
#include <string.h>

#include <fovea/crops.h>

#include "base/abi.h"
#include "base/mem.h"
#include "models/model.h"
#include "ops/preprocess.h"
#include "run/mask_scores.h"
#include "run/resize_bytes.h"

struct fovea_parts {
    fovea_plan *plan;
    fovea_parts_info info;
    uint32_t width, height, edge; /* size of the picture, and length of a part along the longer
                                     side */
    bool down;                    /* parts are below one another; otherwise side by side */
    fv_picture picture;
    uint8_t *wide, *whole; /* the picture after the first pass of the resize, and after both
                              passes */
    uint32_t *overlaps;    /* number of parts that show each pixel along the longer side */
    fv_mask_scores *part;  /* masks of each part */
    float *floats;         /* all scratch floats, for the parts and for `lines` */
    fv_between *columns;   /* columns of a part over the grid, then of the map over the resized
                              picture */
    fv_score_lines lines;
};

/* ---- positions of parts ---- */

static fovea_status plan_whole(fv_picture *out, const fovea_preprocess *rule, uint32_t width,
                               uint32_t height)
{
    fovea_preprocess whole = *rule;
    if (!rule->split || rule->short_edge == 0)
        return fv_fail(
            FOVEA_ENOTSUP,
            "this preprocessing does not split pictures into parts; plan the whole frame");
    whole.split = 0;
    whole.pad = FOVEA_PAD_NONE;
    FV_TRY(fv_picture_plan(out, &whole, width, height));
    return !out->floats && out->resizes <= 1
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOTSUP, "parts need preprocessing with at most one resize, and a "
                                        "resize of bytes; plan the whole frame");
}

static void describe(fovea_parts_info *out, const fv_picture *whole, uint32_t edge)
{
    const bool down = whole->height > whole->width;
    const uint32_t longer = down ? whole->height : whole->width;
    const uint32_t side = longer < edge ? longer : edge;
    out->count = (longer + edge - 1) / edge;
    out->width = down ? whole->width : side;
    out->height = down ? side : whole->height;
    out->whole_width = whole->width;
    out->whole_height = whole->height;
}

/* Returns the first pixel of part i along the longer side. */
static uint32_t start_of(const fovea_parts *p, uint32_t i)
{
    const uint32_t n = p->info.count;
    const uint32_t longer = p->down ? p->info.whole_height : p->info.whole_width;
    const double overlap = n > 1 ? ((double)n * p->edge - longer) / (n - 1.0) : 0;
    return (uint32_t)(i * (p->edge - overlap));
}

static uint32_t side_of_part(const fovea_parts *p)
{
    return p->down ? p->info.height : p->info.width;
}

fovea_status fovea_parts_describe(const fovea_preprocess *rule, uint32_t width, uint32_t height,
                                  fovea_parts_info *out)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    fovea_parts_info info = FOVEA_PARTS_INFO_INIT;
    fv_picture whole;
    FV_TRY(fv_require(rule, "the preprocess"));
    FV_TRY(FV_ABI_READ(own, rule, FOVEA_PREPROCESS_INIT));
    memset(&whole, 0, sizeof whole);
    const fovea_status status = plan_whole(&whole, &own, width, height);
    if (status == FOVEA_OK)
        describe(&info, &whole, own.short_edge);
    fv_picture_free(&whole);
    FV_TRY(status);
    return FV_ABI_WRITE(out, info, FOVEA_PARTS_INFO_INIT);
}

/* ---- memory ---- */

static fovea_status allocate_pixels(fovea_parts *p)
{
    const uint32_t longer = p->down ? p->info.whole_height : p->info.whole_width;
    const fv_picture_resize *r = &p->picture.resize[0];
    FV_TRY(FV_MEM_ARRAY(&p->overlaps, longer, FV_MEM_PLAN, "overlaps of parts"));
    for (uint32_t i = 0; i < p->info.count; i++)
        for (uint32_t k = 0; k < side_of_part(p) && start_of(p, i) + k < longer; k++)
            p->overlaps[start_of(p, i) + k]++;
    if (p->picture.resizes == 0)
        return FOVEA_OK;
    FV_TRY(fv_mem_array(&p->wide, r->in_rows, fv_size_mul(r->width, 3), FV_MEM_PLAN,
                        "a resized picture"));
    return fv_mem_array(&p->whole, r->height, fv_size_mul(r->width, 3), FV_MEM_PLAN,
                        "a resized picture");
}

/* Allocates scratch for the masks of all parts; `masks` and `of` are the two outputs of a part. */
static fovea_status allocate_scores(fovea_parts *p, const fv_wanted *masks, const fv_wanted *of)
{
    const fv_value *value = p->plan->graph.value;
    const uint32_t queries = value[masks->value].cols, classes = value[of->value].cols - 1;
    const uint64_t share = fv_size_mul(queries, classes),
                   line = fv_size_mul(masks->grid.width, queries);
    const uint64_t scores = fv_size_mul(p->info.whole_width, classes);
    fv_extent run;
    FV_TRY(fv_extent_of(&run, p->plan, FOVEA_EXTENT_PICTURE));
    FV_TRY(FV_MEM_ARRAY(&p->part, p->info.count, FV_MEM_PLAN, "masks of parts"));
    FV_TRY(FV_MEM_ARRAY(&p->columns, (uint64_t)p->info.width + p->width, FV_MEM_PLAN,
                        "columns of parts"));
    const uint64_t all = fv_size_add(fv_size_mul(share, p->info.count),
                                     line + queries + fv_size_mul(2, scores) + classes);
    FV_TRY(FV_MEM_ARRAY(&p->floats, all, FV_MEM_PLAN, "scores of parts"));
    float *const shared = p->floats + share * p->info.count;
    const fv_side grid = fv_extent_across(&run, masks->grid.width);
    const fv_between *column = fv_side_columns(p->columns, &grid, p->info.width);
    for (uint32_t i = 0; i < p->info.count; i++)
        p->part[i] = (fv_mask_scores){.share = p->floats + share * i,
                                      .classes = classes,
                                      .width = p->info.width,
                                      .rows = fv_extent_down(&run, masks->grid.height),
                                      .column = column,
                                      .line = shared,
                                      .pixel = shared + line};
    const fv_side across = {(float)((double)p->info.whole_width / p->width), 0, p->width, 0,
                            p->info.whole_width};
    p->lines =
        (fv_score_lines){.ctx = p,
                         .classes = classes,
                         .width = p->info.whole_width,
                         .line = {shared + line + queries, shared + line + queries + scores},
                         .mean = shared + line + queries + 2 * scores,
                         .rows = {(float)((double)p->info.whole_height / p->height), 0, p->height,
                                  0, p->info.whole_height},
                         .column = fv_side_columns(p->columns + p->info.width, &across, p->width)};
    return FOVEA_OK;
}

static fovea_status allocate(fovea_parts *p)
{
    const fv_wanted *masks = fv_graph_output(&p->plan->graph, FOVEA_OUTPUT_MASKS);
    const fv_wanted *classes = fv_graph_output(&p->plan->graph, FOVEA_OUTPUT_MASK_CLASSES);
    if (!masks || !classes)
        return fv_fail(FOVEA_EINVAL, "the plan of the parts lacks output masks_queries_logits or "
                                     "class_queries_logits; plan with both");
    if (p->plan->frame.format != FOVEA_FORMAT_RGB8 || p->plan->frame.width != p->info.width ||
        p->plan->frame.height != p->info.height || p->plan->info.width != p->info.width ||
        p->plan->info.height != p->info.height)
        return fv_fail(
            FOVEA_EINVAL,
            "parts are RGB frames of %u x %u pixels; plan such frames, without preprocessing",
            p->info.width, p->info.height);
    FV_TRY(allocate_pixels(p));
    return allocate_scores(p, masks, classes);
}

fovea_status fovea_parts_create(fovea_parts **out, fovea_plan *plan, const fovea_preprocess *rule,
                                uint32_t width, uint32_t height)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    fovea_parts *p;
    FV_TRY(fv_require(out, "the pointer to the parts"));
    FV_TRY(fv_require(plan, "the plan"));
    FV_TRY(fv_require(rule, "the preprocess"));
    FV_TRY(FV_ABI_READ(own, rule, FOVEA_PREPROCESS_INIT));
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_PLAN, "the parts"));
    p->plan = plan;
    p->width = width;
    p->height = height;
    p->edge = own.short_edge;
    fovea_status status = plan_whole(&p->picture, &own, width, height);
    if (status == FOVEA_OK) {
        describe(&p->info, &p->picture, p->edge);
        p->down = p->info.whole_height > p->info.whole_width;
        status = allocate(p);
    }
    if (status != FOVEA_OK) {
        fovea_parts_free(p);
        return status;
    }
    *out = p;
    return FOVEA_OK;
}

void fovea_parts_free(fovea_parts *p)
{
    if (!p)
        return;
    fv_picture_free(&p->picture);
    fv_mem_free(p->wide);
    fv_mem_free(p->whole);
    fv_mem_free(p->overlaps);
    fv_mem_free(p->part);
    fv_mem_free(p->floats);
    fv_mem_free(p->columns);
    fv_mem_free(p);
}

/* ---- cutting a picture ---- */

fovea_status fovea_parts_cut(fovea_parts *p, const fovea_frame *picture, fovea_frame *frames,
                             size_t capacity)
{
    FV_TRY(fv_require(p, "the parts"));
    FV_TRY(fv_require(picture, "the picture"));
    FV_TRY(fv_require(frames, "the pointer to the frames"));
    FV_TRY(fv_require(picture->pixels[0], "the picture's pixels"));
    FV_TRY(fv_task_output_capacity("frames", capacity, p->info.count));
    const size_t row = (size_t)p->width * 3;
    const uint8_t *from = picture->pixels[0];
    size_t stride = picture->stride[0] ? picture->stride[0] : row;
    if (stride < row || stride > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "the stride is %zu bytes, but a row has %zu", stride, row);
    if (p->picture.resizes > 0) {
        fv_resize_bytes(p->whole, p->wide, &p->picture.resize[0], from, p->width, (uint32_t)stride);
        from = p->whole;
        stride = (size_t)p->info.whole_width * 3;
    }
    for (uint32_t i = 0; i < p->info.count; i++)
        frames[i] = (fovea_frame){
            .pixels = {from + (size_t)start_of(p, i) * (p->down ? stride : 3)}, .stride = {stride}};
    return FOVEA_OK;
}

/* ---- classes of a picture ---- */

/* Makes row y of the scores: for each pixel, the mean over the parts that show it. */
static void make_line(float *out, void *ctx, uint32_t y)
{
    const fovea_parts *p = ctx;
    const uint32_t width = p->info.whole_width, n = p->lines.classes;
    memset(out, 0, (size_t)width * n * sizeof *out);
    for (uint32_t i = 0; i < p->info.count; i++) {
        const uint32_t start = start_of(p, i);
        if (!p->down)
            fv_mask_scores_add(out + (size_t)start * n, &p->part[i], y);
        else if (y >= start && y < start + p->info.height)
            fv_mask_scores_add(out, &p->part[i], y - start);
    }
    for (uint32_t x = 0; x < width; x++) {
        const uint32_t parts = p->overlaps[p->down ? y : x];
        for (uint32_t k = 0; parts > 1 && k < n; k++)
            out[(size_t)x * n + k] /= (float)parts;
    }
}

fovea_status fovea_parts_class_map(fovea_parts *p, const fovea_output *outs, size_t n_outs,
                                   uint16_t *classes, size_t capacity)
{
    FV_TRY(fv_require(p, "the parts"));
    FV_TRY(fv_require(outs, "the outputs"));
    FV_TRY(fv_require(classes, "the map"));
    FV_TRY(fv_task_output_capacity("pixels", capacity, (size_t)p->width * p->height));
    const size_t each = p->plan->graph.n_wanted;
    if (n_outs != each * p->info.count)
        return fv_fail(FOVEA_EINVAL, "the caller gave %zu outputs, but each of %u parts has %zu",
                       n_outs, p->info.count, each);
    for (uint32_t i = 0; i < p->info.count; i++) {
        fv_task_output of_classes;
        const fovea_output *own = outs + i * each;
        FV_TRY(fv_task_output_of(&p->part[i].masks, p->plan, own, FOVEA_OUTPUT_MASKS,
                                 "masks_queries_logits"));
        FV_TRY(fv_task_output_of(&of_classes, p->plan, own, FOVEA_OUTPUT_MASK_CLASSES,
                                 "class_queries_logits"));
        fv_mask_shares(p->part[i].share, &of_classes);
    }
    p->lines.make = make_line;
    fv_score_lines_classify(classes, &p->lines, p->width, p->height);
    return FOVEA_OK;
}
