/* test_abi.c: simulates callers that were compiled with an older or newer header, whose structs end
 * before a field that this library knows, or have further fields. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fovea/adapt.h>
#include <fovea/external_images.h>
#include <fovea/mailbox.h>
#include <fovea/tuning.h>
#include <fovea/verification.h>

#include "tests/fixture.h"

enum { CAPACITY = 4096, BEYOND = 16, GARBAGE = 0xa5 };

static fovea_device *device;
static fovea_model *model;
static fovea_plan *plan;

static void set_size(void *s, size_t size)
{
    memcpy(s, &size, sizeof size);
}

static size_t size_of(const void *s)
{
    size_t size;
    memcpy(&size, s, sizeof size);
    return size;
}

static fovea_plan_options plan_options(void)
{
    fovea_plan_options o = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    o.dry = 1;
    return o;
}

static fovea_attention_options attention_options(void)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = "linear";
    o.rows = 3;
    o.heads = o.head_dim = o.value_dim = 2;
    o.causal = 1;
    return o;
}

static fovea_gemm_options gemm_options(void)
{
    static const float weight[6];
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    o.rows = o.in = 3;
    o.out = 2;
    o.weight = weight;
    return o;
}

static int stop_tuning(const fovea_tune_progress *p, void *payload)
{
    (void)payload;
    assert_int_equal(p->struct_size, sizeof *p);
    return 1;
}

static fovea_tune_options tune_options(void)
{
    fovea_tune_options o = FOVEA_TUNE_OPTIONS_INIT;
    o.progress = stop_tuning;
    return o;
}

static fovea_trainer_options trainer_options(void)
{
    fovea_trainer_options o = FOVEA_TRAINER_OPTIONS_INIT;
    o.frame.width = o.frame.height = 28;
    o.attention = "linear:elu1";
    o.lr = 1e-3f;
    return o;
}

/* ---- results ---- */

/* Returns 0 or an error; index functions fail if they return 0. */
typedef int fill_fn(void *out);

static int device_info(void *out)
{
    return fovea_device_describe(device, out);
}

static int listed_device(void *out)
{
    return !fovea_device_list(0, out);
}

static int listed_kernel(void *out)
{
    return !fovea_kernel_list(0, out);
}

static int rates(void *out)
{
    return fovea_device_rates(device, out);
}

static int model_info(void *out)
{
    return fovea_model_describe(model, out);
}

static int model_preprocess(void *out)
{
    return fovea_model_preprocess(model, out);
}

static int weights_cache(void *out)
{
    return fovea_weights_cache_describe("", out);
}

static int loaded_wisdom(void *out)
{
    static const char path[] = "test_abi.wisdom";
    assert_int_equal(fovea_wisdom_save(path), FOVEA_OK);
    const fovea_status status = fovea_wisdom_load(path, out);
    remove(path);
    return status;
}

static int imported_wisdom(void *out)
{
    static const char text[] = "fovea wisdom 1\n";
    return fovea_wisdom_import(text, sizeof text - 1, out);
}

static int plan_info(void *out)
{
    return fovea_plan_query(plan, out);
}

static int step_info(void *out)
{
    return !fovea_plan_step(plan, 0, out);
}

static int output_info(void *out)
{
    return !fovea_plan_output(plan, 0, out);
}

static int memory(void *out)
{
    return fovea_memory_query(out);
}

static fovea_external_image_options picture_options(void)
{
    fovea_external_image_options o = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    o.kind = FOVEA_EXTERNAL_HOST;
    o.width = FIXTURE_WIDTH;
    o.height = FIXTURE_HEIGHT;
    o.plane[0].memory = fixture_pixels;
    return o;
}

static int imported_picture(void *out)
{
    const fovea_external_image_options o = picture_options();
    fovea_external_image *p;
    assert_int_equal(fovea_external_image_import(&p, device, &o), FOVEA_OK);
    const fovea_status status = fovea_external_image_query(p, out);
    fovea_external_image_free(p);
    return status;
}

static int mailbox_counts(void *out)
{
    fovea_mailbox *l;
    assert_int_equal(fovea_mailbox_create(&l, NULL), FOVEA_OK);
    const fovea_status status = fovea_mailbox_query(l, out);
    fovea_mailbox_free(l);
    return status;
}

