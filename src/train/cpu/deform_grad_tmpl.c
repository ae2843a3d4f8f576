/* deform_grad_tmpl.c: DEFORM_GRAD and DEFORM_GRAD_VALUES in vec.h's vector functions. */
#include <math.h>
#include <string.h>

#include "ops/ref/ref_deform.h"
#include "platform/cpu/vec/math.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

/* The shares of a head's samples, and the samples' products with dout. */
static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return 2 * (size_t)p->dim[FV_DEFORM_LEVELS] * p->dim[FV_DEFORM_POINTS] * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_deform_grad_f32) = {.scratch = scratch};

/* Computes the softmax of n weights. */
static void share(float *out, const float *weight, size_t n)
{
    float max = -INFINITY, sum = 0.f;
    for (size_t p = 0; p < n; p++)
        max = weight[p] > max ? weight[p] : max;
    for (size_t p = 0; p < n; p += FV_W) {
        const int lanes = fv_lanes(n - p);
        const fv_v w = fv_load_n(weight + p, lanes);
        fv_store_n(out + p, fv_exp_neg(fv_sub(w, fv_set(max))), lanes);
    }
    for (size_t p = 0; p < n; p++)
        sum += out[p];
    for (size_t p = 0; p < n; p++)
        out[p] /= sum;
}

FV_FN float dot(const float *x, const float *y, size_t n)
{
    fv_v sum = fv_set(0.f);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        sum = fv_fma(fv_load_n(x + i, lanes), fv_load_n(y + i, lanes), sum);
    }
    return fv_hsum(sum);
}

/* ---- offsets and weights ---- */

/* The product of a sample with dout, and its derivatives by the position. */
typedef struct sample {
    float value, dx, dy;
} sample;

static sample take(const fv_args *a, const fv_deform_level *l, const float *values,
                   const float *dout, float x, float y)
{
    const int32_t left = (int32_t)(x + 1.f) - 1, top = (int32_t)(y + 1.f) - 1;
    const float right = x - (float)left, low = y - (float)top;
    sample s = {0.f, 0.f, 0.f};
    for (int i = 0; i < 4; i++) {
        const int32_t column = left + i % 2, line = top + i / 2;
        const float by_x = i % 2 ? right : 1.f - right, by_y = i / 2 ? low : 1.f - low;
        if (column < 0 || line < 0 || column >= (int32_t)l->width || line >= (int32_t)l->height)
            continue;
        const size_t row = l->first + (size_t)line * l->width + (size_t)column;
        const float met =
            dot(values + row * a->ld[FV_DEFORM_GRAD_VALUES], dout, a->prob.dim[FV_ATTN_D]);
        s.value += by_x * by_y * met;
        s.dx += i % 2 ? by_y * met : -by_y * met;
        s.dy += i / 2 ? by_x * met : -by_x * met;
    }
    return s;
}

/* Computes one head of a row. The pointers are to the head's values, offsets, weights and
 * gradients. */
static void head(const fv_args *a, float *memory, const float *values, const float *box,
                 const float *offset, const float *weight, const float *dout, float *doffset,
                 float *dweight)
{
    const uint32_t points = a->prob.dim[FV_DEFORM_POINTS];
    const uint32_t n = points * a->prob.dim[FV_DEFORM_LEVELS];
    const bool centres = (a->prob.flags & FV_FLAG_CENTRES) != 0;
    float *part = memory, *value = memory + n, mean = 0.f;
    share(part, weight, n);
    for (uint32_t p = 0; p < n; p++) {
        const fv_deform_level *l = (const fv_deform_level *)a->table + p / points;
        float x, y;
        sample s = {0.f, 0.f, 0.f};
        doffset[2 * p] = doffset[2 * p + 1] = 0.f;
        fv_deform_place(&x, &y, a, l, box, offset + 2 * (size_t)p);
        if (fv_deform_inside(x, l->width) && fv_deform_inside(y, l->height)) {
            const float unit = part[p] * a->f[0];
            s = take(a, l, values, dout, x, y);
            doffset[2 * p] = unit * s.dx * (centres ? 1.f : box[2] * (float)l->width);
            doffset[2 * p + 1] = unit * s.dy * (centres ? 1.f : box[3] * (float)l->height);
        }
        value[p] = s.value;
        mean += part[p] * s.value;
    }
    for (uint32_t p = 0; p < n; p++)
        dweight[p] = part[p] * (value[p] - mean);
}

