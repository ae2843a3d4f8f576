/* gpu_gemm.c: launch code of gemm.cl, for GEMM and CONV: the packed weight, the tiles, and the cost
 * of each kernel. */
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "gpu/kernels/gpu_gemm.h"
#include "gpu/kernels/gpu_quantise.h"

enum { PANEL = FV_GPU_PANEL };

/* Whether weights are only stored as int8, and multiplied as floats. */
static bool is_stored_int8(const fv_problem *p)
{
    return p->weight == FV_I8 && p->acc == FV_F32;
}

/* ---- the packed weight ---- */

static size_t packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    const size_t columns = (size_t)p->dim[FV_GEMM_N] * fv_gpu_gemm_sides(p);
    return (columns + PANEL - 1) / PANEL * PANEL * p->dim[FV_GEMM_K] * fv_type_size(p->weight);
}

/* Packs rows of the weight. With SWIGLU a value column and its gate are neighbours. */
static void pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                 const fv_knobs *knobs)
{
    (void)knobs;
    const uint32_t both = fv_gpu_gemm_sides(p), columns = n * both;
    const size_t depth = p->dim[FV_GEMM_K];
    for (uint32_t col = 0; col < columns; col += PANEL) {
        size_t to = ((size_t)n0 * both + col) * depth;
        for (size_t k = 0; k < depth; k++)
            for (uint32_t i = col; i < col + PANEL; i++) {
                const float *row = src + ((size_t)(i % both) * n + i / both) * depth;
                fv_value_put(dst, p->weight, to++, i < columns ? row[k] : 0.f);
            }
    }
}

/* Bytes of the packed weight in int8, which ends with the scales of all columns. If int8 is also
 * multiplied, it consists of words of four steps of k, with zeros to the end of a row's last
 * run. */
static size_t packed_columns(const fv_problem *p)
{
    return fv_round_up(p->dim[FV_GEMM_N] * fv_gpu_gemm_sides(p), PANEL);
}

static size_t column_bytes(const fv_problem *p)
{
    const uint32_t k = p->dim[FV_GEMM_K];
    return fv_gpu_is_quantised(p) ? fv_gpu_row_bytes(k) : k;
}

static size_t packed_i8(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return packed_columns(p) * (column_bytes(p) + sizeof(float));
}

/* Packs column i of a panel; returns its scale. */
static float pack_column(int8_t *panel, uint32_t i, const float *row, const fv_problem *p)
{
    enum { WORD = 4 };
    const uint32_t k = p->dim[FV_GEMM_K];
    if (!fv_gpu_is_quantised(p))
        return fv_int8_column(panel + i, PANEL, row, k);
    return fv_int8_weight(panel + i * WORD, PANEL * WORD, row, k, fv_int8_block(k));
}

static void pack_i8(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                    const fv_knobs *knobs)
{
    (void)knobs;
    const uint32_t both = fv_gpu_gemm_sides(p), columns = n * both;
    const size_t bytes = column_bytes(p), depth = p->dim[FV_GEMM_K];
    int8_t *panels = (int8_t *)dst + (size_t)n0 * both * bytes;
    float *scale = (float *)(void *)((int8_t *)dst + packed_columns(p) * bytes) + n0 * both;
    memset(panels, 0, fv_round_up(columns, PANEL) * bytes);
    for (uint32_t i = 0; i < fv_round_up(columns, PANEL); i++)
        scale[i] = i < columns ? pack_column(panels + i / PANEL * PANEL * bytes, i % PANEL,
                                             src + ((size_t)(i % both) * n + i / both) * depth, p)
                               : 0;
}

/* ---- tiles ---- */

fv_gpu_tile fv_gpu_tile_of(const fv_launch *l, uint32_t group, uint32_t width)
{
    const uint32_t *knob = l->args.knobs.v;
    fv_gpu_tile t = {.rows = knob[FV_GPU_KNOB_ROWS], .cols = knob[FV_GPU_KNOB_COLS]};
    t.across = fv_min_u32(group, width / t.cols);
    t.down = group / t.across;
    return t;
}

/* Tiles for problems of few rows have no more rows than these. */
static fv_gpu_tile tile_of(const fv_launch *l, uint32_t group, uint32_t width)
{
    fv_gpu_tile t = fv_gpu_tile_of(l, group, width);
    t.rows = fv_min_u32(t.rows, l->args.prob.dim[FV_DIM_ROWS]);
    return t;
}

