/* wisdom_key.c: names of devices and problems in wisdom. Similar problems have the same name, so
 * that the result for one of them is used for all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/mech_traits.h"
#include "wisdom/wisdom.h"

/* ---- devices ---- */

/* Adds a field, and replaces separators in its text. */
static void add_field(char out[FV_WISDOM_DEVICE], const char *text)
{
    size_t at = strlen(out);
    for (; *text && at + 2 < FV_WISDOM_DEVICE; text++)
        out[at++] = *text == '|' ? '_' : *text;
    out[at++] = '|';
    out[at] = 0;
}

void fv_wisdom_device_key(char out[FV_WISDOM_DEVICE], const char *backend,
                          const fovea_device_info *info, uint32_t threads)
{
    char number[16];
    snprintf(number, sizeof number, "%u", threads);
    *out = 0;
    add_field(out, backend);
    add_field(out, info->features);
    add_field(out, info->name);
    add_field(out, number);
    add_field(out, info->driver);
}

/* Returns the length of the first two fields, backend and features. */
static size_t family(const char *key)
{
    const size_t backend = strcspn(key, "|");
    return key[backend] ? backend + 1 + strcspn(key + backend + 1, "|") : backend;
}

bool fv_wisdom_same_family(const char *a, const char *b)
{
    const size_t n = family(a);
    return n == family(b) && memcmp(a, b, n) == 0;
}

bool fv_wisdom_same_device(const char *a, const char *b)
{
    const size_t backend = strcspn(a, "|");
    return backend == strcspn(b, "|") && memcmp(a, b, backend) == 0 &&
           strcmp(a + family(a), b + family(b)) == 0;
}

/* ---- problems ---- */

/* Rounds n to a power 2^(k/2), then adds `away` to k. A single row is not rounded. */
static uint32_t bucket(uint32_t n, int away)
{
    if (n <= 1)
        return n;
    const double exponent = round(2 * log2(n)) + away;
    return exponent >= 1 && exponent < 64 ? (uint32_t)lround(exp2(exponent / 2)) : 1;
}

void fv_wisdom_problem_key(char out[FV_WISDOM_SUBJECT], const fv_problem *p, int away)
{
    fv_problem like = *p;
    const fv_op *op = fv_op_table[p->op];
    for (int i = 0; i < FV_DIMS; i++)
        if (op->dim[i].kind != FV_DIM_SIZE)
            like.dim[i] = bucket(p->dim[i], away);
    if (op->groups) /* the number of groups depends on how a sweep is cut into chunks */
        like.dim[op->groups] = 0;
    fv_problem_format(out, FV_WISDOM_SUBJECT, &like);
    size_t n = strlen(out);
    if (p->mech != FV_MECH_ANY)
        n += (size_t)snprintf(out + n, FV_WISDOM_SUBJECT - n, " %s", fv_mech_table[p->mech]->name);
    if (p->out != p->in && n < FV_WISDOM_SUBJECT)
        snprintf(out + n, FV_WISDOM_SUBJECT - n, " to %s", fv_type_name((enum fv_type)p->out));
}
