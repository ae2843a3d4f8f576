/* bench_results.h: reads, prints and compares results of `fovea bench`. A result is a JSON object,
 * whose "schema" identifies its format. The code works on an array of results, from this run or
 * from a file. */
#ifndef FOVEA_CLI_BENCH_RESULTS_H
#define FOVEA_CLI_BENCH_RESULTS_H

#include <stdio.h>

#include "cli/common/cli.h"

#define BENCH_SCHEMA "fovea.bench/1"

/* ---- bench_results.c ---- */

/* Reads all results in a file, which has one object per line, or one array. */
int bench_results_read(json_t **out, const char *path);
bool bench_has_schema(const json_t *result, const char *schema);
/* Loops over the results of timed cases. */
#define bench_foreach(results, i, r)                                                               \
    json_array_foreach(results, i, r)                                                              \
        if (bench_has_schema(r, BENCH_SCHEMA))
bool bench_is_model(const json_t *result);
const char *bench_word(const json_t *object, const char *key);
double bench_number(const json_t *object, const char *key);
/* Returns the number at key `key` of the object at key `member`. */
double bench_inner(const json_t *object, const char *member, const char *key);
/* Formats milliseconds with at least three significant digits. */
cli_word bench_ms(double ms);
/* Returns the bytes of memory that the plan announced; for a model, without its weights. */
double bench_promised(const json_t *result);
/* Returns where a case ran: "2 threads", "cl:0" */
cli_word bench_where(const json_t *result);

/* ---- showing them ---- */

enum bench_format { BENCH_TEXT, BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL };

/* bench_output.c */
typedef struct bench_output {
    int format;       /* an enum bench_format */
    const char *path; /* NULL for standard output */
} bench_output;
int bench_output_write(const bench_output *o, const json_t *results);
/* Checks, before minutes of measuring, that the file of an option can be written. Changes nothing.
 * `path` is NULL if there is no file. */
int bench_output_check(const char *option, const char *path);

/* bench_table.c writes tables for people. bench_csv.c writes one line per case, with units in the
 * headings. */
void bench_table_write(FILE *to, const json_t *results, bool markdown);
void bench_csv_write(FILE *to, const json_t *results);

/* bench_baseline.c: adds the member "baseline", {p50_ms, change_percent}, to each result whose case
 * is also in the baseline. Fails if no case is in the baseline. */
int bench_baseline_add(json_t *results, const json_t *baseline, const char *path);
/* Prints the cases whose time changed by more than `percent`. Returns CLI_SLOWER if any case became
 * slower. */
int bench_baseline_judge(const json_t *results, double percent);

#endif
