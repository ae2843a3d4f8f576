/* cpu_rates.c: measures the peak of a pool's processors: arithmetic in registers, and reading and
 * copying more memory than any cache holds. Work is cut into many pieces that the workers claim, so
 * that a worker that is preempted does not hold up the others.
 */
#include "platform/cpu/cpu_rates.h"

#include <string.h>

#include "base/mem.h"
#include "platform/cpu/cpu.h"
#include "platform/cpu/probe.h"
#include "platform/os/os_machine.h"

enum {
    TRIES = 3,
    FMA_PIECES = 64, /* per worker */
    FMA_ROUNDS = 1 << 15,
    PIECE = 1 << 18, /* floats of a piece of memory */
};
#define MEMORY (UINT64_C(256) << 20) /* bytes that are read, or copied from and to */
#define SHARE 16                     /* at most 1 / SHARE of the machine's memory */

struct level {
    uint32_t needs;
    double (*fma)(uint64_t rounds);
    float (*read)(const float *p, size_t n);
};

/* The last line holds for any processor. */
static const struct level levels[] = {
#ifdef FV_ARCH_X86
    {FV_NEED_AVX512, fv_probe_fma_avx512, fv_probe_read_avx512},
    {FV_NEED_AVX2, fv_probe_fma_avx2, fv_probe_read_avx2},
#endif
#ifdef FV_ARCH_ARM64
    {FV_NEED_NEON, fv_probe_fma_neon, fv_probe_read_neon},
#endif
    {FV_NEED_PORTABLE, fv_probe_fma_c, fv_probe_read_c},
};

struct probe {
    fv_pool *pool;
    const struct level *level;
    float *memory;
    uint32_t half; /* of its pieces */
};

static void compute(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const struct probe *p = arg;
    (void)phase, (void)unit, (void)slot;
    p->level->fma(FMA_ROUNDS);
}

/* Writes to the pages: untouched ones would all be the one page of zeros. */
static void touch(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const struct probe *p = arg;
    (void)phase, (void)slot;
    memset(p->memory + (size_t)unit * PIECE, 1, PIECE * sizeof(float));
}

static void read_piece(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const struct probe *p = arg;
    (void)phase, (void)slot;
    volatile float used = p->level->read(p->memory + (size_t)unit * PIECE, PIECE);
    (void)used;
}

/* From the first half to the second. */
static void copy_piece(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const struct probe *p = arg;
    (void)phase, (void)slot;
    float *from = p->memory + (size_t)unit * PIECE;
    memcpy(from + (size_t)p->half * PIECE, from, PIECE * sizeof(float));
}

static double seconds_of(struct probe *p, fv_unit_fn fn, uint32_t units)
{
    fv_job job = {.fn = fn, .arg = p, .units = &units, .phases = 1};
    const double begin = fv_machine_seconds();
    fv_pool_run(p->pool, &job);
    return fv_machine_seconds() - begin;
}

/* Shortest of several tries, in s. */
static double best(struct probe *p, fv_unit_fn fn, uint32_t units)
{
    double least = seconds_of(p, fn, units);
    for (int i = 1; i < TRIES; i++) {
        const double seconds = seconds_of(p, fn, units);
        least = seconds < least ? seconds : least;
    }
    return least;
}

fovea_status fv_cpu_rates(fv_pool *pool, uint32_t features, fovea_rates *out)
{
    const uint64_t share = fv_machine_memory() / SHARE, piece = PIECE * sizeof(float);
    struct probe p = {.pool = pool, .level = levels};
    p.half = (uint32_t)((share < MEMORY ? share : MEMORY) / piece / 2) + 1;
    while (p.level->needs & ~features)
        p.level++;
    FV_TRY(fv_mem_array(&p.memory, 2 * (uint64_t)p.half, piece, FV_MEM_DEVICE,
                        "measuring the memory"));
    seconds_of(&p, touch, 2 * p.half);
    const uint32_t units = fv_pool_threads(pool) * FMA_PIECES;
    const double bytes = 2.0 * p.half * (double)piece, flops = units * p.level->fma(FMA_ROUNDS);
    *out = (fovea_rates){.read = bytes / best(&p, read_piece, 2 * p.half),
                         .copy = bytes / best(&p, copy_piece, p.half),
                         .flops = flops / best(&p, compute, units)};
    fv_mem_free(p.memory);
    return FOVEA_OK;
}
