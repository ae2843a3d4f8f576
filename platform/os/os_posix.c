/* os_posix.c: implements os.h on POSIX systems. */
#define _GNU_SOURCE /* dladdr */

#include "platform/os/os.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { PATH = 4096 }; /* most bytes in a path that is composed here */

enum fv_os_kind fv_os_look(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return FV_OS_NOTHING;
    return S_ISREG(st.st_mode) ? FV_OS_FILE : S_ISDIR(st.st_mode) ? FV_OS_FOLDER : FV_OS_OTHER;
}

struct mapping {
    void *base; /* of the first page */
    size_t bytes;
    int fd; /* -1: the file is known by its path */
    /* Identity, size and time of change of the file when it was mapped. */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec written;
    struct timespec changed;
    uint64_t offset;
    bool settled; /* whether the file had not changed just before it was mapped */
};

/* Seconds within which a file system may record the same time for two changes. */
#define TICK 2

static bool is_settled(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return st->st_ctim.tv_sec < now.tv_sec - TICK && st->st_mtim.tv_sec < now.tv_sec - TICK;
}

static fovea_status map_part(struct mapping *m, int fd, uint64_t offset, uint64_t part,
                             const char *path, const void **data)
{
    const uint64_t lead = offset % (uint64_t)sysconf(_SC_PAGESIZE);
    if (part > SIZE_MAX - lead)
        return fv_fail(FOVEA_EIO, "%s is too large for the address space; use a 64-bit machine",
                       path);
    m->bytes = (size_t)(lead + part);
    m->base = mmap(NULL, m->bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)(offset - lead));
    if (m->base == MAP_FAILED)
        return fv_fail(FOVEA_EIO, "%s: cannot map: %s", path, strerror(errno));
    *data = (char *)m->base + lead;
    return FOVEA_OK;
}

fovea_status fv_os_map_part(int fd, uint64_t offset, uint64_t part, const char *name,
                            const void **data, uint64_t *size, void **handle)
{
    struct stat st;
    struct mapping *m;
    fovea_status status = FOVEA_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return fv_fail(FOVEA_EIO, "%s is not a regular file", name);
    const uint64_t whole = (uint64_t)st.st_size;
    if (offset > whole || part > whole - offset)
        return fv_fail(
            FOVEA_EIO,
            "%s: the caller gave %llu bytes from byte %llu on, but the file has only %llu", name,
            (unsigned long long)part, (unsigned long long)offset, (unsigned long long)whole);
    FV_TRY(FV_MEM_NEW(&m, FV_MEM_MODEL, "file mapping"));
    *m = (struct mapping){.fd = fd,
                          .device = st.st_dev,
                          .inode = st.st_ino,
                          .size = st.st_size,
                          .written = st.st_mtim,
                          .changed = st.st_ctim,
                          .offset = offset,
                          .settled = is_settled(&st)};
    if (part == 0)
        part = whole - offset;
    *data = NULL;
    if (part > 0)
        status = map_part(m, fd, offset, part, name, data);
    if (status != FOVEA_OK) {
        fv_mem_free(m);
        return status;
    }
    *size = part;
    *handle = m;
    return FOVEA_OK;
}

fovea_status fv_os_map(const char *path, const void **data, uint64_t *size, void **handle)
{
    /* O_NONBLOCK, because opening a named pipe would otherwise wait until someone writes to it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fv_fail(FOVEA_EIO, "%s: cannot open: %s", path, strerror(errno));
    const fovea_status status = fv_os_map_part(fd, 0, 0, path, data, size, handle);
    if (status == FOVEA_OK)
        ((struct mapping *)*handle)->fd = -1;
    close(fd);
    return status;
}

void fv_os_unmap(void *handle)
{
    struct mapping *m = handle;
    if (m && m->bytes)
        munmap(m->base, m->bytes);
    fv_mem_free(m);
}

fovea_status fv_os_duplicate(int *out, int fd, const char *name)
{
    *out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return *out >= 0 ? FOVEA_OK
                     : fv_fail(FOVEA_EIO, "%s: descriptor %d: %s", name, fd, strerror(errno));
}

void fv_os_close(int fd)
{
    close(fd);
}

fovea_status fv_os_unchanged(const void *handle, const char *path)
{
    const struct mapping *m = handle;
    struct stat st;
    if (!m || (m->fd < 0 ? stat(path, &st) : fstat(m->fd, &st)) != 0 || st.st_dev != m->device ||
        st.st_ino != m->inode)
        return FOVEA_OK; /* another file has this name now; the mapped one has not changed */
    if (st.st_size == m->size && st.st_mtim.tv_sec == m->written.tv_sec &&
        st.st_mtim.tv_nsec == m->written.tv_nsec)
        return FOVEA_OK;
    return fv_fail(FOVEA_EIO,
                   "%s was written to since it was loaded; load it again. To replace such a file, "
                   "write another and rename it",
                   path);
}

