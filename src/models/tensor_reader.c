/* tensor_reader.c: finds weights by name, and checks their shapes and types. */
#include "models/tensor_reader.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/wrappers.h"
#include "ops/op.h"

static void compose(char out[FV_READER_NAME], const fv_tensor_reader *t, const char *prefix,
                    const char *stem, const char *part)
{
    int n = snprintf(out, FV_READER_NAME, "%s%s%s%s", t->root, prefix, stem, part);
    assert(n >= 0 && n < FV_READER_NAME);
    (void)n;
}

/* ---- where the model is kept ---- */

void fv_reader_begin(fv_tensor_reader *t)
{
    snprintf(t->root, sizeof t->root, "%s", t->source->prefix);
}

/* Returns the number of bytes before `name` in a tensor's plain name. Returns SIZE_MAX if the plain
 * name does not end with `name`, or does not begin with the source's prefix. */
static size_t root_of(const fv_tensor_reader *t, const fv_tensor *tensor, const char *name)
{
    const size_t all = strlen(tensor->plain), own = strlen(name);
    if (all < own || all - own < strlen(t->source->prefix) || all - own >= FV_READER_ROOT ||
        strcmp(tensor->plain + all - own, name) != 0 ||
        !fv_begins_with(tensor->plain, t->source->prefix))
        return SIZE_MAX;
    return all - own;
}

struct root {
    char text[FV_READER_ROOT];
    enum fv_keeping keeping;
};

/* Returns whether root `a` is preferred to `b`: averaged weights to others, then shorter names to
 * longer ones. */
static bool preferred(const struct root *a, const struct root *b)
{
    return a->keeping != b->keeping ? a->keeping > b->keeping : strlen(a->text) < strlen(b->text);
}

bool fv_reader_unwrap(fv_tensor_reader *t, const char *prefix, const char *stem, const char *part)
{
    char name[FV_READER_NAME];
    const fv_tensor_reader bare = {.root = ""};
    struct root best = {.keeping = FV_KEPT_NOWHERE}, second = best;
    /* opening a shard does not change its tensors */
    fv_source *source = (fv_source *)(uintptr_t)t->source;
    if (!stem)
        return false;
    compose(name, &bare, prefix, stem, part);
    const size_t before = strlen(source->prefix);
    for (uint32_t i = 0; i < source->count; i++) {
        const char *plain = source->by_name[i]->plain;
        const size_t n = root_of(t, source->by_name[i], name);
        if (n == SIZE_MAX)
            continue;
        struct root found = {.keeping = fv_wrappers_keep(plain + before, n - before)};
        if (found.keeping == FV_KEPT_NOWHERE)
            continue;
        snprintf(found.text, sizeof found.text, "%.*s", (int)n, plain);
        if (preferred(&found, &best)) {
            second = best;
            best = found;
        } else if (preferred(&found, &second)) {
            second = found;
        }
    }
    if (best.keeping == FV_KEPT_NOWHERE)
        return false;
    memcpy(t->root, best.text, sizeof best.text);
    if (second.keeping != FV_KEPT_NOWHERE) {
        source->twice = true;
        memcpy(source->root, best.text, sizeof best.text);
        memcpy(source->other, second.text, sizeof second.text);
    }
    return true;
}

fovea_status fv_reader_enter(fv_tensor_reader *t, const char *prefix)
{
    const size_t n = strlen(t->root);
    if (n + strlen(prefix) >= sizeof t->root)
        return fv_fail(FOVEA_EFORMAT, "%s: the prefix \"%.60s%s\" of its tensors is too long",
                       t->source->name, t->root, prefix);
    snprintf(t->root + n, sizeof t->root - n, "%s", prefix);
    return FOVEA_OK;
}

bool fv_reader_find_outside(fv_tensor_reader *out, const fv_tensor_reader *t, const char *stem,
                            const char *part)
{
    *out = *t;
    for (size_t n = strlen(t->root);; out->root[n] = 0) {
        if (fv_reader_find(out, "", stem, part))
            return true;
        if (n <= strlen(t->source->prefix))
            break;
        for (n--; n > 0 && out->root[n - 1] != '.';)
            n--;
    }
    *out = *t;
    return false;
}

