/* gemm.c: blocks and packs the operands of the CPU's GEMM and convolutions, for every microkernel.
 *
 *   for blocks of at most MC rows             activations packed once, all of K
 *     for groups of columns                   partial sums of a group stay in L2
 *       for blocks of at most KC steps of k   an MC x KC block of activations stays in L2
 *         for panels of nr columns            a KC x nr block of the weight stays in L1 or L2
 *           for panels of mr rows
 *             tile
 *
 * Weights are read once per block of rows, in the order of their storage. A convolution differs
 * only in how its activations are packed: from windows instead of rows. Where the weight has just
 * one or two panels, activations are read in place, if their layout is one that a tile can read.
 */
#include "platform/cpu/gemm.h"

#include <assert.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/num.h"
#include "ops/quantise.h"
#include "ops/rows_i8.h"

/* Columns whose partial sums are kept when K is split into several blocks. With more columns the
 * packed rows are read less often, with fewer the sums leave more of L2 free. The value was not
 * tuned by measurement. */
enum { GROUP_COLS = 256 };

/* Returns the size of the parts when `total` is split into equal parts of at most `most`. */
static uint32_t even_part(uint32_t total, uint32_t most)
{
    return fv_ceil_div(total, fv_ceil_div(total, most));
}

/* Returns the number of steps in a block of k, for a call of `rows` rows. If the rows of a single
 * tile fit L1 entirely, K is one block, so that the weight is read sequentially; with several
 * blocks reading would jump from panel to panel. The sums do not depend on this choice. */
static uint32_t k_block(const fv_gemm_microkernel *mk, const fv_problem *p, const fv_knobs *knobs,
                        uint32_t rows)
{
    enum { FEW_BYTES = 16384 };
    const uint32_t k = p->dim[FV_GEMM_K];
    const bool few = rows <= mk->mr && (uint64_t)rows * k * fv_type_size(mk->input) <= FEW_BYTES;
    const bool whole = mk->quantise || (few && !mk->scales_blocks);
    return fv_round_up(whole ? k : even_part(k, knobs->v[FV_GEMM_KC]), mk->steps);
}

/* Returns the number of output columns of one panel. */
static uint32_t panel_cols(const fv_gemm_microkernel *mk, const fv_problem *p)
{
    return p->epi & FV_EPI_SWIGLU ? mk->nr / 2 : mk->nr;
}

/* Packs steps [0, k) of m rows of elements of `size` bytes. A cache line of each row is read at a
 * time. */
static inline void pack_elements(char *dst, const char *src, size_t ld, uint32_t m, uint32_t k,
                                 const size_t size)
{
    const uint32_t line = (uint32_t)(64 / size);
    uint32_t j = 0;
    for (; j + line <= k; j += line, dst += (size_t)64 * m)
        for (uint32_t i = 0; i < m; i++)
            for (uint32_t g = 0; g < line / 4; g++)
                memcpy(dst + ((size_t)g * m + i) * 4 * size, src + (i * ld + j + 4 * g) * size,
                       4 * size);
    for (; j < k; j += 4)
        for (uint32_t i = 0; i < m; i++, dst += 4 * size) {
            memset(dst, 0, 4 * size);
            memcpy(dst, src + (i * ld + j) * size, fv_min_u32(4, k - j) * size);
        }
}

static void pack_panel(void *dst, const void *src, enum fv_type type, size_t ld, uint32_t m,
                       uint32_t k)
{
    if (fv_type_size(type) == 4)
        pack_elements(dst, src, ld, m, k, 4);
    else
        pack_elements(dst, src, ld, m, k, 2);
}

/* Returns the number of rows in the panel that starts at row r. Rows are spread evenly: panels of a
 * block differ by at most one row. */
static uint32_t panel_rows(const fv_gemm_microkernel *mk, uint32_t r, uint32_t rows)
{
    const uint32_t panels = (rows + mk->mr - 1) / mk->mr, low = rows / panels;
    return r < rows % panels * (low + 1) ? low + 1 : low;
}

/* ---- activations that are read in place ---- */

/* Rows of a tile that are read in place. A row consists of `runs` pieces of `groups` groups of
 * steps: for a convolution one piece per line of the window, else one piece. `ld` and `step` are
 * strides in elements: from row to row, and from piece to piece of a row. */
typedef struct unpacked_rows {
    const void *at;
    size_t ld, step, groups;
    uint32_t runs;
} unpacked_rows;

/* Returns whether a call reads activations in place where their layout allows it. Packing pays off
 * only if many panels of the weight read the packed copy. */
static bool reads_unpacked(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c,
                           bool single)
{
    const uint32_t *dim = a->prob.dim, most = 2 * mk->nr;
    const bool conv = a->prob.op == FV_OP_CONV;
    return mk->unpacked && single && c->cols <= most && a->prob.in == mk->input &&
           (conv ? dim[FV_CONV_C] : dim[FV_GEMM_K]) % 4 == 0 &&
           (!conv || a->ld[FV_GEMM_A] == dim[FV_CONV_C]);
}

/* Describes the windows of output pixels [pixel, pixel + m) as unpacked rows. Returns false unless
 * they are in one line of the output and no window extends beyond the grid. The pixels in a line of
 * a window are contiguous. */
