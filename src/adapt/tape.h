/* tape.h: the gradient of a list of steps, as steps.
 *
 *     forward list  every value is written once: the residual stream gets a new one per block
 *     segments      parts of it; where one ends, what later ones read is kept, the rest is computed
 *                   again, with everything that gradients look at, when its gradients are due
 *     rules         of every operation: from the gradient of what it wrote to those of what it
 *                   read (rules.c, rules_attention.c)
 *     sinks         gradients of weights go to memory of the trainer, which adds them up over the
 *                   pictures of a batch
 *
 * The steps are those of a plan: kernels, places and order of execution are its planner's.
 */
#ifndef FOVEA_SRC_ADAPT_TAPE_H
#define FOVEA_SRC_ADAPT_TAPE_H

#include "adapt/masters.h"
#include "graph/emit.h"

typedef struct fv_tape_value {
    bool needs;    /* its gradient leads to a weight */
    bool own;      /* the gradient is nobody else's: it may be added to in place */
    bool written;  /* forward list: by a step before */
    fv_view grad;  /* id FV_NO_VALUE: none */
    fv_id current; /* forward list, while it is rewritten: what stands for it now */
    fv_id twin;    /* computed again: as what */
    fv_id state;   /* partial states: what they were merged to */
} fv_tape_value;

/* Segments of steps that no emitter has written. */
#define FV_TAPE_GRADIENTS UINT32_MAX
#define FV_TAPE_AGAIN (UINT32_MAX - 1)

#define FV_SINK_PARTS 2

/* Gradient of a weight. */
typedef struct fv_sink {
    fv_id value;             /* OUTPUT of the plan */
    const fv_master *direct; /* straight into a tensor's gradient, from `offset` on; or NULL: */
    uint64_t offset;
    /* Rows [row0, row0 + rows of it) are the gradient of `weight`, to be scattered. */
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
    uint32_t values, value_room;
    fv_sink *sink;
    uint32_t sinks, sink_room;
    uint32_t keep_from; /* segments from here on are computed once */
} fv_tape;

/* Takes the builder's steps as the forward list; the builder is empty then. */
fovea_status fv_tape_begin(fv_tape *t, fv_builder *b, const fv_masters *masters);
void fv_tape_end(fv_tape *t);
/* What stands for a value of the emitter at the end of the list. */
fv_id fv_tape_last(const fv_tape *t, fv_id id);

/* The steps of a segment: as they are, or as its gradients want them. */
void fv_tape_forward(fv_tape *t, uint32_t segment);
/* The gradients of everything in it: those of what it wrote are there. */
void fv_tape_backward(fv_tape *t, uint32_t segment);

/* ---- for losses and rules ---- */

/* What a value of the forward list is called in what was emitted last for it. */
fv_view fv_tape_now(const fv_tape *t, fv_view v);
bool fv_tape_needs(const fv_tape *t, fv_view v);
/* Gradient of what the view shows, id FV_NO_VALUE: none. */
fv_view fv_tape_gradient(const fv_tape *t, fv_view v);
/* Adds rows to the gradient of what `v` shows, all columns of it; they must not change any more. */
void fv_tape_pass(fv_tape *t, fv_view v, fv_view rows);
/* Before a step that adds to the gradient of `cols` columns: *res gets what it adds to (id
 * FV_NO_VALUE: nothing), *out where the sum goes. */
void fv_tape_add(fv_tape *t, fv_view v, uint32_t cols, fv_view *res, fv_view *out);
/* The same for steps that add to nothing: what they wrote to a view from here is passed on. */
fv_view fv_tape_rows(fv_tape *t, uint32_t rows, uint32_t cols);

/* Gradients of weights; nothing happens for one that is not trained.
 *     product   of (M, K):  sum_t dout[t][m] in[t][k]
 *     sums      of one row: sum_t a[t] b[t]; b may be none */
void fv_tape_product(fv_tape *t, const char *label, const fv_weight *w, fv_view dout, fv_view in,
                     uint32_t tokens);
void fv_tape_sums(fv_tape *t, const char *label, const fv_weight *w, fv_view a, fv_view b,
                  uint32_t tokens);
/* An output for the gradient of one or two weights, whose rows follow each other. */
fv_view fv_tape_gather(fv_tape *t, const fv_weight *first, const fv_weight *second);

/* "block 3 fc1, gradient" */
const char *fv_tape_label(char buf[40], const fv_step *s, const char *what);

typedef void fv_tape_rule(fv_tape *t, const fv_step *s);
extern fv_tape_rule *const fv_tape_rules[FV_OP_COUNT];

/* rules_attention.c */
fv_tape_rule fv_rule_softmax, fv_rule_apply, fv_rule_merge, fv_rule_reduce, fv_rule_gates,
    fv_rule_map_reduce, fv_rule_map_merge;

#endif
