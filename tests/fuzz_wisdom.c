/* fuzz_wisdom.c: any bytes as a wisdom text, and as one that was cut, mixed or changed.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address,undefined. With -DFUZZ_MAIN a plain program that
 * changes a text of its own many times over, or with --seed writes it. What is taken must be
 * written so that it is taken again and says the same; what is refused must change nothing; a plan
 * comes out in either case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Facts about what plan() below plans come first, so that mutations meet it. */
static const char seed[] =
    "fovea wisdom 1\n"
    "step\tDEVICE\tgemm f32 64x32x32\tgemm_f32_ref rev=1\tmeasure\t1200\t1700000000\n"
    "step\tDEVICE\tlayernorm f32 64x32\tlayernorm_f32_c rev=1\texhaustive\t7\t1700000001\n"
    "step\tDEVICE\tsoftmax f32 64x16x16x64 heads 2\tsoftmax_f32_c rev=1 keys=128\tmeasure\t3\t9\n"
    "sweep\tDEVICE\t1 steps from gemm f32 64x32x32 0123456789abcdef\tstreamed chunk=8\tmeasure\t5\t"
    "2\n"
    "sweep\tDEVICE\t9 steps from x 0123456789abcdef\tstepwise chunk=0\tmeasure\t5\t2\n"
    "plan\tDEVICE\tdinov2 width 8 depth 1 heads 1 patch 14, 1x1, softmax, f32\t-\tmeasure\t1\t2\n"
    "skip\tDEVICE\tgemm f32 64x32x32\tgemm_f32_ref rev=1\tmeasure\t0\t3\n";

static void check(bool good)
{
    if (!good)
        abort();
}

static char *text_of(fv_wisdom *w, size_t *size)
{
    check(fv_wisdom_format(w, false, NULL, 0, size) == FOVEA_OK);
    char *text = malloc(*size + 1);
    check(text && fv_wisdom_format(w, false, text, *size + 1, size) == FOVEA_OK);
    return text;
}

/* A plan of one product that asks `w`. */
static void plan(fv_wisdom *w)
{
    static fovea_device *device;
    static float weight[32 * 32];
    fovea_op_options o = FOVEA_OP_OPTIONS_INIT;
    fovea_plan *p;
    o.kind = FOVEA_OP_GEMM;
    o.rows = 64;
    o.in = o.out = 32;
    o.weight = weight;
    if (!device)
        check(fovea_device_open(&device, "cpu", NULL) == FOVEA_OK);
    check(fv_op_plan(&p, device, &o, NULL, w) == FOVEA_OK);
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
    return 0;
}

#ifdef FUZZ_MAIN
static uint32_t random_below(uint32_t n)
{
    static uint64_t x = 1;
    x = x * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)((x >> 33) % n);
}

/* The seed, about the device that there is. */
static size_t begin(char *out, const char *device)
{
    char *at = out;
    for (const char *p = seed; *p;) {
        if (strncmp(p, "DEVICE", 6) == 0) {
            at += sprintf(at, "%s", device);
            p += 6;
        } else {
            *at++ = *p++;
        }
    }
    return (size_t)(at - out);
}

static size_t change(char *text, size_t size)
{
    static const char odd[] = "\t\n\0 =|x9-\x7f\xff";
    const size_t at = random_below((uint32_t)size);
    size_t n = 1 + random_below(40);
    n = n < size - at ? n : size - at;
    switch (random_below(5)) {
    case 0: /* cut the end off */
        return at + 1;
    case 1: /* leave something out */
        memmove(text + at, text + at + n, size - at - n);
        return size - n ? size - n : 1;
    case 2: /* say something twice */
        memmove(text + at + n, text + at, size - at);
        return size + n;
    case 3:
        text[at] = odd[random_below(sizeof odd - 1)];
        return size;
    default:
        text[at] = (char)(text[at] ^ 1 << random_below(7));
        return size;
    }
}

int main(int argc, char **argv)
{
    enum { TIMES = 20000, ROOM = 1 << 16 };
    static char text[ROOM];
    fovea_device *device;
    fv_advice advice;
    size_t taken = 0;
    check(fovea_device_open(&device, "cpu", NULL) == FOVEA_OK);
    fv_advice_begin(&advice, NULL, device, fovea_device_threads(device));
    fovea_device_close(device);
    if (argc > 1 && strcmp(argv[1], "--seed") == 0)
        return fwrite(text, 1, begin(text, advice.device), stdout) > 0 ? 0 : 1;
    for (int i = 0; i < TIMES; i++) {
        size_t size = begin(text, advice.device);
        for (uint32_t n = random_below(6); n > 0; n--)
            size = change(text, size);
        uint8_t *exact = malloc(size); /* so that a sanitizer sees a byte too far */
        check(exact != NULL);
        memcpy(exact, text, size);
        LLVMFuzzerTestOneInput(exact, size);
        taken += fv_wisdom_count(fv_wisdom_global()) > 0;
        free(exact);
    }
    printf("%d texts, %zu taken\n", TIMES, taken);
    return taken > TIMES / 20 && taken < TIMES * 19 / 20 ? 0 : 1; /* both ways were met */
}
#endif
