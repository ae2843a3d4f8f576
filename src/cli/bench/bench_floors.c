/* bench_floors.c: a model beside the floors of its steps: what it would take if every matrix
 * product and softmax ran as fast as alone, and every other step as fast as memory gives and takes
 * its operands once.
 */
#include "cli/bench/bench_floors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_MOST = 1 << 14 }; /* of softmax over many windows, which are heads of their own */

/* ---- softmax attention alone ---- */

struct softmax {
    fovea_plan *plan;
    float *q, *k, *v, *out;
};

static int run_softmax(void *state, double *seconds)
{
    struct softmax *s = state;
    const fovea_matrix in[] = {{s->q, 0}, {s->k, 0}, {s->v, 0}};
    const int code = cli_check(fovea_op_run(s->plan, in, 3, (fovea_matrix){s->out, 0}));
    *seconds = fovea_plan_seconds(s->plan);
    return code;
}

static int check_softmax(void *state, bench_verify *out)
{
    const struct softmax *s = state;
    return bench_verify_steps(s->plan, out);
}

static void release_softmax(void *state)
{
    struct softmax *s = state;
    fovea_plan_free(s->plan);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->out);
    free(s);
}

static float *filled(size_t n, uint64_t seed)
{
    float *x = cli_alloc(n, sizeof *x);
    bench_fill(x, n, seed);
    return x;
}

struct shape {
    uint32_t rows, d, dv, keys, heads;
};

static int make_softmax(bench_case *out, const struct shape *shape)
{
    const fovea_op_options none = FOVEA_OP_OPTIONS_INIT;
    fovea_op_options o = none;
    o.attention = "softmax";
    o.rows = shape->rows;
    o.keys = shape->keys;
    o.heads = shape->heads;
    o.head_dim = shape->d;
    o.value_dim = shape->dv;
    o.scale = 1 / sqrt(shape->d);
    struct softmax *s = cli_alloc(1, sizeof *s);
    const size_t heads = shape->heads;
    s->q = filled(heads * shape->rows * shape->d, 1);
    s->k = filled(heads * shape->keys * shape->d, 2);
    s->v = filled(heads * shape->keys * shape->dv, 3);
    s->out = cli_alloc(heads * shape->rows * shape->dv, sizeof *s->out);
    bench_plan_begin(out);
    int code = cli_check(fovea_op_plan_create(&s->plan, out->on->device, &o));
    if (code) {
        release_softmax(s);
        return code;
    }
    bench_plan_end(out, s->plan);
    out->state = s;
    out->run = run_softmax;
    out->check = check_softmax;
    out->release = release_softmax;
    return CLI_OK;
}

/* ---- what a step is ---- */

/* The activation among the words of an epilogue, "bias+gelu+residual". */
static const char *activation(const char *epilogue, bool *pairs)
{
    static const char *const names[] = {"gelu", "gelu_tanh", "gelu_quick", "silu", "relu", "tanh"};
    *pairs = false;
    for (const char *p = epilogue; *p;) {
        p += strspn(p, " +");
        const size_t n = strcspn(p, " +");
        *pairs = *pairs || (n == strlen("swiglu") && strncmp(p, "swiglu", n) == 0);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (n == strlen(names[i]) && strncmp(p, names[i], n) == 0)
                return names[i];
        p += n;
    }
    return "none";
}

/* A product of the same rows, channels and activation. Convolutions are products with size * size
 * times the channels. A residual is left out: the floor is the lower for it. */
static int add_product(bench_case *c, const char *problem, bool *is)
{
    unsigned m, n, k;
    int end = 0;
    *is = sscanf(problem, "gemm f32 %ux%ux%u%n", &m, &n, &k, &end) == 3 ||
          sscanf(problem, "conv f32 %ux%ux%u%n", &m, &n, &k, &end) == 3;
    if (!*is)
        return CLI_OK;
    const cli_settings none = {0};
    bench_request request = {.what = BENCH_GEMM};
    bool pairs;
    const char *epilogue = strchr(problem + end, ' '),
               *act = activation(epilogue ? epilogue : "", &pairs);
    char *shape = cli_text("%ux%ux%u", m, pairs ? 2 * n : n, k);
    request.shapes = shape;
    request.activation = act;
    int code = bench_gemm(c, &none, c->on, &request);
    free(shape);
    return code;
}

