/* test_plan.c: tests the figures that a plan reports before it runs, its refusals, and that
 * threads, schedule and frame format do not change a result. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/operations.h>
#include <fovea/verification.h>

#include "base/mem.h"
#include "tests/fixture.h"

static const struct {
    const char *attention;
    fovea_schedule schedule;
} kinds[] = {
    {"linear:elu1", FOVEA_SCHEDULE_STREAMED},
    {"linear:elu1", FOVEA_SCHEDULE_STEPWISE},
    {"softmax", FOVEA_SCHEDULE_STREAMED},
    {"softmax", FOVEA_SCHEDULE_STEPWISE},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static fovea_device *device;
static fovea_model *model;

static int open_both(void **state)
{
    (void)state;
    device = fixture_device(2);
    model = fixture_load();
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    fovea_model_free(model);
    fovea_device_close(device);
    return 0;
}

/* Checks that a call returned `status` with a message that contains `word`. */
static void refused(fovea_status got, fovea_status status, const char *word)
{
    if (got != status || !strstr(fovea_error(), word))
        fail_msg("wanted %s about '%s', got %s: %s", fovea_status_text(status), word,
                 fovea_status_text(got), fovea_error());
}

static fovea_status create(const fovea_plan_options *options)
{
    fovea_plan *plan = NULL;
    const fovea_status status = fovea_plan_create(&plan, model, device, options);
    assert_true(plan != NULL || status != FOVEA_OK);
    assert_true(plan == NULL || status == FOVEA_OK); /* untouched on failure */
    fovea_plan_free(plan);
    return status;
}

static uint64_t activations(const fovea_plan_info *i)
{
    return i->residual + i->states + i->chunks + i->scratch + i->staging;
}

/* ---- promises ---- */

static void same_info(const fovea_plan *a, const fovea_plan *b)
{
    fovea_plan_info x = FOVEA_PLAN_INFO_INIT, y = FOVEA_PLAN_INFO_INIT;
    fovea_step_info s = FOVEA_STEP_INFO_INIT, t = FOVEA_STEP_INFO_INIT;
    fovea_plan_query(a, &x);
    fovea_plan_query(b, &y);
    assert_int_equal(x.width, y.width);
    assert_int_equal(x.height, y.height);
    assert_int_equal(x.ignored_right, y.ignored_right);
    assert_int_equal(x.ignored_bottom, y.ignored_bottom);
    assert_int_equal(x.grid_width, y.grid_width);
    assert_int_equal(x.grid_height, y.grid_height);
    assert_int_equal(x.tokens, y.tokens);
    assert_int_equal(x.sweeps, y.sweeps);
    assert_int_equal(x.steps, y.steps);
    assert_int_equal(x.dispatches, y.dispatches);
    assert_int_equal(x.threads, y.threads);
    assert_int_equal(x.weights, y.weights);
    assert_int_equal(x.residual, y.residual);
    assert_int_equal(x.states, y.states);
    assert_int_equal(x.chunks, y.chunks);
    assert_int_equal(x.scratch, y.scratch);
    assert_int_equal(x.staging, y.staging);
    assert_int_equal(x.largest, y.largest);
    assert_true(x.flops == y.flops && x.seconds == y.seconds);
    size_t i = 0;
    for (; fovea_plan_step(a, i, &s); i++) {
        assert_true(fovea_plan_step(b, i, &t));
        assert_string_equal(s.label, t.label);
        assert_string_equal(s.problem, t.problem);
        assert_string_equal(s.kernel, t.kernel);
        assert_int_equal(s.chunk, t.chunk);
        assert_int_equal(s.sweep, t.sweep);
    }
    assert_int_equal(i, x.steps);
    assert_false(fovea_plan_step(b, i, &t));
}

static void dry_plan_tells_the_same(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        fovea_plan_options options = fixture_options(kinds[k].attention, kinds[k].schedule);
        fovea_plan *dry;
        options.dry = 1;
        const uint64_t weights = fv_mem_tagged(FV_MEM_WEIGHTS), arena = fv_mem_tagged(FV_MEM_ARENA);
        assert_int_equal(fovea_plan_create(&dry, model, device, &options), FOVEA_OK);
        assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS), weights);
        assert_int_equal(fv_mem_tagged(FV_MEM_ARENA), arena);
        fovea_plan *plan = fixture_plan(model, device, kinds[k].attention, kinds[k].schedule);
        same_info(plan, dry);
        const fovea_frame frame = {.pixels = {fixture_pixels}};
        static float out[100000];
        const fovea_output output = {out, sizeof out};
        refused(fovea_run(dry, &frame, &output, 1), FOVEA_EINVAL, "dry");
        fovea_plan_free(dry);
        fovea_plan_free(plan);
    }
}

