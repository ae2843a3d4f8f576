/* cl_bind.c: binds a step: creates its kernel object and sets all arguments that do not change from
 * call to call. */
#include "base/mem.h"
#include "cl/cl_device.h"

fovea_status fv_cl_set_arg(const fv_cl_bound *b, uint32_t index, size_t size, const void *value)
{
    FV_CL_TRY(b->step.code->entry, clSetKernelArg, (b->kernel, index, size, value));
    for (int i = 0; i < FV_GPU_PASSES && b->pre_pass[i]; i++)
        FV_CL_TRY(b->step.code->pre_pass[i].entry, clSetKernelArg,
                  (b->pre_pass[i], index, size, value));
    return FOVEA_OK;
}

static void release_kernels(fv_cl_bound *b)
{
    if (b->kernel)
        fv_cl.clReleaseKernel(b->kernel);
    b->kernel = NULL;
    for (int i = 0; i < FV_GPU_PASSES && b->pre_pass[i]; i++) {
        fv_cl.clReleaseKernel(b->pre_pass[i]);
        b->pre_pass[i] = NULL;
    }
}

/* Creates the kernel and its pre-passes for work-groups of one size. *limit: the largest size that
 * all of them allow. */
static fovea_status create_for_group(fv_cl_bound *b, fv_device *d, size_t *limit)
{
    const fv_gpu_step *s = &b->step;
    FV_TRY(fv_cl_kernel_create(&b->kernel, limit, d, &s->base.l, s->code->entry, s->group));
    for (int i = 0; i < FV_GPU_PASSES && s->code->pre_pass[i].entry; i++) {
        size_t most;
        FV_TRY(fv_cl_kernel_create(&b->pre_pass[i], &most, d, &s->base.l,
                                   s->code->pre_pass[i].entry, s->group));
        *limit = most < *limit ? most : *limit;
    }
    return FOVEA_OK;
}

/* Creates the kernels for the largest work-group that the device, its local memory and the compiled
 * kernels allow. */
static fovea_status create_kernels(fv_cl_bound *b, fv_device *d)
{
    fv_gpu_step *s = &b->step;
    for (s->group = fv_gpu_group(s, s->code->group, d->limits.group, d->limits.local); s->group;
         s->group = fv_gpu_group(s, s->group / 2, d->limits.group, d->limits.local)) {
        size_t limit;
        FV_TRY(create_for_group(b, d, &limit));
        if (limit >= s->group || s->group == 1)
            return FOVEA_OK;
        release_kernels(b);
    }
    return fv_gpu_no_group(s);
}

static fovea_status make_table(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    if (!b->step.code->table || !l->args.table)
        return FOVEA_OK;
    const uint64_t size = b->step.code->table(l, NULL);
    uint32_t *text;
    FV_TRY(fv_mem_alloc(&text, size, FV_MEM_PLAN, "a step's table"));
    b->step.code->table(l, text);
    const fovea_status status = fv_cl_buffer_make(
        &b->table, d, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, text, "a step's table");
    fv_mem_free(text);
    return status;
}

/* Creates the image through which the kernel reads an operand, if it does. If this fails, the plan
 * takes another kernel, one that reads a buffer. */
static fovea_status make_image(fv_cl_bound *b, const fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    const uint32_t operand = b->step.code->image;
    if (!operand)
        return FOVEA_OK;
    const fv_mem *m = l->operand[operand].ref.mem;
    return fv_cl_image_make(&b->image, d, fv_cl_buffer(m), m->size, l->kernel->name);
}

