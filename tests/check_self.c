/* check_self.c: kernels that are wrong on purpose: a checker that cannot fail is worth nothing. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

extern const check_op check_copy;

/* A right copy, for the wrong ones to spoil. */
static void copy(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++)
        memcpy((float *)c->p[FV_COPY_OUT] + (size_t)r * a->ld[FV_COPY_OUT],
               (const float *)c->p[FV_COPY_IN] + (size_t)r * a->ld[FV_COPY_IN],
               a->prob.dim[1] * sizeof(float));
}

static float *end_of(const fv_args *a, const fv_call *c, int operand)
{
    return (float *)c->p[operand] + (size_t)(c->rows - 1) * a->ld[operand] + a->prob.dim[1];
}

static void writes_after(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    *end_of(a, c, FV_COPY_OUT) = 0.f;
}

static void writes_before(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    ((float *)c->p[FV_COPY_OUT])[-1] = 0.f;
}

/* Takes the first row for the same as what a wider kernel would leave between rows. */
static void writes_gap(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    if (c->rows > 1 && a->ld[FV_COPY_OUT] > a->prob.dim[1])
        ((float *)c->p[FV_COPY_OUT])[a->prob.dim[1]] = 0.f;
}

static void writes_input(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    *(float *)c->p[FV_COPY_IN] += 1.f;
}

static void reads_after(const fv_args *a, const fv_call *c)
{
    volatile float seen = *end_of(a, c, FV_COPY_IN);
    (void)seen;
    copy(a, c);
}

static void reads_before(const fv_args *a, const fv_call *c)
{
    volatile float seen = ((const float *)c->p[FV_COPY_IN])[-1];
    (void)seen;
    copy(a, c);
}

static void wrong_value(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    end_of(a, c, FV_COPY_OUT)[-1] += 1e-30f;
}

static void misses_one(const fv_args *a, const fv_call *c)
{
    float *last = end_of(a, c, FV_COPY_OUT) - 1, kept = *last;
    copy(a, c);
    *last = kept;
}

/* Right as a whole, and within any bound in pieces, but not the same bits. */
static void depends_on_split(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    if (c->rows < a->prob.dim[0])
        *(float *)c->p[FV_COPY_OUT] *= 1.0000001f;
}

static void writes_past_scratch(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    ((float *)c->scratch)[2] = 0.f;
}

static void keeps_scratch(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    *(float *)c->p[FV_COPY_OUT] += 0.f * *(const float *)c->scratch;
}

static void illegal(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    raise(SIGILL);
}

static void divides(const fv_args *a, const fv_call *c)
{
    copy(a, c);
    raise(SIGFPE);
}

static size_t two_floats(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)p, (void)knobs, (void)rows;
    return 2 * sizeof(float);
}

static const fv_kernel_hooks hooks = {.scratch = two_floats};

#define WRONG(name)                                                                                \
    {                                                                                              \
#name, FV_OP_COPY, FV_MECH_ANY, 1, FV_NEED_PORTABLE, &hooks,                               \
        {                                                                                          \
            .cpu = name                                                                            \
        }                                                                                          \
    }
static const fv_kernel wrong[] = {
    WRONG(writes_after),     WRONG(writes_before),       WRONG(writes_gap),    WRONG(writes_input),
    WRONG(reads_after),      WRONG(reads_before),        WRONG(wrong_value),   WRONG(misses_one),
    WRONG(depends_on_split), WRONG(writes_past_scratch), WRONG(keeps_scratch), WRONG(illegal),
    WRONG(divides),
};
static const fv_kernel right = WRONG(copy);

void check_self(check_result *out)
{
    check_result r = {0};
    check_kernel(&r, &right, &check_copy, true);
    if (r.failed || !r.passed) {
        out->failed++;
        snprintf(out->first, sizeof out->first, "a right kernel failed: %.400s", r.first);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&r, 0, sizeof r);
        check_kernel(&r, &wrong[i], &check_copy, true);
        const bool must_crash = !strncmp(wrong[i].name, "reads_", 6);
        if (r.failed && (!must_crash || r.crashed)) {
            out->passed++;
        } else if (!out->failed++) {
            snprintf(out->first, sizeof out->first, "%s", wrong[i].name);
        }
    }
}
