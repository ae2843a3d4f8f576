/* tape.h: computes the gradient of a list of steps as steps.
 *
 *     forward list  every value is written once: the residual stream gets a new value per block
 *     segments      checkpoint segments: values that later segments read are kept; all others that
 *                   gradients need are recomputed immediately before the segment's gradients
 *     rules         one per operation: from the gradient of its output to those of its inputs
 *                   (rules.c, rules_grid.c, rules_attention.c)
 *     sinks         gradients of weights are written to the trainer's memory; the trainer sums them
 *                   over the pictures of a batch
 *
 * The steps form a plan like any other: the planner chooses kernels, memory and the order of
 * execution. */
#ifndef FOVEA_SRC_ADAPT_TAPE_H
#define FOVEA_SRC_ADAPT_TAPE_H

#include "graph/emit.h"
#include "train/masters.h"

typedef struct fv_tape_value {
    bool needs;    /* a trained weight needs its gradient */
    bool own;      /* no other value shares the gradient, so that it may be added to in place */
    bool written;  /* forward list: an earlier step writes it */
    fv_view grad;  /* id FV_NO_VALUE if there is none */
    fv_id current; /* forward list, while it is rewritten: the value that replaces this one */
    fv_id twin;    /* the value that contains it after recomputation */
    fv_id state;   /* partial states: the merged state */
} fv_tape_value;

/* Segment numbers of steps that no model emitted: gradients and recomputed steps. */
#define FV_TAPE_GRADIENTS UINT32_MAX
#define FV_TAPE_AGAIN (UINT32_MAX - 1)

#define FV_SINK_PARTS 2

/* The gradient of a weight. */
typedef struct fv_sink {
    fv_id value; /* an OUTPUT of the plan */
    /* NULL, or the tensor whose gradient is written directly, from `offset` on */
    const fv_master *direct;
    uint64_t offset;
    /* Rows from row0 on are the gradient of `weight`, and are scattered to its tensors. */
    struct fv_sink_part {
        fv_weight weight;
        uint32_t row0;
    } part[FV_SINK_PARTS];
    uint32_t parts;
    float *rows; /* the trainer's memory */
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
    char label[40];     /* text that fv_tape_label returns */
    uint32_t keep_from; /* segments from here on are not recomputed */
} fv_tape;

/* Makes the builder's steps the forward list, and empties the builder. */
fovea_status fv_tape_begin(fv_tape *t, fv_builder *b, const fv_masters *masters);
void fv_tape_end(fv_tape *t);
/* Returns the value of the forward list that finally contains the emitted value `id`. */
fv_id fv_tape_last(const fv_tape *t, fv_id id);

/* Emits the forward steps of a segment. If the segment is not recomputed, the steps have the form
 * that its gradients need. */
void fv_tape_forward(fv_tape *t, uint32_t segment);
/* Emits the gradients of a segment. The gradients of all values that it writes must have been
 * emitted. */
void fv_tape_backward(fv_tape *t, uint32_t segment);

/* ---- for losses and rules ---- */

/* Returns the value that was last emitted for a value of the forward list. */
fv_view fv_tape_now(const fv_tape *t, fv_view v);
bool fv_tape_needs(const fv_tape *t, fv_view v);
/* Returns the gradient of the view's columns; its id is FV_NO_VALUE if there is none. */
fv_view fv_tape_gradient(const fv_tape *t, fv_view v);
/* Adds `rows` to the gradient of all columns of the view. `rows` must not be written afterwards. */
void fv_tape_pass(fv_tape *t, fv_view v, fv_view rows);
/* Prepares a step that adds to the gradient of `cols` columns. Sets *res to the gradient so far (id
 * FV_NO_VALUE if there is none), and *out to the rows for the sum. */
void fv_tape_add(fv_tape *t, fv_view v, uint32_t cols, fv_view *res, fv_view *out);
/* Makes a new value for steps that cannot add. The steps write to it, and fv_tape_pass adds it to
 * the gradient. */
fv_view fv_tape_rows(fv_tape *t, uint32_t rows, uint32_t cols);

/* Emit gradients of weights. They do nothing for a weight that is not trained.
 *     product   of (M, K):  sum_t dout[t][m] in[t][k]; both operands are of type `type`: F32, or
 *               BF16 if fv_operands_round will round them
 *     sums      of one row: sum_t a[t] b[t]; b may be absent */
void fv_tape_product(fv_tape *t, const char *label, const fv_weight *w, fv_view dout, fv_view in,
                     uint32_t tokens, enum fv_type type);
void fv_tape_sums(fv_tape *t, const char *label, const fv_weight *w, fv_view a, fv_view b,
                  uint32_t tokens);
/* Emits columns of the gradient of (M, K) to `out`, which is a part of what fv_tape_gather
 * returned, and returns the step. */
fv_step *fv_tape_product_into(fv_tape *t, const char *label, uint32_t m, uint32_t k, fv_view dout,
                              fv_view in, uint32_t tokens, fv_view out);
/* Makes an output for the gradients of one or two weights. The second's rows follow the first's. */
fv_view fv_tape_gather(fv_tape *t, const fv_weight *first, const fv_weight *second);

/* Returns a text such as "block 3 fc1, gradient", which is valid until the next call. */
const char *fv_tape_label(fv_tape *t, const fv_step *s, const char *what);

typedef void fv_tape_rule(fv_tape *t, const fv_step *s);
extern fv_tape_rule *const fv_tape_rules[FV_OP_COUNT];

/* rules_grid.c */
fv_tape_rule fv_rule_conv, fv_rule_upsample, fv_rule_groupnorm;
/* rules_queries.c */
fv_tape_rule fv_rule_matmul, fv_rule_pick, fv_rule_deform;
/* rules_attention.c */
fv_tape_rule fv_rule_softmax, fv_rule_foveated, fv_rule_apply, fv_rule_merge, fv_rule_reduce,
    fv_rule_gates, fv_rule_map_reduce;

#endif