static void memory_is_as_promised(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
        const uint64_t weights = fv_mem_tagged(FV_MEM_WEIGHTS), arena = fv_mem_tagged(FV_MEM_ARENA);
        fovea_memory_query(&before);
        fovea_plan *plan = fixture_plan(model, device, kinds[k].attention, kinds[k].schedule);
        fovea_memory_query(&after);
        fovea_plan_query(plan, &info);
        assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS) - weights, info.weights);
        const uint64_t made = fv_mem_tagged(FV_MEM_ARENA) - arena;
        assert_true(made >= info.residual + info.states + info.chunks + info.scratch);
        assert_true(made <= activations(&info));
        /* The estimate must include the structures of plan and weights. */
        const uint64_t all = after.current - before.current,
                       told = info.weights + activations(&info);
        if (all > told + told / 20)
            fail_msg("%llu bytes held, %llu told", (unsigned long long)all,
                     (unsigned long long)told);
        fovea_plan_free(plan);
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
    }
}

static void weights_are_packed_once(void **state)
{
    (void)state;
    const uint64_t none = fv_mem_tagged(FV_MEM_WEIGHTS);
    fovea_plan *a = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    const uint64_t one = fv_mem_tagged(FV_MEM_WEIGHTS);
    fovea_plan *b = fixture_plan(model, device, "softmax", FOVEA_SCHEDULE_STREAMED);
    assert_true(one > none);
    assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS), one);
    fovea_plan_free(a);
    size_t n;
    free(fixture_run(b, &n)); /* the plan still has its weights */
    fovea_plan_free(b);
    assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS), none);
}

static void huge_pictures_do_not_overflow(void **state)
{
    (void)state;
    fovea_model_info m = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &m);
    for (int k = 0; k < KINDS; k++)
        for (uint32_t side = 16384; side <= 65536; side *= 2) {
            fovea_plan_options options = fixture_options(kinds[k].attention, kinds[k].schedule);
            fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
            fovea_plan *plan;
            options.frame.width = options.frame.height = side;
            options.dry = 1;
            const fovea_status status = fovea_plan_create(&plan, model, device, &options);
            if (side > 16384 && status != FOVEA_OK) { /* may refuse, but with a message */
                assert_true(strlen(fovea_error()) > 10);
                continue;
            }
            assert_int_equal(status, FOVEA_OK);
            fovea_plan_query(plan, &info);
            const uint64_t grid = side / m.patch, tokens = m.prefix + grid * grid;
            const uint64_t stream = tokens * m.width * sizeof(float);
            assert_int_equal(info.tokens, tokens);
            assert_int_equal(info.ignored_right, side % m.patch);
            assert_true(info.residual >= stream && info.residual < 64 * stream);
            assert_true(info.largest >= stream);
            assert_true(info.flops > 1e9 && isfinite(info.flops) && info.seconds > 0);
            /* High resolution fits, because only the stream grows with the picture. */
            if (kinds[k].schedule == FOVEA_SCHEDULE_STREAMED && k == 0)
                assert_true(activations(&info) < 2 * stream);
            fovea_plan_free(plan);
        }
    fovea_plan_options options = fixture_options(NULL, FOVEA_SCHEDULE_AUTO);
    options.frame.width = options.frame.height = UINT32_MAX;
    refused(create(&options), FOVEA_EINVAL, "sides");
}

/* A plan of a terabyte may be refused; it is never run. */
static void more_than_the_machine_has(void **state)
{
    (void)state;
    fovea_model *block;
    fovea_plan *plan;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    assert_int_equal(fovea_model_load(&block, "synthetic:block-1024x16x4"), FOVEA_OK);
    options.frame.width = options.frame.height = 32766;
    options.attention = "linear:elu1";
    options.dry = 1;
    assert_int_equal(fovea_plan_create(&plan, block, device, &options), FOVEA_OK);
    fovea_plan_free(plan);
    options.dry = 0;
    refused(fovea_plan_create(&plan, block, device, &options), FOVEA_ENOMEM, "the device has");
    fovea_model_free(block);
}