static bool unpacked_windows(unpacked_rows *out, const fv_args *a, const void *in, uint32_t pixel,
                             uint32_t m)
{
    const uint32_t *dim = a->prob.dim, size = dim[FV_CONV_SIZE], channels = dim[FV_CONV_C];
    const uint32_t first = pixel % a->u[2], last = first + m - 1, stride = dim[FV_CONV_STRIDE];
    const int64_t pad = dim[FV_CONV_PAD];
    const int64_t x = (int64_t)first * stride - pad, y = (int64_t)(pixel / a->u[2]) * stride - pad;
    if (x < 0 || y < 0 || last >= a->u[2] || y + size > a->u[1] ||
        (int64_t)last * stride - pad + size > a->u[0])
        return false;
    const size_t begin = (size_t)(y * a->u[0] + x) * channels;
    *out = (unpacked_rows){.at = fv_element(in, a->prob.in, begin),
                           .ld = (size_t)stride * channels,
                           .step = (size_t)a->u[0] * channels,
                           .groups = size * channels / 4,
                           .runs = size};
    return true;
}

/* Describes rows [row, row + m) of the call as unpacked rows; returns false if they must be
 * packed. */
static bool find_unpacked(unpacked_rows *out, const fv_args *a, const fv_call *c, uint32_t row,
                          uint32_t m)
{
    const void *in = c->p[FV_GEMM_A];
    if (a->prob.op == FV_OP_CONV)
        return unpacked_windows(out, a, in, c->row0 + row, m);
    *out = (unpacked_rows){.at = fv_element(in, a->prob.in, row * (size_t)a->ld[FV_GEMM_A]),
                           .ld = a->ld[FV_GEMM_A],
                           .groups = a->prob.dim[FV_GEMM_K] / 4,
                           .runs = 1};
    return true;
}

static void tile_unpacked(const fv_gemm_microkernel *mk, const unpacked_rows *l, float *acc,
                          const char *w, uint32_t m, const char *prefetch)
{
    const enum fv_type type = (enum fv_type)mk->input;
    for (uint32_t i = 0; i < l->runs; i++) {
        mk->unpacked(acc, fv_element(l->at, type, i * l->step), l->ld, w, l->groups, m, i == 0,
                     prefetch);
        w += l->groups * 4 * mk->nr * fv_type_size(mk->weight);
        prefetch += l->groups * 4 * FV_GEMM_PREFETCH_BYTES;
    }
}

/* ---- activations ---- */

/* A panel of packed activations: m rows of `depth` steps. */
typedef struct row_panel {
    const fv_gemm_microkernel *mk;
    char *at;
    enum fv_type type; /* of the rows that are packed */
    uint32_t m, depth;
} row_panel;

/* Returns whether rows of this type are rounded to bfloat16 while they are packed. */
static bool rounds(const fv_gemm_microkernel *mk, enum fv_type type)
{
    return mk->round && type == FV_F32;
}

static size_t panel_bytes(const row_panel *p)
{
    return (size_t)p->m * fv_round_up(p->depth, 4) * fv_type_size(p->mk->input);
}

/* Returns the address at which rows are packed before take() converts them: the end of the panel,
 * because their elements may be narrower than the panel's. */
static void *packed_rows(const row_panel *p)
{
    const uint8_t type = rounds(p->mk, p->type) ? p->mk->input : (uint8_t)p->type;
    return p->at + panel_bytes(p) - (size_t)p->m * fv_round_up(p->depth, 4) * fv_type_size(type);
}

static void take(const row_panel *p)
{
    if (p->mk->take)
        p->mk->take(p->at, p->type, (p->depth + 3) / 4, p->m);
}

/* Steps of k that are rounded at a time, so that the intermediate buffer stays in L1. */
enum { SPAN = 64 };

/* Packs rows of floats with a stride of `ld` as a panel of bfloat16. */
static void pack_rounded(const row_panel *p, const float *rows, size_t ld)
{
    float part[SPAN * FV_GEMM_ROWS];
    for (uint32_t j = 0; j < p->depth; j += SPAN) {
        const uint32_t n = fv_min_u32(SPAN, p->depth - j);
        pack_elements((char *)part, (const char *)(rows + j), ld, p->m, n, sizeof(float));
        p->mk->round((uint16_t *)(void *)p->at + (size_t)j * p->m, part,
                     (size_t)p->m * fv_round_up(n, 4));
    }
}

static void pack_rows(const fv_gemm_microkernel *mk, char *dst, const void *src, enum fv_type type,
                      size_t ld, uint32_t rows, uint32_t k, uint32_t kc)
{
    for (uint32_t k0 = 0; k0 < k; k0 += kc)
        for (uint32_t r = 0; r < rows;) {
            const row_panel p = {mk, dst, type, panel_rows(mk, r, rows), fv_min_u32(kc, k - k0)};
            const void *rows_of = fv_element(src, type, r * ld + k0);
            if (rounds(mk, type))
                pack_rounded(&p, rows_of, ld);
            else
                pack_panel(packed_rows(&p), rows_of, type, ld, p.m, p.depth);
            take(&p);
            dst += panel_bytes(&p);
            r += p.m;
        }
}

enum { QUANTISED = 64 }; /* rows are quantised in whole multiples of this many numbers */

/* The scales and sums of a block of quantised rows (INT8), and buffers for quantising. */
typedef struct quantised {
    float *scale;
    int32_t *sum;
    void *panel;    /* mr quantised rows before packing: K4 numbers each, then QUANTISED more */
    float *rotated; /* K floats, rounded up to QUANTISED */
} quantised;

