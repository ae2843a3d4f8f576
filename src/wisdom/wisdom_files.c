/* wisdom_files.c: the process's wisdom: reads and saves its files, and implements the public
 * functions. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "platform/os/os.h"
#include "wisdom/wisdom.h"

#define FILE_MOST (16u << 20)
#define SYSTEM_FILE "/etc/fovea/wisdom"
#define SHIPPED_FOLDER FV_DATADIR "/fovea/wisdom"

/* ---- reading ---- */

/* Parses `text` into a new store. */
static fovea_status parse(fv_wisdom **out, const char *text, uint64_t size, size_t *unknown)
{
    fv_wisdom *w = NULL;
    FV_TRY(fv_wisdom_create(&w));
    FV_RETURN_MADE(out, w, fv_wisdom_free, fv_wisdom_parse(w, text, size, unknown));
}

/* Parses a file into a new store. Error messages name the file. */
static fovea_status parse_file(fv_wisdom **out, const char *path, size_t *unknown)
{
    void *text;
    uint64_t size;
    FV_TRY(fv_os_read(path, FILE_MOST, &text, &size));
    fovea_status status = parse(out, text, size, unknown);
    fv_mem_free(text);
    if (status == FOVEA_EWISDOM) {
        char why[FV_MESSAGE];
        snprintf(why, sizeof why, "%s", fovea_error());
        status = fv_fail(status, "%s: %s", path, why);
    }
    return status;
}

struct selection {
    fv_wisdom *to;
    bool foreign;
};

static fovea_status select_known(void *ctx, const fv_fact *fact)
{
    const struct selection *s = ctx;
    fv_fact f = *fact;
    f.foreign = s->foreign;
    return f.known ? fv_wisdom_offer(s->to, &f) : FOVEA_OK;
}

/* Adds the facts of `from` that this build knows to `to`, or none of them if that fails. */
static fovea_status merge_known(fv_wisdom *to, fv_wisdom *from, bool foreign, size_t *taken)
{
    struct selection s = {.foreign = foreign};
    FV_TRY(fv_wisdom_create(&s.to));
    fovea_status status = fv_wisdom_each(from, select_known, &s);
    *taken = fv_wisdom_count(s.to);
    FV_THEN(status, fv_wisdom_merge(to, s.to, foreign));
    fv_wisdom_free(s.to);
    return status;
}

/* Merges `from`, the contents of `name`, and frees it. */
static fovea_status take(fv_wisdom *to, fv_wisdom *from, const char *name, bool foreign,
                         fovea_wisdom_info *out)
{
    const size_t unknown = out->skipped;
    const fovea_status status = merge_known(to, from, foreign, &out->taken);
    fv_wisdom_free(from);
    if (status == FOVEA_OK && unknown)
        fv_log("wisdom: %s: %zu line%s skipped, which use kernels, revisions or settings of "
               "another version",
               name, unknown, unknown > 1 ? "s" : "");
    return status;
}

static fovea_status load_file(fv_wisdom *to, const char *path, bool foreign, fovea_wisdom_info *out)
{
    fv_wisdom *w;
    FV_TRY(parse_file(&w, path, &out->skipped));
    return take(to, w, path, foreign, out);
}

/* ---- the process's store ---- */

/* Reads a file if possible. A file that cannot be read counts as missing; the log says why. */
static fovea_status try_file(const char *path, bool foreign)
{
    fovea_wisdom_info info;
    if (fv_os_look(path) != FV_OS_NOTHING &&
        load_file(fv_wisdom_process(), path, foreign, &info) != FOVEA_OK)
        fv_log("wisdom: %s", fovea_error());
    return FOVEA_OK;
}

static fovea_status try_shipped(void *ctx, const char *path)
{
    (void)ctx;
    return try_file(path, true);
}

static void read_files(void)
{
    char path[4096];
    if (fovea_wisdom_path(path, sizeof path) == FOVEA_OK) {
        if (!*path)
            return;
        try_file(path, false);
    }
    try_file(SYSTEM_FILE, true);
    if (fv_os_each_file(SHIPPED_FOLDER, try_shipped, NULL) != FOVEA_OK)
        fv_log("wisdom: %s", fovea_error());
}

fv_wisdom *fv_wisdom_global(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_files);
    return fv_wisdom_process();
}

