/* sum_tmpl.c: SUM_ROWS in vec.h's vector functions. */
#include "platform/cpu/vec/vec.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

enum {
    BLOCK = 256, /* tokens in one sum */
    /* Number of vectors of columns that are summed at a time: at least a cache line of each row. */
    WIDE = 4
};

/* Sums `vecs` vectors of columns. The last vector has `lanes` lanes. */
FV_FN void sum_columns(const fv_args *a, const fv_call *c, size_t col, int vecs, int lanes,
                       bool pair)
{
    const size_t tokens = a->prob.dim[FV_GRAD_TOKENS];
    const float *x = (const float *)c->p[FV_SUM_A] + col;
    const float *y = pair ? (const float *)c->p[FV_SUM_B] + col : NULL;
    float *out = (float *)c->p[FV_SUM_OUT] + col;
    const bool adds = a->prob.flags & FV_FLAG_ACCUMULATE;
    fv_v all[WIDE];
    for (int v = 0; v < vecs; v++)
        all[v] = adds ? fv_load_n(out + v * FV_W, v + 1 < vecs ? FV_W : lanes) : fv_set(0.f);
    for (size_t t0 = 0; t0 < tokens; t0 += BLOCK) {
        const size_t end = tokens - t0 < BLOCK ? tokens : t0 + BLOCK;
        fv_v sum[WIDE];
        for (int v = 0; v < vecs; v++)
            sum[v] = fv_set(0.f);
        for (size_t t = t0; t < end; t++) {
            const float *from = x + t * a->ld[FV_SUM_A];
            const float *times = pair ? y + t * a->ld[FV_SUM_B] : NULL;
            FV_UNROLL
            for (int v = 0; v < vecs; v++) {
                const int n = v + 1 < vecs ? FV_W : lanes;
                const fv_v value = fv_load_n(from + v * FV_W, n);
                sum[v] = pair ? fv_fma(value, fv_load_n(times + v * FV_W, n), sum[v])
                              : fv_add(sum[v], value);
            }
        }
        for (int v = 0; v < vecs; v++)
            all[v] = fv_add(all[v], sum[v]);
    }
    for (int v = 0; v < vecs; v++)
        fv_store_n(out + v * FV_W, all[v], v + 1 < vecs ? FV_W : lanes);
}

FV_FN void sum_rows(const fv_args *a, const fv_call *c, bool pair)
{
    const size_t end = (size_t)c->col0 + c->cols;
    size_t col = c->col0;
    for (; col + WIDE * FV_W <= end; col += WIDE * FV_W)
        sum_columns(a, c, col, WIDE, FV_W, pair);
    for (; col + FV_W <= end; col += FV_W)
        sum_columns(a, c, col, 1, FV_W, pair);
    if (col < end)
        sum_columns(a, c, col, 1, (int)(end - col), pair);
}

void FV_NAME(fv_k_sum_rows_f32)(const fv_args *a, const fv_call *c)
{
    if (c->p[FV_SUM_B])
        sum_rows(a, c, true);
    else
        sum_rows(a, c, false);
}