/* State sizes are 32-bit numbers, so larger states are refused. */
static void states_have_an_end(void **state)
{
    (void)state;
    fovea_model *wide;
    fovea_plan *plan;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    assert_int_equal(fovea_model_load(&wide, "synthetic:block-65536x1x1"), FOVEA_OK);
    options.frame.width = options.frame.height = 32;
    options.attention = "linear:elu1";
    options.dry = 1;
    refused(fovea_plan_create(&plan, wide, device, &options), FOVEA_ENOTSUP, "more heads");
    fovea_model_free(wide);
}

static void limit_is_kept(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k += 2) {
        fovea_plan_options options = fixture_options(kinds[k].attention, kinds[k].schedule);
        fovea_plan_info most = FOVEA_PLAN_INFO_INIT, less = FOVEA_PLAN_INFO_INIT;
        fovea_plan *plan;
        options.frame.width = options.frame.height = 700;
        assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
        fovea_plan_query(plan, &most);
        fovea_plan_free(plan);
        options.memory_limit = activations(&most) - most.chunks / 2;
        assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
        fovea_plan_query(plan, &less);
        fovea_plan_free(plan);
        assert_true(activations(&less) <= options.memory_limit);
        options.memory_limit = most.residual;
        refused(create(&options), FOVEA_ENOMEM, "limit");
    }
}

/* ---- refusals ---- */

static void sizes_under_a_patch(void **state)
{
    (void)state;
    fovea_model_info m = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &m);
    fovea_plan_options options = fixture_options(NULL, FOVEA_SCHEDULE_AUTO);
    options.frame.width = m.patch - 1;
    refused(create(&options), FOVEA_EINVAL, "patch");
    options.frame.width = 1000;
    options.frame.height = 1;
    refused(create(&options), FOVEA_EINVAL, "patch");
    options.frame.height = 0;
    assert_int_equal(create(&options), FOVEA_EINVAL);
    options.frame.width = options.frame.height = m.patch;
    for (int k = 0; k < KINDS; k++) {
        options.attention = kinds[k].attention;
        options.schedule = kinds[k].schedule;
        fovea_plan *plan;
        size_t n;
        assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
        float *out = fixture_run(plan, &n);
        assert_int_equal(n, (m.prefix + 1) * m.width);
        for (size_t i = 0; i < n; i++)
            assert_true(isfinite(out[i]));
        free(out);
        fovea_plan_free(plan);
    }
}

