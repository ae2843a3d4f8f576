/* bench_csv.c: writes the timed cases as comma-separated values. */
#include "cli/bench/bench_results.h"

void bench_csv_write(FILE *to, const json_t *results)
{
    json_t *timed = json_array(), *r;
    size_t i;
    bench_foreach(results, i, r) {
        json_array_append(timed, r);
    }
    cli_csv_write(to, timed);
    json_decref(timed);
}
