/* wisdom_choice.c: choices as the text in wisdom: a kernel with its knobs, the schedule of a sweep,
 * or the types of a model's products. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wisdom/wisdom.h"

static bool next_word(const char **at, const char **word, size_t *length)
{
    *at += strspn(*at, " ");
    *word = *at;
    *length = strcspn(*at, " ");
    *at += *length;
    return *length > 0;
}

/* Reads "name=digits". */
static bool read_pair(const char *word, size_t length, size_t *name, uint32_t *value)
{
    *name = strcspn(word, "= ");
    if (*name == 0 || *name >= length || word[*name] != '=')
        return false;
    const char *digits = word + *name + 1;
    const size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 9 || *name + 1 + n != length)
        return false;
    *value = (uint32_t)strtoul(digits, NULL, 10);
    return true;
}

static bool is(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

/* ---- kernels ---- */

void fv_wisdom_kernel_text(char out[FV_WISDOM_CHOICE], const fv_kernel *k, const fv_knobs *knobs)
{
    int n = snprintf(out, FV_WISDOM_CHOICE, "%s rev=%u", k->name, k->rev);
    const fv_knob *knob = k->hooks->knobs;
    for (int i = 0; knob && knob[i].name && n > 0 && n < FV_WISDOM_CHOICE; i++)
        n += snprintf(out + n, FV_WISDOM_CHOICE - (size_t)n, " %s=%u", knob[i].name, knobs->v[i]);
}

static bool set_knob(const fv_kernel *k, const char *name, size_t length, uint32_t value,
                     fv_knobs *knobs)
{
    const fv_knob *knob = k->hooks->knobs;
    for (int i = 0; knob && knob[i].name; i++)
        for (uint32_t v = 0; is(name, length, knob[i].name) && v < knob[i].count; v++)
            if (knob[i].value[v] == value) {
                knobs->v[i] = value;
                return true;
            }
    return false;
}

static const fv_kernel *kernel_named(const char *name, size_t length, const fv_kernel *list,
                                     int count)
{
    for (int i = 0; i < count; i++)
        if (is(name, length, list[i].name))
            return &list[i];
    return NULL;
}

const fv_kernel *fv_wisdom_kernel_read(const char *text, const fv_kernel *list, int count,
                                       fv_knobs *knobs)
{
    const char *word;
    size_t length, name;
    uint32_t value;
    if (!next_word(&text, &word, &length))
        return NULL;
    const fv_kernel *k = kernel_named(word, length, list, count);
    if (!k || !next_word(&text, &word, &length) || !read_pair(word, length, &name, &value) ||
        !is(word, name, "rev") || value != k->rev)
        return NULL;
    *knobs = fv_kernel_defaults(k);
    while (next_word(&text, &word, &length))
        if (!read_pair(word, length, &name, &value) || !set_knob(k, word, name, value, knobs))
            return NULL;
    return k;
}

/* ---- sweeps ---- */

void fv_wisdom_sweep_text(char out[FV_WISDOM_CHOICE], bool streamed, uint32_t chunk)
{
    snprintf(out, FV_WISDOM_CHOICE, "%s chunk=%u", streamed ? "streamed" : "stepwise", chunk);
}

bool fv_wisdom_sweep_read(const char *text, bool *streamed, uint32_t *chunk)
{
    const char *word;
    size_t length, name;
    if (!next_word(&text, &word, &length))
        return false;
    *streamed = is(word, length, "streamed");
    if (!*streamed && !is(word, length, "stepwise"))
        return false;
    return next_word(&text, &word, &length) && read_pair(word, length, &name, chunk) &&
           is(word, name, "chunk") && (*chunk > 0 || !*streamed) &&
           !next_word(&text, &word, &length);
}

/* ---- products ---- */

static const char *const computes[] = {"f32", "bf16", "int8"};
#define COMPUTES ((int)(sizeof computes / sizeof *computes))
#define MILLIONTHS 1e6

/* Writes a fraction in digits that do not depend on the program's locale. */
static int add_fraction(char *out, size_t capacity, const char *name, double x)
{
    const long n = lround(fabs(x) * MILLIONTHS);
    return snprintf(out, capacity, " %s=%s%ld.%06ld", name, x < 0 ? "-" : "", n / 1000000,
                    n % 1000000);
}

static bool read_fraction(const char *digits, size_t length, double *out)
{
    const bool negative = length > 0 && *digits == '-';
    const char *at = digits + negative, *end = digits + length;
    double whole = 0, unit = 1;
    if (end - at < 3 || end - at > 8 || at[1] != '.')
        return false;
    for (const char *p = at; p < end; p++) {
        if (p == at + 1)
            continue;
        if (*p < '0' || *p > '9')
            return false;
        whole = whole * 10 + (*p - '0');
        unit *= p > at + 1 ? 10 : 1;
    }
    *out = (negative ? -whole : whole) / unit;
    return true;
}

void fv_wisdom_products_text(char out[FV_WISDOM_CHOICE], const fv_product_choice *c)
{
    const struct {
        const char *name;
        double value;
    } figure[] = {{"cosine", c->cosine}, {"worst", c->worst}, {"bound", c->bound}};
    int n = snprintf(out, FV_WISDOM_CHOICE, "%s", computes[c->compute]);
    uint32_t bytes = FV_PRODUCTS / 8;
    while (bytes && !c->bf16.bit[bytes - 1])
        bytes--;
    if (bytes)
        n += snprintf(out + n, FV_WISDOM_CHOICE - (size_t)n, " bf16=");
    while (bytes)
        n += snprintf(out + n, FV_WISDOM_CHOICE - (size_t)n, "%02x", c->bf16.bit[--bytes]);
    for (size_t i = 0; i < sizeof figure / sizeof *figure; i++)
        n += add_fraction(out + n, FV_WISDOM_CHOICE - (size_t)n, figure[i].name, figure[i].value);
}

static bool read_products(const char *digits, size_t length, fv_products *out)
{
    static const char hex[] = "0123456789abcdef";
    if (length == 0 || length > FV_PRODUCTS / 4)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char c = digits[length - 1 - i];
        const char *digit = c ? strchr(hex, c) : NULL;
        if (!digit)
            return false;
        out->bit[i / 2] |= (uint8_t)((digit - hex) << i % 2 * 4);
    }
    return true;
}

