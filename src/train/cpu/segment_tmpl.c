/* segment_tmpl.c: SEGMENT_LOSS and SEGMENT_GRAD in vec.h's vector functions, for one line of the
 * mask at a time. A line's logits are interpolated between two rows of the grid. A vector contains
 * pixels of the line that are between the same two tokens; there is one vector per class. */
#include "platform/cpu/vec/math.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/segment_lines.h"

/* A call's sizes, and its arrays in the scratch. */
typedef struct lines {
    const fv_args *a;
    const fv_call *c;
    uint32_t across, down, width, height; /* tokens per row and column; pixels per row and column */
    size_t classes, whole;                /* whole: classes rounded up to a multiple of FV_W */
    /* For each pixel of a line: the token before it, and its relative distance to the next
     * token. */
    uint32_t *first;
    float *part;
    float *logits; /* logits of the current line, for every token in a row of the grid */
    float *slopes; /* SEGMENT_GRAD: gradients of `logits` */
    float *terms;  /* `whole` vectors, one per class */
    /* SEGMENT_GRAD: `whole` vectors of gradients for the token before, and as many for the token
     * after */
    float *before;
    float *after;
    float *losses; /* SEGMENT_LOSS: losses of a line's pixels */
} lines;

/* Sets the pointers to the arrays, from `base` on, and returns their number of floats. */
static size_t lay_out(lines *l, const fv_problem *p, float *base)
{
    l->across = p->dim[FV_SEGMENT_GRID];
    l->down = p->dim[FV_DIM_ROWS] / l->across;
    l->width = p->dim[FV_SEGMENT_WIDTH];
    l->height = p->dim[FV_SEGMENT_HEIGHT];
    l->classes = p->dim[FV_ROW_C];
    l->whole = (l->classes + FV_W - 1) / FV_W * FV_W;
    const size_t line = l->across * l->classes, vectors = l->whole * FV_W;
    size_t at = 0;
    l->first = (uint32_t *)base;
    at += l->width;
    float **const parts[] = {&l->part,  &l->losses, &l->logits, &l->slopes,
                             &l->terms, &l->before, &l->after};
    const size_t sizes[] = {l->width, l->width, line, line, vectors, vectors, vectors};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *parts[i] = base ? base + at : NULL;
        at += sizes[i];
    }
    return at;
}

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    lines l;
    return lay_out(&l, p, NULL) * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_segment_f32) = {.scratch = scratch};

static lines lines_of(const fv_args *a, const fv_call *c)
{
    lines l = {.a = a, .c = c};
    lay_out(&l, &a->prob, c->scratch);
    for (uint32_t x = 0; x < l.width; x++) {
        const fv_segment_place between = fv_segment_between(x, l.across, l.width);
        l.first[x] = between.first;
        l.part[x] = between.part;
    }
    return l;
}

/* Computes out = x + part (y - x). */
FV_FN void blend(float *out, const float *x, const float *y, float part, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v from = fv_load_n(x + i, lanes), to = fv_load_n(y + i, lanes);
        fv_store_n(out + i, fv_fma(fv_set(part), fv_sub(to, from), from), lanes);
    }
}

static void clear(float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = 0.f;
}

static void blend_line(const lines *l, fv_segment_place between)
{
    const size_t ld = l->a->ld[FV_SEGMENT_LOGITS], up = (size_t)between.first * l->across;
    const size_t down = (size_t)between.second * l->across;
    const float *logits = l->c->p[FV_SEGMENT_LOGITS];
    for (size_t u = 0; u < l->across; u++)
        blend(l->logits + u * l->classes, logits + (up + u) * ld, logits + (down + u) * ld,
              between.part, l->classes);
}

/* Returns the mask's classes of a line's pixels. Pixels whose class is `classes` or more are
 * ignored. */
static const uint8_t *classes_of(const lines *l, uint32_t y)
{
    return (const uint8_t *)l->c->p[FV_SEGMENT_MASK] + (size_t)y * l->a->ld[FV_SEGMENT_MASK];
}

/* Returns how many pixels from x on share a vector: those between the same two tokens, at most
 * FV_W. */
static int pixels_from(const lines *l, uint32_t x)
{
    int n = 1;
    while (n < FV_W && x + (uint32_t)n < l->width && l->first[x + (uint32_t)n] == l->first[x])
        n++;
    return n;
}

static uint32_t next_token(const lines *l, uint32_t u)
{
    return u + 1 < l->across ? u + 1 : u;
}

/* Interpolates the logits of n pixels from x on into `terms`, and returns each pixel's largest
 * logit. */
FV_FN fv_v blend_pixels(const lines *l, uint32_t x, int n)
{
    const float *from = l->logits + l->first[x] * l->classes;
    const float *to = l->logits + next_token(l, l->first[x]) * l->classes;
    const fv_v part = fv_load_n(l->part + x, n);
    fv_v max = fv_set(-INFINITY);
    for (size_t i = 0; i < l->classes; i++) {
        const fv_v z = fv_fma(part, fv_set(to[i] - from[i]), fv_set(from[i]));
        fv_store(l->terms + i * FV_W, z);
        max = fv_max(max, z);
    }
    return max;
}

