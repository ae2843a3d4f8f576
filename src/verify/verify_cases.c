/* verify_cases.c: makes steps of every op and mechanism, as plans have them but without a model,
 * with odd sizes. */
#include "verify/verify_cases.h"

#include <math.h>

#include "base/mem.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "ops/extension.h"
#include "ops/mech_traits.h"
#include "plan/plan.h"

enum {
    GRID_WIDTH = 13,
    GRID_HEIGHT = 11,
    TOKENS = GRID_WIDTH * GRID_HEIGHT,
    PREFIX = 2,
    WIDTH = 96, /* channels */
    GROUPS = 5, /* number of partial states */
    WINDOW = 16,
    PATCH = 8, /* side of a patch in pixels */
};

static const fv_grid grid = {GRID_WIDTH, GRID_HEIGHT, PATCH, 0};
static const fv_grid prefixed = {GRID_WIDTH, GRID_HEIGHT, PATCH, PREFIX};

/* Returns a weight with a size but no values, which a trial generates. */
static fv_weight weight(uint32_t rows, uint32_t cols)
{
    return (fv_weight){.rows = rows, .cols = cols};
}

/* ---- pixels ---- */

/* Declares a frame of the pixel format that the flags select. */
static void frame(fv_builder *b, uint32_t flags)
{
    const bool planar = flags & FV_FLAG_PLANAR;
    const uint32_t bytes = flags & FV_FLAG_YUYV                                     ? 2
                           : flags & (FV_FLAG_PLANAR | FV_FLAG_GRAY | FV_FLAG_NV12) ? 1
                                                                                    : 3;
    b->frame_flags = flags;
    b->frame_plane = b->options->width * b->options->height;
    b->yuv = flags & FV_FLAG_NV12 ? FOVEA_YUV_709 : FOVEA_YUV_601_FULL;
    b->frame = fv_emit_value(b, FV_VALUE_INPUT, b->options->height * (planar ? 3 : 1),
                             b->options->width * bytes, planar ? FV_F32 : FV_U8);
    if (flags & FV_FLAG_NV12)
        b->chroma = fv_emit_value(b, FV_VALUE_INPUT, (b->options->height + 1) / 2,
                                  b->options->width, FV_U8);
}

/* Returns a value for the rows of a picture after resize `p`. */
static fv_view picture_rows(fv_cases *c, const fv_picture_resize *p, uint32_t rows,
                            enum fv_type type)
{
    return fv_emit_value(&c->b, FV_VALUE_ROWS, rows, 3 * p->width, type);
}

/* Divides the builder's frame into patches. With `over`, patches overlap and extend beyond the
 * picture. */
static void patches(fv_builder *b, bool over)
{
    const uint32_t side = over ? PATCH + 3 : PATCH;
    fv_emit_patches(b, &prefixed, side, PATCH, over ? 2 : 0,
                    fv_emit_rows(b, fv_grid_tokens(&prefixed), 3 * side * side));
}

static void pixels(fv_cases *c)
{
    static const uint32_t flags[] = {
        0, FV_FLAG_BGR, FV_FLAG_GRAY, FV_FLAG_PLANAR, FV_FLAG_NV12, FV_FLAG_YUYV};
    fv_builder *b = &c->b;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        frame(b, flags[i]);
        for (size_t k = 0; k < CASE_PICTURES; k++) {
            const fv_picture_resize *p = &c->picture[k].resize[0];
            const enum fv_type type = c->picture[k].floats ? FV_F32 : FV_U8;
            const fv_view wide = picture_rows(c, p, p->in_rows, type);
            if (flags[i] == 0 || flags[i] & FV_FLAG_YUV)
                fv_emit_resize(b, FV_OP_RESIZE_X, p, b->frame, b->options->width, 3, wide);
            if (flags[i] == 0)
                fv_emit_resize(b, FV_OP_RESIZE_Y, p, wide, p->width, 3,
                               picture_rows(c, p, p->height, type));
            if (flags[i] == 0 && type == FV_F32)
                fv_emit_resize(b, FV_OP_RESIZE_X, p,
                               fv_emit_value(b, FV_VALUE_ROWS, b->options->height,
                                             3 * b->options->width, FV_F32),
                               b->options->width, 3, picture_rows(c, p, p->in_rows, type));
        }
        patches(b, i % 4 == 1);
    }
    /* A frame of floats, surrounded by zeros. */
    b->frame_flags = 0;
    b->frame = fv_emit_value(b, FV_VALUE_ROWS, b->options->height, 3 * b->options->width, FV_F32);
    patches(b, false);
    b->options->inner = (struct fv_inner){5, 3, b->options->width - 40, b->options->height - 50};
    patches(b, true);
    b->options->inner = (struct fv_inner){0, 0, b->options->width, b->options->height};
}

/* ---- rows ---- */

