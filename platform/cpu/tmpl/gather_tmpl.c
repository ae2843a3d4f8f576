/* gather_tmpl.c: GATHER, PICK, PIXEL_SHUFFLE and LERP, which read rows in another order from a
 * complete tensor, written with vec.h's vector functions. */
#include "ops/contracts/grid.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_lerp.h"
#include "ops/ref/ref_pick.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/fetch.h"
#include "platform/cpu/vec/row.h"

enum { PREFETCHED = 8 }; /* how many rows before its copy a row is prefetched */

FV_FN void copy_row(float *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        fv_store(out + i, fv_load(x + i));
    if (i < n)
        fv_store_n(out + i, fv_load_n(x + i, (int)(n - i)), (int)(n - i));
}

FV_FN void add_row(float *out, const float *x, const float *res, size_t n)
{
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        fv_store(out + i, fv_add(fv_load(x + i), fv_load(res + i)));
    if (i < n)
        fv_store_n(out + i,
                   fv_add(fv_load_n(x + i, (int)(n - i)), fv_load_n(res + i, (int)(n - i))),
                   (int)(n - i));
}

FV_FN void zero_row(float *out, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W)
        fv_store_n(out + i, fv_set(0.f), fv_lanes(n - i));
}

void FV_NAME(fv_k_gather_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], parts = a->prob.dim[FV_GATHER_PARTS];
    const size_t ld = a->ld[FV_GATHER_IN], count = c->rows * parts;
    const uint32_t *from = (const uint32_t *)a->table + c->row0 * parts;
    const float *in = c->p[FV_GATHER_IN];
    for (size_t k = 0; k < count; k++) {
        const size_t row = k / parts, col = k % parts * width;
        const float *x = from[k] == FV_GATHER_NONE ? NULL : in + from[k] * ld;
        const float *res = c->p[FV_GATHER_RES];
        float *out = (float *)c->p[FV_GATHER_OUT] + row * a->ld[FV_GATHER_OUT] + col;
        if (res)
            res += row * a->ld[FV_GATHER_RES] + col;
        if (k + PREFETCHED < count && from[k + PREFETCHED] != FV_GATHER_NONE)
            fv_fetch_rows(in + from[k + PREFETCHED] * ld, 0, 0, 1, width);
        if (x && res)
            add_row(out, x, res, width);
        else if (x || res)
            copy_row(out, x ? x : res, width);
        else
            zero_row(out, width);
    }
}

void FV_NAME(fv_k_pixel_shuffle_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C], ld = a->ld[FV_SHUFFLE_IN];
    const uint32_t s = a->prob.dim[FV_SHUFFLE_SCALE], on = a->u[2];
    const enum fv_type type = a->prob.out;
    const float *in = c->p[FV_SHUFFLE_IN];
    void *out = c->p[FV_SHUFFLE_OUT];
    for (uint32_t r = 0; r < c->rows; r++, out = fv_element(out, type, a->ld[FV_SHUFFLE_OUT])) {
        const uint32_t y = (c->row0 + r) / a->u[1], x = (c->row0 + r) % a->u[1];
        const uint32_t i = y % s, j = x % s;
        const size_t from = (size_t)(y / s + i * on) * a->u[0] + x / s + j * on;
        fv_row_convert(out, type, in + from * ld + (i * s + j) * n, FV_F32, n);
    }
}

void FV_NAME(fv_k_pick_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C];
    const float *index = c->p[FV_PICK_INDEX];
    float *out = c->p[FV_PICK_OUT];
    for (uint32_t r = 0; r < c->rows; r++, out += a->ld[FV_PICK_OUT]) {
        const float *x =
            fv_pick_row(c->p[FV_PICK_IN], a->ld[FV_PICK_IN], a->prob.dim[FV_PICK_FROM],
                        index ? index + (size_t)r * a->ld[FV_PICK_INDEX] : NULL, c->row0 + r);
        if (x)
            copy_row(out, x, width);
        else
            zero_row(out, width);
    }
}

void FV_NAME(fv_k_lerp_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], ld = a->ld[FV_LERP_IN];
    const float *in = c->p[FV_LERP_IN];
    float *out = c->p[FV_LERP_OUT];
    for (uint32_t r = 0; r < c->rows; r++, out += a->ld[FV_LERP_OUT]) {
        const fv_lerp_source s =
            fv_lerp_at(c->row0 + r, a->prob.dim[FV_DIM_ROWS], a->prob.dim[FV_LERP_ROWS]);
        const float *low = in + s.low * ld, *high = in + s.high * ld;
        const fv_v part = fv_set(s.part);
        for (size_t i = 0; i < width; i += FV_W) {
            const int n = fv_lanes(width - i);
            const fv_v x = fv_load_n(low + i, n);
            fv_store_n(out + i, fv_fma(part, fv_sub(fv_load_n(high + i, n), x), x), n);
        }
    }
}
