/* cuda_bind.c: binds a step: finds its kernel and sets all arguments that do not change from call
 * to call. */
#include <string.h>

#include "base/mem.h"
#include "cuda/cuda_device.h"

/* ---- the kernel ---- */

/* Finds the kernel's pre-passes, whose work-groups have the same size. */
static fovea_status find_pre_passes(fv_cuda_bound *b, fv_device *d)
{
    const fv_gpu_step *s = &b->step;
    for (int i = 0; i < FV_GPU_PASSES && s->code->pre_pass[i].entry; i++) {
        uint32_t limit;
        FV_TRY(fv_cuda_step_kernel(&b->pre_pass[i], &limit, d, &s->base.l,
                                   s->code->pre_pass[i].entry, s->group));
        if (limit < s->group)
            return fv_gpu_no_group(s);
    }
    return FOVEA_OK;
}

/* What is left to the problem's size: the best choice, or without a compiler the best one that this
 * build has. Where it has none the best is asked for, and refused. */
static void settle(fv_launch *l, const fv_device *d)
{
    fv_launch tried = *l;
    uint32_t choice = 0;
    while (!*d->target && fv_gpu_settle(&tried, d->limits.units, choice) &&
           !fv_cuda_is_embedded(d, &tried)) {
        tried = *l;
        choice++;
    }
    if (!fv_gpu_settle(l, d->limits.units, choice))
        fv_gpu_settle(l, d->limits.units, 0);
}

static fovea_status find_kernel(fv_cuda_bound *b, fv_device *d)
{
    fv_gpu_step *s = &b->step;
    settle(&s->base.l, d);
    for (s->group = fv_gpu_group(s, s->code->group, d->limits.group, d->limits.local); s->group;
         s->group = fv_gpu_group(s, s->group / 2, d->limits.group, d->limits.local)) {
        uint32_t limit;
        FV_TRY(fv_cuda_step_kernel(&b->function, &limit, d, &s->base.l, s->code->entry, s->group));
        if (limit >= s->group || s->group == 1)
            return FOVEA_OK;
        if (s->base.l.kernel->needs & (FV_NEED_CUDA_MMA | FV_NEED_CUDA_MMA_F16))
            break; /* the kernel's tiles are laid out for this number of warps */
    }
    return fv_gpu_no_group(s);
}

static fovea_status make_table(fv_cuda_bound *b, fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    if (!b->step.code->table || !l->args.table)
        return FOVEA_OK;
    const uint64_t size = b->step.code->table(l, NULL);
    uint32_t *text;
    FV_TRY(fv_cuda_alloc(&b->table, size, "a step's table"));
    FV_TRY(fv_mem_alloc(&text, size, FV_MEM_PLAN, "a step's table"));
    b->step.code->table(l, text);
    const fovea_status status = fv_cuda_write(d, b->table, text, size);
    fv_mem_free(text);
    return status;
}

/* ---- arguments ---- */

/* Lists pointers to the arguments, in the order of prelude.cl. */
static void list_parameters(fv_cuda_bound *b)
{
    void **to = b->parameter;
    for (uint32_t o = 0; o < b->step.operands; o++) {
        *to++ = &b->args.base[o];
        *to++ = b->args.at[o];
    }
    *to++ = &b->args.table;
    *to++ = &b->args.row0;
    *to++ = &b->args.rows;
    *to++ = &b->args.first;
    *to++ = &b->args.groups;
    *to++ = b->args.dim;
    *to++ = b->args.u;
    *to++ = b->args.f;
    *to++ = b->args.ring;
}

