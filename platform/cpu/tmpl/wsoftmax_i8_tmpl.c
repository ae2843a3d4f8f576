/* wsoftmax_i8_tmpl.c: WSOFTMAX with products of 8-bit integers. Keys and values of a window are
 * quantised, as KEYS_I8 does for a whole picture, just before the window's queries attend to
 * them. */
#include "platform/cpu/tmpl/keys_i8_rows.h"
#include "platform/cpu/tmpl/softmax_i8_rows.h"

/* Returns one head's rows of an operand: a window's `keys` rows from row r of a call on, `wide`
 * channels each. */
static head_rows window_rows(const fv_args *a, const fv_call *c, int operand, size_t r, size_t keys,
                             size_t head, size_t wide)
{
    const enum fv_type type = (enum fv_type)a->type[operand];
    const size_t ld = a->ld[operand];
    return (head_rows){.base = {fv_element(c->p[operand], type, r * ld + head * wide)},
                       .type = {type},
                       .ld = {ld},
                       .tokens = keys,
                       .n = keys,
                       .wide = wide};
}

/* The parts of a call's scratch, in bytes; that of softmax_i8_tiles.h is first. */
typedef struct window_layout {
    layout panel;
    fv_keys_i8 row;
    size_t quantise, keys, bytes;
} window_layout;

static window_layout lay_out_window(const fv_problem *p)
{
    const size_t keys = p->dim[FV_ATTN_KEYS];
    window_layout l = {.panel = lay_out_panel(p, keys),
                       .row = fv_keys_i8_of(keys, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV])};
    l.quantise = l.panel.bytes;
    l.keys = l.quantise + fv_tile_round(keys_i8_scratch(p) * sizeof(float), 64);
    l.bytes = l.keys + l.row.bytes;
    return l;
}

void FV_NAME(fv_k_wsoftmax_i8)(const fv_args *a, const fv_call *c)
{
    const window_layout l = lay_out_window(&a->prob);
    char *const row = (char *)c->scratch + l.keys;
    float *const quantise = (float *)(void *)((char *)c->scratch + l.quantise);
    const size_t window = l.row.n;
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        for (size_t r = 0; r < c->rows; r += window) {
            const head_rows k = window_rows(a, c, FV_WINDOW_K, r, window, h, l.row.d);
            const head_rows v = window_rows(a, c, FV_WINDOW_V, r, window, h, l.row.dv);
            quantise_keys(row, &l.row, &k, quantise);
            quantise_values(row, &l.row, &v, quantise);
            for (size_t q = 0; q < window; q += PANEL)
                attend_panel(a, c, &l.panel, row, r + q, window - q < PANEL ? window - q : PANEL,
                             h);
        }
    }
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_I32;
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return lay_out_window(p).bytes;
}

const fv_kernel_hooks FV_NAME(fv_h_wsoftmax_i8) = {
    .applies = applies, .rate = FV_WHOLE_RATE * FV_W * 4e9, .scratch = scratch_bytes};
