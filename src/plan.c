/* plan.c: from a list of steps to something that runs: choose, place, pack, bind; and its answers.
 */
#include "plan.h"

#include <stdio.h>
#include <string.h>

/* Tokens per chunk that the cost model starts from, then smaller ones for a memory limit. The first
 * is the block of rows for which GEMM reads its weights once. */
static const uint32_t chunk_sizes[] = {168, 126, 84, 42, 14, 1};
#define CHUNK_SIZES (sizeof chunk_sizes / sizeof *chunk_sizes)

/* ---- choice ---- */

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
        s->kernel = fv_kernel_choose(list, count, features, &s->prob);
        if (!s->kernel) {
            char text[128];
            fv_problem_format(text, sizeof text, &s->prob);
            return fv_fail(FOVEA_ENOTSUP, "%s: device %s has no kernel for %s", s->label,
                           p->device->info.id, text);
        }
        s->knobs = fv_kernel_defaults(s->kernel);
        s->source = "cost";
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

static const fv_kernel *packer(const fv_step *s, uint32_t operand)
{
    const bool product = s->prob.op == FV_OP_GEMM || s->prob.op == FV_OP_CONV;
    return product && operand == FV_GEMM_W ? s->kernel : NULL;
}

static bool same_packed(const fv_step *s, uint32_t o, const fv_step *t, uint32_t k)
{
    const fv_kernel *a = packer(s, o), *b = packer(t, k);
    const char *x = a ? a->hooks->format : NULL, *y = b ? b->hooks->format : NULL;
    return (x == y || (x && y && strcmp(x, y) == 0)) &&
           fv_weight_same(&s->use[o].weight, &t->use[k].weight);
}

/* Whether an earlier step of the plan uses the same packed weight. Steps that share one are near:
 * the norm before K and V and the one before Q. */
static bool counted_before(const fv_builder *b, uint32_t step, uint32_t o)
{
    uint32_t from = step > 16 ? step - 16 : 0;
    for (uint32_t i = from; i < step; i++)
        for (uint32_t k = 0; !b->step[i].dead && k < FV_OPERANDS; k++)
            if (fv_weight_present(&b->step[i].use[k].weight) &&
                same_packed(&b->step[step], o, &b->step[i], k))
                return true;
    return false;
}

static void account(fovea_plan *p)
{
    fovea_plan_info *info = &p->info;
    uint64_t threads = info->threads;
    info->weights = info->largest = 0;
    info->steps = info->dispatches = 0;
    info->sweeps = p->sweeps;
    for (uint32_t i = 0; i < p->b.steps; i++) {
        const fv_step *s = &p->b.step[i];
        if (s->dead)
            continue;
        info->steps++;
        for (uint32_t o = 0; o < FV_OPERANDS; o++) {
            if (!fv_weight_present(&s->use[o].weight))
                continue;
            uint64_t size = fv_packed_size(&s->use[o].weight, packer(s, o), &s->prob, &s->knobs);
            if (size > info->largest)
                info->largest = size;
            if (!counted_before(&p->b, i, o))
                info->weights = fv_size_add(info->weights, size);
        }
    }
    for (uint32_t i = 0; i < p->sweeps; i++) {
        const fv_plan_sweep *w = &p->sweep[i];
        for (uint32_t k = w->first; k < w->first + w->count; k++)
            info->dispatches += !p->b.step[k].dead && (!w->streamed || k == w->first);
    }
    for (int r = 0; r < FV_REGIONS; r++)
        if (p->region_size[r] > info->largest)
            info->largest = p->region_size[r];
    info->residual = p->region_size[FV_REGION_RESIDUAL];
    info->states = fv_size_add(p->region_size[FV_REGION_STATES], p->region_size[FV_REGION_KEPT]);
    info->chunks = fv_size_add(p->region_size[FV_REGION_CHUNKS], fv_size_mul(p->local, threads));
    info->scratch = fv_size_mul(p->scratch, threads);
    info->staging =
        fv_size_add(p->region_size[FV_REGION_STAGING], p->picture_bytes + p->b.table_bytes);
    info->staging += (uint64_t)p->b.step_room * (sizeof(fv_step) + sizeof(fv_launch) + 128) +
                     (uint64_t)p->b.value_room * sizeof(fv_value);
}

static uint64_t activations(const fovea_plan_info *i)
{
    uint64_t sum = fv_size_add(i->residual, i->states);
    sum = fv_size_add(sum, i->chunks);
    return fv_size_add(fv_size_add(sum, i->scratch), i->staging);
}

