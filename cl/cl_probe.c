/* cl_probe.c: finds what a device can do by running small kernels: names and version numbers are
 * not trusted, and an extension with wrong results counts as absent.
 */
#include <stdio.h>
#include <string.h>

#include "cl/cl_probe.h"
#include "platform/os/os_machine.h"

enum {
    ITEMS = FV_CL_PROBE_ITEMS,
    FLOATS = 6 * ITEMS + 1 /* floats in a probe's buffer: results and inputs */
};
/* FV_PROBE_* of probe.cl; UNALIGNED is not a program of its own, but kernel `unaligned` of the
 * program LONG_LOOP. */
enum { HALF = 1, SUBGROUPS, DOT, LOCAL, LONG_LOOP = 6, RECORD = 12, IMAGE, UNALIGNED };

/* ---- one small run ---- */

static fovea_status run_probe(fv_device *d, cl_kernel k, cl_mem buffer, size_t group, float *out)
{
    cl_event event = NULL;
    const size_t size = 2 * group * sizeof *out;
    FV_TRY(fv_cl_probe_set(k, 0, sizeof buffer, &buffer));
    FV_TRY(fv_cl_probe_run(d, k, group, group, NULL));
    FV_CL_TRY("a probe", clEnqueueReadBuffer,
              (d->service, buffer, CL_FALSE, 0, size, out, 0, NULL, &event));
    return fv_cl_finish(d, d->service, event, 0);
}

/* Runs a probe in one work-group; each work-item returns two numbers. *n: the most work-items to
 * use; becomes how many were used. */
static fovea_status probe(fv_device *d, int which, const char *standard, float out[2 * ITEMS],
                          size_t *n)
{
    char options[64];
    cl_mem buffer = NULL;
    void *k;
    snprintf(options, sizeof options, "%s -w -DFV_PROBE=%d", standard,
             which == UNALIGNED ? LONG_LOOP : which);
    FV_TRY(fv_gpu_store_plain(&k, &d->store, "probe", which == UNALIGNED ? "unaligned" : "probe",
                              options));
    *n = fv_cl_probe_group(d, k, *n);
    fovea_status status =
        fv_cl_buffer_make(&buffer, d, CL_MEM_READ_WRITE, FLOATS * sizeof *out, NULL, "a probe");
    FV_THEN(status, run_probe(d, k, buffer, *n, out));
    if (!d->hung)
        fv_cl.clReleaseKernel(k);
    fv_cl_buffer_free(d, buffer);
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
    enum { LANES = 16 };
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t lane = i % LANES, first = i - lane, spread = first + 2;
        uint32_t own = 0;
        for (uint32_t k = 0; k < 8; k++)
            own += (i + k * LANES) << k;
        const uint32_t given = spread + 5 + 2 * (spread + LANES + 10) +
                               4 * (spread + 2 * LANES + 15) + 8 * (spread + 3 * LANES);
        if (out[2 * i] != (float)own || out[2 * i + 1] != (float)(lane + 16 * given))
            return false;
    }
    return n % LANES == 0;
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

static bool unaligned_right(const float *out, size_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (out[i] != (float)(85 * i + 228))
            return false;
    return true;
}

static bool long_loop_right(const float *out, size_t n)
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

/* Whether a probe gives the right results; if not, notes `quirk`. */
static bool does(fv_device *d, int which, const char *standard,
                 bool (*right)(const float *out, size_t n), const char *quirk)
{
    float out[2 * ITEMS] = {0};
    /* A single work-item suffices; 64 would take long in a simulator. */
    size_t n = which == LONG_LOOP ? 1 : ITEMS;
    if (fv_cl_ready(d) != FOVEA_OK)
        return false;
    if (probe(d, which, standard, out, &n) == FOVEA_OK && right(out, n))
        return true;
    if (quirk)
        fv_gpu_add_words(d->quirks, quirk);
    return false;
}

/* Creates the kernel `probe`, for probes that set its arguments themselves. */
static fovea_status kernel_alone(void **out, fv_device *d, int which)
{
    char options[64];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -w -DFV_PROBE=%d", which);
    return fv_gpu_store_plain(out, &d->store, "probe", "probe", options);
}

/* ---- recorded kernels ---- */

