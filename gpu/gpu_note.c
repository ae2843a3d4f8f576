/* gpu_note.c: notes about programs that a driver's compiler did not come back from. */
#include "gpu/gpu_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os.h"

#define SUFFIX ".note"
#define DAY 86400.
enum { TRIES = 2, MOST = 1 << 16 /* bytes of a note */ };

/* A note is an entry of the cache with these numbers in place of a binary, and with a hash in place
 * of the program's texts in its key. */
struct content {
    uint64_t tries; /* compilations that did not come back */
    double limit;   /* seconds after which the last one was given up; 0: the process ended */
};

struct fv_gpu_note {
    fv_os_note *file;
    fv_gpu_key key;
    struct content content;
};

/* ---- files ---- */

bool fv_gpu_note_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == FV_GPU_NAME_DIGITS &&
           strcmp(name + FV_GPU_NAME_DIGITS, SUFFIX) == 0;
}

bool fv_gpu_note_is_left(const char *path)
{
    fv_os_note *file = NULL;
    if (fv_os_note_open(&file, path) != FOVEA_OK || !file)
        return false;
    fv_os_note_close(file, false);
    return true;
}

static fovea_status path_of(char **out, const fv_gpu_cache *c, const fv_gpu_key *k)
{
    const char *folder = fv_gpu_cache_place(c);
    const size_t length = strlen(folder) + FV_GPU_NAME_DIGITS + sizeof "/" SUFFIX;
    FV_TRY(fv_mem_alloc(out, length, FV_MEM_DEVICE, "a file name"));
    snprintf(*out, length, "%s/%016" PRIx64 SUFFIX, folder, fv_gpu_key_hash(k));
    return FOVEA_OK;
}

/* The note's key: the identity of the device, the options and the name of the program, and the hash
 * of the program's own key. */
static fovea_status make_key(fv_gpu_key *out, const fv_gpu_key *k)
{
    char digits[FV_GPU_NAME_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, fv_gpu_key_hash(k));
    const char *const part[] = {fv_gpu_key_text(k, 0), fv_gpu_key_text(k, 1), digits,
                                fv_gpu_key_last(k)};
    return fv_gpu_key_make(out, part, 4);
}

/* Reads what was left behind. A file that was cut short was left before anything was compiled. */
static fovea_status read_content(fv_gpu_note *n, double *age)
{
    fv_gpu_key key;
    fv_gpu_binary data;
    char *bytes;
    FV_TRY(fv_mem_alloc(&bytes, MOST, FV_MEM_DEVICE, "a note"));
    const size_t size = fv_os_note_read(n->file, bytes, MOST, age);
    if (size && fv_gpu_entry_read(bytes, size, &key, &data) == size &&
        data.size == sizeof n->content && key.size == n->key.size &&
        memcmp(key.text, n->key.text, (size_t)key.size) == 0)
        memcpy(&n->content, data.data, sizeof n->content);
    fv_mem_free(bytes);
    return FOVEA_OK;
}

static fovea_status write_content(fv_gpu_note *n)
{
    const uint64_t size = fv_gpu_entry_size(&n->key, sizeof n->content);
    char *bytes;
    FV_TRY(fv_mem_alloc(&bytes, size, FV_MEM_DEVICE, "a note"));
    fv_gpu_entry_write(bytes, &n->key, &n->content, sizeof n->content);
    const fovea_status status = fv_os_note_write(n->file, bytes, (size_t)size);
    fv_mem_free(bytes);
    return status;
}

/* ---- a list of notes ---- */

struct list {
    const char *identity;
    char *text;
    size_t size;
};

/* Adds a name that the list does not have. */
static void add_name(struct list *l, const char *name)
{
    const size_t used = strlen(l->text), length = strlen(name);
    for (const char *at = l->text; (at = strstr(at, name)); at += length)
        if ((at == l->text || at[-1] == ' ') && (at[length] == 0 || at[length] == ','))
            return;
    if (used + length + 3 <= l->size)
        snprintf(l->text + used, l->size - used, "%s%s", used ? ", " : "", name);
}

