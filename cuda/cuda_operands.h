/* cuda_operands.h: properties of a step's operands that the launch code of .cu files needs. */
#ifndef FOVEA_CUDA_CUDA_OPERANDS_H
#define FOVEA_CUDA_CUDA_OPERANDS_H

#include "gpu/gpu_code.h"

/* Alignment in bytes, at most 16, of rows with a stride of `stride` bytes, the first of which is
 * `offset` bytes into a buffer. */
static inline uint32_t fv_cuda_row_alignment(uint64_t offset, uint64_t stride)
{
    const uint64_t at = offset | stride | 16;
    return (uint32_t)(at & (~at + 1));
}

/* The alignment of an operand's rows. */
static inline uint32_t fv_cuda_alignment(const fv_launch *l, int operand)
{
    const fv_operand *o = &l->operand[operand];
    return fv_cuda_row_alignment(o->ref.offset,
                                 (uint64_t)l->args.ld[operand] * fv_type_size(o->type));
}

/* Whether all rows of an operand can be moved in units of 16 bytes. */
static inline bool fv_cuda_is_wide(const fv_launch *l, int operand)
{
    return l->operand[operand].ref.space != FV_SPACE_NONE && fv_cuda_alignment(l, operand) == 16;
}

/* Whether this also holds for every head in them, of `width` numbers. */
static inline bool fv_cuda_heads_are_wide(const fv_launch *l, int operand, uint32_t width)
{
    return width * fv_type_size(l->operand[operand].type) % 16 == 0 && fv_cuda_is_wide(l, operand);
}

/* Types that tensor cores multiply, numbered as in the .cu files. */
enum fv_cuda_math { FV_CUDA_TF32, FV_CUDA_F16, FV_CUDA_BF16, FV_CUDA_I8 };

/* Operands of one 16-bit type are multiplied unconverted. Rows of any type are multiplied as int8
 * if the weight is int8. Everything else is split into parts of tf32. */
static inline enum fv_cuda_math fv_cuda_math_of(enum fv_type a, enum fv_type b)
{
    if (b == FV_I8)
        return FV_CUDA_I8;
    if (a != b || a == FV_F32)
        return FV_CUDA_TF32;
    return a == FV_F16 ? FV_CUDA_F16 : FV_CUDA_BF16;
}

/* How many parts of tf32 a number of this type is split into. */
static inline uint32_t fv_cuda_parts_of(enum fv_type type)
{
    return type == FV_F32 ? 2 : 1;
}

#endif
