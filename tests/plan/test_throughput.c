/* test_throughput.c: tests plans for throughput devices: whole models, in one piece, in
 * super-chunks, in buffers of limited size and with 16-bit rows, give the results of the CPU.
 *
 * By default it tests one model in seven; --every sets another stride.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/verification.h>

#include "tests/peek.h"
#include "tests/plan/fake_throughput.h"

#define GOLDEN TEST_DATA "/golden/models/"

static const struct subject {
    const char *model, *attention;
    uint32_t width, height;
    const char
        *chosen_from; /* output by whose scores, which are close together, queries are selected */
} subjects[] = {
    {GOLDEN "vit-01", NULL, 0, 0},
    {GOLDEN "dinov2-03", NULL, 131, 75},
    {GOLDEN "dinov2-03", "linear:elu1", 405, 275},
    {GOLDEN "dinov2-with-registers-03", "mala+softmax@0", 203, 150},
    {GOLDEN "dinov2-with-registers-03", "linear:exp", 345, 299},
    {GOLDEN "dinov2-with-registers-03", "softmax", 518, 392},
    {GOLDEN "dinov2-with-registers-03", "sla-nala", 203, 150},
    {GOLDEN "clip-vision-02", NULL, 0, 0},
    {GOLDEN "siglip-02", NULL, 0, 0},
    {GOLDEN "siglip-02", "pola", 300, 260},
    {"synthetic:mavit-t", NULL, 160, 96},
    {"synthetic:nalaformer-xt", NULL, 96, 160},
    {"synthetic:pola-pvt-t", NULL, 224, 224},
    {"synthetic:pola-swin-t", NULL, 224, 224},
    {"synthetic:pola-pvt-t", NULL, 96, 160},
    {"synthetic:pola-swin-t", NULL, 106, 75},
    {GOLDEN "timm-samvit-01", NULL, 133, 96},
    {GOLDEN "timm-samvit-01", "linear:elu1", 200, 180},
    {GOLDEN "swin-01", NULL, 37, 50},
    {GOLDEN "swin-02", NULL, 26, 18},
    {"synthetic:depth-anything-s", NULL, 42, 28},
    {"synthetic:vitpose-s", NULL, 48, 32},
    {GOLDEN "eomt-masked-01", NULL, 0, 0},
    {GOLDEN "mask2former-01", NULL, 42, 28},
    {GOLDEN "mask2former-02", "mala", 35, 49},
    {GOLDEN "mask2former-swin-01", NULL, 54, 70},
    {GOLDEN "upernet-swin-01", NULL, 71, 54},
    {GOLDEN "mask2former-mavit-01", NULL, 75, 51},
    {GOLDEN "rf-detr-02", NULL, 56, 42, "backbone_features"},
    {GOLDEN "rf-detr-02", "mala", 98, 84, "backbone_features"},
    {GOLDEN "rf-detr-seg-01", NULL, 56, 42, "backbone_features"},
    {GOLDEN "lw-detr-01", NULL, 56, 42, "backbone_features"},
    {GOLDEN "mavit-mask-rcnn-01", NULL, 80, 64, "stage1"},
    {GOLDEN "mavit-cascade-rcnn-01", NULL, 72, 50, "stage1"},
    {GOLDEN "yolos-01", NULL, 44, 29},
    {GOLDEN "yolos-01", "mala", 60, 32},
    {GOLDEN "alias-qwen2-5-vl-01", NULL, 60, 44},
    {GOLDEN "alias-glm-ocr-01", "linear:elu1", 44, 24},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };
static int stride = 7; /* tests every `stride`-th subject */

static void succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

enum { OUTPUTS = 64 };

/* One subject with some of its outputs, run on the CPU. */
struct trial {
    const struct subject *subject;
    fovea_model *model;
    fovea_plan_options options;
    const char *names[OUTPUTS];
    uint8_t *pixels;
    size_t values[OUTPUTS], outputs;
    float *want[OUTPUTS];
};

static uint64_t activations(const fovea_plan_info *i)
{
    return i->residual + i->states + i->chunks + i->scratch + i->staging;
}

/* Runs `plan`; the caller frees the outputs. */
static void run(float *out[OUTPUTS], struct trial *t, fovea_plan *plan)
{
    fovea_output outs[OUTPUTS];
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    for (t->outputs = 0; fovea_plan_output(plan, t->outputs, &info); t->outputs++) {
        t->values[t->outputs] = (size_t)info.rows * info.columns;
        out[t->outputs] = malloc(t->values[t->outputs] * sizeof(float));
        assert_non_null(out[t->outputs]);
        outs[t->outputs] = (fovea_output){out[t->outputs], t->values[t->outputs] * sizeof(float)};
    }
    const fovea_frame frame = {.pixels = {t->pixels}};
    succeed(fovea_run(plan, &frame, outs, t->outputs));
}

