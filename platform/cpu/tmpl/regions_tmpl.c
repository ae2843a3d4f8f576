/* regions_tmpl.c: implements CANDIDATES, SUPPRESS, ROI_ALIGN and CLASS_MASK. */
#include "ops/contracts/rows.h"
#include "ops/ref/ref_regions.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"

void FV_NAME(fv_k_candidates_f32)(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++)
        fv_region_row(a, c, r);
}

/* ---- SUPPRESS ---- */

/* The regions that were not considered yet, as a heap: each precedes its two children. */
typedef struct heap {
    uint32_t *row, count;
    const float *in;
    size_t ld;
} heap;

static void sink(heap *h, uint32_t at)
{
    const uint32_t moved = h->row[at];
    for (uint32_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count &&
            fv_region_before(h->in, h->ld, h->row[child + 1], h->row[child]))
            child++;
        if (fv_region_before(h->in, h->ld, moved, h->row[child]))
            break;
        h->row[at] = h->row[child];
    }
    h->row[at] = moved;
}

static heap heap_of(const fv_args *a, const fv_call *c, uint32_t *memory)
{
    heap h = {.row = memory, .in = c->p[FV_SUPPRESS_IN], .ld = a->ld[FV_SUPPRESS_IN]};
    for (uint32_t i = 0; i < a->prob.dim[FV_SUPPRESS_FROM]; i++)
        if (h.in[i * h.ld + FV_REGION_CLASS] >= 0.f)
            h.row[h.count++] = i;
    for (uint32_t i = h.count / 2; i-- > 0;)
        sink(&h, i);
    return h;
}

static uint32_t pop(heap *h)
{
    const uint32_t first = h->row[0];
    h->row[0] = h->row[--h->count];
    if (h->count > 0)
        sink(h, 0);
    return first;
}

/* The kept regions, as columns of `capacity` numbers. The class of an unused row is below 0. */
enum { AREA = FV_REGION_SCORE, COLUMNS = FV_REGION_COLUMNS };

static size_t capacity_of(uint32_t rows)
{
    return (rows + FV_W - 1) / FV_W * FV_W;
}

static void keep(float *kept, size_t capacity, uint32_t at, const float *box)
{
    for (int i = 0; i < 4; i++)
        kept[i * capacity + at] = box[i];
    kept[AREA * capacity + at] = fv_region_area(box);
    kept[FV_REGION_CLASS * capacity + at] = box[FV_REGION_CLASS];
}

/* Returns whether one of the first n kept regions overlaps a box of the same class. */
FV_FN bool is_covered(const float *kept, size_t capacity, uint32_t n, const float *box,
                      float threshold)
{
    const fv_v zero = fv_set(0.f), least = fv_set(threshold);
    const fv_v left = fv_set(box[0]), top = fv_set(box[1]);
    const fv_v right = fv_set(box[2]), bottom = fv_set(box[3]);
    const fv_v area = fv_set(fv_region_area(box)), class = fv_set(box[FV_REGION_CLASS]);
    for (size_t k = 0; k < n; k += FV_W, kept += FV_W) {
        const fv_v x1 = fv_max(left, fv_load(kept)), y1 = fv_max(top, fv_load(kept + capacity));
        const fv_v x2 = fv_min(right, fv_load(kept + 2 * capacity));
        const fv_v y2 = fv_min(bottom, fv_load(kept + 3 * capacity));
        const fv_v both = fv_mul(fv_max(zero, fv_sub(x2, x1)), fv_max(zero, fv_sub(y2, y1)));
        const fv_v all = fv_sub(fv_add(fv_load(kept + AREA * capacity), area), both);
        const fv_v other = fv_abs(fv_sub(class, fv_load(kept + FV_REGION_CLASS * capacity)));
        const fv_v covers = fv_sel_lt(fv_mul(least, all), both, fv_set(1.f), zero);
        if (fv_hmax(fv_sel_lt(zero, other, zero, covers)) > 0.f)
            return true;
    }
    return false;
}

void FV_NAME(fv_k_suppress_f32)(const fv_args *a, const fv_call *c)
{
    const size_t capacity = capacity_of(c->rows), ld = a->ld[FV_SUPPRESS_OUT];
    float *const kept = c->scratch;
    heap h = heap_of(a, c, (uint32_t *)(void *)(kept + COLUMNS * capacity));
    float *out = c->p[FV_SUPPRESS_OUT];
    uint32_t n = 0;
    for (size_t i = 0; i < COLUMNS * capacity; i++)
        kept[i] = i < FV_REGION_CLASS * capacity ? 0.f : -2.f;
    while (n < c->rows && h.count > 0) {
        const float *box = h.in + pop(&h) * h.ld;
        if (is_covered(kept, capacity, n, box, a->f[0]))
            continue;
        memcpy(out + n * ld, box, COLUMNS * sizeof *out);
        keep(kept, capacity, n++, box);
    }
    for (; n < c->rows; n++) {
        memset(out + n * ld, 0, COLUMNS * sizeof *out);
        out[n * ld + FV_REGION_CLASS] = -1.f;
    }
}

