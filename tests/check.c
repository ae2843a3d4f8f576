/* check.c: checks every kernel of the CPU backend against its definition, and times it.
 *
 *   check [--seed N] [--op NAME] [--kernel TEXT] [--bench] [--list]
 *
 * For every case of its op that a kernel fits, and for inputs of several kinds, the kernel runs as
 * one call and cut into pieces. Each operand lies between inaccessible pages, once ending right at
 * one and once beginning there, amid NaN patterns that are compared bytewise afterwards. Results
 * are compared with the double-precision oracle, and the pieces with the whole, bit by bit.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_run.h"
#include "cpu_backend.h"
#include "os_machine.h"

static uint64_t seed = 1;

static bool computed(const check_case *c, uint32_t row)
{
    return !c->rows || (row >= c->row0 && row - c->row0 < c->rows);
}

static double result_at(const check_operand *o, const uint8_t *result, uint32_t row, uint32_t col)
{
    return check_value_at(o->type, result, (size_t)row * o->cols + col);
}

static bool is_right(enum fv_type type, double got, double want, double allowed)
{
    const double max = type == FV_F16 || type == FV_BF16 ? check_max(type) : FLT_MAX;
    if (fabs(want) > max) /* cannot be represented: any overflow is right */
        return !isfinite(got) || fabs(got) > 0.99 * max;
    return isnan(want) ? isnan(got) : fabs(got - want) <= allowed;
}

static bool compare_state(check_work *w, const check_op *op, const uint8_t *state)
{
    const check_operand *o = &w->c->operand[w->c->state];
    double *want = check_must(malloc(2 * o->cols * sizeof *want)), *allowed = want + o->cols;
    bool good = true;
    op->oracle_state(w->c, want, allowed);
    for (uint32_t col = 0; good && col < o->cols; col++) {
        const double got = check_value_at(o->type, state, col);
        good = is_right(o->type, got, want[col], allowed[col]) ||
               check_complain(w, "the state's value %u is %.9g, want %.9g, allowed error %.2g", col,
                              got, want[col], allowed[col]);
    }
    free(want);
    return good;
}

/* All rows of a small problem, 64 of a large one. */
static bool compare(check_work *w, const check_op *op, const uint8_t *result, check_random r)
{
    enum { SAMPLES = 64 };
    const check_operand *o = &w->c->operand[w->out];
    const bool all = fv_problem_flops(&w->c->args.prob) <= 0x1p24 || o->rows <= SAMPLES;
    const uint32_t count = all ? o->rows : SAMPLES;
    double *want = check_must(malloc(2 * o->cols * sizeof *want)), *allowed = want + o->cols;
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) {
        const uint32_t row = all || !i ? i : i == 1 ? o->rows - 1 : check_below(&r, o->rows);
        if (!computed(w->c, row))
            continue;
        op->oracle(w->c, row, want, allowed);
        for (uint32_t col = 0; good && col < o->cols; col++) {
            const double got = result_at(o, result, row, col);
            good = is_right(o->type, got, want[col], allowed[col]) ||
                   check_complain(w, "row %u, column %u is %.9g, want %.9g, allowed error %.2g",
                                  row, col, got, want[col], allowed[col]);
        }
    }
    free(want);
    if (good && w->c->state >= 0)
        good = compare_state(w, op, result + check_output_size(w->c));
    return good;
}

static bool same(check_work *w, const uint8_t *whole, const uint8_t *cut)
{
    const check_operand *o = &w->c->operand[w->out];
    const size_t row_size = o->cols * check_element(o);
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t x = 0; computed(w->c, y) && x < o->cols; x++)
            if (memcmp(whole + y * row_size + x * check_element(o),
                       cut + y * row_size + x * check_element(o), check_element(o)))
                return check_complain(w, "row %u, column %u is %.9g as a whole and %.9g in pieces",
                                      y, x, result_at(o, whole, y, x), result_at(o, cut, y, x));
    const size_t state = check_output_size(w->c);
    if (memcmp(whole + state, cut + state, check_result_size(w->c) - state))
        return check_complain(w, "the state differs between a whole run and one in pieces");
    return true;
}

/* One kernel, one case with values, one set of knobs: whole and cut, at both ends of the pages. */
static bool check_values(check_result *out, const fv_kernel *k, const check_op *op,
                         const check_case *c, const fv_knobs *knobs, check_random r, char *message,
                         size_t message_size)
{
    const size_t size = check_result_size(c);
    uint8_t *whole = check_must(malloc(size)), *cut = check_must(malloc(size));
    check_work w;
    check_work_open(&w, k, c, knobs, true, message, message_size);
    bool good = check_run(&w, whole, false, false, r) && compare(&w, op, whole, r);
    if (good && check_in_order(
                    c)) /* another row split is another order of summation: a result of its own */
        good = check_run(&w, whole, true, false, r) && compare(&w, op, whole, r);
    out->crashed += w.crashed;
    check_work_close(&w);
    if (good) {
        check_work_open(&w, k, c, knobs, false, message, message_size);
        good = check_run(&w, cut, true, true, r) && same(&w, whole, cut);
        out->crashed += w.crashed;
        check_work_close(&w);
    }
    free(whole);
    free(cut);
    return good;
}

/* Default knobs first, then every other value of each knob by itself. */
static bool next_knobs(const fv_kernel *k, fv_knobs *knobs, uint32_t index)
{
    *knobs = fv_kernel_defaults(k);
    if (!index)
        return true;
    index--;
    for (uint32_t i = 0; k->hooks->knobs && k->hooks->knobs[i].name; i++) {
        const uint32_t others = k->hooks->knobs[i].count - 1;
        if (index < others) {
            knobs->v[i] = k->hooks->knobs[i].value[1 + index];
            return true;
        }
        index -= others;
    }
    return false;
}

