/* gpu_cache.c: keeps binaries of compiled programs on disk. */
#include "gpu/gpu_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os.h"

#define ENTRY_MOST (64ull << 20)
#define FOLDER_MOST (256ull << 20)

/* A new layout of entries must change the last character. */
static const char magic[8] = {'F', 'O', 'V', 'E', 'A', 'C', 'L', '1'};

struct header {
    char magic[8];
    uint64_t key_size, binary_size;
    uint64_t checksum; /* of the sizes, the key and the binary */
};

struct fv_gpu_cache {
    char *folder; /* NULL: nothing on disk */
    bool writable;
    struct {
        /* Programs that were found; that were compiled; entries that were not trusted. */
        uint32_t hits, built, refused;
    } counts;
};

/* FNV-1a: a change of a single byte always changes it. It guards against accidents, not attackers:
 * the folder's permissions keep those out. */
static uint64_t hash(uint64_t h, const void *data, uint64_t size)
{
    const unsigned char *p = data;
    for (uint64_t i = 0; i < size; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}
static const uint64_t hash_begin = UINT64_C(0xcbf29ce484222325);

static uint64_t checksum(const struct header *h, const void *key, const void *binary)
{
    uint64_t sum = hash(hash_begin, &h->key_size, sizeof h->key_size);
    sum = hash(sum, &h->binary_size, sizeof h->binary_size);
    sum = hash(sum, key, h->key_size);
    return hash(sum, binary, h->binary_size);
}

/* ---- keys ---- */

fovea_status fv_gpu_key_make(fv_gpu_key *out, const char *const *part, uint32_t count)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += strlen(part[i]) + 1; /* the terminating 0 separates texts */
    char *p;
    FV_TRY(fv_mem_alloc(&p, size, FV_MEM_DEVICE, "a program's key"));
    *out = (fv_gpu_key){p, size};
    for (uint32_t i = 0; i < count; i++) {
        const size_t n = strlen(part[i]) + 1;
        memcpy(p, part[i], n);
        p += n;
    }
    return FOVEA_OK;
}

void fv_gpu_key_free(fv_gpu_key *k)
{
    fv_mem_free(k->text);
    *k = (fv_gpu_key){0};
}

const char *fv_gpu_key_text(const fv_gpu_key *k, uint32_t index)
{
    const char *at = k->text, *end = k->text + k->size;
    while (index-- && at < end)
        at += strlen(at) + 1;
    return at < end ? at : "";
}

const char *fv_gpu_key_last(const fv_gpu_key *k)
{
    const char *last = k->text;
    for (const char *at = k->text; at < k->text + k->size; at += strlen(at) + 1)
        last = at;
    return last;
}

uint64_t fv_gpu_key_hash(const fv_gpu_key *k)
{
    return hash(hash_begin, k->text, k->size);
}

/* ---- entries ---- */

uint64_t fv_gpu_entry_size(const fv_gpu_key *k, uint64_t binary_size)
{
    return fv_size_add(sizeof(struct header), fv_size_add(k->size, binary_size));
}

void fv_gpu_entry_write(void *out, const fv_gpu_key *k, const void *data, uint64_t size)
{
    struct header h = {.key_size = k->size, .binary_size = size};
    memcpy(h.magic, magic, sizeof magic);
    h.checksum = checksum(&h, k->text, data);
    char *p = out;
    memcpy(p, &h, sizeof h);
    memcpy(p + sizeof h, k->text, (size_t)k->size);
    memcpy(p + sizeof h + k->size, data, (size_t)size);
}

/* Returns the size in bytes of the entry that `data` begins with; 0 if the entry is damaged. */
static uint64_t entry_check(const char *data, uint64_t size, struct header *h)
{
    if (size < sizeof *h)
        return 0;
    memcpy(h, data, sizeof *h);
    const uint64_t left = size - sizeof *h;
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->key_size > left ||
        h->binary_size > left - h->key_size || h->binary_size == 0)
        return 0;
    const char *key = data + sizeof *h;
    if (checksum(h, key, key + h->key_size) != h->checksum)
        return 0;
    /* The key's texts are read up to their terminating zeros. */
    if (h->key_size == 0 || key[h->key_size - 1])
        return 0;
    return sizeof *h + h->key_size + h->binary_size;
}

