/* wisdom_choice.c: what was chosen, as the text that wisdom keeps: a kernel with its knobs, or the
 * schedule of a sweep. */
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

/* "name=digits" */
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
    switch (f->kind) {
    case FV_FACT_STEP:
        return kernel_known(f);
    case FV_FACT_SWEEP:
        return fv_wisdom_sweep_read(f->choice, &streamed, &chunk);
    case FV_FACT_SKIP:
        return kernel_known(f) || fv_wisdom_sweep_read(f->choice, &streamed, &chunk);
    default:
        return true;
    }
}
