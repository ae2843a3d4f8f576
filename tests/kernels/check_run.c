/* check_run.c: runs one CPU kernel on one case, and checks which bytes its calls change. */
#define _DEFAULT_SOURCE
#include "tests/kernels/check_run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/os/os_machine.h"

static sigjmp_buf crash;
static volatile sig_atomic_t armed;

static void on_signal(int number)
{
    if (!armed) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    siglongjmp(crash, number);
}

void check_catch_signals(void)
{
    static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &action, NULL);
}

bool check_complain(check_job *j, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(j->message, j->message_size, format, list);
    va_end(list);
    return false;
}

static bool guarded_call(check_work *w, const fv_call *call)
{
    const int number = sigsetjmp(crash, 1);
    if (number) {
        armed = 0;
        fv_machine_float_enter(); /* the signal handler ran in the system's floating-point mode */
        w->job->crashed = true;
        return check_complain(w->job, "signal %d (%s) in rows %u+%u, columns %u+%u", number,
                              strsignal(number), call->row0, call->rows, call->col0, call->cols);
    }
    armed = 1;
    w->job->kernel->code.cpu(&w->args, call);
    armed = 0;
    return true;
}

/* Packs the weight's slabs in descending order. */
static void pack_slabs(const check_job *j, const check_operand *o, uint8_t *out)
{
    const fv_problem *p = &j->c->args.prob;
    const uint32_t sides = p->epi & FV_EPI_SWIGLU ? 2 : 1;
    const uint32_t columns = o->rows / sides, k = o->cols;
    float *slab = check_must(malloc((size_t)2 * FV_COL_ALIGN * k * sizeof *slab));
    for (uint32_t end = columns; end;) {
        const uint32_t n0 = (end - 1) / FV_COL_ALIGN * FV_COL_ALIGN, n = end - n0;
        for (uint32_t s = 0; s < sides; s++)
            memcpy(slab + (size_t)s * n * k, (float *)o->data + (size_t)(s * columns + n0) * k,
                   (size_t)n * k * sizeof *slab);
        j->kernel->hooks->pack(out, slab, n0, n, p, &j->knobs);
        end = n0;
    }
    free(slab);
}

uint8_t *check_packed(const check_job *j, int operand, size_t *size)
{
    const fv_kernel_hooks *h = j->kernel->hooks;
    const check_operand *o = &j->c->operand[operand];
    *size = h->pack ? h->packed(&j->c->args.prob, &j->knobs) : check_extent(o);
    uint8_t *out = check_must(calloc(*size, 1));
    if (h->pack)
        pack_slabs(j, o, out);
    else
        check_stored(o, out);
    return out;
}

size_t check_scratch(const check_job *j)
{
    const fv_kernel_hooks *h = j->kernel->hooks;
    const fv_problem *p = &j->c->args.prob;
    return h->scratch ? h->scratch(p, &j->knobs, p->dim[FV_DIM_ROWS]) : 0;
}

void check_work_open(check_work *w, check_job *j, bool at_end)
{
    const check_case *c = j->c;
    memset(w, 0, sizeof *w);
    w->job = j;
    w->c = c;
    w->args = c->args;
    w->args.knobs = j->knobs;
    w->out = check_output(c);
    for (int i = 0; i <= w->out; i++) {
        const check_operand *o = &c->operand[i];
        if (o->kind == CHECK_ABSENT || (i == c->in_place))
            continue;
        if (o->kind == CHECK_WEIGHT) {
            size_t size;
            uint8_t *packed = check_packed(j, i, &size);
            check_region_open(&w->operand[i], size, at_end,
                              j->kernel->hooks->pack ? 64 : sizeof(float));
            memcpy(w->operand[i].at, packed, size);
            free(packed);
        } else {
            check_region_open(&w->operand[i], check_extent(o), at_end, check_element(o));
            if (i != w->out)
                check_stored(o, w->operand[i].at);
        }
        check_region_remember(&w->operand[i]);
    }
    check_region_open(&w->scratch, check_scratch(j), at_end, 64);
    check_region_remember(&w->scratch);
}

