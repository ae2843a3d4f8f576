/* op_case.h: reads a case of `fovea op`: an operator call in the golden files' format.
 *
 * A file contains q, k, v as (B, H, N, d), or names the file that does, and the operator's other
 * inputs. Its metadata says what to compute. The functions here convert this to options and rows
 * for the library. */
#ifndef FOVEA_CLI_OP_CASE_H
#define FOVEA_CLI_OP_CASE_H

#include <fovea/operations.h>

#include "cli/common/cli.h"

/* A tensor (B, H, N, d) as packed rows: [batch][token][head * d]. */
typedef struct op_rows {
    uint32_t batch, heads, rows, dim;
    size_t elem; /* bytes of an element */
    char *data;
} op_rows;

static inline size_t op_row_size(const op_rows *r)
{
    return (size_t)r->heads * r->dim * r->elem;
}

/* Returns the rows of one batch. */
static inline char *op_batch(const op_rows *r, uint32_t batch)
{
    return r->data + (size_t)batch * r->rows * op_row_size(r);
}

#define OP_INPUTS 9
/* two for each of learned, rotation, local and norm; four for gates, as read and transposed */
#define OP_CONSTANTS 12
#define OP_TENSORS 32

typedef struct op_case {
    const char *path;
    /* the case's file; the same file again, or the one that the metadata "inputs_file" names */
    fovea_tensors *file, *inputs;
    fovea_attention_options options;
    char attention[80];
    bool tokens_first; /* the output is stored as (B, N, C) */
    op_rows input[OP_INPUTS];
    size_t n_inputs;
    float *constant[OP_CONSTANTS]; /* arrays that the options point to */
    size_t n_constants;
    const char *used[OP_TENSORS]; /* names of the tensors that options use */
    size_t n_used;
    uint32_t features; /* causal: channels of a key in the state; 0 if the case has no state */
    bool divided;      /* causal: the state has a denominator */
} op_case;

/* Reads options and q, k, v, which become inputs 0 to 2. The caller frees `c`, also after a
 * failure. */
int op_case_open(op_case *c, const char *path, const cli_settings *settings, fovea_form form);
/* Reads the next input; `name` is its name in the library. */
int op_case_input(op_case *c, const char *name);
/* Fails if the case has tensors that no option uses. */
int op_case_complete(const op_case *c);
/* Reads the initial state: `floats` values per batch, in the library's format. The values are zeros
 * if the case has no initial state. */
int op_case_state(float **out, op_case *c, size_t floats);
void op_case_free(op_case *c);

/* Finds tensor `name` of the case, and marks it as used. Returns false if there is none. */
bool op_case_find(op_case *c, const char *name, fovea_tensor *out);
/* Copies rows to (B, H, N, d). */
void op_from_rows(char *out, const op_rows *in);

#endif
