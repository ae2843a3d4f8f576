/* bench_floors.c: measures a model and lower bounds for its steps. For a matrix product or a
 * softmax, the bound is the time of the same operation alone. For any other step, it is the time to
 * move the step's operands once. */
#include "cli/bench/bench_floors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* largest number of heads; in softmax over windows each window is a head */
enum { HEADS_MOST = 1 << 14 };

/* ---- a single softmax attention ---- */

static int check_softmax(bench_case *c, bench_verify *out)
{
    return bench_verify_steps(c->plan, out);
}

static void release_softmax(bench_case *c)
{
    for (size_t i = 0; i < c->inputs; i++)
        free(c->input[i].data);
    free(c->out.data);
}

static int make_softmax(bench_case *out, const fovea_step_info *step)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.compute = bench_products(step);
    o.storage = o.compute ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
    o.attention = "softmax";
    o.rows = step->m;
    o.keys = step->k;
    o.heads = step->heads;
    o.head_dim = step->head_dim;
    o.value_dim = step->value_dim;
    o.scale = 1 / sqrt(step->head_dim);
    const size_t queries = (size_t)step->heads * step->m, keys = (size_t)step->heads * step->k;
    out->input[0].data = bench_values(queries * step->head_dim, o.storage, 1);
    out->input[1].data = bench_values(keys * step->head_dim, o.storage, 2);
    out->input[2].data = bench_values(keys * step->value_dim, o.storage, 3);
    out->inputs = 3;
    out->out.data = cli_alloc(queries * step->value_dim, sizeof(float));
    out->run = bench_run_op;
    out->check = check_softmax;
    out->release = release_softmax;
    bench_plan_begin(out);
    CLI_TRY(cli_check(fovea_attention_plan_create(&out->plan, out->on->device, &o)));
    bench_plan_end(out);
    return CLI_OK;
}

/* ---- the work of a step ---- */

/* Adds a case with a product of the same rows, channels and activation. A convolution becomes a
 * product with size * size times as many channels. The residual is left out, which lowers the
 * bound. */
static int add_product(bench_case *c, const fovea_step_info *s)
{
    const cli_settings alone = {.compute = bench_products(s)};
    bench_request request = {.what = BENCH_GEMM};
    const bool pairs = s->activation && strcmp(s->activation, "swiglu") == 0;
    char *shape = cli_text("%ux%ux%u", s->m, pairs ? 2 * s->n : s->n, s->k);
    request.shapes = shape;
    request.activation = s->activation && !pairs ? s->activation : "none";
    int code = bench_gemm(c, &alone, &request);
    free(shape);
    return code;
}

/* Adds a case with softmax over all tokens or inside windows. Each window is an additional head
 * with few rows. */
static int add_softmax(bench_case *c, const fovea_step_info *step, double *times)
{
    fovea_step_info s = *step;
    if (strcmp(s.op, "wsoftmax") == 0) {
        const double all = (double)s.m / s.k * s.heads;
        s.m = s.k;
        s.heads = (uint32_t)fmin(all, HEADS_MOST);
        *times = all / s.heads;
    }
    return make_softmax(c, &s);
}

static int add_alone(floor_kind *k, bench_case *list, size_t *n, size_t capacity)
{
    const bench_options none = {.check = BENCH_CHECK_FIRST};
    const fovea_step_info *s = &k->step;
    const bool product = strcmp(s->op, "gemm") == 0 || strcmp(s->op, "conv") == 0;
    const bool softmax = strcmp(s->op, "softmax") == 0 || strcmp(s->op, "wsoftmax") == 0;
    bench_case *c = &list[*n];
    if (*n == capacity)
        return cli_fail(CLI_UNSUPPORTED,
                        "the model has more than %zu kinds of steps; measure a smaller model",
                        capacity);
    k->times = 1;
    if (!product && !softmax)
        return CLI_OK;
    c->on = list[0].on;
    int code = product ? add_product(c, s) : add_softmax(c, s, &k->times);
    if (code) {
        bench_case_free(c);
        return code;
    }
    if (!c->title)
        c->title = cli_text("%s", s->problem);
    k->alone = (*n)++;
    return bench_first(c, &none);
}

static floor_kind *kind_of(bench_floors *f, const fovea_step_info *s)
{
    for (size_t i = 0; i < f->kinds; i++)
        if (strcmp(f->kind[i].step.problem, s->problem) == 0 && f->kind[i].step.bytes == s->bytes)
            return &f->kind[i];
    floor_kind *k = &f->kind[f->kinds++];
    k->step = *s;
    return k;
}

int bench_floors_add(bench_floors *out, bench_case *list, size_t *n, size_t capacity)
{
    const fovea_plan *plan = list[0].plan;
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    out->kind = cli_alloc(list[0].info.steps, sizeof *out->kind);
    for (size_t i = 0; fovea_plan_step(plan, i, &step); i++)
        kind_of(out, &step)->count++;
    for (size_t i = 0; i < out->kinds; i++)
        CLI_TRY(add_alone(&out->kind[i], list, n, capacity));
    return CLI_OK;
}

void bench_floors_free(bench_floors *f)
{
    free(f->kind);
}

/* ---- results ---- */

/* Returns the lower bound of one step, in seconds. */
static double bound_of(const floor_kind *k, const bench_case *list)
{
    return k->alone ? k->times * bench_quantile(&list[k->alone], 0.5)
                    : k->step.bytes / bench_limits_memory(&list[0].on->limits);
}

static double sum_of(const bench_floors *f, const bench_case *list)
{
    double sum = 0;
    for (size_t i = 0; i < f->kinds; i++)
        sum += f->kind[i].count * bound_of(&f->kind[i], list);
    return sum;
}

json_t *bench_floors_describe(const bench_floors *f, const bench_case *list)
{
    const double sum = sum_of(f, list);
    json_t *steps = json_array();
    for (size_t i = 0; i < f->kinds; i++) {
        const floor_kind *k = &f->kind[i];
        const double bound = bound_of(k, list);
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:f, s:o, s:f}", "label",
                                               k->step.label, "problem", k->step.problem, "count",
                                               (int)k->count, "bytes", k->step.bytes, "alone_ms",
                                               k->alone ? json_real(1e3 * bound) : json_null(),
                                               "floor_ms", 1e3 * bound));
    }
    return json_pack("{s:f, s:f, s:f, s:o}", "sum_ms", 1e3 * sum, "ratio",
                     bench_quantile(&list[0], 0.5) / sum, "bandwidth_gbs",
                     1e-9 * bench_limits_memory(&list[0].on->limits), "steps", steps);
}