/* A missing required argument is FOVEA_EINVAL; `void` functions accept NULL. */
static void null_arguments(void **state)
{
    (void)state;
    fovea_plan *plan = fixture_plan(model, device, NULL, FOVEA_SCHEDULE_AUTO), *none;
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    fovea_model *no_model;
    fovea_state *no_state;
    fovea_ticket ticket;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    static float spare[1 << 16];
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output out = {spare, sizeof spare};
    const fovea_plan_options options = fixture_options(NULL, FOVEA_SCHEDULE_AUTO);
    fovea_plan_output(plan, 0, &info);
    assert_true((size_t)info.rows * info.columns * sizeof(float) <= sizeof spare);
    refused(fovea_run(NULL, &frame, &out, 1), FOVEA_EINVAL, "the plan");
    refused(fovea_run(plan, NULL, &out, 1), FOVEA_EINVAL, "the frame");
    refused(fovea_run(plan, &frame, NULL, 1), FOVEA_EINVAL, "the outputs");
    refused(fovea_submit(plan, &frame, &out, 1, NULL), FOVEA_EINVAL, "ticket");
    refused(fovea_wait(NULL, 1, 0), FOVEA_EINVAL, "the plan");
    assert_int_equal(fovea_submit(plan, &frame, &out, 1, &ticket), FOVEA_OK);
    assert_int_equal(fovea_wait(plan, ticket, -1), FOVEA_OK);
    fovea_plan_free(plan);
    refused(fovea_plan_create(&none, NULL, device, &options), FOVEA_EINVAL, "the model");
    refused(fovea_plan_create(&none, model, NULL, &options), FOVEA_EINVAL, "the device");
    refused(fovea_plan_create(&none, model, device, NULL), FOVEA_EINVAL, "options");
    refused(fovea_model_load(&no_model, NULL), FOVEA_EINVAL, "path");
    refused(fovea_attention_plan_create(&none, NULL, &o), FOVEA_EINVAL, "the device");
    refused(fovea_attention_plan_create(&none, device, NULL), FOVEA_EINVAL, "options");
    refused(fovea_state_create(&no_state, device, NULL), FOVEA_EINVAL, "options");
    fovea_gemm_options g = FOVEA_GEMM_OPTIONS_INIT;
    g.rows = g.in = g.out = 8;
    g.weight = spare;
    assert_int_equal(fovea_gemm_plan_create(&plan, device, &g), FOVEA_OK);
    refused(fovea_op_run(plan, NULL, 1, (fovea_matrix){spare, 0}), FOVEA_EINVAL, "the inputs");
    refused(fovea_op_run(NULL, NULL, 1, (fovea_matrix){spare, 0}), FOVEA_EINVAL, "the plan");
    fovea_plan_free(plan);

    fovea_device_info d = FOVEA_DEVICE_INFO_INIT;
    fovea_model_info m = FOVEA_MODEL_INFO_INIT;
    fovea_plan_info p = FOVEA_PLAN_INFO_INIT;
    refused(fovea_device_describe(NULL, &d), FOVEA_EINVAL, "the device");
    refused(fovea_model_describe(NULL, &m), FOVEA_EINVAL, "the model");
    refused(fovea_plan_query(NULL, &p), FOVEA_EINVAL, "the plan");
    assert_int_equal(fovea_device_describe(device, NULL), FOVEA_OK);
    assert_int_equal(fovea_model_describe(model, NULL), FOVEA_OK);
    assert_int_equal(fovea_memory_query(NULL), FOVEA_OK);
    fovea_preprocess_resize(NULL, 8, 8);
    fovea_device_close(NULL);
    fovea_model_free(NULL);
    fovea_plan_free(NULL);
    fovea_state_free(NULL);
    fovea_tensors_close(NULL);
    fovea_trial_close(NULL);
}

static void unknown_names(void **state)
{
    (void)state;
    const char *outputs[] = {"last_hidden_state", "logitz"};
    fovea_plan_options options = fixture_options("quadratic", FOVEA_SCHEDULE_AUTO);
    refused(create(&options), FOVEA_ENOTSUP, "quadratic");
    options.attention = "linear:cubic";
    refused(create(&options), FOVEA_ENOTSUP, "cubic");
    static const struct {
        const char *attention, *word;
    } blocks[] = {
        {"linear+softmax@2", "block 2 does not exist"},
        {"linear+softmax@0-999999", "block 999999 does not exist"},
        {"linear+softmax@99999999", "number"},
        {"linear+softmax@1-0", "number"},
        {"linear+softmax@", "number"},
        {"linear+softmax", "softmax@0-3"},
        {"linear@0", "to all blocks"},
        {"linear+", "@0-3"},
        {"+softmax@1", "''"},
        {"", "''"},
        {"linear+softmax@0-1-2", "number"},
        {"linear+mala@-1", "number"},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        options.attention = blocks[i].attention;
        assert_int_not_equal(create(&options), FOVEA_OK);
        assert_non_null(strstr(fovea_error(), blocks[i].word));
    }
    options.attention = NULL;
    options.outputs = outputs;
    options.n_outputs = 2;
    refused(create(&options), FOVEA_EINVAL, "logitz");
    outputs[1] = outputs[0];
    refused(create(&options), FOVEA_EINVAL, "twice");
    options.n_outputs = 1;
    options.struct_size = 0;
    refused(create(&options), FOVEA_EINVAL, "FOVEA_PLAN_OPTIONS_INIT");
    options.struct_size = sizeof options;
    options.schedule = (fovea_schedule)9;
    refused(create(&options), FOVEA_EINVAL, "schedule");
    options.schedule = FOVEA_SCHEDULE_AUTO;
    options.activations = (fovea_dtype)9;
    refused(create(&options), FOVEA_EINVAL, "activations");
    options.activations = FOVEA_DTYPE_BF16;
    refused(create(&options), FOVEA_ENOTSUP, "only the type of the weights");
}

