/* safetensors.c: reads and checks the header of a safetensors file. */
#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/config.h"
#include "checkpoint/foreign.h"
#include "platform/os/os.h"

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the files' little-endian numbers are read without conversion: build for little-endian"
#endif

#define HEADER_LIMIT 100000000 /* the limit of the reference implementation */
#define RANK (sizeof((fv_tensor *)0)->shape / sizeof(uint64_t))

const fv_file_type_info fv_file_types[FV_FILE_TYPES] = {
    [FV_FILE_BOOL] = {"BOOL", 1, false, true},
    [FV_FILE_U8] = {"U8", 1, false, true},
    [FV_FILE_I8] = {"I8", 1, false, true},
    [FV_FILE_F8_E5M2] = {"F8_E5M2", 1, false, false},
    [FV_FILE_F8_E4M3] = {"F8_E4M3", 1, false, false},
    [FV_FILE_F8_E8M0] = {"F8_E8M0", 1, false, false},
    [FV_FILE_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 1, false, false},
    [FV_FILE_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 1, false, false},
    [FV_FILE_I16] = {"I16", 2, false, true},
    [FV_FILE_U16] = {"U16", 2, false, true},
    [FV_FILE_F16] = {"F16", 2, true, true},
    [FV_FILE_BF16] = {"BF16", 2, true, true},
    [FV_FILE_I32] = {"I32", 4, false, true},
    [FV_FILE_U32] = {"U32", 4, false, true},
    [FV_FILE_F32] = {"F32", 4, true, true},
    [FV_FILE_I64] = {"I64", 8, false, true},
    [FV_FILE_U64] = {"U64", 8, false, true},
    [FV_FILE_F64] = {"F64", 8, true, true},
    [FV_FILE_C64] = {"C64", 8, false, false},
};

enum fv_file_type fv_file_type_find(const char *name)
{
    int i = 0;
    while (i < FV_FILE_TYPES && strcmp(fv_file_types[i].name, name) != 0)
        i++;
    return (enum fv_file_type)i;
}

/* A tensor, and the byte offsets of its beginning and end in the data. */
struct extent {
    uint64_t begin, end;
    const char *name;
};

static int by_begin(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static fovea_status corrupt(const fv_safetensors *f, const char *name, const char *what)
{
    return fv_fail(FOVEA_EFORMAT, "%s: tensor \"%.80s\": %s; fetch the file again", f->bytes.path,
                   name, what);
}

static bool printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return false;
    return true;
}

static bool natural(uint64_t *out, const json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Reads one entry of the header, and sets *at to its extent. */
static fovea_status read_entry(const fv_safetensors *f, fv_tensor *t, struct extent *at,
                               const json_t *entry, const char *data, uint64_t data_size)
{
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!printable(t->name))
        return fv_fail(FOVEA_EFORMAT, "%s: a tensor's name has control characters", f->bytes.path);
    if (!dtype || !json_is_array(shape) || json_array_size(offsets) != 2)
        return corrupt(f, t->name, "its dtype, shape or data_offsets is missing");
    t->dtype = (uint8_t)fv_file_type_find(dtype);
    if (t->dtype == FV_FILE_TYPES)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: tensor \"%.80s\" has type \"%.20s\", which is not supported; save it "
                       "as F32, F16 or BF16",
                       f->bytes.path, t->name, dtype);
    if (json_array_size(shape) > RANK)
        return corrupt(f, t->name, "it has more than 8 dimensions");
    t->rank = (uint8_t)json_array_size(shape);

    /* The product saturates, so that a dimension of 0 does not hide an overflow of the others. */
    uint64_t product = 1;
    t->elements = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!natural(&t->shape[i], json_array_get(shape, i)))
            return corrupt(f, t->name, "a dimension is not a natural number");
        t->elements = fv_size_mul(t->elements, t->shape[i]);
        product = fv_size_mul(product, t->shape[i] ? t->shape[i] : 1);
    }
    uint64_t bytes = fv_size_mul(t->elements, fv_file_types[t->dtype].bytes);
    if (fv_size_mul(product, fv_file_types[t->dtype].bytes) == UINT64_MAX)
        return corrupt(f, t->name, "the product of its shape overflows");
    if (!natural(&at->begin, json_array_get(offsets, 0)) ||
        !natural(&at->end, json_array_get(offsets, 1)) || at->begin > at->end)
        return corrupt(f, t->name, "its data_offsets are not a range");
    if (at->end > data_size)
        return corrupt(f, t->name,
                       "its data extends past the end of the file (a truncated download?)");
    if (at->end - at->begin != bytes)
        return corrupt(f, t->name, "its shape and its data_offsets differ in size");
    at->name = t->name;
    t->data = data + at->begin;
    t->file = f->bytes.map ? &f->bytes : NULL;
    return FOVEA_OK;
}

