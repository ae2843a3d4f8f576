/* posix.h: POSIX functions that MinGW-w64 lacks, or has only for the characters of the code page.
 * It is included before every file of a build for Windows. All text is UTF-8, including paths and
 * the environment. Paths may be longer than 260 characters, and use either slash.
 *
 *   modes       S_IFREG, S_IFDIR and what of them can be written to. Whose a file is, its access
 *               list says, which is not read: all files count as the caller's, for whom alone the
 *               folders of a user's profile are
 *   files       are opened so that others may rename or remove them, and in binary
 *   flock       not of folders: ENOTSUP
 *   environment holds empty values, which the C library's does not
 */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_POSIX_H
#define FOVEA_PLATFORM_OS_WINDOWS_POSIX_H

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files ---- */

typedef unsigned long long fv_posix_ino;
struct fv_posix_stat {
    dev_t st_dev;
    fv_posix_ino st_ino;
    mode_t st_mode;
    unsigned st_nlink, st_uid;
    long long st_size;
    struct timespec st_mtim, st_ctim;
};
#undef stat
#undef fstat
#define ino_t fv_posix_ino
#define stat fv_posix_stat
#define lstat fv_posix_lstat
#define fstat fv_posix_fstat
int fv_posix_stat(const char *path, struct fv_posix_stat *out);
int fv_posix_lstat(const char *path, struct fv_posix_stat *out);
int fv_posix_fstat(int fd, struct fv_posix_stat *out);
#ifndef S_IWGRP
#define S_IWGRP 0
#define S_IWOTH 0
#endif
#define geteuid() 0u

#define O_CLOEXEC _O_NOINHERIT
#define O_NOFOLLOW 0
#define O_NONBLOCK 0
#define O_DIRECTORY 0
#define open fv_posix_open
#define fopen fv_posix_fopen
int fv_posix_open(const char *path, int flags, ...);
FILE *fv_posix_fopen(const char *path, const char *mode);

#define access fv_posix_access
#define unlink fv_posix_unlink
#define remove fv_posix_remove
#define rename fv_posix_rename
#define mkdir fv_posix_mkdir
#define rmdir fv_posix_rmdir
#define truncate fv_posix_truncate
#define realpath fv_posix_realpath
#define mkdtemp fv_posix_mkdtemp
#define fchmod fv_posix_fchmod
#define fcntl fv_posix_fcntl
#define F_DUPFD_CLOEXEC 1030
#define fsync _commit
#define posix_fadvise(fd, offset, size, advice) ((void)(fd))
#define isatty fv_posix_isatty
int fv_posix_access(const char *path, int mode);
int fv_posix_unlink(const char *path);
int fv_posix_remove(const char *path);
int fv_posix_rename(const char *from, const char *to);
int fv_posix_mkdir(const char *path, int mode);
int fv_posix_rmdir(const char *path);
int fv_posix_truncate(const char *path, long long size);
char *fv_posix_realpath(const char *path, char *null);
char *fv_posix_mkdtemp(char *pattern);
int fv_posix_fchmod(int fd, mode_t mode);        /* the file keeps its access list */
int fv_posix_fcntl(int fd, int what, int least); /* F_DUPFD_CLOEXEC */
int fv_posix_isatty(int fd);

/* ---- the C library ---- */

#define getenv fv_posix_getenv
#define setenv fv_posix_setenv
#define unsetenv fv_posix_unsetenv
#define getline fv_posix_getline
#define getentropy fv_posix_getentropy
/* Aligns to 16 bytes at most, which is enough for its callers: the library uses fv_machine_alloc.
 */
#define aligned_alloc(align, size) malloc(size)
#define popen _popen
#define pclose _pclose
#define sysconf fv_posix_sysconf
char *fv_posix_getenv(const char *name); /* HOME is the user's folder if it is not set */
int fv_posix_setenv(const char *name, const char *value, int replace);
int fv_posix_unsetenv(const char *name);
ssize_t fv_posix_getline(char **line, size_t *capacity, FILE *from);
int fv_posix_getentropy(void *out, size_t size);
long fv_posix_sysconf(int name);
enum {
    _SC_PAGESIZE = 1,
    _SC_NPROCESSORS_ONLN
}; /* _SC_PAGESIZE: offsets of mmap are multiples of it */

/* ---- signals ---- */

#define SIGPIPE 13 /* these are never raised */
#define SIGBUS 7
#define sigjmp_buf jmp_buf
#define sigsetjmp(at, mask) _setjmp(at, NULL) /* without unwinding, which a handler cannot have */
#define siglongjmp longjmp
#define strsignal(number) "crash"
#define SA_RESETHAND 1
struct sigaction {
    void (*sa_handler)(int);
    int sa_flags; /* SA_RESETHAND holds always */
};
#define sigaction(number, action, before) fv_posix_sigaction(number, action, before)
int fv_posix_sigaction(int number, const struct sigaction *action, struct sigaction *before);

#ifdef __cplusplus
}
#endif
#endif
