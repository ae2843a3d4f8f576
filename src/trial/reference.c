/* reference.c: computes a step's output with the reference kernels of src/ops/ref, and its change
 * when the inputs are perturbed. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "ops/contracts/linear_attention.h"
#include "ops/contracts/product.h"
#include "ops/contracts/sequence.h"
#include "ops/ref/ref_softmax_scan.h"
#include "trial/random.h"
#include "trial/reference_parts.h"

#define RUN 64   /* rows per call of a reduction; the sum so far is rounded once per call */
#define TRIALS 2 /* runs with perturbed inputs */

/* ---- the reference kernel ---- */

static bool multiplies_weights(const fv_problem *p)
{
    return p->op == FV_OP_GEMM || p->op == FV_OP_CONV;
}

/* Returns the same problem with all operands in float32. */
static fv_problem plain(const fv_problem *p)
{
    fv_problem floats = *p;
    floats.in = p->in == FV_U8 && p->op != FV_OP_CONV ? FV_U8 : FV_F32;
    floats.out = p->out == FV_U8 ? FV_U8 : FV_F32;
    floats.weight = FV_F32;
    if (p->acc == FV_I32) /* attention also rounds its weights */
        floats.acc = multiplies_weights(p) ? FV_F32 : FV_BF16;
    floats.flags &= ~(uint32_t)(FV_FLAG_CHUNKWISE | FV_FLAG_RECURRENT);
    return floats;
}

const fv_kernel *fv_reference_kernel(const fv_problem *p)
{
    int count;
    uint32_t features;
    const fv_kernel *list = fv_backends[0]->kernels(NULL, &count, &features);
    const fv_problem floats = plain(p);
    for (int i = 0; i < count; i++)
        if (fv_kernel_is_reference(&list[i]) && fv_kernel_fits(&list[i], &floats, FV_NEED_PORTABLE))
            return &list[i];
    return NULL;
}

uint32_t fv_reference_columns(const fv_problem *p)
{
    fv_problem written = *p;
    if (fv_op_table[p->op]->merge)
        written.op = fv_op_table[p->op]->merge;
    return fv_problem_columns(&written, fv_op_out(fv_op_table[written.op]));
}

static const fv_kernel *merge_of(const fv_problem *p)
{
    fv_problem merge = *p;
    merge.op = fv_op_table[p->op]->merge;
    return merge.op ? fv_reference_kernel(&merge) : NULL;
}

/* ---- inputs ---- */

static fovea_status take_input(fv_input *in, const fv_given *g)
{
    *in = (fv_input){.count = g->count, .kind = g->kind, .type = g->type == FV_U8 ? FV_U8 : FV_F32};
    FV_TRY(fv_mem_array(&in->data, g->count, fv_type_size(in->type), FV_MEM_PLAN,
                        "a reference's input"));
    if (g->type == FV_U8 || g->type == FV_F32)
        memcpy(in->data, g->data, g->count * fv_type_size(g->type));
    else
        for (uint64_t i = 0; i < g->count; i++)
            ((float *)in->data)[i] = fv_value_get(g->data, g->type, i);
    return FOVEA_OK;
}

/* Returns the relative perturbation of the inputs. In float32 it is the rounding error of a sum
 * with as many terms as the op's, which grows with the square root of their number. If a kernel may
 * round operands to bfloat16, it is the maximum rounding error of that type: a kernel may round
 * several times, and an error in a query affects all columns of its row, which two runs may happen
 * to miss. If it may add up to 16 products in float16, it is twice the maximum rounding error of
 * float16, because such a sum is rounded 16 times, and its products too if the device does not fuse
 * them with the sum. Attention with int8 numbers rounds its softmax weights to multiples of 1/255
 * of the largest, however small they are. */
static double off(const fv_problem *p)
{
    if (p->acc == FV_I32 && !multiplies_weights(p))
        return 0x1p-7;
    if (p->acc == FV_F16)
        return 0x1p-10;
    if (p->acc == FV_BF16)
        return 0x1p-8;
    return (4 + 2 * sqrt(fv_problem_terms(p))) * FLT_EPSILON;
}

/* Returns the operand that the step updates in addition to its output, or 0 if there is no such
 * operand. */
static uint32_t state_of(const fv_reference *d)
{
    return fv_op_table[d->args.prob.op]->state;
}

/* Perturbs all inputs except the state, because the reference must update the state from its
 * initial values. */
static void move_inputs(fv_reference *d, uint64_t *random)
{
    const float factor[2] = {(float)(1 - d->off), (float)(1 + d->off)};
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        float *x = d->in[o].data;
        uint64_t bits = 0;
        if (!x || d->in[o].type != FV_F32 || (d->state_values && o == state_of(d)))
            continue;
        for (uint64_t i = 0; i < d->in[o].count; i++, bits >>= 1) {
            if (i % 64 == 0)
                bits = fv_random(random);
            x[i] *= factor[bits & 1];
        }
    }
    const fv_op *op = fv_op_table[d->args.prob.op];
    for (uint32_t i = op->addend; d->table && i < op->table_floats; i++)
        d->table[i] *= factor[fv_random(random) & 1];
}

