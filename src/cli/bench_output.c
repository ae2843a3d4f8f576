/* bench_output.c: results in the form and to the place that was asked for. */
#include "bench_results.h"

static void write_results(FILE *to, int format, const json_t *results)
{
    size_t i;
    json_t *r;
    switch (format) {
    case BENCH_JSONL:
        json_array_foreach(results, i, r)
        {
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
    FILE *to = o->path ? fopen(o->path, "w") : stdout;
    if (to)
        write_results(to, o->format, results);
    if (!to || ferror(to) || (o->path && fclose(to) != 0))
        return cli_fail(CLI_INPUT, "-O %s: cannot be written", o->path ? o->path : "");
    return o->plot ? bench_plot(o->plot, results) : CLI_OK;
}
