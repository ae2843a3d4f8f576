/* check_rotation.h: tables of cosines and sines as the cases of ROPE and linear attention have
 * them. */
#ifndef FOVEA_TESTS_CHECK_ROTATION_H
#define FOVEA_TESTS_CHECK_ROTATION_H

#include "tests/kernels/check.h"

/* The operands for `rows` tokens of `d` channels: rows of tokens, or of the positions of a grid
 * that is args.u[0] wide. There are `gap` values between the rows of the first. */
void check_rotation(check_case *c, int cos, int sin, uint32_t rows, uint32_t d, uint32_t gap);
/* Draws their values. */
void check_rotation_values(check_case *c, int cos, int sin, check_random *r);
/* The value of table `operand` that channel i of d of a token is rotated by. */
double check_angle(const check_case *c, int operand, uint32_t token, uint32_t i, uint32_t d);

#endif
