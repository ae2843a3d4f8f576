/* scan_step_tmpl.c: computes SCAN token by token with vec.h's vector functions. This form is for
 * one token or a few, where reading and writing the state takes most of the time. */
#include "platform/cpu/tmpl/scan_rows.h"

/* Rows that are packed at a time; vectors of the state's columns that a pass computes. */
enum { ROWS = 16, VECTORS = 4 };

/* Decays as coefficients of scan_fade(). Those of key channel i at row r are keep[r * row + i *
 * channel] and more[r * row + i * channel]. */
typedef struct fade {
    float *keep, *more;
    size_t row, channel;
} fade;

static fade take_fades(float *m, const fv_problem *p, const scan_rows *l, size_t rows)
{
    const int channel = (p->flags & FV_FLAG_DECAY_CHANNEL) != 0;
    const fade f = {m + l->part, m + l->lost, channel ? l->widthp : 1, (size_t)channel};
    for (size_t i = 0; i < rows * f.row; i += FV_W)
        scan_fade(f.keep + i, f.more + i, fv_load(f.keep + i), fv_load(f.more + i));
    return f;
}

FV_FN fv_v faded(const fade *f, size_t r, size_t i, fv_v x)
{
    const size_t at = r * f->row + i * f->channel;
    return fv_fma(fv_set(f->more[at]), x, fv_mul(fv_set(f->keep[at]), x));
}

/* Advances Z by each row, and divides the row's output factor by q.Z + eps. */
static void divide(float *m, const scan_rows *l, const fade *f, float *z, float eps, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        fv_v sum = fv_set(0.f);
        for (size_t i = 0; i < l->width; i += FV_W) {
            const int n = scan_lanes(l->width - i);
            const size_t at = r * f->row + i * f->channel;
            const fv_v old = fv_load_n(z + i, n);
            const fv_v keep = f->channel ? fv_load(f->keep + at) : fv_set(f->keep[at]);
            const fv_v more = f->channel ? fv_load(f->more + at) : fv_set(f->more[at]);
            const fv_v x =
                fv_add(fv_fma(more, old, fv_mul(keep, old)), fv_load(m + l->k + r * l->widthp + i));
            fv_store_n(z + i, x, n);
            sum = fv_fma(fv_load(m + l->q + r * l->widthp + i), fv_first_n(x, n), sum);
        }
        m[l->read + r] /= fv_hsum(sum) + eps;
    }
}

/* Processes one row for `vectors` vectors of columns of the state from column j on; the last has n
 * lanes. */
FV_FN void step(const fv_args *a, const float *m, const scan_rows *l, const fade *f, float *s,
                void *out, size_t r, size_t j, int vectors, int n)
{
    const float *q = m + l->q + r * l->widthp, *k = m + l->k + r * l->widthp;
    fv_v u[VECTORS], o[VECTORS];
    FV_UNROLL
    for (int v = 0; v < vectors; v++) {
        u[v] = fv_load(m + l->v + r * l->dvp + j + v * FV_W);
        o[v] = fv_set(0.f);
    }
    s += j;
    if (a->prob.flags & FV_FLAG_DELTA) {
        for (size_t i = 0; i < l->width; i++) {
            FV_UNROLL
            for (int v = 0; v < vectors; v++)
                o[v] = fv_fma(fv_set(k[i]), faded(f, r, i, fv_load_n(s + i * l->dv + v * FV_W, n)),
                              o[v]);
        }
        FV_UNROLL
        for (int v = 0; v < vectors; v++) {
            u[v] = fv_mul(fv_set(m[l->beta + r]), fv_sub(u[v], o[v]));
            o[v] = fv_set(0.f);
        }
    }
    for (size_t i = 0; i < l->width; i++) {
        FV_UNROLL
        for (int v = 0; v < vectors; v++) {
            float *at = s + i * l->dv + v * FV_W;
            const fv_v x = fv_fma(fv_set(k[i]), u[v], faded(f, r, i, fv_load_n(at, n)));
            fv_store_n(at, x, n);
            o[v] = fv_fma(fv_set(q[i]), x, o[v]);
        }
    }
    FV_UNROLL
    for (int v = 0; v < vectors; v++)
        fv_row_store(out, a->prob.out, j + v * FV_W,
                     scan_output(&a->prob, m, l, r, j + v * FV_W, o[v]), n);
}

void FV_NAME(fv_k_scan_f32_step)(const fv_args *a, const fv_call *c)
{
    const scan_rows l = scan_lay_out(&a->prob, c->rows < ROWS ? c->rows : ROWS);
    float *m = c->scratch;
    for (size_t head = c->col0; head < (size_t)c->col0 + c->cols; head++) {
        float *s = scan_state(c, &l, head);
        for (size_t row = 0; row < c->rows; row += ROWS) {
            const size_t rows = c->rows - row < ROWS ? c->rows - row : ROWS;
            scan_take(m, a, c, &l, head, row, rows);
            if (a->prob.flags & FV_FLAG_CENTRED)
                scan_centre(m, a, c, &l, head, rows);
            const fade f = take_fades(m, &a->prob, &l, rows);
            if (scan_divides(&a->prob))
                divide(m, &l, &f, scan_divisor(a, c, &l, head), a->f[1], rows);
            for (size_t j = 0; j < l.dv;) {
                const int wide = l.dv - j >= VECTORS * FV_W;
                for (size_t r = 0; r < rows; r++) {
                    void *out = fv_element(c->p[FV_SCAN_OUT], a->prob.out,
                                           (row + r) * a->ld[FV_SCAN_OUT] + head * l.dv);
                    if (wide)
                        step(a, m, &l, &f, s, out, r, j, VECTORS, FV_W);
                    else
                        step(a, m, &l, &f, s, out, r, j, 1, scan_lanes(l.dv - j));
                }
                j += wide ? VECTORS * FV_W : FV_W;
            }
        }
    }
}

static bool applies(const fv_problem *p)
{
    return SCAN_FEATURES[p->mech] && !(p->flags & FV_FLAG_CHUNKWISE);
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return scan_lay_out(p, rows < ROWS ? rows : ROWS).floats * sizeof(float);
}

static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    const double passes = p->flags & FV_FLAG_DELTA ? 1.4 : 1.;
    return p->heads * (double)p->dim[FV_DIM_ROWS] * (passes * scan_work(p) / (FV_W * 1.2e9) + 1e-8);
}

const fv_kernel_hooks FV_NAME(fv_h_scan_f32_step) = {
    .applies = applies, .cost = cost, .scratch = scratch_bytes};
