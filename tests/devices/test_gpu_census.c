/* test_gpu_census.c: no plan for a GPU leaves work to a kernel that is slow where a faster one
 * exists: every family, at sizes that users run, with every type of weights, rows and products, on
 * OpenCL devices that pass for GPUs of several kinds, or on the CUDA device that there is.
 *
 *   test_gpu_census cl:0        the device as it is, and every profile of gpu_profile.h
 *   test_gpu_census cuda:0
 *
 * Kernels are missing one combination of types, epilogue and device at a time, and a plan takes a
 * general one then silently: it is right, and several times slower. Slow are
 *
 * kernels in which a work-item computes a row by itself: those of `scalar` below;
 *
 * general kernels, which work neither by tiles of local memory, subgroups or images nor by vectors
 * of processors, where the device has such a kernel of the op, of any precision, and all that do
 * without tensor cores where there is one that has them;
 *
 * no kernel at all: a plan that the device refuses and the CPU does not.
 *
 * Plans are dry: nothing is compiled or run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/contracts/product.h"
#include "tests/devices/gpu_profile.h"
#include "tests/peek.h"
#include "tests/plan/census.h"

/* Kernels in which a work-item computes a whole row, or everything that a number of the result
 * depends on, one number at a time, by name without the interface's; and why there is no other. All
 * of a plan's steps on them together may take CENSUS_SHARE. Kernels whose neighbouring work-items
 * read neighbouring numbers, each once, are not listed: a tile would not make them faster. */
static const struct {
    const char *kernel, *why;
} scalar[] = {
    {"row_max", "a row of scores for each query, once a frame"},
    {"topk", "compares some thousand numbers, once a frame"},
    {"gates", "a row of as many numbers as there are heads"},
    {"map_merge", "a row for each partial sum, of one query"},
    {"resize_x", "a pixel's three bytes under a few taps"},
    {"scan_step", "recurrent, token by token, where a plan asks for that"},
};
enum { SCALARS = sizeof scalar / sizeof *scalar };

/* Ranks of kernels by the device features that they use. Kernels for tensor cores that only support
 * float16 rank as tiled, because most problems are not in float16. */
enum rank { GENERAL, TILED, TENSOR };

static enum rank rank_of(const fv_kernel *k)
{
    const uint32_t tiled =
        FV_NEED_CL_LOCAL | FV_NEED_CL_SUBGROUPS | FV_NEED_CL_IMAGE_FIRST | FV_NEED_CUDA_MMA_F16;
    if (k->needs & FV_NEED_CUDA_MMA)
        return TENSOR;
    return k->needs & tiled || strstr(k->name, "_tile_") || strstr(k->name, "_local_") ? TILED
                                                                                       : GENERAL;
}

/* Kernels that are accepted in spite of kernels with a higher rank, by the beginning of their name,
 * with the reason. */
static const struct {
    const char *kernel;
    enum rank rank; /* rank of the kernels that it is accepted in spite of */
    const char *why;
} excused[] = {
    {"gemm_w8_", TENSOR, "no tensor core multiplies weights that are stored as int8"},
};

typedef struct census {
    fovea_device *device, *cpu;
    const fovea_model *model;
    unsigned plans, refused, faults, found[SCALARS];
    double most[SCALARS]; /* share of a plan's estimated time */
} census;

#define FAULTS_SHOWN 20u
/* Products of so few rows fill a quarter of a 64 x 64 tile at most; the thin kernels are for them.
 */
#define FEW_ROWS 16

static void fault(census *c, const char *plan, const char *text, const char *kernel, double share)
{
    if (c->faults++ < FAULTS_SHOWN)
        print_error("%s: %s: %s, %.1f %% of the estimate\n", plan, kernel, text, 100 * share);
}

/* Returns the index of a kernel in `scalar`, or SCALARS if it is not listed. */
static size_t scalar_of(const fv_kernel *k)
{
    size_t i = 0;
    for (; i < SCALARS; i++) {
        const size_t n = strlen(scalar[i].kernel);
        if (strncmp(k->name, scalar[i].kernel, n) == 0 && k->name[n] == '_')
            break;
    }
    return i;
}

