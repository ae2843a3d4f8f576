/* test_weights.c: tests that packed weights are made once, shared by format and knobs, and freed
 * with the last user; and that 16-bit types represent a value or refuse it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "models/model.h"
#include "models/vit/vit.h"
#include "ops/contracts/product.h"
#include "platform/cpu/cpu_backend.h"
#include "weights/packed.h"

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
    const fv_weight *w = &((fv_vit *)m->roles)->block[3].fc1.w;
    const fv_problem problem = {.epi = FV_EPI_SWIGLU, .dim = {1, w->rows / 2, w->cols}};
    const fv_knobs knobs = {{1, 2, 3, 4}}, others = {{0, 0, 0, 0}};
    fv_packed *a, *b, *c, *d, *e;
    (void)state;
    assert_int_equal(fv_packed_get(&a, &m->shared, NULL, false, w, &kernel, &problem, &knobs),
                     FOVEA_OK);
    assert_int_equal(packed_rows, w->rows / 2);
    assert_int_equal(fv_packed_get(&b, &m->shared, NULL, false, w, &kernel, &problem, &knobs),
                     FOVEA_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(packed_rows, w->rows / 2);
    assert_int_equal(fv_packed_get(&c, &m->shared, NULL, false, w, &kernel, &problem, &others),
                     FOVEA_OK);
    assert_ptr_not_equal(a, c);
    assert_int_equal(fv_packed_get(&d, &m->shared, NULL, false, w, NULL, &problem, &knobs),
                     FOVEA_OK);
    assert_int_equal(fv_packed_get(&e, &m->shared, NULL, false, w, &plain, &problem, &others),
                     FOVEA_OK);
    assert_ptr_equal(d, e); /* unpacked rows do not depend on the knobs */
    assert_int_equal(d->size, a->size);
    assert_memory_equal(a->data, d->data, (size_t)d->size);
    assert_int_equal(fv_packed_size(w, &kernel, &problem, &knobs), a->size);
    fv_packed_unref(&m->shared, a);
    fv_packed_unref(&m->shared, c);
    fv_packed_unref(&m->shared, d);
    fv_packed_unref(&m->shared, e);
    fv_model_ref(m);
    fovea_model_free(m); /* a plan would still hold it */
    fv_packed_unref(&m->shared, b);
    assert_null(m->shared.packed);
    fovea_model_free(m);
    assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS) + fv_mem_tagged(FV_MEM_MODEL), 0);
}

