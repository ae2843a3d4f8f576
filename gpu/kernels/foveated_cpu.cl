/* foveated_cpu.cl: FOVEATED attention, as softmax_cpu_tiles.cl has it: a work-item has half a block
 * of queries. */
#include "gpu/kernels/foveated_common.cl"

/* Keys, all of them tokens or all of them cells: their rows, and what is added to their scores. */
typedef struct tile {
    uint n, *row;
    float *bias;
    bool cells;
} tile;

#define TILE_ROW(X, j) FV_AT(X, t->row[j])
#include "gpu/kernels/softmax_cpu_tiles.cl"

DEFINE_MULTIPLY_KEYS(multiply_tokens, 1)
DEFINE_MULTIPLY_KEYS(multiply_cells, 3)
DEFINE_ADD_VALUES(add_tokens, 2)
DEFINE_ADD_VALUES(add_cells, 4)

/* The next keys of a walk, of which `run` is what is left of its last run. */
static inline void fill(tile *t, fv_fovea_walk *walk, fv_fovea_run *run)
{
    t->cells = run->level > 0;
    for (t->n = 0; t->n < KEYS && run->count > 0 && t->cells == (run->level > 0); t->n++) {
        t->row[t->n] = run->row++;
        t->bias[t->n] = t->cells ? fv_fovea_bias(walk->f, run->level, run->y, run->x++) : 0.f;
        if (--run->count == 0)
            *run = fv_fovea_next(walk);
    }
}

FV_KERNEL void foveated(OPERANDS)
{
    const fv_fovea fovea = fovea_of(dim);
    const span s = span_of(&fovea, LANES, row0, rows);
    float qt[FV_D * LANES];
    float16 ot[2 * FV_DV], scores[2 * KEYS], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
    fv_fovea_walk walk;
    if (!has_queries(s, LANES))
        return;
    turn_queries(OPERANDS_GIVEN, qt, s);
    for (uint i = 0; i < 2 * FV_DV; i++)
        ot[i] = 0.f;

    if (s.whole)
        fv_fovea_begin_prefix(&walk, &fovea);
    else
        fv_fovea_begin(&walk, &fovea, s.y, s.x);
    uint row[KEYS];
    float bias[KEYS];
    tile t = {0, row, bias, false};
    fv_fovea_run run = fv_fovea_next(&walk);
    for (fill(&t, &walk, &run); t.n > 0; fill(&t, &walk, &run)) {
        float16 fade[2];
        if (t.cells)
            multiply_cells(OPERANDS_GIVEN, scores, qt, &t);
        else
            multiply_tokens(OPERANDS_GIVEN, scores, qt, &t);
        for (uint j = 0; j < 2 * t.n; j++)
            scores[j] += t.bias[j / 2];
        for (uint v = 0; v < 2; v++)
            weigh(scores + v, top + v, sum + v, fade + v, t.n);
        if (t.cells)
            add_cells(OPERANDS_GIVEN, ot, scores, fade, &t);
        else
            add_tokens(OPERANDS_GIVEN, ot, scores, fade, &t);
    }
    write_queries(OPERANDS_GIVEN, ot, sum, s);
}
