/* masters.h: master weights: float32 copies of a private model's tensors, with their gradients,
 * AdamW's moments and averages. The model's tensors point to the copies, so that weights are
 * repacked from the copies. */
#ifndef FOVEA_SRC_ADAPT_MASTERS_H
#define FOVEA_SRC_ADAPT_MASTERS_H

#include "models/model.h"

typedef struct fv_master {
    fv_tensor *tensor; /* the model's tensor, in the order of its files */
    bool wanted;       /* may be trained */
    bool named;        /* the caller specified it by name */
    bool trained;      /* wanted, and a loss depends on it */
    bool decays;
    bool head; /* belongs to a task's head, to which backbone_ratio does not apply */
    /* NULL unless trained; average also needs an exponential moving average */
    float *weight, *gradient, *first, *second, *average;
    double square; /* sum of squares of the gradient, when it was last measured */
} fv_master;

typedef struct fv_masters {
    fv_master *master;
    uint32_t count;
    float *block[5];        /* memory of all weights; gradients; both moments; averages */
    uint64_t floats;        /* number of trained floats */
    uint64_t padded_floats; /* floats of a block, including padding */
} fv_masters;

/* Lists the model's tensors. */
fovea_status fv_masters_list(fv_masters *m, const fovea_model *model);
void fv_masters_free(fv_masters *m);
/* Returns the master of a tensor, or NULL if the tensor is not the model's, such as a constant. */
fv_master *fv_masters_of(const fv_masters *m, const fv_tensor *tensor);
fv_master *fv_masters_find(const fv_masters *m, const char *name);
/* Returns whether any tensor of the weight may be trained. */
bool fv_masters_want(const fv_masters *m, const fv_weight *w);
/* Returns the number of floats of all trained tensors, each padded to whole cache lines. */
uint64_t fv_masters_floats(const fv_masters *m);
/* Allocates the blocks, copies the trained weights, and points their tensors to the copies. */
fovea_status fv_masters_take(fv_masters *m, bool averages);
/* Returns all gradients, including the zero padding between tensors. */
static inline float *fv_masters_gradients(const fv_masters *m, uint64_t *floats)
{
    *floats = m->padded_floats;
    return m->block[1];
}

#endif
