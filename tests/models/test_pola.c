/* test_pola.c: tests the published sizes of Pola-PVT and Pola-Swin: their parameters, their
 * preprocessing, and failing allocations in loading and planning. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "base/mem.h"

static void published_sizes(void **state)
{
    static const struct {
        const char *name;
        double millions; /* as published; 0: not published */
        uint32_t side, edge, crop;
    } cases[] = {
        {"pola-swin-t", 29.29, 224, 256, 224}, {"pola-swin-s", 50.60, 224, 256, 224},
        {"pola-swin-b", 89.14, 224, 256, 224}, {"pola-swin-b384", 0, 384, 384, 0},
        {"pola-pvt-t", 12.92, 224, 256, 224},  {"pola-pvt-s", 23.16, 224, 256, 224},
        {"pola-pvt-m", 39.97, 224, 256, 224},  {"pola-pvt-l", 54.37, 224, 256, 224},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        fovea_model *m = NULL;
        fovea_model_info info = FOVEA_MODEL_INFO_INIT;
        snprintf(path, sizeof path, "synthetic:%s", cases[i].name);
        if (fovea_model_load(&m, path) != FOVEA_OK)
            fail_msg("%s: %s", path, fovea_error());
        fovea_model_describe(m, &info);
        const double millions = (double)info.parameters * 1e-6;
        if (cases[i].millions > 0 && fabs(millions - cases[i].millions) > 0.005)
            fail_msg("%s has %.4fM parameters, not %.2fM", path, millions, cases[i].millions);
        fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
        const fovea_preprocess *p = &rule;
        fovea_model_preprocess(m, &rule);
        assert_int_equal(info.native_width, cases[i].side);
        assert_int_equal(info.classes, 1000);
        assert_int_equal(p->resize, FOVEA_RESIZE_EXACT);
        assert_int_equal(p->filter, FOVEA_FILTER_BICUBIC);
        assert_int_equal(p->resize_width, cases[i].edge);
        assert_int_equal(p->resize_height, cases[i].edge);
        assert_int_equal(p->crop_width, cases[i].crop);
        assert_int_equal(p->crop_height, cases[i].crop);
        fovea_model_free(m);
    }
    assert_int_equal(fv_mem_tagged(FV_MEM_MODEL), 0);
}

static fovea_status load_and_plan(fovea_device *device, const char *name)
{
    fovea_model *model = NULL;
    fovea_plan *plan = NULL;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = 106; /* another size than that of the tables */
    o.frame.height = 75;
    o.dry = 1;
    fovea_status status = fovea_model_load(&model, name);
    if (status == FOVEA_OK)
        status = fovea_plan_create(&plan, model, device, &o);
    fovea_plan_free(plan);
    fovea_model_free(model);
    return status;
}

/* A synthetic model has hundreds of tensors, each of which makes the same allocations. So only
 * every tenth allocation is made to fail, except in the last 120, where each one is. */
static void fail_each(const char *name)
{
    fovea_device *device = NULL;
    assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
    fv_mem_fail_at(0);
    if (load_and_plan(device, name) != FOVEA_OK)
        fail_msg("%s: %s", name, fovea_error());
    const uint64_t made = fv_mem_fail_at(0);
    assert_true(made > 100);
    for (uint64_t n = 1; n <= made; n += n + 120 > made ? 1 : 10) {
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_memory_query(&before);
        fv_mem_fail_at(n);
        const fovea_status status = load_and_plan(device, name);
        fv_mem_fail_at(0);
        fovea_memory_query(&after);
        if (status != FOVEA_ENOMEM)
            fail_msg("%s, allocation %u: %s", name, (unsigned)n, fovea_status_text(status));
        assert_true(strlen(fovea_error()) > 10);
        assert_int_equal(after.current, before.current);
    }
    fovea_device_close(device);
}

static void memory_runs_out(void **state)
{
    (void)state;
    fail_each("synthetic:pola-swin-t");
    fail_each("synthetic:pola-pvt-t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sizes),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
