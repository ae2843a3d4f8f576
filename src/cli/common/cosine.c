/* cosine.c: computes how similar features are, and finds the output whose features are compared. */
#include <math.h>
#include <stdio.h>

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

cli_likeness cli_compare_rows(const float *a, const float *b, size_t rows, size_t columns)
{
    cli_likeness out = {0, 2, 0};
    for (size_t i = 0; i < rows; i++) {
        const double c = cli_cosine(a + i * columns, b + i * columns, columns);
        out.mean += c;
        if (c < out.worst) {
            out.worst = c;
            out.at = i;
        }
    }
    out.mean /= (double)rows;
    return out;
}

const char *cli_chosen_from(const fovea_model *model)
{
    return cli_output_name(model, "backbone_features");
}

const char *cli_features_output(const fovea_model *model)
{
    const char *name = cli_chosen_from(model), *stage;
    char text[32];
    if (!name) /* for a detector, last_hidden_state contains the queries, not the grid */
        name = cli_output_name(model, "last_hidden_state");
    for (uint32_t i = 1; !name || name[0] == 's'; i++) {
        snprintf(text, sizeof text, "stage%u", i);
        if (!(stage = cli_output_name(model, text)))
            break;
        name = stage;
    }
    return name;
}
