/* test_oom.c: every allocation of loading, planning and one-operation plans fails in turn: always
 * ENOMEM with a message, never a leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "mem.h"

typedef fovea_status attempt(const void *how);

/* Runs `attempt` with the n-th allocation failing, for every n that it reaches. */
static void fail_each(attempt *try, const void *how)
{
    fovea_memory before, after;
    uint64_t n = 1, tries = 0;
    fv_mem_fail_at(0);
    if (try(how) != FOVEA_OK) /* also the allocations that happen once in a process */
        fail_msg("without failures: %s", fovea_error());
    const uint64_t made = fv_mem_fail_at(0);
    assert_true(made > 0);
    for (;; n++, tries++) {
        fovea_memory_query(&before);
        fv_mem_fail_at(n);
        const fovea_status status = try(how);
        fv_mem_fail_at(0);
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
        if (status == FOVEA_OK)
            break;
        if (status != FOVEA_ENOMEM)
            fail_msg("allocation %u: %s, %s", (unsigned)n, fovea_status_text(status),
                     fovea_error());
        assert_true(strlen(fovea_error()) > 10);
        assert_true(tries < 100000);
    }
    assert_true(tries >= made); /* each of them was reached */
}

typedef struct frame_case {
    const char *attention;
    fovea_schedule schedule;
    int resized, dry;
} frame_case;

static fovea_status load_and_plan(const void *how)
{
    const frame_case *c = how;
    fovea_device *device = NULL;
    fovea_model *model = NULL;
    fovea_plan *plan = NULL;
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = fixture_options(c->attention, c->schedule);
    fovea_model_info info;
    device_options.threads = 2;
    options.dry = c->dry;
    fovea_status status = fovea_device_open(&device, "cpu", &device_options);
    if (status == FOVEA_OK)
        status = fovea_model_load(&model, fixture_model);
    if (status == FOVEA_OK) {
        fovea_model_describe(model, &info);
        fovea_preprocess_resize(&info.preprocess, 84, 56);
        options.preprocess = c->resized ? &info.preprocess : NULL;
        status = fovea_plan_create(&plan, model, device, &options);
    }
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    return status;
}

static void linear(void **state)
{
    (void)state;
    const frame_case streamed = {"linear:elu1", FOVEA_SCHEDULE_STREAMED, 1, 0};
    fail_each(load_and_plan, &streamed);
}

static void softmax(void **state)
{
    (void)state;
    const frame_case stepwise = {"softmax", FOVEA_SCHEDULE_STEPWISE, 0, 0};
    fail_each(load_and_plan, &stepwise);
}

static void dry(void **state)
{
    (void)state;
    const frame_case c = {"linear:elu1", FOVEA_SCHEDULE_AUTO, 1, 1};
    fail_each(load_and_plan, &c);
}

static fovea_status one_operation(const void *how)
{
    static const float weight[24 * 40], bias[24];
    fovea_op_options options = FOVEA_OP_OPTIONS_INIT;
    fovea_device *device = NULL;
    fovea_plan *plan = NULL;
    options.kind = *(const fovea_op_kind *)how;
    options.rows = options.keys = 50;
    options.attention = "linear:elu1";
    options.heads = 2;
    options.head_dim = options.value_dim = 16;
    options.in = 40;
    options.out = 24;
    options.weight = weight;
    options.bias = bias;
    fovea_status status = fovea_device_open(&device, "cpu", NULL);
    if (status == FOVEA_OK)
        status = fovea_op_plan_create(&plan, device, &options);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return status;
}

static void operations(void **state)
{
    (void)state;
    const fovea_op_kind attention = FOVEA_OP_ATTENTION, gemm = FOVEA_OP_GEMM;
    fail_each(one_operation, &attention);
    fail_each(one_operation, &gemm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),
        cmocka_unit_test(softmax),
        cmocka_unit_test(dry),
        cmocka_unit_test(operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