static int tuned_plan(void *out)
{
    const fovea_plan_options o = plan_options();
    const fovea_tune_options how = tune_options();
    return fovea_tune(out, model, device, &o, &how);
}

static int tuned_accuracy(void *out)
{
    const fovea_plan_options o = plan_options();
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_tune_options how = tune_options();
    return fovea_tune_accuracy(out, model, device, &o, &frame, 1, 0.9, &how);
}

static int tuned_attention(void *out)
{
    const fovea_attention_options o = attention_options();
    const fovea_tune_options how = tune_options();
    return fovea_tune_attention(out, device, &o, &how);
}

static int tuned_gemm(void *out)
{
    const fovea_gemm_options o = gemm_options();
    const fovea_tune_options how = tune_options();
    return fovea_tune_gemm(out, device, &o, &how);
}

static int verified_step(void *out)
{
    fovea_trial *r;
    assert_int_equal(fovea_trial_open(&r, plan, 0, NULL), FOVEA_OK);
    const fovea_status status = fovea_trial_verify(r, out);
    fovea_trial_close(r);
    return status;
}

#ifdef HAVE_TRAIN
static fovea_trainer *trainer(void)
{
    const fovea_trainer_options o = trainer_options();
    fovea_trainer *t;
    if (fovea_trainer_create(&t, fixture_model, NULL, device, &o) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    return t;
}

static int trainer_info(void *out)
{
    fovea_trainer *t = trainer();
    const fovea_status status = fovea_trainer_query(t, out);
    fovea_trainer_free(t);
    return status;
}

/* A refused step has no effect. */
static int trainer_report(void *out)
{
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
    fovea_trainer *t = trainer();
    assert_int_equal(fovea_trainer_add(t, &frame, NULL), FOVEA_OK);
    const fovea_status status = fovea_trainer_step(t, out);
    assert_int_equal(fovea_trainer_query(t, &info), FOVEA_OK);
    assert_int_equal(info.step, status == FOVEA_OK);
    fovea_trainer_free(t);
    return status;
}
#endif

#define RESULT(fill, type, last, varies, INIT)                                                     \
    {                                                                                              \
#fill, fill, sizeof(type), offsetof(type, last), varies, #INIT                             \
    }

static const struct {
    const char *name;
    fill_fn *fill;
    size_t size, before_last;
    int varies; /* or contains pointers to freed memory */
    const char *init;
} results[] = {
    RESULT(device_info, fovea_device_info, int8, 0, FOVEA_DEVICE_INFO_INIT),
    RESULT(listed_device, fovea_device_info, int8, 0, FOVEA_DEVICE_INFO_INIT),
    RESULT(listed_kernel, fovea_kernel_info, usable, 0, FOVEA_KERNEL_INFO_INIT),
    RESULT(rates, fovea_rates, int8, 1, FOVEA_RATES_INIT),
    RESULT(model_info, fovea_model_info, mapped_bytes, 0, FOVEA_MODEL_INFO_INIT),
    RESULT(model_preprocess, fovea_preprocess, std, 0, FOVEA_PREPROCESS_INIT),
    RESULT(weights_cache, fovea_weights_cache_info, bytes, 0, FOVEA_WEIGHTS_CACHE_INFO_INIT),
    RESULT(loaded_wisdom, fovea_wisdom_info, skipped, 0, FOVEA_WISDOM_INFO_INIT),
    RESULT(imported_wisdom, fovea_wisdom_info, skipped, 0, FOVEA_WISDOM_INFO_INIT),
    RESULT(plan_info, fovea_plan_info, scale_y, 0, FOVEA_PLAN_INFO_INIT),
    RESULT(step_info, fovea_step_info, products, 0, FOVEA_STEP_INFO_INIT),
    RESULT(output_info, fovea_output_info, stride, 0, FOVEA_OUTPUT_INFO_INIT),
    RESULT(mailbox_counts, fovea_mailbox_info, late, 1, FOVEA_MAILBOX_INFO_INIT),
    RESULT(imported_picture, fovea_external_image_info, reason, 1, FOVEA_EXTERNAL_IMAGE_INFO_INIT),
    RESULT(memory, fovea_memory, allocations, 0, FOVEA_MEMORY_INIT),
    RESULT(tuned_plan, fovea_tune_report, tuned_seconds, 1, FOVEA_TUNE_REPORT_INIT),
    RESULT(tuned_accuracy, fovea_accuracy_report, mixed, 1, FOVEA_ACCURACY_REPORT_INIT),
    RESULT(tuned_attention, fovea_tune_report, tuned_seconds, 1, FOVEA_TUNE_REPORT_INIT),
    RESULT(tuned_gemm, fovea_tune_report, tuned_seconds, 1, FOVEA_TUNE_REPORT_INIT),
    RESULT(verified_step, fovea_kernel_check, text, 1, FOVEA_KERNEL_CHECK_INIT),
#ifdef HAVE_TRAIN
    RESULT(trainer_info, fovea_trainer_info, process, 1, FOVEA_TRAINER_INFO_INIT),
    RESULT(trainer_report, fovea_trainer_report, gradient_norm, 1, FOVEA_TRAINER_REPORT_INIT),
#endif
};

static int untouched(const uint8_t *s, size_t from)
{
    for (size_t i = from; i < CAPACITY; i++)
        if (s[i] != GARBAGE)
            return 0;
    return 1;
}

static void results_end_where_the_callers_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        union {
            size_t size;
            uint8_t byte[CAPACITY];
        } whole, part;
        const size_t size = results[i].size, less = results[i].before_last,
                     sizes[] = {less, size, size + BEYOND};
        memset(&whole, GARBAGE, sizeof whole);
        set_size(&whole, size);
        if (results[i].fill(&whole))
            fail_msg("%s: %s", results[i].name, fovea_error());
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            memset(&part, GARBAGE, sizeof part);
            set_size(&part, sizes[k]);
            if (results[i].fill(&part))
                fail_msg("%s, %zu bytes: %s", results[i].name, sizes[k], fovea_error());
            assert_int_equal(size_of(&part), sizes[k]);
            if (!untouched(part.byte, sizes[k] < size ? sizes[k] : size))
                fail_msg("%s writes behind %zu bytes", results[i].name, sizes[k]);
            const size_t known = (sizes[k] < size ? sizes[k] : size) - sizeof(size_t);
            if (!results[i].varies &&
                memcmp(part.byte + sizeof(size_t), whole.byte + sizeof(size_t), known) != 0)
                fail_msg("%s: other results in %zu bytes", results[i].name, sizes[k]);
        }
        memset(&part, GARBAGE, sizeof part);
        set_size(&part, 0);
        if (!results[i].fill(&part) || !strstr(fovea_error(), results[i].init) ||
            !untouched(part.byte, sizeof(size_t)))
            fail_msg("%s fills a struct without a size: %s", results[i].name, fovea_error());
    }
}