static fovea_status size_up(fovea_plan *p, const fv_plan_request *r, uint32_t chunk)
{
    fv_sweep_schedule(p, r, chunk);
    FV_TRY(choose(p));
    FV_TRY(fv_arena_place(p));
    account(p);
    return FOVEA_OK;
}

static bool within(const fovea_plan *p, const fv_plan_request *r)
{
    return !r->memory_limit || activations(&p->info) <= r->memory_limit;
}

/* The largest chunk within the memory limit. */
static fovea_status fit_chunk(fovea_plan *p, const fv_plan_request *r)
{
    if (r->chunk)
        return size_up(p, r, r->chunk);
    for (size_t i = 0; i < CHUNK_SIZES; i++) {
        FV_TRY(size_up(p, r, chunk_sizes[i]));
        if (within(p, r))
            break;
    }
    return FOVEA_OK;
}

static fovea_status fit(fovea_plan *p, const fv_plan_request *r)
{
    FV_TRY(fit_chunk(p, r));
    if (!within(p, r) && r->schedule == FOVEA_SCHEDULE_AUTO) {
        fv_plan_request all = *r; /* what would be faster step by step needs the most memory */
        all.schedule = FOVEA_SCHEDULE_STREAMED;
        FV_TRY(fit_chunk(p, &all));
    }
    if (!within(p, r))
        return fv_fail(FOVEA_ENOMEM,
                       "the plan needs %.1f MiB beside its weights, the limit is %.1f MiB; use a "
                       "smaller picture, linear attention or fewer threads",
                       (double)activations(&p->info) / (1 << 20),
                       (double)r->memory_limit / (1 << 20));
    return FOVEA_OK;
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
            FV_TRY(
                fv_packed_get(&u->packed, p->model, &u->weight, packer(s, o), &s->prob, &s->knobs));
            u->mem = (fv_mem){.host = u->packed->data, .size = u->packed->size};
        }
    }
    return FOVEA_OK;
}

static fovea_status allocate(fovea_plan *p, const fv_mem *kept)
{
    static const char *const names[FV_REGIONS] = {
        [FV_REGION_RESIDUAL] = "the residual stream", [FV_REGION_STATES] = "the attention states",
        [FV_REGION_KEPT] = "the state of the scan",   [FV_REGION_CHUNKS] = "activations",
        [FV_REGION_STAGING] = "the resized picture",
    };
    const fv_backend *be = p->device->backend;
    if (kept) {
        p->region[FV_REGION_KEPT] = *kept;
        p->shares_kept = true;
    }
    for (int r = 0; r < FV_REGIONS; r++)
        if (p->region_size[r] && !(r == FV_REGION_KEPT && kept))
            FV_TRY(be->alloc(p->device->device, p->region_size[r], names[r], &p->region[r]));
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
            op->elem = sizeof(float);
            op->ref = (fv_ref){.space = FV_SPACE_BUFFER, .mem = &u->mem};
            l->args.ld[o] = u->weight.rows > 1 ? u->weight.cols : 0;
        } else if (u->view.id >= 0) {
            const fv_value *v = &p->b.value[u->view.id];
            op->elem = v->elem;
            op->ref = v->ref;
            op->ref.offset += (uint64_t)u->view.col * v->elem;
            op->ring = v->ring;
            op->shift = v->shift;
            if (u->kind == FV_KIND_LOCAL && v->ref.space == FV_SPACE_LOCAL) {
                l->args.window = w->width ? v->ring : w->chunk / s->u[0];
                l->args.shift = v->shift;
            }
            op->stride = (uint64_t)v->ld * v->elem;
            l->args.ld[o] = v->ld;
        }
    }
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
                          .runs = w->runs,
                          .width = w->width,
                          .reach = w->reach,
                          .streamed = w->streamed};
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            if (p->b.step[k].dead)
                continue;
            fv_launch l;
            launch_of(p, &p->b.step[k], &l);
            FV_TRY(be->bind(p->device->device, &l, &p->bound[n]));
            n++;
            run->steps++;
        }
    }
    return be->queue_open(p->device->device, p->local + p->scratch, p->b.slots, p->info.dispatches,
                          &p->queue);
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

fovea_status fv_plan_alloc(fovea_plan **out, fovea_device *device)
{
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fovea_plan), FV_MEM_PLAN, "the plan"));
    fovea_plan *p = memory;
    p->device = device;
    p->b.weight_type = FV_F32;
    p->info.threads = device->backend->threads(device->device);
    *out = p;
    return FOVEA_OK;
}