static void quantise_rows(const fv_gemm_microkernel *mk, char *dst, const quantised *q,
                          const void *src, enum fv_type type, size_t ld, uint32_t rows, uint32_t k)
{
    const uint32_t k4 = fv_round_up(k, mk->steps);
    const size_t size = fv_type_size(mk->input);
    if (mk->unpacked) { /* the microkernel reads rows as they were quantised */
        mk->quantise(dst, q->scale, q->sum, src, type, ld, rows, k, q->rotated);
        return;
    }
    for (uint32_t r = 0, m; r < rows; r += m, dst += (size_t)m * k4 * size) {
        m = panel_rows(mk, r, rows);
        mk->quantise(q->panel, q->scale + r, q->sum + r, fv_element(src, type, r * ld), type, ld, m,
                     k, q->rotated);
        if (mk->steps == 8) /* four pairs of steps */
            pack_elements(dst, q->panel, k4 / 2, m, k4 / 2, 2);
        else if (size == 2)
            pack_elements(dst, q->panel, k4, m, k4, 2);
        else
            pack_elements(dst, q->panel, k4, m, k4, 1);
    }
}

/* ---- windows of a convolution ---- */

/* Packs a tap of m windows: channels [j, j + n) of the panel's steps. src[i] points at row i's
 * first channel, or is NULL for zeros. An element has `bytes` bytes. */
static inline void pack_tap(char *dst, const char *const *src, uint32_t m, uint32_t j, uint32_t n,
                            const size_t bytes)
{
    if (j % 4 == 0 && n % 4 == 0) {
        for (uint32_t i = 0; i < m; i++) {
            char *to = dst + ((size_t)j * m + 4 * i) * bytes;
            for (uint32_t g = 0; g < n; g += 4, to += 4 * m * bytes)
                if (src[i])
                    memcpy(to, src[i] + g * bytes, 4 * bytes);
                else
                    memset(to, 0, 4 * bytes);
        }
        return;
    }
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t k = j; k < j + n; k++) {
            char *to = dst + (((size_t)(k / 4) * m + i) * 4 + k % 4) * bytes;
            if (src[i])
                memcpy(to, src[i] + (k - j) * bytes, bytes);
            else
                memset(to, 0, bytes);
        }
}

/* pack_tap for floats that are rounded to bfloat16. A group of steps that two taps share is rounded
 * element by element, because the microkernel's `round` writes whole groups and the other tap fills
 * the rest. */
static void pack_tap_rounded(const fv_gemm_microkernel *mk, uint16_t *dst, const char *const *src,
                             uint32_t m, uint32_t j, uint32_t n)
{
    if (j % 4 == 0 && n % 4 == 0) {
        float part[SPAN * FV_GEMM_ROWS];
        pack_tap((char *)part, src, m, 0, n, sizeof(float));
        mk->round(dst + (size_t)j * m, part, (size_t)m * n);
        return;
    }
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t k = j; k < j + n; k++)
            dst[((size_t)(k / 4) * m + i) * 4 + k % 4] =
                src[i] ? fv_bf16_of_float(((const float *)(const void *)src[i])[k - j]) : 0;
}

/* The grid coordinates of the first pixel of the window of each of m output pixels. */
typedef struct windows {
    int64_t y[FV_GEMM_ROWS], x[FV_GEMM_ROWS];
    uint32_t m;
} windows;

static windows windows_at(const fv_args *a, uint32_t pixel, uint32_t m)
{
    const int64_t stride = a->prob.dim[FV_CONV_STRIDE], pad = a->prob.dim[FV_CONV_PAD];
    windows w = {.m = m};
    for (uint32_t i = 0; i < m; i++) {
        w.y[i] = (int64_t)((pixel + i) / a->u[2]) * stride - pad;
        w.x[i] = (int64_t)((pixel + i) % a->u[2]) * stride - pad;
    }
    return w;
}

/* Sets each src[] to channel `channel` of the pixel at the tap in that window, or to
 * NULL beyond the grid. */
static void find_pixels(const char *src[], const windows *w, const fv_args *a, const void *in,
                        enum fv_type type, uint32_t tap, uint32_t channel)
{
    const uint32_t size = a->prob.dim[FV_CONV_SIZE];
    for (uint32_t i = 0; i < w->m; i++) {
        const int64_t y = w->y[i] + tap / size, x = w->x[i] + tap % size;
        const bool inside = y >= 0 && y < a->u[1] && x >= 0 && x < a->u[0];
        const size_t at = (size_t)(y * a->u[0] + x) * a->ld[FV_GEMM_A] + channel;
        src[i] = inside ? fv_element(in, type, at) : NULL;
    }
}

/* Returns whether all windows are entirely inside the grid. */
static bool are_inside(const windows *w, const fv_args *a)
{
    const int64_t size = a->prob.dim[FV_CONV_SIZE];
    bool inside = true;
    for (uint32_t i = 0; i < w->m; i++)
        inside &=
            w->y[i] >= 0 && w->y[i] + size <= a->u[1] && w->x[i] >= 0 && w->x[i] + size <= a->u[0];
    return inside;
}

/* Moves pointers from the pixels of the previous tap to those of `tap`, for windows inside the
 * grid. */
static void move_to_tap(const char *src[], const fv_args *a, uint32_t m, uint32_t tap)
{
    const uint32_t size = a->prob.dim[FV_CONV_SIZE];
    const size_t pixels = tap % size ? 1 : a->u[0] - size + 1;
    for (uint32_t i = 0; i < m; i++)
        src[i] += pixels * a->ld[FV_GEMM_A];
}