void fv_gpu_define_tile(const fv_launch *l, const fv_gpu_tile *t, fv_gpu_text *out)
{
    fv_gpu_define(out, "FV_CONV", l->args.prob.op == FV_OP_CONV);
    fv_gpu_define(out, "FV_TM", t->rows);
    fv_gpu_define(out, "FV_TN", t->cols);
    fv_gpu_define(out, "FV_LN", t->across);
}

static void define_sizes(const char *kind, const fv_launch *l, const fv_gpu_tile *t,
                         fv_gpu_text *out)
{
    fv_gpu_define(out, kind, 1);
    fv_gpu_define_tile(l, t, out);
    if (is_stored_int8(&l->args.prob))
        fv_gpu_define(out, "FV_W8", 1);
    fv_gpu_define_quantise(l, out);
}

void fv_gpu_cover_product(const fv_launch *l, uint32_t rows, uint32_t height, uint32_t width,
                          size_t count[3])
{
    const uint64_t sides = fv_gpu_gemm_sides(&l->args.prob);
    count[0] = fv_gpu_groups(rows, height);
    count[1] = fv_gpu_groups(sides * l->args.prob.dim[FV_GEMM_N], width);
}

/* `...`: the pre-passes. */
#define CODE(code, name, items, rows_align, ...)                                                   \
    const fv_gpu_code fv_gpu_##code = {.program = "gemm",                                          \
                                       .entry = "product",                                         \
                                       .group = items,                                             \
                                       .local = LOCAL_##name,                                      \
                                       .define = define_##name,                                    \
                                       .shape = shape_##name,                                      \
                                       .pre_pass = {__VA_ARGS__},                                  \
                                       .align = rows_align};

/* Defines kernels whose work-groups have `items` work-items, are `height` rows high and at most
 * `width` packed columns wide. */
