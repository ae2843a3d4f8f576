/* test_reference_steps.c: no plan leaves work to a reference kernel, or to a kernel that widens
 * bfloat16 on a processor that multiplies it: every family, at sizes that users run, with every
 * type of weights and products, on every level that this processor has. Plans are dry: nothing
 * runs.
 *
 * Kernels are missing one combination of types, epilogue and level at a time, and a plan takes the
 * reference then without a word: it is right, and a hundred times slower. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/plans.h>

/* Of a plan's estimated time, what all steps on references together may take: those that merge
 * partial sums, a row or a state each, have no other kernel. */
#define SHARE 0.005

static const char *const levels[] = {"avx2",        "avx-vnni",  "avx512",    "avx512-vnni",
                                     "avx512-bf16", "neon",      "neon-fp16", "neon-sdot",
                                     "neon-dot",    "neon-i8mm", "rvv"};

/* The smallest of each family, and of each head. */
static const char *const models[] = {
    "vit-ti16",        "deit-ti",           "dinov2-s",   "dinov2-s-reg", "dinov3-s",
    "beitv2-b16",      "ijepa-h14",         "owlv2-b16",  "clip-b32",     "siglip-b16",
    "mavit-t",         "nalaformer-xt",     "pola-pvt-t", "pola-swin-t",  "mavit-t-fpn",
    "mavit-t-upernet", "mavit-t-retinanet", "rf-detr-s",  "eomt-s",       "depth-anything-s",
    "vitpose-s",       "sam-b16",
};

static const struct {
    uint32_t width, height;
} sizes[] = {{224, 224}, {518, 518}, {1036, 1036}, {640, 480}};

static const struct {
    fovea_compute compute;
    fovea_dtype weights;
} types[] = {{FOVEA_COMPUTE_F32, FOVEA_DTYPE_F32},  {FOVEA_COMPUTE_BF16, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_INT8, FOVEA_DTYPE_F32}, {FOVEA_COMPUTE_F32, FOVEA_DTYPE_F16},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_BF16}, {FOVEA_COMPUTE_F32, FOVEA_DTYPE_I8},
             {FOVEA_COMPUTE_BF16, FOVEA_DTYPE_I8}};

#define OUTPUTS 8 /* of a model, the first ones: those of its heads */
#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), most = strlen(end);
    return length >= most && strcmp(text + length - most, end) == 0;
}

static unsigned plans, refused, faults;

static void fault(const char *what, const char *plan, const fovea_step_info *s, double share)
{
    faults++;
    if (faults <= 20)
        print_error("%s: step %s, %s, runs on %s, %s: %.1f %% of the estimate\n", plan, s->label,
                    s->problem, s->kernel, what, 100 * share);
}

/* The steps of a plan, which `name` describes. */
static void judge(const fovea_plan *p, const char *name, bool multiplies_bf16)
{
    double all = 0, referred = 0, share;
    fovea_step_info s = FOVEA_STEP_INFO_INIT, worst = FOVEA_STEP_INFO_INIT;
    for (size_t i = 0; fovea_plan_step(p, i, &s); i++)
        all += s.seconds;
    worst.seconds = -1;
    for (size_t i = 0; fovea_plan_step(p, i, &s); i++) {
        share = s.seconds / all;
        if (s.reference) {
            referred += share;
            if (s.seconds > worst.seconds)
                worst = s;
        } else if (multiplies_bf16 && s.products && strcmp(s.products, "bf16") == 0 &&
                   !ends_with(s.kernel, "_avx512_bf16") && !ends_with(s.kernel, "_neon_dot")) {
            fault("which widens bfloat16", name, &s, share);
        }
    }
    if (referred > SHARE)
        fault("a reference", name, &worst, referred);
}

static void plan_all(const fovea_model *m, fovea_device *d, const char *name, const char *level)
{
    const char *outputs[OUTPUTS];
    size_t n = 0;
    for (const char *output; n < OUTPUTS && (output = fovea_model_output(m, n)); n++)
        outputs[n] = output;
    const bool multiplies =
        ends_with(level, "-bf16") || ends_with(level, "-dot") || ends_with(level, "-i8mm");
    for (size_t k = 0; k < COUNT(sizes); k++)
        for (size_t t = 0; t < COUNT(types); t++) {
            char text[160];
            fovea_plan *p;
            fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
            o.frame.width = sizes[k].width;
            o.frame.height = sizes[k].height;
            o.compute = types[t].compute;
            o.weights = types[t].weights;
            o.outputs = outputs;
            o.n_outputs = n;
            o.dry = 1;
            snprintf(text, sizeof text, "%s %ux%u, compute %d, weights %d, %s", name, o.frame.width,
                     o.frame.height, (int)o.compute, (int)o.weights, level);
            const fovea_status status = fovea_plan_create(&p, m, d, &o);
            if (status != FOVEA_OK) { /* a size that the family does not take */
                refused++;
                continue;
            }
            plans++;
            judge(p, text, multiplies);
            fovea_plan_free(p);
        }
}

static void census(void **state)
{
    (void)state;
    unsigned have = 0;
    for (size_t i = 0; i < COUNT(models); i++) {
        char source[80];
        fovea_model *m;
        snprintf(source, sizeof source, "synthetic:%s", models[i]);
        const fovea_status loaded = fovea_model_load(&m, source);
        if (loaded != FOVEA_OK)
            fail_msg("%s: %s", source, fovea_error());
        for (size_t l = 0; l < COUNT(levels); l++) {
            fovea_device *d;
            fovea_device_options o = FOVEA_DEVICE_OPTIONS_INIT;
            o.isa = levels[l];
            o.threads = 4;
            if (fovea_device_open(&d, "cpu", &o) != FOVEA_OK)
                continue;
            plan_all(m, d, models[i], levels[l]);
            fovea_device_close(d);
            have++;
        }
        fovea_model_free(m);
    }
    print_message("%u plans on %u levels; %u more were refused\n", plans,
                  have / (unsigned)COUNT(models), refused);
    assert_true(plans > 4 * refused);
    if (faults)
        fail_msg("%u steps should run on other kernels", faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(census)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
