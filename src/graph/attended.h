/* attended.h: the attention that belongs to an output of a block's queries. With it, a caller can
 * compute the attention again from queries and keys alone. */
#ifndef FOVEA_SRC_GRAPH_ATTENDED_H
#define FOVEA_SRC_GRAPH_ATTENDED_H

#include "graph/attention.h"
#include "graph/emit.h"

/* It has its own copies, because the constants of a plan are freed once they are packed. */
typedef struct fv_attended {
    fv_attention a;
    enum fv_attention_kind kind;
    char text[64];          /* its name */
    float *scale, *power;   /* learned, heads * d; or NULL */
    float *cos, *sin;       /* tables of rotated features, a row of d per token; or NULL */
    uint32_t rows;          /* of the output */
    uint32_t window;        /* tokens of a window, which see only each other; 0: all tokens see
                               all */
    const uint32_t *row;    /* position of each output row in the order of windows; NULL:
                               unchanged */
    const uint32_t *region; /* region of each row in that order: rows of a window see only their
                               own region; NULL: no regions */
    float *bias;            /* added to scores: (heads * window, window); or NULL */
} fv_attended;

/* Records attention `kind` of `a` for output `name`, with copies of its parameters. `rows`: rows of
 * q. Returns NULL if the output is not wanted, or memory is short. */
fv_attended *fv_attended_note(fv_builder *b, const char *name, const fv_attention_name *kind,
                              const fv_attention *a, uint32_t rows);
/* Records that the attention runs in windows of `window` tokens; for softmax, a->param has the
 * biases. The tables belong to the plan. */
void fv_attended_in_windows(fv_builder *b, fv_attended *at, uint32_t window, const uint32_t *row,
                            const uint32_t *region);
void fv_attended_free(fv_attended *at);

#endif