static void rows(fv_builder *b)
{
    const uint32_t all = TOKENS + PREFIX;
    const fv_weight w = weight(1, WIDTH);
    const fv_view x = fv_emit_rows(b, all, WIDTH);
    fv_emit_layernorm(b, "layernorm", x, &w, &w, 1e-6f, fv_emit_rows(b, all, WIDTH), all);
    const fv_weight odd = weight(1, 37);
    fv_emit_layernorm(b, "layernorm in place", x, &odd, &odd, 1e-6f, x, all);
    fv_emit_copy(b, "copy", x, fv_emit_rows(b, all, WIDTH), all, WIDTH);
    fv_emit_take(b, "take", x, PREFIX, fv_emit_rows(b, TOKENS, WIDTH), TOKENS, WIDTH);
    fv_emit_mul(b, "mul", x, fv_emit_rows(b, all, WIDTH), false, x, all, WIDTH);
    fv_emit_mul(b, "mul by silu", x, fv_emit_rows(b, all, WIDTH), true, fv_emit_rows(b, all, WIDTH),
                all, WIDTH);
    fv_emit_lerp(b, "lerp", fv_emit_rows(b, 49, WIDTH), 49, fv_emit_rows(b, all, WIDTH), all,
                 WIDTH);
    fv_emit_act(b, "activation", FV_EPI_RELU, x, fv_emit_rows(b, all, WIDTH), all, WIDTH);
    fv_emit_act(b, "activation", FV_EPI_SILU, x, fv_emit_rows(b, all, WIDTH), all, WIDTH);
    fv_emit_add(b, "add", x, fv_emit_rows(b, all, WIDTH), x, all, WIDTH);
    fv_step *s = fv_emit_row_step(b, FV_OP_ADD, "add scaled", x, FV_KIND_ROW,
                                  fv_emit_rows(b, all, WIDTH), all, WIDTH);
    fv_use_weight(s, FV_ADD_SCALE, &w);
    fv_emit_gates(b, "gates", fv_emit_rows(b, all, 12), 12.f, 12, all);
    for (int from = FV_F32; from <= FV_BF16; from++)
        for (int to = FV_F32; to <= FV_BF16; to++) {
            const fv_view in = fv_emit_value(b, FV_VALUE_INPUT, all, WIDTH, (enum fv_type)from);
            fv_emit_convert(b, "convert", in, (enum fv_type)from,
                            fv_emit_value(b, FV_VALUE_OUTPUT, all, WIDTH, (enum fv_type)to),
                            (enum fv_type)to, all, WIDTH);
        }
    fv_emit_mean(b, "mean", x, &prefixed, WIDTH, fv_emit_rows(b, 1, WIDTH));
}

/* Emits RMS norms of whole rows, and of heads whose results are gated. */
static void rms_norms(fv_builder *b)
{
    enum { HEADS = 3 };
    static const struct {
        bool gate, silu, head_gate;
    } kinds[] = {{false, false, false}, {true, true, true}, {true, false, false}};
    const fv_weight whole = weight(1, WIDTH), head = weight(1, WIDTH / HEADS);
    for (int i = 0; i < 3; i++) {
        const fv_view x = fv_emit_rows(b, TOKENS, WIDTH);
        const fv_rmsnorm n = {.w = i ? &head : &whole,
                              .in = x,
                              .gate = kinds[i].gate ? fv_emit_rows(b, TOKENS, WIDTH) : FV_NO_VIEW,
                              .head_gate =
                                  kinds[i].head_gate ? fv_emit_rows(b, TOKENS, HEADS) : FV_NO_VIEW,
                              .out = i == 2 ? x : fv_emit_rows(b, TOKENS, WIDTH),
                              .rows = TOKENS,
                              .heads = i ? HEADS : 1,
                              .silu = kinds[i].silu,
                              .eps = 1e-6f};
        fv_emit_rmsnorm(b, "norm by the root mean square", &n);
    }
}

/* Emits group norms with groups of several channels, of one channel, and of all channels. */
static void group_norms(fv_builder *b)
{
    static const uint32_t groups[] = {8, WIDTH, 1}, acts[] = {FV_EPI_RELU, FV_EPI_SILU, 0};
    const fv_weight w = weight(1, WIDTH);
    for (int i = 0; i < 3; i++) {
        const fv_groupnorm n = {.w = &w,
                                .bias = &w,
                                .in = fv_emit_rows(b, TOKENS, WIDTH),
                                .out = fv_emit_rows(b, TOKENS, WIDTH),
                                .rows = TOKENS,
                                .groups = groups[i],
                                .act = acts[i],
                                .eps = 1e-5f};
        fv_emit_groupnorm(b, "group norm", &n);
    }
}

/* ---- queries and boxes ---- */

enum { QUERIES = 37 };

static void deformable(fv_builder *b)
{
    enum { HEADS = 3, POINTS = 2, COARSE = 4 };
    const fv_grid levels[] = {grid, {COARSE, 1, PATCH, 0}};
    const fv_view more = fv_emit_rows(b, QUERIES, 2 * HEADS * POINTS * 3);
    fv_deform d = {.values = fv_emit_rows(b, TOKENS, WIDTH),
                   .box = fv_emit_rows(b, QUERIES, 4),
                   .offset = more,
                   .weight = fv_view_cols(more, 2 * HEADS * POINTS * 2),
                   .level = levels,
                   .levels = 1,
                   .heads = HEADS,
                   .d = WIDTH / HEADS,
                   .points = POINTS,
                   .rows = QUERIES};
    fv_emit_deform(b, "deformable attention", &d);
    d.values = fv_emit_rows(b, TOKENS + COARSE, WIDTH);
    d.box = fv_emit_rows(b, QUERIES, 2);
    d.levels = 2;
    d.centres = true;
    fv_emit_deform(b, "deformable attention to two levels", &d);
}

