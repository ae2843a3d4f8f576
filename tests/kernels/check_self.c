/* check_self.c: kernels that are wrong on purpose, to show that the checker rejects them. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

extern const check_op check_copy;

/* A correct copy, which the wrong kernels spoil. */
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

/* Writes in the gap between rows, as a kernel that is too wide would. */
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

/* Is correct as a whole, and within any error bound in pieces, but with other bits. */
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

#define KERNEL(fn)                                                                                 \
    {                                                                                              \
        .name = #fn, .op = FV_OP_COPY, .mech = FV_MECH_ANY, .rev = 1, .hooks = &hooks,             \
        .code.cpu = fn                                                                             \
    }
static const fv_kernel right = KERNEL(copy);
static const struct {
    fv_kernel kernel;
    bool crashes;
    bool always; /* also caught by other runners, which have no inaccessible pages */
} wrong[] = {
    {KERNEL(writes_after), false, true},      {KERNEL(writes_before), false, true},
    {KERNEL(writes_gap), false, true},        {KERNEL(writes_input), false, true},
    {KERNEL(reads_after), true, false},       {KERNEL(reads_before), true, false},
    {KERNEL(wrong_value), false, true},       {KERNEL(misses_one), false, true},
    {KERNEL(depends_on_split), false, false}, {KERNEL(writes_past_scratch), false, false},
    {KERNEL(keeps_scratch), false, false},    {KERNEL(illegal), false, false},
    {KERNEL(divides), false, false},
};

void check_self(check_result *out, const check_runner *runner, bool direct)
{
    check_result r = {0};
    check_kernel(&r, runner, &right, &check_copy, true);
    if (r.failed || !r.passed) {
        out->failed++;
        snprintf(out->first, sizeof out->first, "a right kernel failed: %.400s", r.first);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (!direct && !wrong[i].always)
            continue;
        memset(&r, 0, sizeof r);
        check_kernel(&r, runner, &wrong[i].kernel, &check_copy, true);
        if (r.failed && (!wrong[i].crashes || r.crashed)) {
            out->passed++;
        } else if (!out->failed++) {
            snprintf(out->first, sizeof out->first, "%s", wrong[i].kernel.name);
        }
    }
}