/* Records two runs of `probe`, which doubles numbers and adds 1, then 2. */
static fovea_status record(fv_cl_recording *r, fv_device *d, cl_kernel k, cl_mem buffer,
                           size_t group)
{
    const size_t items[3] = {group, 1, 1};
    FV_TRY(fv_cl_probe_set(k, 0, sizeof buffer, &buffer));
    for (int i = 1; i <= 2; i++) {
        const float add = (float)i;
        FV_TRY(fv_cl_probe_set(k, 1, sizeof add, &add));
        FV_TRY(fv_cl_record_dispatch(r, d, d->service, 1, 0));
        FV_TRY(fv_cl_record_kernel(r, d, k, items, items));
    }
    return fv_cl_record_end(r, d, 1);
}

static fovea_status replay(const fv_cl_recording *r, fv_device *d, cl_mem buffer, size_t group,
                           float out[ITEMS])
{
    uint32_t dispatches;
    cl_event event = NULL;
    FV_TRY(fv_cl_replay(r, d, d->service, &dispatches));
    if (dispatches != r->dispatches)
        return FOVEA_ENOTSUP;
    FV_CL_TRY("a probe", clEnqueueReadBuffer,
              (d->service, buffer, CL_FALSE, 0, group * sizeof *out, out, 0, NULL, &event));
    return fv_cl_finish(d, d->service, event, 0);
}

/* Gives the kernel other arguments, then replays the recording twice: it must still use the
 * arguments that were recorded. */
static fovea_status replay_twice(const fv_cl_recording *r, fv_device *d, cl_kernel k,
                                 const cl_mem buffer[2], size_t group, float out[ITEMS])
{
    const float add = 100;
    FV_TRY(fv_cl_probe_set(k, 0, sizeof buffer[1], &buffer[1]));
    FV_TRY(fv_cl_probe_set(k, 1, sizeof add, &add));
    FV_TRY(replay(r, d, buffer[0], group, out));
    return replay(r, d, buffer[0], group, out);
}

static fovea_status try_recorder(fv_device *d, float out[ITEMS], size_t *n)
{
    static float zeros[ITEMS];
    fv_cl_recording r = {.key = 0};
    cl_mem buffer[2] = {NULL, NULL};
    void *k;
    FV_TRY(kernel_alone(&k, d, RECORD));
    fovea_status status = FOVEA_OK;
    *n = fv_cl_probe_group(d, k, ITEMS);
    for (int i = 0; i < 2; i++)
        FV_THEN(status, fv_cl_buffer_make(&buffer[i], d, CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros,
                                          "a probe"));
    FV_THEN(status, record(&r, d, k, buffer[0], *n));
    FV_THEN(status, replay_twice(&r, d, k, buffer, *n, out));
    fv_cl_recording_free(&r, d);
    if (!d->hung)
        fv_cl.clReleaseKernel(k);
    for (int i = 0; i < 2; i++)
        fv_cl_buffer_free(d, buffer[i]);
    return status;
}

/* Tests recordings. They are not used on a CPU, whose queue is a list in its own memory: a
 * recording would not shorten it. */
static void probe_recorder(fv_device *d)
{
    float out[ITEMS];
    size_t n = 0;
    fv_cl_recorder_find(&d->recorder, &d->place);
    if (!d->recorder.by || d->limits.cpu || fv_cl_ready(d) != FOVEA_OK) {
        d->recorder.by = FV_CL_NO_RECORDS;
        return;
    }
    bool right = try_recorder(d, out, &n) == FOVEA_OK;
    for (size_t i = 0; right && i < n; i++)
        right = out[i] == 2 * (2 * (2 * (2 * 0 + 1) + 2) + 1) + 2;
    if (!right) {
        char quirk[64];
        snprintf(quirk, sizeof quirk, "%s announced, but do not work",
                 fv_cl_recorder_name(&d->recorder));
        fv_gpu_add_words(d->quirks, quirk);
        d->recorder.by = FV_CL_NO_RECORDS;
    }
}

/* ---- images over buffers ---- */

enum { WORDS = FV_CL_TEXEL / sizeof(cl_uint) };
typedef struct texels {
    cl_uint word[ITEMS][WORDS];
} texels;

/* Writes texels to the image's buffer, and reads them back through the image. */
static fovea_status read_texels(fv_device *d, cl_kernel k, const cl_mem buffer[2], cl_mem image,
                                size_t group, const texels *in, texels *out)
{
    cl_event event = NULL;
    FV_CL_TRY("a probe", clEnqueueWriteBuffer,
              (d->service, buffer[1], CL_FALSE, 0, sizeof *in, in, 0, NULL, &event));
    FV_TRY(fv_cl_finish(d, d->service, event, 0));
    event = NULL;
    FV_TRY(fv_cl_probe_set(k, 0, sizeof *buffer, &buffer[0]));
    FV_TRY(fv_cl_probe_set(k, 1, sizeof image, &image));
    FV_TRY(fv_cl_probe_run(d, k, group, group, NULL));
    FV_CL_TRY(
        "a probe", clEnqueueReadBuffer,
        (d->service, buffer[0], CL_FALSE, 0, group * sizeof *out->word, out, 0, NULL, &event));
    return fv_cl_finish(d, d->service, event, 0);
}

