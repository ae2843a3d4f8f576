/* test_cuda_fallback.c: the PTX that was compiled when the library was built: all of it can be
 * unpacked and is what it is said to be, and damaged data is found out. */
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

/* Damaged at `at`, or cut off there. */
static bool survives(const fv_cuda_ptx *e, uint32_t at, bool cut)
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
        cut ? status == FOVEA_EFORMAT
            : status == FOVEA_EFORMAT || (status == FOVEA_OK && strlen(text) <= e->size);
    fv_mem_free(text);
    return good;
}

int main(void)
{
    int passed = 0, failed = 0;
    for (const fv_cuda_ptx *e = fv_cuda_ptx_list; e->program; e++) {
        char *text = NULL;
        bool good = fv_cuda_ptx_text(&text, e) == FOVEA_OK && is_ptx(e, text);
        fv_mem_free(text);
        for (uint32_t i = 0; i < 64; i++)
            good = good && survives(e, (uint32_t)((uint64_t)i * e->packed_size / 64), i % 2);
        if (!good)
            printf("FAIL %s %s%s\n", e->program, e->mechanism, e->options);
        passed += good;
        failed += !good;
    }
    if (!fv_cuda_ptx_list->program)
        printf("skipped: this library was built without nvcc\n");
    printf("%d passed, %d failed, %d skipped\n", passed, failed, !fv_cuda_ptx_list->program);
    return failed ? 1 : passed ? 0 : 77;
}
