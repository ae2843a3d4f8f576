/* query_targets.c: draws the points at which masks of queries are compared with the truth, and
 * computes their targets. The points are stratified: the picture is divided into equal cells, and
 * each has a point at a random place. They depend only on the seed, the number of the step, and the
 * number of the picture in it. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

fovea_status fv_query_targets_take(fv_query_targets *q, uint32_t classes)
{
    static const char what[] = "the targets of queries";
    const uint64_t points = FV_QUERY_POINTS_DRAWN;
    FV_TRY(FV_MEM_ARRAY(&q->places, 2 * points, FV_MEM_ARENA, what));
    FV_TRY(FV_MEM_ARRAY(&q->targets, classes * points, FV_MEM_ARENA, what));
    return FV_MEM_ARRAY(&q->present, classes, FV_MEM_ARENA, what);
}

uint64_t fv_query_targets_bytes(uint32_t classes)
{
    return ((2ull + classes) * FV_QUERY_POINTS_DRAWN + classes) * sizeof(float);
}

void fv_query_targets_free(fv_query_targets *q)
{
    fv_mem_free(q->places);
    fv_mem_free(q->targets);
    fv_mem_free(q->present);
}

/* Returns the next number of a sequence, from 0 to 1 (splitmix64). */
static float draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((x ^ x >> 31) >> 40) * 0x1p-24f;
}

static void draw_places(fv_query_targets *q, const fovea_trainer *t)
{
    const uint64_t number = t->step << 20 ^ t->pictures;
    uint64_t state = t->o.seed * 0xd1342543de82ef95u + number * 0xaf251af3b0f025b5u;
    for (uint32_t i = 0; i < FV_QUERY_POINTS_DRAWN; i++) {
        const uint32_t column = i % FV_QUERY_STRATA, line = i / FV_QUERY_STRATA;
        q->places[2 * i] = ((float)column + draw(&state)) / (float)FV_QUERY_STRATA;
        q->places[2 * i + 1] = ((float)line + draw(&state)) / (float)FV_QUERY_STRATA;
    }
}

/* Adds to each class's target its share of the four pixels around a point, as interpolation of the
 * class's binary mask gives it. Beyond the edges there is no class. */
static void set_point(fv_query_targets *q, uint32_t point, uint32_t classes, const uint8_t *mask,
                      size_t stride, uint32_t width, uint32_t height)
{
    const float x = q->places[2 * point] * (float)width - 0.5f;
    const float y = q->places[2 * point + 1] * (float)height - 0.5f;
    const float left = floorf(x), top = floorf(y);
    for (int i = 0; i < 4; i++) {
        const float column = left + (float)(i % 2), line = top + (float)(i / 2);
        if (column < 0 || line < 0 || column >= (float)width || line >= (float)height)
            continue;
        const uint8_t class = mask[(size_t)line * stride + (size_t)column];
        if (class < classes)
            q->targets[(size_t) class * FV_QUERY_POINTS_DRAWN + point] +=
                (1 - fabsf(x - column)) * (1 - fabsf(y - line));
    }
}

void fv_query_targets_set(fv_query_targets *q, const fovea_trainer *t, const uint8_t *mask,
                          size_t stride)
{
    const uint32_t classes = t->info.classes;
    const uint32_t width = t->info.mask_width, height = t->info.mask_height;
    draw_places(q, t);
    memset(q->targets, 0, (size_t)classes * FV_QUERY_POINTS_DRAWN * sizeof *q->targets);
    memset(q->present, 0, classes * sizeof *q->present);
    for (uint32_t i = 0; i < FV_QUERY_POINTS_DRAWN; i++)
        set_point(q, i, classes, mask, stride, width, height);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            if (mask[y * stride + x] < classes)
                q->present[mask[y * stride + x]] = 1.f;
}
