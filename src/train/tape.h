/* tape.h: the gradient of a list of steps, as steps.
 *
 *     forward list  every value is written once: the residual stream gets a new value per block
 *     segments      checkpoint segments: what later segments read is kept; the rest is recomputed,
 *                   with everything that gradients need, just before its gradients
 *     rules         per operation: from the gradient of its output to those of its inputs
 *                   (rules.c, rules_grid.c, rules_attention.c)
 *     sinks         gradients of weights go to memory of the trainer, which adds them up over the
 *                   pictures of a batch
 *
 * The steps form a plan like any other: the planner chooses kernels, places and order of execution.
 */
#ifndef FOVEA_SRC_ADAPT_TAPE_H
#define FOVEA_SRC_ADAPT_TAPE_H

#include "graph/emit.h"
#include "train/masters.h"

typedef struct fv_tape_value {
    bool needs;    /* its gradient is needed for a trained weight */
    bool own;      /* no other value shares the gradient: it may be added to in place */
    bool written;  /* forward list: an earlier step writes it */
    fv_view grad;  /* id FV_NO_VALUE: none */
    fv_id current; /* forward list, while it is rewritten: the value that replaces it */
    fv_id twin;    /* the value that it is recomputed to */
    fv_id state;   /* partial states: the merged state */
} fv_tape_value;

/* Segment numbers of steps that no model emitted: gradients; recomputed steps. */
#define FV_TAPE_GRADIENTS UINT32_MAX
#define FV_TAPE_AGAIN (UINT32_MAX - 1)

#define FV_SINK_PARTS 2

/* Gradient of a weight. */
typedef struct fv_sink {
    fv_id value; /* OUTPUT of the plan */
    const fv_master
        *direct; /* written directly to a tensor's gradient, from `offset` on; or NULL: */
    uint64_t offset;
    /* Rows from row0 on are the gradient of `weight`, to be scattered. */
    struct fv_sink_part {
        fv_weight weight;
        uint32_t row0;
    } part[FV_SINK_PARTS];
    uint32_t parts;
    float *rows; /* the trainer's */
} fv_sink;

typedef struct fv_tape {
    fv_builder *b;
    const fv_masters *masters;
    fv_step *step; /* the forward list */
    uint32_t steps;
    fv_tape_value *value;
    uint32_t values, value_capacity;
    fv_sink *sink;
    uint32_t sinks, sink_capacity;
    char label[40];     /* of fv_tape_label */
    uint32_t keep_from; /* segments from here on are not recomputed */
} fv_tape;

/* Takes the builder's steps as the forward list; the builder is empty then. */
fovea_status fv_tape_begin(fv_tape *t, fv_builder *b, const fv_masters *masters);
void fv_tape_end(fv_tape *t);
/* The value of the forward list that holds an emitted value at the end. */
fv_id fv_tape_last(const fv_tape *t, fv_id id);

/* Emits the forward steps of a segment; if it is not recomputed, in the form that its gradients
 * need. */
void fv_tape_forward(fv_tape *t, uint32_t segment);
/* Emits the gradients of a segment, after those of all values that it writes. */
void fv_tape_backward(fv_tape *t, uint32_t segment);

/* ---- for losses and rules ---- */

/* The value that was last emitted for a value of the forward list. */
fv_view fv_tape_now(const fv_tape *t, fv_view v);
bool fv_tape_needs(const fv_tape *t, fv_view v);
/* Gradient of what the view shows, id FV_NO_VALUE: none. */
fv_view fv_tape_gradient(const fv_tape *t, fv_view v);
/* Adds `rows` to the gradient of the view, all its columns; `rows` must not be written afterwards.
 */
void fv_tape_pass(fv_tape *t, fv_view v, fv_view rows);
/* Before a step that adds to the gradient of `cols` columns: *res gets what it adds to (id
 * FV_NO_VALUE: nothing), *out where the sum goes. */
void fv_tape_add(fv_tape *t, fv_view v, uint32_t cols, fv_view *res, fv_view *out);
/* A new value for steps that cannot add: they write to it, and fv_tape_pass adds it. */
fv_view fv_tape_rows(fv_tape *t, uint32_t rows, uint32_t cols);

/* Emits gradients of weights; does nothing for a weight that is not trained.
 *     product   of (M, K):  sum_t dout[t][m] in[t][k], both operands of type `type`: F32, or BF16
 *               for fv_operands_round to round
 *     sums      of one row: sum_t a[t] b[t]; b may be none */
void fv_tape_product(fv_tape *t, const char *label, const fv_weight *w, fv_view dout, fv_view in,
                     uint32_t tokens, enum fv_type type);
void fv_tape_sums(fv_tape *t, const char *label, const fv_weight *w, fv_view a, fv_view b,
                  uint32_t tokens);
/* Columns of the gradient of (M, K), in `out`: a part of what fv_tape_gather gave. */
void fv_tape_product_into(fv_tape *t, const char *label, uint32_t m, uint32_t k, fv_view dout,
                          fv_view in, uint32_t tokens, fv_view out);
/* An output for the gradients of one or two weights, the second's rows after the first's. */
fv_view fv_tape_gather(fv_tape *t, const fv_weight *first, const fv_weight *second);

/* "block 3 fc1, gradient", until the next call. */
const char *fv_tape_label(fv_tape *t, const fv_step *s, const char *what);

typedef void fv_tape_rule(fv_tape *t, const fv_step *s);
extern fv_tape_rule *const fv_tape_rules[FV_OP_COUNT];

/* rules_grid.c */
fv_tape_rule fv_rule_conv, fv_rule_upsample;
/* rules_attention.c */
fv_tape_rule fv_rule_softmax, fv_rule_foveated, fv_rule_apply, fv_rule_merge, fv_rule_reduce,
    fv_rule_gates, fv_rule_map_reduce;

#endif
