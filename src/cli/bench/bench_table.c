/* bench_table.c: prints results of benchmarks as tables, for a terminal or as Markdown. */
#include "cli/bench/bench_results.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/text_table.h"

struct output {
    FILE *to;
    bool markdown;
};

/* ---- the machines ---- */

/* Prints one line for each device in the results. */
static void show_devices(const struct output *o, const json_t *results)
{
    size_t i;
    json_t *r;
    bench_foreach(results, i, r) {
        const json_t *env = json_object_get(r, "env"), *peak = json_object_get(r, "roofline");
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = json_equal(json_object_get(json_array_get(results, k), "env"), env);
        if (seen)
            continue;
        fprintf(o->to,
                "%s%s %s, %s, %.0f threads: fma %.1f GFLOP/s, gemm %.1f GFLOP/s, "
                "bf16 %.1f GFLOP/s, int8 %.1f GOP/s, read %.1f GB/s, copy %.1f GB/s\n",
                o->markdown ? "* " : "", bench_word(env, "device"), bench_word(env, "name"),
                bench_word(env, "isa"), bench_number(env, "threads"),
                bench_number(peak, "fma_gflops"), bench_number(peak, "gemm_gflops"),
                bench_number(peak, "bf16_gflops"), bench_number(peak, "int8_gops"),
                bench_number(peak, "read_gbs"), bench_number(peak, "copy_gbs"));
    }
    fputc('\n', o->to);
}

/* ---- the cases ---- */

static bool any_compared(const json_t *results)
{
    size_t i;
    json_t *r;
    bench_foreach(results, i, r) {
        if (json_object_get(r, "baseline"))
            return true;
    }
    return false;
}

static void put_baseline(text_table *t, const json_t *result)
{
    const json_t *baseline = json_object_get(result, "baseline");
    if (baseline) {
        table_put(t, "%s", bench_ms(bench_number(baseline, "p50_ms")).text);
        table_put(t, "%+.1f%%", bench_number(baseline, "change_percent"));
    } else {
        table_put(t, "-");
        table_put(t, "-");
    }
}

static void show_times(const struct output *o, const json_t *results)
{
    static const char *const times[] = {"p50_ms", "p95_ms", "p99_ms", "max_ms"};
    const bool compared = any_compared(results);
    const char *const heads[] = {
        "<case",   "on",      "schedule", "p50 ms",  "p95 ms",
        "p99 ms",  "max ms",  "ci %",     "samples", "ratio",
        "GFLOP/s", "of peak", "verify",   "<status", compared ? "baseline ms" : NULL,
        "change",  NULL};
    text_table t;
    size_t i;
    json_t *r;
    double first = 0;
    table_begin(&t, heads);
    bench_foreach(results, i, r) {
        const json_t *params = json_object_get(r, "params"), *verify = json_object_get(r, "verify");
        const double p50 = bench_number(r, "p50_ms");
        first = first > 0 ? first : p50;
        table_put(&t, "%s", bench_word(r, "title"));
        table_put(&t, "%s", bench_where(r).text);
        table_put(&t, "%s", bench_word(params, "schedule"));
        for (size_t k = 0; k < sizeof times / sizeof *times; k++)
            table_put(&t, "%s", bench_ms(bench_number(r, times[k])).text);
        table_put(&t, "%.1f", bench_number(r, "ci_percent"));
        table_put(&t, "%zu", json_array_size(json_object_get(r, "samples_ns")));
        table_put(&t, "%.2f", p50 / first);
        table_put(&t, "%.1f", bench_number(r, "gflops"));
        table_put(&t, "%.1f%%", 100 * bench_inner(r, "roofline", "fraction"));
        if (json_is_object(verify))
            table_put(&t, "%.1e", bench_number(verify, "rel"));
        else
            table_put(&t, "off");
        table_put(&t, "%s", bench_word(r, "status"));
        if (compared)
            put_baseline(&t, r);
    }
    table_end(&t, o->to, o->markdown);
}

