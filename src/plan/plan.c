/* plan.c: from a list of steps to something that runs: choose, place, pack, bind; and its answers.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "models/model.h"
#include "models/packed.h"
#include "ops/mech_traits.h"

/* Tokens per chunk that the cost model starts from, then smaller ones for a memory limit. The first
 * is the block of rows for which GEMM reads its weights once. */
static const uint32_t chunk_sizes[] = {168, 126, 84, 42, 14, 1};
#define CHUNK_SIZES (sizeof chunk_sizes / sizeof *chunk_sizes)

/* Workers that share a frame on most edge devices, and the smallest chunk that so many are given
 * before fewer are thought of: below 14 rows, those of a tile, everything is slow. */
static const struct {
    uint32_t workers, least;
} sharers[] = {{8, 42}, {4, 14}, {2, 14}, {1, 1}};
#define SHARERS (sizeof sharers / sizeof *sharers)

/* Super-chunks of throughput devices, for a limit; and where to begin when streaming is asked for.
 */
static const uint32_t super_chunks[] = {32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 64};
#define SUPER_CHUNKS (sizeof super_chunks / sizeof *super_chunks)
#define ASKED_CHUNK 4096

/* ---- choice ---- */

static bool skips(const void *advice, const fv_kernel *k, const fv_knobs *knobs,
                  const fv_problem *p)
{
    return fv_advice_skips(advice, k, knobs, p);
}

/* What wisdom says, else the kernel of lowest cost; one that took a program down only where there
 * is no other. */
static const fv_kernel *choose_kernel(const fovea_plan *p, fv_step *s, const fv_kernel *list,
                                      int count, uint32_t features)
{
    const fv_kernel *k =
        fv_advice_step(&p->advice, list, count, features, &s->prob, &s->knobs, &s->source);
    if (k)
        return k;
    k = fv_kernel_choose(list, count, features, &s->prob, skips, &p->advice);
    if (!k)
        k = fv_kernel_choose(list, count, features, &s->prob, NULL, NULL);
    if (k)
        s->knobs = fv_kernel_defaults(k);
    s->source = "cost";
    return k;
}

static fovea_status choose(fovea_plan *p)
{
    int count;
    uint32_t features;
    const fv_kernel *list = p->device->backend->kernels(p->device->device, &count, &features);
    p->scratch = 0;
    p->info.flops = p->info.seconds = 0;
    for (uint32_t i = 0; i < p->b.steps; i++) {
        fv_step *s = &p->b.step[i];
        if (s->dead)
            continue;
        s->kernel = choose_kernel(p, s, list, count, features);
        if (!s->kernel) {
            char text[128];
            fv_problem_format(text, sizeof text, &s->prob);
            return fv_fail(FOVEA_ENOTSUP, "%s: device %s has no kernel for %s", s->label,
                           p->device->info.id, text);
        }
        s->flops = fv_problem_flops(&s->prob);
        s->seconds = fv_kernel_cost(s->kernel, &s->prob, &s->knobs) / p->info.threads;
        p->info.flops += s->flops;
        p->info.seconds += s->seconds;
        if (s->kernel->hooks->scratch) {
            uint64_t bytes = s->kernel->hooks->scratch(&s->prob, &s->knobs, s->tile_rows);
            p->scratch = bytes > p->scratch ? bytes : p->scratch;
        }
    }
    p->scratch = (p->scratch + 63) / 64 * 64;
    return FOVEA_OK;
}

/* ---- accounting ---- */

static bool same_packed(const fv_step *s, uint32_t o, const fv_step *t, uint32_t k)
{
    const fv_kernel *a = fv_step_packer(s, o), *b = fv_step_packer(t, k);
    const char *x = a ? a->hooks->format : NULL, *y = b ? b->hooks->format : NULL;
    const bool pairs = ((s->prob.epi ^ t->prob.epi) & FV_EPI_SWIGLU) == 0;
    return pairs && (x == y || (x && y && strcmp(x, y) == 0)) &&
           fv_weight_same(&s->use[o].weight, &t->use[k].weight);
}

