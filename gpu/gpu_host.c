/* gpu_host.c: what the OpenCL and the CUDA backend have in common. */
#include "gpu/gpu_host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/sweep_calls.h"
#include "gpu/gpu_sources.h"
#include "ops/contracts/softmax_attention.h"
#include "platform/os/os.h"

const fv_kernel_hooks fv_h_gpu_none = {0};

const char *fv_gpu_source_text(const fv_gpu_source *list, const char *name)
{
    for (const fv_gpu_source *s = list; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s->text;
    return NULL;
}

/* ---- options ---- */

void fv_gpu_append(fv_gpu_text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const size_t left = sizeof t->text - t->length;
    const int n = vsnprintf(t->text + t->length, left, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= left)
        t->full = true;
    else
        t->length += (size_t)n;
}

void fv_gpu_define(fv_gpu_text *t, const char *name, uint32_t value)
{
    fv_gpu_append(t, " -D%s=%u", name, value);
}

void fv_gpu_specialise(fv_gpu_text *t, const fv_launch *l, uint32_t group)
{
    static const char *const types[] = {
        [FV_F32] = "f32", [FV_F16] = "f16", [FV_BF16] = "bf16", [FV_U8] = "u8", [FV_I8] = "i8"};
    fv_gpu_define(t, "FV_GROUP", group);
    fv_gpu_define(t, "FV_FLAGS", l->args.prob.flags);
    fv_gpu_define(t, "FV_EPI", l->args.prob.epi);
    for (int o = 0; o < FV_OPERANDS; o++) {
        const fv_operand *op = &l->operand[o];
        const bool present = op->ref.space != FV_SPACE_NONE;
        fv_gpu_append(t, " -DFV_T%d=%s -DFV_HAS%d=%d", o, types[present ? op->type : FV_F32], o,
                      present);
    }
    const fv_gpu_code *code = l->kernel->code.gpu;
    if (code->macros)
        fv_gpu_append(t, "%s", code->macros);
    if (code->define)
        code->define(l, group, t);
}

bool fv_gpu_settle(fv_launch *l, uint32_t units, uint32_t choice)
{
    const fv_gpu_code *code = l->kernel->code.gpu;
    return code->settle ? code->settle(l, units, choice) : choice == 0;
}

/* ---- shapes ---- */

void fv_gpu_shape_columns(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, (l->args.prob.dim[FV_ROW_C] + 3) / 4, p->group);
}

void fv_gpu_shape_rows(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)l;
    count[0] = fv_gpu_groups(p->rows, p->group);
}

void fv_gpu_shape_heads(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)p;
    count[0] = l->args.prob.heads;
}

void fv_gpu_shape_parts(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = p->groups;
    count[1] = l->args.prob.heads;
}

/* ---- devices ---- */

int fv_gpu_find(const char *which, int count, void (*name)(int index, char *out, size_t size))
{
    char *end;
    const long number = strtol(which, &end, 10);
    if (*which == 0)
        return count ? 0 : -1;
    if (*end == 0)
        return number >= 0 && number < count ? (int)number : -1;
    for (int i = 0; i < count; i++) {
        char text[128];
        name(i, text, sizeof text);
        if (strstr(text, which))
            return i;
    }
    return -1;
}

const char *fv_gpu_forbidden(const char *const *nodes)
{
    while (*nodes && (access(*nodes, F_OK) != 0 || access(*nodes, R_OK | W_OK) == 0))
        nodes++;
    return *nodes;
}

void fv_gpu_add_words(char list[FV_GPU_WORDS], const char *words)
{
    while (*words) {
        const size_t n = strcspn(words, ";"), used = strlen(list), left = FV_GPU_WORDS - used;
        if (n + 3 <= left)
            snprintf(list + used, left, "%s%.*s", used ? "; " : "", (int)n, words);
        words += n + strspn(words + n, "; ");
    }
}

/* On a board, all processes share the host's memory. Memory that was allocated is only claimed when
 * it is first touched, and then the process that touches it may be killed. On a card the driver
 * takes some memory for itself later. So plans get only a share of what is free; both shares are
 * estimates. */
uint64_t fv_gpu_share(uint64_t free, bool shared)
{
    return free == UINT64_MAX ? free : free - free / (shared ? 5 : 16);
}

