/* test_trial.c: tests that the verification accepts every CPU kernel in every step of small plans
 * and rejects wrong kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/mem.h"
#include "ops/contracts/product.h"
#include "ops/contracts/sequence.h"
#include "platform/os/os_machine.h"
#include "tests/peek.h"
#include "trial/random.h"
#include "trial/reference.h"
#include "trial/trial.h"
#include "verify/verify_cases.h"

static fovea_device *device;

static fovea_plan *dry_plan(const char *name, uint32_t size, const char *attention)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_model *model;
    fovea_plan *plan;
    options.frame.width = options.frame.height = size;
    options.attention = attention;
    options.dry = 1;
    assert_int_equal(fovea_model_load(&model, name), FOVEA_OK);
    if (fovea_plan_create(&plan, model, device, &options) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    fovea_model_free(model);
    return plan;
}

static void try_step(const fovea_plan *p, const fv_step *s, uint32_t rows, uint32_t chunk)
{
    int count;
    uint32_t features;
    const fv_kernel *list = device->backend->kernels(device->device, &count, &features);
    fv_trial *r;
    if (fv_trial_open(&r, device, &p->graph, s, &fv_plan_of_step(p, s)->tiles, rows, chunk) !=
        FOVEA_OK)
        fail_msg("%s: %s", s->label, fovea_error());
    for (int i = 0; i < count; i++) {
        const fv_knobs knobs = fv_kernel_defaults(&list[i]);
        fv_verdict v;
        fv_trial_kernel *t;
        double seconds;
        if (!fv_kernel_fits(&list[i], &s->prob, features))
            continue;
        if (fv_trial_kernel_open(&t, r, &list[i], &knobs) || fv_trial_kernel_verify(t, &v) ||
            fv_trial_kernel_run(t, &seconds))
            fail_msg("%s, %s: %s", s->label, list[i].name, fovea_error());
        if (!v.ok)
            fail_msg("%s, %s: %s", s->label, list[i].name, v.text);
        assert_true(v.checked > 0 && seconds > 0);
        fv_trial_kernel_close(t);
    }
    fv_trial_close(r);
}

static bool seen_before(const fovea_plan *p, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (!p->graph.step[k].dead && memcmp(&p->graph.step[k].prob, &p->graph.step[i].prob,
                                             sizeof p->graph.step[i].prob) == 0)
            return true;
    return false;
}

static void try_plan(fovea_plan *p)
{
    for (uint32_t i = 0; i < p->graph.steps; i++)
        if (!p->graph.step[i].dead && !seen_before(p, i)) {
            try_step(p, &p->graph.step[i], 0, 0);
            try_step(p, &p->graph.step[i], 40, 16);
        }
    fovea_plan_free(p);
}

static void models(void **state)
{
    (void)state;
    try_plan(dry_plan("synthetic:vit-ti16", 64, "softmax+mala@1+linear:exp@2"));
    try_plan(dry_plan("synthetic:nalaformer-xt", 64, NULL));
}

/* ---- kernels that are wrong on purpose ---- */

static const fv_kernel *spoilt; /* a correct kernel that the others call and then spoil */

static float *element(const fv_args *a, const fv_call *c, int operand, uint32_t row, uint32_t col)
{
    return (float *)c->p[operand] + (size_t)row * a->ld[operand] + col;
}

static void right(const fv_args *a, const fv_call *c)
{
    spoilt->code.cpu(a, c);
}

static void misses_a_column(const fv_args *a, const fv_call *c)
{
    float *last = element(a, c, FV_GEMM_OUT, c->rows - 1, c->col0 + c->cols - 1), kept = *last;
    right(a, c);
    *last = kept;
}

static void is_a_little_off(const fv_args *a, const fv_call *c)
{
    right(a, c);
    *element(a, c, FV_GEMM_OUT, c->rows / 2, c->col0) += 1e-3f;
}

static void gives_a_nan(const fv_args *a, const fv_call *c)
{
    right(a, c);
    *element(a, c, FV_GEMM_OUT, 0, c->col0) *= NAN;
}

static void writes_behind(const fv_args *a, const fv_call *c)
{
    right(a, c);
    if (c->row0 + c->rows == a->prob.dim[FV_DIM_ROWS] &&
        c->col0 + c->cols == a->prob.dim[FV_GEMM_N])
        *element(a, c, FV_GEMM_OUT, c->rows, 0) = 0.f;
}

static void writes_an_input(const fv_args *a, const fv_call *c)
{
    right(a, c);
    *element(a, c, FV_GEMM_A, 0, 0) += 1.f;
}

