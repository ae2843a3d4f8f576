/* check.c: checks every kernel of the CPU backend against its definition, and times it.
 *
 *   check [--seed N] [--op NAME] [--kernel TEXT] [--bench] [--list]
 *
 * For every case of its op that a kernel fits, and for inputs of several kinds, the kernel runs as
 * one call and cut into pieces. Each operand lies between inaccessible pages, once ending right at
 * one and once beginning there, amid NaN patterns that are compared bytewise afterwards. Results
 * are compared with the double-precision oracle, and the pieces with the whole, bit by bit.
 */
#define _DEFAULT_SOURCE
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "cpu_backend.h"
#include "half.h"
#include "os_machine.h"

#define FV_OP(NAME, name, span, cols) extern const check_op check_##name;
#include "ops.inc"
#undef FV_OP

static const check_op *const ops[FV_OP_COUNT] = {
#define FV_OP(NAME, name, span, cols) [FV_OP_##NAME] = &check_##name,
#include "ops.inc"
#undef FV_OP
};

static uint64_t seed = 1;

/* ---- random numbers ---- */

uint64_t check_next(check_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t check_below(check_random *r, uint32_t n)
{
    return (uint32_t)(check_next(r) % n);
}

double check_normal(check_random *r)
{
    double u = (double)(check_next(r) >> 11) + 1.0, v = (double)(check_next(r) >> 11);
    return sqrt(-2.0 * log(u * 0x1p-53)) * cos(6.283185307179586 * v * 0x1p-53);
}

/* ---- cases ---- */

void check_matrix(check_case *c, int i, enum check_kind kind, uint32_t rows, uint32_t cols,
                  uint32_t gap)
{
    check_operand *o = &c->operand[i];
    o->kind = (uint8_t)kind;
    o->type = FV_F32;
    o->rows = rows;
    o->cols = cols;
    o->ld = cols + gap;
    o->scale = 1.f;
    o->huge = 1e15f;
    c->args.ld[i] = o->ld;
}

void check_vector(check_case *c, int i, uint32_t n)
{
    check_matrix(c, i, CHECK_BASE, 1, n, 0);
    c->args.ld[i] = 0;
}

float *check_value(check_case *c, int operand, uint32_t row, uint32_t col)
{
    check_operand *o = &c->operand[operand];
    return (float *)o->data + (size_t)row * o->ld + col;
}

uint16_t *check_half(check_case *c, int operand, uint32_t row, uint32_t col)
{
    check_operand *o = &c->operand[operand];
    return (uint16_t *)o->data + (size_t)row * o->ld + col;
}

/* The 16-bit floats by their definition, for kernels and checks not to share a mistake. */
static const struct half {
    int bits, least; /* of the mantissa; exponent of the smallest normal value */
    double max;
} halves[] = {[FV_F16] = {10, -14, 65504.}, [FV_BF16] = {7, -126, 0xffp120}};

static double half_value(enum fv_type type, uint16_t h)
{
    const struct half *f = &halves[type];
    const int mantissa = h & ((1 << f->bits) - 1), exponent = (h & 0x7fff) >> f->bits;
    double size = ldexp(mantissa + (exponent ? 1 << f->bits : 0),
                        f->least - f->bits + (exponent ? exponent - 1 : 0));
    if (exponent == 0x7fff >> f->bits)
        size = mantissa ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -size : size;
}

/* What the last bit of the value nearest to x is worth. */
static double half_unit(enum fv_type type, double x)
{
    const struct half *f = &halves[type];
    int exponent = f->least;
    if (fabs(x) >= ldexp(1., f->least) && isfinite(x))
        exponent = ilogb(x);
    return ldexp(1., exponent - f->bits);
}

double check_round(enum fv_type type, double x)
{
    if (type == FV_F32)
        return (float)x;
    const double unit = half_unit(type, x), y = nearbyint(x / unit) * unit;
    return fabs(y) > halves[type].max ? copysign((double)INFINITY, x) : y;
}

double check_rounding(enum fv_type type, double x)
{
    return type == FV_F32 ? 0.5 * FLT_EPSILON * fabs(x) : 0.5 * half_unit(type, x);
}

static double value_at(enum fv_type type, const void *data, size_t at)
{
    switch (type) {
    case FV_U8:
        return ((const uint8_t *)data)[at];
    case FV_F32:
        return ((const float *)data)[at];
    default:
        return half_value(type, ((const uint16_t *)data)[at]);
    }
}

double check_at(const check_case *c, int operand, uint32_t row, uint32_t col)
{
    const check_operand *o = &c->operand[operand];
    return value_at(o->type, o->data, (size_t)row * o->ld + col);
}

void check_group_rows(uint32_t *r0, uint32_t *r1, uint32_t rows, uint32_t groups, uint32_t group)
{
    *r0 = (uint32_t)((uint64_t)rows * group / groups);
    *r1 = (uint32_t)((uint64_t)rows * (group + 1) / groups);
}

double check_allowed(double n, double sum)
{
    /* Rounding errors add up like a random walk; what is below the normal numbers may be flushed.
     */
    return (4.0 + 2.0 * sqrt(n)) * FLT_EPSILON * sum + n * FLT_MIN;
}

static size_t element(const check_operand *o)
{
    return fv_type_size(o->type);
}

/* Bytes from the first value to the last: the last row has no gap behind it. */
static size_t extent(const check_operand *o)
{
    return ((size_t)(o->rows - 1) * o->ld + o->cols) * element(o);
}

static int output_of(const check_case *c)
{
    int out = FV_OPERANDS - 1;
    while (c->operand[out].kind == CHECK_ABSENT)
        out--;
    return out;
}

enum fill { NORMAL, HUGE_VALUES, TINY, ONE_HOT, ZERO, DENORMAL, FILLS };
static const char *const fill_names[FILLS] = {"normal",  "huge", "tiny",
                                              "one-hot", "zero", "denormal"};

static double draw(check_random *r, enum fill fill, const check_operand *o, bool hot)
{
    const bool f16 = o->type == FV_F16; /* of 16-bit floats this one has the smaller range */
    if (o->type == FV_U8) {
        const uint32_t top[FILLS] = {256, 2, 2, 256, 1, 256};
        const uint32_t v = check_below(r, top[fill]);
        return fill == HUGE_VALUES ? 255 * v : fill == ONE_HOT ? 255 * hot : v;
    }
    switch (fill) {
    case HUGE_VALUES:
        return check_normal(r) * (f16 ? fminf(o->huge, 1e3f) : o->huge);
    case TINY:
        return check_normal(r) * (f16 ? 1e-3 : 1e-30);
    case ONE_HOT:
        return hot ? o->scale : 0.0;
    case ZERO:
        return 0.0;
    case DENORMAL:
        return check_normal(r) * (f16 ? 1e-6 : 1e-40);
    default:
        return check_normal(r) * o->scale;
    }
}

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "check: out of memory\n");
        exit(1);
    }
    return p;
}