/* Whether an earlier step of the plan uses the same packed weight. Steps that share one are near,
 * the norm before K and V and the one before Q; but for training, which goes back. */
static bool counted_before(const fv_builder *b, uint32_t step, uint32_t o)
{
    uint32_t from = step > 16 && !b->training ? step - 16 : 0;
    for (uint32_t i = from; i < step; i++)
        for (uint32_t k = 0; !b->step[i].dead && k < FV_OPERANDS; k++)
            if (fv_weight_present(&b->step[i].use[k].weight) &&
                same_packed(&b->step[step], o, &b->step[i], k))
                return true;
    return false;
}

/* What a device with a memory of its own keeps of the caller's, for every frame in flight. */
static uint64_t external(const fovea_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; p->limits.throughput && i < p->b.values; i++) {
        const fv_value *v = &p->b.value[i];
        if (v->kind == FV_VALUE_INPUT || v->kind == FV_VALUE_OUTPUT)
            bytes = fv_size_add(bytes, fv_size_mul(v->rows, fv_value_stride(v)));
    }
    return fv_size_mul(bytes, p->limits.frames);
}

static void account(fovea_plan *p)
{
    fovea_plan_info *info = &p->info;
    uint64_t threads = info->threads;
    info->weights = info->largest = 0;
    info->steps = info->dispatches = 0;
    info->sweeps = p->sweeps;
    info->fallback = p->staged && p->limits.borrows ? external(p) : 0;
    for (uint32_t i = 0; i < p->b.steps; i++) {
        const fv_step *s = &p->b.step[i];
        if (s->dead)
            continue;
        info->steps++;
        for (uint32_t o = 0; o < FV_OPERANDS; o++) {
            if (!fv_weight_present(&s->use[o].weight))
                continue;
            uint64_t size =
                fv_packed_size(&s->use[o].weight, fv_step_packer(s, o), &s->prob, &s->knobs);
            if (size > info->largest)
                info->largest = size;
            if (!counted_before(&p->b, i, o))
                info->weights = fv_size_add(info->weights, size);
        }
    }
    for (uint32_t i = 0; i < p->sweeps; i++) {
        const fv_plan_sweep *w = &p->sweep[i];
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            if (p->b.step[k].dead)
                continue;
            if (p->limits.throughput)
                info->dispatches += w->chunks;
            else
                info->dispatches += !w->streamed || k == w->first;
        }
    }
    for (uint32_t i = 0; i < p->first_bank[FV_REGIONS]; i++)
        if (p->bank[i].size > info->largest)
            info->largest = p->bank[i].size;
    for (uint32_t i = 0; p->limits.throughput && i < p->b.values; i++) {
        const fv_value *v = &p->b.value[i];
        const bool outside = v->kind == FV_VALUE_INPUT || v->kind == FV_VALUE_OUTPUT;
        if (outside && v->rows * fv_value_stride(v) > info->largest)
            info->largest = v->rows * fv_value_stride(v);
    }
    info->residual = p->region_size[FV_REGION_RESIDUAL];
    info->states = fv_size_add(p->region_size[FV_REGION_STATES], p->region_size[FV_REGION_KEPT]);
    info->chunks =
        fv_size_add(p->region_size[FV_REGION_CHUNKS],
                    fv_size_add(p->region_size[FV_REGION_LOCAL], fv_size_mul(p->local, threads)));
    info->scratch = fv_size_mul(p->scratch, threads);
    info->staging =
        fv_size_add(p->region_size[FV_REGION_STAGING], p->picture_bytes + p->b.table_bytes);
    info->staging = fv_size_add(info->staging, external(p));
    info->staging += (uint64_t)p->b.step_room * (sizeof(fv_step) + sizeof(fv_launch) + 128) +
                     (uint64_t)p->b.value_room * sizeof(fv_value);
}

static uint64_t activations(const fovea_plan_info *i)
{
    uint64_t sum = fv_size_add(i->residual, i->states);
    sum = fv_size_add(sum, i->chunks);
    return fv_size_add(fv_size_add(sum, i->scratch), i->staging);
}

