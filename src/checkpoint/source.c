/* source.c: opens single and sharded checkpoints, and finds their tensors by name. */
#include "checkpoint/source.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "checkpoint/config.h"
#include "checkpoint/wrappers.h"

#define INDEX_LIMIT 100000000
#define SHARDS 4096

static int by_name(const void *a, const void *b)
{
    const fv_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->plain, (*y)->plain);
}

static int name_to_tensor(const void *name, const void *t)
{
    return strcmp(name, (*(const fv_tensor *const *)t)->plain);
}

static const fv_tensor *const *find(const fv_source *s, const char *name)
{
    return s->count ? bsearch(name, s->by_name, s->count, sizeof *s->by_name, name_to_tensor)
                    : NULL;
}

uint32_t fv_source_place(const fv_source *s, const fv_tensor *tensor)
{
    return (uint32_t)(find(s, tensor->plain) - s->by_name);
}

/* ---- plain names ---- */

static fovea_status name_plainly(fv_tensor *t)
{
    char *plain;
    FV_TRY(fv_wrappers_strip(&plain, t->name));
    t->plain = plain ? plain : t->name;
    return FOVEA_OK;
}

/* Sets the tensor's plain name to its name in the file. */
static void name_fully(fv_tensor *t)
{
    if (t->plain != t->name)
        fv_mem_free((char *)(uintptr_t)t->plain);
    t->plain = t->name;
}

static fovea_status name_all_plainly(fv_tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        FV_TRY(name_plainly(&tensors[i]));
    return FOVEA_OK;
}

static void name_all_fully(fv_tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; tensors && i < n; i++)
        name_fully(&tensors[i]);
}

/* Returns the suffix of a name, from its beginning or from the character after one of its dots,
 * that equals `letters` without its dots; or NULL if there is no such suffix. */
static const char *end_without_points(const char *name, const char *letters)
{
    for (const char *begin = name; begin;
         begin = strchr(begin, '.') ? strchr(begin, '.') + 1 : NULL) {
        const char *at = begin, *l = letters;
        for (; *at && (*at == '.' || *at == *l); at++)
            l += *at != '.';
        if (!*at && !*l)
            return begin;
    }
    return NULL;
}

/* Renames averaged weights. Some programs store them as buffers, whose names cannot contain dots
 * ("model_ema.blocks0norm1weight" of LitEma). Such a tensor gets the name of the tensor whose
 * average it is. */
static fovea_status name_averages(fv_source *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        fv_tensor *t = (fv_tensor *)(uintptr_t)s->by_name[i];
        const char *last = strrchr(t->plain, '.'), *end = NULL;
        const size_t before = last ? (size_t)(last + 1 - t->plain) : 0;
        if (fv_wrappers_keep(t->plain, before) != FV_KEPT_AVERAGE)
            continue;
        for (uint32_t k = 0; k < s->count && !end; k++)
            end = k != i ? end_without_points(s->by_name[k]->plain, last + 1) : NULL;
        if (!end || strcmp(end, last + 1) == 0)
            continue;
        char *plain;
        const size_t size = before + strlen(end) + 1;
        FV_TRY(fv_mem_alloc(&plain, size, FV_MEM_MODEL, "name of a tensor"));
        snprintf(plain, size, "%.*s%s", (int)before, t->plain, end);
        name_fully(t);
        t->plain = plain;
    }
    return FOVEA_OK;
}

/* Sorts the index. If two tensors have the same plain name, because a module was saved with and
 * without its wrapper, both keep their names in the file. */
static void sort(fv_source *s)
{
    for (bool again = s->count > 0; again;) {
        qsort(s->by_name, s->count, sizeof *s->by_name, by_name);
        again = false;
        for (uint32_t i = 1; i < s->count; i++) {
            fv_tensor *a = (fv_tensor *)(uintptr_t)s->by_name[i - 1];
            fv_tensor *b = (fv_tensor *)(uintptr_t)s->by_name[i];
            if (strcmp(a->plain, b->plain) != 0)
                continue;
            again = again || a->plain != a->name || b->plain != b->name;
            name_fully(a);
            name_fully(b);
        }
    }
}

