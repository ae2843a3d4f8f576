/* safetensors.h: one safetensors file, mapped and checked.
 *
 *     | 8 bytes: n | n bytes of JSON: name -> dtype, shape, data_offsets | data |
 *
 * A file that opens has been checked: the bytes of every tensor are the product of its shape times
 * the size of its type and are inside the file, and tensors fill the data without hole or overlap.
 */
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
    const char *name; /* as in the file */
    uint8_t bytes;
    bool floating; /* a floating type that fv_tensor_read takes */
    bool readable; /* fv_tensor_read takes it */
} fv_file_type_info;

extern const fv_file_type_info fv_file_types[FV_FILE_TYPES];

/* The type of that name; FV_FILE_TYPES: not known. */
enum fv_file_type fv_file_type_find(const char *name);

typedef struct fovea_tensors { /* callers know it by this name */
    fv_blob bytes;
    json_t *header;   /* holds the names */
    json_t *metadata; /* of the header, or NULL */
    uint32_t count;
    fv_tensor *tensor; /* in the order of the header */
} fv_safetensors;

/* A tensor as callers see it. */
fovea_tensor fv_tensor_shown(const fv_tensor *t);

/* Takes ownership of the bytes, and closes them if it fails. EFORMAT, ENOMEM. */
fovea_status fv_safetensors_read(fv_safetensors **out, fv_blob *bytes);
/* Opens a file by its path; fails with EIO too. */
fovea_status fv_safetensors_open(fv_safetensors **out, const char *path);
/* Opens a file in memory, which stays the caller's and must outlive *out; `path` is for messages.
 */
fovea_status fv_safetensors_parse(fv_safetensors **out, const char *path, const void *data,
                                  uint64_t size);
/* EIO when the file was written to since it was opened. */
fovea_status fv_safetensors_unchanged(const fv_safetensors *f);
void fv_safetensors_close(fv_safetensors *file); /* NULL is fine */

#endif
