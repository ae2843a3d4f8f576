/* cpu_rates.c: measures the peak of a pool's processors: arithmetic in registers, and reading and
 * copying more memory than any cache holds. The work is cut into many pieces, which the workers
 * claim one by one, so that the others do not wait for a worker that is preempted.
 */
#include "platform/cpu/cpu_rates.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "platform/cpu/cpu.h"
#include "platform/cpu/probe.h"
#include "platform/os/os_machine.h"

enum {
    TRIES = 3,
    LOOPS = 64, /* per worker */
    ROUNDS = 1 << 15,
    PIECE = 1 << 18, /* floats in a piece of the memory that is read or copied */
};
#define MEMORY (UINT64_C(256) << 20) /* bytes that are read, or copied from and to */
#define SHARE 16                     /* uses at most 1 / SHARE of the machine's memory */

struct level {
    uint32_t needs;
    fv_probe_loop *fma;
    float (*read)(const float *p, size_t n);
};

/* The last entry works on any processor. */
static const struct level levels[] = {
#ifdef FV_ARCH_X86
    {FV_NEED_AVX512, fv_probe_fma_avx512, fv_probe_read_avx512},
    {FV_NEED_AVX2, fv_probe_fma_avx2, fv_probe_read_avx2},
#endif
#ifdef FV_ARCH_ARM64
    {FV_NEED_NEON, fv_probe_fma_neon, fv_probe_read_neon},
#endif
#ifdef FV_LEVEL_RVV
    {FV_NEED_RVV, fv_probe_fma_rvv, fv_probe_read_rvv},
#endif
    {FV_NEED_PORTABLE, fv_probe_fma_c, fv_probe_read_c},
};

/* Loops over products of a type, the fastest level first. The last entry works on any processor. */
struct products {
    uint32_t needs;
    fv_probe_loop *loop; /* NULL: no instructions for this type, whose rate is then float32's */
};

static const struct products of_bf16[] = {
#ifdef FV_LEVEL_AVX512_BF16
    {FV_NEED_AVX512_BF16, fv_probe_bf16_avx512_bf16},
#endif
#ifdef FV_LEVEL_NEON_DOT
    {FV_NEED_NEON_DOT, fv_probe_bf16_neon_dot},
#endif
    {FV_NEED_PORTABLE, NULL},
};

static const struct products of_int8[] = {
#ifdef FV_LEVEL_AVX512_VNNI
    {FV_NEED_AVX512_VNNI, fv_probe_int8_avx512_vnni},
#endif
#ifdef FV_LEVEL_AVX_VNNI
    {FV_NEED_AVX_VNNI, fv_probe_int8_avx_vnni},
#endif
#ifdef FV_ARCH_X86
    {FV_NEED_AVX512, fv_probe_int8_avx512},
    {FV_NEED_AVX2, fv_probe_int8_avx2},
#endif
#ifdef FV_LEVEL_NEON_I8MM
    {FV_NEED_NEON_I8MM, fv_probe_int8_neon_i8mm},
#endif
#ifdef FV_LEVEL_NEON_SDOT
    {FV_NEED_NEON_SDOT, fv_probe_int8_neon_sdot},
#endif
    {FV_NEED_PORTABLE, NULL},
};

struct probe {
    fv_pool *pool;
    fv_probe_loop *loop;
    float (*read)(const float *p, size_t n);
    float *memory;
    uint32_t half; /* number of pieces in each half of the memory */
};

static void compute(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const struct probe *p = arg;
    (void)phase, (void)unit, (void)slot;
    p->loop(ROUNDS);
}

/* Writes to every page: the kernel maps pages that were only read to one shared page of zeros. */
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
    volatile float used = p->read(p->memory + (size_t)unit * PIECE, PIECE);
    (void)used;
}

/* Copies a piece from the first half of the memory to the second. */
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

/* Returns the shortest time of several runs, in seconds. */
static double best(struct probe *p, fv_unit_fn fn, uint32_t units)
{
    double least = seconds_of(p, fn, units);
    for (int i = 1; i < TRIES; i++) {
        const double seconds = seconds_of(p, fn, units);
        least = seconds < least ? seconds : least;
    }
    return least;
}

/* Returns the number of operations per second. */
static double rate_of(struct probe *p, fv_probe_loop *loop)
{
    const uint32_t units = fv_pool_threads(p->pool) * LOOPS;
    p->loop = loop;
    return units * loop(ROUNDS) / best(p, compute, units);
}

/* Returns the operations per second of the calling thread, as the best of several short runs,
 * because an interruption may spoil some of them. */
static double brief_rate(fv_probe_loop *loop)
{
    enum { BRIEF_TRIES = 7, BRIEF_ROUNDS = 1 << 10 };
    double best = 0;
    for (int i = 0; i < BRIEF_TRIES; i++) {
        const double begin = fv_machine_seconds(), done = loop(BRIEF_ROUNDS);
        const double rate = done / (fv_machine_seconds() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

uint32_t fv_cpu_fast_features(uint32_t features)
{
    /* Bfloat16 is in practice a third, a half, one or two times as fast as float32. The threshold
     * is far from all of these, so that every process makes the same decision. */
    static const double worth = 0.7;
    enum { KNOWN = 1 << 30 }; /* marks `slow` as computed; no feature has this bit */
    static atomic_uint slow;
    if (!atomic_load(&slow)) {
        const struct products *bf16 = of_bf16;
        const struct level *level = levels;
        while (level->needs & ~features)
            level++;
        while (bf16->needs & ~features)
            bf16++;
        const bool lame = bf16->loop && brief_rate(bf16->loop) < worth * brief_rate(level->fma);
        atomic_store(&slow, KNOWN | (lame ? bf16->needs & FV_CPU_BF16 : 0));
    }
    return features & ~(atomic_load(&slow) & FV_CPU_BF16);
}

static double products_of(struct probe *p, const struct products *list, uint32_t features,
                          double flops)
{
    while (list->needs & ~features)
        list++;
    return list->loop ? rate_of(p, list->loop) : flops;
}

fovea_status fv_cpu_rates(fv_pool *pool, uint32_t features, fovea_rates *out)
{
    const uint64_t share = fv_machine_memory() / SHARE, piece = PIECE * sizeof(float);
    const struct level *level = levels;
    while (level->needs & ~features)
        level++;
    struct probe p = {.pool = pool, .read = level->read};
    p.half = (uint32_t)((share < MEMORY ? share : MEMORY) / piece / 2) + 1;
    FV_TRY(fv_mem_array(&p.memory, 2 * (uint64_t)p.half, piece, FV_MEM_DEVICE,
                        "measuring the memory"));
    seconds_of(&p, touch, 2 * p.half);
    const double bytes = 2.0 * p.half * (double)piece;
    *out = (fovea_rates){.read = bytes / best(&p, read_piece, 2 * p.half),
                         .copy = bytes / best(&p, copy_piece, p.half),
                         .flops = rate_of(&p, level->fma)};
    out->bf16 = products_of(&p, of_bf16, features, out->flops);
    out->int8 = products_of(&p, of_int8, features, out->flops);
    fv_mem_free(p.memory);
    return FOVEA_OK;
}