static fovea_status account_memory(fovea_plan *p, const fv_plan_request *r, uint32_t chunk)
{
    fv_sweep_schedule(p, r, chunk);
    FV_TRY(choose(p));
    FV_TRY(fv_arena_place(p));
    account(p);
    return FOVEA_OK;
}

/* Bytes that the device has for all but the weights. What the host's memory cannot hold may still
 * be asked about: an allocation might succeed all the same, and touching it would end the process.
 */
static uint64_t device_memory(const fovea_plan *p, const fv_plan_request *r)
{
    const uint64_t memory = p->device->info.memory;
    if (!memory || (r->dry && !p->limits.throughput))
        return UINT64_MAX;
    return memory > p->info.weights ? memory - p->info.weights : 0;
}

static bool within(const fovea_plan *p, const fv_plan_request *r)
{
    const uint64_t bytes = activations(&p->info);
    return p->oversize == FV_NO_VALUE && bytes <= device_memory(p, r) &&
           (!r->memory_limit || bytes <= r->memory_limit);
}

/* The largest chunk of `sizes` within the limits. */
static fovea_status fit_chunk(fovea_plan *p, const fv_plan_request *r, const uint32_t *sizes,
                              size_t n)
{
    if (r->chunk)
        return account_memory(p, r, r->chunk);
    for (size_t i = 0; i < n; i++) {
        FV_TRY(account_memory(p, r, sizes[i]));
        if (within(p, r))
            break;
    }
    return FOVEA_OK;
}

/* All rows of a step at once, unless a limit or the caller wants less. */
static fovea_status fit_wide(fovea_plan *p, const fv_plan_request *r)
{
    const bool asked = r->schedule == FOVEA_SCHEDULE_STREAMED || r->chunk;
    if (r->schedule == FOVEA_SCHEDULE_STEPWISE || !asked) {
        FV_TRY(account_memory(p, r, 0));
        if (within(p, r) || r->schedule == FOVEA_SCHEDULE_STEPWISE)
            return FOVEA_OK;
    }
    fv_plan_request streamed = *r;
    streamed.schedule = FOVEA_SCHEDULE_STREAMED;
    size_t first = 0;
    while (asked && super_chunks[first] > ASKED_CHUNK)
        first++;
    return fit_chunk(p, &streamed, super_chunks + first, SUPER_CHUNKS - first);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* The step that writes a value, or the first one that reads it. */
static const char *label_of(const fovea_plan *p, fv_id id)
{
    const fv_value *v = &p->b.value[id];
    for (uint32_t i = v->first_step; i <= v->last_step && i < p->b.steps; i++)
        if (!p->b.step[i].dead && p->b.step[i].use[p->b.step[i].out].view.id == id)
            return p->b.step[i].label;
    return v->first_step < p->b.steps ? p->b.step[v->first_step].label : "a value";
}

static fovea_status too_large(const fovea_plan *p, const fv_plan_request *r)
{
    const uint64_t bytes = activations(&p->info), memory = device_memory(p, r);
    const bool limited = r->memory_limit && r->memory_limit < memory;
    const char *fewer = p->limits.throughput ? "activations of 16 bits" : "fewer threads";
    if (p->oversize != FV_NO_VALUE)
        return fv_fail(FOVEA_ENOMEM,
                       "%s: %.1f MiB that must lie together, device %s has buffers of at most "
                       "%.1f MiB; use a smaller picture or activations of 16 bits%s",
                       label_of(p, p->oversize), mib(p->oversize_bytes), p->device->info.id,
                       mib(p->limits.largest),
                       r->schedule == FOVEA_SCHEDULE_STEPWISE ? ", or let the plan stream" : "");
    return fv_fail(FOVEA_ENOMEM,
                   "the plan needs %.1f MiB beside its weights, %s %.1f MiB; use a "
                   "smaller picture, linear attention or %s",
                   mib(bytes), limited ? "the limit is" : "the device has",
                   mib(limited ? r->memory_limit : memory), fewer);
}

/* Weights are a buffer each, whatever the rows are. */
static fovea_status check_weights(const fovea_plan *p)
{
    for (uint32_t i = 0; i < p->b.steps; i++) {
        const fv_step *s = &p->b.step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            if (!fv_weight_present(&s->use[o].weight))
                continue;
            const uint64_t size =
                fv_packed_size(&s->use[o].weight, fv_step_packer(s, o), &s->prob, &s->knobs);
            if (size > p->limits.largest)
                return fv_fail(FOVEA_ENOMEM,
                               "%s: a weight of %.1f MiB, device %s has buffers of at most %.1f "
                               "MiB; use weights of 16 bits or another device",
                               s->label, mib(size), p->device->info.id, mib(p->limits.largest));
        }
    }
    return FOVEA_OK;
}

