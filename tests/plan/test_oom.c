/* test_oom.c: makes every allocation of loading, planning and one-operation plans fail in turn.
 * Each failure must return ENOMEM with a message and leak nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/operations.h>
#include <fovea/verification.h>

#include "base/mem.h"
#include "tests/fixture.h"
#include "tests/temp_folder.h"

typedef fovea_status attempt(const void *how);

/* Runs `try` with the n-th allocation failing, for every n that it reaches. */
static void fail_each(attempt *try, const void *how)
{
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    uint64_t n = 1, tries = 0;
    fv_mem_fail_at(0);
    if (try(how) != FOVEA_OK) /* also makes the allocations that happen once per process */
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
    assert_true(tries >= made); /* every allocation was made to fail */
}

typedef struct frame_case {
    const char *attention;
    fovea_schedule schedule;
    int resized, dry;
    const char *model, *output; /* NULL: the fixture's model and its main output */
    fovea_compute compute;
} frame_case;

static fovea_status load_and_plan(const void *how)
{
    const frame_case *c = how;
    fovea_device *device = NULL;
    fovea_model *model = NULL;
    fovea_plan *plan = NULL;
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = fixture_options(c->attention, c->schedule);
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    device_options.threads = 2;
    options.dry = c->dry;
    options.compute = c->compute;
    fovea_status status = fovea_device_open(&device, "cpu", &device_options);
    if (status == FOVEA_OK)
        status = fovea_model_load(&model, c->model ? c->model : fixture_model);
    if (status == FOVEA_OK) {
        fovea_model_preprocess(model, &rule);
        fovea_preprocess_resize(&rule, 84, 56);
        options.preprocess = c->resized ? &rule : NULL;
        if (c->output) {
            options.outputs = &c->output;
            options.n_outputs = 1;
        }
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
    const frame_case streamed = {"linear:elu1", FOVEA_SCHEDULE_STREAMED, 1, 0, NULL, NULL};
    fail_each(load_and_plan, &streamed);
}

static void softmax(void **state)
{
    (void)state;
    const frame_case stepwise = {"softmax", FOVEA_SCHEDULE_STEPWISE, 0, 0, NULL, NULL};
    fail_each(load_and_plan, &stepwise);
}

/* With channels equalised for int8. */
static void int8(void **state)
{
    (void)state;
    const frame_case c = {
        .attention = "softmax", .schedule = FOVEA_SCHEDULE_AUTO, .compute = FOVEA_COMPUTE_INT8};
    fail_each(load_and_plan, &c);
}

static void dry(void **state)
{
    (void)state;
    const frame_case c = {"linear:elu1", FOVEA_SCHEDULE_AUTO, 1, 1, NULL, NULL};
    fail_each(load_and_plan, &c);
}

static int stop_after_two(const fovea_step_check *check, void *payload)
{
    (void)payload;
    return check->step == 1;
}

static fovea_status verify_model(const void *how)
{
    static uint8_t pixels[28 * 28 * 3];
    const fovea_frame frame = {.pixels = {pixels}};
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    fovea_device *device = NULL;
    fovea_model *model = NULL;
    (void)how;
    options.frame.width = options.frame.height = 28;
    device_options.threads = 2;
    fovea_status status = fovea_device_open(&device, "cpu", &device_options);
    if (status == FOVEA_OK)
        status = fovea_model_load(&model, fixture_model);
    if (status == FOVEA_OK)
        status = fovea_model_verify(model, device, &options, &frame, stop_after_two, NULL);
    fovea_model_free(model);
    fovea_device_close(device);
    return status;
}

static void verification(void **state)
{
    (void)state;
    fail_each(verify_model, NULL);
}

/* Writes the fixture's model with a segmentation head whose normalisation is folded into it. */
static void write_head(uint32_t width)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    static const char *const norm[] = {"decode_head.bn.weight", "decode_head.bn.bias",
                                       "decode_head.bn.running_mean", "decode_head.bn.running_var"};
    static float ones[3 * 1024];
    fovea_tensor t[6] = {0};
    char from[256];
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/%s", fixture_model, files[i]);
        assert_int_equal(symlink(from, in_folder(files[i])), 0);
    }
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        ones[i] = 1;
    for (size_t i = 0; i < 4; i++)
        t[i] = (fovea_tensor){.name = norm[i], .rank = 1, .shape = {width}};
    t[4] = (fovea_tensor){.name = "decode_head.conv_seg.weight", .rank = 2, .shape = {3, width}};
    t[5] = (fovea_tensor){.name = "decode_head.conv_seg.bias", .rank = 1, .shape = {3}};
    for (size_t i = 0; i < 6; i++) {
        t[i].dtype = "F32";
        t[i].data = ones;
        t[i].size = (size_t)(t[i].shape[0] * (i == 4 ? width : 1) * sizeof *ones);
    }
    assert_int_equal(fovea_tensors_write(in_folder("segmentation.safetensors"), t, 6, NULL, 0),
                     FOVEA_OK);
}

