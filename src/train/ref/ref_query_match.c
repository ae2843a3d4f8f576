/* ref_query_match.c: QUERY_MATCH: gives every present class to one query, so that the sum of the
 * costs is the least.
 *
 *   dim      1, queries, classes
 *   COST     WHOLE, queries x classes; NaN counts as 0, and numbers are limited to 1e10
 *   PRESENT  classes floats: positive for a class that is given to a query
 *   OUT      ROW, queries wide: the number of the query's class; `classes` for a query without one
 *
 * If there are more present classes than queries, every query gets a class, and the rest is given
 * to none. This is the Hungarian method with shortest augmenting paths: each row of the smaller
 * side in turn is assigned along the path whose reduced costs have the least sum. Arithmetic is
 * double. */
#include <math.h>

#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static double flops(const fv_problem *p)
{
    const double queries = p->dim[FV_ROW_C], classes = p->dim[FV_QUERY_CLASSES];
    return queries * classes * (queries < classes ? queries : classes);
}

const fv_op fv_op_query_match = {
    .dim = {{"rows"}, [FV_ROW_C] = {"queries", FV_DIM_TOKENS}, [FV_QUERY_CLASSES] = {"classes"}},
    .operand = {[FV_MATCH_COST] = {"COST", FV_QUERY_CLASSES},
                [FV_MATCH_PRESENT] = {"PRESENT", FV_QUERY_CLASSES},
                [FV_MATCH_OUT] = {"OUT", FV_ROW_C}},
    .flops = flops,
    .joint = true,
};

#define MOST 1e10
#define NONE UINT32_MAX

/* The smaller side has the rows of the assignment, the larger one its columns. */
typedef struct assignment {
    const float *cost;
    size_t ld;
    const uint32_t *class; /* numbers of the present classes */
    uint32_t rows, columns;
    bool classes_first;      /* rows are classes */
    double *of_row, *of_col; /* potentials */
    double *least;           /* of each column: the least reduced cost of a path to it */
    uint32_t *owner;         /* of each column: its row, or NONE */
    uint32_t *before;        /* of each column: the column before it on its path, or NONE */
    bool *seen;
} assignment;

static double cost(const assignment *x, uint32_t row, uint32_t column)
{
    const uint32_t query = x->classes_first ? column : row;
    const uint32_t class = x->class[x->classes_first ? row : column];
    const double of = (double)x->cost[query * x->ld + class];
    return isnan(of) ? 0 : fmin(fmax(of, -MOST), MOST);
}

/* Extends the paths by the column that is nearest. `from` is the last column, or NONE for the
 * path's first row. */
static uint32_t nearest(assignment *x, uint32_t row, uint32_t from)
{
    uint32_t best = NONE;
    for (uint32_t k = 0; k < x->columns; k++) {
        if (x->seen[k])
            continue;
        const double reduced = cost(x, row, k) - x->of_row[row] - x->of_col[k];
        if (reduced < x->least[k]) {
            x->least[k] = reduced;
            x->before[k] = from;
        }
        if (best == NONE || x->least[k] < x->least[best])
            best = k;
    }
    return best;
}

static void assign(assignment *x, uint32_t first)
{
    uint32_t row = first, column = NONE;
    for (uint32_t k = 0; k < x->columns; k++) {
        x->least[k] = INFINITY;
        x->before[k] = NONE;
        x->seen[k] = false;
    }
    for (;;) {
        const uint32_t next = nearest(x, row, column);
        const double step = x->least[next];
        x->of_row[first] += step;
        for (uint32_t k = 0; k < x->columns; k++)
            if (x->seen[k]) {
                x->of_row[x->owner[k]] += step;
                x->of_col[k] -= step;
            } else {
                x->least[k] -= step;
            }
        column = next;
        if (x->owner[column] == NONE)
            break;
        x->seen[column] = true;
        row = x->owner[column];
    }
    while (column != NONE) {
        const uint32_t before = x->before[column];
        x->owner[column] = before == NONE ? first : x->owner[before];
        column = before;
    }
}

void fv_k_query_match_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t queries = a->prob.dim[FV_ROW_C], classes = a->prob.dim[FV_QUERY_CLASSES];
    const uint32_t most = queries > classes ? queries : classes;
    const float *present = c->p[FV_MATCH_PRESENT];
    float *out = c->p[FV_MATCH_OUT];
    double *numbers = c->scratch;
    uint32_t *list = (uint32_t *)(numbers + 3 * (size_t)most), n = 0;
    for (uint32_t k = 0; k < classes; k++)
        if (present[k] > 0.f)
            list[n++] = k;
    assignment x = {.cost = c->p[FV_MATCH_COST],
                    .ld = a->ld[FV_MATCH_COST],
                    .class = list,
                    .classes_first = n <= queries,
                    .rows = n <= queries ? n : queries,
                    .columns = n <= queries ? queries : n,
                    .of_row = numbers,
                    .of_col = numbers + most,
                    .least = numbers + 2 * (size_t)most,
                    .owner = list + most,
                    .before = list + 2 * (size_t)most,
                    .seen = (bool *)(list + 3 * (size_t)most)};
    for (uint32_t k = 0; k < most; k++) {
        x.of_row[k] = x.of_col[k] = 0;
        x.owner[k] = NONE;
    }
    for (uint32_t i = 0; i < x.rows; i++)
        assign(&x, i);
    for (uint32_t i = 0; i < queries; i++)
        out[i] = (float)classes;
    for (uint32_t k = 0; k < x.columns; k++)
        if (x.owner[k] != NONE)
            out[x.classes_first ? k : x.owner[k]] = (float)list[x.classes_first ? x.owner[k] : k];
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const size_t queries = p->dim[FV_ROW_C], classes = p->dim[FV_QUERY_CLASSES];
    const size_t most = queries > classes ? queries : classes;
    (void)knobs, (void)rows;
    return most * (3 * sizeof(double) + 3 * sizeof(uint32_t) + sizeof(bool));
}

const fv_kernel_hooks fv_h_query_match_f32_ref = {.scratch = scratch_bytes};