/* Returns features with float16 weights, or NULL if the device refuses such activations. */
static float *features(fovea_dtype activations, size_t *values)
{
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    fovea_plan *plan;
    options.weights = FOVEA_DTYPE_F16;
    options.activations = activations;
    const fovea_status status = fovea_plan_create(&plan, model, device, &options);
    if (status != FOVEA_OK) {
        refused(status, FOVEA_ENOTSUP, "activations of 16 bits");
        return NULL;
    }
    float *out = fixture_run(plan, values);
    fovea_plan_free(plan);
    return out;
}

/* Only processors that multiply float16 support these activations, with little loss. */
static void half_sums(void **state)
{
    (void)state;
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    size_t values = 0;
    fovea_device_describe(device, &info);
    float *exact = features(FOVEA_DTYPE_F32, &values);
    float *half = features(FOVEA_DTYPE_F16, &values);
    assert_non_null(exact);
    assert_int_equal(half != NULL, strcmp(info.features, "neon-fp16") == 0 ||
                                       strcmp(info.features, "neon-dot") == 0);
    double largest = 0, off = 0;
    for (size_t i = 0; half && i < values; i++) {
        largest = fmax(largest, fabs((double)exact[i]));
        off = fmax(off, fabs((double)half[i] - exact[i]));
    }
    if (half)
        assert_true(off > 0 && off < 1e-2 * largest);
    free(exact);
    free(half);
}

static void wrong_frames(void **state)
{
    (void)state;
    fovea_plan *plan = fixture_plan(model, device, NULL, FOVEA_SCHEDULE_AUTO);
    size_t n;
    float *out = fixture_run(plan, &n);
    fovea_frame frame = {.pixels = {NULL}};
    fovea_output output = {out, n * sizeof *out};
    assert_int_equal(fovea_run(plan, &frame, &output, 1), FOVEA_EINVAL);
    frame.pixels[0] = fixture_pixels;
    frame.stride[0] = FIXTURE_WIDTH * 3 - 1;
    assert_int_equal(fovea_run(plan, &frame, &output, 1), FOVEA_EINVAL);
    frame.stride[0] = 0;
    output.size--;
    assert_int_equal(fovea_run(plan, &frame, &output, 1), FOVEA_EINVAL);
    output.size++;
    assert_int_equal(fovea_run(plan, &frame, &output, 2), FOVEA_EINVAL);
    free(out);
    fovea_plan_free(plan);
}

/* ---- results ---- */

static void in_order(void (*fn)(void *arg, size_t i), void *arg, size_t n, void *ctx)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        fn(arg, i);
}

static void backwards(void (*fn)(void *arg, size_t i), void *arg, size_t n, void *ctx)
{
    ++*(int *)ctx;
    for (size_t i = n; i-- > 0;)
        fn(arg, i);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    int calls = 0;
    const struct {
        uint32_t threads;
        fovea_parallel_for_fn *loop;
    } how[] = {{1, NULL}, {2, NULL}, {3, NULL}, {7, NULL}, {2, in_order}, {3, backwards}};
    for (int k = 0; k < KINDS; k++) {
        float *first = NULL;
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
            fovea_device *d;
            size_t n;
            options.threads = how[i].threads;
            options.parallel_for = how[i].loop;
            options.parallel_ctx = &calls;
            assert_int_equal(fovea_device_open(&d, "cpu", &options), FOVEA_OK);
            assert_int_equal(fovea_device_threads(d), how[i].threads);
            fovea_plan *plan = fixture_plan(model, d, kinds[k].attention, kinds[k].schedule);
            for (int run = 0; run < 3; run++) {
                float *out = fixture_run(plan, &n);
                if (!first)
                    first = out;
                assert_memory_equal(out, first, n * sizeof *out);
                if (out != first)
                    free(out);
            }
            fovea_plan_free(plan);
            fovea_device_close(d);
        }
        free(first);
    }
    assert_true(calls > 0);
}

/* Threads do not change results under a memory limit either, where more workers have less memory
 * each: every plan that can be made gives the same bits. */
