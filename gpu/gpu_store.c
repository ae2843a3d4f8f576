/* gpu_store.c: finds the programs of a device, takes them from the cache or compiles them, and
 * keeps them. */
#include "gpu/gpu_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread.h"
#include "gpu/gpu_attempt.h"
#include "platform/os/os_cores.h"
#include "platform/os/os_machine.h"

/* The limit of time for a call of the compiler. */
static fovea_status limit_of(double *out, const fovea_device_options *options)
{
    const char *text = getenv("FOVEA_COMPILE_SECONDS");
    char *end = NULL;
    *out = options->max_compile_seconds > 0 ? options->max_compile_seconds : FV_COMPILE_SECONDS;
    if (options->max_compile_seconds > 0 || !text || !*text)
        return FOVEA_OK;
    *out = strtod(text, &end);
    return *end == 0 && *out > 0 && *out <= FV_COMPILE_SECONDS_MOST
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL,
                         "FOVEA_COMPILE_SECONDS is '%s'; it must be a number above 0, at most %g",
                         text, FV_COMPILE_SECONDS_MOST);
}

fovea_status fv_gpu_store_open(fv_gpu_store *s, fv_device *d, const fv_gpu_compiler *compiler,
                               char *identity, const fovea_device_options *options)
{
    *s = (fv_gpu_store){.compiler = compiler, .device = d, .identity = identity};
    pthread_mutex_init(&s->lock, NULL);
    FV_TRY(limit_of(&s->limit, options));
    return fv_gpu_cache_open(&s->cache, options->cache ? options->cache : getenv("FOVEA_CACHE"));
}

void fv_gpu_store_close(fv_gpu_store *s)
{
    if (!s->compiler)
        return;
    fv_gpu_cache_close(s->cache);
    fv_mem_free(s->identity);
    pthread_mutex_destroy(&s->lock);
}

