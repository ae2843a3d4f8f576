/* wants.h: requirements of a mechanism on the kernels that are compiled with it. */
#ifndef FOVEA_SRC_MECH_WANTS_H
#define FOVEA_SRC_MECH_WANTS_H

/* Values of FV_WANTS in a mechanism's header. They are macros, because #if reads them. */
#define FV_WANT_CENTRED 1u /* values are centred by their mean; the state contains the means */
#define FV_WANT_SHIFT 2u   /* exp: the running maximum per key channel is subtracted */
#define FV_WANT_SIGNED 4u  /* features may be negative, so there is no denominator */

/* Values of FV_MODULE in a mechanism's header: other parts of the attention module in its authors'
 * code. */
#define FV_MODULE_DWC 1u /* a depthwise convolution of the values is added */
#define FV_MODULE_GATE                                                                             \
    2u /* a gate multiplies the sum: a linear map of the input of q, k and v                       \
        */
#define FV_MODULE_GLA                                                                              \
    4u /* as in gated linear attention: a norm before the gate, SiLU of the gate, and a            \
          filter for each channel, where other mechanisms share filters among the heads */

#endif
