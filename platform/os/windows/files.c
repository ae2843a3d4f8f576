/* files.c: implements files and folders of posix.h, dirent.h, sys/file.h and sys/mman.h on
 * Windows. */
#include <dirent.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <wchar.h>

#include <windows.h>

#include "platform/os/windows/wide.h"

static const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/* ---- what it is ---- */

static struct timespec time_of(FILETIME t)
{
    /* Units of 100 ns since 1601. */
    const uint64_t ticks = (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime;
    const int64_t since = (int64_t)ticks - INT64_C(116444736000000000);
    return (struct timespec){(time_t)(since / 10000000), (long)(since % 10000000) * 100};
}

static int describe(HANDLE file, struct fv_posix_stat *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    const DWORD type = GetFileType(file);
    *out = (struct fv_posix_stat){.st_nlink = 1};
    if (type != FILE_TYPE_DISK) {
        out->st_mode = (type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR) | 0600;
        return type == FILE_TYPE_UNKNOWN && GetLastError() != NO_ERROR ? fv_windows_failed() : 0;
    }
    if (!GetFileInformationByHandle(file, &info))
        return fv_windows_failed();
    const bool folder = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
    out->st_mode = folder
                       ? S_IFDIR | 0700
                       : S_IFREG | (info.dwFileAttributes & FILE_ATTRIBUTE_READONLY ? 0400 : 0600);
    out->st_dev = info.dwVolumeSerialNumber;
    out->st_ino = (fv_posix_ino)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    out->st_nlink = info.nNumberOfLinks;
    out->st_size = (long long)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    out->st_mtim = out->st_ctim = time_of(info.ftLastWriteTime);
    return 0;
}

static int describe_path(const char *path, struct fv_posix_stat *out, DWORD more)
{
    wchar_t *wide = fv_wide_path(path);
    if (!wide)
        return -1;
    HANDLE file = CreateFileW(wide, FILE_READ_ATTRIBUTES, shared, NULL, OPEN_EXISTING,
                              FILE_FLAG_BACKUP_SEMANTICS | more, NULL);
    free(wide);
    if (file == INVALID_HANDLE_VALUE)
        return fv_windows_failed();
    const int code = describe(file, out);
    CloseHandle(file);
    return code;
}

int fv_posix_stat(const char *path, struct fv_posix_stat *out)
{
    return describe_path(path, out, 0);
}

int fv_posix_lstat(const char *path, struct fv_posix_stat *out)
{
    return describe_path(path, out, FILE_FLAG_OPEN_REPARSE_POINT);
}

int fv_posix_fstat(int fd, struct fv_posix_stat *out)
{
    const intptr_t file = _get_osfhandle(fd);
    return file == -1 ? -1 : describe((HANDLE)file, out);
}

int fv_posix_isatty(int fd)
{
    DWORD mode;
    const intptr_t file = _get_osfhandle(fd);
    return file != -1 && GetConsoleMode((HANDLE)file, &mode);
}

/* ---- opening ---- */

int fv_posix_open(const char *path, int flags, ...)
{
    const int how = flags & (O_RDONLY | O_WRONLY | O_RDWR);
    const DWORD rights = flags & O_APPEND  ? FILE_APPEND_DATA | SYNCHRONIZE
                         : how == O_RDONLY ? GENERIC_READ
                         : how == O_WRONLY ? GENERIC_WRITE
                                           : GENERIC_READ | GENERIC_WRITE;
    const DWORD making = flags & O_CREAT && flags & O_EXCL    ? CREATE_NEW
                         : flags & O_CREAT && flags & O_TRUNC ? CREATE_ALWAYS
                         : flags & O_CREAT                    ? OPEN_ALWAYS
                         : flags & O_TRUNC                    ? TRUNCATE_EXISTING
                                                              : OPEN_EXISTING;
    wchar_t *wide = fv_wide_path(path);
    if (!wide)
        return -1;
    HANDLE file = CreateFileW(wide, rights, shared, NULL, making,
                              FILE_ATTRIBUTE_NORMAL | (how ? 0 : FILE_FLAG_BACKUP_SEMANTICS), NULL);
    free(wide);
    if (file == INVALID_HANDLE_VALUE)
        return fv_windows_failed();
    const int fd =
        _open_osfhandle((intptr_t)file, (flags & (O_APPEND | how)) | _O_BINARY | _O_NOINHERIT);
    if (fd < 0)
        CloseHandle(file);
    return fd;
}

FILE *fv_posix_fopen(const char *path, const char *mode)
{
    const bool more = strchr(mode, '+') != NULL;
    int flags = more ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    if (mode[0] == 'w')
        flags |= O_CREAT | O_TRUNC;
    if (mode[0] == 'a')
        flags |= O_CREAT | O_APPEND;
    if (strchr(mode, 'x'))
        flags |= O_EXCL;
    const int fd = fv_posix_open(path, flags);
    const char plain[] = {mode[0], 'b', more ? '+' : 0, 0};
    FILE *file = fd < 0 ? NULL : fdopen(fd, plain);
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

/* ---- names ---- */

static int done(BOOL good)
{
    return good ? 0 : fv_windows_failed();
}

int fv_posix_access(const char *path, int mode)
{
    wchar_t *wide = fv_wide_path(path);
    if (!wide)
        return -1;
    const DWORD attributes = GetFileAttributesW(wide);
    free(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES)
        return fv_windows_failed();
    const bool fixed =
        attributes & FILE_ATTRIBUTE_READONLY && !(attributes & FILE_ATTRIBUTE_DIRECTORY);
    errno = EACCES;
    return mode & W_OK && fixed ? -1 : 0;
}

int fv_posix_unlink(const char *path)
{
    wchar_t *wide = fv_wide_path(path);
    const int code = wide ? done(DeleteFileW(wide)) : -1;
    free(wide);
    return code;
}

int fv_posix_rmdir(const char *path)
{
    wchar_t *wide = fv_wide_path(path);
    const int code = wide ? done(RemoveDirectoryW(wide)) : -1;
    free(wide);
    return code;
}

int fv_posix_remove(const char *path)
{
    struct fv_posix_stat st;
    return fv_posix_lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? fv_posix_rmdir(path)
                                                                 : fv_posix_unlink(path);
}

int fv_posix_rename(const char *from, const char *to)
{
    wchar_t *a = fv_wide_path(from), *b = fv_wide_path(to);
    const DWORD how = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
    const int code = a && b ? done(MoveFileExW(a, b, how)) : -1;
    free(a);
    free(b);
    return code;
}

int fv_posix_mkdir(const char *path, int mode)
{
    (void)mode; /* a new folder inherits the access list of its parent */
    wchar_t *wide = fv_wide_path(path);
    const int code = wide ? done(CreateDirectoryW(wide, NULL)) : -1;
    free(wide);
    return code;
}

int fv_posix_fchmod(int fd, mode_t mode)
{
    (void)fd, (void)mode;
    return 0;
}

int fv_posix_fcntl(int fd, int what, int least)
{
    HANDLE self = GetCurrentProcess(), copy;
    const intptr_t file = _get_osfhandle(fd);
    (void)what, (void)least;
    if (file == -1)
        return -1;
    if (!DuplicateHandle(self, (HANDLE)file, self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS))
        return fv_windows_failed();
    return _open_osfhandle((intptr_t)copy, _O_BINARY | _O_NOINHERIT);
}

int fv_posix_truncate(const char *path, long long size)
{
    const int fd = fv_posix_open(path, O_RDWR);
    if (fd < 0)
        return -1;
    errno = _chsize_s(fd, size);
    const int code = errno ? -1 : 0;
    close(fd);
    return code;
}

char *fv_posix_realpath(const char *path, char *null)
{
    struct fv_posix_stat st;
    wchar_t whole[32768];
    (void)null;
    if (fv_posix_stat(path, &st) != 0)
        return NULL;
    wchar_t *wide = fv_wide(path);
    char *out = NULL;
    if (wide && GetFullPathNameW(wide, sizeof whole / sizeof *whole, whole, NULL))
        out = fv_narrow(whole);
    for (char *c = out; c && *c; c++)
        if (*c == '\\')
            *c = '/';
    free(wide);
    return out;
}

char *fv_posix_mkdtemp(char *pattern)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz012345";
    unsigned char random[6];
    if (getentropy(random, sizeof random) != 0)
        return NULL;
    for (size_t i = 0, n = strlen(pattern); i < sizeof random; i++)
        pattern[n - 1 - i] = digits[random[i] % 32];
    return fv_posix_mkdir(pattern, 0700) == 0 ? pattern : NULL;
}

/* ---- folders ---- */

struct fv_posix_dir {
    HANDLE search;
    WIN32_FIND_DATAW next;
    bool fresh; /* whether `next` has not been returned yet */
    struct dirent entry;
    char path[];
};

static bool search(DIR *d)
{
    char *all = malloc(strlen(d->path) + 3);
    wchar_t *wide = NULL;
    if (all) {
        sprintf(all, "%s/*", d->path);
        wide = fv_wide_path(all);
    }
    d->search = wide ? FindFirstFileW(wide, &d->next) : INVALID_HANDLE_VALUE;
    d->fresh = d->search != INVALID_HANDLE_VALUE;
    if (wide && !d->fresh)
        fv_windows_failed();
    free(wide);
    free(all);
    return d->fresh;
}

DIR *opendir(const char *path)
{
    DIR *d = malloc(sizeof *d + strlen(path) + 1);
    if (!d)
        return NULL;
    strcpy(d->path, path);
    if (search(d))
        return d;
    free(d);
    return NULL;
}

struct dirent *readdir(DIR *d)
{
    if (!d->fresh && !FindNextFileW(d->search, &d->next))
        return NULL;
    d->fresh = false;
    WideCharToMultiByte(CP_UTF8, 0, d->next.cFileName, -1, d->entry.d_name, sizeof d->entry.d_name,
                        NULL, NULL);
    return &d->entry;
}

void rewinddir(DIR *d)
{
    FindClose(d->search);
    search(d);
}

int closedir(DIR *d)
{
    if (d->search != INVALID_HANDLE_VALUE)
        FindClose(d->search);
    free(d);
    return 0;
}

int alphasort(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int scandir(const char *path, struct dirent ***out, int (*select)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **))
{
    int n = 0;
    struct dirent **all = NULL, **more;
    DIR *d = opendir(path);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));) {
        if (select && !select(e))
            continue;
        struct dirent *own = malloc(sizeof *own);
        more = realloc(all, ((size_t)n + 1) * sizeof *all);
        all = more ? more : all;
        if (!own || !more) {
            free(own);
            while (n > 0)
                free(all[--n]);
            free(all);
            closedir(d);
            errno = ENOMEM;
            return -1;
        }
        *own = *e;
        all[n++] = own;
    }
    closedir(d);
    if (n)
        qsort(all, (size_t)n, sizeof *all, (int (*)(const void *, const void *))(void *)compare);
    *out = all;
    return n;
}