fovea_status fv_source_index(fv_source *s)
{
    uint64_t count = s->made;
    for (uint32_t i = 0; i < s->files; i++)
        count += s->file[i]->count;
    FV_TRY(FV_MEM_ARRAY(&s->by_name, count, FV_MEM_MODEL, "index of tensors"));
    FV_TRY(FV_MEM_ARRAY(&s->mark, count, FV_MEM_MODEL, "index of tensors"));
    for (uint32_t i = 0; i < s->made; i++)
        s->by_name[s->count++] = &s->tensor[i];
    for (uint32_t i = 0; i < s->files; i++)
        for (uint32_t k = 0; k < s->file[i]->count; k++)
            s->by_name[s->count++] = &s->file[i]->tensor[k];
    FV_TRY(name_averages(s));
    sort(s);
    for (uint32_t i = 1; i < s->count; i++)
        if (strcmp(s->by_name[i - 1]->name, s->by_name[i]->name) == 0)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: tensor \"%.80s\" is in two files; remove one of them", s->name,
                           s->by_name[i]->name);
    return FOVEA_OK;
}

static fovea_status new_source(fv_source **out, const char *name, uint32_t files)
{
    fv_source *s;
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_MODEL, "checkpoint"));
    fovea_status status = fv_mem_text(&s->name, name, FV_MEM_MODEL);
    if (files)
        FV_THEN(status, FV_MEM_ARRAY(&s->file, files, FV_MEM_MODEL, "list of files"));
    FV_RETURN_MADE(out, s, fv_source_close, status);
}

static fovea_status add_file(fv_source *s, fv_blob *bytes)
{
    FV_TRY(fv_safetensors_read(&s->file[s->files], bytes));
    s->bytes += s->file[s->files]->bytes.size;
    s->files++;
    return name_all_plainly(s->file[s->files - 1]->tensor, s->file[s->files - 1]->count);
}

fovea_status fv_source_open_file(fv_source **out, fv_blob *bytes)
{
    fv_source *s = NULL;
    fovea_status status = new_source(&s, bytes->path, 1);
    FV_THEN(status, add_file(s, bytes));
    FV_THEN(status, fv_source_index(s));
    fv_blob_close(bytes);
    FV_RETURN_MADE(out, s, fv_source_close, status);
}

/* Collects the names of the shards as keys of an object, each with its number. They must be plain
 * file names, because an index must not name files outside its folder. */
static fovea_status collect_shards(json_t *shards, json_t *map, const char *path)
{
    const char *tensor;
    json_t *file;
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || !*name || strchr(name, '/') || strchr(name, '\\') || strcmp(name, "..") == 0)
            return fv_fail(FOVEA_EFORMAT, "%s: \"weight_map\" must name files in the same folder",
                           path);
        const json_int_t number = (json_int_t)json_object_size(shards);
        if (!json_object_get(shards, name) &&
            json_object_set_new(shards, name, json_integer(number)) != 0)
            return fv_fail(FOVEA_ENOMEM, "%s: not enough memory for the list of files", path);
    }
    if (json_object_size(shards) > SHARDS)
        return fv_fail(FOVEA_EFORMAT, "%s lists %zu files; at most %d are accepted", path,
                       json_object_size(shards), SHARDS);
    return FOVEA_OK;
}

/* Lists the tensors of the index, sorted by name. */
static fovea_status list(fv_source *s, json_t *shards)
{
    const char *name;
    json_t *file;
    const size_t count = json_object_size(s->map);
    FV_TRY(FV_MEM_ARRAY(&s->listed, count, FV_MEM_MODEL, "index of tensors"));
    FV_TRY(FV_MEM_ARRAY(&s->by_name, count, FV_MEM_MODEL, "index of tensors"));
    FV_TRY(FV_MEM_ARRAY(&s->mark, count, FV_MEM_MODEL, "index of tensors"));
    json_object_foreach(s->map, name, file) {
        const json_t *shard = json_object_get(shards, json_string_value(file));
        s->listed[s->count] =
            (fv_tensor){.name = name, .shard = 1 + (uint32_t)json_integer_value(shard)};
        s->listed[s->count].plain = name; /* until name_all_plainly() sets it */
        s->by_name[s->count] = &s->listed[s->count];
        s->count++;
    }
    FV_TRY(name_all_plainly(s->listed, s->count));
    FV_TRY(name_averages(s));
    sort(s);
    return FOVEA_OK;
}

