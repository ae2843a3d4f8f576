/* tensor_reader.c: weights by name, checked. */
#include "models/tensor_reader.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

static void compose(char out[FV_READER_NAME], const fv_tensor_reader *t, const char *prefix,
                    const char *stem, const char *part)
{
    int n = snprintf(out, FV_READER_NAME, "%s%s%s%s", t->root, prefix, stem, part);
    assert(n >= 0 && n < FV_READER_NAME);
    (void)n;
}

/* ---- wrappers ---- */

static const char average[] = "_ema."; /* in the names of averaged weights */

/* Whether the first n characters of a name are wrappers, one after the other. */
static bool wraps(const char *name, size_t n)
{
    static const char *const wrappers[] = {"module.",     "model.",          "model_ema.",
                                           "state_dict.", "state_dict_ema.", "backbone.",
                                           "_orig_mod."};
    size_t at = 0;
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers && at < n;) {
        const size_t length = strlen(wrappers[i]);
        if (length <= n - at && fv_begins_with(name + at, wrappers[i])) {
            at += length;
            i = 0;
        } else {
            i++;
        }
    }
    return at == n;
}

/* Averaged weights before others, then the shorter root. */
static bool preferred(const char *root, size_t n, const char *other, size_t n_other)
{
    const bool averaged = strstr(root, average) != NULL;
    const bool other_averaged = strstr(other, average) != NULL;
    return averaged != other_averaged ? averaged : n < n_other;
}

void fv_reader_begin(fv_tensor_reader *t)
{
    snprintf(t->root, sizeof t->root, "%s", t->source->prefix);
}

bool fv_reader_unwrap(fv_tensor_reader *t, const char *prefix, const char *stem, const char *part)
{
    char name[FV_READER_NAME], best[FV_READER_ROOT] = "";
    const fv_tensor_reader bare = {.root = ""};
    bool found = false;
    if (!stem)
        return false;
    compose(name, &bare, prefix, stem, part);
    const size_t own = strlen(name), before = strlen(t->source->prefix);
    for (uint32_t i = 0; i < t->source->count; i++) {
        const char *whole = t->source->by_name[i]->name;
        const size_t all = strlen(whole), n = all - own;
        if (all < before + own || n >= FV_READER_ROOT || strcmp(whole + n, name) != 0 ||
            !fv_begins_with(whole, t->source->prefix) || !wraps(whole + before, n - before))
            continue;
        char root[FV_READER_ROOT] = "";
        snprintf(root, sizeof root, "%.*s", (int)n, whole);
        if (!found || preferred(root, n, best, strlen(best)))
            memcpy(best, root, sizeof best);
        found = true;
    }
    if (found)
        memcpy(t->root, best, sizeof best);
    return found;
}

/* ---- names ---- */

fovea_status fv_reader_missing(const fv_tensor_reader *t, const char *name, const char *what)
{
    return fv_fail(FOVEA_EFORMAT, "%s: tensor \"%s\" %s is missing; does %s belong to it?",
                   t->source->name, name, what, t->config);
}

const fv_tensor *fv_reader_find(const fv_tensor_reader *t, const char *prefix, const char *stem,
                                const char *part)
{
    char name[FV_READER_NAME];
    if (!stem)
        return NULL;
    compose(name, t, prefix, stem, part);
    return fv_source_find(t->source, name);
}

fovea_status fv_reader_put(fv_tensor_reader *t, const char *prefix, const char *stem,
                           const char *part, uint32_t rank, const uint64_t *shape, float mean,
                           float spread)
{
    char name[FV_READER_NAME];
    compose(name, t, prefix, stem, part);
    /* The model's own checkpoint, which the reader sees as one that does not change. */
    return fv_source_put((fv_source *)(uintptr_t)t->source, name, rank, shape, mean, spread,
                         t->m->additions->seed);
}

fovea_status fv_reader_put_identity(fv_tensor_reader *t, const char *prefix, const char *stem,
                                    const char *part, uint32_t blocks, uint32_t d)
{
    const uint64_t shape[3] = {blocks, d, d};
    FV_TRY(fv_reader_put(t, prefix, stem, part, 3, shape, 0, 0));
    fv_tensor *made = (fv_tensor *)(uintptr_t)fv_reader_find(t, prefix, stem, part);
    made->identity = d;
    return FOVEA_OK;
}