bool fv_reader_nearest(char root[FV_READER_ROOT], const fv_tensor_reader *t, const char *stem,
                       const char *companion)
{
    char name[FV_READER_NAME];
    const fv_tensor_reader bare = {.root = ""};
    compose(name, &bare, "", stem, "weight");
    for (uint32_t i = 0; i < t->source->count; i++) {
        const fv_tensor *tensor = t->source->by_name[i];
        const size_t n = root_of(t, tensor, name);
        fv_tensor_reader there = {.source = t->source};
        if (n == SIZE_MAX || (n > 0 && tensor->plain[n - 1] != '.'))
            continue;
        snprintf(there.root, sizeof there.root, "%.*s", (int)n, tensor->plain);
        if (!fv_reader_lists(&there, "", companion, ""))
            continue;
        memcpy(root, there.root, sizeof there.root);
        return true;
    }
    return false;
}

/* Returns a prefix of names in the format of messages. */
static const char *shown(char out[FV_READER_ROOT + 16], const char *root)
{
    snprintf(out, FV_READER_ROOT + 16, *root ? "\"%s\"" : "the tensors without a prefix", root);
    return out;
}

/* Returns the length of the shortest prefix of by_name[i]'s name that ends at a point and is not a
 * prefix of any tensor that was read. It compares only the nearest such tensors in the order of
 * names, because they share the longest prefixes. */
static size_t unread_part(const fv_source *s, uint32_t i)
{
    const char *name = s->by_name[i]->plain;
    size_t shared = 0;
    for (int way = -1; way <= 1; way += 2) {
        uint32_t k = i;
        while (k < s->count && s->mark[k] != FV_MARK_READ)
            k += (uint32_t)way; /* before index 0 it wraps to a large number */
        size_t n = 0;
        for (const char *other = k < s->count ? s->by_name[k]->plain : "";
             name[n] && name[n] == other[n];)
            n++;
        while (n > 0 && name[n - 1] != '.')
            n--;
        shared = n > shared ? n : shared;
    }
    const char *dot = strchr(name + shared, '.');
    return dot ? (size_t)(dot + 1 - name) : strlen(name);
}

/* Returns whether a message must report that by_name[i] was not read: the tensor might matter, and
 * no other message names it. */
static bool is_unread(const fv_source *s, uint32_t i)
{
    const fv_tensor *t = s->by_name[i];
    if (s->twice && *s->other && fv_begins_with(t->plain, s->other))
        return false;
    return (s->mark[i] == FV_MARK_NONE || s->mark[i] == FV_MARK_LEFT) &&
           (t->shard || fv_file_types[t->dtype].floating);
}

void fv_reader_tell_unread(const fv_source *s)
{
    enum { MOST = 6 }; /* number of parts that are named */
    char text[1024] = "", root[FV_READER_ROOT + 16], other[FV_READER_ROOT + 16];
    uint32_t parts = 0, rest = 0;
    if (s->twice)
        fv_log(
            "%s: the model is stored twice; %s %s used, and %s not", s->name, shown(root, s->root),
            fv_wrappers_keep(s->root, strlen(s->root)) == FV_KEPT_AVERAGE ? "(averaged weights) is"
                                                                          : "is",
            shown(other, s->other));
    for (uint32_t i = 0, next; i < s->count; i = next) {
        next = i + 1;
        if (!is_unread(s, i))
            continue;
        const char *name = s->by_name[i]->plain;
        const size_t n = unread_part(s, i), used = strlen(text);
        uint32_t tensors = 1;
        for (; name[n] && next < s->count && strncmp(s->by_name[next]->plain, name, n) == 0; next++)
            tensors += is_unread(s, next);
        if (++parts > MOST)
            rest += tensors;
        else if (name[n])
            snprintf(text + used, sizeof text - used, "%s\"%.*s\" (%u tensor%s)", used ? ", " : "",
                     (int)fv_min_u32((uint32_t)n, 80), name, tensors, tensors > 1 ? "s" : "");
        else
            snprintf(text + used, sizeof text - used, "%s\"%.80s\"", used ? ", " : "", name);
    }
    if (rest)
        fv_log("%s: these tensors are not used: %s and %u tensors of %u other parts", s->name, text,
               rest, parts - MOST);
    else if (parts)
        fv_log("%s: these tensors are not used: %s", s->name, text);
}

/* ---- names ---- */

bool fv_reader_names(char name[FV_READER_NAME], const fv_tensor_reader *t, const char *text)
{
    for (uint32_t i = 0; i < t->source->count; i++) {
        const fv_tensor *tensor = t->source->by_name[i];
        for (const char *at = tensor->plain; (at = strstr(at, text)); at++)
            if (at == tensor->plain || at[-1] == '.') {
                snprintf(name, FV_READER_NAME, "%s", tensor->name);
                return true;
            }
    }
    return false;
}

