/* bench.h: what `fovea bench` measures, and how: requests, devices, cases, measurement.
 *
 *   cmd_bench.c         the command: its options, and the order of its work
 *   bench_cases.c       makes a case for each combination of the options' lists, on each device
 *   bench_gemm.c, bench_attention.c, bench_block.c, bench_model.c, bench_kernel.c, bench_floors.c,
 *   bench_lm.c
 *                       what a case runs, and what its result is compared with
 *   bench_reference.c   verifies plans and their outputs
 *   bench_limits.c      measures the peak FLOP/s and bandwidth of a device
 *   bench_measure.c     times cases alternately; bench_pace.c: at a camera's rate, or for minutes
 *   bench_profile.c     times the steps of a frame
 *   bench_describe.c    converts a case to a result in JSON
 *
 * The other files work on such results only: bench_results.c, bench_output.c, bench_table.c,
 * bench_csv.c, bench_baseline.c.
 */
#ifndef FOVEA_CLI_BENCH_H
#define FOVEA_CLI_BENCH_H

#include <fovea/operations.h>

#include "cli/common/cli.h"
#include "cli/common/machine.h"

enum bench_what {
    BENCH_GEMM,
    BENCH_ATTENTION,
    BENCH_BLOCK,
    BENCH_MODEL,
    BENCH_KERNEL,
    BENCH_FLOORS,
    BENCH_LM,
    BENCH_WHATS
};
#define BENCH_ANY ((1u << BENCH_WHATS) - 1) /* masks with one bit per kind */
extern const char *const bench_what_names[BENCH_WHATS + 1];

/* A step of a model, and a kernel for the same operation. The kernel need not support the step. */
typedef struct bench_kernel_pick {
    size_t step;
    const char *kernel;
} bench_kernel_pick;

/* The unparsed arguments of options; NULL if not given. */
typedef struct bench_request {
    cli_common common;
    enum bench_what what;
    const char *name;   /* the name of MODEL as given */
    const char *kernel; /* part of a kernel's name */
    const char *shapes, *activation;
    const char *tokens, *heads, *dim, *value_dim, *mlp, *form, *op, *of;
    const char *phase, *rows; /* arguments of --phase and --rows, for a language model */
    const char *batch;        /* argument of --batch, for a model: frames in a run */
    bool causal;
    fovea_model *model;            /* the loaded MODEL */
    const bench_kernel_pick *pick; /* set for one case of BENCH_KERNEL */
} bench_request;

/* ---- devices ---- */

/* The peak rates of a device: the highest that were measured in this run. */
typedef struct bench_limits {
    fovea_rates rates;
    /* FLOP/s of the fastest matrix product of each type, by the device's clock. The rate of float32
     * is always measured. Other rates are 0 if no case has products of their type. */
    double gemm[FOVEA_COMPUTE_AUTO];
} bench_limits;

/* A device with its options, which cases share. */
typedef struct bench_device {
    char *key;
    char id[32]; /* "cl:0" */
    bool cpu;
    fovea_device *device;
    double open_seconds;
    bench_limits limits;
} bench_device;

/* bench_limits.c */
/* Returns the measured peak bandwidth of the device in bytes/s. */
double bench_limits_memory(const bench_limits *l);
/* Returns the type of the numbers that a step multiplies. */
fovea_compute bench_products(const fovea_step_info *step);
/* Returns the measured peak FLOP/s of products of a type. */
double bench_limits_products(const bench_limits *l, fovea_compute compute);
/* Returns the roofline lower bound in s: max(FLOPs / peak, bytes / bandwidth). */
double bench_limits_bound(const bench_limits *l, fovea_compute compute, double flops, double bytes);

/* ---- cases ---- */

typedef struct bench_verify {
    /* what the result was compared with, as static text; NULL if it was not compared */
    const char *reference;
    double max_abs, rel; /* rel: error relative to the largest value */
    bool ok;
    char text[240]; /* description of the error, if the numbers do not describe it fully */
} bench_verify;

enum { BENCH_DEVICES = 64, BENCH_INPUTS = 8 };

