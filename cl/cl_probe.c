/* cl_probe.c: what a device can do, seen by doing it: names and version numbers are not asked, and
 * an extension that computes something else than it says is not there.
 */
#include <stdio.h>
#include <string.h>

#include "cl_clblast.h"
#include "cl_device.h"
#include "os_machine.h"

enum { ITEMS = 64 };
enum { HALF = 1, SUBGROUPS, DOT, LOCAL, RATES, TURNS }; /* FV_PROBE_* of probe.cl */

/* ---- one small run ---- */

/* Work-items of a group, `most` at most: a power of two that the device and the compiled kernel
 * allow. */
static size_t group_of(const fv_device *d, cl_kernel k, size_t most)
{
    size_t group = most, limit = 0;
    if (fv_cl.clGetKernelWorkGroupInfo(k, d->place.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit,
                                       &limit, NULL) != CL_SUCCESS)
        limit = 1;
    while (group > 1 && (group > d->limits.group || group > limit))
        group /= 2;
    return group;
}

/* Sets one argument after the other. */
static fovea_status set(cl_kernel k, cl_uint index, size_t size, const void *value)
{
    FV_CL_TRY("a probe", clSetKernelArg, (k, index, size, value));
    return FOVEA_OK;
}

/* Runs on `items` work-items and waits; *seconds, where wanted, is the host's. */
static fovea_status run(fv_device *d, cl_kernel k, size_t items, size_t group, double *seconds)
{
    cl_event event = NULL;
    const double begin = fv_machine_seconds();
    FV_CL_TRY("a probe", clEnqueueNDRangeKernel,
              (d->service, k, 1, NULL, &items, &group, 0, NULL, &event));
    FV_TRY(fv_cl_finish(d, d->service, event, 0));
    if (seconds)
        *seconds = fv_machine_seconds() - begin;
    return FOVEA_OK;
}

static fovea_status run_probe(fv_device *d, cl_kernel k, cl_mem buffer, size_t group, float *out)
{
    cl_event event = NULL;
    const size_t size = 2 * group * sizeof *out;
    FV_TRY(set(k, 0, sizeof buffer, &buffer));
    FV_TRY(run(d, k, group, group, NULL));
    FV_CL_TRY("a probe", clEnqueueReadBuffer,
              (d->service, buffer, CL_FALSE, 0, size, out, 0, NULL, &event));
    return fv_cl_finish(d, d->service, event, 0);
}

/* Two numbers from each of the *n work-items of one group; *n: at most, then how many. */
static fovea_status probe(fv_device *d, int which, const char *standard, float out[2 * ITEMS],
                          size_t *n)
{
    char options[64];
    cl_int error;
    cl_kernel k;
    snprintf(options, sizeof options, "%s -w -DFV_PROBE=%d", standard, which);
    FV_TRY(fv_cl_plain_kernel(&k, d, "probe", "probe", options));
    *n = group_of(d, k, *n);
    cl_mem buffer =
        fv_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, 2 * ITEMS * sizeof *out, NULL, &error);
    fovea_status status;
    if (error != CL_SUCCESS)
        status = fv_cl_fail(error, "clCreateBuffer", "a probe");
    else
        status = run_probe(d, k, buffer, *n, out);
    if (!d->hung)
        fv_cl.clReleaseKernel(k);
    fv_cl_buffer_free(d, error == CL_SUCCESS ? buffer : NULL);
    return status;
}

/* ---- what should come out ---- */

static bool half_right(const float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float a = (float)i * 0.25f;
        if (out[2 * i] != (a * 1.5f + 0.125f) + (a * 1.5f + 3.f) ||
            out[2 * i + 1] != 2048.f + 2.f * (float)i)
            return false;
    }
    return true;
}

static bool subgroups_right(const float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += out[2 * k + 1] == out[2 * i + 1] ? (float)k : 0;
        if (out[2 * i] != sum)
            return false;
    }
    return true;
}

