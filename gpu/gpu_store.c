/* gpu_store.c: finds the programs of a device, takes them from the cache or compiles them, and
 * keeps them. */
#include "gpu/gpu_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "platform/os/os_cores.h"
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

/* Makes the key of a program. Its last text is the file's name, which lists of the cache show. */
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

/* Compiles a program. Accesses nothing else, so that several can be compiled at the same time. */
static fovea_status compile_alone(const fv_gpu_store *s, fv_gpu_program *p)
{
    void *built;
    const double begin = fv_machine_seconds();
    FV_TRY(s->compiler->compile(s->device, p, &built));
    p->built = built;
    p->compiled = true;
    p->seconds = fv_machine_seconds() - begin;
    return FOVEA_OK;
}

static void note_compiled(fv_gpu_store *s, const fv_gpu_program *p)
{
    char what[96];
    fv_gpu_cache_built(s->cache, label(s, p, what), p->seconds);
}

static fovea_status compile(fv_gpu_store *s, fv_gpu_program *p)
{
    FV_TRY(compile_alone(s, p));
    note_compiled(s, p);
    return FOVEA_OK;
}

/* ---- binaries ---- */

/* Takes the program from the cache. If that fails for any reason, the program will be compiled. */
static void take_cached(fv_gpu_store *s, fv_gpu_program *p)
{
    fv_gpu_key key;
    fv_gpu_binary binary;
    char what[96];
    if (key_of(s, p, &key) != FOVEA_OK)
        return;
    label(s, p, what);
    /* If a binary from memory is rejected, the cache does not return it again, but may return
     * another from disk. */
    for (bool again = true; again && fv_gpu_cache_find(s->cache, &key, what, &binary);) {
        p->built = s->compiler->load(s->device, p, &binary);
        again = !p->built && !binary.owner;
        fv_gpu_binary_free(&binary);
        if (p->built)
            fv_gpu_cache_hit(s->cache, what);
        else
            fv_gpu_cache_refused(s->cache, what);
    }
    fv_gpu_key_free(&key);
}

/* Stores the program's binary after a kernel was created: some drivers (Mali's) compile a kernel
 * only then, and have it in the binary only afterwards. */
static void keep_binary(fv_gpu_store *s, fv_gpu_program *p, const char *kernel)
{
    const size_t capacity = sizeof p->kernels / sizeof *p->kernels;
    fv_gpu_key key;
    char what[96];
    size_t i = 0, size;
    while (i < capacity && p->kernels[i] && strcmp(p->kernels[i], kernel) != 0)
        i++;
    if (!p->compiled || i == capacity || p->kernels[i])
        return;
    p->kernels[i] = kernel;
    void *binary = s->compiler->binary(p->built, &size);
    if (binary && key_of(s, p, &key) == FOVEA_OK) {
        fv_gpu_cache_store(s->cache, &key, label(s, p, what), binary, size);
        fv_gpu_key_free(&key);
    }
    fv_mem_free(binary);
}

/* ---- rates ---- */

/* Part of the key: if the texts of the measuring kernels change, rates are measured again. */
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

/* Makes a program: from the cache if possible, else one that is yet to be compiled. */
static fovea_status program_make(fv_gpu_program **out, fv_gpu_store *s, const fv_gpu_program *like)
{
    fv_gpu_program *p;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_DEVICE, "a program"));
    *p = *like;
    const fovea_status status = fv_mem_text(&p->options, like->options, FV_MEM_DEVICE);
    if (status != FOVEA_OK) {
        fv_mem_free(p);
        return status;
    }
    take_cached(s, p);
    *out = p;
    return FOVEA_OK;
}

static fv_gpu_program *find(fv_gpu_program *p, const fv_gpu_program *like)
{
    while (p && (strcmp(p->name, like->name) != 0 || p->plain != like->plain ||
                 p->mech != like->mech || strcmp(p->options, like->options) != 0))
        p = p->next;
    return p;
}

/* Of those that are built. */
static void keep(fv_gpu_store *s, fv_gpu_program *p)
{
    p->next = s->programs;
    s->programs = p;
}

static fovea_status program_get(fv_gpu_program **out, fv_gpu_store *s, const fv_gpu_program *like)
{
    fovea_status status = FOVEA_OK;
    fv_gpu_program *p = find(s->programs, like);
    if (!p) {
        FV_TRY(program_make(&p, s, like));
        if (!p->built)
            status = compile(s, p);
        if (status == FOVEA_OK)
            keep(s, p);
        else
            program_free(s, p);
    }
    if (status == FOVEA_OK)
        *out = p;
    return status;
}