/* Returns the sum of exp(term - max) over the classes. With `keep`, the exponentials replace the
 * terms. */
FV_FN fv_v sum_exponentials(const lines *l, fv_v max, bool keep)
{
    fv_v sum = fv_set(0.f);
    for (size_t i = 0; i < l->classes; i++) {
        const fv_v e = fv_exp_neg(fv_sub(fv_load(l->terms + i * FV_W), max));
        if (keep)
            fv_store(l->terms + i * FV_W, e);
        sum = fv_add(sum, e);
    }
    return sum;
}

/* ---- SEGMENT_LOSS ---- */

static void line_loss(const lines *l, uint32_t y)
{
    const uint8_t *class = classes_of(l, y);
    for (uint32_t x = 0; x < l->width;) {
        const int n = pixels_from(l, x);
        const fv_v max = blend_pixels(l, x, n);
        float own[FV_W] = {0};
        for (int i = 0; i < n; i++)
            if (class[x + (uint32_t)i] < l -> classes)
                own[i] = l->terms[class[x + (uint32_t)i] * FV_W + i];
        const fv_v log_sum = fv_log(sum_exponentials(l, max, false));
        fv_store_n(l->losses + x, fv_add(log_sum, fv_sub(max, fv_load(own))), n);
        x += (uint32_t)n;
    }
    for (uint32_t x = 0; x < l->width; x++)
        if (class[x] >= l->classes)
            l->losses[x] = 0.f;
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
            line_loss(&l, y);
            for (uint32_t u = 0, x = 0; u < l.across; u++) {
                const uint32_t right = fv_segment_start(u + 1, l.across, l.width);
                float sum = 0.f;
                for (; x < right; x++)
                    sum += l.losses[x];
                out[u * a->ld[FV_SEGMENT_OUT]] += weight * sum;
            }
        }
    }
}

/* ---- SEGMENT_GRAD ---- */

/* Adds the gradients of n pixels from x on to those of the tokens before and after them. */
FV_FN void pixel_grad(const lines *l, const uint8_t *class, uint32_t x, int n, float weight)
{
    const fv_v max = blend_pixels(l, x, n), sum = sum_exponentials(l, max, true);
    float factor[FV_W] = {0};
    for (int i = 0; i < n; i++)
        if (class[x + (uint32_t)i] < l -> classes)
            factor[i] = weight;
    const fv_v scale = fv_div(fv_load(factor), sum), part = fv_load_n(l->part + x, n);
    for (size_t i = 0; i < l->classes; i++)
        fv_store(l->terms + i * FV_W, fv_mul(fv_load(l->terms + i * FV_W), scale));
    for (int i = 0; i < n; i++)
        if (class[x + (uint32_t)i] < l -> classes)
            l->terms[class[x + (uint32_t)i] * FV_W + i] -= weight;
    for (size_t i = 0; i < l->classes; i++) {
        const fv_v slope = fv_load(l->terms + i * FV_W), far = fv_mul(slope, part);
        float *before = l->before + i * FV_W, *after = l->after + i * FV_W;
        fv_store(before, fv_add(fv_load(before), fv_sub(slope, far)));
        fv_store(after, fv_add(fv_load(after), far));
    }
}

/* Adds the sum of each class's vector to the gradient of token u, and clears the vectors. */
static void reduce_terms(const lines *l, uint32_t u, float *vectors)
{
    float *to = l->slopes + u * l->classes;
    for (size_t i = 0; i < l->classes; i += FV_W) {
        const int lanes = fv_lanes(l->classes - i);
        const fv_v sums = fv_hsum_rows(vectors + i * FV_W);
        fv_store_n(to + i, fv_add(fv_load_n(to + i, lanes), sums), lanes);
    }
    clear(vectors, l->classes * FV_W);
}

/* Computes the gradient of a line's logits. */
static void line_grad(const lines *l, uint32_t y, float weight)
{
    const uint8_t *class = classes_of(l, y);
    clear(l->slopes, l->across * l->classes);
    clear(l->before, l->whole * FV_W);
    clear(l->after, l->whole * FV_W);
    for (uint32_t x = 0; x < l->width;) {
        const uint32_t u = l->first[x];
        const int n = pixels_from(l, x);
        pixel_grad(l, class, x, n, weight);
        x += (uint32_t)n;
        if (x == l->width || l->first[x] != u) {
            reduce_terms(l, u, l->before);
            reduce_terms(l, next_token(l, u), l->after);
        }
    }
}

/* Adds factor x to out. */
FV_FN void add(float *out, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v sum = fv_fma(fv_set(factor), fv_load_n(x + i, lanes), fv_load_n(out + i, lanes));
        fv_store_n(out + i, sum, lanes);
    }
}

/* Adds `part` times a line's gradient to grid row v, if the call includes that row. */
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
        const fv_segment_place between = fv_segment_between(y, l.down, l.height);
        blend_line(&l, between);
        line_grad(&l, y, weight);
        add_line(&l, between.first, 1.f - between.part);
        add_line(&l, between.second, between.part);
    }
}
