/* bench_gemm.c: makes a matrix product with its epilogue a benchmark case. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/activations.h"
#include "cli/bench/bench.h"

enum { SAMPLED_ROWS = 64 };
#define WHOLE_RESULT (1u << 24) /* largest number of operations for which every row is verified */
#define DIM_MAX (1u << 24)
/* Largest error relative to the largest sum: each value is rounded to a multiple of 1/127 of the
 * largest in its row. */
#define INT8_ERROR 4e-2

#define RATE_SECONDS 30e-3 /* duration that suffices to measure the rate of a product */

struct gemm {
    uint32_t m, n, k;
    const struct activation *activation;
    fovea_compute compute;
    fovea_dtype type; /* type of the rows that the product reads and writes */
    float *a, *weight, *bias;
    void *rows, *out; /* the content of `a` in that type; the result */
};

#define FV_ACTIVATION(NAME, name, bit, value, slope)                                               \
    static double value_##name(double x)                                                           \
    {                                                                                              \
        return value;                                                                              \
    }
#include "act/activations.inc"
#undef FV_ACTIVATION

static const struct activation {
    const char *name;
    double (*value)(double x);
} activations[] = {
    {"none", NULL},
#define FV_ACTIVATION(NAME, name, ...) {#name, value_##name},
#include "act/activations.inc"
#undef FV_ACTIVATION
};

static const struct activation *find_activation(const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(activations[i].name, name) == 0)
            return &activations[i];
    return NULL;
}

/* Returns the largest error of storing x in a type. */
static double rounding(fovea_dtype type, double x)
{
    return type == FOVEA_DTYPE_F32 ? 0 : 0x1p-8 * fabs(x);
}

/* Compares the result with a reference in double, computed from the numbers that are multiplied.
 * For int8, the reference uses the numbers before quantisation, and the reference of the step
 * verifies the int8 arithmetic. All rows of small products are verified; in other products, rows at
 * regular distances. The error bound is relative to the largest sum, and grows with the number of
 * terms. */