static bool dot_right(const float *out, size_t n)
{
    for (int i = 0; i < (int)n; i++) {
        const int a[4] = {i - 128, i, 3 - i, 127};
        if (out[2 * i] != (float)(a[0] * -128 + a[1] * 2 + a[2] * -3 + a[3] * 127) ||
            out[2 * i + 1] != (float)(1000 + a[0] + a[1] + a[2] + a[3]))
            return false;
    }
    return true;
}

static bool local_right(const float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (out[2 * i] != (float)(n - 1 - i))
            return false;
    return true;
}

static bool turns_right(const float *out, size_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = i;
        for (uint32_t t = 0; t < 1u << 18; t++)
            x = x * 1664525u + 1013904223u;
        if (out[2 * i] != (float)(x & 0xffff) || out[2 * i + 1] != (float)(x >> 16))
            return false;
    }
    return true;
}

/* Whether the device does what it says it does; notes it when not. */
static bool does(fv_device *d, int which, const char *standard,
                 bool (*right)(const float *out, size_t n), const char *quirk)
{
    float out[2 * ITEMS] = {0};
    size_t n = which == TURNS ? 1 : ITEMS; /* one is enough, and 64 take a simulator long */
    if (fv_cl_ready(d) != FOVEA_OK)
        return false;
    if (probe(d, which, standard, out, &n) == FOVEA_OK && right(out, n))
        return true;
    if (quirk)
        fv_cl_add_quirk(d->quirks, sizeof d->quirks, quirk);
    return false;
}

/* The built-in functions came with different versions of the language. */
static void probe_subgroups(fv_device *d)
{
    static const char *const standards[] = {"-cl-std=CL1.2", "-cl-std=CL3.0", "-cl-std=CL2.0"};
    for (size_t i = 0; i < sizeof standards / sizeof *standards; i++)
        if (does(d, SUBGROUPS, standards[i], subgroups_right, NULL)) {
            d->features |= FV_NEED_CL_SUBGROUPS;
            return;
        }
    fv_cl_add_quirk(d->quirks, sizeof d->quirks, "subgroups announced, but do not work");
}

void fv_cl_probe(fv_device *d)
{
    static const char standard[] = "-cl-std=CL1.2";
    if (d->limits.vectors)
        d->features |= FV_NEED_CL_CPU;
    if (fv_cl_clblast_found() && d->limits.group >= 256) /* its kernels have such groups */
        d->features |= FV_NEED_CL_CLBLAST;
    if (d->limits.own_local && d->limits.local >= 16 << 10 &&
        does(d, LOCAL, standard, local_right, "local memory announced, but does not work"))
        d->features |= FV_NEED_CL_LOCAL;
    if (fv_cl_has_extension(&d->place, "cl_khr_fp16") &&
        does(d, HALF, standard, half_right, "float16 arithmetic announced, but does not work"))
        d->features |= FV_NEED_CL_HALF;
    if (fv_cl_has_extension(&d->place, "cl_khr_integer_dot_product") &&
        does(d, DOT, standard, dot_right, "integer dot products announced, but do not work"))
        d->features |= FV_NEED_CL_DOT;
    if (!does(d, TURNS, standard, turns_right, "leaves loops of many turns early"))
        d->limits.few_turns = true;
    if (fv_cl_has_extension(&d->place, "cl_khr_subgroups") ||
        fv_cl_has_extension(&d->place, "cl_intel_subgroups"))
        probe_subgroups(d);
}

/* ---- rates ---- */

#define RATE_SECONDS 2e-3
#define RATE_FLOPS (2.0 * 64 * 4)
#define RATE_BYTES (16u << 20)

/* Work for about RATE_SECONDS: twice as much until it takes long enough. Some drivers compile when
 * a kernel runs for the first time. */