static bool is_excused(const fv_kernel *k, enum rank rank)
{
    for (size_t i = 0; i < sizeof excused / sizeof *excused; i++)
        if (strncmp(k->name, excused[i].kernel, strlen(excused[i].kernel)) == 0 &&
            excused[i].rank == rank)
            return true;
    return false;
}

/* Returns whether a product has too few 64 x 64 tiles to keep a GPU busy (fv_gpu_gemm_idle). A plan
 * may then choose a kernel of a lower rank by its cost. */
static bool is_small(const fv_problem *p)
{
    const uint32_t down = (p->dim[FV_DIM_ROWS] + 63) / 64, across = (p->dim[FV_GEMM_N] + 63) / 64;
    return (p->op == FV_OP_GEMM || p->op == FV_OP_CONV) && (uint64_t)down * across < 24;
}

/* Returns a kernel of the step's op with a higher rank that the device supports, or NULL. */
static const fv_kernel *faster(const census *c, const fv_step *s, const fv_kernel *own)
{
    const fv_kernel *found = NULL;
    int count;
    uint32_t features;
    if (s->prob.dim[FV_DIM_ROWS] <= FEW_ROWS && strstr(own->name, "_thin"))
        return NULL;
    const fv_kernel *k = c->device->backend->kernels(c->device->device, &count, &features);
    for (const fv_kernel *end = k + count; k < end; k++) {
        const bool same =
            k->op == s->prob.op && (k->mech == FV_MECH_ANY || k->mech == s->prob.mech);
        if (!same || k->needs & ~features || rank_of(k) <= rank_of(own) ||
            is_excused(own, rank_of(k)))
            continue;
        if (is_small(&s->prob) && fv_kernel_fits(k, &s->prob, features))
            return NULL;
        found = k;
    }
    return found;
}

static void judge_steps(census *c, const fovea_plan *p, const char *plan)
{
    double all = 0, slow = 0, alone = 0, share[SCALARS] = {0};
    const fv_step *worst = NULL, *worst_alone = NULL;
    for (uint32_t i = 0; i < p->graph.steps; i++)
        all += p->graph.step[i].dead ? 0 : p->chosen.step[i].seconds;
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        const fv_step_plan *sp = &p->chosen.step[i];
        const size_t number = s->dead ? SCALARS : scalar_of(sp->kernel);
        if (number < SCALARS) {
            share[number] += sp->seconds / all;
            alone += sp->seconds / all;
            if (!worst_alone || sp->seconds > fv_plan_of_step(p, worst_alone)->seconds)
                worst_alone = s;
        } else if (!s->dead && faster(c, s, sp->kernel)) {
            slow += sp->seconds / all;
            if (!worst || sp->seconds > fv_plan_of_step(p, worst)->seconds)
                worst = s;
        }
    }
    for (size_t i = 0; i < SCALARS; i++) {
        c->found[i] += share[i] > 0;
        c->most[i] = share[i] > c->most[i] ? share[i] : c->most[i];
    }
    if (alone > CENSUS_SHARE)
        fault(c, plan, worst_alone->label, fv_plan_of_step(p, worst_alone)->kernel->name, alone);
    if (slow > CENSUS_SHARE) {
        const fv_kernel *own = fv_plan_of_step(p, worst)->kernel;
        char text[160];
        snprintf(text, sizeof text, "%s, in place of one like %s", worst->label,
                 faster(c, worst, own)->name);
        fault(c, plan, text, own->name, slow);
    }
}

/* The CPU may store rows of activations in other types than requested. */
static bool cpu_plans(const census *c, const fovea_plan_options *options)
{
    fovea_plan *p;
    fovea_plan_options o = *options;
    o.activations = FOVEA_DTYPE_F32;
    const fovea_status status = fovea_plan_create(&p, c->model, c->cpu, &o);
    if (status == FOVEA_OK)
        fovea_plan_free(p);
    return status == FOVEA_OK;
}

static void judge(void *ctx, const fovea_plan *p, const char *plan, const fovea_plan_options *o)
{
    census *c = ctx;
    if (p) {
        c->plans++;
        judge_steps(c, p, plan);
        return;
    }
    char why[256];
    snprintf(why, sizeof why, "%s", fovea_error());
    c->refused++;
    if (cpu_plans(c, o))
        fault(c, plan, why, "no plan", 1);
}

