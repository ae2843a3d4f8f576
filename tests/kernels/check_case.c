/* check_case.c: the cases of the ops and the values of their operands. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/preprocess.h"
#include "tests/kernels/check_run.h"

#define FV_OP(NAME, name) extern const check_op check_##name;
#include "ops/ops.inc"
#undef FV_OP

const check_op *const check_ops[FV_OP_COUNT] = {
#define FV_OP(NAME, name) [FV_OP_##NAME] = &check_##name,
#include "ops/ops.inc"
#undef FV_OP
};

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
    o->type = o->storage = FV_F32;
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

/* The 16-bit floats, converted by their definition, so that kernels and checks share no code. */
static const struct half {
    int bits, least; /* bits of the mantissa; exponent of the smallest normal value */
    double max;
} halves[] = {[FV_F16] = {10, -14, 65504.}, [FV_BF16] = {7, -126, 0xffp120}};

double check_max(enum fv_type type)
{
    return halves[type].max;
}

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

/* Returns the value of the last mantissa bit of x rounded to `type`. */
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

double check_value_at(enum fv_type type, const void *data, size_t at)
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
    return check_value_at(o->type, o->data, (size_t)row * o->ld + col);
}

void check_group_range(uint32_t *r0, uint32_t *r1, uint32_t rows, uint32_t groups, uint32_t group)
{
    *r0 = (uint32_t)((uint64_t)rows * group / groups);
    *r1 = (uint32_t)((uint64_t)rows * (group + 1) / groups);
}

uint32_t *check_group_rows(const check_case *c, uint32_t group, uint32_t *count)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], groups = c->operand[check_output(c)].rows;
    const uint32_t call = c->dealt ? c->dealt : rows;
    uint32_t *list = check_must(malloc(rows * sizeof *list));
    *count = 0;
    for (uint32_t row0 = 0; row0 < rows; row0 += call) {
        uint32_t r, end;
        check_group_range(&r, &end, rows - row0 < call ? rows - row0 : call, groups, group);
        for (; r < end; r++)
            list[(*count)++] = row0 + r;
    }
    return list;
}

double check_allowed(double n, double sum)
{
    /* Rounding errors add up like a random walk. Values below the normal range may be flushed to
     * zero.
     */
    return (4.0 + 2.0 * sqrt(n)) * FLT_EPSILON * sum + n * FLT_MIN;
}

size_t check_element(const check_operand *o)
{
    return fv_type_size(o->storage);
}

static size_t extent(const check_operand *o)
{
    return (size_t)(o->rows - 1) * o->ld + o->cols;
}

size_t check_extent(const check_operand *o)
{
    return extent(o) * check_element(o);
}

void check_stored(const check_operand *o, uint8_t *out)
{
    if (o->storage == o->type) {
        memcpy(out, o->data, check_extent(o));
        return;
    }
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t x = 0; x < o->cols; x++) {
            const size_t at = (size_t)y * o->ld + x;
            fv_value_put(out, o->storage, at, ((const float *)o->data)[at]);
        }
}

int check_output(const check_case *c)
{
    int out = FV_OPERANDS - 1;
    while (c->operand[out].kind == CHECK_ABSENT)
        out--;
    return out;
}

const char *const check_fill_names[CHECK_FILLS] = {"normal",  "huge", "tiny",
                                                   "one-hot", "zero", "denormal"};

static double draw(check_random *r, enum check_fill fill, const check_operand *o, bool hot)
{
    const bool f16 = o->storage == FV_F16; /* float16 has the smaller range of the 16-bit types */
    if (o->type == FV_U8) {
        const uint32_t top[CHECK_FILLS] = {256, 2, 2, 256, 1, 256};
        const uint32_t v = check_below(r, top[fill]);
        return fill == CHECK_HUGE ? 255 * v : fill == CHECK_ONE_HOT ? 255 * hot : v;
    }
    switch (fill) {
    case CHECK_HUGE:
        return check_normal(r) * (f16 ? fminf(o->huge, 1e3f) : o->huge);
    case CHECK_TINY:
        return check_normal(r) * (f16 ? 1e-3 : 1e-30);
    case CHECK_ONE_HOT:
        return hot ? o->scale : 0.0;
    case CHECK_ZERO:
        return 0.0;
    case CHECK_DENORMAL:
        return check_normal(r) * (f16 ? 1e-6 : 1e-40);
    default:
        return check_normal(r) * o->scale;
    }
}

