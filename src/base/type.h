/* type.h: the types that elements of rows and weights have. */
#ifndef FOVEA_SRC_TYPE_H
#define FOVEA_SRC_TYPE_H

#include <stddef.h>

enum fv_type { FV_NONE, FV_F32, FV_F16, FV_BF16, FV_U8 };

static inline size_t fv_type_size(enum fv_type type)
{
    return type == FV_F32 ? 4 : type == FV_U8 ? 1 : 2;
}

const char *fv_type_name(enum fv_type type); /* "f32" */

#endif