static uint64_t nanoseconds(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Leaves out the number of the device, which may change when the system restarts. */
bool fv_os_identity(const void *handle, uint64_t id[FV_OS_IDENTITY])
{
    const struct mapping *m = handle;
    if (!m || !m->settled)
        return false;
    id[0] = (uint64_t)m->inode;
    id[1] = (uint64_t)m->size;
    id[2] = nanoseconds(m->written);
    id[3] = nanoseconds(m->changed);
    id[4] = m->offset;
    return true;
}

void fv_os_release_pages(const void *data, uint64_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)data & ~(page - 1);
    if (size)
        madvise((void *)first, (uintptr_t)data + size - first, MADV_DONTNEED);
}

struct fv_os_replace {
    int fd;
    char *path, *temporary;
};

static fovea_status fail_write(const fv_os_replace *r)
{
    return fv_fail(FOVEA_EIO, "%s: cannot write: %s", r->path, strerror(errno));
}

/* Releases r. The target stays unchanged, unless the temporary file has replaced it already. */
static void cancel(fv_os_replace *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->temporary && r->temporary[0])
        unlink(r->temporary);
    fv_mem_free(r->temporary);
    fv_mem_free(r->path);
    fv_mem_free(r);
}

/* Opens a file with a new name in the target's folder. A long name is shortened to leave space for
 * the suffix. */
static fovea_status create_temporary(fv_os_replace *r, size_t size, mode_t mode)
{
    const char *slash = strrchr(r->path, '/');
    const size_t whole = strlen(r->path), name = slash ? strlen(slash + 1) : whole;
    const size_t most = 255 - strlen(".2147483647.99.tmp"), cut = name > most ? name - most : 0;
    for (unsigned i = 0; i < 100 && r->fd < 0; i++) {
        snprintf(r->temporary, size, "%.*s.%ld.%u.tmp", (int)(whole - cut), r->path, (long)getpid(),
                 i);
        r->fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (r->fd < 0 && errno != EEXIST)
            break;
    }
    if (r->fd >= 0)
        return FOVEA_OK;
    r->temporary[0] = 0; /* the file is not ours, so it must not be removed */
    return fail_write(r);
}

fovea_status fv_os_replace_begin(fv_os_replace **out, const char *path, bool only_ours)
{
    fv_os_replace *r;
    FV_TRY(FV_MEM_NEW(&r, FV_MEM_MODEL, "file to write"));
    r->fd = -1;
    size_t length = strlen(path);
    fovea_status status = fv_mem_text(&r->path, path, FV_MEM_MODEL);
    FV_THEN(status, fv_mem_alloc(&r->temporary, length + 40, FV_MEM_MODEL, "file name"));
    FV_THEN(status, create_temporary(r, length + 40, only_ours ? 0600 : 0666));
    FV_RETURN_MADE(out, r, cancel, status);
}

fovea_status fv_os_replace_write(fv_os_replace *r, const void *data, uint64_t size)
{
    const char *p = data;
    while (size > 0) {
        ssize_t n = write(r->fd, p, size < (1u << 30) ? (size_t)size : (size_t)1 << 30);
        if (n < 0 && errno != EINTR)
            return fail_write(r);
        if (n > 0) {
            p += n;
            size -= (uint64_t)n;
        }
    }
    return FOVEA_OK;
}

