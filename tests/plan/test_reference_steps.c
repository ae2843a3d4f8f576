/* test_reference_steps.c: tests that no plan uses a reference kernel, or a kernel that widens
 * bfloat16 on a processor that multiplies it.
 *
 * The test makes dry plans of every family at common sizes, with every type of weights and
 * products, for every instruction set of this processor. If a kernel lacks one combination of
 * types, epilogue and level, a plan silently uses the reference: correct, but a hundred times
 * slower. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "tests/plan/census.h"

static const char *const levels[] = {"avx2",        "avx-vnni",  "avx512",    "avx512-vnni",
                                     "avx512-bf16", "neon",      "neon-fp16", "neon-sdot",
                                     "neon-dot",    "neon-i8mm", "rvv"};
enum { LEVELS = sizeof levels / sizeof *levels };

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

/* Checks the steps of a plan on level `ctx`. Plans may use references that merge partial sums, one
 * row or state each, because these have no other kernel. `p` is NULL if the family does not support
 * the size. */
static void judge(void *ctx, const fovea_plan *p, const char *plan, const fovea_plan_options *o)
{
    const char *level = ctx;
    const bool multiplies =
        ends_with(level, "-bf16") || ends_with(level, "-dot") || ends_with(level, "-i8mm");
    double all = 0, referred = 0, share;
    fovea_step_info s = FOVEA_STEP_INFO_INIT, worst = FOVEA_STEP_INFO_INIT;
    (void)o;
    plans += p != NULL;
    refused += !p;
    for (size_t i = 0; p && fovea_plan_step(p, i, &s); i++)
        all += s.seconds;
    worst.seconds = -1;
    for (size_t i = 0; p && fovea_plan_step(p, i, &s); i++) {
        share = s.seconds / all;
        if (s.reference) {
            referred += share;
            if (s.seconds > worst.seconds)
                worst = s;
        } else if (multiplies && s.products && strcmp(s.products, "bf16") == 0 &&
                   !ends_with(s.kernel, "_avx512_bf16") && !ends_with(s.kernel, "_neon_dot")) {
            fault("which widens bfloat16", plan, &s, share);
        }
    }
    if (referred > CENSUS_SHARE)
        fault("a reference", plan, &worst, referred);
}

/* Makes all plans of a model; returns the number of levels. */
static unsigned plan_all(const fovea_model *m, const char *model)
{
    unsigned have = 0;
    for (size_t l = 0; l < LEVELS; l++) {
        char level[16], name[80];
        fovea_device *d;
        fovea_device_options o = FOVEA_DEVICE_OPTIONS_INIT;
        o.isa = levels[l];
        o.threads = 4;
        if (fovea_device_open(&d, "cpu", &o) != FOVEA_OK)
            continue;
        snprintf(level, sizeof level, "%s", levels[l]);
        snprintf(name, sizeof name, "%s on %s,", model, level);
        census_plans(m, d, name, (census_scope){.rows = 0}, judge, level);
        fovea_device_close(d);
        have++;
    }
    return have;
}

static void census(void **state)
{
    (void)state;
    unsigned have = 0;
    const char *model;
    for (size_t i = 0; (model = census_model(i)); i++) {
        char source[80];
        fovea_model *m;
        snprintf(source, sizeof source, "synthetic:%s", model);
        const fovea_status loaded = fovea_model_load(&m, source);
        if (loaded != FOVEA_OK)
            fail_msg("%s: %s", source, fovea_error());
        have = plan_all(m, model);
        fovea_model_free(m);
    }
    print_message("%u plans on %u levels; %u more were refused\n", plans, have, refused);
    assert_true(plans > 4 * refused);
    if (faults)
        fail_msg("%u steps should run on other kernels", faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(census)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
