/* check_run.h: the parts of the kernel checker: cases with values (check_case.c), and runners that
 * execute kernels directly (check_run.c) or through a device (check_device.c). */
#ifndef FOVEA_TESTS_CHECK_RUN_H
#define FOVEA_TESTS_CHECK_RUN_H

#include "base/status.h"
#include "tests/kernels/check.h"
#include "tests/kernels/check_region.h"

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

/* Makes case `index` of an op without values. Returns false if there are no more cases. */
bool check_make(check_case *c, enum fv_op number, const check_op *op, uint32_t index);
/* Fills in the inputs. Gaps between rows hold NaN, so that reading a gap changes the result. */
void check_fill(check_case *c, const check_op *op, enum check_fill fill, check_random *r);
/* Stores the float32 rows and tensors as `type` in later calls of check_fill(). Returns false if
 * the case has none. */
bool check_store(check_case *c, enum fv_type type);
void check_release(check_case *c, const check_op *op);

/* Sets the default knobs for index 0, then every other value of each knob, one at a time. Returns
 * false if there are no more. */
bool check_knobs(const fv_kernel *k, fv_knobs *knobs, uint32_t index);

double check_value_at(enum fv_type type, const void *data, size_t at);
/* Returns the largest value of a 16-bit type. */
double check_max(enum fv_type type);
/* Returns the bytes of a stored value. */
size_t check_element(const check_operand *o);
/* Returns the bytes from the first stored value to the last: no gap follows the last row. */
size_t check_extent(const check_operand *o);
/* Writes the values as they are stored. `out` has check_extent() bytes; gaps are left unchanged. */
void check_stored(const check_operand *o, uint8_t *out);
int check_output(const check_case *c);
/* Sets [*r0, *r1) to the rows of `rows` that `group` processes. */
void check_group_range(uint32_t *r0, uint32_t *r1, uint32_t rows, uint32_t groups, uint32_t group);

/* Returns p, or ends the program if p is NULL. */
void *check_must(void *p);
void check_poison(void *p, size_t size);

/* ---- runners ---- */

/* One kernel and one case. */
typedef struct check_job {
    const fv_kernel *kernel;
    check_case *c;
    fv_knobs knobs;
    char *message;
    size_t message_size;
    bool crashed;
} check_job;

/* Writes the message and returns false. */
bool check_complain(check_job *j, const char *format, ...) FV_PRINTF(2, 3);

enum check_way {
    CHECK_WHOLE,  /* one call, or one per group */
    CHECK_ROWS,   /* split by rows */
    CHECK_PIECES, /* split by rows, as CHECK_ROWS with the same random numbers, and by columns */
};

struct check_runner {
    const char *device;
    uint32_t features; /* instruction sets that kernels may use */
    bool narrow;       /* whether 16-bit rows are checked, too */
    bool exact; /* whether it supports CHECK_PIECES, where pieces must give the bits of the whole */
    /* Runs the kernel. The result is the output's packed rows, followed by the state, if the case
     * has one. */
    bool (*run)(const check_runner *runner, check_job *j, enum check_way way, uint8_t *result,
                check_random r);
    /* Returns whether CHECK_ROWS may give another result than CHECK_WHOLE. */
    bool (*cuts)(const check_case *c);
    const struct check_device *on; /* check_device.c's */
};

size_t check_output_size(const check_case *c);
size_t check_result_size(const check_case *c);
/* Returns the size of the next piece of `left` rows: a multiple of `align`, or `left`. */
uint32_t check_piece(check_random *r, uint32_t left, uint32_t align);
/* Returns the extent of the second dimension. */
uint32_t check_columns(const check_case *c);
/* Returns the weight packed by the kernel's hooks, as the planner packs it. It has *size bytes; the
 * caller frees it. */
uint8_t *check_packed(const check_job *j, int operand, size_t *size);
size_t check_scratch(const check_job *j);

/* Opens a device by its id ("cpu", "cl:0") to run kernels through its backend. Returns its list of
 * kernels, or NULL and a message. */
const fv_kernel *check_device_open(check_runner *out, const char *id, int *count, char *message,
                                   size_t message_size);
void check_device_close(check_runner *runner);

/* ---- CPU kernels that are called directly ---- */

extern const check_runner check_direct;

typedef struct check_work {
    check_job *job;
    const check_case *c;
    fv_args args;
    check_region operand[FV_OPERANDS], scratch;
    int out;
    bool timed;
} check_work;

/* Makes later crashes of a kernel fail its call instead of ending the program. */
void check_catch_signals(void);

void check_work_open(check_work *w, check_job *j, bool at_end);
void check_work_close(check_work *w);

/* Sets the output to its content before a call: NaN, or the input that shares its memory. */
void check_output_reset(check_work *w);
bool check_call(check_work *w, uint32_t row0, uint32_t rows, uint32_t col0, uint32_t cols,
                uint32_t group, bool first);

#endif
