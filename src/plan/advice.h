/* advice.h: looks up in wisdom, for a plan that is being made, the kernel of a step, the schedule
 * and chunk of a sweep, and the precision of products.
 *
 * An answer is called "wisdom" if it was found on this device for a problem of this size. It is
 * called "prior" if it was found for half an octave more or fewer tokens, or for a step on another
 * device of the same backend and features. How sweeps run depends on the number of threads, so
 * facts of other devices are not used for sweeps. */
#ifndef FOVEA_SRC_ADVICE_H
#define FOVEA_SRC_ADVICE_H

#include "graph/emit.h"
#include "wisdom/wisdom.h"

struct fv_plan_sweep;

/* The store that a plan reads, and the device whose facts it looks up. */
typedef struct fv_advice {
    fv_wisdom *wisdom; /* NULL: no wisdom is used */
    char device[FV_WISDOM_DEVICE];
} fv_advice;

void fv_advice_begin(fv_advice *a, fv_wisdom *wisdom, const fovea_device *device, uint32_t threads);

/* Returns the kernel that wisdom names for a problem, if the kernel is in `list` and supports the
 * problem, or NULL if wisdom names none. Sets *source to "wisdom" or "prior". */
const fv_kernel *fv_advice_step(const fv_advice *a, const fv_kernel *list, int count,
                                uint32_t features, const fv_problem *p, fv_knobs *knobs,
                                const char **source);
/* Returns whether wisdom says that this kernel crashed the program when it was tried for the
 * problem. */
bool fv_advice_skips(const fv_advice *a, const fv_kernel *k, const fv_knobs *knobs,
                     const fv_problem *p);

/* Finds how a sweep should run. Returns "wisdom" or "prior", or NULL if wisdom has no fact about
 * the sweep. */
const char *fv_advice_sweep(const fv_advice *a, const fv_graph *g, const struct fv_plan_sweep *w,
                            bool *streamed, uint32_t *chunk);

/* Make the subjects of facts about sweeps and about whole plans. fv_advice_plan_key returns the
 * number of characters before the types of weights and products. */
void fv_advice_sweep_key(char out[FV_WISDOM_SUBJECT], const fv_graph *g,
                         const struct fv_plan_sweep *w, int away);
size_t fv_advice_plan_key(char out[FV_WISDOM_SUBJECT], const fovea_model *model,
                          const fv_emit_options *options);

/* Finds the precision that tuning has chosen for the model's products, for these types of weights
 * and this attention. Returns "wisdom", or "prior" if the choice was tuned for another size, or
 * NULL if wisdom has no such fact. */
const char *fv_advice_products(const fv_advice *a, const fovea_model *model,
                               const fv_emit_options *options, fv_product_choice *out);
/* Makes the subject of the fact that fv_advice_products looks up. It contains a fingerprint of the
 * weights, because another checkpoint of the same shape has other errors. */
void fv_advice_products_key(char out[FV_WISDOM_SUBJECT], const fovea_model *model,
                            const fv_emit_options *options);

#endif