static void adds_to_what_is_there(const fv_args *a, const fv_call *c)
{
    fv_call more = *c;
    more.first = 0;
    right(a, &more);
}

static void forgets_what_was_there(const fv_args *a, const fv_call *c)
{
    fv_call first = *c;
    first.first = 1;
    right(a, &first);
}

static void keeps_no_state(const fv_args *a, const fv_call *c)
{
    static float state[1 << 16];
    fv_call separate = *c;
    memcpy(state, c->p[FV_SCAN_STATE],
           sizeof(float) * a->prob.heads * a->prob.dim[FV_ATTN_D] * (a->prob.dim[FV_ATTN_DV] + 1));
    separate.p[FV_SCAN_STATE] = state;
    right(a, &separate);
}

static const fv_step *step_of(const fv_cases *c, enum fv_op op, uint32_t flags)
{
    for (uint32_t i = 0; i < c->graph.steps; i++)
        if (c->graph.step[i].prob.op == op && (c->graph.step[i].prob.flags & flags) == flags)
            return &c->graph.step[i];
    fail_msg("there is no case of op %d", op);
    return NULL;
}

static fv_verdict judge(const fv_cases *c, const fv_step *s, fv_cpu_fn run, uint32_t chunk)
{
    const fv_knobs knobs = {{0}};
    fv_trial *r;
    fv_trial_kernel *t;
    fv_verdict v;
    fv_kernel k = *(spoilt = fv_reference_kernel(&s->prob));
    k.code.cpu = run;
    assert_int_equal(fv_trial_open(&r, device, &c->graph, s, NULL, 0, chunk), FOVEA_OK);
    assert_int_equal(fv_trial_kernel_open(&t, r, &k, &knobs), FOVEA_OK);
    assert_int_equal(fv_trial_kernel_verify(t, &v), FOVEA_OK);
    fv_trial_kernel_close(t);
    fv_trial_close(r);
    return v;
}

static void wrong_ones_are_found(void **state)
{
    static const struct {
        enum fv_op op;
        uint32_t flags, chunk;
        fv_cpu_fn run;
    } wrong[] = {
        {FV_OP_GEMM, 0, 0, misses_a_column},
        {FV_OP_GEMM, 0, 0, is_a_little_off},
        {FV_OP_GEMM, 0, 0, gives_a_nan},
        {FV_OP_GEMM, 0, 0, writes_behind},
        {FV_OP_GEMM, 0, 0, writes_an_input},
        {FV_OP_LATTN_REDUCE, 0, 10, adds_to_what_is_there},
        {FV_OP_LATTN_REDUCE, 0, 10, forgets_what_was_there},
        {FV_OP_MEAN_REDUCE, 0, 10, forgets_what_was_there},
        {FV_OP_MAP_REDUCE, 0, 10, adds_to_what_is_there},
        {FV_OP_SCAN, FV_FLAG_RECURRENT, 0, keeps_no_state},
    };
    (void)state;
    fv_cases *c;
    assert_int_equal(fv_cases_open(&c, FV_F32, &(fv_limits){.threads = 2}), FOVEA_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const fv_step *s = step_of(c, wrong[i].op, wrong[i].flags);
        const fv_verdict good = judge(c, s, right, wrong[i].chunk);
        const fv_verdict bad = judge(c, s, wrong[i].run, wrong[i].chunk);
        if (!good.ok || bad.ok || !bad.text[0])
            fail_msg("case %zu: %s", i, good.ok ? "a wrong kernel passed" : good.text);
    }
    fv_cases_close(c);
}

/* ---- products summed in float16 ---- */

enum { HALF_ROWS = 56, HALF_OUT = 768, HALF_IN = 192, HALF_STEPS = 16 };

static float in_float16(double x)
{
    return fv_float_of_f16(fv_f16_of_float((float)x));
}

/* Returns a number with nearly a normal distribution: a sum of 12 uniform ones. */
static float normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(fv_random(state) >> 11) * 0x1p-53;
    return (float)sum;
}

/* Returns the product of two rows. HALF_STEPS products at a time are rounded to float16 and added
 * in float16, as on a device that does not fuse a product with a sum. Operands are scaled by the
 * powers of two that the contract of GEMM names, so that nothing overflows. */
static double product_in_float16(const float *x, const float *w)
{
    double sum = 0;
    for (uint32_t k = 0; k < HALF_IN; k += HALF_STEPS) {
        float some = 0;
        for (uint32_t i = k; i < k + HALF_STEPS; i++)
            some = in_float16(some + in_float16((double)x[i] * 256 * w[i]));
        sum += (double)some / 256;
    }
    return sum;
}

