/* foveated_i8_tmpl.c: computes FOVEATED attention with products of 8-bit integers. */
#define FV_TILE_N 2 /* vectors of queries per tile */
#include "platform/cpu/tmpl/softmax_i8_tiles.h"

#include "ops/foveated.h"

enum { QUERIES = FV_FOVEA_BLOCK * FV_FOVEA_BLOCK };

typedef tile_of_keys gathered;

/* A head of a call: pointers to the beginning of its rows. */
typedef struct head {
    char *row[FV_FOVEATED_OUT + 1];
    enum fv_type type[FV_FOVEATED_OUT + 1];
    size_t ld[FV_FOVEATED_OUT + 1];
    layout l;
    fv_keys_i8 keys;
    size_t tokens;
    fv_fovea fovea;
    char *scratch;
    float scale;
} head;

static char *row_of(const head *h, int operand, size_t row)
{
    return fv_element(h->row[operand], h->type[operand], row * h->ld[operand]);
}

static head head_of(const fv_args *a, const fv_call *c, size_t number)
{
    head h = {.l = lay_out(&a->prob, QUERIES, 0),
              .fovea = fv_fovea_of(&a->prob),
              .scratch = c->scratch,
              .scale = a->f[0] * LOG2_E};
    h.tokens = a->prob.dim[FV_ATTN_KEYS];
    h.keys = fv_keys_i8_of(h.tokens + fv_fovea_first(&h.fovea, h.fovea.levels + 1), h.l.d, h.l.dv);
    for (int i = FV_FOVEATED_Q; i <= FV_FOVEATED_OUT; i += FV_FOVEATED_OUT - FV_FOVEATED_Q) {
        h.type[i] = (enum fv_type)a->type[i];
        h.ld[i] = a->ld[i];
        h.row[i] = fv_element(c->p[i], h.type[i], number * (i ? h.l.dv : h.l.d));
    }
    h.row[FV_FOVEATED_K] = (char *)c->p[FV_FOVEATED_K] + number * a->ld[FV_FOVEATED_K];
    return h;
}

/* Attends the first `queries` queries to the keys gathered in the tile, and empties the tile. */
static void attend_gathered(const head *h, gathered *g, size_t queries)
{
    if (g->n > 0)
        attend_blocks(&h->l, h->scratch, queries, g, 0);
    g->n = 0;
    g->biased = false;
}

static void add_run(const head *h, gathered *g, fv_fovea_run run, size_t queries)
{
    /* keys of cells are stored after those of the tokens */
    const size_t cells = run.level > 0 ? h->tokens : 0;
    for (uint32_t i = 0; i < run.count; i++) {
        const float bias =
            run.level > 0 ? fv_fovea_bias(&h->fovea, run.level, run.y, run.x + i) : 0.f;
        take_key(g, &h->keys, h->row[FV_FOVEATED_K], cells + run.row + i, bias);
        if (g->n == TILE)
            attend_gathered(h, g, queries);
    }
}

static void write_part(const head *h, void *out, size_t first, size_t end)
{
    const char *scale = h->row[FV_FOVEATED_K] + h->keys.value_scale;
    write_out(out, h->type[FV_FOVEATED_OUT], h->ld[FV_FOVEATED_OUT], &h->l, h->scratch,
              (const float *)(const void *)scale, first, end);
}

#include "platform/cpu/tmpl/foveated_walk.h"

void FV_NAME(fv_k_foveated_i8)(const fv_args *a, const fv_call *c)
{
    attend(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_I32;
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return lay_out(p, QUERIES, 0).bytes;
}

const fv_kernel_hooks FV_NAME(fv_h_foveated_i8) = {
    .applies = applies, .rate = FV_WHOLE_RATE * FV_W * 5e9, .scratch = scratch_bytes};
