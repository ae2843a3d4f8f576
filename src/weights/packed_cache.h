/* packed_cache.h: keeps packed weights in files, which every process that loads the model maps.
 *
 * A file is one packed weight:
 *
 *     | magic, checksum, size, key ... 4096 bytes | the packed weight |
 *
 * The key is everything that decides the packed bytes: the library's file, the format and knobs,
 * how the weight is put together, and its tensors. A tensor of a file on the disk is identified by
 * that file and the tensor's offset, a tensor in memory by a checksum of its bytes. All of the key
 * is compared.
 *
 * A damaged file counts as absent, and is replaced. To find damage, the checksum of all its bytes
 * is computed when it is mapped; a frame would read them anyway. Files of other users, and files
 * that others may write to, are not read. No failure here makes a plan fail.
 */
#ifndef FOVEA_SRC_PACKED_CACHE_H
#define FOVEA_SRC_PACKED_CACHE_H

#include <stdbool.h>

#include "weights/equalised.h"
#include "weights/packed.h"

typedef struct fv_packed_cache fv_packed_cache;

/* Returns the folder that the caller named, or that of FOVEA_WEIGHTS_CACHE if it named none. ""
 * means that there is no cache. */
const char *fv_packed_cache_folder(const char *named);

/* Opens the cache in a folder. Sets *out to NULL if `folder` is "" or NULL.
 * Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_packed_cache_open(fv_packed_cache **out, const char *folder);
void fv_packed_cache_close(fv_packed_cache *c); /* NULL is allowed; logs how the cache was used */

/* All data that decides the bytes of a packed weight, as numbers: two weights with equal keys have
 * the same bytes. */
typedef struct fv_packed_key {
    uint32_t count;
    uint64_t number[192];
} fv_packed_key;
/* Makes the key of a packed weight, all of whose fields are set except its bytes. Returns false if
 * the weight has no file, because there is no cache or the weight is small. */
bool fv_packed_key_make(fv_packed_key *out, const fv_packed_cache *c, const fv_packed *p);
/* Makes the key of the exponents of channels, one byte each. They are cached like a packed weight,
 * because computing them requires reading all weights that a plan maps. */
bool fv_packed_key_equalised(fv_packed_key *out, const fv_packed_cache *c,
                             const fv_equal_sources *s);

/* Maps the weight's bytes, and sets p->data and p->map. Returns false if the cache does not have
 * them. */
bool fv_packed_cache_find(fv_packed_cache *c, const fv_packed_key *k, fv_packed *p);
/* Writes p->data to the cache. Returns whether the cache has it afterwards. */
bool fv_packed_cache_store(fv_packed_cache *c, const fv_packed_key *k, const fv_packed *p);

/* Returns whether a file name is that of a packed weight, complete or still being written. */
bool fv_packed_file_name(const char *name);

#endif
