/* masters.h: master weights: float32 copies of a private model's tensors, with gradients, AdamW's
 * moments and averages. The model's tensors point to the copies, so that weights are repacked from
 * them.
 */
#ifndef FOVEA_SRC_ADAPT_MASTERS_H
#define FOVEA_SRC_ADAPT_MASTERS_H

#include "models/model.h"

typedef struct fv_master {
    fv_tensor *tensor; /* the model's tensor, in the order of its files */
    bool wanted;       /* may be trained */
    bool named;        /* the caller has named it */
    bool trained;      /* wanted, and a loss depends on it */
    bool decays;
    bool head; /* of a task's head: backbone_ratio does not apply */
    float *weight, *gradient, *first, *second, *average; /* NULL unless trained; average with EMA */
    double square; /* sum of squares of the gradient, as last measured */
} fv_master;

typedef struct fv_masters {
    fv_master *master;
    uint32_t count;
    float *block[5];        /* all weights; gradients; two moments; averages */
    uint64_t floats;        /* trained floats */
    uint64_t padded_floats; /* floats of a block, padding included */
} fv_masters;

/* Lists the model's tensors. */
fovea_status fv_masters_list(fv_masters *m, const fovea_model *model);
void fv_masters_free(fv_masters *m);
/* The master of a tensor; NULL: it is not the model's, such as a constant. */
fv_master *fv_masters_of(const fv_masters *m, const fv_tensor *tensor);
fv_master *fv_masters_find(const fv_masters *m, const char *name);
/* Whether any tensor of the weight may be trained. */
bool fv_masters_want(const fv_masters *m, const fv_weight *w);
/* Floats of all trained tensors, each padded to whole cache lines. */
uint64_t fv_masters_floats(const fv_masters *m);
/* Allocates the blocks, copies the trained weights, and points their tensors to the copies. */
fovea_status fv_masters_take(fv_masters *m, bool averages);
/* All gradients, with the zero padding between tensors. */
static inline float *fv_masters_gradients(const fv_masters *m, uint64_t *floats)
{
    *floats = m->padded_floats;
    return m->block[1];
}

#endif