/* A partial state needs one work-group per head, so a few per compute unit. Beyond PARTIALS_MAX,
 * merging would cost more than the parallelism saves. Both bounds are estimates, not measured per
 * device. */
enum { PARTIALS_MIN = 32, PARTIALS_MAX = 128 };

uint32_t fv_gpu_partials(uint32_t units)
{
    return units < PARTIALS_MIN ? PARTIALS_MIN : units > PARTIALS_MAX ? PARTIALS_MAX : units;
}

/* ---- the drivers' own folders ---- */

void fv_gpu_check_driver_cache(char quirks[FV_GPU_WORDS], const char *variable, const char *name,
                               const char *in_home)
{
    char path[1024] = "", quirk[FV_GPU_WORDS];
    const char *given = getenv(variable), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given && *given)
        snprintf(path, sizeof path, "%s", given);
    else if (!in_home && cache && *cache)
        snprintf(path, sizeof path, "%s/%s", cache, name);
    else if (home && *home)
        snprintf(path, sizeof path, "%s/%s%s", home, in_home ? "" : ".cache/",
                 in_home ? in_home : name);
    if (!*path || fv_os_may_write_folder(path))
        return;
    snprintf(quirk, sizeof quirk, "the driver cannot write to its own cache %.100s (%s)", path,
             variable);
    fv_gpu_add_words(quirks, quirk);
}

/* ---- steps ---- */

/* Number of an op's operands. The last one is the output, which is always present. */
static uint32_t operands(const fv_launch *l)
{
    uint32_t n = FV_OPERANDS;
    while (l->operand[n - 1].ref.space == FV_SPACE_NONE)
        n--;
    return n;
}

fovea_status fv_gpu_step_begin(fv_gpu_step *s, const fv_launch *l)
{
    static _Atomic uint64_t serial;
    s->serial = ++serial;
    s->base.l = *l;
    s->code = l->kernel->code.gpu;
    s->operands = operands(l);
    s->align = s->code->align == FV_GPU_WINDOWS ? l->args.prob.dim[FV_ATTN_KEYS] : s->code->align;
    /* Checks that kernels can count the elements of each buffer in 32 bits. */
    for (uint32_t o = 0; o < s->operands; o++) {
        const fv_operand *op = &l->operand[o];
        if (op->ref.mem && op->ref.mem->size / fv_type_size(op->type) > UINT32_MAX)
            return fv_fail(FOVEA_ENOTSUP,
                           "kernel %s: a buffer has %.1f GiB, but kernels index at most 2^32 "
                           "elements; use a smaller picture or a memory limit",
                           l->kernel->name, (double)op->ref.mem->size / (1 << 30));
    }
    return FOVEA_OK;
}

uint32_t fv_gpu_group(const fv_gpu_step *s, uint32_t below, uint32_t most, uint64_t local)
{
    uint32_t group = below;
    while (group > 1 &&
           (group > most || (s->code->local && s->code->local(&s->base.l, group) > local)))
        group /= 2;
    return group;
}

fovea_status fv_gpu_no_group(const fv_gpu_step *s)
{
    return fv_fail(
        FOVEA_ENOTSUP,
        "kernel %s: the device has no work-group size that can run it; choose another device",
        s->base.l.kernel->name);
}

/* Assumed minimum share of the device's peak that a kernel reaches; it limits the time of a
 * dispatch. A lower value makes more dispatches; with a higher one some may exceed the limit. */
#define WORST 0.25

/* Bytes of memory that a row reads and writes. */
static double row_bytes(const fv_launch *l)
{
    double bytes = 0;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (l->operand[o].kind == FV_KIND_ROW && l->operand[o].ref.space != FV_SPACE_NONE)
            bytes += (double)l->operand[o].stride;
    return bytes;
}

uint32_t fv_gpu_whole_rows(uint32_t rows, uint32_t align)
{
    return rows < align ? align : rows / align * align;
}

/* Assumed FLOP/s of a device whose rates are not known; few devices are slower. */
#define SLOW_FLOPS 4e9
#define SLOW_BYTES 1e9

