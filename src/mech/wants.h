/* wants.h: what a mechanism requires of the kernels that are compiled with it. */
#ifndef FOVEA_SRC_MECH_WANTS_H
#define FOVEA_SRC_MECH_WANTS_H

/* FV_WANTS of a mechanism's header; macros, because #if reads them. */
#define FV_WANT_CENTRED 1u /* values are centred by their mean; the state has the means */
#define FV_WANT_SHIFT 2u   /* exp: the running maximum per key channel is subtracted */
#define FV_WANT_SIGNED 4u  /* features may be negative, so there is no denominator */

/* FV_MODULE of a mechanism's header: other parts of the attention module in its authors' code. */
#define FV_MODULE_DWC 1u /* a depthwise convolution of the values is added */
#define FV_MODULE_GATE                                                                             \
    2u /* a gate multiplies the sum: a linear map of what q, k, v are made of                      \
        */
#define FV_MODULE_GLA                                                                              \
    4u /* as in gated linear attention: a norm before the gate, SiLU of it, and a                  \
          filter for each channel, where others share theirs among the heads */

#endif
