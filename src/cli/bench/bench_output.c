/* bench_output.c: writes results in the requested format to the requested file. */
#include "cli/bench/bench_results.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int bench_output_check(const char *option, const char *path)
{
    if (!path)
        return CLI_OK;
    const bool there = access(path, F_OK) == 0;
    FILE *f = fopen(path, "a");
    if (!f)
        return cli_fail(CLI_INPUT, "%s %s: cannot be written: %s", option, path, strerror(errno));
    fclose(f);
    if (!there)
        remove(path);
    return CLI_OK;
}

static void write_results(FILE *to, int format, const json_t *results)
{
    size_t i;
    json_t *r;
    switch (format) {
    case BENCH_JSONL:
        json_array_foreach(results, i, r) {
            json_dumpf(r, to, JSON_COMPACT | JSON_REAL_PRECISION(9));
            fputc('\n', to);
        }
        return;
    case BENCH_JSON:
        json_dumpf(results, to, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        fputc('\n', to);
        return;
    case BENCH_CSV:
        bench_csv_write(to, results);
        return;
    default:
        bench_table_write(to, results, format == BENCH_MD);
    }
}

int bench_output_write(const bench_output *o, const json_t *results)
{
    cli_output file = {.file = stdout};
    CLI_TRY(o->path ? cli_output_begin(&file, o->path) : CLI_OK);
    write_results(file.file, o->format, results);
    return o->path ? cli_output_end(&file, NULL) : CLI_OK;
}
