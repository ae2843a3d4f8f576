/* op_case.h: a case of `fovea op`: an operator call in the golden files' format.
 *
 * A file holds q, k, v as (B, H, N, d), or names the file that does, and what else the operator
 * takes; its metadata say what is computed. Here all of it becomes options and rows of the library.
 */
#ifndef FOVEA_CLI_OP_CASE_H
#define FOVEA_CLI_OP_CASE_H

#include <fovea/operations.h>

#include "cli/common/cli.h"

/* (B, H, N, d) as rows: [batch][token][head * d], packed. */
typedef struct op_rows {
    uint32_t batch, heads, rows, dim;
    size_t elem; /* bytes of an element */
    char *data;
} op_rows;

static inline size_t op_row_size(const op_rows *r)
{
    return (size_t)r->heads * r->dim * r->elem;
}

/* The rows of one batch. */
static inline char *op_batch(const op_rows *r, uint32_t batch)
{
    return r->data + (size_t)batch * r->rows * op_row_size(r);
}

#define OP_INPUTS 9
#define OP_CONSTANTS 12 /* two each: learned, rotation, local, norm; gates as read and turned */
#define OP_TENSORS 32

typedef struct op_case {
    const char *path;
    fovea_tensors *file, *inputs; /* the same file, unless inputs_file names another */
    fovea_attention_options options;
    char attention[80];
    bool tokens_first; /* the output is (B, N, C) */
    op_rows input[OP_INPUTS];
    size_t n_inputs;
    float *constant[OP_CONSTANTS]; /* what the options point to */
    size_t n_constants;
    const char *used[OP_TENSORS]; /* names of tensors that have a meaning in this case */
    size_t n_used;
    uint32_t features; /* causal: channels of a key in the state; 0: there is no state */
    bool divided;      /* causal: the state has a denominator */
} op_case;

/* Options, and q, k and v as inputs 0 to 2. `c` is to be freed also after a failure. */
int op_case_open(op_case *c, const char *path, const cli_settings *settings, fovea_form form);
/* The next input, by the library's name for it. */
int op_case_input(op_case *c, const char *name);
/* Refuses a case with tensors that no option uses. */
int op_case_complete(const op_case *c);
/* The state to begin with, `floats` values per batch as the library saves it; zeros where the case
 * has none. */
int op_case_state(float **out, op_case *c, size_t floats);
void op_case_free(op_case *c);

/* The tensor `name` of the case, counted as used. */
bool op_case_find(op_case *c, const char *name, fovea_tensor *out);
/* Rows to (B, H, N, d). */
void op_from_rows(char *out, const op_rows *in);

#endif
