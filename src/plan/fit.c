/* fit.c: compares candidates, and commits the one that fits the device and the caller's limit. */
#include "base/mem.h"
#include "plan/plan.h"
#include "weights/packed.h"

/* Tokens per chunk. The first size is the default. The smaller sizes are tried under a memory
 * limit: they save memory but are slower. All sizes except the last are whole row tiles of GEMM. */
static const uint32_t chunk_sizes[] = {FV_CHUNK_ROWS, 126, 84, 42, 14, 1};
#define CHUNK_SIZES (sizeof chunk_sizes / sizeof *chunk_sizes)

/* Tokens per super-chunk on throughput devices, in descending order. They are tried under a memory
 * limit, or if the caller asks for streaming. They are powers of two; smaller ones need less memory
 * and more launches. */
static const uint32_t super_chunks[] = {32768, 16384, 8192, 4096, 2048, 1024, 512, 256, 64};
#define SUPER_CHUNKS (sizeof super_chunks / sizeof *super_chunks)
#define ASKED_CHUNK 4096

uint64_t fv_plan_activations(const fovea_plan_info *i)
{
    uint64_t sum = fv_size_add(i->residual, i->states);
    sum = fv_size_add(sum, i->chunks);
    return fv_size_add(fv_size_add(sum, i->scratch), i->staging);
}

/* Makes the candidate with this chunk, and replaces *best (which may be empty) by it. */
static fovea_status try_chunk(fv_plan_candidate *best, const fovea_plan *p,
                              const fv_plan_request *r, uint32_t chunk)
{
    fv_candidate_free(best);
    return fv_candidate_make(best, p, r, chunk, p->info.threads);
}

/* Returns the bytes of device memory for everything except the weights. On the host, a plan that
 * will run is limited by physical memory: a larger allocation would succeed, but the process would
 * be killed when it touches the memory. A dry plan may be larger. */
static uint64_t device_memory(const fovea_plan *p, const fv_plan_candidate *c,
                              const fv_plan_request *r)
{
    const bool free = p->free_memory != UINT64_MAX;
    const uint64_t memory = free ? p->free_memory : p->device->info.memory;
    const uint64_t weights = c->info.weights - (free ? c->weights_there : 0);
    if (!memory || (r->dry && !p->limits.throughput))
        return UINT64_MAX;
    return memory > weights ? memory - weights : 0;
}

/* Returns the free memory of the device in bytes. Every fit queries it again, because it changes.
 */
static uint64_t free_memory(const fovea_plan *p)
{
    const fv_backend *be = p->device->backend;
    const uint64_t free = be->free_memory ? be->free_memory(p->device->device) : UINT64_MAX;
    const uint64_t all = p->device->info.memory;
    return free != UINT64_MAX && all && free > all ? all : free;
}

/* Returns whether the scratch of the kernels, which is one buffer, fits in a buffer of the device.
 */
static bool scratch_fits(const fovea_plan *p, const fv_plan_candidate *c)
{
    return !p->limits.throughput || c->scratch <= p->limits.largest;
}

static bool within(const fovea_plan *p, const fv_plan_candidate *c, const fv_plan_request *r)
{
    const uint64_t bytes = fv_plan_activations(&c->info);
    return c->oversize == FV_NO_VALUE && scratch_fits(p, c) && bytes <= device_memory(p, c, r) &&
           (!r->memory_limit || bytes <= r->memory_limit);
}

/* Numbers of workers of common edge devices. Chunks down to the given size are tried before a
 * smaller number of workers is assumed. Below 14 rows, one row tile of GEMM, kernels are slow. */
static const struct {
    uint32_t workers, min_chunk;
} sharers[] = {{8, 42}, {4, 14}, {2, 14}, {1, 1}};
#define SHARERS (sizeof sharers / sizeof *sharers)

/* Makes the candidate with the largest chunk of `sizes` that fits the limits, or with the smallest
 * chunk if none fits. */
static fovea_status fit_chunk(fv_plan_candidate *best, const fovea_plan *p,
                              const fv_plan_request *r, const uint32_t *sizes, size_t n)
{
    if (r->chunk)
        return try_chunk(best, p, r, r->chunk);
    for (size_t i = 0; i < n; i++) {
        FV_TRY(try_chunk(best, p, r, sizes[i]));
        if (within(p, best, r))
            break;
    }
    return FOVEA_OK;
}