static void detection(fv_builder *b)
{
    enum { CLASSES = 11 };
    const fv_weight rates = weight(1, 20), table = weight(TOKENS, 4);
    const fv_view x = fv_emit_rows(b, TOKENS, WIDTH), boxes = fv_emit_rows(b, QUERIES, 4);
    uint32_t *some = fv_emit_table(b, TOKENS / 2);
    for (uint32_t i = 0; some && i < TOKENS / 2; i++)
        some[i] = 2 * i;
    const fv_view best =
        fv_emit_row_max(b, "row max", fv_emit_rows(b, TOKENS, CLASSES), TOKENS, CLASSES);
    const fv_view all = fv_emit_topk(b, "top k", best, TOKENS, 1, QUERIES, NULL, 0);
    fv_emit_topk(b, "top k of some", best, TOKENS, 1, TOKENS, some, TOKENS / 2);
    fv_emit_pick(b, "pick",
                 &(fv_pick){.in = x, .index = all, .from = TOKENS, .rows = QUERIES, .cols = WIDTH});
    fv_emit_pick(
        b, "pick in order",
        &(fv_pick){.w = &table, .index = FV_NO_VIEW, .from = TOKENS, .rows = QUERIES, .cols = 4});
    fv_emit_sine(b, "sines", boxes, 4, &rates, &rates, QUERIES);
    fv_emit_sine(b, "sines of rates in two parts", boxes, 4, &(fv_weight){.rows = 2, .cols = 20},
                 &rates, QUERIES);
    deformable(b);
    fv_emit_refine(b, "refine", boxes, fv_emit_rows(b, QUERIES, 4), fv_emit_rows(b, QUERIES, 4),
                   QUERIES);
}

/* Emits candidates of anchors, of all scores of regions, and of the best score of each; then the
 * steps that follow them. */
static void regions(fv_builder *b)
{
    enum { REGIONS = 23, CLASSES = 5, ANCHORS = 2, SIZE = 3, KEPT = 11 };
    static const float anchor[ANCHORS][4] = {{-8, -8, 8, 8}, {-16, -4, 16, 4}};
    static const float mean[4] = {0, 0.1f, 0, -0.1f}, std[4] = {0.1f, 0.1f, 0.2f, 0.2f};
    const fv_view scores = fv_emit_rows(b, TOKENS, ANCHORS);
    fv_region_scores k = {
        .index = fv_emit_topk(b, "top k of columns", scores, TOKENS, ANCHORS, REGIONS, NULL, 0),
        .scores = scores,
        .delta = fv_emit_rows(b, TOKENS, 4 * ANCHORS),
        .region = FV_NO_VIEW,
        .rows = REGIONS,
        .from = TOKENS,
        .columns = ANCHORS,
        .deltas = ANCHORS,
        .anchor = anchor,
        .width = GRID_WIDTH,
        .of_class = 3,
        .stride = PATCH,
        .mean = mean,
        .std = std,
        .size = {GRID_WIDTH * PATCH, GRID_HEIGHT * PATCH},
        .score = -1e30f};
    k.region = fv_emit_candidates(b, "regions of anchors", &k);
    k.index = FV_NO_VIEW;
    k.scores = fv_emit_rows(b, REGIONS, CLASSES);
    k.delta = fv_emit_rows(b, REGIONS, 4 * CLASSES);
    k.anchor = NULL;
    k.from = REGIONS;
    k.columns = k.deltas = CLASSES;
    k.side = -1;
    k.largest = true;
    fv_emit_candidates(b, "regions of the best scores", &k);
    k.delta = fv_emit_rows(b, REGIONS, 4);
    k.deltas = 1;
    k.largest = false;
    k.rows = REGIONS * CLASSES;
    k.score = 0.05f;
    const fv_view all = fv_emit_candidates(b, "regions of all scores", &k);
    const fv_view kept = fv_emit_suppress(b, "best regions", all, k.rows, KEPT, 0.5f);
    const fv_grid coarse = {4, 1, 2 * PATCH, 0};
    const fv_roi_align r = {.region = kept,
                            .level = {fv_emit_rows(b, TOKENS, WIDTH), fv_emit_rows(b, 4, WIDTH)},
                            .grid = {grid, coarse},
                            .stride = {PATCH, 2 * PATCH},
                            .finest_scale = 20,
                            .regions = KEPT,
                            .levels = 2,
                            .channels = WIDTH,
                            .size = SIZE};
    fv_emit_roi_align(b, "cells of regions", &r);
    fv_class_mask m = {.in = fv_emit_rows(b, KEPT * SIZE * SIZE, CLASSES),
                       .region = kept,
                       .res = FV_NO_VIEW,
                       .out = fv_emit_rows(b, KEPT * SIZE * SIZE, 1),
                       .regions = KEPT,
                       .cells = SIZE * SIZE,
                       .classes = CLASSES,
                       .factor = 0.5f};
    fv_emit_class_mask(b, "masks", &m);
    m.res = m.out;
    fv_emit_class_mask(b, "masks of another stage", &m);
}

static void positions(fv_builder *b)
{
    const uint32_t all = fv_grid_tokens(&prefixed);
    const fv_weight prefix = weight(PREFIX, WIDTH), table = weight(7 * 7, WIDTH);
    const fv_weight plain = weight(TOKENS, WIDTH);
    const fv_view x = fv_emit_rows(b, all, WIDTH);
    const fv_posemb resized = {.prefix = &prefix,
                               .table = &table,
                               .table_width = 7,
                               .table_height = 7,
                               .rule = FV_POS_PLAIN};
    const fv_posemb as_is = {.table = &plain};
    fv_emit_posemb(b, "positions", &resized, &prefixed, x, fv_emit_rows(b, all, WIDTH));
    fv_emit_posemb(b, "positions as they are", &as_is, &grid, x, x);
}

/* ---- products ---- */

