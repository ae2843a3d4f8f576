/* emulated_module.c: modules of the emulated driver, which are shared objects made by the emulated
 * NVRTC.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda_emulator/emulated_driver.h"

/* A module's variables count as shared memory of each of its functions, so a kernel's pre-pass may
 * use a few bytes. */
enum { FUNCTIONS = 64, PLAIN_SHARED = 48 << 10, OF_OTHERS = 1 << 10 };

struct CUmod_st {
    void *library; /* NULL: made from PTX, whose kernels do nothing */
    const emulated_entry *entries;
    emulated_link *link;
    const emulated_shared_memory *shared_map;
    struct CUfunc_st function[FUNCTIONS];
    char *ptx;
};

uint64_t emulated_sum(const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ p[i]) * 1099511628211u;
    return sum;
}

/* Each file has a unique name, because dlopen() opens the same name only once. */
static void *open_object(const void *data, size_t size)
{
    char path[] = "/tmp/fovea_emulated_XXXXXX";
    const int file = mkstemp(path);
    void *library = NULL;
    if (file < 0)
        return NULL;
    if (write(file, data, size) == (ssize_t)size)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "emulated CUDA: %s\n", dlerror());
    close(file);
    unlink(path);
    return library;
}

static CUresult load(CUmodule m, const emulated_image *image)
{
    const char *data = (const char *)(image + 1);
    if (memcmp(image->magic, EMULATED_MAGIC, sizeof EMULATED_MAGIC) != 0 ||
        emulated_sum(data, image->size) != image->sum)
        return CUDA_ERROR_INVALID_IMAGE;
    const int device = emulated_capability();
    if (image->sm > device || (image->exact && image->sm / 10 != device / 10))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!image->exact && !hostile_lie(EMULATED_LIE_ptx, 1))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    m->library = open_object(data, image->size);
    if (!m->library)
        return CUDA_ERROR_INVALID_IMAGE;
    m->entries = dlsym(m->library, "emulated_entries");
    m->link = dlsym(m->library, "emulated");
    m->shared_map = dlsym(m->library, "emulated_shared_map");
    if (!m->entries || !m->link || !m->shared_map)
        return CUDA_ERROR_INVALID_IMAGE;
    m->link->calls = &emulated_block_calls;
    return CUDA_SUCCESS;
}

/* PTX is checked for its kernels, but they do nothing. */
static CUresult load_ptx(CUmodule m, const char *text)
{
    const char *target = strstr(text, ".target sm_");
    if (!target)
        return CUDA_ERROR_INVALID_IMAGE;
    if (atoi(target + strlen(".target sm_")) > emulated_capability())
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!hostile_lie(EMULATED_LIE_ptx, 1) && !strstr(text, ".version 7.0"))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    m->ptx = strdup(text);
    return m->ptx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void module_free(CUmodule m)
{
    if (m->library)
        dlclose(m->library);
    free(m->ptx);
    free(m);
}

void emulated_modules_drop(void)
{
    const void *handle;
    pthread_mutex_lock(&hostile_lock);
    while ((handle = hostile_any(EMULATED_MODULE)) && hostile_dies(EMULATED_MODULE, handle))
        module_free((CUmodule)(uintptr_t)handle);
    pthread_mutex_unlock(&hostile_lock);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    ENTER_UNSAFE(cuModuleLoadDataEx);
    if (!hostile_lie(EMULATED_LIE_image, 1))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    CUmodule m = calloc(1, sizeof *m);
    if (!m)
        abort();
    const bool ours = strncmp(image, "emulated", strlen("emulated")) == 0;
    const CUresult error = ours ? load(m, image) : load_ptx(m, image);
    if (error != CUDA_SUCCESS) {
        module_free(m);
        return error;
    }
    pthread_mutex_lock(&hostile_lock);
    hostile_born(EMULATED_MODULE, m);
    pthread_mutex_unlock(&hostile_lock);
    *module = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
    if (!emulated_idle("cuModuleUnload"))
        return CUDA_ERROR_LAUNCH_FAILED;
    pthread_mutex_lock(&hostile_lock);
    const bool alive = hostile_dies(EMULATED_MODULE, m);
    pthread_mutex_unlock(&hostile_lock);
    if (!alive)
        return CUDA_ERROR_INVALID_HANDLE;
    module_free(m);
    return emulated_context_error();
}

/* ---- functions ---- */

static void run_nothing(void **params)
{
    (void)params;
}

static const emulated_entry *find(const CUmodule m, const char *name)
{
    static const emulated_entry of_ptx = {.name = "PTX", .run = run_nothing};
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (m->ptx)
        return strstr(m->ptx, entry) ? &of_ptx : NULL;
    for (const emulated_entry *e = m->entries; e->name; e++)
        if (strcmp(e->name, name) == 0)
            return e;
    return NULL;
}

static long variables(const CUfunction f)
{
    return f->shared_map ? f->shared_map->variables_end - f->shared_map->variables : 0;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule m, const char *name)
{
    static emulated_link no_link;
    static char no_memory[4096];
    static const emulated_shared_memory no_shared = {no_memory, no_memory, no_memory, 0};
    ENTER(cuModuleGetFunction);
    const emulated_entry *entry = find(m, name);
    if (!entry)
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&hostile_lock);
    CUfunction f = m->function;
    while (f->entry && f->entry != entry)
        f++;
    if (!f->entry)
        *f = (struct CUfunc_st){.entry = entry,
                                .link = m->ptx ? &no_link : m->link,
                                .shared_map = m->ptx ? &no_shared : m->shared_map};
    f->dynamic = variables(f) < PLAIN_SHARED ? (int)(PLAIN_SHARED - variables(f)) : 0;
    *function = f;
    pthread_mutex_unlock(&hostile_lock);
    return variables(f) <= PLAIN_SHARED + OF_OTHERS ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    ENTER(cuFuncGetAttribute);
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = f->entry->bound ? (int)f->entry->bound : EMULATED_THREADS;
        if (*value > hostile_lie(EMULATED_LIE_group, EMULATED_THREADS))
            *value = (int)hostile_lie(EMULATED_LIE_group, EMULATED_THREADS);
        return CUDA_SUCCESS;
    default:
        fprintf(stderr, "emulated CUDA: function attribute %d is not known here\n", (int)attribute);
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncLoad(CUfunction f)
{
    (void)f;
    ENTER(cuFuncLoad);
    return CUDA_SUCCESS;
}