/* Sums over tokens follow the chunks of the sweeps that reduce. So that they are the same with any
 * number of threads and in both schedules, these chunks are chosen for streaming and for as many
 * workers as the limits have room for, whoever runs the plan. */
static fovea_status fit_reduced(fovea_plan *p, const fv_plan_request *r, uint32_t *chunk)
{
    fv_plan_request streamed = *r;
    const uint32_t threads = p->info.threads;
    bool fits = false;
    streamed.schedule = FOVEA_SCHEDULE_STREAMED;
    streamed.source = "cost";
    for (size_t k = 0; k < SHARERS && !fits; k++)
        for (size_t i = 0; i < CHUNK_SIZES && chunk_sizes[i] >= sharers[k].least && !fits; i++) {
            p->info.threads = sharers[k].workers;
            FV_TRY(account_memory(p, &streamed, *chunk = chunk_sizes[i]));
            fits = within(p, r);
        }
    p->info.threads = threads;
    return FOVEA_OK;
}

static fovea_status fit(fovea_plan *p, const fv_plan_request *asked)
{
    fv_plan_request own = *asked;
    const fv_plan_request *r = &own;
    if (!p->limits.throughput && !r->chunk)
        FV_TRY(fit_reduced(p, r, &own.reduced));
    if (r->schedule == FOVEA_SCHEDULE_AUTO && !r->chunk) {
        FV_TRY(account_memory(p, r, p->limits.throughput ? 0 : chunk_sizes[0]));
        if (within(p, r))
            return check_weights(p);
        own.source = "cost"; /* what wisdom wants does not fit */
    } else if (!own.source) {
        own.source = "forced";
    }
    if (p->limits.throughput)
        FV_TRY(fit_wide(p, r));
    else
        FV_TRY(fit_chunk(p, r, chunk_sizes, CHUNK_SIZES));
    if (!within(p, r) && !p->limits.throughput && r->schedule == FOVEA_SCHEDULE_AUTO) {
        fv_plan_request all = *r; /* what would be faster step by step needs the most memory */
        all.schedule = FOVEA_SCHEDULE_STREAMED;
        FV_TRY(fit_chunk(p, &all, chunk_sizes, CHUNK_SIZES));
    }
    return within(p, r) ? check_weights(p) : too_large(p, r);
}

/* ---- making it ---- */

static fovea_status pack(fovea_plan *p)
{
    for (uint32_t i = 0; i < p->b.steps; i++) {
        fv_step *s = &p->b.step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            fv_use *u = &s->use[o];
            if (!fv_weight_present(&u->weight))
                continue;
            FV_TRY(fv_packed_get(&u->packed, p->model, p->limits.throughput ? p->device : NULL,
                                 p->limits.locked, &u->weight, fv_step_packer(s, o), &s->prob,
                                 &s->knobs));
        }
    }
    return FOVEA_OK;
}

