/* emulated_stream.c: streams, events and graphs, and the thread that acts as the device. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda_emulator/emulated_driver.h"

enum kind { LAUNCH, COPY, FILL, RECORD, WAIT, REPLAY };

typedef struct command {
    struct command *next;
    const struct command *node; /* node of the graph that it was made from */
    enum kind kind;
    /* LAUNCH */
    CUfunction function;
    emulated_dim blocks, threads;
    unsigned dynamic;
    char *params;
    /* COPY, FILL; `own`: the source bytes are a private copy */
    char *to;
    const char *from;
    char *own;
    size_t size, rows, to_pitch, from_pitch; /* bytes of a row, number of rows; rows 0: one row */
    unsigned char value;
    /* RECORD, WAIT */
    CUevent event;
    uint64_t version;
    /* REPLAY */
    CUgraphExec exec;
} command;

struct CUstream_st {
    CUstream next;
    uint64_t number; /* unique */
    command *first, *last;
    bool busy, destroyed;
    CUgraph capture; /* graph to which enqueued commands are added */
    bool origin;     /* whether the capture began in this stream */
    bool unjoined;   /* commands were captured that the origin does not wait for yet */
};

struct CUevent_st {
    int holders; /* references: its own and those of commands */
    bool timed, destroyed;
    uint64_t recorded, done;
    double time;     /* milliseconds */
    CUgraph capture; /* capture in which it was recorded, in the stream of that number */
    uint64_t captured_in;
};

struct CUgraph_st {
    int holders; /* references: its own and those of events */
    command *first, *last;
    CUgraphNode latest; /* the last command, as a node */
    bool capturing, invalid;
    CUstreamCaptureMode mode;
    pthread_t owner;
};

struct CUgraphExec_st {
    command *first, *last;
    CUgraph of;
    int holders; /* references: its own and those of unfinished replays */
};

static CUstream streams;
static uint64_t numbered;
static pid_t device_process; /* process of the device's thread */
static bool asked;           /* the host waits for the device */
static long waits;           /* number of waits for events, some of which are left out */
pthread_cond_t emulated_work = PTHREAD_COND_INITIALIZER;
static char alternate[64 << 10];

/* ---- commands ---- */

static void commands_free(command *c);

static void graph_drop(CUgraph g)
{
    if (g && --g->holders == 0) {
        commands_free(g->first);
        free(g);
    }
}

static void event_drop(CUevent e)
{
    if (--e->holders)
        return;
    graph_drop(e->capture);
    free(e);
}

static void exec_drop(CUgraphExec x)
{
    if (--x->holders)
        return;
    commands_free(x->first);
    free(x);
}

static void command_free(command *c)
{
    if (c->event)
        event_drop(c->event);
    if (c->exec)
        exec_drop(c->exec);
    free(c->params);
    free(c->own);
    free(c);
}

static void commands_free(command *c)
{
    while (c) {
        command *next = c->next;
        command_free(c);
        c = next;
    }
}

static size_t params_size(CUfunction f)
{
    return f->entry->params ? f->entry->param[f->entry->params].at : 0;
}

static void *copy_of(const void *from, size_t size)
{
    void *out = malloc(size + 1);
    if (!out)
        abort();
    return memcpy(out, from, size);
}

static command *command_copy(const command *c)
{
    command *out = copy_of(c, sizeof *c);
    out->next = NULL;
    out->node = c;
    if (c->params)
        out->params = copy_of(c->params, params_size(c->function));
    if (c->own)
        out->from = out->own = copy_of(c->own, c->size * (c->rows ? c->rows : 1));
    if (c->event)
        c->event->holders++;
    return out;
}

static void append(command **first, command **last, command *c)
{
    if (*first)
        (*last)->next = c;
    else
        *first = c;
    *last = c;
}

/* ---- the device ---- */

/* While a kernel runs, the emulator handles these signals. Otherwise the test's own handlers are
 * active. */
static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[SIGNALS];

static void on_signal(int signal, siginfo_t *info, void *context)
{
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == signal && !emulated_caught(signal, info, context))
            sigaction(signal, &before[i], NULL); /* happens again */
}

static enum emulated_end run_kernel(const emulated_launch *l)
{
    const struct sigaction action = {.sa_sigaction = on_signal,
                                     .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, &before[i]);
    const enum emulated_end end = emulated_run(l);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
    return end;
}