/* ---- running the reference ---- */

static uint32_t output_size(const fv_reference *d)
{
    return d->in[d->output].type == FV_U8 ? 1 : sizeof(float);
}

/* Calls the reference kernel for one sample, and writes the sample's first row to `out`. */
static void call(fv_reference *d, const fv_kernel *k, const fv_args *args, const fv_sample *s,
                 bool first, void *out)
{
    fv_call c = {.row0 = s->row0,
                 .rows = s->rows,
                 .col0 = s->col0,
                 .cols = s->cols,
                 .partials = 1,
                 .first = first,
                 .scratch = d->scratch};
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_input *in = &d->in[o];
        const uint64_t row = in->kind == FV_KIND_ROW ? s->row0 : 0;
        if (in->data)
            c.p[o] = (char *)in->data + row * args->ld[o] * fv_type_size(in->type);
    }
    c.p[d->output] = out;
    k->code.cpu(args, &c);
}

void fv_reference_merge(const fv_reference *d, float *partial, uint32_t groups, const fv_sample *s,
                        float *out)
{
    fv_args args = {.prob = plain(&d->args.prob)};
    args.prob.op = d->merge->op;
    args.prob.dim[FV_DIM_ROWS] = 1;
    args.prob.dim[fv_op_table[d->merge->op]->groups] = groups;
    const fv_call c = {.rows = 1,
                       .col0 = s->col0,
                       .cols = s->cols,
                       .p = {[FV_MERGE_PARTIAL] = partial, [FV_MERGE_STATE] = out}};
    d->merge->code.cpu(&args, &c);
}

static void reduce(fv_reference *d, const fv_sample *s, float *out)
{
    const uint32_t rows = d->args.prob.dim[FV_DIM_ROWS];
    for (uint32_t row = 0; row < rows; row += RUN) {
        const uint32_t n = rows - row < RUN ? rows - row : RUN;
        const fv_sample part = {row, n, s->col0, s->cols};
        call(d, d->kernel, &d->args, &part, row == 0, d->partial);
    }
    fv_reference_merge(d, d->partial, 1, s, out);
}

/* Copies the call's keys and values of all heads into the cache. The reference kernel has copied
 * only those of the sampled heads. */
static void fill_cache(fv_reference *d)
{
    const fv_problem *p = &d->args.prob;
    fv_call c = {.rows = p->dim[FV_DIM_ROWS]};
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        c.p[o] = d->in[o].data;
    const fv_cache s = fv_cache_of(&d->args, &c);
    for (uint32_t kv = 0; kv < p->dim[FV_CACHE_KV_HEADS]; kv++)
        fv_cache_remember(&d->args, &c, &s, kv);
}

/* Computes all samples, one after the other, and the state. */
static void evaluate(fv_reference *d, void *out)
{
    char *to = out;
    for (uint32_t i = 0; i < d->samples; i++) {
        const fv_sample *s = &d->sample[i];
        if (d->merge)
            reduce(d, s, (float *)to);
        else
            call(d, d->kernel, &d->args, s, true, to);
        to += (size_t)s->rows * d->columns * output_size(d);
    }
    if (d->args.prob.op == FV_OP_SOFTMAX_SCAN)
        fill_cache(d);
    if (d->state_values)
        memcpy(to, d->in[state_of(d)].data, d->state_values * sizeof(float));
}

/* Runs the reference on the inputs, then twice on perturbed inputs, to measure the change of the
 * output. */
static fovea_status evaluate_perturbed(fv_reference *d)
{
    void *kept = NULL;
    const uint64_t all = d->values + d->state_values;
    uint64_t random = 2;
    if (d->state_values) {
        FV_TRY(fv_mem_array(&kept, d->state_values, sizeof(float), FV_MEM_PLAN, "a state"));
        memcpy(kept, d->in[state_of(d)].data, d->state_values * sizeof(float));
    }
    evaluate(d, d->bytes ? (void *)d->bytes : d->want);
    for (int i = 0; !d->bytes && i < TRIALS; i++) {
        if (kept)
            memcpy(d->in[state_of(d)].data, kept, d->state_values * sizeof(float));
        move_inputs(d, &random);
        evaluate(d, d->trial);
        for (uint64_t k = 0; k < all; k++) {
            const float by = d->trial[k] - d->want[k];
            d->moved[k] = hypotf(d->moved[k], by * (float)sqrt(1. / TRIALS));
        }
    }
    fv_mem_free(kept);
    return FOVEA_OK;
}

