/* ptx_warp.c: runs the lanes of one warp without a block, to test single functions. */
#include <stdlib.h>
#include <ucontext.h>

#include "tests/cuda_emulator/emulated_warp.h"
#include "tests/cuda_emulator/ptx.h"

enum { STACK = 64 << 10 };

extern emulated_link emulated;

static void fail(const char *what, unsigned line)
{
    (void)line;
    ptx_wrong("the emulator: %s", what);
}

const emulated_calls emulated_block_calls = {
    .fail = fail}; /* the only function that emulated_warp.c uses */

static ucontext_t scheduler, context[EMULATED_WARP];
static char *stacks;
static bool done[EMULATED_WARP];
static int current = -1;
static void (*function)(int lane, void *context);
static void *argument;

static void *brought[EMULATED_WARP];
static unsigned arrived, meetings;

static void run_lane(void)
{
    function(current, argument);
    done[current] = true;
}

void emulated_meet(unsigned mask, emulated_warp_fn *meeting, void *mine)
{
    if (current < 0 || mask != ~0u) {
        ptx_wrong("lanes meet that are not a whole warp");
        return;
    }
    brought[current] = mine;
    if (++arrived == EMULATED_WARP) {
        arrived = 0;
        meetings++;
        meeting(brought, mask);
        return;
    }
    const unsigned before = meetings;
    while (meetings == before)
        swapcontext(&context[current], &scheduler);
}

/* Runs every lane until it waits. Returns false if no lane made progress. */
static bool take_next(int *left)
{
    const unsigned before = meetings;
    const int waiting = *left;
    *left = 0;
    for (current = 0; current < EMULATED_WARP; current++) {
        const emulated_place place = {{(unsigned)current, 0, 0}, {0, 0, 0}, {32, 1, 1}, {1, 1, 1}};
        if (done[current])
            continue;
        emulated.here = &place;
        swapcontext(&scheduler, &context[current]);
        *left += !done[current];
    }
    current = -1;
    return *left < waiting || meetings != before;
}

void ptx_warp(void (*lane)(int lane, void *context), void *of_lane)
{
    int left = EMULATED_WARP + 1;
    if (!stacks && !(stacks = malloc((size_t)EMULATED_WARP * STACK)))
        abort();
    function = lane;
    argument = of_lane;
    arrived = 0;
    for (int i = 0; i < EMULATED_WARP; i++) {
        done[i] = false;
        getcontext(&context[i]);
        context[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
        context[i].uc_stack.ss_size = STACK;
        context[i].uc_link = &scheduler;
        makecontext(&context[i], run_lane, 0);
    }
    while (take_next(&left))
        ;
    if (left)
        ptx_wrong("%d lanes wait for others", left);
}
