/* word.h: how a word of the vector vocabulary that is one expression is written:
 *
 *     FV_WORD(type of the result, name, (parameters), expression)
 *
 * Included by what has defined FV_FN. */
#ifndef FOVEA_SRC_MECH_WORD_H
#define FOVEA_SRC_MECH_WORD_H

#define FV_WORD(type, name, parameters, ...)                                                       \
    FV_FN type name parameters                                                                     \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

#endif