uint64_t fv_gpu_entry_read(const void *data, uint64_t size, fv_gpu_key *key, fv_gpu_binary *binary)
{
    struct header h;
    const uint64_t all = entry_check(data, size, &h);
    if (all == 0)
        return 0;
    char *at = (char *)(uintptr_t)data + sizeof h;
    *key = (fv_gpu_key){at, h.key_size};
    *binary = (fv_gpu_binary){at + h.key_size, h.binary_size, NULL};
    return all;
}

static bool has_key(const char *entry, const struct header *h, const fv_gpu_key *k)
{
    return h->key_size == k->size && memcmp(entry + sizeof *h, k->text, (size_t)k->size) == 0;
}

/* ---- the folder ---- */

/* Whether a file name is that of an entry, <hash of the key>.bin, or of a temporary file for
 * one. */
bool fv_gpu_entry_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == FV_GPU_NAME_DIGITS &&
           strncmp(name + FV_GPU_NAME_DIGITS, ".bin", 4) == 0;
}

static fovea_status entry_path(const fv_gpu_cache *c, const fv_gpu_key *k, char **out)
{
    const size_t length = strlen(c->folder) + FV_GPU_NAME_DIGITS + sizeof "/.bin";
    FV_TRY(fv_mem_alloc(out, length, FV_MEM_DEVICE, "a file name"));
    snprintf(*out, length, "%s/%016" PRIx64 ".bin", c->folder, fv_gpu_key_hash(k));
    return FOVEA_OK;
}

static fovea_status default_folder(char **out)
{
    const char *base = getenv("XDG_CACHE_HOME"), *below = "/fovea/kernels";
    if (!base || base[0] != '/') { /* XDG's rule: relative paths are ignored */
        base = getenv("HOME");
        below = "/.cache/fovea/kernels";
    }
    if (!base || base[0] != '/')
        return fv_fail(FOVEA_EIO,
                       "neither XDG_CACHE_HOME nor HOME is set; set one, or give a cache folder");
    const size_t length = strlen(base) + strlen(below) + 1;
    FV_TRY(fv_mem_alloc(out, length, FV_MEM_DEVICE, "a file name"));
    snprintf(*out, length, "%s%s", base, below);
    return FOVEA_OK;
}

fovea_status fv_gpu_cache_folder(char **out, const char *folder)
{
    return folder ? fv_mem_text(out, folder, FV_MEM_DEVICE) : default_folder(out);
}

static fovea_status choose_folder(fv_gpu_cache *c, const char *folder)
{
    FV_TRY(fv_gpu_cache_folder(&c->folder, folder));
    return fv_os_private_folder(c->folder);
}

fovea_status fv_gpu_cache_open(fv_gpu_cache **out, const char *folder)
{
    fv_gpu_cache *c;
    FV_TRY(FV_MEM_NEW(&c, FV_MEM_DEVICE, "the program cache"));
    *out = c;
    if (folder && !*folder)
        return FOVEA_OK;
    c->writable = true;
    if (choose_folder(c, folder) != FOVEA_OK) {
        fv_log("cache: programs are compiled in every process: %s", fovea_error());
        fv_mem_free(c->folder);
        c->folder = NULL;
    }
    return FOVEA_OK;
}

void fv_gpu_cache_close(fv_gpu_cache *c)
{
    if (!c)
        return;
    if (c->counts.hits || c->counts.built)
        fv_log("cache: %u hits, %u built, %u refused", c->counts.hits, c->counts.built,
               c->counts.refused);
    fv_mem_free(c->folder);
    fv_mem_free(c);
}

const char *fv_gpu_cache_place(const fv_gpu_cache *c)
{
    return c->folder;
}

/* ---- finding ---- */

