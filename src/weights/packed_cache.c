/* packed_cache.c: writes packed weights to files, and maps them. */
#include "weights/packed_cache.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/num.h"
#include "checkpoint/safetensors.h"
#include "platform/os/os.h"

/* in bytes. Smaller weights are not written to files, because packing them is faster than opening a
 * file. */
#define SMALLEST (64u << 10)
/* in bytes. If a folder holds more, its oldest files are removed before others are added. */
#define FOLDER_MOST (UINT64_C(4) << 30)
#define HEADER 4096
#define EQUALISED_MOST 20 /* maximum number of weights in the key of channel exponents */
#define NAME_DIGITS 16
#define SUFFIX ".weight"

/* The last character changes whenever the layout of the files changes. */
static const char magic[8] = {'F', 'O', 'V', 'E', 'A', 'W', 'T', '1'};

struct header {
    char magic[8];
    uint64_t checksum; /* checksum of the packed weight */
    uint64_t size;     /* size of the packed weight in bytes */
    fv_packed_key key;
};
_Static_assert(sizeof(struct header) <= HEADER, "the header does not overlap the weight");

struct fv_packed_cache {
    char *folder;
    uint64_t library; /* hash of the library's file: other builds may pack differently */
    bool prepared;    /* whether prepare() has been called */
    bool writable;
    struct {
        uint32_t mapped, written, damaged;
    } counts;
};

fovea_status fv_packed_cache_open(fv_packed_cache **out, const char *folder)
{
    char library[4096];
    fv_packed_cache *c;
    *out = NULL;
    if (!folder || !*folder)
        return FOVEA_OK;
    FV_TRY(FV_MEM_NEW(&c, FV_MEM_MODEL, "the cache of packed weights"));
    fv_os_library_of(magic, library, sizeof library);
    c->library = fv_hash(FV_HASH_BEGIN, library, strlen(library));
    FV_RETURN_MADE(out, c, fv_packed_cache_close, fv_mem_text(&c->folder, folder, FV_MEM_MODEL));
}

void fv_packed_cache_close(fv_packed_cache *c)
{
    if (!c)
        return;
    if (c->counts.mapped || c->counts.written)
        fv_log("cache: %" PRIu32 " packed weights are mapped; this process wrote %" PRIu32
               " of them and replaced %" PRIu32 " damaged files",
               c->counts.mapped, c->counts.written, c->counts.damaged);
    fv_mem_free(c->folder);
    fv_mem_free(c);
}

/* ---- keys ---- */

static void put(fv_packed_key *k, uint64_t number)
{
    assert(k->count < sizeof k->number / sizeof *k->number);
    k->number[k->count++] = number;
}

static void put_float(fv_packed_key *k, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(k, bits);
}

static void put_text(fv_packed_key *k, const char *text)
{
    put(k, fv_hash(FV_HASH_BEGIN, text, strlen(text)));
}

/* Adds the numbers that identify a tensor's values. */
static void put_tensor(fv_packed_key *k, const fv_tensor *t)
{
    const uint64_t bytes = t->elements * fv_file_types[t->dtype].bytes;
    uint64_t id[FV_OS_IDENTITY];
    enum { GENERATED, OF_FILE, OF_MEMORY };
    put(k, t->dtype);
    put(k, t->elements);
    put(k, t->rank ? t->shape[t->rank - 1] : 0);
    if (!t->data) {
        put(k, GENERATED);
        put(k, t->seed);
        put_float(k, t->mean);
        put_float(k, t->spread);
        put(k, t->identity);
    } else if (t->file && fv_os_identity(t->file->map, id)) {
        put(k, OF_FILE);
        for (int i = 0; i < FV_OS_IDENTITY; i++)
            put(k, id[i]);
        put(k, (uint64_t)((const char *)t->data - (const char *)t->file->data));
    } else {
        put(k, OF_MEMORY);
        put(k, fv_checksum(t->data, bytes));
    }
}

static void put_scales(fv_packed_key *k, const float *factor, uint32_t n)
{
    put(k, factor ? fv_checksum(factor, n * sizeof *factor) : 0);
}

static void put_part(fv_packed_key *k, const fv_weight_part *p)
{
    put_tensor(k, p->tensor);
    put(k, p->offset);
    put(k, p->row0);
    put(k, p->rows);
    put(k, p->col0);
    put(k, p->cols);
    put(k, p->row_stride);
    put(k, p->col_stride);
    put_float(k, p->factor);
    put(k, p->sum);
    put(k, p->taps);
    put(k, p->channel_stride);
    put(k, p->mirrored);
    put(k, p->stride);
    put_scales(k, p->row_scale, p->rows);
    put(k, p->paired_rows);
    put(k, p->paired_cols);
    put(k, p->repeats);
    put(k, p->repeated);
    put(k, p->diagonal);
}

static void put_weight(fv_packed_key *k, const fv_weight *w)
{
    put(k, w->rows);
    put(k, w->cols);
    put(k, fv_weight_type(w));
    put(k, w->parts);
    for (uint32_t i = 0; i < w->parts; i++)
        put_part(k, &w->part[i]);
    put(k, w->mix != NULL);
    if (w->mix)
        put_tensor(k, w->mix);
    put_scales(k, w->row_factor, w->rows);
    put_scales(k, w->col_factor, w->cols);
}