static void poison(void *p, size_t size)
{
    static const uint8_t nan_bytes[4] = {0xa5, 0xa5, 0xe5, 0xff};
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)p)[i] = nan_bytes[i & 3];
}

/* Values of the inputs; gaps between rows hold NaN, so that reading one is seen in the result. */
static void fill_case(check_case *c, const check_op *op, enum fill fill, check_random *r)
{
    const int out = output_of(c);
    for (int i = 0; i < out; i++) {
        check_operand *o = &c->operand[i];
        if (o->kind == CHECK_ABSENT)
            continue;
        const size_t size = extent(o);
        o->data = must(realloc(o->data, size));
        poison(o->data, size);
        for (uint32_t y = 0; y < o->rows; y++) {
            const uint32_t hot = check_below(r, o->cols);
            for (uint32_t x = 0; x < o->cols; x++) {
                const size_t at = (size_t)y * o->ld + x;
                const double v = draw(r, fill, o, x == hot);
                if (o->type == FV_U8)
                    ((uint8_t *)o->data)[at] = (uint8_t)v;
                else
                    fv_value_put(o->data, o->type, at, (float)v);
            }
        }
    }
    if (op->prepare)
        op->prepare(c, r);
}

static void release_case(check_case *c, const check_op *op)
{
    for (int i = 0; i < FV_OPERANDS; i++)
        free(c->operand[i].data);
    if (op->release)
        op->release(c);
}

static bool make_case(check_case *c, enum fv_op number, const check_op *op, uint32_t index)
{
    memset(c, 0, sizeof *c);
    c->args.prob.op = (uint16_t)number;
    c->args.prob.threads = 1;
    c->args.prob.in = c->args.prob.weight = c->args.prob.out = c->args.prob.acc = FV_F32;
    c->in_place = c->state = -1;
    return op->make(c, index);
}

/* ---- memory between inaccessible pages ---- */

typedef struct region {
    uint8_t *map, *pages, *at;
    uint8_t *image; /* what the pages held before the call */
    size_t mapped, room, size;
} region;

