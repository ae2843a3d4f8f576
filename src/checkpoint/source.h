/* source.h: an opened checkpoint: finds its tensors by name, whichever files store them.
 *
 * A tensor is found by its plain name: its name without the components that wrappers of modules add
 * (wrappers.h).
 *
 * The index of a sharded checkpoint lists the tensors. A shard is opened when one of its tensors is
 * looked up. Shards with other parts of a larger model may therefore be missing. */
#ifndef FOVEA_SRC_SOURCE_H
#define FOVEA_SRC_SOURCE_H

#include "checkpoint/safetensors.h"

#define FV_SOURCE_PREFIX 96 /* bytes */
#define FV_SOURCE_ROOT                                                                             \
    (64 + FV_SOURCE_PREFIX) /* bytes of a prefix and of the names after it under which a program   \
                               stores a model */

typedef struct fv_source {
    char prefix[FV_SOURCE_PREFIX]; /* prefix of the model's tensors; or empty */
    char *name; /* name in messages: the file, the index of the shards, "synthetic:..." */
    uint32_t files;
    fv_safetensors **file; /* the open files */
    const fv_store *store; /* contains the shards; owned by the caller */
    json_t *map;           /* "weight_map" of an index: the file of each tensor */
    fv_tensor *listed;     /* tensors that the index lists */
    fovea_status failed;   /* status of a shard that could not be opened */
    char failure[FV_MESSAGE];
    uint32_t made, made_limit; /* number of tensors of a synthetic checkpoint, and its capacity */
    fv_tensor *tensor;
    struct fv_put {
        struct fv_put *next;
        fv_tensor tensor;
    } * put; /* tensors that were added in memory and are in no file */
    uint32_t count;
    const fv_tensor **by_name; /* all tensors, sorted by their plain names */
    uint8_t *mark;             /* mark of by_name[i]: enum fv_mark of the tensor reader, 0 at
                                  first */
    char root[FV_SOURCE_ROOT], other[FV_SOURCE_ROOT]; /* if a model is stored twice: the prefix
                                                         that is read, and the other prefix */
    bool twice;
    bool renamed;   /* the model's tensors have other plain names than in the file */
    uint64_t bytes; /* total size of the open files in bytes */
} fv_source;

/* Opens one safetensors file. Takes ownership of its bytes, and closes them on failure. */
fovea_status fv_source_open_file(fv_source **out, fv_blob *bytes);
/* Opens an index of shards, but none of the shards. `store` contains the shards, and must stay open
 * as long as *out. */
fovea_status fv_source_open_index(fv_source **out, const fv_store *store, const fv_blob *index);
/* Opens the shards that are not open yet. */
fovea_status fv_source_open_all(fv_source *s);
/* Returns the error of a shard that fv_source_find could not open, or FOVEA_OK. */
fovea_status fv_source_failed(const fv_source *s);
/* Returns FOVEA_EIO if one of its files was written to since it was opened. */
fovea_status fv_source_unchanged(const fv_source *s); /* NULL is allowed */
void fv_source_close(fv_source *s);                   /* NULL is allowed */

/* Limits the model to the tensors whose names begin with `prefix`; the last dot of the prefix may
 * be omitted. Returns FOVEA_EFORMAT if there are no such tensors. */
fovea_status fv_source_behind(fv_source *s, const char *prefix);

/* Makes a checkpoint without files, with at most `limit` tensors. Call fv_source_index after adding
 * the last tensor. */
fovea_status fv_source_make(fv_source **out, const char *name, uint32_t limit);
/* Adds a float32 tensor of random values, uniformly distributed from mean - spread to mean +
 * spread. */
fovea_status fv_source_add(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread);
/* Sorts the tensors by name. Returns FOVEA_EFORMAT if two have the same name. */
fovea_status fv_source_index(fv_source *s);

/* Adds a float32 tensor of random values to an indexed checkpoint; it replaces a tensor of the same
 * name. The other tensors keep their marks. */
fovea_status fv_source_put(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread, uint64_t seed);

/* Gives tensors whose plain names begin with `from` the prefix `to` instead. The new names are the
 * plain ones, under which a model is saved. Other tensors are not part of it. */
fovea_status fv_source_rename(fv_source *s, const char *from, const char *to);

/* Returns a hash of the names, types, shapes and a sample of the values of all tensors. */
uint64_t fv_source_fingerprint(const fv_source *s);

/* Returns the tensor with a plain name, or NULL. Opens its shard, which may change indices in
 * by_name. */
const fv_tensor *fv_source_find(const fv_source *s, const char *name);
/* Returns whether a tensor with a name exists. Opens no file. */
bool fv_source_lists(const fv_source *s, const char *name);
/* Returns the index in by_name of a tensor of this checkpoint. */
uint32_t fv_source_place(const fv_source *s, const fv_tensor *tensor);

#endif