static fovea_status list_note(void *ctx, const char *path)
{
    struct list *l = ctx;
    void *bytes;
    uint64_t size;
    fv_gpu_key key;
    fv_gpu_binary data;
    if (!fv_gpu_note_name(fv_os_file_name(path)) ||
        fv_os_private_read(path, MOST, &bytes, &size) != FOVEA_OK)
        return FOVEA_OK;
    if (fv_gpu_entry_read(bytes, size, &key, &data) == size &&
        strcmp(fv_gpu_key_text(&key, 0), l->identity) == 0 && fv_gpu_note_is_left(path))
        add_name(l, fv_gpu_key_last(&key));
    fv_mem_free(bytes);
    return FOVEA_OK;
}

void fv_gpu_notes_list(const fv_gpu_cache *c, const char *identity, char *out, size_t size)
{
    struct list l = {identity, out, size};
    *out = 0;
    if (fv_gpu_cache_place(c))
        (void)fv_os_each_file(fv_gpu_cache_place(c), list_note, &l);
}

/* ---- what a note means ---- */

static void explain(const struct content *c, char out[FV_GPU_NOTE_TEXT])
{
    static const char retry[] = "`fovea cache retry` lets it be tried again";
    if (c->limit > 0)
        snprintf(out, FV_GPU_NOTE_TEXT,
                 "the driver's compiler did not finish it within %g s; a longer "
                 "FOVEA_COMPILE_SECONDS or %s",
                 c->limit, retry);
    else if (c->tries < TRIES)
        snprintf(out, FV_GPU_NOTE_TEXT,
                 "a process ended while the driver compiled it; it is tried again after a day, and "
                 "%s now",
                 retry);
    else
        snprintf(out, FV_GPU_NOTE_TEXT,
                 "%" PRIu64 " processes ended while the driver compiled it; %s", c->tries, retry);
}

void fv_gpu_note_text(const fv_gpu_binary *data, char out[FV_GPU_NOTE_TEXT])
{
    struct content c = {0};
    if (data->size == sizeof c)
        memcpy(&c, data->data, sizeof c);
    explain(&c, out);
}

static fovea_status check(const struct content *c, double age, const char *name, double limit)
{
    char why[FV_GPU_NOTE_TEXT];
    const bool again = c->limit > 0 ? limit > c->limit : c->tries < TRIES && age > DAY;
    if (!c->tries || again)
        return FOVEA_OK;
    explain(c, why);
    return fv_fail(FOVEA_ETIMEOUT, "%s is not compiled: %s", name, why);
}

/* ---- the life of a note ---- */

static void release(fv_gpu_note *n, bool remove_file)
{
    fv_os_note_close(n->file, remove_file);
    fv_gpu_key_free(&n->key);
    fv_mem_free(n);
}

static fovea_status open_file(fv_gpu_note *n, const fv_gpu_cache *c, const fv_gpu_key *k)
{
    char *path;
    FV_TRY(make_key(&n->key, k));
    FV_TRY(path_of(&path, c, k));
    const fovea_status status = fv_os_note_open(&n->file, path);
    fv_mem_free(path);
    return status;
}

static fovea_status begin(fv_gpu_note *n, const char *name, double limit)
{
    double age = 0;
    FV_TRY(read_content(n, &age));
    FV_TRY(check(&n->content, age, name, limit));
    n->content.tries++;
    n->content.limit = 0;
    return write_content(n);
}

fovea_status fv_gpu_note_begin(fv_gpu_note **out, const fv_gpu_cache *c, const fv_gpu_key *k,
                               const char *name, double limit)
{
    fv_gpu_note *n;
    *out = NULL;
    if (!fv_gpu_cache_place(c))
        return FOVEA_OK;
    FV_TRY(FV_MEM_NEW(&n, FV_MEM_DEVICE, "a note"));
    fovea_status status = open_file(n, c, k);
    const bool locked = status == FOVEA_OK && n->file;
    if (locked)
        status = begin(n, name, limit);
    if (locked && status == FOVEA_OK) {
        *out = n;
        return FOVEA_OK;
    }
    /* A note that could not be written must not be taken for one that was left behind. */
    release(n, status == FOVEA_EIO);
    return status == FOVEA_EIO ? FOVEA_OK : status;
}

void fv_gpu_note_give_up(fv_gpu_note *n, double limit)
{
    if (!n)
        return;
    n->content.limit = limit;
    if (write_content(n) != FOVEA_OK)
        fv_log("cache: %s", fovea_error());
    fv_os_note_unlock(n->file);
}

void fv_gpu_note_end(fv_gpu_note *n)
{
    if (n)
        release(n, true);
}
