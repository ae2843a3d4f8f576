/* region_masks.c: see region_masks.h. */
#include "run/region_masks.h"

#include <math.h>
#include <string.h>

#include "models/detection.h"
#include "models/model.h"

fovea_status fv_region_masks_begin(fv_region_masks *out, const fovea_plan *p,
                                   const fovea_output *outs)
{
    *out = (fv_region_masks){.info = &p->info,
                             .width = p->frame.width,
                             .height = p->frame.height,
                             .size = p->model->detection->mask_size,
                             .line = fv_result_scratch_masks(p).line,
                             .owner = p->run.results.columns};
    FV_TRY(fv_task_output_of(&out->masks, p, outs, FOVEA_OUTPUT_MASKS, "pred_masks"));
    return fv_task_output_of(&out->boxes, p, outs, FOVEA_OUTPUT_BOXES, "pred_boxes");
}

/* One side of a box, in pixels of the frame: pixel i is at cell (i + 1/2 - low) scale - 1/2. */
typedef struct side {
    float low, scale;
    uint32_t first, end; /* the pixels that may be inside */
} side;

static side side_of(const fv_region_masks *m, const float *box, int axis)
{
    const double scale = axis ? m->info->scale_y : m->info->scale_x;
    const double from = axis ? m->info->top : m->info->left;
    const float low = (float)(from + (double)box[axis] * scale);
    const float high = (float)(from + (double)box[axis + 2] * scale);
    const double end = axis ? m->height : m->width;
    if (!(high > low) || !isfinite(low) || !isfinite(high))
        return (side){0};
    return (side){low, (float)m->size / (high - low),
                  (uint32_t)fmin(fmax(floor((double)low), 0), end),
                  (uint32_t)fmax(fmin(ceil((double)high), end), 0)};
}

/* The two cells around a position along one side of a box, of which -1 and `size` are zeros, and
 * the weight of the second. */
typedef struct cells {
    int32_t first;
    float part;
} cells;

static cells cells_at(float at, uint32_t size)
{
    const float below = floorf(fmaxf(-1.f, fminf(at, (float)size - 0.5f)));
    return (cells){(int32_t)below, fminf(fmaxf(at - below, 0.f), 1.f)};
}

/* Returns the probability at a position of a line. */
static float between(const float *line, uint32_t size, float at)
{
    const cells k = cells_at(at, size);
    const float a = k.first >= 0 ? line[k.first] : 0;
    const float b = k.first + 1 < (int32_t)size ? line[k.first + 1] : 0;
    return a * (1 - k.part) + b * k.part;
}

/* Makes `line` the probabilities of a box at a position between its rows of cells. */
static void blend_rows(const fv_region_masks *m, const float *mask, float at)
{
    const cells k = cells_at(at, m->size);
    const int32_t size = (int32_t)m->size;
    memset(m->line, 0, m->size * sizeof *m->line);
    for (int n = 0; n < 2; n++) {
        const int32_t row = k.first + n;
        for (int32_t i = 0; row >= 0 && row < size && i < size; i++)
            m->line[i] += (n ? k.part : 1 - k.part) * mask[row * size + i];
    }
}

/* Calls `see` for the pixels of row y that are inside a mask; or writes k to their `owner` if `see`
 * is NULL. */
static void see_row(const fv_region_masks *m, uint32_t box, uint32_t y, uint32_t k,
                    fv_region_pixel *see, void *ctx)
{
    const float *edge = m->boxes.data + 4 * (size_t)box;
    const float *mask = m->masks.data + (size_t)box * m->size * m->size;
    const side across = side_of(m, edge, 0), down = side_of(m, edge, 1);
    if (y < down.first || y >= down.end || across.first >= across.end)
        return;
    blend_rows(m, mask, ((float)y + 0.5f - down.low) * down.scale - 0.5f);
    for (uint32_t x = across.first; x < across.end; x++) {
        const float at = ((float)x + 0.5f - across.low) * across.scale - 0.5f;
        if (!(between(m->line, m->size, at) >= 0.5f))
            continue;
        if (see)
            see(ctx, x, y, k);
        else
            m->owner[x] = k;
    }
}

void fv_region_masks_see(const fv_region_masks *m, const fv_query_mask *kept, uint32_t n,
                         bool first, fv_region_pixel *see, void *ctx)
{
    for (uint32_t y = 0; n > 0 && y < m->height; y++) {
        if (first)
            memset(m->owner, 0xff, m->width * sizeof *m->owner);
        for (uint32_t k = n; k-- > 0;)
            see_row(m, kept[k].query, y, k, first ? NULL : see, ctx);
        for (uint32_t x = 0; first && x < m->width; x++)
            if (m->owner[x] != UINT32_MAX)
                see(ctx, x, y, m->owner[x]);
    }
}
