/* bench.h: what is benchmarked and how: cases, measurement, the machine's own limits. */
#ifndef FOVEA_CLI_BENCH_H
#define FOVEA_CLI_BENCH_H

#include "cli.h"

/* What a machine can do at best, measured in this run. Of devices other than the CPU only the
 * matrix product is known, which counts that its operands are brought there and fetched; 0: not
 * known. */
typedef struct bench_limits {
    double fma, gemm;  /* FLOP/s: arithmetic alone; best matrix product */
    double read, copy; /* bytes/s, all threads; a copy counts both directions */
} bench_limits;

enum { BENCH_DTYPES = 3 }; /* values of fovea_dtype */

/* A device with its options; cases share it. */
typedef struct bench_device {
    char *key;
    char isa[64];
    char where[64]; /* "2 threads", "cl:0" */
    bool cpu;
    fovea_device *device;
    fovea_plan *anchor[BENCH_DTYPES]; /* of the model, if one is run: holds the weights that its
                                         plans share */
    bench_limits limits;
} bench_device;

typedef struct bench_verify {
    double max_abs, rel;
    bool ok;
} bench_verify;

typedef struct bench_case {
    /* set by the maker */
    char *title;
    json_t *params;
    bench_device *on;
    void *state;
    int (*run)(void *state); /* once */
    int (*check)(void *state, bench_verify *out);
    void (*release)(void *state);
    double flops, bytes; /* the physical floor's */
    uint64_t before;     /* bytes of process memory before the plan: the case's own buffers and the
                            weights of a model included */
    double plan_seconds;
    fovea_plan_info plan;
    bool gemm;
    /* set by measuring */
    double first_seconds;
    uint64_t resident; /* bytes that process memory grew by, at its peak, in plan and first run */
    uint32_t inner;    /* runs per sample */
    double *sample;    /* seconds per run */
    size_t samples, room;
    bool stable;
    bench_verify verify;
} bench_case;

typedef struct bench_options {
    uint32_t runs, warmup; /* runs 0: until the median is stable */
    double time;           /* seconds per case at most, unless runs are given */
    double sample;         /* seconds that shorter runs are timed for together; 0: 1e-3 */
} bench_options;

/* measure.c: the first run of a new case, which touches what its plan promised, and its
 * verification. */
int bench_first(bench_case *c);
/* Warms up, then times all cases in turns. *allocations: made by the library while it was timed. */
int bench_measure(bench_case *list, size_t n, const bench_options *o, uint64_t *allocations);
/* The time that a share `q` of the samples does not exceed. */
double bench_quantile(const bench_case *c, double q);

/* What `bench attention` has beside the shared options, as written; NULL: the default. */
typedef struct bench_attention_options {
    const char *tokens, *heads, *dim, *value_dim, *form;
    bool causal;
} bench_attention_options;

/* bench_attention.c, bench_gemm.c, bench_model.c: make one case. */
int bench_attention(bench_case *out, const cli_settings *s, bench_device *on,
                    const bench_attention_options *options);
int bench_gemm(bench_case *out, const cli_settings *s, bench_device *on, const char *shape,
               const char *activation);
int bench_model(bench_case *out, const cli_settings *s, bench_device *on, fovea_model *model,
                const char *name);
/* Of such a case. */
const fovea_plan *bench_model_plan(const bench_case *c);
/* Prints, for every attention that was timed beside softmax, from how many tokens on it is faster.
 */
void bench_attention_crossovers(const bench_case *list, size_t n);
/* FLOP/s of one large matrix product; *best is raised to it. */
int bench_gemm_rate(double *best, fovea_device *device);

/* machine.c: limits of `threads` threads together. The arithmetic probe is short and repeated
 * during the measurement, best value kept: a disturbance at its start must not lower the roof. */
void bench_limits_measure(bench_limits *out, const char *isa, uint32_t threads);
void bench_fma_measure(double *best, const char *isa, uint32_t threads);
/* Reading, or copying, as much by all threads of a device, as a case. */
void bench_memory_case(bench_case *out, bench_device *on, bool copy);
/* Bytes of process memory: now, from where on the peak is looked for; and that peak. */
uint64_t bench_memory_begin(void);
uint64_t bench_memory_peak(void);

/* Values in [-1, 1) that look random, the same on every machine. */
void bench_fill(float *out, size_t n, uint64_t seed);

#endif