bool fv_wisdom_products_read(const char *text, fv_product_choice *out)
{
    const char *word;
    size_t length;
    fv_product_choice c = {.compute = FOVEA_COMPUTE_F32};
    int compute = 0;
    if (!next_word(&text, &word, &length))
        return false;
    while (compute < COMPUTES && !is(word, length, computes[compute]))
        compute++;
    if (compute == COMPUTES)
        return false;
    c.compute = (fovea_compute)compute;
    while (next_word(&text, &word, &length)) {
        const size_t name = strcspn(word, "= ");
        if (name >= length)
            return false;
        const char *value = word + name + 1;
        const size_t left = length - name - 1;
        const bool known = is(word, name, "bf16") ? c.compute == FOVEA_COMPUTE_INT8 &&
                                                        read_products(value, left, &c.bf16)
                           : is(word, name, "cosine") ? read_fraction(value, left, &c.cosine)
                           : is(word, name, "worst")
                               ? read_fraction(value, left, &c.worst)
                               : is(word, name, "bound") && read_fraction(value, left, &c.bound);
        if (!known)
            return false;
    }
    *out = c;
    return true;
}

/* ---- facts ---- */

static bool kernel_known(const fv_fact *f)
{
    const size_t length = strcspn(f->device, "|");
    for (size_t i = 0; fv_backends[i]; i++) {
        int count;
        uint32_t features;
        fv_knobs knobs;
        if (!is(f->device, length, fv_backends[i]->name))
            continue;
        const fv_kernel *list = fv_backends[i]->kernels(NULL, &count, &features);
        return fv_wisdom_kernel_read(f->choice, list, count, &knobs) != NULL;
    }
    return false;
}

bool fv_wisdom_known(const fv_fact *f)
{
    bool streamed;
    uint32_t chunk;
    fv_product_choice products;
    switch (f->kind) {
    case FV_FACT_STEP:
        return kernel_known(f);
    case FV_FACT_SWEEP:
        return fv_wisdom_sweep_read(f->choice, &streamed, &chunk);
    case FV_FACT_SKIP:
        return kernel_known(f) || fv_wisdom_sweep_read(f->choice, &streamed, &chunk);
    case FV_FACT_PRODUCTS:
        return fv_wisdom_products_read(f->choice, &products);
    default:
        return true;
    }
}
