/* products.h: the set of a model's products that stay bfloat16 while the others are int8. A
 * product's number is its position among the products that may be int8, as an emitter writes
 * them. */
#ifndef FOVEA_SRC_PRODUCTS_H
#define FOVEA_SRC_PRODUCTS_H

#include <stdbool.h>
#include <stdint.h>

#define FV_PRODUCTS 384u /* FOVEA_PRODUCTS of tuning.h; later products are always int8 */

typedef struct fv_products {
    uint8_t bit[FV_PRODUCTS / 8];
} fv_products;

static inline bool fv_products_have(const fv_products *p, uint32_t i)
{
    return i < FV_PRODUCTS && (p->bit[i / 8] >> i % 8 & 1);
}

static inline void fv_products_add(fv_products *p, uint32_t i)
{
    if (i < FV_PRODUCTS)
        p->bit[i / 8] |= (uint8_t)(1u << i % 8);
}

static inline uint32_t fv_products_count(const fv_products *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < FV_PRODUCTS; i++)
        n += fv_products_have(p, i);
    return n;
}

#endif
