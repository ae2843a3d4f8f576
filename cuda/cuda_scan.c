/* cuda_scan.c: launch code of scan.cu. */
#include "cuda/cuda_kernels.h"
#include "ops/mech_traits.h"

enum {
    GROUP = 128,
    COLUMNS = 64,
    CHUNK = 16,         /* tokens */
    WIDEST = 128,       /* features of a head */
    SEGMENTS_MOST = 32, /* more segments would cost more in the sequential part than they save */
    AT_ONCE = 3,        /* work-groups of a unit */
};

enum { KNOB_TOKENS }; /* of a segment at least */

static uint32_t width_of(const fv_problem *p)
{
    return fv_mech_table[p->mech]->blocks * p->dim[FV_ATTN_D];
}

static bool has_divisor(const fv_problem *p)
{
    return !(p->flags & FV_FLAG_UNNORMALISED);
}

static bool has_matrix(const fv_problem *p)
{
    return (p->flags & FV_FLAG_DELTA) != 0;
}

/* ---- segments ---- */

static uint32_t slices(uint32_t columns)
{
    return (uint32_t)fv_gpu_groups(columns, COLUMNS);
}

/* The largest number of segments for a call with `rows` rows. */
static uint32_t most_segments(const fv_knobs *k, uint32_t rows)
{
    const uint32_t most = rows / k->v[KNOB_TOKENS];
    return most < 1 ? 1 : most < SEGMENTS_MOST ? most : SEGMENTS_MOST;
}

/* As many segments as the device can run at the same time; each has whole chunks, and none is
 * empty. */
static uint32_t segments(const fv_launch *l, const fv_gpu_piece *piece)
{
    const fv_problem *p = &l->args.prob;
    const uint32_t most = most_segments(&l->args.knobs, piece->rows);
    const uint32_t concurrent = AT_ONCE * piece->units / (p->heads * slices(p->dim[FV_ATTN_DV]));
    const uint32_t now = concurrent < 1 ? 1 : concurrent < most ? concurrent : most;
    const size_t chunks = fv_gpu_groups(fv_gpu_groups(piece->rows, now), CHUNK);
    return (uint32_t)fv_gpu_groups(piece->rows, (uint32_t)chunks * CHUNK);
}

static size_t scratch(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    const size_t width = width_of(p), passing = has_matrix(p) ? width : 2;
    return sizeof(float) * most_segments(k, rows) * p->heads * width *
           (p->dim[FV_ATTN_DV] + has_divisor(p) + passing);
}

/* ---- what runs ---- */

static void scan_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_HEADS", l->args.prob.heads);
}

/* The slices of a head that has a divisor are computed in order, by one work-group. */
static void scan_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    count[0] = p->heads;
    count[1] = has_divisor(p) ? 1 : slices(p->dim[FV_ATTN_DV]);
    count[2] = piece->groups;
}

static void shape_segments(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    scan_shape(l, piece, count);
    count[1] += has_matrix(p) ? slices(width_of(p)) : 0;
    count[2] = piece->groups - 1;
}

static void shape_begins(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    const uint32_t dv = p->dim[FV_ATTN_DV];
    (void)piece;
    count[0] = p->heads;
    count[1] =
        has_matrix(p) ? slices(dv) : fv_gpu_groups(width_of(p) * (dv + has_divisor(p)), GROUP);
}

FV_GPU_CODE(fv_cuda_scan, "scan.cu", "scan", GROUP, .define = scan_define, .shape = scan_shape,
            .align = CHUNK)
FV_GPU_CODE(fv_cuda_scan_segments, "scan.cu", "scan", GROUP, .macros = " -DFV_SEGMENTS=1",
            .define = scan_define, .shape = scan_shape, .segments = segments,
            .pre_pass = {{"scan_segments", shape_segments}, {"scan_begins", shape_begins}},
            .align = CHUNK)

/* Means advance token by token, so centred features cannot use tensor cores. */
static bool applies(const fv_problem *p)
{
    return fv_h_gpu_scan_chunk.applies(p) && width_of(p) <= WIDEST && !(p->flags & FV_FLAG_CENTRED);
}

/* The matrix of a segment does not describe how the divisor changes. */
static bool takes_segments(const fv_problem *p)
{
    return applies(p) && !(has_divisor(p) && has_matrix(p));
}

/* For a few tokens, chunks do not pay. */
static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    return fv_h_gpu_scan_chunk.cost(p, knobs) * (p->dim[FV_DIM_ROWS] < 8 ? 2. : 0.1);
}

/* With segments every token is processed twice, so fewer than four segments at the same time save
 * nothing. */
static double cost_of_segments(const fv_problem *p, const fv_knobs *knobs)
{
    const uint32_t side_by_side = p->heads * slices(p->dim[FV_ATTN_DV]);
    const bool pays = most_segments(knobs, p->dim[FV_DIM_ROWS]) >= 4 && side_by_side <= 96;
    return fv_h_gpu_scan_chunk.cost(p, knobs) * (pays ? 0.05 : 4.);
}

static const fv_knob knobs[] = {{"tokens", {256, 64, 1024, 4096}, 4}, {NULL, {0}, 0}};

const fv_kernel_hooks fv_h_cuda_scan = {.applies = applies, .cost = cost};
const fv_kernel_hooks fv_h_cuda_scan_segments = {
    .applies = takes_segments, .cost = cost_of_segments, .scratch = scratch, .knobs = knobs};