bool fv_packed_key_make(fv_packed_key *k, const fv_packed_cache *c, const fv_packed *p)
{
    *k = (fv_packed_key){0};
    if (!c || p->size < SMALLEST)
        return false;
    put(k, c->library);
    put_text(k, p->format);
    put(k, p->pairs);
    put(k, p->size);
    for (int i = 0; i < FV_KNOBS; i++)
        put(k, p->knobs.v[i]);
    put_weight(k, &p->weight);
    return true;
}

/* Adds a weight as one number, a hash, because a key has too few numbers for all fields of several
 * weights. */
static void put_sum(fv_packed_key *k, const fv_weight *w)
{
    fv_packed_key own = {0};
    put_weight(&own, w);
    put(k, fv_hash(FV_HASH_BEGIN, own.number, own.count * sizeof *own.number));
}

bool fv_packed_key_equalised(fv_packed_key *k, const fv_packed_cache *c, const fv_equal_sources *s)
{
    *k = (fv_packed_key){0};
    if (!c || s->n > EQUALISED_MOST)
        return false;
    put(k, c->library);
    put_text(k, "equalised");
    put(k, s->channels);
    put(k, s->period);
    put(k, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        const fv_equal_source *x = &s->of[i];
        const fv_weight *const weight[] = {&x->w, &x->b, &x->scale, &x->in_w, &x->in_b};
        put(k, x->role);
        put(k, x->row);
        put(k, x->gates);
        for (size_t j = 0; j < sizeof weight / sizeof *weight; j++)
            put_sum(k, weight[j]);
    }
    return true;
}

/* ---- files ---- */

bool fv_packed_file_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == NAME_DIGITS &&
           fv_begins_with(name + NAME_DIGITS, SUFFIX);
}

static fovea_status path_of(char **out, const fv_packed_cache *c, const fv_packed_key *k)
{
    const size_t bytes = strlen(c->folder) + 1 + NAME_DIGITS + sizeof SUFFIX;
    FV_TRY(fv_mem_alloc(out, bytes, FV_MEM_MODEL, "file name"));
    snprintf(*out, bytes, "%s/%016" PRIx64 SUFFIX, c->folder,
             fv_hash(FV_HASH_BEGIN, k->number, k->count * sizeof *k->number));
    return FOVEA_OK;
}

/* Returns whether a file is complete and undamaged, and contains the packed weight of that key. */
static bool is_sound(const void *file, uint64_t size, const fv_packed_key *k, uint64_t packed)
{
    struct header h;
    if (size != HEADER + packed)
        return false;
    memcpy(&h, file, sizeof h);
    return memcmp(h.magic, magic, sizeof magic) == 0 && h.size == packed &&
           memcmp(&h.key, k, sizeof *k) == 0 &&
           h.checksum == fv_checksum((const char *)file + HEADER, packed);
}

/* Maps the file if it exists and is undamaged. */
static bool map_file(fv_packed_cache *c, const char *path, const fv_packed_key *k, fv_packed *p)
{
    const void *file;
    uint64_t size;
    void *map;
    if (fv_os_look(path) == FV_OS_NOTHING ||
        fv_os_trusted_map(path, &file, &size, &map) != FOVEA_OK)
        return false;
    if (!is_sound(file, size, k, p->size)) {
        fv_os_unmap(map);
        c->counts.damaged++;
        return false;
    }
    p->data = (char *)(uintptr_t)file + HEADER;
    p->map = map;
    c->counts.mapped++;
    return true;
}

bool fv_packed_cache_find(fv_packed_cache *c, const fv_packed_key *k, fv_packed *p)
{
    char *path;
    if (path_of(&path, c, k) != FOVEA_OK)
        return false;
    const bool found = map_file(c, path, k, p);
    fv_mem_free(path);
    return found;
}

/* Makes the folder and removes old files from it, before the first file is written. */
static void prepare(fv_packed_cache *c)
{
    if (c->prepared)
        return;
    c->prepared = true;
    c->writable = fv_os_private_folder(c->folder) == FOVEA_OK;
    if (c->writable)
        fv_os_trim_folder(c->folder, FOLDER_MOST, fv_packed_file_name);
    else
        fv_log("packed weights are not cached, so they are packed in every process: %s",
               fovea_error());
}

static fovea_status write_file(const char *path, const fv_packed_key *k, const fv_packed *p)
{
    fv_os_replace *file;
    char *page;
    struct header h = {.checksum = fv_checksum(p->data, p->size), .size = p->size, .key = *k};
    memcpy(h.magic, magic, sizeof magic);
    FV_TRY(fv_mem_alloc(&page, HEADER, FV_MEM_MODEL, "a file's header"));
    memcpy(page, &h, sizeof h);
    fovea_status status = fv_os_replace_begin(&file, path, true);
    if (status == FOVEA_OK) {
        status = fv_os_replace_write(file, page, HEADER);
        FV_THEN(status, fv_os_replace_write(file, p->data, p->size));
        status = fv_os_replace_end_soon(file, status);
    }
    fv_mem_free(page);
    return status;
}

bool fv_packed_cache_store(fv_packed_cache *c, const fv_packed_key *k, const fv_packed *p)
{
    char *path;
    prepare(c);
    if (!c->writable || path_of(&path, c, k) != FOVEA_OK)
        return false;
    c->writable = write_file(path, k, p) == FOVEA_OK;
    if (c->writable)
        c->counts.written++;
    else
        fv_log("packed weights are not cached, so they are packed in every process: %s",
               fovea_error());
    fv_mem_free(path);
    return c->writable;
}
