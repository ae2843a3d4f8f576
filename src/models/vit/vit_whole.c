/* vit_whole.c: the modules that the authors of an attention mechanism put around it in a ViT: a
 * depthwise convolution of the values over the grid of patches, a norm, a gate.
 *
 *     pola         (attention + dwc v) * g                        g = gate(norm x)
 *     nala         LN(attention + dwc v) * silu(g)
 *     focused       attention + dwc v
 *
 * A block has the convolution if the checkpoint has its tensors (attn.dwc), and then a norm and a
 * gate if it has theirs (attn.ln, attn.gate). The prefix tokens get no convolution. Without prefix
 * tokens, the convolution is computed in the sweep of the queries, from v computed again, so that
 * only x is stored between sweeps. With prefix tokens, it has a separate sweep over the patches,
 * and its rows are stored. */
#include <assert.h>

#include "models/layer.h"
#include "models/vit/vit_reader.h"
#include "ops/contracts/grid.h"
#include "ops/mech_traits.h"

#define DWC "attn.dwc."
#define LN "attn.ln."
#define GATE "attn.gate."
#define LN_EPS 1e-5f   /* torch's default, which NaLaFormer uses */
#define SIZE 5         /* side of all their filters */
#define ONE 1.2784645f /* silu(ONE) is 1 */

/* ---- reading ---- */

fovea_status fv_vit_put_module(fv_vit_reader *r, uint32_t mech)
{
    const uint32_t module = fv_mech_table[mech]->module;
    const uint64_t c = r->v->width, filters = module & FV_MODULE_GLA ? c : c / r->v->linear.heads;
    const uint64_t square[2] = {c, c}, filter[4] = {filters, 1, SIZE, SIZE};
    if (module & FV_MODULE_DWC && !fv_reader_find(&r->t, r->block, DWC, "weight")) {
        FV_TRY(fv_reader_put(&r->t, r->block, DWC, "weight", 4, filter, 0, 0));
        FV_TRY(fv_reader_put(&r->t, r->block, DWC, "bias", 1, filter, 0, 0));
    }
    if (module & FV_MODULE_GATE && !fv_reader_find(&r->t, r->block, GATE, "weight")) {
        FV_TRY(fv_reader_put(&r->t, r->block, GATE, "weight", 2, square, 0, 0));
        FV_TRY(fv_reader_put(&r->t, r->block, GATE, "bias", 1, square,
                             module & FV_MODULE_GLA ? ONE : 1, 0));
    }
    return FOVEA_OK;
}

/* Returns half of the rows of a matrix, or of the columns of a bias. */
static fv_weight half_of(const fv_weight *kv, bool values)
{
    const bool row = kv->rows == 1;
    fv_weight out = {.rows = row ? 1 : kv->rows / 2, .cols = row ? kv->cols / 2 : kv->cols};
    const uint32_t half = row ? out.cols : out.rows, first = values ? half : 0;
    for (uint32_t i = 0; i < kv->parts; i++) {
        fv_weight_part p = kv->part[i];
        uint32_t *from = row ? &p.col0 : &p.row0, *n = row ? &p.cols : &p.rows;
        if (*from + *n <= first || *from >= first + half)
            continue;
        const uint32_t skip = *from < first ? first - *from : 0;
        const uint32_t past = *from + *n > first + half ? *from + *n - first - half : 0;
        assert(!(skip || past) || !(p.paired_rows || p.paired_cols || p.row_scale));
        p.offset += skip * (row ? p.col_stride : p.row_stride);
        *n -= skip + past;
        *from += skip;
        *from -= first;
        fv_weight_add(&out, p);
    }
    return out;
}

fv_layer fv_vit_half(const fv_layer *kv, bool values)
{
    fv_layer l = {.w = half_of(&kv->w, values)};
    if (fv_weight_present(&kv->b))
        l.b = half_of(&kv->b, values);
    return l;
}

static fovea_status read_dwc(fv_vit_reader *r, fv_vit_block *b)
{
    const uint32_t c = r->v->width, d = c / r->v->linear.heads;
    const fv_tensor *t = fv_reader_find(&r->t, r->block, DWC, "weight");
    const uint32_t rows = fv_tensor_dimension(t, 0) == d ? d : c, size = fv_tensor_dimension(t, 3);
    const uint64_t shape[3] = {rows, size, size};
    if (size % 2 == 0 || size > FV_DWCONV_LARGEST)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: tensor \"%s\" has filters of %u columns, but its shape must be (%u or "
                       "%u, 1, n, n) with odd n of at most %u",
                       r->t.source->name, t->name, size, d, c, FV_DWCONV_LARGEST);
    FV_TRY(fv_reader_tensor(&t, &r->t, r->block, DWC, "weight", 3, shape));
    b->module.dwc.w = fv_weight_of(t, rows, size * size);
    b->module.v = fv_vit_half(&b->kv, true);
    return fv_reader_matrix(&b->module.dwc.b, &r->t, r->block, DWC, "bias", 1, rows);
}