static fovea_status allocate(fovea_plan *p, const fv_mem *kept)
{
    static const char *const names[FV_REGIONS] = {
        [FV_REGION_LOCAL] = "the rows of a chunk",    [FV_REGION_SCRATCH] = "the kernels' scratch",
        [FV_REGION_RESIDUAL] = "the residual stream", [FV_REGION_STATES] = "the attention states",
        [FV_REGION_KEPT] = "the state of the scan",   [FV_REGION_CHUNKS] = "activations",
        [FV_REGION_STAGING] = "the resized picture",
    };
    const fv_backend *be = p->device->backend;
    if (kept) {
        *fv_plan_kept(p) = *kept;
        p->shares_kept = true;
    }
    for (int r = 0; r < FV_REGIONS; r++) {
        if (!p->region_size[r] || (r == FV_REGION_KEPT && kept))
            continue;
        for (uint32_t i = p->first_bank[r]; i < p->first_bank[r + 1]; i++)
            FV_TRY(be->alloc(p->device->device, p->bank[i].size, names[r], &p->bank[i].mem));
    }
    return FOVEA_OK;
}

static void launch_of(const fovea_plan *p, const fv_step *s, fv_launch *l)
{
    *l = (fv_launch){.kernel = s->kernel,
                     .rows = s->prob.dim[FV_DIM_ROWS],
                     .tile_rows = s->tile_rows,
                     .tile_cols = s->tile_cols,
                     .cols = s->cols,
                     .ahead = s->ahead,
                     .scratch = p->local};
    if (p->region_size[FV_REGION_SCRATCH])
        l->scratch_mem = &p->bank[p->first_bank[FV_REGION_SCRATCH]].mem;
    l->args.prob = s->prob;
    l->args.knobs = s->knobs;
    memcpy(l->args.f, s->f, sizeof s->f);
    memcpy(l->args.u, s->u, sizeof s->u);
    l->args.table = s->table;
    const fv_plan_sweep *w = &p->sweep[s->sweep];
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        fv_operand *op = &l->operand[o];
        op->kind = u->kind;
        if (fv_weight_present(&u->weight)) {
            op->type = (uint8_t)(fv_step_narrow(s, o) ? s->prob.weight : FV_F32);
            op->ref = (fv_ref){.space = FV_SPACE_BUFFER, .mem = &u->packed->mem};
            l->args.ld[o] = u->weight.rows > 1 ? u->weight.cols : 0;
        } else if (u->view.id >= 0) {
            const fv_value *v = &p->b.value[u->view.id];
            op->type = v->type;
            op->ref = v->ref;
            op->ref.offset += u->view.col * fv_type_size(v->type);
            op->ring = v->ring;
            op->shift = v->shift;
            if (u->kind == FV_KIND_LOCAL && v->ref.space == FV_SPACE_LOCAL) {
                l->args.window = w->width ? v->ring : w->chunk / s->u[0];
                l->args.shift = v->shift;
            }
            op->stride = fv_value_stride(v);
            l->args.ld[o] = v->ld;
        }
    }
}

static fovea_status open_queue(fovea_plan *p)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, p->b.slots, sizeof(fv_slot), FV_MEM_PLAN, "the plan"));
    fv_slot *slot = memory;
    for (uint32_t i = 0; i < p->b.values; i++) {
        const fv_value *v = &p->b.value[i];
        if (v->kind == FV_VALUE_INPUT || v->kind == FV_VALUE_OUTPUT)
            slot[v->slot] = (fv_slot){.row_bytes = fv_value_stride(v),
                                      .rows = v->rows,
                                      .output = v->kind == FV_VALUE_OUTPUT,
                                      .staged = p->staged && p->limits.borrows};
    }
    fovea_status status = p->device->backend->queue_open(
        p->device->device, p->local + p->scratch, slot, p->b.slots, p->info.dispatches, &p->queue);
    fv_mem_free(slot);
    return status;
}

