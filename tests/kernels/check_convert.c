/* check_convert.c: CONVERT: every result is the nearest value of the other type. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

static const uint32_t shapes[][3] = {
    /* rows, C, gap */
    {1, 1, 0}, {3, 15, 2}, {7, 33, 0}, {64, 1024, 0}, {4096, 768, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PATTERNS = SHAPES - 2 };
static const uint8_t types[] = {FV_F32, FV_F16, FV_BF16};

static bool make(check_case *c, uint32_t index)
{
    if (index >= SHAPES * 9)
        return false;
    const uint32_t *s = shapes[index / 9];
    c->args.prob.in = types[index / 3 % 3];
    c->args.prob.out = types[index % 3];
    c->args.prob.dim[FV_DIM_ROWS] = s[0];
    c->args.prob.dim[FV_ROW_C] = s[1];
    check_matrix(c, FV_CONVERT_IN, CHECK_ROW, s[0], s[1], s[2]);
    check_matrix(c, FV_CONVERT_OUT, CHECK_ROW, s[0], s[1], s[2] / 2);
    c->operand[FV_CONVERT_IN].type = c->args.prob.in;
    c->operand[FV_CONVERT_OUT].type = c->args.prob.out;
    c->bench = index / 9 == SHAPES - 1;
    return true;
}

/* One shape contains every 16-bit pattern. float32 inputs are moved to the midpoints between two
 * values of the other type, or next to them. */
static void prepare(check_case *c, check_random *r)
{
    const uint32_t cols = c->args.prob.dim[FV_ROW_C];
    if (memcmp(c->args.prob.dim, shapes[PATTERNS], 2 * sizeof(uint32_t)) != 0)
        return;
    for (uint32_t i = 0; i < 1u << 16; i++) {
        if (c->args.prob.in != FV_F32) {
            *check_half(c, FV_CONVERT_IN, i / cols, i % cols) = (uint16_t)i;
            continue;
        }
        const bool f16 = c->args.prob.out == FV_F16;
        const uint32_t tie = f16 ? 0x1000 : 0x8000, step = check_below(r, 4);
        uint32_t bits = f16 ? fv_bits_of_float(fv_float_of_f16((uint16_t)i)) : i << 16;
        bits += step == 3 ? check_below(r, 2 * tie) : tie + step - 1;
        *check_value(c, FV_CONVERT_IN, i / cols, i % cols) = fv_float_of_bits(bits);
    }
}

/* Returns x exactly. Subnormal floats need this, because this program flushes them to zero as the
 * library does. */
static double exact(float x)
{
    const uint32_t bits = fv_bits_of_float(x);
    if (bits & 0x7f800000)
        return x;
    return copysign(ldexp(bits & 0x7fffff, -149), bits >> 31 ? -1. : 1.);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const check_operand *in = &c->operand[FV_CONVERT_IN];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const double x = in->type == FV_F32
                             ? exact(((const float *)in->data)[(size_t)row * in->ld + i])
                             : check_at(c, FV_CONVERT_IN, row, i);
        want[i] = check_round(c->args.prob.out, x);
        allowed[i] = 0.;
    }
}

const check_op check_convert = {.make = make, .prepare = prepare, .oracle = oracle};
