/* gpu_store.c: the programs of a device: found, taken from the cache, compiled, kept. */
#include "gpu/gpu_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os_machine.h"

fovea_status fv_gpu_store_open(fv_gpu_store *s, fv_device *d, const fv_gpu_compiler *compiler,
                               char *identity, const char *folder)
{
    *s = (fv_gpu_store){.compiler = compiler, .device = d, .identity = identity};
    pthread_mutex_init(&s->lock, NULL);
    return fv_gpu_cache_open(&s->cache, folder ? folder : getenv("FOVEA_CACHE"));
}

void fv_gpu_store_close(fv_gpu_store *s)
{
    if (!s->compiler)
        return;
    fv_gpu_cache_close(s->cache);
    fv_mem_free(s->identity);
    pthread_mutex_destroy(&s->lock);
}

void fv_gpu_one_line(char *log)
{
    for (char *c = log; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

/* Its last text is the file's name, by which lists of the cache call it. */
static fovea_status key_of(const fv_gpu_store *s, const fv_gpu_program *p, fv_gpu_key *out)
{
    const char *part[3 + FV_GPU_TEXTS] = {s->identity, p->options};
    char file[64];
    uint32_t n = 2 + s->compiler->texts(p, part + 2);
    snprintf(file, sizeof file, "%s%s", p->name, strchr(p->name, '.') ? "" : ".cl");
    part[n++] = file;
    return fv_gpu_key_make(out, part, n);
}

/* The program's name in the log. */
static const char *label(const fv_gpu_store *s, const fv_gpu_program *p, char out[96])
{
    snprintf(out, 96, "%s (%.60s)", p->name, s->compiler->shown(p));
    return out;
}

static fovea_status compile(fv_gpu_store *s, fv_gpu_program *p)
{
    char what[96];
    void *built;
    const double begin = fv_machine_seconds();
    FV_TRY(s->compiler->compile(s->device, p, &built));
    p->built = built;
    p->compiled = true;
    fv_gpu_cache_built(s->cache, label(s, p, what), fv_machine_seconds() - begin);
    return FOVEA_OK;
}

/* ---- binaries ---- */

/* Takes the program from the cache; if that fails for any reason, it will be compiled. */
static void take_cached(fv_gpu_store *s, fv_gpu_program *p)
{
    fv_gpu_key key;
    fv_gpu_binary binary;
    char what[96];
    if (key_of(s, p, &key) != FOVEA_OK)
        return;
    label(s, p, what);
    /* A rejected binary from memory is not returned again, but another on disk may be. */
    for (bool again = true; again && fv_gpu_cache_find(s->cache, &key, what, &binary);) {
        p->built = s->compiler->load(s->device, p, &binary);
        again = !p->built && !binary.owner;
        fv_gpu_binary_free(&binary);
        if (p->built)
            fv_gpu_cache_hit(s->cache, what);
        else
            fv_gpu_cache_refused(s->cache, &key, what);
    }
    fv_gpu_key_free(&key);
}

/* Drivers that compile a kernel when it is made (Mali) have it in the binary only then. */
static void keep_binary(fv_gpu_store *s, fv_gpu_program *p, const char *kernel)
{
    const size_t room = sizeof p->kernels / sizeof *p->kernels;
    fv_gpu_key key;
    char what[96];
    size_t i = 0, size;
    while (i < room && p->kernels[i] && strcmp(p->kernels[i], kernel) != 0)
        i++;
    if (!p->compiled || i == room || p->kernels[i])
        return;
    p->kernels[i] = kernel;
    void *binary = s->compiler->binary(p->built, &size);
    if (binary && key_of(s, p, &key) == FOVEA_OK) {
        fv_gpu_cache_store(s->cache, &key, label(s, p, what), binary, size);
        fv_gpu_key_free(&key);
    }
    fv_mem_free(binary);
}

static fovea_status export_entry(const fv_gpu_store *s, const fv_gpu_program *p, const void *data,
                                 size_t bytes, char *out, size_t room, size_t *size)
{
    fv_gpu_key key;
    fovea_status status = FOVEA_OK;
    FV_TRY(key_of(s, p, &key));
    const uint64_t entry = fv_gpu_entry_size(&key, bytes);
    if (out && (*size > room || entry > room - *size))
        status = fv_fail(FOVEA_EINVAL, "kernel binaries need more than the %zu bytes given", room);
    else if (out)
        fv_gpu_entry_write(out + *size, &key, data, bytes);
    *size += (size_t)entry;
    fv_gpu_key_free(&key);
    return status;
}

static fovea_status export_one(const fv_gpu_store *s, const fv_gpu_program *p, char *out,
                               size_t room, size_t *size)
{
    size_t binary_size;
    void *binary = s->compiler->binary(p->built, &binary_size);
    if (!binary)
        return FOVEA_OK; /* it will be compiled again */
    const fovea_status status = export_entry(s, p, binary, binary_size, out, room, size);
    fv_mem_free(binary);
    return status;
}

/* ---- rates ---- */

/* Of the key: rates are another's when the texts of their kernels change. */
static const fv_gpu_program measured = {
    .name = "probe", .plain = true, .options = (char *)(uintptr_t) "rates"};

static bool are_rates(const double rates[FV_GPU_RATES])
{
    for (int i = 0; i < FV_GPU_RATES; i++)
        if (!(rates[i] >= 0 && rates[i] < 1e30))
            return false;
    return rates[FV_GPU_FLOPS] > 0 && rates[FV_GPU_BYTES] > 0;
}

static bool find_rates(fv_gpu_store *s)
{
    fv_gpu_key key;
    fv_gpu_binary binary;
    double found[FV_GPU_RATES];
    if (are_rates(s->rates))
        return true;
    if (key_of(s, &measured, &key) != FOVEA_OK)
        return false;
    if (fv_gpu_cache_find(s->cache, &key, "rates", &binary)) {
        if (binary.size == sizeof found)
            memcpy(found, binary.data, sizeof found);
        if (binary.size == sizeof found && are_rates(found))
            memcpy(s->rates, found, sizeof found);
        fv_gpu_binary_free(&binary);
    }
    fv_gpu_key_free(&key);
    return are_rates(s->rates);
}

bool fv_gpu_store_rates(fv_gpu_store *s, double out[FV_GPU_RATES])
{
    pthread_mutex_lock(&s->lock);
    const bool there = find_rates(s);
    memcpy(out, s->rates, sizeof s->rates);
    pthread_mutex_unlock(&s->lock);
    return there;
}

void fv_gpu_store_keep_rates(fv_gpu_store *s, const double rates[FV_GPU_RATES])
{
    fv_gpu_key key;
    pthread_mutex_lock(&s->lock);
    if (are_rates(rates) && key_of(s, &measured, &key) == FOVEA_OK) {
        memcpy(s->rates, rates, sizeof s->rates);
        fv_gpu_cache_store(s->cache, &key, "rates", rates, sizeof s->rates);
        fv_gpu_key_free(&key);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- to another device ---- */

fovea_status fv_gpu_store_export(fv_gpu_store *s, void *out, size_t room, size_t *size)
{
    *size = 0;
    fovea_status status = FOVEA_OK;
    pthread_mutex_lock(&s->lock);
    for (fv_gpu_program *p = s->programs; p && status == FOVEA_OK; p = p->next)
        status = export_one(s, p, out, room, size);
    if (are_rates(s->rates))
        FV_THEN(status, export_entry(s, &measured, s->rates, sizeof s->rates, out, room, size));
    pthread_mutex_unlock(&s->lock);
    return status;
}

fovea_status fv_gpu_store_import(fv_gpu_store *s, const void *data, size_t size)
{
    pthread_mutex_lock(&s->lock);
    fovea_status status = fv_gpu_cache_import(s->cache, data, size);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- programs ---- */

static void program_free(const fv_gpu_store *s, fv_gpu_program *p)
{
    void *const built[] = {p->built, p->refused};
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if (built[i])
            s->compiler->release(s->device, built[i]);
    fv_mem_free(p->options);
    fv_mem_free(p);
}

static fovea_status fill_program(fv_gpu_store *s, fv_gpu_program *p, const char *options)
{
    FV_TRY(fv_mem_text(&p->options, options, FV_MEM_DEVICE));
    take_cached(s, p);
    return p->built ? FOVEA_OK : compile(s, p);
}

static fovea_status program_make(fv_gpu_program **out, fv_gpu_store *s, const fv_gpu_program *like)
{
    fv_gpu_program *p;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_DEVICE, "a program"));
    *p = *like;
    p->options = NULL;
    const fovea_status status = fill_program(s, p, like->options);
    if (status == FOVEA_OK)
        *out = p;
    else
        program_free(s, p);
    return status;
}

static fovea_status program_get(fv_gpu_program **out, fv_gpu_store *s, const fv_gpu_program *like)
{
    for (fv_gpu_program *p = s->programs; p; p = p->next)
        if (strcmp(p->name, like->name) == 0 && p->plain == like->plain && p->mech == like->mech &&
            strcmp(p->options, like->options) == 0) {
            *out = p;
            return FOVEA_OK;
        }
    FV_TRY(program_make(out, s, like));
    (*out)->next = s->programs;
    s->programs = *out;
    return FOVEA_OK;
}

void fv_gpu_store_empty(fv_gpu_store *s)
{
    while (s->programs) {
        fv_gpu_program *p = s->programs;
        s->programs = p->next;
        program_free(s, p);
    }
}

/* A binary that was taken but has no such kernel, or none that works, is compiled after all. */
static fovea_status kernel_from(void **out, fv_gpu_store *s, fv_gpu_program *p, const char *entry)
{
    void *kernel, *const old = p->built;
    fovea_status status = s->compiler->kernel(old, entry, &kernel);
    if (status == FOVEA_EDEVICE && !p->compiled) {
        FV_TRY(compile(s, p));
        p->refused = old;
        status = s->compiler->kernel(p->built, entry, &kernel);
    }
    FV_TRY(status);
    keep_binary(s, p, entry);
    *out = kernel;
    return FOVEA_OK;
}

static fovea_status kernel_of(void **out, fv_gpu_store *s, const fv_gpu_program *like,
                              const char *entry)
{
    fv_gpu_program *p = NULL;
    pthread_mutex_lock(&s->lock);
    fovea_status status = program_get(&p, s, like);
    FV_THEN(status, kernel_from(out, s, p, entry));
    pthread_mutex_unlock(&s->lock);
    return status;
}

fovea_status fv_gpu_store_plain(void **out, fv_gpu_store *s, const char *name, const char *entry,
                                const char *options)
{
    /* The options are copied, not written to. */
    const fv_gpu_program like = {
        .name = name, .plain = true, .options = (char *)(uintptr_t)options};
    return kernel_of(out, s, &like, entry);
}

fovea_status fv_gpu_store_step(void **out, fv_gpu_store *s, const fv_launch *l, const char *entry,
                               uint32_t group, const char *options)
{
    fv_gpu_text text = {.length = 0};
    fv_gpu_append(&text, "%s", options);
    fv_gpu_specialise(&text, l, group);
    if (text.full)
        return fv_fail(FOVEA_ENOTSUP, "kernel %s has more build options than there is room for",
                       l->kernel->name);
    const fv_gpu_program like = {
        .name = l->kernel->code.gpu->program, .mech = l->kernel->mech, .options = text.text};
    return kernel_of(out, s, &like, entry);
}