/* Of one row. */
static double row_seconds(const fv_launch *l, const fv_gpu_rates *rates)
{
    const double flops = rates->flops > 0 ? rates->flops : SLOW_FLOPS;
    const double bytes = rates->bytes > 0 ? rates->bytes : SLOW_BYTES;
    const double compute = fv_problem_flops(&l->args.prob) / l->args.prob.dim[FV_DIM_ROWS] / flops;
    const double move = row_bytes(l) / bytes;
    return (compute > move ? compute : move) / WORST;
}

double fv_gpu_step_seconds(const fv_gpu_step *s, uint32_t rows, const fv_gpu_rates *rates)
{
    return s->base.l.args.prob.dim[FV_DIM_ROWS] ? rows * row_seconds(&s->base.l, rates) : 0;
}

uint32_t fv_gpu_step_rows(const fv_gpu_step *s, double seconds, const fv_gpu_rates *rates)
{
    const uint32_t all = s->base.l.args.prob.dim[FV_DIM_ROWS];
    const double row = row_seconds(&s->base.l, rates);
    const double rows = row > 0 ? seconds / row : all;
    return rows >= all ? 0 : fv_gpu_whole_rows((uint32_t)rows, s->align);
}

uint32_t fv_gpu_step_cut(const fv_gpu_step *s, uint32_t rows)
{
    if (!s->piece || rows <= s->piece)
        return rows;
    const uint32_t pieces = (rows - 1) / s->piece + 1;
    return ((rows - 1) / pieces / s->align + 1) * s->align;
}

/* Offset, in elements, of an operand's first row in this call. */
static uint32_t offset(const fv_operand *op, const fv_call *c, uint32_t ld, uint32_t width)
{
    uint64_t at = op->ref.offset / fv_type_size(op->type);
    if (op->kind == FV_KIND_PARTIAL)
        at += c->group * (op->stride / fv_type_size(op->type));
    if (op->kind != FV_KIND_ROW)
        return (uint32_t)at;
    if (op->ref.space != FV_SPACE_LOCAL)
        at += (uint64_t)c->row0 * ld;
    else if (op->ring)
        at += fv_sweep_calls_ring_row(op, c->row0, width) * ld;
    return (uint32_t)at;
}

void fv_gpu_dispatch_fill(fv_gpu_dispatch *out, const fv_gpu_step *s, uint32_t width,
                          const fv_call *c, uint32_t from, uint32_t rows)
{
    const fv_launch *l = &s->base.l;
    *out = (fv_gpu_dispatch){.row0 = c->row0 + from,
                             .rows = rows,
                             .first = c->first && from == 0,
                             .groups = c->partials ? c->partials : 1,
                             .count = {1, 1, 1},
                             .pre_pass = {{1, 1, 1}, {1, 1, 1}}};
    for (uint32_t o = 0; o < s->operands; o++) {
        const fv_operand *op = &l->operand[o];
        const uint32_t elements =
            (uint32_t)(op->stride / fv_type_size(op->type ? op->type : FV_F32));
        out->ld[o] = op->kind == FV_KIND_PARTIAL ? elements : l->args.ld[o];
        if (op->ref.space == FV_SPACE_NONE)
            continue;
        out->at[o] = offset(op, c, out->ld[o], width);
        if (op->kind == FV_KIND_ROW)
            out->at[o] += from * out->ld[o];
    }
    fv_gpu_piece piece = {.row0 = out->row0,
                          .rows = rows,
                          .groups = out->groups,
                          .group = s->group,
                          .units = s->units};
    if (s->code->segments)
        piece.groups = out->groups = s->code->segments(l, &piece);
    s->code->shape(l, &piece, out->count);
    if (s->code->segments && piece.groups == 1)
        return;
    for (uint32_t i = 0; i < FV_GPU_PASSES && s->code->pre_pass[i].entry; i++, out->passes = i)
        s->code->pre_pass[i].shape(l, &piece, out->pre_pass[i]);
}

/* ---- frames ---- */

void fv_gpu_copy_rows(char *to, uint64_t to_stride, const char *from, uint64_t from_stride,
                      uint64_t row, uint32_t rows)
{
    if (to_stride == row && from_stride == row) {
        memcpy(to, from, (size_t)(row * rows));
        return;
    }
    for (uint32_t i = 0; i < rows; i++)
        memcpy(to + i * to_stride, from + i * from_stride, (size_t)row);
}
