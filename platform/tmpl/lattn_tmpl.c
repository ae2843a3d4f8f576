/* lattn_tmpl.c: LATTN_REDUCE, LATTN_MERGE and LATTN_APPLY over the vector vocabulary, with the
 * feature map and the normalisation of one mechanism: src/mech/<FV_MECHANISM>.h. */
#include "cpu_kernels.h"
#include "vec/math.h"
#include "vec/tile.h"

#include <string.h>

#include "mech/mech.h"

#if FV_BLOCKS != 1 || FV_STREAMS != 1 || FV_WANTS != 0
#error "this template serves mechanisms of one block and one stream without extras"
#endif

#define KERNEL(op) FV_MECH_NAME(op, FV_ISA)

enum { BLOCK = 128 }; /* rows whose features and values stay in the first cache levels */

/* Padded widths and the parts of a call's scratch: features [BLOCK][dp], their weights z[BLOCK] and
 * the mean feature m[dp], and the other factor of the products, right [BLOCK or d][dvp]. */
typedef struct layout {
    size_t d, dv, dp, dvp;
    size_t z, m, right, floats;
} layout;

static layout lay_out(const fv_problem *p)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV]};
    l.dp = fv_tile_round(l.d, FV_W > FV_TILE_M ? FV_W : FV_TILE_M);
    l.dvp = fv_tile_round(l.dv, FV_TILE_COLS);
    l.z = BLOCK * l.dp;
    l.m = l.z + BLOCK;
    l.right = l.m + l.dp;
    l.floats = l.right + (l.d > BLOCK ? l.d : BLOCK) * l.dvp;
    return l;
}

/* phi of n <= FV_W lanes, zero beyond: phi(0) need not be 0. */
FV_FN fv_v features(const float *x, int n)
{
    fv_v f = fv_phi(fv_load_n(x, n));
    return n == FV_W ? f : fv_first_n(f, n);
}

FV_FN int lanes(size_t left)
{
    return left < FV_W ? (int)left : FV_W;
}

/* y = factor x, added to what is there unless `first`. */
FV_FN void carry(float *y, fv_v x, fv_v factor, int n, int first)
{
    fv_store_n(y, first ? fv_mul(factor, x) : fv_fma(factor, x, fv_load_n(y, n)), n);
}

/* Adds at most BLOCK rows of one head to its state S [d][dv], m [d]. */
static void reduce_block(float *state, float *scratch, const layout *l, const float *k, size_t ldk,
                         const float *v, size_t ldv, size_t rows, float mean, int first)
{
    float *feature = scratch, *right = scratch + l->right;
    const fv_v factor = fv_set(mean);
    fv_tile_pack(right, l->dvp, v, ldv, rows, l->dv);
    for (size_t i = 0; i < l->dp; i += FV_W) {
        int n = i < l->d ? lanes(l->d - i) : 0;
        fv_v sum = fv_set(0.f);
        for (size_t r = 0; r < rows; r++) {
            fv_v f = features(k + r * ldk + i, n);
            fv_store(feature + r * l->dp + i, f);
            sum = fv_add(sum, f);
        }
        carry(state + l->d * l->dv + i, sum, factor, n, first);
    }
    for (size_t i = 0; i < l->d; i += FV_TILE_M) {
        for (size_t j = 0; j < l->dv; j += FV_TILE_COLS) {
            fv_v acc[FV_TILE_M][FV_TILE_N];
            fv_tile(acc, feature + i, 1, l->dp, right + j, l->dvp, rows);
            FV_UNROLL
            for (int r = 0; r < FV_TILE_M; r++) {
                FV_UNROLL
                for (int c = 0; c < FV_TILE_N; c++) {
                    size_t col = j + (size_t)c * FV_W;
                    if (i + r < l->d && col < l->dv)
                        carry(state + (i + r) * l->dv + col, acc[r][c], factor, lanes(l->dv - col),
                              first);
                }
            }
        }
    }
}

void KERNEL(fv_k_lattn_reduce_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob);
    const size_t ldk = a->ld[FV_REDUCE_K], ldv = a->ld[FV_REDUCE_V];
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *k = (const float *)c->p[FV_REDUCE_K] + h * l.d;
        const float *v = (const float *)c->p[FV_REDUCE_V] + h * l.dv;
        float *state = (float *)c->p[FV_REDUCE_PARTIAL] + h * l.d * (l.dv + 1);
        for (size_t r = 0; r < c->rows; r += BLOCK)
            reduce_block(state, c->scratch, &l, k + r * ldk, ldk, v + r * ldv, ldv,
                         c->rows - r < BLOCK ? c->rows - r : BLOCK, a->f[0], c->first && r == 0);
    }
}