static void product(fv_builder *b, uint32_t n, uint32_t k, uint32_t act, bool more, uint32_t count)
{
    const uint32_t both = act == FV_EPI_SWIGLU ? 2 : 1;
    const fv_weight w = weight(n * both, k), bias = weight(1, n * both), scale = weight(1, n);
    const fv_view out = fv_emit_rows(b, count, n);
    const fv_gemm g = {.w = &w,
                       .bias = &bias,
                       .scale = more ? &scale : NULL,
                       .in = fv_emit_rows(b, count, k),
                       .res = more ? out : FV_NO_VIEW,
                       .out = out,
                       .act = act,
                       .rows = count};
    fv_emit_gemm(b, "gemm", &g);
}

static void products(fv_builder *b)
{
    product(b, 160, WIDTH, 0, true, TOKENS);
    product(b, 70, 37, FV_EPI_GELU, false, TOKENS);
    product(b, 128, 256, FV_EPI_GELU, false, 256);
    product(b, 10, WIDTH, 0, false, 1);
    const bool every =
        b->options->weight_type == FV_F32 || b->options->compute == FOVEA_COMPUTE_INT8;
    for (uint32_t i = 0; every && i < FV_ACTIVATIONS; i++)
        if (fv_activations[i].epi != FV_EPI_GELU)
            product(b, 68, 64, fv_activations[i].epi, i % 2 == 0, 29);
    if (every)
        product(b, 68, 64, FV_EPI_SWIGLU, true, 29);
}

static void whole_numbers(fv_builder *b)
{
    b->options->compute = FOVEA_COMPUTE_INT8;
    b->in_block = true;
    products(b);
    product(b, 64, WIDTH, 0, false, 3);
    b->options->compute = FOVEA_COMPUTE_F32;
    b->in_block = false;
}

static void convolutions(fv_builder *b)
{
    static const struct {
        uint32_t size, stride, pad, channels, out, act;
    } kinds[] = {{3, 2, 1, 32, 70, FV_EPI_GELU},
                 {2, 2, 0, 20, 64, 0},
                 {3, 1, 1, 64, 64, 0},  /* with a residual */
                 {7, 11, 0, 8, 68, 0}}; /* one pixel */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const uint32_t across = (GRID_WIDTH + 2 * kinds[i].pad - kinds[i].size) / kinds[i].stride;
        const uint32_t down = (GRID_HEIGHT + 2 * kinds[i].pad - kinds[i].size) / kinds[i].stride;
        const fv_grid to = {across + 1, down + 1, PATCH * kinds[i].stride, 0};
        const uint32_t area = kinds[i].size * kinds[i].size;
        const fv_weight w = weight(kinds[i].out, area * kinds[i].channels);
        const fv_weight bias = weight(1, kinds[i].out);
        const fv_view out = fv_emit_rows(b, fv_grid_tokens(&to), kinds[i].out);
        const fv_conv c = {.w = &w,
                           .bias = &bias,
                           .in = fv_emit_rows(b, TOKENS, kinds[i].channels),
                           .out = out,
                           .res = i == 2 ? &out : NULL,
                           .from = grid,
                           .to = to,
                           .channels = kinds[i].channels,
                           .size = kinds[i].size,
                           .stride = kinds[i].stride,
                           .pad = kinds[i].pad,
                           .act = kinds[i].act};
        fv_emit_conv(b, "convolution", &c);
    }
}

/* Emits convolutions that multiply int8, and the steps that quantise their pixels. */
static void int8_convolutions(fv_builder *b)
{
    b->options->compute = FOVEA_COMPUTE_INT8;
    b->options->multiplies_int8 = true;
    convolutions(b);
    b->options->compute = FOVEA_COMPUTE_F32;
    b->options->multiplies_int8 = false;
}

/* Emits products and convolutions whose weights are stored as int8; activations and biases are as
 * with other weights. */
static void stored_int8(fv_builder *b)
{
    b->options->weight_type = FV_F32;
    b->options->int8_weights = b->in_block = true;
    product(b, 160, WIDTH, 0, true, TOKENS);
    product(b, 70, 37, FV_EPI_GELU, false, TOKENS);
    product(b, 68, 64, FV_EPI_SWIGLU, true, 29);
    product(b, 64, WIDTH, 0, false, 3);
    convolutions(b);
    b->options->int8_weights = b->in_block = false;
}

/* ---- products of activations ---- */

