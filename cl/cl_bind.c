/* cl_bind.c: a step frozen: its kernel object with all arguments that stay. */
#include "cl_device.h"
#include "mem.h"

/* The last operand of an op is what it writes, and is always there. */
static uint32_t operands(const fv_launch *l)
{
    uint32_t n = FV_OPERANDS;
    while (l->operand[n - 1].ref.space == FV_SPACE_NONE)
        n--;
    return n;
}

fovea_status fv_cl_set_arg(const fv_cl_bound *b, uint32_t index, size_t size, const void *value)
{
    FV_CL_TRY(b->code->entry, clSetKernelArg, (b->kernel, index, size, value));
    return FOVEA_OK;
}

/* Work-items per group that device, local memory and the compiled kernel allow. */
static fovea_status create_kernel(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->base.l;
    for (uint32_t group = b->code->group; group; group /= 2) {
        size_t limit;
        if (group > 1 && (group > d->limits.group ||
                          (b->code->local && b->code->local(l, group) > d->limits.local)))
            continue;
        FV_TRY(fv_cl_kernel_create(&b->kernel, &limit, d, l, group));
        b->group = group;
        if (limit >= group || group == 1)
            return FOVEA_OK;
        fv_cl.clReleaseKernel(b->kernel);
        b->kernel = NULL;
    }
    return fv_fail(FOVEA_ENOTSUP, "kernel %s: no work-group of this device holds it",
                   l->kernel->name);
}

static fovea_status make_table(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->base.l;
    if (!b->code->table || !l->args.table)
        return FOVEA_OK;
    const uint64_t size = b->code->table(l, NULL);
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, size, FV_MEM_PLAN, "a step's table"));
    b->code->table(l, memory);
    cl_int error;
    cl_mem table = fv_cl.clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                        (size_t)size, memory, &error);
    fv_mem_free(memory);
    if (error != CL_SUCCESS)
        return fv_cl_fail(error, "clCreateBuffer", "a step's table");
    b->table = table;
    return FOVEA_OK;
}

/* Kernels count elements of a buffer in 32 bits. */
static fovea_status check_sizes(const fv_cl_bound *b)
{
    const fv_launch *l = &b->base.l;
    for (uint32_t o = 0; o < b->operands; o++) {
        const fv_operand *op = &l->operand[o];
        if (op->ref.mem && op->ref.mem->size / fv_type_size(op->type) > UINT32_MAX)
            return fv_fail(
                FOVEA_ENOTSUP,
                "kernel %s: a buffer of %.1f GiB; at most 2^32 elements are counted: use "
                "a smaller picture or a memory limit",
                l->kernel->name, (double)op->ref.mem->size / (1 << 30));
    }
    return FOVEA_OK;
}

static fovea_status set_arguments(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->base.l;
    for (uint32_t o = 0; o < b->operands; o++) {
        const fv_operand *op = &l->operand[o];
        const bool placed = op->ref.space == FV_SPACE_BUFFER || op->ref.space == FV_SPACE_LOCAL;
        cl_mem buffer = placed ? fv_cl_buffer(op->ref.mem) : d->nothing;
        FV_TRY(fv_cl_set_arg(b, 2 * o, sizeof buffer, &buffer));
    }
    const uint32_t after = 2 * b->operands;
    const fv_args *a = &l->args;
    cl_mem table = b->table ? b->table : d->nothing;
    if (b->code->before)
        table = fv_cl_buffer(l->scratch_mem);
    const cl_uint ring[2] = {b->code->left ? (cl_uint)b->code->left(l) : a->window, a->shift};
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_TABLE, sizeof table, &table));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_DIM, sizeof a->prob.dim, a->prob.dim));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_U, sizeof a->u, a->u));
    FV_TRY(fv_cl_set_arg(b, after + FV_CL_F, sizeof a->f, a->f));
    return fv_cl_set_arg(b, after + FV_CL_RING, sizeof ring, ring);
}

/* ---- cutting ---- */

/* A kernel does at least this part of what the device does at its best. */
#define WORST 0.25

/* Bytes of a row that come from or go to memory. */
static double row_bytes(const fv_launch *l)
{
    double bytes = 0;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (l->operand[o].kind == FV_KIND_ROW && l->operand[o].ref.space != FV_SPACE_NONE)
            bytes += (double)l->operand[o].stride;
    return bytes;
}

static uint32_t whole_rows(uint32_t rows, uint32_t align)
{
    return rows < align ? align : rows / align * align;
}

/* Rows of a dispatch, so that it takes as long as it may, about. Settled here: what is cut in which
 * way shows in the last bits of sums. */
static uint32_t piece_rows(const fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->base.l;
    const uint32_t align = b->align, all = l->args.prob.dim[FV_DIM_ROWS];
    if (!align || all == 0)
        return 0;
    if (d->limits.few_turns)
        return all <= FV_CL_FEW_ROWS ? 0 : whole_rows(FV_CL_FEW_ROWS, align);
    if (d->dispatch <= 0)
        return 0;
    const fv_cl_rates rates = fv_cl_measure(d);
    const double compute = fv_problem_flops(&l->args.prob) / all / rates.flops;
    const double move = row_bytes(l) / rates.bytes;
    const double row = (compute > move ? compute : move) / WORST;
    const double rows = row > 0 ? d->dispatch / row : all;
    if (rows >= all)
        return 0;
    return whole_rows((uint32_t)rows, align);
}

/* ---- what another library does ---- */

static fovea_status prepare(fv_cl_bound *b, fv_device *d)
{
    const fv_launch *l = &b->base.l;
    cl_event event = NULL;
    if (!b->code->before)
        return FOVEA_OK;
    fv_cl_before before = {
        .queue = d->service, .event = &event, .scratch = fv_cl_buffer(l->scratch_mem)};
    for (uint32_t o = 0; o < b->operands; o++)
        if (l->operand[o].kind == FV_KIND_WEIGHT && l->operand[o].ref.space == FV_SPACE_BUFFER)
            before.buffer[o] = fv_cl_buffer(l->operand[o].ref.mem);
    FV_TRY(b->code->prepare(l, &before));
    return fv_cl_finish(d, d->service, event, 0);
}

static fovea_status fill(fv_cl_bound *b, fv_device *d)
{
    FV_TRY(check_sizes(b));
    FV_TRY(create_kernel(b, d));
    b->piece = piece_rows(b, d);
    FV_TRY(make_table(b, d));
    FV_TRY(prepare(b, d));
    return set_arguments(b, d);
}

fovea_status fv_cl_bind(fv_device *d, const fv_launch *l, fv_bound **out)
{
    void *memory;
    FV_TRY(fv_cl_ready(d));
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_cl_bound), FV_MEM_PLAN, "a step"));
    fv_cl_bound *b = memory;
    b->base.l = *l;
    b->code = l->kernel->code.cl;
    b->operands = operands(l);
    b->align = b->code->align == FV_CL_WINDOWS ? l->args.prob.dim[FV_ATTN_KEYS] : b->code->align;
    fovea_status status = fill(b, d);
    if (status != FOVEA_OK) {
        fv_cl_unbind(d, &b->base);
        return status;
    }
    *out = &b->base;
    return FOVEA_OK;
}

void fv_cl_unbind(fv_device *d, fv_bound *bound)
{
    fv_cl_bound *b = (fv_cl_bound *)bound;
    if (b->kernel && !d->hung)
        fv_cl.clReleaseKernel(b->kernel);
    fv_cl_buffer_free(d, b->table);
    fv_mem_free(b);
}