static void drop(float *out[OUTPUTS], const struct trial *t)
{
    for (size_t i = 0; i < t->outputs; i++)
        free(out[i]);
}

/* Begins a trial. `rounded` means that rows will have 16 bits, so that the order of scores may
 * change. */
static void begin(struct trial *t, const struct subject *s, bool all, bool rounded)
{
    const bool chosen = rounded && s->chosen_from;
    const fovea_plan_options none = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_options threads = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_device *cpu;
    fovea_plan *plan;
    memset(t, 0, sizeof *t);
    t->subject = s;
    succeed(fovea_model_load(&t->model, s->model));
    fovea_model_describe(t->model, &info);
    t->options = none;
    t->options.frame.width = s->width ? s->width : info.native_width;
    t->options.frame.height = s->height ? s->height : info.native_height;
    t->options.attention = s->attention;
    t->options.outputs = t->names;
    if (chosen)
        t->names[t->options.n_outputs++] = s->chosen_from;
    for (size_t i = 0; all && !chosen && i < OUTPUTS && fovea_model_output(t->model, i); i++)
        t->names[t->options.n_outputs++] = fovea_model_output(t->model, i);
    const size_t bytes = (size_t)t->options.frame.width * t->options.frame.height * 3;
    t->pixels = malloc(bytes);
    assert_non_null(t->pixels);
    uint32_t x = 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        t->pixels[i] = (uint8_t)((x >> 26) + (i % 303) / 2);
    }
    threads.threads = 2;
    succeed(fovea_device_open(&cpu, "cpu", &threads));
    succeed(fovea_plan_create(&plan, t->model, cpu, &t->options));
    run(t->want, t, plan);
    fovea_plan_free(plan);
    fovea_device_close(cpu);
}

static void end(struct trial *t)
{
    drop(t->want, t);
    free(t->pixels);
    fovea_model_free(t->model);
}

static void compare(const struct trial *t, float *const got[OUTPUTS], double bound)
{
    for (size_t k = 0; k < t->outputs; k++) {
        double top = 0, worst = 0;
        for (size_t i = 0; i < t->values[k]; i++) {
            const double want = (double)t->want[k][i], off = fabs((double)got[k][i] - want);
            top = fmax(top, fabs(want));
            worst = off <= worst ? worst : off; /* keeps NaN */
        }
        if (!(worst <= bound * top))
            fail_msg("%s, %s, output %zu: off by %g, largest value %g", t->subject->model,
                     t->subject->attention ? t->subject->attention : "its own", k, worst, top);
    }
}

/* Plans and runs the subject on a fake device and compares the outputs. */
static fake_account agree(struct trial *t, const fake_options *fake,
                          const fovea_plan_options *options, double bound, fovea_plan_info *info)
{
    fovea_device *device = fake_open(fake);
    fovea_plan *plan;
    float *got[OUTPUTS];
    const fovea_status status = fovea_plan_create(&plan, t->model, device, options);
    if (status != FOVEA_OK)
        fail_msg("%s, %s: %s", t->subject->model,
                 t->subject->attention ? t->subject->attention : "its own", fovea_error());
    fovea_plan_query(plan, info);
    for (int again = 0; again < 2;
         again++) { /* the second run shows whether the first frame affects the next one */
        run(got, t, plan);
        compare(t, got, bound);
        drop(got, t);
    }
    const fake_account seen = fake_seen(device);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return seen;
}

static void in_one_piece(void **state)
{
    (void)state;
    uint32_t parted = 0;
    for (int i = stride / 2; i < SUBJECTS; i += stride)
        for (int all = 0; all < 2; all++) {
            struct trial t;
            fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
            const fake_options fake = {0};
            begin(&t, &subjects[i], all, false);
            const fake_account seen = agree(&t, &fake, &t.options, 2e-5, &info);
            assert_int_equal(seen.cut, 0);
            parted += seen.parted;
            end(&t);
        }
    assert_true(parted > 10u / (unsigned)stride);
}

