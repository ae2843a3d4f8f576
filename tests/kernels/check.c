/* check.c: checks every kernel of a device against its reference, and times those of the CPU.
 *
 *   check [--seed N] [--op NAME] [--kernel TEXT] [--device ID] [--every N] [--small N] [--bench]
 *         [--list]
 *
 * For every case of its op that a kernel fits, and for inputs of several kinds, the kernel runs as
 * one call and cut into pieces, and the results are compared with the double-precision oracle.
 *
 * Kernels of the CPU are called directly: each operand is between inaccessible pages, once ending
 * right at one and once beginning there, amid NaN patterns that are compared bytewise afterwards,
 * and the pieces are compared with the whole, bit by bit. With --device kernels run through the
 * device's backend, each operand inside a buffer, amid the same patterns, the rows also stored as
 * float16. --every N: one case in N, which ones depends on the seed. --small N: only cases of at
 * most N operations and the smallest one, with one kind of values; for simulators.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_TRAIN
#include <fovea/adapt.h>
#endif

#include "platform/cpu/cpu_backend.h"
#include "platform/os/os_machine.h"
#include "tests/kernels/check_differences.h"
#include "tests/kernels/check_run.h"

static uint64_t seed = 1;
static uint32_t every = 1;
static double small = INFINITY; /* upper bound on the operations of a case */

static bool computed(const check_case *c, uint32_t row)
{
    return !c->rows || (row >= c->row0 && row - c->row0 < c->rows);
}

static double result_at(const check_operand *o, const uint8_t *result, uint32_t row, uint32_t col)
{
    return check_value_at(o->storage, result, (size_t)row * o->cols + col);
}

static bool is_right(const check_operand *o, double got, double want, double allowed)
{
    const bool half = o->storage == FV_F16 || o->storage == FV_BF16;
    const double max = half ? check_max(o->storage) : FLT_MAX;
    const bool overflow = !isfinite(got) || fabs(got) > 0.99 * max;
    if (o->storage != o->type) /* the oracle ignores how values are stored */
        allowed += check_rounding(o->storage, fabs(want) + allowed);
    if (fabs(want) > max) /* the type cannot represent it: any overflow is correct */
        return overflow;
    if (isnan(want))
        return isnan(got);
    return fabs(got - want) <= allowed || (overflow && fabs(want) + allowed > max);
}

static bool compare_state(check_job *j, const check_op *op, const uint8_t *state)
{
    const check_operand *o = &j->c->operand[j->c->state];
    double *want = check_must(malloc(2 * o->cols * sizeof *want)), *allowed = want + o->cols;
    bool good = true;
    op->oracle_state(j->c, want, allowed);
    for (uint32_t col = 0; good && col < o->cols; col++) {
        const double got = check_value_at(o->storage, state, col);
        good = is_right(o, got, want[col], allowed[col]) ||
               check_complain(j, "the state's value %u is %.9g, want %.9g, allowed error %.2g", col,
                              got, want[col], allowed[col]);
    }
    free(want);
    return good;
}

/* Compares all rows of a small problem, or 64 rows of a large one. */
static bool compare(check_job *j, const check_op *op, const uint8_t *result, check_random r)
{
    enum { SAMPLES = 64 };
    const check_operand *o = &j->c->operand[check_output(j->c)];
    const bool all = fv_problem_flops(&j->c->args.prob) <= 0x1p24 || o->rows <= SAMPLES;
    const uint32_t count = all ? o->rows : SAMPLES;
    double *want = check_must(malloc(2 * o->cols * sizeof *want)), *allowed = want + o->cols;
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) {
        const uint32_t row = all || !i ? i : i == 1 ? o->rows - 1 : check_below(&r, o->rows);
        if (!computed(j->c, row))
            continue;
        op->oracle(j->c, row, want, allowed);
        for (uint32_t col = 0; good && col < o->cols; col++) {
            const double got = result_at(o, result, row, col);
            good = is_right(o, got, want[col], allowed[col]) ||
                   check_complain(j, "row %u, column %u is %.9g, want %.9g, allowed error %.2g",
                                  row, col, got, want[col], allowed[col]);
        }
    }
    free(want);
    if (good && j->c->state >= 0)
        good = compare_state(j, op, result + check_output_size(j->c));
    return good;
}