/* Packs steps [k0, k0 + p->depth) of the windows of output pixels from `pixel` on. */
static void pack_windows(const row_panel *p, const fv_args *a, const void *in, uint32_t pixel,
                         uint32_t k0)
{
    const uint32_t channels = a->prob.dim[FV_CONV_C], m = p->m, depth = p->depth;
    const bool rounded = rounds(p->mk, p->type);
    /* Size of a packed element. */
    const size_t bytes = rounded ? sizeof(uint16_t) : fv_type_size(p->type);
    char *dst = packed_rows(p);
    const char *src[FV_GEMM_ROWS];
    const windows w = windows_at(a, pixel, m);
    for (uint32_t j = 0, n; j < depth; j += n) {
        const uint32_t tap = (k0 + j) / channels, channel = (k0 + j) % channels;
        n = fv_min_u32(fv_min_u32(channels - channel, SPAN), depth - j);
        find_pixels(src, &w, a, in, p->type, tap, channel);
        if (rounded)
            pack_tap_rounded(p->mk, (uint16_t *)(void *)dst, src, m, j, n);
        else if (bytes == 4)
            pack_tap(dst, src, m, j, n, 4);
        else
            pack_tap(dst, src, m, j, n, 2);
    }
    for (uint32_t i = 0; i < m; i++) /* fill the rest of the last group */
        for (uint32_t k = depth; k % 4 != 0; k++)
            memset(dst + (((size_t)(k / 4) * m + i) * 4 + k % 4) * bytes, 0, bytes);
}

/* Packs the windows of a block of rows. With `unpacked`, skips those that are read in place. */
static void pack_pixels(const fv_gemm_microkernel *mk, char *dst, const fv_args *a, const void *in,
                        uint32_t pixel, uint32_t rows, uint32_t kc, bool unpacked)
{
    const uint32_t k = a->prob.dim[FV_GEMM_K];
    const enum fv_type type = a->prob.in;
    for (uint32_t k0 = 0; k0 < k; k0 += kc)
        for (uint32_t r = 0; r < rows;) {
            const row_panel p = {mk, dst, type, panel_rows(mk, r, rows), fv_min_u32(kc, k - k0)};
            unpacked_rows l;
            if (!unpacked || !unpacked_windows(&l, a, in, pixel + r, p.m)) {
                pack_windows(&p, a, in, pixel + r, k0);
                take(&p);
            }
            dst += panel_bytes(&p);
            r += p.m;
        }
}

/* ---- convolutions of int8: pixels are quantised as in ops/rows_i8.h ---- */

static bool is_int8_conv(const fv_gemm_microkernel *mk, const fv_problem *p)
{
    return mk->quantise && p->op == FV_OP_CONV;
}

/* Returns whether the microkernel reads pixels in place; if not, they are packed for `tile`. */
static bool reads_pixels_in_place(const fv_gemm_microkernel *mk, const fv_problem *p)
{
    return is_int8_conv(mk, p) && mk->add_tap;
}

static uint32_t taps_of(const fv_problem *p)
{
    return p->op == FV_OP_CONV ? p->dim[FV_CONV_SIZE] * p->dim[FV_CONV_SIZE] : 1;
}

/* Packs k channels of a tap of m windows in groups of `steps` channels. src[i] is NULL beyond the
 * grid, which becomes zeros. */
static inline void pack_int8_tap(char *dst, const char *const *src, uint32_t m, uint32_t k,
                                 const uint32_t steps)
{
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j < k; j += steps)
            if (src[i])
                memcpy(dst + (size_t)j * m + i * steps, src[i] + j, steps);
            else
                memset(dst + (size_t)j * m + i * steps, 0, steps);
}

/* Packs the windows of a block of rows: panel by panel, and each panel tap by tap. The scales of
 * the pixels are stored in that order too. */
static void pack_int8_pixels(const fv_gemm_microkernel *mk, char *dst, const quantised *q,
                             const fv_args *a, const void *in, uint32_t pixel, uint32_t rows)
{
    const uint32_t channels = a->prob.dim[FV_CONV_C], taps = taps_of(&a->prob);
    for (uint32_t r = 0, m; r < rows; r += m) {
        m = panel_rows(mk, r, rows);
        const windows w = windows_at(a, pixel + r, m);
        for (uint32_t tap = 0; tap < taps; tap++) {
            const char *src[FV_GEMM_ROWS];
            find_pixels(src, &w, a, in, FV_U8, tap, 0);
            for (uint32_t i = 0; i < m; i++) {
                const size_t at = (size_t)r * taps + tap * m + i;
                q->scale[at] = src[i] ? fv_rows_i8_scale(src[i], channels) : 0;
            }
            if (mk->steps == 8)
                pack_int8_tap(dst, src, m, channels, 8);
            else
                pack_int8_tap(dst, src, m, channels, 4);
            dst += (size_t)m * channels;
        }
    }
}

/* ---- products ---- */

static const float *at_column(const void *base, uint32_t col, bool wanted)
{
    return wanted ? (const float *)base + col : NULL;
}