/* Chunks of odd sizes, larger than all rows, and chosen by the plan. */
static void in_super_chunks(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {0, 1, 64, 100};
    uint32_t cut = 0, parted = 0;
    for (int i = stride / 2; i < SUBJECTS; i += stride)
        for (size_t k = i % 2; k < sizeof chunks / sizeof *chunks; k += 2) {
            struct trial t;
            fovea_plan_info info = FOVEA_PLAN_INFO_INIT, whole = FOVEA_PLAN_INFO_INIT;
            const fake_options fake = {0};
            begin(&t, &subjects[i], k % 2, false);
            agree(&t, &fake, &t.options, 2e-5, &whole);
            t.options.chunk = chunks[k];
            t.options.schedule = k % 3 ? FOVEA_SCHEDULE_AUTO : FOVEA_SCHEDULE_STREAMED;
            const fake_account seen = agree(&t, &fake, &t.options, 2e-5, &info);
            if (chunks[k] && chunks[k] < info.tokens)
                assert_true(info.chunks < whole.chunks);
            cut += seen.cut;
            parted += seen.parted;
            end(&t);
        }
    assert_true(cut > 1000 && parted > 10);
}

/* Returns the next smaller buffer size to try; fast models take smaller steps. */
static uint64_t less(uint64_t bytes, const struct subject *s)
{
    return strncmp(s->model, "synthetic:", 10) == 0 ? bytes / 5 * 3 : bytes / 5 * 4;
}

/* Reduces the buffer size step by step to the smallest that a plan accepts. */
static void in_small_buffers(void **state)
{
    (void)state;
    uint32_t more = 0;
    for (int i = 5 % stride; i < SUBJECTS;
         i += stride) { /* includes the subject with many tokens */
        struct trial t;
        fovea_plan_info whole = FOVEA_PLAN_INFO_INIT, info = FOVEA_PLAN_INFO_INIT;
        fake_options fake = {0};
        begin(&t, &subjects[i], false, false);
        fake_account seen = agree(&t, &fake, &t.options, 2e-5, &whole);
        assert_true(seen.largest <= whole.largest);
        const uint32_t buffers = seen.buffers;
        for (fake.largest = whole.largest; fake.largest > 64;
             fake.largest = less(fake.largest, &subjects[i])) {
            fovea_device *device = fake_open(&fake);
            fovea_plan *plan;
            const fovea_status status = fovea_plan_create(&plan, t.model, device, &t.options);
            if (status == FOVEA_OK)
                fovea_plan_free(plan);
            fovea_device_close(device);
            if (status != FOVEA_OK) {
                assert_int_equal(status, FOVEA_ENOMEM);
                assert_non_null(strstr(fovea_error(), "hold at most"));
                break;
            }
            seen = agree(&t, &fake, &t.options, 2e-5, &info);
            assert_true(info.largest <= fake.largest && seen.largest <= fake.largest);
            more += seen.buffers > buffers;
        }
        end(&t);
    }
    assert_true(more > 0);
}

/* A plan stays within the memory limit by streaming, if all rows at once exceed it, or else fails.
 */
static void in_little_memory(void **state)
{
    (void)state;
    uint32_t cut = 0;
    for (int i = stride / 2; i < SUBJECTS; i += stride)
        for (int own = 0; own < 2; own++) { /* 0: the caller's limit; 1: the device's memory */
            struct trial t;
            fovea_plan_info whole = FOVEA_PLAN_INFO_INIT, info = FOVEA_PLAN_INFO_INIT;
            fake_options fake = {0};
            begin(&t, &subjects[i], false, false);
            agree(&t, &fake, &t.options, 2e-5, &whole);
            uint64_t limit = activations(&whole) - 1;
            for (;; limit = less(limit, &subjects[i])) {
                fovea_device *device;
                fovea_plan *plan;
                fovea_plan_options options = t.options;
                fake.memory = own ? limit + whole.weights : 0;
                options.memory_limit = own ? 0 : limit;
                options.dry = 1;
                device = fake_open(&fake);
                const fovea_status status = fovea_plan_create(&plan, t.model, device, &options);
                if (status == FOVEA_OK)
                    fovea_plan_free(plan);
                fovea_device_close(device);
                if (status != FOVEA_OK) {
                    assert_int_equal(status, FOVEA_ENOMEM);
                    assert_non_null(strstr(fovea_error(), own ? "the device has" : "the limit is"));
                    break;
                }
                options.dry = 0;
                cut += agree(&t, &fake, &options, 2e-5, &info).cut;
                assert_true(activations(&info) <= limit);
            }
            end(&t);
        }
    assert_true(cut > 1000);
}