/* Results that are optional may be NULL. */
static void no_result_is_wanted(void **state)
{
    (void)state;
    assert_int_equal(loaded_wisdom(NULL), 0);
    assert_int_equal(imported_wisdom(NULL), 0);
    assert_int_equal(tuned_gemm(NULL), 0);
}

/* ---- options ---- */

typedef fovea_status use_fn(const void *options);

static fovea_status open_device(const void *options)
{
    fovea_device *d = NULL;
    const fovea_status status = fovea_device_open(&d, "cpu", options);
    fovea_device_close(d);
    return status;
}

static fovea_status import_picture(const void *options)
{
    fovea_external_image *p = NULL;
    const fovea_status status = fovea_external_image_import(&p, device, options);
    fovea_external_image_free(p);
    return status;
}

static fovea_status make_plan(const void *options)
{
    fovea_plan *p = NULL;
    const fovea_status status = fovea_plan_create(&p, model, device, options);
    fovea_plan_free(p);
    return status;
}

static fovea_status open_best(const void *options)
{
    fovea_device *d = NULL;
    const fovea_status status = fovea_device_open_best(&d, model, options, NULL);
    fovea_device_close(d);
    return status;
}

static fovea_status tune_plan(const void *options)
{
    const fovea_tune_options how = tune_options();
    return fovea_tune(NULL, model, device, options, &how);
}

static int first_step(const fovea_step_check *check, void *payload)
{
    (void)payload;
    assert_int_equal(check->struct_size, sizeof *check);
    return 1;
}

static fovea_status verify_model(const void *options)
{
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    return fovea_model_verify(model, device, options, &frame, first_step, NULL);
}

static fovea_status plan_with_rule(const void *rule)
{
    fovea_plan_options o = plan_options();
    o.preprocess = rule;
    return make_plan(&o);
}