static fovea_status measure_compute(fv_device *d, cl_kernel k, cl_mem buffer, double *rate)
{
    const size_t group = group_of(d, k, ITEMS),
                 items = group * 16 * (d->limits.units ? d->limits.units : 1);
    double seconds = 0;
    cl_uint turns = 0;
    FV_TRY(set(k, 0, sizeof buffer, &buffer));
    FV_TRY(set(k, 1, sizeof turns, &turns));
    FV_TRY(run(d, k, items, group, NULL));
    turns = 1;
    for (int i = 0; i < 20 && seconds < RATE_SECONDS; i++, turns *= 2) {
        FV_TRY(set(k, 1, sizeof turns, &turns));
        FV_TRY(run(d, k, items, group, &seconds));
        *rate = RATE_FLOPS * turns * (double)items / (seconds > 1e-9 ? seconds : 1e-9);
    }
    return FOVEA_OK;
}

/* The best of some runs of what takes RATE_SECONDS, or of all that the buffer holds. */
static fovea_status measure_move(fv_device *d, cl_kernel k, cl_mem buffer, double *rate)
{
    const size_t group = group_of(d, k, ITEMS),
                 items = group * 16 * (d->limits.units ? d->limits.units : 1);
    double best = 0;
    FV_TRY(set(k, 0, sizeof buffer, &buffer));
    FV_TRY(set(k, 1, sizeof buffer, &buffer));
    for (cl_uint n = RATE_BYTES / 16 / 256; n <= RATE_BYTES / 16 && best < RATE_SECONDS; n *= 4) {
        FV_TRY(set(k, 2, sizeof n, &n));
        for (int i = 0; i < 3; i++) {
            double seconds = 0;
            FV_TRY(run(d, k, items, group, &seconds));
            best = i == 0 || seconds < best ? seconds : best;
        }
        *rate = 2.0 * 16 * n / (best > 1e-9 ? best : 1e-9);
    }
    return FOVEA_OK;
}

/* Down to a power of 4: what is cut by it changes the order of sums, and should not change with
 * every measurement. */
static double coarse(double rate)
{
    double power = 1e6;
    while (power * 4 <= rate)
        power *= 4;
    return power;
}

static fovea_status measure(fv_device *d, fv_cl_rates *out)
{
    static const char options[] = "-cl-std=CL1.2 -w -DFV_PROBE=5";
    cl_kernel compute = NULL, move = NULL;
    cl_int error = CL_SUCCESS;
    cl_mem buffer = NULL;
    fovea_status status = fv_cl_plain_kernel(&compute, d, "probe", "compute", options);
    if (status == FOVEA_OK)
        status = fv_cl_plain_kernel(&move, d, "probe", "move", options);
    if (status == FOVEA_OK) {
        buffer = fv_cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, RATE_BYTES, NULL, &error);
        if (error != CL_SUCCESS) {
            buffer = NULL;
            status = fv_cl_fail(error, "clCreateBuffer", "a probe");
        }
    }
    if (status == FOVEA_OK)
        status = measure_compute(d, compute, buffer, &out->flops);
    if (status == FOVEA_OK)
        status = measure_move(d, move, buffer, &out->bytes);
    if (compute && !d->hung)
        fv_cl.clReleaseKernel(compute);
    if (move && !d->hung)
        fv_cl.clReleaseKernel(move);
    fv_cl_buffer_free(d, buffer);
    return status;
}

fv_cl_rates fv_cl_measure(fv_device *d)
{
    pthread_mutex_lock(&d->lock);
    const bool done = d->rates.flops > 0;
    pthread_mutex_unlock(&d->lock);
    fv_cl_rates r = {0};
    if (!done && measure(d, &r) != FOVEA_OK)
        r = (fv_cl_rates){0}; /* what is not known counts as slow */
    pthread_mutex_lock(&d->lock);
    if (d->rates.flops <= 0) {
        d->rates.flops = coarse(r.flops);
        d->rates.bytes = coarse(r.bytes);
    }
    r = d->rates;
    pthread_mutex_unlock(&d->lock);
    return r;
}
