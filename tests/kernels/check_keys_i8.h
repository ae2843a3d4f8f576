/* check_keys_i8.h: keys and values as whole numbers, for checks of attention. */
#ifndef FOVEA_TESTS_CHECK_KEYS_I8_H
#define FOVEA_TESTS_CHECK_KEYS_I8_H

#include "ops/keys_i8.h"
#include "tests/kernels/check.h"

/* Random ones of n keys and cells in an operand of bytes; some scales are 0, and all keys of some
 * heads are equal. */
void check_keys_i8_draw(check_case *c, int operand, size_t n, check_random *r);
/* A head's row of such an operand. */
const uint8_t *check_keys_i8_row(const check_case *c, int operand, uint32_t head);
/* Float i of the part at byte `at` of a head's row. */
float check_keys_i8_float(const uint8_t *row, size_t at, size_t i);

/* Rows of keys or of values: tokens from row `first` on, then cells. */
typedef struct check_key_rows {
    int tokens, cells; /* operands */
    uint32_t first, n; /* n: tokens */
} check_key_rows;

/* The row of a head, which is zero before, of keys and values as KEYS_I8 is defined. */
void check_keys_i8_quantise(uint8_t *row, const check_case *c, const fv_keys_i8 *l, uint32_t head,
                            check_key_rows keys, check_key_rows values);

#endif
