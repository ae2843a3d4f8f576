/* check_softmax.h: the mean that softmax attention takes, for check_wsoftmax.c too. */
#ifndef FOVEA_TESTS_CHECK_SOFTMAX_H
#define FOVEA_TESTS_CHECK_SOFTMAX_H

#include "ops/keys_i8.h"
#include "tests/kernels/check.h"

/* Makes a case one of products of bfloat16, with Q, K, V and the output stored as `types`. None of
 * them: it stays one of float32. */
void check_softmax_types(check_case *c, const uint8_t types[4]);

/* A score, and what it changes by if its factors are rounded where the case permits it. */
typedef struct check_score {
    double sum, size; /* size: of absolute values */
    double rounding;
} check_score;
/* Adds the relative positions that operand `operand` has for the query of a row and a key. */
void check_score_add_relative(check_score *s, const check_case *c, int operand, uint32_t row,
                              uint32_t head, uint32_t key);
void check_score_add(check_score *s, const check_case *c, double q, double k);

/* Turns scores into weights, whose sum is 1. */
void check_softmax_weigh(double *s, uint32_t keys);
/* The mean of values x with these weights, of scores that may be wrong by `error`. */
void check_softmax_column(const check_case *c, const double *x, const double *p, uint32_t keys,
                          double error, double *want, double *allowed);

/* Where the value of a key is: an operand and its row. */
typedef struct check_spot {
    int operand;
    uint32_t row;
} check_spot;

/* want[i] = sum_j p_j x_j / sum_j p_j, p_j = exp(s_j), for columns col + i, i < n, of the values
 * x_j, j < keys. A score may be wrong by `error`. Overwrites s. */
void check_softmax_mean(const check_case *c, const check_spot *x, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed);
/* The same for rows row0 + j of operand v. */
void check_softmax_rows(const check_case *c, int v, uint32_t row0, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed);

/* ---- products of 8 bits ---- */

/* A key that a query sees, by its number in a head's row, and what is added to its score. */
typedef struct check_key_i8 {
    size_t key;
    double bias;
} check_key_i8;

/* The output of one head of a query, row `row` of operand 0, over `keys` keys of those in `whole`,
 * which l describes. `in_order`: keys share a scale with their neighbours; else with any. */
void check_softmax_i8(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole, uint32_t row,
                      uint32_t head, const check_key_i8 *seen, uint32_t keys, bool in_order,
                      double *want, double *allowed);
/* The same over all keys in their order. */
void check_softmax_i8_all(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole,
                          uint32_t row, uint32_t head, double *want, double *allowed);

#endif
