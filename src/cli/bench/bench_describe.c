/* bench_describe.c: converts a measured case to a result, which is one JSON object. */
#include <stdio.h>

#include "cli/bench/bench.h"

#define NOISY 1.5 /* limit of p95 / p50 */

static json_t *roofline(const bench_case *c, double p50)
{
    const bench_limits *l = &c->on->limits;
    const fovea_compute compute = c->info.compute;
    const double bound = bench_limits_bound(l, compute, c->flops, c->bytes);
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "fraction", bound / p50,
        "floor_ms", bound * 1e3, "flops", c->flops, "bytes", c->bytes, "fma_gflops",
        l->rates.flops * 1e-9, "gemm_gflops", l->gemm[FOVEA_COMPUTE_F32] * 1e-9, "read_gbs",
        l->rates.read * 1e-9, "copy_gbs", l->rates.copy * 1e-9, "bf16_gflops", l->rates.bf16 * 1e-9,
        "int8_gops", l->rates.int8 * 1e-9, "peak_gflops", bench_limits_products(l, compute) * 1e-9);
}

static json_t *peak_bytes(const bench_case *c)
{
    const fovea_plan_info *p = &c->info;
    json_t *peak = cli_plan_bytes(p);
    const uint64_t promised =
        p->weights + p->residual + p->states + p->chunks + p->scratch + p->staging;
    json_object_set_new(peak, "promised", json_integer((json_int_t)promised));
    json_object_set_new(peak, "resident", json_integer((json_int_t)c->resident));
    return peak;
}

static json_t *verify(const bench_verify *v)
{
    if (!v->reference)
        return json_null();
    return json_pack("{s:s, s:f, s:f, s:b}", "reference", v->reference, "max_abs", v->max_abs,
                     "rel", v->rel, "ok", v->ok);
}

/* Returns "ok", or the reason why the numbers cannot be trusted. */
static const char *status(const bench_case *c)
{
    if (machine_throttled(&c->machine))
        return "throttled";
    if (!c->stable)
        return "unstable";
    if (bench_quantile(c, 0.95) > NOISY * bench_quantile(c, 0.5))
        return "noisy";
    return c->verify.reference ? "ok" : "unverified";
}

cli_word bench_types(fovea_dtype type, fovea_compute compute)
{
    cli_word out;
    if (compute && type == FOVEA_DTYPE_BF16) /* bf16 products imply it */
        type = FOVEA_DTYPE_F32;
    snprintf(out.text, sizeof out.text, "%s%s%s%s%s", type ? " " : "",
             type ? cli_dtype_name(type) : "", compute ? " " : "",
             compute ? cli_compute_name(compute) : "", compute ? " products" : "");
    return out;
}

json_t *bench_describe(const bench_case *c)
{
    const double p50 = bench_quantile(c, 0.5);
    json_t *samples = json_array();
    for (size_t i = 0; i < c->samples; i++)
        json_array_append_new(samples, json_integer((json_int_t)(c->sample[i] * 1e9 + 0.5)));
    json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:o, s:O}", "schema", "fovea.bench/1", "title",
                             c->title, "status", status(c), "build", cli_build(), "env",
                             cli_environment(c->on->device), "params", c->params);
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"p50_ms", p50 * 1e3},
        {"p95_ms", bench_quantile(c, 0.95) * 1e3},
        {"p99_ms", bench_quantile(c, 0.99) * 1e3},
        {"max_ms", bench_quantile(c, 1) * 1e3},
        {"ci_percent", 100 * bench_interval(c)},
        {"device_p50_ms", 1e3 * bench_quantile_of(c->device, c->samples, 0.5)},
        {"gflops", c->flops / p50 * 1e-9},
        {"gbs", c->bytes / p50 * 1e-9},
        {"open_ms", c->on->open_seconds * 1e3},
        {"plan_ms", c->plan_seconds * 1e3},
        {"first_ms", c->first_seconds * 1e3},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(root, numbers[i].key, json_real(numbers[i].value));
    if (c->tokens)
        json_object_set_new(root, "tokens_per_second", json_real(c->tokens / p50));
    json_object_set_new(root, "allocations", json_integer((json_int_t)c->allocations));
    json_object_set_new(root, "roofline", roofline(c, p50));
    json_object_set_new(root, "peak_bytes", peak_bytes(c));
    json_object_set_new(root, "verify", verify(&c->verify));
    json_object_set_new(root, "machine", machine_describe(&c->machine));
    if (c->info.untrained)
        json_object_set_new(root, "untrained", json_string(c->info.untrained));
    if (c->pace)
        json_object_set(root, "pace", c->pace);
    if (c->profile)
        json_object_set(root, "profile", c->profile);
    json_object_set_new(root, "samples_ns", samples);
    return root;
}
