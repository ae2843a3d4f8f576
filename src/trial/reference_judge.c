/* reference_judge.c: computes the allowed error of a step's output, and its actual error. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/half.h"
#include "base/mem.h"
#include "trial/reference_parts.h"

#define SAFETY                                                                                     \
    8 /* the allowed error is this multiple of the change that perturbed inputs cause, because two \
         runs do not show the worst case. Larger misses errors, smaller gives false alarms */
#define NEAR 8 /* an element's bound is averaged over this number of columns on both sides */

/* The sums of the comparison so far. */
typedef struct tally {
    double error, size; /* sums of squares */
    fv_verdict *out;
} tally;

/* Returns the root mean square of the elements of x near element i; x has n elements. */
static double around(const float *x, uint64_t i, uint64_t n)
{
    const uint64_t from = i > NEAR ? i - NEAR : 0, to = i + NEAR < n ? i + NEAR + 1 : n;
    double sum = 0;
    for (uint64_t k = from; k < to; k++)
        sum += isfinite(x[k]) ? (double)x[k] * x[k] : 0;
    return sqrt(sum / (double)(to - from));
}

/* Returns the maximum rounding error of storing x. */
static double rounding(enum fv_type type, double x)
{
    switch (type) {
    case FV_F16:
        return fmax(x * 0x1p-11, 0x1p-25);
    case FV_BF16:
        return x * 0x1p-8;
    default:
        return x * 0x1p-24;
    }
}

/* Returns the allowed error of element i of the samples, in a row of n elements that begins at
 * `first`. */
static double allowed(const fv_reference *d, uint64_t i, uint64_t first, uint64_t n,
                      enum fv_type stored)
{
    const double want = fabs((double)d->want[i]);
    const float *moved = d->moved + first, *row = d->want + first;
    const double by = fmax((double)d->moved[i], around(moved, i - first, n));
    const double size = fmax(want, around(row, i - first, n));
    const double error =
        SAFETY * by + 4 * FLT_EPSILON * size + fv_problem_terms(&d->args.prob) * FLT_MIN + d->rough;
    return error + rounding(stored, want + error);
}

static void compare(tally *t, double got, double want, double bound, const char *what, uint64_t row,
                    uint64_t col)
{
    fv_verdict *v = t->out;
    v->checked++;
    if (!isfinite(want)) /* if the reference overflows, any value is accepted */
        return;
    const double error = fabs(got - want);
    const bool right = error <= bound;
    const double share = error == 0 ? 0 : bound > 0 && isfinite(error) ? error / bound : INFINITY;
    if (isfinite(error)) {
        t->error += error * error;
        v->max_abs = fmax(v->max_abs, error);
    }
    t->size += want * want;
    if (share > v->share) {
        v->share = share;
        v->allowed = bound;
    }
    if (right || !v->ok)
        return;
    v->ok = false;
    snprintf(v->text, sizeof v->text,
             "%s %llu, column %llu is %.7g; its reference is %.7g, and the allowed error is %.2g",
             what, (unsigned long long)row, (unsigned long long)col, got, want, bound);
}

/* Compares a sample, whose values begin at `at`. */
static void judge_sample(const fv_reference *d, const fv_sample *s, uint64_t at,
                         const fv_given *seen, tally *t)
{
    const uint32_t unit = d->columns / d->units, col0 = s->col0 * unit, cols = s->cols * unit;
    for (uint32_t r = 0; r < s->rows; r++, at += d->columns)
        for (uint32_t col = col0; col < col0 + cols; col++) {
            const uint64_t from = ((uint64_t)s->row0 + r) * d->ld + col;
            if (d->bytes)
                compare(t, ((const uint8_t *)seen->data)[from], d->bytes[at + col], 0, "row",
                        s->row0 + r, col);
            else
                compare(t, (double)fv_value_get(seen->data, seen->type, from),
                        (double)d->want[at + col],
                        allowed(d, at + col, at + col0, cols, seen->type), "row", s->row0 + r, col);
        }
}

static bool is_sampled(const fv_reference *d, uint64_t unit)
{
    for (uint32_t i = 0; i < d->samples; i++)
        if (unit >= d->sample[i].col0 && unit - d->sample[i].col0 < d->sample[i].cols)
            return true;
    return false;
}

/* Returns whether element i of the state is known, because no perturbed input changes it. The step
 * must then leave it unchanged. */
static bool is_known(const fv_reference *d, uint64_t i)
{
    const fv_problem *p = &d->args.prob;
    return p->op == FV_OP_SOFTMAX_SCAN ||
           (p->op == FV_OP_SHORT_CONV && is_sampled(d, i % p->dim[FV_ROW_C]));
}

/* Compares the state of the sampled heads, because the reference does not update the others. A
 * cache is compared as a whole, because the reference fills it for all heads. */
static void judge_state(const fv_reference *d, const fv_given *seen, tally *t)
{
    for (uint64_t i = 0; i < d->state_values; i++) {
        const uint64_t at = d->values + i;
        if (d->moved[at] > 0 || is_known(d, i))
            compare(t, (double)((const float *)seen->data)[i], (double)d->want[at],
                    allowed(d, at, d->values, d->state_values, FV_F32), "state", 0, i);
    }
}

fovea_status fv_reference_judge(const fv_reference *d, const fv_given *output, uint32_t groups,
                                const fv_given *state, fv_verdict *out)
{
    *out = (fv_verdict){.ok = true};
    tally t = {.out = out};
    fv_given seen = *output;
    void *row = NULL;
    uint64_t at = 0;
    if (d->merge) {
        FV_TRY(fv_mem_array(&row, d->columns, sizeof(float), FV_MEM_PLAN, "a merged state"));
        fv_reference_merge(d, (float *)(uintptr_t)output->data, groups, &d->sample[0], row);
        seen = (fv_given){.data = row, .count = d->columns, .type = FV_F32};
    }
    for (uint32_t i = 0; i < d->samples; i++) {
        judge_sample(d, &d->sample[i], at, &seen, &t);
        at += (uint64_t)d->sample[i].rows * d->columns;
    }
    if (d->state_values)
        judge_state(d, state, &t);
    out->rel = t.size > 0 ? sqrt(t.error / t.size) : 0;
    fv_mem_free(row);
    return FOVEA_OK;
}