/* Explains the time columns and the statuses that occur in the table. */
static void show_legend(const struct output *o, const json_t *results)
{
    static const struct {
        const char *status, *meaning;
    } statuses[] = {
        {"unstable",
         "the 95 percent interval of the median is wider than 1 percent: more --time narrows it"},
        {"noisy",
         "p95 is more than 1.5 times the median, because other programs disturbed the measurement"},
        {"throttled", "the processor became slower during the case"},
        {"unverified", "--verify off"},
    };
    size_t i;
    json_t *r;
    fputs("\nratio: p50 divided by that of the first case. ci: width of the 95 percent interval of "
          "the median. of peak: the least\ntime that this device's measured arithmetic and "
          "bandwidth allow, divided by p50. verify: largest error\ndivided by the largest value, "
          "compared with the reference.\n",
          o->to);
    for (size_t k = 0; k < sizeof statuses / sizeof *statuses; k++) {
        bool there = false;
        bench_foreach(results, i, r)
            there |= strcmp(bench_word(r, "status"), statuses[k].status) == 0;
        if (there)
            fprintf(o->to, "%s: %s.\n", statuses[k].status, statuses[k].meaning);
    }
}

/* Prints the time before the first frame, and the memory. */
static void show_costs(const struct output *o, const json_t *results)
{
    static const char *const heads[] = {"<case",       "open ms",  "plan ms",  "first ms",
                                        "device ms",   "promised", "resident", "weights",
                                        "allocations", NULL};
    text_table t;
    size_t i;
    json_t *r;
    table_begin(&t, heads);
    bench_foreach(results, i, r) {
        table_put(&t, "%s", bench_word(r, "title"));
        table_put(&t, "%.2f", bench_number(r, "open_ms"));
        table_put(&t, "%.2f", bench_number(r, "plan_ms"));
        table_put(&t, "%.3f", bench_number(r, "first_ms"));
        table_put(&t, "%.3f", bench_number(r, "device_p50_ms"));
        table_put(&t, "%s", cli_bytes((uint64_t)bench_promised(r)).text);
        table_put(&t, "%s", cli_bytes((uint64_t)bench_inner(r, "peak_bytes", "resident")).text);
        table_put(&t, "%s", cli_bytes((uint64_t)bench_inner(r, "peak_bytes", "weights")).text);
        table_put(&t, "%.0f", bench_number(r, "allocations"));
    }
    table_end(&t, o->to, o->markdown);
}

/* ---- tables that only some results have ---- */

/* A column of a table with one row per object. */
typedef struct column {
    const char *head, *key;
    /* format of a number, with "-" for a missing member; NULL if the member is a text */
    const char *format;
    double scale;
} column;

/* Prints a table. `columns` ends with an empty entry. */
static void show_rows(const struct output *o, const json_t *rows, const column *columns)
{
    const char *heads[TABLE_COLUMNS + 1] = {NULL};
    text_table t;
    size_t i;
    json_t *r;
    for (size_t k = 0; columns[k].head; k++)
        heads[k] = columns[k].head;
    table_begin(&t, heads);
    json_array_foreach(rows, i, r)
        for (const column *c = columns; c->head; c++)
            if (!c->format)
                table_put(&t, "%s", bench_word(r, c->key));
            else if (json_is_number(json_object_get(r, c->key)))
                table_put(&t, c->format, c->scale * bench_number(r, c->key));
            else
                table_put(&t, "-");
    table_end(&t, o->to, o->markdown);
}

static const column series_columns[] = {
    {"at s", "at_s", "%.0f", 1},           {"frames", "frames", "%.0f", 1},
    {"p50 ms", "p50_ms", "%.3f", 1},       {"p95 ms", "p95_ms", "%.3f", 1},
    {"clock MHz", "clock_mhz", "%.0f", 1}, {"GPU MHz", "gpu_mhz", "%.0f", 1},
    {"degrees C", "celsius", "%.0f", 1},   {NULL, NULL, NULL, 0},
};