/* Opens the folder that contains `path`, using `buffer`, as large as `path`; -1 if it cannot. */
static int open_folder(const char *path, char *buffer)
{
    char *slash = strrchr(strcpy(buffer, path), '/');
    if (slash == buffer)
        slash++;
    if (slash)
        *slash = 0;
    return open(slash ? buffer : ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
}

/* Writes a folder to disk, since a new entry is on disk only after that. Not every file system can
 * do this. */
static void sync_folder(const char *path, char *buffer)
{
    int fd = open_folder(path, buffer);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static fovea_status end_replace(fv_os_replace *r, fovea_status written, bool now)
{
    if (written == FOVEA_OK && ((now && fsync(r->fd) != 0) || rename(r->temporary, r->path) != 0))
        written = fail_write(r);
    if (written == FOVEA_OK && now)
        sync_folder(r->path, r->temporary);
    if (written == FOVEA_OK)
        r->temporary[0] = 0;
    cancel(r);
    return written;
}

fovea_status fv_os_replace_end(fv_os_replace *r, fovea_status written)
{
    return end_replace(r, written, true);
}

fovea_status fv_os_replace_end_soon(fv_os_replace *r, fovea_status written)
{
    return end_replace(r, written, false);
}

fovea_status fv_os_replace_file(const char *path, bool only_ours, const void *data, uint64_t size)
{
    fv_os_replace *file;
    FV_TRY(fv_os_replace_begin(&file, path, only_ours));
    return fv_os_replace_end(file, fv_os_replace_write(file, data, size));
}

fovea_status fv_os_lock_folder(int *out, const char *path)
{
    enum { TRIES = 400 };
    const struct timespec pause = {0, 5000000};
    char *buffer;
    FV_TRY(fv_mem_text(&buffer, path, FV_MEM_MODEL));
    *out = open_folder(path, buffer);
    fv_mem_free(buffer);
    for (int i = 0; i < TRIES && *out >= 0 && flock(*out, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        nanosleep(&pause, NULL);
    }
    return FOVEA_OK;
}

void fv_os_unlock_folder(int lock)
{
    if (lock >= 0)
        close(lock);
}

struct fv_os_lock {
    int fd;
    char path[];
};

/* Opens the lock's file and locks it. Returns 1 if it is locked, 0 if someone else has the lock,
 * and -1 if the file is gone or cannot be opened. */
static int try_lock(fv_os_lock *l)
{
    struct stat st;
    l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (l->fd < 0)
        return -1;
    const bool taken = flock(l->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && fstat(l->fd, &st) == 0 && st.st_nlink > 0)
        return 1;
    close(l->fd);
    errno = EAGAIN;
    return taken ? 0 : -1;
}

fovea_status fv_os_lock_file(fv_os_lock **out, const char *path)
{
    const size_t bytes = strlen(path) + sizeof ".lock";
    int locked;
    fv_os_lock *l;
    FV_TRY(fv_mem_alloc(&l, sizeof(fv_os_lock) + bytes, FV_MEM_MODEL, "a lock"));
    snprintf(l->path, bytes, "%s.lock", path);
    do
        locked = try_lock(l);
    while (locked < 0 && errno == EAGAIN); /* its owner removed the file meanwhile */
    *out = locked > 0 ? l : NULL;
    fovea_status status = FOVEA_OK;
    if (locked < 0)
        status = fv_fail(FOVEA_EIO, "%s: cannot write: %s", l->path, strerror(errno));
    if (locked <= 0)
        fv_mem_free(l);
    return status;
}

void fv_os_unlock_file(fv_os_lock *l)
{
    if (!l)
        return;
    unlink(l->path);
    close(l->fd);
    fv_mem_free(l);
}

/* Returns whether only this user or the administrator can have created the file and can change it.
 */
static bool is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

struct fv_os_note {
    int fd; /* -1: unlocked */
    char path[];
};

/* Opens and locks the file. Returns 1 if it is locked, 0 if someone else has the lock or there are
 * no locks, and -1 with the error number if the file cannot be opened or was removed meanwhile. */
static int try_note(fv_os_note *n)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW;
    struct stat st;
    n->fd = open(n->path, O_RDWR | O_CREAT | flags, 0600);
    if (n->fd < 0 && (errno == EACCES || errno == EROFS))
        n->fd = open(n->path, O_RDONLY | flags);
    if (n->fd < 0)
        return -1;
    const bool locked = flock(n->fd, LOCK_EX | LOCK_NB) == 0;
    const bool ours = fstat(n->fd, &st) == 0 && S_ISREG(st.st_mode) && is_ours(&st);
    if (locked && ours && st.st_nlink > 0)
        return 1;
    close(n->fd);
    errno = ours ? EAGAIN : EPERM;
    return locked || !ours ? -1 : 0;
}

fovea_status fv_os_note_open(fv_os_note **out, const char *path)
{
    const size_t bytes = strlen(path) + 1;
    int locked;
    fv_os_note *n;
    FV_TRY(fv_mem_alloc(&n, sizeof *n + bytes, FV_MEM_DEVICE, "a note"));
    memcpy(n->path, path, bytes);
    do
        locked = try_note(n);
    while (locked < 0 && errno == EAGAIN); /* its owner removed the file meanwhile */
    *out = locked > 0 ? n : NULL;
    fovea_status status = FOVEA_OK;
    if (locked < 0)
        status = fv_fail(FOVEA_EIO, "%s: cannot write: %s", path, strerror(errno));
    if (locked <= 0)
        fv_mem_free(n);
    return status;
}

size_t fv_os_note_read(const fv_os_note *n, void *data, size_t capacity, double *age)
{
    struct stat st;
    size_t size = 0;
    *age = fstat(n->fd, &st) == 0 ? difftime(time(NULL), st.st_mtime) : 0;
    if (lseek(n->fd, 0, SEEK_SET) != 0)
        return 0;
    for (ssize_t got = 1; got > 0 && size < capacity; size += (size_t)(got > 0 ? got : 0))
        got = read(n->fd, (char *)data + size, capacity - size);
    return size;
}

fovea_status fv_os_note_write(fv_os_note *n, const void *data, size_t size)
{
    size_t at = 0;
    bool more = lseek(n->fd, 0, SEEK_SET) == 0;
    while (more && at < size) {
        const ssize_t put = write(n->fd, (const char *)data + at, size - at);
        more = put > 0;
        at += (size_t)(more ? put : 0);
    }
    return at == size ? FOVEA_OK
                      : fv_fail(FOVEA_EIO, "%s: cannot write: %s", n->path, strerror(errno));
}

void fv_os_note_unlock(fv_os_note *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

void fv_os_note_close(fv_os_note *n, bool remove_file)
{
    if (!n)
        return;
    if (remove_file)
        unlink(n->path);
    fv_os_note_unlock(n);
    fv_mem_free(n);
}

/* ---- folders ---- */

const char *fv_os_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Creates a folder. Returns 0 if the folder now exists, else an errno. For an existing folder some
 * systems report that its parent is not writable, instead of EEXIST. */
static int make_folder(const char *path, mode_t mode)
{
    if (mkdir(path, mode) == 0)
        return 0;
    const int why = errno;
    return why == EEXIST || access(path, F_OK) == 0 ? 0 : why;
}

/* Makes the folder `path` and its parents. `path` is changed temporarily. */
static int make_folders(char *path, mode_t mode)
{
    int why = 0;
    for (char *slash = strchr(path + 1, '/'); slash && !why; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        why = make_folder(path, mode);
        *slash = '/';
    }
    return why ? why : make_folder(path, mode);
}

static fovea_status have_folder(struct stat *st, const char *path, mode_t mode)
{
    if (stat(path, st) != 0) {
        char *copy;
        FV_TRY(fv_mem_text(&copy, path, FV_MEM_DEVICE));
        int why = make_folders(copy, mode);
        fv_mem_free(copy);
        if (!why && stat(path, st) != 0)
            why = errno;
        if (why)
            return fv_fail(FOVEA_EIO, "%s: cannot create this folder: %s", path, strerror(why));
    }
    if (!S_ISDIR(st->st_mode))
        return fv_fail(FOVEA_EIO, "%s is not a folder", path);
    return FOVEA_OK;
}

bool fv_os_may_write_folder(const char *path)
{
    char parent[PATH];
    if ((size_t)snprintf(parent, sizeof parent, "%s", path) >= sizeof parent)
        return false;
    while (access(parent, F_OK) != 0 && errno == ENOENT) { /* up to a folder that exists */
        char *slash = strrchr(parent, '/');
        if (!slash)
            return access(".", W_OK) == 0;
        if (slash == parent)
            return access("/", W_OK) == 0;
        *slash = 0;
    }
    return fv_os_look(parent) == FV_OS_FOLDER && access(parent, W_OK) == 0;
}

fovea_status fv_os_folder(const char *path)
{
    struct stat st;
    return have_folder(&st, path, 0777);
}

fovea_status fv_os_private_folder(const char *path)
{
    struct stat st;
    FV_TRY(have_folder(&st, path, 0700));
    if (!is_ours(&st))
        return fv_fail(FOVEA_EIO,
                       "%s: another user owns this folder or may write to it; use chmod 700", path);
    return FOVEA_OK;
}

static fovea_status read_all(int fd, const char *path, char *to, uint64_t size)
{
    while (size > 0) {
        ssize_t n = read(fd, to, size < (1u << 30) ? (size_t)size : (size_t)1 << 30);
        if (n == 0 || (n < 0 && errno != EINTR))
            return fv_fail(FOVEA_EIO, "%s: cannot read: %s", path, strerror(n ? errno : EIO));
        if (n > 0) {
            to += n;
            size -= (uint64_t)n;
        }
    }
    return FOVEA_OK;
}

static fovea_status read_file(const char *path, uint64_t most, bool private, void **out,
                              uint64_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (private ? O_NOFOLLOW : 0));
    if (fd < 0)
        return fv_fail(FOVEA_EIO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    fovea_status status;
    void *data = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = fv_fail(FOVEA_EIO, "%s is not a regular file", path);
    else if (private && !is_ours(&st))
        status = fv_fail(FOVEA_EIO, "%s: another user owns this file or may write to it", path);
    else if ((uint64_t)st.st_size > most)
        status = fv_fail(FOVEA_EIO, "%s is too large", path);
    else
        status = fv_mem_alloc(&data, (uint64_t)st.st_size, FV_MEM_DEVICE, "a file");
    FV_THEN(status, read_all(fd, path, data, (uint64_t)st.st_size));
    close(fd);
    if (status != FOVEA_OK) {
        fv_mem_free(data);
        return status;
    }
    *out = data;
    *size = (uint64_t)st.st_size;
    return FOVEA_OK;
}

fovea_status fv_os_read(const char *path, uint64_t most, void **out, uint64_t *size)
{
    return read_file(path, most, false, out, size);
}

fovea_status fv_os_private_read(const char *path, uint64_t most, void **out, uint64_t *size)
{
    return read_file(path, most, true, out, size);
}

fovea_status fv_os_trusted_map(const char *path, const void **data, uint64_t *size, void **handle)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return fv_fail(FOVEA_EIO, "%s: cannot open: %s", path, strerror(errno));
    fovea_status status = FOVEA_OK;
    if (fstat(fd, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()) ||
        (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        status = fv_fail(FOVEA_EIO, "%s: another user owns this file or may write to it", path);
    FV_THEN(status, fv_os_map_part(fd, 0, 0, path, data, size, handle));
    if (status == FOVEA_OK) {
        struct mapping *m = *handle;
        m->fd = -1;
        posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    }
    close(fd);
    return status;
}

fovea_status fv_os_each_file(const char *path, fovea_status (*visit)(void *ctx, const char *path),
                             void *ctx)
{
    fovea_status status = FOVEA_OK;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && status == FOVEA_OK && (e = readdir(folder));) {
        const size_t bytes = strlen(path) + strlen(e->d_name) + 2;
        void *name;
        if (e->d_name[0] == '.')
            continue;
        status = fv_mem_alloc(&name, bytes, FV_MEM_DEVICE, "a file name");
        if (status != FOVEA_OK)
            break;
        snprintf(name, bytes, "%s/%s", path, e->d_name);
        if (fv_os_look(name) == FV_OS_FILE)
            status = visit(ctx, name);
        fv_mem_free(name);
    }
    if (folder)
        closedir(folder);
    return status;
}

/* Gets the state of a file in a folder, without following links, and sets `file` to its path.
 * Returns false if the file no longer exists. */
static bool look_in(struct stat *st, char file[PATH], const char *folder, const char *name)
{
    return snprintf(file, PATH, "%s/%s", folder, name) < PATH && lstat(file, st) == 0;
}

void fv_os_trim_folder(const char *path, uint64_t most, bool (*ours)(const char *name))
{
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (bool again = true; again;) {
        uint64_t bytes = 0;
        char file[PATH], oldest[PATH] = "";
        struct timespec since = {0};
        rewinddir(folder);
        for (struct dirent *e; (e = readdir(folder));) {
            struct stat st;
            if (!ours(e->d_name) || !look_in(&st, file, path, e->d_name))
                continue;
            bytes += (uint64_t)st.st_size;
            const struct timespec t = st.st_mtim;
            if (!oldest[0] || t.tv_sec < since.tv_sec ||
                (t.tv_sec == since.tv_sec && t.tv_nsec < since.tv_nsec)) {
                strcpy(oldest, file);
                since = t;
            }
        }
        /* Empty files are removed only if nothing must be kept. */
        again = (bytes > most || most == 0) && oldest[0] && unlink(oldest) == 0;
    }
    closedir(folder);
}

void fv_os_library_of(const void *address, char *out, size_t size)
{
    Dl_info info;
    struct stat st;
    *out = 0;
    if (dladdr(address, &info) && info.dli_fname && stat(info.dli_fname, &st) == 0)
        snprintf(out, size, "%s %lld %lld.%09ld", info.dli_fname, (long long)st.st_size,
                 (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}