static void activations(fv_builder *b)
{
    static const struct {
        uint32_t rows, n, k;
    } sizes[] = {{TOKENS, 7, WIDTH}, {7, TOKENS, WIDTH}, {29, 66, 37}, {1, 1, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fv_emit_matmul(b, "product of activations", fv_emit_rows(b, sizes[i].rows, sizes[i].k),
                       fv_emit_rows(b, sizes[i].n, sizes[i].k), sizes[i].n, sizes[i].k,
                       fv_emit_rows(b, sizes[i].rows, sizes[i].n), sizes[i].rows);
}

/* ---- grids ---- */

static void depthwise(fv_builder *b)
{
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t size = i == 1 ? 5 : 3, period = i == 2 ? 32 : WIDTH;
        const fv_weight w = weight(period, size * size), bias = weight(1, period);
        const fv_view y = fv_emit_rows(b, TOKENS, WIDTH);
        const fv_dwconv c = {.w = &w,
                             .bias = i ? &bias : NULL,
                             .in = fv_emit_rows(b, TOKENS, WIDTH),
                             .res = i ? y : FV_NO_VIEW,
                             .gate = i == 2 ? fv_emit_rows(b, TOKENS, WIDTH) : FV_NO_VIEW,
                             .out = y,
                             .width = GRID_WIDTH,
                             .height = GRID_HEIGHT,
                             .count = 1,
                             .channels = WIDTH,
                             .size = size};
        fv_emit_dwconv(b, "depthwise convolution", &c);
    }
}

static void other_order(fv_builder *b)
{
    const fv_view x = fv_emit_rows(b, TOKENS, WIDTH);
    for (uint32_t parts = 1; parts <= 4; parts += 3) {
        const uint32_t count = TOKENS / parts;
        uint32_t *table = fv_emit_table(b, count * parts);
        for (uint32_t i = 0; table && i < count * parts; i++)
            table[i] = i % 9 == 4 ? FV_GATHER_NONE : i * 7 % TOKENS;
        fv_emit_gather(b, "gather", x, table, parts,
                       parts == 1 ? fv_emit_rows(b, count, WIDTH) : FV_NO_VIEW,
                       fv_emit_rows(b, count, parts * WIDTH), count, WIDTH);
    }
}

static void areas(fv_builder *b)
{
    const fv_view x = fv_emit_rows(b, TOKENS, WIDTH);
    fv_emit_adaptive_pool(b, "areas", x, &grid, 6, 6, fv_emit_rows(b, 36, WIDTH), WIDTH);
    fv_emit_adaptive_pool(b, "the whole", x, &grid, 1, 1, fv_emit_rows(b, 1, WIDTH), WIDTH);
    fv_emit_max_pool(b, "maxima", x, &grid, WIDTH);
}

static void decoders(fv_builder *b)
{
    static const uint32_t flags[] = {0, FV_FLAG_NEAREST, FV_FLAG_ALIGN_CORNERS};
    const fv_view x = fv_emit_rows(b, TOKENS, WIDTH);
    for (uint32_t i = 0; i < 3; i++) {
        const fv_grid to = {i == 1 ? 9 : 2 * GRID_WIDTH, 2 * GRID_HEIGHT - i, 0, 0};
        const fv_view out = fv_emit_rows(b, fv_grid_tokens(&to), WIDTH);
        const fv_upsample u = {.in = x,
                               .res = i == 2 ? out : FV_NO_VIEW,
                               .out = out,
                               .from = grid,
                               .to = to,
                               .channels = WIDTH,
                               .flags = flags[i]};
        fv_emit_upsample(b, "upsample", &u);
    }
    for (uint32_t overlap = 0; overlap < 2; overlap++) {
        const uint32_t stride = overlap ? 2 : 4, channels = 33;
        const fv_weight w = weight(stride * stride * channels, WIDTH * (overlap ? 4 : 1));
        const fv_weight bias = weight(1, w.rows);
        const fv_deconv d = {
            .w = &w,
            .bias = &bias,
            .in = x,
            .out = fv_emit_rows(b, stride * stride * TOKENS, channels),
            .from = grid,
            .from_channels = WIDTH,
            .channels = channels,
            .stride = stride,
            .overlap = overlap,
            .act = overlap ? FV_EPI_RELU : 0,
        };
        fv_emit_deconv(b, "transposed convolution", &d);
    }
}

static void rotations(fv_builder *b)
{
    fv_weight cos, sin;
    const fv_view x = fv_emit_rows(b, TOKENS, WIDTH);
    fv_emit_rope_tables(b, &grid, 32, &cos, &sin);
    fv_emit_rope(b, "rope", x, &cos, &sin, &grid, 3, 32, fv_emit_rows(b, TOKENS, WIDTH));
    fv_emit_rope_tables(b, &grid, 16, &cos, &sin);
    fv_emit_rope(b, "rope in place", x, &cos, &sin, &grid, 6, 16, x);
    const fv_view angles = fv_emit_rows(b, TOKENS, 2 * 24);
    fv_emit_rope_rows(b, "rope by rows", x, angles, fv_view_cols(angles, 24), 4, 24,
                      fv_emit_rows(b, TOKENS, WIDTH), TOKENS);
}

/* ---- attention ---- */

/* Returns queries, keys and values of `count` tokens: views of one value, as in a model. */
static fv_attention attention(fv_builder *b, uint32_t mech, uint32_t heads, uint32_t d,
                              uint32_t count, fv_view *q)
{
    const fv_mech_traits *t = fv_mech_table[mech];
    const fv_view x = fv_emit_rows(b, count, 3 * heads * d);
    fv_attention a = {.mech = mech,
                      .heads = heads,
                      .d = d,
                      .dv = d,
                      .queries = count,
                      .keys = count,
                      .scale = mech == FV_MECH_ANY ? 1 / sqrt(d) : 1,
                      .eps = 1e-6,
                      .flags = t->wants & FV_WANT_SIGNED ? FV_FLAG_UNNORMALISED : 0};
    a.param = weight(t->params, heads * d);
    a.k = (fv_view){x.id, heads * d};
    a.v = (fv_view){x.id, 2 * heads * d};
    *q = x;
    return a;
}

static void attend(fv_builder *b, fv_attention *a, fv_view q)
{
    fv_emit_keys(b, "attention", a);
    fv_emit_queries(b, "attention", a, q, fv_emit_rows(b, a->queries, a->heads * a->dv));
}

static void softmax(fv_builder *b)
{
    fv_view q;
    fv_attention a = attention(b, FV_MECH_ANY, 3, 32, TOKENS, &q);
    attend(b, &a, q);
    a.flags = FV_FLAG_CAUSAL;
    attend(b, &a, q);
    a = attention(b, FV_MECH_ANY, 2, 64, TOKENS, &q);
    attend(b, &a, q);
    a = attention(b, FV_MECH_ANY, 3, 20, 37, &q);
    attend(b, &a, q);
}

/* Emits softmax in windows of side x side tokens, with and without relative positions. */
static void square_windows(fv_builder *b, uint32_t windows, uint32_t side)
{
    const uint32_t window = side * side, count = windows * window;
    fv_view q;
    fv_attention a = attention(b, FV_MECH_ANY, 3, 32, count, &q);
    const fv_weight table = weight(a.d, 2 * side - 1);
    const fv_rel_pos positions = {&table, &table, side, side, a.heads, a.d};
    fv_emit_window(b, "window attention", &a, q, window, NULL,
                   fv_emit_rows(b, count, a.heads * a.dv));
    a.rel_pos = fv_emit_rel_pos(b, "relative positions in windows", &positions, q, count);
    a.rel_columns = side;
    fv_emit_window(b, "window attention with relative positions", &a, q, window, NULL,
                   fv_emit_rows(b, count, a.heads * a.dv));
}

/* Emits softmax with relative positions, over all tokens and in windows. whole_attention() uses
 * these cases too, where only the larger ones multiply int8. */
static void relative(fv_builder *b)
{
    fv_view q;
    fv_attention a = attention(b, FV_MECH_ANY, 3, 32, TOKENS, &q);
    const fv_weight down = weight(a.d, 2 * GRID_HEIGHT - 1),
                    across = weight(a.d, 2 * GRID_WIDTH - 1);
    const fv_rel_pos all = {&down, &across, GRID_HEIGHT, GRID_WIDTH, a.heads, a.d};
    a.rel_pos = fv_emit_rel_pos(b, "relative positions", &all, q, TOKENS);
    a.rel_columns = GRID_WIDTH;
    attend(b, &a, q);
    square_windows(b, 5, 4);
    square_windows(b, 2, 12);
}

/* Emits attention of seven queries, from which masks hide some of the last keys. */
static void masked(fv_builder *b, bool spare)
{
    enum { COUNT = 7, PATCHES = 71 };
    fv_view q;
    fv_attention a = attention(b, FV_MECH_ANY, 3, 32, COUNT + PATCHES, &q);
    a.queries = COUNT;
    fv_emit_mask_keys(b, "masks", &a, fv_emit_rows(b, COUNT, PATCHES), PATCHES, spare);
    attend(b, &a, fv_emit_rows(b, COUNT, a.heads * a.d));
}

static void foveated(fv_builder *b)
{
    static const fv_grid large = {23, 14, PATCH, PREFIX}; /* two levels of cells */
    fv_view q;
    for (uint32_t margin = 1; margin <= 4; margin += 3) {
        fv_attention a = attention(b, FV_MECH_ANY, 3, 32, fv_grid_tokens(&large), &q);
        a.margin = margin;
        a.grid = &large;
        attend(b, &a, q);
    }
}

/* Emits softmax attention that multiplies int8 and, on the CPU, foveated attention. */
static void whole_attention(fv_builder *b, const fv_limits *limits)
{
    const bool narrow_only = b->options->narrow_only;
    b->options->compute = FOVEA_COMPUTE_INT8;
    b->in_block = b->options->int8_attention = true;
    b->options->narrow_only = !limits->throughput;
    softmax(b);
    relative(b);
    masked(b, false);
    masked(b, true);
    if (!limits->throughput)
        foveated(b);
    b->options->compute = FOVEA_COMPUTE_F32;
    b->in_block = b->options->int8_attention = false;
    b->options->narrow_only = narrow_only;
}

/* Emits linear attention of every mechanism: plain, and with RoPE and gates where supported. */
static void linear(fv_builder *b)
{
    for (uint32_t mech = FV_MECH_ANY + 1; mech < FV_MECH_COUNT; mech++) {
        fv_view q;
        fv_attention a = attention(b, mech, 3, 32, TOKENS, &q);
        attend(b, &a, q);
        if (!(fv_mech_table[mech]->wants & FV_WANT_SHIFT)) {
            a.flags |= FV_FLAG_ROPE;
            a.rope_width = grid.width;
            fv_emit_rope_tables(b, &grid, 32, &a.cos, &a.sin);
        }
        a.flags |= FV_FLAG_GATED;
        a.gate_q = fv_emit_rows(b, TOKENS, a.heads);
        a.gate_k = fv_emit_rows(b, TOKENS, a.heads);
        attend(b, &a, q);
        if (b->options->row_type == FV_F16) /* changes how rows are read, but not what is
                                               computed */
            continue;
        a = attention(b, mech, 2, 18, 37, &q);
        attend(b, &a, q);
    }
}

static void windows(fv_builder *b)
{
    enum { COUNT = 5 * WINDOW };
    fv_view q;
    for (uint32_t mech = FV_MECH_ANY; mech < FV_MECH_COUNT; mech++) {
        fv_attention a = attention(b, mech, 3, 32, COUNT, &q);
        fv_emit_window(b, "window attention", &a, q, WINDOW, NULL,
                       fv_emit_rows(b, COUNT, a.heads * a.dv));
    }
    fv_attention a = attention(b, FV_MECH_ANY, 3, 32, COUNT, &q);
    uint32_t *regions = fv_emit_table(b, COUNT);
    for (uint32_t i = 0; regions && i < COUNT; i++)
        regions[i] = i % 3;
    a.param = weight(a.heads * WINDOW, WINDOW);
    fv_emit_window(b, "window attention with regions", &a, q, WINDOW, regions,
                   fv_emit_rows(b, COUNT, a.heads * a.dv));
}

static void pooling(fv_builder *b)
{
    const uint32_t heads = 3, d = WIDTH / 3;
    const fv_view kv = fv_emit_rows(b, TOKENS, 2 * WIDTH);
    const fv_attention a = {.heads = heads,
                            .d = d,
                            .keys = TOKENS,
                            .scale = 1 / sqrt(d),
                            .k = kv,
                            .v = fv_view_cols(kv, WIDTH)};
    fv_emit_pool(b, "attention pooling", "attention pooling", &a, fv_emit_rows(b, 1, WIDTH));
}

static void scan(fv_builder *b, uint32_t mech, uint32_t flags, enum fv_type type)
{
    const uint32_t heads = 3, d = 32;
    const uint32_t decays = flags & FV_FLAG_DECAY_CHANNEL ? heads * d : heads;
    fv_scan a = {.mech = mech,
                 .heads = heads,
                 .d = d,
                 .dv = d,
                 .rows = TOKENS,
                 .flags = flags,
                 .in = type,
                 .out = type,
                 .scale = 1 / sqrt(d),
                 .eps = 1e-6,
                 .scale_by_tokens = flags & FV_FLAG_CENTRED ? 0.01 : 0};
    a.q = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, heads * d, type);
    a.k = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, heads * d, type);
    a.v = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, heads * d, type);
    a.decay = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, decays, FV_F32);
    a.beta = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, heads, FV_F32);
    a.gate_q = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, heads, FV_F32);
    a.gate_k = fv_emit_value(b, FV_VALUE_INPUT, TOKENS, heads, FV_F32);
    a.state = fv_emit_value(b, FV_VALUE_KEPT, 1, (uint32_t)fv_scan_floats(&a), FV_F32);
    fv_emit_scan(b, "scan", &a, fv_emit_value(b, FV_VALUE_OUTPUT, TOKENS, heads * d, type));
}

