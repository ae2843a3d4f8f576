/* bench_crossover.c: the number of tokens or pixels from which an attention is faster than softmax:
 * one result per device, attention and setting for which softmax was timed too.
 */
#include "cli/bench/bench_results.h"

#include <math.h>
#include <string.h>

/* Parameters that say how large a case is. */
static const char *const sizes[] = {"tokens", "width", "height"};

static const char *attention_of(const json_t *r)
{
    return bench_word(json_object_get(r, "params"), "attention");
}

/* The parameters of a case, with or without those of its size and its attention. */
static json_t *setting(const json_t *r, bool with_size, bool with_attention)
{
    json_t *params = json_copy(json_object_get(r, "params"));
    for (size_t i = 0; !with_size && i < sizeof sizes / sizeof *sizes; i++)
        json_object_del(params, sizes[i]);
    if (!with_attention)
        json_object_del(params, "attention");
    return params;
}

static bool alike(const json_t *a, const json_t *b, bool same_size, bool same_attention)
{
    json_t *x = setting(a, same_size, same_attention), *y = setting(b, same_size, same_attention);
    const bool equal = json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return equal;
}

/* By which factor the case is faster than softmax of the same size; 0: that was not measured. */
static double lead(const json_t *results, const json_t *c)
{
    size_t i;
    json_t *r;
    bench_foreach(results, i, r) {
        if (strcmp(attention_of(r), "softmax") == 0 && alike(r, c, true, false))
            return bench_number(r, "p50_ms") / bench_number(c, "p50_ms");
    }
    return 0;
}

/* Where the logarithm of the lead, between two cases, is 0. */
static double between(const json_t *results, const json_t *below, const json_t *above)
{
    const double low = log(lead(results, below)), high = log(lead(results, above));
    const double from = log(bench_extent(below)), to = log(bench_extent(above));
    return exp(from - low / (high - low) * (to - from));
}

/* The smallest case from which on all lead, and the largest that does not. */
static json_t *crossover(const json_t *results, const json_t *first)
{
    const json_t *above = NULL, *below = NULL;
    size_t i, n = 0;
    json_t *r;
    bench_foreach(results, i, r) {
        const double by = alike(r, first, false, true) ? lead(results, r) : 0;
        n += by > 0;
        if (by > 0 && by < 1 && (!below || bench_extent(r) > bench_extent(below)))
            below = r;
    }
    bench_foreach(results, i, r) {
        if (alike(r, first, false, true) && lead(results, r) >= 1 &&
            (!below || bench_extent(r) > bench_extent(below)) &&
            (!above || bench_extent(r) < bench_extent(above)))
            above = r;
    }
    if (n == 0)
        return NULL;
    const char *verdict = !above ? "slower everywhere" : !below ? "faster everywhere" : "crosses";
    json_t *out =
        json_pack("{s:s, s:s, s:O, s:o, s:s, s:s, s:i}", "schema", CROSSOVER_SCHEMA, "attention",
                  attention_of(first), "env", json_object_get(first, "env"), "params",
                  setting(first, false, true), "unit", bench_is_model(first) ? "pixels" : "tokens",
                  "verdict", verdict, "measured", (int)n);
    json_object_set_new(out, "slower_at", below ? json_real(bench_extent(below)) : json_null());
    json_object_set_new(out, "faster_at", above ? json_real(bench_extent(above)) : json_null());
    json_object_set_new(out, "at",
                        above && below ? json_real(between(results, below, above)) : json_null());
    return out;
}

void bench_crossovers_add(json_t *results)
{
    size_t n = json_array_size(results);
    for (size_t i = n; i-- > 0;) /* those of a file may be of fewer cases than there are now */
        if (bench_has_schema(json_array_get(results, i), CROSSOVER_SCHEMA))
            json_array_remove(results, i);
    n = json_array_size(results);
    for (size_t i = 0; i < n; i++) {
        const json_t *c = json_array_get(results, i);
        bool skip = !bench_has_schema(c, BENCH_SCHEMA) || !*attention_of(c) ||
                    strcmp(attention_of(c), "softmax") == 0;
        for (size_t k = 0; k < i && !skip; k++)
            skip = alike(json_array_get(results, k), c, false, true);
        json_t *found = skip ? NULL : crossover(results, c);
        if (found)
            json_array_append_new(results, found);
    }
}
