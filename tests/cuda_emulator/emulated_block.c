/* emulated_block.c: runs blocks of threads on one processor.
 *
 * Every thread has its own stack and runs until it must wait for others of its warp or block. The
 * stack of a finished thread is reused, so a kernel without barriers needs only one. */
#include "tests/cuda_emulator/emulated_block.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/cuda_emulator/emulated_warp.h"

#ifndef __x86_64__
#error "threads are switched in x86-64 assembly"
#endif

enum {
    STACK = 256 << 10,
    PAGE = 4096,
    WARPS = EMULATED_THREADS / EMULATED_WARP,
    COPIES = 256,     /* pending copies per thread */
    CANARY = 256,     /* guard bytes after the requested shared memory */
    UNWRITTEN = 0xff, /* byte that makes unwritten shared memory NaN */
};

typedef struct copy {
    void *to;
    const void *from;
    unsigned size, present, group;
} copy;

typedef struct thread {
    emulated_place place;
    void *stack_pointer; /* NULL: not started */
    char *stack;
    copy *copies; /* array of COPIES, allocated when first needed */
    unsigned copying, groups;
} thread;

typedef struct warp {
    unsigned ready, waiting; /* lanes that can run; lanes that wait for others of the warp */
    unsigned alive, wanted;  /* `wanted`: lanes for which the waiting lanes wait */
    emulated_warp_fn *meeting;
    void *brought[EMULATED_WARP];
} warp;

static struct {
    const emulated_launch *launch;
    thread thread[EMULATED_THREADS];
    warp warp[WARPS];
    char *free_stack[EMULATED_THREADS];
    unsigned free_stacks, stacks;
    unsigned threads, alive, at_barrier;
    thread *now;     /* NULL: no thread runs */
    void *scheduler; /* the scheduler's stack pointer while a thread runs */
    enum emulated_end end;
    pthread_t runner; /* the thread that acts as the device */
} block;

/* ---- switching stacks ---- */

/* Saves the current context in *save and resumes the context `to`. */
void emulated_switch(void **save, void *to);
void emulated_begin(void);
__asm__(".text\n"
        ".globl emulated_switch\n.hidden emulated_switch\n.type emulated_switch, @function\n"
        "emulated_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
        "ret\n"
        ".size emulated_switch, .-emulated_switch\n"
        ".globl emulated_begin\n.hidden emulated_begin\n.type emulated_begin, @function\n"
        "emulated_begin:\n"
        "xor %ebp, %ebp\n"
        "call emulated_thread\n"
        "ud2\n"
        ".size emulated_begin, .-emulated_begin\n");

static _Noreturn void leave(void)
{
    void *never;
    block.now = NULL;
    emulated_switch(&never, block.scheduler);
    abort();
}

static warp *warp_of(const thread *t)
{
    return &block.warp[(t - block.thread) / EMULATED_WARP];
}

static unsigned lane_of(const thread *t)
{
    return (unsigned)(t - block.thread) % EMULATED_WARP;
}

__attribute__((visibility("hidden"), noreturn, used)) void emulated_thread(void);
void emulated_thread(void)
{
    const emulated_launch *l = block.launch;
    l->entry->run(l->params);
    thread *t = block.now;
    warp *w = warp_of(t);
    w->alive &= ~(1u << lane_of(t));
    w->ready &= w->alive;
    block.alive--;
    if (t->copying) { /* a thread's last copies are made even if nothing waits for them */
        fprintf(stderr, "emulated CUDA: %s: a thread ends before its copies do\n", l->entry->name);
        block.end = EMULATED_TRAPPED;
    }
    block.free_stack[block.free_stacks++] = t->stack;
    t->stack = NULL;
    leave();
}

/* The tops of stacks map to different sets of the processor's caches. */
static void *top_of(char *stack, unsigned color)
{
    return stack + STACK - 64 - color % 57 * 832;
}

static void begin(thread *t)
{
    if (block.free_stacks == 0) {
        char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED || mprotect(stack, PAGE, PROT_NONE) != 0)
            abort();
        block.free_stack[block.free_stacks++] = stack;
        block.stacks++;
    }
    t->stack = block.free_stack[--block.free_stacks];
    void **top = top_of(t->stack, (unsigned)((uintptr_t)t->stack / STACK));
    *--top = (void *)emulated_begin;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    t->stack_pointer = top;
}

static void go_to(thread *t, void **save)
{
    if (!t->stack_pointer)
        begin(t);
    block.now = t;
    block.launch->link->here = &t->place;
    emulated_switch(save, t->stack_pointer);
}

