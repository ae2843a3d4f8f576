/* store.h: the files of a checkpoint, from a folder or from what a caller has in place of one.
 *
 * Readers ask a store for files by name, and do not know where it gets them from.
 */
#ifndef FOVEA_SRC_STORE_H
#define FOVEA_SRC_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <fovea/models.h>

#include "base/status.h"

typedef struct fv_store fv_store;

/* The bytes of one file. */
typedef struct fv_blob {
    char *path; /* what messages call it: "folder/config.json" */
    const void *data;
    uint64_t size;
    void *map;             /* mapping by fv_os_map; NULL: the bytes belong to a caller */
    const fv_store *store; /* the store that releases them; NULL: they are not released */
} fv_blob;

/* Makes a store that maps the files of a folder; for the second function, of the folder that
 * contains the file `path`. */
fovea_status fv_store_folder(fv_store **out, const char *folder);
fovea_status fv_store_folder_of(fv_store **out, const char *path);
/* Makes a store of a caller's files. EINVAL. */
fovea_status fv_store_source(fv_store **out, const fovea_model_source *source);
/* All blobs of the store must be closed before. NULL is fine. */
void fv_store_close(fv_store *s);

/* Opens the file `name`; blob->path is NULL if it does not exist. EIO, ENOMEM. */
fovea_status fv_store_open(const fv_store *s, fv_blob *blob, const char *name);
/* The same for a file that must exist: EIO if it does not. */
fovea_status fv_store_need(const fv_store *s, fv_blob *blob, const char *name);
/* The folder of fv_store_folder, or NULL. */
const char *fv_store_path(const fv_store *s);
/* The store's name in messages. */
const char *fv_store_name(const fv_store *s);

/* fv_blob_map maps a file by its path. fv_blob_of refers to bytes that stay the caller's; `path` is
 * their name in messages. */
fovea_status fv_blob_map(fv_blob *blob, const char *path);
fovea_status fv_blob_of(fv_blob *blob, const char *path, const void *data, uint64_t size);
void fv_blob_close(fv_blob *blob); /* a blob that was never opened, all zeros, is fine */

#endif
