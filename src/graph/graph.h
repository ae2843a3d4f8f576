/* graph.h: a graph: steps over values, and the outputs that the caller asked for. An emitter writes
 * it (emit.h), the planner decides how it runs (plan/plan.h).
 *
 * A value is an activation, a state, a frame's pixels or an output; an operand is a view of a value
 * (whole columns from `col` on) or a weight. Steps are executed in the order they are written; a
 * value may be written more than once (the residual stream is updated in place).
 */
#ifndef FOVEA_SRC_GRAPH_GRAPH_H
#define FOVEA_SRC_GRAPH_GRAPH_H

#include <string.h>

#include "checkpoint/weight.h"
#include "device/backend.h"
#include "graph/attention.h"
#include "ops/preprocess.h"

typedef int32_t fv_id; /* index of a value; negative: no value */
#define FV_NO_VALUE (-1)

enum fv_value_kind {
    FV_VALUE_ROWS,    /* rows of cols elements */
    FV_VALUE_PARTIAL, /* one partial of cols elements per group */
    FV_VALUE_STATE,   /* cols elements */
    FV_VALUE_KEPT,    /* cols elements that are kept from one frame to the next, for instance the
                         state of a scan */
    FV_VALUE_INPUT,   /* memory of the caller that is read */
    FV_VALUE_OUTPUT,  /* memory of the caller that is written */
};

typedef struct fv_value {
    uint8_t kind, type; /* enum fv_value_kind, enum fv_type of an element */
    uint8_t staging;    /* its memory is reported as staging, not as activations */
    const char *name;   /* INPUT of a plan of one operation: its name, a static text */
    uint32_t rows, cols;
    uint32_t ld;      /* row stride in elements */
    uint32_t slot;    /* INPUT, OUTPUT: index of the caller's memory */
    uint32_t need;    /* number of rows that are read, set by fv_graph_demand */
    uint32_t writers; /* number of steps that write the value */
    bool f32_only;    /* an operand that uses it supports float32 only */
} fv_value;

/* Returns whether the value is in the caller's memory. */
static inline bool fv_value_outside(const fv_value *v)
{
    return v->kind == FV_VALUE_INPUT || v->kind == FV_VALUE_OUTPUT;
}

/* Returns the row stride in bytes. */
static inline uint64_t fv_value_stride(const fv_value *v)
{
    return (uint64_t)v->ld * fv_type_size(v->type);
}

typedef struct fv_view {
    fv_id id;
    uint32_t col; /* first column */
} fv_view;
#define FV_NO_VIEW ((fv_view){FV_NO_VALUE, 0})

typedef struct fv_use {
    fv_view view;
    uint8_t kind;     /* enum fv_kind; WEIGHT uses `weight` */
    fv_weight weight; /* rows == 0: absent */
} fv_use;

/* The grid of a picture's tokens, which are stored row by row after the prefix rows. */
typedef struct fv_grid {
    uint32_t width, height; /* tokens */
    uint32_t stride;        /* distance of neighbouring tokens in pixels */
    uint32_t prefix;
} fv_grid;

static inline uint32_t fv_grid_tokens(const fv_grid *g)
{
    return g->prefix + g->width * g->height;
}

typedef struct fv_step {
    char label[40];
    fv_problem prob;
    fv_use use[FV_OPERANDS];
    uint8_t out; /* the operand that is written, from fv_op; operand fv_op.state is written too */
    float f[4];
    uint32_t u[4];
    const void *table;
    uint32_t align; /* calls begin and end at multiples of this number of rows, except at the
                       last row; 0: anywhere */
    uint32_t checkpoint_segment; /* training: the checkpoint segment that contains the step */
    bool dead;                   /* nothing reads the step's result: set by fv_graph_demand */
} fv_step;

/* Sets those arguments of a kernel that do not depend on the call. */
static inline void fv_step_args(fv_args *a, const fv_step *s)
{
    a->prob = s->prob;
    a->table = s->table;
    memcpy(a->f, s->f, sizeof s->f);
    memcpy(a->u, s->u, sizeof s->u);
}

/* Returns the enum fv_span of the step's op. */
static inline uint32_t fv_step_span(const fv_step *s)
{
    return fv_op_table[s->prob.op]->span;
}

/* Returns the kernel that packs weight operand `o` of a step that runs kernel `k`, or NULL if it is
 * not packed. */
static inline const fv_kernel *fv_step_packer(const fv_step *s, const fv_kernel *k, uint32_t o)
{
    return fv_op_table[s->prob.op]->operand[o].stored == FV_STORED_PACKED ? k : NULL;
}

/* Returns whether operand o is stored in the problem's weight type (f16, bf16); all others are
 * float32. */
static inline bool fv_step_narrow(const fv_step *s, uint32_t o)
{
    return fv_op_table[s->prob.op]->operand[o].stored >= FV_STORED_NARROW;
}

/* Numbers that an emitter computes for use as a weight. They live as long as the plan. */
typedef struct fv_constant {
    struct fv_constant *next;
    fv_tensor tensor;
} fv_constant;

/* An output that the caller asked for. */
typedef struct fv_wanted {
    const char *name; /* points to the model's text */
    fv_id value;      /* FV_NO_VALUE until the emitter has written it */
    fv_grid grid;     /* width 0: rows are not tokens */
    fovea_output_kind kind;
    fovea_output_layout layout;
    struct fv_attended *attended; /* for queries of an attention: see attended.h; or NULL */
} fv_wanted;

/* Memory that belongs to the plan, to which steps point. */
typedef struct fv_plan_table {
    struct fv_plan_table *next;
    fv_posemb_table posemb; /* all NULL if this table is not a position table */
    void *data;
} fv_plan_table;

/* The result of an emitter. */
typedef struct fv_graph {
    fv_step *step;
    uint32_t steps, step_capacity;
    fv_value *value;
    uint32_t values, value_capacity;
    fv_wanted *wanted;
    uint32_t n_wanted;
    uint32_t slots;
    uint32_t products; /* number of products so far that may be int8, or whose weights may be
                          int8 */
    fv_plan_table *tables;
    uint64_t table_bytes;
    fv_constant *constants;
} fv_graph;

/* Return the wanted output with a name, or of a kind, or NULL if there is no such output. */
fv_wanted *fv_graph_wanted(const fv_graph *g, const char *name);
const fv_wanted *fv_graph_output(const fv_graph *g, fovea_output_kind kind);

/* Computes how many rows of every value the outputs need, and marks steps without such rows as
 * dead. */
void fv_graph_demand(fv_graph *g);

/* Frees the numbers of the constants, once they are packed. */
void fv_graph_drop_constants(fv_graph *g);
/* Frees steps, values, outputs, tables and constants. */
void fv_graph_release(fv_graph *g);

#endif