static void threads_do_not_matter_in_little_memory(void **state)
{
    (void)state;
    enum { SIDE = 700 };
    static const uint32_t threads[] = {1, 2, 3, 4, 8};
    static const int percent[] = {100, 80, 60, 40, 25, 15};
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    options.frame.width = options.frame.height = SIDE;
    uint8_t *pixels = malloc(SIDE * SIDE * 3);
    assert_non_null(pixels);
    for (size_t i = 0; i < SIDE * SIDE * 3; i++)
        pixels[i] = fixture_pixels[i % sizeof fixture_pixels];
    uint64_t whole = 0, worker = 0;
    int made = 0, refusals = 0;
    for (size_t k = 0; k < sizeof percent / sizeof *percent; k++) {
        float *first = NULL;
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            fovea_device *d = fixture_device(threads[i]);
            fovea_plan *plan;
            fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
            fovea_output_info output = FOVEA_OUTPUT_INFO_INIT;
            options.schedule = FOVEA_SCHEDULE_STREAMED;
            if (!whole) { /* the memory of one worker, of which eight workers need eight times as
                             much */
                assert_int_equal(fovea_plan_create(&plan, model, d, &options), FOVEA_OK);
                fovea_plan_query(plan, &info);
                fovea_plan_free(plan);
                worker = info.chunks + info.scratch;
                whole = activations(&info) - worker;
            }
            options.schedule = i % 2 ? FOVEA_SCHEDULE_AUTO : FOVEA_SCHEDULE_STREAMED;
            options.memory_limit = whole + 8 * worker * (uint64_t)percent[k] / 100;
            const fovea_status status = fovea_plan_create(&plan, model, d, &options);
            fovea_device_close(d);
            if (status != FOVEA_OK) {
                refused(status, FOVEA_ENOMEM, "fewer threads");
                refusals++;
                continue;
            }
            fovea_plan_output(plan, 0, &output);
            const size_t bytes = (size_t)output.rows * output.columns * sizeof(float);
            const fovea_frame frame = {.pixels = {pixels}};
            const fovea_output out = {malloc(bytes), bytes};
            assert_non_null(out.data);
            assert_int_equal(fovea_run(plan, &frame, &out, 1), FOVEA_OK);
            if (first && memcmp(out.data, first, bytes) != 0)
                fail_msg("%u threads, %d %% of the memory: other bits", threads[i], percent[k]);
            if (first)
                free(out.data);
            else
                first = out.data;
            fovea_plan_free(plan);
            made++;
        }
        free(first);
    }
    assert_true(made >= 24 && refusals > 0);
    free(pixels);
}

static void close_to(const float *a, const float *b, size_t n, double relative)
{
    double top = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmax(top, fabs((double)a[i]));
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        assert_true(isfinite(a[i]) && isfinite(b[i]));
    }
    if (!(worst <= relative * top))
        fail_msg("differ by %g, largest value %g", worst, top);
}

static void schedules_agree(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {0, 1, 7, 13, 64, 1000};
    for (int k = 0; k < KINDS; k += 2) {
        size_t n;
        fovea_plan *plan = fixture_plan(model, device, kinds[k].attention, FOVEA_SCHEDULE_STEPWISE);
        float *want = fixture_run(plan, &n);
        fovea_plan_free(plan);
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            fovea_plan_options options =
                fixture_options(kinds[k].attention, FOVEA_SCHEDULE_STREAMED);
            options.chunk = chunks[i];
            assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
            float *got = fixture_run(plan, &n);
            close_to(got, want, n, 1e-5);
            free(got);
            fovea_plan_free(plan);
        }
        free(want);
    }
}

static float *run_frame(fovea_pixel_format format, const fovea_frame *frame, size_t *n)
{
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan *plan;
    options.frame.format = format;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_true(fovea_plan_output(plan, 0, &info));
    *n = (size_t)info.rows * info.columns;
    fovea_output out = {malloc(*n * sizeof(float)), *n * sizeof(float)};
    assert_int_equal(fovea_run(plan, frame, &out, 1), FOVEA_OK);
    fovea_plan_free(plan);
    return out.data;
}

