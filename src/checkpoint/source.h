/* source.h: an opened checkpoint: its tensors by name, whichever files store them.
 *
 * A tensor is found by its plain name, which wrappers of modules have not changed (wrappers.h).
 *
 * The index of a sharded one has their names. A shard is opened when one of its tensors is looked
 * up: those of the other parts of a larger model may be absent.
 */
#ifndef FOVEA_SRC_SOURCE_H
#define FOVEA_SRC_SOURCE_H

#include "checkpoint/safetensors.h"

#define FV_SOURCE_PREFIX 96 /* bytes */
#define FV_SOURCE_ROOT                                                                             \
    (64 + FV_SOURCE_PREFIX) /* of a prefix and where a model is kept after it                      \
                             */

typedef struct fv_source {
    char prefix[FV_SOURCE_PREFIX]; /* of the tensors that make the model; or empty */
    char *name; /* what messages call it: the file, the index of the shards, "synthetic:..." */
    uint32_t files;
    fv_safetensors **file; /* those that are open */
    const fv_store *store; /* of the shards; not its own */
    json_t *map;           /* of an index: tensor to file */
    fv_tensor *listed;     /* its tensors */
    fovea_status failed;   /* of a shard that could not be opened */
    char failure[FV_MESSAGE];
    uint32_t made, made_limit; /* tensors of a synthetic checkpoint */
    fv_tensor *tensor;
    struct fv_put {
        struct fv_put *next;
        fv_tensor tensor;
    } * put; /* tensors that were added in memory, to no file */
    uint32_t count;
    const fv_tensor **by_name; /* sorted by plain names, by which tensors are found */
    uint8_t *mark;             /* of by_name[i]: enum fv_mark of the tensor reader, 0 at first */
    char root[FV_SOURCE_ROOT], other[FV_SOURCE_ROOT]; /* where a model is kept twice: what is read,
                                                         and what is not */
    bool twice;
    uint64_t bytes; /* of its files that are open */
} fv_source;

/* One safetensors file, whose bytes it takes over, or closes where it fails. */
fovea_status fv_source_open_file(fv_source **out, fv_blob *bytes);
/* The index of shards in `store`, which stays open as long; opens none of them. */
fovea_status fv_source_open_index(fv_source **out, const fv_store *store, const fv_blob *index);
/* Opens the shards that are not open yet. */
fovea_status fv_source_open_all(fv_source *s);
/* What kept a shard from being opened while fv_source_find looked for one of its tensors. */
fovea_status fv_source_failed(const fv_source *s);
/* EIO when one of its files was written to since it was opened. */
fovea_status fv_source_unchanged(const fv_source *s); /* NULL is fine */
void fv_source_close(fv_source *s);                   /* NULL is fine */

/* The model's tensors are those whose names begin with `prefix`, whose last point may be omitted.
 * EFORMAT if there are none. */
fovea_status fv_source_behind(fv_source *s, const char *prefix);

/* A checkpoint without files, of at most `limit` tensors; call fv_source_index after the last one.
 */
fovea_status fv_source_make(fv_source **out, const char *name, uint32_t limit);
/* A float32 tensor with values spread evenly over mean - spread ... mean + spread. */
fovea_status fv_source_add(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread);
/* Sorts by name. EFORMAT when a name comes twice. */
fovea_status fv_source_index(fv_source *s);

/* Adds a float32 tensor of such values to an indexed checkpoint, in place of one of that name. The
 * other tensors keep their marks. */
fovea_status fv_source_put(fv_source *s, const char *name, uint32_t rank, const uint64_t *shape,
                           float mean, float spread, uint64_t seed);

/* A hash over names, types, shapes and a sample of the values of all tensors. */
uint64_t fv_source_fingerprint(const fv_source *s);

/* The tensor of that plain name, its shard opened, or NULL. Opening changes indices in by_name. */
const fv_tensor *fv_source_find(const fv_source *s, const char *name);
/* Whether there is a tensor of that name; opens nothing. */
bool fv_source_lists(const fv_source *s, const char *name);
/* Index in by_name of a tensor of this checkpoint. */
uint32_t fv_source_place(const fv_source *s, const fv_tensor *tensor);

#endif