static fv_gemm_out out_at(const fv_args *a, const fv_call *c, uint32_t row, uint32_t col)
{
    const uint32_t epi = a->prob.epi;
    const bool bias = epi & FV_EPI_BIAS;
    const size_t ld_res = a->ld[FV_GEMM_RES], ld_out = a->ld[FV_GEMM_OUT];
    const float *res = at_column(c->p[FV_GEMM_RES], col, epi & FV_EPI_RESIDUAL);
    return (fv_gemm_out){
        .epi = epi,
        .ld_out = ld_out,
        .ld_res = ld_res,
        .type = a->prob.out,
        .rough = fv_problem_rough_error(&a->prob) > 0,
        .out = fv_element(c->p[FV_GEMM_OUT], a->prob.out, row * ld_out + col),
        .res = res ? res + row * ld_res : NULL,
        .bias = at_column(c->p[FV_GEMM_BIAS], col, bias),
        .gate_bias = at_column(c->p[FV_GEMM_BIAS], a->prob.dim[FV_GEMM_N] + col,
                               bias && epi & FV_EPI_SWIGLU),
        .scale = at_column(c->p[FV_GEMM_SCALE], col, epi & FV_EPI_SCALE),
    };
}

/* A block of rows whose activations are packed or can be read in place. */
typedef struct block {
    const fv_gemm_microkernel *mk;
    const fv_args *a;
    const fv_call *c;
    uint32_t row, rows; /* position and number of the rows in the call */
    uint32_t k4, kc;
    const char *packed;
    bool unpacked; /* rows that find_unpacked can read in place are not packed */
    float *wide;   /* buffer for a KC x nr block of the weight, widened to floats */
    quantised q;
} block;

/* Returns the number of bytes of a panel of the weight. */
static size_t weight_panel(const fv_gemm_microkernel *mk, uint32_t k4)
{
    return mk->nr * (k4 * fv_type_size(mk->weight) + (mk->weight == FV_I8 ? sizeof(float) : 0));
}

/* Returns the scales of the I8 weight panel that starts at column col. */
static const float *column_scales(const block *b, uint32_t col)
{
    const uint32_t panel = col / panel_cols(b->mk, &b->a->prob);
    const char *w = (const char *)b->c->p[FV_GEMM_W] + panel * weight_panel(b->mk, b->k4);
    return (const float *)(const void *)(w + (size_t)b->k4 * b->mk->nr);
}

/* Returns the number of columns of the call in the panel at column col. */
static uint32_t columns_of(const block *b, uint32_t col)
{
    return fv_min_u32(panel_cols(b->mk, &b->a->prob), b->c->col0 + b->c->cols - col);
}

static void finish_rows(const block *b, const float *acc, uint32_t r, uint32_t m, uint32_t col)
{
    fv_gemm_out o = out_at(b->a, b->c, b->row + r, col);
    o.rows = m;
    o.cols = columns_of(b, col);
    if (b->mk->weight == FV_I8)
        o.column_scale = column_scales(b, col);
    if (b->mk->quantise && b->a->prob.op == FV_OP_GEMM) {
        o.row_scale = b->q.scale + r;
        o.row_sum = b->q.sum + r;
    }
    b->mk->finish(&o, acc);
}

/* Computes the sums of m packed windows from row r of the block on: int8 products tap by tap,
 * scaled and added in float32. */
static void tile_of_packed_taps(const block *b, float *acc, uint32_t r, uint32_t m, const char *w,
                                const char *prefetch)
{
    const fv_gemm_microkernel *mk = b->mk;
    const uint32_t channels = b->a->prob.dim[FV_CONV_C], taps = taps_of(&b->a->prob);
    const size_t step = (size_t)m * channels;
    const char *in = b->packed + (size_t)r * b->k4;
    float *whole = acc + (size_t)mk->mr * mk->nr;
    for (uint32_t tap = 0; tap < taps; tap++, in += step, w += (size_t)channels * mk->nr) {
        mk->tile(whole, in, w, channels / mk->steps, m, true, prefetch);
        mk->add_scaled(acc, whole, b->q.scale + (size_t)r * taps + tap * m, m, tap == 0);
        prefetch += channels * FV_GEMM_PREFETCH_BYTES;
    }
}

/* Computes the sums of tile_of_packed_taps() from pixels that are read in place. A pixel beyond the
 * grid is read from the zeros at b->packed. */
static void tile_of_taps(const block *b, float *acc, uint32_t r, uint32_t m, uint32_t col,
                         const char *w)
{
    const uint32_t channels = b->a->prob.dim[FV_CONV_C], taps = taps_of(&b->a->prob);
    const uint32_t cols = columns_of(b, col);
    const windows at = windows_at(b->a, b->c->row0 + b->row + r, m);
    const bool inside = are_inside(&at, b->a);
    const char *src[FV_GEMM_ROWS];
    for (uint32_t tap = 0; tap < taps; tap++, w += (size_t)channels * b->mk->nr) {
        if (tap == 0 || !inside)
            find_pixels(src, &at, b->a, b->c->p[FV_GEMM_A], FV_U8, tap, 0);
        else
            move_to_tap(src, b->a, m, tap);
        for (uint32_t i = 0; i < m && !inside; i++)
            src[i] = src[i] ? src[i] : b->packed;
        b->mk->add_tap(acc, (const void *const *)src, w, channels, m, cols, tap == 0);
    }
}

/* Adds steps [k0, k0 + depth) of the weight panel at column col to the sums of all rows. If these
 * are the last steps, runs the epilogue. Meanwhile the same steps of the panel at column `next` are
 * prefetched into L2. */
