/* fuzz_cache.c: imports arbitrary bytes as compiled kernels, and reads them as a cache folder.
 * Checksums are corrected first, otherwise only the checksum would be tested.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/gpu_cache.h"
#include "tests/fuzz/fuzz.h"

enum { HEAD = 32, SUM = 24 };

static uint64_t fnv(uint64_t h, const uint8_t *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        h = (h ^ data[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* Corrects the checksum of every entry whose sizes are valid. */
static void put_sums_right(uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= HEAD;) {
        uint64_t key, binary, sum = UINT64_C(0xcbf29ce484222325);
        memcpy(&key, data + at + 8, 8);
        memcpy(&binary, data + at + 16, 8);
        const uint64_t left = size - at - HEAD;
        if (key > left || binary > left - key)
            return;
        sum = fnv(sum, data + at + 8, 16);
        sum = fnv(sum, data + at + HEAD, key + binary);
        memcpy(data + at + SUM, &sum, 8);
        at += HEAD + (size_t)(key + binary);
    }
}

static int count(const fovea_cache_entry *e, void *payload)
{
    fuzz_check(e->file && e->device && e->program && e->problem, "an entry's texts");
    *(size_t *)payload += strlen(e->device) + strlen(e->program) + 1;
    return 0;
}

static void check(const uint8_t *data, size_t size)
{
    fv_gpu_key key;
    fv_gpu_binary binary;
    if (fv_gpu_entries_check(data, size) != FOVEA_OK)
        return;
    fuzz_taken++;
    for (uint64_t at = 0, n; at < size; at += n) {
        n = fv_gpu_entry_read(data + at, size - at, &key, &binary);
        if (n == 0) /* an entry of another version */
            break;
        fnv(fnv(0, (const uint8_t *)key.text, key.size), binary.data, binary.size);
    }
}

/* Accepted entries must be found in full. */
static void keep(const uint8_t *data, size_t size)
{
    size_t added = 0, packed = 0, seen = 0, removed;
    if (fovea_cache_unpack(fuzz_folder(), data, size, &added) == FOVEA_OK) {
        fuzz_check(fovea_cache_pack(fuzz_folder(), NULL, 0, &packed) == FOVEA_OK, fovea_error());
        fuzz_check((packed > 0) == (added > 0) && packed <= size, "entries that were kept");
    }
    fuzz_check(fovea_cache_list(fuzz_folder(), count, &seen) == FOVEA_OK, fovea_error());
    fuzz_check(fovea_cache_clear(fuzz_folder(), &removed) == FOVEA_OK, fovea_error());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *own = malloc(size ? size : 1);
    fuzz_check(own != NULL, "memory");
    memcpy(own, data, size);
    put_sums_right(own, size);
    check(own, size);
    keep(own, size);
    free(own);
    return 0;
}

/* Seeds: entries of one program and of three. */
size_t fuzz_seed(size_t index, uint8_t *out, size_t left)
{
    static const char *const parts[][3] = {
        {"driver\nplatform\n1\ndevice", "-D X", "/* gemm.cl: a product */"},
        {"driver\nplatform\n1\ndevice", "-D Y", "// softmax"},
        {"driver", "", ""},
    };
    size_t used = 0;
    if (index > 1)
        return 0;
    for (size_t i = 0; i < (index ? 3 : 1); i++) {
        fv_gpu_key key;
        fuzz_check(fv_gpu_key_make(&key, parts[i], 3) == FOVEA_OK, fovea_error());
        fuzz_check(used + fv_gpu_entry_size(&key, 40) <= left, "room for a seed");
        fv_gpu_entry_write(out + used, &key, parts, 40);
        used += (size_t)fv_gpu_entry_size(&key, 40);
        fv_gpu_key_free(&key);
    }
    return used;
}
