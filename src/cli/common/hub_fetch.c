/* hub_fetch.c: downloads a model's files into the cache.
 *
 * A file is appended to blobs/ETAG.incomplete, which a later run continues. It is compared with its
 * checksum, and only then renamed to blobs/ETAG and linked into the snapshot. The branch is set to
 * the new commit when all files are there. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/common/cli.h"
#include "cli/common/hub.h"

#define USUAL_ENDPOINT "https://huggingface.co"
enum { TRIES = 5, MEGABYTE = 1000000 };

typedef struct fetch {
    const hub_model *model;
    hub_client *client;
    char *endpoint;
    char commit[HUB_COMMIT]; /* empty before the first answer */
    char *snapshot;          /* NULL before the first answer */
    cli_progress bar;
    const char *file; /* the file that is downloaded */
    int64_t size;
    double bytes; /* downloaded in all */
    size_t files;
} fetch;

static char *endpoint(void)
{
    const char *own = getenv("HF_ENDPOINT");
    if (!own || !*own)
        own = USUAL_ENDPOINT;
    size_t n = strlen(own);
    while (n > 0 && own[n - 1] == '/')
        n--;
    return cli_text("%.*s", (int)n, own);
}

static char *url_of(const fetch *f, const char *file)
{
    return cli_text("%s/%s/resolve/%s/%s", f->endpoint, f->model->name,
                    *f->commit ? f->commit : f->model->revision, file);
}

/* ---- folders and files ---- */

static int make_folders(const char *path)
{
    char *copy = cli_text("%s/", path);
    int code = CLI_OK;
    for (char *slash = strchr(copy + 1, '/'); slash && !code; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            code = cli_fail(CLI_INPUT, "%s: this folder cannot be made: %s", copy, strerror(errno));
        *slash = '/';
    }
    free(copy);
    return code;
}

static int make_folder_of(const char *path)
{
    char *folder = cli_text("%.*s", (int)(cli_file_name(path) - path), path);
    const int code = make_folders(folder);
    free(folder);
    return code;
}

/* Returns the size of a file, or -1 if there is none. */
static int64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

/* Links a file of the snapshot to its blob, as huggingface_hub does. File systems without links get
 * the file itself. */
static int link_file(const fetch *f, const char *file, const char *etag, const char *blob)
{
    char *path = cli_text("%s/%s", f->snapshot, file);
    char *up = cli_text("../../"), *target = NULL;
    for (const char *c = file; (c = strchr(c, '/')); c++) {
        char *more = cli_text("../%s", up);
        free(up);
        up = more;
    }
    target = cli_text("%sblobs/%s", up, etag);
    int code = make_folder_of(path);
    if (!code)
        unlink(path);
    if (!code && symlink(target, path) != 0 && errno != EEXIST && rename(blob, path) != 0)
        code = cli_fail(CLI_INPUT, "%s: cannot be linked to %s: %s", path, blob, strerror(errno));
    free(target);
    free(up);
    free(path);
    return code;
}

/* Waits until no other process downloads the same file, with huggingface_hub's lock. */
static int lock_file(int *out, const fetch *f, const char *etag)
{
    const char *folder = cli_file_name(f->model->folder);
    char *path = cli_text("%.*s.locks/%s/%s.lock", (int)(folder - f->model->folder),
                          f->model->folder, folder, etag);
    int code = make_folder_of(path);
    if (!code) {
        *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*out < 0)
            code = cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    }
    if (!code && flock(*out, LOCK_EX | LOCK_NB) != 0) {
        cli_tell("%s: another process downloads it; waiting", f->file);
        flock(*out, LOCK_EX);
    }
    free(path);
    return code;
}

/* ---- answers ---- */

static const char *said(const hub_answer *a, char status[32])
{
    snprintf(status, 32, "status %ld", a->status);
    return a->status == 0 ? a->problem : status;
}

/* Explains why a file cannot be had. */
static int refused(const fetch *f, const char *file, const hub_answer *a)
{
    const char *name = f->model->name, *revision = f->model->revision;
    char status[32];
    if (strcmp(a->error, "GatedRepo") == 0 || a->status == 403)
        return cli_fail(CLI_INPUT,
                        "%s: the hub asks for its terms to be accepted; accept them at %s/%s, and "
                        "set HF_TOKEN or run hf auth login",
                        name, f->endpoint, name);
    if (strcmp(a->error, "RevisionNotFound") == 0)
        return cli_fail(CLI_INPUT, "%s: the hub has no revision \"%s\" of this model", name,
                        revision);
    if (strcmp(a->error, "RepoNotFound") == 0 || a->status == 401 ||
        (a->status == 404 && strcmp(file, HUB_CONFIG) == 0 && !*a->error))
        return cli_fail(CLI_INPUT,
                        "%s: the hub has no such model, or it is private; check the name, or set "
                        "HF_TOKEN",
                        name);
    if (a->status == 404)
        return cli_fail(CLI_INPUT, "%s: the hub has no %s of this model", name, file);
    return cli_fail(CLI_INPUT, "%s of %s cannot be downloaded from %s: %s", file, name, f->endpoint,
                    said(a, status));
}