void KERNEL(fv_k_lattn_merge_f32)(const fv_args *a, const fv_call *c)
{
    const size_t size = (size_t)a->prob.dim[FV_ATTN_D] * (a->prob.dim[FV_ATTN_DV] + 1);
    const size_t group = size * a->prob.heads, end = size * ((size_t)c->col0 + c->cols);
    const float *partial = c->p[FV_MERGE_PARTIAL];
    float *state = c->p[FV_MERGE_STATE];
    for (size_t i = size * c->col0; i < end; i += FV_W) {
        int n = lanes(end - i);
        fv_v sum = fv_load_n(partial + i, n);
        for (size_t g = 1; g < a->prob.dim[FV_ATTN_GROUPS]; g++)
            sum = fv_add(sum, fv_load_n(partial + g * group + i, n));
        fv_store_n(state + i, sum, n);
    }
}

/* Features of at most BLOCK rows and z = phi(q).m of each; rows up to a whole tile are zero. */
static void apply_features(float *scratch, const layout *l, const float *q, size_t ldq, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        fv_v z = fv_set(0.f);
        for (size_t i = 0; i < l->d; i += FV_W) {
            fv_v f = features(q + r * ldq + i, lanes(l->d - i));
            fv_store(scratch + r * l->dp + i, f);
            z = fv_fma(f, fv_load(scratch + l->m + i), z);
        }
        scratch[l->z + r] = fv_hsum(z);
    }
    size_t padded = fv_tile_round(rows, FV_TILE_M);
    memset(scratch + rows * l->dp, 0, (padded - rows) * l->dp * sizeof *scratch);
}

void KERNEL(fv_k_lattn_apply_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob);
    const size_t ldq = a->ld[FV_APPLY_Q], ldo = a->ld[FV_APPLY_OUT];
    const int plain = (a->prob.flags & FV_FLAG_UNNORMALISED) != 0;
    const fv_v factor = fv_set(a->f[0]), eps = fv_set(a->f[1]);
    float *scratch = c->scratch;
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *q = (const float *)c->p[FV_APPLY_Q] + h * l.d;
        const float *state = (const float *)c->p[FV_APPLY_STATE] + h * l.d * (l.dv + 1);
        float *out = (float *)c->p[FV_APPLY_OUT] + h * l.dv;
        fv_tile_pack(scratch + l.right, l.dvp, state, l.dv, l.d, l.dv);
        fv_tile_pack(scratch + l.m, l.dp, state + l.d * l.dv, l.d, 1, l.d);
        for (size_t r0 = 0; r0 < c->rows; r0 += BLOCK) {
            size_t rows = c->rows - r0 < BLOCK ? c->rows - r0 : BLOCK;
            apply_features(scratch, &l, q + r0 * ldq, ldq, rows);
            for (size_t i = 0; i < rows; i += FV_TILE_M) {
                for (size_t j = 0; j < l.dv; j += FV_TILE_COLS) {
                    fv_v acc[FV_TILE_M][FV_TILE_N];
                    fv_tile(acc, scratch + i * l.dp, l.dp, 1, scratch + l.right + j, l.dvp, l.d);
                    FV_UNROLL
                    for (int r = 0; r < FV_TILE_M; r++) {
                        if (i + r >= rows)
                            break;
                        fv_v z = fv_set(scratch[l.z + i + r]);
                        float *y = out + (r0 + i + r) * ldo + j;
                        FV_UNROLL
                        for (int v = 0; v < FV_TILE_N; v++) {
                            size_t col = j + (size_t)v * FV_W;
                            if (col < l.dv)
                                fv_store_n(y + v * FV_W,
                                           plain ? fv_mul(factor, acc[r][v])
                                                 : fv_norm(acc[r][v], z, eps),
                                           lanes(l.dv - col));
                        }
                    }
                }
            }
        }
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return lay_out(p).floats * sizeof(float);
}

static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    return fv_problem_flops(p) / (FV_W * 4e9);
}

const fv_kernel_hooks KERNEL(fv_h_lattn_f32) = {.cost = cost, .scratch = scratch_bytes};
