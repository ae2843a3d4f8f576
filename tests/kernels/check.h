/* check.h: the description of an operation for the kernel checker: its cases and its definition.
 *
 * check.c iterates over the kernels of a device. For each kernel it runs the cases of the kernel's
 * op that the kernel fits, with values of several kinds, guard zones and splits, and compares and
 * times the results.
 *
 * A new kernel of an existing op needs no change here. A new op in ops.inc needs one object `const
 * check_op check_<name>` in one of the check_*.c files, or the program does not link.
 */
#ifndef FOVEA_TESTS_CHECK_H
#define FOVEA_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/kernel.h"

enum check_kind {
    CHECK_ABSENT,
    CHECK_ROW,     /* a call gets a pointer to its row0 */
    CHECK_BASE,    /* a call gets a pointer to the base: whole tensors, vectors, states, tables */
    CHECK_WEIGHT,  /* as CHECK_BASE, but packed by the kernel's own hooks */
    CHECK_PARTIAL, /* one row per group; a call gets a pointer to its group's row */
};

typedef struct check_operand {
    uint8_t kind; /* enum check_kind */
    uint8_t type; /* FV_F32 as set by check_matrix, FV_F16, FV_BF16 or FV_U8 */
    /* The type in which the kernel's operand is stored. `data` holds the same values, rounded, as
     * `type`. */
    uint8_t storage;
    uint32_t rows, cols, ld;
    float scale, huge; /* standard deviation of the values: of normal ones, and of huge ones */
    void *data;        /* rows of ld values */
} check_operand;

/* The last operand that is not absent is the output (op.h). Kernels only write the output, unless
 * `adds` is set. */
typedef struct check_case {
    fv_args args;
    check_operand operand[FV_OPERANDS];
    int in_place; /* the input that shares the output's memory, or -1 */
    bool adds; /* kernels add to the output, whose values before a call are drawn like those of an
                  input */
    int state; /* the one-row operand that is read and updated, or -1 */
    bool same_rows; /* with a state: processing the rows in several calls gives the bits of one call
                     */
    uint32_t align; /* calls begin and end at multiples of this number of rows */
    bool bench;     /* whether --bench times the case */
    /* For splits by heads: the channels per head in each part of an output row; the list ends with
     * 0. */
    uint32_t part[3];
    uint32_t row0, rows; /* only these rows are computed; if rows is 0, all are */
    /* REDUCE: rows of each call, which distributes them to all groups; 0 if one call has all rows.
     * The runner sets it. */
    uint32_t dealt;
    void *definition; /* allocated by `define`, freed by `release` */
} check_case;

typedef struct check_random {
    uint64_t state;
} check_random;

typedef struct check_op {
    /* Fills in case `index` of the op: the problem, scalars and operands, but not their values. The
     * case is zeroed except prob.op, threads, types (all float), in_place, state and align (1).
     * Returns false if there are no more cases.
     */
    bool (*make)(check_case *c, uint32_t index);
    /* Replaces input values that the op does not support. May be NULL. */
    void (*prepare)(check_case *c, check_random *r);
    /* Computes what the oracles need from all rows, once the inputs are final. May be NULL. */
    void (*define)(check_case *c);
    /* Computes row `row` of the output (of group `row` for PARTIAL) in double precision: one value
     * and one allowed absolute error per column. An expected NaN is NaN. */
    void (*oracle)(const check_case *c, uint32_t row, double *want, double *allowed);
    /* For a case with a state: oracle_state computes the state after all rows, and head returns the
     * head that owns value `col` of the state. */
    void (*oracle_state)(const check_case *c, double *want, double *allowed);
    uint32_t (*head)(const check_case *c, uint32_t col);
    void (*release)(check_case *c); /* frees what the other functions allocated; may be NULL */
} check_op;

/* Describes operand i of a case, with `gap` values between rows. Sets scale to 1 and huge to 1e15,
 * which the caller may change.
 */
void check_matrix(check_case *c, int i, enum check_kind kind, uint32_t rows, uint32_t cols,
                  uint32_t gap);
/* Allocates the case's table, which `release` frees. */
void *check_table(check_case *c);
/* Implementations of `release` for a case that owns only a table. check_release_posemb() is for a
 * table of type fv_posemb_table. */
void check_release_table(check_case *c);
void check_release_posemb(check_case *c);
/* Describes operand i as one row that is read from its base, with args.ld 0. */
void check_vector(check_case *c, int i, uint32_t n);

/* Returns a value of an input. */
double check_at(const check_case *c, int operand, uint32_t row, uint32_t col);
/* Returns a pointer to a value of an FV_F32 operand, for `prepare` to change. */
float *check_value(check_case *c, int operand, uint32_t row, uint32_t col);
/* Returns a pointer to the bits of a value of an FV_F16 or FV_BF16 operand. */
uint16_t *check_half(check_case *c, int operand, uint32_t row, uint32_t col);

/* Returns the rows of a REDUCE case that `group` processes, in ascending order; the caller frees
 * them. */
uint32_t *check_group_rows(const check_case *c, uint32_t group, uint32_t *count);

/* Returns the error that float32 may make in a sum of n terms whose absolute values sum to `sum`.
 */
double check_allowed(double n, double sum);
/* check_round() returns the value of `type` nearest to x; check_rounding() bounds their distance.
 */
double check_round(enum fv_type type, double x);
double check_rounding(enum fv_type type, double x);
/* Returns the error after the activation among `epi` if its input x has an error of at most
 * `error`. */
double check_activation_error(uint32_t epi, double x, double error);

/* A sum of products of activations and weights, with the quantities that bound its error. */
typedef struct check_sum {
    double sum, size; /* size: sum of the absolute values */
    double sizes;     /* sum of 1 + |w| */
    double largest;   /* |a| */
} check_sum;
void check_sum_add(check_sum *s, double a, double w);
double check_sum_error(const check_sum *s, const fv_problem *p);

/* Weights of GEMM and CONV in int8: check_int8.c. These functions implement those of a check_op. A
 * row of operand A or W consists of int8 values followed by their scale. */
void check_int8_prepare(check_case *c, check_random *r);
void check_int8_define(check_case *c);
void check_int8_release(check_case *c);
/* check_int8_rotate rotates k values, which are rows of `channels` values. check_int8_numbers
 * quantises n values at a stride of `step` and returns their scale. */
void check_int8_rotate(float *x, uint32_t k, uint32_t channels);
float check_int8_numbers(int8_t *q, const float *x, uint32_t n, size_t step);
const double *check_int8_row(const check_case *c, int operand, uint32_t row);
/* Returns element k of row n of a weight, converted from the weight's type. */
double check_weight(const check_case *c, uint32_t n, uint32_t k);

uint64_t check_next(check_random *r);
uint32_t check_below(check_random *r, uint32_t n); /* Returns a number uniform in [0, n). */
double check_normal(check_random *r);

/* Runs kernels: see check_run.h. */
typedef struct check_runner check_runner;

/* Results of check_kernel(), which checks `k` against every case of `op` that it fits. check_self.c
 * uses the same function to show that wrong kernels are rejected. */
typedef struct check_result {
    uint32_t passed, failed, crashed;
    char last[384],
        first[640]; /* messages of the last failure, and of the first one with its problem */
} check_result;
void check_kernel(check_result *out, const check_runner *runner, const fv_kernel *k,
                  const check_op *op, bool quiet);
/* Passes wrong CPU kernels to check_kernel(). Counts rejected kernels as passed and accepted
 * kernels as failed. `direct` means that the runner calls kernels itself and so detects more
 * faults. */
void check_self(check_result *out, const check_runner *runner, bool direct);

#endif
