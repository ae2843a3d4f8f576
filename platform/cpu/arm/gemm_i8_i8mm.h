/* gemm_i8_i8mm.h: tiles of GEMM with 8-bit numbers, by FEAT_I8MM's instruction, which multiplies 2
 * rows by 2 columns over 8 steps of k. Panels keep the 8 steps of a group together. */
#include "platform/cpu/arm/whole_neon.h"

#define BIAS 0
#define MMLA "smmla"
#define OPERAND_SUFFIX "16b"
#include "platform/cpu/arm/mmla.h"