/* GELU flattens most columns near a column that it does not flatten, so that the bound is smallest
 * there. */
static void sums_of_16_products_in_float16_are_right(void **state)
{
    static float x[HALF_ROWS * HALF_IN], w[HALF_OUT * HALF_IN], out[HALF_ROWS * HALF_OUT];
    static uint16_t packed[HALF_OUT * HALF_IN];
    uint64_t random = 5; /* of 11 seeds one of two whose errors are largest */
    (void)state;
    for (uint32_t i = 0; i < HALF_ROWS * HALF_IN; i++)
        x[i] = in_float16(normal(&random));
    for (uint32_t i = 0; i < HALF_OUT * HALF_IN; i++) {
        packed[i] = fv_f16_of_float(normal(&random) / sqrtf(HALF_IN));
        w[i] = fv_float_of_f16(packed[i]);
    }
    for (uint32_t i = 0; i < HALF_ROWS; i++)
        for (uint32_t n = 0; n < HALF_OUT; n++) {
            const double sum = product_in_float16(x + i * HALF_IN, w + n * HALF_IN);
            out[i * HALF_OUT + n] = (float)(sum * 0.5 * (1 + erf(sum * sqrt(0.5))));
        }
    const fv_args args = {
        .prob = {.op = FV_OP_GEMM,
                 .in = FV_F32,
                 .weight = FV_F16,
                 .out = FV_F32,
                 .acc = FV_F16,
                 .epi = FV_EPI_GELU,
                 .dim = {HALF_ROWS, HALF_OUT, HALF_IN}},
        .ld = {[FV_GEMM_A] = HALF_IN, [FV_GEMM_W] = HALF_IN, [FV_GEMM_OUT] = HALF_OUT},
        .type = {[FV_GEMM_A] = FV_F32, [FV_GEMM_W] = FV_F16, [FV_GEMM_OUT] = FV_F32}};
    const fv_given given[FV_OPERANDS] = {
        [FV_GEMM_A] = {x, HALF_ROWS * HALF_IN, FV_KIND_ROW, FV_F32},
        [FV_GEMM_W] = {packed, HALF_OUT * HALF_IN, FV_KIND_WEIGHT, FV_F16},
        [FV_GEMM_OUT] = {out, HALF_ROWS * HALF_OUT, FV_KIND_ROW, FV_F32}};
    fv_reference *d;
    fv_verdict v;
    assert_int_equal(fv_reference_open(&d, &args, given, FV_GEMM_OUT, 0), FOVEA_OK);
    assert_int_equal(fv_reference_judge(d, &given[FV_GEMM_OUT], 1, NULL, &v), FOVEA_OK);
    if (!v.ok)
        fail_msg("%s: %.2f of the allowed error", v.text, v.share);
    out[7] += 0.05f;
    assert_int_equal(fv_reference_judge(d, &given[FV_GEMM_OUT], 1, NULL, &v), FOVEA_OK);
    assert_false(v.ok);
    fv_reference_close(d);
}

/* In-place kernels overwrite their input, so a trial must restore it before each run. */
static void runs_leave_inputs_as_they_are(void **state)
{
    (void)state;
    fv_cases *c;
    fv_trial *r;
    fv_trial_kernel *t;
    fv_verdict first, again;
    double seconds;
    const fv_knobs knobs = {{0}};
    assert_int_equal(fv_cases_open(&c, FV_F32, &(fv_limits){.threads = 2}), FOVEA_OK);
    for (uint32_t i = 0; i < c->graph.steps; i++) {
        const fv_step *s = &c->graph.step[i];
        if (s->prob.op != FV_OP_MUL && s->prob.op != FV_OP_SCAN && s->prob.op != FV_OP_ROPE)
            continue;
        assert_int_equal(fv_trial_open(&r, device, &c->graph, s, NULL, 0, 0), FOVEA_OK);
        assert_int_equal(fv_trial_kernel_open(&t, r, fv_reference_kernel(&s->prob), &knobs),
                         FOVEA_OK);
        assert_int_equal(fv_trial_kernel_verify(t, &first), FOVEA_OK);
        for (int k = 0; k < 5; k++)
            assert_int_equal(fv_trial_kernel_run(t, &seconds), FOVEA_OK);
        assert_int_equal(fv_trial_kernel_verify(t, &again), FOVEA_OK);
        assert_true(first.ok && again.ok && first.max_abs == again.max_abs);
        fv_trial_kernel_close(t);
        fv_trial_close(r);
    }
    fv_cases_close(c);
}

/* ---- time ---- */

