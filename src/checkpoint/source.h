/* source.h: an opened checkpoint: finds its tensors by name, whichever files store them.
 *
 * A tensor is found by its plain name: its name without the components that wrappers of modules add
 * (wrappers.h).
 *
 * The index of a sharded checkpoint lists the tensors. A shard is opened when one of its tensors is
 * looked up, so that shards with other parts of a larger model may be absent.
 */
#ifndef FOVEA_SRC_SOURCE_H
#define FOVEA_SRC_SOURCE_H

#include "checkpoint/safetensors.h"

#define FV_SOURCE_PREFIX 96 /* bytes */
#define FV_SOURCE_ROOT                                                                             \
    (64 + FV_SOURCE_PREFIX) /* of a prefix and the names after it under which a program keeps a    \
                               model */

typedef struct fv_source {
    char prefix[FV_SOURCE_PREFIX]; /* prefix of the model's tensors; or empty */
    char *name; /* what messages call it: the file, the index of the shards, "synthetic:..." */
    uint32_t files;
    fv_safetensors **file; /* those that are open */
    const fv_store *store; /* has the shards; owned by the caller */
    json_t *map;           /* "weight_map" of an index: file of each tensor */
    fv_tensor *listed;     /* its tensors */
    fovea_status failed;   /* status of a shard that could not be opened */
    char failure[FV_MESSAGE];
    uint32_t made, made_limit; /* tensors of a synthetic checkpoint */
    fv_tensor *tensor;
    struct fv_put {
        struct fv_put *next;
        fv_tensor tensor;
    } * put; /* tensors that were added in memory and are in no file */
    uint32_t count;
    const fv_tensor **by_name; /* all tensors, sorted by their plain names */
    uint8_t *mark;             /* of by_name[i]: enum fv_mark of the tensor reader, 0 at first */
    char root[FV_SOURCE_ROOT], other[FV_SOURCE_ROOT]; /* of a model that is stored twice: the prefix
                                                         that is read, and the one that is not */
    bool twice;
    uint64_t bytes; /* total size of the files that are open */
} fv_source;

/* Opens one safetensors file. Takes ownership of its bytes, and closes them if it fails. */
fovea_status fv_source_open_file(fv_source **out, fv_blob *bytes);
/* Opens an index of shards, but none of the shards. They are in `store`, which must stay open as
 * long as *out. */
fovea_status fv_source_open_index(fv_source **out, const fv_store *store, const fv_blob *index);
/* Opens the shards that are not open yet. */
fovea_status fv_source_open_all(fv_source *s);
/* The error of a shard that fv_source_find could not open, or FOVEA_OK. */
fovea_status fv_source_failed(const fv_source *s);
/* EIO when one of its files was written to since it was opened. */
fovea_status fv_source_unchanged(const fv_source *s); /* NULL is fine */
void fv_source_close(fv_source *s);                   /* NULL is fine */

/* Makes the model's tensors those whose names begin with `prefix`, whose last point may be omitted.
 * EFORMAT if there are no such tensors. */
fovea_status fv_source_behind(fv_source *s, const char *prefix);

/* Makes a checkpoint without files, of at most `limit` tensors; call fv_source_index after adding
 * the last one. */
fovea_status fv_source_make(fv_source **out, const char *name, uint32_t limit);
/* Adds a float32 tensor of random values, uniform in mean - spread ... mean + spread. */
fovea_status fv_source_add(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread);
/* Sorts the tensors by name. EFORMAT if two have the same name. */
fovea_status fv_source_index(fv_source *s);

/* Adds a float32 tensor of such values to an indexed checkpoint; it replaces a tensor of the same
 * name. The other tensors keep their marks. */
fovea_status fv_source_put(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread, uint64_t seed);

/* A hash over names, types, shapes and a sample of the values of all tensors. */
uint64_t fv_source_fingerprint(const fv_source *s);

/* The tensor of that plain name, or NULL. Opens its shard, which may change indices in by_name. */
const fv_tensor *fv_source_find(const fv_source *s, const char *name);
/* Whether there is a tensor of that name; opens nothing. */
bool fv_source_lists(const fv_source *s, const char *name);
/* Index in by_name of a tensor of this checkpoint. */
uint32_t fv_source_place(const fv_source *s, const fv_tensor *tensor);

#endif