fovea_status fv_reader_put_conv(fv_tensor_reader *t, const char *prefix, const char *stem,
                                const uint64_t shape[4], bool whole, bool bent)
{
    const uint32_t rank = whole || shape[2] > 1 ? 4 : 2;
    const float terms = (float)(shape[1] * shape[2] * shape[3]);
    FV_TRY(fv_reader_put(t, prefix, stem, "weight", rank, shape, 0, sqrtf((bent ? 6 : 3) / terms)));
    return fv_reader_put(t, prefix, stem, "bias", 1, shape, 0, 0);
}

fovea_status fv_reader_put_head(fv_tensor_reader *t, const char *stem, uint32_t classes,
                                uint32_t width)
{
    const uint64_t shape[2] = {classes, width};
    t->m->new_head = true;
    FV_TRY(fv_reader_put(t, "", stem, "weight", 2, shape, 0, FV_NEW_HEAD));
    return fv_reader_put(t, "", stem, "bias", 1, shape, 0, 0);
}

fovea_status fv_reader_check_size(const fv_tensor_reader *t, const char *what, uint32_t n,
                                  uint32_t most)
{
    if (n > 0 && n <= most)
        return FOVEA_OK;
    return fv_fail(FOVEA_EFORMAT, "%s: %s is %u, expected 1 to %u", t->source->name, what, n, most);
}

fovea_status fv_reader_agree(const fv_tensor_reader *t, const fv_config *c, const char *key,
                             uint32_t n)
{
    uint32_t told = n;
    FV_TRY(fv_config_u32(&told, c, key, 0, UINT32_MAX));
    if (told == n)
        return FOVEA_OK;
    return fv_fail(FOVEA_EFORMAT, "%s: \"%s\" is %u, but the tensors of %s have %u", c->file, key,
                   told, t->source->name, n);
}

uint32_t fv_tensor_dimension(const fv_tensor *tensor, uint32_t i)
{
    uint64_t n = tensor && i < tensor->rank ? tensor->shape[i] : 0;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void print_shape(char out[FV_READER_NAME], const uint64_t *shape, uint32_t rank)
{
    size_t used = (size_t)snprintf(out, FV_READER_NAME, "(");
    for (uint32_t i = 0; i < rank; i++)
        used += (size_t)snprintf(out + used, FV_READER_NAME - used, i ? ", %llu" : "%llu",
                                 (unsigned long long)shape[i]);
    snprintf(out + used, FV_READER_NAME - used, ")");
}

static bool same_shape(const fv_tensor *t, uint32_t rank, const uint64_t *shape)
{
    uint32_t i = 0, k = 0;
    for (;;) {
        while (i < t->rank && t->shape[i] == 1)
            i++;
        while (k < rank && shape[k] == 1)
            k++;
        if (i == t->rank || k == rank)
            return i == t->rank && k == rank;
        if (t->shape[i++] != shape[k++])
            return false;
    }
}

static fovea_status find_checked(const fv_tensor **out, const fv_tensor_reader *t,
                                 const char *prefix, const char *stem, const char *part,
                                 uint32_t rank, const uint64_t *shape)
{
    char name[FV_READER_NAME], found[FV_READER_NAME], expected[FV_READER_NAME];
    compose(name, t, prefix, stem, part);
    print_shape(expected, shape, rank);
    const fv_tensor *tensor = fv_source_find(t->source, name);
    if (!tensor)
        return fv_reader_missing(t, name, expected);
    if (!same_shape(tensor, rank, shape)) {
        print_shape(found, tensor->shape, tensor->rank);
        return fv_fail(FOVEA_EFORMAT,
                       "%s: tensor \"%s\" has shape %s, but %s is expected; does %s belong to it?",
                       t->source->name, name, found, expected, t->config);
    }
    if (!fv_file_types[tensor->dtype].floating)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: tensor \"%s\" has type %s; convert it to F32, F16 or BF16",
                       t->source->name, name, fv_file_types[tensor->dtype].name);
    t->source->taken[fv_source_place(t->source, tensor)] = true;
    *out = tensor;
    return FOVEA_OK;
}