static fovea_status open_map(fv_source **out, json_t *map, const fv_store *store, const char *path)
{
    json_t *shards = json_object();
    fv_source *s = NULL;
    fovea_status status = collect_shards(shards, map, path);
    FV_THEN(status, new_source(&s, path, (uint32_t)json_object_size(shards)));
    if (status == FOVEA_OK) {
        s->map = json_incref(map);
        s->store = store;
    }
    FV_THEN(status, list(s, shards));
    json_decref(shards);
    FV_RETURN_MADE(out, s, fv_source_close, status);
}

fovea_status fv_source_open_index(fv_source **out, const fv_store *store, const fv_blob *index)
{
    json_t *json;
    fv_config map;
    FV_TRY(fv_config_load(&json, index, INDEX_LIMIT));
    const fv_config whole = {index->path, "", json};
    fovea_status status = fv_config_section(&map, &whole, "weight_map");
    if (status == FOVEA_OK && !map.object)
        status = fv_config_fail(&whole, "weight_map", "an object with the file of each tensor");
    FV_THEN(status, open_map(out, map.object, store, index->path));
    json_decref(json);
    return status;
}

fovea_status fv_source_make(fv_source **out, const char *name, uint32_t limit)
{
    fv_source *s;
    FV_TRY(new_source(&s, name, 0));
    s->made_limit = limit;
    FV_RETURN_MADE(out, s, fv_source_close,
                   FV_MEM_ARRAY(&s->tensor, limit, FV_MEM_MODEL, "list of tensors"));
}

static fv_tensor made_of(const char *name, uint32_t rank, const uint64_t *shape, float mean,
                         float spread)
{
    fv_tensor t = {.name = name,
                   .plain = name,
                   .dtype = FV_FILE_F32,
                   .rank = (uint8_t)rank,
                   .elements = 1,
                   /* so the values depend only on the name */
                   .seed = fv_hash(FV_HASH_BEGIN, name, strlen(name)),
                   .mean = mean,
                   .spread = spread};
    for (uint32_t i = 0; i < rank; i++) {
        t.shape[i] = shape[i];
        t.elements *= shape[i];
    }
    return t;
}

fovea_status fv_source_add(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread)
{
    assert(s->made < s->made_limit);
    char *text;
    FV_TRY(fv_mem_text(&text, name, FV_MEM_MODEL));
    s->tensor[s->made++] = made_of(text, rank, shape, mean, spread);
    return FOVEA_OK;
}

/* Grows the index and its marks by one entry. */
static fovea_status widen(fv_source *s)
{
    static const char what[] = "index of tensors";
    uint32_t capacity;
    FV_TRY(fv_mem_grow(&s->by_name, s->count, &capacity, s->count + 1, sizeof *s->by_name,
                       FV_MEM_MODEL, what));
    return fv_mem_grow(&s->mark, s->count, &capacity, s->count + 1, sizeof *s->mark, FV_MEM_MODEL,
                       what);
}

/* Adds a tensor whose name is new to the index. */
static fovea_status insert(fv_source *s, const fv_tensor *t)
{
    FV_TRY(widen(s));
    uint32_t at = s->count++;
    for (; at > 0 && strcmp(s->by_name[at - 1]->plain, t->plain) > 0; at--) {
        s->by_name[at] = s->by_name[at - 1];
        s->mark[at] = s->mark[at - 1];
    }
    s->by_name[at] = t;
    s->mark[at] = 0;
    return FOVEA_OK;
}

/* ---- opening shards on demand ---- */

/* Returns the index entry of the tensor that has the same name in its file as t, whatever its plain
 * name is; or NULL. */
static const fv_tensor **find_named(const fv_source *s, const fv_tensor *t)
{
    const char *const names[] = {t->plain, t->name};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const fv_tensor *const *found = find(s, names[i]);
        if (found && strcmp((*found)->name, t->name) == 0)
            return &s->by_name[found - s->by_name];
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->by_name[i]->name, t->name) == 0)
            return &s->by_name[i];
    return NULL;
}