static void run_panel(const block *b, float *sums, uint32_t col, uint32_t k0, uint32_t next)
{
    const fv_gemm_microkernel *mk = b->mk;
    const uint32_t width = panel_cols(mk, &b->a->prob), depth = fv_min_u32(b->kc, b->k4 - k0);
    const size_t step = mk->nr * fv_type_size(mk->weight); /* bytes of one step of k */
    const char *weight = b->c->p[FV_GEMM_W];
    const char *w = weight + col / width * weight_panel(mk, b->k4) + k0 * step;
    const bool alone = b->rows <= mk->mr; /* a single tile reads the whole panel */
    const char *prefetch = alone ? w : weight + next / width * weight_panel(mk, b->k4) + k0 * step;
    const char *prefetch_last =
        prefetch + (ptrdiff_t)depth * ((ptrdiff_t)step - FV_GEMM_PREFETCH_BYTES);
    const size_t size = fv_type_size(mk->input);
    const char *packed = b->packed + (size_t)k0 * b->rows * size;
    const bool single = b->kc == b->k4, last = k0 + depth == b->k4;

    for (uint32_t r = 0, m; r < b->rows; r += m) {
        float *acc = sums + (single ? 0 : (size_t)r * mk->nr);
        const void *in = packed + (size_t)r * depth * size;
        unpacked_rows l;
        m = panel_rows(mk, r, b->rows);
        if (reads_pixels_in_place(mk, &b->a->prob))
            tile_of_taps(b, acc, r, m, col, w);
        else if (is_int8_conv(mk, &b->a->prob))
            tile_of_packed_taps(b, acc, r, m, w, prefetch);
        else if (b->unpacked && find_unpacked(&l, b->a, b->c, b->row + r, m))
            tile_unpacked(mk, &l, acc, w, m, prefetch);
        else if (mk->quantise && mk->unpacked)
            mk->unpacked(acc, in, depth, w, depth / mk->steps, m, true, prefetch);
        else if (mk->widen && r == 0)
            mk->widen(acc, in, w, depth / mk->steps, m, k0 == 0, prefetch,
                      m < b->rows ? b->wide : NULL);
        else
            mk->tile(acc, in, mk->widen ? (const void *)b->wide : w, depth / mk->steps, m, k0 == 0,
                     prefetch);
        if (prefetch < prefetch_last)
            prefetch += (size_t)depth * FV_GEMM_PREFETCH_BYTES;
        if (last)
            finish_rows(b, acc, r, m, col);
    }
}

static void pack_block(const block *b, char *packed)
{
    const uint32_t k = b->a->prob.dim[FV_GEMM_K];
    const enum fv_type type = b->a->prob.in;
    const void *in = b->c->p[FV_GEMM_A];
    const size_t ld = b->a->ld[FV_GEMM_A];
    if (reads_pixels_in_place(b->mk, &b->a->prob))
        memset(packed, 0,
               fv_rows_i8_bytes(b->a->prob.dim[FV_CONV_C])); /* a pixel beyond the grid */
    else if (is_int8_conv(b->mk, &b->a->prob))
        pack_int8_pixels(b->mk, packed, &b->q, b->a, in, b->c->row0 + b->row, b->rows);
    else if (b->mk->quantise)
        quantise_rows(b->mk, packed, &b->q, fv_element(in, type, b->row * ld), type, ld, b->rows,
                      k);
    else if (b->a->prob.op == FV_OP_CONV)
        pack_pixels(b->mk, packed, b->a, in, b->c->row0 + b->row, b->rows, b->kc, b->unpacked);
    else if (!b->unpacked)
        pack_rows(b->mk, packed, fv_element(in, type, b->row * ld), type, ld, b->rows, k, b->kc);
}

/* Returns the number of floats in the buffer for a widened block of the weight. */
static size_t wide_size(const fv_gemm_microkernel *mk, uint32_t rows, uint32_t kc)
{
    return mk->widen && rows > mk->mr ? (size_t)kc * mk->nr : 0;
}

/* Returns the number of floats for partial sums: of a group of columns if K is split, else of one
 * tile. Fewer rows never need more floats. An int8 convolution keeps one tile of floats, the sum
 * over all taps so far, and one of integers, the current tap. */
static size_t sums_size(const fv_gemm_microkernel *mk, const fv_problem *p, uint32_t rows,
                        uint32_t kc, uint32_t k4)
{
    const size_t tile = (size_t)mk->mr * mk->nr, group = (size_t)rows * GROUP_COLS;
    if (is_int8_conv(mk, p))
        return 2 * tile;
    return kc < k4 && group > tile ? group : tile;
}

/* Returns the number of floats for the scales of a block of rows, in whole cache lines. The buffer
 * for their sums has the same size. */
static size_t scales_size(const fv_gemm_microkernel *mk, const fv_problem *p, uint32_t rows)
{
    return mk->quantise ? fv_round_up(rows * taps_of(p), 16) : 0;
}

/* Returns the number of bytes of a block of packed rows. Rows that are multiplied where they were
 * quantised need more: quantising the last one writes a whole multiple of QUANTISED numbers. */
static size_t packed_size(const fv_gemm_microkernel *mk, uint32_t rows, uint32_t k4)
{
    const size_t more = mk->quantise && mk->unpacked ? QUANTISED : 0;
    return ((size_t)rows * k4 + more) * fv_type_size(mk->input);
}