typedef struct bench_case { /* More than 25 fields: a line of results and all that it depends on */
    /* set by bench_gemm and the other functions that make cases */
    char *title;
    json_t *params;
    bench_device *on;
    void *state;
    /* runs the case once; *seconds is measured by the device's clock */
    int (*run)(struct bench_case *c, double *seconds);
    /* verifies the results of the last run */
    int (*check)(struct bench_case *c, bench_verify *out);
    void (*release)(struct bench_case *c); /* frees the state and the operands */
    fovea_plan *plan;
    fovea_matrix input[BENCH_INPUTS], out; /* operands of bench_run_op */
    size_t inputs;
    /* report the time by the device's own clock instead of the duration of `run` */
    bool device_time;
    double flops, bytes; /* for the roofline's lower bound */
    uint32_t tokens;  /* tokens of a sequence that a run reads; 0 if the case is not a sequence */
    uint64_t results; /* bytes for results, which are allocated after the plan */
    /* set by bench_plan_begin and bench_plan_end */
    fovea_plan_info info;
    double plan_seconds;
    uint64_t before; /* bytes of process memory before planning */
    /* set by bench_first and bench_measure */
    double first_seconds;
    /* peak growth of process memory in bytes during planning and the first run, without
     * `results` */
    uint64_t resident;
    uint32_t inner; /* runs per sample */
    double *sample; /* seconds per run */
    double *device; /* device seconds per run */
    size_t samples;
    bool stable;
    machine_history machine;
    uint64_t allocations; /* allocations of the library during all timed runs of all cases */
    bench_verify verify;
    json_t *pace, *profile; /* set by bench_pace.c and bench_profile.c, or NULL */
} bench_case;

enum { BENCH_CASES = 256 };

typedef struct bench_set {
    bench_device device[BENCH_DEVICES];
    size_t devices;
    bench_case list[BENCH_CASES];
    size_t cases;
} bench_set;

enum bench_check { BENCH_CHECK_FIRST, BENCH_CHECK_EVERY, BENCH_CHECK_OFF };

typedef struct bench_options {
    uint32_t runs, warmup; /* if `runs` is 0, the case runs until the median is stable */
    double time;           /* most seconds per case if `runs` is 0 */
    /* seconds of a sample; shorter runs are repeated and timed together; 0 means 1e-3 */
    double sample;
    int check; /* an enum bench_check */
    /* rate: frames per second, or 0 to run without pauses; sustain: seconds that each case runs */
    double rate, sustain;
} bench_options;

/* bench_cases.c: fails if `option` does not apply to this kind of benchmark. Bit k of `whats` is
 * set if the option applies to kind k. */
int bench_belongs(const char *option, unsigned whats, enum bench_what what);
/* Checks all list options of `r` in the same way. */
int bench_axes_check(const bench_request *r);
/* Adds a case for every combination of the lists in `r`, runs each once and verifies it. Stops
 * early if interrupted. */
int bench_cases_add(bench_set *set, const bench_request *r, const bench_options *o);
void bench_cases_free(bench_set *set);

void bench_case_free(bench_case *c);

/* Are called before and after c->plan is created, to measure the time and the growth of memory. The
 * case's own buffers and a model's weights must already exist. */
void bench_plan_begin(bench_case *c);
void bench_plan_end(bench_case *c);
/* Is the `run` function of cases that are a single operation. */
int bench_run_op(bench_case *c, double *seconds);

/* bench_gemm.c, bench_attention.c, bench_block.c, bench_model.c, bench_lm.c, bench_kernel.c: each
 * function makes one case on out->on. Every list of `r` has been reduced to one value. The caller
 * frees the case, also after a failure. */
