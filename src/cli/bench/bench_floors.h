/* bench_floors.h: a model and the lower bounds of its steps, measured in the same rounds. */
#ifndef FOVEA_CLI_BENCH_FLOORS_H
#define FOVEA_CLI_BENCH_FLOORS_H

#include "cli/bench/bench.h"

/* Steps of one kind: the same problem with the same operands. */
typedef struct floor_kind {
    fovea_step_info step; /* of the first step; its texts belong to the plan, which list[0] holds */
    uint32_t count;
    size_t alone; /* index of the case that runs this work alone; 0: bounded by memory traffic */
    double times; /* runs of that case that make one step */
} floor_kind;

typedef struct bench_floors {
    floor_kind *kind;
    size_t kinds;
} bench_floors;

/* list[0] is a model; appends the cases that bound its steps. */
int bench_floors_add(bench_floors *out, bench_case *list, size_t *n, size_t capacity);
json_t *bench_floors_describe(const bench_floors *f, const bench_case *list);
void bench_floors_free(bench_floors *f);

#endif
