/* scalar64.h: src/mech/scalar.h for doubles. Included before mech/mech.h, it makes the mechanisms'
 * headers compute in double precision. */
#ifndef FOVEA_TESTS_SCALAR64_H
#define FOVEA_TESTS_SCALAR64_H

#include <math.h>

#define float double
#define fabsf fabs
#define sqrtf sqrt
#define expf exp
#define logf log
#define log1pf log1p
#define powf pow
#define tanhf tanh
#define cosf cos
#define sinf sin
#include "mech/scalar.h"
#undef float

#endif