static bool same(check_job *j, const uint8_t *whole, const uint8_t *cut)
{
    const check_operand *o = &j->c->operand[check_output(j->c)];
    const size_t row_size = o->cols * check_element(o);
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t x = 0; computed(j->c, y) && x < o->cols; x++)
            if (memcmp(whole + y * row_size + x * check_element(o),
                       cut + y * row_size + x * check_element(o), check_element(o)))
                return check_complain(j, "row %u, column %u is %.9g as a whole and %.9g in pieces",
                                      y, x, result_at(o, whole, y, x), result_at(o, cut, y, x));
    const size_t state = check_output_size(j->c);
    if (memcmp(whole + state, cut + state, check_result_size(j->c) - state))
        return check_complain(j, "the state differs between a whole run and one in pieces");
    return true;
}

/* Checks one kernel on one case with given values and one setting of the knobs. */
static bool check_values(const check_runner *runner, check_job *j, const check_op *op,
                         check_random r)
{
    const size_t size = check_result_size(j->c);
    uint8_t *whole = check_must(malloc(size)), *cut = check_must(malloc(size));
    bool good = runner->run(runner, j, CHECK_WHOLE, whole, r) && compare(j, op, whole, r);
    if (good && runner->cuts(j->c)) {
        good = runner->run(runner, j, CHECK_ROWS, cut, r) && compare(j, op, cut, r) &&
               (!j->c->same_rows || same(j, whole, cut));
        memcpy(whole, cut, size);
    }
    if (good && runner->exact)
        good = runner->run(runner, j, CHECK_PIECES, cut, r) && same(j, whole, cut);
    free(whole);
    free(cut);
    return good;
}

static check_random case_random(const fv_kernel *k, uint32_t index, uint32_t fill)
{
    check_random r = {seed * 0x9e3779b97f4a7c15u + k->op * 1000003u + index * 257u + fill};
    check_next(&r);
    return r;
}

/* Checks a case with each kind of values, stored as `type`. Settings of the knobs other than the
 * default are tried only with normal values. */
static bool check_stored_as(check_result *out, const check_runner *runner, check_job *j,
                            const check_op *op, uint32_t index, enum fv_type type)
{
    const bool bench = j->c->bench;
    const uint32_t fills = bench || isfinite(small) ? 1 : CHECK_FILLS;
    for (uint32_t fill = 0; fill < fills; fill++) {
        check_random r = case_random(j->kernel, index, fill);
        check_fill(j->c, op, fill, &r);
        const uint32_t choices = fill == CHECK_NORMAL && type == FV_F32 && !bench ? UINT32_MAX : 1;
        for (uint32_t i = 0; i < choices && check_knobs(j->kernel, &j->knobs, i); i++) {
            if (check_values(runner, j, op, r))
                continue;
            out->crashed += j->crashed;
            snprintf(out->last, sizeof out->last, "%s%s values, knobs %u: %s",
                     type == FV_F32   ? ""
                     : type == FV_F16 ? "float16, "
                                      : "bfloat16, ",
                     check_fill_names[fill], i, j->message);
            return false;
        }
    }
    return true;
}

/* Returns whether the kernel supports the case with its tokens stored as `type`. */
static bool suits(const fv_kernel *k, check_case *c, enum fv_type type)
{
    return (type == FV_F32 || check_store(c, type)) && fv_kernel_fits(k, &c->args.prob, k->needs);
}

/* Checks the case with tokens stored as float32, then as float16, or as bfloat16 if the kernel does
 * not support float16. Returns false if the kernel supports none of these. */
static bool check_one(check_result *out, const check_runner *runner, const fv_kernel *k,
                      const check_op *op, uint32_t index, bool *good)
{
    static const enum fv_type types[] = {FV_F32, FV_F16, FV_BF16};
    bool half = false, taken = false;
    *good = true;
    for (size_t t = 0; t < (runner->narrow ? 3 : 1) && *good && !half; t++) {
        char message[256];
        check_case c;
        check_job j = {.kernel = k, .c = &c, .message = message, .message_size = sizeof message};
        check_make(&c, k->op, op, index);
        if (suits(k, &c, types[t])) {
            taken = true;
            half = types[t] != FV_F32;
            *good = check_stored_as(out, runner, &j, op, index, types[t]);
        }
        check_release(&c, op);
    }
    return taken;
}

/* Returns the case that is checked in every run: the first that fits or, with --small, the smallest
 * that fits. */
static uint32_t first_case(const fv_kernel *k, const check_op *op, enum fv_type type)
{
    check_case c;
    uint32_t best = UINT32_MAX;
    double least = INFINITY;
    for (uint32_t index = 0; check_make(&c, k->op, op, index); index++) {
        const double flops = isfinite(small) ? fv_problem_flops(&c.args.prob) : index;
        if (flops < least && suits(k, &c, type)) {
            least = flops;
            best = index;
        }
        check_release(&c, op);
    }
    return best;
}

