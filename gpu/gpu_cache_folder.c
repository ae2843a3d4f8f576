/* gpu_cache_folder.c: the public functions that list, clear, pack and unpack the whole folder of
 * compiled kernels. A folder that does not exist counts as empty. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/devices.h>

#include "base/mem.h"
#include "gpu/gpu_note.h"
#include "platform/os/os.h"

#define FILE_MOST (64ull << 20)

/* ---- what an entry is ---- */

/* Copies line `index` of a text, cut to `size`. */
static void copy_line(char *out, size_t size, const char *text, uint32_t index)
{
    while (index-- && strchr(text, '\n'))
        text = strchr(text, '\n') + 1;
    snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Finds the names of an entry's device, which is the fourth line of the device's identity, and of
 * its program, which is the key's last text. */
static void describe_entry(const fv_gpu_key *k, char device[128], char program[64])
{
    copy_line(device, 128, fv_gpu_key_text(k, 0), 3);
    copy_line(program, 64, fv_gpu_key_last(k), 0);
}

/* ---- the folder ---- */

static const char *chosen(const char *folder)
{
    return folder ? folder : getenv("FOVEA_CACHE");
}

fovea_status fovea_cache_folder(char *out, size_t capacity)
{
    char *path;
    FV_TRY(fv_gpu_cache_folder(&path, chosen(NULL)));
    const bool fits = strlen(path) < capacity;
    if (fits)
        strcpy(out, path);
    fv_mem_free(path);
    return fits ? FOVEA_OK
                : fv_fail(FOVEA_EINVAL,
                          "the cache's path needs more than the buffer's %zu bytes; pass a larger "
                          "buffer",
                          capacity);
}

/* Calls `visit` for every file in the folder. */
static fovea_status each_entry(const char *folder,
                               fovea_status (*visit)(void *ctx, const char *path), void *ctx)
{
    char *path;
    if (folder && !*folder)
        return FOVEA_OK;
    FV_TRY(fv_gpu_cache_folder(&path, folder));
    fovea_status status = FOVEA_OK;
    if (fv_os_look(path) != FV_OS_NOTHING) {
        status = fv_os_private_folder(path);
        FV_THEN(status, fv_os_each_file(path, visit, ctx));
    }
    fv_mem_free(path);
    return status;
}

struct listing {
    fovea_cache_fn *fn;
    void *payload;
    bool ended;
};

static fovea_status list_file(void *ctx, const char *path)
{
    struct listing *l = ctx;
    fovea_cache_entry e = {.struct_size = sizeof e,
                           .file = path,
                           .device = "",
                           .program = "",
                           .problem = "",
                           .skipped = ""};
    const bool note = fv_gpu_note_name(fv_os_file_name(path));
    char device[128], program[64], why[FV_GPU_NOTE_TEXT];
    void *data = NULL;
    fv_gpu_key key;
    fv_gpu_binary binary;
    if (l->ended || (!note && !fv_gpu_entry_name(fv_os_file_name(path))))
        return FOVEA_OK;
    const bool read = fv_os_private_read(path, FILE_MOST, &data, &e.size) == FOVEA_OK;
    const bool sound = read && fv_gpu_entry_read(data, e.size, &key, &binary) == e.size;
    if (sound) {
        describe_entry(&key, device, program);
        e.device = device;
        e.program = program;
    } else {
        e.problem = read ? "damaged, or from another version of the library" : fovea_error();
    }
    if (sound && note) {
        fv_gpu_note_text(&binary, why);
        e.skipped = why;
    }
    /* A note that is not sound forbids nothing. Neither does one whose process is compiling. */
    if (!note || (sound && fv_gpu_note_is_left(path)))
        l->ended = l->fn(&e, l->payload) != 0;
    fv_mem_free(data);
    return FOVEA_OK;
}

fovea_status fovea_cache_list(const char *folder, fovea_cache_fn *fn, void *payload)
{
    struct listing l = {fn, payload, false};
    return each_entry(chosen(folder), list_file, &l);
}

/* ---- emptying ---- */

struct count {
    bool (*ours)(const char *name);
    size_t files;
};

static fovea_status count_file(void *ctx, const char *path)
{
    struct count *c = ctx;
    c->files += c->ours(fv_os_file_name(path));
    return FOVEA_OK;
}

/* Removes the files whose name `ours` accepts. *removed: how many. */
static fovea_status remove_files(const char *folder, bool (*ours)(const char *name),
                                 const char *what, size_t *removed)
{
    struct count before = {ours, 0}, after = {ours, 0};
    char *path;
    folder = chosen(folder);
    FV_TRY(each_entry(folder, count_file, &before));
    if (before.files) {
        FV_TRY(fv_gpu_cache_folder(&path, folder));
        fv_os_trim_folder(path, 0, ours);
        fv_mem_free(path);
        FV_TRY(each_entry(folder, count_file, &after));
    }
    *removed = before.files - after.files;
    return after.files ? fv_fail(FOVEA_EIO,
                                 "%zu %s could not be removed; check the permissions of the cache "
                                 "folder",
                                 after.files, what)
                       : FOVEA_OK;
}

fovea_status fovea_cache_retry(const char *folder, size_t *removed)
{
    return remove_files(folder, fv_gpu_note_name, "notes about kernels", removed);
}

fovea_status fovea_cache_clear(const char *folder, size_t *removed)
{
    size_t notes;
    const fovea_status status =
        remove_files(folder, fv_gpu_entry_name, "compiled kernels", removed);
    FV_TRY(fovea_cache_retry(folder, &notes));
    return status;
}

/* ---- packing ---- */

struct pack {
    char *data; /* NULL: only counted */
    uint64_t capacity, used;
};

static fovea_status pack_file(void *ctx, const char *path)
{
    struct pack *p = ctx;
    void *data;
    uint64_t size;
    fv_gpu_key key;
    fv_gpu_binary binary;
    if (!fv_gpu_entry_name(fv_os_file_name(path)) ||
        fv_os_private_read(path, FILE_MOST, &data, &size) != FOVEA_OK)
        return FOVEA_OK;
    fovea_status status = FOVEA_OK;
    if (fv_gpu_entry_read(data, size, &key, &binary) == size) {
        if (p->data && size > p->capacity - p->used)
            status = fv_fail(FOVEA_EINVAL,
                             "the compiled kernels need more than the buffer's %llu bytes; ask for "
                             "the size with data NULL",
                             (unsigned long long)p->capacity);
        else if (p->data)
            memcpy(p->data + p->used, data, (size_t)size);
        p->used += size;
    }
    fv_mem_free(data);
    return status;
}

fovea_status fovea_cache_pack(const char *folder, void *data, size_t capacity, size_t *size)
{
    struct pack p = {data, capacity, 0};
    FV_TRY(each_entry(chosen(folder), pack_file, &p));
    *size = (size_t)p.used;
    return FOVEA_OK;
}

/* Fails if the folder cannot be used. A device works without a cache folder, but a caller who
 * unpacks into one must get an error. */
static fovea_status check_folder(const char *folder)
{
    char *path;
    FV_TRY(fv_gpu_cache_folder(&path, folder));
    const fovea_status status = fv_os_private_folder(path);
    fv_mem_free(path);
    return status;
}

fovea_status fovea_cache_unpack(const char *folder, const void *data, size_t size, size_t *added)
{
    fv_gpu_cache *c;
    fv_gpu_key key;
    fv_gpu_binary binary;
    folder = chosen(folder);
    const bool kept = !folder || *folder;
    *added = 0;
    if (kept && size > 0)
        FV_TRY(check_folder(folder));
    FV_TRY(fv_gpu_entries_check(data, size));
    FV_TRY(fv_gpu_cache_open(&c, folder));
    fovea_status status = FOVEA_OK;
    for (uint64_t at = 0, n; kept && status == FOVEA_OK && at < size; at += n) {
        n = fv_gpu_entry_read((const char *)data + at, size - at, &key, &binary);
        if (n == 0) /* of another version: passed over */
            break;
        status = fv_gpu_cache_store(c, &key, "imported", binary.data, binary.size);
        *added += status == FOVEA_OK;
    }
    fv_gpu_cache_close(c);
    return status;
}