static CUresult launch(const command *c)
{
    static const CUresult errors[] = {[EMULATED_ILLEGAL] = CUDA_ERROR_ILLEGAL_ADDRESS,
                                      [EMULATED_UNALIGNED] = CUDA_ERROR_MISALIGNED_ADDRESS,
                                      [EMULATED_STUCK] = CUDA_ERROR_LAUNCH_FAILED,
                                      [EMULATED_TRAPPED] = CUDA_ERROR_LAUNCH_FAILED};
    void *params[64];
    const emulated_entry *e = c->function->entry;
    for (unsigned i = 0; i < e->params; i++)
        params[i] = c->params + e->param[i].at;
    const emulated_launch l = {
        .entry = e,
        .link = c->function->link,
        .shared_map = c->function->shared_map,
        .blocks = c->blocks,
        .threads = c->threads,
        .dynamic = c->dynamic,
        .params = params,
        .order = hostile_lie(EMULATED_LIE_order, 0) ? EMULATED_BACKWARD : EMULATED_FORWARD,
        .racing = hostile_lie(EMULATED_LIE_barrier, 1) == 0,
    };
    return errors[run_kernel(&l)];
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static CUresult run_command(const command *c)
{
    CUresult error = CUDA_SUCCESS;
    switch (c->kind) {
    case LAUNCH:
        return launch(c);
    case COPY:
        for (size_t y = 0; y == 0 || y < c->rows; y++)
            memcpy(c->to + y * c->to_pitch, c->from + y * c->from_pitch, c->size);
        break;
    case FILL:
        memset(c->to, c->value, c->size);
        break;
    case RECORD:
        pthread_mutex_lock(&hostile_lock);
        c->event->time = milliseconds();
        c->event->done = c->version;
        pthread_mutex_unlock(&hostile_lock);
        break;
    case WAIT:
        break;
    case REPLAY:
        for (const command *k = c->exec->first; k && error == CUDA_SUCCESS; k = k->next)
            error = run_command(k);
        return error;
    }
    return CUDA_SUCCESS;
}

static bool has_kernel(const command *c)
{
    if (c->kind == REPLAY)
        for (const command *k = c->exec->first; k; k = k->next)
            if (k->kind == LAUNCH)
                return true;
    return c->kind == LAUNCH;
}

/* Returns whether the device will never finish the command. */
static bool is_stuck(const command *c)
{
    const long hang = hostile_lie(EMULATED_LIE_hang, 0);
    return hang == 1 || (hang == 2 && has_kernel(c));
}

static bool may_run(const command *c)
{
    if (c->kind == WAIT && c->event->done < c->version)
        return false;
    return !is_stuck(c);
}

/* Ends the capture in all participating streams. Returns false if one of them was not joined to the
 * first. */
static bool end_capture(CUgraph g)
{
    bool joined = true;
    g->capturing = false;
    for (CUstream s = streams; s; s = s->next)
        if (s->capture == g) {
            joined = joined && !s->unjoined;
            s->capture = NULL;
            s->origin = s->unjoined = false;
        }
    return joined;
}

static void stream_free(CUstream s)
{
    CUgraph capture = s->capture;
    if (capture && s->origin) {
        end_capture(capture);
        graph_drop(capture);
    }
    for (CUstream *p = &streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    commands_free(s->first);
    free(s);
}

/* After a failure, drops all remaining commands. */
static void abandon_all(void)
{
    for (CUstream s = streams; s; s = s->next)
        while (s->first) {
            command *c = s->first;
            s->first = c->next;
            if (c->kind == RECORD)
                c->event->done = c->version;
            command_free(c);
        }
}

static void run_first(CUstream s)
{
    command *c = s->first;
    s->first = c->next;
    s->busy = true;
    pthread_mutex_unlock(&hostile_lock);
    const CUresult error = run_command(c);
    pthread_mutex_lock(&hostile_lock);
    s->busy = false;
    command_free(c);
    if (error != CUDA_SUCCESS) {
        emulated_break(error);
        abandon_all();
    }
    if (s->destroyed && !s->first)
        stream_free(s);
    pthread_cond_broadcast(&emulated_changed);
}

/* Returns the next stream with work. How much the device does before the host has enqueued a frame
 * depends on timing, so with a fixed order of streams the device first waits for the host. */
static CUstream next_stream(void)
{
    const long order = hostile_lie(EMULATED_LIE_streams, 0);
    CUstream found = NULL;
    for (CUstream s = streams; s && (!order || asked); s = s->next)
        if (s->first && may_run(s->first) && (!found || order == 1))
            found = s;
    return found;
}

static void *device(void *nothing)
{
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    pthread_mutex_lock(&hostile_lock);
    for (;;) {
        CUstream s = next_stream();
        if (s) {
            run_first(s);
        } else {
            asked = false;
            pthread_cond_wait(&emulated_work, &hostile_lock);
        }
    }
    return nothing;
}

/* Requires the lock. Notes that the host waits for the device. */
static void ask(void)
{
    asked = true;
    pthread_cond_signal(&emulated_work);
}

/* Requires the lock. A forked child does not have its parent's device thread. */
static void start_device(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (device_process == getpid())
        return;
    device_process = getpid();
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, device, NULL) != 0)
        abort();
    pthread_attr_destroy(&attributes);
}

