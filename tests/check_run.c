/* check_run.c: one kernel at work on one case: its calls, and what they may touch. */
#define _DEFAULT_SOURCE
#include "check_run.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os_machine.h"

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

bool check_complain(check_work *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(w->message, w->message_size, format, list);
    va_end(list);
    return false;
}

static bool guarded_call(check_work *w, const fv_call *call)
{
    const int number = sigsetjmp(crash, 1);
    if (number) {
        fv_machine_float_enter(); /* the handler came with a mode of its own */
        armed = 0;
        fv_machine_float_enter(); /* the signal's handler ran in the system's mode */
        w->crashed = true;
        return check_complain(w, "signal %d (%s) in rows %u+%u, columns %u+%u", number,
                              strsignal(number), call->row0, call->rows, call->col0, call->cols);
    }
    armed = 1;
    w->kernel->code.cpu(&w->args, call);
    armed = 0;
    return true;
}

/* Packs as the planner does, slabs in descending order. */
static void pack_weight(check_work *w, int i, bool at_end)
{
    const fv_kernel_hooks *h = w->kernel->hooks;
    const check_operand *o = &w->c->operand[i];
    const fv_problem *p = &w->args.prob;
    if (!h->pack) {
        check_region_open(&w->operand[i], check_extent(o), at_end, sizeof(float));
        memcpy(w->operand[i].at, o->data, check_extent(o));
        return;
    }
    const size_t size = h->packed(p, &w->args.knobs);
    check_region_open(&w->operand[i], size, at_end, 64);
    memset(w->operand[i].at, 0, size);
    const uint32_t columns = p->dim[FV_GEMM_N], k = o->cols;
    const uint32_t sides = p->epi & FV_EPI_SWIGLU ? 2 : 1;
    float *slab = check_must(malloc((size_t)2 * FV_COL_ALIGN * k * sizeof *slab));
    for (uint32_t end = columns; end;) {
        const uint32_t n0 = (end - 1) / FV_COL_ALIGN * FV_COL_ALIGN, n = end - n0;
        for (uint32_t s = 0; s < sides; s++)
            memcpy(slab + (size_t)s * n * k, (float *)o->data + (size_t)(s * columns + n0) * k,
                   (size_t)n * k * sizeof *slab);
        h->pack(w->operand[i].at, slab, n0, n, p, &w->args.knobs);
        end = n0;
    }
    free(slab);
}

void check_work_open(check_work *w, const fv_kernel *k, const check_case *c, const fv_knobs *knobs,
                     bool at_end, char *message, size_t message_size)
{
    memset(w, 0, sizeof *w);
    w->kernel = k;
    w->c = c;
    w->args = c->args;
    w->args.knobs = *knobs;
    w->out = check_output(c);
    w->message = message;
    w->message_size = message_size;
    for (int i = 0; i <= w->out; i++) {
        const check_operand *o = &c->operand[i];
        if (o->kind == CHECK_ABSENT || (i == c->in_place))
            continue;
        if (o->kind == CHECK_WEIGHT) {
            pack_weight(w, i, at_end);
        } else {
            check_region_open(&w->operand[i], check_extent(o), at_end, check_element(o));
            if (i != w->out)
                memcpy(w->operand[i].at, o->data, check_extent(o));
        }
        check_region_remember(&w->operand[i]);
    }
    const size_t scratch =
        k->hooks->scratch ? k->hooks->scratch(&w->args.prob, knobs, w->args.prob.dim[0]) : 0;
    check_region_open(&w->scratch, scratch, at_end, 64);
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
    check_poison(r->pages, r->room);
    if (w->c->in_place >= 0)
        memcpy(r->at, w->c->operand[w->c->in_place].data, r->size);
    check_region_remember(r);
}

uint32_t check_columns(const check_case *c)
{
    switch (fv_op_table[c->args.prob.op].cols) {
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
    if (fv_op_table[w->args.prob.op].cols == FV_COLS_WHOLE)
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

/* Takes the heads' part out of the state, which is then what it was before. */
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

/* Takes what the calls should have written out of the output, and sees that nothing else changed.
 */
static bool collect(check_work *w, uint8_t *result, uint32_t row0, uint32_t rows, uint32_t col0,
                    uint32_t cols)
{
    const check_operand *o = &w->c->operand[w->out];
    check_region *r = &w->operand[w->out];
    const size_t unit = o->cols / check_columns(w->c) * check_element(o);
    for (uint32_t y = row0; y < row0 + rows; y++) {
        const size_t at = (size_t)y * o->ld * check_element(o) + col0 * unit;
        memcpy(result + (size_t)y * o->cols * check_element(o) + col0 * unit, r->at + at,
               cols * unit);
        memcpy(r->at + at, r->image + (size_t)(r->at - r->pages) + at, cols * unit);
    }
    if (w->c->state >= 0)
        collect_state(w, result, col0, cols);
    long where;
    for (int i = 0; i <= w->out; i++)
        if (w->operand[i].map && check_region_changed(&w->operand[i], &where))
            return check_complain(
                w,
                "operand %d (%zu bytes) changed at byte %ld, not its to write; call "
                "of rows %u+%u, columns %u+%u",
                i, w->operand[i].size, where, row0, rows, col0, cols);
    memcpy(w->scratch.at, w->scratch.image + (w->scratch.at - w->scratch.pages), w->scratch.size);
    if (check_region_changed(&w->scratch, &where))
        return check_complain(w, "wrote outside its scratch of %zu bytes, at byte %ld",
                              w->scratch.size, where);
    return true;
}

static uint32_t piece(check_random *r, uint32_t left, uint32_t align)
{
    const uint32_t units = (left + align - 1) / align;
    const uint32_t n = (1 + check_below(r, check_below(r, 2) ? units : (units < 5 ? units : 5)));
    return n * align < left ? n * align : left;
}

bool check_in_order(const check_case *c)
{
    const uint8_t span = fv_op_table[c->args.prob.op].span;
    return span == FV_SPAN_REDUCE || span == FV_SPAN_SCAN;
}

bool check_run(check_work *w, uint8_t *result, bool cut_rows, bool cut_cols, check_random r)
{
    const check_case *c = w->c;
    const fv_op_info *info = &fv_op_table[c->args.prob.op];
    const bool reduce = info->span == FV_SPAN_REDUCE;
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], columns = check_columns(c);
    const uint32_t align = info->cols == FV_COLS_COLUMN ? FV_COL_ALIGN : 1;
    check_random r_cols = {r.state ^ 0x5bd1e995u};
    for (uint32_t col0 = 0, cols; col0 < columns; col0 += cols) {
        cols = cut_cols ? piece(&r_cols, columns - col0, align) : columns;
        check_random r_rows = r;
        if (check_in_order(c)) {
            const uint32_t groups = reduce ? c->operand[w->out].rows : 1;
            check_output_reset(w);
            for (uint32_t g = 0; g < groups; g++) {
                uint32_t row0, end;
                check_group_rows(&row0, &end, rows, groups, g);
                bool first = true;
                for (uint32_t n; row0 < end; row0 += n, first = false) {
                    n = cut_rows ? piece(&r_rows, end - row0, c->align) : end - row0;
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
            n = cut_rows ? piece(&r_rows, end - row0, c->align) : end - row0;
            check_output_reset(w);
            if (!check_call(w, row0, n, col0, cols, 0, true) ||
                !collect(w, result, row0, n, col0, cols))
                return false;
        }
    }
    return true;
}
