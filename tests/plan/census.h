/* census.h: dry plans of every family at sizes that users run, with every type of weights, rows and
 * products, for tests that look at the kernels that they take. */
#ifndef FOVEA_TESTS_CENSUS_H
#define FOVEA_TESTS_CENSUS_H

#include <fovea/fovea.h>

/* Of a plan's estimated time, what all steps on slow kernels together may take. */
#define CENSUS_SHARE 0.005

/* The smallest model of each family, and of each head; NULL after the last. */
const char *census_model(size_t i);

/* What is made of a plan: `p` and what it is, for messages; NULL where the device refuses what `o`
 * asks for. */
typedef void census_look(void *ctx, const fovea_plan *p, const char *plan,
                         const fovea_plan_options *o);
typedef struct census_scope {
    int rows;     /* with plans of which rows of activations have 16 bits */
    size_t sizes; /* the first `sizes` sizes; 0: all */
} census_scope;
/* Looks at the plans of a model, which `name` describes with the device. */
void census_plans(const fovea_model *m, fovea_device *d, const char *name, census_scope scope,
                  census_look *look, void *ctx);

#endif
