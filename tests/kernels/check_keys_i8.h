/* check_keys_i8.h: int8 keys and values for checks of attention. */
#ifndef FOVEA_TESTS_CHECK_KEYS_I8_H
#define FOVEA_TESTS_CHECK_KEYS_I8_H

#include "ops/keys_i8.h"
#include "tests/kernels/check.h"

/* Draws n random keys and cells in a byte operand. Some scales are 0, and some heads have equal
 * keys. */
void check_keys_i8_draw(check_case *c, int operand, size_t n, check_random *r);
/* Returns a head's row of such an operand. */
const uint8_t *check_keys_i8_row(const check_case *c, int operand, uint32_t head);
/* Returns float i of the part that begins at byte `at` of a head's row. */
float check_keys_i8_float(const uint8_t *row, size_t at, size_t i);

/* Rows of keys or of values: tokens from row `first` on, followed by cells. */
typedef struct check_key_rows {
    int tokens, cells; /* operands */
    uint32_t first, n; /* n: tokens */
} check_key_rows;

/* Quantises keys and values into a head's row, by the definition of KEYS_I8. The row must be
 * zeroed. */
void check_keys_i8_quantise(uint8_t *row, const check_case *c, const fv_keys_i8 *l, uint32_t head,
                            check_key_rows keys, check_key_rows values);

#endif
