/* gemm_bf16_tmpl.c: tiles of GEMM and CONV whose rows are bfloat16, by FEAT_BF16's instruction,
 * which multiplies 2 rows by 2 columns over 4 steps of k. Panels keep the 4 steps of a group
 * together. */
#include "platform/cpu/vec/vec.h"

#define MR 12
#define VECS 2
#define NR (VECS * FV_W)
#define TILE 12x8
#define PANEL "panel8x4"
#define KC 768
#define RATE 72e9
#include "platform/cpu/tmpl/gemm_microkernel.h"

#define MMLA "bfmmla"
#define OPERAND_SUFFIX "8h"
#include "platform/cpu/arm/mmla.h"
#include "platform/cpu/arm/panel_bf16.h"

MICROKERNEL(bf16bf16, is_of_bf16(p), .weight = FV_BF16, .input = FV_BF16, .interleave = 4,
            .tile = tile, .finish = finish, .narrow = narrow, .round = round_rows)
MATMUL_KERNEL(bf16bf16)
KERNEL(gemm, bf16bf16)
KERNEL(conv, bf16bf16)
