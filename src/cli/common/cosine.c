/* cosine.c: how alike two rows of features are. */
#include <math.h>

#include "cli/common/cli.h"

double cli_cosine(const float *a, const float *b, size_t n)
{
    double aa = 0, ab = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        aa += (double)a[i] * a[i];
        ab += (double)a[i] * b[i];
        bb += (double)b[i] * b[i];
    }
    if (aa == 0 && bb == 0)
        return 1;
    return isfinite(ab) && aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}
