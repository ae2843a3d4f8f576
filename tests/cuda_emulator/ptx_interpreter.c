/* ptx_interpreter.c: interprets the instructions of cuda_ptx.h, strictly by NVIDIA's "Parallel
 * Thread Execution ISA" and independently of the functions' purpose and of the emulator. All other
 * instructions are refused. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_emulator/emulated_warp.h"
#include "tests/cuda_emulator/ptx.h"

enum { OPERANDS = 16, ARGUMENTS = 8, PARTS = 16, SITES = 256 };

_Alignas(1024) char ptx_shared[PTX_BYTES], ptx_global[PTX_BYTES];
ptx_copies ptx_asked;
ptx_fault ptx_planted;
int ptx_mistakes;

/* A statement with its operands. */
typedef struct statement {
    const char *text;
    bool is_volatile, memory;
    ptx_operand *operand;
    int outputs, operands;
    char constraint[OPERANDS][4];
    bool used[OPERANDS], written[OPERANDS];
} statement;

/* An operand of an instruction: a number, or a list of registers. */
typedef struct argument {
    enum { NUMBER, REGISTER, ADDRESS, LIST } kind;
    unsigned number;
    int reg[OPERANDS], regs;
} argument;

typedef struct instruction {
    char text[256];
    char *part[PARTS]; /* the parts of its name between the points */
    int parts;
    argument argument[ARGUMENTS];
    int arguments;
} instruction;

void ptx_wrong(const char *format, ...)
{
    va_list list;
    ptx_mistakes++;
    if (ptx_planted.kind != PTX_NONE)
        return;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
}

void ptx_note_copy(ptx_copies *to, const ptx_copy *copy)
{
    if (to->count == PTX_COPIES)
        abort();
    to->copy[to->count++] = *copy;
}

/* ---- registers ---- */

static unsigned size_of(char letter)
{
    return letter == 'h' ? 2 : letter == 'r' || letter == 'f' ? 4 : letter == 'l' ? 8 : 0;
}

/* Returns whether the register and its variable have that kind. */
static bool fits(const statement *s, int reg, char letter)
{
    if (reg < 0 || reg >= s->operands) {
        ptx_wrong("'%s': no operand %%%d", s->text, reg);
        return false;
    }
    const ptx_operand *o = &s->operand[reg];
    const char *c = s->constraint[reg];
    const char is = c[strlen(c) - 1];
    if (is == letter && o->size == size_of(letter) && o->is_float == (letter == 'f'))
        return true;
    ptx_wrong("'%s': %%%d has \"%s\" and %u bytes, and must be \"%c\"", s->text, reg, c, o->size,
              letter);
    return false;
}

static uint64_t get(statement *s, int reg, char letter)
{
    uint64_t value = 0;
    if (!fits(s, reg, letter))
        return 0;
    const ptx_operand *o = &s->operand[reg];
    s->used[reg] = true;
    if (s->constraint[reg][0] == '=') {
        ptx_wrong("'%s' reads %%%d, which is only written", s->text, reg);
        return UINT64_C(0xdeadbeefdeadbeef);
    }
    if (!o->to)
        return o->value;
    memcpy(&value, o->to, o->size);
    return value;
}

static void set(statement *s, int reg, char letter, uint64_t value)
{
    if (!fits(s, reg, letter))
        return;
    const ptx_operand *o = &s->operand[reg];
    if (!o->to) {
        ptx_wrong("'%s' writes %%%d, which is an input", s->text, reg);
        return;
    }
    s->used[reg] = s->written[reg] = true;
    memcpy(o->to, &value, o->size);
}