static bool stream_is_idle(const CUstream s)
{
    return !s->first && !s->busy;
}

/* Returns whether a stream hangs or waits for one that does. */
static bool never_ends(void)
{
    for (CUstream s = streams; s; s = s->next)
        if (s->busy || (s->first && may_run(s->first)))
            return false;
    return true;
}

bool emulated_idle(const char *call)
{
    bool idle = false, never = false;
    pthread_mutex_lock(&hostile_lock);
    while (!idle && !never) {
        idle = true;
        for (CUstream s = streams; s; s = s->next)
            idle = idle && stream_is_idle(s);
        never = !idle && never_ends();
        if (never) {
            char what[128];
            snprintf(what, sizeof what, "%s waits for what does not end", call);
            hostile_misused(what);
        } else if (!idle) {
            ask();
            pthread_cond_wait(&emulated_changed, &hostile_lock);
        }
    }
    pthread_mutex_unlock(&hostile_lock);
    return idle;
}

void emulated_streams_drop(void)
{
    const void *handle;
    pthread_mutex_lock(&hostile_lock);
    while ((handle = hostile_any(EMULATED_EXEC)) && hostile_dies(EMULATED_EXEC, handle))
        exec_drop((CUgraphExec)(uintptr_t)handle);
    while ((handle = hostile_any(EMULATED_GRAPH)) && hostile_dies(EMULATED_GRAPH, handle))
        graph_drop((CUgraph)(uintptr_t)handle);
    while ((handle = hostile_any(EMULATED_EVENT)) && hostile_dies(EMULATED_EVENT, handle))
        event_drop((CUevent)(uintptr_t)handle);
    for (CUstream s = streams, next; s; s = next) {
        next = s->next;
        if (!s->destroyed)
            hostile_dies(EMULATED_STREAM, s);
        stream_free(s);
    }
    pthread_mutex_unlock(&hostile_lock);
}

void emulated_waits_begin(void)
{
    waits = 0;
}

/* ---- enqueueing (requires the lock) ---- */

/* Enqueues the command and owns it from then on. */
static CUresult enqueue(CUstream s, command like)
{
    command *c = copy_of(&like, sizeof like);
    if (s->capture && s->capture->invalid) {
        command_free(c);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (s->capture) {
        append(&s->capture->first, &s->capture->last, c);
        s->unjoined = !s->origin;
    } else {
        start_device();
        append(&s->first, &s->last, c);
        pthread_cond_signal(&emulated_work);
    }
    return CUDA_SUCCESS;
}

static bool is_stream(CUstream s)
{
    return s && hostile_find(EMULATED_STREAM, s);
}

#define LOCKED_STREAM(s)                                                                           \
    do {                                                                                           \
        pthread_mutex_lock(&hostile_lock);                                                         \
        if (!is_stream(s)) {                                                                       \
            pthread_mutex_unlock(&hostile_lock);                                                   \
            return CUDA_ERROR_INVALID_HANDLE;                                                      \
        }                                                                                          \
    } while (0)

static CUresult unlocked(CUresult error)
{
    pthread_mutex_unlock(&hostile_lock);
    return error;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER(cuStreamCreate);
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream s = calloc(1, sizeof *s);
    if (!s)
        abort();
    pthread_mutex_lock(&hostile_lock);
    s->number = ++numbered;
    s->next = streams;
    streams = s;
    hostile_born(EMULATED_STREAM, s);
    *stream = s;
    return unlocked(CUDA_SUCCESS);
}

/* Enqueued commands are still executed. */
CUresult cuStreamDestroy_v2(CUstream s)
{
    pthread_mutex_lock(&hostile_lock);
    if (!hostile_dies(EMULATED_STREAM, s))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    s->destroyed = true;
    if (stream_is_idle(s))
        stream_free(s);
    return unlocked(emulated_context_error());
}

/* ---- memory ---- */

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream s)
{
    char *const at = (char *)(uintptr_t)to;
    ENTER(cuMemcpyHtoDAsync);
    LOCKED_STREAM(s);
    if (!emulated_is_device(at, size))
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    command c = {.kind = COPY, .to = at, .from = from, .size = size};
    if (!emulated_is_pinned(from, size)) /* copied immediately */
        c.from = c.own = copy_of(from, size);
    return unlocked(enqueue(s, c));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream s)
{
    const char *const at = (const char *)(uintptr_t)from;
    ENTER(cuMemcpyDtoHAsync);
    LOCKED_STREAM(s);
    if (!emulated_is_device(at, size))
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    return unlocked(enqueue(s, (command){.kind = COPY, .to = to, .from = at, .size = size}));
}

