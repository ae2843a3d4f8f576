/* check_softmax.h: the weighted mean of softmax attention, also for check_wsoftmax.c. */
#ifndef FOVEA_TESTS_CHECK_SOFTMAX_H
#define FOVEA_TESTS_CHECK_SOFTMAX_H

#include "ops/keys_i8.h"
#include "tests/kernels/check.h"

/* Makes a case use bfloat16 products, with Q, K, V and the output stored as `types`. If all types
 * are FV_NONE, the case stays in float32. */
void check_softmax_types(check_case *c, const uint8_t types[4]);

/* A score, and its change if its factors are rounded where the case permits it. */
typedef struct check_score {
    double sum, size; /* size: sum of the absolute values */
    double rounding;
} check_score;
/* Adds the relative positions in operand `operand` for the query of a row and a key. */
void check_score_add_relative(check_score *s, const check_case *c, int operand, uint32_t row,
                              uint32_t head, uint32_t key);
void check_score_add(check_score *s, const check_case *c, double q, double k);

/* Replaces scores by softmax weights, whose sum is 1. */
void check_softmax_weigh(double *s, uint32_t keys);
/* Computes the mean of values x with these weights. Scores may have an error of `error`. */
void check_softmax_column(const check_case *c, const double *x, const double *p, uint32_t keys,
                          double error, double *want, double *allowed);

/* The location of a key's value: an operand and its row. */
typedef struct check_spot {
    int operand;
    uint32_t row;
} check_spot;

/* Computes want[i] = sum_j p_j x_j / sum_j p_j with p_j = exp(s_j), for columns col + i, i < n, of
 * the values x_j, j < keys. A score may have an error of `error`. Overwrites s. */
void check_softmax_mean(const check_case *c, const check_spot *x, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed);
/* As check_softmax_mean(), with rows row0 + j of operand v as values. */
void check_softmax_rows(const check_case *c, int v, uint32_t row0, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed);

/* ---- int8 products ---- */

/* A visible key: its index in a head's row, and the term that is added to its score. */
typedef struct check_key_i8 {
    size_t key;
    double bias;
} check_key_i8;

/* Computes the output of one head for a query, row `row` of operand 0, over `keys` of the keys in
 * `whole`, which have layout l. If `in_order` is set, keys share a scale with their neighbours,
 * otherwise with any keys. */
void check_softmax_i8(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole, uint32_t row,
                      uint32_t head, const check_key_i8 *seen, uint32_t keys, bool in_order,
                      double *want, double *allowed);
/* As check_softmax_i8(), over all keys in order. */
void check_softmax_i8_all(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole,
                          uint32_t row, uint32_t head, double *want, double *allowed);

#endif