static float float_of(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float get_float(statement *s, int reg)
{
    return float_of(get(s, reg, 'f'));
}

/* ---- parsing ---- */

static const char *skip_spaces(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *parse_register(argument *a, const char *at)
{
    char *end;
    at = skip_spaces(at);
    if (*at != '%' || a->regs == OPERANDS)
        return NULL;
    a->reg[a->regs++] = (int)strtol(at + 1, &end, 10);
    return end == at + 1 ? NULL : skip_spaces(end);
}

static const char *parse_list(argument *a, const char *at)
{
    do
        at = parse_register(a, at + 1);
    while (at && *at == ',');
    return at && *at == '}' ? at + 1 : NULL;
}

static const char *parse_argument(argument *a, const char *at)
{
    char *end;
    *a = (argument){.kind = NUMBER};
    at = skip_spaces(at);
    if (*at == '{') {
        a->kind = LIST;
        return parse_list(a, at);
    }
    if (*at == '[') {
        a->kind = ADDRESS;
        at = parse_register(a, at + 1);
        return at && *at == ']' ? at + 1 : NULL;
    }
    if (*at == '%') {
        a->kind = REGISTER;
        return parse_register(a, at);
    }
    a->number = (unsigned)strtoul(at, &end, 0);
    return end == at ? NULL : end;
}

/* Parses one instruction and its semicolon. */
static const char *parse(instruction *i, const char *at)
{
    at = skip_spaces(at);
    const size_t length = strcspn(at, " ;");
    *i = (instruction){.parts = 0};
    if (!length || length >= sizeof i->text)
        return NULL;
    memcpy(i->text, at, length);
    char *rest = NULL;
    for (char *p = strtok_r(i->text, ".", &rest); p && i->parts < PARTS;
         p = strtok_r(NULL, ".", &rest))
        i->part[i->parts++] = p;
    for (at = skip_spaces(at + length); *at && *at != ';'; at = skip_spaces(at)) {
        if (i->arguments && *at++ != ',')
            return NULL;
        if (i->arguments == ARGUMENTS || !(at = parse_argument(&i->argument[i->arguments++], at)))
            return NULL;
    }
    return *at == ';' ? at + 1 : NULL;
}

/* Returns whether the instruction's name matches, where '*' matches any part. */
static bool is_called(const instruction *i, const char *name)
{
    int k = 0;
    for (const char *at = name; *at; k++) {
        const size_t n = strcspn(at, ".");
        if (k == i->parts ||
            (*at != '*' && (strlen(i->part[k]) != n || strncmp(i->part[k], at, n) != 0)))
            return false;
        at += n + (at[n] == '.');
    }
    return k == i->parts;
}

/* Returns whether the arguments have those kinds: n, r, a, or the length of a list as a digit. */
static bool has_arguments(const instruction *i, const char *kinds)
{
    if (i->arguments != (int)strlen(kinds))
        return false;
    for (int k = 0; k < i->arguments; k++) {
        const argument *a = &i->argument[k];
        const char kind = kinds[k];
        if (kind == 'n'   ? a->kind != NUMBER
            : kind == 'r' ? a->kind != REGISTER
            : kind == 'a' ? a->kind != ADDRESS
                          : a->kind != LIST || a->regs != kind - '0')
            return false;
    }
    return true;
}

static int reg_of(const instruction *i, int n)
{
    return i->argument[n].reg[0];
}

/* ---- conversions ---- */

enum rounding { TO_EVEN, TO_ZERO, AWAY };

/* Returns the bits of x in a format with a sign, `exponent` exponent bits and `fraction` fraction
 * bits. NaN sets all bits except the sign. */
static uint32_t encode(float x, int exponent, int fraction, enum rounding how)
{
    const uint32_t sign = (bits_of(x) >> 31) << (exponent + fraction);
    const uint32_t infinite = ((1u << exponent) - 1) << fraction;
    const int least = 2 - (1 << (exponent - 1));
    const double size = fabs((double)x);
    if (isnan(x))
        return infinite | ((1u << fraction) - 1);
    if (isinf(x))
        return sign | infinite;
    if (size == 0)
        return sign;
    const int e = ilogb(size) < least ? least : ilogb(size);
    const double units = ldexp(size, fraction - e);
    const double whole = how == TO_EVEN   ? nearbyint(units)
                         : how == TO_ZERO ? floor(units)
                                          : floor(units + 0.5);
    const uint64_t bits = ((uint64_t)(e - least) << fraction) + (uint64_t)whole;
    if (bits >= infinite)
        return sign | (how == TO_ZERO ? infinite - 1 : infinite);
    return sign | (uint32_t)bits;
}

static float decode_f16(uint32_t bits)
{
    const int e = (int)(bits >> 10 & 31), f = (int)(bits & 1023);
    const double size = e == 31  ? (f ? NAN : INFINITY)
                        : e == 0 ? ldexp(f, -24)
                                 : ldexp(1024 + f, e - 25);
    return (float)(bits & 0x8000 ? -size : size);
}

static bool convert(statement *s, const instruction *i)
{
    const bool even = i->parts == 4 && !strcmp(i->part[1], "rn");
    const enum rounding how = even ? TO_EVEN : TO_ZERO;
    if (is_called(i, "cvt.f32.f16") && has_arguments(i, "rr")) {
        const float x = decode_f16((uint32_t)get(s, reg_of(i, 1), 'h'));
        set(s, reg_of(i, 0), 'f', bits_of(x));
        return true;
    }
    if (is_called(i, "cvt.rna.tf32.f32") && has_arguments(i, "rr")) {
        const uint32_t bits = encode(get_float(s, reg_of(i, 1)), 8, 10, AWAY);
        set(s, reg_of(i, 0), 'r', bits << 13);
        return true;
    }
    if (!even && !(i->parts == 4 && !strcmp(i->part[1], "rz")))
        return false;
    if (is_called(i, "cvt.*.f16.f32") && has_arguments(i, "rr")) {
        set(s, reg_of(i, 0), 'h', encode(get_float(s, reg_of(i, 1)), 5, 10, how));
        return true;
    }
    const bool half = is_called(i, "cvt.*.f16x2.f32");
    if ((!half && !is_called(i, "cvt.*.bf16x2.f32")) || !has_arguments(i, "rrr"))
        return false;
    const int exponent = half ? 5 : 8, fraction = half ? 10 : 7;
    const uint32_t high = encode(get_float(s, reg_of(i, 1)), exponent, fraction, how);
    const uint32_t low = encode(get_float(s, reg_of(i, 2)), exponent, fraction, how);
    set(s, reg_of(i, 0), 'r', high << 16 | low);
    return true;
}

/* ---- arithmetic ---- */

static float flushed(float x, bool ftz)
{
    return ftz && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static bool approximate(statement *s, const instruction *i)
{
    const bool exponential = !strcmp(i->part[0], "ex2");
    const bool ftz = is_called(i, "*.approx.ftz.f32");
    if ((!ftz && !is_called(i, "*.approx.f32")) || !has_arguments(i, "rr"))
        return false;
    const double x = (double)flushed(get_float(s, reg_of(i, 1)), ftz);
    const float y = (float)(exponential ? exp2(x) : log2(x));
    set(s, reg_of(i, 0), 'f', bits_of(flushed(y, ftz)));
    return true;
}

static bool compare(statement *s, const instruction *i)
{
    const bool nan = is_called(i, "*.NaN.f32");
    if ((!nan && !is_called(i, "*.f32")) || !has_arguments(i, "rrr"))
        return false;
    const float a = get_float(s, reg_of(i, 1)), b = get_float(s, reg_of(i, 2));
    const bool first = !strcmp(i->part[0], "min") ? a < b : a > b;
    float y = first ? a : b;
    if (isnan(a) || isnan(b))
        y = nan || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    set(s, reg_of(i, 0), 'f', bits_of(y));
    return true;
}

/* Selects bytes of a and b, numbered from a's lowest byte. Bit 3 of a selector replicates the
 * byte's highest bit.
 */
static bool permute(statement *s, const instruction *i)
{
    if (!is_called(i, "prmt.b32") || i->arguments != 4 || i->argument[0].kind != REGISTER)
        return false;
    uint32_t in[3], y = 0;
    for (int k = 0; k < 3; k++) {
        const argument *a = &i->argument[k + 1];
        if (a->kind != NUMBER && a->kind != REGISTER)
            return false;
        in[k] = a->kind == NUMBER ? a->number : (uint32_t)get(s, a->reg[0], 'r');
    }
    const uint64_t all = (uint64_t)in[1] << 32 | in[0];
    for (int k = 0; k < 4; k++) {
        const uint32_t choice = in[2] >> 4 * k;
        const uint32_t byte = (uint32_t)(all >> 8 * (choice & 7)) & 0xff;
        y |= (choice & 8 ? (byte & 0x80 ? 0xffu : 0) : byte) << 8 * k;
    }
    set(s, reg_of(i, 0), 'r', y);
    return true;
}

/* Byte k of a word of four, as a signed or an unsigned number. */
static uint32_t byte_of(uint32_t word, int k, bool is_signed)
{
    const uint32_t byte = word >> 8 * k & 0xff;
    return is_signed && byte & 0x80 ? byte | 0xffffff00 : byte;
}

/* Adds the four products of bytes of a and b to c; the sum wraps. */
static bool dot(statement *s, const instruction *i)
{
    bool is_signed[2];
    if (i->parts != 3 || !has_arguments(i, "rrrr"))
        return false;
    for (int k = 0; k < 2; k++) {
        is_signed[k] = !strcmp(i->part[1 + k], "s32");
        if (!is_signed[k] && strcmp(i->part[1 + k], "u32") != 0)
            return false;
    }
    const uint32_t a = (uint32_t)get(s, reg_of(i, 1), 'r');
    const uint32_t b = (uint32_t)get(s, reg_of(i, 2), 'r');
    uint32_t sum = (uint32_t)get(s, reg_of(i, 3), 'r');
    for (int k = 0; k < 4; k++)
        sum += byte_of(a, k, is_signed[0]) * byte_of(b, k, is_signed[1]);
    set(s, reg_of(i, 0), 'r', sum);
    return true;
}

/* ---- memory ---- */

/* Returns a pointer, or NULL if the range is not shared memory or not aligned. */
static char *shared_at(uint64_t address, unsigned size)
{
    const uint64_t at = address - PTX_SHARED_BEGIN;
    if (at <= PTX_BYTES - size && address % size == 0)
        return ptx_shared + at;
    ptx_wrong("%#llx is no address of %u bytes in shared memory", (unsigned long long)address,
              size);
    return NULL;
}

static const char *global_at(uint64_t address, unsigned size, unsigned present)
{
    const uint64_t at = address - (uint64_t)(uintptr_t)ptx_global;
    if (at <= PTX_BYTES - present && address % size == 0)
        return ptx_global + at;
    ptx_wrong("%#llx is no address of %u bytes in global memory", (unsigned long long)address,
              size);
    return NULL;
}

static bool copy(statement *s, const instruction *i)
{
    if (is_called(i, "cp.async.commit_group") && has_arguments(i, "")) {
        ptx_note_copy(&ptx_asked, &(ptx_copy){.what = 'g'});
        return true;
    }
    if (is_called(i, "cp.async.wait_group") && has_arguments(i, "r")) {
        const int reg = reg_of(i, 0);
        if (reg >= s->operands || strcmp(s->constraint[reg], "n") != 0)
            return false;
        s->used[reg] = true;
        ptx_note_copy(&ptx_asked,
                      &(ptx_copy){.what = 'w', .size = (unsigned)s->operand[reg].value});
        return true;
    }
    const bool past_l1 = is_called(i, "cp.async.cg.shared.global");
    const bool all = has_arguments(i, "aan");
    if ((!past_l1 && !is_called(i, "cp.async.ca.shared.global")) ||
        (!all && !has_arguments(i, "aanr")))
        return false;
    const unsigned size = i->argument[2].number;
    if (size != 16 && (past_l1 || (size != 4 && size != 8)))
        return false;
    const unsigned present = all ? size : (unsigned)get(s, reg_of(i, 3), 'r');
    const char *to = shared_at(get(s, reg_of(i, 0), 'r'), size);
    const char *from = global_at(get(s, reg_of(i, 1), 'l'), size, present);
    if (present > size)
        ptx_wrong("%u bytes of a copy of %u", present, size);
    if (to && from)
        ptx_note_copy(&ptx_asked, &(ptx_copy){'c', to, from, size, present, past_l1});
    return true;
}

typedef struct matrix_load {
    const char *row;
    uint32_t to[4];
    int matrices;
    bool transposed;
} matrix_load;

static void load_matrices(void *const brought[EMULATED_WARP], unsigned mask)
{
    (void)mask;
    const matrix_load *first = brought[0];
    for (int lane = 0; lane < EMULATED_WARP; lane++)
        for (int m = 0; m < first->matrices; m++) {
            uint16_t pair[2];
            for (int k = 0; k < 2; k++) {
                const int along = 2 * (lane % 4) + k, across = lane / 4;
                const int row = first->transposed ? along : across;
                const int column = first->transposed ? across : along;
                const char *from = ((const matrix_load *)brought[8 * m + row])->row;
                memcpy(&pair[k], from + 2 * column, sizeof *pair);
            }
            ((matrix_load *)brought[lane])->to[m] = pair[0] | (uint32_t)pair[1] << 16;
        }
}

static bool load_matrix(statement *s, const instruction *i)
{
    const bool transposed = is_called(i, "ldmatrix.sync.aligned.m8n8.*.trans.shared.b16");
    if (!transposed && !is_called(i, "ldmatrix.sync.aligned.m8n8.*.shared.b16"))
        return false;
    const char *number = i->part[4];
    const int matrices = number[0] == 'x' && strchr("124", number[1]) && number[1] && !number[2]
                             ? number[1] - '0'
                             : 0;
    const char arguments[3] = {(char)('0' + matrices), 'a', 0};
    if (!matrices || !has_arguments(i, arguments))
        return false;
    matrix_load mine = {.matrices = matrices, .transposed = transposed};
    mine.row = shared_at(get(s, reg_of(i, 1), 'r'), 16);
    if (!mine.row)
        return true;
    emulated_meet(~0u, load_matrices, &mine);
    for (int m = 0; m < matrices; m++)
        set(s, i->argument[0].reg[m], 'r', mine.to[m]);
    return true;
}

/* ---- products ---- */

enum factor { F16, F16_SHORT, BF16, TF32, S8 };
static const struct {
    const char *name;
    int per_register, k, registers; /* numbers per register; depth of the product; registers of B */
} products[] = {[F16] = {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 2, 16, 2},
                [F16_SHORT] = {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 8, 1},
                [BF16] = {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 2, 16, 2},
                [TF32] = {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 1, 8, 2},
                [S8] = {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 32, 2}};

typedef struct product {
    enum factor type;
    uint32_t a[4], b[2], c[4], d[4];
} product;

/* Returns number i of a register. */
static double number_in(uint32_t bits, int i, enum factor type)
{
    if (type == S8)
        return (int8_t)(bits >> 8 * i);
    if (type == TF32)
        return (double)float_of(bits & 0xffffe000u);
    const uint32_t half = bits >> 16 * i & 0xffff;
    return (double)(type == BF16 ? float_of((uint64_t)half << 16) : decode_f16(half));
}

/* Implements "Matrix Fragments": the row and the column of element i of a lane's A, B and C. */
static void multiply(void *const brought[EMULATED_WARP], unsigned mask)
{
    (void)mask;
    static double a[16][32], b[32][8];
    const enum factor type = ((const product *)brought[0])->type;
    const int n = products[type].per_register, k = products[type].k;
    const int registers = products[type].registers;
    for (int lane = 0; lane < EMULATED_WARP; lane++) {
        const product *p = brought[lane];
        const int group = lane >> 2, thread = lane % 4;
        for (int r = 0; r < 2 * registers; r++)
            for (int i = 0; i < n; i++)
                a[group + (r % 2 ? 8 : 0)][thread * n + i + (r < 2 ? 0 : k / 2)] =
                    number_in(p->a[r], i, type);
        for (int r = 0; r < registers; r++)
            for (int i = 0; i < n; i++)
                b[thread * n + i + (r ? k / 2 : 0)][group] = number_in(p->b[r], i, type);
    }
    for (int lane = 0; lane < EMULATED_WARP; lane++)
        for (int i = 0; i < 4; i++) {
            product *p = brought[lane];
            const int row = (lane >> 2) + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
            double sum = 0;
            for (int j = 0; j < k; j++)
                sum += a[row][j] * b[j][column];
            p->d[i] = type == S8 ? p->c[i] + (uint32_t)(int32_t)sum
                                 : bits_of((float)((double)float_of(p->c[i]) + sum));
        }
}

static bool multiply_add(statement *s, const instruction *i)
{
    product mine = {.type = F16};
    const int types = sizeof products / sizeof *products;
    int type = 0;
    while (type < types && !is_called(i, products[type].name))
        type++;
    if (type == types)
        return false;
    const int registers = products[type].registers;
    if (!has_arguments(i, registers == 2 ? "4424" : "4214"))
        return false;
    const char sums = type == S8 ? 'r' : 'f';
    mine.type = (enum factor)type;
    for (int k = 0; k < 4; k++) {
        mine.c[k] = (uint32_t)get(s, i->argument[3].reg[k], sums);
        if (k < 2 * registers)
            mine.a[k] = (uint32_t)get(s, i->argument[1].reg[k], 'r');
        if (k < registers)
            mine.b[k] = (uint32_t)get(s, i->argument[2].reg[k], 'r');
    }
    emulated_meet(~0u, multiply, &mine);
    for (int k = 0; k < 4; k++)
        set(s, i->argument[0].reg[k], sums, mine.d[k]);
    return true;
}

/* ---- statements ---- */

/* Instructions that compilers must not remove, duplicate or move, or that access memory. */
static const struct {
    const char *name;
    bool (*run)(statement *s, const instruction *i);
    bool is_volatile, memory;
} instructions[] = {
    {"cvt", convert, false, false},        {"ex2", approximate, false, false},
    {"lg2", approximate, false, false},    {"min", compare, false, false},
    {"max", compare, false, false},        {"prmt", permute, false, false},
    {"dp4a", dot, false, false},           {"cp", copy, true, true},
    {"ldmatrix", load_matrix, true, true}, {"mma", multiply_add, true, false},
};

static void run_instruction(statement *s, const instruction *i)
{
    size_t k = 0, n = sizeof instructions / sizeof *instructions;
    while (k < n && strcmp(instructions[k].name, i->part[0]) != 0)
        k++;
    if (k == n || !instructions[k].run(s, i)) {
        ptx_wrong("'%s' is no instruction", s->text);
        return;
    }
    if (instructions[k].is_volatile && !s->is_volatile)
        ptx_wrong("'%s' is not volatile", s->text);
    if (instructions[k].memory && !s->memory)
        ptx_wrong("'%s' does not say \"memory\"", s->text);
}

static void check_constraints(const statement *s)
{
    for (int o = 0; o < s->operands; o++) {
        const char *c = s->constraint[o];
        const bool output = o < s->outputs, marked = *c == '=' || *c == '+';
        if (strlen(c) != 1 + (size_t)marked || output != marked)
            ptx_wrong("'%s': \"%s\" of %%%d", s->text, c, o);
    }
}

static void run_statement(statement *s)
{
    check_constraints(s);
    for (const char *at = s->text; *skip_spaces(at);) {
        instruction i;
        at = parse(&i, at);
        if (!at) {
            ptx_wrong("'%s' cannot be read", s->text);
            return;
        }
        run_instruction(s, &i);
    }
    for (int o = 0; o < s->operands; o++)
        if (!s->used[o] || (o < s->outputs && !s->written[o]))
            ptx_wrong("'%s' does not use %%%d", s->text, o);
}

/* ---- faults ---- */

/* The statements that were run, from which possible faults are derived. */
static struct {
    char text[256];
    bool ran, is_volatile, memory;
    int outputs, operands;
    char constraint[OPERANDS][4];
} sites[SITES];

bool ptx_was_run(int site)
{
    return site < SITES && sites[site].ran;
}

static void replace(char text[256], const char *from, const char *to)
{
    char *at = strstr(text, from), rest[256];
    if (!at)
        return;
    strcpy(rest, at + strlen(from));
    snprintf(at, (size_t)(256 - (at - text)), "%s%s", to, rest);
}

/* Exchanges %a and %b. */
static void swap(char text[256], int a, int b)
{
    char out[256];
    size_t n = 0;
    for (const char *at = text; *at && n + 8 < sizeof out;) {
        char *end;
        const long reg = *at == '%' ? strtol(at + 1, &end, 10) : -1;
        if (reg < 0) {
            out[n++] = *at++;
            continue;
        }
        n += (size_t)snprintf(out + n, sizeof out - n, "%%%ld",
                              reg == a   ? (long)b
                              : reg == b ? (long)a
                                         : reg);
        at = end;
    }
    out[n] = 0;
    strcpy(text, out);
}

static void plant(statement *s, char text[256], const ptx_fault *f)
{
    char *c = s->constraint[f->operand];
    switch (f->kind) {
    case PTX_NONE:
        break;
    case PTX_SWAP:
        swap(text, f->operand, f->operand + 1);
        break;
    case PTX_LETTER:
        c[strlen(c) - 1] = f->letter;
        break;
    case PTX_WRITE_ONLY:
        *c = '=';
        break;
    case PTX_PLAIN:
        s->is_volatile = false;
        break;
    case PTX_NO_MEMORY:
        s->memory = false;
        break;
    case PTX_WORD:
        replace(text, f->from, f->to);
        break;
    }
}

/* Words whose replacement gives another instruction. */
static const char *const words[][2] = {
    {".rn.", ".rz."},
    {".rna.", ".rn."},
    {".trans", ""},
    {".x4.", ".x2."},
    {".cg.", ".ca."},
    {".ca.", ".cg."},
    {"min", "max"},
    {"max", "min"},
    {".NaN", ""},
    {"ex2", "lg2"},
    {"lg2", "ex2"},
    {".ftz", ""},
    {".approx", ""},
    {", 16", ", 8"},
    {", 8", ", 16"},
    {", 4", ", 8"},
    {"0xbb99", "0xbb98"},
    {"0xbb99", "0x3311"},
    {".f16x2", ".bf16x2"},
    {".bf16x2", ".f16x2"},
    {".f16.f16", ".bf16.bf16"},
    {".bf16.bf16", ".f16.f16"},
    {".tf32.tf32", ".f16.f16"},
    {".row.col", ".col.row"},
    {"m16n8k16", "m16n8k8"},
    {"m16n8k8", "m16n8k4"},
    {"m16n8k32", "m16n8k16"},
    {".s8.s8", ".u8.s8"},
    {".s32.s32", ".u32.s32"},
    {".s32.s32", ".s32.u32"},
    {"commit_group", "wait_all"},
    {"wait_group", "commit_group"},
    {".sync", ""},
    {";", ""},
};

bool ptx_fault_of(ptx_fault *out, int site, int n)
{
    static const char letters[] = "hrlfn";
    const int swaps = sites[site].operands ? sites[site].operands - 1 : 0;
    const int all_letters = sites[site].operands * (int)strlen(letters);
    *out = (ptx_fault){.site = site};
    if (n < swaps) {
        out->operand = n;
        out->kind = PTX_SWAP;
        return true;
    }
    n -= swaps;
    if (n < all_letters) {
        out->operand = n / (int)strlen(letters);
        out->letter = letters[n % (int)strlen(letters)];
        const char *c = sites[site].constraint[out->operand];
        out->kind = c[strlen(c) - 1] == out->letter ? PTX_NONE : PTX_LETTER;
        return true;
    }
    n -= all_letters;
    if (n < sites[site].outputs) {
        out->operand = n;
        out->kind = sites[site].constraint[n][0] == '+' ? PTX_WRITE_ONLY : PTX_NONE;
        return true;
    }
    n -= sites[site].outputs;
    if (n < 2) {
        out->kind = n ? (sites[site].memory ? PTX_NO_MEMORY : PTX_NONE)
                      : (sites[site].is_volatile ? PTX_PLAIN : PTX_NONE);
        return true;
    }
    n -= 2;
    if (n >= (int)(sizeof words / sizeof *words))
        return false;
    out->from = words[n][0];
    out->to = words[n][1];
    out->kind = strstr(sites[site].text, out->from) ? PTX_WORD : PTX_NONE;
    return true;
}

void ptx_describe(const ptx_fault *f, char *out, int size)
{
    const char *text = sites[f->site].text;
    const size_t space = (size_t)size;
    if (f->kind == PTX_SWAP)
        snprintf(out, space, "%s: %%%d for %%%d", text, f->operand + 1, f->operand);
    else if (f->kind == PTX_LETTER)
        snprintf(out, space, "%s: '%c' for %%%d", text, f->letter, f->operand);
    else if (f->kind == PTX_WORD)
        snprintf(out, space, "%s: '%s' for '%s'", text, f->to, f->from);
    else
        snprintf(out, space, "%s: %s", text,
                 f->kind == PTX_PLAIN       ? "not volatile"
                 : f->kind == PTX_NO_MEMORY ? "no \"memory\""
                                            : "'=' for '+'");
}

void ptx_run(int site, const char *text, bool is_volatile, bool memory, ptx_operand *list,
             int outputs, int operands)
{
    char changed[256];
    statement s = {changed, is_volatile, memory, list, outputs, operands, {{0}}, {0}, {0}};
    if (site >= SITES || operands > OPERANDS || strlen(text) >= sizeof changed)
        abort();
    strcpy(changed, text);
    for (int o = 0; o < operands; o++)
        snprintf(s.constraint[o], sizeof s.constraint[o], "%s", list[o].constraint);
    if (!sites[site].ran) {
        sites[site].ran = true;
        strcpy(sites[site].text, text);
        sites[site].is_volatile = is_volatile;
        sites[site].memory = memory;
        sites[site].outputs = outputs;
        sites[site].operands = operands;
        memcpy(sites[site].constraint, s.constraint, sizeof s.constraint);
    }
    if (ptx_planted.kind != PTX_NONE && ptx_planted.site == site)
        plant(&s, changed, &ptx_planted);
    run_statement(&s);
}