static bool may_pass(const hub_answer *a)
{
    return a->status == 0 || a->status == 429 || a->status >= 500;
}

static void wait_before(int try, const hub_answer *a)
{
    const double usual = 0.25 * (1 << try),
                 seconds = a->retry_after > usual ? a->retry_after : usual;
    const double most = seconds < 60 ? seconds : 60;
    const struct timespec t = {(time_t)most, (long)((most - (double)(time_t)most) * 1e9)};
    nanosleep(&t, NULL);
}

/* An etag becomes the name of a file. */
static bool is_plain(const char *etag)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return *etag && *etag != '.' && strspn(etag, letters) == strlen(etag);
}

/* Asks for a file's description. *there is false if the model does not have the file. */
static int ask(hub_answer *a, bool *there, fetch *f, const char *file)
{
    char *url = url_of(f, file);
    for (int i = 0; i < TRIES; i++) {
        if (i > 0)
            wait_before(i - 1, a);
        hub_head(f->client, url, a);
        if (!may_pass(a) || a->unreachable)
            break;
    }
    free(url);
    *there = a->status >= 200 && a->status < 400;
    if (!*there)
        return a->status == 404 && (strcmp(a->error, "EntryNotFound") == 0 ||
                                    (!*a->error && strcmp(file, HUB_CONFIG) != 0))
                   ? CLI_OK
                   : refused(f, file, a);
    if (!is_plain(a->etag) || strlen(a->commit) + 1 != HUB_COMMIT || !is_plain(a->commit))
        return cli_fail(CLI_INPUT,
                        "%s: %s does not answer like a hub, because ETag or X-Repo-Commit is "
                        "missing; check HF_ENDPOINT",
                        f->model->name, f->endpoint);
    if (f->snapshot)
        return CLI_OK;
    memcpy(f->commit, a->commit, sizeof f->commit);
    f->snapshot = hub_snapshot_of(f->model, f->commit);
    return CLI_OK;
}

/* ---- one file ---- */

static void show(void *ctx, int64_t bytes)
{
    fetch *f = ctx;
    cli_progress_show(&f->bar, (double)bytes / MEGABYTE,
                      (double)(f->size > bytes ? f->size : bytes) / MEGABYTE);
}

/* Downloads to a file that may have its first bytes already. */
static int transfer(FILE *to, const fetch *f, const char *file, const char *url, int64_t size)
{
    hub_answer a = {.size = -1};
    for (int i = 0; i < TRIES; i++) {
        fseeko(to, 0, SEEK_END);
        const int64_t have = (int64_t)ftello(to);
        if (size >= 0 && have >= size)
            return CLI_OK;
        if (i > 0)
            wait_before(i - 1, &a);
        hub_get(f->client, url, to, have, size, show, (void *)(uintptr_t)f, &a);
        fflush(to);
        if (a.status >= 200 && a.status < 300 && (size < 0 || (int64_t)ftello(to) == size))
            return CLI_OK;
        if (a.status == 416) /* the file has fewer bytes than we have */
            rewind(to);
        if (a.status == 416 && ftruncate(fileno(to), 0) != 0)
            break;
        if (a.status >= 200 && a.status < 300)
            snprintf(a.problem, sizeof a.problem, "the connection ended after %lld of %lld bytes",
                     (long long)ftello(to), (long long)size);
        if (a.status >= 200 && a.status < 300)
            a.status = 0;
        if (a.status != 416 && !may_pass(&a))
            break;
    }
    const int code = refused(f, file, &a);
    cli_tell("what was downloaded is kept; the same command continues");
    return code;
}

/* Downloads a file to `path` and checks it there. */
static int download(fetch *f, const char *file, const hub_answer *a, const char *path)
{
    FILE *to = fopen(path, "ab");
    if (!to)
        return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    char *url = url_of(f, file);
    f->file = file;
    f->size = a->size;
    fseeko(to, 0, SEEK_END);
    const int64_t before = (int64_t)ftello(to);
    if (a->size >= 0 && before > a->size && ftruncate(fileno(to), 0) != 0)
        cli_tell("%s: cannot be emptied", path);
    cli_progress_begin(&f->bar, file);
    f->bar.unit = "MB";
    int code = transfer(to, f, file, url, a->size);
    cli_progress_end(&f->bar);
    free(url);
    if (fflush(to) != 0 || fsync(fileno(to)) != 0 || fclose(to) != 0)
        code =
            code ? code : cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    if (code)
        return code;
    if (!hub_matches(path, a->etag)) {
        unlink(path);
        return cli_fail(
            CLI_INPUT,
            "%s of %s: what was downloaded does not have the hub's checksum %s, and was "
            "removed; try again",
            file, f->model->name, a->etag);
    }
    f->bytes += (double)(size_of(path) - (before < a->size ? before : 0));
    f->files++;
    return CLI_OK;
}