const char *fv_reader_elsewhere(fv_reader_hint *out, const fv_tensor_reader *t, const char *name)
{
    char end[FV_READER_NAME + 1];
    const size_t root = fv_begins_with(name, t->root) ? strlen(t->root) : 0;
    snprintf(end, sizeof end, ".%s", name + root);
    out->text[0] = 0;
    for (uint32_t i = 0; i < t->source->count && !out->text[0]; i++) {
        const char *plain = t->source->by_name[i]->plain;
        const size_t n = strlen(plain) - strlen(end) + 1;
        if (fv_ends_with(plain, end) && n < FV_SOURCE_PREFIX)
            snprintf(out->text, sizeof out->text,
                     "; the file has it with the prefix \"%.*s\": add --prefix %.*s, or \"fovea\": "
                     "{\"prefix\": \"%.*s\"}",
                     (int)n, plain, (int)n, plain, (int)n, plain);
    }
    return out->text;
}

fovea_status fv_reader_missing(const fv_tensor_reader *t, const char *name, const char *what)
{
    char adapter[FV_READER_NAME];
    fv_reader_hint hint;
    if (fv_reader_names(adapter, t, "lora_A."))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: tensor \"%s\" is missing, but \"%.160s\" is present: LoRA adapters are "
                       "not applied; call merge_and_unload() before saving the model",
                       t->source->name, name, adapter);
    return fv_fail(FOVEA_EFORMAT, "%s: tensor \"%s\" %s is missing; does %s belong to it%s",
                   t->source->name, name, what, t->config,
                   *fv_reader_elsewhere(&hint, t, name) ? hint.text : "?");
}

fovea_status fv_reader_fail_names(const fv_tensor_reader *t, const char *what, const char *first)
{
    fv_reader_hint hint;
    return fv_fail(
        FOVEA_EFORMAT,
        "%s contains none of the tensor names of %s (\"%s\"); is \"model_type\" in %s correct%s",
        t->source->name, what, first, t->config,
        *fv_reader_elsewhere(&hint, t, first) ? hint.text : "?");
}

bool fv_reader_lists(const fv_tensor_reader *t, const char *prefix, const char *stem,
                     const char *part)
{
    char name[FV_READER_NAME];
    compose(name, t, prefix, stem, part);
    return fv_source_lists(t->source, name);
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
    /* The model owns the checkpoint, which is constant only for readers. */
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
    return fv_fail(FOVEA_EFORMAT, "%s: %s is %u; it must be from 1 to %u", t->source->name, what, n,
                   most);
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

fovea_status fv_reader_dimension(uint32_t *out, const fv_tensor_reader *t, const char *prefix,
                                 const char *stem, const char *part, uint32_t i, const char *what,
                                 uint32_t most)
{
    char name[FV_READER_NAME];
    const fv_tensor *tensor = fv_reader_find(t, prefix, stem, part);
    compose(name, t, prefix, stem ? stem : "", part);
    *out = fv_tensor_dimension(tensor, i);
    if (!tensor)
        return fv_reader_missing(t, name, what);
    if (*out > 0 && *out <= most)
        return FOVEA_OK;
    return fv_fail(FOVEA_EFORMAT, "%s: tensor \"%s\" gives a %s of %u; it must be from 1 to %u",
                   t->source->name, tensor->name, what, *out, most);
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
                       "%s: tensor \"%s\" has type %s; if the model was quantised, \"fovea convert "
                       "%s OUT\" converts it to float32, else save the tensor as F32, F16 or BF16",
                       t->source->name, name, fv_file_types[tensor->dtype].name, t->source->name);
    t->source->mark[fv_source_place(t->source, tensor)] = FV_MARK_READ;
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

uint32_t fv_reader_count(const fv_tensor_reader *t, const char *prefix, const char *format,
                         uint32_t most)
{
    uint32_t n = 0;
    char stem[64];
    for (; n <= most; n++) {
        snprintf(stem, sizeof stem, format, n);
        if (!fv_reader_find(t, prefix, stem, "weight"))
            break;
    }
    return n;
}

fovea_status fv_config_activation(uint32_t *out, const fv_config *c, const char *key,
                                  const char *usual)
{
    const char *name = usual;
    FV_TRY(fv_config_text(&name, c, key));
    *out = strcmp(name, "relu") == 0   ? FV_EPI_RELU
           : strcmp(name, "silu") == 0 ? FV_EPI_SILU
           : strcmp(name, "gelu") == 0 ? FV_EPI_GELU
                                       : 0;
    return *out ? FOVEA_OK
                : fv_fail(FOVEA_ENOTSUP,
                          "%s: \"%s\" is \"%.40s\"; only relu, silu and gelu are supported",
                          c->file, key, name);
}

fovea_status fv_reader_stacked(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                               const char *const stems[], const uint32_t rows[], uint32_t n,
                               uint32_t cols)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        at += rows[i];
    l->w = (fv_weight){.rows = at, .cols = cols};
    l->b = (fv_weight){.rows = 1, .cols = at};
    at = 0;
    for (uint32_t i = 0; i < n; i++) {
        FV_TRY(fv_reader_part(&l->w, t, prefix, stems[i], "weight",
                              (fv_weight_part){.row0 = at, .rows = rows[i], .cols = cols}));
        FV_TRY(fv_reader_part(&l->b, t, prefix, stems[i], "bias",
                              (fv_weight_part){.rows = 1, .col0 = at, .cols = rows[i]}));
        at += rows[i];
    }
    return FOVEA_OK;
}

