/* fuzz_wisdom.c: reads arbitrary bytes as wisdom text, and as a text that was truncated, mixed or
 * changed.
 *
 * Accepted text must be written such that it is accepted again with the same meaning. Refused text
 * must change nothing. In both cases a plan can be made.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/peek.h"

/* Facts that affect plan() below come first, so that mutations reach it. */
static const char seed[] =
    "fovea wisdom 1\n"
    "step\tDEVICE\tgemm f32 64x32x32\tgemm_f32_ref rev=1\tmeasure\t1200\t1700000000\n"
    "step\tDEVICE\tlayernorm f32 64x32\tlayernorm_f32_c rev=1\texhaustive\t7\t1700000001\n"
    "step\tDEVICE\tsoftmax f32 64x16x16x64 heads 2\tsoftmax_f32_c rev=1 keys=128\tmeasure\t3\t9\n"
    "sweep\tDEVICE\t1 steps from gemm f32 64x32x32 0123456789abcdef\tstreamed chunk=8\tmeasure\t5\t"
    "2\n"
    "sweep\tDEVICE\t9 steps from x 0123456789abcdef\tstepwise chunk=0\tmeasure\t5\t2\n"
    "plan\tDEVICE\tdinov2 width 8 depth 1 heads 1 patch 14, 1x1, softmax, f32\t-\tmeasure\t1\t2\n"
    "skip\tDEVICE\tgemm f32 64x32x32\tgemm_f32_ref rev=1\tmeasure\t0\t3\n"
    "products\tDEVICE\tvit width 8 depth 1 heads 1 patch 16, softmax, weights 0123456789abcdef, "
    "64x64\tint8 bf16=a1 cosine=0.999570 worst=0.998700 bound=0.999500\tmeasure\t5\t4\n";

static void check(bool good)
{
    fuzz_check(good, fovea_error());
}

static char *text_of(fv_wisdom *w, size_t *size)
{
    check(fv_wisdom_format(w, false, NULL, 0, size) == FOVEA_OK);
    char *text = malloc(*size + 1);
    check(text && fv_wisdom_format(w, false, text, *size + 1, size) == FOVEA_OK);
    return text;
}

/* Makes a plan of one product that reads `w`. */
static void plan(fv_wisdom *w)
{
    static fovea_device *device;
    static float weight[32 * 32];
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    fovea_plan *p;
    o.rows = 64;
    o.in = o.out = 32;
    o.weight = weight;
    if (!device)
        check(fovea_device_open(&device, "cpu", NULL) == FOVEA_OK);
    const fv_op_options op = fv_op_of_gemm(&o);
    check(fv_op_plan(&p, device, &op, NULL, w) == FOVEA_OK);
    fovea_plan_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fv_wisdom *a, *b;
    size_t unknown, first, second;
    check(fv_wisdom_create(&a) == FOVEA_OK);
    check(fv_wisdom_create(&b) == FOVEA_OK);
    const fovea_status status = fv_wisdom_parse(a, (const char *)data, size, &unknown);
    check(status == FOVEA_OK || status == FOVEA_EWISDOM);
    char *text = text_of(a, &first);
    check(fv_wisdom_parse(b, text, first, &unknown) == FOVEA_OK);
    char *again = text_of(b, &second);
    check(first == second && memcmp(text, again, first) == 0);
    free(again);
    free(text);
    plan(a);

    fovea_wisdom_forget();
    check(fovea_wisdom_import((const char *)data, size, NULL) == status);
    check(status == FOVEA_OK || fv_wisdom_count(fv_wisdom_global()) == 0);
    fv_wisdom_free(a);
    fv_wisdom_free(b);
    fuzz_taken += status == FOVEA_OK;
    return 0;
}

size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    fovea_device *device;
    fv_advice advice;
    size_t used = 0;
    if (index > 0)
        return 0;
    check(fovea_device_open(&device, "cpu", NULL) == FOVEA_OK);
    fv_advice_begin(&advice, NULL, device, fovea_device_threads(device));
    fovea_device_close(device);
    for (const char *p = seed; *p;) {
        const bool named = strncmp(p, "DEVICE", 6) == 0;
        const char *from = named ? advice.device : p;
        const size_t n = named ? strlen(from) : 1;
        check(used + n <= capacity);
        memcpy(out + used, from, n);
        used += n;
        p += named ? 6 : 1;
    }
    return used;
}
