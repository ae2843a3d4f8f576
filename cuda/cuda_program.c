/* cuda_program.c: the code of kernels, which NVRTC compiles or which was compiled when the library
 * was built. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_sources.h"
#include "ops/mech_traits.h"

/* A module, and the code that it was made from. */
struct built {
    CUmodule module;
    size_t size;
    char image[]; /* a cubin, or PTX with its terminating 0 */
};

/* ---- texts ---- */

static uint32_t texts(const fv_gpu_program *p, const char *text[FV_GPU_TEXTS])
{
    _Static_assert((int)FV_CUDA_TEXTS <= (int)FV_GPU_TEXTS, "FV_GPU_TEXTS is too small");
    return fv_cuda_texts(p->name, p->mech, text);
}

static const char *shown(const fv_gpu_program *p)
{
    return p->options + strspn(p->options, " ");
}

/* Joins all texts of a program, to be freed by the caller. */
static fovea_status join(char **out, const fv_gpu_program *p)
{
    const char *text[FV_GPU_TEXTS];
    const uint32_t n = texts(p, text);
    size_t size = 1;
    for (uint32_t i = 0; i < n; i++)
        size += strlen(text[i]);
    FV_TRY(fv_mem_alloc(out, size, FV_MEM_DEVICE, "a program's text"));
    char *at = *out;
    for (uint32_t i = 0; i < n; i++) {
        const size_t length = strlen(text[i]);
        memcpy(at, text[i], length);
        at += length;
    }
    *at = 0;
    return FOVEA_OK;
}

/* ---- modules ---- */

static fovea_status new_built(struct built **out, size_t size)
{
    FV_TRY(fv_mem_alloc(out, sizeof(struct built) + size, FV_MEM_DEVICE, "a program"));
    (*out)->size = size;
    return FOVEA_OK;
}

/* The module of an image. */
static fovea_status make_module(struct built *b, fv_device *d, const char *name)
{
    char log[400] = "";
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUmodule module;
    const CUresult error = fv_cuda.cuModuleLoadDataEx(&module, b->image, 2, option, value);
    if (error == CUDA_ERROR_OUT_OF_MEMORY)
        return fv_cuda_fail(error, "cuModuleLoadDataEx", name);
    if (fv_cuda_is_fatal(error))
        return fv_cuda_lose(d, error, "cuModuleLoadDataEx", name);
    fv_gpu_one_line(log);
    if (error != CUDA_SUCCESS)
        return fv_fail(FOVEA_EDEVICE,
                       "cuModuleLoadDataEx %s: %s (%d); a newer driver, or the NVRTC with the "
                       "driver's version, may work. The log: %.300s",
                       name, fv_cuda_error_name(error), error, log);
    b->module = module;
    return FOVEA_OK;
}

static void release_module(fv_device *d, void *built)
{
    struct built *b = built;
    if (b->module && !d->hung)
        fv_cuda.cuModuleUnload(b->module);
    fv_mem_free(b);
}

static fovea_status finish(struct built *b, fv_device *d, const fv_gpu_program *p, void **out)
{
    const fovea_status status = make_module(b, d, p->name);
    if (status == FOVEA_OK)
        *out = b;
    else
        release_module(d, b);
    return status;
}

/* ---- compiled when the library was built ---- */

/* The one for the newest architecture that the device has, or NULL. */
static const fv_cuda_ptx *embedded(const fv_device *d, const fv_gpu_program *p)
{
    const fv_cuda_ptx *best = NULL;
    const char *mechanism = p->mech ? fv_mech_table[p->mech]->name : "";
    for (const fv_cuda_ptx *e = fv_cuda_ptx_list; e->program; e++)
        if (e->arch <= d->limits.arch && (!best || e->arch > best->arch) &&
            strcmp(e->program, p->name) == 0 && strcmp(e->mechanism, mechanism) == 0 &&
            strcmp(e->options, p->options) == 0)
            best = e;
    return best;
}

bool fv_cuda_is_embedded(const fv_device *d, const fv_launch *l)
{
    const fv_gpu_code *code = l->kernel->code.gpu;
    fv_gpu_text options = {.length = 0};
    fv_gpu_specialise(&options, l, code->group);
    const fv_gpu_program p = {
        .name = code->program, .mech = l->kernel->mech, .options = options.text};
    return embedded(d, &p) != NULL;
}

static fovea_status take_embedded(const fv_cuda_ptx *e, fv_device *d, const fv_gpu_program *p,
                                  void **out)
{
    struct built *b;
    char *text;
    FV_TRY(fv_cuda_ptx_text(&text, e));
    const fovea_status status = new_built(&b, e->size + (size_t)1);
    if (status == FOVEA_OK)
        memcpy(b->image, text, b->size);
    fv_mem_free(text);
    return status == FOVEA_OK ? finish(b, d, p, out) : status;
}

