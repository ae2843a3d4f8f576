/* bench.h: what is benchmarked and how: requests, devices, cases, measurement.
 *
 *   cmd_bench.c         the command: its options, and the order of things
 *   bench_cases.c       the product of all lists, as cases on devices
 *   bench_gemm.c, bench_attention.c, bench_block.c, bench_model.c, bench_kernel.c, bench_floors.c,
 *   bench_lm.c
 *                       what a case runs and what its result is compared with
 *   bench_reference.c   the judgement of plans and of what they computed
 *   bench_limits.c      peak FLOP/s and bandwidth of a device
 *   bench_measure.c     alternating timing; bench_pace.c: at a camera's rate, and for long
 *   bench_profile.c     where the time of a frame goes
 *   bench_describe.c    a case as a result, which is JSON; what follows knows results only:
 *   bench_results.c, bench_output.c, bench_table.c, bench_csv.c, bench_baseline.c
 */
#ifndef FOVEA_CLI_BENCH_H
#define FOVEA_CLI_BENCH_H

#include <fovea/operations.h>

#include "cli/common/machine.h"
#include "cli/common/cli.h"

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

/* A step of a model, and a kernel of its operation, which may not fit it. */
typedef struct bench_kernel_pick {
    size_t step;
    const char *kernel;
} bench_kernel_pick;

/* What was asked for, as written; NULL: the default. */
typedef struct bench_request {
    cli_common common;
    enum bench_what what;
    const char *name;   /* of the MODEL */
    const char *kernel; /* a part of the names of kernels */
    const char *shapes, *activation;
    const char *tokens, *heads, *dim, *value_dim, *mlp, *form, *op, *of;
    const char *phase, *rows; /* of a language model */
    const char *batch;        /* frames of a run, of a model */
    bool causal;
    fovea_model *model;            /* of MODEL */
    const bench_kernel_pick *pick; /* of one case of BENCH_KERNEL */
} bench_request;

/* ---- devices ---- */

/* What a device gets done at its best, the best of all that was measured in this run. */
typedef struct bench_limits {
    fovea_rates rates;
    /* FLOP/s of the best matrix product, by the device's clock; 0 where no case has such products,
     * but those of float32 are measured in any case. */
    double gemm[FOVEA_COMPUTE_AUTO];
} bench_limits;

/* A device with its options; cases share it. */
typedef struct bench_device {
    char *key;
    char id[32]; /* "cl:0" */
    bool cpu;
    fovea_device *device;
    double open_seconds;
    bench_limits limits;
} bench_device;

/* bench_limits.c */
/* Peak bytes/s of the device, as measured. */
double bench_limits_memory(const bench_limits *l);
/* What a step multiplies. */
fovea_compute bench_products(const fovea_step_info *step);
/* Peak FLOP/s of products of a type. */
double bench_limits_products(const bench_limits *l, fovea_compute compute);
/* Roofline lower bound in s: max(FLOPs / peak, bytes / bandwidth). */
double bench_limits_bound(const bench_limits *l, fovea_compute compute, double flops, double bytes);

/* ---- cases ---- */

typedef struct bench_verify {
    const char *reference; /* what with; static text; NULL: not compared */
    double max_abs, rel;   /* rel: of the largest value */
    bool ok;
    char text[240]; /* what is wrong, where there is more to say than by how much */
} bench_verify;

enum { BENCH_DEVICES = 64, BENCH_INPUTS = 8 };

typedef struct bench_case { /* More than 25 fields: a line of results, and what it depends on */
    /* set by bench_gemm and the other makers of cases */
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
    bool device_time;    /* time the device's own clock, not all of `run` */
    double flops, bytes; /* of the roofline's lower bound */
    uint32_t tokens;     /* of a sequence, that a run reads; 0: not a sequence */
    uint64_t results;    /* bytes that are allocated after the plan, for what it writes */
    /* set by bench_plan_begin and bench_plan_end */
    fovea_plan_info info;
    double plan_seconds;
    uint64_t before; /* bytes of process memory */
    /* set by measuring */
    double first_seconds;
    uint64_t resident; /* peak growth of process memory in bytes over plan and first run, without
                          `results` */
    uint32_t inner;    /* runs per sample */
    double *sample;    /* seconds per run */
    double *device;    /* device seconds per run */
    size_t samples;
    bool stable;
    machine_history machine;
    uint64_t allocations; /* of the library during all timed runs of all cases */
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
    double time;           /* seconds per case at most, unless runs are given */
    double sample;         /* seconds that shorter runs are timed for together; 0: 1e-3 */
    int check;             /* enum bench_check */
    double rate, sustain;  /* frames per second, 0: one after the other; seconds */
} bench_options;

/* bench_cases.c: refuses an option that this kind of benchmark does not have. */
int bench_belongs(const char *option, unsigned whats, enum bench_what what);
/* The same for all lists of `r`. */
int bench_axes_check(const bench_request *r);
/* Adds the product of all lists of `r`, each case run once and verified; fewer if interrupted. */
int bench_cases_add(bench_set *set, const bench_request *r, const bench_options *o);
void bench_cases_free(bench_set *set);