void fovea_plan_free(fovea_plan *p)
{
    if (!p)
        return;
    const fv_backend *be = p->device->backend;
    if (p->queue)
        be->queue_close(p->queue);
    for (uint32_t i = 0; p->bound && i < p->info.steps; i++)
        if (p->bound[i])
            be->unbind(p->device->device, p->bound[i]);
    for (int r = 0; r < FV_REGIONS; r++)
        if ((p->region[r].host || p->region[r].handle) && !(r == FV_REGION_KEPT && p->shares_kept))
            be->release(p->device->device, &p->region[r]);
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
    fv_mem_free(p);
}

/* ---- answers ---- */

void fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out)
{
    *out = plan->info;
}

/* Columns of an operand that the rows of a step have, at most: a view may begin anywhere in a value
 * and go on to its end. */
static uint32_t widest(const fv_step *s, uint32_t o)
{
    const uint32_t *dim = s->prob.dim;
    switch (s->prob.op) {
    case FV_OP_RESIZE_X:
    case FV_OP_RESIZE_Y:
        return UINT32_MAX;
    case FV_OP_PATCH:
        return o == FV_PATCH_IN ? UINT32_MAX : dim[FV_ROW_C];
    case FV_OP_GEMM:
        return o == FV_GEMM_A ? dim[FV_GEMM_K] : dim[FV_GEMM_N];
    case FV_OP_CONV:
        return o == FV_GEMM_A ? dim[FV_CONV_C] : dim[FV_GEMM_N];
    case FV_OP_GATHER:
        return o == FV_GATHER_IN ? dim[FV_ROW_C] : dim[FV_ROW_C] * dim[FV_GATHER_PARTS];
    case FV_OP_SOFTMAX:
    case FV_OP_WSOFTMAX:
    case FV_OP_LATTN_REDUCE:
    case FV_OP_LATTN_APPLY:
    case FV_OP_WLATTN:
    case FV_OP_SCAN:
    case FV_OP_MAP_REDUCE:
        return s->prob.heads *
               (dim[FV_ATTN_D] > dim[FV_ATTN_DV] ? dim[FV_ATTN_D] : dim[FV_ATTN_DV]);
    default:
        return dim[FV_ROW_C] ? dim[FV_ROW_C] : UINT32_MAX;
    }
}

/* Whether a weight has the problem's type of weights; all others are float. */
static bool narrow(const fv_step *s, uint32_t o)
{
    const bool product = s->prob.op == FV_OP_GEMM || s->prob.op == FV_OP_CONV;
    return (product && o == FV_GEMM_W) || (s->prob.op == FV_OP_POSEMB && o == FV_POSEMB_TABLE);
}

/* Every operand once, whatever the caches do. */
static double step_bytes(const fovea_plan *p, const fv_step *s)
{
    const double rows = s->prob.dim[FV_DIM_ROWS];
    double bytes = 0;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        if (fv_weight_present(&u->weight)) {
            const size_t elem = narrow(s, o) ? fv_type_size(s->prob.weight) : sizeof(float);
            bytes += (double)u->weight.rows * u->weight.cols * (double)elem;
        } else if (u->view.id >= 0) {
            const fv_value *v = &p->b.value[u->view.id];
            const uint32_t cols = v->cols - u->view.col, most = widest(s, o);
            const bool state = u->kind == FV_KIND_STATE || u->kind == FV_KIND_PARTIAL;
            const bool whole = u->kind == FV_KIND_WHOLE && s->prob.op != FV_OP_TAKE;
            bytes += (state || whole ? v->rows : rows) * (state || cols < most ? cols : most) *
                     (double)v->elem;
        }
    }
    return bytes;
}

int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out)
{
    for (uint32_t i = 0; i < plan->b.steps; i++) {
        const fv_step *s = &plan->b.step[i];
        if (s->dead || index-- > 0)
            continue;
        const fv_plan_sweep *w = &plan->sweep[s->sweep];
        *out = (fovea_step_info){
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
        };
        return 1;
    }
    return 0;
}

int fovea_plan_output(const fovea_plan *plan, size_t index, fovea_output_info *out)
{
    if (index >= plan->b.n_wanted)
        return 0;
    const fv_wanted *w = &plan->b.wanted[index];
    const fv_value *v = &plan->b.value[w->value];
    *out = (fovea_output_info){.name = w->name,
                               .rows = v->rows,
                               .columns = v->cols,
                               .prefix = w->grid.prefix,
                               .grid_width = w->grid.width,
                               .grid_height = w->grid.height,
                               .stride = w->grid.stride};
    return 1;
}