fovea_status fovea_wisdom_path(char *out, size_t capacity)
{
    const char *base = getenv("FOVEA_WISDOM"), *below = "";
    if (!base) {
        base = getenv("XDG_CACHE_HOME");
        below = "/fovea/wisdom";
        if (!base || base[0] != '/') { /* according to XDG, relative paths are ignored */
            base = getenv("HOME");
            below = "/.cache/fovea/wisdom";
        }
        if (!base || base[0] != '/')
            return fv_fail(FOVEA_EIO, "neither XDG_CACHE_HOME nor HOME is set; set FOVEA_WISDOM");
    }
    if (strlen(base) + strlen(below) >= capacity)
        return fv_fail(FOVEA_EINVAL,
                       "wisdom: the path does not fit into %zu bytes; pass a larger buffer",
                       capacity);
    snprintf(out, capacity, "%s%s", base, below);
    return FOVEA_OK;
}

fovea_status fovea_wisdom_load(const char *path, fovea_wisdom_info *out)
{
    fovea_wisdom_info info;
    FV_TRY(FV_ABI_CHECK(out, FOVEA_WISDOM_INFO_INIT));
    FV_TRY(load_file(fv_wisdom_global(), path, false, &info));
    return FV_ABI_WRITE(out, info, FOVEA_WISDOM_INFO_INIT);
}

fovea_status fovea_wisdom_import(const char *text, size_t size, fovea_wisdom_info *out)
{
    fovea_wisdom_info info;
    fv_wisdom *w;
    FV_TRY(FV_ABI_CHECK(out, FOVEA_WISDOM_INFO_INIT));
    FV_TRY(parse(&w, text, size, &info.skipped));
    FV_TRY(take(fv_wisdom_global(), w, "the imported text", false, &info));
    return FV_ABI_WRITE(out, info, FOVEA_WISDOM_INFO_INIT);
}

fovea_status fovea_wisdom_export(char *text, size_t capacity, size_t *size)
{
    return fv_wisdom_format(fv_wisdom_global(), false, text, capacity, size);
}

void fovea_wisdom_forget(void)
{
    fv_wisdom_clear(fv_wisdom_global());
}

/* ---- saving ---- */

static fovea_status offer(void *to, const fv_fact *fact)
{
    return fact->foreign ? FOVEA_OK : fv_wisdom_offer(to, fact);
}

fovea_status fv_wisdom_write(const char *path, fv_wisdom *w, bool own, bool only_ours,
                             const char *what)
{
    size_t size;
    void *text;
    FV_TRY(fv_wisdom_format(w, own, NULL, 0, &size));
    FV_TRY(fv_mem_alloc(&text, size + 1, FV_MEM_WISDOM, what));
    fovea_status status = fv_wisdom_format(w, own, text, size + 1, &size);
    FV_THEN(status, fv_os_replace_file(path, only_ours, text, size));
    fv_mem_free(text);
    return status;
}

/* Creates the folder of the default file if it does not exist. */
static fovea_status make_folder(const char *path)
{
    char *folder;
    FV_TRY(fv_mem_text(&folder, path, FV_MEM_WISDOM));
    char *slash = strrchr(folder, '/');
    fovea_status status = FOVEA_OK;
    if (slash && slash != folder) {
        *slash = 0;
        if (fv_os_look(folder) != FV_OS_FOLDER)
            status = fv_os_private_folder(folder);
    }
    fv_mem_free(folder);
    return status;
}

/* Reads the existing file, adds the global store, and writes the result. */
static fovea_status merge_into(const char *path)
{
    size_t unknown;
    fv_wisdom *all = NULL;
    if (fv_os_look(path) == FV_OS_NOTHING)
        FV_TRY(fv_wisdom_create(&all));
    else
        FV_TRY(parse_file(&all, path, &unknown));
    fovea_status status = fv_wisdom_each(fv_wisdom_global(), offer, all);
    FV_THEN(status, fv_wisdom_write(path, all, true, false, "wisdom as text"));
    fv_wisdom_free(all);
    return status;
}

fovea_status fovea_wisdom_save(const char *path)
{
    char usual[4096];
    int lock;
    if (!path) {
        FV_TRY(fovea_wisdom_path(usual, sizeof usual));
        if (!*usual)
            return fv_fail(FOVEA_EINVAL, "FOVEA_WISDOM is empty; give a file to save wisdom to");
        FV_TRY(make_folder(usual));
        path = usual;
    }
    FV_TRY(fv_os_lock_folder(&lock, path)); /* two processes that save at the same time would
                                               lose facts */
    const fovea_status status = merge_into(path);
    fv_os_unlock_folder(lock);
    return status;
}