static void region_open(region *r, size_t size, bool at_end, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t need = size ? size : 1;
    r->size = size;
    r->room = (need + page - 1) / page * page;
    r->mapped = r->room + 2 * page;
    r->map = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(r->map == MAP_FAILED ? NULL : r->map);
    r->pages = r->map + page;
    mprotect(r->map, page, PROT_NONE);
    mprotect(r->pages + r->room, page, PROT_NONE);
    r->at = r->pages + (at_end ? (r->room - size) / align * align : 0);
    r->image = NULL;
    poison(r->pages, r->room);
}

static void region_remember(region *r)
{
    if (!r->image)
        r->image = must(malloc(r->room));
    memcpy(r->image, r->pages, r->room);
}

/* Where the pages differ from the image, as an offset to `at`; false when nowhere. */
static bool region_changed(const region *r, long *where)
{
    if (!memcmp(r->pages, r->image, r->room))
        return false;
    size_t i = 0;
    while (r->pages[i] == r->image[i])
        i++;
    *where = (long)i - (long)(r->at - r->pages);
    return true;
}

static void region_close(region *r)
{
    if (r->map)
        munmap(r->map, r->mapped);
    free(r->image);
    memset(r, 0, sizeof *r);
}

/* ---- one kernel at work on one case ---- */

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

static void catch_signals(void)
{
    static const int caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        sigaction(caught[i], &action, NULL);
}

typedef struct work {
    const fv_kernel *kernel;
    const check_case *c;
    fv_args args;
    region operand[FV_OPERANDS], scratch;
    int out;
    char *message;
    size_t message_size;
    bool crashed;
} work;

static bool complain(work *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(w->message, w->message_size, format, list);
    va_end(list);
    return false;
}

static bool guarded_call(work *w, const fv_call *call)
{
    const int number = sigsetjmp(crash, 1);
    if (number) {
        fv_machine_float_enter(); /* the handler came with a mode of its own */
        armed = 0;
        fv_machine_float_enter(); /* the signal's handler ran in the system's mode */
        w->crashed = true;
        return complain(w, "signal %d (%s) in rows %u+%u, columns %u+%u", number, strsignal(number),
                        call->row0, call->rows, call->col0, call->cols);
    }
    armed = 1;
    w->kernel->code.cpu(&w->args, call);
    armed = 0;
    return true;
}

/* Packs as the planner does, slabs in descending order. */
static void pack_weight(work *w, int i, bool at_end)
{
    const fv_kernel_hooks *h = w->kernel->hooks;
    const check_operand *o = &w->c->operand[i];
    const fv_problem *p = &w->args.prob;
    if (!h->pack) {
        region_open(&w->operand[i], extent(o), at_end, sizeof(float));
        memcpy(w->operand[i].at, o->data, extent(o));
        return;
    }
    const size_t size = h->packed(p, &w->args.knobs);
    region_open(&w->operand[i], size, at_end, 64);
    memset(w->operand[i].at, 0, size);
    const uint32_t columns = p->dim[FV_GEMM_N], k = o->cols;
    const uint32_t sides = p->epi & FV_EPI_SWIGLU ? 2 : 1;
    float *slab = must(malloc((size_t)2 * FV_COL_ALIGN * k * sizeof *slab));
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

static void work_open(work *w, const fv_kernel *k, const check_case *c, const fv_knobs *knobs,
                      bool at_end, char *message, size_t message_size)
{
    memset(w, 0, sizeof *w);
    w->kernel = k;
    w->c = c;
    w->args = c->args;
    w->args.knobs = *knobs;
    w->out = output_of(c);
    w->message = message;
    w->message_size = message_size;
    for (int i = 0; i <= w->out; i++) {
        const check_operand *o = &c->operand[i];
        if (o->kind == CHECK_ABSENT || (i == c->in_place))
            continue;
        if (o->kind == CHECK_WEIGHT) {
            pack_weight(w, i, at_end);
        } else {
            region_open(&w->operand[i], extent(o), at_end, element(o));
            if (i != w->out)
                memcpy(w->operand[i].at, o->data, extent(o));
        }
        region_remember(&w->operand[i]);
    }
    const size_t scratch =
        k->hooks->scratch ? k->hooks->scratch(&w->args.prob, knobs, w->args.prob.dim[0]) : 0;
    region_open(&w->scratch, scratch, at_end, 64);
    region_remember(&w->scratch);
}

static void work_close(work *w)
{
    for (int i = 0; i < FV_OPERANDS; i++)
        region_close(&w->operand[i]);
    region_close(&w->scratch);
}

/* The output as it is before a call: NaN, or the input that lies there. */
static void output_reset(work *w)
{
    region *r = &w->operand[w->out];
    poison(r->pages, r->room);
    if (w->c->in_place >= 0)
        memcpy(r->at, w->c->operand[w->c->in_place].data, r->size);
    region_remember(r);
}

/* Extent of the second dimension, and how many values of an output row belong to one of it. */
static uint32_t columns_of(const check_case *c)
{
    switch (fv_op_table[c->args.prob.op].cols) {
    case FV_COLS_COLUMN:
        return c->operand[output_of(c)].cols;
    case FV_COLS_HEAD:
        return c->args.prob.heads;
    default:
        return 1;
    }
}

static bool one_call(work *w, uint32_t row0, uint32_t rows, uint32_t col0, uint32_t cols,
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
        call.p[i] = base + row * o->ld * element(o);
    }
    poison(w->scratch.at, w->scratch.size);
    call.scratch = w->scratch.at;
    return guarded_call(w, &call);
}

