/* rope_tmpl.c: implements ROPE with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/tmpl/rotation.h"

enum { JOINED = 32 }; /* rows whose angles are joined at a time (rotation_join) */

/* Rotates all heads of one row. If d is not a multiple of the vector, the last vector overlaps the
 * one before it: a partial store would stall the next head's load. */
FV_FN void rotate_row(float *out, const float *in, const angles *a, size_t split, size_t width,
                      size_t d)
{
    const bool overlaps = d > FV_W && d % FV_W;
    for (size_t h = 0; h < width; h += d, in += d, out += d) {
        const fv_v last = overlaps ? fv_load(in + d - FV_W) : fv_set(0.f);
        size_t i = 0;
        for (; i + FV_W <= d; i += FV_W)
            fv_store(out + i, rotate(fv_load(in + i), a, split, i, FV_W));
        if (overlaps)
            fv_store(out + d - FV_W, rotate(last, a, split, d - FV_W, FV_W));
        else if (i < d)
            fv_store_n(out, rotate(fv_load_n(in, (int)d), a, split, 0, (int)d), (int)d);
    }
}

/* Rotates `rows` rows by the angles of `turn`, from its first row on. */
static void rotate_rows(float *out, size_t ldo, const float *in, size_t ldi, const rotation *turn,
                        size_t rows, size_t width, size_t d)
{
    angles a = angles_first(turn);
    for (size_t r = 0; r < rows; r++, in += ldi, out += ldo, angles_next(&a, turn))
        rotate_row(out, in, &a, turn->split, width, d);
}

/* Returns the rotation of a call's rows. If tables have a row for each row of the call (u[1]),
 * their first row is the call's. */
FV_FN rotation turn_of(const fv_args *a, const fv_call *c, size_t d)
{
    fv_call from_first = *c;
    if (a->u[1])
        from_first.row0 = 0;
    return rotation_of(a, &from_first, FV_ROPE_COS, FV_ROPE_SIN, d);
}

void FV_NAME(fv_k_rope_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], d = a->prob.dim[FV_ROPE_D];
    const size_t ldi = a->ld[FV_ROPE_IN], ldo = a->ld[FV_ROPE_OUT];
    const float *in = c->p[FV_ROPE_IN];
    float *out = c->p[FV_ROPE_OUT];
    rotation turn = turn_of(a, c, d);
    if (!rotation_straddles(&turn, d)) {
        rotate_rows(out, ldo, in, ldi, &turn, c->rows, width, d);
        return;
    }
    for (size_t r = 0; r < c->rows; r += JOINED) {
        const size_t n = c->rows - r < JOINED ? c->rows - r : JOINED;
        const rotation joined = rotation_join(c->scratch, &turn, n, d);
        rotate_rows(out + r * ldo, ldo, in + r * ldi, ldi, &joined, n, width, d);
        rotation_move(&turn, n);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return rotation_joined(JOINED, p->dim[FV_ROPE_D]) * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_rope_f32) = {.scratch = scratch_bytes};
