/* type.h: the types that elements of rows and weights have. */
#ifndef FOVEA_SRC_TYPE_H
#define FOVEA_SRC_TYPE_H

#include <stddef.h>

enum fv_type { FV_NONE, FV_F32, FV_F16, FV_BF16, FV_U8, FV_I8, FV_I16, FV_I32 };

static inline size_t fv_type_size(enum fv_type type)
{
    switch (type) {
    case FV_F16:
    case FV_BF16:
    case FV_I16:
        return 2;
    case FV_U8:
    case FV_I8:
        return 1;
    default:
        return 4;
    }
}

const char *fv_type_name(enum fv_type type); /* "f32" */

#endif