static uint32_t always_taken(const fv_kernel *k, const check_op *op, const check_runner *runner)
{
    uint32_t index = first_case(k, op, FV_F32);
    if (index == UINT32_MAX && runner->narrow)
        index = first_case(k, op, FV_F16);
    return index == UINT32_MAX && runner->narrow ? first_case(k, op, FV_BF16) : index;
}

void check_kernel(check_result *out, const check_runner *runner, const fv_kernel *k,
                  const check_op *op, bool quiet)
{
    check_case c;
    const uint32_t always = always_taken(k, op, runner);
    for (uint32_t index = 0; check_make(&c, k->op, op, index); index++) {
        const bool chosen = (index + seed) % every == 0 && fv_problem_flops(&c.args.prob) <= small;
        char problem[128];
        bool good;
        fv_problem_format(problem, sizeof problem, &c.args.prob);
        check_release(&c, op);
        if ((index != always && !chosen) || !check_one(out, runner, k, op, index, &good))
            continue;
        if (good) {
            out->passed++;
            continue;
        }
        if (!out->failed++)
            snprintf(out->first, sizeof out->first, "%s: %s", problem, out->last);
        if (!quiet)
            printf("FAIL %s on %s, case %u, %s: %s\n", k->name, runner->device, index, problem,
                   out->last);
    }
}

/* ---- timing ---- */