/* A picture with padding, in another channel order, in grey and as planes gives the same result. */
static void formats_agree(void **state)
{
    (void)state;
    enum { W = FIXTURE_WIDTH, H = FIXTURE_HEIGHT, PAD = W * 3 + 11 };
    static uint8_t padded[H * PAD], bgr[H * PAD], grey[H * PAD], grey_rgb[H * W * 3];
    static float planes[3][H * W];
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    size_t n;
    fovea_model_preprocess(model, &rule);
    memset(padded, 0xee, sizeof padded);
    for (size_t i = 0; i < (size_t)H * W; i++) {
        grey[i / W * PAD + i % W] = fixture_pixels[3 * i];
        for (size_t c = 0; c < 3; c++) {
            const uint8_t v = fixture_pixels[3 * i + c];
            padded[i / W * PAD + i % W * 3 + c] = v;
            bgr[i / W * PAD + i % W * 3 + 2 - c] = v;
            grey_rgb[3 * i + c] = fixture_pixels[3 * i];
            planes[c][i] = ((float)v * rule.rescale - rule.mean[c]) / rule.std[c];
        }
    }
    const fovea_frame rgb = {.pixels = {fixture_pixels}};
    const fovea_frame wide = {.pixels = {padded}, .stride = {PAD}};
    const fovea_frame swapped = {.pixels = {bgr}, .stride = {PAD}};
    const fovea_frame one = {.pixels = {grey}, .stride = {PAD}};
    const fovea_frame three = {.pixels = {grey_rgb}};
    const fovea_frame planar = {.pixels = {planes[0], planes[1], planes[2]}};
    float *want = run_frame(FOVEA_FORMAT_RGB8, &rgb, &n),
          *want_grey = run_frame(FOVEA_FORMAT_RGB8, &three, &n);
    float *got = run_frame(FOVEA_FORMAT_RGB8, &wide, &n);
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    got = run_frame(FOVEA_FORMAT_BGR8, &swapped, &n);
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    got = run_frame(FOVEA_FORMAT_GRAY8, &one, &n);
    assert_memory_equal(got, want_grey, n * sizeof *got);
    free(got);
    got = run_frame(FOVEA_FORMAT_PLANES_F32, &planar, &n);
    close_to(got, want, n, 1e-5);
    free(got);
    free(want);
    free(want_grey);
}

typedef struct runner {
    fovea_plan *plan;
    const float *want;
    int wrong;
} runner;

static void *run_many(void *arg)
{
    runner *r = arg;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(r->plan, 0, &info);
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output out = {malloc(size), size};
    for (int i = 0; i < 30; i++)
        r->wrong += !out.data || fovea_run(r->plan, &frame, &out, 1) != FOVEA_OK ||
                    memcmp(out.data, r->want, size) != 0;
    free(out.data);
    return NULL;
}

static void plans_run_concurrently(void **state)
{
    (void)state;
    runner r[KINDS];
    pthread_t thread[KINDS];
    size_t n;
    for (int k = 0; k < KINDS; k++) {
        r[k].plan = fixture_plan(model, device, kinds[k].attention, kinds[k].schedule);
        r[k].want = fixture_run(r[k].plan, &n);
        r[k].wrong = 0;
    }
    for (int k = 0; k < KINDS; k++)
        assert_int_equal(pthread_create(&thread[k], NULL, run_many, &r[k]), 0);
    for (int k = 0; k < KINDS; k++)
        pthread_join(thread[k], NULL);
    for (int k = 0; k < KINDS; k++) {
        assert_int_equal(r[k].wrong, 0);
        free((void *)(uintptr_t)r[k].want);
        fovea_plan_free(r[k].plan);
    }
}

static void *plan_and_run(void *arg)
{
    runner *r = arg;
    for (int i = 0; i < 5; i++) {
        const fovea_plan_options options = fixture_options(NULL, FOVEA_SCHEDULE_AUTO);
        r->wrong += fovea_plan_create(&r->plan, model, device, &options) != FOVEA_OK;
        run_many(r);
        fovea_plan_free(r->plan);
    }
    return NULL;
}

/* Several threads make and free plans of one model. A lock protects the reference counts of packed
 * weights. */
