/* test_cuda_tiles.c: tests the tiles chosen for products on tensor cores: there must be enough
 * work-groups to keep all multiprocessors busy, whether there are 8 or 132, and a knob overrides
 * the choice. */
#include <stdio.h>

#include "cuda/cuda_kernels.h"
#include "ops/contracts/product.h"

/* The tile that is chosen first, and the number of choices. */
static const struct tiling {
    uint32_t units, rows, columns;
    enum fv_type type;
    uint32_t epi, knob[2];
    uint32_t tile[2], choices;
} tilings[] = {
    /* DINOv2 at 224: blocks of 768, on an Orin Nano and on an H100. */
    {8, 257, 768, FV_F16, 0, {0, 0}, {64, 64}, 4},
    {132, 257, 768, FV_F16, 0, {0, 0}, {32, 64}, 4},
    {8, 257, 768, FV_F32, 0, {0, 0}, {64, 64}, 3},
    /* At 518: two smaller tiles per multiprocessor (132) keep more of them busy than one large
     * tile. */
    {132, 1370, 1536, FV_F16, 0, {0, 0}, {128, 64}, 4},
    {8, 1370, 4096, FV_F16, 0, {0, 0}, {128, 128}, 4},
    {132, 1370, 4096, FV_F16, 0, {0, 0}, {128, 128}, 4},
    {132, 1370, 4096, FV_BF16, 0, {0, 0}, {128, 128}, 4},
    {8, 1370, 4096, FV_F32, 0, {0, 0}, {128, 64}, 3},
    /* Gates are columns as well. */
    {132, 257, 1536, FV_F16, 0, {0, 0}, {32, 64}, 4},
    {132, 257, 1536, FV_F16, FV_EPI_SWIGLU, {0, 0}, {64, 64}, 4},
    /* One row, and a device that does not report its number of multiprocessors. */
    {8, 1, 8, FV_F16, 0, {0, 0}, {32, 64}, 4},
    {0, 257, 768, FV_F16, 0, {0, 0}, {32, 64}, 4},
    /* Knobs. */
    {132, 257, 768, FV_F16, 0, {128, 0}, {128, 64}, 2},
    {132, 257, 768, FV_F16, 0, {0, 128}, {32, 128}, 3},
    {132, 257, 768, FV_F16, 0, {64, 128}, {64, 128}, 1},
    {132, 257, 768, FV_F32, 0, {64, 128}, {64, 64}, 1},
};

static fv_launch launch_of(const struct tiling *t, const fv_kernel *k)
{
    fv_launch l = {.kernel = k, .rows = t->rows};
    fv_problem *p = &l.args.prob;
    p->op = FV_OP_GEMM;
    p->in = p->weight = t->type;
    p->epi = t->epi;
    p->dim[FV_DIM_ROWS] = t->rows;
    p->dim[FV_GEMM_N] = t->columns;
    p->dim[FV_GEMM_K] = 768;
    l.operand[FV_GEMM_A].type = l.operand[FV_GEMM_W].type = t->type;
    for (int i = 0; i < 2; i++)
        l.args.knobs.v[i] = t->knob[i];
    return l;
}

static bool is_right(const struct tiling *t)
{
    const fv_kernel k = {.name = "gemm", .code.gpu = &fv_cuda_gemm};
    uint32_t seen[8][2], n = 0;
    for (; n < 8; n++) {
        fv_launch l = launch_of(t, &k);
        if (!fv_gpu_settle(&l, t->units, n))
            break;
        for (int i = 0; i < 2; i++)
            seen[n][i] = l.args.knobs.v[i];
        for (uint32_t m = 0; m < n; m++)
            if (seen[m][0] == seen[n][0] && seen[m][1] == seen[n][1])
                return false;
    }
    return n == t->choices && seen[0][0] == t->tile[0] && seen[0][1] == t->tile[1];
}

int main(void)
{
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
        const struct tiling *t = &tilings[i];
        const bool good = is_right(t);
        passed += good;
        failed += !good;
        if (!good)
            printf("FAIL %u units, %u x %u: not %u x %u of %u tiles\n", t->units, t->rows,
                   t->columns, t->tile[0], t->tile[1], t->choices);
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
