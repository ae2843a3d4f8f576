/* check_rotation.h: tables of cosines and sines for the cases of ROPE and linear attention. */
#ifndef FOVEA_TESTS_CHECK_ROTATION_H
#define FOVEA_TESTS_CHECK_ROTATION_H

#include "tests/kernels/check.h"

/* Describes the tables for `rows` tokens of `d` channels: one row per token, or one per position of
 * a grid that is args.u[0] wide. There are `gap` values between the rows of the first table. */
void check_rotation(check_case *c, int cos, int sin, uint32_t rows, uint32_t d, uint32_t gap);
/* Draws the tables' values. */
void check_rotation_values(check_case *c, int cos, int sin, check_random *r);
/* Returns the value of table `operand` for channel i of d of a token. */
double check_angle(const check_case *c, int operand, uint32_t token, uint32_t i, uint32_t d);

#endif