static int check(bench_case *c, bench_verify *out)
{
    const struct gemm *g = c->state;
    const bool whole = (double)g->m * g->n * g->k <= WHOLE_RESULT || g->m <= SAMPLED_ROWS;
    const bool int8 = g->compute == FOVEA_COMPUTE_INT8;
    const uint32_t rows = whole ? g->m : SAMPLED_ROWS;
    const size_t size = g->type == FOVEA_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
    float *row = cli_alloc(g->n, sizeof *row);
    double worst = 0, top = 0;
    if (int8) {
        const int code = bench_verify_steps(c->plan, out);
        if (code || !out->ok) {
            free(row);
            return code;
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        const size_t r = whole ? i : (size_t)((double)i / (SAMPLED_ROWS - 1) * (g->m - 1));
        fovea_floats_decode(row, g->type, (const char *)g->out + r * g->n * size, g->n);
        for (uint32_t n = 0; n < g->n; n++) {
            const float *a = g->a + r * g->k, *w = g->weight + (size_t)n * g->k;
            double sum = g->bias[n];
            for (uint32_t k = 0; k < g->k; k++)
                sum += (double)a[k] * w[k];
            const double want = g->activation->value ? g->activation->value(sum) : sum;
            const double got = (double)row[n], error = fabs(got - want);
            const double by = fmin(error, rounding(g->type, want));
            worst = bench_worse(worst, isfinite(got) ? error - by : got, isfinite(got) ? 0 : want);
            top = fmax(top, fabs(sum));
        }
    }
    free(row);
    out->reference = "reference in double precision";
    out->max_abs = worst;
    out->rel = top > 0 ? worst / top : worst;
    out->ok = out->rel <= 2e-6 + 1e-7 * sqrt(g->k) + (int8 ? INT8_ERROR : 0);
    return CLI_OK;
}

static void release(bench_case *c)
{
    struct gemm *g = c->state;
    free(g->a);
    free(g->rows);
    free(g->weight);
    free(g->bias);
    free(g->out);
    free(g);
}

static int plan(bench_case *c, const cli_settings *s, fovea_device *device)
{
    const struct gemm *g = c->state;
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    o.schedule = s->schedule;
    o.chunk = s->chunk;
    o.memory_limit = s->memory_limit;
    o.compute = g->compute;
    o.storage = o.out_storage = g->type;
    o.rows = g->m;
    o.in = g->k;
    o.out = g->n;
    o.weight = g->weight;
    o.bias = g->bias;
    o.activation = g->activation->value ? g->activation->name : NULL;
    return cli_check(fovea_gemm_plan_create(&c->plan, device, &o));
}

/* Rounds values to bfloat16, as bf16 products do, and returns them in that type. */
static void *round_values(float *x, size_t n)
{
    uint16_t *h = cli_alloc(n, sizeof *h);
    fovea_floats_encode(h, FOVEA_DTYPE_BF16, x, n);
    fovea_floats_decode(x, FOVEA_DTYPE_BF16, h, n);
    return h;
}

/* Makes everything except the plan. */
static void make(bench_case *c, uint32_t m, uint32_t n, uint32_t k,
                 const struct activation *activation, fovea_compute compute)
{
    struct gemm *g = cli_alloc(1, sizeof *g);
    const bool floats = compute == FOVEA_COMPUTE_F32;
    const size_t in = (size_t)m * k, size = floats ? sizeof(float) : sizeof(uint16_t);
    *g = (struct gemm){.m = m,
                       .n = n,
                       .k = k,
                       .activation = activation,
                       .compute = compute,
                       .type = floats ? FOVEA_DTYPE_F32 : FOVEA_DTYPE_BF16,
                       .a = bench_floats(in, 1),
                       .weight = bench_floats((size_t)n * k, 2),
                       .bias = bench_floats(n, 3),
                       .out = cli_alloc((size_t)m * n, size)};
    if (!floats)
        g->rows = round_values(g->a, in);
    if (compute == FOVEA_COMPUTE_BF16)
        free(round_values(g->weight, (size_t)n * k));
    /* NaN, so that a value that is not written is found */
    memset(g->out, 0xff, (size_t)m * n * size);
    c->state = g;
    c->run = bench_run_op;
    c->check = check;
    c->release = release;
    c->input[0] = (fovea_matrix){floats ? g->a : g->rows, 0};
    c->inputs = 1;
    c->out = (fovea_matrix){g->out, 0};
    c->flops = 2.0 * (double)m * (double)n * (double)k;
    c->bytes = (double)size * ((double)m * (double)k + (double)m * (double)n) +
               (compute == FOVEA_COMPUTE_INT8 ? 1.0 : (double)size) * (double)n * (double)k;
}

int bench_gemm(bench_case *out, const cli_settings *s, const bench_request *r)
{
    const char *shape = r->shapes, *activation = r->activation;
    unsigned long long m = 0, n = 0, k = 0;
    int end = 0;
    if (sscanf(shape, "%llux%llux%llu%n", &m, &n, &k, &end) != 3 || shape[end] || m < 1 || n < 1 ||
        k < 1 || m > DIM_MAX || n > DIM_MAX || k > DIM_MAX)
        return cli_fail(CLI_USAGE, "--shape %s: it must be MxNxK, each from 1 to %u", shape,
                        DIM_MAX);
    const struct activation *act = find_activation(activation ? activation : "none");
    if (!act)
        return cli_fail(CLI_USAGE,
                        "--activation %s is unknown; fovea bench --help lists the activations",
                        activation);
    make(out, (uint32_t)m, (uint32_t)n, (uint32_t)k, act,
         s->compute == FOVEA_COMPUTE_AUTO ? FOVEA_COMPUTE_F32 : s->compute);
    bench_plan_begin(out);
    CLI_TRY(plan(out, s, out->on->device));
    bench_plan_end(out);
    out->title =
        cli_text("gemm %s%s%s%s", shape, act->value ? " " : "", act->value ? act->name : "",
                 bench_types(FOVEA_DTYPE_F32, out->info.compute).text);
    out->params = json_pack("{s:s, s:i, s:i, s:i, s:s}", "what", "gemm", "M", (int)m, "N", (int)n,
                            "K", (int)k, "activation", act->name);
    return CLI_OK;
}

/* Sets *rate to the FLOP/s of the fastest of some products with m rows. */
static int product_rate(double *rate, fovea_device *device, fovea_compute compute, uint32_t m,
                        double *shortest)
{
    const cli_settings none = {0};
    bench_case c = {.inputs = 0};
    make(&c, m, 3072, 768, &activations[0], compute);
    int code = plan(&c, &none, device);
    *shortest = INFINITY;
    for (int i = 0; i < 4 && !code; i++) {
        double seconds;
        code = bench_run_op(&c, &seconds);
        *shortest = fmin(*shortest, seconds);
    }
    if (!code)
        *rate = fmax(*rate, c.flops / *shortest);
    bench_case_free(&c);
    return code;
}

int bench_gemm_rate(double *best, fovea_device *device, fovea_compute compute)
{
    int code = CLI_OK;
    double seconds = 0;
    for (uint32_t m = 64; m <= 1024 && seconds < RATE_SECONDS && !code; m *= 4)
        code = product_rate(best, device, compute, m, &seconds);
    return code;
}
