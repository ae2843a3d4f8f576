/* check_keys_i8.h: keys and values as whole numbers, for checks of attention. */
#ifndef FOVEA_TESTS_CHECK_KEYS_I8_H
#define FOVEA_TESTS_CHECK_KEYS_I8_H

#include "ops/keys_i8.h"
#include "tests/kernels/check.h"

/* Random ones of n keys and cells in an operand of bytes; some scales are 0, and all keys of some
 * heads are equal. */
void check_keys_i8_draw(check_case *c, int operand, size_t n, check_random *r);
/* Float i of the part at byte `at` of a head's row, and the number at a byte of it. */
float check_keys_i8_float(const check_case *c, int operand, uint32_t head, size_t at, size_t i);
int check_keys_i8_number(const check_case *c, int operand, uint32_t head, size_t at);

#endif