/* A product by another library consists of several commands, but only the last one is visible. */
static void all_commands_are_timed(void **state)
{
    static const char name[] = "gemm_f32_clblast_cl";
    fovea_gemm_options options = FOVEA_GEMM_OPTIONS_INIT;
    fovea_device *other;
    fovea_plan *p;
    int count;
    uint32_t features;
    (void)state;
    if (fovea_device_open(&other, "cl:0", NULL) != FOVEA_OK) {
        print_message("skipped: %s\n", fovea_error());
        skip();
    }
    options.rows = options.in = options.out = 1024;
    float *weight = calloc((size_t)options.in * options.out, sizeof *weight);
    assert_non_null(options.weight = weight);
    assert_int_equal(fovea_gemm_plan_create(&p, other, &options), FOVEA_OK);
    const fv_kernel *list = other->backend->kernels(other->device, &count, &features);
    while (count > 0 && strcmp(list[count - 1].name, name) != 0)
        count--;
    const fv_kernel *k = count ? &list[count - 1] : NULL;
    if (k && fv_kernel_fits(k, &p->graph.step[0].prob, features)) {
        const fv_knobs knobs = fv_kernel_defaults(k);
        fv_trial *r;
        fv_trial_kernel *t;
        double seconds;
        assert_int_equal(
            fv_trial_open(&r, other, &p->graph, &p->graph.step[0], &p->chosen.step[0].tiles, 0, 0),
            FOVEA_OK);
        assert_int_equal(fv_trial_kernel_open(&t, r, k, &knobs), FOVEA_OK);
        double share = 0; /* share of wall-clock time; the first run compiles */
        for (int i = 0; i < 5; i++) {
            const double begin = fv_machine_seconds();
            assert_int_equal(fv_trial_kernel_run(t, &seconds), FOVEA_OK);
            const double all = fv_machine_seconds() - begin;
            assert_true(seconds <= all);
            share = seconds / all > share ? seconds / all : share;
        }
        assert_true(share > 0.3);
        fv_trial_kernel_close(t);
        fv_trial_close(r);
    }
    fovea_plan_free(p);
    free(weight);
    fovea_device_close(other);
}

/* ---- no memory ---- */

static fovea_status try_reference(const fv_cases *c, const fv_step *s)
{
    const fv_kernel *k = fv_reference_kernel(&s->prob);
    const fv_knobs knobs = {{0}};
    fv_trial *r = NULL;
    fv_trial_kernel *t = NULL;
    fv_verdict v;
    fovea_status status = fv_trial_open(&r, device, &c->graph, s, NULL, 0, 0);
    if (status == FOVEA_OK)
        status = fv_trial_kernel_open(&t, r, k, &knobs);
    if (status == FOVEA_OK)
        status = fv_trial_kernel_verify(t, &v);
    fv_trial_kernel_close(t);
    fv_trial_close(r);
    return status;
}

static void no_memory_is_no_leak(void **state)
{
    static const enum fv_op ops[] = {FV_OP_GEMM, FV_OP_LATTN_REDUCE, FV_OP_LATTN_MERGE, FV_OP_SCAN};
    (void)state;
    fv_cases *c;
    assert_int_equal(fv_cases_open(&c, FV_F32, &(fv_limits){.threads = 2}), FOVEA_OK);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const fv_step *s = step_of(c, ops[i], 0);
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_status status = FOVEA_ENOMEM;
        for (uint64_t n = 1; status == FOVEA_ENOMEM; n++) {
            fovea_memory_query(&before);
            fv_mem_fail_at(n);
            status = try_reference(c, s);
            fv_mem_fail_at(0);
            fovea_memory_query(&after);
            assert_int_equal(after.current, before.current);
            assert_true(status == FOVEA_OK ? n > 8 : status == FOVEA_ENOMEM);
        }
    }
    fv_cases_close(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models), cmocka_unit_test(wrong_ones_are_found),
        cmocka_unit_test(sums_of_16_products_in_float16_are_right),
        cmocka_unit_test(runs_leave_inputs_as_they_are), cmocka_unit_test(no_memory_is_no_leak)};
    if (fovea_device_open(&device, "cpu", NULL) != FOVEA_OK)
        return 1;
    /* Slow, because CLBlast compiles. */
    const struct CMUnitTest long_tests[] = {cmocka_unit_test(all_commands_are_timed)};
    const bool more = argc > 1 && strcmp(argv[1], "--long") == 0;
    const int failed = more ? cmocka_run_group_tests(long_tests, NULL, NULL)
                            : cmocka_run_group_tests(tests, NULL, NULL);
    fovea_device_close(device);
    return failed;
}