static fovea_status set_arguments(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    for (uint32_t o = 0; o < b->step.operands; o++) {
        const fv_operand *op = &l->operand[o];
        const bool placed = op->ref.space == FV_SPACE_BUFFER || op->ref.space == FV_SPACE_LOCAL;
        cl_mem buffer = placed ? fv_cl_buffer(op->ref.mem) : d->nothing;
        if (b->image && o == b->step.code->image)
            buffer = b->image;
        FV_TRY(fv_cl_set_arg(b, 2 * o, sizeof buffer, &buffer));
    }
    const uint32_t after = 2 * b->step.operands;
    const fv_args *a = &l->args;
    cl_mem table = b->table ? b->table : d->nothing;
    if (fv_gpu_step_scratch(&b->step))
        table = fv_cl_buffer(l->scratch_mem);
    const cl_uint ring[2] = {b->step.code->left ? (cl_uint)b->step.code->left(l) : a->window,
                             a->shift};
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_TABLE, sizeof table, &table));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_DIM, sizeof a->prob.dim, a->prob.dim));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_U, sizeof a->u, a->u));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_F, sizeof a->f, a->f));
    return fv_cl_set_arg(b, after + FV_CL_RING, sizeof ring, ring);
}

/* ---- cutting ---- */

/* How many rows a dispatch may have, so that it takes about as long as the limit allows. Decided
 * once, at bind, because where a call is cut changes the last bits of sums. */
static uint32_t piece_rows(const fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    const uint32_t align = b->step.align, all = l->args.prob.dim[FV_DIM_ROWS];
    if (!align || all == 0)
        return 0;
    if (d->limits.ends_long_loops)
        return all <= FV_CL_FEW_ROWS ? 0 : fv_gpu_whole_rows(FV_CL_FEW_ROWS, align);
    if (d->dispatch <= 0)
        return 0;
    const fv_gpu_rates rates = fv_cl_measure(d);
    return fv_gpu_step_rows(&b->step, d->dispatch, &rates);
}

/* ---- what another library does ---- */

static fovea_status prepare(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->step.base.l;
    void *event = NULL;
    if (!b->step.code->before)
        return FOVEA_OK;
    fv_gpu_before before = {
        .device = d, .queue = d->service, .event = &event, .scratch = l->scratch_mem->handle};
    for (uint32_t o = 0; o < b->step.operands; o++)
        if (l->operand[o].kind == FV_KIND_WEIGHT && l->operand[o].ref.space == FV_SPACE_BUFFER)
            before.buffer[o] = l->operand[o].ref.mem->handle;
    FV_TRY(b->step.code->prepare(l, &before));
    return fv_cl_finish(d, d->service, event, 0);
}

/* Refuses a kernel that the driver would end before it is done. */
static fovea_status check_loops(const fv_cl_bound *b, const fv_device *d, const fv_launch *l)
{
    const fv_gpu_code *code = b->step.code;
    if (!d->limits.ends_long_loops || !code->loops ||
        code->loops(l, b->step.group) <= FV_CL_FEW_LOOPS)
        return FOVEA_OK;
    return fv_fail(FOVEA_ENOTSUP,
                   "kernel %s: the driver ends loops of more than some %d iterations", code->entry,
                   FV_CL_FEW_LOOPS);
}

static fovea_status fill_bound(fv_cl_bound *b, fv_device *d, const fv_launch *l)
{
    FV_TRY(fv_gpu_step_begin(&b->step, l));
    FV_TRY(create_kernels(b, d));
    FV_TRY(check_loops(b, d, l));
    b->step.piece = piece_rows(b, d);
    FV_TRY(make_table(b, d));
    FV_TRY(make_image(b, d));
    FV_TRY(prepare(b, d));
    return set_arguments(b, d);
}

fovea_status fv_cl_bind(fv_device *d, const fv_launch *l, fv_bound **out)
{
    fv_cl_bound *b;
    FV_TRY(fv_cl_ready(d));
    FV_TRY(FV_MEM_NEW(&b, FV_MEM_PLAN, "a step"));
    const fovea_status status = fill_bound(b, d, l);
    if (status == FOVEA_OK)
        *out = &b->step.base;
    else
        fv_cl_unbind(d, &b->step.base);
    return status == FOVEA_EDEVICE && !d->lost ? FOVEA_ENOTSUP : status;
}

void fv_cl_unbind(fv_device *d, fv_bound *bound)
{
    fv_cl_bound *b = (fv_cl_bound *)bound;
    if (!d->hung)
        release_kernels(b);
    fv_cl_buffer_free(d, b->table);
    fv_cl_buffer_free(d, b->image);
    fv_mem_free(b);
}