static const column layer_columns[] = {
    {"<step", "label", NULL, 0},
    {"<problem", "problem", NULL, 0},
    {"<kernel", "kernel", NULL, 0},
    {"<source", "source", NULL, 0},
    {"sweep", "sweep", "%.0f", 1},
    {"calls", "calls", "%.0f", 1},
    {"ms", "ms", "%.4f", 1},
    {"share", "share", "%.1f%%", 100},
    {"GFLOP/s", "gflops", "%.1f", 1},
    {"of peak", "roofline", "%.1f%%", 100},
    {NULL, NULL, NULL, 0},
};

static const column sweep_columns[] = {
    {"sweep", "sweep", "%.0f", 1},      {"<from", "label", NULL, 0},
    {"<schedule", "schedule", NULL, 0}, {"chunk", "chunk", "%.0f", 1},
    {"steps", "steps", "%.0f", 1},      {"ms", "ms", "%.4f", 1},
    {"share", "share", "%.1f%%", 100},  {NULL, NULL, NULL, 0},
};

static void show_pace(const struct output *o, const json_t *r)
{
    const json_t *pace = json_object_get(r, "pace");
    if (!pace)
        return;
    fprintf(o->to, "%s: %.0f frames in %.1f s, %.2f per second", bench_word(r, "title"),
            bench_number(pace, "frames"), bench_number(pace, "seconds"),
            bench_number(pace, "achieved_fps"));
    if (json_object_get(pace, "rate_fps"))
        fprintf(o->to,
                ", at a rate of %.2f; deadlines missed %.0f, frames dropped %.0f, jitter %.3f ms",
                bench_number(pace, "rate_fps"), bench_number(pace, "missed"),
                bench_number(pace, "dropped"), bench_number(pace, "jitter_ms"));
    fprintf(o->to, "; last time over first %.3f\n\n", bench_number(pace, "slowdown"));
    if (json_object_get(pace, "series"))
        show_rows(o, json_object_get(pace, "series"), series_columns);
}

static void show_profile(const struct output *o, const json_t *r)
{
    const json_t *profile = json_object_get(r, "profile");
    if (!profile)
        return;
    fprintf(o->to, "%s: a traced frame takes %.3f ms, other frames %.3f ms\n\n",
            bench_word(r, "title"), bench_number(profile, "traced_ms"),
            bench_number(profile, "untraced_ms"));
    show_rows(o, json_object_get(profile, "layers"), layer_columns);
    show_rows(o, json_object_get(profile, "sweeps"), sweep_columns);
}

static void show_floors(const struct output *o, const json_t *r)
{
    static const char *const heads[] = {"<step",    "<problem", "count", "MiB each",
                                        "alone ms", "bound ms", "share", NULL};
    const json_t *floors = json_object_get(r, "floors");
    const double sum = bench_number(floors, "sum_ms");
    text_table t;
    size_t i;
    json_t *s;
    if (!floors)
        return;
    table_begin(&t, heads);
    json_array_foreach(json_object_get(floors, "steps"), i, s) {
        const double all = bench_number(s, "count") * bench_number(s, "floor_ms");
        table_put(&t, "%s", bench_word(s, "label"));
        table_put(&t, "%s", bench_word(s, "problem"));
        table_put(&t, "%.0f", bench_number(s, "count"));
        table_put(&t, "%.3f", bench_number(s, "bytes") / (1 << 20));
        if (json_is_null(json_object_get(s, "alone_ms")))
            table_put(&t, "-");
        else
            table_put(&t, "%.4f", bench_number(s, "alone_ms"));
        table_put(&t, "%.4f", all);
        table_put(&t, "%.1f%%", 100 * all / sum);
    }
    table_end(&t, o->to, o->markdown);
    fprintf(o->to, "whole model %.3f ms, lower bounds %.3f ms: ratio %.3f\n\n",
            bench_number(r, "p50_ms"), sum, bench_number(floors, "ratio"));
}

void bench_table_write(FILE *to, const json_t *results, bool markdown)
{
    const struct output o = {to, markdown};
    size_t i;
    json_t *r;
    show_devices(&o, results);
    show_times(&o, results);
    show_costs(&o, results);
    bench_foreach(results, i, r) {
        show_pace(&o, r);
        show_profile(&o, r);
        show_floors(&o, r);
    }
    show_legend(&o, results);
}