static void doubt(fv_gpu_cache *c, const char *name, const char *why)
{
    c->counts.refused++;
    fv_log("cache: refused %s: %s", name, why);
}

bool fv_gpu_cache_find(fv_gpu_cache *c, const fv_gpu_key *k, const char *name, fv_gpu_binary *out)
{
    char *path;
    if (!c->folder || entry_path(c, k, &path) != FOVEA_OK)
        return false;
    void *data = NULL;
    uint64_t size = 0;
    const bool there = fv_os_look(path) != FV_OS_NOTHING;
    const fovea_status status = fv_os_private_read(path, ENTRY_MOST, &data, &size);
    fv_mem_free(path);
    if (status != FOVEA_OK) {
        if (there)
            doubt(c, name, fovea_error());
        return false;
    }
    struct header h;
    if (entry_check(data, size, &h) != size)
        doubt(c, name, "its file is damaged");
    else if (!has_key(data, &h, k))
        doubt(c, name, "its file belongs to another program");
    else {
        *out = (fv_gpu_binary){(char *)data + sizeof h + h.key_size, h.binary_size, data};
        return true;
    }
    fv_mem_free(data);
    return false;
}

void fv_gpu_binary_free(fv_gpu_binary *b)
{
    fv_mem_free(b->owner);
    *b = (fv_gpu_binary){0};
}

void fv_gpu_cache_hit(fv_gpu_cache *c, const char *name)
{
    c->counts.hits++;
    fv_log("cache: hit %s", name);
}

void fv_gpu_cache_refused(fv_gpu_cache *c, const char *name)
{
    doubt(c, name, "the driver rejects it");
}

/* ---- storing ---- */

static fovea_status write_entry(const char *path, const fv_gpu_key *k, const void *data,
                                uint64_t size)
{
    void *entry;
    FV_TRY(fv_mem_alloc(&entry, fv_gpu_entry_size(k, size), FV_MEM_DEVICE, "a cache entry"));
    fv_gpu_entry_write(entry, k, data, size);
    const fovea_status status = fv_os_replace_file(path, true, entry, fv_gpu_entry_size(k, size));
    fv_mem_free(entry);
    return status;
}

fovea_status fv_gpu_cache_store(fv_gpu_cache *c, const fv_gpu_key *k, const char *name,
                                const void *data, uint64_t size)
{
    char *path = NULL;
    if (!c->folder || !c->writable || size == 0)
        return FOVEA_OK;
    if (fv_gpu_entry_size(k, size) > ENTRY_MOST) {
        fv_log("cache: %s is not stored, because it has %" PRIu64 " bytes", name, size);
        return FOVEA_OK;
    }
    fovea_status status = entry_path(c, k, &path);
    FV_THEN(status, write_entry(path, k, data, size));
    fv_mem_free(path);
    if (status == FOVEA_OK) {
        fv_os_trim_folder(c->folder, FOLDER_MOST, fv_gpu_entry_name);
    } else {
        fv_log("cache: no more programs are stored: %s", fovea_error());
        c->writable = false;
    }
    return status;
}

void fv_gpu_cache_built(fv_gpu_cache *c, const char *name, double seconds)
{
    c->counts.built++;
    fv_log("cache: built %s in %.0f ms", name, seconds * 1e3);
}

/* ---- packed entries ---- */

fovea_status fv_gpu_entries_check(const void *data, uint64_t size)
{
    struct header h;
    if (size >= sizeof magic && memcmp(data, magic, sizeof magic - 1) == 0 &&
        memcmp(data, magic, sizeof magic) != 0) {
        fv_log("cache: kernel binaries of another version of the library are ignored");
        return FOVEA_OK;
    }
    for (uint64_t at = 0, n; at < size; at += n) {
        n = entry_check((const char *)data + at, size - at, &h);
        if (n == 0)
            return fv_fail(
                FOVEA_EFORMAT,
                "kernel binaries: the entry at byte %" PRIu64 " is damaged; export them again", at);
    }
    return FOVEA_OK;
}