/* Compares twice, with different texels: the weights behind an image may change by training,
 * without a new image. */
static fovea_status compare_texels(fv_device *d, cl_kernel k, const cl_mem buffer[2], cl_mem image,
                                   bool *right)
{
    const size_t group = fv_cl_probe_group(d, k, ITEMS);
    *right = true;
    for (cl_uint round = 0; round < 2 && *right; round++) {
        texels in, out;
        for (cl_uint i = 0; i < ITEMS * WORDS; i++)
            in.word[i / WORDS][i % WORDS] = (i + 1 + 1000 * round) * 2654435761u;
        FV_TRY(read_texels(d, k, buffer, image, group, &in, &out));
        for (size_t i = 0; i < group; i++)
            *right = *right && memcmp(out.word[i], in.word[group - 1 - i], FV_CL_TEXEL) == 0;
    }
    return FOVEA_OK;
}

static fovea_status try_image(fv_device *d, bool *right)
{
    cl_mem buffer[2] = {NULL, NULL}, image = NULL;
    void *k;
    FV_TRY(kernel_alone(&k, d, IMAGE));
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < 2; i++)
        FV_THEN(status,
                fv_cl_buffer_make(&buffer[i], d, fv_cl_flags(d), sizeof(texels), NULL, "a probe"));
    FV_THEN(status, fv_cl_image_make(&image, d, buffer[1], sizeof(texels), "a probe"));
    FV_THEN(status, compare_texels(d, k, buffer, image, right));
    if (!d->hung)
        fv_cl.clReleaseKernel(k);
    fv_cl_buffer_free(d, image);
    for (int i = 0; i < 2; i++)
        fv_cl_buffer_free(d, buffer[i]);
    return status;
}

/* Tests images over buffers. They are only used by products of float16. */
static void probe_image(fv_device *d)
{
    bool right = false;
    if (!d->limits.texels || !(d->features & FV_NEED_CL_HALF) || fv_cl_ready(d) != FOVEA_OK)
        return;
    if (try_image(d, &right) == FOVEA_OK && right)
        d->features |= FV_NEED_CL_IMAGE;
    else
        fv_gpu_add_words(d->quirks, "images announced, but do not work");
}

/* Tests integer dot products: those of Khronos, else Arm's own, which older drivers of Mali
 * have. */
static void probe_dot(fv_device *d)
{
    static const struct {
        const char *extension, *options;
    } words[] = {
        {"cl_khr_integer_dot_product", "-cl-std=CL1.2 -DFV_DOT=1"},
        {"cl_arm_integer_dot_product_accumulate_int8", "-cl-std=CL1.2 -DFV_DOT=2"},
    };
    bool announced = false;
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++) {
        if (!fv_cl_has_extension(&d->place, words[i].extension))
            continue;
        announced = true;
        if (does(d, DOT, words[i].options, dot_right, NULL)) {
            d->features |= FV_NEED_CL_DOT;
            d->dot = i + 1;
            return;
        }
    }
    if (announced)
        fv_gpu_add_words(d->quirks, "integer dot products announced, but do not work");
}

/* Tests Intel's subgroups, which read blocks of memory and exchange float16 values. */
static void probe_subgroups(fv_device *d)
{
    static const char *const extensions[] = {"cl_khr_fp16", "cl_intel_subgroups",
                                             "cl_intel_subgroups_short",
                                             "cl_intel_required_subgroup_size"};
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        if (!fv_cl_has_extension(&d->place, extensions[i]))
            return;
    if (does(d, SUBGROUPS, "-cl-std=CL1.2", subgroups_right,
             "subgroups announced, but do not work"))
        d->features |= FV_NEED_CL_SUBGROUPS;
}

/* ---- what is worth while ---- */

/* Drops features that work but are no faster than kernels without them. Local memory may be as slow
 * as main memory, whatever the driver says (Mesa calls all of it local). Arithmetic may be emulated
 * by other instructions. Where a rate could not be measured, the driver's word is taken. */
