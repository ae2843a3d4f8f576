/* peek.h: access of tests to the internals of plans. */
#ifndef FOVEA_TESTS_PEEK_H
#define FOVEA_TESTS_PEEK_H

#include "plan/frame_plan.h"
#include "plan/op_plan.h"
#include "plan/plan.h"
#include "plan/sweep.h"

#endif
