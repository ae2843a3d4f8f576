/* bench_plot.c: results of benchmarks as a picture, time and memory over pixels or tokens. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench_results.h"
#include "cli/common/size_plot.h"

static const json_t *params(const json_t *result)
{
    return json_object_get(result, "params");
}

static double time_of(const json_t *r)
{
    return bench_number(r, "p50_ms");
}

static double measured(const json_t *r)
{
    return bench_inner(r, "peak_bytes", "resident") / (1 << 20);
}

static double promised(const json_t *r)
{
    return bench_promised(r) / (1 << 20);
}

/* What was timed, and where. To be freed. */
static char *title_of(const json_t *result)
{
    const json_t *env = json_object_get(result, "env"), *p = params(result);
    char *what = bench_is_model(result)
                     ? cli_text("%s", bench_word(p, "model"))
                     : cli_text("%s, %.0f heads", bench_word(p, "what"), bench_number(p, "heads"));
    char *all = cli_text("%s: %s, %s, %s", what, bench_word(env, "name"), bench_word(env, "isa"),
                         bench_where(result).text);
    free(what);
    return all;
}

/* All are of one kind and have a size. */
static bool plottable(const json_t *results)
{
    size_t i, n = 0;
    json_t *r;
    const char *what = NULL;
    bench_foreach(results, i, r) {
        const char *own = bench_word(params(r), "what");
        if (bench_extent(r) <= 0 || (what && strcmp(what, own) != 0))
            return false;
        what = own;
        n++;
    }
    return n > 0;
}

int bench_plot(const char *path, const json_t *results)
{
    if (!plottable(results))
        return cli_fail(CLI_UNSUPPORTED,
                        "--plot shows models, blocks or attentions, one kind at a time");
    json_t *timed = json_array(), *r;
    size_t i;
    bench_foreach(results, i, r) {
        json_array_append(timed, r);
    }
    const json_t *first = json_array_get(timed, 0);
    const bool model = bench_is_model(first);
    char *title = title_of(first);
    const size_plot plot = {
        .title = title,
        .extent = bench_extent,
        .of_pixels = model,
        .panel = {
            {.title = model ? "time of a picture, ms" : "time, ms", .shown = {"time", time_of}},
            {.title = model ? "peak memory without the weights, MiB" : "working memory, MiB",
             .shown = {"measured", measured},
             .promise = {"promised", promised}}}};
    const int code = size_plot_write(path, timed, &plot);
    free(title);
    json_decref(timed);
    return code;
}
