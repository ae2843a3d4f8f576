/* tensors.c: reads values of tensors as float32, and implements the public functions for
 * safetensors files. */
#include <assert.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "platform/os/os.h"

/* ---- values ---- */

/* Computes pseudo-random values, each from its own index by a 32-bit integer mix with full
 * avalanche, so that any range can be read and the loop is vectorised. The values repeat after 2^32
 * elements. */
static void generate(const fv_tensor *t, uint64_t first, uint64_t n, float *out)
{
    uint32_t seed = (uint32_t)(t->seed ^ t->seed >> 32);
    float mean = t->mean, spread = t->spread * 0x1p-23f;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)(first + i) * 0x9e3779b1u + seed;
        x = (x ^ x >> 16) * 0x21f0aaadu;
        x = (x ^ x >> 15) * 0x735a2d97u;
        x ^= x >> 15;
        out[i] = mean + spread * (float)((int32_t)(x >> 8) - (1 << 23));
    }
    const uint64_t d = t->identity;
    for (uint64_t i = 0; d && i < n; i++)
        out[i] += (first + i) % (d * d) % (d + 1) == 0;
}

/* Uses memcpy because data in a file may be unaligned. */
#define READ(kind, type, convert)                                                                  \
    case FV_FILE_##kind:                                                                           \
        for (uint64_t i_ = 0; i_ < n; i_++) {                                                      \
            type value_;                                                                           \
            memcpy(&value_, data + (first + i_) * sizeof(type), sizeof(type));                     \
            out[i_] = convert(value_);                                                             \
        }                                                                                          \
        return

void fv_tensor_read(const fv_tensor *t, uint64_t first, uint64_t n, float *out)
{
    assert(first <= t->elements && n <= t->elements - first);
    if (!t->data) {
        generate(t, first, n, out);
        return;
    }
    const char *data = t->data;
    switch ((enum fv_file_type)t->dtype) {
    case FV_FILE_F32:
        memcpy(out, data + first * sizeof(float), (size_t)n * sizeof(float));
        return;
        READ(F16, uint16_t, fv_float_of_f16);
        READ(BF16, uint16_t, fv_float_of_bf16);
        READ(F64, double, (float));
        READ(I64, int64_t, (float));
        READ(U64, uint64_t, (float));
        READ(I32, int32_t, (float));
        READ(U32, uint32_t, (float));
        READ(I16, int16_t, (float));
        READ(U16, uint16_t, (float));
        READ(I8, int8_t, (float));
        READ(U8, uint8_t, (float));
        READ(BOOL, uint8_t, (float));
    case FV_FILE_F8_E5M2:
    case FV_FILE_F8_E4M3:
    case FV_FILE_F8_E8M0:
    case FV_FILE_F8_E5M2FNUZ:
    case FV_FILE_F8_E4M3FNUZ:
    case FV_FILE_C64:
    case FV_FILE_TYPES:
        break;
    }
    assert(!"a type that is readable");
}

fv_tensor fv_tensor_of_floats(const float *data, uint32_t rows, uint32_t cols)
{
    return (fv_tensor){
        .name = "constant",
        .dtype = FV_FILE_F32,
        .rank = 2,
        .shape = {rows, cols},
        .elements = (uint64_t)rows * cols,
        .data = data,
    };
}

/* ---- the public description ---- */

fovea_status fovea_tensors_open(fovea_tensors **out, const char *path)
{
    return fv_safetensors_open(out, path);
}

void fovea_tensors_close(fovea_tensors *file)
{
    fv_safetensors_close(file);
}

fovea_tensor fv_tensor_shown(const fv_tensor *t)
{
    const fv_file_type_info *type = &fv_file_types[t->dtype];
    fovea_tensor out = {
        .name = t->name,
        .dtype = type->name,
        .rank = t->rank,
        .elements = t->elements,
        .data = t->data,
        .size = (size_t)(t->elements * type->bytes),
    };
    memcpy(out.shape, t->shape, sizeof out.shape);
    return out;
}

int fovea_tensors_get(const fovea_tensors *file, size_t index, fovea_tensor *out)
{
    if (index >= file->count)
        return 0;
    *out = fv_tensor_shown(&file->tensor[index]);
    return 1;
}

