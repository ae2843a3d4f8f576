/* store.c: the kinds of stores: a folder; a list of files in memory or with descriptors; callbacks.
 */
#include "checkpoint/store.h"

#include <stdio.h>
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "platform/os/os.h"

struct fv_store {
    char *name;     /* name in messages */
    char *lead;     /* prefix of file names: the path of the folder, with its slash, or "" */
    bool is_folder; /* otherwise the files are those of `source` */
    fovea_model_source source; /* n_files is the length of `file` */
    fovea_model_file *file;    /* a copy, with descriptors duplicated */
};

/* ---- bytes ---- */

fovea_status fv_blob_map(fv_blob *blob, const char *path)
{
    fv_blob b = {0};
    FV_TRY(fv_mem_text(&b.path, path, FV_MEM_MODEL));
    const fovea_status status = fv_os_map(path, &b.data, &b.size, &b.map);
    if (status == FOVEA_OK)
        *blob = b;
    else
        fv_mem_free(b.path);
    return status;
}

fovea_status fv_blob_of(fv_blob *blob, const char *path, const void *data, uint64_t size)
{
    *blob = (fv_blob){.data = data ? data : "", .size = size};
    return fv_mem_text(&blob->path, path, FV_MEM_MODEL);
}

void fv_blob_close(fv_blob *b)
{
    if (b->store)
        b->store->source.release(b->store->source.user, b->data, b->size);
    fv_os_unmap(b->map);
    fv_mem_free(b->path);
    *b = (fv_blob){0};
}

/* ---- opening and closing stores ---- */

void fv_store_close(fv_store *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->file && i < s->source.n_files; i++)
        if (!s->file[i].data)
            fv_os_close(s->file[i].descriptor);
    for (size_t i = 0; s->file && i < s->source.n_files; i++)
        fv_mem_free((char *)(uintptr_t)s->file[i].name);
    fv_mem_free(s->file);
    fv_mem_free(s->lead);
    fv_mem_free(s->name);
    fv_mem_free(s);
}

/* Sets the store's name, and the prefix of file names: the name and `slash`. */
static fovea_status call(fv_store *s, const char *name, const char *slash)
{
    const size_t bytes = strlen(name) + strlen(slash) + 1;
    FV_TRY(fv_mem_text(&s->name, name, FV_MEM_MODEL));
    FV_TRY(fv_mem_alloc(&s->lead, bytes, FV_MEM_MODEL, "file name"));
    snprintf(s->lead, bytes, "%s%s", name, slash);
    return FOVEA_OK;
}

fovea_status fv_store_folder(fv_store **out, const char *folder)
{
    fv_store *s;
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_MODEL, "checkpoint"));
    s->is_folder = true;
    FV_RETURN_MADE(out, s, fv_store_close, call(s, folder, "/"));
}

fovea_status fv_store_folder_of(fv_store **out, const char *path)
{
    fv_store *s;
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_MODEL, "checkpoint"));
    s->is_folder = true;
    const fovea_status status = call(s, path, "");
    if (status == FOVEA_OK) {
        char *slash = strrchr(s->lead, '/');
        *(slash ? slash + 1 : s->lead) = 0;
    }
    FV_RETURN_MADE(out, s, fv_store_close, status);
}

/* Refuses a file without a name, and an impossible size: one larger than the address space, or with
 * an end beyond 64 bits. */
static fovea_status check_file(const fv_store *s, const fovea_model_file *f, size_t index)
{
    if (!f->name || !*f->name)
        return fv_fail(FOVEA_EINVAL, "%s: file %zu has no name; set its `name`", s->name, index);
    if (f->data ? f->size > SIZE_MAX / 2 : fv_size_add(f->offset, f->size) == UINT64_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "%s/%.80s: a size of %llu bytes is not possible; correct its `size`",
                       s->name, f->name, (unsigned long long)f->size);
    return FOVEA_OK;
}

static fovea_status copy_file(fv_store *s, fovea_model_file *to, const fovea_model_file *f,
                              size_t index)
{
    char *name;
    to->data = ""; /* nothing to close yet */
    FV_TRY(check_file(s, f, index));
    FV_TRY(fv_mem_text(&name, f->name, FV_MEM_MODEL));
    to->name = name;
    fovea_model_file copy = *f;
    copy.name = name;
    if (!f->data)
        FV_TRY(fv_os_duplicate(&copy.descriptor, f->descriptor, name));
    *to = copy;
    return FOVEA_OK;
}