static void look_at_models(census *c, const char *kind, census_scope scope)
{
    const char *model;
    for (size_t i = 0; (model = census_model(i)); i++) {
        char name[80];
        fovea_model *m;
        snprintf(name, sizeof name, "synthetic:%s", model);
        if (fovea_model_load(&m, name) != FOVEA_OK)
            fail_msg("%s: %s", name, fovea_error());
        snprintf(name, sizeof name, "%s on %s,", model, kind);
        c->model = m;
        census_plans(m, c->device, name, scope, judge, c);
        fovea_model_free(m);
    }
}

static const char *device_id;

static bool is_cl(void)
{
    return strncmp(device_id, "cl", 2) == 0;
}

static void open_devices(census *c)
{
    if (fovea_device_open(&c->device, device_id, NULL) != FOVEA_OK) {
        print_message("skipped: %s\n", fovea_error());
        skip();
    }
    assert_int_equal(fovea_device_open(&c->cpu, "cpu", NULL), FOVEA_OK);
}

static void close_devices(census *c)
{
    fovea_device_close(c->cpu);
    fovea_device_close(c->device);
}

static void no_slow_kernels(void **state)
{
    (void)state;
    census c = {.plans = 0};
    const gpu_profile *profile;
    open_devices(&c);
    look_at_models(&c, device_id, (census_scope){.rows = 1});
    for (size_t i = 0; is_cl() && (profile = gpu_profile_at(i)); i++) {
        gpu_pretend(c.device, profile);
        look_at_models(&c, profile->name, (census_scope){.rows = 1, .sizes = 2});
    }
    close_devices(&c);
    for (size_t i = 0; i < SCALARS; i++)
        if (c.found[i])
            print_message("%-17s in %u plans, at most %.3f %%: %s\n", scalar[i].kernel, c.found[i],
                          100 * c.most[i], scalar[i].why);
    print_message("%u plans; %u more were refused\n", c.plans, c.refused);
    assert_true(c.plans > 4 * c.refused);
    if (c.faults)
        fail_msg("%u plans leave work to slow kernels", c.faults);
}

/* ---- planted faults ---- */

/* The device's kernels except those whose names begin with `without`. */
static const fv_backend *whole;
static const char *without;
static fv_kernel *left;

static const fv_kernel *kernels_left(fv_device *d, int *count, uint32_t *features)
{
    int all, n = 0;
    const fv_kernel *k = whole->kernels(d, &all, features);
    left = left ? left : calloc((size_t)all, sizeof *left);
    assert_non_null(left);
    for (int i = 0; i < all; i++)
        if (strncmp(k[i].name, without, strlen(without)) != 0)
            left[n++] = k[i];
    *count = n;
    return left;
}

static void expect_faults(census *c, const char *removed)
{
    fv_backend fewer = *c->device->backend;
    whole = c->device->backend;
    without = removed;
    fewer.kernels = kernels_left;
    c->device->backend = &fewer;
    c->faults = FAULTS_SHOWN; /* prints no further messages */
    fovea_model *m;
    assert_int_equal(fovea_model_load(&m, "synthetic:vit-ti16"), FOVEA_OK);
    c->model = m;
    census_plans(m, c->device, "planted", (census_scope){.rows = 1, .sizes = 1}, judge, c);
    fovea_model_free(m);
    c->device->backend = whole;
    free(left);
    left = NULL;
    if (c->faults == FAULTS_SHOWN)
        fail_msg("nobody missed %s", removed);
}

/* The census reports missing kernels: of one type, of one rank, and of a whole op. */
static void missing_kernels(void **state)
{
    (void)state;
    census c = {.plans = 0};
    open_devices(&c);
    if (is_cl())
        gpu_pretend(c.device, gpu_profile_named("adreno"));
    int count;
    uint32_t features;
    c.device->backend->kernels(c.device->device, &count, &features);
    const bool tensor = features & FV_NEED_CUDA_MMA;
    expect_faults(&c, tensor ? "gemm_bf16_mma_" : "gemm_bf16_tile_");
    expect_faults(&c, tensor ? "gemm_f32_mma_" : "softmax_local_");
    expect_faults(&c, "layernorm_");
    close_devices(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_slow_kernels),
                                       cmocka_unit_test(missing_kernels)};
    device_id = argc > 1 ? argv[1] : "cl:0";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