static void scans(fv_builder *b)
{
    static const uint32_t decays[] = {0, FV_FLAG_DECAY, FV_FLAG_DECAY_CHANNEL, FV_FLAG_DELTA,
                                      FV_FLAG_DELTA | FV_FLAG_DECAY};
    static const uint32_t forms[] = {FV_FLAG_RECURRENT, FV_FLAG_CHUNKWISE};
    for (int i = 0; i < 2; i++) {
        for (uint32_t mech = FV_MECH_ANY + 1; mech < FV_MECH_COUNT; mech++) {
            const fv_mech_traits *t = fv_mech_table[mech];
            if (t->causal)
                scan(b, mech, forms[i] | (t->wants & FV_WANT_SIGNED ? FV_FLAG_UNNORMALISED : 0),
                     FV_F32);
        }
        scan(b, FV_MECH_NALA, forms[i] | FV_FLAG_GATED, FV_F32);
        scan(b, FV_MECH_ELU1, forms[i], FV_F16);
        scan(b, FV_MECH_ELU1, forms[i] | FV_FLAG_CENTRED | FV_FLAG_GATED, FV_F32);
        scan(b, FV_MECH_RELU, forms[i] | FV_FLAG_CENTRED, FV_F32);
        scan(b, FV_MECH_EXP, forms[i] | FV_FLAG_CENTRED, FV_F16);
        for (int k = 0; k < 5; k++)
            scan(b, FV_MECH_IDENTITY, forms[i] | decays[k] | FV_FLAG_UNNORMALISED | FV_FLAG_L2,
                 FV_F32);
    }
}

