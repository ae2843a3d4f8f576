/* os.h: maps files for reading, replaces files as a whole, and creates folders that only this user
 * can access. */
#ifndef FOVEA_PLATFORM_OS_H
#define FOVEA_PLATFORM_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum fv_os_kind { FV_OS_NOTHING, FV_OS_FILE, FV_OS_FOLDER, FV_OS_OTHER };

/* Returns what `path` is. Follows links. */
enum fv_os_kind fv_os_look(const char *path);

/* Maps a whole regular file for reading. An empty file gives size 0 and data NULL. If someone
 * truncates the file while it is mapped, the program crashes. On failure returns FOVEA_EIO; the
 * message names the path and the reason. */
fovea_status fv_os_map(const char *path, const void **data, uint64_t *size, void **handle);
/* Maps a part of the file that is open as `fd`: `part` bytes (0: up to the end) from `offset` on.
 * `fd` must stay open until the part is unmapped. Returns FOVEA_EIO if the file ends before the
 * part does. */
fovea_status fv_os_map_part(int fd, uint64_t offset, uint64_t part, const char *name,
                            const void **data, uint64_t *size, void **handle);
void fv_os_unmap(void *handle); /* NULL is fine */
/* Duplicates a descriptor; the duplicate is not inherited by other programs. On failure returns
 * FOVEA_EIO, with `name` in the message. */
fovea_status fv_os_duplicate(int *out, int fd, const char *name);
void fv_os_close(int fd);
/* Returns FOVEA_EIO if a file that was mapped as `path` has been written to or truncated since. Its
 * bytes are then not those that were checked, and reading beyond its end would crash the process.
 * `handle` may be NULL. */
fovea_status fv_os_unchanged(const void *handle, const char *path);

/* Sets numbers that identify the mapped file and its present state. Returns false if a later write
 * might not change them, because the file had changed just before it was mapped, or if `handle` is
 * NULL. */
#define FV_OS_IDENTITY 5
bool fv_os_identity(const void *handle, uint64_t id[FV_OS_IDENTITY]);

/* Releases the memory of mapped pages; reading them again reads the file again. */
void fv_os_release_pages(const void *data, uint64_t size);

/* A new file that replaces `path`, either completely or not at all: the old file stays until
 * fv_os_replace_end has written everything to disk. With `only_ours` no other user may read the
 * file. */
typedef struct fv_os_replace fv_os_replace;
fovea_status fv_os_replace_begin(fv_os_replace **out, const char *path, bool only_ours);
fovea_status fv_os_replace_write(fv_os_replace *r, const void *data, uint64_t size);
/* Finishes the replacement and releases r. The file is replaced only if `written`, the status of
 * writing, is FOVEA_OK. */
fovea_status fv_os_replace_end(fv_os_replace *r, fovea_status written);
/* Does what fv_os_replace_end() does without waiting for the disk: after a power failure the file
 * may be damaged. */
fovea_status fv_os_replace_end_soon(fv_os_replace *r, fovea_status written);
/* Replaces a file in a single call. */
fovea_status fv_os_replace_file(const char *path, bool only_ours, const void *data, uint64_t size);

/* Locks the folder that contains `path` against others that call this function, in this process or
 * another. If it is still locked after 2 s, or locks are not supported, proceeds without the lock,
 * which is advisory. Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_os_lock_folder(int *out, const char *path);
void fv_os_unlock_folder(int lock);

/* Locks `path` against others that call this function, in this process or another. It uses a file
 * in the same folder, which is removed with the lock. *out is NULL if someone else has the lock. On
 * file systems without locks every caller gets it. Returns FOVEA_EIO or FOVEA_ENOMEM on failure. */
typedef struct fv_os_lock fv_os_lock;
fovea_status fv_os_lock_file(fv_os_lock **out, const char *path);
void fv_os_unlock_file(fv_os_lock *lock); /* NULL is fine */

/* A small file that is locked while it is open, so that another process, or another call of this
 * one, can tell whether the file was left behind by a process that has ended. Opens `path`, which
 * is created for this user alone if it does not exist; a file in a folder that cannot be written to
 * is opened for reading. *out is NULL if someone else has the file open, or if the file system has
 * no locks. Returns FOVEA_EIO if the file cannot be opened or if another user could have written
 * it. */
typedef struct fv_os_note fv_os_note;
fovea_status fv_os_note_open(fv_os_note **out, const char *path);
/* Reads at most `capacity` bytes; returns how many. *age: seconds since the file was written, which
 * are negative if the clock was set back. */
size_t fv_os_note_read(const fv_os_note *n, void *data, size_t capacity, double *age);
/* Overwrites the beginning of the file. An interrupted write may leave a part. */
fovea_status fv_os_note_write(fv_os_note *n, const void *data, size_t size);
/* Ends the lock; the file stays. */
void fv_os_note_unlock(fv_os_note *n);
/* Ends the lock, if it still exists, and removes the file, if that is wanted. */
void fv_os_note_close(fv_os_note *n, bool remove_file); /* NULL is fine */

/* Returns the last part of a path, which points into `path`. */
const char *fv_os_file_name(const char *path);
/* Creates a folder that only this user can access, and its parents, if it does not exist. Returns
 * FOVEA_EIO if the folder cannot be created, belongs to another user, or is writable by others. */
fovea_status fv_os_private_folder(const char *path);
/* Creates a folder that others may access too, as the user's umask allows, and its parents, if it
 * does not exist. Returns FOVEA_EIO on failure. */
fovea_status fv_os_folder(const char *path);
/* Returns whether this user may write to a folder, or may create it. */
bool fv_os_may_write_folder(const char *path);
/* Reads a regular file of at most `most` bytes into *out, which the caller frees with fv_mem_free.
 * Returns FOVEA_EIO if the file is larger, not regular, or not readable. */
fovea_status fv_os_read(const char *path, uint64_t most, void **out, uint64_t *size);
/* Does what fv_os_read() does, but only for a file that belongs to this user, is not a link, and is
 * not writable by others. */
fovea_status fv_os_private_read(const char *path, uint64_t most, void **out, uint64_t *size);
/* Maps a file that belongs to this user or the administrator, is not a link, and is not writable by
 * others. Starts reading the whole file from disk. */
fovea_status fv_os_trusted_map(const char *path, const void **data, uint64_t *size, void **handle);
/* Calls `visit` with the path of each file in a folder, except hidden ones. Returns ENOMEM or what
 * `visit` returns. A folder that does not exist counts as empty. */
fovea_status fv_os_each_file(const char *folder, fovea_status (*visit)(void *ctx, const char *path),
                             void *ctx);
/* Removes the oldest files of a folder until the others have at most `most` bytes. Only files whose
 * name `ours` accepts are counted and removed. Errors are ignored. */
void fv_os_trim_folder(const char *path, uint64_t most, bool (*ours)(const char *name));

/* Writes to `out` a text that identifies the file from which the code or data at `address` was
 * loaded: path, size and time of change, which differ between versions. The text is "" if the
 * system cannot tell. */
void fv_os_library_of(const void *address, char *out, size_t size);

#endif