static double bytes_of(const check_case *c)
{
    double bytes = 0;
    for (int i = 0; i < FV_OPERANDS; i++)
        if (c->operand[i].kind != CHECK_ABSENT)
            bytes += (double)check_extent(&c->operand[i]);
    return bytes;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the median time of a whole run in seconds, after one warm-up run. */
static double time_case(const fv_kernel *k, check_case *c)
{
    enum { RUNS = 101 };
    const double limit = 0.3;
    const check_operand *o = &c->operand[check_output(c)];
    const bool reduce = fv_op_table[c->args.prob.op]->span == FV_SPAN_REDUCE;
    double times[RUNS], total = 0;
    char message[256];
    check_job j = {.kernel = k,
                   .c = c,
                   .knobs = fv_kernel_defaults(k),
                   .message = message,
                   .message_size = sizeof message};
    check_work w;
    int n = 0;
    check_work_open(&w, &j, false);
    w.timed = true;
    check_output_reset(&w);
    for (int run = -1; run < RUNS && (run < 3 || total < limit); run++) {
        const double begin = fv_machine_seconds();
        for (uint32_t g = 0; g < (reduce ? o->rows : 1); g++) {
            uint32_t r0 = 0, r1 = c->args.prob.dim[FV_DIM_ROWS];
            if (reduce)
                check_group_range(&r0, &r1, r1, o->rows, g);
            if (!check_call(&w, r0, r1 - r0, 0, check_columns(c), g, true)) {
                check_work_close(&w);
                return NAN;
            }
        }
        if (run >= 0)
            total += times[n++] = fv_machine_seconds() - begin;
    }
    check_work_close(&w);
    qsort(times, (size_t)n, sizeof *times, by_size);
    return times[n / 2];
}

static void bench_op(const fv_kernel *list, int count, uint32_t features, enum fv_op number,
                     const char *filter)
{
    const check_op *op = check_ops[number];
    check_case c;
    for (uint32_t index = 0; check_make(&c, number, op, index); index++) {
        double reference = 0;
        for (int i = 0; c.bench && i < count; i++) {
            const fv_kernel *k = &list[i];
            if (k->op != number || (k->needs & ~features) ||
                !fv_kernel_fits(k, &c.args.prob, features))
                continue;
            if (filter && reference && !strstr(k->name, filter))
                continue;
            check_random r = case_random(k, index, 0);
            check_fill(&c, op, CHECK_NORMAL, &r);
            const double t = time_case(k, &c);
            char problem[128];
            fv_problem_format(problem, sizeof problem, &c.args.prob);
            if (!reference) /* the first line of an op times its plain C reference */
                reference = t;
            printf("%-28s %-44s %10.3f ms %7.2fx %8.2f GB/s %8.2f GFLOP/s\n", k->name, problem,
                   t * 1e3, reference / t, bytes_of(&c) / t * 1e-9,
                   fv_problem_flops(&c.args.prob) / t * 1e-9);
            fflush(stdout);
        }
        check_release(&c, op);
    }
}

/* ---- the program ---- */

static int usage(void)
{
    fprintf(stderr, "usage: check [--seed N] [--op NAME] [--kernel TEXT] [--device ID] [--every N] "
                    "[--small N] [--bench] [--list]\n");
    return 1;
}

typedef struct totals {
    uint32_t passed, failed, skipped;
} totals;

static void check_itself(totals *t, const check_runner *runner, bool direct)
{
    check_result r = {0};
    const uint32_t asked = every;
    const double limit = small;
    every = 1; /* each wrong kernel fails in at least one case, so run all */
    small = INFINITY;
    check_self(&r, runner, direct);
    every = asked;
    small = limit;
    t->passed += r.passed;
    t->failed += r.failed;
    printf("%-28s %4u wrong kernels caught%s%s\n", "check itself", r.passed,
           r.failed ? ", MISSED: " : "", r.first);
}

static void check_gradients(totals *t)
{
    check_result r = {0};
    check_differences(&r);
    t->passed += r.passed;
    t->failed += r.failed;
    printf("%-28s %4u gradients as their finite differences%s%s\n", "check the oracles", r.passed,
           r.failed ? ", WRONG: " : "", r.first);
}

static void check_listed(totals *t, const check_runner *runner, const fv_kernel *k)
{
    check_result r = {0};
    const double begin = fv_machine_seconds();
    if (k->needs & ~runner->features) {
        printf("%-28s skipped: this device lacks what it needs\n", k->name);
        t->skipped++;
        return;
    }
    check_kernel(&r, runner, k, check_ops[k->op], false);
    t->passed += r.passed;
    t->failed += r.failed + !(r.passed + r.failed); /* no case fits: nothing was checked */
    printf("%-28s %4u passed %4u failed  %6.2f s\n", k->name, r.passed, r.failed,
           fv_machine_seconds() - begin);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *op_name = NULL, *filter = NULL, *device = NULL;
    bool bench = false, list_only = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--list"))
            list_only = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            seed = strtoull(argv[++i], NULL, 0);
        else if (i + 1 < argc && !strcmp(argv[i], "--every"))
            every = (uint32_t)strtoul(argv[++i], NULL, 0);
        else if (i + 1 < argc && !strcmp(argv[i], "--small"))
            small = strtod(argv[++i], NULL);
        else if (i + 1 < argc && !strcmp(argv[i], "--op"))
            op_name = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--kernel"))
            filter = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--device"))
            device = argv[++i];
        else
            return usage();
    }
    if (!every || (bench && device))
        return usage();
#ifdef HAVE_TRAIN
    if (fovea_training_register()) {
        printf("%s\n0 passed, 1 failed, 0 skipped\n", fovea_error());
        return 1;
    }
#endif
    int count;
    const fv_kernel *const of_cpu = fv_cpu_kernels(&count), *list = of_cpu;
    check_runner runner = check_direct;
    runner.features = fv_cpu_features();
    if (device) {
        char message[256];
        list = check_device_open(&runner, device, &count, message, sizeof message);
        if (!list) {
            printf("%s\n0 passed, 1 failed, 0 skipped\n", message);
            return 1;
        }
    }
    const uint64_t mode = fv_machine_float_enter(); /* the same floating-point mode as in workers */
    totals t = {0};
    bool found = false;
    check_catch_signals();
    if (!op_name && !filter && !bench && !list_only && list == of_cpu) {
        check_itself(&t, &runner, !device);
        check_gradients(&t);
    }
    for (enum fv_op number = 1; number < FV_OP_COUNT; number++) {
        if (!fv_op_table[number] || (op_name && strcmp(op_name, fv_op_names[number])))
            continue;
        if (bench) {
            bench_op(list, count, runner.features, number, filter);
            continue;
        }
        for (int i = 0; i < count; i++) {
            if (list[i].op != number || (filter && !strstr(list[i].name, filter)))
                continue;
            found = true;
            if (list_only)
                printf("%s\n", list[i].name);
            else
                check_listed(&t, &runner, &list[i]);
        }
    }
    fv_machine_float_leave(mode);
    if (device)
        check_device_close(&runner);
    if (!bench && !found) {
        printf("no such kernel or op; --list has them\n");
        t.failed++;
    }
    if (!bench && !list_only)
        printf("seed %llu\n%u passed, %u failed, %u skipped\n", (unsigned long long)seed, t.passed,
               t.failed, t.skipped);
    return t.failed != 0;
}