#define OF_TILES(name, KIND, width, items, height, rows_align)                                     \
    static void define_##name(const fv_launch *l, uint32_t group, fv_gpu_text *out)                \
    {                                                                                              \
        const fv_gpu_tile t = tile_of(l, group, width);                                            \
        define_sizes(KIND, l, &t, out);                                                            \
    }                                                                                              \
    static void shape_##name(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])           \
    {                                                                                              \
        const fv_gpu_tile t = tile_of(l, p->group, width);                                         \
        fv_gpu_cover_product(l, p->rows, height, t.across *t.cols, count);                         \
    }                                                                                              \
    CODE(gemm_##name, name, items, rows_align, {NULL})

/* Local memory of kernel `tile`: the steps of k that gemm.cl stages at a time, of rows (with stride
 * FV_PITCH) and of columns. */
static uint32_t local_tile(const fv_launch *l, uint32_t group)
{
    enum { STEPS = 16, WIDTH = 64 };
    const fv_gpu_tile t = tile_of(l, group, WIDTH);
    const uint32_t pitch = fv_round_up(t.down * t.rows, 4) + 4;
    return STEPS * (pitch + t.across * t.cols) * (uint32_t)sizeof(float);
}

static uint32_t local_thin(const fv_launch *l, uint32_t group)
{
    return group * l->args.knobs.v[FV_GPU_KNOB_COLS] * (uint32_t)sizeof(float);
}

#define LOCAL_direct NULL
#define LOCAL_tile local_tile
#define LOCAL_thin local_thin
#define LOCAL_wide NULL
OF_TILES(direct, "FV_DIRECT", PANEL, 64, t.down *t.rows, 64)
OF_TILES(tile, "FV_TILE", 64, 128, t.down *t.rows, 64)
OF_TILES(thin, "FV_THIN", PANEL, 128, t.rows, 1)
/* gemm_wide.cl: how many tiles a work-item has. These rows share the weights that it converts. */
static uint32_t wide_tiles(const fv_launch *l)
{
    enum { HEIGHT = 48 };
    const fv_gpu_tile t = tile_of(l, 1, PANEL);
    return HEIGHT / t.rows;
}

static void define_wide(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const fv_gpu_tile t = tile_of(l, group, PANEL);
    define_sizes("FV_WIDE", l, &t, out);
    fv_gpu_define(out, "FV_TILES", wide_tiles(l));
}

static void shape_wide(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const fv_gpu_tile t = tile_of(l, 1, PANEL);
    fv_gpu_cover_product(l, p->rows, t.rows * wide_tiles(l), t.cols, count);
}

CODE(gemm_wide, wide, 1, 48, {NULL})
CODE(gemm_i8_direct, direct, 64, 64, FV_GPU_QUANTISE)
CODE(gemm_i8_tile, tile, 128, 64, FV_GPU_QUANTISE)
CODE(gemm_i8_thin, thin, 128, 1, FV_GPU_QUANTISE)

/* ---- which of them ---- */

static const fv_knob knobs_direct[] = {{"rows", {4, 8, 2}, 3}, {"cols", {4, 8}, 2}, {NULL, {0}, 0}};
static const fv_knob knobs_tile[] = {{"rows", {8, 4}, 2}, {"cols", {4, 8}, 2}, {NULL, {0}, 0}};
/* Vectors of 16 are two registers of AVX, and six rows of them leave registers for operands. */
static const fv_knob knobs_wide[] = {{"rows", {6, 4, 8}, 3}, {"cols", {16, 8}, 2}, {NULL, {0}, 0}};
static const fv_knob knobs_thin[] = {{"rows", {4, 2}, 2}, {"cols", {4}, 1}, {NULL, {0}, 0}};

double fv_gpu_gemm_idle(const fv_problem *p)
{
    const double down = (p->dim[FV_DIM_ROWS] + 63) / 64, enough = 24;
    const double across = (p->dim[FV_GEMM_N] * fv_gpu_gemm_sides(p) + 63) / 64;
    return down * across < enough ? enough / (down * across) : 1;
}

static double cost_tile(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_problem_flops(p) / 200e9 * fv_gpu_gemm_idle(p);
}

/* Hooks for a type of weights, whose layout is the same for all kernels, and for problems that
 * satisfy FITS. They have a cost, or a rate from which the cost follows. Only the ratios between
 * kernels matter, since devices differ by a factor of a thousand. */
#define OF_TYPE(TYPE, type, name, FITS, costs)                                                     \
    static bool applies_##type##_##name(const fv_problem *p)                                       \
    {                                                                                              \
        return p->weight == TYPE && (FITS);                                                        \
    }                                                                                              \
    const fv_kernel_hooks fv_h_gpu_gemm_##type##_##name = {                                        \
        .applies = applies_##type##_##name,                                                        \
        costs,                                                                                     \
        .packed = packed,                                                                          \
        .pack = pack,                                                                              \
        .format = "gpu_panels_" #type,                                                             \
        .knobs = knobs_##name,                                                                     \
    };
/* Hooks for int8: for weights that are only stored so, and for products. */
#define OF_I8(type, IS, name, FITS, ...)                                                           \
    static bool applies_##type##_##name(const fv_problem *p)                                       \
    {                                                                                              \
        return IS(p) && (FITS);                                                                    \
    }                                                                                              \
    const fv_kernel_hooks fv_h_gpu_gemm_##type##_##name = {                                        \
        .applies = applies_##type##_##name,                                                        \
        .packed = packed_i8,                                                                       \
        .pack = pack_i8,                                                                           \
        .format = "gpu_panels_" #type,                                                             \
        .knobs = knobs_##name,                                                                     \
        __VA_ARGS__,                                                                               \
    };
#define OF_FLOATS(name, FITS, costs)                                                               \
    OF_TYPE(FV_F32, f32, name, FITS, costs)                                                        \
    OF_TYPE(FV_F16, f16, name, FITS, costs)                                                        \
    OF_TYPE(FV_BF16, bf16, name, FITS, costs)                                                      \
    OF_I8(w8, is_stored_int8, name, FITS, costs)
#define OF_TYPES(name, FITS, costs)                                                                \
    OF_FLOATS(name, FITS, costs)                                                                   \
    OF_I8(i8, fv_gpu_is_quantised, name, FITS, costs, .scratch = fv_gpu_quantise_scratch)
OF_TYPES(direct, true, .rate = 100e9)
OF_TYPES(tile, true, .cost = cost_tile)
OF_TYPES(thin, p->dim[FV_DIM_ROWS] <= 16, .rate = 250e9)
OF_FLOATS(wide, true, .rate = 200e9)
