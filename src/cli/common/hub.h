/* hub.h: models of the Hugging Face hub by name: finds them in the cache that huggingface_hub uses,
 * and downloads what is missing.
 *
 *     CACHE/models--OWNER--NAME/refs/REVISION        the commit of a branch
 *                               snapshots/COMMIT/    links with the files' names
 *                               blobs/ETAG           the files */
#ifndef FOVEA_CLI_HUB_H
#define FOVEA_CLI_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HUB_REVISION "main"
#define HUB_CONFIG "config.json"
#define HUB_WEIGHTS "model.safetensors"
#define HUB_INDEX "model.safetensors.index.json" /* lists the files of weights in several parts */

typedef struct hub_model {
    char *name;     /* OWNER/NAME */
    char *revision; /* a branch, tag or commit */
    char *folder;   /* of the model in the cache, which may not exist */
} hub_model;

/* hub_cache.c: returns whether `text` has the form OWNER/NAME or OWNER/NAME@REVISION and is not the
 * name of a file. */
bool hub_is_name(const char *text);
void hub_model_begin(hub_model *out, const char *name);
void hub_model_end(hub_model *m);
/* Returns the folder of huggingface_hub, with the token. */
char *hub_home(void);
/* Returns the cache's folder, from HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME. */
char *hub_cache(void);
/* Returns whether HF_HUB_OFFLINE forbids downloads. */
bool hub_is_offline(void);
/* Returns the folder with the files of a commit. */
char *hub_snapshot_of(const hub_model *m, const char *commit);
/* Returns the folder of a model whose files are all in the cache, or NULL. */
char *hub_find(const hub_model *m);
/* Returns whether a folder has a configuration and all weights. */
bool hub_is_whole(const char *folder);
/* Sets *names to the names of the parts of weights that an index lists, for cli_list_free. */
int hub_parts(char ***names, size_t *n, const char *index);
/* Calls `see` with each model in the cache that is whole, in alphabetical order. */
void hub_each(void (*see)(void *ctx, const char *name, const char *folder), void *ctx);

/* ---- hub_client.c: HTTP, with libcurl ---- */

enum { HUB_ETAG = 128, HUB_COMMIT = 41 };

typedef struct hub_answer {
    long status;
    char etag[HUB_ETAG];     /* without quotes */
    char commit[HUB_COMMIT]; /* of the model; empty if the answer has none */
    char error[64];          /* the hub's own error code, such as GatedRepo */
    int64_t size;            /* of the file in bytes; -1: unknown */
    char problem[256];       /* why there was no answer, if status is 0 */
    bool unreachable;        /* the host has no address, or does not accept connections */
    double retry_after;      /* seconds */
} hub_answer;

typedef struct hub_client hub_client;

/* Returns false if this program was built without libcurl. */
bool hub_can_download(void);
/* Opens a client. It sends the user's token, if there is one, only to the hub itself. */
hub_client *hub_client_open(void);
void hub_client_close(hub_client *c);
/* Asks for a file's description. Links to other hosts are not followed. */
void hub_head(hub_client *c, const char *url, hub_answer *out);
/* Appends a file to `to`, which has its first `have` bytes, and is emptied if the server begins
 * again. At most `most` bytes are taken. `seen` is called with the number of bytes so far. */
void hub_get(hub_client *c, const char *url, FILE *to, int64_t have, int64_t most,
             void (*seen)(void *ctx, int64_t bytes), void *ctx, hub_answer *out);

/* ---- hub_digest.c ---- */

/* Returns whether a file has the checksum in its etag: SHA-256, or Git's SHA-1 of a blob. True if
 * the etag is neither. */
bool hub_matches(const char *path, const char *etag);
/* Returns whether the etag is a checksum. */
bool hub_is_checksum(const char *etag);

/* ---- hub_fetch.c ---- */

/* Downloads what is missing of a model, and `more`, other files of it. Sets *folder. */
int hub_fetch(char **folder, const hub_model *m, const char *const *more, size_t n_more);
/* Sets *path to the folder of a model for fovea_model_load: `text` itself unless it names a model
 * of the hub. A model that is not in the cache is downloaded. The caller frees *path. */
int hub_resolve(char **path, const char *text);

#endif
