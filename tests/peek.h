/* peek.h: what tests see of the inside of plans: how they are made, and what they consist of. */
#ifndef FOVEA_TESTS_PEEK_H
#define FOVEA_TESTS_PEEK_H

#include "plan/frame_plan.h"
#include "plan/op_plan.h"
#include "plan/plan.h"
#include "plan/sweep.h"

#endif
