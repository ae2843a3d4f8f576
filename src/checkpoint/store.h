/* store.h: the files of a checkpoint, in a folder or from a caller's source. Readers ask a store
 * for files by name, and do not know how it gets them. */
#ifndef FOVEA_SRC_STORE_H
#define FOVEA_SRC_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <fovea/models.h>

#include "base/status.h"

typedef struct fv_store fv_store;

/* The bytes of one file. */
typedef struct fv_blob {
    char *path; /* name in messages: "folder/config.json" */
    const void *data;
    uint64_t size;
    void *map;             /* mapping by fv_os_map; NULL: the bytes belong to a caller */
    const fv_store *store; /* the store that releases them; NULL: they are not released */
} fv_blob;

/* Make a store that maps the files of a folder. The second function uses the folder that contains
 * the file `path`. */
fovea_status fv_store_folder(fv_store **out, const char *folder);
fovea_status fv_store_folder_of(fv_store **out, const char *path);
/* Makes a store of a caller's files. Returns FOVEA_EINVAL for a malformed source. */
fovea_status fv_store_source(fv_store **out, const fovea_model_source *source);
/* Closes a store. All of its blobs must be closed before. NULL is allowed. */
void fv_store_close(fv_store *s);

/* Opens the file `name`. blob->path is NULL if it does not exist. Returns FOVEA_EIO if it cannot be
 * read, or FOVEA_ENOMEM. */
fovea_status fv_store_open(const fv_store *s, fv_blob *blob, const char *name);
/* Opens a file that must exist. Returns FOVEA_EIO if it does not. */
fovea_status fv_store_need(const fv_store *s, fv_blob *blob, const char *name);
/* Returns the folder of fv_store_folder, or NULL. */
const char *fv_store_path(const fv_store *s);
/* Returns the store's name in messages. */
const char *fv_store_name(const fv_store *s);

/* fv_blob_map maps a file by its path. fv_blob_of refers to bytes that stay the caller's; `path` is
 * their name in messages. */
fovea_status fv_blob_map(fv_blob *blob, const char *path);
fovea_status fv_blob_of(fv_blob *blob, const char *path, const void *data, uint64_t size);
void fv_blob_close(fv_blob *blob); /* a blob of zeros, which was never opened, is allowed */

#endif