void *check_must(void *p)
{
    if (!p) {
        fprintf(stderr, "check: out of memory\n");
        exit(1);
    }
    return p;
}

void check_poison(void *p, size_t size)
{
    static const uint8_t nan_bytes[4] = {0xa5, 0xa5, 0xe5, 0xff};
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)p)[i] = nan_bytes[i & 3];
}

/* Rounds the values to the type in which they are stored. */
static void round_values(check_operand *o)
{
    for (uint32_t y = 0; y < o->rows; y++) {
        float *row = (float *)o->data + (size_t)y * o->ld;
        for (uint32_t x = 0; x < o->cols; x++)
            row[x] = (float)check_round(o->storage, row[x]);
    }
}

void check_fill(check_case *c, const check_op *op, enum check_fill fill, check_random *r)
{
    const int out = check_output(c), inputs = out + c->adds;
    for (int i = 0; i < inputs; i++) {
        check_operand *o = &c->operand[i];
        if (o->kind == CHECK_ABSENT)
            continue;
        const size_t size = extent(o) * fv_type_size(o->type);
        o->data = check_must(realloc(o->data, size));
        check_poison(o->data, size);
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
    for (int i = 0; i < inputs; i++)
        if (c->operand[i].storage != c->operand[i].type)
            round_values(&c->operand[i]);
    if (op->define)
        op->define(c);
}

static bool holds_tokens(const check_operand *o)
{
    return o->kind == CHECK_ROW || (o->kind == CHECK_BASE && o->rows > 1);
}

bool check_store(check_case *c, enum fv_type type)
{
    bool changes = false;
    for (int i = 0; i < FV_OPERANDS; i++) {
        check_operand *o = &c->operand[i];
        const bool own =
            o->type == FV_F32 && o->storage != FV_F32; /* a type that the case itself chose */
        if (fv_op_table[c->args.prob.op]->operand[i].exact)
            continue;
        if (!own || type != FV_F32)
            o->storage = o->type == FV_F32 && holds_tokens(o) ? (uint8_t)type : o->type;
        changes = changes || o->storage != o->type;
        c->args.type[i] = o->kind == CHECK_ABSENT ? FV_NONE : o->storage;
    }
    if (changes) { /* as the planner sets it */
        fv_problem *p = &c->args.prob;
        const check_operand *in = &c->operand[0], *out = &c->operand[check_output(c)];
        p->in = in->type == FV_F32 ? in->storage : p->in;
        p->out = out->type == FV_F32 ? out->storage : p->out;
    }
    return changes;
}

void *check_table(check_case *c)
{
    union {
        const void *readable;
        void *owned;
    } table = {c->args.table};
    return table.owned;
}

void check_release_table(check_case *c)
{
    free(check_table(c));
}

void check_release_posemb(check_case *c)
{
    if (c->args.table)
        fv_posemb_free(check_table(c));
    check_release_table(c);
}

void check_release(check_case *c, const check_op *op)
{
    for (int i = 0; i < FV_OPERANDS; i++)
        free(c->operand[i].data);
    if (op->release)
        op->release(c);
}

bool check_make(check_case *c, enum fv_op number, const check_op *op, uint32_t index)
{
    memset(c, 0, sizeof *c);
    c->args.prob.op = (uint16_t)number;
    c->args.prob.threads = 1;
    c->args.prob.in = c->args.prob.weight = c->args.prob.out = c->args.prob.acc = FV_F32;
    c->in_place = c->state = -1;
    c->align = 1;
    if (!op->make(c, index))
        return false;
    check_store(c, FV_F32);
    return true;
}

bool check_knobs(const fv_kernel *k, fv_knobs *knobs, uint32_t index)
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
