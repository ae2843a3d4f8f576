/* check_run.h: the parts of the kernel checker: cases with values (check_case.c), and kernels at
 * work on them (check_run.c). */
#ifndef FOVEA_TESTS_CHECK_RUN_H
#define FOVEA_TESTS_CHECK_RUN_H

#include "check.h"
#include "check_region.h"

/* ---- cases ---- */

extern const check_op *const check_ops[FV_OP_COUNT];

enum check_fill {
    CHECK_NORMAL,
    CHECK_HUGE,
    CHECK_TINY,
    CHECK_ONE_HOT,
    CHECK_ZERO,
    CHECK_DENORMAL,
    CHECK_FILLS
};
extern const char *const check_fill_names[CHECK_FILLS];

/* Case `index` of an op, without values; false past the last. */
bool check_make(check_case *c, enum fv_op number, const check_op *op, uint32_t index);
/* Values of the inputs; gaps between rows hold NaN, so that reading one is seen in the result. */
void check_fill(check_case *c, const check_op *op, enum check_fill fill, check_random *r);
void check_release(check_case *c, const check_op *op);

double check_value_at(enum fv_type type, const void *data, size_t at);
/* The largest value of a 16-bit type. */
double check_max(enum fv_type type);
size_t check_element(const check_operand *o);
/* Bytes from the first value to the last: the last row has no gap behind it. */
size_t check_extent(const check_operand *o);
int check_output(const check_case *c);

/* p, or the end of the program. */
void *check_must(void *p);
void check_poison(void *p, size_t size);

/* ---- kernels at work ---- */

typedef struct check_work {
    const fv_kernel *kernel;
    const check_case *c;
    fv_args args;
    check_region operand[FV_OPERANDS], scratch;
    int out;
    char *message;
    size_t message_size;
    bool crashed, timed;
} check_work;

/* From then on a kernel that crashes makes its call fail. */
void check_catch_signals(void);

void check_work_open(check_work *w, const fv_kernel *k, const check_case *c, const fv_knobs *knobs,
                     bool at_end, char *message, size_t message_size);
void check_work_close(check_work *w);
/* Writes the message; false. */
bool check_complain(check_work *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The output as it is before a call: NaN, or the input that lies there. */
void check_output_reset(check_work *w);
/* Extent of the second dimension. */
uint32_t check_columns(const check_case *c);
bool check_call(check_work *w, uint32_t row0, uint32_t rows, uint32_t col0, uint32_t cols,
                uint32_t group, bool first);

/* A result is the output's rows, packed, and behind them the state, if there is one. */
size_t check_output_size(const check_case *c);
size_t check_result_size(const check_case *c);
/* Where the calls of one group depend on those before: the division of rows shows in the rounding.
 */
bool check_in_order(const check_case *c);
/* Runs the case into `result`. Cut: in pieces drawn from `r`, where the row pieces of an op whose
 * calls are in order come from `r` alone, so that two runs with the same r sum in the same order.
 */
bool check_run(check_work *w, uint8_t *result, bool cut_rows, bool cut_cols, check_random r);

#endif
