/* verify_accuracy.c: compares a model's main output with the same model's output in float32, on the
 * same device and picture, by the cosine of each row. For a detector that chooses its queries,
 * compares the features that it chooses from. */
#include <stdlib.h>

#include "cli/run/verify.h"

/* Computes the main output of a plan for the picture. */
static int compute(float **out, fovea_output_info *info, const cli_session *s,
                   const fovea_plan_options *options, const cli_image *picture)
{
    fovea_plan *plan;
    const fovea_frame frame = {.pixels = {picture->rgb}};
    CLI_TRY(cli_check(fovea_plan_create(&plan, s->model, s->device, options)));
    fovea_plan_output(plan, 0, info);
    const size_t n = (size_t)info->rows * info->columns;
    *out = cli_alloc(n, sizeof **out);
    const fovea_output to = {*out, n * sizeof **out};
    const int code = cli_check(fovea_run(plan, &frame, &to, 1));
    fovea_plan_free(plan);
    return code;
}

int verify_accuracy(verify_cosines *out, const cli_session *s, const fovea_plan_options *options,
                    const cli_image *picture)
{
    fovea_plan_options own = *options, floats;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    const char *features = cli_chosen_from(s->model);
    float *got = NULL, *want = NULL;
    double sum = 0;
    if (features) {
        own.outputs = &features;
        own.n_outputs = 1;
    }
    floats = own;
    floats.compute = FOVEA_COMPUTE_F32;
    floats.weights = floats.activations = FOVEA_DTYPE_F32;
    int code = compute(&got, &info, s, &own, picture);
    CLI_THEN(code, compute(&want, &info, s, &floats, picture));
    *out = (verify_cosines){.worst = 2, .rows = info.rows};
    for (uint32_t r = 0; r < info.rows && !code; r++) {
        const size_t at = (size_t)r * info.columns;
        const double c = cli_cosine(got + at, want + at, info.columns);
        sum += c;
        if (c >= out->worst)
            continue;
        out->worst = c;
        out->worst_row = r;
    }
    out->mean = info.rows ? sum / info.rows : 1;
    free(got);
    free(want);
    return code;
}