void fv_gpu_store_skipped(const fv_gpu_store *s, char *out, size_t size)
{
    fv_gpu_notes_list(s->cache, s->identity, out, size);
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

/* ---- calls of the compiler ---- */

/* Calls that may be left behind at a time. Some compilers have one lock for all programs, so while
 * one call hangs, so may a second one, of a program that is not at fault; then nothing more is
 * tried. */
enum { MOST_LEFT = 2 };

/* Gives up waiting for a call. If an earlier call has not returned either, this program may not be
 * at fault, so that no note says that it is. */
static fovea_status leave_behind(fv_gpu_store *s, fv_gpu_program *p, fv_gpu_attempt *a,
                                 const char *name)
{
    if (atomic_fetch_add(&s->left, 1) == 0) {
        fv_gpu_note_give_up(a->note, s->limit);
    } else {
        fv_gpu_note_end(a->note);
        a->note = NULL;
    }
    p->left = a;
    return fv_fail(FOVEA_ETIMEOUT,
                   "%s is not used: the driver's compiler did not finish it within %g s; a longer "
                   "FOVEA_COMPILE_SECONDS may help, and `fovea cache retry` lets it be tried again",
                   name, s->limit);
}

/* Makes a call of the compiler, as call_compiler does. */
static fovea_status try_compiler(fv_gpu_attempt **out, fv_gpu_store *s, fv_gpu_program *p,
                                 void *built, const char *entry, const char *name)
{
    fv_gpu_key key;
    fv_gpu_note *note = NULL;
    fv_gpu_attempt *a = NULL;
    if (p->left || atomic_load(&s->left) >= MOST_LEFT)
        return fv_fail(
            FOVEA_ETIMEOUT,
            "%s is not compiled, because the driver's compiler has not returned from %s; "
            "start the program again",
            name, p->left ? "an earlier try" : "other programs");
    FV_TRY(key_of(s, p, &key));
    fovea_status status = fv_gpu_note_begin(&note, s->cache, &key, name, s->limit);
    fv_gpu_key_free(&key);
    FV_THEN(status, fv_gpu_attempt_start(&a, s->compiler, s->device, p, built, entry));
    if (status != FOVEA_OK) {
        fv_gpu_note_end(note);
        return status;
    }
    a->note = note;
    if (!fv_gpu_attempt_ended(a, s->limit))
        return leave_behind(s, p, a, name);
    fv_gpu_note_end(note);
    *out = a;
    if (a->status == FOVEA_OK)
        return FOVEA_OK;
    status = fv_fail(a->status, "%s", a->message);
    fv_gpu_attempt_free(a);
    return status;
}

/* Calls the compiler to create kernel `entry`, or none if it is NULL, of the program that `built`
 * is; if that is NULL, the program is compiled first. On success *out has ended, and must be freed.
 * That a program is not compiled is logged once. Accesses nothing of the store that changes, so
 * that several programs can be compiled at the same time. */
static fovea_status call_compiler(fv_gpu_attempt **out, fv_gpu_store *s, fv_gpu_program *p,
                                  void *built, const char *entry)
{
    char name[96];
    const fovea_status status = try_compiler(out, s, p, built, entry, label(s, p, name));
    if (status == FOVEA_ETIMEOUT && !p->told) {
        fv_log("%s", fovea_error());
        p->told = true;
    }
    return status;
}

/* The program is the one that `a` has compiled. Steps may still hold kernels of the one before. */
static void take_built(fv_gpu_program *p, const fv_gpu_attempt *a)
{
    p->refused = p->built;
    p->built = a->built;
    p->compiled = true;
    p->seconds = a->seconds;
}

/* Compiles a program, also in place of one that was taken from the cache. Several programs can be
 * compiled at the same time. */
static fovea_status compile_alone(fv_gpu_store *s, fv_gpu_program *p)
{
    fv_gpu_attempt *a = NULL;
    FV_TRY(call_compiler(&a, s, p, NULL, NULL));
    take_built(p, a);
    fv_gpu_attempt_free(a);
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

/* Collects the results of calls that were given up and have returned since. */
static void collect(fv_gpu_store *s)
{
    for (fv_gpu_program *p = atomic_load(&s->left) ? s->programs : NULL; p; p = p->next) {
        fv_gpu_attempt *a = p->left;
        if (!a || !fv_gpu_attempt_ended(a, 0))
            continue;
        fv_gpu_note_end(a->note);
        if (a->kernel && s->compiler->drop)
            s->compiler->drop(a->kernel);
        if (a->compiles && a->status == FOVEA_OK) {
            take_built(p, a);
            note_compiled(s, p);
        }
        p->left = NULL;
        fv_gpu_attempt_free(a);
        atomic_fetch_sub(&s->left, 1);
    }
}

bool fv_gpu_store_is_stuck(fv_gpu_store *s)
{
    pthread_mutex_lock(&s->lock);
    collect(s);
    pthread_mutex_unlock(&s->lock);
    return atomic_load(&s->left) > 0;
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

/* Whether the binary in the cache may lack a kernel. */
static bool is_new(const fv_gpu_program *p, const char *kernel)
{
    const size_t capacity = sizeof p->kernels / sizeof *p->kernels;
    size_t i = 0;
    while (i < capacity && p->kernels[i] && strcmp(p->kernels[i], kernel) != 0)
        i++;
    return p->compiled && i < capacity && !p->kernels[i];
}

/* Stores the program's binary after a kernel was created: some drivers (Mali's) compile a kernel
 * only then, and have it in the binary only afterwards. */
static void keep_binary(fv_gpu_store *s, fv_gpu_program *p, const fv_gpu_attempt *a)
{
    fv_gpu_key key;
    char what[96];
    size_t i = 0;
    while (p->kernels[i])
        i++;
    p->kernels[i] = a->entry;
    if (a->binary && key_of(s, p, &key) == FOVEA_OK) {
        fv_gpu_cache_store(s->cache, &key, label(s, p, what), a->binary, a->size);
        fv_gpu_key_free(&key);
    }
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

/* A thread that is still inside the driver may use what it was given. */
static void program_free(const fv_gpu_store *s, fv_gpu_program *p)
{
    void *const built[] = {p->built, p->refused};
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if (built[i] && !p->left)
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
    fv_gpu_program *p = find(s->programs, like);
    if (!p) {
        FV_TRY(program_make(&p, s, like));
        keep(s, p);
    }
    if (!p->built)
        FV_TRY(compile(s, p));
    *out = p;
    return FOVEA_OK;
}

void fv_gpu_store_empty(fv_gpu_store *s)
{
    collect(s);
    while (s->programs) {
        fv_gpu_program *p = s->programs;
        s->programs = p->next;
        program_free(s, p);
    }
}

/* Creates a kernel that the binary in the cache may lack, and stores the binary. */
static fovea_status new_kernel(void **out, fv_gpu_store *s, fv_gpu_program *p, const char *entry)
{
    fv_gpu_attempt *a = NULL;
    FV_TRY(call_compiler(&a, s, p, p->built, entry));
    *out = a->kernel;
    keep_binary(s, p, a);
    fv_gpu_attempt_free(a);
    return FOVEA_OK;
}

/* Creates a kernel of a program. If a cached binary does not have the kernel, or the kernel does
 * not work, the program is compiled after all. */
static fovea_status kernel_from(void **out, fv_gpu_store *s, fv_gpu_program *p, const char *entry)
{
    if (!is_new(p, entry)) {
        const fovea_status status = s->compiler->kernel(p->built, entry, out);
        if (status != FOVEA_EDEVICE || p->compiled)
            return status;
        FV_TRY(compile(s, p));
    }
    return new_kernel(out, s, p, entry);
}

static fovea_status kernel_of(void **out, fv_gpu_store *s, const fv_gpu_program *like,
                              const char *entry)
{
    fv_gpu_program *p = NULL;
    pthread_mutex_lock(&s->lock);
    collect(s);
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
    fv_gpu_store *store;
    uint64_t mode; /* the caller's floating-point mode, because compilers evaluate constants */
} build;

static void build_one(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const build *b = arg;
    fv_gpu_program *p = b->store->wanted;
    (void)phase, (void)slot;
    while (unit--)
        p = p->next;
    fv_machine_float_leave(b->mode);
    (void)compile_alone(b->store, p);
}

static void build_wanted(fv_gpu_store *s, uint32_t count, uint32_t threads)
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
        if (p->built)
            note_compiled(s, p);
        keep(s, p);
    }
    s->wanted = NULL;
    pthread_mutex_unlock(&s->lock);
}
