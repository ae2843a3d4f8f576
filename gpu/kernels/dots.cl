/* dots.cl: the products of dot.cl for one word and several others. */
#include "gpu/kernels/dot.cl"

static inline int4 fv_dots4(uint a, uint4 w, int4 sum)
{
    return (int4)(FV_DOT4(a, w.s0, sum.s0), FV_DOT4(a, w.s1, sum.s1), FV_DOT4(a, w.s2, sum.s2),
                  FV_DOT4(a, w.s3, sum.s3));
}