/* ---- locks and maps ---- */

int flock(int fd, int how)
{
    struct fv_posix_stat st;
    OVERLAPPED all = {0};
    const intptr_t file = _get_osfhandle(fd);
    if (file == -1 || fv_posix_fstat(fd, &st) != 0)
        return -1;
    errno = ENOTSUP;
    if (S_ISDIR(st.st_mode))
        return -1;
    const DWORD flags = LOCKFILE_EXCLUSIVE_LOCK | (how & LOCK_NB ? LOCKFILE_FAIL_IMMEDIATELY : 0);
    if (LockFileEx((HANDLE)file, flags, 0, 1, 0, &all))
        return 0;
    return fv_windows_failed();
}

void *mmap(void *at, size_t size, int protection, int kind, int fd, long long offset)
{
    (void)at, (void)protection;
    if (kind & MAP_ANONYMOUS) {
        void *pages = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
        return pages ? pages : MAP_FAILED;
    }
    const intptr_t file = _get_osfhandle(fd);
    if (file == -1)
        return MAP_FAILED;
    HANDLE mapping = CreateFileMappingW((HANDLE)file, NULL, PAGE_READONLY, 0, 0, NULL);
    void *data = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, (DWORD)((uint64_t)offset >> 32),
                                         (DWORD)offset, size)
                         : NULL;
    if (!data)
        fv_windows_failed();
    if (mapping)
        CloseHandle(mapping); /* the view keeps the mapping alive */
    return data ? data : MAP_FAILED;
}

int munmap(void *data, size_t size)
{
    MEMORY_BASIC_INFORMATION info;
    (void)size;
    const bool own = VirtualQuery(data, &info, sizeof info) && info.Type == MEM_PRIVATE;
    return done(own ? VirtualFree(data, 0, MEM_RELEASE) : UnmapViewOfFile(data));
}

int mprotect(void *data, size_t size, int protection)
{
    DWORD old;
    (void)protection;
    return done(VirtualProtect(data, size, PAGE_NOACCESS, &old));
}

int madvise(void *data, size_t size, int advice)
{
    (void)advice;
    /* Unlocking pages that are not locked removes them from the process's memory. */
    VirtualUnlock(data, size);
    return 0;
}
