/* attended.h: the attention behind an output that has the queries of a block, so that it can be
 * computed again from queries and keys alone.
 */
#ifndef FOVEA_SRC_GRAPH_ATTENDED_H
#define FOVEA_SRC_GRAPH_ATTENDED_H

#include "graph/attention.h"
#include "graph/emit.h"

/* Memory of its own: constants of a plan are dropped once they are packed. */
typedef struct fv_attended {
    fv_attention a;
    enum fv_attention_kind kind;
    char text[64];          /* its name */
    float *scale, *power;   /* learned, heads * d; or NULL */
    float *cos, *sin;       /* of rotated features, a row of d per token; or NULL */
    uint32_t rows;          /* of the output */
    uint32_t window;        /* tokens of one, which alone see one another; 0: all do */
    const uint32_t *row;    /* of the output's rows, in the order of windows; NULL: the same */
    const uint32_t *region; /* of rows in that order, apart within a window; NULL: there are none */
    float *bias;            /* of scores: (heads * window, window); or NULL */
} fv_attended;

/* Notes it for the output `name`, if that is wanted, as attention `kind` of `a`, whose parameters
 * and, for windows, biases it copies; NULL: it is not wanted, or memory is short. `rows`: of q. */
fv_attended *fv_attended_note(fv_builder *b, const char *name, const fv_attention_name *kind,
                              const fv_attention *a, uint32_t rows);
/* It is one in windows of `window` tokens, whose biases softmax has as a->param. Tables of the
 * plan.
 */
void fv_attended_in_windows(fv_builder *b, fv_attended *at, uint32_t window, const uint32_t *row,
                            const uint32_t *region);
void fv_attended_free(fv_attended *at);

#endif