fovea_status fv_reader_tensor(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rank,
                              const uint64_t *shape)
{
    FV_TRY(find_checked(out, t, prefix, stem, part, rank, shape));
    t->m->info.parameters += (*out)->elements;
    return FOVEA_OK;
}

fovea_status fv_reader_buffer(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t n)
{
    const uint64_t shape[1] = {n};
    return find_checked(out, t, prefix, stem, part, 1, shape);
}

fovea_status fv_reader_part(fv_weight *w, fv_tensor_reader *t, const char *prefix, const char *stem,
                            const char *part, fv_weight_part at)
{
    const uint64_t shape[2] = {at.rows, at.cols};
    FV_TRY(fv_reader_tensor(&at.tensor, t, prefix, stem, part, 2, shape));
    fv_weight_add(w, at);
    return FOVEA_OK;
}

fovea_status fv_reader_matrix(fv_weight *w, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rows, uint32_t cols)
{
    *w = (fv_weight){.rows = rows, .cols = cols};
    return fv_reader_part(w, t, prefix, stem, part, (fv_weight_part){.rows = rows, .cols = cols});
}

fovea_status fv_reader_linear(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t rows, uint32_t cols)
{
    FV_TRY(fv_reader_matrix(&l->w, t, prefix, stem, "weight", rows, cols));
    return fv_reader_matrix(&l->b, t, prefix, stem, "bias", 1, rows);
}

fovea_status fv_reader_conv(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t rows, uint32_t channels, uint32_t size)
{
    const uint32_t taps = size * size, cols = taps * channels;
    const uint64_t shape[4] = {rows, channels, size, size};
    const fv_tensor *weight = NULL; /* for compilers that do not see that it is set */
    FV_TRY(fv_reader_tensor(&weight, t, prefix, stem, "weight", 4, shape));
    l->w = (fv_weight){.rows = rows, .cols = cols};
    fv_weight_add(&l->w,
                  (fv_weight_part){.tensor = weight, .rows = rows, .cols = cols, .taps = taps});
    return fv_reader_find(t, prefix, stem, "bias")
               ? fv_reader_matrix(&l->b, t, prefix, stem, "bias", 1, rows)
               : FOVEA_OK;
}

fovea_status fv_reader_norm(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t width)
{
    FV_TRY(fv_reader_matrix(&l->w, t, prefix, stem, "weight", 1, width));
    return fv_reader_matrix(&l->b, t, prefix, stem, "bias", 1, width);
}

void fv_reader_ignore(fv_tensor_reader *t, const char *prefix, const char *part)
{
    char whole[FV_READER_NAME];
    compose(whole, t, prefix, "", "");
    const size_t before = strlen(whole);
    for (uint32_t i = 0; i < t->source->count; i++) {
        const char *name = t->source->by_name[i]->name;
        const char *at = fv_begins_with(name, whole) ? strstr(name + before, part) : NULL;
        if (at && (size_t)(at - name) < before + strcspn(name + before, "."))
            t->source->taken[i] = true;
    }
}

fovea_status fv_reader_all_used(const fv_tensor_reader *t, const char *prefix)
{
    char whole[FV_READER_NAME];
    compose(whole, t, prefix, "", "");
    for (uint32_t i = 0; i < t->source->count; i++) /* opens their shards, where types are known */
        if (fv_begins_with(t->source->by_name[i]->name, whole))
            fv_source_find(t->source, t->source->by_name[i]->name);
    FV_TRY(fv_source_failed(t->source));
    for (uint32_t i = 0; i < t->source->count; i++) {
        const fv_tensor *tensor = t->source->by_name[i];
        if (fv_begins_with(tensor->name, whole) && fv_file_types[tensor->dtype].floating &&
            tensor->elements > 0 && !t->source->taken[i])
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: tensor \"%.80s\" has no place in a %s: take it out if the model "
                           "does not read it, else this variant is not supported",
                           t->source->name, tensor->name, t->m->info.type);
    }
    return FOVEA_OK;
}
