/* os.h: files as the library needs them: mapped for reading, or replaced as a whole; and folders
 * that only this user can access. */
#ifndef FOVEA_PLATFORM_OS_H
#define FOVEA_PLATFORM_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum fv_os_kind { FV_OS_NOTHING, FV_OS_FILE, FV_OS_FOLDER, FV_OS_OTHER };

/* What `path` is, links followed. */
enum fv_os_kind fv_os_look(const char *path);

/* Maps a whole regular file for reading. An empty file gives size 0 and data NULL. If someone
 * truncates the file while it is mapped, the program crashes. EIO names the path and the reason. */
fovea_status fv_os_map(const char *path, const void **data, uint64_t *size, void **handle);
/* Does the same for a part of a file that is open as `fd`: `part` bytes (0: up to the end) from
 * `offset` on. `fd` stays open until they are unmapped. EIO if the file ends before. */
fovea_status fv_os_map_part(int fd, uint64_t offset, uint64_t part, const char *name,
                            const void **data, uint64_t *size, void **handle);
void fv_os_unmap(void *handle); /* NULL is fine */
/* Duplicates a descriptor; the duplicate is not inherited by other programs. EIO names `name`. */
fovea_status fv_os_duplicate(int *out, int fd, const char *name);
void fv_os_close(int fd);
/* EIO if a file that was mapped as `path` has been written to or truncated since. Its bytes are
 * then not those that were checked, and reading beyond its end would crash the process. NULL is
 * fine. */
fovea_status fv_os_unchanged(const void *handle, const char *path);

/* Numbers of the file system that identify the mapped file and its present state. False if a later
 * write might not change them, because the file had changed just before it was mapped; also if
 * `handle` is NULL. */
#define FV_OS_IDENTITY 5
bool fv_os_identity(const void *handle, uint64_t id[FV_OS_IDENTITY]);

/* Releases the memory of mapped pages; reading them again reads the file again. */
void fv_os_release_pages(const void *data, uint64_t size);

/* A new file that replaces `path`, either completely or not at all: the old file stays until
 * fv_os_replace_end has written everything to disk. `only_ours`: no other user may read it. */
typedef struct fv_os_replace fv_os_replace;
fovea_status fv_os_replace_begin(fv_os_replace **out, const char *path, bool only_ours);
fovea_status fv_os_replace_write(fv_os_replace *r, const void *data, uint64_t size);
/* Releases r. `written`: whether writing succeeded; only then is the file replaced. */
fovea_status fv_os_replace_end(fv_os_replace *r, fovea_status written);
/* Does the same without waiting for the disk: after a power failure the file may be damaged. */
fovea_status fv_os_replace_end_soon(fv_os_replace *r, fovea_status written);
/* Replaces a file in a single call. */
fovea_status fv_os_replace_file(const char *path, bool only_ours, const void *data, uint64_t size);

/* Locks the folder that contains `path` against others that call this function, in this process or
 * another. If it is still locked after 2 s, or locks are not supported, proceeds without the lock,
 * which is advisory. ENOMEM. */
fovea_status fv_os_lock_folder(int *out, const char *path);
void fv_os_unlock_folder(int lock);

/* Locks `path` against others that call this function, in this process or another. It uses a file
 * in the same folder, which is removed with the lock. *out NULL: someone else has the lock. On file
 * systems without locks everyone gets it. EIO, ENOMEM. */
typedef struct fv_os_lock fv_os_lock;
fovea_status fv_os_lock_file(fv_os_lock **out, const char *path);
void fv_os_unlock_file(fv_os_lock *lock); /* NULL is fine */

/* Creates a folder that only this user can access, and its parents, if it does not exist. EIO if it
 * cannot be created, belongs to another user, or others may write to it. */
fovea_status fv_os_private_folder(const char *path);
/* Creates a folder that others may access too, as the user's umask allows, and its parents, if it
 * does not exist. EIO. */
fovea_status fv_os_folder(const char *path);
/* Reads a regular file of at most `most` bytes; otherwise EIO. *out is to be freed with
 * fv_mem_free. */
fovea_status fv_os_read(const char *path, uint64_t most, void **out, uint64_t *size);
/* Does the same for a file that belongs to this user, is not a link, and is not writable by
 * others. */
fovea_status fv_os_private_read(const char *path, uint64_t most, void **out, uint64_t *size);
/* Maps a file that belongs to this user or the administrator, is not a link, and is not writable by
 * others. Starts reading all of it from disk. */
fovea_status fv_os_trusted_map(const char *path, const void **data, uint64_t *size, void **handle);
/* Calls `visit` with the path of each file in a folder, except hidden ones. Returns ENOMEM or what
 * `visit` returns. A folder that does not exist counts as empty. */
fovea_status fv_os_each_file(const char *folder, fovea_status (*visit)(void *ctx, const char *path),
                             void *ctx);
/* Removes the oldest files of a folder until the others have at most `most` bytes. Only files whose
 * name `ours` accepts are counted and removed. Errors are ignored. */
void fv_os_trim_folder(const char *path, uint64_t most, bool (*ours)(const char *name));

/* A text that identifies the file from which the code or data at `address` was loaded: path, size
 * and time of change, which differ between versions. "" if the system cannot tell. */
void fv_os_library_of(const void *address, char *out, size_t size);

#endif
