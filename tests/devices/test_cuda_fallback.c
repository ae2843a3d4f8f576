/* test_cuda_fallback.c: tests that all PTX compiled at build time can be unpacked and matches its
 * description, and that damaged data is detected. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/cuda_sources.h"

static bool is_ptx(const fv_cuda_ptx *e, const char *text)
{
    char target[32];
    snprintf(target, sizeof target, "\n.target sm_%u\n", e->arch);
    return strlen(text) == e->size && strncmp(text, ".version 7.0\n", 13) == 0 &&
           strstr(text, target) != NULL && strstr(text, "\n.visible .entry ") != NULL;
}

/* Returns whether damage at `at`, or a truncation there, is detected or does not change the text.
 */
static bool survives(const fv_cuda_ptx *e, const char *right, uint32_t at, bool cut)
{
    static uint8_t data[1 << 20];
    fv_cuda_ptx damaged = *e;
    char *text = NULL;
    memcpy(data, e->packed, e->packed_size);
    damaged.packed = data;
    if (cut)
        damaged.packed_size = at;
    else
        data[at] ^= 0x55;
    const fovea_status status = fv_cuda_ptx_text(&text, &damaged);
    const bool good =
        status == FOVEA_EFORMAT || (!cut && status == FOVEA_OK && strcmp(text, right) == 0);
    fv_mem_free(text);
    return good;
}

static bool is_right(const fv_cuda_ptx *e)
{
    enum { TIMES = 8 };
    char *text = NULL;
    bool good = fv_cuda_ptx_text(&text, e) == FOVEA_OK && is_ptx(e, text);
    for (uint32_t i = 0; i < TIMES; i++)
        good = good && survives(e, text, (uint32_t)((uint64_t)i * e->packed_size / TIMES), i % 2);
    if (!good)
        printf("FAIL %s %s%s\n", e->program, e->mechanism, e->options);
    fv_mem_free(text);
    return good;
}

/* ---- names of registers ---- */

/* Texts in the form that near() of embed_ptx.py writes; `right` NULL: damaged. */
static const struct near {
    const char *text, *right;
    uint32_t sum;
} nears[] = {
    {"", "", 0x00000001},
    {".reg .f32 %f<9>;\nadd.f32 %f7, %f3, %f2;\nadd.f32 %f1, %f-1, %f4;\n",
     ".reg .f32 %f<9>;\nadd.f32 %f7, %f3, %f2;\nadd.f32 %f8, %f2, %f6;\n", 0xf33d0ee5},
    {"@%p3 st [%rd12+8], %r4;\n@!%p-2 st [%rd1], %r0;\nmov %r5, %tid.x;\n",
     "@%p3 st [%rd12+8], %r4;\n@!%p1 st [%rd13], %r4;\nmov %r5, %tid.x;\n", 0x193d10a1},
    {"%r1%r1%r1%r1%r1%r1%r1%r1%r1%r1", "%r1%r1%r1%r1%r1%r1%r1%r1%r2%r3", 0x78c407d4},
    {"%", "%", 0x00260026},
    {"%r", "%r", 0x00be0098},
    {"%abcdefgh1", NULL, 0},
    {"%a1%b1%c1%d1%e1%f1%g1%h1%i1%j1%k1%l1%m1%n1%o1%p1%q1", NULL, 0},
};

static bool is_near(const struct near *n)
{
    uint8_t data[256] = {1, (uint8_t)strlen(n->text), 0, (uint8_t)~strlen(n->text), 0xff};
    const char *right = n->right ? n->right : n->text;
    char *text = NULL;
    memcpy(data + 5, n->text, strlen(n->text));
    fv_cuda_ptx e = {.program = "a text",
                     .packed = data,
                     .near_size = (uint32_t)strlen(n->text),
                     .packed_size = (uint32_t)strlen(n->text) + 5,
                     .size = (uint32_t)strlen(right),
                     .sum = n->sum};
    bool good = fv_cuda_ptx_text(&text, &e) == (n->right ? FOVEA_OK : FOVEA_EFORMAT) &&
                (!text || strcmp(text, right) == 0);
    fv_mem_free(text);
    /* Other texts, and texts that are longer or shorter. */
    for (int i = 0; good && i < 3; i++) {
        e.sum = n->sum + (i == 0);
        e.size = (uint32_t)strlen(right) + (i == 1) - (i == 2 && *right);
        good = i == 2 && !*right ? true : fv_cuda_ptx_text(&text, &e) == FOVEA_EFORMAT;
    }
    if (!good)
        printf("FAIL registers of: %s\n", n->text);
    return good;
}

int main(void)
{
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof nears / sizeof *nears; i++)
        is_near(&nears[i]) ? passed++ : failed++;
    for (const fv_cuda_ptx *e = fv_cuda_ptx_list; e->program; e++)
        is_right(e) ? passed++ : failed++;
    if (!fv_cuda_ptx_list->program)
        printf("skipped: this library was built without nvcc\n");
    printf("%d passed, %d failed, %d skipped\n", passed, failed, !fv_cuda_ptx_list->program);
    return failed != 0;
}