void bench_case_free(bench_case *c);

/* Called before and after c->plan is made: they measure its seconds and the growth of memory.
 * The case's own buffers and a model's weights must exist before. */
void bench_plan_begin(bench_case *c);
void bench_plan_end(bench_case *c);
/* `run` of cases that are an operation. */
int bench_run_op(bench_case *c, double *seconds);

/* bench_gemm.c, bench_attention.c, bench_block.c, bench_model.c, bench_lm.c, bench_kernel.c: make
 * one case on out->on; every text of `r` is one value. Free it also after a failure. */
int bench_gemm(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_attention(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_block(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_model(bench_case *out, const cli_settings *s, const bench_request *r);
int bench_lm(bench_case *out, const cli_settings *s, const bench_request *r);
/* All picks of the request, `capacity` at most. */
int bench_kernel_picks(bench_kernel_pick *out, size_t capacity, size_t *n, const cli_settings *s,
                       const bench_device *on, const bench_request *r);
/* Where the kernel of r->pick does not fit: CLI_UNSUPPORTED, without a message. */
int bench_kernel(bench_case *out, const cli_settings *s, const bench_request *r);
/* FLOP/s of large matrix products; *best is raised to it. */
int bench_gemm_rate(double *best, fovea_device *device, fovea_compute compute);

/* What a case of a model runs, apart from its settings. */
typedef struct bench_model_run {
    fovea_model *model;
    const char *name;   /* as it was asked for */
    const char *output; /* NULL: its main one */
    uint32_t batch;     /* frames of a run */
    bool owned;         /* the model goes with the case */
} bench_model_run;
/* Makes the case without title and parameters. */
int bench_model_case(bench_case *out, const cli_settings *s, const bench_model_run *run);

/* bench_reference.c: the problem of a plan, so that another plan can compute it again. */
typedef struct bench_subject {
    const fovea_model *model; /* NULL: an operation */
    const fovea_plan_options *options;
    const fovea_frame *frame;
    const fovea_attention_options *op;
    const fovea_matrix *input;
    size_t inputs;
} bench_subject;
/* The expected output, computed at the first use. */
typedef struct bench_reference {
    const char *text; /* what judged it; NULL: nothing yet */
    float *value;     /* NULL: its steps alone were judged */
} bench_reference;
/* The larger of `worst` and the error of `got`; infinity where `got` is not a number. */
double bench_worse(double worst, double got, double want);
/* Verifies each distinct step of a plan alone against the reference of its operation; ends at the
 * first that is wrong. */
int bench_verify_steps(const fovea_plan *plan, bench_verify *out);
/* Verifies a plan and its n output values `got`. The first call verifies the steps; every call
 * compares the values with those of another plan, unless that takes too long. `allowed`: largest
 * error, relative to the largest value. */
int bench_verify_output(bench_reference *r, const fovea_plan *plan, const bench_subject *what,
                        const void *got, fovea_dtype type, size_t n, double allowed,
                        bench_verify *out);

/* ---- measurement ---- */

/* Measures the limits of all devices of the cases, and raises them to what it finds. Done again
 * during the measurement: a disturbance at its start must not lower the peaks. *spent: seconds that
 * this took so far, added to. */
int bench_limits_raise(const bench_case *list, size_t n, double *spent);

/* bench_measure.c: runs a new case for the first time, which touches all memory of its plan, and
 * verifies it. */
int bench_first(bench_case *c, const bench_options *o);
/* Warms up, then times all cases alternately. */
int bench_measure(bench_case *list, size_t n, const bench_options *o);
/* The two parts of bench_measure for one case: the warm-up runs; one sample. */
int bench_warm_up(bench_case *c, const bench_options *o);
int bench_sample(bench_case *c, const bench_options *o);
/* Quantile q (0 to 1) of a case's samples in s, and of n values in any order. */
double bench_quantile(const bench_case *c, double q);
double bench_quantile_of(const double *value, size_t n, double q);
/* Half the width of the median's 95 % confidence interval, relative to the median. */
double bench_interval(const bench_case *c);

/* bench_pace.c: one case after the other at o->rate, or for o->sustain seconds. */
int bench_pace(bench_case *list, size_t n, const bench_options *o);

/* bench_profile.c: seconds per step. `events`, which may be NULL, gets the events of one frame in
 * the format of Chrome's trace viewer, as process `number`. */
int bench_profile(bench_case *c, json_t *events, size_t number);

/* ---- results ---- */

/* bench_describe.c */
json_t *bench_describe(const bench_case *c);

/* For a case's title: " bf16" of a type that is not f32, " bf16 products". */
cli_word bench_types(fovea_dtype type, fovea_compute compute);

/* Values in [-1, 1) that look random, the same on every machine. To be freed. */
float *bench_floats(size_t n, uint64_t seed);
/* The same as values of `type`. */
void *bench_values(size_t n, fovea_dtype type, uint64_t seed);
/* The type that rows are stored as which products of a type read. */
fovea_dtype bench_rows_type(const cli_settings *s);

#endif