/* Makes the candidate of a throughput device: it computes all rows of a step at once, unless a
 * memory limit or the caller requires fewer. */
static fovea_status fit_throughput(fv_plan_candidate *best, const fovea_plan *p,
                                   const fv_plan_request *r)
{
    const bool asked = r->schedule == FOVEA_SCHEDULE_STREAMED || r->chunk;
    if (r->schedule == FOVEA_SCHEDULE_STEPWISE || !asked) {
        FV_TRY(try_chunk(best, p, r, 0));
        if (within(p, best, r) || r->schedule == FOVEA_SCHEDULE_STEPWISE)
            return FOVEA_OK;
    }
    fv_plan_request streamed = *r;
    streamed.schedule = FOVEA_SCHEDULE_STREAMED;
    size_t first = 0;
    while (asked && super_chunks[first] > ASKED_CHUNK)
        first++;
    return fit_chunk(best, p, &streamed, super_chunks + first, SUPER_CHUNKS - first);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* Returns the label of the step that writes a value, or of the first step that reads it if no step
 * writes it. */
static const char *label_of(const fovea_plan *p, fv_id id)
{
    const fv_graph *g = &p->graph;
    const fv_value_life *l = &p->cut.life[id];
    for (uint32_t i = l->first_step; i <= l->last_step && i < g->steps; i++)
        if (!g->step[i].dead && g->step[i].use[g->step[i].out].view.id == id)
            return g->step[i].label;
    return l->first_step < g->steps ? g->step[l->first_step].label : "a value";
}

static fovea_status too_large(const fovea_plan *p, const fv_plan_candidate *c,
                              const fv_plan_request *r)
{
    const uint64_t bytes = fv_plan_activations(&c->info), memory = device_memory(p, c, r);
    const bool limited = r->memory_limit && r->memory_limit < memory;
    const char *fewer = p->limits.throughput ? "activations of 16 bits" : "fewer threads";
    const bool value = c->oversize != FV_NO_VALUE;
    if (value || !scratch_fits(p, c))
        return fv_fail(FOVEA_ENOMEM,
                       "%s: a buffer of %.1f MiB is needed, but buffers of device %s hold at most "
                       "%.1f MiB; use a smaller picture or activations of 16 bits%s",
                       value ? label_of(p, c->oversize) : "the kernels' scratch",
                       mib(value ? c->oversize_bytes : c->scratch), p->device->info.id,
                       mib(p->limits.largest),
                       r->schedule == FOVEA_SCHEDULE_STEPWISE ? ", or let the plan stream" : "");
    return fv_fail(FOVEA_ENOMEM,
                   "the plan needs %.1f MiB in addition to its weights, but %s %.1f MiB%s; use a "
                   "smaller picture, linear attention or %s",
                   mib(bytes), limited ? "the limit is" : "the device has",
                   mib(limited ? r->memory_limit : memory),
                   limited || p->free_memory == UINT64_MAX ? "" : " free after the weights", fewer);
}

/* Fails if a packed weight is larger than the device's largest buffer. Each packed weight is one
 * buffer, so smaller chunks would not help. */
static fovea_status check_weights(const fovea_plan *p, const fv_plan_candidate *c)
{
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        const fv_step_plan *sp = &c->step[i];
        const fv_problem prob = fv_candidate_problem(c, s, i);
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            if (!fv_weight_present(&s->use[o].weight))
                continue;
            const uint64_t size = fv_packed_size(
                &s->use[o].weight, fv_step_packer(s, sp->kernel, o), &prob, &sp->knobs);
            if (size > p->limits.largest)
                return fv_fail(FOVEA_ENOMEM,
                               "%s: a weight has %.1f MiB, but buffers of device %s hold at most "
                               "%.1f MiB; use weights of fewer bits or another device",
                               s->label, mib(size), p->device->info.id, mib(p->limits.largest));
        }
    }
    return FOVEA_OK;
}

/* Chooses the chunk of the reducing sweeps. The chunks decide the order in which sums over tokens
 * are rounded. To give the same bits with any number of threads and in both schedules, they are
 * chosen as if the sweep were streamed over as many workers as the limits allow, whatever the
 * actual number of threads. */