/* Replaces an entry of the index by the shard's tensor, which gets the plain name of the entry. */
static void replace(const fv_tensor **entry, fv_tensor *t)
{
    fv_tensor *listed = (fv_tensor *)(uintptr_t)*entry;
    name_fully(t);
    if (listed->plain != listed->name)
        t->plain = listed->plain;
    listed->plain = listed->name;
    *entry = t;
}

/* Replaces the index entry of every tensor of a shard, and adds tensors that the index does not
 * list. */
static fovea_status join_shard(fv_source *s, const fv_safetensors *file, uint32_t shard)
{
    for (uint32_t i = 0; i < file->count; i++) {
        fv_tensor *t = &file->tensor[i];
        const fv_tensor **found = find_named(s, t);
        if (!found && find(s, t->plain))
            name_fully(t); /* another tensor has this plain name */
        if (!found)
            FV_TRY(insert(s, t));
        else if ((*found)->shard == shard)
            replace(found, t);
        else
            return fv_fail(
                FOVEA_EFORMAT,
                "%s: tensor \"%.80s\" is listed in %.80s, but is in %s; fetch the files again",
                s->name, t->name, json_string_value(json_object_get(s->map, t->name)),
                file->bytes.path);
    }
    return FOVEA_OK;
}

static fovea_status open_shard(fv_source *s, const fv_tensor *listed)
{
    fv_blob bytes;
    const uint32_t shard = listed->shard;
    const char *name = json_string_value(json_object_get(s->map, listed->name));
    FV_TRY(fv_store_need(s->store, &bytes, name));
    fovea_status status = add_file(s, &bytes);
    FV_THEN(status, join_shard(s, s->file[s->files - 1], shard));
    for (uint32_t i = 0; i < s->count && status == FOVEA_OK; i++)
        if (s->by_name[i]->shard == shard)
            status = fv_fail(FOVEA_EFORMAT,
                             "%s: tensor \"%.80s\" is not in %.80s; fetch the files again", s->name,
                             s->by_name[i]->name, name);
    return status;
}

const fv_tensor *fv_source_find(const fv_source *s, const char *name)
{
    const fv_tensor *const *found = find(s, name);
    if (!found || !(*found)->shard)
        return found ? *found : NULL;
    if (s->failed != FOVEA_OK)
        return NULL;
    fv_source *own = (fv_source *)(uintptr_t)s; /* opening files does not change tensors */
    own->failed = open_shard(own, *found);
    if (own->failed != FOVEA_OK) {
        snprintf(own->failure, sizeof own->failure, "%s", fovea_error());
        return NULL;
    }
    return *find(s, name);
}

bool fv_source_lists(const fv_source *s, const char *name)
{
    return find(s, name) != NULL;
}

fovea_status fv_source_failed(const fv_source *s)
{
    return s->failed == FOVEA_OK ? FOVEA_OK : fv_fail(s->failed, "%s", s->failure);
}

fovea_status fv_source_open_all(fv_source *s)
{
    for (uint32_t i = 0; s->map && i < json_object_size(s->map); i++)
        fv_source_find(s, s->listed[i].plain);
    return fv_source_failed(s);
}

/* ---- a part of a checkpoint ---- */

static bool any_begins_with(const fv_source *s, const char *prefix)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (fv_begins_with(s->by_name[i]->plain, prefix))
            return true;
    return false;
}

fovea_status fv_source_behind(fv_source *s, const char *prefix)
{
    const size_t n = strlen(prefix);
    char *plain;
    if (n + 1 >= sizeof s->prefix)
        return fv_fail(FOVEA_EINVAL, "%s: the prefix has %zu characters; at most %zu are accepted",
                       s->name, n, sizeof s->prefix - 2);
    snprintf(s->prefix, sizeof s->prefix, "%s%s", prefix, n && prefix[n - 1] != '.' ? "." : "");
    FV_TRY(fv_wrappers_strip(&plain, s->prefix));
    if (plain)
        snprintf(s->prefix, sizeof s->prefix, "%s", plain);
    fv_mem_free(plain);
    if (!any_begins_with(s, s->prefix))
        return fv_fail(FOVEA_EFORMAT,
                       "%s: no tensor's name begins with \"%s\"; another tensor is \"%.80s\"",
                       s->name, s->prefix, s->count ? s->by_name[s->count / 2]->name : "");
    return FOVEA_OK;
}

