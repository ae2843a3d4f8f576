/* safetensors.h: one safetensors file, mapped and checked.
 *
 *     | 8 bytes: n | n bytes of JSON: name -> dtype, shape, data_offsets | data |
 *
 * An open file has been checked. The size of every tensor is the product of its shape and the size
 * of its type. Every tensor is inside the file, and the tensors fill the data without gaps or
 * overlaps. */
#ifndef FOVEA_SRC_SAFETENSORS_H
#define FOVEA_SRC_SAFETENSORS_H

#include <jansson.h>

#include <fovea/tensors.h>

#include "checkpoint/store.h"
#include "checkpoint/tensor.h"

enum fv_file_type {
    FV_FILE_BOOL,
    FV_FILE_U8,
    FV_FILE_I8,
    FV_FILE_F8_E5M2,
    FV_FILE_F8_E4M3,
    FV_FILE_F8_E8M0,
    FV_FILE_F8_E5M2FNUZ,
    FV_FILE_F8_E4M3FNUZ,
    FV_FILE_I16,
    FV_FILE_U16,
    FV_FILE_F16,
    FV_FILE_BF16,
    FV_FILE_I32,
    FV_FILE_U32,
    FV_FILE_F32,
    FV_FILE_I64,
    FV_FILE_U64,
    FV_FILE_F64,
    FV_FILE_C64,
    FV_FILE_TYPES
};

typedef struct fv_file_type_info {
    const char *name; /* name in the file */
    uint8_t bytes;
    bool floating; /* a floating type that fv_tensor_read supports */
    bool readable; /* a type that fv_tensor_read supports */
} fv_file_type_info;

extern const fv_file_type_info fv_file_types[FV_FILE_TYPES];

/* Returns the type with a name, or FV_FILE_TYPES if the name is unknown. */
enum fv_file_type fv_file_type_find(const char *name);

typedef struct fovea_tensors { /* the name of this type in the public interface */
    fv_blob bytes;
    json_t *header;   /* owns the names */
    json_t *metadata; /* metadata of the header, or NULL */
    uint32_t count;
    fv_tensor *tensor; /* in the order of the header */
} fv_safetensors;

/* Returns the public description of a tensor. */
fovea_tensor fv_tensor_shown(const fv_tensor *t);

/* Takes ownership of the bytes, and closes them on failure. Returns FOVEA_EFORMAT if the header is
 * malformed, or FOVEA_ENOMEM. */
fovea_status fv_safetensors_read(fv_safetensors **out, fv_blob *bytes);
/* Opens a file by its path. Returns FOVEA_EIO if it cannot be read. */
fovea_status fv_safetensors_open(fv_safetensors **out, const char *path);
/* Reads a file in memory, which stays the caller's and must outlive *out. `path` is its name in
 * messages. */
fovea_status fv_safetensors_parse(fv_safetensors **out, const char *path, const void *data,
                                  uint64_t size);
/* Returns FOVEA_EIO if the file was written to since it was opened. */
fovea_status fv_safetensors_unchanged(const fv_safetensors *f);
void fv_safetensors_close(fv_safetensors *file); /* NULL is allowed */

#endif