static bool rows_are_device(const char *at, const command *c, size_t pitch)
{
    return pitch >= c->size && emulated_is_device(at, (c->rows - 1) * pitch + c->size);
}

/* Returns the source of a copy's rows, or NULL if the address is invalid. Unpinned memory is copied
 * immediately. */
static const char *source_of(const CUDA_MEMCPY2D *copy, command *c)
{
    const char *at = NULL;
    c->from_pitch = copy->srcPitch;
    if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY) {
        c->from_pitch = copy->srcArray->pitch;
        return copy->srcArray->at;
    }
    if (copy->srcMemoryType == CU_MEMORYTYPE_DEVICE) {
        at = (const char *)(uintptr_t)copy->srcDevice;
        return rows_are_device(at, c, copy->srcPitch) ? at : NULL;
    }
    at = copy->srcHost;
    if (copy->srcMemoryType != CU_MEMORYTYPE_HOST || copy->srcPitch < c->size ||
        emulated_is_pinned(at, (c->rows - 1) * copy->srcPitch + c->size))
        return copy->srcMemoryType == CU_MEMORYTYPE_HOST ? at : NULL;
    c->own = malloc(c->rows * c->size);
    for (size_t y = 0; c->own && y < c->rows; y++)
        memcpy(c->own + y * c->size, at + y * copy->srcPitch, c->size);
    c->from_pitch = c->size;
    return c->own;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream s)
{
    command c = {.kind = COPY,
                 .to = (char *)(uintptr_t)copy->dstDevice,
                 .size = copy->WidthInBytes,
                 .rows = copy->Height,
                 .to_pitch = copy->dstPitch};
    ENTER(cuMemcpy2DAsync);
    LOCKED_STREAM(s);
    if (!c.size || !c.rows || copy->dstMemoryType != CU_MEMORYTYPE_DEVICE ||
        !rows_are_device(c.to, &c, c.to_pitch))
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    c.from = source_of(copy, &c);
    return unlocked(c.from ? enqueue(s, c) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream s)
{
    char *const at = (char *)(uintptr_t)to;
    ENTER(cuMemsetD8Async);
    LOCKED_STREAM(s);
    if (!emulated_is_device(at, size))
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    return unlocked(enqueue(s, (command){.kind = FILL, .to = at, .value = value, .size = size}));
}

/* ---- kernels ---- */

CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream s, void **parameters, void **extra)
{
    const emulated_entry *e = f->entry;
    const uint64_t threads = (uint64_t)block_x * block_y * block_z;
    ENTER(cuLaunchKernel);
    if (extra || !grid_x || !grid_y || !grid_z || !threads || grid_x > INT32_MAX ||
        grid_y > 65535 || grid_z > 65535 || threads > EMULATED_THREADS || block_z > 64 ||
        (int)shared > f->dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->bound && threads > e->bound)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    LOCKED_STREAM(s);
    command c = {.kind = LAUNCH,
                 .function = f,
                 .blocks = {grid_x, grid_y, grid_z},
                 .threads = {block_x, block_y, block_z},
                 .dynamic = shared,
                 .params = malloc(params_size(f) + 1)};
    for (unsigned i = 0; i < e->params; i++)
        memcpy(c.params + e->param[i].at, parameters[i], e->param[i].size);
    return unlocked(enqueue(s, c));
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER(cuEventCreate);
    CUevent e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->holders = 1;
    e->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    pthread_mutex_lock(&hostile_lock);
    hostile_born(EMULATED_EVENT, e);
    *event = e;
    return unlocked(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent e)
{
    pthread_mutex_lock(&hostile_lock);
    if (!hostile_dies(EMULATED_EVENT, e))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    event_drop(e);
    return unlocked(emulated_context_error());
}

static bool is_event(CUevent e)
{
    return e && hostile_find(EMULATED_EVENT, e);
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
    ENTER(cuEventRecord);
    LOCKED_STREAM(s);
    if (!is_event(e))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    if (s->capture) { /* the event marks its position in the captured work */
        graph_drop(e->capture);
        e->capture = s->capture;
        e->capture->holders++;
        e->captured_in = s->number;
        return unlocked(CUDA_SUCCESS);
    }
    graph_drop(e->capture);
    e->capture = NULL;
    e->holders++;
    e->recorded++;
    return unlocked(enqueue(s, (command){.kind = RECORD, .event = e, .version = e->recorded}));
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    ENTER(cuStreamWaitEvent);
    LOCKED_STREAM(s);
    if (flags || !is_event(e))
        return unlocked(flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    if (e->capture) { /* graphs are run in the order of their capture */
        if (!e->capture->capturing || (s->capture && s->capture != e->capture))
            return unlocked(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        s->capture = e->capture;
        for (CUstream from = streams; from; from = from->next)
            if (from->number == e->captured_in)
                from->unjoined = false;
        return unlocked(CUDA_SUCCESS);
    }
    if (s->capture) {
        s->capture->invalid = true;
        return unlocked(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    const long unwaited = hostile_lie(EMULATED_LIE_unwaited, 0);
    if (unwaited && ++waits % 2 == unwaited % 2)
        return unlocked(CUDA_SUCCESS);
    e->holders++;
    return unlocked(enqueue(s, (command){.kind = WAIT, .event = e, .version = e->recorded}));
}

CUresult cuEventQuery(CUevent e)
{
    ENTER_UNSAFE(cuEventQuery);
    pthread_mutex_lock(&hostile_lock);
    if (!is_event(e))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    if (e->capture)
        return unlocked(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (e->done == e->recorded)
        return unlocked(emulated_context_error());
    ask();
    return unlocked(CUDA_ERROR_NOT_READY);
}

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
    ENTER(cuEventElapsedTime);
    pthread_mutex_lock(&hostile_lock);
    if (!is_event(begin) || !is_event(end) || !begin->timed || !end->timed || !begin->recorded ||
        !end->recorded)
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    if (begin->done != begin->recorded || end->done != end->recorded)
        return unlocked(CUDA_ERROR_NOT_READY);
    *ms = (float)(end->time - begin->time);
    return unlocked(CUDA_SUCCESS);
}

/* ---- graphs ---- */

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode)
{
    ENTER(cuStreamBeginCapture);
    if (!hostile_lie(EMULATED_LIE_graphs, 1))
        return CUDA_ERROR_NOT_SUPPORTED;
    LOCKED_STREAM(s);
    if (s->capture)
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    s->capture = calloc(1, sizeof *s->capture);
    if (!s->capture)
        abort();
    s->capture->holders = 1;
    s->capture->capturing = true;
    s->capture->mode = mode;
    s->capture->owner = pthread_self();
    s->origin = true;
    return unlocked(CUDA_SUCCESS);
}

CUresult emulated_capture_error(void)
{
    const CUstreamCaptureMode ours = emulated_capture_mode();
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&hostile_lock);
    for (CUstream s = streams; s; s = s->next) {
        const CUgraph g = s->capture;
        if (!g || ours == CU_STREAM_CAPTURE_MODE_RELAXED ||
            g->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        const bool everywhere =
            g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && ours == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (everywhere || pthread_equal(g->owner, pthread_self())) {
            g->invalid = true;
            error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&hostile_lock);
    return error;
}

/* Returns the node that the stream's next command will depend on: the previous one, because a
 * single stream captures. */
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, uint64_t *id,
                                   CUgraph *graph, const CUgraphNode **last, size_t *count)
{
    ENTER(cuStreamGetCaptureInfo_v2);
    LOCKED_STREAM(s);
    CUgraph g = s->capture;
    if (id || graph)
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    *status = g != NULL;
    *count = g && g->last;
    if (*count) {
        g->latest = (CUgraphNode)(void *)g->last;
        *last = &g->latest;
    }
    return unlocked(CUDA_SUCCESS);
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
    *graph = NULL;
    const CUresult error = hostile_enter("cuStreamEndCapture");
    LOCKED_STREAM(s);
    CUgraph g = s->capture;
    if (!g || !s->origin)
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    const bool joined = end_capture(g);
    if (error != CUDA_SUCCESS || g->invalid || !joined) {
        const CUresult why =
            g->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        graph_drop(g);
        return unlocked(error != CUDA_SUCCESS ? error : why);
    }
    hostile_born(EMULATED_GRAPH, g);
    *graph = g;
    return unlocked(CUDA_SUCCESS);
}

CUresult cuGraphDestroy(CUgraph g)
{
    pthread_mutex_lock(&hostile_lock);
    if (!hostile_dies(EMULATED_GRAPH, g))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    graph_drop(g);
    return unlocked(emulated_context_error());
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph g, unsigned long long flags)
{
    ENTER(cuGraphInstantiate);
    if (flags & ~15ull)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec x = calloc(1, sizeof *x);
    if (!x)
        abort();
    pthread_mutex_lock(&hostile_lock);
    if (!hostile_find(EMULATED_GRAPH, g)) {
        free(x);
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    }
    x->holders = 1;
    x->of = g;
    for (const command *c = g->first; c; c = c->next)
        append(&x->first, &x->last, command_copy(c));
    hostile_born(EMULATED_EXEC, x);
    *exec = x;
    return unlocked(CUDA_SUCCESS);
}

CUresult cuGraphUpload(CUgraphExec x, CUstream s)
{
    ENTER(cuGraphUpload);
    LOCKED_STREAM(s);
    return unlocked(hostile_find(EMULATED_EXEC, x) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuGraphLaunch(CUgraphExec x, CUstream s)
{
    ENTER(cuGraphLaunch);
    LOCKED_STREAM(s);
    if (!hostile_find(EMULATED_EXEC, x))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    x->holders++;
    return unlocked(enqueue(s, (command){.kind = REPLAY, .exec = x}));
}

/* Returns the exec's copy of a node, or NULL if it has none or the graph was destroyed. */
static command *copy_of_node(CUgraphExec x, CUgraphNode node)
{
    if (!hostile_find(EMULATED_GRAPH, x->of)) {
        hostile_misused("a node of a graph that was destroyed");
        return NULL;
    }
    for (command *c = x->first; c; c = c->next)
        if (c->node == (const void *)node)
            return c;
    return NULL;
}

/* Takes effect from the next replay on. Replays in flight keep their parameters on a real device,
 * but would not here. */
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec x, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *p)
{
    ENTER(cuGraphExecKernelNodeSetParams);
    pthread_mutex_lock(&hostile_lock);
    if (!hostile_find(EMULATED_EXEC, x))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    command *c = copy_of_node(x, node);
    if (!c || c->kind != LAUNCH || c->function != p->func || p->extra || p->kern || p->ctx ||
        p->gridDimX != c->blocks.x || p->gridDimY != c->blocks.y || p->gridDimZ != c->blocks.z ||
        p->blockDimX != c->threads.x || p->blockDimY != c->threads.y ||
        p->blockDimZ != c->threads.z || p->sharedMemBytes != c->dynamic)
        return unlocked(CUDA_ERROR_INVALID_VALUE);
    if (x->holders > 1)
        hostile_misused("a graph is changed while it is replayed");
    const emulated_entry *e = c->function->entry;
    for (unsigned i = 0; i < e->params; i++)
        memcpy(c->params + e->param[i].at, p->kernelParams[i], e->param[i].size);
    return unlocked(CUDA_SUCCESS);
}

CUresult cuGraphExecDestroy(CUgraphExec x)
{
    pthread_mutex_lock(&hostile_lock);
    if (!hostile_dies(EMULATED_EXEC, x))
        return unlocked(CUDA_ERROR_INVALID_HANDLE);
    exec_drop(x);
    return unlocked(emulated_context_error());
}