/* A result is the output's rows, packed, and behind them the state, if there is one. */
static size_t output_size(const check_case *c)
{
    const check_operand *o = &c->operand[output_of(c)];
    return (size_t)o->rows * o->cols * element(o);
}

static size_t result_size(const check_case *c)
{
    return output_size(c) + (c->state < 0 ? 0 : extent(&c->operand[c->state]));
}

/* Takes the heads' part out of the state, which is then what it was before. */
static void collect_state(work *w, uint8_t *result, uint32_t col0, uint32_t cols)
{
    const check_operand *o = &w->c->operand[w->c->state];
    region *r = &w->operand[w->c->state];
    for (uint32_t x = 0; x < o->cols; x++) {
        const size_t at = x * element(o);
        const uint32_t head = ops[w->c->args.prob.op]->head(w->c, x);
        if (head < col0 || head >= col0 + cols)
            continue;
        memcpy(result + output_size(w->c) + at, r->at + at, element(o));
        memcpy(r->at + at, r->image + (size_t)(r->at - r->pages) + at, element(o));
    }
}

/* Takes what the calls should have written out of the output, and sees that nothing else changed.
 */
static bool collect(work *w, uint8_t *result, uint32_t row0, uint32_t rows, uint32_t col0,
                    uint32_t cols)
{
    const check_operand *o = &w->c->operand[w->out];
    region *r = &w->operand[w->out];
    const size_t unit = o->cols / columns_of(w->c) * element(o);
    for (uint32_t y = row0; y < row0 + rows; y++) {
        const size_t at = (size_t)y * o->ld * element(o) + col0 * unit;
        memcpy(result + (size_t)y * o->cols * element(o) + col0 * unit, r->at + at, cols * unit);
        memcpy(r->at + at, r->image + (size_t)(r->at - r->pages) + at, cols * unit);
    }
    if (w->c->state >= 0)
        collect_state(w, result, col0, cols);
    long where;
    for (int i = 0; i <= w->out; i++)
        if (w->operand[i].map && region_changed(&w->operand[i], &where))
            return complain(w,
                            "operand %d (%zu bytes) changed at byte %ld, not its to write; call "
                            "of rows %u+%u, columns %u+%u",
                            i, w->operand[i].size, where, row0, rows, col0, cols);
    memcpy(w->scratch.at, w->scratch.image + (w->scratch.at - w->scratch.pages), w->scratch.size);
    if (region_changed(&w->scratch, &where))
        return complain(w, "wrote outside its scratch of %zu bytes, at byte %ld", w->scratch.size,
                        where);
    return true;
}

static uint32_t piece(check_random *r, uint32_t left, uint32_t align)
{
    const uint32_t units = (left + align - 1) / align;
    const uint32_t n = (1 + check_below(r, check_below(r, 2) ? units : (units < 5 ? units : 5)));
    return n * align < left ? n * align : left;
}

/* Where the calls of one group depend on those before: the division of rows shows in the rounding.
 */
static bool in_order(const check_case *c)
{
    const uint8_t span = fv_op_table[c->args.prob.op].span;
    return span == FV_SPAN_REDUCE || span == FV_SPAN_SCAN;
}

/* Runs the case into `result`. Cut: in pieces drawn from `r`, where the row pieces of an op whose
 * calls are in order come from `r` alone, so that two runs with the same r sum in the same order.
 */
