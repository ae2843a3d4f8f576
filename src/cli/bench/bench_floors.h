/* bench_floors.h: measures a model and lower bounds for its steps in the same rounds. */
#ifndef FOVEA_CLI_BENCH_FLOORS_H
#define FOVEA_CLI_BENCH_FLOORS_H

#include "cli/bench/bench.h"

/* Steps of one kind: the same operation on operands of the same shape. */
typedef struct floor_kind {
    fovea_step_info step; /* the first step of the kind; its texts belong to the plan of list[0] */
    uint32_t count;
    size_t alone; /* index of the case that runs only this step; 0 if memory traffic is the bound */
    double times; /* the time of one step divided by the time of one run of that case */
} floor_kind;

typedef struct bench_floors {
    floor_kind *kind;
    size_t kinds;
} bench_floors;

/* Appends cases that bound the steps of the model in list[0]. */
int bench_floors_add(bench_floors *out, bench_case *list, size_t *n, size_t capacity);
json_t *bench_floors_describe(const bench_floors *f, const bench_case *list);
void bench_floors_free(bench_floors *f);

#endif