static void hybrid_with_head(void **state)
{
    (void)state;
    fovea_model *model = fixture_load();
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &info);
    fovea_model_free(model);
    write_head(info.width);
    const frame_case c = {"sla-linear+softmax@1", FOVEA_SCHEDULE_STREAMED, 0, 0, folder,
                          "segmentation"};
    fail_each(load_and_plan, &c);
}

static fovea_attention_options operation(const char *attention)
{
    static const float zeros[40 * 50];
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = attention;
    o.rows = 50;
    o.heads = 2;
    o.head_dim = o.value_dim = 16;
    o.storage = o.out_storage = FOVEA_DTYPE_F16;
    o.norm_weight = zeros;
    o.out_gate = FOVEA_OUT_GATE_SILU;
    if (strncmp(attention, "sla-", 4) == 0) {
        o.gates = FOVEA_GATES_Q_BLOCKDIAG;
        o.gate_q = o.gate_k = zeros;
    }
    return o;
}

static fovea_gemm_options product(void)
{
    static const float zeros[40 * 24];
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    o.rows = 50;
    o.in = 40;
    o.out = 24;
    o.weight = o.bias = zeros;
    o.storage = o.out_storage = FOVEA_DTYPE_F16;
    return o;
}

static fovea_status plan_product(const void *how)
{
    fovea_device *device = NULL;
    fovea_plan *plan = NULL;
    fovea_status status = fovea_device_open(&device, "cpu", NULL);
    if (status == FOVEA_OK)
        status = fovea_gemm_plan_create(&plan, device, how);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return status;
}

static fovea_status plan_operation(const void *how)
{
    fovea_device *device = NULL;
    fovea_plan *plan = NULL;
    fovea_status status = fovea_device_open(&device, "cpu", NULL);
    if (status == FOVEA_OK)
        status = fovea_attention_plan_create(&plan, device, how);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return status;
}

static fovea_status create_state(const void *how)
{
    fovea_device *device = NULL;
    fovea_state *state = NULL;
    fovea_status status = fovea_device_open(&device, "cpu", NULL);
    if (status == FOVEA_OK)
        status = fovea_state_create(&state, device, how);
    fovea_state_free(state);
    fovea_device_close(device);
    return status;
}

/* Operations with everything that can surround an attention, one of each kind. */
static void operations(void **state)
{
    (void)state;
    static const float filters[32 * 9];
    fovea_attention_options full = operation("sla-pola");
    const fovea_gemm_options gemm = product();
    full.rope_width = full.grid_width = 10;
    full.rope_height = full.grid_height = 5;
    full.local_size = 3;
    full.local_weight = full.local_bias = filters;
    fail_each(plan_operation, &full);
    fail_each(plan_product, &gemm);
}

static void states(void **state)
{
    (void)state;
    fovea_attention_options retention = operation("retention"), delta = operation("sla-delta-rule");
    retention.causal = delta.causal = 1;
    fail_each(create_state, &retention);
    fail_each(create_state, &delta);
}

/* Plans a single step with what a trace needs. */
static fovea_status try_step(const void *how)
{
    static fovea_trace_event events[16];
    fovea_device *device = NULL;
    fovea_plan *plan = NULL;
    fovea_trial *trial = NULL;
    fovea_kernel_check check = FOVEA_KERNEL_CHECK_INIT;
    fovea_status status = fovea_device_open(&device, "cpu", NULL);
    if (status == FOVEA_OK)
        status = fovea_gemm_plan_create(&plan, device, how);
    if (status == FOVEA_OK)
        status = fovea_plan_trace(plan, events, 16);
    if (status == FOVEA_OK)
        status = fovea_trial_open(&trial, plan, 0, NULL);
    if (status == FOVEA_OK)
        status = fovea_trial_verify(trial, &check);
    assert_true(status != FOVEA_OK || check.failed == 0);
    fovea_trial_close(trial);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return status;
}

static void a_step_alone(void **state)
{
    (void)state;
    const fovea_gemm_options gemm = product();
    fail_each(try_step, &gemm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),       cmocka_unit_test(softmax),
        cmocka_unit_test(int8),         cmocka_unit_test(dry),
        cmocka_unit_test(verification), cmocka_unit_test(operations),
        cmocka_unit_test(states),       cmocka_unit_test(hybrid_with_head),
        cmocka_unit_test(a_step_alone),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
