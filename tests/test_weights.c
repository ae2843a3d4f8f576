/* test_weights.c: packed weights are made once, shared by format and knobs, and freed with the
 * last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model.h"

static uint32_t packed_rows;

static size_t packed_size(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return sizeof(float) * p->dim[FV_GEMM_K] * p->dim[FV_GEMM_N] * (p->epi & FV_EPI_SWIGLU ? 2 : 1);
}

static void pack_plainly(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                         const fv_knobs *knobs)
{
    const size_t k = p->dim[FV_GEMM_K];
    (void)knobs;
    assert_int_equal(n0 % FV_COL_ALIGN, 0);
    memcpy((float *)dst + n0 * k, src, n * k * sizeof *src);
    if (p->epi & FV_EPI_SWIGLU)
        memcpy((float *)dst + (p->dim[FV_GEMM_N] + n0) * k, src + n * k, n * k * sizeof *src);
    packed_rows += n;
}

static void packed_weights_are_shared(void **state)
{
    static const fv_kernel_hooks hooks = {
        .packed = packed_size, .pack = pack_plainly, .format = "test"};
    static const fv_kernel kernel = {.name = "test", .hooks = &hooks};
    static const fv_kernel_hooks plain_hooks = {.packed = NULL};
    static const fv_kernel plain = {.name = "plain", .hooks = &plain_hooks};
    fovea_model *m = NULL;
    assert_int_equal(fovea_model_load(&m, "synthetic:dinov2-g"), FOVEA_OK);
    const fv_weight *w = &((fv_vit *)m->roles)->block[3].fc1_w;
    const fv_problem problem = {.epi = FV_EPI_SWIGLU, .dim = {1, w->rows / 2, w->cols}};
    const fv_knobs knobs = {{1, 2, 3, 4}}, others = {{0, 0, 0, 0}};
    fv_packed *a, *b, *c, *d, *e;
    (void)state;
    assert_int_equal(fv_packed_get(&a, m, w, &kernel, &problem, &knobs), FOVEA_OK);
    assert_int_equal(packed_rows, w->rows / 2);
    assert_int_equal(fv_packed_get(&b, m, w, &kernel, &problem, &knobs), FOVEA_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(packed_rows, w->rows / 2);
    assert_int_equal(fv_packed_get(&c, m, w, &kernel, &problem, &others), FOVEA_OK);
    assert_ptr_not_equal(a, c);
    assert_int_equal(fv_packed_get(&d, m, w, NULL, &problem, &knobs), FOVEA_OK);
    assert_int_equal(fv_packed_get(&e, m, w, &plain, &problem, &others), FOVEA_OK);
    assert_ptr_equal(d, e); /* plain rows, whatever the knobs */
    assert_int_equal(d->size, a->size);
    assert_memory_equal(a->data, d->data, (size_t)d->size);
    assert_int_equal(fv_packed_size(w, &kernel, &problem, &knobs), a->size);
    fv_packed_unref(m, a);
    fv_packed_unref(m, c);
    fv_packed_unref(m, d);
    fv_packed_unref(m, e);
    fv_model_ref(m);
    fovea_model_free(m); /* a plan would still hold it */
    fv_packed_unref(m, b);
    assert_null(m->packed);
    fv_model_unref(m);
    assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS) + fv_mem_tagged(FV_MEM_MODEL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed_weights_are_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