/* ---- NVRTC ---- */

void fv_cuda_target(const fv_cuda_limits *l, char *out, size_t size)
{
    const fv_nvrtc_api *nvrtc = fv_cuda_nvrtc();
    int known[64], count = 0, best = 0;
    *out = 0;
    if (!nvrtc)
        return;
    if (!nvrtc->nvrtcGetNumSupportedArchs || !nvrtc->nvrtcGetSupportedArchs ||
        nvrtc->nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 64 ||
        nvrtc->nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS) {
        /* An old NVRTC without this function; what it cannot compile for shows when it compiles. */
        count = 1;
        known[0] = (int)l->arch;
    }
    for (int i = 0; i < count; i++)
        if (known[i] <= (int)l->arch && known[i] > best)
            best = known[i];
    if (best)
        snprintf(out, size, "%s_%d",
                 best == (int)l->arch && nvrtc->nvrtcGetCUBIN && nvrtc->nvrtcGetCUBINSize
                     ? "sm"
                     : "compute",
                 best);
}

static fovea_status nvrtc_failed(nvrtcResult error, const char *call, const char *name)
{
    if (error == NVRTC_ERROR_OUT_OF_MEMORY)
        return fv_fail(FOVEA_ENOMEM,
                       "%s %s: out of memory; use a smaller picture or a memory limit", call, name);
    return fv_fail(FOVEA_EDEVICE, "%s %s: NVRTC error %d; a newer or older NVRTC may work", call,
                   name, error);
}