static int take_blob(fetch *f, const char *file, const hub_answer *a, const char *blob)
{
    char *part = cli_text("%s.incomplete", blob);
    int lock = -1, code = make_folder_of(blob);
    f->file = file;
    CLI_THEN(code, lock_file(&lock, f, a->etag));
    if (!code && size_of(blob) < 0) { /* not if the process that we waited for has taken it */
        code = download(f, file, a, part);
        if (!code && rename(part, blob) != 0)
            code =
                cli_fail(CLI_INPUT, "%s: cannot be renamed to %s: %s", part, blob, strerror(errno));
    }
    if (lock >= 0)
        close(lock);
    free(part);
    return code;
}

/* Takes a file if the model has it. */
static int take_file(bool *there, fetch *f, const char *file)
{
    hub_answer a;
    CLI_TRY(ask(&a, there, f, file));
    if (!*there)
        return CLI_OK;
    char *path = cli_text("%s/%s", f->snapshot, file);
    char *blob = cli_text("%s/blobs/%s", f->model->folder, a.etag);
    int code = CLI_OK;
    if (size_of(path) < 0 || (a.size >= 0 && size_of(path) != a.size)) {
        if (size_of(blob) >= 0 && a.size >= 0 && size_of(blob) != a.size)
            unlink(blob);
        if (size_of(blob) < 0)
            code = take_blob(f, file, &a, blob);
        CLI_THEN(code, link_file(f, file, a.etag, blob));
    }
    free(blob);
    free(path);
    return code;
}

static int need_file(fetch *f, const char *file)
{
    bool there;
    CLI_TRY(take_file(&there, f, file));
    return there ? CLI_OK
                 : cli_fail(CLI_INPUT, "%s: the hub has no %s of this model", f->model->name, file);
}

/* ---- all files ---- */

static int take_parts(fetch *f)
{
    char *index = cli_text("%s/%s", f->snapshot, HUB_INDEX), **part;
    size_t n;
    int code = hub_parts(&part, &n, index);
    for (size_t i = 0; i < n && !code; i++)
        code = need_file(f, part[i]);
    cli_list_free(part);
    free(index);
    return code;
}

static int take_weights(fetch *f)
{
    bool there;
    CLI_TRY(take_file(&there, f, HUB_WEIGHTS));
    if (there)
        return CLI_OK;
    CLI_TRY(take_file(&there, f, HUB_INDEX));
    if (there)
        return take_parts(f);
    return cli_fail(CLI_INPUT,
                    "%s: the hub has neither %s nor %s of this model; download its weights and use "
                    "fovea convert",
                    f->model->name, HUB_WEIGHTS, HUB_INDEX);
}

/* Sets the branch to the commit whose files are there now. */
static int set_branch(const fetch *f)
{
    if (strcmp(f->model->revision, f->commit) == 0)
        return CLI_OK;
    char *path = cli_text("%s/refs/%s", f->model->folder, f->model->revision);
    cli_output file;
    int code = make_folder_of(path);
    CLI_THEN(code, cli_output_begin(&file, path));
    if (!code) {
        fputs(f->commit, file.file);
        code = cli_output_end(&file, NULL);
    }
    free(path);
    return code;
}

static int take_all(fetch *f, const char *const *more, size_t n_more)
{
    static const char *const optional[] = {"preprocessor_config.json", "processor_config.json",
                                           "segmentation.safetensors"};
    bool there;
    CLI_TRY(need_file(f, HUB_CONFIG));
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        CLI_TRY(take_file(&there, f, optional[i]));
    CLI_TRY(take_weights(f));
    for (size_t i = 0; i < n_more; i++)
        CLI_TRY(need_file(f, more[i]));
    return set_branch(f);
}

int hub_fetch(char **folder, const hub_model *m, const char *const *more, size_t n_more)
{
    fetch f = {.model = m};
    if (hub_is_offline())
        return cli_fail(CLI_INPUT,
                        "%s is not in the cache, %s, and HF_HUB_OFFLINE forbids to download it",
                        m->name, m->folder);
    if (!hub_can_download())
        return cli_fail(CLI_UNSUPPORTED,
                        "%s is not in the cache, and this program was built without libcurl, so "
                        "that it cannot download; run hf download %s, or rebuild with libcurl",
                        m->name, m->name);
    f.endpoint = endpoint();
    f.client = hub_client_open();
    const int code = take_all(&f, more, n_more);
    if (!code && f.files > 0)
        cli_tell("%s: %zu file%s, %.3g MB from %s", m->name, f.files, f.files == 1 ? "" : "s",
                 f.bytes / MEGABYTE, f.endpoint);
    hub_client_close(f.client);
    free(f.endpoint);
    *folder = f.snapshot;
    if (code) {
        free(f.snapshot);
        *folder = NULL;
    }
    return code;
}

int hub_resolve(char **path, const char *text)
{
    hub_model m;
    *path = NULL;
    if (access(text, F_OK) == 0 || !hub_is_name(text)) {
        *path = cli_text("%s", text);
        return CLI_OK;
    }
    hub_model_begin(&m, text);
    *path = hub_find(&m);
    int code = CLI_OK;
    if (!*path) {
        if (!hub_is_offline() && hub_can_download())
            cli_tell("%s is not in the cache and is downloaded to %s", m.name, m.folder);
        code = hub_fetch(path, &m, NULL, 0);
    }
    hub_model_end(&m);
    return code;
}