static fovea_status copy_source(fv_store *s)
{
    const fovea_model_file *files = s->source.files;
    const size_t count = s->source.n_files;
    FV_TRY(call(s, s->source.name ? s->source.name : "memory", "/"));
    if ((count && !files) || (!count && !s->source.open))
        return fv_fail(FOVEA_EINVAL, "%s has no files; set `files` and `n_files`, or `open`",
                       s->name);
    FV_TRY(FV_MEM_ARRAY(&s->file, count, FV_MEM_MODEL, "list of files"));
    s->source.n_files = 0;
    for (size_t i = 0; i < count; i++) {
        s->source.n_files++;
        FV_TRY(copy_file(s, &s->file[i], &files[i], i));
    }
    return FOVEA_OK;
}

fovea_status fv_store_source(fv_store **out, const fovea_model_source *source)
{
    fv_store *s;
    fovea_model_source own = FOVEA_MODEL_SOURCE_INIT;
    FV_TRY(fv_require(source, "the source of the model"));
    FV_TRY(FV_ABI_READ(own, source, FOVEA_MODEL_SOURCE_INIT));
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_MODEL, "checkpoint"));
    s->source = own;
    FV_RETURN_MADE(out, s, fv_store_close, copy_source(s));
}

const char *fv_store_path(const fv_store *s)
{
    return s->is_folder ? s->name : NULL;
}

const char *fv_store_name(const fv_store *s)
{
    return s->name;
}

/* ---- opening ---- */

static fovea_status open_called(const fv_store *s, fv_blob *b, const char *name)
{
    const void *data = NULL;
    uint64_t size = 0;
    const int failed = s->source.open(s->source.user, name, &data, &size);
    if (failed)
        return fv_fail(FOVEA_EIO, "%s: the caller's `open` failed with %d", b->path, failed);
    if (!data)
        return FOVEA_OK;
    *b = (fv_blob){b->path, data, size, NULL, s->source.release ? s : NULL};
    return size <= SIZE_MAX / 2
               ? FOVEA_OK
               : fv_fail(FOVEA_EIO,
                         "%s: a size of %llu bytes is not possible; correct the caller's `open`",
                         b->path, (unsigned long long)size);
}

static fovea_status open_file(fv_blob *b, const fovea_model_file *f)
{
    if (f->data) {
        b->data = f->data;
        b->size = f->size;
        return FOVEA_OK;
    }
    return fv_os_map_part(f->descriptor, f->offset, f->size, b->path, &b->data, &b->size, &b->map);
}

static fovea_status open_bytes(const fv_store *s, fv_blob *b, const char *name)
{
    for (size_t i = 0; i < s->source.n_files; i++)
        if (strcmp(s->file[i].name, name) == 0)
            return open_file(b, &s->file[i]);
    if (s->is_folder && fv_os_look(b->path) != FV_OS_NOTHING)
        return fv_os_map(b->path, &b->data, &b->size, &b->map);
    return s->source.open ? open_called(s, b, name) : FOVEA_OK;
}

fovea_status fv_store_open(const fv_store *s, fv_blob *blob, const char *name)
{
    fv_blob b = {0};
    const size_t bytes = strlen(s->lead) + strlen(name) + 1;
    *blob = b;
    FV_TRY(fv_mem_alloc(&b.path, bytes, FV_MEM_MODEL, "file name"));
    snprintf(b.path, bytes, "%s%s", s->lead, name);
    const fovea_status status = open_bytes(s, &b, name);
    if (status != FOVEA_OK || !(b.data || b.map))
        fv_blob_close(&b);
    *blob = b;
    return status;
}

fovea_status fv_store_need(const fv_store *s, fv_blob *blob, const char *name)
{
    FV_TRY(fv_store_open(s, blob, name));
    return blob->path
               ? FOVEA_OK
               : fv_fail(
                     FOVEA_EIO,
                     "%s%s: no such file; it must be in the same folder as the model's other files",
                     s->lead, name);
}