int bench_gemm(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_attention(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_block(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_model(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_lm(bench_case *out, const cli_settings *s, const bench_request *r);
/* Lists the pairs of step and kernel that the request selects, at most `capacity`. */
int bench_kernel_picks(bench_kernel_pick *out, size_t capacity, size_t *n, const cli_settings *s,
                       const bench_device *on, const bench_request *r);
/* Returns CLI_UNSUPPORTED without a message if the kernel of r->pick does not support the step. */
int bench_kernel(bench_case *out, const cli_settings *s, const bench_request *r);
/* Measures the FLOP/s of large matrix products, and raises *best to the result if that is
 * higher. */
int bench_gemm_rate(double *best, fovea_device *device, fovea_compute compute);

/* The model, output and batch that a case of a model runs. */
typedef struct bench_model_run {
    fovea_model *model;
    const char *name;   /* name of the model, as the user gave it */
    const char *output; /* NULL for the model's main output */
    uint32_t batch;     /* frames in a run */
    bool owned;         /* the case frees the model */
} bench_model_run;
/* Makes the case, except its title and parameters. */
int bench_model_case(bench_case *out, const cli_settings *s, const bench_model_run *run);

/* bench_reference.c: the work of a plan, so that another plan can compute the same. */
typedef struct bench_subject {
    const fovea_model *model; /* NULL if the work is a single operation */
    const fovea_plan_options *options;
    const fovea_frame *frame;
    const fovea_attention_options *op;
    const fovea_matrix *input;
    size_t inputs;
} bench_subject;
/* The expected output, which is computed when it is first needed. */
typedef struct bench_reference {
    const char *text; /* how the output was verified; NULL if it was not verified yet */
    float *value;     /* NULL if only the steps were verified */
} bench_reference;
/* Returns the larger of `worst` and the error of `got`; infinity if `got` is not a number. */
double bench_worse(double worst, double got, double want);
/* Verifies each distinct step of a plan on its own against the reference of its operation. Stops at
 * the first wrong step. */
int bench_verify_steps(const fovea_plan *plan, bench_verify *out);
/* Verifies a plan and its n output values `got`. The first call verifies the steps. Every call
 * compares the values with those of another plan, unless that plan would take too long. `allowed`
 * is the largest allowed error, relative to the largest value. */
int bench_verify_output(bench_reference *r, const fovea_plan *plan, const bench_subject *what,
                        const void *got, fovea_dtype type, size_t n, double allowed,
                        bench_verify *out);

/* ---- measurement ---- */

/* Measures the limits of the devices of all cases, and raises the limits to the new values if these
 * are higher. It is called repeatedly during the measurement, so that a disturbance at the start
 * cannot lower the peaks. Adds its own duration in seconds to *spent. */
int bench_limits_raise(const bench_case *list, size_t n, double *spent);

/* bench_measure.c: runs a new case for the first time, so that all memory of its plan is touched,
 * and verifies it. */
int bench_first(bench_case *c, const bench_options *o);
/* Warms up all cases, then times them alternately. */
int bench_measure(bench_case *list, size_t n, const bench_options *o);
/* The two parts of bench_measure, for one case: bench_warm_up does the warm-up runs, and
 * bench_sample takes one sample. */
int bench_warm_up(bench_case *c, const bench_options *o);
int bench_sample(bench_case *c, const bench_options *o);
/* bench_quantile returns quantile q (0 to 1) of a case's samples, in s. The other function returns
 * a quantile of n values in any order. */
double bench_quantile(const bench_case *c, double q);
double bench_quantile_of(const double *value, size_t n, double q);
/* Returns half the width of the median's 95 % confidence interval, relative to the median. */
double bench_interval(const bench_case *c);

/* bench_pace.c: runs the cases one after the other, at o->rate or for o->sustain seconds. */
int bench_pace(bench_case *list, size_t n, const bench_options *o);

/* bench_profile.c: measures the seconds of each step. Adds the events of one frame to `events`, in
 * the format of Chrome's trace viewer, as process `number`; `events` may be NULL. */
int bench_profile(bench_case *c, json_t *events, size_t number);

/* ---- results ---- */

/* bench_describe.c */
json_t *bench_describe(const bench_case *c);

/* Returns the types in a case's title, without f32: " bf16" for `type`, " bf16 products" for
 * `compute`. */
cli_word bench_types(fovea_dtype type, fovea_compute compute);

/* Returns pseudo-random values in [-1, 1), the same on every machine. The caller frees them. */
float *bench_floats(size_t n, uint64_t seed);
/* Returns the values of bench_floats, converted to `type`. */
void *bench_values(size_t n, fovea_dtype type, uint64_t seed);
/* Returns the type in which rows are stored for products of the settings' type. */
fovea_dtype bench_rows_type(const cli_settings *s);

#endif
