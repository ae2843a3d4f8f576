/* foveated_rows.h: computes FOVEATED attention. The keys that a block of the grid's queries sees
 * are gathered into tiles. */
#include "platform/cpu/tmpl/softmax_tiles.h"

#include <math.h>

#include "ops/foveated.h"

enum { QUERIES = FV_FOVEA_BLOCK * FV_FOVEA_BLOCK, KEYS = 256 /* keys per tile, at most */ };

/* The keys of a tile before they are packed. */
typedef struct gathered {
    const char *k[KEYS], *v[KEYS];
    enum fv_type type_k, type_v;
    float bias[KEYS]; /* log2 of the number of tokens that a key represents */
    size_t n;
} gathered;

/* A head of a call: pointers to the beginning of its rows. */
typedef struct head {
    char *row[FV_FOVEATED_OUT + 1];
    enum fv_type type[FV_FOVEATED_OUT + 1];
    size_t ld[FV_FOVEATED_OUT + 1];
    layout l;
    fv_fovea fovea;
    float *scratch, scale;
} head;

static char *row_of(const head *h, int operand, size_t row)
{
    return fv_element(h->row[operand], h->type[operand], row * h->ld[operand]);
}

static head head_of(const fv_args *a, const fv_call *c, size_t number)
{
    head h = {.l = lay_out(&a->prob, &a->knobs, QUERIES, 0),
              .fovea = fv_fovea_of(&a->prob),
              .scratch = c->scratch,
              .scale = a->f[0] * 1.44269504f};
    for (int i = 0; i <= FV_FOVEATED_OUT; i++) {
        const bool values = i == FV_FOVEATED_V || i == FV_FOVEATED_CELL_V || i == FV_FOVEATED_OUT;
        h.type[i] = fv_operand_row_type(a, i);
        h.ld[i] = a->ld[i];
        h.row[i] = fv_element(c->p[i], h.type[i], number * (values ? h.l.dv : h.l.d));
    }
    return h;
}

/* ---- keys ---- */

static void pack_gathered(const head *h, const gathered *g)
{
    const layout *l = &h->l;
    fv_operand_elem *keys = (fv_operand_elem *)(h->scratch + l->keys);
    fv_operand_elem *values = (fv_operand_elem *)(h->scratch + l->values);
    for (size_t j = 0; j < g->n; j++)
        fv_operand_pack_rows(keys + j * l->dp, l->dp, g->k[j], g->type_k, 0, 1, l->d);
    memset(keys + g->n * l->dp, 0, (fv_tile_round(g->n, FV_TILE_M) - g->n) * l->dp * sizeof *keys);
    for (size_t j = 0; j < g->n; j += 2)
        fv_operand_pack_steps(values + j * l->ld_v, l->ld_v, g->v[j],
                              j + 1 < g->n ? g->v[j + 1] : NULL, g->type_v, l->dv);
}

/* Attends the first `queries` queries to the keys gathered in the tile, and empties the tile. */
static void attend_gathered(const head *h, gathered *g, size_t queries)
{
    tile_prefetch none = {0};
    if (g->n == 0)
        return;
    for (size_t i = g->n; i < fv_tile_round(g->n, FV_TILE_M); i++)
        g->bias[i] = 0.f;
    pack_gathered(h, g);
    for (size_t r = 0; r < queries; r += FV_TILE_COLS)
        attend_block(&h->l, h->scratch, r, queries - r, 0, g->n, SIZE_MAX, h->scale, g->bias,
                     &none);
    g->n = 0;
}

static void add_run(const head *h, gathered *g, fv_fovea_run run, size_t queries)
{
    const bool cells = run.level > 0;
    const int k = cells ? FV_FOVEATED_CELL_K : FV_FOVEATED_K;
    const int v = cells ? FV_FOVEATED_CELL_V : FV_FOVEATED_V;
    if (g->type_k != h->type[k] || g->type_v != h->type[v])
        attend_gathered(h, g, queries); /* all keys of a tile have one type */
    g->type_k = h->type[k];
    g->type_v = h->type[v];
    for (uint32_t i = 0; i < run.count; i++) {
        g->k[g->n] = row_of(h, k, run.row + i);
        g->v[g->n] = row_of(h, v, run.row + i);
        g->bias[g->n] = cells ? fv_fovea_bias(&h->fovea, run.level, run.y, run.x + i) : 0.f;
        if (++g->n == h->l.tile)
            attend_gathered(h, g, queries);
    }
}

static void write_part(const head *h, void *out, size_t first, size_t end)
{
    write_out(out, h->type[FV_FOVEATED_OUT], h->ld[FV_FOVEATED_OUT], &h->l, h->scratch, first, end);
}

#include "platform/cpu/tmpl/foveated_walk.h"

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)rows;
    return lay_out(p, k, QUERIES, 0).floats * sizeof(float);
}

static const fv_knob knobs[] = {{"keys", {64, 32, 128, 256}, 4}, {0}};
