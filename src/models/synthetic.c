/* synthetic.c: makes the tensors and layers of synthetic checkpoints. */
#include "models/synthetic.h"

#include <math.h>
#include <stdio.h>

#define SMALL 0.035f /* spread of the values of biases */

void fv_synthetic_tensor(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rank,
                         const uint64_t *shape, float mean, float spread)
{
    char name[128];
    if (m->status != FOVEA_OK)
        return;
    snprintf(name, sizeof name, "%s%s", prefix, stem);
    m->status = fv_source_add(m->source, name, rank, shape, mean, spread);
}

static void add_part(fv_synthetic *m, const char *prefix, const char *stem, const char *part,
                     uint32_t rank, const uint64_t *shape, float mean, float spread)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", stem, part);
    fv_synthetic_tensor(m, prefix, name, rank, shape, mean, spread);
}

void fv_synthetic_matrix(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rows,
                         uint32_t channels, uint32_t size, float gain)
{
    const uint64_t whole[4] = {rows, channels, size, size};
    const float inputs = (float)(whole[1] * whole[2] * whole[3]);
    /* Uniform values in [-spread, spread] have a standard deviation of spread / sqrt(3). */
    add_part(m, prefix, stem, "weight", size > 1 ? 4 : 2, whole, 0, gain * sqrtf(3 / inputs));
}

void fv_synthetic_linear(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rows,
                         uint32_t channels, uint32_t size, float gain)
{
    fv_synthetic_matrix(m, prefix, stem, rows, channels, size, gain);
    fv_synthetic_bias(m, prefix, stem, rows);
}

void fv_synthetic_deconv(fv_synthetic *m, const char *prefix, const char *stem, uint32_t channels,
                         uint32_t rows, uint32_t size, uint32_t inputs)
{
    const uint64_t shape[4] = {channels, rows, size, size};
    add_part(m, prefix, stem, "weight", 4, shape, 0, sqrtf(3 / (float)inputs));
}

void fv_synthetic_bias(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rows)
{
    const uint64_t n = rows;
    add_part(m, prefix, stem, "bias", 1, &n, 0, SMALL);
}

void fv_synthetic_norm(fv_synthetic *m, const char *prefix, const char *stem, uint32_t width)
{
    const uint64_t n = width;
    add_part(m, prefix, stem, "weight", 1, &n, 1, 0.1f);
    add_part(m, prefix, stem, "bias", 1, &n, 0, SMALL);
}

json_t *fv_synthetic_list(const uint32_t n[4])
{
    return json_pack("[i, i, i, i]", (int)n[0], (int)n[1], (int)n[2], (int)n[3]);
}

fovea_status fv_synthetic_end(json_t **config, const char *name, fovea_status status, json_t *made)
{
    if (status == FOVEA_OK && made) {
        *config = made;
        return FOVEA_OK;
    }
    json_decref(made);
    return made ? status : fv_fail(FOVEA_ENOMEM, "%s: no memory for its configuration", name);
}
