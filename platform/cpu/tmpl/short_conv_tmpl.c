/* short_conv_tmpl.c: implements SHORT_CONV with vec.h's vector functions. */
#include "ops/contracts/sequence.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/row.h"

enum { SIDE = 4 }; /* vectors of channels that are processed together */

typedef struct conv {
    const fv_args *a;
    const fv_call *c;
    enum fv_type in, out;
    size_t size; /* of the filters */
    float *state;
} conv;

/* Loads x[t] of n channels from `col` on; if t < 0, from the state. */
FV_FN fv_v input(const conv *k, ptrdiff_t t, size_t col, int n)
{
    const size_t width = k->a->prob.dim[FV_ROW_C];
    if (t < 0)
        return fv_load_n(k->state + ((size_t)t + k->size - 1) * width + col, n);
    return fv_row_load(k->c->p[FV_SHORT_CONV_IN], k->in,
                       (size_t)t * k->a->ld[FV_SHORT_CONV_IN] + col, n);
}

/* Loads tap j of n channels from `col` on. */
FV_FN fv_v tap_of(const conv *k, size_t j, size_t col, int n)
{
    const float *w = (const float *)k->c->p[FV_SHORT_CONV_W] + col * k->size + j;
    float lane[FV_W] = {0.f};
    for (int i = 0; i < n; i++)
        lane[i] = w[(size_t)i * k->size];
    return fv_load(lane);
}

FV_FN void put(const conv *k, size_t t, size_t col, int n, fv_v y)
{
    if (k->a->prob.flags & FV_FLAG_SILU)
        y = fv_mul(y, fv_sigmoid(y));
    fv_row_store(k->c->p[FV_SHORT_CONV_OUT], k->out, t * k->a->ld[FV_SHORT_CONV_OUT] + col, y, n);
}

/* Stores the inputs that the next call needs as its state, the oldest first. This works in place,
 * since every input is read at or after the position to which it is written. */
FV_FN void keep(const conv *k, size_t col, int n)
{
    const ptrdiff_t before = (ptrdiff_t)k->size - 1, rows = k->c->rows;
    for (ptrdiff_t i = 0; i < before; i++)
        fv_store_n(k->state + (size_t)i * k->a->prob.dim[FV_ROW_C] + col,
                   input(k, rows - before + i, col, n), n);
}

/* Convolves `side` vectors of channels, of which the last has n lanes. */
FV_FN void columns(const conv *k, size_t col, int side, int n)
{
    fv_v tap[FV_SHORT_CONV_LARGEST][SIDE], bias[SIDE];
    const float *b = k->c->p[FV_SHORT_CONV_BIAS];
    for (int v = 0; v < side; v++) {
        const size_t at = col + (size_t)v * FV_W;
        bias[v] = b ? fv_load_n(b + at, n) : fv_set(0.f);
        for (size_t j = 0; j < k->size; j++)
            tap[j][v] = tap_of(k, j, at, n);
    }
    for (size_t t = 0; t < k->c->rows; t++) {
        fv_v y[SIDE];
        for (int v = 0; v < side; v++)
            y[v] = bias[v];
        for (size_t j = 0; j < k->size; j++)
            for (int v = 0; v < side; v++)
                y[v] = fv_fma(tap[j][v],
                              input(k, (ptrdiff_t)(t + j + 1) - (ptrdiff_t)k->size,
                                    col + (size_t)v * FV_W, n),
                              y[v]);
        for (int v = 0; v < side; v++)
            put(k, t, col + (size_t)v * FV_W, n, y[v]);
    }
    for (int v = 0; v < side; v++)
        keep(k, col + (size_t)v * FV_W, n);
}

FV_FN void convolve(const fv_args *a, const fv_call *c, enum fv_type in, enum fv_type out,
                    size_t size)
{
    const conv k = {
        .a = a, .c = c, .in = in, .out = out, .size = size, .state = c->p[FV_SHORT_CONV_STATE]};
    const size_t end = (size_t)c->col0 + c->cols;
    size_t col = c->col0;
    for (; col + SIDE * FV_W <= end; col += SIDE * FV_W)
        columns(&k, col, SIDE, FV_W);
    for (; col + FV_W <= end; col += FV_W)
        columns(&k, col, 1, FV_W);
    if (col < end)
        columns(&k, col, 1, (int)(end - col));
}

FV_FN void of_types(const fv_args *a, const fv_call *c, size_t size)
{
    if (a->prob.in == FV_F32 && a->prob.out == FV_F32)
        convolve(a, c, FV_F32, FV_F32, size);
    else if (a->prob.in == FV_F32)
        convolve(a, c, FV_F32, FV_BF16, size);
    else
        convolve(a, c, FV_BF16, a->prob.out, size);
}

void FV_NAME(fv_k_short_conv_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.dim[FV_SHORT_CONV_SIZE] == 4) /* language models' */
        of_types(a, c, 4);
    else
        of_types(a, c, a->prob.dim[FV_SHORT_CONV_SIZE]);
}