static bool run_case(work *w, uint8_t *result, bool cut_rows, bool cut_cols, check_random r)
{
    const check_case *c = w->c;
    const fv_op_info *info = &fv_op_table[c->args.prob.op];
    const bool reduce = info->span == FV_SPAN_REDUCE;
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], columns = columns_of(c);
    const uint32_t align = info->cols == FV_COLS_COLUMN ? FV_COL_ALIGN : 1;
    check_random r_cols = {r.state ^ 0x5bd1e995u};
    for (uint32_t col0 = 0, cols; col0 < columns; col0 += cols) {
        cols = cut_cols ? piece(&r_cols, columns - col0, align) : columns;
        check_random r_rows = r;
        if (in_order(c)) {
            const uint32_t groups = reduce ? c->operand[w->out].rows : 1;
            output_reset(w);
            for (uint32_t g = 0; g < groups; g++) {
                uint32_t row0, end;
                check_group_rows(&row0, &end, rows, groups, g);
                bool first = true;
                for (uint32_t n; row0 < end; row0 += n, first = false) {
                    n = cut_rows ? piece(&r_rows, end - row0, 1) : end - row0;
                    if (!one_call(w, row0, n, col0, cols, g, first))
                        return false;
                }
            }
            if (!collect(w, result, 0, c->operand[w->out].rows, col0, cols))
                return false;
            continue;
        }
        for (uint32_t row0 = 0, n; row0 < rows; row0 += n) {
            n = cut_rows ? piece(&r_rows, rows - row0, 1) : rows;
            output_reset(w);
            if (!one_call(w, row0, n, col0, cols, 0, true) ||
                !collect(w, result, row0, n, col0, cols))
                return false;
        }
    }
    return true;
}

static double result_at(const check_operand *o, const uint8_t *result, uint32_t row, uint32_t col)
{
    return value_at(o->type, result, (size_t)row * o->cols + col);
}

static bool is_right(enum fv_type type, double got, double want, double allowed)
{
    const double max = type == FV_F16 || type == FV_BF16 ? halves[type].max : FLT_MAX;
    if (fabs(want) > max) /* cannot be represented: any overflow is right */
        return !isfinite(got) || fabs(got) > 0.99 * max;
    return isnan(want) ? isnan(got) : fabs(got - want) <= allowed;
}

static bool compare_state(work *w, const check_op *op, const uint8_t *state)
{
    const check_operand *o = &w->c->operand[w->c->state];
    double *want = must(malloc(2 * o->cols * sizeof *want)), *allowed = want + o->cols;
    bool good = true;
    op->oracle_state(w->c, want, allowed);
    for (uint32_t col = 0; good && col < o->cols; col++) {
        const double got = value_at(o->type, state, col);
        good = is_right(o->type, got, want[col], allowed[col]) ||
               complain(w, "the state's value %u is %.9g, want %.9g, allowed error %.2g", col, got,
                        want[col], allowed[col]);
    }
    free(want);
    return good;
}

/* All rows of a small problem, 64 of a large one. */
static bool compare(work *w, const check_op *op, const uint8_t *result, check_random r)
{
    enum { SAMPLES = 64 };
    const check_operand *o = &w->c->operand[w->out];
    const bool all = fv_problem_flops(&w->c->args.prob) <= 0x1p24 || o->rows <= SAMPLES;
    const uint32_t count = all ? o->rows : SAMPLES;
    double *want = must(malloc(2 * o->cols * sizeof *want)), *allowed = want + o->cols;
    bool good = true;
    for (uint32_t i = 0; good && i < count; i++) {
        const uint32_t row = all || !i ? i : i == 1 ? o->rows - 1 : check_below(&r, o->rows);
        op->oracle(w->c, row, want, allowed);
        for (uint32_t col = 0; good && col < o->cols; col++) {
            const double got = result_at(o, result, row, col);
            good = is_right(o->type, got, want[col], allowed[col]) ||
                   complain(w, "row %u, column %u is %.9g, want %.9g, allowed error %.2g", row, col,
                            got, want[col], allowed[col]);
        }
    }
    free(want);
    if (good && w->c->state >= 0)
        good = compare_state(w, op, result + output_size(w->c));
    return good;
}