static unsigned pick(unsigned ready)
{
    return block.launch->order == EMULATED_FORWARD ? (unsigned)__builtin_ctz(ready)
                                                   : 31u - (unsigned)__builtin_clz(ready);
}

/* Suspends the running thread; another thread of its warp runs, or else any other. */
static void wait_for_others(warp *w)
{
    thread *t = block.now;
    if (w->ready) {
        thread *other = &block.thread[(w - block.warp) * EMULATED_WARP + pick(w->ready)];
        go_to(other, &t->stack_pointer);
    } else {
        block.now = NULL;
        emulated_switch(&t->stack_pointer, block.scheduler);
    }
}

/* ---- waiting ---- */

static void fail(enum emulated_end end, const char *what)
{
    const emulated_place *p = block.launch->link->here;
    fprintf(stderr, "emulated CUDA: %s: block (%u, %u, %u), thread (%u, %u, %u): %s\n",
            block.launch->entry->name, p->block.x, p->block.y, p->block.z, p->thread.x, p->thread.y,
            p->thread.z, what);
    block.end = end;
}

static void barrier(void)
{
    thread *t = block.now;
    warp *w = warp_of(t);
    if (block.launch->racing)
        return;
    w->ready &= ~(1u << lane_of(t));
    block.at_barrier++;
    wait_for_others(w);
}

void emulated_meet(unsigned mask, emulated_warp_fn *meeting, void *mine)
{
    thread *t = block.now;
    warp *w = warp_of(t);
    const unsigned me = 1u << lane_of(t);
    if (!(mask & me) || (w->waiting && (w->meeting != meeting || w->wanted != mask))) {
        fail(EMULATED_STUCK, mask & me ? "lanes of a warp wait for different things"
                                       : "a lane is not in the mask that it gives");
        leave();
    }
    w->brought[lane_of(t)] = mine;
    w->meeting = meeting;
    w->wanted = mask;
    w->waiting |= me;
    w->ready &= ~me;
    if (w->waiting == (mask & w->alive)) {
        meeting(w->brought, w->waiting);
        w->ready |= w->waiting;
        w->waiting = 0;
    } else {
        wait_for_others(w);
    }
}

unsigned emulated_lane(void)
{
    return lane_of(block.now);
}

/* ---- asynchronous copies ---- */

static void make_copy(const copy *c)
{
    memcpy(c->to, c->from, c->present);
    memset((char *)c->to + c->present, 0, c->size - c->present);
}

static void add_copy(void *to, const void *from, unsigned size, unsigned present)
{
    thread *t = block.now;
    const copy c = {to, from, size, present, t->groups};
    if (((uintptr_t)to | (uintptr_t)from) % size || present > size) {
        fail(EMULATED_UNALIGNED, "a copy that is not aligned");
        leave();
    }
    if (block.launch->order == EMULATED_BACKWARD)
        make_copy(&c); /* as early as possible, otherwise as late as possible */
    if (!t->copies && !(t->copies = malloc(COPIES * sizeof *t->copies)))
        abort();
    if (t->copying == COPIES) {
        fail(EMULATED_TRAPPED, "more copies than the emulator has room for");
        leave();
    }
    t->copies[t->copying++] = c;
}

static void commit_copies(void)
{
    block.now->groups++;
}

static void wait_copies(unsigned groups)
{
    thread *t = block.now;
    unsigned left = 0;
    for (unsigned i = 0; i < t->copying; i++) {
        const copy *c = &t->copies[i];
        if (c->group + groups >= t->groups)
            t->copies[left++] = *c;
        else if (block.launch->order == EMULATED_FORWARD)
            make_copy(c);
    }
    t->copying = left;
}

static void trap(const char *what, unsigned line)
{
    char text[256];
    snprintf(text, sizeof text, "line %u of the program: %s", line, what);
    fail(strstr(what, "align") ? EMULATED_UNALIGNED : EMULATED_TRAPPED, text);
    leave();
}

const emulated_calls emulated_block_calls = {
    .barrier = barrier,
    .warp_sync = emulated_warp_sync,
    .shuffle = emulated_shuffle,
    .ballot = emulated_ballot,
    .load_matrices = emulated_load_matrices,
    .multiply = emulated_multiply,
    .copy = add_copy,
    .copy_commit = commit_copies,
    .copy_wait = wait_copies,
    .fail = trap,
};

/* ---- blocks ---- */

static void set_up_threads(const emulated_launch *l)
{
    const emulated_dim n = l->threads;
    block.threads = n.x * n.y * n.z;
    for (unsigned i = 0; i < block.threads; i++)
        block.thread[i].place =
            (emulated_place){{i % n.x, i / n.x % n.y, i / n.x / n.y}, {0, 0, 0}, n, l->blocks};
}

