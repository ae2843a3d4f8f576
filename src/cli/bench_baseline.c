/* bench_baseline.c: results beside those of an earlier run. */
#include "bench_results.h"

/* The last of the earlier results with the same parameters, or NULL. */
static const json_t *earlier(const json_t *baseline, const json_t *result)
{
    size_t i;
    json_t *r;
    const json_t *found = NULL;
    bench_foreach(baseline, i, r)
    {
        if (json_equal(json_object_get(r, "params"), json_object_get(result, "params")))
            found = r;
    }
    return found;
}

int bench_baseline_compare(const json_t *baseline, const char *path, const json_t *results,
                           double percent)
{
    json_t *r;
    size_t i, found = 0;
    int code = CLI_OK;
    bench_foreach(results, i, r)
    {
        const json_t *old = earlier(baseline, r);
        const double was = bench_number(old, "p50_ms"), is = bench_number(r, "p50_ms");
        found += old != NULL;
        if (old && is > was * (1 + percent / 100))
            code = cli_fail(CLI_SLOWER, "%s: %.3f ms, the baseline has %.3f ms",
                            bench_word(r, "title"), is, was);
    }
    if (found == 0) /* what compares nothing must not look as if all were well */
        code = cli_fail(CLI_INPUT, "%s: holds none of these cases", path);
    return code;
}
