/* gemm_blas.c: fovea's GEMM compared with OpenBLAS's, over the products of ViT-S, B and L, in one
 * run.
 *
 *   gemm_blas ISA THREADS LIBRARY     LIBRARY: path or name of a libopenblas
 *
 * OpenBLAS is opened at run time and takes its kernels from OPENBLAS_CORETYPE (bench/gemm.sh sets
 * it). The two take turns; each shape's figure is the ratio of the best rounds. The FMA peak is
 * measured between the shapes. fovea's weights are packed before, as in a plan; OpenBLAS gets plain
 * matrices.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fovea/fovea.h>

#include "bench/numbers.h"
#include "bench/stopwatch.h"
#include "platform/cpu/probe.h"

enum { ROUNDS = 5, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* Idle workers of OpenBLAS spin for 2^28 cycles, which would take half a core from fovea. Nothing
 * is timed before they sleep and the scheduler has spread the threads again; where it has not, the
 * round is lost, so the best round of each counts. */
static const struct timespec settle = {0, 150000000};
#define WARM_SECONDS 0.02
#define BATCH_SECONDS 0.03

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

struct sides {
    sgemm_fn *sgemm;
    fovea_plan *plan;
    float *a, *w, *out, *other;
    int rows, n, k;
};

static void ours(struct sides *s)
{
    const fovea_matrix in = {s->a, 0}, out = {s->out, 0};
    if (fovea_op_run(s->plan, &in, 1, out))
        fail(fovea_error());
}

static void theirs(struct sides *s)
{
    s->sgemm(ROW_MAJOR, NO_TRANS, TRANS, s->rows, s->n, s->k, 1, s->a, s->k, s->w, s->k, 0,
             s->other, s->n);
}

static double repeat(void (*call)(struct sides *), struct sides *s, double least)
{
    int calls = 0;
    double begin = seconds(), end;
    do {
        call(s);
        calls++;
    } while ((end = seconds()) - begin < least);
    return (end - begin) / calls;
}

/* Seconds per call. */
static double batch(void (*call)(struct sides *), struct sides *s)
{
    nanosleep(&settle, NULL);
    repeat(call, s, WARM_SECONDS);
    return repeat(call, s, BATCH_SECONDS);
}

/* FLOP/s of one thread; the machine has `threads` such cores. */
static double fma_peak(const char *isa)
{
    double (*probe)(uint64_t) = fv_probe_fma_c;
#ifdef FV_ARCH_X86
    if (strcmp(isa, "avx2") == 0)
        probe = fv_probe_fma_avx2;
    if (strcmp(isa, "avx512") == 0)
        probe = fv_probe_fma_avx512;
#endif
    double best = 0;
    for (int i = 0; i < 3; i++) {
        double begin = seconds(), work = probe(1 << 20), rate = work / (seconds() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

static void agree(const struct sides *s)
{
    for (size_t i = 0; i < (size_t)s->rows * (size_t)s->n; i++)
        if (!(fabs((double)s->out[i] - s->other[i]) <= 1e-4 * sqrt(s->k)))
            fail("the results differ");
}

int main(int argc, char **argv)
{
    static const int widths[] = {384, 768, 1024}, tokens[] = {197, 577, 1025, 1370, 5329};
    static const int shapes[][2] = {{1, 1}, {2, 1}, {4, 1}, {1, 4}}; /* out, in, in widths */
    if (argc != 4)
        fail("usage: gemm_blas ISA THREADS LIBRARY");
    const char *isa = argv[1];
    const int threads = atoi(argv[2]);
    void *blas = dlopen(argv[3], RTLD_NOW);
    if (!blas)
        fail(dlerror());
    struct sides s = {0};
    void (*set_threads)(int) = NULL;
    char *(*core)(void) = NULL;
    *(void **)&s.sgemm = dlsym(blas, "cblas_sgemm");
    *(void **)&set_threads = dlsym(blas, "openblas_set_num_threads");
    *(void **)&core = dlsym(blas, "openblas_get_corename");
    if (!s.sgemm || !set_threads || !core)
        fail("that is no OpenBLAS");
    set_threads(threads);

    fovea_device *device;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.threads = (uint32_t)threads;
    options.isa = isa;
    if (fovea_device_open(&device, "cpu", &options))
        fail(fovea_error());
    printf("fovea %s, OpenBLAS %s, %d threads\n", isa, core(), threads);
    printf("%6s %6s %6s %10s %10s %7s %7s\n", "rows", "out", "in", "fovea", "OpenBLAS", "ratio",
           "of peak");
    double log_ratio = 0, log_peak = 0, low_peak = 1e9, peak = 0;
    int count = 0, long_count = 0;
    for (size_t c = 0; c < sizeof widths / sizeof *widths; c++) {
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
            for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
                s.rows = tokens[t];
                s.n = widths[c] * shapes[k][0];
                s.k = widths[c] * shapes[k][1];
                s.a = numbers((size_t)s.rows * (size_t)s.k, 1);
                s.w = numbers((size_t)s.n * (size_t)s.k, 2);
                s.out = numbers((size_t)s.rows * (size_t)s.n, 3);
                s.other = numbers((size_t)s.rows * (size_t)s.n, 4);
                fovea_gemm_options op = FOVEA_GEMM_OPTIONS_INIT;
                op.rows = (uint32_t)s.rows;
                op.in = (uint32_t)s.k;
                op.out = (uint32_t)s.n;
                op.weight = s.w;
                if (fovea_gemm_plan_create(&s.plan, device, &op))
                    fail(fovea_error());
                double a = INFINITY, b = INFINITY;
                for (int r = 0; r < ROUNDS; r++) {
                    a = fmin(a, batch(ours, &s));
                    b = fmin(b, batch(theirs, &s));
                }
                agree(&s);
                double here = fma_peak(isa) * threads;
                peak = here > peak ? here : peak;
                double flops = 2.0 * s.rows * s.n * s.k;
                printf("%6d %6d %6d %10.1f %10.1f %7.3f %6.1f%%\n", s.rows, s.n, s.k,
                       flops / a / 1e9, flops / b / 1e9, b / a, 100 * flops / a / peak);
                fflush(stdout);
                log_ratio += log(b / a);
                count++;
                if (s.rows >= 1024) {
                    log_peak += log(flops / a / peak);
                    low_peak = fmin(low_peak, flops / a / peak);
                    long_count++;
                }
                fovea_plan_free(s.plan);
                free(s.a);
                free(s.w);
                free(s.out);
                free(s.other);
            }
        }
    }
    printf("geometric mean of the ratios %.3f; from 1024 rows on %.1f %% of the FMA peak "
           "(lowest %.1f %%), %.0f GFLOP/s\n",
           exp(log_ratio / count), 100 * exp(log_peak / long_count), 100 * low_peak, peak / 1e9);
    fovea_device_close(device);
    return 0;
}