static fovea_status bind(fovea_plan *p)
{
    const fv_backend *be = p->device->backend;
    void *memory;
    FV_TRY(fv_mem_array(&memory, p->info.steps, sizeof *p->bound, FV_MEM_PLAN, "the plan"));
    p->bound = memory;
    FV_TRY(fv_mem_array(&memory, p->sweeps, sizeof *p->run, FV_MEM_PLAN, "the plan"));
    p->run = memory;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->sweeps; i++) {
        const fv_plan_sweep *w = &p->sweep[i];
        fv_sweep *run = &p->run[i];
        *run = (fv_sweep){.step = p->bound + n,
                          .rows = w->rows,
                          .chunk = w->chunk,
                          .groups = w->groups,
                          .parts = w->parts,
                          .runs = w->runs,
                          .width = w->width,
                          .reach = w->reach,
                          .streamed = w->streamed};
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            if (p->b.step[k].dead)
                continue;
            fv_launch l;
            launch_of(p, &p->b.step[k], &l);
            l.index = n;
            FV_TRY(be->bind(p->device->device, &l, &p->bound[n]));
            n++;
            run->steps++;
        }
    }
    FV_TRY(open_queue(p));
    return be->prepare ? be->prepare(p->queue, p->run, p->sweeps, UINT32_MAX) : FOVEA_OK;
}

static fovea_status describe_steps(fovea_plan *p)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, p->b.steps, sizeof *p->problem_text, FV_MEM_PLAN, "the plan"));
    p->problem_text = memory;
    for (uint32_t i = 0; i < p->b.steps; i++) {
        char text[160];
        if (p->b.step[i].dead)
            continue;
        fv_problem_format(text, sizeof text, &p->b.step[i].prob);
        FV_TRY(fv_mem_text(&p->problem_text[i], text, FV_MEM_PLAN));
    }
    return FOVEA_OK;
}

fovea_status fv_plan_finish(fovea_plan *p, const fv_plan_request *r)
{
    FV_TRY(p->b.status);
    fv_sweep_demand(&p->b);
    fv_emit_narrow(&p->b);
    FV_TRY(fv_sweep_cut(p));
    FV_TRY(fit(p, r));
    FV_TRY(describe_steps(p));
    p->dry = r->dry;
    if (r->dry)
        return FOVEA_OK;
    FV_TRY(pack(p));
    fv_emit_drop_constants(&p->b);
    FV_TRY(allocate(p, r->kept));
    return bind(p);
}

/* The kernels of throughput devices count the elements of a buffer in 32 bits. */
#define COUNTED ((uint64_t)UINT32_MAX)

fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device, fv_wisdom *wisdom)
{
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fovea_plan), FV_MEM_PLAN, "the plan"));
    fovea_plan *p = memory;
    p->device = fv_device_ref(device);
    p->b.weight_type = p->b.row_type = FV_F32;
    device->backend->limits(device->device, &p->limits);
    if (p->limits.throughput && p->limits.largest > COUNTED)
        p->limits.largest = COUNTED;
    p->info.threads = p->limits.threads;
    fv_advice_begin(&p->advice, wisdom, device, p->limits.threads);
    *out = p;
    return FOVEA_OK;
}

void fovea_plan_free(fovea_plan *p)
{
    if (!p)
        return;
    const fv_backend *be = p->device->backend;
    fv_fallback_free(&p->fallback);
    if (p->queue)
        be->queue_close(p->queue);
    for (uint32_t i = 0; p->bound && i < p->info.steps; i++)
        if (p->bound[i])
            be->unbind(p->device->device, p->bound[i]);
    for (uint32_t i = 0; i < p->first_bank[FV_REGIONS]; i++)
        if ((p->bank[i].mem.host || p->bank[i].mem.handle) &&
            !(p->shares_kept && &p->bank[i].mem == fv_plan_kept(p)))
            be->release(p->device->device, &p->bank[i].mem);
    fv_mem_free(p->bank);
    for (uint32_t i = 0; i < p->b.steps; i++) {
        for (uint32_t o = 0; o < FV_OPERANDS; o++)
            if (p->b.step[i].use[o].packed)
                fv_packed_unref(p->model, p->b.step[i].use[o].packed);
        if (p->problem_text)
            fv_mem_free(p->problem_text[i]);
    }
    fv_emit_release(&p->b);
    fv_picture_free(&p->picture);
    fv_mem_free(p->bound);
    fv_mem_free(p->run);
    fv_mem_free(p->sweep);
    fv_mem_free(p->problem_text);
    if (p->model)
        fv_model_unref(p->model);
    fv_device_unref(p->device);
    fv_mem_free(p);
}

