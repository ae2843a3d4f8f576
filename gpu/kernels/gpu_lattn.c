/* gpu_lattn.c: launch code of lattn.cl and gates.cl. */
#include "base/num.h"
#include "gpu/gpu_code.h"
#include "ops/mech_traits.h"

enum {
    REDUCE_ROWS = 16, /* rows whose features a work-group keeps in local memory */
    SLAB = 16,        /* features of the queries that a work-group keeps in local memory */
    WINDOW_ROWS = 16, /* at most */
    WINDOW_COLS = 64,
    LEARNED = 1024, /* most learned values that are kept in their final form, as in lattn.cl */
};

static const fv_mech_traits *traits(const fv_problem *p)
{
    return fv_mech_table[p->mech];
}

static uint32_t width(const fv_problem *p)
{
    return traits(p)->blocks * p->dim[FV_ATTN_D];
}

/* A work-group's tile, as in lattn.cl: work-items over the left and the right operand of a product,
 * and sums per work-item in both directions. */
typedef struct tile {
    uint32_t gi, gj, tm, tn;
} tile;

/* Sums per work-item, 4 or 8, for n sums over `items` work-items: the number that leaves the fewest
 * sums unused. The largest tile that fits the 64 registers of a Mali work-item is 4 x 8. */
static uint32_t share(uint32_t n, uint32_t items)
{
    return n > 4 * items && 2 * fv_ceil_div(n, 8 * items) <= fv_ceil_div(n, 4 * items) ? 8 : 4;
}

/* ---- REDUCE ---- */

static tile reduce_tile(const fv_problem *p, uint32_t group)
{
    const uint32_t dv = p->dim[FV_ATTN_DV];
    tile t = {.gj = 1, .tm = 4};
    while (t.gj * t.gj < group && (4 * t.gj < dv || group / t.gj > 16))
        t.gj *= 2;
    t.gi = group / t.gj;
    while (t.gi > 1 && t.gi / 2 * 4 >= width(p) && 4 * t.gj < dv) {
        t.gi /= 2;
        t.gj *= 2;
    }
    t.tn = share(dv, t.gj);
    return t;
}

static uint32_t learned(const fv_problem *p)
{
    const uint32_t n = traits(p)->params * p->heads * p->dim[FV_ATTN_D];
    return n < LEARNED ? n : LEARNED;
}

/* Upper bounds in bytes; terms that do not depend on the tile are small. */
static uint32_t reduce_local(const fv_launch *l, uint32_t group)
{
    const fv_problem *p = &l->args.prob;
    const tile t = reduce_tile(p, group);
    const uint32_t features = t.gi * t.tm, stat = 3;
    return 4 * (REDUCE_ROWS * (features + stat) + features + t.gj * t.tn + learned(p) +
                (traits(p)->wants & FV_WANT_SHIFT ? p->dim[FV_ATTN_D] : 4));
}

static uint32_t reduce_local_staged(const fv_launch *l, uint32_t group)
{
    const tile t = reduce_tile(&l->args.prob, group);
    return reduce_local(l, group) + 4 * REDUCE_ROWS * t.gj * t.tn;
}

static void define_problem(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const fv_problem *p = &l->args.prob;
    (void)group;
    fv_gpu_define(out, "FV_D", p->dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", p->dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_HEADS", traits(p)->params ? p->heads : 1); /* of use for those alone */
}

static void define_tile(const tile *t, fv_gpu_text *out)
{
    fv_gpu_define(out, "FV_GI", t->gi);
    fv_gpu_define(out, "FV_GJ", t->gj);
    fv_gpu_define(out, "FV_TM", t->tm);
    fv_gpu_define(out, "FV_TN", t->tn);
}

static void reduce_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const tile t = reduce_tile(&l->args.prob, group);
    define_problem(l, group, out);
    define_tile(&t, out);
    fv_gpu_define(out, "FV_ROWS", REDUCE_ROWS);
}

/* Work-groups: partial states, heads, and also tiles of the state if these are independent. */
static void reduce_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    const tile t = reduce_tile(p, piece->group);
    const uint32_t channels = t.gi * t.tm / traits(p)->blocks;
    count[0] = piece->groups;
    count[1] = p->heads;
    if (!(traits(p)->wants & (FV_WANT_CENTRED | FV_WANT_SHIFT)))
        count[2] = (size_t)fv_ceil_div(p->dim[FV_ATTN_D], channels) *
                   fv_ceil_div(p->dim[FV_ATTN_DV], t.gj * t.tn);
}

FV_GPU_CODE(fv_gpu_lattn_reduce, "lattn", "lattn_reduce", 64, .local = reduce_local,
            .macros = " -DFV_LATTN_REDUCE=1 -DFV_STAGE=0", .define = reduce_define,
            .shape = reduce_shape, .align = 64)
FV_GPU_CODE(fv_gpu_lattn_reduce_local, "lattn", "lattn_reduce", 64, .local = reduce_local_staged,
            .macros = " -DFV_LATTN_REDUCE=1 -DFV_STAGE=1", .define = reduce_define,
            .shape = reduce_shape, .align = 64)

/* ---- MERGE ---- */

static void merge_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    count[0] = fv_gpu_groups(
        fv_lattn_layout(traits(p)->blocks, traits(p)->wants, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV])
            .floats,
        piece->group);
    count[1] = p->heads;
}