/* ---- other names ---- */

fovea_status fv_source_rename(fv_source *s, const char *from, const char *to)
{
    FV_TRY(fv_source_open_all(s)); /* names of tensors whose shard is not open are in the index */
    for (uint32_t i = 0; i < s->count; i++) {
        fv_tensor *t = (fv_tensor *)(uintptr_t)s->by_name[i];
        if (!fv_begins_with(t->plain, from))
            continue;
        char *plain;
        const char *rest = t->plain + strlen(from);
        const size_t size = strlen(to) + strlen(rest) + 1;
        FV_TRY(fv_mem_alloc(&plain, size, FV_MEM_MODEL, "name of a tensor"));
        snprintf(plain, size, "%s%s", to, rest);
        name_fully(t);
        t->plain = plain;
    }
    sort(s);
    s->renamed = true;
    return FOVEA_OK;
}

/* ---- tensors in memory, added to an index ---- */

static fovea_status new_put(fv_tensor **out, fv_source *s, const char *name)
{
    struct fv_put *p;
    char *text;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_MODEL, "a new tensor"));
    p->next = s->put;
    s->put = p;
    FV_TRY(fv_mem_text(&text, name, FV_MEM_MODEL));
    p->tensor.name = p->tensor.plain = text;
    *out = &p->tensor;
    return insert(s, &p->tensor);
}

fovea_status fv_source_put(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread, uint64_t seed)
{
    fv_tensor *t = (fv_tensor *)(uintptr_t)fv_source_find(s, name);
    if (!t)
        FV_TRY(new_put(&t, s, name));
    const char *plain = t->plain;
    *t = made_of(t->name, rank, shape, mean, spread);
    t->plain = plain;
    t->seed ^= seed * 0x9e3779b97f4a7c15u;
    return FOVEA_OK;
}

#define SAMPLES 4        /* number of sampled places in a tensor */
#define SAMPLE_VALUES 16 /* consecutive values at each place */

static uint64_t hash_tensor(uint64_t h, const fv_tensor *t)
{
    const uint64_t n = t->elements < SAMPLE_VALUES ? t->elements : SAMPLE_VALUES;
    h = fv_hash(h, t->name, strlen(t->name) + 1);
    h = fv_hash(h, &t->dtype, sizeof t->dtype);
    h = fv_hash(h, t->shape, t->rank * sizeof *t->shape);
    for (uint64_t i = 0; i < SAMPLES && fv_file_types[t->dtype].floating; i++) {
        float value[SAMPLE_VALUES];
        fv_tensor_read(t, (t->elements - n) / SAMPLES * i, n, value);
        h = fv_hash(h, value, n * sizeof *value);
    }
    return h;
}

uint64_t fv_source_fingerprint(const fv_source *s)
{
    uint64_t h = FV_HASH_BEGIN;
    for (uint32_t i = 0; i < s->count; i++)
        h = hash_tensor(h, s->by_name[i]);
    return h;
}

fovea_status fv_source_unchanged(const fv_source *s)
{
    for (uint32_t i = 0; s && i < s->files; i++)
        FV_TRY(fv_safetensors_unchanged(s->file[i]));
    return FOVEA_OK;
}

void fv_source_close(fv_source *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->files; i++) {
        name_all_fully(s->file[i]->tensor, s->file[i]->count);
        fv_safetensors_close(s->file[i]);
    }
    name_all_fully(s->listed, (uint32_t)json_object_size(s->map));
    name_all_fully(s->tensor, s->made);
    for (uint32_t i = 0; i < s->made; i++)
        fv_mem_free((char *)(uintptr_t)s->tensor[i].name);
    while (s->put) {
        struct fv_put *p = s->put;
        s->put = p->next;
        fv_mem_free((char *)(uintptr_t)p->tensor.name);
        fv_mem_free(p);
    }
    json_decref(s->map);
    fv_mem_free(s->listed);
    fv_mem_free(s->tensor);
    fv_mem_free(s->by_name);
    fv_mem_free(s->mark);
    fv_mem_free(s->file);
    fv_mem_free(s->name);
    fv_mem_free(s);
}
