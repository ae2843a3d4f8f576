/* segment_tmpl.c: SEGMENT_LOSS and SEGMENT_GRAD over the vector vocabulary: line by line of the
 * mask, between two rows of the grid. */
#include "adapt/segment_lines.h"
#include "cpu_kernels.h"
#include "vec/log_sum.h"

/* Of a call; the numbers of a grid row lie in the scratch. */
typedef struct lines {
    const fv_args *a;
    const fv_call *c;
    uint32_t across, down, width, height; /* tokens, pixels */
    size_t classes;
    float *logits; /* of a line, for every token across */
    float *slopes; /* SEGMENT_GRAD: the same of the gradient */
    float *pixel;  /* `classes` numbers */
    float *sums;   /* SEGMENT_LOSS: one for every token across */
} lines;

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    const size_t across = p->dim[FV_SEGMENT_GRID], classes = p->dim[FV_ROW_C];
    return (2 * across * classes + classes + across) * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_segment_f32) = {.scratch = scratch};

static lines lines_of(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim;
    lines l = {.a = a,
               .c = c,
               .across = dim[FV_SEGMENT_GRID],
               .down = dim[FV_DIM_ROWS] / dim[FV_SEGMENT_GRID],
               .width = dim[FV_SEGMENT_WIDTH],
               .height = dim[FV_SEGMENT_HEIGHT],
               .classes = dim[FV_ROW_C]};
    l.logits = c->scratch;
    l.slopes = l.logits + l.across * l.classes;
    l.pixel = l.slopes + l.across * l.classes;
    l.sums = l.pixel + l.classes;
    return l;
}

/* out = x + part (y - x) */
FV_FN void blend(float *out, const float *x, const float *y, float part, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v from = fv_load_n(x + i, lanes), to = fv_load_n(y + i, lanes);
        fv_store_n(out + i, fv_fma(fv_set(part), fv_sub(to, from), from), lanes);
    }
}

/* out += factor x */
FV_FN void add(float *out, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v sum = fv_fma(fv_set(factor), fv_load_n(x + i, lanes), fv_load_n(out + i, lanes));
        fv_store_n(out + i, sum, lanes);
    }
}

FV_FN void clear(float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = 0.f;
}

static void blend_line(const lines *l, fv_between between)
{
    const size_t ld = l->a->ld[FV_SEGMENT_LOGITS], up = (size_t)between.first * l->across;
    const size_t down = (size_t)between.second * l->across;
    const float *logits = l->c->p[FV_SEGMENT_LOGITS];
    for (size_t u = 0; u < l->across; u++)
        blend(l->logits + u * l->classes, logits + (up + u) * ld, logits + (down + u) * ld,
              between.part, l->classes);
}

/* The class of a pixel; `classes` or more where it does not count. */
static uint32_t class_at(const lines *l, uint32_t y, uint32_t x)
{
    const uint8_t *mask = (const uint8_t *)l->c->p[FV_SEGMENT_MASK];
    return mask[(size_t)y * l->a->ld[FV_SEGMENT_MASK] + x];
}

/* Logits of a pixel of the line. */
static void blend_pixel(const lines *l, fv_between between)
{
    blend(l->pixel, l->logits + between.first * l->classes, l->logits + between.second * l->classes,
          between.part, l->classes);
}

void FV_NAME(fv_k_segment_loss_f32)(const fv_args *a, const fv_call *c)
{
    const lines l = lines_of(a, c);
    const float weight = *(const float *)c->p[FV_SEGMENT_WEIGHT];
    for (uint32_t r = 0; r < c->rows; r += l.across) {
        const uint32_t v = (c->row0 + r) / l.across;
        const uint32_t bottom = fv_segment_start(v + 1, l.down, l.height);
        float *out = (float *)c->p[FV_SEGMENT_OUT] + (size_t)r * a->ld[FV_SEGMENT_OUT];
        for (uint32_t u = 0; u < l.across; u++)
            out[u * a->ld[FV_SEGMENT_OUT]] = 0.f;
        for (uint32_t y = fv_segment_start(v, l.down, l.height); y < bottom; y++) {
            blend_line(&l, fv_segment_between(y, l.down, l.height));
            clear(l.sums, l.across);
            for (uint32_t u = 0, x = 0; u < l.across; u++) {
                const uint32_t right = fv_segment_start(u + 1, l.across, l.width);
                for (; x < right; x++) {
                    const uint32_t class = class_at(&l, y, x);
                    if (class >= l.classes)
                        continue;
                    blend_pixel(&l, fv_segment_between(x, l.across, l.width));
                    l.sums[u] += fv_log_sum_of(l.pixel, l.classes, class);
                }
            }
            for (uint32_t u = 0; u < l.across; u++)
                out[u * a->ld[FV_SEGMENT_OUT]] += weight * l.sums[u];
        }
    }
}

/* The gradient of a line's logits. */
static void slope_line(const lines *l, uint32_t y, float weight)
{
    const size_t n = l->classes;
    clear(l->slopes, l->across * n);
    for (uint32_t x = 0; x < l->width; x++) {
        const fv_between between = fv_segment_between(x, l->across, l->width);
        const uint32_t class = class_at(l, y, x);
        if (class >= n)
            continue;
        blend_pixel(l, between);
        fv_softmax_slope(l->pixel, l->pixel, n, class, weight);
        add(l->slopes + between.first * n, l->pixel, 1.f - between.part, n);
        add(l->slopes + between.second * n, l->pixel, between.part, n);
    }
}

/* Adds a part of a line's gradient to grid row v, if the call has it. */
static void add_line(const lines *l, uint32_t v, float part)
{
    const uint32_t first = l->c->row0 / l->across;
    const size_t ld = l->a->ld[FV_SEGMENT_OUT], row = (size_t)(v - first) * l->across;
    if (v < first || v >= first + l->c->rows / l->across)
        return;
    for (size_t u = 0; u < l->across; u++)
        add((float *)l->c->p[FV_SEGMENT_OUT] + (row + u) * ld, l->slopes + u * l->classes, part,
            l->classes);
}

void FV_NAME(fv_k_segment_grad_f32)(const fv_args *a, const fv_call *c)
{
    const lines l = lines_of(a, c);
    const float weight = *(const float *)c->p[FV_SEGMENT_WEIGHT];
    uint32_t top, bottom, inside;
    fv_segment_reach(&top, &inside, c->row0 / l.across, l.down, l.height);
    fv_segment_reach(&inside, &bottom, (c->row0 + c->rows - 1) / l.across, l.down, l.height);
    for (uint32_t r = 0; r < c->rows; r++)
        clear((float *)c->p[FV_SEGMENT_OUT] + (size_t)r * a->ld[FV_SEGMENT_OUT], l.classes);
    for (uint32_t y = top; y < bottom; y++) {
        const fv_between between = fv_segment_between(y, l.down, l.height);
        blend_line(&l, between);
        slope_line(&l, y, weight);
        add_line(&l, between.first, 1.f - between.part);
        add_line(&l, between.second, between.part);
    }
}
