/* word.h: defines a function of the vector vocabulary that is one expression:
 *
 *     FV_WORD(type of the result, name, (parameters), expression)
 *
 * The file that includes this header must define FV_FN first. */
#ifndef FOVEA_SRC_MECH_WORD_H
#define FOVEA_SRC_MECH_WORD_H

#define FV_WORD(type, name, parameters, ...)                                                       \
    FV_FN type name parameters                                                                     \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

#endif