/* Emits attention with a cache that already contains some tokens, and is a few tokens too small for
 * the new ones. */
static void cached(fv_builder *b, uint32_t rows, uint32_t kv_heads, uint32_t window)
{
    const uint32_t heads = 4, d = 32, dv = 24;
    fv_softmax_scan a = {.heads = heads,
                         .kv_heads = kv_heads,
                         .d = d,
                         .dv = dv,
                         .rows = rows,
                         .capacity = TOKENS,
                         .window = window,
                         .scale = 1 / sqrt(d)};
    a.q = fv_emit_rows(b, rows, heads * d);
    a.k = fv_emit_rows(b, rows, kv_heads * d);
    a.v = fv_emit_rows(b, rows, kv_heads * dv);
    a.position = fv_emit_value(b, FV_VALUE_INPUT, rows, 1, FV_F32);
    a.cache = fv_emit_value(b, FV_VALUE_KEPT, 1, (uint32_t)fv_cache_floats(&a), FV_F32);
    a.out = fv_emit_rows(b, rows, heads * dv);
    fv_emit_softmax_scan(b, "softmax scan", &a);
}

static void caches(fv_builder *b)
{
    cached(b, TOKENS, 4, 0);
    cached(b, TOKENS, 2, 40);
    cached(b, 1, 4, 0);
    cached(b, 3, 1, 20);
}

static void short_convolutions(fv_builder *b)
{
    static const uint32_t rows[] = {TOKENS, 2};
    for (int i = 0; i < 2; i++) {
        const uint32_t size = i ? 7 : 4;
        const fv_weight w = weight(WIDTH, size), bias = weight(1, WIDTH);
        const fv_short_conv c = {.w = &w,
                                 .bias = i ? &bias : NULL,
                                 .in = fv_emit_rows(b, rows[i], WIDTH),
                                 .state =
                                     fv_emit_value(b, FV_VALUE_KEPT, 1, (size - 1) * WIDTH, FV_F32),
                                 .out = fv_emit_rows(b, rows[i], WIDTH),
                                 .rows = rows[i],
                                 .silu = !i};
        fv_emit_short_conv(b, "short convolution", &c);
    }
}

