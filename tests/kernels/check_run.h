/* check_run.h: the parts of the kernel checker: cases with values (check_case.c), and kernels at
 * work on them, called directly (check_run.c) or through a device (check_device.c). */
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

/* Case `index` of an op, without values; false past the last. */
bool check_make(check_case *c, enum fv_op number, const check_op *op, uint32_t index);
/* Values of the inputs; gaps between rows hold NaN, so that reading one is seen in the result. */
void check_fill(check_case *c, const check_op *op, enum check_fill fill, check_random *r);
/* From the next check_fill on the float32 rows and tensors are stored as `type`; false where the
 * case has none. */
bool check_store(check_case *c, enum fv_type type);
void check_release(check_case *c, const check_op *op);

/* Default knobs for index 0, then every other value of each knob by itself; false past the last. */
bool check_knobs(const fv_kernel *k, fv_knobs *knobs, uint32_t index);

double check_value_at(enum fv_type type, const void *data, size_t at);
/* The largest value of a 16-bit type. */
double check_max(enum fv_type type);
/* Bytes of a stored value. */
size_t check_element(const check_operand *o);
/* Bytes from the first stored value to the last: the last row has no gap after it. */
size_t check_extent(const check_operand *o);
/* The values as they are stored. `out` has check_extent bytes, whose gaps are left as they are. */
void check_stored(const check_operand *o, uint8_t *out);
int check_output(const check_case *c);
/* Rows [*r0, *r1) of `rows` are for `group`. */
void check_group_range(uint32_t *r0, uint32_t *r1, uint32_t rows, uint32_t groups, uint32_t group);

/* p, or the end of the program. */
void *check_must(void *p);
void check_poison(void *p, size_t size);

/* ---- kernels at work ---- */

/* One kernel on one case. */
typedef struct check_job {
    const fv_kernel *kernel;
    check_case *c;
    fv_knobs knobs;
    char *message;
    size_t message_size;
    bool crashed;
} check_job;

/* Writes the message; false. */
bool check_complain(check_job *j, const char *format, ...) FV_PRINTF(2, 3);

enum check_way {
    CHECK_WHOLE,  /* one call, or one per group */
    CHECK_ROWS,   /* cut in rows */
    CHECK_PIECES, /* cut in rows, as by CHECK_ROWS with the same random numbers, and columns */
};

struct check_runner {
    const char *device;
    uint32_t features; /* that kernels may need */
    bool narrow;       /* rows of 16 bits are checked, too */
    bool exact;        /* CHECK_PIECES is one of its ways: pieces give the bits of the whole */
    /* A result is the output's rows, packed, and after them the state, if there is one. */
    bool (*run)(const check_runner *runner, check_job *j, enum check_way way, uint8_t *result,
                check_random r);
    /* Whether cutting the rows is a result of its own. */
    bool (*cuts)(const check_case *c);
    const struct check_device *on; /* check_device.c's */
};

size_t check_output_size(const check_case *c);
size_t check_result_size(const check_case *c);
/* A number of rows that is left to be cut off: from `left`, a multiple of `align`. */
uint32_t check_piece(check_random *r, uint32_t left, uint32_t align);
/* Extent of the second dimension. */
uint32_t check_columns(const check_case *c);
/* The weight as the kernel takes it, packed as the planner does; *size bytes, to be freed. */
uint8_t *check_packed(const check_job *j, int operand, size_t *size);
size_t check_scratch(const check_job *j);

/* Kernels of a device by its id ("cpu", "cl:0"), through its backend. The list of kernels, or NULL
 * and a message. */
const fv_kernel *check_device_open(check_runner *out, const char *id, int *count, char *message,
                                   size_t message_size);
void check_device_close(check_runner *runner);

/* ---- kernels of the CPU, called directly ---- */

extern const check_runner check_direct;

typedef struct check_work {
    check_job *job;
    const check_case *c;
    fv_args args;
    check_region operand[FV_OPERANDS], scratch;
    int out;
    bool timed;
} check_work;

/* From then on a kernel that crashes makes its call fail. */
void check_catch_signals(void);

void check_work_open(check_work *w, check_job *j, bool at_end);
void check_work_close(check_work *w);

/* The output as it is before a call: NaN, or the input that is stored there. */
void check_output_reset(check_work *w);
bool check_call(check_work *w, uint32_t row0, uint32_t rows, uint32_t col0, uint32_t cols,
                uint32_t group, bool first);

#endif
