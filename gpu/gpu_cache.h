/* gpu_cache.h: binaries of programs, kept on disk and exchanged through memory, so that only the
 * first start compiles.
 *
 * An entry is one block of bytes, the same in a file and in memory, where entries follow one
 * another:
 *
 *     | magic, size of the key, of the binary, checksum | key | binary |
 *
 * The key is the text of everything that the binary depends on, and is compared in full. An entry
 * that cannot be trusted (damaged, in a file that another user could have written, or refused by
 * the driver) counts as absent: the program is compiled again and its entry replaced. No failure of
 * the cache makes a plan fail.
 *
 * A cache is used by one thread at a time.
 */
#ifndef FOVEA_GPU_GPU_CACHE_H
#define FOVEA_GPU_GPU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct fv_gpu_cache fv_gpu_cache;

/* Opens the cache in `folder`, which is created if it does not exist. NULL: fovea/kernels/ in
 * $XDG_CACHE_HOME or ~/.cache. "": nothing is kept on disk. A folder that cannot be used is logged
 * once. */
fovea_status fv_gpu_cache_open(fv_gpu_cache **out, const char *folder);
void fv_gpu_cache_close(fv_gpu_cache *c); /* NULL is fine; logs hit and miss counts */
/* The folder in use, or NULL if nothing is kept on disk. Thread-safe. */
const char *fv_gpu_cache_place(const fv_gpu_cache *c);

typedef struct fv_gpu_key {
    char *text;
    uint64_t size;
} fv_gpu_key;
/* Makes a key by joining `count` texts. Different lists of texts always give different keys. */
fovea_status fv_gpu_key_make(fv_gpu_key *out, const char *const *part, uint32_t count);
void fv_gpu_key_free(fv_gpu_key *k);
/* Text number `index` of a key, "" if it has fewer; and its last text. */
const char *fv_gpu_key_text(const fv_gpu_key *k, uint32_t index);
const char *fv_gpu_key_last(const fv_gpu_key *k);
/* The hash that names a key's files, as FV_GPU_NAME_DIGITS hexadecimal digits. */
enum { FV_GPU_NAME_DIGITS = 16 };
uint64_t fv_gpu_key_hash(const fv_gpu_key *k);

typedef struct fv_gpu_binary {
    const void *data;
    uint64_t size;
    void *owner; /* what fv_gpu_binary_free frees, or NULL */
} fv_gpu_binary;
/* Finds the binary for a key; false if there is none that can be trusted. `name` is for the log. */
bool fv_gpu_cache_find(fv_gpu_cache *c, const fv_gpu_key *k, const char *name, fv_gpu_binary *out);
void fv_gpu_binary_free(fv_gpu_binary *b);
/* To be called when the driver has accepted the binary that was found. */
void fv_gpu_cache_hit(fv_gpu_cache *c, const char *name);
/* To be called when the driver has rejected it: the program is compiled, and its entry replaced. */
void fv_gpu_cache_refused(fv_gpu_cache *c, const char *name);
/* Stores a binary that was just compiled. EIO for the first one that cannot be written; later ones
 * are skipped without an error. */
fovea_status fv_gpu_cache_store(fv_gpu_cache *c, const fv_gpu_key *k, const char *name,
                                const void *data, uint64_t size);
/* A program was compiled. */
void fv_gpu_cache_built(fv_gpu_cache *c, const char *name, double seconds);

/* The size of an entry in memory; and a function that writes it. */
uint64_t fv_gpu_entry_size(const fv_gpu_key *k, uint64_t binary_size);
void fv_gpu_entry_write(void *out, const fv_gpu_key *k, const void *data, uint64_t size);
/* EFORMAT if any of the packed entries is damaged. Entries of another version of the library are
 * accepted. */
fovea_status fv_gpu_entries_check(const void *data, uint64_t size);

/* Reads the entry that `data` begins with. Returns its size in bytes, 0 if it is damaged; *key and
 * *binary then point into `data`. */
uint64_t fv_gpu_entry_read(const void *data, uint64_t size, fv_gpu_key *key, fv_gpu_binary *binary);
/* Whether a file name is that of an entry, or of a temporary file that becomes one. */
bool fv_gpu_entry_name(const char *name);
/* The folder that fv_gpu_cache_open would use, to be freed by the caller; the folder is not
 * created. EIO if no folder can be used. */
fovea_status fv_gpu_cache_folder(char **out, const char *folder);

#endif