/* The compiler's words. */
static fovea_status compile_failed(const fv_nvrtc_api *nvrtc, nvrtcProgram program,
                                   nvrtcResult error, const char *name)
{
    size_t size = 0;
    char *log;
    if (error == NVRTC_ERROR_OUT_OF_MEMORY ||
        nvrtc->nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size < 2 ||
        fv_mem_alloc(&log, size, FV_MEM_DEVICE, "a log") != FOVEA_OK)
        return nvrtc_failed(error, "nvrtcCompileProgram", name);
    if (nvrtc->nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
        *log = 0;
    fv_gpu_one_line(log);
    fv_fail(FOVEA_EDEVICE,
            "nvrtcCompileProgram %s: error %d; a newer or older NVRTC may work. The log: %.300s",
            name, error, log);
    fv_mem_free(log);
    return FOVEA_EDEVICE;
}

enum { OPTIONS = 64 };

/* Lists the options of a program, which are copied to `text`; returns how many. */
static int options_of(const char *option[OPTIONS], char *text, const char *target)
{
    int n = 0;
    option[n++] = target;
    option[n++] = "-std=c++17";
    option[n++] = "-default-device";
    option[n++] = "-w";
    for (char *rest, *next = strtok_r(text, " ", &rest); next && n < OPTIONS;
         next = strtok_r(NULL, " ", &rest))
        option[n++] = next;
    return n;
}

static fovea_status run_nvrtc(const fv_nvrtc_api *nvrtc, nvrtcProgram program, const char *target,
                              const fv_gpu_program *p)
{
    const char *option[OPTIONS];
    char architecture[64], *text;
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", target);
    FV_TRY(fv_mem_text(&text, p->options, FV_MEM_DEVICE));
    const nvrtcResult error =
        nvrtc->nvrtcCompileProgram(program, options_of(option, text, architecture), option);
    fv_mem_free(text);
    return error == NVRTC_SUCCESS ? FOVEA_OK : compile_failed(nvrtc, program, error, p->name);
}

static fovea_status image_of(struct built **out, const fv_nvrtc_api *nvrtc, nvrtcProgram program,
                             const char *target, const char *name)
{
    const bool code = strncmp(target, "sm_", 3) == 0;
    size_t size = 0;
    nvrtcResult error =
        code ? nvrtc->nvrtcGetCUBINSize(program, &size) : nvrtc->nvrtcGetPTXSize(program, &size);
    if (error != NVRTC_SUCCESS || size == 0)
        return nvrtc_failed(error, code ? "nvrtcGetCUBINSize" : "nvrtcGetPTXSize", name);
    FV_TRY(new_built(out, size));
    error = code ? nvrtc->nvrtcGetCUBIN(program, (*out)->image)
                 : nvrtc->nvrtcGetPTX(program, (*out)->image);
    if (error == NVRTC_SUCCESS)
        return FOVEA_OK;
    fv_mem_free(*out);
    return nvrtc_failed(error, code ? "nvrtcGetCUBIN" : "nvrtcGetPTX", name);
}

static fovea_status compile_for(fv_device *d, const char *target, const fv_gpu_program *p,
                                void **out)
{
    const fv_nvrtc_api *nvrtc = fv_cuda_nvrtc();
    nvrtcProgram program;
    char *text;
    struct built *b = NULL;
    FV_TRY(join(&text, p));
    const nvrtcResult error = nvrtc->nvrtcCreateProgram(&program, text, p->name, 0, NULL, NULL);
    fv_mem_free(text);
    if (error != NVRTC_SUCCESS)
        return nvrtc_failed(error, "nvrtcCreateProgram", p->name);
    fovea_status status = run_nvrtc(nvrtc, program, target, p);
    FV_THEN(status, image_of(&b, nvrtc, program, target, p->name));
    nvrtc->nvrtcDestroyProgram(&program);
    FV_TRY(status);
    return finish(b, d, p, out);
}

/* PTX is refused by a driver that is older than the compiler, so code for the device itself is
 * preferred. Code for an older device of the same family also runs on a newer one, but not between
 * boards and cards. */
static fovea_status compile_now(fv_device *d, const fv_gpu_program *p, void **out)
{
    const fv_nvrtc_api *nvrtc = fv_cuda_nvrtc();
    char target[32];
    int known = 0;
    const fovea_status status = compile_for(d, d->target, p, out);
    if (status != FOVEA_EDEVICE || d->lost || d->limits.integrated ||
        sscanf(d->target, "compute_%d", &known) != 1 || known / 10 != (int)d->limits.arch / 10 ||
        !nvrtc->nvrtcGetCUBIN || !nvrtc->nvrtcGetCUBINSize)
        return status;
    snprintf(target, sizeof target, "sm_%d", known);
    return compile_for(d, target, p, out);
}

static fovea_status compile(fv_device *d, const fv_gpu_program *p, void **out)
{
    const fv_cuda_ptx *e = embedded(d, p);
    if (*d->target) {
        const fovea_status status = compile_now(d, p, out);
        if (status != FOVEA_EDEVICE || d->lost || !e)
            return status;
    }
    if (e)
        return take_embedded(e, d, p, out);
    return fv_fail(FOVEA_ENOTSUP,
                   "this build does not contain kernel %s; install an NVRTC (libnvrtc.so.12) that "
                   "supports sm_%u",
                   p->name, d->limits.arch);
}

/* ---- binaries ---- */

static void *load(fv_device *d, const fv_gpu_program *p, const fv_gpu_binary *binary)
{
    struct built *b;
    void *out;
    if (new_built(&b, (size_t)binary->size) != FOVEA_OK)
        return NULL;
    memcpy(b->image, binary->data, b->size);
    return finish(b, d, p, &out) == FOVEA_OK ? out : NULL;
}

static void *binary_of(void *built, size_t *size)
{
    const struct built *b = built;
    void *memory;
    *size = b->size;
    if (fv_mem_alloc(&memory, b->size, FV_MEM_DEVICE, "a program's binary") != FOVEA_OK)
        return NULL;
    memcpy(memory, b->image, b->size);
    return memory;
}

/* ---- kernels ---- */

static fovea_status function_of(void *built, const char *entry, void **out)
{
    const struct built *b = built;
    CUfunction function;
    FV_CUDA_TRY(entry, cuModuleGetFunction, (&function, b->module, entry));
    *out = function;
    return FOVEA_OK;
}

static bool enter(fv_device *d)
{
    return fv_cuda_enter(d) == FOVEA_OK;
}

const fv_gpu_compiler fv_cuda_compiler = {.texts = texts,
                                          .shown = shown,
                                          .compile = compile,
                                          .load = load,
                                          .binary = binary_of,
                                          .kernel = function_of,
                                          .release = release_module,
                                          .enter = enter,
                                          .leave = fv_cuda_leave};

fovea_status fv_cuda_step_kernel(CUfunction *out, uint32_t *limit, fv_device *d, const fv_launch *l,
                                 const char *entry, uint32_t group)
{
    void *function;
    int most;
    FV_TRY(fv_gpu_store_step(&function, &d->store, l, entry, group, ""));
    FV_CUDA_TRY(l->kernel->name, cuFuncGetAttribute,
                (&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    /* Some drivers load a kernel only when it is first launched. It is loaded now, if necessary by
     * asking for an attribute of it. */
    if (fv_cuda.cuFuncLoad)
        FV_CUDA_TRY(l->kernel->name, cuFuncLoad, (function));
    *limit = most > 0 ? (uint32_t)most : 0;
    *out = function;
    return FOVEA_OK;
}
