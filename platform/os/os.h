/* os.h: files as the library needs them: mapped to read, replaced as a whole to write; and folders
 * that are this user's alone. */
#ifndef FOVEA_PLATFORM_OS_H
#define FOVEA_PLATFORM_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum fv_os_kind { FV_OS_NOTHING, FV_OS_FILE, FV_OS_FOLDER, FV_OS_OTHER };

/* What `path` is, links followed. */
enum fv_os_kind fv_os_look(const char *path);

/* Maps a whole regular file to read. An empty file gives size 0 and data NULL. Whoever shortens the
 * file while it is mapped breaks the program. EIO names the path and the reason. */
fovea_status fv_os_map(const char *path, const void **data, uint64_t *size, void **handle);
/* The same for `size` bytes (0: all up to the end) from `offset` on of a file that is
 * open as `fd`, which stays open until they are unmapped. EIO where the file ends before. */
fovea_status fv_os_map_part(int fd, uint64_t offset, uint64_t part, const char *name,
                            const void **data, uint64_t *size, void **handle);
void fv_os_unmap(void *handle); /* NULL is fine */
/* A descriptor of the same open file, for this process alone; EIO names `name`. */
fovea_status fv_os_duplicate(int *out, int fd, const char *name);
void fv_os_close(int fd);
/* EIO when the file, which was mapped as `path`, was written to or cut since: its bytes are no
 * longer what was checked, and those past a cut end the process. NULL is fine. */
fovea_status fv_os_unchanged(const void *handle, const char *path);

/* What tells the mapped file, and this state of it, from all others: numbers of the file system.
 * False where a write that is still to come might not change them, because the file was changed a
 * moment before it was mapped; `handle` NULL. */
#define FV_OS_IDENTITY 5
bool fv_os_identity(const void *handle, uint64_t id[FV_OS_IDENTITY]);

/* Gives the memory of mapped pages back; reading them again reads the file again. */
void fv_os_release_pages(const void *data, uint64_t size);

/* A new file that replaces `path` at the end, or never: the old file stays until fv_os_replace_end
 * has written everything to the disk. `only_ours`: no other user may read it. */
typedef struct fv_os_replace fv_os_replace;
fovea_status fv_os_replace_begin(fv_os_replace **out, const char *path, bool only_ours);
fovea_status fv_os_replace_write(fv_os_replace *r, const void *data, uint64_t size);
/* Releases r. `written`: how writing went; the file is only replaced where all of it was. */
fovea_status fv_os_replace_end(fv_os_replace *r, fovea_status written);
/* The same without waiting for the disk: after a loss of power the file may be damaged. */
fovea_status fv_os_replace_end_soon(fv_os_replace *r, fovea_status written);
/* All of it in one call. */
fovea_status fv_os_replace_file(const char *path, bool only_ours, const void *data, uint64_t size);

/* Locks the folder that contains `path` against others that ask for the same, in this process or
 * another. After 2 s, or without lock support, proceeds unlocked (advisory lock). ENOMEM. */
fovea_status fv_os_lock_folder(int *out, const char *path);
void fv_os_unlock_folder(int lock);

/* Locks `path` against others that ask for the same, in this process or another, by a file in the
 * same folder that is removed with the lock. *out NULL: somebody else holds it. File systems
 * without locks grant it to everybody. EIO, ENOMEM. */
typedef struct fv_os_lock fv_os_lock;
fovea_status fv_os_lock_file(fv_os_lock **out, const char *path);
void fv_os_unlock_file(fv_os_lock *lock); /* NULL is fine */

/* Makes a folder for this user alone, with its parents, where there is none. EIO when it cannot be
 * made, is another user's, or others may write to it. */
fovea_status fv_os_private_folder(const char *path);
/* Makes a folder that others may see too, as far as the user's mask has it, with its parents, where
 * there is none. EIO. */
fovea_status fv_os_folder(const char *path);
/* Reads a regular file of at most `most` bytes; EIO else. *out is freed with fv_mem_free. */
fovea_status fv_os_read(const char *path, uint64_t most, void **out, uint64_t *size);
/* The same for a file that belongs to this user, is not a link, and is writable by nobody else. */
fovea_status fv_os_private_read(const char *path, uint64_t most, void **out, uint64_t *size);
/* Maps a file that belongs to this user or the administrator, is not a link, and is writable by
 * nobody else; the disk begins to read all of it. */
fovea_status fv_os_trusted_map(const char *path, const void **data, uint64_t *size, void **handle);
/* Calls `visit` with the path of each file of a folder, hidden ones left out; ENOMEM, or what
 * `visit` gives. A folder that is not there has none. */
fovea_status fv_os_each_file(const char *folder, fovea_status (*visit)(void *ctx, const char *path),
                             void *ctx);
/* Removes the oldest files of a folder until the rest has at most `most` bytes; only files whose
 * name `ours` knows are counted or removed. Best effort. */
void fv_os_trim_folder(const char *path, uint64_t most, bool (*ours)(const char *name));

/* Text of the file that the code or data at `address` was loaded from: path, size and time of
 * change, which differ between versions; "" where the system cannot tell. */
void fv_os_library_of(const void *address, char *out, size_t size);

#endif