static void set_up_block(const emulated_launch *l, emulated_dim at)
{
    const emulated_shared_memory *shared_map = l->shared_map;
    block.alive = block.threads;
    block.at_barrier = 0;
    memset(shared_map->variables, UNWRITTEN,
           (size_t)(shared_map->variables_end - shared_map->variables));
    memset(shared_map->dynamic, UNWRITTEN, l->dynamic + CANARY);
    for (unsigned i = 0; i < block.threads; i++) {
        block.thread[i].place.block = at;
        block.thread[i].stack_pointer = NULL;
        block.thread[i].copying = block.thread[i].groups = 0;
    }
    for (unsigned i = 0; i * EMULATED_WARP < block.threads; i++) {
        const unsigned left = block.threads - i * EMULATED_WARP;
        warp *w = &block.warp[i];
        w->ready = w->alive = left >= EMULATED_WARP ? ~0u : (1u << left) - 1;
        w->waiting = 0;
    }
}

/* Returns the next warp that can run, from `first` on, or NULL. */
static warp *next_warp(unsigned warps)
{
    const bool forward = block.launch->order == EMULATED_FORWARD;
    for (unsigned i = 0; i < warps; i++) {
        warp *w = &block.warp[forward ? i : warps - 1 - i];
        if (w->ready)
            return w;
    }
    return NULL;
}

/* Lets the threads pass if all remaining ones wait at a barrier. */
static bool open_barrier(unsigned warps)
{
    if (block.at_barrier != block.alive)
        return false;
    block.at_barrier = 0;
    for (unsigned i = 0; i < warps; i++)
        block.warp[i].ready = block.warp[i].alive;
    return true;
}

static void run_threads(void)
{
    const unsigned warps = (block.threads + EMULATED_WARP - 1) / EMULATED_WARP;
    while (block.alive && block.end == EMULATED_DONE) {
        warp *w = next_warp(warps);
        if (w) {
            while (w->ready && block.end == EMULATED_DONE)
                go_to(&block.thread[(w - block.warp) * EMULATED_WARP + pick(w->ready)],
                      &block.scheduler);
        } else if (!open_barrier(warps)) {
            fail(EMULATED_STUCK, "threads wait at a barrier or for their warp, and others do not");
        }
    }
}

/* Frees the stacks of threads that did not finish. */
static void take_stacks(void)
{
    for (unsigned i = 0; i < block.threads; i++)
        if (block.thread[i].stack) {
            block.free_stack[block.free_stacks++] = block.thread[i].stack;
            block.thread[i].stack = NULL;
        }
}

static void check_canary(const emulated_launch *l)
{
    for (unsigned i = 0; i < CANARY; i++)
        if ((unsigned char)l->shared_map->dynamic[l->dynamic + i] != UNWRITTEN) {
            fail(EMULATED_ILLEGAL, "wrote behind the shared memory that was asked for");
            return;
        }
}

enum emulated_end emulated_run(const emulated_launch *l)
{
    block.launch = l;
    block.runner = pthread_self();
    block.end = EMULATED_DONE;
    set_up_threads(l);
    for (unsigned z = 0; z < l->blocks.z; z++)
        for (unsigned y = 0; y < l->blocks.y; y++)
            for (unsigned x = 0; x < l->blocks.x && block.end == EMULATED_DONE; x++) {
                set_up_block(l, (emulated_dim){x, y, z});
                run_threads();
                take_stacks();
                if (block.end == EMULATED_DONE)
                    check_canary(l);
            }
    block.launch = NULL;
    return block.end;
}

/* ---- signals ---- */

bool emulated_caught(int signal, siginfo_t *info, void *context)
{
    static char landing[64 << 10] __attribute__((aligned(64)));
    char what[128];
    thread *t = block.now;
    ucontext_t *c = context;
    if (!t || !pthread_equal(pthread_self(), block.runner))
        return false;
    const char *address = info->si_addr;
    const bool overflow = address >= t->stack && address < t->stack + PAGE;
    snprintf(what, sizeof what, overflow ? "its stack is full" : "%s at %p",
             signal == SIGFPE ? "a division by zero" : "no memory of the device", info->si_addr);
    fail(EMULATED_ILLEGAL, what);
    c->uc_mcontext.gregs[REG_RIP] = (greg_t)leave;
    c->uc_mcontext.gregs[REG_RSP] = (greg_t)(landing + sizeof landing - 8);
    return true;
}