void fv_gpu_store_empty(fv_gpu_store *s)
{
    while (s->programs) {
        fv_gpu_program *p = s->programs;
        s->programs = p->next;
        program_free(s, p);
    }
}

/* Creates a kernel of a program. If a cached binary does not have the kernel, or the kernel does
 * not work, the program is compiled after all. */
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
    /* the options are copied and never written to */
    const fv_gpu_program like = {
        .name = name, .plain = true, .options = (char *)(uintptr_t)options};
    return kernel_of(out, s, &like, entry);
}

/* The program of a step. `text` receives its options. */
static fv_gpu_program program_of(const fv_launch *l, uint32_t group, const char *options,
                                 fv_gpu_text *text)
{
    *text = (fv_gpu_text){.length = 0};
    fv_gpu_append(text, "%s", options);
    fv_gpu_specialise(text, l, group);
    return (fv_gpu_program){
        .name = l->kernel->code.gpu->program, .mech = l->kernel->mech, .options = text->text};
}

fovea_status fv_gpu_store_step(void **out, fv_gpu_store *s, const fv_launch *l, const char *entry,
                               uint32_t group, const char *options)
{
    fv_gpu_text text;
    const fv_gpu_program like = program_of(l, group, options, &text);
    if (text.full)
        return fv_fail(FOVEA_ENOTSUP, "kernel %s: its build options are too long", l->kernel->name);
    return kernel_of(out, s, &like, entry);
}

/* ---- several at a time ---- */

enum { MOST_THREADS = 8 }; /* each compiler may take 100 MB */

/* What the threads share. */
typedef struct build {
    const fv_gpu_store *store;
    uint64_t mode; /* the caller's floating-point mode, because compilers evaluate constants */
} build;

static void build_one(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const build *b = arg;
    const fv_gpu_compiler *by = b->store->compiler;
    fv_gpu_program *p = b->store->wanted;
    (void)phase, (void)slot;
    while (unit--)
        p = p->next;
    fv_machine_float_leave(b->mode);
    if (by->enter && !by->enter(b->store->device))
        return;
    (void)compile_alone(b->store, p);
    if (by->leave)
        by->leave();
}

static void build_wanted(const fv_gpu_store *s, uint32_t count, uint32_t threads)
{
    build b = {.store = s, .mode = fv_machine_float_enter()};
    fv_machine_float_leave(b.mode);
    fv_pool *pool;
    const fv_pool_settings settings = {.threads = threads, .name = "fovea-build"};
    if (fv_pool_create(&pool, &settings) != FOVEA_OK)
        return;
    fv_job job = {.fn = build_one, .arg = &b, .units = &count, .phases = 1};
    fv_pool_run(pool, &job);
    fv_pool_free(pool);
}

static uint32_t processors(void)
{
    fv_cores cores;
    fv_cores_find(&cores);
    return cores.most < MOST_THREADS ? cores.most : MOST_THREADS;
}

void fv_gpu_store_want(fv_gpu_store *s, const fv_launch *l, uint32_t group, const char *options)
{
    fv_gpu_text text;
    fv_gpu_program *p, **end = &s->wanted;
    const fv_gpu_program like = program_of(l, group, options, &text);
    pthread_mutex_lock(&s->lock);
    if (!text.full && !find(s->programs, &like) && !find(s->wanted, &like) &&
        program_make(&p, s, &like) == FOVEA_OK) {
        if (p->built) {
            keep(s, p);
        } else {
            while (*end)
                end = &(*end)->next;
            *end = p;
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* With a single thread nothing would be gained, so programs are then compiled when they are
 * needed. */
void fv_gpu_store_build(fv_gpu_store *s)
{
    pthread_mutex_lock(&s->lock);
    uint32_t count = 0;
    for (const fv_gpu_program *p = s->wanted; p; p = p->next)
        count++;
    const uint32_t most = count > 1 ? processors() : 1;
    if (most > 1)
        build_wanted(s, count, count < most ? count : most);
    for (fv_gpu_program *next, *p = s->wanted; p; p = next) {
        next = p->next;
        if (p->built) {
            note_compiled(s, p);
            keep(s, p);
        } else {
            program_free(s, p);
        }
    }
    s->wanted = NULL;
    pthread_mutex_unlock(&s->lock);
}