static bool same(work *w, const uint8_t *whole, const uint8_t *cut)
{
    const check_operand *o = &w->c->operand[w->out];
    const size_t row_size = o->cols * element(o);
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t x = 0; x < o->cols; x++)
            if (memcmp(whole + y * row_size + x * element(o), cut + y * row_size + x * element(o),
                       element(o)))
                return complain(w, "row %u, column %u is %.9g as a whole and %.9g in pieces", y, x,
                                result_at(o, whole, y, x), result_at(o, cut, y, x));
    const size_t state = output_size(w->c);
    if (memcmp(whole + state, cut + state, result_size(w->c) - state))
        return complain(w, "the state differs between a whole run and one in pieces");
    return true;
}

/* One kernel, one case with values, one set of knobs: whole and cut, at both ends of the pages. */
static bool check_values(check_result *out, const fv_kernel *k, const check_op *op,
                         const check_case *c, const fv_knobs *knobs, check_random r, char *message,
                         size_t message_size)
{
    const size_t size = result_size(c);
    uint8_t *whole = must(malloc(size)), *cut = must(malloc(size));
    work w;
    work_open(&w, k, c, knobs, true, message, message_size);
    bool good = run_case(&w, whole, false, false, r) && compare(&w, op, whole, r);
    if (good &&
        in_order(c)) /* another row split is another order of summation: a result of its own */
        good = run_case(&w, whole, true, false, r) && compare(&w, op, whole, r);
    out->crashed += w.crashed;
    work_close(&w);
    if (good) {
        work_open(&w, k, c, knobs, false, message, message_size);
        good = run_case(&w, cut, true, true, r) && same(&w, whole, cut);
        out->crashed += w.crashed;
        work_close(&w);
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
    for (uint32_t fill = 0; fill < (c->bench ? 1 : FILLS); fill++) {
        check_random r = case_random(k, index, fill);
        fill_case(c, op, fill, &r);
        const uint32_t choices = fill == NORMAL && !c->bench ? UINT32_MAX : 1;
        for (uint32_t i = 0; i < choices && next_knobs(k, &knobs, i); i++) {
            char what[256];
            if (!check_values(out, k, op, c, &knobs, r, what, sizeof what)) {
                snprintf(message, size, "%s values, knobs %u: %s", fill_names[fill], i, what);
                return false;
            }
        }
    }
    return true;
}

void check_kernel(check_result *out, const fv_kernel *k, const check_op *op, bool quiet)
{
    check_case c;
    for (uint32_t index = 0; make_case(&c, k->op, op, index); index++) {
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
        release_case(&c, op);
    }
}

/* ---- timing ---- */

static double bytes_of(const check_case *c)
{
    double bytes = 0;
    for (int i = 0; i < FV_OPERANDS; i++)
        if (c->operand[i].kind != CHECK_ABSENT)
            bytes += (double)extent(&c->operand[i]);
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
    const check_operand *o = &c->operand[output_of(c)];
    const bool reduce = fv_op_table[c->args.prob.op].span == FV_SPAN_REDUCE;
    double times[RUNS], total = 0;
    char message[256];
    work w;
    int n = 0;
    work_open(&w, k, c, &knobs, false, message, sizeof message);
    output_reset(&w);
    for (int run = -1; run < RUNS && (run < 3 || total < limit); run++) {
        const double begin = fv_machine_seconds();
        for (uint32_t g = 0; g < (reduce ? o->rows : 1); g++) {
            uint32_t r0 = 0, r1 = c->args.prob.dim[FV_DIM_ROWS];
            if (reduce)
                check_group_rows(&r0, &r1, r1, o->rows, g);
            if (!one_call(&w, r0, r1 - r0, 0, columns_of(c), g, true)) {
                work_close(&w);
                return NAN;
            }
        }
        if (run >= 0)
            total += times[n++] = fv_machine_seconds() - begin;
    }
    work_close(&w);
    qsort(times, (size_t)n, sizeof *times, by_size);
    return times[n / 2];
}

static void bench_op(const fv_kernel *list, int count, uint32_t features, enum fv_op number,
                     const char *filter)
{
    const check_op *op = ops[number];
    check_case c;
    for (uint32_t index = 0; make_case(&c, number, op, index); index++) {
        double reference = 0;
        for (int i = 0; c.bench && i < count; i++) {
            const fv_kernel *k = &list[i];
            if (k->op != number || (k->needs & ~features) ||
                !fv_kernel_fits(k, &c.args.prob, features))
                continue;
            if (filter && reference && !strstr(k->name, filter))
                continue;
            check_random r = case_random(k, index, 0);
            fill_case(&c, op, NORMAL, &r);
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
        release_case(&c, op);
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
    catch_signals();
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
                check_kernel(&r, k, ops[number], false);
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