void fv_gemm_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c)
{
    const fv_problem *p = &a->prob;
    const uint32_t k4 = fv_round_up(p->dim[FV_GEMM_K], mk->steps);
    const uint32_t mc = even_part(c->rows, a->knobs.v[FV_GEMM_MC]), width = panel_cols(mk, p);
    const uint32_t kc = k_block(mk, p, &a->knobs, mc);
    const uint32_t end = c->col0 + c->cols, group = GROUP_COLS / mk->nr * width;
    const bool unpacked = reads_unpacked(mk, a, c, kc == k4);
    assert(c->col0 % FV_COL_ALIGN == 0 && end <= p->dim[FV_GEMM_N]);

    for (uint32_t row = 0; row < c->rows; row += mc) {
        const uint32_t rows = fv_min_u32(mc, c->rows - row);
        float *wide = c->scratch, *sums = wide + wide_size(mk, rows, kc);
        float *scales = sums + sums_size(mk, p, rows, kc, k4);
        char *packed = (char *)(scales + 2 * scales_size(mk, p, rows));
        char *rotated = packed + packed_size(mk, rows, k4);
        const quantised q = {scales, (int32_t *)(void *)(scales + scales_size(mk, p, rows)),
                             rotated + fv_round_up(k4, QUANTISED) * sizeof(float),
                             (float *)(void *)rotated};
        const block b = {mk, a, c, row, rows, k4, kc, packed, unpacked, wide, q};
        pack_block(&b, packed);

        for (uint32_t left = c->col0; left < end; left += group) {
            const uint32_t right = fv_min_u32(end, left + group);
            for (uint32_t k0 = 0; k0 < k4; k0 += kc)
                for (uint32_t col = left; col < right; col += width) {
                    const uint32_t next = col + width < end ? col + width : col;
                    const size_t panel = kc < k4 ? (col - left) / width : 0;
                    run_panel(&b, sums + panel * rows * mk->nr, col, k0, next);
                }
        }
    }
}

/* ---- a product of activations ---- */

/* Packs row `row` of B, zeros if it is NULL, as column j of a panel of bfloat16. */
static void pack_row_of_b(const fv_gemm_microkernel *mk, uint16_t *panel, uint32_t j,
                          const float *row, uint32_t k)
{
    const uint32_t interleave = mk->interleave;
    for (uint32_t k0 = 0; k0 < k; k0 += SPAN) {
        const uint32_t n = fv_min_u32(SPAN, k - k0), n4 = fv_round_up(n, 4);
        float floats[SPAN] = {0};
        uint16_t rounded[SPAN];
        if (row)
            memcpy(floats, row + k0, n * sizeof *floats);
        mk->round(rounded, floats, n4);
        for (uint32_t i = 0; i < n4; i += interleave)
            memcpy(panel + (size_t)(k0 + i) * mk->nr + (size_t)j * interleave, rounded + i,
                   interleave * sizeof *rounded);
    }
}

void fv_gemm_matmul_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c)
{
    fv_args product = *a;
    fv_call call = *c;
    const uint32_t k = a->prob.dim[FV_GEMM_K], end = c->col0 + c->cols;
    const size_t panel = weight_panel(mk, fv_round_up(k, mk->steps));
    product.prob.op = FV_OP_GEMM;
    product.ld[FV_GEMM_OUT] = a->ld[FV_MATMUL_OUT];
    call.p[FV_GEMM_W] = c->scratch;
    call.p[FV_GEMM_OUT] = c->p[FV_MATMUL_OUT];
    call.scratch = (char *)c->scratch + fv_gemm_packed(mk, &a->prob);
    for (uint32_t col = c->col0; col < end; col += mk->nr)
        for (uint32_t j = 0; j < mk->nr; j++) {
            const float *row = (const float *)c->p[FV_MATMUL_B] + (col + j) * a->ld[FV_MATMUL_B];
            pack_row_of_b(mk, (uint16_t *)(void *)((char *)c->scratch + col / mk->nr * panel), j,
                          col + j < end ? row : NULL, k);
        }
    fv_gemm_run(mk, &product, &call);
}

size_t fv_gemm_matmul_scratch(const fv_gemm_microkernel *mk, const fv_problem *p,
                              const fv_knobs *knobs, uint32_t rows)
{
    return fv_gemm_packed(mk, p) + fv_gemm_scratch(mk, p, knobs, rows);
}

/* ---- what the planner asks ---- */

size_t fv_gemm_scratch(const fv_gemm_microkernel *mk, const fv_problem *p, const fv_knobs *knobs,
                       uint32_t rows)
{
    const uint32_t mc = fv_min_u32(rows, knobs->v[FV_GEMM_MC]),
                   k4 = fv_round_up(p->dim[FV_GEMM_K], mk->steps);
    const uint32_t kc = k_block(mk, p, knobs, mc);
    /* Quantised numbers of a panel before they are packed; none if they are multiplied in place. */
    const size_t numbers = mk->unpacked ? 0 : (size_t)mk->mr * k4 + QUANTISED;
    const bool whole = is_int8_conv(mk, p); /* pixels are quantised before the convolution */
    const size_t rows_of = mk->quantise && !whole ? fv_round_up(k4, QUANTISED) * sizeof(float) +
                                                        numbers * fv_type_size(mk->input)
                                                  : 0;
    const size_t packed = reads_pixels_in_place(mk, p) ? fv_rows_i8_bytes(p->dim[FV_CONV_C])
                                                       : packed_size(mk, mc, k4);
    return (wide_size(mk, mc, kc) + sums_size(mk, p, mc, kc, k4) + 2 * scales_size(mk, p, mc)) *
               sizeof(float) +
           packed + rows_of;
}

