/* bench_results.c: results of benchmarks from a file, and as a table. */
#include "bench_results.h"

#include <stdio.h>
#include <string.h>

const char *bench_word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double bench_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

bool bench_is_model(const json_t *result)
{
    return strcmp(bench_word(json_object_get(result, "params"), "what"), "model") == 0;
}

double bench_promised(const json_t *result)
{
    const json_t *peak = json_object_get(result, "peak_bytes");
    return bench_number(peak, "promised") -
           (bench_is_model(result) ? bench_number(peak, "weights") : 0);
}

int bench_results_read(json_t **out, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_fail(CLI_INPUT, "%s: cannot be opened", path);
    json_t *list = json_array(), *r;
    json_error_t error;
    bool known = true;
    while (known && (r = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error))) {
        known =
            strcmp(bench_word(r, "schema"), "fovea.bench/1") == 0 && bench_number(r, "p50_ms") > 0;
        json_array_append_new(list, r);
    }
    known = known && feof(f) && json_array_size(list) > 0;
    fclose(f);
    if (!known) {
        json_decref(list);
        return cli_fail(CLI_INPUT, "%s: wanted results of fovea bench --json, one a line", path);
    }
    *out = list;
    return CLI_OK;
}

/* Of another device its id is told, not how many threads. */
static bool on_cpu(const json_t *result)
{
    return json_object_get(json_object_get(result, "params"), "threads") != NULL;
}

/* One line for every device that results come from. */
static void show_devices(const json_t *results)
{
    size_t i;
    json_t *r;
    json_array_foreach(results, i, r)
    {
        const json_t *env = json_object_get(r, "env"), *roof = json_object_get(r, "roofline");
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || json_equal(json_object_get(json_array_get(results, k), "env"), env);
        if (!seen && !on_cpu(r))
            printf("%s %s, %s: gemm %.1f GFLOP/s, operands brought there and fetched\n",
                   bench_word(env, "device"), bench_word(env, "name"), bench_word(env, "isa"),
                   bench_number(roof, "gemm_gflops"));
        else if (!seen)
            printf("%s %s, %s, %.0f threads: fma %.1f GFLOP/s, gemm %.1f GFLOP/s, read %.1f GB/s, "
                   "copy %.1f GB/s\n",
                   bench_word(env, "device"), bench_word(env, "name"), bench_word(env, "isa"),
                   bench_number(env, "threads"), bench_number(roof, "fma_gflops"),
                   bench_number(roof, "gemm_gflops"), bench_number(roof, "read_gbs"),
                   bench_number(roof, "copy_gbs"));
    }
}

void bench_results_show(const json_t *results)
{
    size_t i, width = 20;
    json_t *r;
    show_devices(results);
    json_array_foreach(results, i, r)
    {
        const size_t own = strlen(bench_word(r, "title"));
        width = own > width ? own : width;
    }
    printf("\n%-*s %5s %8s %9s %9s %9s %5s %6s %9s %6s %10s %10s  %s\n", (int)width, "case", "thr",
           "schedule", "p50 ms", "p95 ms", "p99 ms", "runs", "ratio", "GFLOP/s", "roof", "promised",
           "resident", "verify");
    const double first = bench_number(json_array_get(results, 0), "p50_ms");
    json_array_foreach(results, i, r)
    {
        const json_t *params = json_object_get(r, "params");
        const double p50 = bench_number(r, "p50_ms");
        const double resident = bench_number(json_object_get(r, "peak_bytes"), "resident");
        char plan[32], seen[32], threads[32], roof[32] = "-";
        snprintf(threads, sizeof threads, "%.0f", bench_number(params, "threads"));
        if (on_cpu(r))
            snprintf(roof, sizeof roof, "%.1f%%",
                     100 * bench_number(json_object_get(r, "roofline"), "fraction"));
        printf("%-*s %5s %8s %9.3f %9.3f %9.3f %5zu %6.2f %9.1f %6s %10s %10s  %.1e%s\n",
               (int)width, bench_word(r, "title"),
               on_cpu(r) ? threads : bench_word(params, "device"), bench_word(params, "schedule"),
               p50, bench_number(r, "p95_ms"), bench_number(r, "p99_ms"),
               json_array_size(json_object_get(r, "samples_ns")), p50 / first,
               bench_number(r, "gflops"), roof,
               cli_bytes(plan, sizeof plan, (uint64_t)bench_promised(r)),
               cli_bytes(seen, sizeof seen, (uint64_t)resident),
               bench_number(json_object_get(r, "verify"), "rel"),
               strcmp(bench_word(r, "status"), "ok") == 0 ? "" : "  unstable");
    }
}