static fovea_status apply_rule(const void *rule)
{
    uint8_t out[FIXTURE_HEIGHT * FIXTURE_WIDTH * 3];
    return fovea_preprocess_apply(rule, fixture_pixels, FIXTURE_WIDTH, FIXTURE_HEIGHT, out,
                                  FIXTURE_WIDTH, FIXTURE_HEIGHT);
}

static fovea_status resize_rule(const void *rule)
{
    return fovea_preprocess_resize((void *)(uintptr_t)rule, FIXTURE_WIDTH, FIXTURE_HEIGHT);
}

static fovea_status plan_attention(const void *options)
{
    fovea_plan *p = NULL;
    const fovea_status status = fovea_attention_plan_create(&p, device, options);
    fovea_plan_free(p);
    return status;
}

static fovea_status create_state(const void *options)
{
    fovea_state *s = NULL;
    const fovea_status status = fovea_state_create(&s, device, options);
    fovea_state_free(s);
    return status;
}

static fovea_status tune_attention(const void *options)
{
    const fovea_tune_options how = tune_options();
    return fovea_tune_attention(NULL, device, options, &how);
}

static fovea_status plan_gemm(const void *options)
{
    fovea_plan *p = NULL;
    const fovea_status status = fovea_gemm_plan_create(&p, device, options);
    fovea_plan_free(p);
    return status;
}

static fovea_status tune_gemm(const void *options)
{
    const fovea_tune_options how = tune_options();
    return fovea_tune_gemm(NULL, device, options, &how);
}

static fovea_status tune_as(const void *options)
{
    const fovea_gemm_options gemm = gemm_options();
    return fovea_tune_gemm(NULL, device, &gemm, options);
}

static fovea_status load_model(const void *options)
{
    fovea_model *m = NULL;
    const fovea_status status = fovea_model_load_with(&m, fixture_model, options);
    fovea_model_free(m);
    return status;
}

#ifdef HAVE_TRAIN
static fovea_status make_trainer(const void *options)
{
    fovea_trainer *t = NULL;
    const fovea_status status = fovea_trainer_create(&t, fixture_model, NULL, device, options);
    fovea_trainer_free(t);
    return status;
}
#endif

/* Options of an older caller end before `end`. The bytes after `end` are garbage that would be
 * refused, or crash, if the library read them. */
static void check_options(const char *name, use_fn *use, const void *options, size_t size,
                          size_t end, const char *init)
{
    union {
        size_t size;
        uint8_t byte[CAPACITY];
    } caller;
    memset(&caller, GARBAGE, sizeof caller);
    memcpy(&caller, options, end);
    set_size(&caller, end);
    if (use(&caller) != FOVEA_OK)
        fail_msg("%s of an older caller: %s", name, fovea_error());
    if (!untouched(caller.byte, end))
        fail_msg("%s of an older caller: written behind its end", name);
    memset(&caller, 0, sizeof caller);
    memcpy(&caller, options, size);
    set_size(&caller, size + BEYOND);
    if (use(&caller) != FOVEA_OK)
        fail_msg("%s of a newer caller: %s", name, fovea_error());
    caller.byte[size + BEYOND - 1] = 1;
    if (use(&caller) != FOVEA_EINVAL || !strstr(fovea_error(), "newer fields"))
        fail_msg("%s that this library does not know: %s", name, fovea_error());
    const size_t wrong[] = {0, 1, sizeof(size_t) - 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        set_size(&caller, wrong[i]);
        if (use(&caller) != FOVEA_EINVAL || !strstr(fovea_error(), init))
            fail_msg("%s of %zu bytes: %s", name, wrong[i], fovea_error());
    }
}