size_t fv_gemm_packed(const fv_gemm_microkernel *mk, const fv_problem *p)
{
    const uint32_t width = panel_cols(mk, p), panels = (p->dim[FV_GEMM_N] + width - 1) / width;
    const uint64_t size =
        fv_size_mul(panels, weight_panel(mk, fv_round_up(p->dim[FV_GEMM_K], mk->steps)));
    return size < SIZE_MAX ? (size_t)size : SIZE_MAX; /* a 32-bit address space is too small */
}

/* Writes steps [k0, k1) of a column of a panel from a row of the weight, or zeros if `row` is
 * NULL. */
static void pack_column(float *dst, const float *row, uint32_t k0, uint32_t k1, uint32_t k,
                        uint32_t nr)
{
    for (uint32_t i = k0; i < k1; i++)
        dst[(size_t)(i - k0) * nr] = row && i < k ? row[i] : 0.f;
}

/* Rearranges a panel from groups of 4 steps to groups of 8. */
static void join_groups(int8_t *panel, uint32_t nr, uint32_t k8)
{
    char group[8 * FV_COL_ALIGN];
    for (; k8 > 0; k8 -= 8, panel += (size_t)8 * nr) {
        memcpy(group, panel, (size_t)8 * nr);
        for (uint32_t j = 0; j < 2 * nr; j++)
            memcpy(panel + 4 * j, group + 4 * (j % 2 * nr + j / 2), 4);
    }
}

/* Rearranges a panel from groups of 4 steps to groups of 2. */
static void split_groups(int8_t *panel, uint32_t nr, uint32_t k4)
{
    char group[4 * FV_COL_ALIGN];
    for (; k4 > 0; k4 -= 4, panel += (size_t)4 * nr) {
        memcpy(group, panel, (size_t)4 * nr);
        for (uint32_t j = 0; j < 2 * nr; j++)
            memcpy(panel + 2 * j, group + 4 * (j % nr) + 2 * (j / nr), 2);
    }
}

/* Quantises a row of the weight into column j of an I8 panel; returns its scale. If the product is
 * of int8, each block of `together` channels is rotated first. */
static float pack_int8_column(const fv_gemm_microkernel *mk, int8_t *panel, uint32_t j,
                              const float *row, uint32_t k, uint32_t together)
{
    if (mk->widen)
        return fv_int8_column(panel + j, mk->nr, row, k);
    const float scale = fv_int8_weight(panel + 4 * j, (size_t)4 * mk->nr, row, k, together);
    for (uint32_t i = 0; mk->bias && i < k; i++)
        panel[(size_t)(i / 4) * 4 * mk->nr + 4 * j + i % 4] ^= (int8_t)mk->bias;
    return scale;
}

/* Quantises rows of the weight into panels of I8. */
static void pack_quantised(const fv_gemm_microkernel *mk, void *dst, const float *src, uint32_t n0,
                           uint32_t n, const fv_problem *p)
{
    const uint32_t k = p->dim[FV_GEMM_K], k4 = fv_round_up(k, mk->steps);
    const uint32_t width = panel_cols(mk, p);
    const uint32_t together = fv_int8_weight_block(p);
    for (uint32_t col = 0; col < n; col += width) {
        int8_t *panel = (int8_t *)dst + (n0 + col) / width * weight_panel(mk, k4);
        float *scale = (float *)(void *)(panel + (size_t)k4 * mk->nr);
        memset(panel, mk->bias, (size_t)k4 * mk->nr);
        for (uint32_t j = 0; j < mk->nr; j++) {
            const uint32_t from = col + j % width, gate = j / width;
            scale[j] = 0;
            if (from < n)
                scale[j] = pack_int8_column(mk, panel, j, src + ((size_t)gate * n + from) * k, k,
                                            together);
        }
        if (mk->interleave == 8)
            join_groups(panel, mk->nr, k4);
        else if (mk->interleave == 2)
            split_groups(panel, mk->nr, k4);
    }
}

void fv_gemm_pack(const fv_gemm_microkernel *mk, void *dst, const float *src, uint32_t n0,
                  uint32_t n, const fv_problem *p)
{
    enum { LINE = 16 }; /* floats of a cache line; this many steps are packed at a time */
    const uint32_t k = p->dim[FV_GEMM_K], k4 = fv_round_up(k, 4), width = panel_cols(mk, p);
    if (mk->weight == FV_I8) {
        pack_quantised(mk, dst, src, n0, n, p);
        return;
    }
    for (uint32_t col = 0; col < n; col += width) {
        const size_t panel = (size_t)((n0 + col) / width) * k4;
        for (uint32_t k0 = 0; k0 < k4; k0 += LINE) {
            const uint32_t k1 = fv_min_u32(k0 + LINE, k4);
            const size_t at = (panel + k0) * mk->nr;
            float lines[LINE * FV_COL_ALIGN];
            float *to = mk->narrow ? lines : (float *)dst + at;
            for (uint32_t j = 0; j < mk->nr; j++) {
                const uint32_t from = col + j % width, gate = j / width;
                const float *row = from < n ? src + ((size_t)gate * n + from) * k : NULL;
                pack_column(to + j, row, k0, k1, k, mk->nr);
            }
            if (mk->narrow)
                mk->narrow((uint16_t *)dst + at, lines, (size_t)(k1 - k0) * mk->nr);
        }
    }
}

double fv_gemm_cost(const fv_problem *p, double rate)
{
    /* Reading the weight once costs as much as 4 rows. */
    return fv_problem_flops(p) / rate * (1 + 4. / p->dim[FV_DIM_ROWS]);
}
