/* synthetic.c: makes the tensors and layers of synthetic checkpoints. */
#include "models/synthetic.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define SMALL 0.035f /* spread of the values of biases */

const void *fv_synthetic_size(const fv_synthetic_list *list, size_t index)
{
    return list && index < list->count ? (const char *)list->sizes + index * list->size : NULL;
}

const char *fv_synthetic_name(const fv_synthetic_list *list, size_t index)
{
    const char *const *size = fv_synthetic_size(list, index);
    return size ? *size : NULL;
}

void fv_synthetic_under(fv_synthetic *m, const char *format, ...)
{
    const size_t n = (size_t)snprintf(m->prefix, sizeof m->prefix, "%s", m->root);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m->prefix + n, sizeof m->prefix - n, format, arguments);
    va_end(arguments);
}

/* Adds the tensor prefix + stem + part. */
static void add(fv_synthetic *m, const char *stem, const char *part, uint32_t rank,
                const uint64_t *shape, float mean, float spread)
{
    char name[128];
    if (m->status != FOVEA_OK || !stem)
        return;
    snprintf(name, sizeof name, "%s%s%s", m->prefix, stem, part);
    m->status = fv_source_add(m->source, name, rank, shape, mean, spread);
}

static void add_row(fv_synthetic *m, const char *stem, const char *part, uint64_t n, float mean,
                    float spread)
{
    add(m, stem, part, 1, &n, mean, spread);
}

void fv_synthetic_tensor(fv_synthetic *m, const char *name, uint32_t rank, const uint64_t *shape,
                         float mean, float spread)
{
    add(m, name, "", rank, shape, mean, spread);
}

void fv_synthetic_vector(fv_synthetic *m, const char *name, uint64_t n, float mean, float spread)
{
    add_row(m, name, "", n, mean, spread);
}

void fv_synthetic_table(fv_synthetic *m, const char *name, uint64_t rows, uint64_t cols,
                        float spread)
{
    add(m, name, "", 2, (const uint64_t[]){rows, cols}, 0, spread);
}

void fv_synthetic_matrix(fv_synthetic *m, const char *stem, uint32_t rows, uint32_t channels,
                         uint32_t size, float gain)
{
    const uint64_t shape[4] = {rows, channels, size, size};
    const float inputs = (float)(shape[1] * shape[2] * shape[3]);
    /* Uniform values in [-spread, spread] have a standard deviation of spread / sqrt(3). */
    add(m, stem, "weight", size > 1 ? 4 : 2, shape, 0, gain * sqrtf(3 / inputs));
}

void fv_synthetic_linear(fv_synthetic *m, const char *stem, uint32_t rows, uint32_t channels,
                         uint32_t size, float gain)
{
    fv_synthetic_matrix(m, stem, rows, channels, size, gain);
    fv_synthetic_bias(m, stem, rows);
}

void fv_synthetic_deconv(fv_synthetic *m, const char *stem, uint32_t channels, uint32_t rows,
                         uint32_t size, uint32_t inputs)
{
    const uint64_t shape[4] = {channels, rows, size, size};
    add(m, stem, "weight", 4, shape, 0, sqrtf(3 / (float)inputs));
}

void fv_synthetic_bias(fv_synthetic *m, const char *stem, uint32_t rows)
{
    add_row(m, stem, "bias", rows, 0, SMALL);
}

void fv_synthetic_norm(fv_synthetic *m, const char *stem, uint32_t width)
{
    add_row(m, stem, "weight", width, 1, 0.1f);
    fv_synthetic_bias(m, stem, width);
}

void fv_synthetic_batchnorm(fv_synthetic *m, const char *stem, uint32_t width, float spread)
{
    fv_synthetic_norm(m, stem, width);
    add_row(m, stem, "running_mean", width, 0, spread);
    add_row(m, stem, "running_var", width, 1, 0.1f);
}

float fv_synthetic_added(uint32_t times)
{
    return 1 / sqrtf((float)times);
}

json_t *fv_synthetic_four(const uint32_t n[4])
{
    return json_pack("[i, i, i, i]", (int)n[0], (int)n[1], (int)n[2], (int)n[3]);
}

json_t *fv_synthetic_join(json_t *config, json_t *more)
{
    const bool joined = json_object_update(config, more) == 0;
    json_decref(more);
    if (joined)
        return config;
    json_decref(config);
    return NULL;
}
