/* bench_results.h: results of benchmarks as JSON objects, just measured or read from a file, and
 * what is shown of them. */
#ifndef FOVEA_CLI_BENCH_RESULTS_H
#define FOVEA_CLI_BENCH_RESULTS_H

#include "cli.h"

/* The "fovea.bench/1" objects of a file that an earlier --json wrote. */
int bench_results_read(json_t **out, const char *path);
/* A line for each, after a line for each device. */
void bench_results_show(const json_t *results);

/* bench_plot.c: time and memory over pixels or tokens. Results that differ in anything else make a
 * series each. */
int bench_plot(const char *path, const json_t *results);

/* A member of a result, of its params or the like; "" and 0 where there is none. */
const char *bench_word(const json_t *object, const char *key);
double bench_number(const json_t *object, const char *key);
bool bench_is_model(const json_t *result);
/* Bytes that the plan promised. Of models beside the weights, which their plans share and which are
 * not in what is measured either. */
double bench_promised(const json_t *result);

#endif