#define CHECK(use, options, end, INIT)                                                             \
    check_options(#use, use, &(options), sizeof(options),                                          \
                  (size_t)((const char *)&(options).end - (const char *)&(options)), #INIT)

static void options_begin_as_the_callers_do(void **state)
{
    (void)state;
    const fovea_device_options open = FOVEA_DEVICE_OPTIONS_INIT;
    const fovea_plan_options o = plan_options();
    fovea_plan_options whole = o;
    whole.dry = 0;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    const fovea_attention_options attention = attention_options();
    const fovea_gemm_options gemm = gemm_options();
    const fovea_tune_options tune = tune_options();
    CHECK(open_device, open, cache, FOVEA_DEVICE_OPTIONS_INIT);
    CHECK(open_device, open, thread_name, FOVEA_DEVICE_OPTIONS_INIT);
    CHECK(open_device, open, context, FOVEA_DEVICE_OPTIONS_INIT);
    const fovea_external_image_options picture = picture_options();
    CHECK(import_picture, picture, plane[2], FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT);
    const fovea_model_options as_it_is = FOVEA_MODEL_OPTIONS_INIT;
    CHECK(load_model, as_it_is, prefix, FOVEA_MODEL_OPTIONS_INIT);
    CHECK(make_plan, o, compute, FOVEA_PLAN_OPTIONS_INIT);
    CHECK(make_plan, o, weights, FOVEA_PLAN_OPTIONS_INIT);
    CHECK(open_best, o, compute, FOVEA_PLAN_OPTIONS_INIT);
    CHECK(tune_plan, o, compute, FOVEA_PLAN_OPTIONS_INIT);
    CHECK(verify_model, whole, compute, FOVEA_PLAN_OPTIONS_INIT);
    CHECK(plan_with_rule, rule, std, FOVEA_PREPROCESS_INIT);
    CHECK(apply_rule, rule, std, FOVEA_PREPROCESS_INIT);
    CHECK(resize_rule, rule, std, FOVEA_PREPROCESS_INIT);
    CHECK(plan_attention, attention, compute, FOVEA_ATTENTION_OPTIONS_INIT);
    CHECK(create_state, attention, schedule, FOVEA_ATTENTION_OPTIONS_INIT);
    CHECK(tune_attention, attention, schedule, FOVEA_ATTENTION_OPTIONS_INIT);
    CHECK(plan_gemm, gemm, compute, FOVEA_GEMM_OPTIONS_INIT);
    CHECK(tune_gemm, gemm, schedule, FOVEA_GEMM_OPTIONS_INIT);
    CHECK(tune_as, tune, payload, FOVEA_TUNE_OPTIONS_INIT);
#ifdef HAVE_TRAIN
    const fovea_trainer_options trained = trainer_options();
    CHECK(make_trainer, trained, labels, FOVEA_TRAINER_OPTIONS_INIT);
    CHECK(make_trainer, trained, prefix, FOVEA_TRAINER_OPTIONS_INIT);
#endif
}

static void attend(float out[12], const fovea_attention_options *o)
{
    float in[12];
    fovea_plan *p;
    for (int i = 0; i < 12; i++)
        in[i] = (float)i * 0.25f - 1;
    const fovea_matrix inputs[] = {{in, 0}, {in, 0}, {in, 0}};
    assert_int_equal(fovea_attention_plan_create(&p, device, o), FOVEA_OK);
    assert_int_equal(fovea_op_run(p, inputs, 3, (fovea_matrix){out, 0}), FOVEA_OK);
    fovea_plan_free(p);
}

/* Fields that an older caller lacks have their default value, which is not always 0. */
static void defaults_complete_options(void **state)
{
    (void)state;
    fovea_attention_options usual = attention_options(), older = attention_options();
    float want[12], got[12];
    usual.causal = 0;
    older.scale = 7;
    older.eps = 1;
    older.normalise = 0;
    older.struct_size = offsetof(fovea_attention_options, scale);
    attend(want, &usual);
    attend(got, &older);
    assert_memory_equal(got, want, sizeof want);
}

static int first_kernel(const fovea_kernel_check *check, void *payload)
{
    *(size_t *)payload = check->struct_size;
    return 1;
}

static void callbacks_get_the_librarys_size(void **state)
{
    (void)state;
    size_t size = 0;
    assert_int_equal(fovea_device_verify(device, "lerp", first_kernel, &size), FOVEA_OK);
    assert_int_equal(size, sizeof(fovea_kernel_check));
}

static int open_all(void **state)
{
    (void)state;
    const fovea_plan_options o = plan_options();
    fixture_draw();
    device = fixture_device(1);
    model = fixture_load();
    return fovea_plan_create(&plan, model, device, &o) != FOVEA_OK;
}

static int close_all(void **state)
{
    (void)state;
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_end_where_the_callers_do),
        cmocka_unit_test(no_result_is_wanted),
        cmocka_unit_test(options_begin_as_the_callers_do),
        cmocka_unit_test(defaults_complete_options),
        cmocka_unit_test(callbacks_get_the_librarys_size),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