void check_work_close(check_work *w)
{
    for (int i = 0; i < FV_OPERANDS; i++)
        check_region_close(&w->operand[i]);
    check_region_close(&w->scratch);
}

void check_output_reset(check_work *w)
{
    check_region *r = &w->operand[w->out];
    const int before = w->c->adds ? w->out : w->c->in_place;
    check_poison(r->pages, r->usable);
    if (before >= 0)
        check_stored(&w->c->operand[before], r->at);
    check_region_remember(r);
}

uint32_t check_columns(const check_case *c)
{
    switch (fv_op_table[c->args.prob.op]->cols) {
    case FV_COLS_COLUMN:
        return c->operand[check_output(c)].cols;
    case FV_COLS_HEAD:
        return c->args.prob.heads;
    default:
        return 1;
    }
}

bool check_call(check_work *w, uint32_t row0, uint32_t rows, uint32_t col0, uint32_t cols,
                uint32_t group, bool first)
{
    fv_call call = {
        .row0 = row0, .rows = rows, .col0 = col0, .cols = cols, .group = group, .first = first};
    if (fv_op_table[w->args.prob.op]->cols == FV_COLS_WHOLE)
        call.col0 = call.cols = 0;
    for (int i = 0; i <= w->out; i++) {
        const check_operand *o = &w->c->operand[i];
        if (o->kind == CHECK_ABSENT)
            continue;
        uint8_t *base = w->operand[i == w->c->in_place ? w->out : i].at;
        const size_t row = o->kind == CHECK_ROW ? row0 : o->kind == CHECK_PARTIAL ? group : 0;
        call.p[i] = base + row * o->ld * check_element(o);
    }
    if (!w->timed)
        check_poison(w->scratch.at, w->scratch.size);
    call.scratch = w->scratch.at;
    return guarded_call(w, &call);
}

size_t check_output_size(const check_case *c)
{
    const check_operand *o = &c->operand[check_output(c)];
    return (size_t)o->rows * o->cols * check_element(o);
}

size_t check_result_size(const check_case *c)
{
    return check_output_size(c) + (c->state < 0 ? 0 : check_extent(&c->operand[c->state]));
}

/* Moves the values of some heads from the state to the result, and restores the state's old values.
 */
static void collect_state(check_work *w, uint8_t *result, uint32_t col0, uint32_t cols)
{
    const check_operand *o = &w->c->operand[w->c->state];
    check_region *r = &w->operand[w->c->state];
    for (uint32_t x = 0; x < o->cols; x++) {
        const size_t at = x * check_element(o);
        const uint32_t head = check_ops[w->c->args.prob.op]->head(w->c, x);
        if (head < col0 || head >= col0 + cols)
            continue;
        memcpy(result + check_output_size(w->c) + at, r->at + at, check_element(o));
        memcpy(r->at + at, r->image + (size_t)(r->at - r->pages) + at, check_element(o));
    }
}

/* Moves what the calls must have written from the output to the result, and checks that nothing
 * else changed.
 */
static bool collect(check_work *w, uint8_t *result, uint32_t row0, uint32_t rows, uint32_t col0,
                    uint32_t cols)
{
    const check_operand *o = &w->c->operand[w->out];
    check_region *r = &w->operand[w->out];
    const uint32_t columns = check_columns(w->c), whole[] = {o->cols / columns, 0, 0};
    const uint32_t *part = w->c->part[0] ? w->c->part : whole;
    size_t begin = 0; /* byte offset of a part in a row */
    for (int i = 0; i < 3; begin += columns * part[i++] * check_element(o)) {
        const size_t unit = part[i] * check_element(o), from = begin + col0 * unit;
        for (uint32_t y = row0; y < row0 + rows; y++) {
            const size_t at = (size_t)y * o->ld * check_element(o) + from;
            memcpy(result + (size_t)y * o->cols * check_element(o) + from, r->at + at, cols * unit);
            memcpy(r->at + at, r->image + (size_t)(r->at - r->pages) + at, cols * unit);
        }
    }
    if (w->c->state >= 0)
        collect_state(w, result, col0, cols);
    long where;
    for (int i = 0; i <= w->out; i++)
        if (w->operand[i].map && check_region_changed(&w->operand[i], &where))
            return check_complain(
                w->job,
                "operand %d (%zu bytes) changed at byte %ld, not its to write; call "
                "of rows %u+%u, columns %u+%u",
                i, w->operand[i].size, where, row0, rows, col0, cols);
    memcpy(w->scratch.at, w->scratch.image + (w->scratch.at - w->scratch.pages), w->scratch.size);
    if (check_region_changed(&w->scratch, &where))
        return check_complain(w->job, "wrote outside its scratch of %zu bytes, at byte %ld",
                              w->scratch.size, where);
    return true;
}

