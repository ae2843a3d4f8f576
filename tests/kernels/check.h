/* check.h: what the kernel checker knows of an operation: its cases and their definition.
 *
 * check.c walks the kernel list of a device. For every kernel it takes the cases of the kernel's op
 * that the kernel fits and sees to the rest: values of several kinds, guard zones, splits,
 * comparison, time.
 * A new kernel of an existing op is found by itself. A new op in ops.inc needs one object
 * `const check_op check_<name>` in one of the check_*.c files, or the program does not link.
 */
#ifndef FOVEA_TESTS_CHECK_H
#define FOVEA_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "ops/kernel.h"

enum check_kind {
    CHECK_ABSENT,
    CHECK_ROW,     /* a call's pointer is at its row0 */
    CHECK_BASE,    /* a call's pointer is at the base: whole tensors, vectors, states, tables */
    CHECK_WEIGHT,  /* the same, packed by the kernel's own hooks */
    CHECK_PARTIAL, /* one row per group; a call's pointer is at its group's */
};

typedef struct check_operand {
    uint8_t kind; /* enum check_kind */
    uint8_t type; /* FV_F32 as check_matrix leaves it, FV_F16, FV_BF16 or FV_U8 */
    /* Where kernels run, values are stored as this; `data` holds them as `type` says, rounded. */
    uint8_t storage;
    uint32_t rows, cols, ld;
    float scale, huge; /* of the values: standard deviation when normal, and when huge */
    void *data;        /* rows of ld values */
} check_operand;

/* The last operand that is not absent is the output (op.h), and is written only, unless it is
 * added to. */
typedef struct check_case {
    fv_args args;
    check_operand operand[FV_OPERANDS];
    int in_place;   /* the input that shares the output's memory, or -1 */
    bool adds;      /* the output holds values before a call, drawn as an input's are */
    int state;      /* the operand of one row that is read and updated, or -1 */
    bool same_rows; /* with a state: rows in several calls give the bits of one call */
    uint32_t align; /* calls begin and end at multiples of this number of rows */
    bool bench;     /* a size to be timed */
    /* Cut by heads: channels of a head in each part of an output row; 0: a part is all there is. */
    uint32_t part[3];
    uint32_t row0, rows; /* only these rows are computed; rows 0: all */
    /* REDUCE: rows of each call, which deals them to all groups; 0: one call has all rows. Set by
     * what runs the case. */
    uint32_t dealt;
    void *definition; /* `define`'s, for `release` to free */
} check_case;

typedef struct check_random {
    uint64_t state;
} check_random;

typedef struct check_op {
    /* Fills case `index` of the op: the problem, scalars and operands, not their values. The case
     * comes zeroed except prob.op, threads, types (all float), in_place, state and align (1).
     * False past the last.
     */
    bool (*make)(check_case *c, uint32_t index);
    /* Changes the values drawn for the inputs where the op does not take any. May be NULL. */
    void (*prepare)(check_case *c, check_random *r);
    /* Computes, once the inputs are final, what the oracles need of all rows. May be NULL. */
    void (*define)(check_case *c);
    /* Row `row` of the output (of PARTIAL: group `row`) in double precision, one value and one
     * allowed absolute error per column; NaN where NaN is wanted. */
    void (*oracle)(const check_case *c, uint32_t row, double *want, double *allowed);
    /* For a case with a state: what all rows make of it, and the head that each of its values is
     * of. */
    void (*oracle_state)(const check_case *c, double *want, double *allowed);
    uint32_t (*head)(const check_case *c, uint32_t col);
    void (*release)(check_case *c); /* what the others allocated. May be NULL. */
} check_op;

/* Operand i of a case, with `gap` values between its rows. Scale 1, huge 1e15 unless changed later.
 */
void check_matrix(check_case *c, int i, enum check_kind kind, uint32_t rows, uint32_t cols,
                  uint32_t gap);
/* The case's table, for `release`. */
void *check_table(check_case *c);
/* `release` of a case whose table is all that it has; of one whose table is an fv_posemb_table. */
void check_release_table(check_case *c);
void check_release_posemb(check_case *c);
/* One row, read from its base; args.ld is 0. */
void check_vector(check_case *c, int i, uint32_t n);

/* The value of an input. */
double check_at(const check_case *c, int operand, uint32_t row, uint32_t col);
/* The same place, to be changed by `prepare`; of FV_F32 only. */
float *check_value(check_case *c, int operand, uint32_t row, uint32_t col);
/* The bits there, of FV_F16 and FV_BF16. */
uint16_t *check_half(check_case *c, int operand, uint32_t row, uint32_t col);

/* The rows of a REDUCE case that go to `group`, ascending; to be freed. */
uint32_t *check_group_rows(const check_case *c, uint32_t group, uint32_t *count);

/* Error that float32 may make in a sum of n terms whose absolute values sum to `sum`. */
double check_allowed(double n, double sum);
/* The value of `type` nearest to x, and how far from x it may be. */
double check_round(enum fv_type type, double x);
double check_rounding(enum fv_type type, double x);
/* The error after the activation among `epi` of x, which itself may be wrong by `error`. */
double check_activation_error(uint32_t epi, double x, double error);

/* A sum of products of activations and weights, and the error that a kernel may make in it. */
typedef struct check_sum {
    double sum, size; /* size: of absolute values */
    double sizes;     /* sum of 1 + |w| */
    double largest;   /* |a| */
} check_sum;
void check_sum_add(check_sum *s, double a, double w);
double check_sum_error(const check_sum *s, const fv_problem *p);

/* Weights of GEMM and CONV that are numbers of 8 bits: check_int8.c. What a check_op takes; row of
 * operand A or W: its numbers, then their scale. */
void check_int8_prepare(check_case *c, check_random *r);
void check_int8_define(check_case *c);
void check_int8_release(check_case *c);
/* check_int8_rotate rotates k values, rows of `channels` each. check_int8_numbers quantises n
 * values at a stride of `step`, and returns their scale. */
void check_int8_rotate(float *x, uint32_t k, uint32_t channels);
float check_int8_numbers(int8_t *q, const float *x, uint32_t n, size_t step);
const double *check_int8_row(const check_case *c, int operand, uint32_t row);
/* Number k of row n of a weight as its type holds it. */
double check_weight(const check_case *c, uint32_t n, uint32_t k);

uint64_t check_next(check_random *r);
uint32_t check_below(check_random *r, uint32_t n); /* uniform in [0, n) */
double check_normal(check_random *r);

/* Where kernels run: check_run.h. */
typedef struct check_runner check_runner;

/* Checks `k` against every case of `op` that it fits, and returns how many failed. The seam by
 * which check_self.c sees wrong kernels caught. */
typedef struct check_result {
    uint32_t passed, failed, crashed;
    char last[384], first[640]; /* what the last failure was, and the first with its problem */
} check_result;
void check_kernel(check_result *out, const check_runner *runner, const fv_kernel *k,
                  const check_op *op, bool quiet);
/* Feeds wrong kernels of the CPU to check_kernel; counts those caught as passed, the others as
 * failed. `direct`: the runner calls them itself, and sees more. */
void check_self(check_result *out, const check_runner *runner, bool direct);

#endif