/* Returns the kernel with that name. */
static const fv_kernel *kernel_named(const char *name)
{
    int count;
    const fv_kernel *list = fv_cpu_kernels(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

enum { ROWS = 70, COLS = 37 };

static fv_problem product(enum fv_op op, enum fv_type weight)
{
    return (fv_problem){.op = (uint16_t)op, .weight = (uint8_t)weight, .dim = {5, ROWS, COLS}};
}

static void formats_are_separate(void **state)
{
    static const fv_knobs knobs = {{0}};
    static float numbers[ROWS * COLS];
    const fv_tensor tensor = fv_tensor_of_floats(numbers, ROWS, COLS);
    const fv_weight w = fv_weight_of(&tensor, ROWS, COLS);
    static const struct {
        const char *gemm, *conv;
        enum fv_type type;
    } kernel[] = {{"gemm_f32_2x16_c", "conv_f32_2x16_c", FV_F32},
                  {"gemm_f16_2x16_c", "conv_f16_2x16_c", FV_F16},
                  {"gemm_bf16_2x16_c", "conv_bf16_2x16_c", FV_BF16}};
    fv_packed *gemm[3], *conv[3], *plain[3];
    fovea_model *m;
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++)
        numbers[i] = (float)(i % 97) / 64 - 0.7f;
    assert_int_equal(fv_model_blank(&m), FOVEA_OK);
    for (int i = 0; i < 3; i++) {
        const fv_problem g = product(FV_OP_GEMM, kernel[i].type);
        const fv_problem c = product(FV_OP_CONV, kernel[i].type);
        fv_weight rows = w;
        rows.type = (uint8_t)kernel[i].type;
        assert_int_equal(fv_packed_get(&gemm[i], &m->shared, NULL, false, &w,
                                       kernel_named(kernel[i].gemm), &g, &knobs),
                         FOVEA_OK);
        assert_int_equal(fv_packed_get(&conv[i], &m->shared, NULL, false, &w,
                                       kernel_named(kernel[i].conv), &c, &knobs),
                         FOVEA_OK);
        assert_int_equal(fv_packed_get(&plain[i], &m->shared, NULL, false, &rows, NULL, &g, &knobs),
                         FOVEA_OK);
        assert_ptr_equal(gemm[i], conv[i]); /* a convolution shares them */
        assert_int_equal(plain[i]->size, ROWS * COLS * fv_type_size(kernel[i].type));
        for (int k = 0; k < i; k++) {
            assert_ptr_not_equal(gemm[i], gemm[k]);
            assert_ptr_not_equal(plain[i], plain[k]);
        }
        for (int at = 0; at < ROWS * COLS; at++) {
            uint16_t rounded[2]; /* large enough for both sizes */
            fv_value_put(rounded, kernel[i].type, 0, numbers[at]);
            assert_memory_equal((char *)plain[i]->data + at * fv_type_size(kernel[i].type), rounded,
                                fv_type_size(kernel[i].type));
        }
    }
    assert_int_equal(gemm[0]->size, 2 * gemm[1]->size);
    assert_int_equal(gemm[1]->size, gemm[2]->size);
    for (int i = 0; i < 3; i++) {
        fv_packed_unref(&m->shared, gemm[i]);
        fv_packed_unref(&m->shared, conv[i]);
        fv_packed_unref(&m->shared, plain[i]);
    }
    assert_null(m->shared.packed);
    fovea_model_free(m);
}

/* Compares a transposed convolution by definition with the product of fv_weight_deconv(): each
 * pixel's block is computed from the pixels around it and stored as in ref_pixel_shuffle.c. */
static void compare_deconv(uint32_t stride, uint32_t reach)
{
    enum { WIDE = 3, HIGH = 2, CHANNELS = 3, OUT = 2, MOST = CHANNELS * OUT * 16 };
    const int size = (int)(stride * reach), pad = reach == 2, s = (int)stride, n = (int)reach;
    float filter[MOST], x[HIGH][WIDE][CHANNELS], row[4 * CHANNELS];
    for (int i = 0; i < CHANNELS * OUT * size * size; i++)
        filter[i] = (float)(i * i % 37 - 18);
    for (int i = 0; i < HIGH * WIDE * CHANNELS; i++)
        x[i / CHANNELS / WIDE][i / CHANNELS % WIDE][i % CHANNELS] = (float)(i * 5 % 13 - 6);
    const fv_tensor tensor = fv_tensor_of_floats(filter, CHANNELS, (uint32_t)(OUT * size * size));
    const fv_weight w = fv_weight_deconv(&tensor, CHANNELS, OUT, stride, reach);
    assert_int_equal(w.rows, stride * stride * OUT);
    assert_int_equal(w.cols, reach * reach * CHANNELS);
    for (int i = 0; i < HIGH * s * WIDE * s * OUT; i++) {
        const int o = i % OUT, ox = i / OUT % (WIDE * s), oy = i / OUT / (WIDE * s);
        float want = 0, got = 0;
        for (int k = 0; k < HIGH * WIDE * CHANNELS; k++) {
            const int c = k % CHANNELS, ix = k / CHANNELS % WIDE, iy = k / CHANNELS / WIDE;
            const int ky = oy + pad - iy * s, kx = ox + pad - ix * s;
            if (ky >= 0 && ky < size && kx >= 0 && kx < size)
                want += x[iy][ix][c] * filter[((c * OUT + o) * size + ky) * size + kx];
        }
        fv_weight_read(&w, (uint32_t)((oy % s * s + ox % s) * OUT + o), 1, row);
        for (int k = 0; k < (int)w.cols; k++) {
            const int tap = k / CHANNELS;
            const int iy = oy / s + (n - 1) * (oy % s - 1) + tap / n;
            const int ix = ox / s + (n - 1) * (ox % s - 1) + tap % n;
            if (iy >= 0 && iy < HIGH && ix >= 0 && ix < WIDE)
                got += x[iy][ix][k % CHANNELS] * row[k];
        }
        assert_true(got == want);
    }
}

static void transposed_convolutions_are_products(void **state)
{
    (void)state;
    compare_deconv(1, 1);
    compare_deconv(2, 1);
    compare_deconv(4, 1);
    compare_deconv(2, 2);
}

static void float16_refuses_what_it_cannot_hold(void **state)
{
    static const fv_knobs knobs = {{0}};
    static float numbers[ROWS * COLS];
    fv_tensor tensor = fv_tensor_of_floats(numbers, ROWS, COLS);
    tensor.name = "layer.weight";
    fv_weight w = fv_weight_of(&tensor, ROWS, COLS), rows = w;
    const fv_problem f16 = product(FV_OP_GEMM, FV_F16), bf16 = product(FV_OP_GEMM, FV_BF16);
    fv_packed *p;
    fovea_model *m;
    (void)state;
    assert_int_equal(fv_model_blank(&m), FOVEA_OK);
    rows.type = FV_F16;
    numbers[ROWS * COLS - 1] = 65519.f; /* rounds to the largest value */
    assert_int_equal(fv_packed_get(&p, &m->shared, NULL, false, &rows, NULL, &f16, &knobs),
                     FOVEA_OK);
    fv_packed_unref(&m->shared, p);
    numbers[ROWS * COLS - 1] = -65520.f;
    const fv_kernel *kernel = kernel_named("gemm_f16_2x16_c");
    assert_int_equal(fv_packed_get(&p, &m->shared, NULL, false, &w, kernel, &f16, &knobs),
                     FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "layer.weight"));
    assert_int_equal(fv_packed_get(&p, &m->shared, NULL, false, &rows, NULL, &f16, &knobs),
                     FOVEA_ENOTSUP);
    assert_int_equal(fv_packed_get(&p, &m->shared, NULL, false, &w,
                                   kernel_named("gemm_bf16_2x16_c"), &bf16, &knobs),
                     FOVEA_OK);
    fv_packed_unref(&m->shared, p);
    assert_null(m->shared.packed);
    fovea_model_free(m);
    assert_int_equal(fv_mem_tagged(FV_MEM_WEIGHTS) + fv_mem_tagged(FV_MEM_MODEL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed_weights_are_shared),
                                       cmocka_unit_test(formats_are_separate),
                                       cmocka_unit_test(transposed_convolutions_are_products),
                                       cmocka_unit_test(float16_refuses_what_it_cannot_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
