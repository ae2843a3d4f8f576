/* mech_table.c: the table of all mechanisms. */
#include "ops/mech_traits.h"

#define FV_MECH(NAME, name, title, ...) const char fv_mech_##name##_title[] = title;
#include "mech/mech.inc"
#undef FV_MECH

static const fv_mech_traits any = {.name = "any", .title = "softmax"};

const fv_mech_traits *const fv_mech_table[FV_MECH_COUNT] = {
    &any,
#define FV_MECH(NAME, name, ...) &fv_mech_##name##_traits,
#include "mech/mech.inc"
#undef FV_MECH
};
