/* census.h: dry plans of every family at common sizes, with every type of weights, rows and
 * products, for tests that check which kernels plans choose. */
#ifndef FOVEA_TESTS_CENSUS_H
#define FOVEA_TESTS_CENSUS_H

#include <fovea/fovea.h>

/* Upper bound on the share of a plan's estimated time that all steps on slow kernels may take. */
#define CENSUS_SHARE 0.005

/* Returns the smallest model of each family and of each head by index, or NULL after the last. */
const char *census_model(size_t i);

/* Examines one plan. `plan` describes `p` for messages. `p` is NULL if the device refuses the
 * options `o`. */
typedef void census_look(void *ctx, const fovea_plan *p, const char *plan,
                         const fovea_plan_options *o);
typedef struct census_scope {
    int rows;     /* whether to include plans whose rows of activations have 16 bits */
    size_t sizes; /* number of sizes to plan, from the first on; 0: all */
} census_scope;
/* Calls `look` for the plans of a model. `name` describes the model and the device. */
void census_plans(const fovea_model *m, fovea_device *d, const char *name, census_scope scope,
                  census_look *look, void *ctx);

#endif
