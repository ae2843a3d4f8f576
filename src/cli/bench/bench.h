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
#define BENCH_ANY ((1u << BENCH_WHATS) - 1) /* of masks, a bit each */
extern const char *const bench_what_names[BENCH_WHATS + 1];

/* A step of a model, and a kernel for the same operation, which may not support the step. */
typedef struct bench_kernel_pick {
    size_t step;
    const char *kernel;
} bench_kernel_pick;

/* The arguments of options, unparsed; NULL: not given. */
typedef struct bench_request {
    cli_common common;
    enum bench_what what;
    const char *name;   /* of the MODEL */
    const char *kernel; /* part of a kernel's name */
    const char *shapes, *activation;
    const char *tokens, *heads, *dim, *value_dim, *mlp, *form, *op, *of;
    const char *phase, *rows; /* of a language model */
    const char *batch;        /* of a model: frames per run */
    bool causal;
    fovea_model *model;            /* of MODEL */
    const bench_kernel_pick *pick; /* of one case of BENCH_KERNEL */
} bench_request;

/* ---- devices ---- */

/* The peak rates of a device: the largest that were measured in this run. */
typedef struct bench_limits {
    fovea_rates rates;
    /* FLOP/s of the fastest matrix product of each type, by the device's clock. float32 is always
     * measured, other types are 0 if no case has such products. */
    double gemm[FOVEA_COMPUTE_AUTO];
} bench_limits;

/* A device with its options, shared by cases. */
typedef struct bench_device {
    char *key;
    char id[32]; /* "cl:0" */
    bool cpu;
    fovea_device *device;
    double open_seconds;
    bench_limits limits;
} bench_device;

/* bench_limits.c */
/* Peak bandwidth of the device in bytes/s, as measured. */
double bench_limits_memory(const bench_limits *l);
/* What a step multiplies. */
fovea_compute bench_products(const fovea_step_info *step);
/* Peak FLOP/s of products of a type, as measured. */
double bench_limits_products(const bench_limits *l, fovea_compute compute);
/* Roofline lower bound in s: max(FLOPs / peak, bytes / bandwidth). */
double bench_limits_bound(const bench_limits *l, fovea_compute compute, double flops, double bytes);

/* ---- cases ---- */

typedef struct bench_verify {
    /* what the result was compared with; static text; NULL: it was not compared */
    const char *reference;
    double max_abs, rel; /* rel: of the largest value */
    bool ok;
    char text[240]; /* description of the error, if its size does not say enough */
} bench_verify;

enum { BENCH_DEVICES = 64, BENCH_INPUTS = 8 };

typedef struct bench_case { /* More than 25 fields: a line of results, and what it depends on */
    /* set by bench_gemm and the other functions that make cases */
    char *title;
    json_t *params;
    bench_device *on;
    void *state;
    int (*run)(struct bench_case *c, double *seconds);     /* once; by the device's clock */
    int (*check)(struct bench_case *c, bench_verify *out); /* what the last run left */
    void (*release)(struct bench_case *c);                 /* the state, the operands */
    fovea_plan *plan;
    fovea_matrix input[BENCH_INPUTS], out; /* of bench_run_op */
    size_t inputs;
    bool device_time;    /* time by the device's own clock instead of the whole of `run` */
    double flops, bytes; /* of the roofline's lower bound */
    uint32_t tokens;     /* tokens of a sequence that a run reads; 0: not a sequence */
    uint64_t results;    /* bytes for results, allocated after the plan */
    /* set by bench_plan_begin and bench_plan_end */
    fovea_plan_info info;
    double plan_seconds;
    uint64_t before; /* bytes of process memory */
    /* set by measuring */
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
    json_t *pace, *profile; /* bench_pace.c, bench_profile.c; or NULL */
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
    uint32_t runs, warmup; /* runs 0: until the median is stable */
    double time;           /* most seconds per case, if runs is 0 */
    /* seconds of a sample; shorter runs are repeated and timed together; 0: 1e-3 */
    double sample;
    int check;            /* enum bench_check */
    double rate, sustain; /* frames per second, 0: without pauses; seconds that each case runs */
} bench_options;

/* bench_cases.c: fails if `option` does not apply to this kind of benchmark; bit k of `whats` is
 * for kind k. */
int bench_belongs(const char *option, unsigned whats, enum bench_what what);
/* Checks in the same way all options of `r` that are lists. */
int bench_axes_check(const bench_request *r);
/* Adds a case for every combination of the lists of `r`, runs each once and verifies it. Stops
 * early if interrupted. */
int bench_cases_add(bench_set *set, const bench_request *r, const bench_options *o);
void bench_cases_free(bench_set *set);

void bench_case_free(bench_case *c);

/* Called before and after c->plan is created, to measure the time and the growth of memory. The
 * case's own buffers and a model's weights must already exist. */