fovea_status fv_vit_read_module(fv_vit_reader *r, fv_vit_block *b)
{
    const uint32_t c = r->v->width;
    /* A gate without the convolution belongs to another architecture, with softmax attention. */
    if (!fv_reader_find(&r->t, r->block, DWC, "weight"))
        return FOVEA_OK;
    FV_TRY(read_dwc(r, b));
    if (fv_reader_find(&r->t, r->block, LN, "weight"))
        FV_TRY(fv_reader_norm(&b->module.ln, &r->t, r->block, LN, c));
    return fv_reader_find(&r->t, r->block, GATE, "weight")
               ? fv_reader_linear(&b->module.gate, &r->t, r->block, GATE, c, c)
               : FOVEA_OK;
}

/* ---- computing ---- */

bool fv_vit_convolves(const fv_vit_module *w, uint32_t mech)
{
    return fv_mech_table[mech]->module & FV_MODULE_DWC && fv_weight_present(&w->dwc.w);
}

fv_view fv_vit_emit_patch_rows(fv_builder *b, fv_view x, uint32_t width)
{
    const uint32_t rows = b->options->grid.width * b->options->grid.height;
    const fv_view out = fv_emit_rows(b, rows, width);
    fv_emit_take(b, "patches", x, b->options->grid.prefix, out, rows, width);
    return out;
}

fv_view fv_vit_emit_dwc(fv_builder *b, const fv_vit_module *w, fv_view normed, fv_view res)
{
    const uint32_t rows = b->options->grid.width * b->options->grid.height, channels = w->v.w.rows;
    uint32_t size = 1;
    while (size * size < w->dwc.w.cols)
        size += 2;
    const fv_dwconv d = {.w = &w->dwc.w,
                         .bias = &w->dwc.b,
                         .in = fv_layer_product(b, "v of patches", &w->v, normed, 0, rows),
                         .res = res,
                         .gate = FV_NO_VIEW,
                         .out = fv_emit_rows(b, rows, channels),
                         .width = b->options->grid.width,
                         .height = b->options->grid.height,
                         .count = 1,
                         .channels = channels,
                         .size = size};
    fv_emit_dwconv(b, "convolution of v", &d);
    return d.out;
}

/* Emits the addition of the patches' rows to `seen`, whose prefix rows do not change. */
static fv_view add_behind_prefix(fv_builder *b, fv_view patches, fv_view seen, uint32_t width)
{
    const uint32_t n = fv_grid_tokens(&b->options->grid);
    const fv_view out = fv_emit_rows(b, n, width);
    uint32_t *table = fv_emit_table(b, n);
    for (uint32_t i = 0; table && i < n; i++)
        table[i] = i < b->options->grid.prefix ? FV_GATHER_NONE : i - b->options->grid.prefix;
    if (table)
        fv_emit_gather(b, "convolution added", patches, table, 1, seen, out, n, width);
    return out;
}

fv_view fv_vit_emit_module(fv_builder *b, const fv_vit_module *w, uint32_t mech, fv_view normed,
                           fv_view dwc, fv_view seen)
{
    const uint32_t module = fv_mech_table[mech]->module, n = fv_grid_tokens(&b->options->grid);
    fv_view out = seen;
    if (dwc.id >= 0)
        out = add_behind_prefix(b, dwc, seen, w->v.w.rows);
    else if (fv_vit_convolves(w, mech))
        out = fv_vit_emit_dwc(b, w, normed, seen);
    if (module & FV_MODULE_GLA && fv_weight_present(&w->ln.w))
        out = fv_layer_norm(b, "norm before the gate", &w->ln, out, LN_EPS, n);
    if (module & FV_MODULE_GATE && fv_weight_present(&w->gate.w)) {
        const uint32_t width = w->gate.w.rows;
        const fv_view gate = fv_layer_product(b, "gate", &w->gate, normed,
                                              module & FV_MODULE_GLA ? FV_EPI_SILU : 0, n);
        const fv_view ungated = out;
        out = fv_emit_rows(b, n, width);
        fv_emit_mul(b, "gated", ungated, gate, false, out, n, width);
    }
    return out;
}
