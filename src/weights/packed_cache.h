/* packed_cache.h: packed weights in files, which every process that loads the model maps.
 *
 * A file is one packed weight:
 *
 *     | magic, checksum, size, key ... 4096 bytes | the packed weight |
 *
 * The key is everything that decides the packed bytes: the library's file, format and knobs, how
 * the weight is put together, and what its tensors are: of a file on the disk the file's identity
 * and the place in it, of bytes in memory a sum over them. It is compared in full.
 *
 * A file whose bytes are not those that were written, for whatever reason, counts as absent, and is
 * replaced: all of them are summed when it is mapped, which is what a frame would read anyway.
 * Files of other users, and those that others may write to, are not read. Nothing here makes a plan
 * fail.
 */
#ifndef FOVEA_SRC_PACKED_CACHE_H
#define FOVEA_SRC_PACKED_CACHE_H

#include <stdbool.h>

#include "weights/equalised.h"
#include "weights/packed.h"

typedef struct fv_packed_cache fv_packed_cache;

/* The folder that a caller has named, or else the environment; "": none. */
const char *fv_packed_cache_folder(const char *named);

/* The cache in such a folder; none (*out NULL) for "" and NULL. ENOMEM. */
fovea_status fv_packed_cache_open(fv_packed_cache **out, const char *folder);
void fv_packed_cache_close(fv_packed_cache *c); /* NULL is fine; logs what it did */

/* All that decides the bytes of a packed weight, as numbers: two weights with equal keys have the
 * same bytes. */
typedef struct fv_packed_key {
    uint32_t count;
    uint64_t number[192];
} fv_packed_key;
/* Makes the key of a packed weight, of which all is set but its bytes. False: it is not worth a
 * file. */
bool fv_packed_key_make(fv_packed_key *out, const fv_packed_cache *c, const fv_packed *p);
/* The key of the exponents of channels, a byte each, which are cached like a packed weight. They
 * are computed from all weights that a plan maps. */
bool fv_packed_key_equalised(fv_packed_key *out, const fv_packed_cache *c,
                             const fv_equal_sources *s);

/* Maps the weight's bytes: p->data, p->map. False if the cache does not have them. */
bool fv_packed_cache_find(fv_packed_cache *c, const fv_packed_key *k, fv_packed *p);
/* Writes p->data. True if the cache has it now. */
bool fv_packed_cache_store(fv_packed_cache *c, const fv_packed_key *k, const fv_packed *p);

/* Whether a file name is that of a packed weight, or of one that is being written. */
bool fv_packed_file_name(const char *name);

#endif