/* 16-bit rows give results close to float32 in less memory, in one piece and in chunks. */
static void in_half_the_bits(void **state)
{
    (void)state;
    static const struct {
        fovea_dtype type;
        double bound;
    } types[] = {{FOVEA_DTYPE_F16, 5e-3}, {FOVEA_DTYPE_BF16, 4e-2}};
    for (int i = stride / 2; i < SUBJECTS; i += stride) {
        fovea_plan_info floats[2] = {FOVEA_PLAN_INFO_INIT, FOVEA_PLAN_INFO_INIT};
        for (int k = 0; k < 4; k++) {
            struct trial t;
            fovea_plan_info info = FOVEA_PLAN_INFO_INIT, *whole = &floats[k % 2];
            const fake_options fake = {0};
            begin(&t, &subjects[i], k % 2, true);
            t.options.chunk = k % 2 ? 100 : 0;
            if (k < 2)
                agree(&t, &fake, &t.options, 2e-5, whole);
            t.options.activations = types[k / 2].type;
            agree(&t, &fake, &t.options, types[k / 2].bound, &info);
            assert_true(info.chunks < whole->chunks && info.residual <= whole->residual);
            if (t.options.attention && strcmp(t.options.attention, "softmax") == 0)
                assert_true(info.residual < whole->residual); /* K and V */
            end(&t);
        }
    }
}

static int right_kernel(const fovea_kernel_check *check, void *payload)
{
    (void)payload;
    if (check->failed || !check->cases)
        fail_msg("%s: %s: %s", check->kernel, check->cases ? check->problem : "not reached",
                 check->text);
    return 0;
}

static int right_step(const fovea_step_check *check, void *payload)
{
    size_t *steps = payload;
    if (!check->passed || check->nonfinite)
        fail_msg("%s by %s: %s", check->label, check->kernel, check->text);
    ++*steps;
    return 0;
}

/* Verification of kernels and models also works if calls distribute rows to partial states, with
 * 16-bit rows and with int8 weights. */
static void verified(void **state)
{
    (void)state;
    const fake_options fake = {0};
    fovea_device *device = fake_open(&fake);
    assert_int_equal(fovea_device_verify(device, "_ref", right_kernel, NULL), FOVEA_OK);
    for (int type = FOVEA_DTYPE_F16; type <= FOVEA_DTYPE_I8; type++) {
        struct trial t;
        size_t steps = 0;
        begin(&t, &subjects[3], false, false);
        if (type == FOVEA_DTYPE_I8)
            t.options.weights = FOVEA_DTYPE_I8;
        else
            t.options.activations = (fovea_dtype)type;
        const fovea_frame frame = {.pixels = {t.pixels}};
        if (fovea_model_verify(t.model, device, &t.options, &frame, right_step, &steps))
            fail_msg("%s", fovea_error());
        assert_true(steps > 20);
        end(&t);
    }
    fovea_device_close(device);
}

/* A plan keeps its device, and the packed weights in device memory, until it is freed. */
static void closed_before_its_plan(void **state)
{
    (void)state;
    bool closed = false;
    const fake_options fake = {.closed = &closed};
    fovea_device *device = fake_open(&fake);
    fovea_plan *plan, *other;
    struct trial t;
    float *got[OUTPUTS];
    begin(&t, &subjects[3], false, false);
    succeed(fovea_plan_create(&plan, t.model, device, &t.options));
    succeed(fovea_plan_create(&other, t.model, device, &t.options));
    fovea_device_close(device);
    fovea_plan_free(plan);
    assert_false(closed);
    run(got, &t, other);
    compare(&t, got, 2e-5);
    drop(got, &t);
    fovea_plan_free(other);
    assert_true(closed);
    end(&t);
}

/* Resetting a state fails if the device is lost. */
static void reset_of_a_lost_device(void **state)
{
    (void)state;
    bool lost = true;
    const fake_options fake = {.lost = &lost};
    fovea_device *device = fake_open(&fake);
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    fovea_state *s = NULL;
    o.attention = "retention";
    o.causal = 1;
    o.rows = 4;
    o.heads = 2;
    o.head_dim = o.value_dim = 8;
    o.normalise = 0;
    assert_int_equal(fovea_state_create(&s, device, &o), FOVEA_EDEVICE);
    assert_null(s);
    lost = false;
    succeed(fovea_state_create(&s, device, &o));
    succeed(fovea_state_reset(s));
    lost = true;
    assert_int_equal(fovea_state_reset(s), FOVEA_EDEVICE);
    fovea_state_free(s);
    fovea_device_close(device);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--every") == 0 && atoi(argv[2]) > 0)
        stride = atoi(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_piece),           cmocka_unit_test(in_super_chunks),
        cmocka_unit_test(in_small_buffers),       cmocka_unit_test(in_little_memory),
        cmocka_unit_test(in_half_the_bits),       cmocka_unit_test(verified),
        cmocka_unit_test(closed_before_its_plan), cmocka_unit_test(reset_of_a_lost_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
