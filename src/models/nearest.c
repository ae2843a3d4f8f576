/* nearest.c: finds the name that is most similar to another. */
#include "models/nearest.h"

#include <string.h>

#include "base/num.h"

#define LETTERS 64 /* most letters of names that are compared */

uint32_t fv_nearest_distance(const char *a, const char *b)
{
    uint32_t row[LETTERS + 1]; /* distances from a prefix of `a` to each prefix of `b` */
    const uint32_t n = fv_min_u32((uint32_t)strlen(b), LETTERS);
    for (uint32_t k = 0; k <= n; k++)
        row[k] = k;
    for (uint32_t i = 0; a[i]; i++) {
        uint32_t before = row[0]++;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t changed = before + (a[i] != b[k]);
            before = row[k + 1];
            row[k + 1] = fv_min_u32(changed, fv_min_u32(before, row[k]) + 1);
        }
    }
    return row[n];
}

void fv_nearest_name(const char **at, size_t *letters, uint32_t *least, const char *list,
                     const char *type)
{
    static const char between[] = ", ";
    for (size_t n; *(list += strspn(list, between)); list += n) {
        char name[LETTERS + 1] = "";
        n = strcspn(list, between);
        if (n > LETTERS || memchr(list, '*', n)) /* a pattern is not compared */
            continue;
        memcpy(name, list, n);
        const uint32_t distance = fv_nearest_distance(name, type);
        if (distance >= *least)
            continue;
        *least = distance;
        *at = list;
        *letters = n;
    }
}