static check_random case_random(const fv_kernel *k, uint32_t index, uint32_t fill)
{
    check_random r = {seed * 0x9e3779b97f4a7c15u + k->op * 1000003u + index * 257u + fill};
    check_next(&r);
    return r;
}

static bool check_one(check_result *out, const fv_kernel *k, const check_op *op, check_case *c,
                      uint32_t index, char *message, size_t size)
{
    fv_knobs knobs;
    for (uint32_t fill = 0; fill < (c->bench ? 1 : CHECK_FILLS); fill++) {
        check_random r = case_random(k, index, fill);
        check_fill(c, op, fill, &r);
        const uint32_t choices = fill == CHECK_NORMAL && !c->bench ? UINT32_MAX : 1;
        for (uint32_t i = 0; i < choices && next_knobs(k, &knobs, i); i++) {
            char what[256];
            if (!check_values(out, k, op, c, &knobs, r, what, sizeof what)) {
                snprintf(message, size, "%s values, knobs %u: %s", check_fill_names[fill], i, what);
                return false;
            }
        }
    }
    return true;
}

void check_kernel(check_result *out, const fv_kernel *k, const check_op *op, bool quiet)
{
    check_case c;
    for (uint32_t index = 0; check_make(&c, k->op, op, index); index++) {
        if (fv_kernel_fits(k, &c.args.prob, k->needs)) {
            char problem[128], what[384];
            fv_problem_format(problem, sizeof problem, &c.args.prob);
            if (check_one(out, k, op, &c, index, what, sizeof what)) {
                out->passed++;
            } else {
                if (!out->failed++)
                    snprintf(out->first, sizeof out->first, "%s: %s", problem, what);
                if (!quiet)
                    printf("FAIL %s, case %u, %s: %s\n", k->name, index, problem, what);
            }
        }
        check_release(&c, op);
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

/* Median seconds of a whole run, after one for warmth. */
static double time_case(const fv_kernel *k, const check_case *c)
{
    enum { RUNS = 101 };
    const double limit = 0.3;
    const fv_knobs knobs = fv_kernel_defaults(k);
    const check_operand *o = &c->operand[check_output(c)];
    const bool reduce = fv_op_table[c->args.prob.op].span == FV_SPAN_REDUCE;
    double times[RUNS], total = 0;
    char message[256];
    check_work w;
    int n = 0;
    check_work_open(&w, k, c, &knobs, false, message, sizeof message);
    w.timed = true;
    check_output_reset(&w);
    for (int run = -1; run < RUNS && (run < 3 || total < limit); run++) {
        const double begin = fv_machine_seconds();
        for (uint32_t g = 0; g < (reduce ? o->rows : 1); g++) {
            uint32_t r0 = 0, r1 = c->args.prob.dim[FV_DIM_ROWS];
            if (reduce)
                check_group_rows(&r0, &r1, r1, o->rows, g);
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
            if (!reference) /* the first line of an op is its definition in plain C */
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
    fprintf(stderr, "usage: check [--seed N] [--op NAME] [--kernel TEXT] [--bench] [--list]\n");
    return 1;
}

int main(int argc, char **argv)
{
    const char *op_name = NULL, *filter = NULL;
    bool bench = false, list_only = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--list"))
            list_only = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            seed = strtoull(argv[++i], NULL, 0);
        else if (i + 1 < argc && !strcmp(argv[i], "--op"))
            op_name = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--kernel"))
            filter = argv[++i];
        else
            return usage();
    }
    int count;
    const fv_kernel *list = fv_cpu_kernels(&count);
    const uint32_t features = fv_cpu_features();
    const uint64_t mode = fv_machine_float_enter(); /* as the workers do */
    check_result self = {0};
    uint32_t passed = 0, failed = 0, skipped = 0;
    check_catch_signals();
    if (!op_name && !filter && !bench && !list_only) {
        check_self(&self);
        passed = self.passed;
        failed = self.failed;
        printf("%-28s %4u wrong kernels caught%s%s\n", "check itself", self.passed,
               self.failed ? ", MISSED: " : "", self.first);
    }
    for (enum fv_op number = 1; number < FV_OP_COUNT; number++) {
        if (op_name && strcmp(op_name, fv_op_table[number].name))
            continue;
        if (bench) {
            bench_op(list, count, features, number, filter);
            continue;
        }
        for (int i = 0; i < count; i++) {
            const fv_kernel *k = &list[i];
            if (k->op != number || (filter && !strstr(k->name, filter)))
                continue;
            if (list_only) {
                printf("%s\n", k->name);
            } else if (k->needs & ~features) {
                printf("%-28s skipped: this processor lacks what it needs\n", k->name);
                skipped++;
            } else {
                check_result r = {0};
                const double begin = fv_machine_seconds();
                check_kernel(&r, k, check_ops[number], false);
                passed += r.passed;
                failed += r.failed + !(r.passed + r.failed); /* no case fits: nothing was checked */
                printf("%-28s %4u passed %4u failed  %6.2f s\n", k->name, r.passed, r.failed,
                       fv_machine_seconds() - begin);
                fflush(stdout);
            }
        }
    }
    fv_machine_float_leave(mode);
    if (!bench && !list_only && !(passed + failed + skipped)) {
        printf("no such kernel or op; --list has them\n");
        failed = 1;
    }
    if (!bench && !list_only)
        printf("seed %llu\n%u passed, %u failed, %u skipped\n", (unsigned long long)seed, passed,
               failed, skipped);
    return failed != 0;
}
