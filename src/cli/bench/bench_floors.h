/* bench_floors.h: a model beside the floors of its steps, all measured in the same rounds. */
#ifndef FOVEA_CLI_BENCH_FLOORS_H
#define FOVEA_CLI_BENCH_FLOORS_H

#include "cli/bench/bench.h"

/* Steps of one kind: the same problem with the same operands. */
typedef struct floor_kind {
    fovea_step_info step;  /* the first one; its texts go with the plan */
    char *label, *problem; /* which these do not */
    uint32_t count;
    double bytes;
    size_t alone; /* case of the same work alone; 0: the floor is its traffic */
    double times; /* the case stands for this many runs of the step's work */
} floor_kind;

typedef struct bench_floors {
    floor_kind *kind;
    size_t kinds;
} bench_floors;

/* list[0] is a model; the cases of its floors are added behind it. */
int bench_floors_add(bench_floors *out, bench_case *list, size_t *n, size_t room);
json_t *bench_floors_describe(const bench_floors *f, const bench_case *list);
void bench_floors_free(bench_floors *f);

#endif