static size_t suppress_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return (COLUMNS * capacity_of(p->dim[FV_DIM_ROWS]) + p->dim[FV_SUPPRESS_FROM]) * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_suppress_f32) = {.scratch = suppress_scratch};

/* ---- ROI_ALIGN ---- */

/* Adds the sample between four rows of n channels, with these weights, to `out`. */
FV_FN void add_sample(float *out, const float *const row[4], const float weight[4], size_t n)
{
    const fv_v a = fv_set(weight[0]), b = fv_set(weight[1]);
    const fv_v c = fv_set(weight[2]), d = fv_set(weight[3]);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_v sum = fv_fma(a, fv_load_n(row[0] + i, lanes), fv_load_n(out + i, lanes));
        sum = fv_fma(b, fv_load_n(row[1] + i, lanes), sum);
        sum = fv_fma(c, fv_load_n(row[2] + i, lanes), sum);
        sum = fv_fma(d, fv_load_n(row[3] + i, lanes), sum);
        fv_store_n(out + i, sum, lanes);
    }
}

/* Adds the samples of a cell to `out`. */
FV_FN void add_cell(float *out, const fv_args *a, const fv_roi_level *l, const float *values,
                    size_t ld, const fv_roi_side side[2])
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const float share = 1.f / ((float)side[0].count * (float)side[1].count);
    for (uint32_t iy = 0; iy < side[1].count; iy++) {
        const fv_roi_between y = fv_roi_at(&side[1], iy, l->height);
        if (!y.inside)
            continue;
        const float *above = values + (size_t)y.low * l->width * ld;
        const float *below = values + (size_t)y.high * l->width * ld;
        const float up = share * (1.f - y.part), down = share * y.part;
        for (uint32_t ix = 0; ix < side[0].count; ix++) {
            const fv_roi_between x = fv_roi_at(&side[0], ix, l->width);
            const float *const row[4] = {above + x.low * ld, above + x.high * ld,
                                         below + x.low * ld, below + x.high * ld};
            const float weight[4] = {up * (1.f - x.part), up * x.part, down * (1.f - x.part),
                                     down * x.part};
            if (x.inside)
                add_sample(out, row, weight, n);
        }
    }
}

void FV_NAME(fv_k_roi_align_f32)(const fv_args *a, const fv_call *c)
{
    const fv_roi_level *level = a->table;
    const uint32_t size = a->prob.dim[FV_ROI_SIZE], cells = size * size;
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t number = (c->row0 + r) / cells, cell = (c->row0 + r) % cells;
        const float *box =
            (const float *)c->p[FV_ROI_REGION] + number * (size_t)a->ld[FV_ROI_REGION];
        float *out = (float *)c->p[FV_ROI_OUT] + r * (size_t)a->ld[FV_ROI_OUT];
        const uint32_t at = fv_roi_level_of(level, a->prob.dim[FV_ROI_COUNT], box);
        const float scale = level[at].scale;
        memset(out, 0, a->prob.dim[FV_ROW_C] * sizeof *out);
        if (!(box[FV_REGION_CLASS] >= 0.f))
            continue;
        const fv_roi_side side[2] = {fv_roi_side_of(box[0], box[2], scale, size, cell % size),
                                     fv_roi_side_of(box[1], box[3], scale, size, cell / size)};
        add_cell(out, a, &level[at], c->p[FV_ROI_LEVEL + at], a->ld[FV_ROI_LEVEL + at], side);
    }
}

/* ---- CLASS_MASK ---- */

void FV_NAME(fv_k_class_mask_f32)(const fv_args *a, const fv_call *c)
{
    const uint32_t classes = a->prob.dim[FV_ROW_C], cells = a->prob.dim[FV_CLASS_MASK_CELLS];
    const float *region = c->p[FV_CLASS_MASK_REGION], *res = c->p[FV_CLASS_MASK_RES];
    for (uint32_t r = 0; r < c->rows; r++) {
        const float k =
            region[(c->row0 + r) / cells * (size_t)a->ld[FV_CLASS_MASK_REGION] + FV_REGION_CLASS];
        const float *in =
            (const float *)c->p[FV_CLASS_MASK_IN] + r * (size_t)a->ld[FV_CLASS_MASK_IN];
        float sum = res ? res[r * (size_t)a->ld[FV_CLASS_MASK_RES]] : 0.f;
        if (k >= 0.f && (classes == 1 || k < (float)classes))
            sum += a->f[0] / (1.f + expf(-in[classes == 1 ? 0 : (uint32_t)k]));
        ((float *)c->p[FV_CLASS_MASK_OUT])[r * (size_t)a->ld[FV_CLASS_MASK_OUT]] = sum;
    }
}