static void set_arguments(fv_cuda_bound *b)
{
    const fv_launch *l = &b->step.base.l;
    const fv_args *a = &l->args;
    for (uint32_t o = 0; o < b->step.operands; o++) {
        const fv_operand *op = &l->operand[o];
        if (op->ref.space == FV_SPACE_BUFFER || op->ref.space == FV_SPACE_LOCAL)
            b->args.base[o] = op->ref.mem->handle;
    }
    b->args.table = fv_gpu_step_scratch(&b->step) ? l->scratch_mem->handle : b->table;
    memcpy(b->args.dim, a->prob.dim, sizeof b->args.dim);
    memcpy(b->args.u, a->u, sizeof b->args.u);
    memcpy(b->args.f, a->f, sizeof b->args.f);
    b->args.ring[0] = b->step.code->left ? (uint32_t)b->step.code->left(l) : a->window;
    b->args.ring[1] = a->shift;
    list_parameters(b);
}

/* ---- bind ---- */

/* How many rows a dispatch may have, so that it takes about as long as the limit allows. Decided
 * once, at bind, because where a call is cut changes the last bits of sums. */
static uint32_t piece_rows(const fv_cuda_bound *b, fv_device *d)
{
    if (!b->step.align || b->step.base.l.args.prob.dim[FV_DIM_ROWS] == 0 || d->dispatch <= 0)
        return 0;
    const fv_gpu_rates rates = fv_cuda_measure(d);
    return fv_gpu_step_rows(&b->step, d->dispatch, &rates);
}

/* What another library does. */
static fovea_status prepare(fv_cuda_bound *b, fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    if (!b->step.code->before)
        return FOVEA_OK;
    fv_gpu_before before = {
        .device = d, .queue = d->service, .scratch = l->scratch_mem->handle, .own = &b->own};
    for (uint32_t o = 0; o < b->step.operands; o++) {
        before.ld[o] = l->args.ld[o];
        if (l->operand[o].kind == FV_KIND_WEIGHT && l->operand[o].ref.space == FV_SPACE_BUFFER)
            before.buffer[o] = l->operand[o].ref.mem->handle;
    }
    return b->step.code->prepare(l, &before);
}

static fovea_status fill_bound(fv_cuda_bound *b, fv_device *d, const fv_launch *l)
{
    FV_TRY(fv_gpu_step_begin(&b->step, l));
    FV_TRY(find_kernel(b, d));
    FV_TRY(find_pre_passes(b, d));
    b->step.piece = piece_rows(b, d);
    b->step.units = d->limits.units;
    FV_TRY(make_table(b, d));
    FV_TRY(prepare(b, d));
    set_arguments(b);
    return FOVEA_OK;
}

/* Whether the context still works: any call reports an error that a kernel has caused. */
static bool works(const fv_device *d)
{
    size_t free, total;
    return !d->lost && fv_cuda.cuMemGetInfo(&free, &total) == CUDA_SUCCESS;
}

void fv_cuda_want(fv_device *d, const fv_launch *l, uint32_t count)
{
    for (uint32_t i = 0; i < count && !d->lost; i++) {
        fv_gpu_step s;
        if (fv_gpu_step_begin(&s, &l[i]) != FOVEA_OK)
            continue;
        settle(&s.base.l, d);
        const uint32_t group = fv_gpu_group(&s, s.code->group, d->limits.group, d->limits.local);
        if (group)
            fv_gpu_store_want(&d->store, &s.base.l, group, "");
    }
}

fovea_status fv_cuda_bind(fv_device *d, const fv_launch *l, fv_bound **out)
{
    fv_cuda_bound *b;
    FV_TRY(FV_MEM_NEW(&b, FV_MEM_PLAN, "a step"));
    const fovea_status status = fill_bound(b, d, l);
    if (status == FOVEA_OK)
        *out = &b->step.base;
    else
        fv_cuda_unbind(d, &b->step.base);
    return status == FOVEA_EDEVICE && works(d) ? FOVEA_ENOTSUP : status;
}

void fv_cuda_unbind(fv_device *d, fv_bound *bound)
{
    fv_cuda_bound *b = (fv_cuda_bound *)bound;
    if (b->own)
        b->step.code->forget(b->own);
    if (b->table && !d->hung)
        fv_cuda.cuMemFree(b->table);
    fv_mem_free(b);
}