void FV_NAME(fv_k_deform_grad_f32)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], heads = a->prob.heads;
    const size_t n = (size_t)a->prob.dim[FV_DEFORM_LEVELS] * a->prob.dim[FV_DEFORM_POINTS];
    for (size_t r = 0; r < c->rows; r++) {
        const float *box = (const float *)c->p[FV_DEFORM_GRAD_BOX] + r * a->ld[FV_DEFORM_GRAD_BOX];
        const float *offset =
            (const float *)c->p[FV_DEFORM_GRAD_OFFSET] + r * a->ld[FV_DEFORM_GRAD_OFFSET];
        const float *weight =
            (const float *)c->p[FV_DEFORM_GRAD_WEIGHT] + r * a->ld[FV_DEFORM_GRAD_WEIGHT];
        const float *dout =
            (const float *)c->p[FV_DEFORM_GRAD_DOUT] + r * a->ld[FV_DEFORM_GRAD_DOUT];
        float *out = (float *)c->p[FV_DEFORM_GRAD_OUT] + r * a->ld[FV_DEFORM_GRAD_OUT];
        for (size_t h = 0; h < heads; h++)
            head(a, c->scratch, (const float *)c->p[FV_DEFORM_GRAD_VALUES] + h * d, box,
                 offset + h * 2 * n, weight + h * n, dout + h * d, out + h * 2 * n,
                 out + heads * 2 * n + h * n);
    }
}

/* ---- values ---- */

FV_FN void add_product(float *out, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v sum = fv_fma(fv_set(factor), fv_load_n(x + i, lanes), fv_load_n(out + i, lanes));
        fv_store_n(out + i, sum, lanes);
    }
}

/* Adds one head of a query to the head's gradients. */
static void scatter(const fv_args *a, float *part, const float *box, const float *offset,
                    const float *weight, const float *dout, float *out)
{
    const uint32_t points = a->prob.dim[FV_DEFORM_POINTS], d = a->prob.dim[FV_ATTN_D];
    const uint32_t n = points * a->prob.dim[FV_DEFORM_LEVELS];
    share(part, weight, n);
    for (uint32_t p = 0; p < n; p++) {
        const fv_deform_level *l = (const fv_deform_level *)a->table + p / points;
        float x, y;
        fv_deform_place(&x, &y, a, l, box, offset + 2 * (size_t)p);
        const fv_deform_corners k = fv_deform_at(x, y, l->width, l->height);
        for (int i = 0; i < k.count; i++)
            add_product(out + (l->first + k.row[i]) * a->ld[FV_VALUES_GRAD_OUT], dout,
                        part[p] * k.part[i], d);
    }
}

void FV_NAME(fv_k_deform_grad_values_f32)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D];
    const size_t n = (size_t)a->prob.dim[FV_DEFORM_LEVELS] * a->prob.dim[FV_DEFORM_POINTS];
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        float *out = (float *)c->p[FV_VALUES_GRAD_OUT] + h * d;
        for (size_t r = 0; r < c->rows; r++)
            memset(out + r * a->ld[FV_VALUES_GRAD_OUT], 0, d * sizeof *out);
        for (size_t q = 0; q < a->prob.dim[FV_DEFORM_QUERIES]; q++)
            scatter(a, c->scratch,
                    (const float *)c->p[FV_VALUES_GRAD_BOX] + q * a->ld[FV_VALUES_GRAD_BOX],
                    (const float *)c->p[FV_VALUES_GRAD_OFFSET] + q * a->ld[FV_VALUES_GRAD_OFFSET] +
                        h * 2 * n,
                    (const float *)c->p[FV_VALUES_GRAD_WEIGHT] + q * a->ld[FV_VALUES_GRAD_WEIGHT] +
                        h * n,
                    (const float *)c->p[FV_VALUES_GRAD_DOUT] + q * a->ld[FV_VALUES_GRAD_DOUT] +
                        h * d,
                    out);
    }
}
