/* fold.c: folds normalisations, scales and residuals into weights. */
#include "models/fold.h"

#include <assert.h>
#include <math.h>

#define EPS 1e-5 /* epsilon of every BatchNorm */

/* y * factor + shift, with one pair per row. */
struct affine {
    float *factor, *shift;
    const fv_tensor *shifts;
};

/* `bias` may be NULL. */
static fovea_status fold_norm(struct affine *out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t rows, const fv_tensor *bias)
{
    const fv_tensor *weight, *beta, *mean, *var;
    const uint64_t shape[1] = {rows};
    FV_TRY(fv_reader_tensor(&weight, t, prefix, stem, "weight", 1, shape));
    FV_TRY(fv_reader_tensor(&beta, t, prefix, stem, "bias", 1, shape));
    FV_TRY(fv_reader_buffer(&mean, t, prefix, stem, "running_mean", rows));
    FV_TRY(fv_reader_buffer(&var, t, prefix, stem, "running_var", rows));
    for (uint32_t i = 0; i < rows; i++) {
        float g, add, mu, v, b = 0;
        fv_tensor_read(weight, i, 1, &g);
        fv_tensor_read(beta, i, 1, &add);
        fv_tensor_read(mean, i, 1, &mu);
        fv_tensor_read(var, i, 1, &v);
        if (bias)
            fv_tensor_read(bias, i, 1, &b);
        if (!(v >= 0))
            return fv_fail(
                FOVEA_EFORMAT,
                "%s: tensor \"%s\" has a variance of %g at index %u; fetch the file again",
                t->source->name, var->name, (double)v, i);
        const double factor = (double)g / sqrt((double)v + EPS);
        out->factor[i] = (float)factor;
        out->shift[i] = (float)(((double)b - (double)mu) * factor + (double)add);
    }
    return FOVEA_OK;
}

static fovea_status fold_scale(struct affine *out, fv_tensor_reader *t, const char *prefix,
                               const char *name, uint32_t rows, const fv_tensor *bias)
{
    const fv_tensor *scale;
    const uint64_t shape[1] = {rows};
    FV_TRY(fv_reader_tensor(&scale, t, prefix, name, "", 1, shape));
    fv_tensor_read(scale, 0, rows, out->factor);
    fv_tensor_read(bias, 0, rows, out->shift);
    for (uint32_t i = 0; i < rows; i++)
        out->shift[i] *= out->factor[i];
    return FOVEA_OK;
}

fovea_status fv_fold(fv_layer *l, fv_tensor_reader *t, const char *prefix, const fv_fold_layer *f)
{
    const uint32_t taps = f->size * f->size, cols = f->channels * taps;
    const uint64_t shape[4] = {f->rows, f->channels, f->size, f->size}, length[1] = {f->rows};
    const fv_tensor *weight, *bias = NULL;
    struct affine a = {0};
    assert(!(f->norm && f->scale) && !(f->scale && f->unbiased));
    FV_TRY(fv_reader_tensor(&weight, t, prefix, f->stem, "weight", 4, shape));
    if (!f->unbiased)
        FV_TRY(fv_reader_tensor(&bias, t, prefix, f->stem, "bias", 1, length));
    if (f->norm || f->scale) {
        const fv_tensor *scale_tensor;
        FV_TRY(fv_model_floats(&a.factor, &scale_tensor, t->m, 1, f->rows));
        FV_TRY(fv_model_floats(&a.shift, &a.shifts, t->m, 1, f->rows));
    }
    if (f->norm)
        FV_TRY(fold_norm(&a, t, prefix, f->norm, f->rows, bias));
    if (f->scale)
        FV_TRY(fold_scale(&a, t, prefix, f->scale, f->rows, bias));
    l->w = (fv_weight){.rows = f->rows, .cols = cols};
    fv_weight_add(&l->w, (fv_weight_part){.tensor = weight,
                                          .rows = f->rows,
                                          .cols = cols,
                                          .taps = f->by_tap ? taps : 0,
                                          .row_scale = a.factor});
    if (a.shifts || bias)
        l->b = fv_weight_of(a.shifts ? a.shifts : bias, 1, f->rows);
    return FOVEA_OK;
}

/* Makes a vector that the model owns, with `from` repeated for every pixel of a block. */
static fovea_status repeat(float **data, const fv_tensor **out, fovea_model *m, const float *from,
                           uint32_t n, uint32_t times)
{
    FV_TRY(fv_model_floats(data, out, m, 1, n * times));
    for (uint32_t i = 0; i < n * times; i++)
        (*data)[i] = from[i % n];
    return FOVEA_OK;
}

fovea_status fv_fold_transposed(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                                const fv_fold_deconv *f)
{
    const uint32_t reach = f->overlap ? 2 : 1, blocks = f->stride * f->stride, rows = f->rows;
    const uint64_t size = (uint64_t)f->stride * reach, length[1] = {rows};
    const uint64_t shape[4] = {f->channels, rows, size, size};
    const fv_tensor *weight, *bias = NULL, *one;
    struct affine a = {0};
    float *shifts, *scales;
    FV_TRY(fv_reader_tensor(&weight, t, prefix, f->stem, "weight", 4, shape));
    if (fv_reader_find(t, prefix, f->stem, "bias"))
        FV_TRY(fv_reader_tensor(&bias, t, prefix, f->stem, "bias", 1, length));
    l->w = fv_weight_deconv(weight, f->channels, rows, f->stride, reach);
    if (!f->norm && !bias)
        return FOVEA_OK;
    FV_TRY(fv_model_floats(&a.factor, &one, t->m, 1, rows));
    FV_TRY(fv_model_floats(&a.shift, &a.shifts, t->m, 1, rows));
    if (f->norm)
        FV_TRY(fold_norm(&a, t, prefix, f->norm, rows, bias));
    else
        fv_tensor_read(bias, 0, rows, a.shift);
    FV_TRY(repeat(&shifts, &one, t->m, a.shift, rows, blocks));
    l->b = fv_weight_of(one, 1, blocks * rows);
    if (!f->norm)
        return FOVEA_OK;
    FV_TRY(repeat(&scales, &one, t->m, a.factor, rows, blocks));
    l->w.part[0].row_scale = scales;
    return FOVEA_OK;
}

fovea_status fv_fold_residual(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t channels, uint32_t size)
{
    const uint32_t taps = size * size;
    const uint64_t shape[4] = {channels, 1, size, size};
    const fv_tensor *filters, *folded;
    float *data;
    FV_TRY(fv_reader_tensor(&filters, t, prefix, stem, "weight", 4, shape));
    FV_TRY(fv_reader_matrix(&l->b, t, prefix, stem, "bias", 1, channels));
    FV_TRY(fv_model_floats(&data, &folded, t->m, channels, taps));
    fv_tensor_read(filters, 0, (uint64_t)channels * taps, data);
    for (uint32_t i = 0; i < channels; i++)
        data[(size_t)i * taps + taps / 2] += 1;
    l->w = fv_weight_of(folded, channels, taps);
    return FOVEA_OK;
}