uint32_t check_piece(check_random *r, uint32_t left, uint32_t align)
{
    const uint32_t units = (left + align - 1) / align;
    const uint32_t n = (1 + check_below(r, check_below(r, 2) ? units : (units < 5 ? units : 5)));
    return n * align < left ? n * align : left;
}

/* Returns whether calls of one group depend on earlier calls, so that another split of the rows
 * changes the order of summation. */
static bool in_order(const check_case *c)
{
    const uint8_t span = fv_op_table[c->args.prob.op]->span;
    return span == FV_SPAN_REDUCE || span == FV_SPAN_SCAN;
}

/* Runs the case in pieces drawn from `r`. For ops whose calls depend on earlier ones, row pieces
 * depend only on `r`, so that two runs with the same r sum in the same order. */
static bool run_pieces(check_work *w, uint8_t *result, bool cut_rows, bool cut_cols, check_random r)
{
    const check_case *c = w->c;
    const fv_op *op = fv_op_table[c->args.prob.op];
    const bool reduce = op->span == FV_SPAN_REDUCE;
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], columns = check_columns(c);
    const uint32_t align = op->cols == FV_COLS_COLUMN ? FV_COL_ALIGN : 1;
    check_random r_cols = {r.state ^ 0x5bd1e995u};
    for (uint32_t col0 = 0, cols; col0 < columns; col0 += cols) {
        cols = cut_cols ? check_piece(&r_cols, columns - col0, align) : columns;
        check_random r_rows = r;
        if (in_order(c)) {
            const uint32_t groups = reduce ? c->operand[w->out].rows : 1;
            check_output_reset(w);
            for (uint32_t g = 0; g < groups; g++) {
                uint32_t row0, end;
                check_group_range(&row0, &end, rows, groups, g);
                bool first = true;
                for (uint32_t n; row0 < end; row0 += n, first = false) {
                    n = cut_rows ? check_piece(&r_rows, end - row0, c->align) : end - row0;
                    if (!check_call(w, row0, n, col0, cols, g, first))
                        return false;
                }
            }
            if (!collect(w, result, 0, c->operand[w->out].rows, col0, cols))
                return false;
            continue;
        }
        const uint32_t end = c->rows ? c->row0 + c->rows : rows;
        for (uint32_t row0 = c->row0, n; row0 < end; row0 += n) {
            n = cut_rows ? check_piece(&r_rows, end - row0, c->align) : end - row0;
            check_output_reset(w);
            if (!check_call(w, row0, n, col0, cols, 0, true) ||
                !collect(w, result, row0, n, col0, cols))
                return false;
        }
    }
    return true;
}

/* Operands of a case that is run in pieces are at the opposite end of their pages. */
static bool run(const check_runner *runner, check_job *j, enum check_way way, uint8_t *result,
                check_random r)
{
    (void)runner;
    check_work w;
    check_work_open(&w, j, way != CHECK_PIECES);
    const bool good = run_pieces(&w, result, way != CHECK_WHOLE, way == CHECK_PIECES, r);
    check_work_close(&w);
    return good;
}

const check_runner check_direct = {.device = "cpu", .exact = true, .run = run, .cuts = in_order};