/* ---- answers ---- */

fovea_status fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out)
{
    FV_TRY(fv_require(plan, "the plan"));
    return FV_ABI_WRITE(out, plan->info, FOVEA_PLAN_INFO_INIT);
}

/* Every operand once, whatever the caches do. */
static double step_bytes(const fovea_plan *p, const fv_step *s)
{
    const double rows = s->prob.dim[FV_DIM_ROWS];
    double bytes = 0;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        if (fv_weight_present(&u->weight)) {
            const size_t elem = fv_step_narrow(s, o) ? fv_type_size(s->prob.weight) : sizeof(float);
            bytes += (double)u->weight.rows * u->weight.cols * (double)elem;
        } else if (u->view.id >= 0) {
            const fv_value *v = &p->b.value[u->view.id];
            const uint32_t cols = v->cols - u->view.col, most = fv_problem_columns(&s->prob, o);
            const bool state = u->kind == FV_KIND_STATE || u->kind == FV_KIND_PARTIAL;
            const bool picked = fv_op_table[s->prob.op]->operand[o].picked;
            const bool whole = u->kind == FV_KIND_WHOLE && !picked;
            bytes += (state || whole ? v->rows : rows) * (state || cols < most ? cols : most) *
                     (double)fv_type_size(v->type);
        }
    }
    return bytes;
}

/* What is computed. */
static void describe_problem(fovea_step_info *out, const fv_problem *p)
{
    const fv_op *op = fv_op_table[p->op];
    const bool product = op->flops == fv_flops_product;
    out->op = op->name;
    out->mechanism = fv_mech_table[p->mech]->name;
    out->activation = p->epi & FV_EPI_SWIGLU ? "swiglu" : fv_op_activation(p->epi);
    out->dtype = fv_dtype_of(p->in);
    out->weight_dtype = fv_dtype_of(p->weight);
    out->m = p->dim[FV_DIM_ROWS];
    out->n = p->dim[FV_ROW_C];
    out->k = product ? p->dim[FV_GEMM_K] : 0;
    if (p->heads) {
        out->heads = p->heads;
        out->head_dim = p->dim[FV_ATTN_D];
        out->value_dim = p->dim[FV_ATTN_DV];
        out->n = out->heads * out->value_dim;
        out->k = p->dim[FV_ATTN_KEYS];
    }
}

int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out)
{
    for (uint32_t i = 0; i < plan->b.steps; i++) {
        const fv_step *s = &plan->b.step[i];
        if (s->dead || index-- > 0)
            continue;
        const fv_plan_sweep *w = &plan->sweep[s->sweep];
        fovea_step_info info = {
            .label = s->label,
            .problem = plan->problem_text[i],
            .kernel = s->kernel->name,
            .source = s->source,
            .sweep = s->sweep,
            .schedule = w->streamed ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE,
            .chunk = s->tile_rows,
            .flops = s->flops,
            .seconds = s->seconds,
            .bytes = step_bytes(plan, s),
            .sweep_source = w->source,
        };
        describe_problem(&info, &s->prob);
        return FV_ABI_WRITE(out, info, FOVEA_STEP_INFO_INIT) == FOVEA_OK;
    }
    return 0;
}

int fovea_plan_output(const fovea_plan *plan, size_t index, fovea_output_info *out)
{
    if (index >= plan->b.n_wanted)
        return 0;
    const fv_wanted *w = &plan->b.wanted[index];
    const fv_value *v = &plan->b.value[w->value];
    fovea_output_info info = {.name = w->name,
                              .rows = v->rows,
                              .columns = v->cols,
                              .prefix = w->grid.prefix,
                              .grid_width = w->grid.width,
                              .grid_height = w->grid.height,
                              .stride = w->grid.stride};
    return FV_ABI_WRITE(out, info, FOVEA_OUTPUT_INFO_INIT) == FOVEA_OK;
}
