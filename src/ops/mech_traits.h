/* mech_traits.h: the properties of a mechanism that the core must know: the constants of its header
 * as data. */
#ifndef FOVEA_SRC_OPS_MECH_TRAITS_H
#define FOVEA_SRC_OPS_MECH_TRAITS_H

#include "mech/wants.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/kernel.h"

typedef struct fv_mech_traits {
    const char *name, *title; /* "elu1", "linear:elu1" */
    uint8_t blocks, streams, params, wants, module;
    bool causal; /* causal attention supports its feature map */
    float alpha; /* the operation's constant if the caller gives none */
} fv_mech_traits;

#define FV_MECH(NAME, name, title, causal, tensor, learned)                                        \
    enum {                                                                                         \
        fv_mech_##name##_causal = causal,                                                          \
        fv_mech_##name##_tensor = tensor,                                                          \
        fv_mech_##name##_learned = learned                                                         \
    };                                                                                             \
    extern const char fv_mech_##name##_title[];                                                    \
    extern const fv_mech_traits fv_mech_##name##_traits;
#include "mech/mech.inc"
#undef FV_MECH

/* [FV_MECH_ANY] is softmax attention: {"any", "softmax"}. */
extern const fv_mech_traits *const fv_mech_table[FV_MECH_COUNT];

/* Offsets of the parts of one head's state, in floats. A part that the mechanism does not have is
 * empty. A head takes `floats` floats, and the heads follow one another.
 *
 *   s      [blocks * d][dv]  mean_j phi(k_j)^T v_j; rotated with ROPE, v centred with CENTRED
 *   m      [blocks * d]      mean_j phi(k_j), never rotated
 *   w      [blocks * d]      CENTRED: mean_j phi(k_j), rotated with ROPE
 *   vmean  [dv]              CENTRED: mean_j v_j
 *   count  [1]               CENTRED: number of tokens, a partial's weight when merging
 *   shift  [d]               SHIFT: the number subtracted from k
 */
typedef struct fv_lattn_state {
    size_t s, m, w, vmean, count, shift, floats;
} fv_lattn_state;

static inline fv_lattn_state fv_lattn_layout(uint32_t blocks, uint32_t wants, uint32_t d,
                                             uint32_t dv)
{
    const size_t width = (size_t)blocks * d, centred = (wants & FV_WANT_CENTRED) != 0;
    fv_lattn_state l = {.s = 0, .m = width * dv};
    l.w = l.m + width;
    l.vmean = l.w + centred * width;
    l.count = l.vmean + centred * dv;
    l.shift = l.count + centred;
    l.floats = l.shift + (wants & FV_WANT_SHIFT ? d : 0);
    return l;
}

/* Returns whether the kernels of a mechanism support the problem. Features that may be negative
 * allow no denominator, and a rotation would mix channels with different shifts. */
static inline bool fv_lattn_applies(uint32_t streams, uint32_t wants, const fv_problem *p)
{
    const bool normalised = !(p->flags & FV_FLAG_UNNORMALISED);
    return !(normalised && (wants & FV_WANT_SIGNED)) && p->dim[FV_ATTN_DV] % streams == 0 &&
           !(normalised && (wants & FV_WANT_SHIFT) && (p->flags & FV_FLAG_ROPE)) &&
           !((p->flags & FV_FLAG_ROPE) && p->dim[FV_ATTN_D] % 2);
}

#endif
