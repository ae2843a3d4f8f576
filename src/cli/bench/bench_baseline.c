/* bench_baseline.c: compares results with those of an earlier run, and adds the member "baseline"
 * to them. */
#include "cli/bench/bench_results.h"

#include <math.h>

/* Returns a new reference to the parameters of a result. */
static json_t *params_of(const json_t *result)
{
    json_t *params = json_copy(json_object_get(result, "params"));
    /* older releases multiplied only float32 */
    if (params && !json_object_get(params, "compute"))
        json_object_set_new(params, "compute", json_string("f32"));
    return params;
}

static bool alike(const json_t *a, const json_t *b)
{
    json_t *x = params_of(a), *y = params_of(b);
    const bool equal = json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return equal;
}

/* Returns the last of the earlier results with the same parameters, or NULL. */
static const json_t *earlier(const json_t *baseline, const json_t *result)
{
    size_t i;
    json_t *r;
    const json_t *found = NULL;
    bench_foreach(baseline, i, r) {
        if (alike(r, result))
            found = r;
    }
    return found;
}

int bench_baseline_add(json_t *results, const json_t *baseline, const char *path)
{
    json_t *r;
    size_t i, found = 0;
    bench_foreach(results, i, r) {
        const json_t *old = earlier(baseline, r);
        const double was = bench_number(old, "p50_ms"), is = bench_number(r, "p50_ms");
        json_object_del(r, "baseline"); /* left by an earlier comparison */
        found += old != NULL;
        if (old)
            json_object_set_new(
                r, "baseline",
                json_pack("{s:f, s:f}", "p50_ms", was, "change_percent", 100 * (is / was - 1)));
    }
    /* If nothing could be compared, the comparison must not seem to have passed. */
    return found ? CLI_OK
                 : cli_fail(
                       CLI_INPUT,
                       "%s contains none of these cases; run the same benchmark for the baseline",
                       path);
}

int bench_baseline_judge(const json_t *results, double percent)
{
    json_t *r;
    size_t i;
    int code = CLI_OK;
    bench_foreach(results, i, r) {
        const double change = bench_inner(r, "baseline", "change_percent");
        if (fabs(change) <= percent)
            continue;
        fprintf(stderr, "fovea: %s: %s ms, but the baseline has %s ms: %.1f %% %s\n",
                bench_word(r, "title"), bench_ms(bench_number(r, "p50_ms")).text,
                bench_ms(bench_inner(r, "baseline", "p50_ms")).text, fabs(change),
                change > 0 ? "slower" : "faster");
        code = change > 0 ? CLI_SLOWER : code;
    }
    return code;
}
