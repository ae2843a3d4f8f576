/* test_int8_weights.c: tests plans whose weights are stored as int8: their memory, what they
 * report, their distance from float32, and that threads and schedule do not change the result.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "base/mem.h"
#include "tests/fixture.h"

static const char *const attentions[] = {"softmax", "linear:elu1"};
static const char *outputs[] = {"last_hidden_state"};

static fovea_device *device;
static fovea_model *model;

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

static int open_both(void **state)
{
    (void)state;
    device = fixture_device(2);
    succeed(fovea_model_load(&model, "synthetic:vit-ti16"));
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    fovea_model_free(model);
    fovea_device_close(device);
    return 0;
}

static fovea_plan_options of_types(const char *attention, fovea_dtype weights,
                                   fovea_compute compute)
{
    fovea_plan_options options = fixture_options(attention, FOVEA_SCHEDULE_AUTO);
    options.outputs = outputs;
    options.n_outputs = 1;
    options.weights = weights;
    options.compute = compute;
    return options;
}

static fovea_plan *plan_of(const fovea_model *m, fovea_device *d, const fovea_plan_options *options)
{
    fovea_plan *plan;
    succeed(fovea_plan_create(&plan, m, d, options));
    return plan;
}

static float *run(const fovea_plan_options *options, size_t *n)
{
    fovea_plan *plan = plan_of(model, device, options);
    float *out = fixture_run(plan, n);
    fovea_plan_free(plan);
    return out;
}

static uint64_t weights_of(const fovea_model *m, fovea_dtype type)
{
    fovea_plan_options options = of_types("softmax", type, FOVEA_COMPUTE_F32);
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    options.dry = 1;
    fovea_plan *plan = plan_of(m, device, &options);
    fovea_plan_query(plan, &info);
    fovea_plan_free(plan);
    return info.weights;
}

/* int8 weights need a quarter of the memory, except scales, patch embedding and positions, and at
 * most the estimate. */
static void a_quarter_of_the_memory(void **state)
{
    (void)state;
    fovea_model *base;
    succeed(fovea_model_load(&base, "synthetic:vit-b16"));
    const double floats = (double)weights_of(base, FOVEA_DTYPE_F32);
    const double share = (double)weights_of(base, FOVEA_DTYPE_I8) / floats;
    if (share > 0.27)
        fail_msg("%.3f of float32's memory", share);
    fovea_model_free(base);
    const fovea_plan_options options = of_types("softmax", FOVEA_DTYPE_I8, FOVEA_COMPUTE_F32);
    const uint64_t before = fv_mem_tagged(FV_MEM_WEIGHTS);
    fovea_plan *plan = plan_of(model, device, &options);
    assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS) - before, weights_of(model, FOVEA_DTYPE_I8));
    fovea_plan_free(plan);
}

/* Returns the step with a given name. */
static fovea_step_info step_of(const fovea_plan *plan, const char *label)
{
    fovea_step_info info = FOVEA_STEP_INFO_INIT;
    for (size_t i = 0; fovea_plan_step(plan, i, &info); i++)
        if (strcmp(info.label, label) == 0)
            return info;
    fail_msg("no step %s", label);
    return info;
}

static void says_what_it_is(void **state)
{
    (void)state;
    static const struct {
        fovea_dtype weights;
        fovea_compute compute;
        fovea_dtype rows, stored; /* of fc1 */
        const char *problem, *products;
    } kinds[] = {
        {FOVEA_DTYPE_I8, FOVEA_COMPUTE_F32, FOVEA_DTYPE_F32, FOVEA_DTYPE_I8, "gemm f32/i8 ", "f32"},
        {FOVEA_DTYPE_I8, FOVEA_COMPUTE_BF16, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8, "gemm bf16/i8 ",
         "f32"},
        {FOVEA_DTYPE_I8, FOVEA_COMPUTE_INT8, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8, "gemm bf16/i8/i32 ",
         "int8"},
        {FOVEA_DTYPE_F32, FOVEA_COMPUTE_INT8, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8, "gemm bf16/i8/i32 ",
         "int8"},
        {FOVEA_DTYPE_F32, FOVEA_COMPUTE_F32, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32, "gemm f32 ", "f32"},
    };
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(device, &info);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fovea_plan_options options = of_types(NULL, kinds[i].weights, kinds[i].compute);
        options.dry = 1;
        fovea_plan *plan = plan_of(model, device, &options);
        const fovea_step_info s = step_of(plan, "block 3 fc1"), embed = step_of(plan, "embed");
        assert_int_equal(s.dtype, kinds[i].rows);
        assert_int_equal(s.weight_dtype, kinds[i].stored);
        assert_memory_equal(s.problem, kinds[i].problem, strlen(kinds[i].problem));
        assert_string_equal(s.products, kinds[i].products);
        const bool narrow = kinds[i].compute != FOVEA_COMPUTE_F32 && info.bf16;
        assert_int_equal(embed.weight_dtype, narrow ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32);
        fovea_plan_free(plan);
    }
    fovea_plan *plan = NULL;
    fovea_plan_options options = of_types(NULL, FOVEA_DTYPE_I8, FOVEA_COMPUTE_F32);
    options.activations = FOVEA_DTYPE_I8;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_EINVAL);
    options.activations = FOVEA_DTYPE_F32;
    options.weights = (fovea_dtype)(FOVEA_DTYPE_I8 + 1);
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_EINVAL);
    assert_null(plan);
}

static double cosine(const float *a, const float *b, size_t n)
{
    double product = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < n; i++) {
        product += (double)a[i] * b[i];
        of_a += (double)a[i] * a[i];
        of_b += (double)b[i] * b[i];
    }
    return product / sqrt(of_a * of_b);
}

/* The weights are random, so their rounding errors do not average out. */
static void near_float32(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        size_t n;
        fovea_plan_options options = of_types(attentions[i], FOVEA_DTYPE_F32, FOVEA_COMPUTE_F32);
        float *floats = run(&options, &n);
        for (int compute = FOVEA_COMPUTE_F32; compute <= FOVEA_COMPUTE_INT8; compute++) {
            options = of_types(attentions[i], FOVEA_DTYPE_I8, (fovea_compute)compute);
            float *out = run(&options, &n);
            const double near = cosine(out, floats, n);
            if (near < 0.9997 || near > 0.9999999)
                fail_msg("%s, compute %d: cosine %.7f", attentions[i], compute, near);
            free(out);
        }
        free(floats);
    }
}

static void threads_and_schedules_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        float *first = NULL;
        for (uint32_t k = 0; k < 6; k++) {
            size_t n;
            fovea_plan_options options = of_types(attentions[i], FOVEA_DTYPE_I8, FOVEA_COMPUTE_F32);
            options.schedule = k % 2 ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE;
            options.chunk =
                k == 5 && i == 0 ? 7 : 0; /* linear attention's result depends on the chunk */
            fovea_device *d = fixture_device(1 + k / 2);
            fovea_plan *plan = plan_of(model, d, &options);
            float *out = fixture_run(plan, &n);
            if (!first)
                first = out;
            assert_memory_equal(out, first, n * sizeof *out);
            if (out != first)
                free(out);
            fovea_plan_free(plan);
            fovea_device_close(d);
        }
        free(first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter_of_the_memory),
        cmocka_unit_test(says_what_it_is),
        cmocka_unit_test(near_float32),
        cmocka_unit_test(threads_and_schedules_do_not_matter),
    };
    fixture_draw();
    return cmocka_run_group_tests(tests, open_both, close_both);
}