static void plans_come_and_go(void **state)
{
    (void)state;
    runner r[3];
    pthread_t thread[3];
    size_t n;
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    fovea_memory_query(&before);
    fovea_plan *plan = fixture_plan(model, device, NULL, FOVEA_SCHEDULE_AUTO);
    float *want = fixture_run(plan, &n);
    fovea_plan_free(plan);
    for (int i = 0; i < 3; i++) {
        r[i] = (runner){NULL, want, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, plan_and_run, &r[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(r[i].wrong, 0);
    }
    free(want);
    fovea_memory_query(&after);
    assert_int_equal(after.current, before.current);
}

static void plan_outlives_the_model(void **state)
{
    (void)state;
    fovea_model *own = fixture_load();
    fovea_plan *plan = fixture_plan(own, device, NULL, FOVEA_SCHEDULE_AUTO);
    size_t n;
    float *before = fixture_run(plan, &n);
    fovea_model_free(own);
    float *after = fixture_run(plan, &n);
    assert_memory_equal(before, after, n * sizeof *after);
    free(before);
    free(after);
    fovea_plan_free(plan);
}

static void plan_outlives_the_device(void **state)
{
    (void)state;
    const uint64_t before = fv_mem_tagged(FV_MEM_DEVICE);
    fovea_device *own = fixture_device(2);
    const uint64_t opened = fv_mem_tagged(FV_MEM_DEVICE);
    fovea_plan *plan = fixture_plan(model, own, NULL, FOVEA_SCHEDULE_AUTO);
    fovea_trial *step;
    size_t n;
    double seconds;
    float *first = fixture_run(plan, &n);
    assert_int_equal(fovea_trial_open(&step, plan, 0, NULL), FOVEA_OK);
    fovea_device_close(own);
    assert_int_equal(fv_mem_tagged(FV_MEM_DEVICE), opened);
    float *again = fixture_run(plan, &n);
    assert_memory_equal(first, again, n * sizeof *again);
    assert_int_equal(fovea_trial_run(step, &seconds), FOVEA_OK);
    fovea_trial_close(step);
    fovea_plan_free(plan);
    assert_int_equal(fv_mem_tagged(FV_MEM_DEVICE), before);
    free(first);
    free(again);
}

/* Every bidirectional mechanism may replace a model's own. Streamed and step-by-step plans agree.
 */
static void mechanisms(void **state)
{
    (void)state;
    static const char *const good[] = {
        "softmax",
        "linear:relu",
        "linear:exp",
        "linear:softmax",
        "mala",
        "mala-paper:relu",
        "pola",
        "nala-paper",
        "focused",
        "hedgehog",
        "sla-linear",
        "sla-nala",
        "foveated",
        "linear+softmax@1",
        "softmax+sla-pola@0",
        "softmax+foveated:1@1",
    };
    static const char *const bad[] = {
        "linear:silu", "sla-linear:identity", "retention",   "linear:nala", "sla-foveated",
        "foveated:",   "foveated:0",          "foveated:65", "foveated:4x", "foveatedness"};
    fovea_plan *plan;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        float *x[2];
        size_t n[2];
        for (int k = 0; k < 2; k++) {
            plan = fixture_plan(model, device, good[i],
                                k ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE);
            x[k] = fixture_run(plan, &n[k]);
            fovea_plan_free(plan);
        }
        for (size_t v = 0; v < n[0]; v++)
            assert_true(fabsf(x[0][v] - x[1][v]) <= 1e-3f * fmaxf(1, fabsf(x[0][v])));
        free(x[0]);
        free(x[1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const fovea_plan_options options = fixture_options(bad[i], FOVEA_SCHEDULE_AUTO);
        assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_ENOTSUP);
        assert_non_null(strstr(fovea_error(), bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mechanisms),
        cmocka_unit_test(dry_plan_tells_the_same),
        cmocka_unit_test(memory_is_as_promised),
        cmocka_unit_test(weights_are_packed_once),
        cmocka_unit_test(huge_pictures_do_not_overflow),
        cmocka_unit_test(more_than_the_machine_has),
        cmocka_unit_test(states_have_an_end),
        cmocka_unit_test(limit_is_kept),
        cmocka_unit_test(sizes_under_a_patch),
        cmocka_unit_test(null_arguments),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(half_sums),
        cmocka_unit_test(wrong_frames),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(threads_do_not_matter_in_little_memory),
        cmocka_unit_test(schedules_agree),
        cmocka_unit_test(formats_agree),
        cmocka_unit_test(plans_run_concurrently),
        cmocka_unit_test(plans_come_and_go),
        cmocka_unit_test(plan_outlives_the_model),
        cmocka_unit_test(plan_outlives_the_device),
    };
    fixture_draw();
    return cmocka_run_group_tests(tests, open_both, close_both);
}