static void drop_slow(fv_device *d, const fv_gpu_rates *r)
{
    const struct {
        uint32_t need;
        bool slow;
        const char *quirk;
    } all[] = {
        {FV_NEED_CL_LOCAL, r->local > 0 ? r->local < 1.25 : !d->limits.own_local,
         "local memory is no faster than main memory"},
        {FV_NEED_CL_HALF, r->half > 0 && r->half < 1.25, "float16 arithmetic is no faster"},
        /* Without dot products, four products take about a dozen operations. */
        {FV_NEED_CL_DOT, r->dot > 0 && r->dot < 0.25, "integer dot products are no faster"},
        /* Kernels that use local memory have to fill it first, so subgroups need not be faster than
         * it. */
        {FV_NEED_CL_SUBGROUPS, r->subgroups > 0 && r->subgroups < 1, "subgroups are no faster"},
        /* Kernels of wide vectors also read their operands faster, and need no barriers. */
        {FV_NEED_CL_WIDE, r->wide > 0 && r->wide < 0.5, "vectors of 16 floats are slow"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (d->features & all[i].need && all[i].slow) {
            d->features &= ~all[i].need;
            fv_gpu_add_words(d->quirks, all[i].quirk);
        }
}

/* Measures the rates, drops features that are slow, and marks images as preferred if they are
 * measurably faster. */
static fv_gpu_rates measure(fv_device *d)
{
    const fv_gpu_rates r = fv_cl_measure(d);
    drop_slow(d, &r);
    if (d->features & FV_NEED_CL_IMAGE && r.image >= 1.25 &&
        (!(d->features & FV_NEED_CL_LOCAL) || r.image >= r.local))
        d->features |= FV_NEED_CL_IMAGE_FIRST;
    return r;
}

/* Whether attention should use int8. Compiled for gfx1030, a score of softmax attention in a head
 * of 64 channels takes about 80 instructions in int8, 32 of them dot products, and about 300 in
 * floats. Requiring only that int8 products are at least as fast as float32's leaves a margin for
 * other compilers. A device whose rate could not be measured is trusted to have fast products. CPUs
 * use vectors of floats. */
static bool attends_in_int8(const fv_device *d, const fv_gpu_rates *r)
{
    return (d->features & FV_NEED_CL_DOT) && !d->limits.vectors && (r->dot <= 0 || r->dot >= 1);
}

/* Whether the driver's compiler builds a kernel of a few lines, which the next probe runs. */
static bool compiles(fv_device *d)
{
    void *k;
    const bool works = kernel_alone(&k, d, LONG_LOOP) == FOVEA_OK;
    snprintf(d->compiler, sizeof d->compiler, "%s%s",
             works ? "works" : "builds nothing: ", works ? "" : fovea_error());
    if (works)
        fv_cl.clReleaseKernel(k);
    return works;
}

void fv_cl_probe(fv_device *d)
{
    static const char standard[] = "-cl-std=CL1.2";
    fv_gpu_rates rates = {.dot = 0};
    if (!compiles(d))
        return;
    const bool local = d->limits.own_local || !d->limits.cpu;
    if (fv_cl_clblast_found() && d->limits.group >= 256) /* its kernels have such groups */
        d->features |= FV_NEED_CL_CLBLAST;
    if (local && d->limits.local >= 16 << 10 &&
        does(d, LOCAL, standard, local_right, "local memory announced, but does not work"))
        d->features |= FV_NEED_CL_LOCAL;
    if (fv_cl_has_extension(&d->place, "cl_khr_fp16") &&
        does(d, HALF, standard, half_right, "float16 arithmetic announced, but does not work"))
        d->features |= FV_NEED_CL_HALF;
    probe_dot(d);
    if (!does(d, LONG_LOOP, standard, long_loop_right, "ends long loops early"))
        d->limits.ends_long_loops = true;
    does(d, UNALIGNED, standard, unaligned_right,
         "reads unaligned vectors incorrectly: run fovea verify");
    if (d->limits.cpu) {
        d->features |= d->limits.vectors ? FV_NEED_CL_WIDE : 0;
    } else { /* a CPU has neither lanes nor textures */
        probe_subgroups(d);
        probe_image(d);
    }
    if (d->features & (FV_NEED_CL_LOCAL | FV_NEED_CL_HALF | FV_NEED_CL_DOT | FV_NEED_CL_WIDE))
        rates = measure(d);
    d->int8_attention = attends_in_int8(d, &rates);
    probe_recorder(d);
}
