/* whole.h: the operations on sums that gemm_i8_tmpl.c needs, whichever instruction multiplies. */
#include "platform/cpu/x86/dot.h"

typedef fv_whole sums;
typedef fv_steps numbers;

FV_WORD(sums, none, (void), fv_zero_sum())
FV_WORD(sums, begin, (int32_t x), fv_sum_of(x))
FV_WORD(fv_v, as_floats, (sums x), fv_of_whole(x))

FV_FN numbers steps(const number *a)
{
    int32_t group;
    memcpy(&group, a, sizeof group);
    return fv_steps_set(group);
}

FV_FN void put(int32_t *acc, const sums *sum)
{
    memcpy(acc, sum, sizeof *sum);
}

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    return fv_of_whole(fv_whole_sub(fv_whole_load(x), fv_whole_set(off)));
}

FV_FN int32_t total_of(sums total)
{
    return BIAS ? fv_whole_total(total) : 0;
}
