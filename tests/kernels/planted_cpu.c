/* planted_cpu.c: the CPU's backend with kernels that must not be believed, as FOVEA_PLANT says, a
 * list of
 *
 *   wrong    gemm_f32_planted_wrong: takes no time, its result is wrong
 *   crash    gemm_f32_planted_crash: kills the process
 *   hole     gemm_f32_planted_hole, softmax_f32_planted_hole: right except the first value, a NaN
 *   cache    softmax_scan_f32_planted_cache: right except the last row of its cache, which it
 *            overwrites as if it were its own
 *   chosen   the cost model takes them for the best there are; else they are close behind
 *
 * Linked before the static library, whose own backend is then left out.
 */
#define fv_backend_cpu planted_over
#define fv_cpu_kernels planted_among
#include "ops/contracts/product.h"
#include "ops/contracts/sequence.h"
#include "platform/cpu/cpu_backend.c"
#undef fv_backend_cpu
#undef fv_cpu_kernels

#include <math.h>
#include <stdlib.h>

fv_backend fv_backend_cpu;
const fv_kernel *fv_cpu_kernels(int *count);

static bool asked(const char *what)
{
    const char *list = getenv("FOVEA_PLANT");
    return list && strstr(list, what);
}

static void wrong(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++)
        memset((float *)c->p[FV_GEMM_OUT] + (size_t)r * a->ld[FV_GEMM_OUT] + c->col0, 0,
               c->cols * sizeof(float));
}

static void crash(const fv_args *a, const fv_call *c)
{
    (void)a, (void)c;
    abort();
}

static void make_hole(const fv_call *c, uint32_t out)
{
    if (c->row0 == 0 && c->col0 == 0)
        *(float *)c->p[out] = NAN;
}

static void gemm_hole(const fv_args *a, const fv_call *c)
{
    fv_k_gemm_f32_ref(a, c);
    make_hole(c, FV_GEMM_OUT);
}

static void softmax_hole(const fv_args *a, const fv_call *c)
{
    fv_k_softmax_f32_ref(a, c);
    make_hole(c, FV_SOFTMAX_OUT);
}

static void scan_cache(const fv_args *a, const fv_call *c)
{
    const size_t capacity = a->prob.dim[FV_ATTN_KEYS], d = a->prob.dim[FV_ATTN_D];
    fv_k_softmax_scan_f32_ref(a, c);
    if (c->col0 == 0)
        ((float *)c->p[FV_CACHE_STATE])[(capacity - 1) * d] += 1;
}

static bool applies(const fv_problem *p)
{
    return p->weight == FV_F32;
}

static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    int count;
    const fv_kernel *list = planted_among(&count);
    const fv_kernel *best = fv_kernel_choose(list, count, fv_cpu_features(), p, NULL, NULL);
    return asked("chosen") ? 0 : 1.5 * fv_kernel_cost(best, p, knobs);
}

static double free_of_charge(const fv_problem *p, const fv_knobs *knobs)
{
    (void)p, (void)knobs;
    return 0;
}

static size_t packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)p, (void)knobs;
    return sizeof(float);
}

static void pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                 const fv_knobs *knobs)
{
    (void)dst, (void)src, (void)n0, (void)n, (void)p, (void)knobs;
}

static const fv_kernel_hooks planted = {
    .applies = applies, .cost = cost, .packed = packed, .pack = pack, .format = "planted"};

/* Returns a copy of the definition `like` with another name and code, and a cost of zero. */
static fv_kernel pretend(const char *like, const char *name, fv_cpu_fn code, fv_kernel_hooks *hooks)
{
    int count, i = 0;
    const fv_kernel *list = planted_among(&count);
    while (strcmp(list[i].name, like) != 0)
        i++;
    *hooks = *list[i].hooks;
    hooks->cost = free_of_charge;
    return (fv_kernel){.name = name,
                       .op = list[i].op,
                       .mech = list[i].mech,
                       .rev = 1,
                       .needs = list[i].needs,
                       .hooks = hooks,
                       .code.cpu = code};
}

const fv_kernel *fv_cpu_kernels(int *count)
{
    static fv_kernel_hooks hooks[3];
    enum { CAPACITY = 4096 };
    static fv_kernel all[CAPACITY];
    const fv_kernel *real = planted_among(count);
    const fv_kernel more[] = {
        {.name = "gemm_f32_planted_wrong", .code.cpu = wrong},
        {.name = "gemm_f32_planted_crash", .code.cpu = crash},
    };
    if (*count + 5 > CAPACITY)
        abort();
    memcpy(all, real, (size_t)*count * sizeof *all);
    for (int i = 0; i < 2; i++) {
        if (!asked(i ? "crash" : "wrong"))
            continue;
        fv_kernel *k = &all[(*count)++];
        memcpy(k, &more[i], sizeof *k);
        k->op = FV_OP_GEMM;
        k->rev = 1;
        k->hooks = &planted;
    }
    if (asked("cache")) {
        const fv_kernel k = pretend("softmax_scan_f32_ref", "softmax_scan_f32_planted_cache",
                                    scan_cache, &hooks[2]);
        memcpy(&all[(*count)++], &k, sizeof k);
    }
    if (asked("hole")) {
        const fv_kernel holes[] = {
            pretend("gemm_f32_ref", "gemm_f32_planted_hole", gemm_hole, &hooks[0]),
            pretend("softmax_f32_ref", "softmax_f32_planted_hole", softmax_hole, &hooks[1])};
        for (int i = 0; i < 2; i++)
            memcpy(&all[(*count)++], &holes[i], sizeof holes[i]);
    }
    return all;
}

static const fv_kernel *planted_kernels(fv_device *d, int *count, uint32_t *features)
{
    kernels(d, count, features);
    return fv_cpu_kernels(count);
}

__attribute__((constructor)) static void plant(void)
{
    memcpy(&fv_backend_cpu, &planted_over, sizeof fv_backend_cpu);
    fv_backend_cpu.kernels = planted_kernels;
}