FV_GPU_CODE(fv_gpu_lattn_merge, "lattn", "lattn_merge", 64, .macros = " -DFV_LATTN_MERGE=1",
            .define = define_problem, .shape = merge_shape)

/* ---- APPLY ---- */

static tile apply_tile(const fv_problem *p, uint32_t group)
{
    const uint32_t dv = p->dim[FV_ATTN_DV];
    tile t = {.gj = 1, .tm = 4};
    while (t.gj < group && ((t.gj < 8 && 8 * t.gj < dv) || group / t.gj > 16))
        t.gj *= 2;
    t.gi = group / t.gj;
    t.tn = share(dv, t.gj);
    return t;
}

/* Features per slab: fewer for tiles with many rows, more for tiles with few rows. */
static uint32_t apply_slab(const tile *t)
{
    return t->gi * t->tm > 64 ? SLAB / 2 : SLAB;
}

static uint32_t apply_local(const fv_launch *l, uint32_t group)
{
    const fv_problem *p = &l->args.prob;
    const tile t = apply_tile(p, group);
    const uint32_t rows = t.gi * t.tm, slab = apply_slab(&t), sums = traits(p)->streams + 1,
                   stat = 3;
    return 4 * (slab * (rows + 4 + sums) + rows * (sums + stat) + learned(p) +
                (traits(p)->wants & FV_WANT_SHIFT ? p->dim[FV_ATTN_D] : 4));
}

static uint32_t apply_local_staged(const fv_launch *l, uint32_t group)
{
    const tile t = apply_tile(&l->args.prob, group);
    return apply_local(l, group) + 4 * apply_slab(&t) * t.gj * t.tn;
}

static void apply_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const tile t = apply_tile(&l->args.prob, group);
    define_problem(l, group, out);
    define_tile(&t, out);
    fv_gpu_define(out, "FV_SLAB", apply_slab(&t));
}

static void apply_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    const tile t = apply_tile(p, piece->group);
    count[0] = fv_ceil_div(piece->rows, t.gi * t.tm);
    count[1] = p->heads;
    count[2] = fv_ceil_div(p->dim[FV_ATTN_DV], t.gj * t.tn);
}

FV_GPU_CODE(fv_gpu_lattn_apply, "lattn", "lattn_apply", 64, .local = apply_local,
            .macros = " -DFV_LATTN_APPLY=1 -DFV_STAGE=0", .define = apply_define,
            .shape = apply_shape, .align = 128)
FV_GPU_CODE(fv_gpu_lattn_apply_local, "lattn", "lattn_apply", 64, .local = apply_local_staged,
            .macros = " -DFV_LATTN_APPLY=1 -DFV_STAGE=1", .define = apply_define,
            .shape = apply_shape, .align = 128)

static bool lattn_applies(const fv_problem *p)
{
    return fv_lattn_applies(traits(p)->streams, traits(p)->wants, p);
}

const fv_kernel_hooks fv_h_gpu_lattn = {.applies = lattn_applies};

/* ---- WLATTN ---- */

/* Rows and value columns that a work-group keeps in local memory; `floats`: how much that takes. */
typedef struct window {
    uint32_t rows, cols, floats;
} window;

static uint32_t window_floats(const fv_problem *p, const window *w)
{
    const uint32_t features = width(p), stat = 3, weights = 3;
    return w->rows * (features + w->cols + stat + weights) + features * (w->cols + 1) +
           p->dim[FV_ATTN_D] + w->cols + learned(p) + 64;
}

static window window_of(const fv_problem *p)
{
    const uint32_t local = 16 * 1024 / 4;
    window w = {.rows = WINDOW_ROWS, .cols = WINDOW_COLS};
    while (w.rows > 1 && w.rows * width(p) > local / 4)
        w.rows /= 2;
    while (w.cols > 1 && (w.cols / 2 >= p->dim[FV_ATTN_DV] || window_floats(p, &w) > local))
        w.cols /= 2;
    w.floats = window_floats(p, &w);
    return w;
}

static uint32_t window_local(const fv_launch *l, uint32_t group)
{
    (void)group;
    return 4 * window_of(&l->args.prob).floats;
}

static void window_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const window w = window_of(&l->args.prob);
    define_problem(l, group, out);
    fv_gpu_define(out, "FV_ROWS", w.rows);
    fv_gpu_define(out, "FV_COLS", w.cols);
}

static void window_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    count[0] = piece->rows / p->dim[FV_ATTN_KEYS];
    count[1] = p->heads;
    count[2] = fv_ceil_div(p->dim[FV_ATTN_DV], window_of(p).cols);
}

FV_GPU_CODE(fv_gpu_wlattn, "lattn", "wlattn", 64, .local = window_local, .macros = " -DFV_WLATTN=1",
            .define = window_define, .shape = window_shape, .align = FV_GPU_WINDOWS)

static bool wlattn_applies(const fv_problem *p)
{
    return !(p->flags & (FV_FLAG_ROPE | FV_FLAG_GATED)) && lattn_applies(p);
}

const fv_kernel_hooks fv_h_gpu_wlattn = {.applies = wlattn_applies};

/* ---- GATES ---- */

FV_GPU_CODE(fv_gpu_gates, "gates", "gates", 64, .shape = fv_gpu_shape_rows, .align = 64)
