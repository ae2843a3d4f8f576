/* gemm_i8_i8mm.h: tiles of 8 bits by the 2 x 2 products over 8 steps of k of FEAT_I8MM. Panels keep
 * the 8 steps of a group together. */
#include "platform/cpu/arm/whole_neon.h"

#define BIAS 0
#define MMLA "smmla"
#define FACTORS "16b"
#include "platform/cpu/arm/mmla.h"