int fovea_tensors_find(const fovea_tensors *file, const char *name, fovea_tensor *out)
{
    for (uint32_t i = 0; i < file->count; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return fovea_tensors_get(file, i, out);
    return 0;
}

const char *fovea_tensors_metadata(const fovea_tensors *file, const char *key)
{
    return json_string_value(json_object_get(file->metadata, key));
}

fovea_status fovea_tensors_read(const fovea_tensor *tensor, uint64_t first, uint64_t n, float *out)
{
    assert(tensor->data || n == 0);
    enum fv_file_type type = fv_file_type_find(tensor->dtype);
    if (type == FV_FILE_TYPES || !fv_file_types[type].readable)
        return fv_fail(
            FOVEA_ENOTSUP,
            "tensor \"%s\": values of type %s cannot be read; save them as F32, F16 or BF16",
            tensor->name, tensor->dtype);
    uint64_t held = tensor->size / fv_file_types[type].bytes;
    if (first > held || n > held - first)
        return fv_fail(FOVEA_EINVAL,
                       "tensor \"%s\" has only %llu elements, fewer than were asked for",
                       tensor->name, (unsigned long long)held);
    if (n > 0)
        fv_tensor_read(&(fv_tensor){.dtype = (uint8_t)type, .data = tensor->data, .elements = held},
                       first, n, out);
    return FOVEA_OK;
}

/* ---- writing ---- */

static fovea_status refuse(const fovea_tensor *t, const char *what)
{
    return fv_fail(FOVEA_EINVAL, "tensor \"%s\": %s", t->name, what);
}

/* Adds the entry of one tensor, whose data begins at *offset; advances *offset past the data. */
static fovea_status add_entry(json_t *header, const fovea_tensor *t, uint64_t *offset)
{
    enum fv_file_type type = fv_file_type_find(t->dtype);
    if (type == FV_FILE_TYPES)
        return refuse(t, "its dtype is unknown; use a dtype of safetensors");
    if (t->rank > 8)
        return refuse(t, "it has more than 8 dimensions");
    uint64_t bytes = fv_file_types[type].bytes;
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++) {
        bytes = fv_size_mul(bytes, t->shape[i]);
        json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
    }
    uint64_t end = fv_size_add(*offset, t->size);
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                              "data_offsets", (json_int_t)*offset, (json_int_t)end);
    if (bytes != t->size) {
        json_decref(entry);
        return refuse(t, "its size does not match its shape");
    }
    if (json_object_get(header, t->name)) {
        json_decref(entry);
        return refuse(t, "two tensors have this name");
    }
    if (json_object_set_new(header, t->name, entry) != 0)
        return refuse(t, "its name is not UTF-8, or memory ran out");
    *offset = end;
    return FOVEA_OK;
}

static fovea_status build_header(json_t *header, const fovea_tensor *tensors, size_t n,
                                 const char *const (*metadata)[2], size_t n_metadata)
{
    json_t *texts = json_object();
    uint64_t offset = 0;
    json_object_set_new(header, "__metadata__", texts);
    for (size_t i = 0; i < n_metadata; i++)
        if (json_object_set_new(texts, metadata[i][0], json_string(metadata[i][1])) != 0)
            return fv_fail(FOVEA_EINVAL, "metadata \"%s\" is not UTF-8, or memory ran out",
                           metadata[i][0]);
    for (size_t i = 0; i < n; i++)
        FV_TRY(add_entry(header, &tensors[i], &offset));
    if (n_metadata == 0)
        json_object_del(header, "__metadata__");
    return FOVEA_OK;
}

/* Writes the length and the text of the header, padded with blanks so that the data begins at a
 * multiple of 8 bytes. */
static fovea_status write_header(fv_os_replace *file, const json_t *header)
{
    size_t length = json_dumpb(header, NULL, 0, JSON_COMPACT);
    size_t whole = (length + 7) / 8 * 8;
    char *text;
    FV_TRY(fv_mem_alloc(&text, 8 + whole, FV_MEM_MODEL, "safetensors header"));
    for (int i = 0; i < 8; i++)
        text[i] = (char)((uint64_t)whole >> 8 * i & 255);
    memset(text + 8, ' ', whole);
    json_dumpb(header, text + 8, whole, JSON_COMPACT);
    fovea_status status = fv_os_replace_write(file, text, 8 + whole);
    fv_mem_free(text);
    return status;
}

static fovea_status write_file(const char *path, const json_t *header, const fovea_tensor *tensors,
                               size_t n)
{
    fv_os_replace *file;
    FV_TRY(fv_os_replace_begin(&file, path, false));
    fovea_status status = write_header(file, header);
    for (size_t i = 0; i < n && status == FOVEA_OK; i++)
        status = fv_os_replace_write(file, tensors[i].data, tensors[i].size);
    return fv_os_replace_end(file, status);
}

fovea_status fovea_tensors_write(const char *path, const fovea_tensor *tensors, size_t n,
                                 const char *const (*metadata)[2], size_t n_metadata)
{
    json_t *header = json_object();
    fovea_status status = build_header(header, tensors, n, metadata, n_metadata);
    FV_THEN(status, write_file(path, header, tensors, n));
    json_decref(header);
    return status;
}