static fovea_status fit_reduced(const fovea_plan *p, const fv_plan_request *r, uint32_t *chunk)
{
    fv_plan_request streamed = *r;
    bool fits = false;
    streamed.schedule = FOVEA_SCHEDULE_STREAMED;
    streamed.source = "cost";
    for (size_t k = 0; k < SHARERS && !fits; k++)
        for (size_t i = 0; i < CHUNK_SIZES && chunk_sizes[i] >= sharers[k].min_chunk && !fits;
             i++) {
            fv_plan_candidate c;
            *chunk = chunk_sizes[i];
            FV_TRY(fv_candidate_make(&c, p, &streamed, *chunk, sharers[k].workers));
            fits = within(p, &c, r);
            fv_candidate_free(&c);
        }
    return FOVEA_OK;
}

/* Bytes that the plan needs in addition to its weights, with the default chunk. */
static fovea_status bytes_of(uint64_t *out, const fovea_plan *p, const fv_plan_request *r)
{
    fv_plan_candidate c;
    FV_TRY(fv_candidate_make(&c, p, r, chunk_sizes[0], p->info.threads));
    *out = fv_plan_activations(&c.info);
    fv_candidate_free(&c);
    return FOVEA_OK;
}

/* Sets r->unbanded unless bands save at least a tenth of the memory: they repeat work at their
 * borders. With many workers, the bands in flight together may even need more memory than all rows
 * at once. */
static fovea_status fit_bands(const fovea_plan *p, fv_plan_request *r)
{
    bool any = false;
    uint64_t banded, whole;
    for (uint32_t i = 0; i < p->cut.sweeps; i++)
        any |= p->cut.sweep[i].bands > 0;
    if (!any || r->schedule != FOVEA_SCHEDULE_AUTO)
        return FOVEA_OK;
    FV_TRY(bytes_of(&banded, p, r));
    r->unbanded = true;
    FV_TRY(bytes_of(&whole, p, r));
    r->unbanded = banded > whole - whole / 10;
    return FOVEA_OK;
}

/* Finds the best candidate: the one that wisdom and the cost rules choose if it fits, or else the
 * one with the largest chunk that fits. */
static fovea_status find_best(fv_plan_candidate *best, const fovea_plan *p,
                              const fv_plan_request *asked)
{
    fv_plan_request own = *asked;
    const fv_plan_request *r = &own;
    if (!p->limits.throughput && !r->chunk)
        FV_TRY(fit_reduced(p, r, &own.reduced));
    FV_TRY(fit_bands(p, &own));
    if (r->schedule == FOVEA_SCHEDULE_AUTO && !r->chunk) {
        FV_TRY(try_chunk(best, p, r, p->limits.throughput ? 0 : chunk_sizes[0]));
        if (within(p, best, r))
            return check_weights(p, best);
        own.source = "cost"; /* the schedule that wisdom names does not fit */
    } else if (!own.source) {
        own.source = "forced";
    }
    if (p->limits.throughput)
        FV_TRY(fit_throughput(best, p, r));
    else
        FV_TRY(fit_chunk(best, p, r, chunk_sizes, CHUNK_SIZES));
    if (!within(p, best, r) && !p->limits.throughput && r->schedule == FOVEA_SCHEDULE_AUTO) {
        fv_plan_request all = *r; /* stepwise needs the most memory */
        all.unbanded = false;
        all.schedule = FOVEA_SCHEDULE_STREAMED;
        FV_TRY(fit_chunk(best, p, &all, chunk_sizes, CHUNK_SIZES));
    }
    return within(p, best, r) ? check_weights(p, best) : too_large(p, best, r);
}

/* Commits the candidate to the plan, and stores the numbers of partials in the graph. */
static void commit(fovea_plan *p, const fv_plan_candidate *c)
{
    fv_candidate_free(&p->chosen);
    p->chosen = *c;
    p->info = c->info;
    for (uint32_t i = 0; i < p->graph.steps; i++)
        p->graph.step[i].prob = fv_candidate_problem(c, &p->graph.step[i], i);
    for (uint32_t i = 0; i < p->graph.values; i++)
        if (p->graph.value[i].kind == FV_VALUE_PARTIAL && c->place[i].groups)
            p->graph.value[i].rows = c->place[i].groups;
}

fovea_status fv_plan_fit(fovea_plan *p, const fv_plan_request *r)
{
    fv_plan_candidate best = {.oversize = FV_NO_VALUE};
    p->free_memory = free_memory(p);
    const fovea_status status = find_best(&best, p, r);
    if (status == FOVEA_OK)
        commit(p, &best);
    else
        fv_candidate_free(&best);
    return status;
}
