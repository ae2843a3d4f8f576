/* planted_cpu.c: the CPU's backend with kernels that must not be believed, as FOVEA_PLANT says, a
 * list of
 *
 *   wrong    gemm_f32_planted_wrong: takes no time, its result is wrong
 *   crash    gemm_f32_planted_crash: kills the process
 *   chosen   the cost model takes them for the best there are; else they are close behind
 *
 * Linked before the static library, whose own backend is then left out.
 */
#define fv_backend_cpu planted_over
#define fv_cpu_kernels planted_among
#include "cpu_backend.c"
#undef fv_backend_cpu
#undef fv_cpu_kernels

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

const fv_kernel *fv_cpu_kernels(int *count)
{
    enum { ROOM = 1024 };
    static fv_kernel all[ROOM];
    const fv_kernel *real = planted_among(count);
    const fv_kernel more[] = {
        {.name = "gemm_f32_planted_wrong", .code.cpu = wrong},
        {.name = "gemm_f32_planted_crash", .code.cpu = crash},
    };
    if (*count + 2 > ROOM)
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