void bench_plan_begin(bench_case *c);
void bench_plan_end(bench_case *c);
/* The `run` function of cases that are a single operation. */
int bench_run_op(bench_case *c, double *seconds);

/* bench_gemm.c, bench_attention.c, bench_block.c, bench_model.c, bench_lm.c, bench_kernel.c: make
 * one case on out->on; every list of `r` has been reduced to one value. The case is to be freed
 * also after a failure. */
int bench_gemm(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_attention(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_block(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_model(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_lm(bench_case *out, const cli_settings *s, const bench_request *r);
/* Lists all pairs of step and kernel that the request selects, `capacity` at most. */
int bench_kernel_picks(bench_kernel_pick *out, size_t capacity, size_t *n, const cli_settings *s,
                       const bench_device *on, const bench_request *r);
/* If the kernel of r->pick does not support the step, returns CLI_UNSUPPORTED without a message. */
int bench_kernel(bench_case *out, const cli_settings *s, const bench_request *r);
/* Measures the FLOP/s of large matrix products; raises *best to it. */
int bench_gemm_rate(double *best, fovea_device *device, fovea_compute compute);

/* What a case of a model runs, in addition to its settings. */
typedef struct bench_model_run {
    fovea_model *model;
    const char *name;   /* as it was asked for */
    const char *output; /* NULL: its main one */
    uint32_t batch;     /* frames of a run */
    bool owned;         /* the case frees the model */
} bench_model_run;
/* Makes the case, except for title and parameters. */
int bench_model_case(bench_case *out, const cli_settings *s, const bench_model_run *run);

/* bench_reference.c: what a plan computes, so that another plan can compute the same. */
typedef struct bench_subject {
    const fovea_model *model; /* NULL: an operation */
    const fovea_plan_options *options;
    const fovea_frame *frame;
    const fovea_attention_options *op;
    const fovea_matrix *input;
    size_t inputs;
} bench_subject;
/* The expected output, computed when it is first needed. */
typedef struct bench_reference {
    const char *text; /* how the output was verified; NULL: not yet */
    float *value;     /* NULL: only the steps were verified */
} bench_reference;
/* The larger of `worst` and the error of `got`; infinity if `got` is not a number. */
double bench_worse(double worst, double got, double want);
/* Verifies each distinct step of a plan on its own against the reference of its operation; stops at
 * the first that is wrong. */
int bench_verify_steps(const fovea_plan *plan, bench_verify *out);
/* Verifies a plan and its n output values `got`. The first call verifies the steps. Every call
 * compares the values with those of another plan, unless that plan would take too long. `allowed`:
 * largest error, relative to the largest value. */
int bench_verify_output(bench_reference *r, const fovea_plan *plan, const bench_subject *what,
                        const void *got, fovea_dtype type, size_t n, double allowed,
                        bench_verify *out);

/* ---- measurement ---- */

/* Measures the limits of all devices of the cases, and raises them to the new values. It is
 * repeated during the measurement, because a disturbance at the start must not lower the peaks. The
 * time that it takes is added to *spent, in seconds. */
int bench_limits_raise(const bench_case *list, size_t n, double *spent);

/* bench_measure.c: runs a new case for the first time, which touches all memory of its plan, and
 * verifies it. */
int bench_first(bench_case *c, const bench_options *o);
/* Warms all cases up, then times them alternately. */
int bench_measure(bench_case *list, size_t n, const bench_options *o);
/* The two parts of bench_measure, for one case: the warm-up runs, and one sample. */
int bench_warm_up(bench_case *c, const bench_options *o);
int bench_sample(bench_case *c, const bench_options *o);
/* bench_quantile: quantile q (0 to 1) of a case's samples, in s. The other function: of n values in
 * any order. */
double bench_quantile(const bench_case *c, double q);
double bench_quantile_of(const double *value, size_t n, double q);
/* Half the width of the median's 95 % confidence interval, relative to the median. */
double bench_interval(const bench_case *c);

/* bench_pace.c: runs one case after the other, at o->rate or for o->sustain seconds. */
int bench_pace(bench_case *list, size_t n, const bench_options *o);

/* bench_profile.c: measures seconds per step. `events` gets the events of one frame in the format
 * of Chrome's trace viewer, as process `number`; it may be NULL. */
int bench_profile(bench_case *c, json_t *events, size_t number);

/* ---- results ---- */

/* bench_describe.c */
json_t *bench_describe(const bench_case *c);

/* The types in a case's title, if they are not f32: " bf16" for `type`, " bf16 products" for
 * `compute`. */
cli_word bench_types(fovea_dtype type, fovea_compute compute);

/* Pseudo-random values in [-1, 1), the same on every machine; to be freed. */
float *bench_floats(size_t n, uint64_t seed);
/* The same values, converted to `type`. */
void *bench_values(size_t n, fovea_dtype type, uint64_t seed);
/* The type in which rows are stored for products of the settings' type. */
fovea_dtype bench_rows_type(const cli_settings *s);

#endif
