/* store.h: where the files of a checkpoint are: in a folder, or what a caller has in place of one.
 *
 * Readers ask a store for files by name, and never learn what it is.
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
    void *map;             /* fv_os_map's; NULL: the bytes are a caller's */
    const fv_store *store; /* that releases them; NULL: nobody does */
} fv_blob;

/* Maps the files of a folder; the second function takes the folder that contains the file `path`.
 */
fovea_status fv_store_folder(fv_store **out, const char *folder);
fovea_status fv_store_folder_of(fv_store **out, const char *path);
/* Those of a caller. EINVAL. */
fovea_status fv_store_source(fv_store **out, const fovea_model_source *source);
/* Blobs must be closed before. NULL is fine. */
void fv_store_close(fv_store *s);

/* The file `name`; blob->path is NULL where there is none such. EIO, ENOMEM. */
fovea_status fv_store_open(const fv_store *s, fv_blob *blob, const char *name);
/* The same for a file that must be there: EIO else. */
fovea_status fv_store_need(const fv_store *s, fv_blob *blob, const char *name);
/* The folder of fv_store_folder, or NULL. */
const char *fv_store_path(const fv_store *s);
/* What messages call the whole. */
const char *fv_store_name(const fv_store *s);

/* A file by its path; and bytes that stay the caller's, by a name for messages. */
fovea_status fv_blob_map(fv_blob *blob, const char *path);
fovea_status fv_blob_of(fv_blob *blob, const char *path, const void *data, uint64_t size);
void fv_blob_close(fv_blob *blob); /* one that was never opened, all zeros, is fine */

#endif