/* Checks that the tensors, sorted by their offsets, fill the data without gaps or overlaps. */
static fovea_status check_layout(const fv_safetensors *f, struct extent *at, uint64_t data_size)
{
    uint64_t end = 0;
    qsort(at, f->count, sizeof *at, by_begin);
    for (uint32_t i = 0; i < f->count; i++) {
        if (at[i].begin != end)
            return corrupt(f, at[i].name,
                           at[i].begin < end ? "its data overlaps another tensor"
                                             : "there is a gap before its data");
        end = at[i].end;
    }
    if (end != data_size)
        return fv_fail(FOVEA_EFORMAT,
                       "%s has %llu bytes after the last tensor; fetch the file again",
                       f->bytes.path, (unsigned long long)(data_size - end));
    return FOVEA_OK;
}

static fovea_status read_metadata(fv_safetensors *f)
{
    const char *key;
    json_t *value;
    f->metadata = json_object_get(f->header, "__metadata__");
    if (!f->metadata)
        return FOVEA_OK;
    bool good = json_is_object(f->metadata);
    json_object_foreach(f->metadata, key, value)
        good = good && json_is_string(value);
    return good ? FOVEA_OK
                : fv_fail(FOVEA_EFORMAT, "%s: __metadata__ must map strings to strings",
                          f->bytes.path);
}

static fovea_status read_entries(fv_safetensors *f, const char *data, uint64_t data_size)
{
    size_t entries = json_object_size(f->header) - (f->metadata ? 1 : 0);
    struct extent *at;
    const char *name;
    json_t *entry;
    FV_TRY(FV_MEM_ARRAY(&f->tensor, entries, FV_MEM_MODEL, "list of tensors"));
    FV_TRY(FV_MEM_ARRAY(&at, entries, FV_MEM_MODEL, "list of tensors"));
    fovea_status status = FOVEA_OK;
    json_object_foreach(f->header, name, entry) {
        if (entry == f->metadata)
            continue;
        f->tensor[f->count].name = name;
        status = read_entry(f, &f->tensor[f->count], &at[f->count], entry, data, data_size);
        if (status != FOVEA_OK)
            break;
        f->count++;
    }
    FV_THEN(status, check_layout(f, at, data_size));
    fv_mem_free(at);
    return status;
}

static fovea_status read_header(fv_safetensors *f, const char *bytes)
{
    static const char pointer[] = "version https://git-lfs";
    uint64_t n = 0;
    if (f->bytes.size >= sizeof pointer && memcmp(bytes, pointer, sizeof pointer - 1) == 0)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s is a Git LFS pointer, not the file itself; fetch the file with \"git lfs pull\"",
            f->bytes.path);
    if (f->bytes.size < 8)
        return fv_fail(FOVEA_EFORMAT, "%s has only %llu bytes, so it is not a safetensors file",
                       f->bytes.path, (unsigned long long)f->bytes.size);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (unsigned char)bytes[i];
    if (n > f->bytes.size - 8 &&
        (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "\x80\x02", 2) == 0))
        return fv_foreign_fail_file(f->bytes.path);
    if (n > HEADER_LIMIT)
        return fv_fail(FOVEA_EFORMAT,
                       "%s is not a safetensors file (its header would have %llu bytes, but at "
                       "most %d are accepted)",
                       f->bytes.path, (unsigned long long)n, HEADER_LIMIT);
    if (n > f->bytes.size - 8)
        return fv_fail(FOVEA_EFORMAT, "%s ends inside its header; fetch the file again",
                       f->bytes.path);
    FV_TRY(fv_config_parse_unique(&f->header, f->bytes.path, bytes + 8, n));
    FV_TRY(read_metadata(f));
    return read_entries(f, bytes + 8 + n, f->bytes.size - 8 - n);
}

fovea_status fv_safetensors_read(fv_safetensors **out, fv_blob *bytes)
{
    fv_safetensors *f;
    const fovea_status status = FV_MEM_NEW(&f, FV_MEM_MODEL, "safetensors file");
    if (status != FOVEA_OK) {
        fv_blob_close(bytes);
        return status;
    }
    f->bytes = *bytes;
    *bytes = (fv_blob){0};
    FV_RETURN_MADE(out, f, fv_safetensors_close, read_header(f, f->bytes.data));
}

fovea_status fv_safetensors_open(fv_safetensors **out, const char *path)
{
    fv_blob bytes;
    FV_TRY(fv_blob_map(&bytes, path));
    return fv_safetensors_read(out, &bytes);
}

fovea_status fv_safetensors_parse(fv_safetensors **out, const char *path, const void *data,
                                  uint64_t size)
{
    fv_blob bytes;
    FV_TRY(fv_blob_of(&bytes, path, data, size));
    return fv_safetensors_read(out, &bytes);
}

fovea_status fv_safetensors_unchanged(const fv_safetensors *f)
{
    return fv_os_unchanged(f->bytes.map, f->bytes.path);
}

void fv_safetensors_close(fv_safetensors *f)
{
    if (!f)
        return;
    json_decref(f->header);
    fv_mem_free(f->tensor);
    fv_blob_close(&f->bytes);
    fv_mem_free(f);
}
