/* check_rows_i8.h: int8 rows for checks of ops that read them. */
#ifndef FOVEA_TESTS_CHECK_ROWS_I8_H
#define FOVEA_TESTS_CHECK_ROWS_I8_H

#include "tests/kernels/check.h"

/* Draws rows of k channels. */
void check_rows_i8_draw(check_case *c, int operand, uint32_t k, check_random *r);
/* Returns channel i of a row, in its rotated form. */
double check_rows_i8_at(const check_case *c, int operand, uint32_t row, uint32_t k, uint32_t i);

#endif
