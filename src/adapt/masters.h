/* masters.h: the numbers that are trained: float32 copies of a private model's tensors, to which
 * its roles point, so that what is packed again is packed from them; their gradients, AdamW's
 * moments, averages.
 */
#ifndef FOVEA_SRC_ADAPT_MASTERS_H
#define FOVEA_SRC_ADAPT_MASTERS_H

#include "models/model.h"

typedef struct fv_master {
    fv_tensor *tensor; /* of the model, in the order of its files */
    bool wanted;       /* it may be trained */
    bool named;        /* the caller asked for it by name */
    bool trained;      /* and a loss depends on it */
    bool decays;
    bool head;                                           /* of a task: not slowed down */
    float *weight, *gradient, *first, *second, *average; /* NULL unless trained; average with EMA */
    double square; /* of the gradient, as it was last measured */
} fv_master;

typedef struct fv_masters {
    fv_master *master;
    uint32_t count;
    float *block[5]; /* weights, gradients, moments, averages of all of them */
    uint64_t floats; /* that are trained */
    uint64_t room;   /* of a block */
} fv_masters;

/* Lists the model's tensors. */
fovea_status fv_masters_list(fv_masters *m, const fovea_model *model);
void fv_masters_free(fv_masters *m);
/* NULL: none of the model's, such as a constant. */
fv_master *fv_masters_of(const fv_masters *m, const fv_tensor *tensor);
fv_master *fv_masters_find(const fv_masters *m, const char *name);
/* Whether a part of the weight may be trained. */
bool fv_masters_want(const fv_masters *m, const fv_weight *w);
/* Floats that those which are trained take, each beginning a line. */
uint64_t fv_masters_floats(const fv_masters *m);
/* Memory for all that are trained, and their tensors point to it from now on. */
fovea_status fv_masters_take(fv_masters *m, bool averages);
/* All gradients, with the zeros between them. */
static inline float *fv_masters_gradients(const fv_masters *m, uint64_t *floats)
{
    *floats = m->room;
    return m->block[1];
}

#endif