static fovea_status allocate(void *out, uint64_t size)
{
    return fv_mem_alloc(out, size, FV_MEM_PLAN, "a step's reference");
}

/* Allocates the expected output. */
static fovea_status prepare_outputs(fv_reference *d, const fv_given *output)
{
    const uint64_t all = d->values + d->state_values;
    if (output->type == FV_U8)
        return allocate(&d->bytes, all);
    FV_TRY(allocate(&d->want, fv_size_mul(all, sizeof(float))));
    FV_TRY(allocate(&d->moved, fv_size_mul(all, sizeof(float))));
    FV_TRY(allocate(&d->trial, fv_size_mul(all, sizeof(float))));
    if (d->merge)
        FV_TRY(allocate(&d->partial, fv_size_mul(output->count, sizeof(float))));
    return FOVEA_OK;
}

static fovea_status prepare(fv_reference *d, const fv_given *given)
{
    const fv_problem *p = &d->args.prob;
    const fv_knobs none = {{0}};
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        d->in[o] = (fv_input){.kind = given[o].kind, .type = given[o].type};
        if (given[o].data && o != d->output)
            FV_TRY(take_input(&d->in[o], &given[o]));
        if (d->args.type[o] != FV_NONE && d->args.type[o] != FV_U8)
            d->args.type[o] = FV_F32;
    }
    d->columns = fv_reference_columns(p);
    d->ld = d->args.ld[d->output];
    d->args.ld[d->output] = d->columns;
    d->units = fv_op_table[p->op]->cols == FV_COLS_HEAD     ? p->heads
               : fv_op_table[p->op]->cols == FV_COLS_COLUMN ? d->columns
                                                            : 1;
    fv_reference_sample(d);
    for (uint32_t i = 0; i < d->samples; i++)
        d->values += (uint64_t)d->sample[i].rows * d->columns;
    if (state_of(d))
        d->state_values = d->in[state_of(d)].count;
    if (d->kernel->hooks->scratch)
        FV_TRY(allocate(&d->scratch, d->kernel->hooks->scratch(p, &none, p->dim[FV_DIM_ROWS])));
    return prepare_outputs(d, &given[d->output]);
}

/* Copies the step's table if it contains floats, so that it can be perturbed. */
static fovea_status take_table(fv_reference *d)
{
    const size_t size = fv_op_table[d->args.prob.op]->table_floats * sizeof(float);
    if (size == 0 || !d->args.table)
        return FOVEA_OK;
    FV_TRY(allocate(&d->table, size));
    memcpy(d->table, d->args.table, size);
    d->args.table = d->table;
    return FOVEA_OK;
}

/* Frees the inputs, which fv_reference_judge does not need. */
static void drop_inputs(fv_reference *d)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        fv_mem_free(d->in[o].data);
        d->in[o].data = NULL;
    }
    fv_mem_free(d->trial);
    d->trial = NULL;
}

fovea_status fv_reference_open(fv_reference **out, const fv_args *args,
                               const fv_given given[FV_OPERANDS], uint32_t output, uint32_t align)
{
    const fv_kernel *k = fv_reference_kernel(&args->prob);
    fv_reference *d;
    if (!k) {
        char text[128];
        fv_problem_format(text, sizeof text, &args->prob);
        return fv_fail(FOVEA_ENOTSUP, "%s: the reference does not support this problem", text);
    }
    FV_TRY(allocate(&d, sizeof *d));
    d->args = *args;
    d->args.prob = plain(&args->prob);
    d->rough = fv_problem_rough_error(&args->prob);
    d->off = off(args->prob.acc == FV_I32 ? &args->prob : &d->args.prob);
    d->args.window = d->args.shift = 0;
    d->kernel = k;
    d->merge = merge_of(&args->prob);
    d->output = output;
    d->align = align ? align : 1;
    fovea_status status = prepare(d, given);
    FV_THEN(status, take_table(d));
    if (args->prob.op == FV_OP_CONV && d->in[FV_GEMM_A].type == FV_U8)
        FV_THEN(status, fv_reference_int8_pixels(d, args->prob.acc == FV_I32));
    if (args->prob.acc == FV_I32)
        FV_THEN(status, fv_reference_int8(d));
    else if (args->prob.weight == FV_I8 && status == FOVEA_OK)
        fv_reference_int8_stored(d);
    FV_THEN(status, evaluate_perturbed(d));
    drop_inputs(d);
    FV_RETURN_MADE(out, d, fv_reference_close, status);
}

void fv_reference_close(fv_reference *d)
{
    if (!d)
        return;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        fv_mem_free(d->in[o].data);
    fv_mem_free(d->bytes);
    fv_mem_free(d->want);
    fv_mem_free(d->moved);
    fv_mem_free(d->trial);
    fv_mem_free(d->scratch);
    fv_mem_free(d->partial);
    fv_mem_free(d->table);
    fv_mem_free(d);
}