/* ---- all cases ---- */

static void set_groups(fv_builder *b)
{
    for (uint32_t i = 0; i < b->graph->steps; i++)
        for (uint32_t o = 0; o < FV_OPERANDS; o++) {
            fv_step *s = &b->graph->step[i];
            const fv_id id = s->use[o].view.id;
            if (id < 0 || b->graph->value[id].kind != FV_VALUE_PARTIAL)
                continue;
            s->prob.dim[fv_op_table[s->prob.op]->groups] = b->graph->value[id].rows = GROUPS;
        }
}

static fovea_status all(fv_cases *c, const fv_limits *limits)
{
    fv_builder *b = &c->b;
    static const fovea_resample resample[CASE_PICTURES] = {
        FOVEA_RESAMPLE_TORCHVISION, FOVEA_RESAMPLE_PILLOW, FOVEA_RESAMPLE_FLOAT};
    fovea_preprocess exact = {.struct_size = sizeof exact,
                              .resize = FOVEA_RESIZE_EXACT,
                              .filter = FOVEA_FILTER_BICUBIC,
                              .resize_width = GRID_WIDTH * PATCH + 3,
                              .resize_height = GRID_HEIGHT * PATCH + 5,
                              .rescale = 1.f / 255,
                              .mean = {0.485f, 0.456f, 0.406f},
                              .std = {0.229f, 0.224f, 0.225f}};
    b->options->width = GRID_WIDTH * PATCH + 20;
    b->options->height = GRID_HEIGHT * PATCH + 30;
    b->options->patch_table = &c->patch_table;
    fv_patch_table_fill(&c->patch_table, &exact, false);
    b->options->inner = (struct fv_inner){0, 0, b->options->width, b->options->height};
    for (int i = 0; i < CASE_PICTURES; i++) {
        exact.resample = resample[i];
        FV_TRY(fv_picture_plan(&c->picture[i], &exact, b->options->width, b->options->height));
    }
    pixels(c);
    rows(b);
    rms_norms(b);
    group_norms(b);
    detection(b);
    regions(b);
    for (int type = FV_F32; type <= FV_BF16; type++) {
        b->options->weight_type = (enum fv_type)type;
        positions(b);
        products(b);
        convolutions(b);
    }
    if (limits->half_sums) {
        b->options->half_sums = true;
        b->options->weight_type = FV_F16;
        products(b);
        convolutions(b);
    }
    stored_int8(b);
    int8_convolutions(b);
    if (limits->int8 || !limits->throughput)
        whole_numbers(b);
    activations(b);
    depthwise(b);
    other_order(b);
    decoders(b);
    areas(b);
    rotations(b);
    softmax(b);
    relative(b);
    masked(b, false);
    masked(b, true);
    foveated(b);
    whole_attention(b, limits);
    linear(b);
    windows(b);
    pooling(b);
    short_convolutions(b);
    scans(b);
    caches(b);
    if (fv_extension_added() && b->options->row_type == FV_F32)
        fv_extension_added()->cases(b);
    return FOVEA_OK;
}

/* Emits products of rows that stay float32, because another step reads them as float32. */
static void products_of_floats(fv_builder *b)
{
    const uint32_t first = b->graph->steps;
    products(b);
    convolutions(b);
    for (uint32_t i = first, end = b->graph->steps; i < end; i++) {
        const fv_view in = b->graph->step[i].use[FV_GEMM_A].view;
        const uint32_t cols = b->graph->value[in.id].cols;
        fv_emit_act(b, "activation of floats", FV_EPI_RELU, in, fv_emit_rows(b, 1, cols), 1, cols);
    }
}

/* Emits cases in which a CPU stores or multiplies bfloat16, and int8 attention, whose rows are
 * stored as bfloat16. */
static void narrow(fv_builder *b, const fv_limits *limits)
{
    b->options->narrow_only = true;
    b->options->weight_type = FV_BF16;
    rows(b);
    rms_norms(b);
    short_convolutions(b);
    group_norms(b);
    products(b);
    convolutions(b);
    products_of_floats(b);
    activations(b);
    softmax(b);
    relative(b);
    foveated(b);
    areas(b);
    linear(b);
    windows(b);
    deformable(b);
    whole_attention(b, limits);
    stored_int8(b);
    if (fv_extension_added())
        fv_extension_added()->narrow_cases(b);
}

static fovea_status fill(fv_cases *c, enum fv_type row_type, const fv_limits *limits)
{
    fv_builder *b = &c->b;
    *b = fv_builder_of(&c->graph, &c->options);
    b->options->row_type = row_type;
    if (row_type == FV_BF16 && !limits->throughput)
        narrow(b, limits);
    else
        FV_TRY(all(c, limits));
    FV_TRY(b->status);
    fv_emit_narrow(&c->graph, &c->options);
    set_groups(b);
    return FOVEA_OK;
}

fovea_status fv_cases_open(fv_cases **out, enum fv_type row_type, const fv_limits *limits)
{
    fv_cases *c;
    FV_TRY(FV_MEM_NEW(&c, FV_MEM_PLAN, "the cases to be verified"));
    FV_RETURN_MADE(out, c, fv_cases_close, fill(c, row_type, limits));
}

void fv_cases_close(fv_cases *c)
{
    if (!c)
        return;
    fv_graph_release(&c->graph);
    for (int i = 0; i < CASE_PICTURES; i++)
        fv_picture_free(&c->picture[i]);
    fv_mem_free(c);
}
