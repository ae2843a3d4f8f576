/* attended.h: describes the attention whose queries are an output. With this description, a caller
 * can compute the attention again from queries and keys alone. */
#ifndef FOVEA_SRC_GRAPH_ATTENDED_H
#define FOVEA_SRC_GRAPH_ATTENDED_H

#include "graph/attention.h"
#include "graph/emit.h"

/* An attention. It has its own copies of parameters, because the constants of a plan are freed once
 * they are packed. */
typedef struct fv_attended {
    fv_attention a;
    enum fv_attention_kind kind;
    char text[64];          /* name of the attention */
    float *scale, *power;   /* learned parameters, heads * d; or NULL */
    float *cos, *sin;       /* tables of rotated features, a row of d per token; or NULL */
    uint32_t rows;          /* rows of the output */
    uint32_t window;        /* tokens of a window, in which tokens attend only to each other; 0:
                               no windows */
    const uint32_t *row;    /* position of each output row in the order of windows; NULL: the
                               order is unchanged */
    const uint32_t *region; /* region of each row in the order of windows: rows of a window
                               attend only to their own region; NULL: no regions */
    float *bias;            /* added to scores: (heads * window, window); or NULL */
} fv_attended;

/* Records attention `kind` of `a` for output `name`, with copies of its parameters. `rows` is the
 * number of rows of q. Returns NULL if the output was not asked for, or memory runs out. */
fv_attended *fv_attended_note(fv_builder *b, const char *name, const fv_attention_name *kind,
                              const fv_attention *a, uint32_t rows);
/* Records that the attention runs in windows of `window` tokens; for softmax, a->param contains the
 * biases. The tables belong to the plan. */
void fv_attended_in_windows(fv_builder *b, fv_attended *at, uint32_t window, const uint32_t *row,
                            const uint32_t *region);
void fv_attended_free(fv_attended *at);

#endif