/* Softmax of all tokens, or inside of windows: these are so many heads more, on few rows. */
static int add_softmax(bench_case *c, const char *problem, double *times, bool *is)
{
    struct shape s;
    const bool windows = problem[0] == 'w';
    const char *heads = strstr(problem, "heads ");
    *is = heads && sscanf(heads, "heads %u", &s.heads) == 1 &&
          sscanf(problem + windows, "softmax f32 %ux%ux%ux%u", &s.rows, &s.d, &s.dv, &s.keys) == 4;
    if (!*is)
        return CLI_OK;
    if (windows) {
        const double all = (double)s.rows / s.keys * s.heads;
        s.rows = s.keys;
        s.heads = (uint32_t)fmin(all, HEADS_MOST);
        *times = all / s.heads;
    }
    return make_softmax(c, &s);
}

static int add_alone(floor_kind *k, bench_case *list, size_t *n, size_t room)
{
    const bench_options none = {.check = BENCH_CHECK_FIRST};
    bench_case *c = &list[*n];
    bool is = false;
    if (*n == room)
        return cli_fail(CLI_UNSUPPORTED, "more than %zu kinds of steps", room);
    c->on = list[0].on;
    k->times = 1;
    int code = add_product(c, k->problem, &is);
    if (!code && !is)
        code = add_softmax(c, k->problem, &k->times, &is);
    if (code || !is)
        return code;
    if (!c->title)
        c->title = cli_text("%s", k->problem);
    k->alone = (*n)++;
    return bench_first(c, &none);
}

static floor_kind *kind_of(bench_floors *f, const fovea_step_info *s)
{
    for (size_t i = 0; i < f->kinds; i++)
        if (strcmp(f->kind[i].problem, s->problem) == 0 && f->kind[i].bytes == s->bytes)
            return &f->kind[i];
    floor_kind *k = &f->kind[f->kinds++];
    *k = (floor_kind){.label = cli_text("%s", s->label),
                      .problem = cli_text("%s", s->problem),
                      .bytes = s->bytes};
    return k;
}

int bench_floors_add(bench_floors *out, bench_case *list, size_t *n, size_t room)
{
    const fovea_plan *plan = list[0].plan;
    fovea_step_info step;
    int code = CLI_OK;
    out->kind = cli_alloc(list[0].info.steps, sizeof *out->kind);
    for (size_t i = 0; fovea_plan_step(plan, i, &step); i++)
        kind_of(out, &step)->count++;
    for (size_t i = 0; i < out->kinds && !code; i++)
        code = add_alone(&out->kind[i], list, n, room);
    return code;
}

void bench_floors_free(bench_floors *f)
{
    for (size_t i = 0; i < f->kinds; i++) {
        free(f->kind[i].label);
        free(f->kind[i].problem);
    }
    free(f->kind);
}

/* ---- results ---- */

/* Seconds of one step. */
static double floor_of(const floor_kind *k, const bench_case *list)
{
    return k->alone ? k->times * bench_quantile(&list[k->alone], 0.5)
                    : k->bytes / bench_limits_memory(&list[0].on->limits);
}

static double sum_of(const bench_floors *f, const bench_case *list)
{
    double sum = 0;
    for (size_t i = 0; i < f->kinds; i++)
        sum += f->kind[i].count * floor_of(&f->kind[i], list);
    return sum;
}

json_t *bench_floors_describe(const bench_floors *f, const bench_case *list)
{
    const double sum = sum_of(f, list);
    json_t *steps = json_array();
    for (size_t i = 0; i < f->kinds; i++) {
        const floor_kind *k = &f->kind[i];
        const double floor = floor_of(k, list);
        json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:f, s:o, s:f}", "label", k->label,
                                               "problem", k->problem, "count", (int)k->count,
                                               "bytes", k->bytes, "alone_ms",
                                               k->alone ? json_real(1e3 * floor) : json_null(),
                                               "floor_ms", 1e3 * floor));
    }
    return json_pack("{s:f, s:f, s:f, s:o}", "sum_ms", 1e3 * sum, "ratio",
                     bench_quantile(&list[0], 0.5) / sum, "bandwidth_gbs",
                     1e-9 * bench_limits_memory(&list[0].on->limits), "steps", steps);
}
