/* safetensors.h: one safetensors file, mapped and checked.
 *
 *     | 8 bytes: n | n bytes of JSON: name -> dtype, shape, data_offsets | data |
 *
 * A file that opens is sound: every tensor's bytes are its shape's product times its type's size,
 * are inside the file, and follow one another without hole or overlap.
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

/* enum fv_file_type of a name, or FV_FILE_TYPES. */
enum fv_file_type fv_file_type_find(const char *name);

typedef struct fovea_tensors { /* as which callers see it */
    fv_blob bytes;
    json_t *header;   /* holds the names */
    json_t *metadata; /* of the header, or NULL */
    uint32_t count;
    fv_tensor *tensor; /* in the order of the header */
} fv_safetensors;

/* A tensor as callers see it. */
fovea_tensor fv_tensor_shown(const fv_tensor *t);

/* Takes the bytes over, and closes them where it fails. EFORMAT, ENOMEM. */
fovea_status fv_safetensors_read(fv_safetensors **out, fv_blob *bytes);
/* A file by its path. EIO as well. */
fovea_status fv_safetensors_open(fv_safetensors **out, const char *path);
/* Memory that stays the caller's and must outlive it; `path` is for messages. */
fovea_status fv_safetensors_parse(fv_safetensors **out, const char *path, const void *data,
                                  uint64_t size);
/* EIO when the file was written to since it was opened. */
fovea_status fv_safetensors_unchanged(const fv_safetensors *f);
void fv_safetensors_close(fv_safetensors *file); /* NULL is fine */

#endif