void fv_layer_cut(fv_layer *l, const fv_tensor *weight, const fv_tensor *bias, uint32_t cols,
                  uint32_t from, uint32_t rows)
{
    l->w = (fv_weight){.rows = rows, .cols = cols};
    fv_weight_add(
        &l->w, (fv_weight_part){
                   .tensor = weight, .offset = (uint64_t)from * cols, .rows = rows, .cols = cols});
    if (!bias)
        return;
    l->b = (fv_weight){.rows = 1, .cols = rows};
    fv_weight_add(&l->b, (fv_weight_part){.tensor = bias, .offset = from, .rows = 1, .cols = rows});
}

fovea_status fv_reader_conv(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t rows, uint32_t channels, uint32_t size)
{
    const uint32_t taps = size * size, cols = taps * channels;
    const uint64_t shape[4] = {rows, channels, size, size};
    const fv_tensor *weight = NULL; /* for compilers that do not recognise that it is always set */
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

/* Marks the unmarked tensors under `prefix` whose next word contains `part`. */
static void mark(fv_tensor_reader *t, const char *prefix, const char *part, enum fv_mark mark)
{
    char whole[FV_READER_NAME];
    compose(whole, t, prefix, "", "");
    const size_t before = strlen(whole);
    for (uint32_t i = 0; i < t->source->count; i++) {
        const char *name = t->source->by_name[i]->plain;
        const char *at = fv_begins_with(name, whole) ? strstr(name + before, part) : NULL;
        if (at && (size_t)(at - name) < before + strcspn(name + before, ".") &&
            t->source->mark[i] == FV_MARK_NONE)
            t->source->mark[i] = mark;
    }
}

void fv_reader_ignore(fv_tensor_reader *t, const char *prefix, const char *part)
{
    mark(t, prefix, part, FV_MARK_NEEDLESS);
}

void fv_reader_leave(fv_tensor_reader *t, const char *prefix, const char *part)
{
    mark(t, prefix, part, FV_MARK_LEFT);
}

fovea_status fv_reader_all_used(const fv_tensor_reader *t, const char *prefix)
{
    char whole[FV_READER_NAME];
    compose(whole, t, prefix, "", "");
    /* opens the tensors' shards, to know their types */
    for (uint32_t i = 0; i < t->source->count; i++)
        if (fv_begins_with(t->source->by_name[i]->plain, whole))
            fv_source_find(t->source, t->source->by_name[i]->plain);
    FV_TRY(fv_source_failed(t->source));
    for (uint32_t i = 0; i < t->source->count; i++) {
        const fv_tensor *tensor = t->source->by_name[i];
        if (fv_begins_with(tensor->plain, whole) && fv_file_types[tensor->dtype].floating &&
            tensor->elements > 0 && t->source->mark[i] == FV_MARK_NONE)
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: tensor \"%.160s\" is not used by a %s: remove it if the model does "
                           "not need it; otherwise this variant is not supported",
                           t->source->name, tensor->name, t->m->info.type);
    }
    return FOVEA_OK;
}
